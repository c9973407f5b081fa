package config

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// exposedSecret is a warning if others can read or replace a file that holds a secret (what: "a password"); "": they cannot.
//
// sshd refuses such a key. redlockd warns, because the files of containers are such by default (secrets of Docker have mode 0444, those of
// Kubernetes 0644) and nobody else lives there: an update that refused them would stop the locks of a fleet.
func exposedSecret(path, what string) string {
	info, err := os.Stat(path) // of what a link leads to
	if err != nil {
		return "" // whoever reads the file says so
	}
	ours := false
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		ours = int(stat.Uid) == os.Geteuid()
	}
	who, mode := exposedTo(info.Mode(), ours)
	if who == "" {
		return ""
	}
	return fmt.Sprintf("%s holds %s, and %s can read or change it: chmod %s %s", path, what, who, mode, path)
}

// exposedTo says who but us can read or change a file of this mode, and what chmod takes that away; "": nobody, or the owner knows why.
// Of a file of our own nobody else needs to read anything. Another owner, mostly root, lets us read it through its group, so
// the group is expected to read; this is also how Kubernetes mounts a secret with fsGroup.
func exposedTo(mode fs.FileMode, ours bool) (who, chmod string) {
	switch perm := mode.Perm(); {
	case perm&0o006 != 0 && ours:
		return "everybody on this machine", "go="
	case perm&0o006 != 0:
		return "everybody on this machine", "o="
	case perm&0o060 != 0 && ours:
		return "its group", "g="
	case perm&0o020 != 0:
		return "its group", "g-w"
	}
	return "", ""
}
