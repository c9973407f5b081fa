package main

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sharpTimer sleeps to some ten microseconds. An idle Go program sleeps in whole milliseconds, since that is how epoll_wait
// counts; a timer of the kernel that epoll reports as readable has no such grain. Linux only. One goroutine at a time.
type sharpTimer struct {
	file *os.File
	raw  syscall.RawConn
	due  time.Time
	err  error
	wait func(fd uintptr) bool // a method value, made once
}

func newSharpTimer() (*sharpTimer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	s := &sharpTimer{file: os.NewFile(uintptr(fd), "timer")}
	s.wait = s.waitFd
	if s.raw, err = s.file.SyscallConn(); err != nil {
		s.file.Close()
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	return s, nil
}

// until returns at t, or at once when t is over, and an error when the timer was closed.
func (s *sharpTimer) until(t time.Time) error {
	s.due, s.err = t, nil
	if err := s.raw.Read(s.wait); err != nil {
		return err
	}
	if s.err != nil {
		return fmt.Errorf("set a timer: %w", s.err)
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
	s.err = unix.TimerfdSettime(int(fd), 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}, nil)
	return s.err != nil
}

func (s *sharpTimer) close() { s.file.Close() }
