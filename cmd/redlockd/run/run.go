// Package run is redlockd run: it holds a lock while a command runs.
//
//	run.go      the command line, and the command's environment and exit code
//	hold.go     the lock is had, renewed and released, and the command ends before it does
//	masters.go  a lock that this process takes on the masters
//	servers.go  a lock that a redlockd takes, and holds for our connection
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/redlock"
)

const (
	runForm = "redlockd run [flags] resource -- command [args…]"

	runTTL   = 30 * time.Second
	runGrace = 5 * time.Second
	// leaderWait is how long one question of one who wants to lead waits, by default.
	leaderWait = 10 * time.Second
	// runTTLMin is the shortest TTL that leaves time to stop a process before the lock ends.
	runTTLMin = 100 * time.Millisecond
)

// Command is redlockd run.
var Command = cli.Command{Name: "run", Summary: "hold a lock while a command runs", Audience: cli.ForEither, Run: holdAndRun, Form: runForm, Wraps: true,
	Flags: []cli.Flag{
		{Name: "ttl", Arg: "duration", Usage: "how long the lock outlives redlockd at most, if that is killed (default 30s, or max_ttl if that is shorter)"},
		{Name: "wait", Short: "w", Arg: "duration", Usage: "how long to wait for the lock: 10s, or 10 as for flock; max_wait (1h) is the most (default 0s)"},
		{Name: "nonblock", Short: "n", Usage: "do not wait, which is the default; for who comes from flock"},
		{Name: "at-least", Arg: "duration", Usage: "keep the lock for so long from its grant, if the command ends earlier; redlockd ends then, too (default 0s)"},
		{Name: "grace", Arg: "duration", Usage: "time between SIGTERM and SIGKILL when the lock cannot be kept (default 5s, or a sixth of --ttl)"},
		{Name: "fence", Usage: "ask for a fencing token: the command gets it as LOCK_FENCE"},
		{Name: "shared", Short: "s", Usage: "hold it beside others who share it, and never beside one who does not"},
		{Name: "slots", Arg: "k", Usage: "at most k hold it, 1 to 32: the command gets the name of its slot as LOCK_RESOURCE"},
		{Name: "leader", Usage: "run the command whenever this process leads, and stop it when it does not, until the command ends by itself"},
		{Name: "quiet", Short: "q", Usage: "say nothing of the lock: the exit code says what became of it"},
		{Name: "conflict-exit-code", Short: "E", Arg: "n", Usage: "exit with n, 0 to 255, where the lock is held by another (default 120)"},
	},
	Help: `Usage: ` + runForm + `

Locks the resource, runs the command, and releases the lock when the command ends.

With --server, or server in [client], a redlockd that runs takes the lock and holds it for the connection: this machine
needs no way to the masters. Name several servers, or a name that leads to several: if one stops, the lock moves to
another by its token, or back to the same one when it is there again; if none answers, the command ends before the lock.

Otherwise it asks the masters itself: it needs the same masters and max_ttl as the servers over them, but no server. A
master that was restarted votes when a redlockd that runs has given it what the others remember; new masters vote only
after a redlockd has run for about max_ttl. If you have short commands only, keep a server running too, or use bootstrap.
Where no masters are named at all, it asks the server at the address of these settings (127.0.0.1:6380), and says so.

A job of cron that runs on several machines at the same time runs once if --at-least is longer than their clocks differ:

  redlockd run --at-least 30s --quiet nightly-report -- ./send-report

With --leader, one of all who run the same line runs the command at a time. If it loses the lock, it stops the command as
described below and waits to lead again; when the command ends by itself, so does redlockd, and another leads.

The command gets your standard input, output and error. Its environment has LOCK_RESOURCE, LOCK_TOKEN and, with --fence,
LOCK_FENCE. It has none of redlockd's own variables (REDLOCKD_…), because they may hold passwords, except
REDLOCKD_CONFIG, so that a redlockd that the command starts finds its settings. redlockd passes INT, TERM, HUP, QUIT,
USR1 and USR2 on to the command and all that it started (its process group). If standard input is a terminal, the
command stays in the terminal's group: Ctrl-C and Ctrl-Z work as usual, and signals sent to redlockd reach the command
alone. INT and HUP stay ignored, by the command too, if redlockd was started so (nohup, & in a script).

redlockd renews the lock every third of its TTL, until max_hold. If renewal fails, redlockd stops the command before
the lock expires: the command gets SIGTERM at the end of the validity less --grace, and SIGKILL just before the end.
If the lock is lost (deleted, or forgotten by the masters), the command gets SIGTERM now and SIGKILL after --grace.
If redlockd was suspended until the validity was over, it kills the command when it wakes up; only a fence protects
from what the command did before. If redlockd itself is killed, Linux kills the command, but not what the command has
started; on other systems the command runs on, and the lock ends with its TTL. redlockd cannot kill a command that has
more rights than itself (sudo): run redlockd with these rights.

` + cli.RunExitCodes + `    2  the command line or the configuration is wrong; 1  failed otherwise
`}

// runOptions is the command line of run: the resource, the command, and how long.
type runOptions struct {
	resource         string
	command          []string
	ttl, wait, grace time.Duration
	atLeast          time.Duration
	fence, shared    bool
	slots            int // 0: none
	leader           bool
	heldCode         int // the exit code where another holds the lock
}

// holdAndRun holds a lock while a command runs.
func holdAndRun(call *cli.Call) error {
	var e runOptions
	if err := e.readOperands(call); err != nil {
		return call.Misused("%w", err)
	}
	call.Warn()
	through := call.Settings.ThroughServer()
	if err := e.readFlags(call, limitsOf(call.Settings, through)); err != nil {
		return cli.Usage(err)
	}
	path, err := exec.LookPath(e.command[0])
	if err != nil {
		fmt.Fprintf(call.Stderr, "redlockd: %v\n", err)
		return cli.ExitCode(exitCodeOfStart(err))
	}
	messages := call.Stderr
	if call.On("quiet") {
		messages = io.Discard
	}
	say, written := speaker(messages)
	defer written()
	var by way
	if through {
		by, err = throughServers(call, &e, say)
	} else {
		by, err = openMasters(call.Settings)
	}
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), endIn)
		defer cancel()
		by.close(ctx)
	}()
	signals := catchSignals()
	for {
		h := &holding{runOptions: e, way: by, say: say, signals: signals}
		code := h.take()
		if code == cli.ExitOK {
			code = h.run(e.commandFor(h.lock, &call.Process, path))
		}
		if held := h.end(); !held {
			code = cli.ExitLost
		}
		if !e.leader || h.lost == nil || h.told {
			return cli.ExitCode(code)
		}
	}
}

// limitsOf are those of the durations on the command line. Those of a server are its own: it says where
// they are passed.
func limitsOf(c *config.Config, through bool) redlock.Options {
	o := c.Engine
	if through {
		o.MinTTL, o.MaxTTL, o.MaxWait = time.Second, 24*time.Hour, 24*time.Hour
	}
	return o
}

// openMasters is the way without a server.
func openMasters(c *config.Config) (way, error) {
	// The command may outlive the certificate that masters ask for. It is watched until the program ends.
	c.WatchFiles(context.Background(), slog.New(slog.DiscardHandler))
	client, err := redlock.Open(c.Engine)
	if err != nil {
		return nil, err
	}
	return masters{client}, nil
}

// throughServers is the way through the servers that are named, or the one of these settings.
func throughServers(call *cli.Call, e *runOptions, say func(string, ...any)) (way, error) {
	if _, named := call.Given["masters"]; named && len(call.Settings.Engine.Masters) > 0 {
		return nil, cli.Usage(errors.New("--server and --masters: name the servers, or the masters that are to be asked without one"))
	}
	all, err := call.Settings.Servers()
	if err != nil {
		return nil, cli.Usage(err)
	}
	s := &servers{all: all, note: e.purpose()}
	if call.Settings.Find("client.server").Text() == `""` {
		say("no masters are named: asking the redlockd at %s; --server names another, --masters those that it is to do without one", all[0].Addr)
	}
	return s, nil
}

// purposeMax is how long a server takes a NOTE.
const purposeMax = 200

// purpose is what LOCKS shows beside the lock.
func (e *runOptions) purpose() string {
	host, _ := os.Hostname()
	text := []byte(fmt.Sprintf("redlockd run, pid %d on %s: %s", os.Getpid(), host, filepath.Base(e.command[0])))
	for i, b := range text {
		if b < ' ' || b > '~' {
			text[i] = '?'
		}
	}
	return string(text[:min(len(text), purposeMax)])
}

// readOperands takes the resource, which stands between the flags and the --, and the command behind
// it.
func (e *runOptions) readOperands(c *cli.Call) error {
	switch {
	case len(c.Args) == 0 || c.Args[0] == "":
		return errors.New("no resource is named: " + runForm)
	case len(c.Args) > 1 && c.Wrapped == nil && c.Args[1] != "" && c.Args[1][0] != '-':
		return fmt.Errorf("-- is missing between the resource %q and the command %q: %s", c.Args[0], c.Args[1], runForm)
	case len(c.Args) > 1:
		return fmt.Errorf("unexpected %q behind the resource %q: %s", c.Args[1], c.Args[0], runForm)
	case c.Wrapped == nil:
		return fmt.Errorf("-- and a command are missing behind the resource %q: %s", c.Args[0], runForm)
	case len(c.Wrapped) == 0:
		return errors.New("no command stands behind --: " + runForm)
	}
	e.resource, e.command = c.Args[0], c.Wrapped
	return nil
}

// seconds are what flock takes for a time.
var seconds = regexp.MustCompile(`^\d+(\.\d+)?$`)

func (e *runOptions) readFlags(c *cli.Call, o redlock.Options) error {
	var errs []error
	read := func(name string, standard, least, most time.Duration, limits string) time.Duration {
		d, err := c.Duration(name, standard, least, most, ": "+limits)
		errs = append(errs, err)
		return d
	}
	e.fence, e.shared = c.On("fence"), c.On("shared")
	if text, given := c.Given["slots"]; given {
		var err error
		if e.slots, err = strconv.Atoi(text); err != nil || e.slots < 1 || e.slots > redlock.MaxSlots {
			errs = append(errs, fmt.Errorf("--slots: %q is no number from 1 to %d", text, redlock.MaxSlots))
		}
	}
	if e.shared && (e.fence || e.slots > 0) {
		errs = append(errs, errors.New("--shared goes neither with --fence nor with --slots: who shares writes nothing that a fence would keep in order, and a slot has one holder"))
	}
	e.leader = c.On("leader")
	e.heldCode = cli.ExitHeld
	if text, given := c.Given["conflict-exit-code"]; given {
		var err error
		if e.heldCode, err = strconv.Atoi(text); err != nil || e.heldCode < 0 || e.heldCode > 255 {
			errs = append(errs, fmt.Errorf("--conflict-exit-code: %q is no number from 0 to 255", text))
		}
	}
	e.atLeast = read("at-least", 0, 0, o.MaxTTL, "the most is locks.max_ttl: the lock lives as long if redlockd is killed before")
	if e.leader && e.atLeast > 0 {
		errs = append(errs, errors.New("--at-least goes not with --leader, which keeps the lock for as long as the command runs"))
	}
	if e.leader && c.On("nonblock") {
		errs = append(errs, errors.New("--nonblock goes not with --leader, which waits until it leads"))
	}
	e.ttl = read("ttl", min(runTTL, o.MaxTTL), max(o.MinTTL, 4*o.MasterTimeout, runTTLMin), o.MaxTTL,
		"at least 100ms, locks.min_ttl and four times master.timeout, at most locks.max_ttl; the lock is renewed for as long as the command runs")
	e.ttl = max(e.ttl, e.atLeast)
	usual, least := time.Duration(0), time.Duration(0)
	if e.leader { // it asks again and again
		usual, least = min(leaderWait, o.MaxWait), min(time.Second, o.MaxWait)
	}
	if text := c.Given["wait"]; seconds.MatchString(text) {
		c.Given["wait"] = text + "s"
	}
	e.wait = read("wait", usual, least, o.MaxWait, "the most is locks.max_wait; to wait for longer, set REDLOCKD_LOCKS_MAX_WAIT, up to 24h")
	if _, given := c.Given["wait"]; given && c.On("nonblock") {
		errs = append(errs, errors.New("--wait and --nonblock: one waits, the other does not"))
	}
	if errors.Join(errs...) == nil {
		e.grace = read("grace", min(runGrace, e.ttl/6), 0, e.ttl/3, "the most is a third of --ttl, for the rest is needed to renew the lock; ask for a longer --ttl")
	}
	return errors.Join(errs...)
}

// commandFor is the command, with the lock in its environment and without our settings.
func (e *runOptions) commandFor(l lock, p *cli.Process, path string) *exec.Cmd {
	resource, token, fence := l.name()
	environ := slices.DeleteFunc(slices.Clone(p.Environ), keptFromCommand)
	environ = append(environ, "LOCK_RESOURCE="+resource, "LOCK_TOKEN="+token)
	if fence != 0 {
		environ = append(environ, fmt.Sprintf("LOCK_FENCE=%d", fence))
	}
	return &exec.Cmd{Path: path, Args: e.command, Env: environ, Stdin: os.Stdin, Stdout: p.Stdout, Stderr: p.Stderr}
}

// keptFromCommand tells whether the command must not get this variable. Settings may hold passwords.
// REDLOCKD_CONFIG stays, for a redlockd that the command starts: permissions protect the file. A run
// inside a run must not pass on the fence of another resource.
func keptFromCommand(pair string) bool {
	name, _, _ := strings.Cut(pair, "=")
	return name == "LOCK_FENCE" || strings.HasPrefix(name, config.EnvironmentPrefix) && name != config.FileVariable
}

// exitCodeOf is the exit code that a shell would return for a command that ended like this.
func exitCodeOf(s syscall.WaitStatus) int {
	if s.Signaled() {
		return cli.ExitSignal + int(s.Signal())
	}
	return s.ExitStatus()
}

// exitCodeOfStart differs, as in shells, for a command that does not exist and one that cannot be run.
func exitCodeOfStart(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return cli.ExitNotFound
	}
	return cli.ExitCannotRun
}

// speaker writes messages to w on a goroutine of its own, because a reader that stops reading must not
// delay the signals that end the command in time. It drops messages beyond 16 that wait. written waits
// for the last message.
func speaker(w io.Writer) (say func(format string, args ...any), written func()) {
	lines, done := make(chan string, 16), make(chan struct{})
	go func() {
		defer close(done)
		for line := range lines {
			io.WriteString(w, line)
		}
	}()
	say = func(format string, args ...any) {
		select {
		case lines <- fmt.Sprintf("redlockd: "+format+"\n", args...):
		default:
		}
	}
	written = func() {
		close(lines)
		select {
		case <-done:
		case <-time.After(endIn):
		}
	}
	return say, written
}
