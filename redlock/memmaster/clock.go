package memmaster

import "time"

// clock is a master's wall clock. It starts in step with the process's and from then on follows the
// process's monotonic clock, so that a step of the host's wall clock moves no embedded master: only
// step and setRate do.
type clock struct {
	// origin is when wall and ppm were last set, by the process's monotonic clock.
	origin time.Time
	// wall is what the master's clock said then, in nanoseconds since the Unix epoch.
	wall int64
	// ppm is how much faster than the process's monotonic clock it runs, in millionths.
	ppm float64
}

func newClock(now time.Time) clock {
	return clock{origin: now, wall: now.UnixNano()}
}

// at is what the master's clock says at the process's time now, in nanoseconds since the Unix epoch.
func (k *clock) at(now time.Time) int64 {
	elapsed := now.Sub(k.origin)
	return k.wall + int64(elapsed) + int64(float64(elapsed)*k.ppm/1e6)
}

// step moves the clock at once.
func (k *clock) step(d time.Duration) { k.wall += int64(d) }

// setRate changes how fast the clock runs from now on. What it says now stays.
func (k *clock) setRate(now time.Time, ppm float64) {
	k.wall, k.origin, k.ppm = k.at(now), now, ppm
}
