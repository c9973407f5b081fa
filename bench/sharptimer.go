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
	file  *os.File
	raw   syscall.RawConn
	due   time.Time
	errno syscall.Errno
	wait  func(fd uintptr) bool // a method value, made once
}

func newSharpTimer() (*sharpTimer, error) {
	const clockMonotonic = 1
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, fmt.Errorf("make a timer: %w", errno)
	}
	s := &sharpTimer{file: os.NewFile(fd, "timer")}
	s.wait = s.waitFd
	var err error
	if s.raw, err = s.file.SyscallConn(); err != nil {
		s.file.Close()
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	return s, nil
}

// until returns at t, or at once when t is over, and an error when the timer was closed.
func (s *sharpTimer) until(t time.Time) error {
	s.due, s.errno = t, 0
	if err := s.raw.Read(s.wait); err != nil {
		return err
	}
	if s.errno != 0 {
		return fmt.Errorf("set a timer: %w", s.errno)
	}
	return nil
}

// waitFd sets the timer and returns false, which waits, until the time has come. It is set here and not before, for Read forgets what
// epoll has reported before. Nobody needs to read it: setting it anew does as well.
func (s *sharpTimer) waitFd(fd uintptr) bool {
	d := time.Until(s.due)
	if d <= 0 {
		return true
	}
	setting := struct{ interval, value syscall.Timespec }{value: syscall.NsecToTimespec(d.Nanoseconds())}
	_, _, s.errno = syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&setting)), 0, 0, 0)
	return s.errno != 0
}

func (s *sharpTimer) close() { s.file.Close() }
