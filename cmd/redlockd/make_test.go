package main

// Goal: `make test` without redis-server installs it, or says what to type. Method: make with a PATH of
// its own: a user, a package manager and sudo that only say how they are called.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"redlockd/redlock/redisproc"
)

// makeAs is a PATH with make and little else, for a user of this number.
func makeAs(t *testing.T, uid string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"make", "sh", "env"} {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, dir+"/id", "#!/bin/sh\necho "+uid+"\n", 0o700)
	return dir
}

func TestMakeSaysWhatToType(t *testing.T) {
	redisproc.Need(t, "make")
	const (
		apt   = "apt-get update && apt-get install -y --no-install-recommends redis-server redis-tools"
		fails = "#!/bin/sh\nexit 1\n"
		says  = "#!/bin/sh\necho \"called: $0 $*\" >&2\n"
		sudo  = "#!/bin/sh\necho called: sudo >&2\nexec \"$@\"\n"
	)
	for _, c := range []struct {
		name, uid string
		programs  map[string]string
		want      string
		installed bool
	}{
		{"no sudo", "1000", map[string]string{"apt-get": says}, "There is no sudo here. As root, type: " + apt + "\n", false},
		{"sudo", "1000", map[string]string{"apt-get": says, "sudo": sudo}, "called: sudo\n", true},
		{"root", "0", map[string]string{"dnf": says}, "/dnf install -y redis\n", true},
		{"no network", "0", map[string]string{"apt-get": fails}, "that failed. Type it yourself, as root: " + apt + "\n", false},
		{"Homebrew, which wants no root", "1000", map[string]string{"brew": says, "sudo": fails}, "/brew install redis\n", true},
		{"nothing", "0", nil, "missing: redis-server redis-cli redis-benchmark. Install them: apt-get install redis-server redis-tools, dnf install redis or brew install redis\n", false},
	} {
		dir := makeAs(t, c.uid)
		for name, script := range c.programs {
			writeFile(t, filepath.Join(dir, name), script, 0o700)
		}
		cmd := exec.Command(dir+"/make", "-C", "../..", "redis")
		cmd.Env = []string{"PATH=" + dir}
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), c.want) || (err == nil) != c.installed {
			t.Errorf("%s: got %v and\n%swant %q, installed %v", c.name, err, out, c.want, c.installed)
		}
	}
}

// The engine of `make test-docker` is installed as other tools are, and nobody but root can start it.
func TestMakeTestDocker(t *testing.T) {
	redisproc.Need(t, "make")
	for uid, want := range map[string]string{
		"1000": "make test-docker needs root, because it starts a docker engine: run it with sudo\n",
		"0":    "Installing: apt-get update && apt-get install -y --no-install-recommends docker.io debootstrap docker-compose iproute2 util-linux\nthat failed. ",
	} {
		dir := makeAs(t, uid)
		writeFile(t, dir+"/apt-get", "#!/bin/sh\nexit 1\n", 0o700)
		cmd := exec.Command(dir+"/make", "-C", "../..", "test-docker")
		cmd.Env = []string{"PATH=" + dir}
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("user %s: got %v and\n%swant %q", uid, err, out, want)
		}
	}
}
