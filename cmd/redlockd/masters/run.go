package masters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
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
	// runTTLMin is the shortest TTL that leaves time to stop a process before the lock ends.
	runTTLMin = 100 * time.Millisecond
)

var Run = cli.Command{Name: "run", Summary: "hold a lock while a command runs", Audience: cli.ForMasters, Run: holdAndRun, Form: runForm, Wraps: true,
	Flags: []cli.Flag{
		{Name: "ttl", Arg: "duration", Usage: "how long the lock outlives redlockd at most, if that is killed (default 30s, or max_ttl if that is shorter)"},
		{Name: "wait", Arg: "duration", Usage: "how long to wait for the lock; for more than an hour, set REDLOCKD_LOCKS_MAX_WAIT too (default 0s)"},
		{Name: "grace", Arg: "duration", Usage: "time between SIGTERM and SIGKILL when the lock cannot be kept (default 5s, or a sixth of --ttl)"},
		{Name: "fence", Usage: "ask for a fencing token: the command gets it as LOCK_FENCE"},
		{Name: "shared", Usage: "hold it beside others who share it, and never beside one who does not"},
		{Name: "slots", Arg: "k", Usage: "at most k hold it, 1 to 32: the command gets the name of its slot as LOCK_RESOURCE"},
	},
	Help: `Usage: ` + runForm + `

Locks the resource, runs the command, and releases the lock when the command ends. It asks the masters itself: it needs
the same masters and max_ttl as the servers over them, but no server. A master that was restarted votes when a redlockd
that runs has given it what the others remember; new masters vote only after a redlockd has run for about max_ttl. If you
have short commands only, keep a server running too, or use bootstrap.

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
	fence, shared    bool
	slots            int // 0: none
}

// holdAndRun holds a lock while a command runs.
func holdAndRun(call *cli.Call) error {
	var e runOptions
	if err := e.readOperands(call); err != nil {
		return call.Misused("%w", err)
	}
	if err := call.NeedMasters(); err != nil {
		return err
	}
	c := call.Settings
	if err := e.readFlags(call, c.Engine); err != nil {
		return cli.Usage(err)
	}
	path, err := exec.LookPath(e.command[0])
	if err != nil {
		fmt.Fprintf(call.Stderr, "redlockd: %v\n", err)
		return cli.ExitCode(exitCodeOfStart(err))
	}
	watching, stop := context.WithCancel(context.Background())
	defer stop()
	c.WatchFiles(watching, slog.New(slog.DiscardHandler)) // the command may outlive the certificate that masters ask for
	client, err := redlock.Open(c.Engine)
	if err != nil {
		return err
	}
	say, written := speaker(call.Stderr)
	defer written()
	h := newHolding(e, client, say)
	code := h.take()
	if code == cli.ExitOK {
		code = h.run(e.commandFor(h.lease, &call.Process, path))
	}
	if held := h.end(); !held {
		code = cli.ExitLost
	}
	return cli.ExitCode(code)
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
	e.ttl = read("ttl", min(runTTL, o.MaxTTL), max(o.MinTTL, 4*o.MasterTimeout, runTTLMin), o.MaxTTL,
		"at least 100ms, locks.min_ttl and four times master.timeout, at most locks.max_ttl; the lock is renewed for as long as the command runs")
	e.wait = read("wait", 0, 0, o.MaxWait, "the most is locks.max_wait; to wait for longer, set REDLOCKD_LOCKS_MAX_WAIT, up to 24h")
	if errors.Join(errs...) == nil {
		e.grace = read("grace", min(runGrace, e.ttl/6), 0, e.ttl/3, "the most is a third of --ttl, for the rest is needed to renew the lock; ask for a longer --ttl")
	}
	return errors.Join(errs...)
}

// commandFor is the command, with the lock in its environment and without our settings.
func (e *runOptions) commandFor(lease *redlock.Lease, p *cli.Process, path string) *exec.Cmd {
	environ := slices.DeleteFunc(slices.Clone(p.Environ), keptFromCommand)
	environ = append(environ, "LOCK_RESOURCE="+lease.Resources[0], "LOCK_TOKEN="+lease.Token)
	if lease.Fence != 0 {
		environ = append(environ, fmt.Sprintf("LOCK_FENCE=%d", lease.Fence))
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
