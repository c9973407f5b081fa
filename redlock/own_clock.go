package redlock

import (
	"math"
	"sync/atomic"
	"time"
)

// ownClock is what the clocks of this machine say.
type ownClock struct {
	// zero is the zero of the durations that the masters' clocks are compared with.
	zero time.Time
	// faults changes what the clocks say, in tests; nil: nothing does.
	faults *clockFaults

	// slept is how long the machine had been suspended when look last found that it was, and woke when that was, by at. Both
	// are nanoseconds. woke is written first: who sees slept sees woke.
	slept, woke atomic.Int64
	// wallSeen is what wall said before slept and woke were last found right, in nanoseconds. It is written last.
	wallSeen atomic.Int64
}

// clockFaults are what may go wrong with the clocks of a machine. All are nanoseconds.
type clockFaults struct {
	stoodStill atomic.Int64 // how long the monotonic clock stood still; the wall clock, too, but for the time that the machine was suspended
	ahead      atomic.Int64 // how far the wall clock is ahead besides
	suspended  atomic.Int64 // how long the machine was suspended, as it says
}

// start sets the zero.
func (o *ownClock) start(now time.Time) {
	o.zero = now
	o.woke.Store(math.MinInt64)
	o.slept.Store(int64(o.suspended()))
	o.wallSeen.Store(int64(o.wall(now)))
}

// look finds out whether the machine was suspended. A suspension moves the wall clock against the monotonic one. NTP does so too, so the system
// is asked which it was. That takes three system calls: in every round they were a sixth of the CPU of one caller's LOCK.
func (o *ownClock) look() {
	const noise = time.Millisecond // all are differences of two clocks
	now := time.Now()
	wall := o.wall(now)
	if moved := wall - time.Duration(o.wallSeen.Load()); -noise < moved && moved < noise { //mutant:a-suspension-is-not-looked-for
		return
	}
	if total := o.suspended(); total > time.Duration(o.slept.Load())+noise {
		o.woke.Store(int64(o.at(time.Now()))) // later than now: it may have slept since
		o.slept.Store(int64(total))
	}
	o.wallSeen.Store(int64(wall))
}

// elapsed is how long a round has taken that is decided. If the machine may have been suspended meanwhile, it is at least
// as long as all suspensions together: the masters' clocks went on.
func (c *Client) elapsed(r *round, d *deferred) time.Duration {
	if !d.looked {
		c.own.look()
		d.looked = true
	}
	elapsed := d.now.Sub(r.start)
	if c.own.at(r.start) <= time.Duration(c.own.woke.Load()) { //mutant:granted-over-a-suspension
		elapsed += time.Duration(c.own.slept.Load())
	}
	return elapsed
}

// at is the time on the monotonic clock.
func (o *ownClock) at(t time.Time) time.Duration {
	at := t.Sub(o.zero)
	if o.faults != nil {
		at -= time.Duration(o.faults.stoodStill.Load())
	}
	return at
}

// wall is the difference between this machine's wall clock and at.
func (o *ownClock) wall(now time.Time) time.Duration {
	wall := time.Duration(now.UnixNano()) - o.at(now)
	if o.faults != nil {
		wall += time.Duration(o.faults.ahead.Load() + o.faults.suspended.Load() - o.faults.stoodStill.Load())
	}
	return wall
}

// reading is a reading of this machine's wall clock, which went on while the machine was suspended: that is no gain.
func (o *ownClock) reading(now time.Time) clockReading {
	at, wall := o.at(now), o.wall(now)-o.suspended() //mutant:a-suspension-counts-as-a-step
	return clockReading{sent: at, received: at, offset: interval{wall, wall}}
}

// date is what the wall clock says.
func (o *ownClock) date(now time.Time) time.Time {
	if o.faults != nil {
		now = now.Add(time.Duration(o.faults.ahead.Load()))
	}
	return now
}

// suspended is how long this machine has been suspended since it was started.
func (o *ownClock) suspended() time.Duration {
	if o.faults != nil {
		return time.Duration(o.faults.suspended.Load())
	}
	return suspended()
}
