package redlock

import (
	"time"

	"redlockd/redlock/clock"
)

// What the readings of a master's clock say of its votes. All of it is local: two clocks out of step
// with each other do not say which of them is wrong. So a proxy whose own clock is wrong stops only
// itself.
//
// A master's votes count as far as its clock is concerned if it is in step, which the ring of all
// readings of the last wait tells (clock.Ring), and if somebody vouches for the time before the ring
// (master_trust.go).
//
// A gain costs votes in proportion, and the ring forgets it. It need not last for so long: with the
// reading that shows the gain a second ring begins, the fresh one. Where somebody vouches for the time
// before that, it takes the place of the other.
//
// A suspension of this machine stops our monotonic clock, so all masters seem to gain. If
// CLOCK_BOOTTIME says that we were suspended for as long, the rings are moved past it, and nobody is
// doubted. That is enough: the masters' clocks are compared as if our clock had run on, every rate and
// tolerance included; the batch that showed the gain does not count; and a round that began before the
// suspension is not granted, whatever its votes (clock.Own.SleptSince). A suspension longer than a wait
// leaves a gap in which nobody watched, as a long time without a connection does: then somebody has to
// vouch for the clocks again.
//
// A pause of this machine that nobody tells of shows as a gain of all masters, and is taken for one.
// Others that were not paused vouch for their clocks.

// clockGuard is the part of guard that is about the master's clock. Rules of ownership as for guard:
// what has no mutex named is used by the goroutine that reads the master's replies, of which there is
// one at a time.
type clockGuard struct {
	// same tells that the master uses this process's clock (Master.SameClock). There is nothing to compare
	// then.
	same bool
	// ring has the readings of the last wait. Somebody vouches for the time before it; not begun: nobody
	// does.
	ring clock.Ring
	// fresh has the readings since the clock was found out of step, or the first one, until somebody
	// vouches for the time before it.
	fresh clock.Ring
	// inStep tells that ring has begun, and shows no gain by now; gain is what it does show.
	inStep bool
	gain   time.Duration
	// last is the reading of the last heartbeat.
	last clock.Reading
	// slept is how long the machine had been suspended when the rings were last moved past that.
	slept time.Duration
	// clamp is due when the clock went back, and keys live too long.
	clamp clamp
	trusting

	// lane.mu guards what follows.

	// good tells that votes count as far as the clock is concerned. Only the lane's goroutine changes it.
	good bool
	clockView
	// copied is ring as of the last heartbeat, or fresh where the clock is not good, for a copy
	// (member/copying), and copiedBeat guard.beat.
	copied     clock.Ring
	copiedBeat int64
	// reported are readings of a copy that the lane has not seen, and that show a gain.
	reported []clock.Reading
	// until is the end of the doubt, unless somebody vouches for the clock earlier.
	until time.Time
	// reason is why the clock is not good; logged tells that the log has it.
	reason string
	logged bool
}

// clockView is what a lane knows of its master's clock, on our monotonic clock.
type clockView struct {
	// gained is by how much the clock had gained when it was last found out of step; 0: it was not, or is in
	// step again. It did between before, when it had last been read before that, and found, which stay.
	gained        time.Duration
	before, found time.Duration
	// began is since when the clock has been read and shown no gain; asked is when the last heartbeat
	// asked for it, and took how long the answer took.
	began, asked, took time.Duration
	// offset is how far the clock was ahead of our wall clock then.
	offset time.Duration
	// wall is what that heartbeat read. known tells that the master is connected since.
	wall  clock.Interval
	known bool
	// agrees tells that it agreed with ours and with a majority of clocks.
	agrees bool
	// vouched tells that somebody vouches for the time before the ring, and that it was in step.
	vouched bool
	// watched tells that another client states there whether the clock is in step.
	watched bool
	// ownGain is by how much our own wall clock has gained on our monotonic one within the last wait.
	ownGain time.Duration
	// skew is how far the clock is ahead of our wall clock, where that is why it is not good; else 0.
	skew time.Duration
}

func newClockGuard(own *clock.Own, same bool) clockGuard {
	return clockGuard{same: same, good: same, slept: own.Suspended()}
}

// clockResult is what a reading has found.
type clockResult struct {
	// counts tells that the votes of the batch count as far as the clock is concerned.
	counts bool
	// gain is by how much the clock has gained, where it was in step until now; 0: it still is, or was not.
	// before is when it was last asked for before that.
	gain, before time.Duration
	// unwatched tells that nobody watched for longer than a wait.
	unwatched bool
}

// judge judges one reading.
func (k *clockGuard) judge(now clock.Reading, own *clock.Own, drift clock.Drift, wait time.Duration) (result clockResult) {
	if k.same { //mutant:a-clock-of-our-own-is-doubted
		return clockResult{counts: true}
	}
	rate, asleep := drift.Rate(), time.Duration(0)
	gain, fresh := k.ring.Gain(now, rate), k.fresh.Gain(now, rate) //mutant:a-clock-that-gains-is-not-seen
	if max(gain, fresh) > drift.StepMax {
		if asleep = own.Suspended() - k.slept; asleep > 0 {
			k.slept += asleep //mutant:a-suspension-excuses-several-gains
			k.ring.Sleep(asleep, rate)
			k.fresh.Sleep(asleep, rate)
			gain, fresh = k.ring.Gain(now, rate), k.fresh.Gain(now, rate)
		}
	}
	for _, r := range []*clock.Ring{&k.ring, &k.fresh} {
		if r.Begun && (asleep > wait || now.Received-r.Latest > wait) { //mutant:watched-without-a-connection
			*r = clock.Ring{}
			result.unwatched = k.good
		}
	}
	counted := k.good || k.inStep
	k.gain = gain
	k.inStep = k.ring.Begun && gain <= drift.StepMax
	result.counts = k.good && k.inStep && asleep <= 0
	if counted && k.ring.Begun && !k.inStep {
		result.gain = gain + clock.Allowed(now.Received-k.ring.Latest, rate) // for people: what it has gained since it was last read
		result.before = k.ring.Latest
	}
	if k.ring.Begun {
		k.ring.Add(now, rate, wait)
	}
	switch {
	case !k.fresh.Begun:
	case fresh > drift.StepMax:
		k.fresh, k.first = clock.Ring{}, 0
	default:
		k.fresh.Add(now, rate, wait)
	}
	return result
}

// beat takes the reading of a heartbeat, which judge has judged. A suspension that has not shown by now
// is about something else: it must not excuse a gain to come.
func (k *clockGuard) beat(now clock.Reading, own *clock.Own, drift clock.Drift) {
	if k.same {
		return
	}
	k.slept = own.Suspended()                                   //mutant:a-suspension-excuses-a-later-gain
	if clock.WentBack(k.last, now, drift.Rate(), clock.Noise) { //mutant:a-clock-set-back-lengthens-locks
		k.clamp = clamp{due: true, back: now.Received}
	}
	k.last = now
}

// doubt has the clock's votes count no more, and tells whether that is because of a gain.
func (k *clockGuard) doubt(found clockResult, now time.Time, own *clock.Own, drift clock.Drift, wait time.Duration) (gained bool) {
	k.good, k.logged, k.gained, k.reason = false, false, 0, reasonUnwatched
	if found.gain > 0 {
		k.gained, k.before, k.found = found.gain, found.before, own.At(now)
		k.reason = clock.OutOfStep(k.gained)
	}
	k.until = now.Add(k.left(drift, wait))
	return found.gain > 0
}

// left is how long the clock's votes do not count at most, from the last reading on.
func (k *clockGuard) left(drift clock.Drift, wait time.Duration) time.Duration {
	if k.ring.Begun {
		return min(max(0, wait-(k.last.Received-k.found)), time.Duration(float64(max(0, k.gain-drift.StepMax))/drift.Rate()))
	}
	if k.fresh.Begun {
		return wait - (k.last.Received - k.fresh.Began)
	}
	return wait
}

const reasonUnwatched = "nobody has watched its clock yet, and too few others are connected to compare it with"
