package main

// Goal: redlockds of the version before the membership and those of today, over the same masters, refuse each other in words, neither takes
// anything from the other, and the way from one to the other that docker/README.md describes can be gone. Method: the program of that
// version is built from the history of this repository, and run as a process beside today's, on real redis-servers.

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// newInThisVersion is a file that the version before did not have. The commit that brought it names that version, whatever its hash is.
const newInThisVersion = "redlock/member_record.go"

// earlierBinary builds the program of the version before the membership.
func earlierBinary(t *testing.T) string {
	t.Helper()
	commit, err := earlierCommit()
	if err != nil {
		// No tool is wanting that could be installed: a source archive has no history, also where every tool must be there.
		t.Skipf("the version before the membership cannot be built: %v. `make history` brings what a clone lacks", err)
	}
	dir := t.TempDir()
	for _, command := range [][]string{
		{"git", "-C", "../..", "archive", "--output", dir + "/source.tar", commit},
		{"tar", "-x", "-C", dir, "-f", dir + "/source.tar"},
		{"go", "build", "-C", dir, "-trimpath", "-buildvcs=false", "-o", "redlockd-earlier", "./cmd/redlockd"}, // -trimpath: from the cache the next time
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, out)
		}
	}
	return filepath.Join(dir, "redlockd-earlier")
}

// earlierCommit is the last one before the membership.
func earlierCommit() (string, error) {
	git := func(args ...string) (string, error) {
		var errs strings.Builder
		cmd := exec.Command("git", append([]string{"-C", "../.."}, args...)...)
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			return "", errors.New(strings.TrimSpace(err.Error() + ": " + errs.String()))
		}
		return strings.TrimSpace(string(out)), nil
	}
	// The oldest commit of a shallow clone seems to bring every file, and its parent is not there.
	brought, err := git("log", "--diff-filter=A", "--format=%H", "--", newInThisVersion)
	if err != nil {
		return "", err
	}
	if brought == "" {
		return "", errors.New("no commit brings " + newInThisVersion)
	}
	all := strings.Fields(brought)
	before, err := git("rev-parse", "--verify", "--quiet", all[len(all)-1]+"^")
	if err != nil {
		err = errors.New("the history here does not go back to it")
	}
	return before, err
}

func TestUpgrade(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	earlier := earlierBinary(t)
	t.Setenv("REDLOCKD_LOCKS_MAX_TTL", "3s")
	served := launchBinary(t, earlier, "--masters", addrs, "--bootstrap", "--drain-timeout", "100ms")
	served.waitLog("quorum reached")
	client := served.dial()
	keys := func() (all string) {
		for _, s := range servers {
			all += cli(t, s.Addr, "GET", "redlockd:epoch") + " " + cli(t, s.Addr, "GET", "redlockd:config") + " " + cli(t, s.Addr, "EXISTS", "redlockd:members") + "\n"
		}
		return all
	}
	before := keys()

	// Side by side: the one of today takes nothing, and says why.
	t.Setenv("REDLOCKD_MASTER_FOUNDING_WAIT", "10ms")
	p := launch(t, "--masters", addrs)
	const words = "a redlockd of an earlier version uses it (max_ttl=3000ms): stop all of those; this one goes on by itself when their settings there have expired, one max_ttl later"
	for _, s := range servers {
		p.waitLog(`"msg":"master refused","master":"` + s.Addr + `","reason":"` + words)
	}
	if got := p.dial().do("LOCK r 1000"); !strings.HasPrefix(got, "NOQUORUM") || !strings.Contains(got, words) {
		t.Errorf("LOCK by the one of today: got %q, want NOQUORUM and the reason", got)
	}
	for _, command := range []string{"check", "members", "bootstrap"} {
		if code, stdout, stderr := runBinary(t, command, "--masters", addrs); code != exitFailed || !strings.Contains(stdout+stderr, words) {
			t.Errorf("%s: exit code %d, output\n%s%s\nwant %d, and the reason", command, code, stdout, stderr, exitFailed)
		}
	}
	if after := keys(); after != before {
		t.Errorf("epoch, settings and membership of the masters: before\n%s\nafter\n%s\nwant no change", before, after)
	}
	client.grant("LOCK r 3000 TOKEN t1")
	if out, err := patient(exec.Command(earlier, "check", "--masters", addrs)).CombinedOutput(); err != nil || !strings.Contains(string(out), "3 of 3 masters can vote") {
		t.Errorf("check by the earlier one: %v, output\n%s\nwant that all can vote", err, out)
	}

	// The way: stop the earlier ones. The one of today goes on by itself.
	served.signal(syscall.SIGTERM)
	served.exitCode()
	p.waitLog("quorum reached")
	p.dial().grant("LOCK q 1000 TOKEN t2")
	if got, want := membersOf(t, addrs).seats(), voters(servers...); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	founded := keys()

	// An earlier one that starts again takes nothing either.
	late := launchBinary(t, earlier, "--masters", addrs, "--bootstrap")
	for _, s := range servers {
		if line := late.waitLog(`"msg":"master refused","master":"` + s.Addr); !strings.Contains(line, `other proxies use \"members\"`) || !strings.Contains(line, "stop the others") {
			t.Errorf("got %s, want that others use it", line)
		}
	}
	if got := late.dial().do("LOCK q 1000"); !strings.HasPrefix(got, "NOQUORUM") {
		t.Errorf("LOCK by the earlier one: got %q, want NOQUORUM", got)
	}
	if after := keys(); after != founded {
		t.Errorf("epoch, settings and membership of the masters: before\n%s\nafter\n%s\nwant no change", founded, after)
	}
	p.dial().grant("LOCK q2 1000 TOKEN t3")
}
