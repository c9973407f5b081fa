package redlock

import (
	"time"

	"redlockd/redlock/quorum"
)

// A master's wall clock decides when its keys expire. If it gains on our monotonic clock, its keys end early, and a
// lock may be granted twice. This file finds gains, and judges clocks, purely: it is given readings of a master's
// TIME, and what our own clocks said. master_doubt.go does what follows from it.
//
// Invariant: a vote counts only if, since any moment up to one wait before it, the master's clock has gained on ours at
// most rate·(the time since) + tolerance (clock_step_max). driftOf is no less than that for every TTL, so a key that
// has expired at the master belongs to a lock whose validity is over.
//
// All times here are durations since the zero of ownClock.

// interval is where the difference between a master's wall clock and our monotonic clock must lie.
type interval struct{ low, high time.Duration }

// clockReading is one answer to TIME. A reply that takes long makes its interval wide, never wrong: slow networks and busy
// machines raise no false alarm.
type clockReading struct {
	sent, received time.Duration
	offset         interval
}

func clockReadingOf(sent, received, master time.Duration) clockReading {
	// TIME tells microseconds, cut off.
	return clockReading{sent, received, interval{master - received, master + time.Microsecond - sent}}
}

// clockSlots is how many slots a clockRing has: eight cover one wait, and one is being filled.
const clockSlots = 9

// clockRing remembers the lowest readings of one master's clock over the last wait, and compares every reading with
// all of them.
//
// A reading is kept as its level: what its offset would have been at the zero of our clock, had the master's clock run
// as fast as it may ever since. A clock within its rate never rises above the level of an earlier reading; so one
// comparison, with the lowest level, is a comparison with all readings in the ring, each with its own allowance.
//
// A reading never replaces a lower one before a wait has passed. Otherwise a clock could gain as much as the tolerance
// again and again, from one reading to the next: the more readings, the faster.
//
// A clock that goes back ends no key early. Its low level stays, so that the way forward is a gain.
type clockRing struct {
	// begun tells that there is a reading.
	begun bool
	// began is when the first reading was received: a step between asking and the answer is in that answer, and nothing shows it. latest is
	// when the last reading was asked for.
	began, latest time.Duration
	// slots hold the lowest level of the readings that began in an eighth of a wait. The oldest slot is overwritten.
	slots  [clockSlots]clockSlot
	newest int
	// lowest is the lowest level of all slots.
	lowest time.Duration
}

// clockSlot is a part of a ring. Slots that were never used have a level that no reading is above.
type clockSlot struct {
	begin time.Duration
	level time.Duration
}

const levelNone = time.Duration(1<<63 - 1)

// allowed is how far a clock may move against ours in that time, by its rate.
func allowed(t time.Duration, rate float64) time.Duration { return time.Duration(float64(t) * rate) }

// gain is by how much more the clock has gained than its rate allows, since the reading of the ring for which that is
// most. It counts as a gain if it is above the tolerance. 0 or less: it has gained nothing.
func (r *clockRing) gain(now clockReading, rate float64) time.Duration {
	if !r.begun {
		return 0
	}
	// The master answered between sent and received, and the rate may have moved its clock all that time.
	return now.offset.low - allowed(now.received, rate) - r.lowest
}

// add puts a reading into the ring.
func (r *clockRing) add(now clockReading, rate float64, wait time.Duration) {
	if !r.begun {
		*r = clockRing{begun: true, began: now.received, lowest: levelNone} //mutant:watched-since-it-was-asked
		for i := range r.slots {
			r.slots[i].level = levelNone
		}
		r.slots[0].begin = now.sent
	}
	level := now.offset.high - allowed(now.sent, rate) //mutant:drift-between-asking-and-receiving-forgotten
	r.latest = now.sent
	if now.sent-r.slots[r.newest].begin >= wait/(clockSlots-1) {
		r.newest = (r.newest + 1) % clockSlots
		r.slots[r.newest] = clockSlot{begin: now.sent, level: level}
		r.lowest = levelNone //mutant:the-ring-forgets-before-a-wait-has-passed
		for _, slot := range r.slots {
			r.lowest = min(r.lowest, slot.level)
		}
	}
	slot := &r.slots[r.newest]
	slot.level = min(slot.level, level) //mutant:each-reading-is-a-new-anchor
	r.lowest = min(r.lowest, level)
}

// sleep moves the ring past a suspension of this machine: for so long our clock stood still.
func (r *clockRing) sleep(asleep time.Duration, rate float64) {
	by := asleep + allowed(asleep, rate)
	r.lowest += by
	for i := range r.slots {
		if r.slots[i].level != levelNone {
			r.slots[i].level += by
		}
	}
}

// watched tells whether the ring goes back for a wait: since then nothing unseen can have happened.
func (r *clockRing) watched(now, wait time.Duration) bool { return r.begun && now-r.began >= wait }

// wentBack tells whether the clock went back between two readings, by more than rate and tolerance explain.
func wentBack(before, now clockReading, rate float64, tolerance time.Duration) bool {
	return now.offset.high < before.offset.low-allowed(now.received-before.sent, rate)-tolerance
}

// vouched tells which masters' clocks are vouched for: our own wall clock and theirs are among a majority, of our own and
// those of all n masters, that lie within skew of each other. Then they have not stepped while nobody watched, for a
// majority of machines does not step by the same amount at the same time. own is the offset of our own wall clock;
// masters are those whose clock is known, by place.
func vouched(own time.Duration, masters []interval, known quorum.Mask, n int, skew time.Duration) (good quorum.Mask) {
	// If clocks lie within skew of each other, they do so above one of these.
	within := func(from time.Duration) {
		var among quorum.Mask
		for i, m := range masters {
			if known.Has(i) && m.high >= from && m.low <= from+skew {
				among = among.With(i)
			}
		}
		if own >= from && own <= from+skew && 2*(among.Count()+1) > n+1 { //mutant:clocks-vouched-for-by-a-minority
			good |= among
		}
	}
	within(own)
	for i, m := range masters {
		if known.Has(i) {
			within(m.high)
		}
	}
	return good
}
