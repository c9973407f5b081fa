package member

import (
	"slices"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/quorum"
)

// The waits that run under a record, as one client watches them: before a learner votes, before a seat
// that leaves is removed, and before the wait itself is lowered. It is pure: no clock, no I/O.

// TimersOf are the waits that run under a record.
func TimersOf(r *Record, d clock.Drift) (timers []string) {
	for s := range r.EachSeat() {
		if s.State == Learner || s.State == Leaving {
			timers = append(timers, r.StampField(s))
		}
	}
	if r.Wait > r.Needed(d) {
		timers = append(timers, r.TTLStampField())
	}
	return timers
}

// Waits are the waits under the record in force, by the names of their timers.
type Waits map[string]*wait

// wait is one of them.
type wait struct {
	// since is when this client knew that the wait had begun.
	since time.Time
	// Due is when it is over, as the last survey found.
	Due time.Time
	// clocks are what the masters' clocks said, by memory.
	clocks map[string]clockWatch
}

// clockWatch is what a clock said first, and last. When it goes back, first goes back with it: the time
// that has passed stays.
type clockWatch struct{ first, last time.Time }

// Under are the waits of another record: those that run on, and those that begin now.
func (all Waits) Under(r *Record, d clock.Drift, now time.Time) Waits {
	next := make(Waits)
	for _, timer := range TimersOf(r, d) {
		if next[timer] = all[timer]; next[timer] == nil {
			next[timer] = &wait{since: now, Due: now.Add(r.Quarantine(d)), clocks: make(map[string]clockWatch)}
		}
	}
	return next
}

// Left is how much of the wait with this timer is left at the time of the survey. It is over when it
// has passed both on the monotonic clock of this process and on the clocks of a quorum of the listed
// memories, since this client knows of it. So neither a clock here that runs fast ends it early, nor
// masters' clocks that step.
//
// A process that has just started need not wait again where a quorum of the listed memories was told of
// the wait so long ago, by their own stamps. Those count only where the clocks agree with each other
// and with ours: who disagrees is left out. Stamps are written by clients whose clock agreed, too
// (trustClock).
func (w *wait) Left(s *Survey, r *Record, timer string, o Options) time.Duration {
	whole := r.Quarantine(o.Drift)
	left := whole - min(s.Began.Sub(w.since), w.elapsed(s, r)) //mutant:a-wait-by-our-clock-alone
	agreeing := s.agreeing(o.ClockSkewMax)
	var ages []time.Duration
	for _, f := range s.Reports {
		age, ok := f.stampAge(timer)
		if ok && f.Shows(r) && agreeing.Has(f.Place) { //mutant:stamps-of-clocks-that-disagree
			ages = append(ages, age)
		}
	}
	return max(0, min(left, whole+2*o.ClockSkewMax-quorumOfAges(ages, r))) //mutant:stamps-without-skew
}

// elapsed is how much time has passed, since this client watches the wait, by the clocks of a quorum of
// the listed memories, each by itself.
func (w *wait) elapsed(s *Survey, r *Record) time.Duration {
	var ages []time.Duration
	for _, f := range s.Reports {
		if !f.Shows(r) || s.Began.Before(w.since) {
			continue
		}
		k, known := w.clocks[f.State.Memory]
		switch {
		case !known:
			k.first = f.Clock
		case f.Clock.Before(k.last):
			k.first = k.first.Add(f.Clock.Sub(k.last))
		}
		k.last = f.Clock
		w.clocks[f.State.Memory] = k
		ages = append(ages, k.last.Sub(k.first))
	}
	return quorumOfAges(ages, r)
}

// quorumOfAges is the age that a quorum of the record's seats reach; 0: they are too few.
func quorumOfAges(ages []time.Duration, r *Record) time.Duration {
	slices.Sort(ages)
	if missing := len(ages) - r.Quorum(); missing >= 0 { //mutant:stamps-of-a-minority
		return ages[missing]
	}
	return 0
}

// agreeing are the masters whose clocks agree now with ours and with a majority of all clocks.
func (s *Survey) agreeing(skew time.Duration) quorum.Mask {
	var offset [quorum.MaxMasters]clock.Interval
	var known quorum.Mask
	for _, f := range s.Reports {
		if f.OK() {
			offset[f.Place] = clock.Interval{Low: f.Clock.Sub(f.Received), High: f.Clock.Add(time.Microsecond).Sub(f.Sent)}
			known = known.With(f.Place)
		}
	}
	return clock.Vouched(0, offset[:], known, len(s.Reports), skew)
}
