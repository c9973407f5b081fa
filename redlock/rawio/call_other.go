//go:build !linux

package rawio

import "syscall"

// rawCall is the ordinary way: elsewhere system calls belong to the C library.
func rawCall(number, fd uintptr, b []byte) (int, syscall.Errno) { return plainCall(number, fd, b) }
