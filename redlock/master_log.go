package redlock

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// A master that goes up and down all the time, as one does whose answers take about MasterTimeout, must not fill the disk with
// its story, and neither must a thousand leases that are lost at once.
const (
	linesMax   = 10               // are told in a row, of one subject
	linesEvery = 10 * time.Second // then one in so long
)

// lines bounds what the log is told of one subject. Lines that are left out are counted, and the next one says how many.
type lines struct {
	untold atomic.Int64

	mu   sync.Mutex
	used time.Time // when all that was told is paid off, at one line per linesEvery
}

// next tells whether there is room for a line, and takes it; untold is how many were left out before it.
func (n *lines) next(now time.Time) (untold int64, room bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.used.Sub(now) > (linesMax-1)*linesEvery {
		n.untold.Add(1)
		return 0, false
	}
	if n.used.Before(now) {
		n.used = now
	}
	n.used = n.used.Add(linesEvery)
	return n.untold.Swap(0), true
}

// behind is whether lines were left out and there is room again.
func (n *lines) behind(now time.Time) bool {
	if n.untold.Load() == 0 {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.used.Sub(now) <= (linesMax-1)*linesEvery
}

// note writes a line about the master, if there is room.
func (l *lane) note(level slog.Level, event string, attrs ...any) {
	untold, room := l.lines.next(time.Now())
	if !room {
		return
	}
	if untold > 0 {
		attrs = append(attrs, "more_since_last", untold)
	}
	l.client.opts.Logger.Log(context.Background(), level, event, append([]any{"master", l.master.Addr}, attrs...)...)
}

// noteState tells how things stand with the master. That it cannot be reached again, for another reason than before (it has closed the
// connection, now it takes none), is no second warning.
func (l *lane) noteState() {
	s := l.status()
	l.mu.Lock()
	again := l.loggedDown
	l.loggedDown = s.State == MasterDown
	again = again && l.loggedDown
	l.mu.Unlock()
	switch {
	case s.State == MasterUp:
		l.note(slog.LevelInfo, "master up", "version", s.Version, "run_id", s.RunID)
	case again:
		l.note(slog.LevelInfo, "master still down", "reason", s.Reason)
	case s.State == MasterDown:
		l.note(slog.LevelWarn, "master down", "reason", s.Reason, "to_do", "see that Redis runs there and can be reached; redlockd check says more")
	default:
		l.note(slog.LevelWarn, "master "+string(s.State), "reason", s.Reason, "to_do", "redlockd check says what to fix there")
	}
}

// catchUp tells how things stand when lines about it were left out: the last line of the log must not be about the past.
func (l *lane) catchUp(now time.Time) {
	if l.lines.behind(now) {
		l.noteState()
	}
}
