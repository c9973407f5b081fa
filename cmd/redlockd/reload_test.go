package main

// Goal: an operator who changes the file and sends SIGHUP or CONFIG RELOAD gets all of it or nothing,
// and reads which; nobody loses a lock. Method: the program as a process over a file that changes.

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"redlockd/cmd/redlockd/cli"
)

const reloadFile = `[server]
max_clients = 100
[auth]
users = [
  {name = "default", password_file = "password"},
  {name = "billing", password = "b", resources = ["billing:*"]},
]
[log]
level = "info"
[[policy]]
prefix = "small:*"
max_ttl = "10s"
`

func TestReload(t *testing.T) {
	binary(t) // built where the sources are
	t.Chdir(t.TempDir())
	write := func(changes ...string) {
		writeFile(t, "redlockd.toml", strings.NewReplacer(changes...).Replace(reloadFile), 0o600)
	}
	writeFile(t, "password", "first\n", 0o600)
	write()
	p := launch(t, "--config", "redlockd.toml", "--masters", "embedded")
	root, billing := p.dial(), p.dial()
	root.want("AUTH first", "OK")
	root.lock("r", "t1")
	billing.want("AUTH billing b", "OK")

	p.signal(syscall.SIGHUP)
	p.waitLog(`"msg":"the settings were read again","changed":"nothing"`)

	write("100", "200", `"info"`, `"warn"`, `billing:*"]`, `billing:*"], max_ttl = "20s"`, `max_ttl = "10s"`, `max_ttl = "5s"`)
	root.want("LOCK small:1 10001", "ERR ttl of 10001 ms is above the most, 10000 ms (max_ttl of policy small:*): ask for a shorter ttl, or change the limit in [[policy]]")
	const changed = `policy, server.max_clients, auth.users ("billing" changed), log.level`
	own := []string{"REDLOCKD_SERVER_LISTEN=" + p.addr} // so the command logs in as the user of the file
	if code, stdout, stderr := runCommand(own, "reload", "--config", "redlockd.toml"); code != cli.ExitOK || stdout != changed+"\n" {
		t.Fatalf("redlockd reload: exit code %d, %q, errors %q; want %q", code, stdout, stderr, changed)
	}
	root.want("CONFIG GET server.max_clients", "[server.max_clients 200]")
	root.want("CONFIG GET policy", `[policy [{prefix = "small:*", max_ttl = "5s"}]]`)
	root.want("LOCK small:1 5001", "ERR ttl of 5001 ms is above the most, 5000 ms (max_ttl of policy small:*): ask for a shorter ttl, or change the limit in [[policy]]")
	root.want("CONFIG GET maxclients", "[maxclients 200]")
	billing.want("LOCK billing:1 30000", "ERR ttl of 30000 ms is above the most, 20000 ms (max_ttl of user billing in [auth])")

	// Nothing is taken over from a file with a fault, and the log has each with its line.
	write("100", "300", `"info"`, `"loud"`, `name = "billing"`, `nam = "billing"`)
	refused(t, cli.ExitFailed, "ERR nothing was changed: redlockd.toml:4", nil, "reload", "--server", p.addr, "--user", "default", "--password-file", "password")
	root.want("CONFIG RELOAD", "ERR nothing was changed: redlockd.toml:4: auth.users[1].nam: unknown setting (did you mean name?); those of a table here are name, password, password_file, "+
		"cert_cn, resources, admin, channels, commands, max_connections, max_locks, max_memory, max_waiters, max_ttl; redlockd.toml:9: log.level: \"loud\" is none of debug, info, warn, error")
	p.waitLog(`"level":"WARN","msg":"the settings could not be read again: those before stay in force","reason":"redlockd.toml:9: log.level`)
	root.want("CONFIG GET maxclients", "[maxclients 200]")
	if strings.Contains(p.log(), "server.max_clients, auth.users") {
		t.Errorf("the level is warn, and the log has:\n%s", p.log())
	}

	write("100", "300", "[server]", "[server]\nlisten = \"127.0.0.1:1\"\nsocket_mode = \"0660\"", "[log]", "[locks]\nmin_ttl = \"2s\"\n[log]")
	// What needs a restart is named, each time, and the rest is in force. The flag --listen has the say.
	const late = "; not in force before a restart: server.socket_mode, locks.min_ttl"
	root.want("CONFIG RELOAD", `policy, server.max_clients, auth.users ("billing" changed), log.level`+late)
	p.waitLog(`"msg":"settings differ from those in force","settings":"server.socket_mode, locks.min_ttl"`)
	if code, stdout, stderr := runCommand(own, "reload", "--config", "redlockd.toml"); code != cli.ExitFailed || stdout != "nothing"+late+"\n" || stderr != "" {
		t.Fatalf("redlockd reload: exit code %d, %q, errors %q; want 1 and what is not in force", code, stdout, stderr)
	}
	root.want("CONFIG GET maxclients", "[maxclients 300]")
	root.want("CONFIG GET locks.min_ttl", "[locks.min_ttl 1s]")

	write("100", "200", "[log]", "[locks]\nmax_ttl = \"2m\"\n[log]")
	root.want("CONFIG RELOAD", `server.max_clients; not in force, because the membership of the masters has the say: locks.max_ttl`)
	root.want("CONFIG GET locks.max_ttl", "[locks.max_ttl 5m]")

	// A command that logs in with a password that the server has not read says what helps.
	write("100", "200", `name = "default", password_file = "password"`, `name = "default", password = "changed"`)
	refused(t, cli.ExitFailed, "the server still has the one before: send it SIGHUP", own, "reload", "--config", "redlockd.toml")
	write("100", "200")
	root.want("CONFIG RELOAD", "nothing")

	// Another password closes the connections of its user, and the one who asked has its answer before.
	writeFile(t, "password", "second\n", 0o600)
	root.want("CONFIG RELOAD", `auth.users ("default" changed)`)
	root.ended()
	billing.want("PING", "PONG")
	again := p.dial()
	again.want("AUTH first", "WRONGPASS invalid username-password pair or user is disabled.")
	again.want("AUTH second", "OK")
	again.want("LOCK r 30000", "null")
	again.want("UNLOCK r t1", "1")

	// A file that is empty, or has lost its users, does not make everybody an administrator.
	const lastLogin = "auth.users: the settings have no users any more: taking away the last login needs a restart; put a user back, or restart redlockd"
	writeFile(t, "redlockd.toml", "", 0o600)
	again.want("CONFIG RELOAD", "ERR nothing was changed: "+lastLogin)
	writeFile(t, "redlockd.toml", "[auth]\nusers = []\n", 0o600)
	p.signal(syscall.SIGHUP)
	p.waitLog("redlockd.toml:2: " + lastLogin)
	again.want("CONFIG GET maxclients", "[maxclients 200]")
	p.dial().want("LOCK r 30000", "NOAUTH Authentication required.")
	if log := p.log(); strings.Contains(log, "second") || strings.Contains(log, "first\"") {
		t.Errorf("the log has a password:\n%s", log)
	}
	p.signal(syscall.SIGTERM)
	p.wantExit(cli.ExitOK)
}

// A reload must not open a server that others can reach, nor forget its masters.
func TestReloadKeepsProtectedMode(t *testing.T) {
	binary(t) // built where the sources are
	t.Chdir(t.TempDir())
	_, addrs := startMasters(t, 1)
	masters := "masters = [\"" + addrs + "\"]\n"
	writeFile(t, "redlockd.toml", masters+"[server]\nlisten = \"0.0.0.0:0\"\n[auth]\nusers = [{name = \"default\", password = \"p\"}]\n", 0o600)
	p := begin(t, "serve", "--bootstrap", "--config", "redlockd.toml")
	p.waitLog("quorum reached")
	writeFile(t, "redlockd.toml", masters+"[server]\nlisten = \"0.0.0.0:0\"\n", 0o600)
	p.signal(syscall.SIGHUP)
	p.waitLog("redlockd.toml:3: server.listen: protected mode")
	writeFile(t, "redlockd.toml", "", 0o600)
	p.signal(syscall.SIGHUP)
	p.waitLog("masters: none are named")
}

// The audit and the limits of locks change with everything else or not at all, and what only client
// commands read is no change.
func TestReloadOfAuditAndLimits(t *testing.T) {
	dir := t.TempDir()
	file, first, second := dir+"/redlockd.toml", dir+"/first.log", dir+"/second.log"
	write := func(audit, locks, rest string) {
		writeFile(t, file, "[audit]\nfile = \""+audit+"\"\nlocks = true\n[locks]\n"+locks+"\n"+rest, 0o600)
	}
	write(first, "max_waiters = 10", "")
	p := launch(t, "--config", file, "--masters", "embedded")
	c := p.dial()
	c.lock("a", "t")
	auditLines(t, first, 1)

	write(first, "max_waiters = 10", "[client]\nserver = \"10.0.0.9:6380\"\nusername = \"ops\"\n")
	c.want("CONFIG RELOAD", "nothing")

	write(second, "max_waiters = 10\nmax_wait = \"2s\"\nmax_bound = 1", "")
	c.want("CONFIG RELOAD", "audit.file, locks.max_wait, locks.max_bound")
	c.lock("b", "t")
	c.want("LOCK c 1000 WAIT 3000", "ERR WAIT of 3000 is outside 0 … 2000 ms (max_wait)")
	c.want("CONFIG GET locks.max_wait", "[locks.max_wait 2s]")
	if r := auditLines(t, second, 2)[1]; !strings.Contains(toJSON(t, r), `"b"`) {
		t.Errorf("the second line of the second file: got %v, want the LOCK behind the reload", r)
	}
	before := len(auditLines(t, first, 2)) // LOCK and CONFIG RELOAD

	// A file that cannot be opened: the limits stay, too, and the audit goes on where it is.
	write(dir+"/nowhere/audit.log", "max_waiters = 10\nmax_wait = \"9s\"", "")
	if got := c.do("CONFIG RELOAD"); !strings.HasPrefix(got, "ERR nothing was changed: audit.file ("+file+":2): the audit cannot be written: ") {
		t.Errorf("got %s, want the setting, its line and the reason", got)
	}
	c.want("LOCK c 1000 WAIT 3000", "ERR WAIT of 3000 is outside 0 … 2000 ms (max_wait)")
	c.lock("d", "t")
	for n, last := 1, ""; !strings.Contains(last, `"d"`); n++ { // refusals are limited: as many as there are, the LOCK is behind them
		last = toJSON(t, auditLines(t, second, n)[n-1])
	}

	// A fault elsewhere changes nothing, and no file is made.
	write(dir+"/third.log", "max_waiters = 10\nmin_ttl = \"1h\"", "")
	if got := c.do("CONFIG RELOAD"); !strings.HasPrefix(got, "ERR nothing was changed: ") || !strings.Contains(got, "locks.min_ttl") {
		t.Errorf("got %s, want locks.min_ttl", got)
	}
	if _, err := os.Stat(dir + "/third.log"); err == nil {
		t.Error("a reload that was refused has made the file of the audit")
	}

	writeFile(t, file, "", 0o600)
	c.want("CONFIG RELOAD", "audit.file, audit.locks, locks.max_wait, locks.max_waiters, locks.max_bound")
	c.lock("e", "t")
	if n := len(auditLines(t, first, before)); n != before {
		t.Errorf("the first file has %d records, want %d", n, before)
	}
	if text, _ := os.ReadFile(second); strings.Contains(string(text), `"e"`) {
		t.Errorf("the audit has ended, and goes on:\n%s", text)
	}
}

// What redlockd members tells an operator to write into the file is in force; anything else of it is
// named.
func TestReloadOfMembership(t *testing.T) {
	s, addrs := startMembers(t, 3, 1)
	os.Unsetenv("REDLOCKD_LOCKS_MAX_TTL") // the file has it
	file := t.TempDir() + "/redlockd.toml"
	write := func(masters, maxTTL string) {
		writeFile(t, file, "masters = "+masters+"\n[locks]\nmax_ttl = \""+maxTTL+"\"\n", 0o600)
	}
	listed := func(masters ...string) string { return `["` + strings.Join(masters, `", "`) + `"]` }
	write(listed(s[0].Addr, s[1].Addr, s[2].Addr), "2s")
	p := launch(t, "--config", file)
	c := p.dial()
	c.want("CONFIG RELOAD", "nothing")
	change(t, addrs, "replace", s[2].Addr, s[3].Addr)
	change(t, addrs, "set", "max_ttl", "3s")
	c.eventually("LOCK long 2500", func(got string) bool { return strings.HasPrefix(got, "[") })
	written := `[{addr = "` + s[0].Addr + `"}, {addr = "` + s[1].Addr + `"}, {name = "` + s[2].Addr + `", addr = "` + s[3].Addr + `"}]`
	write(written, "3s")
	c.want("CONFIG RELOAD", "nothing")
	write(listed(s[0].Addr, s[1].Addr, s[3].Addr+"/7"), "4s")
	c.want("CONFIG RELOAD", "nothing; not in force, because the membership of the masters has the say: masters, locks.max_ttl")
}
