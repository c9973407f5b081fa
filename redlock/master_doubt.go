package redlock

import (
	"fmt"
	"time"

	"redlockd/redlock/clock"
)

// What follows from the readings of package clock. All of it is local: two clocks out of step with each
// other do not say which of them is wrong. So a proxy that finds a gain stops counting that master's
// votes, for one wait, and a proxy whose own clock is wrong stops only itself. Nobody takes a vote for
// others because of a clock. What others must know who did not watch, a note tells (master_note.go).
//
// A master's clock is good, and its votes count, when it was watched or is vouched for:
//   - watched: this client has read it for one wait, and it has gained nothing (clock.Ring). Whatever
//     it did before that ended no lock early that may still be valid.
//   - vouched for: it agrees with our own wall clock and with a majority of clocks (vouched), and
//     nobody has seen it gain within the last wait, neither this client nor another one that has noted
//     it on the master. So a client that has just started does not have to watch for a wait.
//
// A clock that is good remains so until it gains: the ring watches it from then on.
//
// A suspension of this machine stops our monotonic clock, so all masters seem to gain. If
// CLOCK_BOOTTIME says that we were suspended for as long, the rings are moved past it, and nobody is
// doubted. That is enough: the masters' clocks are compared as if our clock had run on, every rate and
// tolerance included; the batch that showed the gain does not count; and a round that began before the
// suspension is not granted, whatever its votes (clock.Own.SleptSince). A suspension longer than a wait
// leaves a gap in which nobody watched, as a long time without a connection does: then the clocks have
// to be vouched for, or watched, again.

// clockGuard is the part of guard that is about the master's clock. Rules of ownership as for guard:
// what has no mutex named is used by the goroutine that reads the master's replies, of which there is
// one at a time.
type clockGuard struct {
	// same tells that the master uses this process's clock (Master.SameClock). There is nothing to compare
	// then.
	same bool
	ring clock.Ring
	// last is the reading of the last heartbeat.
	last clock.Reading
	// slept is how long the machine had been suspended when the ring was last moved past that.
	slept time.Duration
	// own is our own wall clock, read with every heartbeat, and ownGain is by how much it has gained on
	// our monotonic one within the last wait.
	own     clock.Ring
	ownGain time.Duration
	// unnoted tells that the master's clock has gained, and that the note of that is not written yet.
	unnoted bool
	// clamp is due when the clock went back, and keys live too long.
	clamp clamp

	// lane.mu guards what follows.

	// good tells that votes count as far as the clock is concerned. Only the lane's goroutine changes it.
	good bool
	clockView
	// copied is ring as of the last heartbeat, for a copy from this master (member/copy.go), and
	// copiedBeat guard.beat.
	copied     clock.Ring
	copiedBeat int64
	// reported is the gain that such a copy has seen, and the lane has not.
	reported clockResult
	// skew is how far the clock is ahead of our wall clock, where nobody vouches for it though enough
	// masters are connected; else 0.
	skew time.Duration
	// noted tells that another client has seen the clock gain, within the last wait.
	noted bool
	// agrees tells that the clock agreed with ours and with a majority of clocks at the last heartbeat.
	agrees bool
	// until is the end of the doubt, unless the clock is vouched for earlier.
	until time.Time
	// reason is why the clock is not good; logged tells that the log has it.
	reason string
	logged bool
}

func newClockGuard(own *clock.Own, same bool) clockGuard {
	return clockGuard{same: same, good: same, slept: own.Suspended()}
}

// clockResult is what a reading has found.
type clockResult struct {
	// counts tells that the votes of the batch count as far as the clock is concerned.
	counts bool
	// gain is by how much the clock has gained, beyond rate and tolerance; 0: it has not. before is when
	// it was last asked for before that.
	gain, before time.Duration
	// unwatched tells that nobody watched for longer than a wait.
	unwatched bool
}

// judge judges one reading. After a gain the ring is a new one, so that a gain is found once.
func (k *clockGuard) judge(now clock.Reading, own *clock.Own, drift clock.Drift, wait time.Duration) clockResult {
	if k.same { //mutant:a-clock-of-our-own-is-doubted
		return clockResult{counts: true}
	}
	rate, tolerance := drift.Rate(), drift.StepMax
	result := clockResult{counts: k.good}
	result.unwatched = k.ring.Begun && now.Received-k.ring.Latest > wait //mutant:watched-without-a-connection
	gain := k.ring.Gain(now, rate)                                       //mutant:a-clock-that-gains-is-not-seen
	if gain > tolerance {
		result.counts = false
		if asleep := own.Suspended() - k.slept; asleep > 0 {
			k.slept += asleep //mutant:a-suspension-excuses-several-gains
			k.ring.Sleep(asleep, rate)
			result.unwatched = result.unwatched || asleep > wait
			gain = k.ring.Gain(now, rate)
		}
	}
	if gain > tolerance {
		result.gain = gain + clock.Allowed(now.Received-k.ring.Latest, rate) // for people: what it has gained since it was last read
		result.before = k.ring.Latest
	}
	if result.gain > 0 || result.unwatched {
		k.ring, result.counts = clock.Ring{}, false
	}
	k.ring.Add(now, rate, wait)
	return result
}

// beat takes the reading of a heartbeat, which judge has judged. A suspension that has not shown by now
// is about something else: it must not excuse a gain to come.
func (k *clockGuard) beat(now clock.Reading, own *clock.Own, drift clock.Drift, wait time.Duration) {
	if k.same {
		return
	}
	k.slept = own.Suspended()                                     //mutant:a-suspension-excuses-a-later-gain
	if clock.WentBack(k.last, now, drift.Rate(), drift.StepMax) { //mutant:a-clock-set-back-lengthens-locks
		k.clamp = clamp{due: true, back: now.Received}
	}
	k.last = now
	wall := own.Reading(time.Now())
	k.ownGain = k.own.Gain(wall, 0)
	k.own.Add(wall, 0, wait)
}

// doubt takes the clock's votes here for one wait, and tells whether this is the first of several gains.
func (k *clockGuard) doubt(found clockResult, now time.Time, own *clock.Own, wait, heartbeat time.Duration) (first bool) {
	first = found.gain > 0 && k.gain == 0
	k.unnoted = k.unnoted || found.gain > 0
	k.good, k.until = false, now.Add(wait)
	switch {
	case first:
		k.gain, k.before, k.gained, k.logged = found.gain, found.before, own.At(now), false
		k.reason = clock.OutOfStep(k.gain)
	case k.gain == 0:
		k.reason = reasonUnwatched
	case found.gain > 0 && own.At(now)-k.gained > 2*heartbeat: // all have been asked since the last one that was added //mutant:gains-of-a-fast-clock-are-not-added
		k.gain, k.gained = k.gain+found.gain, own.At(now)
	}
	return first
}

// trust decides at the end of a heartbeat whether the clock is good: it was watched for one wait, or it is
// vouched for (noted, agrees). If it is not good, trust says why. It returns true if the votes count again.
// alone: this machine's clock agrees with too few masters. enough: so many are connected that their clocks
// can be compared.
func (k *clockGuard) trust(alone, enough bool, now time.Time, own *clock.Own, wait time.Duration) (again bool) {
	skew := (k.last.Offset.Low+k.last.Offset.High)/2 - own.Wall(now)
	k.began, k.asked, k.took, k.offset = k.ring.Began, k.last.Sent, k.last.Received-k.last.Sent, skew
	k.copied = k.ring
	watched := k.ring.Watched(k.last.Sent, wait)
	switch good := watched || k.gain == 0 && !k.noted && k.agrees; { //mutant:first-sight-of-a-clock-believed //mutant:a-clock-that-gained-is-vouched-for
	case good && !k.good:
		k.good, k.gain, k.skew, k.reason, k.logged, k.unnoted = true, 0, 0, "", false, false
		return true
	case good:
	case k.gain == 0:
		k.until = now.Add(wait - (k.last.Received - k.ring.Began))
		k.skew = skew
		switch {
		case !enough:
			k.skew, k.reason = 0, reasonUnwatched
		case alone:
			k.reason = fmt.Sprintf("this machine's clock agrees with too few masters (clock_skew_max); from this one's it differs by %v", clock.Roughly(-skew))
		case k.noted:
			k.reason = "another redlockd has seen its clock gain, and it has not been watched since for long enough"
		default:
			k.reason = fmt.Sprintf("its clock differs by %v from this machine's, or from too many others (clock_skew_max), and nobody has watched whether it stepped", clock.Roughly(skew))
		}
	}
	return false
}

const reasonUnwatched = "nobody has watched its clock yet, and too few others are connected to compare it with"
