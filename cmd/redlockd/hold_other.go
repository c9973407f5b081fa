//go:build !linux

package main

import (
	"syscall"
	"time"
)

var began = time.Now()

// steady is a clock that never steps. While the machine is suspended it stands still, as Go's clock does outside Linux: the command
// may run on after such a time, until the masters are asked again.
func steady() time.Duration { return time.Since(began) }

// endWithUs does nothing: when redlockd is killed here, nobody tells the command.
func endWithUs(*syscall.SysProcAttr) {}
