package clock

import (
	"math"
	"sync/atomic"
	"time"
)

// Own is what the clocks of this machine say.
type Own struct {
	// zero is the zero of the durations that the masters' clocks are compared with.
	Zero time.Time
	// faults changes what the clocks say, in tests; nil: nothing does.
	Faults *Faults

	// slept is how long the machine had been suspended when look last found that it was, and woke when
	// that was, by at. Both are nanoseconds. woke is written first: who sees slept sees woke.
	slept, Woke atomic.Int64
	// wallSeen is what wall said before slept and woke were last found right, in nanoseconds. It is
	// written last.
	wallSeen atomic.Int64
}

// Faults are what may go wrong with the clocks of a machine. All are nanoseconds.
type Faults struct {
	StoodStill atomic.Int64 // how long the monotonic clock stood still; the wall clock, too, but for the time that the machine was suspended
	Ahead      atomic.Int64 // how far the wall clock is ahead besides
	Suspended  atomic.Int64 // how long the machine was suspended, as it says
	StandsAt   atomic.Int64 // where the monotonic clock stands still, and the wall clock with it; 0: it runs
}

// Start sets the zero.
func (o *Own) Start(now time.Time) {
	o.Zero = now
	o.Woke.Store(math.MinInt64)
	o.slept.Store(int64(o.Suspended()))
	o.wallSeen.Store(int64(o.Wall(now)))
}

// Look finds out whether the machine was suspended. A suspension moves the wall clock against the
// monotonic one. NTP does so too, so the system is asked which it was. That takes three system calls:
// in every round they were a sixth of the CPU of one caller's LOCK.
func (o *Own) Look() {
	const noise = time.Millisecond // all are differences of two clocks
	now := time.Now()
	wall := o.Wall(now)
	if moved := wall - time.Duration(o.wallSeen.Load()); -noise < moved && moved < noise { //mutant:a-suspension-is-not-looked-for
		return
	}
	if total := o.Suspended(); total > time.Duration(o.slept.Load())+noise {
		o.Woke.Store(int64(o.At(time.Now()))) // later than now: it may have slept since
		o.slept.Store(int64(total))
	}
	o.wallSeen.Store(int64(wall))
}

// SleptSince is for how long the machine was suspended, if it may have been since that moment: as long
// as all suspensions together. look must have been called after it.
func (o *Own) SleptSince(t time.Time) time.Duration {
	if o.At(t) <= time.Duration(o.Woke.Load()) { //mutant:granted-over-a-suspension
		return time.Duration(o.slept.Load())
	}
	return 0
}

// At is the time on the monotonic clock.
func (o *Own) At(t time.Time) time.Duration {
	at := t.Sub(o.Zero)
	if o.Faults != nil {
		at -= time.Duration(o.Faults.StoodStill.Load())
		if stands := o.Faults.StandsAt.Load(); stands != 0 {
			at = min(at, time.Duration(stands))
		}
	}
	return at
}

// Wall is the difference between this machine's wall clock and at.
func (o *Own) Wall(now time.Time) time.Duration {
	if o.Faults == nil {
		return time.Duration(now.UnixNano()) - o.At(now)
	}
	return time.Duration(now.UnixNano()) - now.Sub(o.Zero) + time.Duration(o.Faults.Ahead.Load()+o.Faults.Suspended.Load()) // it stands still with the other
}

// Reading is a reading of this machine's wall clock, which went on while the machine was suspended:
// that is no gain.
func (o *Own) Reading(now time.Time) Reading {
	at, wall := o.At(now), o.Wall(now)-o.Suspended() //mutant:a-suspension-counts-as-a-step
	return Reading{Sent: at, Received: at, Offset: Interval{wall, wall}}
}

// ReadingOf is the answer to TIME, master, of a command that was sent and whose reply was received at
// these times.
func (o *Own) ReadingOf(sent, received, master time.Time) Reading {
	return ReadingOf(o.At(sent), o.At(received), time.Duration(master.UnixNano()))
}

// Date is what the wall clock says.
func (o *Own) Date(now time.Time) time.Time {
	if o.Faults != nil {
		now = now.Add(time.Duration(o.Faults.Ahead.Load()))
	}
	return now
}

// Suspended is how long this machine has been suspended since it was started.
func (o *Own) Suspended() time.Duration {
	if o.Faults != nil {
		return time.Duration(o.Faults.Suspended.Load())
	}
	return Suspended()
}
