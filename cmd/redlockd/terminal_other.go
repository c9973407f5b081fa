//go:build !linux

package main

import "golang.org/x/sys/unix"

// As in terminal_linux.go.
const (
	termiosGet = unix.TIOCGETA
	termiosSet = unix.TIOCSETA
	noKey      = 0xff
)
