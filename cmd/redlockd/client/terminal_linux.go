package client

import "golang.org/x/sys/unix"

// How the settings of a terminal are read and written, and the code that turns a special key off.
const (
	termiosGet = unix.TCGETS
	termiosSet = unix.TCSETS
	noKey      = 0
)
