package redlock

import (
	"cmp"
	"slices"
	"time"
)

// StartExtend gives a lock that the token holds a new TTL, from now. Implements "Making the
// algorithm more reliable: Extending the lock": it needs a quorum of matching keys within the
// validity, "basically the algorithm to use is very similar to the one used when acquiring the
// lock", and MaxHold is the limit to repeated extensions that it asks for.
func (c *Client) StartExtend(op *Op, resources []string, token string, ttl time.Duration, to Completer) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	op.to = to
	err := c.checkHolder(resources, token)
	if err == nil {
		err = c.checkTTL(ttl)
	}
	if err != nil {
		d.deliver(op, Result{Err: err})
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.waitsForRoom() {
		c.beginExtendLocked(op, resources, token, ttl, &d)
		return
	}
	kept, bytes := slices.Clone(resources), stringsBytes(resources)+len(token)
	err = c.enqueueLocked(op, c.shareOf(op), bytes, 1, func(d *deferred) {
		c.beginExtendLocked(op, kept, token, ttl, d)
	})
	if err != nil {
		d.deliver(op, Result{Err: err})
	}
}

// beginExtendLocked begins an EXTEND for which there is room.
func (c *Client) beginExtendLocked(op *Op, resources []string, token string, ttl time.Duration, d *deferred) {
	r := &round{verb: verbExtend, token: token, ttlMs: ttl.Milliseconds(), start: d.now, op: op}
	r.setKeys(resources...)
	born, known := tokenBirth(token)
	if lease := c.leases.findLease(resources, token); lease != nil && !known {
		born, known = lease.born, true
	}
	if known {
		if err := c.checkHold(born, ttl, d.now); err != nil {
			d.deliver(op, Result{Err: err})
			return
		}
	}
	c.leases.beginInflight(r, r.keys[0])
	c.launchLocked(r, allMasters(len(c.lanes)), d)
}

// extensionDecided makes a lease of an extension that a quorum granted within the validity. If too
// few masters answered, the lease as it was before is left alone, because it may still be valid.
func (c *Client) extensionDecided(r *round, o outcome, v votes, d *deferred) {
	n := len(c.lanes)
	elapsed := d.now.Sub(r.start)
	validity := validityOf(r.ttl(), elapsed, driftOf(r.ttl(), c.drift))

	c.mu.Lock()
	defer c.mu.Unlock()
	op := r.op
	defer c.leases.endInflight(r, r.keys[0])
	switch {
	case o == yes && validity > 0:
		c.stats.Extended++
		until := d.now.Add(validity)
		if !r.released {
			c.extendedLocked(r, until, c.shareOf(op), v, d)
		}
		d.deliver(op, Result{Held: true, Token: r.token, Validity: validity, Until: until})
	case o == no:
		// Definitely lost: what remains of it on a minority only keeps others out.
		c.stats.ExtendLost++
		c.clearLocked(r, d) //mutant:remains-of-a-lost-lock-kept
		d.deliver(op, Result{})
	default:
		// Unknown. The lease as it was before still runs.
		c.stats.ExtendFail++
		if o == noQuorum {
			elapsed = 0
		}
		d.deliver(op, Result{Err: c.noQuorumError(r.start, v, quorumOf(n), elapsed)})
	}
}

// clearLocked is for a lock that an extension has found lost. What remains of it on a minority is
// released, if redlockd made its token; a caller may have locked anew under its own token
// elsewhere, so the remains of such a lock end with their TTL.
func (c *Client) clearLocked(r *round, d *deferred) {
	if c.leases.superseded(r, r.keys[0], r.token) { //mutant:cleared-behind-a-later-grant
		return
	}
	if lease := c.leases.findLease(r.keys, r.token); lease != nil {
		c.leases.forget(lease)
	}
	if madeHere(r.token) {
		c.dropLocked(r.keys, r.token, allMasters(len(c.lanes)), d)
	}
}

// extendedLocked makes a lease of the round, and gives the key back to the masters that have lost
// it. The lease stays in the share that it was granted to; where that is not known, it is in the
// share of the user who extends it.
func (c *Client) extendedLocked(r *round, until time.Time, share *Share, v votes, d *deferred) {
	n := len(c.lanes)
	extended := newLease(r, v, n, until)
	if before := c.leases.findLease(r.keys, r.token); before != nil {
		extended.born = before.born
		share = cmp.Or(before.share, share)
	} else {
		extended.holders = allMasters(n) // granted by another proxy: any master may hold it
	}
	if born, known := tokenBirth(r.token); known && born.Before(extended.born) {
		extended.born = born
	}
	c.leases.grant(extended, share, d.now)
	if lost := v.lost(n); lost != 0 { //mutant:holes-not-filled
		c.refillLocked(extended, lost, d)
	}
}

// refillLate gives the key back to a master whose answer came after the decision, if the lease is
// still the one that was extended. Client.mu orders it against the release: what is released is no
// lease any more.
func (c *Client) refillLate(r *round, late votes, d *deferred) {
	lost := late.lost(len(c.lanes))
	if lost == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if lease := c.leases.leaseOf(r); lease != nil { //mutant:late-holes-filled-after-the-release
		c.refillLocked(lease, lost, d)
	}
}

// refill sets the key again where it is absent, so that a master that has restarted does not stay a
// hole in the quorum. Nobody waits for it, and its votes count for nothing.
func (c *Client) refillLocked(lease *lease, targets mask, d *deferred) {
	lease.holders |= targets
	c.launchLocked(&round{verb: verbRefill, keys: lease.keys, token: lease.token, ttlMs: lease.ttl.Milliseconds(), start: d.now}, targets, d)
}
