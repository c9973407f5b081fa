package redlock

import "redlockd/redlock/quorum"

// fenceRetries bounds the rounds of one attempt whose fence was too low (package fence).
const fenceRetries = 8

// fenceTooLowLocked tells whether an attempt failed because its fence was too low, for a clock is behind, and is to ask once more: the resource is
// not held by another. The next fence is above every mark that was seen. If the client has already sent UNLOCK, a retry must not grant the lock
// after it.
func (c *Client) fenceTooLowLocked(r *round, o quorum.Outcome, v quorum.Votes) bool {
	c.fences.Observe(r.mark.Load(), r.start)
	op := r.op
	if o == quorum.No && v.Denied(r.view.Places).Count() <= r.view.Count-r.view.Quorum() && op.stale < fenceRetries && !r.released { //mutant:tried-again-behind-the-unlock
		op.stale++
		return true
	}
	return false
}
