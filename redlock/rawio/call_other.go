//go:build !linux

package rawio

import (
	"errors"
	"syscall"
)

// Elsewhere system calls belong to the C library: the ordinary way.
const (
	readCall = iota
	writeCall
)

func invoke(number, fd uintptr, b []byte) (n int, errno syscall.Errno) {
	var err error
	if number == readCall {
		n, err = syscall.Read(int(fd), b)
	} else {
		n, err = syscall.Write(int(fd), b)
	}
	errors.As(err, &errno)
	return n, errno
}
