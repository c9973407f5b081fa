//go:build !linux

package client

import "golang.org/x/sys/unix"

// As in terminal_linux.go.
const (
	termiosGet = unix.TIOCGETA
	termiosSet = unix.TIOCSETA
	noKey      = 0xff
)
