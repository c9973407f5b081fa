package run

import (
	"syscall"
)

// endWithUs has the kernel kill the command when the thread that starts it ends.
func endWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
