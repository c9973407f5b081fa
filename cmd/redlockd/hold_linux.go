package main

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// steady is a clock that never steps, and goes on while the machine is suspended. Go's own stands still then.
func steady() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(os.NewSyscallError("clock_gettime", err)) // the command ends with us
	}
	return time.Duration(t.Nano())
}

// endWithUs has the kernel kill the command when the thread that starts it ends.
func endWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
