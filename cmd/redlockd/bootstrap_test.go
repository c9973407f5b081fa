package main

// Goal: redlockd bootstrap admits masters that are all new, and changes nothing where one is not; what
// it prints says why. Method: the program as a process, on real redis-server processes.

import (
	"regexp"
	"strings"
	"syscall"
	"testing"

	"redlockd/cmd/redlockd/cli"
	"redlockd/redlock/redisproc"
)

func TestBootstrapCommand(t *testing.T) {
	const (
		version  = `(Redis|Valkey) [0-9.]+ +[0-9a-f]{40} +` // and run_id
		admitted = version + `nothing +0 +admitted`
		left     = version + `nothing +0 +new, left as it was`
	)
	for _, tt := range []struct {
		name   string
		change func(s []*redisproc.Server) (addrs string)
		rows   [3]string // patterns of what the table says of each master
		reason string    // why it fails, about the second master; empty: it does not
	}{
		{"fresh", func(s []*redisproc.Server) string { return addrsOf(s) },
			[3]string{admitted, admitted, admitted}, ""},
		{"a key on one", func(s []*redisproc.Server) string { redisCLI(t, s[1].Addr, "SET", "r", "T"); return addrsOf(s) },
			[3]string{left, version + `nothing +1 +it holds 1 keys: it is not new`, left}, "it holds 1 keys: it is not new"},
		{"one down", func(s []*redisproc.Server) string { s[1].Kill(); return addrsOf(s) },
			[3]string{left, `- +- +- +- +cannot connect: connection refused`, left}, "cannot connect: "},
		{"two are one", func(s []*redisproc.Server) string {
			addrs := addrsOf(s)
			_, port, _ := strings.Cut(s[0].Addr, ":")
			return strings.Replace(addrs, s[1].Addr, "localhost:"+port, 1)
		}, [3]string{left, version + `- +- +refused: it is the same Redis as 127.0.0.1:\d+: .*`, left}, "refused: it is the same Redis as 127.0.0.1:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			servers, _ := startMasters(t, 3)
			addrs := tt.change(servers)
			code, stdout, stderr := runBinary(t, "bootstrap", "--masters", addrs)
			second := strings.Split(addrs, ",")[1]
			wantCode, count := cli.ExitOK, "3 of 3"
			if tt.reason != "" {
				wantCode, count = cli.ExitFailed, "0 of 3"
			}
			lines := strings.Split(stdout, "\n")
			if code != wantCode || len(lines) != 7 || lines[5] != count+" masters admitted." {
				t.Fatalf("exit code %d, output\n%s\nwant code %d, a table of three, and that %s masters are admitted", code, stdout, wantCode, count)
			}
			for i, addr := range strings.Split(addrs, ",") {
				if want := `^` + regexp.QuoteMeta(addr) + ` +` + tt.rows[i] + `$`; !regexp.MustCompile(want).MatchString(lines[1+i]) {
					t.Errorf("master %d: got %q, want %s", i+1, lines[1+i], want)
				}
			}
			if tt.reason == "" && stderr != "" {
				t.Errorf("errors: got %q, want none", stderr)
			}
			if want := "redlockd: bootstrap: nothing was changed: " + second + ": " + tt.reason; tt.reason != "" && !strings.HasPrefix(stderr, want) {
				t.Errorf("errors: got %q, want %q", stderr, want)
			}
			for i, s := range servers {
				if i == 1 && tt.reason != "" {
					continue
				}
				shows := redisCLI(t, s.Addr, "HGET", "redlockd:members", "v")
				if founded := !strings.HasSuffix(shows, " -"); founded != (tt.reason == "") {
					t.Errorf("master %d shows %q, want a membership: %v", i+1, shows, tt.reason == "")
				}
			}
		})
	}
}

// What a bootstrap has admitted is served at once, and is not new a second time.
func TestBootstrapThenServe(t *testing.T) {
	_, addrs := startMasters(t, 3)
	wantRun(t, cli.ExitOK, "3 of 3 masters admitted.", "", "bootstrap", "--masters", addrs, "--max-ttl", "1h")
	p := launch(t, "--masters", addrs, "--max-ttl", "1h") // grants long before max_ttl is over
	p.dial().lock("r", "t1")
	const reason = "it has a membership (version 0): it is not new"
	if stdout := wantRun(t, cli.ExitFailed, reason, "nothing was changed", "bootstrap", "--masters", addrs); strings.Count(stdout, reason) != 3 {
		t.Errorf("again: got\n%s\nwant the reason of three", stdout)
	}
}

// A run that asks new masters for a lock founds their membership, in which all wait: a bootstrap is as
// possible as before.
func TestRunThenBootstrap(t *testing.T) {
	_, addrs := startMasters(t, 3)
	wantRun(t, cli.ExitNoQuorum, "", "NOQUORUM", "run", "--masters", addrs, "r", "--", "true")
	if stdout := wantRun(t, cli.ExitFailed, "redlockd bootstrap", "", "check", "--masters", addrs); strings.Count(stdout, "redlockd bootstrap") != 1 || strings.Contains(stdout, "note: ") {
		t.Errorf("check: got\n%s\nwant one word of bootstrap and no notes", stdout)
	}
	wantRun(t, cli.ExitOK, "3 of 3 masters admitted.", "", "bootstrap", "--masters", addrs)
	wantRun(t, cli.ExitOK, "", "", "run", "--masters", addrs, "r", "--", "true")
}

// A first start without all masters that its list names writes nothing, and says so. A bootstrap with the right list, and all masters, admits them: also
// when the server has founded a membership without the others, after the wait.
func TestFirstStartIsMended(t *testing.T) {
	typo := func(s []*redisproc.Server, addrs string) string {
		return strings.Replace(addrs, s[2].Addr, "127.0.0.1:1", 1)
	}
	for _, tt := range []struct {
		name   string
		maxTTL string
		first  func(s []*redisproc.Server, addrs string) string // the list at the first start
		fix    func(s []*redisproc.Server)
		says   string // what `members` says before; "": nothing was founded
	}{
		{"one comes late", "1h", func(s []*redisproc.Server, addrs string) string { s[2].Kill(); return addrs },
			func(s []*redisproc.Server) {
				if err := s[2].Restart(); err != nil {
					t.Fatal(err)
				}
			}, ""},
		{"a typo", "1h", typo, func([]*redisproc.Server) {}, ""},
		{"a typo, and it was founded without", "8s", typo, func([]*redisproc.Server) {}, "if the settings are right now, run `redlockd bootstrap`: nobody has voted yet"},
		{"a replica", "1h", func(s []*redisproc.Server, addrs string) string {
			host, port, _ := strings.Cut(s[0].Addr, ":")
			redisCLI(t, s[2].Addr, "REPLICAOF", host, port)
			return addrs
		}, func(s []*redisproc.Server) { redisCLI(t, s[2].Addr, "REPLICAOF", "NO", "ONE") }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("REDLOCKD_MASTER_FOUNDING_WAIT", "10ms")
			servers, addrs := startMasters(t, 3)
			p := begin(t, "serve", "--listen", "127.0.0.1:0", "--masters", tt.first(servers, addrs), "--max-ttl", tt.maxTTL, "--bootstrap")
			if line := p.waitLog("not all masters that the settings name are there"); !strings.Contains(line, "redlockd bootstrap --anyway") {
				t.Errorf("got %s, want what admits the others", line)
			}
			if tt.says != "" {
				p.waitLog("change=\"founded")
				p.waitLog("the membership has seats without a master")
			}
			p.signal(syscall.SIGTERM)
			p.wantExit(cli.ExitOK)
			for _, s := range servers[:2] {
				if shows := redisCLI(t, s.Addr, "HGET", "redlockd:members", "v"); strings.HasSuffix(shows, " -") != (tt.says == "") {
					t.Errorf("%s shows %q, want a membership: %v", s.Addr, shows, tt.says != "")
				}
			}
			tt.fix(servers)
			if tt.says != "" {
				out := wantRun(t, cli.ExitOK, tt.says, "", "members", "--masters", addrs, "--max-ttl", tt.maxTTL)
				if strings.Contains(out, "masters = ") {
					t.Errorf("members: got\n%s\nwant no line for config.toml with a seat that has not voted", out)
				}
			}
			wantRun(t, cli.ExitOK, "3 of 3 masters admitted.", "", "bootstrap", "--masters", addrs, "--max-ttl", tt.maxTTL)
			launch(t, "--masters", addrs, "--max-ttl", tt.maxTTL).dial().grant("LOCK r 2000 TOKEN t1")
		})
	}
}

// As compose.yaml starts them: redlockd first, with --bootstrap, and its masters later, one by one. It waits for all of them, and says so.
func TestBootstrapWaitsForMasters(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	for _, s := range servers {
		s.Kill()
	}
	p := listen(t, binary(t), "--masters", addrs, "--max-ttl", "1h", "--bootstrap")
	if line := p.waitLog("the bootstrap waits for masters"); !strings.Contains(line, servers[2].Addr+" (cannot connect: connection refused)") || !strings.Contains(line, "--anyway") {
		t.Errorf("got %s, want the names of the masters, and what to do", line)
	}
	for i, s := range servers {
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			p.waitLog("not all masters that the settings name are there") // two of three: nothing is written
		}
	}
	p.waitLog("quorum reached") // not in an hour
	p.dial().lock("r", "t1")
	if log := p.log(); strings.Contains(log, "no bootstrap") {
		t.Errorf("want no complaint:\n%s", log)
	}
}

// A majority is admitted where the operator says so. The other one votes when it is there.
func TestBootstrapAnyway(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	servers[1].Kill()
	wantRun(t, cli.ExitFailed, "0 of 3 masters admitted.", "redlockd bootstrap --anyway admits the others now", "bootstrap", "--masters", addrs)
	wantRun(t, cli.ExitOK, "2 of 3 masters admitted.", "", "bootstrap", "--masters", addrs, "--anyway")
	p := launch(t, "--masters", addrs)
	p.dial().lock("r", "t1")
	if err := servers[1].Restart(); err != nil {
		t.Fatal(err)
	}
	until(t, "the third master votes", func() bool {
		_, out, _ := runBinary(t, "members", "--masters", addrs)
		return strings.Contains(out, "3 of 3 seats vote")
	})
}

// A seat that has never voted is replaced as well by hand, while nobody votes yet, and when the others do. What `members` says then is what
// is to be done.
func TestSeatThatNeverVotedIsReplaced(t *testing.T) {
	t.Setenv("REDLOCKD_MASTER_FOUNDING_WAIT", "10ms")
	for _, ttl := range []string{"10s", "3s"} {
		servers, addrs := startMasters(t, 3)
		list := strings.Replace(addrs, servers[2].Addr, "127.0.0.1:1", 1)
		p := listen(t, binary(t), "--masters", list, "--max-ttl", ttl, "--master-timeout", "500ms")
		p.waitLog("\"change\":\"founded")
		args := []string{"--masters", addrs, "--max-ttl", ttl, "--master-timeout", "500ms"}
		replace := []string{"members", "replace", "127.0.0.1:1", servers[2].Addr}
		if ttl == "10s" { // nobody votes yet
			wantRun(t, cli.ExitOK, "Changed: 127.0.0.1:1 is the master at "+servers[2].Addr, "", append(append(replace, "--no-wait"), args...)...)
			wantRun(t, cli.ExitOK, "3 of 3 masters admitted.", "", append([]string{"bootstrap"}, args...)...)
		} else {
			p.waitLog("quorum reached")
			wantRun(t, cli.ExitOK, "redlockd "+strings.Join(replace, " "), "", append([]string{"members"}, args...)...)
			wantRun(t, cli.ExitFailed, "it has a membership", "redlockd members shows and changes it", append([]string{"bootstrap"}, args...)...)
			wantRun(t, cli.ExitOK, "Done.", "127.0.0.1:1 votes", append(replace, args...)...)
		}
		wantRun(t, cli.ExitOK, "3 of 3 seats vote, 2 are needed: 1 may fail", "", append([]string{"members"}, args...)...)
		p.waitLog("quorum reached")
		p.dial().grant("LOCK r 2000 TOKEN t")
	}
}

func addrsOf(servers []*redisproc.Server) string { return strings.Join(redisproc.Addrs(servers), ",") }
