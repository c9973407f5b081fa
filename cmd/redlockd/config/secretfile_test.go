package config

// Goal: a file with a secret that others can read or replace is told of, with what to do, and one that is mounted as containers mount
// secrets for a group is not. Method: a table of modes, and the program as a process over such files.

import (
	"io/fs"
	"testing"
)

func TestExposedTo(t *testing.T) {
	for _, c := range []struct {
		mode       fs.FileMode
		ours       bool
		who, chmod string
	}{
		{0o600, true, "", ""},
		{0o400, true, "", ""},
		{0o700, true, "", ""},
		{0o640, true, "its group", "g="},
		{0o660, true, "its group", "g="},
		{0o644, true, "everybody on this machine", "go="},
		{0o604, true, "everybody on this machine", "go="},
		{0o602, true, "everybody on this machine", "go="},
		{0o440, false, "", ""}, // of root, for our group: Kubernetes with fsGroup
		{0o640, false, "", ""},
		{0o660, false, "its group", "g-w"},
		{0o444, false, "everybody on this machine", "o="}, // of root: a secret of Docker
		{0o644, false, "everybody on this machine", "o="},
	} {
		if who, chmod := exposedTo(c.mode, c.ours); who != c.who || chmod != c.chmod {
			t.Errorf("mode %#o, ours %v: got %q and %q, want %q and %q", c.mode, c.ours, who, chmod, c.who, c.chmod)
		}
	}
}
