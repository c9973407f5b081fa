package redlock

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
)

// logEvent writes a line about the master, if there is room. When it is up again, that is worth a line
// too.
func (l *lane) logEvent(level slog.Level, event string, attrs ...any) {
	l.mu.Lock()
	if l.logged == MasterUp {
		l.logged = ""
	}
	l.mu.Unlock()
	l.log(level, event, attrs...)
}

// insideToDo is the advice about a master inside this process, whatever is wrong with it.
const insideToDo = "nothing if this machine was paused; else see its load"

func (l *lane) log(level slog.Level, event string, attrs ...any) {
	if at := slices.Index(attrs, any("to_do")); at >= 0 && l.master.Inside() {
		attrs[at+1] = insideToDo
	}
	l.logLimiter.Log(l.fleet.opts.Logger, level, time.Now(), event, append([]any{"master", l.master.Addr}, attrs...)...)
}

// logState writes a line about the state of the master. A master that is down is logged once, until it
// is up again: the reason often changes at once, when the connection has broken and the next one is
// refused. One that is up is logged once, until something else was: a step of the membership takes its
// vote for a moment. One that is connected and refused is logged once for each reason. MasterStatus.Reason has the latest.
func (l *lane) logState() {
	s := l.status()
	l.mu.Lock()
	fix := conn.FixOf(l.downReason)
	repeated := s.State == l.logged
	switch s.State {
	case MasterUp, MasterDown:
	default:
		repeated = repeated && s.Reason == l.loggedReason && s.Connected
	}
	l.logged, l.loggedReason = s.State, s.Reason
	l.mu.Unlock()
	switch {
	case repeated && !l.logLimiter.Behind(time.Now()):
	case s.State == MasterUp:
		l.log(slog.LevelInfo, "master up", "version", s.Version, "run_id", s.RunID)
	case s.State == MasterDown:
		l.log(slog.LevelWarn, "master down", "reason", s.Reason, "to_do", cmp.Or(fix, "see that Redis runs there and can be reached; redlockd check says more"))
	case s.State == MasterDoubted:
		l.log(slog.LevelWarn, "master doubted", "reason", s.Reason, "for", s.Left.Round(time.Millisecond),
			"to_do", "nothing if this machine was paused; else see that NTP slews clocks and does not step them")
	default:
		l.log(slog.LevelWarn, "master "+string(s.State), "reason", s.Reason, "to_do", "redlockd check says what to fix there")
	}
}

// logMissedState writes the state of the master if lines about it were left out: the last line of the
// log must not be about the past.
func (l *lane) logMissedState(now time.Time) {
	if l.logLimiter.Behind(now) {
		l.logState()
	}
}

// logDoubts writes one line for all masters whose clocks gained, and one for all that are too far
// apart, a heartbeat after the first of them: by then all have been asked, and the line shows whether
// all gained. The watchdog calls it.
func (f *fleet) logDoubts(now time.Time) {
	var fresh []*lane
	due := false
	for _, l := range f.view.Load().masters {
		l.mu.Lock()
		if k := &l.guard.clock; !k.good && !k.logged && (k.gained > 0 || k.skew != 0) {
			fresh, due = append(fresh, l), due || now.Sub(l.since) > f.opts.Heartbeat
		}
		l.mu.Unlock()
	}
	if !due {
		return
	}
	var gained, apart doubtLine
	for _, l := range fresh {
		l.mu.Lock()
		if k := &l.guard.clock; k.gained > 0 {
			gained.add(l, k.gained, k.until.Sub(now))
		} else if k.skew != 0 {
			apart.add(l, k.skew, k.until.Sub(now))
		}
		l.guard.clock.logged = true
		l.mu.Unlock()
	}
	gained.log(f.opts.Logger, "clocks out of step", "these masters' clocks gained on this machine's: they stepped, or, if most masters are listed, this machine was paused",
		"nothing if this machine was paused or moved; else see that NTP slews clocks and does not step them; the masters vote here again after that time")
	apart.log(f.opts.Logger, "clocks too far apart", "these masters' clocks and this machine's differ by more than clock_skew_max, and nobody has watched whether they stepped",
		"let NTP keep this machine's clock and the masters'; the masters vote here after that time in any case")
}

// doubtLine is a line of the log about several masters.
type doubtLine struct {
	masters  []string
	by, left time.Duration // of the one for which it is most
}

func (d *doubtLine) add(l *lane, by, left time.Duration) {
	d.masters = append(d.masters, l.master.Addr)
	d.left = max(d.left, left)
	if by.Abs() > d.by.Abs() {
		d.by = by
	}
}

func (d *doubtLine) log(to *slog.Logger, event, reason, todo string) {
	if len(d.masters) > 0 {
		to.Warn(event, "masters", strings.Join(d.masters, " "), "by", clock.Roughly(d.by), "for", d.left.Round(time.Millisecond), "reason", reason, "to_do", todo)
	}
}
