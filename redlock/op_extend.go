package redlock

import (
	"cmp"
	"time"

	"redlockd/redlock/quorum"
)

// StartExtend gives a lock that the token holds a new TTL, from now. Implements "Making the
// algorithm more reliable: Extending the lock": it needs a quorum of matching keys within the
// validity, "basically the algorithm to use is very similar to the one used when acquiring the
// lock", and MaxHold is the limit to repeated extensions that it asks for.
func (c *Client) StartExtend(op *Op, resources []string, token string, ttl time.Duration, to Completer) {
	op.keys, op.token, op.ttl = resources, token, ttl
	err := checkHolder(resources, token)
	if err == nil {
		err = c.bounds.checkTTL(ttl, op.delay())
	}
	c.start(op, to, err, (*Client).beginExtendLocked)
}

// beginExtendLocked begins an EXTEND for which there is room.
func (c *Client) beginExtendLocked(op *Op, d *deferred) {
	r := &round{verb: verbExtend, token: op.token, ttlMs: op.askedMs(c.drift), start: d.now, op: op}
	r.setKeys(op.keys...)
	op.keys = r.keys // the caller's slice may change from here on
	if r.ttlMs > c.fleet.view.Load().longestMs && !c.ceiling.fits(op, op.ttl+op.delay(), d, func(d *deferred) { c.beginExtendLocked(op, d) }) {
		return
	}
	if born, known := c.leases.birth(r.keys, r.token); known {
		if err := c.bounds.checkHold(op, born, op.ttl, d.now); err != nil {
			d.deliver(op, Result{Err: err})
			return
		}
	}
	c.leases.beginInflight(r, r.keys...)
	c.rounds.launch(r, quorum.All, d)
}

// extensionDecided makes a lease of an extension that a quorum granted within the validity. If too
// few masters answered, the lease as it was before is left alone, because it may still be valid.
func (c *Client) extensionDecided(r *round, o quorum.Outcome, _ quorum.Votes, d *deferred) {
	elapsed, validity := c.validityOf(r, d)
	c.mu.Lock()
	defer c.mu.Unlock()
	// Also those behind the deciding one, for which refillLate has found no lease yet.
	v := quorum.Votes(r.votes.Load())
	op := r.op
	defer c.leases.endInflight(r, r.keys...)
	if o == quorum.Yes && len(c.forced.all) > 0 && c.forced.ended(r, d.now) { //mutant:an-extension-outlives-the-force
		o = quorum.No
	}
	switch {
	case o == quorum.NoQuorum && c.stoppedByStepLocked(r):
		c.beginAgainLocked(r, 0, (*Client).beginExtendLocked, d)
	case o == quorum.Yes && validity > 0: //mutant:extended-without-validity
		c.stats.Extended++
		until := d.now.Add(validity)
		if !r.released { //mutant:an-extension-outlives-the-unlock-behind-it
			c.extendedLocked(r, until, c.admission.shareOf(op), v, d)
		}
		d.deliver(op, Result{Held: true, Token: r.token, Validity: validity, Until: until})
	case o == quorum.No:
		c.stats.ExtendLost++
		c.lostByExtensionLocked(r, d)
		d.deliver(op, Result{})
	default:
		// Unknown. The lease as it was before still runs.
		c.stats.ExtendFail++
		if o == quorum.NoQuorum {
			elapsed = 0
		}
		d.deliver(op, Result{Err: r.noQuorumError(v, r.view.Quorum(), elapsed)})
	}
}

// lostByExtensionLocked is for a lock of which an extension has found that its token does not hold it.
// What remains of it on a minority ends with its TTL, and is not released: a takeover (StartHold) may
// just have exchanged the token on some masters, and give up and put it back, while the client goes by
// what it was told before. In between nobody can tell that from a loss.
func (c *Client) lostByExtensionLocked(r *round, d *deferred) {
	if c.leases.superseded(r, r.keys[0], r.token) { //mutant:a-later-grant-is-forgotten
		return
	}
	if lease := c.leases.findLease(r.keys, r.token); lease != nil {
		c.leases.end(lease, d.now) //mutant:a-lease-outlives-its-loss
	}
	if b := c.holds.of(r.keys, r.token); b != nil {
		b.deniedLocked(r, d)
	}
}

// extendedLocked makes a lease of the round, and gives the key back to the masters that have lost
// it. The lease stays in the share that it was granted to; where that is not known, it is in the
// share of the user who extends it.
func (c *Client) extendedLocked(r *round, until time.Time, share *Share, v quorum.Votes, d *deferred) {
	extended := newLease(r, v, until)
	extended.reader = v.Tally(r.view.Places).Of(quorum.AsReader) >= r.view.Quorum()
	if before := c.leases.findLease(r.keys, r.token); before != nil {
		extended.born, extended.note = before.born, before.note
		share = cmp.Or(before.share, share)
	} else {
		extended.holders = r.view.Masters // granted by another proxy: any master may hold it //mutant:an-extension-knows-all-holders
		extended.note = r.op.Note
	}
	if born, known := tokenBirth(r.token); known && born.Before(extended.born) {
		extended.born = born
	}
	c.leases.grant(extended, share, r.op.delay(), d.now)
	if len(c.holds.byKey) > 0 {
		if b := c.holds.of(r.keys, r.token); b != nil {
			b.renewedLocked(r.start, until)
			extended.note = b.note
		}
	}
	if lost := v.Lost(r.view.Places); lost != 0 { //mutant:holes-not-filled
		c.refillLocked(extended, lost, d)
	}
}

// refillLate gives the key back to a master whose answer came after the decision, if the lease is
// still the one that was extended. Client.mu orders it against the release: what is released is no
// lease any more.
func (c *Client) refillLate(r *round, late quorum.Votes, d *deferred) {
	lost := late.Lost(r.view.Places)
	if lost == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if lease := c.leases.leaseOf(r, r.keys, r.token); lease != nil { //mutant:late-holes-filled-after-the-release
		c.refillLocked(lease, lost, d)
	}
}

// refill sets the key again where it is absent, so that a master that has restarted does not stay a
// hole in the quorum. Nobody waits for it, and its votes count for nothing.
func (c *Client) refillLocked(lease *lease, targets quorum.Mask, d *deferred) {
	lease.holders |= targets //mutant:what-was-given-back-is-not-released
	r := &round{verb: verbRefill, keys: lease.keys, token: lease.token, ttlMs: int64(lease.ttlMs), start: d.now}
	c.rounds.launch(r.asReader(lease.reader), targets, d)
}
