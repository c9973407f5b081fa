package redlock

import (
	"slices"
	"time"
)

// StartUnlock releases what the token holds. It goes to all masters, whatever is believed here: implements "release the lock
// in all the instances" of "Retry on failure" and step 5.
//
// If the next in line waits here, its acquisition follows in the same batch (hand-over).
func (c *Client) StartUnlock(op *Op, resources []string, token string, to Completer) {
	t := turn{now: time.Now()}
	defer c.finish(&t)
	op.to = to
	if err := c.checkHolder(resources, token); err != nil {
		t.tell(op, Result{Err: err})
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.releaseInTurnLocked(op, resources, token, true, &t); err != nil {
		t.tell(op, Result{Err: err})
	}
}

// releaseInTurnLocked is releaseLocked behind what the share of op has started before.
func (c *Client) releaseInTurnLocked(op *Op, resources []string, token string, owe bool, t *turn) error {
	if share := c.shareOf(op); share.first != nil {
		kept, bytes := slices.Clone(resources), stringsBytes(resources)+len(token)
		return c.deferLocked(op, share, costOf(len(kept), bytes), bytes, 2, func(t *turn) {
			c.releaseLocked(op, kept, token, owe, t)
		})
	}
	c.releaseLocked(op, resources, token, owe, t)
	return nil
}

// releaseLocked releases what the token holds. owe says whether masters that are away are owed it.
func (c *Client) releaseLocked(op *Op, resources []string, token string, owe bool, t *turn) {
	n := len(c.lanes)
	r := &round{verb: verbRelease, token: token, start: t.now, op: op}
	r.setLock(resources)
	switch lease := c.leases.release(r.keys, token); {
	case !owe:
	case lease != nil:
		r.debtor = lease.holders(n)
	default:
		// Granted by another proxy, or long ago: any master may hold it, none for longer than the longest TTL.
		r.debtor = allMasters(n)
		r.lapse = c.lapseOf(t.now)
	}
	c.launchLocked(r, allMasters(n), t)
	for _, resource := range resources {
		c.handOverLocked(resource, t)
	}
}

// dropLocked releases, for nobody, what the token may hold on the targets; it is owed to those that are away until lapse, or, where
// that is zero, for as long as it takes.
func (c *Client) dropLocked(keys []string, token string, targets mask, lapse time.Time, t *turn) {
	c.launchLocked(&round{verb: verbRelease, keys: keys, token: token, start: t.now, debtor: targets, lapse: lapse}, targets, t)
}

// Abandon takes back what a LOCK was granted, because its caller can no longer be told. Nobody waits for it. It does nothing
// if the lock was released or extended since, or granted again to the same token: then somebody does know of it.
func (c *Client) Abandon(op *Op) {
	t := turn{now: time.Now()}
	defer c.finish(&t)
	c.mu.Lock()
	defer c.mu.Unlock()
	lease := op.lease
	if lease == nil {
		return
	}
	known, rep := c.leases.known(lease.keys, lease.token)
	if known != lease {
		return
	}
	c.leases.forget(lease)
	if rep != nil {
		rep.left |= lease.holders(len(c.lanes))
		return
	}
	c.launchLocked(&round{verb: verbRelease, keys: lease.keys, token: lease.token, start: t.now, debtor: lease.holders(len(c.lanes))}, allMasters(len(c.lanes)), &t)
	for _, resource := range lease.keys {
		c.handOverLocked(resource, &t)
	}
}

func (c *Client) releaseDecided(r *round, o outcome, v votes, t *turn) {
	op := r.op
	if op == nil {
		return
	}
	var result Result
	c.mu.Lock()
	switch o {
	case yes:
		c.stats.Released++
		result.Held = true
	case no:
		c.stats.NotHeld++
	default:
		// The lanes of the silent masters owe them the release.
		c.stats.UnlockFail++
		n := len(c.lanes)
		result.Err = c.noQuorumError(r.start, v, n-quorumOf(n)+1, 0)
	}
	c.mu.Unlock()
	t.tell(op, result)
}
