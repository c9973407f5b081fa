package redlock

import (
	"log/slog"
	"time"

	"redlockd/redlock/loglimit"
)

// What the log says of a master, and of leases, is limited per subject: ten lines in a row, then one in ten
// seconds.
const (
	logBurst    = 10
	logInterval = 10 * time.Second
)

func newLogLimiter() loglimit.Limiter {
	return loglimit.Limiter{Interval: logInterval, Burst: logBurst}
}

// logEvent writes a line about the master, if there is room. When it is up again, that is worth a line too.
func (l *lane) logEvent(level slog.Level, event string, attrs ...any) {
	l.mu.Lock()
	l.loggedUp = false
	l.mu.Unlock()
	l.log(level, event, attrs...)
}

func (l *lane) log(level slog.Level, event string, attrs ...any) {
	l.logLimiter.Log(l.client.opts.Logger, level, time.Now(), event, append([]any{"master", l.master.Addr}, attrs...)...)
}

// logState writes a line about the state of the master. A master that is down is logged once, until it is up
// again: the reason often changes at once, when the connection has broken and the next one is refused. One that is up is
// logged once, until something else was: a step of the membership takes its vote for a moment.
// MasterStatus.Reason has the latest.
func (l *lane) logState() {
	s := l.status()
	l.mu.Lock()
	repeated := l.loggedUp && s.State == MasterUp || l.loggedDown && s.State == MasterDown
	l.loggedUp, l.loggedDown = s.State == MasterUp, s.State == MasterDown
	l.mu.Unlock()
	switch {
	case repeated && !l.logLimiter.Behind(time.Now()):
	case s.State == MasterUp:
		l.log(slog.LevelInfo, "master up", "version", s.Version, "run_id", s.RunID)
	case s.State == MasterDown:
		l.log(slog.LevelWarn, "master down", "reason", s.Reason, "to_do", "see that Redis runs there and can be reached; redlockd check says more")
	case s.State == MasterDoubted:
		l.log(slog.LevelWarn, "master doubted", "reason", s.Reason, "for", s.Left.Round(time.Millisecond),
			"to_do", "nothing if this machine was paused; else see that NTP slews clocks and does not step them")
	default:
		l.log(slog.LevelWarn, "master "+string(s.State), "reason", s.Reason, "to_do", "redlockd check says what to fix there")
	}
}

// logMissedState writes the state of the master if lines about it were left out: the last line of the log must
// not be about the past.
func (l *lane) logMissedState(now time.Time) {
	if l.logLimiter.Behind(now) {
		l.logState()
	}
}
