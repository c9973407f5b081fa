package redlock

import (
	"fmt"
	"sync"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/quorum"
)

// What follows from the readings of package clock. All of it is local: two clocks out of step with each other do not say
// which of them is wrong. So a proxy that finds a gain stops counting that master's votes, for one wait, and a proxy whose
// own clock is wrong stops only itself. Nobody takes a vote for others because of a clock. What others must know who did
// not watch, a note tells (master_note.go).
//
// A master's clock is good, and its votes count, when it was watched or is vouched for:
//   - watched: this client has read it for one wait, and it has gained nothing (clock.Ring). Whatever it did before that
//     ended no lock early that may still be valid.
//   - vouched for: it agrees with our own wall clock and with a majority of clocks (vouched), and nobody has seen it
//     gain within the last wait, neither this client nor another one that has noted it on the master. So a client that
//     has just started does not have to watch for a wait.
//
// A clock that is good remains so until it gains: the ring watches it from then on.
//
// A suspension of this machine stops our monotonic clock, so all masters seem to gain. If CLOCK_BOOTTIME says that we
// were suspended for as long, the rings are moved past it, and nobody is doubted. That is enough: the masters' clocks
// are compared as if our clock had run on, every rate and tolerance included; the batch that showed the gain does not
// count; and a round that began before the suspension is not granted, whatever its votes (clock.Own.SleptSince). A suspension
// longer than a wait leaves a gap in which nobody watched, as a long time without a connection does: then the clocks
// have to be vouched for, or watched, again.

// clockGuard is the part of guard that is about the master's clock. Rules of ownership as for guard: what has no mutex
// named is used by the goroutine that reads the master's replies, of which there is one at a time.
type clockGuard struct {
	// same tells that the master uses this process's clock (Master.SameClock). There is nothing to compare then.
	same bool
	ring clock.Ring
	// last is the reading of the last heartbeat.
	last clock.Reading
	// slept is how long the machine had been suspended when the ring was last moved past that.
	slept time.Duration
	// own is our own wall clock, read with every heartbeat, and ownGain is by how much it has gained on our monotonic one within the last wait.
	own     clock.Ring
	ownGain time.Duration
	// unnoted tells that the master's clock has gained, and that the note of that is not written yet.
	unnoted bool
	// clamp tells that the clock went back, and keys live too long. cursor is how far SCAN has come.
	clamp  bool
	cursor uint64

	// lane.mu guards what follows.

	// good tells that votes count as far as the clock is concerned. Only the lane's goroutine changes it.
	good bool
	clockView
	// copied is ring as of the last heartbeat, for a copy from this master (member/copy.go), and copiedBeat guard.beat.
	copied     clock.Ring
	copiedBeat int64
	// reported is the gain that such a copy has seen, and the lane has not.
	reported clockResult
	// skew is how far the clock is ahead of our wall clock, where nobody vouches for it though enough masters are
	// connected; else 0.
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

func newClockGuard(f *fleet, m Master) clockGuard {
	return clockGuard{same: m.SameClock, good: m.SameClock, slept: f.own.Suspended()}
}

// clockResult is what a reading has found.
type clockResult struct {
	// counts tells that the votes of the batch count as far as the clock is concerned.
	counts bool
	// gain is by how much the clock has gained, beyond rate and tolerance; 0: it has not. before is when it was last asked for before that.
	gain, before time.Duration
	// unwatched tells that nobody watched for longer than a wait.
	unwatched bool
}

// judge judges one reading. After a gain the ring is a new one, so that a gain is found once.
func (k *clockGuard) judge(now clock.Reading, f *fleet) clockResult {
	if k.same { //mutant:a-clock-of-our-own-is-doubted
		return clockResult{counts: true}
	}
	rate, tolerance := f.drift.Rate(), f.drift.StepMax
	result := clockResult{counts: k.good}
	result.unwatched = k.ring.Begun && now.Received-k.ring.Latest > f.view.Load().wait //mutant:watched-without-a-connection
	gain := k.ring.Gain(now, rate)                                                     //mutant:a-clock-that-gains-is-not-seen
	if gain > tolerance {
		result.counts = false
		if asleep := f.own.Suspended() - k.slept; asleep > 0 {
			k.slept += asleep
			k.ring.Sleep(asleep, rate)
			result.unwatched = result.unwatched || asleep > f.view.Load().wait
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
	k.ring.Add(now, rate, f.view.Load().wait)
	return result
}

// beat takes the reading of a heartbeat, which judge has judged. A suspension that has not shown by now is about something
// else: it must not excuse a gain to come.
func (k *clockGuard) beat(now clock.Reading, f *fleet) {
	if k.same {
		return
	}
	k.slept = f.own.Suspended()                                                                      //mutant:a-suspension-excuses-a-later-gain
	if k.last != (clock.Reading{}) && clock.WentBack(k.last, now, f.drift.Rate(), f.drift.StepMax) { //mutant:a-clock-set-back-lengthens-locks
		k.clamp, k.cursor = true, 0
	}
	k.last = now
	own := f.own.Reading(time.Now())
	k.ownGain = k.own.Gain(own, 0)
	k.own.Add(own, 0, f.view.Load().wait)
}

// wallTable has the latest reading of every master's clock that is connected, for vouched.
type wallTable struct {
	mu     sync.Mutex // no other mutex is taken while it is held
	offset [MaxMasters]clock.Interval
	known  quorum.Mask
}

func (w *wallTable) set(master int, offset clock.Interval) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offset[master], w.known = offset, w.known.With(master)
}

func (w *wallTable) forget(master int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known &^= 1 << master
}

// vouched are the masters whose clock is vouched for. enough tells that so many are connected that all that agree
// with our clock could be.
func (f *fleet) vouched(now time.Time) (good quorum.Mask, enough bool) {
	w := &f.walls
	w.mu.Lock()
	defer w.mu.Unlock()
	n := f.view.Load().Count
	return clock.Vouched(f.own.Wall(now), w.offset[:], w.known, n, f.opts.ClockSkewMax), w.known.Count() >= quorum.Of(n)
}

// doubtClock takes the master's votes here, after a gain or a time in which nobody watched its clock. At the first of
// several gains, as a clock that runs too fast shows them, all masters are asked for their time: if all gained, this
// machine may have been paused.
func (l *lane) doubtClock(found clockResult) {
	k, f, now := &l.guard.clock, l.fleet, time.Now()
	l.mu.Lock()
	first := found.gain > 0 && k.gain == 0
	k.unnoted = k.unnoted || found.gain > 0
	if k.good || first {
		l.since = now
	}
	k.good, k.until = false, now.Add(f.view.Load().wait)
	switch {
	case first:
		k.gain, k.before, k.gained, k.logged = found.gain, found.before, f.own.At(now), false
		k.reason = clock.OutOfStep(k.gain)
	case k.gain == 0:
		k.reason = reasonUnwatched
	case found.gain > 0 && f.own.At(now)-k.gained > 2*f.opts.Heartbeat: // all have been asked since the last one that was added //mutant:gains-of-a-fast-clock-are-not-added
		k.gain, k.gained = k.gain+found.gain, f.own.At(now)
	}
	l.mu.Unlock()
	if first {
		l.client.audits.suspect()
		for _, other := range f.view.Load().masters {
			other.requestHeartbeat()
		}
	}
}

// gained tells the lane that another reading than its own has shown a gain of the clock. The next heartbeat acts on it.
func (l *lane) gained(gain, before time.Duration) {
	l.mu.Lock()
	l.guard.clock.reported = clockResult{gain: gain, before: before}
	l.mu.Unlock()
	l.requestHeartbeat()
}

const reasonUnwatched = "nobody has watched its clock yet, and too few others are connected to compare it with"

// trustClock decides, at the end of a heartbeat, whether the master's clock is good, and has those lanes look again whose
// masters' clocks this one vouches for. noted tells that somebody else has seen the clock gain: then it has to be watched.
func (l *lane) trustClock(noted bool) {
	k, f := &l.guard.clock, l.fleet
	if k.same {
		return
	}
	now := time.Now()
	f.walls.set(l.index, k.last.Offset)
	agreeing, enough := f.vouched(now)
	watched := k.ring.Watched(k.last.Sent, f.view.Load().wait)
	skew := (k.last.Offset.Low+k.last.Offset.High)/2 - f.own.Wall(now)

	l.mu.Lock()
	k.began, k.asked, k.took, k.offset = k.ring.Began, k.last.Sent, k.last.Received-k.last.Sent, skew
	k.noted, k.agrees, k.copied, k.copiedBeat = noted, agreeing.Has(l.index), k.ring, l.guard.beat
	switch good := watched || k.gain == 0 && !noted && agreeing.Has(l.index); { //mutant:first-sight-of-a-clock-believed //mutant:a-clock-that-gained-is-vouched-for
	case good && !k.good:
		k.good, k.gain, k.skew, k.reason, k.logged, k.unnoted = true, 0, 0, "", false, false
		l.since = now
	case good:
	case k.gain == 0:
		k.until = now.Add(f.view.Load().wait - (k.last.Received - k.ring.Began))
		k.skew, k.reason = 0, reasonUnwatched
		if enough {
			k.skew = skew
			k.reason = fmt.Sprintf("its clock differs by %v from this machine's, or from too many others (clock_skew_max), and nobody has watched whether it stepped", clock.Roughly(skew))
			if noted {
				k.reason = "another redlockd has seen its clock gain, and it has not been watched since for long enough"
			}
			if agreeing == 0 {
				k.reason = fmt.Sprintf("this machine's clock agrees with too few masters (clock_skew_max); from this one's it differs by %v", clock.Roughly(-skew))
			}
		}
	}
	l.mu.Unlock()
	for _, other := range f.view.Load().masters {
		if other != l && agreeing.Has(other.index) {
			other.recheckClock()
		}
	}
}

// recheckClock has the lane send a heartbeat if its master's clock might now be vouched for.
func (l *lane) recheckClock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := &l.guard.clock; !k.good && k.gain == 0 && !k.noted {
		l.heartbeatDue = true
		l.wake.Signal()
	}
}
