package redlock

import (
	"redlockd/redlock/quorum"
)

// A step of the membership changes what the masters show. Until this client knows what was chosen, and
// has looked at its masters once more, no vote counts. That takes a few round trips. So that callers
// see nothing of it, an operation that finds no quorum because of a step begins once more, and what is
// to begin meanwhile is queued, as if the lanes were full (admission.go).
//
// A release does not begin once more, because its votes count in any case. A waiter does not either: it
// asks again when a quorum can vote (wait_quorum.go).
//
// Invariants:
//   - A second round is launched only when the first one is decided and its undo is launched. It stands
//     behind the undo in every lane.
//   - The undo of a rotation spares what another operation has found and counts on. So when the second
//     round is denied, it is not known whether the first one has made the change.
//   - It has its own T1. The caller counts from when it sent the request, which is earlier.
//   - An operation begins once more for each record at most, so it ends when the steps do.
//   - A step holds operations up for stepHold at most: somebody who is killed in the middle of one
//     leaves masters that show half of it, until another client finishes it.

// stepHold is for how many MasterTimeouts operations wait for the vote of a master that shows something
// else than this client knows.
const stepHold = 2

// stoppedByStepLocked tells whether a step of the membership may be why a round found no quorum, and
// its operation may begin once more.
func (c *Client) stoppedByStepLocked(r *round) bool {
	op := r.op
	if op.waiter != nil || r.released || op.againFrom == r.view.record { //mutant:begun-again-behind-the-unlock
		return false
	}
	return r.view.record != c.fleet.view.Load().record || c.fleet.waitsForStep() || c.ranAheadLocked(r) //mutant:no-second-round-after-a-step
}

// ranAheadLocked tells whether a round was launched under a new record before all masters were told of
// it: they have done what it asks for, and so many that their votes would be a quorum. By now they may
// have been told.
func (c *Client) ranAheadLocked(r *round) bool {
	if r.start.Sub(r.view.since) > stepHold*c.opts.MasterTimeout {
		return false
	}
	return quorum.Votes(r.votes.Load()).Did(r.view.Places).Count() >= r.view.Quorum()
}

// beginAgainLocked has the operation of the round begin once more, as startLocked does.
func (c *Client) beginAgainLocked(r *round, bytes int, begin func(c *Client, op *Op, d *deferred), d *deferred) {
	r.op.againFrom = r.view.record
	if c.fleet.waitsForStep() {
		c.admission.full.Store(true)
	}
	c.startLocked(r.op, bytes, begin, d)
}
