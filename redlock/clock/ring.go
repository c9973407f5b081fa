// Package clock says how far the clocks of masters and ours may part while a lock runs, and finds those
// that part further.
//
// A master's wall clock decides when its keys expire. If it gains on our monotonic clock, its keys end
// early, and a lock may be granted twice. Ring finds gains, purely: it is given readings of a master's
// TIME, and what our own clocks said. Own reads our own clocks. Validity and drift are arithmetic. What
// the engine does about a gain is its own affair (master_doubt.go).
//
// Invariant: a vote counts only if, since any moment up to one wait before it, the master's clock has
// gained on ours at most rate·(the time since) + tolerance (clock_step_max). DriftOf is no less than
// that for every TTL, so a key that has expired at the master belongs to a lock whose validity is over.
//
// All times here are durations since the zero of Own.
package clock

import (
	"fmt"
	"time"

	"redlockd/redlock/quorum"
)

// Interval is where the difference between a master's wall clock and our monotonic clock must lie.
type Interval struct{ Low, High time.Duration }

// Reading is one answer to TIME. A reply that takes long makes its interval wide, never wrong: slow
// networks and busy machines raise no false alarm.
type Reading struct {
	Sent, Received time.Duration
	Offset         Interval
}

// ReadingOf is the answer to TIME, master, of a command that was sent and whose reply was received at
// these times.
func ReadingOf(sent, received, master time.Duration) Reading {
	// TIME tells microseconds, cut off.
	return Reading{sent, received, Interval{master - received, master + time.Microsecond - sent}}
}

// ringSlots is how many slots a Ring has: eight cover one wait, and one is being filled.
const ringSlots = 9

// Ring remembers the lowest readings of one master's clock over the last wait, and compares every
// reading with all of them.
//
// A reading is kept as its level: what its offset would have been at the zero of our clock, had the
// master's clock run as fast as it may ever since. A clock within its rate never rises above the level
// of an earlier reading; so one comparison, with the lowest level, is a comparison with all readings in
// the ring, each with its own allowance.
//
// A reading never replaces a lower one before a wait has passed. Otherwise a clock could gain as much
// as the tolerance again and again, from one reading to the next: the more readings, the faster.
//
// A clock that goes back ends no key early. Its low level stays, so that the way forward is a gain.
type Ring struct {
	// begun tells that there is a reading.
	Begun bool
	// began is when the first reading was received: a step between asking and the answer is in that
	// answer, and nothing shows it. latest is when the last reading was asked for.
	Began, Latest time.Duration
	// slots hold the lowest level of the readings that began in an eighth of a wait. The oldest slot is
	// overwritten.
	slots  [ringSlots]ringSlot
	newest int
	// lowest is the lowest level of all slots.
	lowest time.Duration
}

// ringSlot is a part of a ring. Slots that were never used have a level that no reading is above.
type ringSlot struct {
	begin time.Duration
	level time.Duration
}

const levelNone = time.Duration(1<<63 - 1)

// Allowed is how far a clock may move against ours in that time, by its rate.
func Allowed(t time.Duration, rate float64) time.Duration { return time.Duration(float64(t) * rate) }

// Gain is by how much more the clock has gained than its rate allows, since the reading of the ring for
// which that is most. It counts as a gain if it is above the tolerance. 0 or less: it has gained
// nothing.
func (r *Ring) Gain(now Reading, rate float64) time.Duration {
	if !r.Begun {
		return 0
	}
	// The master answered between sent and received, and the rate may have moved its clock all that time.
	return now.Offset.Low - Allowed(now.Received, rate) - r.lowest
}

// Add puts a reading into the ring.
func (r *Ring) Add(now Reading, rate float64, wait time.Duration) {
	if !r.Begun {
		*r = Ring{Begun: true, Began: now.Received, lowest: levelNone} //mutant:watched-since-it-was-asked
		for i := range r.slots {
			r.slots[i].level = levelNone
		}
		r.slots[0].begin = now.Sent
	}
	level := now.Offset.High - Allowed(now.Sent, rate) //mutant:drift-between-asking-and-receiving-forgotten
	r.Latest = now.Sent
	if now.Sent-r.slots[r.newest].begin >= wait/(ringSlots-1) {
		r.newest = (r.newest + 1) % ringSlots
		r.slots[r.newest] = ringSlot{begin: now.Sent, level: level}
		r.lowest = levelNone //mutant:the-ring-forgets-before-a-wait-has-passed
		for _, slot := range r.slots {
			r.lowest = min(r.lowest, slot.level)
		}
	}
	slot := &r.slots[r.newest]
	slot.level = min(slot.level, level) //mutant:each-reading-is-a-new-anchor
	r.lowest = min(r.lowest, level)
}

// Sleep moves the ring past a suspension of this machine: for so long our clock stood still.
func (r *Ring) Sleep(asleep time.Duration, rate float64) {
	by := asleep + Allowed(asleep, rate)
	r.lowest += by
	for i := range r.slots {
		if r.slots[i].level != levelNone {
			r.slots[i].level += by
		}
	}
}

// Watched tells whether the ring goes back for a wait: since then nothing unseen can have happened.
func (r *Ring) Watched(now, wait time.Duration) bool { return r.Begun && now-r.Began >= wait }

// WentBack tells whether the clock went back between two readings, by more than rate and tolerance
// explain.
func WentBack(before, now Reading, rate float64, tolerance time.Duration) bool {
	return now.Offset.High < before.Offset.Low-Allowed(now.Received-before.Sent, rate)-tolerance
}

// Vouched tells which masters' clocks are vouched for: our own wall clock and theirs are among a
// majority, of our own and those of all n masters, that lie within skew of each other. Then they have
// not stepped while nobody watched, for a majority of machines does not step by the same amount at the
// same time. own is the offset of our own wall clock; masters are those whose clock is known, by place.
func Vouched(own time.Duration, masters []Interval, known quorum.Mask, n int, skew time.Duration) (good quorum.Mask) {
	// If clocks lie within skew of each other, they do so above one of these.
	within := func(from time.Duration) {
		var among quorum.Mask
		for i, m := range masters {
			if known.Has(i) && m.High >= from && m.Low <= from+skew {
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
			within(m.High)
		}
	}
	return good
}

// OutOfStep says, for people, that a clock has gained so much.
func OutOfStep(gain time.Duration) string {
	return fmt.Sprintf("its clock gained %v on this machine's: it stepped, or this machine was paused", Roughly(gain))
}

// Roughly is a difference of clocks for people.
func Roughly(d time.Duration) time.Duration {
	if d.Abs() > time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
