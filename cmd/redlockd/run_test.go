package main

// Goal: a command runs only while its lock is held, and redlockd run tells by its exit code what became
// of both. Method: the program as a process, on real redis-server processes that are frozen, killed and
// robbed of the lock; commands are shell scripts that tell on standard error, the log of the program
// here, what happens to them.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/redlock/redisproc"
)

// runMasters starts three masters that have their vote, and returns the beginning of a command line for
// them. The commands have a TTL of 4 s at least: four times what patient gives each master.
func runMasters(t *testing.T) ([]*redisproc.Server, []string) {
	t.Helper()
	t.Setenv("REDLOCKD_MASTER_CONNECT_TIMEOUT", "10s") // a slow test machine is no master that is down
	servers, addrs := startMasters(t, 3)
	wantRun(t, cli.ExitOK, "admitted", "", "bootstrap", "--masters", addrs)
	return servers, []string{"run", "--masters", addrs}
}

func with(args []string, more ...string) []string {
	return append(append([]string(nil), args...), more...)
}

// script is a command that says when it is ready, and then goes on until a signal ends it.
func script(before string) []string {
	return []string{"--", "sh", "-c", before + "\necho ready >&2; while :; do sleep 0.01; done"}
}

func (p *program) wantExit(code int, inLog ...string) {
	p.t.Helper()
	if got := p.exitCode(); got != code {
		p.t.Errorf("exit code %d, want %d:\n%s", got, code, p.log())
	}
	for _, text := range inLog {
		if !strings.Contains(p.log(), text) {
			p.t.Errorf("got on standard error\n%s\nwant in it %q", p.log(), text)
		}
	}
}

func TestRunExitCodes(t *testing.T) {
	_, run := runMasters(t)
	dir := t.TempDir()
	writeFile(t, dir+"/text", "no program\n", 0o644)
	writeFile(t, dir+"/noise", "\x01\x02\x03", 0o755)
	for _, c := range []struct {
		command []string
		code    int
		log     string // pattern
	}{
		{[]string{"true"}, 0, ``},
		{[]string{"sh", "-c", "exit 7"}, 7, ``},
		{[]string{"sh", "-c", "kill -TERM $$"}, cli.ExitSignal + 15, ``},
		{[]string{"sh", "-c", "kill -KILL $$"}, cli.ExitSignal + 9, ``},
		{[]string{"sh", "-c", `echo "$LOCK_RESOURCE ${#LOCK_TOKEN} $0 $1" >&2`, "a b", "--"}, 0, `invoices 36 a b --`},
		{[]string{"no-such-program"}, cli.ExitNotFound, `redlockd: exec: "no-such-program": executable file not found in $PATH`},
		{[]string{dir + "/none"}, cli.ExitNotFound, `redlockd: exec: "` + dir + `/none": stat ` + dir + `/none: no such file or directory`},
		{[]string{dir + "/text"}, cli.ExitCannotRun, `redlockd: exec: "` + dir + `/text": permission denied`},
		{[]string{dir}, cli.ExitCannotRun, `redlockd: exec: "` + dir + `": is a directory`},
		{[]string{dir + "/noise"}, cli.ExitCannotRun, `redlockd: fork/exec ` + dir + `/noise: exec format error`},
	} {
		// Each finds the lock released by the one before, although nobody waits for it.
		code, stdout, stderr := runBinary(t, with(run, append([]string{"invoices", "--"}, c.command...)...)...)
		if code != c.code || strings.TrimSpace(stderr) != c.log || stdout != "" {
			t.Errorf("%q: exit code %d, output %q, errors %q; want %d, none, %q", c.command, code, stdout, stderr, c.code, c.log)
		}
	}
}

// Passwords stand in the variables of the settings. The command gets none of these, and everything
// else.
func TestRunKeepsItsSettingsFromTheCommand(t *testing.T) {
	_, run := runMasters(t)
	file := configFile(t, "")
	t.Setenv("REDLOCKD_CONFIG", file)
	t.Setenv("REDLOCKD_AUTH_USERS", "default:secret")
	t.Setenv("REDLOCKD_SERVER_LISTEN", "") // empty counts as none for redlockd, but would stand in the environment
	t.Setenv("LOCK_FENCE", "of another resource")
	_, stdout, stderr := runBinary(t, with(run, "r", "--", "sh", "-c", "env | grep -E '^(REDLOCKD_|LOCK_)' | sed 's/=.*//' | sort")...)
	if want := "LOCK_RESOURCE\nLOCK_TOKEN\nREDLOCKD_CONFIG\n"; stdout != want {
		t.Errorf("variables of the command %q; want %q; errors %s", stdout, want, stderr)
	}
}

// Whether the command is there is known before the masters are asked.
func TestRunLooksForTheCommandFirst(t *testing.T) {
	servers, run := runMasters(t)
	for _, s := range servers {
		s.Kill()
	}
	t.Setenv("REDLOCKD_MASTER_CONNECT_TIMEOUT", "2s") // nobody answers for as long
	begin(t, with(run, "r", "--", "no-such-program")...).wantExit(cli.ExitNotFound)
	begin(t, with(run, "r", "--", "true")...).wantExit(cli.ExitNoQuorum, "redlockd: NOQUORUM 0 of 3 masters voted, 2 needed; out: "+servers[0].Addr+": down for ", "connection refused")
}

func TestRunExcludes(t *testing.T) {
	_, run := runMasters(t)
	first := begin(t, with(run, with([]string{"r"}, script(":")...)...)...)
	first.waitLog("ready")
	begin(t, with(run, "r", "--", "true")...).wantExit(cli.ExitHeld, `redlockd: "r" is held by another; --wait 1m would wait for it`)
	begin(t, with(run, "--wait", "100ms", "r", "--", "true")...).wantExit(cli.ExitHeld, `redlockd: "r" is held by another, after 100ms still`)
	begin(t, with(run, "other", "--", "true")...).wantExit(cli.ExitOK)

	until(t, "it says that it is held by another", func() bool { // on a slow machine it is not connected yet when it says what it waits for
		impatient := begin(t, with(run, "--wait", "1h", "r", "--", "true")...)
		line := impatient.waitLog(`redlockd: waiting for "r", for 1h at most: `)
		impatient.signal(syscall.SIGINT)
		impatient.wantExit(cli.ExitSignal + 2)
		return strings.HasSuffix(line, ": it is held by another")
	})

	next := begin(t, with(run, "--wait", "1h", "r", "--", "sh", "-c", "echo next >&2")...)
	next.waitLog("waiting for")
	if strings.Contains(next.log(), "next") {
		t.Error("two commands run at once")
	}
	first.signal(syscall.SIGTERM)
	first.wantExit(cli.ExitSignal + 15)
	next.wantExit(cli.ExitOK, `redlockd: got "r" after `, "next")
}

func TestRunExtendsTheLock(t *testing.T) {
	servers, run := runMasters(t)
	p := begin(t, with(run, with([]string{"--ttl", "6s", "r"}, script(":")...)...)...)
	p.waitLog("ready")
	first := expiry(t, servers[0])
	for last := first; time.Now().UnixMilli() <= first; { // longer than its TTL
		end := expiry(t, servers[0])
		if end < last {
			t.Fatalf("the lock ended at %d, or was let go: %d\n%s", last, end, p.log())
		}
		last = end
		time.Sleep(10 * time.Millisecond)
	}
	p.signal(syscall.SIGTERM)
	if p.wantExit(cli.ExitSignal + 15); strings.Contains(p.log(), "redlockd:") {
		t.Errorf("got %s, want no word of the lock", p.log())
	}
	if end := expiry(t, servers[0]); end != -2 {
		t.Errorf("the lock ends at %d, want it released", end)
	}
}

// expiry is when the key r expires on the master, in ms since 1970; -2: there is none.
func expiry(t *testing.T, s *redisproc.Server) int64 {
	t.Helper()
	return expiryOf(t, s, "r")
}

// Redis before 7.0 has no PEXPIRETIME, and reads its clock anew for each command of a script: no millisecond may go by between these.
func expiryOf(t *testing.T, s *redisproc.Server, key string) int64 {
	t.Helper()
	const script = `local function now() local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000) end
		local before, left = now(), redis.call('PTTL', KEYS[1])
		if now() ~= before then return 'again' end
		return string.format('%.0f', left < 0 and left or before + left)`
	for {
		text := redisCLI(t, s.Addr, "EVAL", script, "1", key)
		if text == "again" {
			continue
		}
		end, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return end
	}
}

// Masters that fall silent: the command is asked to end, and what does not is killed, also what it has
// started, before the lock ends on the masters.
func TestRunEndsTheCommandBeforeTheLock(t *testing.T) {
	const ttl = 9 * time.Second
	// So much of the TTL is for clocks: on a slow machine redlockd can come late by that. The grace is
	// longer, so that a SIGTERM at the end of the validity would be found.
	t.Setenv("REDLOCKD_LOCKS_DRIFT_FACTOR", "0.2")
	servers, run := runMasters(t)
	dir := t.TempDir()
	alive := filepath.Join(dir, "alive")
	p := begin(t, with(run, with([]string{"--ttl", ttl.String(), "--grace", "2500ms", "r"},
		script("trap 'echo TERM >&2; exit' TERM; (trap '' TERM; while [ -d "+dir+" ]; do date +%s%3N; sleep 0.01; done >"+alive+") &")...)...)...)
	p.waitLog("ready")
	var end int64
	for frozen := false; !frozen; { // just after an extension, so that no other comes before they are frozen
		before := expiry(t, servers[0])
		for end = before; end == before; end = expiry(t, servers[0]) {
		}
		if end < before {
			t.Fatalf("the lock is not renewed:\n%s", p.log())
		}
		for _, s := range servers {
			if err := s.Freeze(); err != nil {
				t.Fatal(err)
			}
		}
		if frozen = time.Until(time.UnixMilli(end)) > ttl*3/4; !frozen {
			for _, s := range servers {
				s.Thaw()
			}
		}
	}
	p.wantExit(cli.ExitLost, "\nTERM", `redlockd: "r" could not be renewed: NOQUORUM 0 of 3 masters voted, 2 needed; out: `,
		`redlockd: "r" is lost: NOQUORUM 0 of 3 masters voted, 2 needed; out: `, "the command gets SIGTERM now, and SIGKILL in ")
	text, err := os.ReadFile(alive)
	if err != nil {
		t.Fatal(err)
	}
	times := strings.Fields(string(text))
	if last, err := strconv.ParseInt(times[len(times)-1], 10, 64); err != nil || last >= end {
		t.Errorf("the command was alive at %d (%v), its lock ended at %d on a master", last, err, end)
	}
}

// A quorum that comes back in time renews the lock again, and the command goes on.
func TestRunOutlivesAShortOutage(t *testing.T) {
	servers, run := runMasters(t)
	p := begin(t, with(run, with([]string{"--ttl", "12s", "r"}, script(":")...)...)...)
	p.waitLog("ready")
	for _, s := range servers {
		s.Freeze()
	}
	p.waitLog(`"r" could not be renewed: NOQUORUM`)
	for _, s := range servers {
		s.Thaw()
	}
	p.waitLog(`"r" is renewed again`)
	p.signal(syscall.SIGTERM)
	p.wantExit(cli.ExitSignal + 15)
}

// A lock that is gone may be another's already.
func TestRunWithoutItsLock(t *testing.T) {
	servers, run := runMasters(t)
	const text = ` is lost: the token does not hold the resource any more: it was deleted, or masters have forgotten it; the command `
	type robbed struct {
		p    *program
		end  time.Time // of its lock, if nobody had taken it
		want []string
	}
	var all []robbed
	for grace, want := range map[string][]string{"0s": {text + "is killed"}, "1s": {text + "gets SIGTERM now, and SIGKILL in ", "\nTERM"}} {
		resource := "r" + grace
		p := begin(t, with(run, with([]string{"--grace", grace, resource}, script("trap 'echo TERM >&2' TERM")...)...)...)
		p.waitLog("ready")
		all = append(all, robbed{p, time.UnixMilli(expiryOf(t, servers[0], resource)), want})
		for _, s := range servers {
			redisCLI(t, s.Addr, "DEL", resource)
		}
	}
	for _, r := range all { // the loss is known a third of the TTL after the grant
		if r.p.wantExit(cli.ExitLost, r.want...); time.Now().After(r.end) {
			t.Errorf("%v: ended only when the TTL was over, at %v", r.p.cmd.Args, r.end)
		}
	}
	// It is gone, and the command has ended before that was seen.
	del := ""
	for _, s := range servers {
		host, port, _ := strings.Cut(s.Addr, ":")
		del += fmt.Sprintf("redis-cli -h %s -p %s DEL r && ", host, port)
	}
	begin(t, with(run, "r", "--", "sh", "-c", del+"exit 5")...).wantExit(cli.ExitLost, `redlockd: "r" was not held any more when it was to be released`)
}

func TestRunEndsWithMaxHold(t *testing.T) {
	t.Setenv("REDLOCKD_LOCKS_MAX_HOLD", "4s")
	t.Setenv("REDLOCKD_LOCKS_MAX_TTL", "4s")
	_, run := runMasters(t)
	begin(t, with(run, with([]string{"r"}, script(":")...)...)...).wantExit(cli.ExitLost, `redlockd: "r" could not be renewed: the lock was first granted `, "may be held for 4s in all (max_hold)", `redlockd: "r" is lost: `)
}

// The masters do not answer when the lock is to be released: that neither hangs nor changes the exit
// code.
func TestRunCannotRelease(t *testing.T) {
	servers, run := runMasters(t)
	t.Setenv("REDLOCKD_MASTER_TIMEOUT", "250ms") // masters that are needed have four times that, and the release 2 s
	var pids []string
	for _, s := range servers {
		pids = append(pids, strconv.Itoa(s.Pid()))
	}
	p := begin(t, with(run, "r", "--", "sh", "-c", "kill -STOP "+strings.Join(pids, " ")+"; exit 5")...)
	p.wantExit(5, `redlockd: "r" could not be released: NOQUORUM 0 of 3 masters voted, 2 needed; out: `)
	if want := `; its TTL ends it in about (2\d|30)s$`; !regexp.MustCompile(want).MatchString(p.log()) {
		t.Errorf("got %s, want %s", p.log(), want)
	}
}

// The kernel kills the command of a redlockd that is killed: both hold the log open.
func TestRunKilled(t *testing.T) {
	_, run := runMasters(t)
	p := begin(t, with(run, "r", "--", "sh", "-c", "echo ready >&2; exec sleep 1000")...)
	p.waitLog("ready")
	p.signal(syscall.SIGKILL)
	p.wantExit(-1)
}

func TestRunPassesSignalsOn(t *testing.T) {
	_, run := runMasters(t)
	for name, s := range map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2} {
		p := begin(t, with(run, with([]string{"r"}, script("trap 'echo got "+name+" >&2; exit 8' "+name)...)...)...)
		p.waitLog("ready")
		p.signal(s)
		p.wantExit(8, "got "+name)
	}
	// What the command has started gets it, too.
	p := begin(t, with(run, with([]string{"r"}, script("trap 'wait; exit 8' TERM; (trap 'echo so did I >&2; exit' TERM; echo child >&2; while [ -d "+t.TempDir()+" ]; do sleep 0.01; done) &")...)...)...)
	p.waitLog("ready")
	p.waitLog("child")
	p.signal(syscall.SIGTERM)
	p.wantExit(8, "so did I")
}

// Who is told to ignore a signal (nohup, or & in a script) does not end by it, nor does the command.
func TestRunIgnoresWhatItsParentDoes(t *testing.T) {
	_, run := runMasters(t)
	args := append([]string{"-c", `trap '' HUP INT; exec "$0" "$@"`, binary(t)}, with(run, "r", "--", "sh", "-c", "for s in HUP INT; do kill -$s $PPID; kill -$s $$; done; exit 5")...)
	if out, err := exec.Command("sh", args...).CombinedOutput(); err == nil || err.Error() != "exit status 5" {
		t.Errorf("got %v: %s, want exit status 5", err, out)
	}
}

// A redlockd that was stopped until the lock was over ends the command when it goes on.
func TestRunStoppedForTooLong(t *testing.T) {
	servers, run := runMasters(t)
	p := begin(t, with(run, with([]string{"--ttl", "4s", "r"}, script("trap '' TERM")...)...)...)
	p.waitLog("ready")
	p.signal(syscall.SIGSTOP)
	for expiry(t, servers[0]) != -2 {
		time.Sleep(10 * time.Millisecond)
	}
	p.signal(syscall.SIGCONT)
	p.wantExit(cli.ExitLost, `redlockd: "r" is lost: this process or its machine was suspended, or too slow to renew it, until the validity was over; the command is killed`)
}

// Ctrl-Z on a terminal that is not standard input: the command stops with redlockd, and goes on with
// it.
func TestRunStopsTogether(t *testing.T) {
	_, run := runMasters(t)
	// Not a script that starts programs: a shell that has just forked is not stopped before its child
	// goes on.
	p := begin(t, with(run, "r", "--", "sh", "-c", "echo pid $$ >&2; echo ready >&2; exec sleep 1000")...)
	_, pid, _ := strings.Cut(p.waitLog("pid "), " ")
	p.waitLog("ready")
	stopped := func(pid string) bool {
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), ") T ")
	}
	p.signal(syscall.SIGTSTP)
	until(t, "both stop", func() bool { return stopped(pid) && stopped(strconv.Itoa(p.cmd.Process.Pid)) })
	p.signal(syscall.SIGCONT)
	until(t, "the command goes on", func() bool { return !stopped(pid) })
	p.signal(syscall.SIGTERM)
	p.wantExit(cli.ExitSignal + 15)
}

// Nobody reads standard error, so that it is full, or nobody has it open any more: the command is ended
// nevertheless.
func TestRunUnread(t *testing.T) {
	for name, command := range map[string]string{"full": "exec yes >&2", "closed": "exec sleep 1000"} {
		t.Run(name, func(t *testing.T) {
			servers, run := runMasters(t)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			cmd := exec.Command(binary(t), with(run, "--ttl", "4s", "--grace", "0s", "r", "--", "sh", "-c", "echo ready; "+command)...)
			cmd.Stderr = w
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			w.Close()
			fmt.Fscanln(out, new(string))
			if name == "closed" {
				r.Close()
			}
			for _, s := range servers {
				s.Freeze()
			}
			timeout := time.AfterFunc(patience, func() { cmd.Process.Kill() })
			defer timeout.Stop()
			if cmd.Wait(); cmd.ProcessState.ExitCode() != cli.ExitLost {
				t.Errorf("got %v, want exit code %d", cmd.ProcessState, cli.ExitLost)
			}
		})
	}
}

func TestRunFence(t *testing.T) {
	_, run := runMasters(t)
	t.Setenv("LOCK_FENCE", "7") // of a run around this one; without --fence: TestRunKeepsItsSettingsFromTheCommand
	last := 0
	for range 3 {
		_, stdout, stderr := runBinary(t, with(run, "--fence", "r", "--", "sh", "-c", "echo $LOCK_FENCE")...)
		fence, err := strconv.Atoi(strings.TrimSpace(stdout))
		if err != nil || fence <= last {
			t.Errorf("got %q (%s) after %d, want more", stdout, stderr, last)
		}
		last = fence
	}
}

// Commands that share run beside each other and keep the others out, and each of two slots has one
// command.
func TestRunSharedAndSlots(t *testing.T) {
	_, run := runMasters(t)
	within := func(flags ...string) string { return binary(t) + " " + strings.Join(with(run, flags...), " ") }
	for second, want := range map[string]int{"--shared r -- true": cli.ExitOK, "r -- true": cli.ExitHeld} {
		command := "echo $LOCK_RESOURCE; " + within(strings.Fields(second)...) + "; echo $?"
		if _, stdout, stderr := runBinary(t, with(run, "--shared", "r", "--", "sh", "-c", command)...); stdout != fmt.Sprintf("r\n%d\n", want) {
			t.Errorf("run %s beside run --shared r: got %q, want the exit code %d: %s", second, stdout, want, stderr)
		}
	}
	slots := within("--slots", "2", "jobs", "--")
	command := fmt.Sprintf("echo $LOCK_RESOURCE; %[1]s sh -c 'echo $LOCK_RESOURCE; %[1]s true; echo $?'", slots)
	_, stdout, stderr := runBinary(t, with(run, "--slots", "2", "jobs", "--", "sh", "-c", command)...)
	lines := strings.Fields(stdout)
	if len(lines) != 3 || lines[0] == lines[1] || !strings.HasPrefix(lines[0], "jobs#") || !strings.HasPrefix(lines[1], "jobs#") || lines[2] != strconv.Itoa(cli.ExitHeld) {
		t.Errorf("three commands for two slots: got %q, want two slots and %d: %s", lines, cli.ExitHeld, stderr)
	}
}

func TestRunRefusesResources(t *testing.T) {
	_, run := runMasters(t)
	for resource, want := range map[string]string{
		"redlockd:epoch":          "redlockd: resource names that begin with redlockd: are kept for redlockd itself",
		strings.Repeat("x", 1025): "redlockd: a resource name has 1025 bytes, at most 1024 are possible",
	} {
		begin(t, with(run, resource, "--", "true")...).wantExit(cli.ExitUsage, want)
	}
}
