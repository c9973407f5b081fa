package redlock

import "time"

// outcomes tells how the LOCKs of late have ended, where nothing that is known of the masters explains why
// none is granted. Client.mu guards it. Times are on clock.Own.
type outcomes struct {
	// quorumAt is when a LOCK was last granted, or denied by a quorum.
	quorumAt time.Duration
	// failing: a LOCK has ended without a quorum since. from is when the first of these came, or quorumAt
	// if that is later; until is when the last of them ended.
	failing     bool
	from, until time.Duration
}

// outcomesForgotten is after which time without any outcome nothing is said any more: nobody has asked.
const outcomesForgotten = 30 * time.Second

// ended records a LOCK, or its like, that came at arrived. noQuorum is nil if a quorum has granted or
// denied it; a grant of LOCK does the same by itself.
func (o *outcomes) ended(noQuorum error, arrived, now time.Duration) {
	switch {
	case noQuorum == nil:
		*o = outcomes{quorumAt: now} //mutant:a-quorum-that-has-answered-is-forgotten
		return
	case !o.failing || now-o.until > outcomesForgotten:
		o.failing, o.from = true, max(arrived, o.quorumAt)
	}
	o.until = max(o.until, now)
}

// noQuorumFor is for how long all LOCKs have ended without a quorum, as of the last one; 0: a quorum has
// answered since, or nobody has asked lately.
func (o *outcomes) noQuorumFor(now time.Duration) time.Duration {
	if now-o.until > outcomesForgotten {
		return 0
	}
	return max(0, o.until-o.from)
}
