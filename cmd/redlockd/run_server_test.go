package main

// Goal: through servers, redlockd run keeps what it promises with masters: a command runs only while
// its lock is held, whatever becomes of the server, and the exit code and a sentence tell what happened.
// Method: as run_test.go; servers are killed, frozen, drained, restarted and cut off from their masters.

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/redlock/redisproc"
)

// runServers starts n servers over three masters, and returns the beginning of a command line that
// names all of them. These tests wait for most of their time: most run beside each other.
func runServers(t *testing.T, n int, args ...string) ([]*redisproc.Server, []*program, []string) {
	t.Helper()
	masters, addrs := startMasters(t, 3)
	wantRun(t, cli.ExitOK, "admitted", "", "bootstrap", "--masters", addrs)
	var servers []*program
	var at []string
	for range n {
		p := launch(t, append([]string{"--masters", addrs}, args...)...)
		servers, at = append(servers, p), append(at, p.addr)
	}
	return masters, servers, []string{"run", "--server", strings.Join(at, ",")}
}

// again starts a server anew where one has been.
func (p *program) again() *program {
	p.t.Helper()
	args := slices.Clone(p.cmd.Args[1:])
	args[slices.Index(args, "127.0.0.1:0")] = p.addr
	q := beginCommand(p.t, exec.Command(p.cmd.Path, args...))
	q.addr = q.logged("listening")
	q.waitLog("quorum reached")
	return q
}

func TestRunThroughAServer(t *testing.T) {
	t.Parallel()
	_, servers, run := runServers(t, 1)
	_, stdout, stderr := runBinary(t, with(run, "--fence", "r", "--", "sh", "-c", `echo $LOCK_RESOURCE ${#LOCK_TOKEN} ${#LOCK_FENCE}`)...)
	if stdout != "r 26 16\n" || stderr != "" {
		t.Errorf("got %q, %q; want the lock in the environment", stdout, stderr)
	}
	first := begin(t, with(run, with([]string{"--ttl", "4s", "r"}, script(":")...)...)...)
	first.waitLog("ready")
	if got := servers[0].ask("locks"); !strings.Contains(got, "renewed") || !strings.Contains(got, fmt.Sprintf("redlockd run, pid %d on ", first.cmd.Process.Pid)) {
		t.Errorf("got %s, want the purpose of the lock, and that it is renewed", got)
	}
	begin(t, with(run, "r", "--", "true")...).wantExit(cli.ExitHeld, `redlockd: "r" is held by another; --wait 1m would wait for it`)
	begin(t, with(run, "-n", "-E", "3", "r", "--", "true")...).wantExit(3)
	begin(t, with(run, "-w", "0.2", "r", "--", "true")...).wantExit(cli.ExitHeld, `redlockd: "r" is held by another, after 200ms still`)
	if code, stdout, stderr := runBinary(t, with(run, "--quiet", "r", "--", "true")...); code != cli.ExitHeld || stdout+stderr != "" {
		t.Errorf("--quiet: got %d, %q, %q; want %d and silence", code, stdout, stderr, cli.ExitHeld)
	}
	next := begin(t, with(run, "--wait", "1h", "r", "--", "sh", "-c", "echo next >&2")...)
	next.waitLog(`waiting for "r", for 1h at most: through ` + servers[0].addr)
	w := servers[0].dial()
	before := w.info("extends_granted")
	w.until("extends_granted", func(n int) bool { return n >= before+4 }) // for longer than its TTL
	if strings.Contains(next.log(), "next") {
		t.Error("two commands run at once")
	}
	first.signal(syscall.SIGTERM)
	first.wantExit(cli.ExitSignal + 15)
	next.wantExit(cli.ExitOK, `redlockd: got "r" after `, "next")

	impatient := begin(t, with(run, with([]string{"held"}, script(":")...)...)...)
	impatient.waitLog("ready")
	waiting := begin(t, with(run, "-w", "1h", "held", "--", "true")...)
	waiting.waitLog("waiting for")
	waiting.signal(syscall.SIGINT)
	waiting.wantExit(cli.ExitSignal + 2)
	w.want("LOCK free 1s TOKEN x", "[x 999]")

	within := func(args ...string) string { return binary(t) + " " + strings.Join(with(run, args...), " ") }
	_, stdout, stderr = runBinary(t, with(run, "--shared", "s", "--", "sh", "-c", within("-s", "s", "--", "true")+"; echo $?;"+within("s", "--", "true")+"; echo $?")...)
	if stdout != fmt.Sprintf("0\n%d\n", cli.ExitHeld) {
		t.Errorf("beside run --shared: got %q, %q; want another reader and no writer", stdout, stderr)
	}
	_, stdout, stderr = runBinary(t, with(run, "--slots", "2", "--fence", "jobs", "--", "sh", "-c", "echo ${LOCK_RESOURCE%#*} ${#LOCK_FENCE};"+within("--slots", "1", "jobs", "--", "true")+"; echo $?")...)
	if stdout != fmt.Sprintf("jobs 16\n%d\n", 0) && stdout != fmt.Sprintf("jobs 16\n%d\n", cli.ExitHeld) {
		t.Errorf("slots: got %q, %q", stdout, stderr)
	}
}

// Whatever becomes of the server that holds the lock, it is never free while the command runs, and the
// command goes on where another server, or the same one later, can hold the lock.
func TestRunMovesToAnotherServer(t *testing.T) {
	for name, c := range map[string]struct {
		servers int
		loses   func(p *program)
		flags   []string
		drain   string
	}{
		"killed":                 {2, func(p *program) { p.signal(syscall.SIGKILL); p.exitCode() }, nil, "1h"},
		"drained":                {2, func(p *program) { p.signal(syscall.SIGTERM) }, nil, "1h"},
		"frozen":                 {2, func(p *program) { p.signal(syscall.SIGSTOP) }, nil, "1h"},
		"killed, a reader":       {2, func(p *program) { p.signal(syscall.SIGKILL); p.exitCode() }, []string{"--shared"}, "1h"},
		"killed, a slot":         {2, func(p *program) { p.signal(syscall.SIGKILL); p.exitCode() }, []string{"--slots", "1"}, "1h"},
		"the only one restarted": {1, func(p *program) { p.signal(syscall.SIGKILL); p.exitCode(); p.again() }, nil, "1h"},
		"the only one drained":   {1, func(p *program) { p.signal(syscall.SIGTERM); p.exitCode(); p.again() }, nil, "1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			masters, servers, run := runServers(t, c.servers, "--drain-timeout", c.drain)
			resource := "r"
			if c.flags != nil && c.flags[0] == "--slots" {
				resource = "r#0"
			}
			p := begin(t, with(run, with(append([]string{"--ttl", "9s", "r"}[:2:2], append(c.flags, "r")...), script(":")...)...)...)
			p.waitLog("ready")
			first := expiryOf(t, masters[0], resource)
			c.loses(servers[0])
			for last := first; time.Now().UnixMilli() <= first+9000; time.Sleep(10 * time.Millisecond) {
				if end := expiryOf(t, masters[0], resource); end < last {
					t.Fatalf("the lock ended at %d, or was let go: %d\n%s", last, end, p.log())
				} else {
					last = end
				}
			}
			p.signal(syscall.SIGTERM)
			p.wantExit(cli.ExitSignal + 15)
			if end := expiryOf(t, masters[0], resource); end != -2 {
				t.Errorf("the lock ends at %d, want it released", end)
			}
		})
	}
}

// Nobody can hold the lock any more: the command ends before it does.
func TestRunWithoutItsServer(t *testing.T) {
	t.Parallel()
	masters, servers, run := runServers(t, 1)
	p := begin(t, with(run, with([]string{"--ttl", "9s", "--grace", "2s", "r"}, script("trap 'echo TERM >&2' TERM")...)...)...)
	p.waitLog("ready")
	servers[0].signal(syscall.SIGKILL)
	end := expiry(t, masters[0])
	p.wantExit(cli.ExitLost, `redlockd: "r" could not be renewed: connect to `+servers[0].addr+": ", "connection refused", "\nTERM", `redlockd: "r" is lost: connect to `)
	if now := time.Now().UnixMilli(); now >= end {
		t.Errorf("the command was alive at %d, its lock ended at %d on a master", now, end)
	}
}

func TestRunThroughAServerThatLosesItsQuorum(t *testing.T) {
	t.Parallel()
	masters, _, run := runServers(t, 1)
	p := begin(t, with(run, with([]string{"--ttl", "6s", "r"}, script("trap '' TERM")...)...)...) // a job that ignores SIGTERM
	p.waitLog("ready")
	for _, m := range masters {
		m.Freeze()
	}
	p.wantExit(cli.ExitLost, `redlockd: "r" could not be renewed: NOQUORUM `, `redlockd: "r" is lost: NOQUORUM `)
	for _, m := range masters {
		m.Thaw()
	}
	// The masters stand on: the renewals do, too.
	until(t, "locks again", func() bool {
		code, _, _ := runBinary(t, with(run, "other", "--", "true")...)
		return code == cli.ExitOK
	})
	p = begin(t, with(run, with([]string{"--ttl", "12s", "r2"}, script(":")...)...)...)
	p.waitLog("ready")
	for _, m := range masters {
		m.Freeze()
	}
	p.waitLog(`"r2" could not be renewed: NOQUORUM`)
	for _, m := range masters {
		m.Thaw()
	}
	p.waitLog(`"r2" is renewed again`)
	for _, m := range masters {
		redisCLI(t, m.Addr, "DEL", "r2")
	}
	p.wantExit(cli.ExitLost, ` is lost: the token does not hold the resource any more: it was deleted, or masters have forgotten it; the command gets SIGTERM now`)
}

func TestRunThroughAServerWithMaxHold(t *testing.T) {
	t.Setenv("REDLOCKD_LOCKS_MAX_HOLD", "4s")
	t.Setenv("REDLOCKD_LOCKS_MAX_TTL", "4s")
	_, _, run := runServers(t, 1)
	t.Setenv("REDLOCKD_LOCKS_MAX_HOLD", "")
	t.Setenv("REDLOCKD_LOCKS_MAX_TTL", "")
	begin(t, with(run, "r", "--", "true")...).wantExit(cli.ExitUsage, "redlockd: ERR ttl of 30000 ms is above the most, 4000 ms (max_ttl)")
	begin(t, with(run, with([]string{"--ttl", "4s", "r"}, script(":")...)...)...).wantExit(cli.ExitLost, `redlockd: "r" could not be renewed: `, "may be held for 4s in all (max_hold)", `redlockd: "r" is lost: `)
}

// This process stands still, and its command does not: the server holds the lock on.
func TestRunStandsStillThroughAServer(t *testing.T) {
	t.Parallel()
	masters, _, run := runServers(t, 1)
	p := begin(t, with(run, with([]string{"--ttl", "4s", "r"}, script(":")...)...)...)
	p.waitLog("ready")
	p.signal(syscall.SIGSTOP)
	first := expiry(t, masters[0])
	for time.Now().UnixMilli() <= first+4000 {
		if end := expiry(t, masters[0]); end < first {
			t.Fatalf("the lock ended, or was let go: %d", end)
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.signal(syscall.SIGCONT) // it cannot know what became of the lock
	p.wantExit(cli.ExitLost, `redlockd: "r" is lost: this process or its machine was suspended`)
}

func TestRunAsksTheWrongServer(t *testing.T) {
	redis, addr := startMasters(t, 1)
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := nobody.Addr().String()
	nobody.Close()
	for at, want := range map[string]struct {
		code int
		text string
	}{
		redis[0].Addr:                  {cli.ExitUsage, ": a Redis answers there, and no redlockd; name one with --server, or name the masters with --masters"},
		web.Listener.Addr().String():   {cli.ExitNoQuorum, "does not answer LOCK"},
		closed:                         {cli.ExitNoQuorum, "connection refused: no redlockd listens there; name another with --server"},
		"no-such-host.invalid:6380":    {cli.ExitNoQuorum, "connect to no-such-host.invalid:6380"},
		addr + "," + closed:            {cli.ExitUsage, "a Redis answers there"},
		closed + "," + redis[0].Addr:   {cli.ExitUsage, "a Redis answers there"},
		t.TempDir() + "/redlockd.sock": {cli.ExitNoQuorum, "no such file or directory"},
	} {
		begin(t, "run", "--server", at, "r", "--", "true").wantExit(want.code, want.text)
	}

	dir := t.TempDir()
	writeFile(t, dir+"/users.toml", "masters = \"embedded\"\n[auth]\nusers = [{name = \"cron\", password = \"secret\", resources = [\"cron:*\"]}]\n", 0o600)
	p := launch(t, "--config", dir+"/users.toml")
	run := []string{"run", "--server", p.addr}
	begin(t, with(run, "cron:a", "--", "true")...).wantExit(cli.ExitUsage, "redlockd: NOAUTH ")
	t.Setenv("REDLOCKD_CLIENT_USERNAME", "cron")
	t.Setenv("REDLOCKD_CLIENT_PASSWORD", "wrong")
	begin(t, with(run, "cron:a", "--", "true")...).wantExit(cli.ExitUsage, "log in to "+p.addr+": WRONGPASS ")
	t.Setenv("REDLOCKD_CLIENT_PASSWORD", "secret")
	begin(t, with(run, "r", "--", "true")...).wantExit(cli.ExitUsage, "redlockd: NOPERM ")
	_, stdout, _ := runBinary(t, with(run, "cron:a", "--", "sh", "-c", "env")...)
	if strings.Contains(stdout, "secret") || !strings.Contains(stdout, "LOCK_RESOURCE=cron:a\n") {
		t.Errorf("the command has the environment %s", stdout)
	}

	// The file says where the server is, and one that is named as directly as the masters wins.
	writeFile(t, dir+"/client.toml", "masters = [\"10.255.255.1:6379\"]\n[client]\nserver = \""+p.addr+"\"\n", 0o600)
	begin(t, "run", "--config", dir+"/client.toml", "cron:a", "--", "true").wantExit(cli.ExitOK)
	// Nothing is named: the server of these settings.
	t.Setenv("REDLOCKD_SERVER_LISTEN", p.addr)
	begin(t, "run", "cron:a", "--", "true").wantExit(cli.ExitOK, "redlockd: no masters are named: asking the redlockd at "+p.addr)
}

// Whatever answers, the command does not run for longer than the lock that was asked for, without an answer to the renewal.
func TestRunBelievesNoServerForLonger(t *testing.T) {
	t.Parallel()
	liar, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer liar.Close()
	go func() {
		for first := true; ; first = false {
			conn, err := liar.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			if first {
				io.WriteString(conn, "*2\r\n$1\r\nx\r\n:9223372036854775807\r\n")
			} else {
				io.WriteString(conn, "*-7\r\n")
			}
		}
	}()
	begin(t, "run", "--server", liar.Addr().String(), "--ttl", "4s", "r", "--", "sleep", "1000").wantExit(cli.ExitLost, `redlockd: "r" is lost: `)
	for reply, code := range map[string]int{":1\r\n": cli.ExitNoQuorum, "*1\r\n*0\r\n": cli.ExitNoQuorum, "*2\r\n+a\r\n+b\r\n": cli.ExitNoQuorum, "*-1\r\n": cli.ExitHeld, "*2\r\n$1\r\nx\r\n:-5\r\n": cli.ExitNoQuorum, "$-1\r\n": cli.ExitHeld, "-\r\n": cli.ExitNoQuorum, "*99999999\r\n": cli.ExitNoQuorum} {
		other, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		go func() {
			for {
				conn, err := other.Accept()
				if err != nil {
					return
				}
				io.WriteString(conn, reply)
				time.AfterFunc(time.Second, func() { conn.Close() })
			}
		}()
		p := begin(t, "run", "--server", other.Addr().String(), "r", "--", "true")
		if got := p.exitCode(); got != code {
			t.Errorf("%q: exit code %d, want %d: %s", reply, got, code, p.log())
		}
	}
}

// A server that drains sends its clients to another; where there is none, that is said.
func TestRunAsksAServerThatDrains(t *testing.T) {
	t.Parallel()
	_, servers, run := runServers(t, 2, "--drain-timeout", "1h")
	holder := servers[0].dial()
	holder.grant("LOCK other 5m HOLD")
	servers[0].signal(syscall.SIGTERM)
	servers[0].waitLog("drain")
	begin(t, with(run, "r", "--", "true")...).wantExit(cli.ExitOK)
	alone := begin(t, "run", "--server", servers[0].addr, "r", "--", "true")
	if alone.wantExit(cli.ExitNoQuorum); !regexp.MustCompile(`redlockd: (LEAVING |connect to .*: no redlockd listens there)`).MatchString(alone.log()) {
		t.Errorf("got %s", alone.log())
	}
}

// A job of cron on two machines whose clocks differ runs once.
func TestRunKeepsTheLockForAtLeast(t *testing.T) {
	t.Parallel()
	_, addrs := startMasters(t, 3)
	p := launch(t, "--masters", addrs, "--bootstrap")
	for _, run := range [][]string{{"run", "--server", p.addr}, {"run", "--masters", addrs}} {
		w := p.dial()
		early := begin(t, with(run, "--at-least", "5s", "job", "--", "sh", "-c", "echo done >&2; exit 7")...)
		early.waitLog("done")
		begin(t, with(run, "-q", "--at-least", "5s", "job", "--", "true")...).wantExit(cli.ExitHeld) // the late one
		w.want("LOCK job 1s", "null")
		early.wantExit(7)
		w.grant("LOCK job 1s TOKEN x")
		w.want("UNLOCK job x", "1")
		// Who is told to end before leaves the lock to its TTL.
		told := begin(t, with(run, "--at-least", "1m", "job", "--", "sh", "-c", "echo done >&2")...)
		told.waitLog("done")
		until(t, "the command's end is known", func() bool {
			files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", told.cmd.Process.Pid))
			for _, file := range files {
				if text, _ := os.ReadFile(file); len(text) > 0 {
					return false
				}
			}
			return true
		})
		told.signal(syscall.SIGTERM)
		told.wantExit(0)
		w.want("LOCK job 1s", "null")
		w.do("UNLOCK job FORCE test")
	}
}

// One leads at a time, and another one soon after the leader ends, is killed, or loses the lock.
func TestRunLeads(t *testing.T) {
	t.Parallel()
	masters, servers, through := runServers(t, 1)
	var addrs []string
	for _, m := range masters {
		addrs = append(addrs, m.Addr)
	}
	for name, run := range map[string][]string{"server": through, "masters": {"run", "--masters", strings.Join(addrs, ",")}} {
		lead := func() *program {
			return begin(t, with(run, with([]string{"--leader", "--ttl", "6s", name}, script("trap 'echo stopped >&2; exit 0' TERM")...)...)...)
		}
		first := lead()
		first.waitLog("ready")
		second := lead()
		second.waitLog(`waiting to lead "` + name + `": `)
		// Somebody deletes the lock: the command is stopped, and one of them leads again.
		for _, m := range masters {
			redisCLI(t, m.Addr, "DEL", name)
		}
		first.waitLog("stopped")
		until(t, "one leads", func() bool { return strings.Count(first.log()+second.log(), "ready") == 2 })
		if strings.Count(first.log(), "ready") == 2 {
			first, second = second, first
		}
		// The leader is killed: the lock ends with its TTL.
		second.signal(syscall.SIGKILL)
		ready := strings.Count(first.log(), "ready")
		until(t, "the other leads", func() bool { return strings.Count(first.log(), "ready") == ready+1 })
		// Who is told to end does not lead again, and lets go at once.
		third := lead()
		third.waitLog("waiting to lead")
		first.signal(syscall.SIGTERM)
		first.wantExit(0, "stopped")
		third.waitLog("ready")
		third.signal(syscall.SIGTERM)
		third.wantExit(0, "stopped")
	}
	// The command ends by itself: so does redlockd, with its exit code.
	begin(t, with(through, "--leader", "l", "--", "sh", "-c", "exit 9")...).wantExit(9)
	// A restart of the only server interrupts nobody: who leads goes on, and who waits waits on.
	leader := begin(t, with(through, with([]string{"--leader", "l"}, script("trap 'echo stopped >&2; exit 0' TERM")...)...)...)
	leader.waitLog("ready")
	waits := begin(t, with(through, "--leader", "l", "--", "sh", "-c", "exit 8")...)
	waits.waitLog("waiting to lead")
	servers[0].signal(syscall.SIGKILL)
	waits.waitLog("asking again until this process leads")
	servers[0].exitCode()
	again := servers[0].again()
	if got := again.dial().do("LOCK l 1s"); got != "null" {
		t.Errorf("behind the restart: got %s, want that it is held", got)
	}
	w := again.dial()
	w.until("bound", func(n int) bool { return n == 1 })
	if strings.Contains(leader.log(), "stopped") {
		t.Errorf("the leader was stopped: %s", leader.log())
	}
	leader.signal(syscall.SIGTERM)
	leader.wantExit(0)
	waits.wantExit(8)
	begin(t, with(through, "--leader", "redlockd:x", "--", "true")...).wantExit(cli.ExitUsage, "are kept for redlockd itself")
}

// The reply of LOCK is lost on the way: the token finds the lock.
func TestRunLosesAReply(t *testing.T) {
	t.Parallel()
	_, servers, _ := runServers(t, 1)
	relay := startLosingRelay(t, servers[0].addr)
	begin(t, "run", "--server", relay.addr, "r", "--", "sh", "-c", "exit 5").wantExit(5)
	relay.wantLost(t)
	servers[0].dial().grant("LOCK r 1s")
}

// The lines of run.md do what the page says.
func TestRunPage(t *testing.T) {
	p := launch(t)
	dir := t.TempDir()
	for _, name := range []string{"migrate", "send-report", "scheduler"} {
		writeFile(t, dir+"/"+name, "#!/bin/sh\necho "+name+" has $LOCK_RESOURCE\n", 0o755)
	}
	writeFile(t, dir+"/redlockd", "#!/bin/sh\nexec "+binary(t)+" \"$@\"\n", 0o755)
	text, err := os.ReadFile("run.md")
	if err != nil {
		t.Fatal(err)
	}
	_, addrs := startMasters(t, 3)
	wantRun(t, cli.ExitOK, "admitted", "", "bootstrap", "--masters", addrs)
	places := strings.NewReplacer("locks.example.org:6380", p.addr, "a:6380,b:6380", "127.0.0.1:1,"+p.addr, "10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379", addrs, "30s", "1s", "0 2 * * * ", "")
	lines := 0
	for _, block := range regexp.MustCompile("(?s)\n```\n(.*?)```\n").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			lines++
			cmd := patient(exec.Command("sh", "-c", places.Replace(line)))
			cmd.Dir, cmd.Env = dir, append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil || !regexp.MustCompile(`^(migrate has migration|send-report has report|scheduler has scheduler)\n$`).Match(out) {
				t.Errorf("%s: %v: %s", line, err, out)
			}
		}
	}
	if lines != 4 {
		t.Errorf("run.md has %d lines", lines)
	}
}
