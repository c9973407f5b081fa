package main

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// steady is a clock that never steps, and goes on while the machine is suspended. Go's own stands still then.
func steady() time.Duration {
	const clockBoottime = 7
	var t syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		panic(os.NewSyscallError("clock_gettime", errno)) // the command ends with us
	}
	return time.Duration(t.Nano())
}

// endWithUs has the kernel kill the command when the thread that starts it ends.
func endWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
