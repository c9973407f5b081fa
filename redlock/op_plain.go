package redlock

import (
	"time"

	"redlockd/redlock/quorum"
)

// kind is what a LOCK asks for: one resource (plainLock), several at once (severalLocks), a reader's
// place beside others (readerLock), or one of several slots (slotSearch). Several and readers embed
// plainLock, and say where they differ. All methods need Client.mu.
type kind interface {
	// aim says what a round of acquisition asks for: it fills in the keys and the verb.
	aim(c *Client, r *round)
	// heldBy returns the lease that the token, which is the caller's own, holds here already, as far as is
	// known, or nil.
	heldBy(all *leases, op *Op, now time.Time) *lease
	// asks tells whether one that joins the queue behind others asks at once.
	asks(q *waitQueue) bool
	// beginInflight and endInflight record a round under a caller's token until it is decided.
	beginInflight(all *leases, r *round)
	endInflight(all *leases, r *round)

	// granted is for a lease that was just made. It tells which slot it is.
	granted(c *Client, op *Op, l *lease, d *deferred) (slot string)
	// givenBack is for a grant that was undone, because nobody takes it.
	givenBack(c *Client, r *round, d *deferred)
	// denied tells whether a round that was not granted is followed by another one of the same attempt, as
	// it is if its fence was too low. It may change the error.
	denied(r *round, tooLow bool, o quorum.Outcome, v quorum.Votes, err error) (again bool, _ error)

	// newHead is for a waiter that is the head of its queue now.
	newHead(c *Client, w *waiter, d *deferred)
	// observation says what a waiter observes: it fills in the keys and the verb.
	observation(w *waiter, r *round)
	// observed has a waiter pause as long as the answers to its observation tell.
	observed(c *Client, w *waiter, r *round, d *deferred)
}

// setKind says what the request asks for.
func (op *Op) setKind(req *LockRequest) {
	op.kind, op.writers = plainLock{}, 1
	switch {
	case req.Slots > 0:
		s := &slotSearch{resource: req.Resources[0], queue: slotsQueue(req.Resources[0]), count: req.Slots}
		op.kind, op.keys = s, []string{s.queue}
	case req.Shared:
		op.kind, op.writers, op.fenced = readerLock{}, 0, false
	case len(req.Resources) > 1:
		op.kind = severalLocks{}
	}
}

// plainLock is the lock of one resource.
type plainLock struct{}

// aim asks with SET NX where that suffices: no master can know the token, and nothing but another token
// can be in the way.
func (plainLock) aim(_ *Client, r *round) {
	op := r.op
	r.setKeys(op.keys...)
	if op.fenced || op.callerToken || op.waiter != nil && op.waiter.behindReaders {
		r.verb = verbAcquire
	}
}

func (plainLock) heldBy(all *leases, op *Op, now time.Time) *lease {
	return all.heldOrDelayed(op.keys, op.token, now)
}

func (plainLock) asks(*waitQueue) bool                                  { return false }
func (plainLock) beginInflight(all *leases, r *round)                   { all.beginInflight(r, r.keys...) }
func (plainLock) endInflight(all *leases, r *round)                     { all.endInflight(r, r.keys...) }
func (plainLock) granted(*Client, *Op, *lease, *deferred) (slot string) { return "" }
func (plainLock) givenBack(*Client, *round, *deferred)                  {}
func (plainLock) denied(_ *round, tooLow bool, _ quorum.Outcome, _ quorum.Votes, err error) (bool, error) {
	return tooLow, err
}

// newHead starts the attempts of a waiter that has become the head of its queue: now, or, if this
// client knows of a lease on the resource, after a pause.
func (plainLock) newHead(c *Client, w *waiter, d *deferred) {
	if w.attempt != nil || w.retry != nil || !w.isHead() {
		return
	}
	if lease := w.entry.lease; lease != nil && d.now.Before(lease.validUntil) {
		w.lastErr = nil
		w.entry.queue.denied = true
		c.waiting.pauseLocked(w.op, c.opts.retryDelay(c.leases.keysEnd(lease).Sub(d.now)))
		return
	}
	c.waiting.attemptLocked(w.op, d)
}

// observation reads the resource in whose queue the waiter stands. A writer that waits for readers
// tells them.
func (plainLock) observation(w *waiter, r *round) {
	r.setKeys(w.entry.resource)
	if w.behindReaders {
		r.verb = verbAnnounce
		w.entry.queue.announced = true
	}
}

func (plainLock) observed(c *Client, w *waiter, r *round, _ *deferred) {
	majority := r.view.Quorum()
	absent := absentOn(r.answers) >= majority
	if !absent {
		w.tracked[0].observe(r.answers)
	}
	delay := c.waiting.pauseAfter(w, r.view, absent, freeByQuorum(r.answers, majority))
	c.waiting.pauseLocked(w.op, w.untilReaders(delay))
}
