package rawio

import (
	"syscall"
	"unsafe"
)

const (
	readCall  = syscall.SYS_READ
	writeCall = syscall.SYS_WRITE
)

func invoke(number, fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), errno
}
