package main

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// sharpTimer sleeps to some ten microseconds. An idle Go program sleeps in whole milliseconds, since that is how epoll_wait
// counts; a timer of the kernel that epoll reports as readable has no such grain. Linux only. One goroutine at a time.
type sharpTimer struct {
	fd   int
	file *os.File
	buf  [8]byte
}

func newSharpTimer() (*sharpTimer, error) {
	const clockMonotonic = 1
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, fmt.Errorf("make a timer: %w", errno)
	}
	return &sharpTimer{fd: int(fd), file: os.NewFile(fd, "timer")}, nil
}

// until returns at t, or at once when t is over, and an error when the timer was closed.
func (s *sharpTimer) until(t time.Time) error {
	d := time.Until(t)
	if d <= 0 {
		return nil
	}
	setting := struct{ interval, value syscall.Timespec }{value: syscall.NsecToTimespec(d.Nanoseconds())}
	if _, _, errno := syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, uintptr(s.fd), 0, uintptr(unsafe.Pointer(&setting)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("set a timer: %w", errno)
	}
	_, err := s.file.Read(s.buf[:])
	return err
}

func (s *sharpTimer) close() { s.file.Close() }
