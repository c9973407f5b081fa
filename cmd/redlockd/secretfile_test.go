package main

// Goal: a file with a secret that others can read or replace is told of, with what to do, and one that is mounted as containers mount
// secrets for a group is not. Method: a table of modes, and the program as a process over such files.

import (
	"io/fs"
	"os"
	"strings"
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

// A private key that others can read is told of when the server starts. It starts all the same.
func TestServeWarnsOfExposedSecrets(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir)
	writeFile(t, dir+"/password", secret+"\n", 0o640)
	writeFile(t, dir+"/redlockd.toml", `
[server]
tls_cert = "`+dir+`/cert.pem"
tls_key = "`+dir+`/key.pem"
[auth]
users = [{name = "a", password_file = "`+dir+`/password"}]
`, 0o644) // it holds no password itself
	for _, mode := range []fs.FileMode{0o644, 0o600} {
		for _, name := range []string{"/key.pem", "/password"} {
			if err := os.Chmod(dir+name, mode); err != nil {
				t.Fatal(err)
			}
		}
		p := launch(t, "--config", dir+"/redlockd.toml")
		for file, what := range map[string]string{"/key.pem": "a private key", "/password": "a password"} {
			warning := dir + file + " holds " + what + ", and everybody on this machine can read or change it: chmod go= " + dir + file
			if told := strings.Contains(p.log(), warning); told != (mode == 0o644) {
				t.Errorf("mode %#o: %q in the log: %v:\n%s", mode, warning, told, p.log())
			}
		}
		if strings.Contains(p.log(), "redlockd.toml holds") || strings.Contains(p.log(), "cert.pem holds") {
			t.Errorf("got %s, want no word of files that hold no secret", p.log())
		}
	}
}
