package proxy

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"
)

// logLimiter logs one kind of event at most once per interval. It is for events that clients can cause as often as they like:
// guessing passwords, or connecting again and again, must not fill the disk. The zero value is ready.
type logLimiter struct {
	interval time.Duration // 0: logInterval

	mu         sync.Mutex
	lastLogged time.Time
	suppressed uint64 // events since then
}

const logInterval = time.Second

// log logs the event, unless one was logged less than an interval ago. more_since_last counts the events in between.
func (l *logLimiter) log(log *slog.Logger, level slog.Level, now time.Time, event string, attrs ...any) {
	l.mu.Lock()
	if !l.lastLogged.IsZero() && now.Sub(l.lastLogged) < cmp.Or(l.interval, logInterval) {
		l.suppressed++
		l.mu.Unlock()
		return
	}
	suppressed := l.suppressed
	l.lastLogged, l.suppressed = now, 0
	l.mu.Unlock()
	log.Log(context.Background(), level, event, append([]any{"more_since_last", suppressed}, attrs...)...)
}
