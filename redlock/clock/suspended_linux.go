package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Suspended is how long the machine has been suspended since it was started. Go's clock,
// CLOCK_MONOTONIC, stands still then, and a lease must not: the masters' clocks go on.
func Suspended() time.Duration {
	var before, all, after unix.Timespec
	for range 10 {
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &before) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &all) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &after) != nil {
			return 0 // no such clocks: as outside Linux
		}
		if after.Nano()-before.Nano() < int64(100*time.Microsecond) { // else this thread had no CPU in between
			break
		}
	}
	return time.Duration(all.Nano() - before.Nano())
}
