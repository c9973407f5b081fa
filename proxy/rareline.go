package proxy

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"
)

// rareLine is a line of the log that clients can cause as often as they like, and so is told once in rareLineEvery: whoever tries
// passwords, or connects again and again, must not fill the disk.
type rareLine struct {
	every time.Duration // 0: rareLineEvery

	mu     sync.Mutex
	told   time.Time // when the log was told last
	untold uint64    // times since
}

const rareLineEvery = time.Second

func (l *rareLine) tell(log *slog.Logger, level slog.Level, now time.Time, event string, attrs ...any) {
	l.mu.Lock()
	if !l.told.IsZero() && now.Sub(l.told) < cmp.Or(l.every, rareLineEvery) {
		l.untold++
		l.mu.Unlock()
		return
	}
	untold := l.untold
	l.told, l.untold = now, 0
	l.mu.Unlock()
	log.Log(context.Background(), level, event, append(attrs, "more_since_last", untold)...)
}
