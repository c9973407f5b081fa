package redlock

import (
	"slices"
	"time"
)

// Op is one operation on its way. Embed it in the object that will hold the reply; it must be zero
// but for Share when it is started, and must not be used a second time. Only StartRead and
// StartCommit take one that was used by one of them before, and is done.
type Op struct {
	// Share is what the operation takes of, set before it is started. Nil: the Client's own, which
	// has no limits.
	Share *Share

	to     Completer
	keys   []string
	token  string
	ttlMs  int64
	stale  int32 // rounds of the present attempt whose fence was too low
	fenced bool  // a fence is asked for
	// callerToken: the token is the caller's own. Some master may know it already, by an attempt
	// through another client.
	callerToken bool
	waiter      *waiter   // nil: the operation does not wait. Guarded by Client.mu
	queued      *queuedOp // a LOCK that has not begun, which can be cancelled. Guarded by Client.mu
	lease       *lease    // what was granted, for Abandon. Guarded by Client.mu
}

// StartLock asks for a lock. It never blocks; to.Done is called exactly once, possibly before
// StartLock returns.
func (c *Client) StartLock(op *Op, req LockRequest, to Completer) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	op.to = to
	if err := c.checkLock(&req); err != nil {
		d.deliver(op, Result{Err: err})
		return
	}
	op.keys, op.ttlMs, op.fenced = req.Resources, req.TTL.Milliseconds(), req.Fence || c.opts.FenceAlways
	op.token, op.callerToken = req.Token, req.Token != ""

	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.waitsForRoom() {
		c.beginLockLocked(op, &req, &d)
		return
	}
	later, arrived := req, d.now
	bytes := stringsBytes(op.keys) + len(op.token)
	err := c.enqueueLocked(op, c.shareOf(op), bytes, 1, func(d *deferred) {
		// The wait began when the LOCK came. What is left of it may be nothing: then this is a LOCK
		// that does not wait.
		later.Wait = max(0, later.Wait-d.now.Sub(arrived))
		c.beginLockLocked(op, &later, d)
	})
	if err != nil {
		d.deliver(op, Result{Err: err})
		return
	}
	queue := c.shareOf(op).queued
	op.queued = queue[len(queue)-1]
}

// beginLockLocked begins a LOCK for which there is room.
func (c *Client) beginLockLocked(op *Op, req *LockRequest, d *deferred) {
	switch {
	case c.draining:
		d.deliver(op, Result{Err: ErrDraining})
		return
	case op.callerToken && c.leases.held(op.keys, op.token, d.now):
		if err := c.checkHold(c.leases.findLease(op.keys, op.token).born, req.TTL, d.now); err != nil {
			d.deliver(op, Result{Err: err})
			return
		}
		// It holds the lock already, so it must not wait behind those who wait for its own release.
		c.launchAttemptLocked(op, d)
		return
	}
	if err := c.shareOf(op).lockable(len(op.keys), d.now); err != nil {
		d.deliver(op, Result{Err: err})
		return
	}
	switch {
	case req.Wait > 0:
		c.joinQueueLocked(op, req.Wait, d)
	case c.leases.hasWaiters(op.keys): //mutant:barging
		// Somebody has asked before and is waiting: asking again would be barging in.
		c.stats.Denied++
		d.deliver(op, Result{})
	default:
		c.launchAttemptLocked(op, d)
	}
}

// ask starts an attempt: one round to all masters. Implements steps 1 and 2 of "The Redlock
// algorithm".
func (c *Client) launchAttemptLocked(op *Op, d *deferred) {
	if !op.callerToken {
		op.token = c.tokens.make(d.now) // each attempt has its own: the release of an earlier one cannot hit it, however late it comes
	}
	r := &round{verb: verbSet, token: op.token, ttlMs: op.ttlMs, op: op}
	r.setKeys(op.keys...)
	slices.Sort(r.keys) // as waiter.keys
	// d.now may be long ago, and what has passed since is no part of the TTL: read the clock again.
	r.start = time.Now()
	switch {
	case op.fenced:
		r.verb, r.fence = verbFence, c.fences.next(r.start)
	case op.callerToken || len(op.keys) > 1:
		r.verb = verbAcquire
	}
	if op.callerToken {
		r.attempt = newAttempt(r, len(c.lanes))
		c.leases.beginInflight(r, r.keys[0])
	}
	if op.waiter != nil {
		op.waiter.sentLocked(r)
		if len(op.keys) > 1 {
			r.expectDeniers(len(c.lanes), op.waiter.reservation.token)
		}
	}
	c.stats.Attempts++
	c.launchLocked(r, allMasters(len(c.lanes)), d)
}

// acquisitionDecided implements steps 3 to 5 of "The Redlock algorithm": the lock is held if a
// quorum granted and validity is left; otherwise it is removed again wherever it may be.
func (c *Client) acquisitionDecided(r *round, o outcome, v votes, d *deferred) {
	n, quorum := len(c.lanes), quorumOf(len(c.lanes))
	elapsed := d.now.Sub(r.start)
	validity := validityOf(r.ttl(), elapsed, driftOf(r.ttl(), c.drift))
	var err error
	switch {
	case o == yes && validity <= 0: //mutant:validity-not-checked
		late := c.noQuorumError(r.start, v, quorum, elapsed)
		late.TTL = r.ttl()
		err = late
	case o == noQuorum:
		err = c.noQuorumError(r.start, v, quorum, 0)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	op := r.op
	c.stats.Rounds.add(elapsed)
	if op.callerToken {
		defer c.leases.endInflight(r, r.keys[0])
	}
	wanted := op.waiter == nil || !op.waiter.answered //mutant:an-unwanted-grant-is-kept
	var full error
	if o == yes && err == nil && wanted {
		// Others of its share were granted while it was under way. What its token holds already is
		// not new.
		if !c.leases.held(r.keys, r.token, d.now) {
			full = c.shareOf(op).lockable(len(r.keys), d.now)
		}
		if full == nil { //mutant:locks-that-were-under-way-are-not-counted
			c.grantedLocked(r, validity, v, d)
			return
		}
	}
	c.undoLocked(r, v, d)
	mark := r.mark.Load()
	c.fences.observe(mark, r.start)
	switch {
	case !wanted:
	case full != nil:
		if op.waiter != nil {
			c.leaveQueueLocked(op, d)
		}
		d.deliver(op, Result{Err: full})
	case o == no && mark > 0 && v.tally(n).of(voteDenied) <= n-quorum && op.stale < fenceRetries && !r.released: //mutant:tried-again-behind-the-unlock
		// Not held by another: the fence was too low, for a clock is behind. The next one is above
		// every mark that was seen. If the client has already sent UNLOCK, a retry must not grant
		// the lock after it.
		op.stale++
		c.launchAttemptLocked(op, d)
	case op.waiter != nil:
		c.deniedLocked(op, err, d)
	default:
		c.answerDenied(op, err, d)
	}
}

// grantedLocked makes a lease of the round and reports the grant. If the client has sent UNLOCK
// behind its LOCK, no lease is made: the release is on its way, behind the round in every lane.
func (c *Client) grantedLocked(r *round, validity time.Duration, v votes, d *deferred) {
	op := r.op
	r.op = nil // the attempt, which a lease keeps, must not keep the caller's memory
	granted := newLease(r, v, len(c.lanes), d.now.Add(validity))
	granted.attempt = r.attempt
	if before := c.leases.findLease(r.keys, r.token); before != nil {
		granted.born = before.born
	}
	if !r.released {
		c.leases.grant(granted, c.shareOf(op), d.now)
		op.lease = granted
	}
	op.stale = 0
	c.stats.Granted++
	if op.waiter != nil {
		op.waiter.entry.queue.fairness.futileWakeups = 0
		c.leaveQueueLocked(op, d)
	}
	d.deliver(op, Result{Held: true, Token: op.token, Validity: validity, Until: granted.validUntil, Fence: r.fence})
}

// answerDenied tells the caller of a LOCK that it has not got it: null when err is nil, for the
// resource is held by another.
func (c *Client) answerDenied(op *Op, err error, d *deferred) {
	if err == nil {
		c.stats.Denied++
	} else {
		c.stats.NoQuorum++
	}
	d.deliver(op, Result{Err: err})
}

// undo removes an attempt that failed. Implements "The Redlock algorithm" step 5: "it will try to
// unlock all the instances". The caller does not wait for it, and its context has no part in it.
//
// Under a token that was made here, it goes to every master that granted it, did not answer, or has
// yet to answer; one that denied it has nothing of it. Under a token of the caller's own it goes
// where the attempt is known to have set the keys (op_undo.go); of masters that have yet to vote
// lateAttempt takes care.
func (c *Client) undoLocked(r *round, v votes, d *deferred) {
	if r.attempt != nil {
		c.undoAttemptLocked(r.attempt, d)
		return
	}
	if targets := v.mayHold(len(c.lanes)); targets != 0 {
		c.dropLocked(r.keys, r.token, targets, d)
	}
}
