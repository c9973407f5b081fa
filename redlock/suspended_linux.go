package redlock

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended is how long the machine has been suspended since it was started. Go's clock, CLOCK_MONOTONIC, stands still then, and a lease must
// not: the masters' clocks go on.
func suspended() time.Duration {
	var running, all unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &running) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &all) != nil {
		return 0 // no such clocks: as outside Linux
	}
	return time.Duration(all.Nano() - running.Nano())
}
