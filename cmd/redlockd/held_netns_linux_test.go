package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// apart are the flags of unshare, and of nsenter, for a network namespace. Who is not root needs a user
// namespace around it.
func apart() (unshare, nsenter []string) {
	if os.Geteuid() == 0 {
		return []string{"-n"}, []string{"-n"}
	}
	return []string{"-rn"}, []string{"-U", "--preserve-credentials", "-n"}
}

// launchApart starts a redlockd in a network namespace of its own. Only unix sockets lead out of it.
func launchApart(t *testing.T, args ...string) *program {
	t.Helper()
	redisproc.Need(t, "unshare", "nsenter", "ip")
	flags, _ := apart()
	if out, err := exec.Command("unshare", append(flags, "true")...).CombinedOutput(); err != nil {
		redisproc.LeaveOut(t, fmt.Sprintf("no network namespace can be made here: %v, %s", err, out))
	}
	path := binary(t)
	script := filepath.Join(t.TempDir(), "apart.sh")
	text := fmt.Sprintf("#!/bin/sh\nexec unshare %s sh -c 'ip link set lo up && exec \"$0\" \"$@\"' %s \"$@\"\n", flags[0], path)
	writeFile(t, script, text, 0o700)
	return launchBinary(t, script, args...)
}

// inside is a command that runs in the network namespace of the program.
func (p *program) inside(command ...string) *exec.Cmd {
	_, flags := apart()
	return exec.Command("nsenter", slices.Concat([]string{"-t", strconv.Itoa(p.cmd.Process.Pid)}, flags, command)...)
}

// The network between a client and its server goes away, and neither is told. The client stops in time,
// and the server does not renew for a client that is silent.
func TestHeldOverAPartition(t *testing.T) {
	masters, _ := startMasters(t, 3, "--unixsocket", "redis.sock")
	var sockets []string
	for _, m := range masters {
		sockets = append(sockets, filepath.Join(m.Dir(), "redis.sock"))
	}
	q := launch(t, "--masters", strings.Join(sockets, ","), "--bootstrap")
	p := launchApart(t, "--masters", strings.Join(sockets, ","))
	_, port, _ := strings.Cut(p.addr, ":")
	holder, other := (&dialogue{t: t}).start("redis-cli", p.inside("redis-cli", "-p", port)), q.dial()
	if token := holder.ask("LOCK r 3s HOLD"); token == "" {
		t.Fatal("LOCK: got no token")
	}
	holder.answer() // its validity
	began := time.Now()
	believed := began
	for believed.Sub(began) <= 6*time.Second { // until a renewal is told that came when the TTL of before was over
		sent := time.Now()
		name, value := holder.ask("KEEPALIVE 2s"), holder.answer()
		validity, err := strconv.Atoi(value)
		if name != "validity" || err != nil || validity <= 0 {
			t.Fatalf("KEEPALIVE: got %q %q, want a validity", name, value)
		}
		for range 6 { // held, lost and leaving
			holder.answer()
		}
		believed = sent.Add(time.Duration(validity) * time.Millisecond)
		other.want("LOCK r 3s WAIT 100ms", "null")
	}
	if out, err := p.inside("ip", "link", "set", "lo", "down").CombinedOutput(); err != nil {
		t.Fatalf("cut the network: %v, %s", err, out)
	}
	other.grant("LOCK r 50s WAIT 60s")
	if early := time.Until(believed); early > 0 {
		t.Errorf("the lock was granted %v before the end of what its holder believed", early)
	}
}
