package rawio

import (
	"syscall"
	"unsafe"
)

// rawCall makes the system call read(2) or write(2) without a word to the scheduler.
func rawCall(number, fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), errno
}
