package redlock

import (
	"cmp"
	"math"
	"slices"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/quorum"
)

// Op is one operation on its way. Embed it in the object that will hold the reply; it must be zero
// but for Share, Note and Terms when it is started, and must not be used a second time. Only StartRead and
// StartCommit take one that was used by one of them before, and is done.
type Op struct {
	// Share is what the operation takes of, set before it is started. Nil: the Client's own, which
	// has no limits.
	Share *Share
	// Note says who asks, set before it is started: it stays with what the operation is granted, and with its wait. Nil: nobody is shown.
	Note *HolderNote
	// Terms bound what it is granted, set before it is started. Nil: Options alone do.
	Terms *Terms

	to      Completer
	keys    []string
	token   string
	ttlMs   int64         // that is asked for, without the Delay
	arrived time.Duration // when it came, on clock.Own (LOCK, commit)
	rounds  uint16        // rounds of acquisition so far; see countRound. Guarded by Client.mu
	stale   int16         // rounds of the present attempt whose fence was too low
	fenced  bool          // a fence is asked for
	reader  bool          // it is a reader
	release bool          // LockRequest.Release
	// callerToken: the token is the caller's own. Some master may know it already, by an attempt
	// through another client.
	callerToken bool
	slots       *slotSearch // nil: the resources themselves are locked. Guarded by Client.mu
	waiter      *waiter     // nil: the operation does not wait. Guarded by Client.mu
	againFrom   *record     // under which it last had to begin once more (op_again.go). Guarded by Client.mu
	queued      *queuedOp   // a LOCK that has not begun, which can be cancelled. Guarded by Client.mu
	lease       *lease      // what was granted, for Abandon. Guarded by Client.mu
	// holder is what the lock is to be bound to, or whose KEEPALIVE it is; nil: the lock is not held.
	holder  *Holder
	holdTTL time.Duration // that it is renewed to
}

// countRound counts one more round of acquisition. A waiter can make more than there are numbers.
func (op *Op) countRound() { op.rounds += min(1, math.MaxUint16-op.rounds) }

// StartLock asks for a lock. It never blocks; to.Done is called exactly once, possibly before
// StartLock returns.
func (c *Client) StartLock(op *Op, req LockRequest, to Completer) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	op.to, op.arrived = to, c.own.At(d.now)
	if err := c.checkLock(op, &req); err != nil {
		d.deliver(op, Result{Err: err})
		return
	}
	op.keys, op.ttlMs, op.fenced = req.Resources, req.TTL.Milliseconds(), req.Fence || c.opts.FenceAlways && !req.Shared
	op.token, op.callerToken, op.reader = req.Token, req.Token != "", req.Shared
	if req.Slots > 0 {
		op.slots = newSlotSearch(req.Resources[0], req.Slots)
		op.keys = []string{op.slots.queue}
	}
	op.holder, op.holdTTL, op.release, op.Note = req.Holder, req.TTL, req.Release, cmp.Or(req.Note, op.Note)

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
		// that does not wait. d.now can be earlier than that.
		later.Wait -= min(later.Wait, max(0, d.now.Sub(arrived))) //mutant:a-lock-in-the-queue-begins-to-wait
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
	case op.callerToken && c.leases.heldBy(op, d.now) != nil:
		if err := c.checkHold(op, c.leases.heldBy(op, d.now).born, req.TTL, d.now); err != nil {
			d.deliver(op, Result{Err: err})
			return
		}
		// It holds the lock already, so it must not wait behind those who wait for its own release.
		c.launchAttemptLocked(op, d)
		return
	}
	if err := c.bounded(op, len(op.keys), d.now); err != nil {
		d.deliver(op, Result{Err: err})
		return
	}
	switch {
	case req.Wait > 0:
		c.joinQueueLocked(op, req.Wait, d)
	case op.slots != nil && op.callerToken && c.leases.hasWaiters(op.keys): //mutant:a-repetition-is-denied-for-those-who-wait
		op.slots.look = true
		c.launchAttemptLocked(op, d)
	case c.leases.hasWaiters(op.keys): //mutant:barging
		// Somebody has asked before and is waiting: asking again would be barging in.
		c.stats.Denied++
		d.deliver(op, Result{})
	default:
		c.launchAttemptLocked(op, d)
	}
}

// bounded returns an error if the operation must not be granted n more resources.
func (c *Client) bounded(op *Op, n int, now time.Time) error {
	err := c.shareOf(op).lockable(n, now)
	if err == nil && op.holder != nil {
		err = c.bindable(op.holder)
	}
	return err
}

// ask starts an attempt: one round to all masters. Implements steps 1 and 2 of "The Redlock
// algorithm".
func (c *Client) launchAttemptLocked(op *Op, d *deferred) {
	if !op.callerToken {
		op.token = c.tokens.make(d.now) // each attempt has its own: the release of an earlier one cannot hit it, however late it comes
	}
	r := &round{verb: verbSet, token: op.token, ttlMs: op.ttlMs + op.delay().Milliseconds(), op: op} //mutant:a-lock-has-no-delay
	if op.slots != nil {
		c.chooseSlotLocked(r)
	} else {
		r.setKeys(op.keys...)
		slices.Sort(r.keys) // as waiter.keys
	}
	// d.now may be long ago, and what has passed since is no part of the TTL: read the clock again.
	r.start = time.Now()
	if op.fenced {
		r.fence = c.fences.next(r.start)
	}
	switch {
	case op.slots != nil:
		r.verb = verbSlot
	case op.reader:
		r.verb = verbJoin
		r.asReader(true)
	case op.fenced || op.callerToken || len(op.keys) > 1 || op.waiter != nil && op.waiter.behindReaders:
		r.verb = verbAcquire
	}
	if op.callerToken {
		r.attempt = newAttempt(r, c.view.Load().Places)
		c.leases.beginInflight(r, r.keys[0])
		if op.slots != nil {
			c.leases.beginInflight(r, op.slots.queue)
		}
	}
	if op.waiter != nil {
		op.waiter.sentLocked(r)
		if len(op.keys) > 1 {
			r.expectDeniers(c.view.Load().Places, op.waiter.reservation.token)
		}
	}
	c.stats.Attempts++
	op.countRound()
	c.launchLocked(r, quorum.All, d)
}

// acquisitionDecided implements steps 3 to 5 of "The Redlock algorithm": the lock is held if a
// quorum granted and validity is left; otherwise it is removed again wherever it may be.
func (c *Client) acquisitionDecided(r *round, o quorum.Outcome, v quorum.Votes, d *deferred) {
	majority := r.view.Quorum()
	elapsed := c.elapsed(r, d)
	ttl := r.op.granted(r)
	validity := clock.ValidityOf(ttl, elapsed, clock.DriftOf(ttl, c.drift))
	var err error
	switch {
	case o == quorum.Yes && validity <= 0: //mutant:validity-not-checked
		late := c.noQuorumError(r, v, majority, elapsed)
		late.TTL = ttl
		err = late
	case o == quorum.NoQuorum:
		err = c.noQuorumError(r, v, majority, 0)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	op := r.op
	c.stats.Rounds.add(elapsed)
	if op.callerToken {
		defer c.leases.endInflight(r, r.keys[0])
		if op.slots != nil {
			defer c.leases.endInflight(r, op.slots.queue)
		}
	}
	if o == quorum.Yes && err == nil && len(c.forced) > 0 && c.endedByForceLocked(r, d.now) { //mutant:a-lock-under-way-outlives-the-force
		o = quorum.No
	}
	wanted := op.waiter == nil || !op.waiter.answered //mutant:an-unwanted-grant-is-kept
	var full error
	if o == quorum.Yes && err == nil && wanted {
		// Others of its share were granted while it was under way. What its token holds already is
		// not new.
		if !op.callerToken || !c.leases.held(r.keys, r.token, d.now) {
			full = c.bounded(op, len(r.keys), d.now)
		}
		if full == nil { //mutant:locks-that-were-under-way-are-not-counted
			c.grantedLocked(r, validity, v, d)
			return
		}
	}
	c.undoLocked(r, v, d)
	mark := r.mark.Load()
	c.fences.observe(mark, r.start)
	anotherSlot := false
	if op.slots != nil && wanted {
		anotherSlot, err = c.slotDeniedLocked(r, o, v, err)
	}
	switch {
	case !wanted && op.slots != nil:
		c.handOverLocked(r.keys[0], d) // what it may have been granted is released
	case !wanted:
	case full != nil:
		if op.waiter != nil {
			c.leaveQueueLocked(op, d)
		}
		d.deliver(op, Result{Err: full})
		if op.slots != nil {
			c.handOverLocked(r.keys[0], d)
		}
	case o == quorum.No && mark > 0 && v.Tally(r.view.Places).Of(quorum.Denied) <= r.view.Count-majority && op.stale < fenceRetries && !r.released: //mutant:tried-again-behind-the-unlock
		// Not held by another: the fence was too low, for a clock is behind. The next one is above
		// every mark that was seen. If the client has already sent UNLOCK, a retry must not grant
		// the lock after it.
		op.stale++
		if op.slots != nil {
			op.slots.askAgain(r)
		}
		c.launchAttemptLocked(op, d)
	case anotherSlot:
		c.launchAttemptLocked(op, d)
	case op.waiter != nil:
		c.deniedLocked(op, err, d)
	case o == quorum.NoQuorum && c.stoppedByStepLocked(r):
		req := &LockRequest{TTL: ttl}
		c.beginAgainLocked(r, stringsBytes(op.keys)+len(op.token), func(d *deferred) { c.beginLockLocked(op, req, d) }, d)
	default:
		c.answerDenied(op, err, d)
	}
}

// grantedLocked makes a lease of the round and reports the grant. If the client has sent UNLOCK
// behind its LOCK, no lease is made: the release is on its way, behind the round in every lane.
func (c *Client) grantedLocked(r *round, validity time.Duration, v quorum.Votes, d *deferred) {
	op := r.op
	r.op = nil // the attempt, which a lease keeps, must not keep the caller's memory
	granted := newLease(r, v, d.now.Add(validity))
	granted.attempt, granted.note, granted.reader = r.attempt, op.Note, op.reader
	if r.attempt != nil {
		if before := c.leases.findLease(r.keys, r.token); before != nil {
			granted.born, granted.note = before.born, noteOf(op.Note, before.note)
		}
		r.attempt.granted.Store(int64(c.own.At(d.now)))
	}
	if !r.released {
		c.leases.grant(granted, c.shareOf(op), d.now)
		if delay := op.delay(); delay > 0 {
			c.leases.delay(granted, delay)
		}
		if op.holder != nil {
			c.bindLocked(op, r, r.token, granted.validUntil, d)
		}
		op.lease = granted
	}
	op.stale = 0
	c.stats.Granted++
	c.leases.byPrefix.granted(granted.keys[0], c.own.At(d.now)-op.arrived, op.rounds)
	if op.waiter != nil {
		f := &op.waiter.entry.queue.fairness
		f.futileWakeups = 0
		if f.outrun {
			f.since, f.outrun = 0, false
		}
		c.leaveQueueLocked(op, d)
		if op.reader {
			c.readersFollowLocked(&op.waiter.entry.queue, d)
		}
	}
	result := Result{Held: true, Token: op.token, Validity: validity, Until: granted.validUntil, Fence: r.fence}
	if op.slots != nil {
		result.Slot = granted.keys[0]
	}
	d.deliver(op, result)
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
func (c *Client) undoLocked(r *round, v quorum.Votes, d *deferred) {
	if r.attempt != nil {
		c.undoAttemptLocked(r.attempt, d)
		return
	}
	if targets := v.MayHold(r.view.Places); targets != 0 { //mutant:a-slot-that-was-split-is-kept
		c.dropLocked(r.keys, r.token, targets, r.ofReader(), d)
	}
}
