package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/redlock"
)

// holding is a lock that is held for a command, once.
//
// Invariant: the command does not run past the validity of the lock. So the validity, which shrinks
// also while the machine sleeps, is looked at first of all when anything wakes us; and while the
// command runs, nothing here waits for masters or servers (redlock.KeepAlive does), or for somebody to
// read what we write.
type holding struct {
	runOptions
	way     way
	say     func(format string, args ...any)
	signals chan os.Signal

	lock         lock      // nil: not granted
	granted      time.Time // when that was known
	stopRenewing func()    // nil: nothing renews it

	command *exec.Cmd
	group   bool // the command has a process group of its own: that gets the signals

	lost   error     // why the command was told to end; nil: it was not
	killAt time.Time // set with lost: the command is killed then, if the validity is not over before
	killed bool
	told   bool // somebody has told us to end, too
}

// way is how locks are had: of the masters, or through servers.
type way interface {
	// take asks for the lock. The error is one of package redlock, or of a server.
	take(ctx context.Context, o *runOptions) (lock, error)
	// obstacle says what a lock is waited for.
	obstacle() string
	close(ctx context.Context)
}

// lock is one that was granted. One goroutine uses it, except for Validity.
type lock interface {
	redlock.Renewable
	// Unlock releases it. ErrNotHeld: it was not held any more.
	Unlock(ctx context.Context) error
	// name is what is locked, a slot where it is one of several. fence: 0 if none was asked for.
	name() (resource, token string, fence int64)
}

// endIn bounds the release of the lock. On a master that is down, it ends with its TTL.
const endIn = 2 * time.Second

// waitToldAfter is how long a lock is waited for in silence.
const waitToldAfter = 500 * time.Millisecond

// leaderPause is how long one who wants to lead waits after an answer that is none.
const leaderPause = 500 * time.Millisecond

// catchSignals are those that end programs, and those that mean something to some.
func catchSignals() chan os.Signal {
	signals := make(chan os.Signal, 16)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
		// What nohup, or a shell that starts us in the background, has us ignore stays ignored, by the
		// command too.
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	// A message to a pipe that nobody reads any more must not end us, and leave the command alone.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return signals
}

// take locks the resource. If it cannot, it says why, and returns the exit code for that.
func (h *holding) take() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	began := time.Now()
	silence := time.NewTimer(waitToldAfter)
	defer silence.Stop()
	done := make(chan error, 1)
	go func() { done <- h.acquire(ctx) }()
	for told := false; ; {
		select {
		case <-silence.C:
			if told = h.wait > 0; !told {
				break
			}
			if h.leader {
				h.say("waiting to lead %q: %s", h.resource, h.way.obstacle())
			} else {
				h.say("waiting for %q, for %s at most: %s", h.resource, config.FormatDuration(h.wait), h.way.obstacle())
			}
		case s := <-h.signals:
			cancel()
			<-done
			return cli.ExitSignal + int(s.(syscall.Signal))
		case err := <-done:
			if err == nil && told {
				h.say("got %q after %v", h.resource, time.Since(began).Round(time.Millisecond))
			}
			return h.refused(err)
		}
	}
}

// refused says why there is no lock, and returns the exit code for that: exitOK without an error.
func (h *holding) refused(err error) int {
	text, wrong := explain(err)
	switch {
	case err == nil:
		return cli.ExitOK
	case wrong:
		h.say("%s", text)
		return cli.ExitUsage
	case errors.Is(err, redlock.ErrHeld) && h.wait == 0:
		h.say("%q is held by another; --wait 1m would wait for it", h.resource)
		return h.heldCode
	case errors.Is(err, redlock.ErrHeld):
		h.say("%q is held by another, after %s still", h.resource, config.FormatDuration(h.wait))
		return h.heldCode
	default:
		h.say("%s", text)
		return cli.ExitNoQuorum
	}
}

// acquire has the lock, or an error. A leader asks until there is one, or an error that stays.
func (h *holding) acquire(ctx context.Context) error {
	said := ""
	for {
		err := h.acquireOnce(ctx)
		text, wrong := explain(err)
		if err == nil || !h.leader || wrong || ctx.Err() != nil {
			return err
		}
		if errors.Is(err, redlock.ErrHeld) {
			said = ""
			continue
		}
		if said == "" {
			h.say("%s; asking again until this process leads %q", text, h.resource)
		}
		said = text
		pause(ctx, leaderPause)
	}
}

// acquireOnce asks for the lock, and once more if too little of the validity is left of it.
func (h *holding) acquireOnce(ctx context.Context) error {
	for range 2 {
		l, err := h.way.take(ctx, &h.runOptions)
		if err != nil {
			return err
		}
		if l.Validity() > h.grace+h.margin() {
			h.lock, h.granted = l, time.Now()
			return nil
		}
		// The machine slept while we waited, and nobody knows whether the lock was granted before that or
		// after.
		l.Unlock(ctx)
	}
	return redlock.ErrLapsed
}

// run starts the command, keeps the lock until it has ended, and returns the exit code.
func (h *holding) run(command *exec.Cmd) int {
	// The kernel kills the command when the thread that has started it ends (Pdeathsig): that must not be
	// before we do.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := h.start(command); err != nil {
		h.say("%v", err)
		return exitCodeOfStart(err)
	}
	ended := make(chan struct{})
	go func() {
		command.Wait()
		close(ended)
	}()
	if !h.keep(ended) {
		return cli.ExitLost
	}
	return exitCodeOf(command.ProcessState.Sys().(syscall.WaitStatus))
}

// start starts the command in a process group of its own, so that signals reach what it has started in
// turn, too: when the lock is lost, the children of a script must end with it. Except on a terminal,
// where a group of its own would be in the background and could not read: there it stays in our group,
// and Ctrl-C and Ctrl-Z reach both of us, as job control wants it. The signals that we send reach the
// command alone then.
func (h *holding) start(command *exec.Cmd) error {
	h.command, h.group = command, !cli.IsTerminal(os.Stdin)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: h.group}
	endWithUs(command.SysProcAttr)
	if h.group {
		// A group stops together (Ctrl-Z on a terminal that is not stdin): the command must not run on while
		// we cannot watch it.
		signal.Notify(h.signals, syscall.SIGTSTP, syscall.SIGCONT)
	}
	return command.Start()
}

// keep has the lock renewed and passes signals on until the command has ended. It returns false if the
// lock could not be kept, and the command had to end.
func (h *holding) keep(ended <-chan struct{}) bool {
	ticks := time.NewTicker(h.pause())
	defer ticks.Stop()
	held, stop := redlock.KeepAlive(context.Background(), h.lock, h.ttl, redlock.KeepAliveOptions{Early: h.grace + h.margin(), OnRenewal: h.renewal()})
	h.stopRenewing = stop
	over := held.Done()
	for {
		h.enforce()
		select {
		case <-ticks.C:
		case <-over:
			over = nil
			h.lose(context.Cause(held))
		case s := <-h.signals:
			h.enforce()
			h.pass(s.(syscall.Signal))
		case <-ended:
			return h.ended()
		}
	}
}

// renewal says when the lock cannot be renewed, and when it can be again.
func (h *holding) renewal() func(error) {
	failing := false
	return func(err error) {
		switch {
		case errors.Is(err, redlock.ErrNotHeld): // the command is told to end
		case err == nil && failing:
			h.say("%q is renewed again", h.resource)
		case err != nil && !failing:
			h.say("%q could not be renewed: %s; if that stays so, the command gets SIGTERM in %v", h.resource, reasonOf(err), (h.lock.Validity() - h.grace - h.margin()).Round(time.Millisecond))
		}
		failing = err != nil
	}
}

// pause is how often the clock is looked at; margin is how long before the end of the validity the
// command is killed, for we and the kernel can be late.
func (h *holding) pause() time.Duration  { return min(h.ttl/100, 50*time.Millisecond) }
func (h *holding) margin() time.Duration { return min(h.ttl/20, 100*time.Millisecond) }

// left is how long the command may run on.
func (h *holding) left() time.Duration {
	left := h.lock.Validity() - h.margin()
	if h.lost != nil {
		left = min(left, time.Until(h.killAt))
	}
	return left
}

// enforce kills the command in time. It comes first when anything wakes us: we may have been suspended
// until now.
func (h *holding) enforce() {
	switch {
	case h.left() > 0 || h.killed:
	case h.lost == nil:
		h.kill(redlock.ErrLapsed)
	default:
		h.killed = true
		h.signal(syscall.SIGKILL)
	}
}

// kill ends a command that was not told to end before.
func (h *holding) kill(why error) {
	h.lost, h.killed = why, true
	h.signal(syscall.SIGKILL)
	h.say("%q is lost: %s; the command is killed", h.resource, reasonOf(why))
}

// lose tells the command to end: the lock is lost, or about to be.
func (h *holding) lose(why error) {
	if h.enforce(); h.lost != nil {
		return
	}
	if errors.Is(why, redlock.ErrNotHeld) {
		why = fmt.Errorf("%w any more: it was deleted, or masters have forgotten it", why)
	}
	if h.grace == 0 {
		h.kill(why)
		return
	}
	h.lost, h.killAt = why, time.Now().Add(h.grace)
	h.signal(syscall.SIGTERM)
	h.say("%q is lost: %s; the command gets SIGTERM now, and SIGKILL in %v", h.resource, reasonOf(why), max(0, h.left()).Round(time.Millisecond))
}

// endsPrograms reports whether the signal asks a program to end.
func endsPrograms(s os.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGQUIT
}

// pass passes a signal on to the command.
func (h *holding) pass(s syscall.Signal) {
	h.told = h.told || endsPrograms(s)
	switch {
	case !h.group && (s == syscall.SIGINT || s == syscall.SIGQUIT): // the terminal has told the command, too
	case s == syscall.SIGTSTP:
		h.signal(syscall.SIGSTOP)
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	default:
		h.signal(s)
	}
}

func (h *holding) signal(s syscall.Signal) {
	var err error
	if h.group {
		err = syscall.Kill(-h.command.Process.Pid, s)
	} else {
		err = h.command.Process.Signal(s)
	}
	if err != nil && err != syscall.ESRCH && err != os.ErrProcessDone {
		h.say("the command cannot be sent a signal (%v): %v", s, err)
	}
}

// ended is called when the command has ended. What it leaves running in the background does not count;
// but when the lock is lost, that has to end as well.
func (h *holding) ended() (kept bool) {
	if h.lost == nil && h.lock.Validity() > 0 {
		return true
	}
	h.enforce()
	for h.group && !h.killed && syscall.Kill(-h.command.Process.Pid, 0) == nil {
		time.Sleep(h.pause())
		h.enforce()
	}
	return false
}

// linger keeps the lock until --at-least is over. It returns false if somebody tells us to end before:
// the lock is left to its TTL, which is as long.
func (h *holding) linger() bool {
	left := h.atLeast - time.Since(h.granted)
	over := time.NewTimer(left)
	defer over.Stop()
	for !h.told || left <= 0 {
		select {
		case <-over.C:
			return true
		case s := <-h.signals:
			h.told = endsPrograms(s)
		}
	}
	return false
}

// end releases the lock, in bounded time. It returns false if the lock was not held any more.
func (h *holding) end() (held bool) {
	if h.lock == nil {
		return true
	}
	if h.lost == nil && h.atLeast > 0 && !h.linger() {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), endIn)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		if h.stopRenewing != nil {
			h.stopRenewing()
		}
		done <- h.lock.Unlock(ctx)
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = fmt.Errorf("no answer within %v", endIn)
	}
	left := h.lock.Validity().Round(time.Second)
	switch {
	case errors.Is(err, redlock.ErrNotHeld):
		if h.lost == nil {
			h.say("%q was not held any more when it was to be released", h.resource)
		}
		return false
	case err != nil && left > 0:
		h.say("%q could not be released: %s; its TTL ends it in about %v", h.resource, reasonOf(err), left)
	}
	return true
}
