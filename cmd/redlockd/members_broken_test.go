package main

// Goal: one broken part holds up nobody. Masters that hang beside a removal or a restart cost no more than the hang; one without a right hinders no
// recovery, and `check` names the right; losses of all masters do not make each other longer. Method: real masters that are stopped, restarted empty,
// and told to refuse commands.

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/redlock/redisproc"
)

// founded is the number of the founding whose membership the masters show.
func founded(t *testing.T, addrs string) string {
	t.Helper()
	number, _, _ := strings.Cut(membersOf(t, addrs).Lineage, "-")
	return number
}

// restart kills masters, and starts them without what they had.
func restart(t *testing.T, servers ...*redisproc.Server) {
	t.Helper()
	for _, s := range servers {
		s.Kill()
	}
	for _, s := range servers {
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
	}
}

func freeze(t *testing.T, servers ...*redisproc.Server) {
	t.Helper()
	for _, s := range servers {
		if err := s.Freeze(); err != nil {
			t.Fatal(err)
		}
	}
}

func thaw(t *testing.T, servers ...*redisproc.Server) {
	t.Helper()
	for _, s := range servers {
		if err := s.Thaw(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHangCostsNoFounding(t *testing.T) {
	redisproc.Long(t)
	t.Setenv("REDLOCKD_LOCKS_MAX_TTL", "20s")
	for name, beside := range map[string]func(s []*redisproc.Server, addrs string){
		"a removal": func(s []*redisproc.Server, addrs string) {
			change(t, addrs, "add", "m4", s[3].Addr)
			change(t, addrs, "remove", "m4", "--no-wait")
		},
		"a restart": func(s []*redisproc.Server, addrs string) {
			restart(t, s[1])
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, addrs := startMembers(t, 3, 1)
			p := launch(t, "--masters", addrs)
			client := p.dial()
			until(t, "all are up", func() bool { return strings.Count(client.do("INFO masters"), "state=up") == 3 })
			token := strings.Fields(strings.Trim(client.ask("LOCK held 20000"), "[]"))[0]
			for _, one := range s[:3] { // else it is on a bare quorum, which one that restarts may belong to
				until(t, "all have it", func() bool { return redisCLI(t, one.Addr, "EXISTS", "held") == "1" })
			}
			if name == "a removal" {
				beside(s, addrs)
			}
			freeze(t, s[0])
			if name == "a restart" {
				beside(s, addrs)
			}
			p.waitLog("some are silent that may")
			if got := client.do("INFO masters"); !strings.Contains(got, "members refound") {
				t.Errorf("INFO: got %s, want the command that ends the silence", got)
			}
			if name == "a restart" {
				out := wantRun(t, cli.ExitFailed, "if "+s[0].Addr+" (since ", "", "check", "--masters", addrs)
				if !strings.Contains(out, "founds the membership anew then; else redlockd members refound") {
					t.Errorf("check: got\n%s\nwant the command that ends the silence", out)
				}
			}
			time.Sleep(5 * time.Second)
			thaw(t, s[0])
			until(t, "a LOCK behind the hang is granted", func() bool { return strings.HasPrefix(client.ask("LOCK r 1000"), "[") })
			if got := client.ask("EXTEND held " + token + " 20000"); !strings.HasPrefix(got, "2") && !strings.HasPrefix(got, "1") {
				t.Errorf("EXTEND of what was held: got %s, want it held", got)
			}
			if got := founded(t, addrs); got != "1" {
				t.Errorf("the membership is of founding %s, want the first", got)
			}
		})
	}
}

// One of three sources has no right to SCAN, the others are a quorum.
func TestSourceWithoutARight(t *testing.T) {
	t.Setenv("REDLOCKD_LOCKS_MAX_TTL", "10m")
	s, addrs := startMembers(t, 5, 0)
	p := launch(t, "--masters", addrs)
	client := p.dial()
	if got := client.ask("LOCK held 500000"); !strings.HasPrefix(got, "[") {
		t.Fatalf("LOCK: got %s", got)
	}
	s[0].LeaveOutBefore(t, 6, 0, "ACL is of Redis 6")
	redisCLI(t, s[0].Addr, "ACL", "SETUSER", "default", "-scan")
	restart(t, s[4])
	p.waitLog("a copy goes on without a source that fails")
	until(t, "the restarted master votes", func() bool {
		return strings.Contains(seatsOf(membersOf(t, addrs)), s[4].Addr+" voter")
	})
	out := wantRun(t, cli.ExitFailed, "its ACL does not allow SCAN", "", "check", "--masters", addrs)
	for _, want := range []string{"ACL SETUSER <user> +scan", "But a right is lacking on a master"} {
		if !strings.Contains(out, want) {
			t.Errorf("check: got\n%s\nwant %s", out, want)
		}
	}
	redisCLI(t, s[0].Addr, "ACL", "SETUSER", "default", "+scan")
	wantRun(t, cli.ExitOK, "A quorum is available", "", "check", "--masters", addrs)
}

// All masters are lost again and again: the wait is that of the first loss.
func TestFoundingsDoNotAddUpInTheMasters(t *testing.T) {
	s, addrs := startMembers(t, 3, 0)
	launch(t, "--masters", addrs)
	var waits []int64
	for loss := range 4 {
		restart(t, s...)
		until(t, fmt.Sprintf("loss %d is found", loss+1), func() bool {
			v := redisCLI(t, s[0].Addr, "HGET", "redlockd:members", "v")
			return strings.Contains(v, fmt.Sprintf(" %d-", loss+2))
		})
		fields := strings.Split(redisCLI(t, s[0].Addr, "HGET", "redlockd:members", "r"), ";")
		var wait int64
		fmt.Sscan(fields[5], &wait)
		waits = append(waits, wait)
	}
	if waits[0] == 0 || slices.Max(waits)-waits[0] > waits[0]/20 { // a part of each is a quarter of the one before
		t.Errorf("the waits of the foundings: got %d ms, want all about alike", waits)
	}
}

// check tries whatever redlockd sends to a master: what a user may not run is said before it is needed.
func TestCheckTriesAllThatIsSent(t *testing.T) {
	t.Setenv("REDLOCKD_LOCKS_MAX_TTL", "5s")
	s, addrs := startMembers(t, 3, 2)
	p := launch(t, "--masters", addrs)
	client, other := p.dial(), p.dial()
	for _, command := range []string{
		"LOCK a 1500 TOKEN t", "EXTEND a t 1500", "LOCKINFO a", "LOCKS ALL", "UNLOCK a t", "LOCK several 1500 SHARED", "LOCK slots 1500 SLOTS 3", "LOCK fenced 1500 FENCE",
		"SET library x NX PX 1500", "GET library", "EXISTS library", "PTTL library", "LOCK held 4000 HOLD", "UNLOCK fenced FORCE why", "MLOCK 1500 b c",
	} {
		client.do(command)
	}
	other.do("LOCK waits 300")
	client.do("LOCK waits 300 WAIT 2000")
	restart(t, s[1])
	p.waitLog("master quarantined") // until then it counts as one that votes
	until(t, "the restarted master votes", func() bool { return seatsOf(membersOf(t, addrs)) == voters(s[0], s[1], s[2]) })
	change(t, addrs, "replace", s[2].Addr, s[3].Addr)
	sent := make(map[string]bool)
	for _, one := range s[:4] {
		for _, name := range commandsRun(t, one) {
			sent[name] = true
		}
	}
	runBinary(t, "check", "--masters", s[4].Addr)
	tried := commandsRun(t, s[4])
	for _, name := range []string{"hello", "auth", "info", "client", "script", "slowlog", "flushall"} { // the first contact, and the containers of others
		delete(sent, name)
	}
	for name := range sent {
		if !slices.Contains(tried, name) {
			t.Errorf("redlockd sends %s, and check does not try it", name)
		}
	}
	if len(sent) < 25 {
		t.Errorf("only %d commands were sent", len(sent))
	}
}

// commandsRun are the commands that a server has executed or refused.
func commandsRun(t *testing.T, s *redisproc.Server) (names []string) {
	t.Helper()
	for line := range strings.Lines(redisCLI(t, s.Addr, "INFO", "commandstats")) {
		if name, _, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":"); found && strings.HasPrefix(line, "cmdstat_") {
			names = append(names, name)
		}
	}
	return names
}
