package main

// Goal: ping, locks, info, top, unlock and reload do with a redlockd that runs what their help says,
// from terminals and from scripts, with logins and TLS, and end in bounded time where there is none.
// Method: redlockds as processes, over embedded and over real masters; a pseudo-terminal.

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/client"
	"redlockd/redlock/redisproc"
)

// ask runs a command for the server and returns what it prints. It must exit with 0.
func (p *program) ask(args ...string) string {
	p.t.Helper()
	code, stdout, stderr := runCommand(nil, append(args, "--server", p.addr)...)
	if code != cli.ExitOK || stderr != "" {
		p.t.Fatalf("redlockd %v: exit code %d, errors %q; want 0, none", args, code, stderr)
	}
	return stdout
}

// asks runs a command for the server again until it prints the text.
func (p *program) asks(text string, args ...string) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("redlockd %v prints %q", args, text), func() bool { return strings.Contains(p.ask(args...), text) })
}

// wantOutput compares what a command prints with a pattern.
func wantOutput(t *testing.T, got, pattern string) {
	t.Helper()
	if !regexp.MustCompile(`(?s)^` + pattern + `$`).MatchString(got) {
		t.Errorf("got\n%s\nwant %s", got, pattern)
	}
}

// refused runs a command that must fail with this exit code and an error with this text.
func refused(t *testing.T, want int, text string, environ []string, args ...string) {
	t.Helper()
	code, stdout, stderr := runCommand(environ, args...)
	if code != want || !strings.Contains(stderr, text) || stdout != "" {
		t.Errorf("redlockd %v: exit code %d, errors %q, output %q; want %d and %q", args, code, stderr, stdout, want, text)
	}
}

func TestClientsOfARunningServer(t *testing.T) {
	p := launch(t)
	p.asks("masters_up:5\n", "info", "masters")
	holder, waiter := p.dial(), p.dial()
	holder.want("CLIENT SETNAME cron-7", "OK")
	holder.want("LOCK nothing 30s WAIT", "ERR syntax error: WAIT lacks its value")
	holder.grant("LOCK invoices 30s TOKEN mine NOTE nightly")
	holder.grant("LOCK other 30s TOKEN mine")
	holder.grant("LOCK renewed 30s TOKEN mine HOLD")
	waiter.send("LOCK invoices 30s WAIT 1m")
	p.asks("waiter 1", "locks", "inv*")

	wantOutput(t, p.ask("ping"), regexp.QuoteMeta(p.addr)+`: PONG in \d+\.\d\d ms\n`)
	wantOutput(t, p.ask("locks", "inv*"), `RESOURCE +MODE +HOLDER +ADDRESS +USER +HELD +LEFT +NOTE\n`+
		`invoices +exclusive +cron-7 +127.0.0.1:\d+ +default +\d+\.\ds +\d\S+s +nightly\n`+
		`  waiter 1 +waits +- +127.0.0.1:\d+ +default +\d+\.\ds *\n`)
	wantOutput(t, p.ask("locks", "renewed"), `RESOURCE .*\nrenewed .* default +\d+\.\ds +renewed +\n`)
	wantOutput(t, p.ask("locks", "--all", "renewed"), `RESOURCE .*\nrenewed .* default +\d+\.\ds +renewed +\S+:\d+\n.*`)
	wantOutput(t, p.ask("locks", "--count", "1"), `RESOURCE .*\ninvoices .*\n1 of 3 leases are listed: the longest held, .* lost ones. --count 10000 lists more, .*\n`)
	wantOutput(t, p.ask("locks", "--count", "1", "--json", "*e*"), `{.*"resources": \[\s*"invoices".*"total": 3\s*}\s*`)
	wantOutput(t, p.ask("locks", "--count", "1", "--all", "*e*"), `RESOURCE .*\ninvoices .*\n1 of 3 leases are listed: the longest held, .* lost ones. --count 1000 lists more, .*\nAnswered: .*`)
	wantOutput(t, p.ask("locks", "--count", "3"), `RESOURCE [^\n]*\ninvoices [^\n]*\n  waiter[^\n]*\nother [^\n]*\nrenewed [^\n]*\n`)
	wantOutput(t, p.ask("locks", "none"), "No locks.\n")
	wantOutput(t, p.ask("locks", "--all", "oth*"), `RESOURCE .* REDLOCKD\nother .*:\d+\n\nAnswered: \S+:\d+\.\n`)
	var list client.LockList
	if err := json.Unmarshal([]byte(p.ask("locks", "--json")), &list); err != nil || len(list.Locks) != 3 {
		t.Fatalf("locks --json: got %+v (%v), want three locks", list, err)
	}
	first := list.Locks[0]
	if h := first.Holder; first.Resources[0] != "invoices" || h == nil || h.Client != "cron-7" || h.Note != "nightly" || h.Since == 0 || h.HeldMs == 0 ||
		first.ValidityMs < 1000 || first.Waiters != 1 || len(first.Queue) != 1 || first.Queue[0].Mode != "exclusive" {
		t.Errorf("locks --json: got %+v", first)
	}

	wantOutput(t, p.ask("info", "locks"), `# Locks\n.*leases:3\n.*`)
	var sections map[string]map[string]any
	if err := json.Unmarshal([]byte(p.ask("info", "--json", "masters", "locks")), &sections); err != nil || len(sections) != 2 || sections["locks"]["waiters"] != 1.0 {
		t.Errorf("info --json: got %+v (%v), want the two sections", sections, err)
	}
	if master, ok := sections["masters"]["master0"].(map[string]any); !ok || master["state"] != "up" {
		t.Errorf("info --json: got %+v for master0, want its fields", sections["masters"]["master0"])
	}

	wantOutput(t, p.ask("top", "--interval", "200ms"), `redlockd \S+ at `+regexp.QuoteMeta(p.addr)+`, up .*\nmasters 5 of 5 vote: locks are granted\nper second: \d.*granted.*\n`+
		`now: 3 leases \(1 renewed\), 1 waiters, .*MASTERS\n.*embedded-5 +up .*MOST WAITED FOR\n.*\n1 +\S+ +cron-7 .* invoices\n.*HELD FOR LONGEST\n.*cron-7 .*invoices\n.* renewed +renewed\n`)
	for line := range strings.Lines(p.ask("top", "--once", "--interval", "200ms", "--all")) {
		if n := len([]rune(line)); n > 81 {
			t.Errorf("top: %d letters in a line, want 80: %s", n, line)
		}
	}

	refused(t, cli.ExitFailed, "ERR the pattern has 1025 bytes", nil, "locks", strings.Repeat("x", 1025), "--server", p.addr)
	refused(t, cli.ExitFailed, "INFO has no section nothing", nil, "info", "nothing", "--server", p.addr)
	refused(t, cli.ExitUsage, `--count: "0" is not a number from 1 to 10000`, nil, "locks", "--count", "0", "--server", p.addr)
	refused(t, cli.ExitUsage, "one pattern is possible", nil, "locks", "a", "b", "--server", p.addr)
	refused(t, cli.ExitUsage, "--timeout: 1h is outside 10ms … 1m", nil, "ping", "--timeout", "1h")
	refused(t, cli.ExitUsage, "--interval: 1ms is outside 200ms … 1m", nil, "top", "--interval", "1ms", "--server", p.addr)
	refused(t, cli.ExitUsage, `"nowhere" is no address`, nil, "ping", "--server", "nowhere")
}

// unlock --force ends a lock of another, and says what it did.
func TestUnlockByForce(t *testing.T) {
	p := launch(t)
	p.asks("masters_up:5\n", "info", "masters")
	holder, next := p.dial(), p.dial()
	holder.grant("LOCK invoices 30s TOKEN mine HOLD")
	refused(t, cli.ExitUsage, "--force is missing", nil, "unlock", "invoices", "its host is gone", "--server", p.addr)
	refused(t, cli.ExitUsage, "no resource is named", nil, "unlock", "--force", "--server", p.addr)
	refused(t, cli.ExitUsage, `unexpected "is"`, nil, "unlock", "--force", "invoices", "host", "is", "gone", "--server", p.addr)
	refused(t, cli.ExitUsage, "no reason is given", nil, "unlock", "--force", "invoices", "--server", p.addr)
	refused(t, cli.ExitFailed, `nobody holds "nothing": 5 of 5 masters`, nil, "unlock", "--force", "nothing", "its host is gone", "--server", p.addr)
	refused(t, cli.ExitFailed, "ERR the reason", nil, "unlock", "--force", "invoices", strings.Repeat("x", 201), "--server", p.addr)
	if got := holder.do("KEEPALIVE"); !strings.HasPrefix(got, "[validity ") { // it asks, so its connection stays when the lock is lost
		t.Fatalf("KEEPALIVE: got %s", got)
	}
	wantOutput(t, p.ask("unlock", "--force", "invoices", "its host is gone"), `invoices is released on 5 of 5 masters. Its fence is \d+: .*\n`)
	p.waitLog("its host is gone")
	holder.want("KEEPALIVE", "[validity 0 held 0 lost [invoices] leaving 0]")
	next.grant("LOCK invoices 30s TOKEN next")
}

// A server that is full is alive: a restart would only break the connections of those who are there.
func TestPingOfAFullServer(t *testing.T) {
	full := launch(t, "--max-clients", "1")
	full.dial().want("PING", "PONG")
	wantOutput(t, full.ask("ping"), `.*: alive, and has no room for one more client \(max_clients\) in .*`)
	refused(t, cli.ExitFailed, "max number of clients reached", nil, "locks", "--server", full.addr)
}

// A server that is not there, or does not answer, keeps nobody waiting.
func TestPingWithoutAServer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	refused(t, cli.ExitFailed, "i/o timeout", nil, "ping", "--timeout", "50ms", "--server", silent.Addr().String())
	gone := redisproc.KeepAddr(t)
	refused(t, cli.ExitFailed, "no redlockd listens there; name another with --server", nil, "ping", "--server", gone)
	refused(t, cli.ExitFailed, "no redlockd listens there", []string{"REDLOCKD_SERVER_LISTEN=" + gone}, "ping") // that of the same settings
	stranger, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	go func() {
		for {
			conn, err := stranger.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}
	}()
	refused(t, cli.ExitFailed, `a reply that begins with 'H'`, nil, "ping", "--server", stranger.Addr().String())
}

// Clients with the settings of the server on their machine know its certificate and its users. Others
// name theirs; no password stands on a command line.
func TestClientsLogIn(t *testing.T) {
	dir := t.TempDir()
	writeGoodCertificate(t, dir, 1)
	writeFile(t, dir+"/password", secret+"\n", 0o600)
	addr := redisproc.KeepAddr(t)
	writeFile(t, dir+"/config.toml", strings.NewReplacer("DIR", dir, "ADDR", addr, "SECRET", secret, "DIGEST", strings.Repeat("0", 64)).Replace(`
		masters = "embedded"
		[server]
		listen = "ADDR"
		tls_cert = "DIR/cert.pem"
		tls_key = "DIR/key.pem"
		[auth]
		users = [{name = "hashed", password = "sha256:DIGEST"}, {name = "some", password = "other", resources = ["some:*"]}, {name = "root", password = "SECRET"}]
		`), 0o600)
	p := begin(t, "--config", dir+"/config.toml")
	p.waitLog("quorum reached")
	own := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := runCommand(nil, append(args, "--config", dir+"/config.toml")...)
		if code != cli.ExitOK || stderr != "" {
			t.Fatalf("redlockd %v: exit code %d, errors %q; want 0, none", args, code, stderr)
		}
		return stdout
	}
	wantOutput(t, own("ping"), `.*: PONG in .*`)
	wantOutput(t, own("info", "clients"), `# Clients\n.*`)
	wantOutput(t, own("info", "users"), `.*user1:name=some,.*user2:name=root,.*`) // root sees all
	wantOutput(t, own("info", "users", "--user", "some"), `# Users\nusers:1\nuser0:name=some,.*`)

	remote := []string{"--server", addr, "--tls", "--tls-ca", dir + "/cert.pem"}
	environ := []string{"REDLOCKD_CLIENT_TLS_SERVER_NAME=localhost"}
	code, stdout, stderr := runCommand(environ, append([]string{"ping"}, remote...)...)
	if code != cli.ExitOK || !strings.Contains(stdout, "alive, and wants a login") {
		t.Errorf("ping without a password: exit code %d, %q, %q; want 0, alive", code, stdout, stderr)
	}
	code, stdout, stderr = runCommand(environ, append([]string{"locks", "--user", "root", "--password-file", dir + "/password"}, remote...)...)
	if code != cli.ExitOK || stdout != "No locks.\n" {
		t.Errorf("locks with a password: exit code %d, %q, %q; want 0, no locks", code, stdout, stderr)
	}
	refused(t, cli.ExitFailed, "WRONGPASS", append(environ, "REDLOCKD_CLIENT_PASSWORD=wrong"), append([]string{"ping", "--user", "root"}, remote...)...)
	refused(t, cli.ExitFailed, "set tls_server_name in [client]", nil, append([]string{"ping"}, remote...)...) // 127.0.0.1 is not in it
	refused(t, cli.ExitFailed, "name the file of the authority that signs its certificate with --tls-ca", environ, "ping", "--server", addr, "--tls")
	refused(t, cli.ExitFailed, "this port speaks TLS, and this does not look like it: say --tls", nil, "ping", "--server", addr)
	plain := listen(t, binary(t))
	refused(t, cli.ExitFailed, "it speaks no TLS there: leave out --tls, or tls in [client]", nil, "ping", "--server", plain.addr, "--tls")
	plain.waitLog("this looks like TLS, and this port does not speak it")
	refused(t, cli.ExitFailed, "NOAUTH", environ, append([]string{"info"}, remote...)...)
	refused(t, cli.ExitUsage, "unknown flag --password", nil, "ping", "--password", "x")

	// Another server at this address is not taken for the own one.
	writeGoodCertificate(t, dir, 2)
	refused(t, cli.ExitFailed, "the server shows another certificate", nil, "ping", "--config", dir+"/config.toml")
}

// LOCKS ALL over processes: the one that was killed is named, with what the others have granted.
func TestLocksOfAFleet(t *testing.T) {
	_, addrs := startMasters(t, 3)
	servers := []*program{launch(t, "--masters", addrs, "--bootstrap")}
	for range 2 {
		servers = append(servers, launch(t, "--masters", addrs))
	}
	for i, p := range servers {
		p.dial().grant(fmt.Sprintf("LOCK job:%d 50s TOKEN mine", i))
	}
	// On a slow machine one may answer too late for a list.
	answered := func(n int) (list client.LockList) {
		t.Helper()
		until(t, fmt.Sprintf("%d redlockds answer", n), func() bool {
			list = client.LockList{}
			if err := json.Unmarshal([]byte(servers[0].ask("locks", "--all", "--json")), &list); err != nil {
				t.Fatal(err)
			}
			return len(list.Answered) == n
		})
		return list
	}
	names := make(map[string]string)
	for _, l := range answered(3).Locks {
		names[l.Resources[0]] = l.Redlockd
	}
	if len(names) != 3 || names["job:0"] == names["job:1"] {
		t.Errorf("got %v, want the locks of three redlockds", names)
	}
	servers[2].signal(syscall.SIGKILL)
	servers[2].exitCode()
	list := answered(2)
	if len(list.Missing) != 1 || list.Missing[0].Name != names["job:2"] || len(list.Locks) != 2 {
		t.Errorf("after the end of %s: got %+v", names["job:2"], list)
	}
	wanted := regexp.MustCompile(`(?s)^.*\nAnswered: \S+ and \S+\.\nMissing: ` + regexp.QuoteMeta(names["job:2"]) + ` \(heard \S+ ago\)\. What these have granted is not in the list\.\n$`)
	until(t, "locks --all names the one that is missing", func() bool { return wanted.MatchString(servers[0].ask("locks", "--all")) })
}

// Goal: with more leases than a list has, the longest held and the one with the longest wait are in it, wherever they stand by name. Method:
// they are the last by name of three thousand.
func TestListsHaveTheLongestHeld(t *testing.T) {
	p := launch(t)
	holder, waiter := p.dial(), p.dial()
	holder.grant("LOCK z-held 50s TOKEN mine")
	holder.grant("LOCK y-waited 50s TOKEN mine")
	waiter.send("LOCK y-waited 50s WAIT 50s")
	p.asks("waiters:1\n", "info", "locks")
	for i := range 3000 {
		holder.send(fmt.Sprintf("LOCK job:%04d 50s TOKEN mine", i))
	}
	p.asks("leases:3002\n", "info", "locks")
	for _, all := range [][]string{nil, {"--all"}} {
		for _, count := range []string{"2", "100"} {
			list := p.ask(append([]string{"locks", "--count", count}, all...)...)
			if !strings.Contains(list, "\nz-held ") || !strings.Contains(list, "\ny-waited ") {
				t.Errorf("locks --count %s %v: got %s, want the longest held, and the one with the longest wait", count, all, list)
			}
		}
		wantOutput(t, p.ask(append([]string{"top", "--once", "--interval", "200ms"}, all...)...), `.*\n240 of 3002 leases: .*lost\n.*\n.*MOST WAITED FOR\nWAITERS .*\n1 +\d+\.\ds .* y-waited\n\nHELD FOR LONGEST .*\nHOLDER .*\n.* z-held\n.*`)
		wantOutput(t, p.ask(append([]string{"top", "--once", "--interval", "200ms", "--by", "held"}, all...)...),
			`.*\nthe first 60 of 3002 leases by what --by held says\n.*\nLOCKS BY HELD .*\nHOLDER +HELD +LEFT +RESOURCE\n127\S+ .* z-held\n127\S+ .* y-waited\n127\S+ .* job:0000\n.*`)
		for _, by := range []string{"waited", "waiters"} {
			wantOutput(t, p.ask(append([]string{"top", "--once", "--interval", "200ms", "--by", by}, all...)...), `.*lost so far: 0\n\n.*\nLOCKS BY `+strings.ToUpper(by)+`\nWAITERS .*\n1 +\d+\.\ds +127\S+ .* y-waited\n`)
		}
		wantOutput(t, p.ask(append([]string{"locks", "--by", "held", "--count", "2"}, all...)...), `RESOURCE .*\nz-held .*\ny-waited .*\n  waiter 1 .*\n\n2 of 3002 leases are listed, by what --by held says\. --count .*`)
		wantOutput(t, p.ask(append([]string{"locks", "--by", "lost"}, all...)...), `No locks\.\n(\nAnswered: \S+\.\n)?`)
	}
	for _, command := range []string{"top", "locks"} {
		refused(t, cli.ExitUsage, `--by: "age" is none of held, waited, waiters and lost`, nil, command, "--by", "age", "--server", p.addr)
	}
}

// On a terminal, top shows its view anew, ends with q and with Ctrl-C, and leaves the terminal as it
// was.
func TestTopOnATerminal(t *testing.T) {
	p := launch(t)
	p.dial().lock("invoices", "t1")
	for _, key := range []string{"q", "\x03"} {
		user, terminal := openTerminal(t)
		if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
			t.Fatal(err)
		}
		before, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(binary(t), "top", "--server", p.addr, "--interval", "200ms")
		startOn(t, terminal, cmd)
		seen := readUntil(user, func(text string) bool { return strings.Count(text, "\x1b[H") > 2 })
		if !strings.HasPrefix(seen, "\x1b[?1049h\x1b[?25l") || !strings.Contains(seen, "invoices") || strings.Contains(seen, "q\x1b") {
			t.Errorf("got %q, want the view", seen)
		}
		user.WriteString(key)
		end := readUntil(user, func(text string) bool { return strings.Contains(text, "\x1b[?25h\x1b[?1049l") })
		if !strings.HasSuffix(end, "\x1b[?25h\x1b[?1049l") {
			t.Errorf("%q: got %q at the end, want the screen as it was", key, end)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%q: got %v, want exit code 0", key, err)
		}
		after, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
		if err != nil || *after != *before {
			t.Errorf("%q: the terminal has %+v, it had %+v (%v)", key, after, before, err)
		}
		terminal.Close()
	}
}

// top fits a small terminal, with the masters before the locks. It waits for a server that is not there
// yet or not there any more, and Ctrl-C ends it also while the server is silent.
func TestTopWaitsForItsServer(t *testing.T) {
	user, terminal := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	addr := redisproc.KeepAddr(t)
	cmd := exec.Command(binary(t), "top", "--server", addr, "--interval", "200ms", "--timeout", "1m")
	startOn(t, terminal, cmd)
	sees := func(text string) (view string) {
		t.Helper()
		if view = readUntil(user, func(seen string) bool { return strings.Contains(seen, text) }); !strings.Contains(view, text) {
			t.Fatalf("the terminal is closed before %q; it has shown %q", text, view)
		}
		return view
	}
	for range 2 {
		sees("no redlockd listens there")
		p := begin(t, "--listen", addr, "--masters", "embedded")
		p.waitLog("quorum reached")
		p.addr = addr
		c := p.dial()
		for i := range 30 {
			c.lock(fmt.Sprint("job:", i), "t")
		}
		sees("(8 of 30)")
		view := sees("\x1b[J")
		view = view[strings.LastIndex(view, "\x1b[H"):]
		if lines := strings.Count(view, "\n") + 1; lines > 23 || !regexp.MustCompile(`(?s)MASTERS.*embedded-5 .*HELD FOR LONGEST \(8 of 30\)(.*job:\d+){8}`).MatchString(view) {
			t.Errorf("got %d lines of 23 at most: %q", lines, view)
		}
		p.signal(syscall.SIGKILL)
		p.exitCode()
	}
	silent, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != nil { // top waits for a reply
		t.Fatal(err)
	}
	user.WriteString("\x03")
	began := time.Now()
	if err := cmd.Wait(); err != nil || time.Since(began) > 30*time.Second {
		t.Errorf("Ctrl-C while the server is silent: got %v after %v, want exit code 0 at once", err, time.Since(began))
	}
}

// readUntil reads what a terminal is sent, until the condition holds or the terminal is closed.
func readUntil(from *os.File, enough func(string) bool) string {
	var text []byte
	for piece := make([]byte, 4096); !enough(string(text)); {
		n, err := from.Read(piece)
		text = slices.Concat(text, piece[:n])
		if err != nil {
			break
		}
	}
	return string(text)
}
