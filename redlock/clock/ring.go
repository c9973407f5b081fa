// Package clock says how far the clocks of masters and ours may part while a lock runs, and finds those
// that part further.
//
// A master's wall clock decides when its keys expire. If it gains on our monotonic clock, its keys end
// early, and a lock may be granted twice. Ring finds gains, purely: it is given readings of a master's
// TIME, and what our own clocks said. Own reads our own clocks. Padding and waits are arithmetic
// (validity.go). What the engine does about a gain is its own affair (master_clock.go).
//
// Invariant: a vote at t counts only if for any moments s before u before t, s no longer ago than one
// wait, the master's clock has gained on ours from s to u at most rate·(t-s) + tolerance
// (clock_step_max). A key that was set at s and belongs to a lock that is valid at t was padded by more
// than that (DriftOf), so it stands at t.
//
// So a gain costs votes in proportion, because what it can have ended early is over the sooner the
// smaller the gain was: for (gain-tolerance)/rate, and never for longer than a wait. Gains of one wait
// add up, whether they come at once or one by one.
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

// ringSlots is how many slots a Ring has: all but one cover one wait, and one is being filled.
const ringSlots = 33

// Ring remembers the readings of one master's clock over the last wait, as far as they say by how much
// it has gained, and compares every reading with all of them.
//
// A reading is kept as its level: what its offset would have been at the zero of our clock, had the
// master's clock run as fast as it may since the next reading. A clock within its rate never rises above
// the level of an earlier reading; so one comparison, with the lowest level, is a comparison with all
// readings in the ring, each with its own allowance. It begins with the next reading, because a key may
// have been set until then; the last reading has none.
//
// A reading never replaces a lower one before a wait has passed. Otherwise a clock could gain as much
// as the tolerance again and again, from one reading to the next: the more readings, the faster.
//
// A clock that goes back ends no key early. Its low level stays, so that the way forward is a gain; and
// so does what it has gained before it went back, for that has ended keys.
type Ring struct {
	// Begun tells that there is a reading.
	Begun bool
	// Began is when the first reading was received: a step between asking and the answer is in that
	// answer, and nothing shows it. Latest is when the last reading was asked for.
	Began, Latest time.Duration
	// complete: somebody vouches for all that was before the first reading.
	complete bool
	// last is the highest offset of the last reading, which has no level yet.
	last time.Duration
	// least is the lowest of these since the first reading, and plain the most by which an offset was above
	// an earlier one, without any allowance.
	least, plain time.Duration
	// slots hold the readings that began in the same part of a wait. They are forgotten when the last one is
	// older than a wait.
	slots  [ringSlots]ringSlot
	newest int
	// lowest is the lowest level of all slots, and gained the most by which an offset was above an earlier
	// level: what gain is reckoned from.
	lowest, gained time.Duration
}

// ringSlot is a part of a ring.
type ringSlot struct {
	// begin is when its first reading was asked for, and latest when the last one was received, until which
	// a key may have been set.
	begin, latest time.Duration
	// level is the lowest level, and gained the most by which an offset was above an earlier level of this
	// slot. highest is the highest offset.
	level, gained, highest time.Duration
}

const levelNone = time.Duration(1 << 62)

// slotNone was never used: no reading is above its level, and its offset is above no level.
var slotNone = ringSlot{level: levelNone, gained: -levelNone, highest: -levelNone}

// Allowed is how far a clock may move against ours in that time, by its rate.
func Allowed(t time.Duration, rate float64) time.Duration { return time.Duration(float64(t) * rate) }

// Gain is by how much more the clock has gained than its rate allows by now, since the reading of the
// ring, and until the one, for which that is most. It counts as a gain if it is above the tolerance. 0
// or less: it has gained nothing.
func (r *Ring) Gain(now Reading, rate float64) time.Duration {
	if !r.Begun {
		return 0
	}
	return max(now.Offset.Low-r.last, now.Offset.Low-r.lowest-Allowed(now.Received, rate), r.gained-Allowed(now.Received, rate)) //mutant:a-clock-that-goes-back-is-forgiven-what-it-gained
}

// Add puts a reading into the ring.
func (r *Ring) Add(now Reading, rate float64, wait time.Duration) {
	if !r.Begun {
		*r = Ring{Begun: true, Began: now.Received, last: levelNone, least: levelNone, lowest: levelNone, gained: -levelNone} //mutant:watched-since-it-was-asked
		for i := range r.slots {
			r.slots[i] = slotNone
		}
		r.slots[0].begin, r.Latest = now.Sent, now.Sent
	}
	if now.Sent-r.slots[r.newest].begin >= wait/(ringSlots-1) {
		r.newest = (r.newest + 1) % ringSlots
		r.slots[r.newest] = slotNone
		r.slots[r.newest].begin = now.Sent
		for i := range r.slots {
			if slot := &r.slots[i]; slot.level != levelNone && now.Sent-slot.latest > wait { //mutant:the-ring-forgets-before-a-wait-has-passed
				*slot = slotNone
			}
		}
		r.sum()
	}
	slot := &r.slots[r.newest]
	slot.latest = now.Received                                              //mutant:forgotten-since-the-reading-was-asked
	if level := r.last - Allowed(now.Received, rate); r.last != levelNone { //mutant:a-reading-allows-before-the-next-one
		slot.level = min(slot.level, level) //mutant:each-reading-is-a-new-anchor
		r.lowest = min(r.lowest, level)
	}
	slot.gained = max(slot.gained, now.Offset.Low-slot.level)
	r.gained = max(r.gained, now.Offset.Low-r.lowest)
	slot.highest = max(slot.highest, now.Offset.Low)
	r.plain, r.least = max(r.plain, now.Offset.Low-r.least), min(r.least, now.Offset.High)
	r.last, r.Latest = now.Offset.High, max(r.Latest, now.Sent)
}

// sum reckons lowest and gained from the slots, from the oldest to the newest.
func (r *Ring) sum() {
	r.lowest, r.gained = levelNone, -levelNone
	for i := range r.slots {
		slot := &r.slots[(r.newest+1+i)%ringSlots]
		r.gained = max(r.gained, slot.gained, slot.highest-r.lowest)
		r.lowest = min(r.lowest, slot.level)
	}
}

// Sleep moves the ring past a suspension of this machine: for so long our clock stood still.
func (r *Ring) Sleep(asleep time.Duration, rate float64) {
	drift := Allowed(asleep, rate)
	for i := range r.slots {
		if slot := &r.slots[i]; slot.level != levelNone {
			slot.level += asleep + drift
			slot.highest += asleep
			slot.gained -= drift
		}
	}
	r.last += asleep + drift
	r.least += asleep
	r.sum()
}

// Plain is what the clock has gained since the first reading of the ring, without any allowance.
func (r *Ring) Plain() time.Duration { return r.plain }

// Inherit takes over the watch of another client, which vouches for the time before the first reading and
// for a while after it, and has seen the clock gain so much. Gains add up over the joint. For the time in
// which both have watched, only the other one's rate is allowed for.
func (r *Ring) Inherit(gain time.Duration, now Reading, rate float64, wait time.Duration) {
	gain += r.plain //mutant:both-watches-allow-for-the-same-time
	*r = Ring{}
	r.Add(now, rate, wait)
	slot := &r.slots[r.newest]
	slot.level = now.Offset.Low - Allowed(now.Received, rate) - gain //mutant:a-gain-is-not-handed-over
	slot.gained = now.Offset.Low - slot.level
	r.complete = true
	r.sum()
}

// Vouch says that the time before the first reading does not matter.
func (r *Ring) Vouch() { r.complete = true }

// Watched tells whether the ring goes back for a wait, or somebody vouches for the time before: since
// then nothing unseen can have happened.
func (r *Ring) Watched(now, wait time.Duration) bool {
	return r.Begun && (r.complete || now-r.Began >= wait)
}

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
