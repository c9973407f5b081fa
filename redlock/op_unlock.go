package redlock

import (
	"redlockd/redlock/quorum"
)

// StartUnlock releases what the token holds. It goes to all masters, whatever is believed here:
// implements "release the lock in all the instances" of "Retry on failure" and step 5.
//
// If somebody waits for it here, its acquisition follows in the same batch (hand-over).
func (c *Client) StartUnlock(op *Op, resources []string, token string, to Completer) {
	op.keys, op.token, op.onlyReleases = resources, token, true
	c.start(op, to, checkHolder(resources, token), func(c *Client, op *Op, d *deferred) { c.releaseLocked(op, op.keys, op.token, d) })
}

// releaseLocked releases what the token holds. It is kept for masters that are away if the token
// was made by a redlockd.
func (c *Client) releaseLocked(op *Op, resources []string, token string, d *deferred) {
	r := &round{verb: verbRelease, token: token, start: d.now, op: op}
	r.setKeys(resources...)
	lease := c.leases.release(r.keys, token, d.now)
	if len(c.holds.byKey) > 0 {
		c.holds.released(r.keys, token, d)
	}
	r.asReader(lease == nil || lease.reader) //mutant:a-reader-of-elsewhere-is-not-found
	switch {
	case !madeHere(token):
	case lease != nil:
		r.keepFor = lease.holders
	default:
		r.keepFor = c.fleet.view.Load().Masters // granted by another proxy, or long ago: any master may hold it
		if len(c.overtaking) < pendingMax {
			c.overtaking = append(c.overtaking, r)
		}
	}
	c.rounds.launch(r, quorum.All, d)
	if c.waiting.count > 0 {
		c.waiting.handOverReleasedLocked(resources, lease, d)
	}
}

// releaseAgain looks at the releases of what other clients granted. Such a release can overtake the
// grant: a master that the other client's SET has not reached yet has nothing to release, and would
// keep others out until the TTL. So it is released once more when the SET has come or is not coming any
// more: the other client gives a batch up after its master_timeout, and its next connection kills the
// old one. What comes later still is found by the other client's audit, or, where too few masters are
// left to prove the release to it, stays until the TTL. The token was made by a redlockd, so nobody is
// granted it again. The same is true of a version (op_commit.go) that was released. No release of it is
// kept for masters that did not answer, so they get a second one here.
func (c *Client) releaseAgain(d *deferred) {
	c.mu.Lock()
	for len(c.overtaking) > 0 && d.now.Sub(c.overtaking[0].start) > 2*c.opts.MasterTimeout {
		r := c.overtaking[0]
		c.overtaking[0], c.overtaking = nil, c.overtaking[1:]
		targets := quorum.Votes(r.votes.Load()).Where(r.view.Places, 1<<quorum.Absent|1<<quorum.Denied)
		if isVersion(r.token) {
			targets = r.view.Masters &^ quorum.Votes(r.votes.Load()).Did(r.view.Places)
		}
		if targets != 0 {
			c.rounds.drop(r.keys, r.token, targets, r.ofReader(), d) //mutant:a-release-that-overtook-is-the-last
		}
	}
	if len(c.overtaking) == 0 {
		c.overtaking = nil
	}
	c.mu.Unlock()
	c.runDeferred(d)
}

// Abandon takes back what a LOCK was granted, because its caller can no longer be told. Nobody
// waits for it. It does nothing if the lock was released or extended since, or granted again to the
// same token: then somebody does know of it. A lock under the caller's own token is taken back as a
// failed attempt is (op_undo.go), for the caller may repeat it elsewhere.
func (c *Client) Abandon(op *Op) {
	d := c.enter()
	defer c.leave(d)
	lease := op.lease
	if lease == nil || c.leases.findLease(lease.keys, lease.token) != lease { //mutant:what-somebody-knows-of-is-abandoned
		return
	}
	c.leases.end(lease, d.now)
	c.holds.released(lease.keys, lease.token, d) //mutant:what-is-abandoned-stays-bound
	if lease.attempt != nil {                    //mutant:a-vanished-callers-token-is-released-everywhere
		c.undoAttemptLocked(lease.attempt, d)
	} else {
		r := &round{verb: verbRelease, keys: lease.keys, token: lease.token, start: d.now, keepFor: lease.holders}
		c.rounds.launch(r.asReader(lease.reader), quorum.All, d)
	}
	c.waiting.handOverReleasedLocked(lease.keys, lease, d)
}

// releaseDecided reports a release. The masters that may hold the key and gave no answer get it
// later, see keepReleaseLocked.
func (c *Client) releaseDecided(r *round, o quorum.Outcome, v quorum.Votes, d *deferred) {
	op := r.op
	if op == nil {
		return
	}
	var result Result
	c.mu.Lock()
	switch o {
	case quorum.Yes:
		c.stats.Released++
		result.Held = true
		if isVersion(r.token) && len(c.overtaking) < pendingMax {
			c.overtaking = append(c.overtaking, r) //mutant:what-is-left-of-a-version-stays
		}
	case quorum.No:
		c.stats.NotHeld++
	default:
		// A release that was made here is kept for the silent masters.
		c.stats.UnlockFail++
		if changes := []Change{{Resource: r.keys[0], Was: WasValue, Value: r.token, Do: Delete}}; len(r.keys) == 1 && goesForward(changes) {
			c.settling.forwardLocked(&commit{changes: changes}, r.keys, op, r.view.Places, v, d)
		}
		result.Err = r.noQuorumError(v, r.view.Needed(), 0)
	}
	c.mu.Unlock()
	d.deliver(op, result)
}
