package member

import (
	"cmp"
	"time"

	"redlockd/redlock/clock"
)

// max_ttl is what may be asked for. The ceiling is what may be running, and what everybody waits for
// where a majority has forgotten. It is a minute at first. A lock above it has it raised by a step, and
// it falls again when nothing so long was asked for during one wait. So who asks for long locks makes
// the waits long, while he does.
//
//	wait 62 s, ceiling 1m ── step 1 ──> wait 310 s, ceiling 1m ── step 2 ──> wait 310 s, ceiling 5m
//	                                    followers of before are over
//
// Why no founding waits for less than a lock may live:
//
//  1. A founding that knows no more than that the masters have forgotten waits for max_ttl. It waits for
//     what its base needs only where the client followed that record when the masters forgot: a quorum of
//     the voters had noted that (lua/follow.lua) no longer than FollowedFor before.
//  2. A voter notes a follower only while it shows exactly that record, without an accepted child.
//  3. Whoever proposes step 2 has read, on a quorum of the voters that show step 1 already, that each
//     follower of another record follows this one now, or is over: its note has not changed for
//     FollowedFor and RecheckWithin, in which masters may still be counted by some whose address others
//     find changed.
//  4. A quorum that has noted a follower, and a quorum that shows step 1, share a voter. A memory that
//     becomes a voter in between is given the notes first (Followers.Notes), as it is given the locks; and
//     one of nobody besides, where fewer than a quorum of voters were read.
//
// testdata/tla/Ceiling.tla has a model of this.

// FirstCeiling is the ceiling of a founding, and the lowest that there is.
const FirstCeiling = time.Minute

// ceilings are the steps, few, so that the membership changes seldom.
var ceilings = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 4 * time.Hour, 24 * time.Hour}

// ceilingFor is the lowest step under which locks of this TTL may run: from first to most.
func ceilingFor(ttl, first, most time.Duration) time.Duration {
	step := first
	for _, c := range ceilings {
		if ttl > step && c > first {
			step = c
		}
	}
	if ttl > step {
		step = most
	}
	return min(step, most)
}

// WithoutCeiling is the longest TTL for which nobody needs this ceiling: that of the step below it, or its
// own, where there is none.
func (o Options) WithoutCeiling(ceiling time.Duration) time.Duration {
	longest := min(o.LowestCeiling(), ceiling)
	for _, c := range ceilings {
		if longest < c && c < ceiling {
			longest = c
		}
	}
	return longest
}

// LowestCeiling is the lowest ceiling, where max_ttl is no lower.
func (o Options) LowestCeiling() time.Duration { return cmp.Or(o.FirstCeiling, FirstCeiling) }

// CeilingFor is the step of the ceiling under which locks of this TTL may run, where max_ttl is most.
func CeilingFor(ttl, most time.Duration) time.Duration { return ceilingFor(ttl, 0, most) }

// FollowedFor is for how long a note keeps the ceiling from rising over the client that follows a record
// with this wait: so long the client knows that no lock lives for longer than that record allows.
func FollowedFor(wait time.Duration) time.Duration {
	return min(30*time.Second, wait/2)
}

// StepTimeout bounds a step of the membership, and what belongs to it: also the time from when a founding
// is decided until the masters have it.
const StepTimeout = 2 * time.Second

// noteLife is for how long the note of a client counts that follows a record before r.
func noteLife(r *Record) time.Duration {
	return FollowedFor(r.Wait) + RecheckWithin(r.Wait) + StepTimeout
}

// planTimes decides about the ceiling, and about the wait.
func (n *Situation) planTimes(d *Decision) {
	r, child := n.Record, d.Child
	needed := r.Needed(n.Drift)
	if to := ceilingFor(n.Wanted, n.FirstCeiling, r.MaxTTL); n.Wanted > r.Ceiling && to > r.Ceiling {
		needs := clock.QuarantineOf(to, n.Drift)
		needs = wholeMs(needs + RecheckWithin(needs)) // a founding needs that, too //mutant:a-founding-from-a-raised-wait-trusts-addresses
		switch {
		case r.Wait < needs:
			child.Wait, child.TTLSince = needs, child.Version
			d.change("the wait rises to %v, for locks of %s", needs, clock.Text(to))
		case !n.Behind: //mutant:a-ceiling-is-raised-over-who-does-not-know
			child.Ceiling = to
			d.change("the ceiling rises from %s to %s", clock.Text(r.Ceiling), clock.Text(to))
		}
		return
	}
	if r.Wait > needed && n.Left(r.TTLStampField()) <= 0 { //mutant:the-wait-is-lowered-at-once
		d.change("the wait is %v", needed)
		child.Wait = needed
	}
	if to := ceilingFor(n.InUse, n.FirstCeiling, r.MaxTTL); to < r.Ceiling && r.Wait <= needed && !(r.MaxTTL == r.Ceiling && n.OlderClient) {
		child.Ceiling, child.TTLSince = to, child.Version
		d.change("the ceiling falls from %s to %s: nothing longer was asked for lately; the wait follows in %v", clock.Text(r.Ceiling), clock.Text(to), r.Wait)
	}
}
