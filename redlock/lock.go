package redlock

import "time"

// Op is one operation on its way. Embed it in the object that will hold the reply; it must be zero but for Share when it is
// started, and must not be used a second time. Only StartRead and StartCommit take one that was used by one of them before, and is done.
type Op struct {
	// Share is what the operation takes of, set before it is started. Nil: the Client's own, which has no limits.
	Share *Share

	to       Completer
	keys     []string
	token    string
	ttlMs    int64
	stale    int32     // rounds of the present attempt whose fence was too low
	fenced   bool      // a fence is asked for
	strange  bool      // the token is the caller's own: some master may know it already
	waiter   *waiter   // nil: the operation does not wait. Guarded by Client.mu
	deferred *deferred // a LOCK that has not begun, which can be cancelled. Guarded by Client.mu
	lease    *round    // what was granted, for Abandon. Guarded by Client.mu
}

// StartLock asks for a lock. It never blocks; to.Done is called exactly once, possibly before StartLock returns.
func (c *Client) StartLock(op *Op, req LockRequest, to Completer) {
	t := turn{now: time.Now()}
	defer c.finish(&t)
	op.to = to
	if err := c.checkLock(&req); err != nil {
		t.tell(op, Result{Err: err})
		return
	}
	op.keys, op.ttlMs, op.fenced = req.Resources, req.TTL.Milliseconds(), req.Fence || c.opts.FenceAlways
	op.token, op.strange = req.Token, req.Token != ""

	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.waitsForRoom() {
		c.beginLockLocked(op, &req, &t)
		return
	}
	later, arrived := req, t.now
	bytes := stringsBytes(op.keys) + len(op.token)
	err := c.deferLocked(op, c.shareOf(op), costOf(len(op.keys), bytes), bytes, 1, func(t *turn) {
		// The wait began when the LOCK came. What is left of it may be nothing: then this is a LOCK that does not wait.
		later.Wait = max(0, later.Wait-t.now.Sub(arrived))
		c.beginLockLocked(op, &later, t)
	})
	if err != nil {
		t.tell(op, Result{Err: err})
		return
	}
	op.deferred = c.shareOf(op).end
}

// beginLockLocked begins a LOCK for which there is room.
func (c *Client) beginLockLocked(op *Op, req *LockRequest, t *turn) {
	switch {
	case c.draining:
		t.tell(op, Result{Err: ErrDraining})
		return
	case op.strange && c.leases.held(op.keys, op.token, t.now):
		if err := c.checkHold(c.leases.find(op.keys, op.token).born, req.TTL, t.now); err != nil {
			t.tell(op, Result{Err: err})
			return
		}
		// It holds the lock already, so it must not stand in line behind those who wait for its own release.
		c.askLocked(op, t)
		return
	}
	if err := c.shareOf(op).lockable(len(op.keys), t.now); err != nil {
		t.tell(op, Result{Err: err})
		return
	}
	switch {
	case req.Wait > 0:
		c.joinLocked(op, req.Wait, t)
	case c.leases.crowded(op.keys):
		// Somebody has asked before and is waiting: asking again would be barging in.
		c.stats.Denied++
		t.tell(op, Result{})
	default:
		c.askLocked(op, t)
	}
}

// ask starts an attempt: one round to all masters. Implements steps 1 and 2 of "The Redlock algorithm".
func (c *Client) askLocked(op *Op, t *turn) {
	if !op.strange {
		op.token = c.tokens.make(t.now) // each attempt has its own: the release of an earlier one cannot hit it, however late it comes
	}
	r := &round{verb: verbSet, token: op.token, ttlMs: op.ttlMs, op: op}
	r.setLock(op.keys)
	// A turn can begin long before this attempt, and what it took is no part of the TTL: read the clock again.
	r.start = time.Now()
	switch {
	case op.fenced:
		r.verb, r.fence = verbFence, c.fences.next(r.start)
	case op.strange || len(op.keys) > 1:
		r.verb = verbAcquire
	}
	if op.strange {
		c.leases.begin(r.keys, r.token)
	}
	if op.waiter != nil {
		op.waiter.sentLocked(r)
		if len(op.keys) > 1 {
			r.expectDeniers(len(c.lanes), op.waiter.reserved)
		}
	}
	c.stats.Attempts++
	c.launchLocked(r, allMasters(len(c.lanes)), t)
}

// acquisitionDecided implements steps 3 to 5 of "The Redlock algorithm": the lock is held if a quorum granted and
// validity is left; otherwise it is removed again wherever it may be.
func (c *Client) acquisitionDecided(r *round, o outcome, v votes, t *turn) {
	n, quorum := len(c.lanes), quorumOf(len(c.lanes))
	elapsed := t.now.Sub(r.start)
	validity := validityOf(r.ttl(), elapsed, driftOf(r.ttl(), c.drift))
	var err error
	switch {
	case o == yes && validity <= 0:
		late := c.noQuorumError(r.start, v, quorum, elapsed)
		late.TTL = r.ttl()
		err = late
	case o == noQuorum:
		err = c.noQuorumError(r.start, v, quorum, 0)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	op := r.op
	if op == nil {
		return // a refill
	}
	c.stats.Rounds.add(elapsed)
	rep := &repeat{}
	if op.strange {
		_, rep = c.leases.attempt(r.keys, r.token, r)
		c.leases.end(rep)
		if o == yes && err == nil && c.payingLocked(r.keys, r.token) {
			err = c.noQuorumError(r.start, v, quorum, elapsed)
		}
	}
	wanted := op.waiter == nil || !op.waiter.gone
	var full error
	if o == yes && err == nil && wanted {
		// Others of its share were granted while it was under way. What its token holds already is not new.
		if !c.leases.held(r.keys, r.token, t.now) {
			full = c.shareOf(op).lockable(len(r.keys), t.now)
		}
		if full == nil {
			c.grantedLocked(r, validity, rep, t)
			return
		}
	}
	c.undoLocked(r, v, rep, t)
	mark := r.mark.Load()
	c.fences.observe(mark, r.start)
	switch {
	case !wanted:
	case full != nil:
		if op.waiter != nil {
			op.waiter.gone = true
			c.leaveLocked(op, t)
		}
		t.tell(op, Result{Err: full})
	case o == no && mark > 0 && v.tally(n).of(voteDenied) <= n-quorum && op.stale < fenceRetries && !rep.released:
		// Not held by another: the fence was too low, for a clock is behind. The next one is above every mark that was seen. Whoever has
		// sent an UNLOCK behind this LOCK must not find the lock granted after it.
		op.stale++
		c.askLocked(op, t)
	case op.waiter != nil:
		c.deniedLocked(op, err, t)
	default:
		c.answerDenied(op, err, t)
	}
}

func (c *Client) grantedLocked(r *round, validity time.Duration, rep *repeat, t *turn) {
	op := r.op
	r.op = nil // the lease must not keep the caller's memory
	r.validUntil = t.now.Add(validity)
	r.born, r.inherited = r.start, rep.left
	rep.left = 0
	if before := c.leases.find(r.keys, r.token); before != nil {
		r.born = before.born
	}
	if !rep.released {
		c.leaseLocked(r, c.shareOf(op), t.now)
		op.lease = r
	}
	op.stale = 0
	c.stats.Granted++
	if op.waiter != nil {
		op.waiter.place.entry.line.woken = 0
		op.waiter.gone = true
		c.leaveLocked(op, t)
	}
	t.tell(op, Result{Held: true, Token: op.token, Validity: validity, Until: r.validUntil, Fence: r.fence})
}

// answerDenied tells the caller of a LOCK that it has not got it: null when err is nil, for the resource is held by another.
func (c *Client) answerDenied(op *Op, err error, t *turn) {
	if err == nil {
		c.stats.Denied++
	} else {
		c.stats.NoQuorum++
	}
	t.tell(op, Result{Err: err})
}

// undo removes an attempt that failed from every master that granted it, did not answer, or has yet to answer; one that
// denied it has nothing of it. Implements "The Redlock algorithm" step 5: "it will try to unlock all the instances". The
// caller does not wait for it, and its context has no part in it.
//
// It leaves the keys alone as long as another attempt of the same token, earlier or later, may be believed in: see repeat.
func (c *Client) undoLocked(r *round, v votes, rep *repeat, t *turn) {
	n := len(c.lanes)
	targets := v.mayHold(n) | rep.left
	if r.op.strange {
		lease, others := c.leases.known(r.keys, r.token)
		tally := v.tally(n)
		rep.earlier = rep.earlier || tally.of(voteMine) > 0 && n-tally.of(voteDenied) >= quorumOf(n)
		switch {
		case others != nil:
			others.left |= targets
			return
		case lease != nil && t.now.Before(lease.validUntil):
			lease.inherited |= targets
			return
		case rep.earlier:
			return // what this attempt has added ends with its TTL
		}
	}
	if targets != 0 {
		c.dropLocked(r.keys, r.token, targets, time.Time{}, t)
	}
}
