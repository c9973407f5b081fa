package redlock

import "time"

// A master's wall clock decides when its keys expire, so a step of it lengthens or shortens every lock it
// holds. This file finds steps, purely: it is given the master's TIME and when, on our monotonic clock, it was
// asked for and received.

// interval is where the difference between a master's wall clock and our monotonic clock must lie.
type interval struct{ low, high time.Duration }

func (i interval) widen(by time.Duration) interval { return interval{i.low - by, i.high + by} }

func (i interval) intersect(j interval) (interval, bool) {
	both := interval{max(i.low, j.low), min(i.high, j.high)}
	return both, both.low <= both.high
}

// clockTrack follows the clock of one master. A reply that takes long makes the interval it gives wide, never
// wrong: slow networks and busy machines raise no false alarm.
type clockTrack struct {
	known  bool
	offset interval
	at     time.Duration // when the last sample was asked for, on our clock: the reading is no older
}

// sample takes a reading of the master's clock. It returns by how much the clock has stepped since the last
// one, beyond what a rate difference and the tolerance explain: 0 when it is in step. After a step the track
// starts over.
func (c *clockTrack) sample(sent, received, master time.Duration, rate float64, tolerance time.Duration) (step time.Duration) {
	// TIME tells microseconds, cut off.
	seen := interval{master - received, master + time.Microsecond - sent}
	defer func() { c.known, c.at = true, sent }() //mutant:drift-between-asking-and-receiving-forgotten
	if !c.known {
		c.offset = seen
		return 0
	}
	expected := c.offset.widen(time.Duration(float64(received-c.at) * rate))
	switch tolerated := expected.widen(tolerance); {
	case seen.low > tolerated.high: //mutant:step-forward-not-seen
		step = seen.low - expected.high
	case seen.high < tolerated.low: //mutant:step-backward-not-seen
		step = seen.high - expected.low
	}
	if narrowed, ok := seen.intersect(expected); ok {
		c.offset = narrowed
	} else {
		c.offset = seen
	}
	return step
}
