package redlock

import (
	"cmp"
	"time"

	"redlockd/redlock/member"
	"redlockd/redlock/quorum"
)

// Op is one operation on its way. Embed it in the object that will hold the reply; it must be zero
// but for Share, Flow, Note and Terms when it is started, and must not be used a second time. Only
// StartRead, StartCommit and StartFetchScript take one that was used by one of them before, and is done.
type Op struct {
	// Share is what the operation takes of, set before it is started. Nil: the Client's own, which
	// has no limits.
	Share *Share
	// Flow is the stream of operations that it is part of, set before it is started. Nil: the one of Share
	// itself.
	Flow *Flow
	// Note says who asks, set before it is started: it stays with what the operation is granted, and with
	// its wait. Nil: nobody is shown.
	Note *HolderNote
	// Terms bound what it is granted, set before it is started. Nil: Options alone do.
	Terms *Terms

	to      Completer
	keys    []string
	token   string
	ttl     time.Duration // that is asked for, without the Delay, and that a held lock is renewed to
	wait    time.Duration // LockRequest.Wait, less LockRequest.Waited
	arrived time.Duration // when it came, on clock.Own (LOCK, commit)
	rounds  uint32        // rounds of acquisition so far. Guarded by Client.mu
	stale   int16         // rounds of the present attempt whose fence was too low
	verb    verb          // of what is one reading
	fenced  bool          // a fence is asked for
	// Tracked, set before it is started: the caller of StartRead keeps the answer, see OnChange.
	Tracked      bool
	watches      bool // StartWatch
	onlyReleases bool // it does nothing but release (UNLOCK), so it is refused later than others
	release      bool // LockRequest.Release
	// callerToken: the token is the caller's own. Some master may know it already, by an attempt
	// through another client.
	callerToken bool
	writers     int32          // what it adds to waitQueue.writers while it waits: 1, or 0 of a reader
	kind        kind           // of lock that is asked for (LOCK)
	force       *force         // whose rounds it makes (op_force.go); nil: it is no part of a forced release
	waiter      *waiter        // nil: the operation does not wait. Guarded by Client.mu
	againFrom   *member.Record // under which it last had to begin once more (op_again.go). Guarded by Client.mu
	queued      *queuedOp      // a LOCK that has not begun, which can be cancelled. Guarded by Client.mu
	lease       *lease         // what was granted, for Abandon. Guarded by Client.mu
	// holder is what the lock is to be bound to, or whose KEEPALIVE it is; nil: the lock is not held.
	holder *Holder
}

// StartLock asks for a lock. It never blocks; to.Done is called exactly once, possibly before
// StartLock returns.
func (c *Client) StartLock(op *Op, req LockRequest, to Completer) {
	err := c.bounds.checkLock(op, &req)
	if err == nil {
		op.keys, op.ttl, op.wait, op.fenced = req.Resources, req.TTL, max(0, req.Wait-req.Waited), req.Fence || c.opts.FenceAlways
		op.token, op.callerToken = req.Token, req.Token != ""
		op.setKind(&req)
		op.holder, op.release, op.Note = req.Holder, req.Release, cmp.Or(req.Note, op.Note)
	}
	c.start(op, to, err, (*Client).beginLockLocked)
}

// beginLockLocked begins a LOCK for which there is room.
func (c *Client) beginLockLocked(op *Op, d *deferred) {
	if c.draining {
		d.deliver(op, Result{Err: ErrDraining})
		return
	}
	if op.callerToken {
		if held := op.kind.heldBy(&c.leases, op, d.now); held != nil {
			if err := c.bounds.checkHold(op, held.born, op.ttl, d.now); err != nil {
				d.deliver(op, Result{Err: err})
				return
			}
			// It holds the lock already, so it must not wait behind those who wait for its own release.
			c.launchAttemptLocked(op, d)
			return
		}
	}
	if err := c.lockable(op, len(op.keys), lockMemory(op.keys, op.token, op.writers == 0), d.now); err != nil {
		d.deliver(op, Result{Err: err})
		return
	}
	// The wait began when the LOCK came. What is left of it may be nothing: then this is a LOCK that does
	// not wait. d.now can be earlier than that.
	wait := op.wait - max(0, c.own.At(d.now)-op.arrived) //mutant:a-lock-in-the-queue-begins-to-wait
	switch {
	case wait > 0:
		c.waiting.joinQueueLocked(op, wait, d)
	case !c.leases.hasWaiters(op.keys): //mutant:barging
		c.launchAttemptLocked(op, d)
	case op.lookFirst(): //mutant:a-repetition-is-denied-for-those-who-wait
		c.launchAttemptLocked(op, d)
	default:
		// Somebody has asked before and is waiting: asking again would be barging in.
		c.stats.Denied++
		d.deliver(op, Result{})
	}
}

// launchAttemptLocked starts an attempt: one round to all masters. Implements steps 1 and 2 of "The
// Redlock algorithm".
func (c *Client) launchAttemptLocked(op *Op, d *deferred) {
	if ttl := op.ttl + op.delay(); ttl > c.fleet.view.Load().ceiling && !c.ceiling.fits(op, ttl, d, func(d *deferred) { c.waiting.raisedLocked(op, d) }) {
		return
	}
	if !op.callerToken { //mutant:a-made-token-serves-two-attempts
		op.token = c.tokens.make(d.now) // each attempt has its own: the release of an earlier one cannot hit it, however late it comes
	}
	r := &round{verb: verbSet, token: op.token, ttlMs: op.askedMs(c.drift), op: op}
	op.kind.aim(c, r)
	// d.now may be long ago, and what has passed since is no part of the TTL: read the clock again.
	r.start = time.Now()
	if op.fenced {
		r.fence = c.fences.Next(r.start)
	}
	if op.callerToken {
		r.attempt = newAttempt(r, c.fleet.view.Load().Places)
		op.kind.beginInflight(&c.leases, r)
	}
	c.askLocked(r, d)
}

// askLocked launches a round of acquisition. What the masters have said to its waiter before is no news
// after it.
func (c *Client) askLocked(r *round, d *deferred) {
	if w := r.op.waiter; w != nil {
		w.attempt, w.sentAt = r, r.start
		if q := &w.entry.queue; q.head == w { // of another waiter, for a slot or a reader's lock, the head has not asked
			q.fairness.windowAnnouncedBy = 0
		}
	}
	c.stats.Attempts++
	r.op.rounds++
	c.rounds.launch(r, quorum.All, d)
}

// verdict is what becomes of an attempt.
type verdict uint8

const (
	attemptGranted  verdict = iota
	attemptRefused          // it would be granted, but its caller has as many locks as it may have
	attemptUnwanted         // nobody waits for it any more
	attemptLate             // a quorum granted it, and less than a millisecond of validity is left
	attemptDenied           // it is held by another, or was released by force meanwhile
	attemptSilent           // too few masters answered
)

// verdictOf implements steps 3 and 4 of "The Redlock algorithm": the lock is held if a quorum granted
// and validity is left. That is a millisecond at least: replies count in milliseconds. forced: it was
// released by force meanwhile. full: a limit does not allow it. wanted: its caller has no result yet.
func verdictOf(o quorum.Outcome, validity time.Duration, forced, full, wanted bool) verdict {
	switch {
	case !wanted: //mutant:an-unwanted-grant-is-kept
		return attemptUnwanted
	case o == quorum.NoQuorum:
		return attemptSilent
	case o == quorum.No:
		return attemptDenied
	case validity < time.Millisecond: //mutant:validity-not-checked
		return attemptLate
	case forced: //mutant:a-lock-under-way-outlives-the-force
		return attemptDenied
	case full: //mutant:locks-that-were-under-way-are-not-counted
		return attemptRefused
	}
	return attemptGranted
}

// acquisitionDecided implements steps 3 to 5 of "The Redlock algorithm": a lock that is not held is
// removed again wherever it may be.
func (c *Client) acquisitionDecided(r *round, o quorum.Outcome, v quorum.Votes, d *deferred) {
	elapsed, validity := c.validityOf(r, d)
	c.mu.Lock()
	defer c.mu.Unlock()
	op := r.op
	c.stats.Rounds.add(elapsed)
	if r.attempt != nil {
		defer op.kind.endInflight(&c.leases, r)
	}
	var full error
	// Others of its share were granted while it was under way. What its token holds already is not new.
	if o == quorum.Yes && !(op.callerToken && c.leases.heldOrDelayed(r.keys, r.token, d.now) != nil) {
		full = c.lockable(op, len(r.keys), lockMemory(r.keys, r.token, r.ofReader()), d.now)
	}
	forced := len(c.forced.all) > 0 && c.forced.ended(r, d.now)
	wanted := op.waiter == nil || !op.waiter.answered
	verdict := verdictOf(o, validity, forced, full != nil, wanted)
	if verdict == attemptGranted {
		c.grantedLocked(r, validity, v, d)
		return
	}
	c.undoLocked(r, v, d)
	switch verdict {
	case attemptUnwanted:
		op.kind.givenBack(c, r, d)
	case attemptRefused:
		if op.waiter != nil {
			c.waiting.leaveQueueLocked(op, d)
		}
		d.deliver(op, Result{Err: full})
		op.kind.givenBack(c, r, d)
	case attemptDenied:
		c.failedLocked(r, quorum.No, v, nil, d)
	case attemptLate:
		late := r.noQuorumError(v, r.view.Quorum(), elapsed)
		late.TTL = elapsed + validity
		c.failedLocked(r, o, v, late, d)
	case attemptSilent:
		c.failedLocked(r, o, v, r.noQuorumError(v, r.view.Quorum(), 0), d)
	}
}

// failedLocked goes on after an attempt that was undone: it asks once more, waits, or tells the caller.
// err is nil if a resource is held by another.
func (c *Client) failedLocked(r *round, o quorum.Outcome, v quorum.Votes, err error, d *deferred) {
	op := r.op
	tooLow := r.mark.Load() > 0 && c.fenceTooLowLocked(r, o, v)
	again, err := op.kind.denied(r, tooLow, o, v, err)
	switch {
	case again:
		c.launchAttemptLocked(op, d)
	case op.waiter != nil:
		c.waiting.deniedLocked(op, err, d)
	case o == quorum.NoQuorum && c.stoppedByStepLocked(r):
		op.wait = 0
		c.beginAgainLocked(r, 0, (*Client).beginLockLocked, d)
	default:
		c.answerDenied(op, err, d)
	}
}

// fenceRetries bounds the rounds of one attempt whose fence was too low (package fence).
const fenceRetries = 8

// fenceTooLowLocked tells whether an attempt failed because its fence was too low, for a clock is
// behind, and is to ask once more: the resource is not held by another. The next fence is above every
// mark that was seen. If the client has already sent UNLOCK, a retry must not grant the lock after it.
func (c *Client) fenceTooLowLocked(r *round, o quorum.Outcome, v quorum.Votes) bool {
	c.fences.Observe(r.mark.Load(), r.start)
	op := r.op
	if o == quorum.No && v.Denied(r.view.Places).Count() <= r.view.Count-r.view.Quorum() && op.stale < fenceRetries && !r.released { //mutant:tried-again-behind-the-unlock
		op.stale++
		return true
	}
	return false
}

// grantedLocked makes a lease of the round and reports the grant. If the client has sent UNLOCK
// behind its LOCK, no lease is made: the release is on its way, behind the round in every lane.
func (c *Client) grantedLocked(r *round, validity time.Duration, v quorum.Votes, d *deferred) {
	op := r.op
	r.op = nil // the attempt, which a lease keeps, must not keep the caller's memory
	granted := newLease(r, v, d.now.Add(validity))
	granted.attempt, granted.note = r.attempt, op.Note
	if r.attempt != nil {
		if before := c.leases.findLease(r.keys, r.token); before != nil {
			granted.born, granted.note = before.born, noteOf(op.Note, before.note)
		}
		r.attempt.granted.Store(int64(c.own.At(d.now)))
	}
	if !r.released { //mutant:a-lock-outlives-the-unlock-behind-it
		c.leases.grant(granted, c.admission.shareOf(op), op.delay(), d.now)
		if op.holder != nil {
			c.holds.bind(op, r, r.token, granted.validUntil, d)
		}
		op.lease = granted
	}
	c.stats.Granted++
	now := c.own.At(d.now)
	c.outcomes = outcomes{quorumAt: now}
	c.leases.byPrefix.granted(granted.keys[0], now-op.arrived, op.rounds)
	if op.waiter != nil {
		f := &op.waiter.entry.queue.fairness
		f.futileWakeups = 0
		if f.outrun {
			f.since, f.outrun = 0, false
		}
		c.waiting.leaveQueueLocked(op, d)
	}
	slot := op.kind.granted(c, op, granted, d)
	d.deliver(op, Result{Held: true, Token: op.token, Slot: slot, Validity: validity, Until: granted.validUntil, Fence: r.fence})
}

// answerDenied tells the caller of a LOCK that it has not got it: null when err is nil, for the
// resource is held by another.
func (c *Client) answerDenied(op *Op, err error, d *deferred) {
	if err == nil {
		c.stats.Denied++
	} else {
		c.stats.NoQuorum++
	}
	c.outcomes.ended(err, op.arrived, c.own.At(d.now))
	d.deliver(op, Result{Err: err})
}

// undoLocked removes an attempt that failed. Implements "The Redlock algorithm" step 5: "it will try to
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
		c.rounds.drop(r.keys, r.token, targets, r.ofReader(), d)
	}
}
