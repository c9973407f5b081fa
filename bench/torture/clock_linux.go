package main

import "golang.org/x/sys/unix"

// monotonic is CLOCK_MONOTONIC in nanoseconds: the one clock of the machine, which Python's time.monotonic_ns and Node's
// process.hrtime.bigint read, too. It never steps.
func monotonic() int64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}
