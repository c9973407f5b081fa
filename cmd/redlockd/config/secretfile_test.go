package config

// Goal: a file with a secret that others can read or replace is told of, with what to do, and one that is mounted as containers mount
// secrets for a group is not. Method: a table of modes, and the program as a process over such files.

import (
	"io/fs"
	"os"
	"slices"
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

// The audit says who did what, from where, with which names. Collectors read logs through their group.
func TestExposedAudit(t *testing.T) {
	path := t.TempDir() + "/audit.log"
	writeFile(t, path, "", 0o600)
	warning := path + " is the audit, and "
	for mode, want := range map[fs.FileMode][]string{
		0o600: nil, 0o640: nil,
		0o644: {warning + "everybody on this machine can read or change it: chmod o= " + path},
		0o602: {warning + "everybody on this machine can read or change it: chmod o= " + path},
		0o660: {warning + "its group can read or change it: chmod g-w " + path},
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		c, err := loadText(t, "masters = \"embedded\"\n[audit]\nfile = \""+path+"\"\n", nil)
		if err != nil || !slices.Equal(c.Warnings, want) {
			t.Errorf("mode %#o: got %q, %v, want %q", mode, c.Warnings, err, want)
		}
	}
	for _, other := range []string{"", "stdout", "/dev/full", path + ".1"} { // no file, or none yet
		if c, err := loadText(t, "masters = \"embedded\"\n[audit]\nfile = \""+other+"\"\n", nil); err != nil || len(c.Warnings) > 0 {
			t.Errorf("%q: got %q, %v, want no warning", other, c.Warnings, err)
		}
	}
}
