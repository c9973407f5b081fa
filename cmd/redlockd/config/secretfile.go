package config

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// exposedSecret returns a warning if others can read or change a file that holds a secret (what: "a
// password"), else "".
//
// sshd refuses such a key. redlockd only warns, because secrets in containers have such modes by
// default (Docker 0444, Kubernetes
// 0644) and no other user is there. An update that refused them would stop the locks of a fleet.
func exposedSecret(path, what string) string {
	info, err := os.Stat(path) // follows links
	if err != nil {
		return "" // the read reports it
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

// exposedAudit returns a warning if others can read or change the file of the audit, which tells who did
// what; else "". A group may read it: collectors of logs do so.
func exposedAudit(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "" // redlockd makes the file, or none is meant
	}
	who, mode := exposedTo(info.Mode(), false)
	if who == "" {
		return ""
	}
	return fmt.Sprintf("%s is the audit, and %s can read or change it: chmod %s %s", path, who, mode, path)
}

// exposedTo says who else can read or change a file of this mode, and the chmod that fixes it; "":
// nobody, or the owner meant it so. No other user needs to read a file that we own. Another owner,
// mostly root, lets us read a file through its group, so the group may read that one. Kubernetes mounts
// secrets with fsGroup like this.
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
