package serve

// Goal: a unix socket replaces no file but that of a process that is gone, and has the owner that is
// named. Method: the functions alone. TestSeveralListeners runs the whole.

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSocketFiles(t *testing.T) {
	path := t.TempDir() + "/s"
	l, err := listenSocket(path, 0o600, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listenSocket(path, 0o600, ""); err != syscall.EADDRINUSE {
		t.Errorf("a socket that is in use: got %v, want %v", err, syscall.EADDRINUSE)
	}
	// A process that was killed leaves its file. The next one takes the path, and the first, if it ends later, leaves the new file alone.
	l.(*socketListener).UnixListener.Close()
	next, err := listenSocket(path, 0o666, "")
	if err != nil {
		t.Fatalf("the file of a process that is gone: %v", err)
	}
	later := time.Now().Add(time.Hour) // the clock of files may not have moved on
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
	if next.(*socketListener).made, err = os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if info, err := os.Lstat(path); err != nil || info.Mode() != fs.ModeSocket|0o666 {
		t.Errorf("got %v and error %v, want the socket of the next", info, err)
	}
	next.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenSocket(path, 0o600, ""); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("another file: got %v, want an error", err)
	}
	if text, err := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("the other file has %q, error %v", text, err)
	}
}

func TestSocketOwners(t *testing.T) {
	for _, c := range []struct {
		owner    string
		uid, gid int
		fault    string
	}{
		{"", -1, -1, ""},
		{"root", 0, -1, ""},
		{"12", 12, -1, ""},
		{"12:34", 12, 34, ""},
		{":34", -1, 34, ""},
		{"root:root", 0, 0, ""},
		{"no such user", 0, 0, `socket_owner: there is no user "no such user"`},
		{"0:no such group", 0, 0, `socket_owner: there is no group "no such group"`},
	} {
		uid, gid, err := lookupOwner(c.owner)
		if c.fault != "" {
			if err == nil || err.Error() != c.fault {
				t.Errorf("%q: got error %v, want %s", c.owner, err, c.fault)
			}
		} else if uid != c.uid || gid != c.gid || err != nil {
			t.Errorf("%q: got %d, %d, %v, want %d, %d", c.owner, uid, gid, err, c.uid, c.gid)
		}
	}
}
