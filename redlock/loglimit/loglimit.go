// Package loglimit keeps events that repeat from filling the log and the disk: a master that goes up
// and down all day, a thousand leases that are lost at once, a client that guesses passwords.
package loglimit

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"
)

// DefaultInterval is the Interval of a Limiter that states none.
const DefaultInterval = time.Second

// Limiter limits the lines about one subject: Burst lines in a row, then one per Interval. What is left
// out is counted, and the next line says how many (more_since_last). The zero value allows one line per
// DefaultInterval. Its methods may be called from any goroutine.
type Limiter struct {
	// Interval between two lines when the burst is used up. Zero: DefaultInterval.
	Interval time.Duration
	// Burst is how many lines may come at once. Zero: 1.
	Burst int

	mu sync.Mutex
	// freeAt is when the whole burst is available again. Each line moves it on by one Interval.
	freeAt time.Time
	// dropped counts the lines that were left out since the last one.
	dropped int64
}

// hasRoomLocked tells whether a line is allowed now.
func (l *Limiter) hasRoomLocked(now time.Time) bool {
	return l.freeAt.Sub(now) <= time.Duration(max(l.Burst, 1)-1)*cmp.Or(l.Interval, DefaultInterval)
}

// Allow takes the room for one line, if there is any. dropped is how many lines were left out before
// it.
func (l *Limiter) Allow(now time.Time) (dropped int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hasRoomLocked(now) {
		l.dropped++
		return 0, false
	}
	if l.freeAt.Before(now) {
		l.freeAt = now
	}
	l.freeAt = l.freeAt.Add(cmp.Or(l.Interval, DefaultInterval))
	dropped, l.dropped = l.dropped, 0
	return dropped, true
}

// Behind tells whether lines were left out and there is room again: the last line in the log may be
// about the past.
func (l *Limiter) Behind(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped > 0 && l.hasRoomLocked(now)
}

// Log writes a line if there is room for it. If lines were left out, more_since_last comes first among
// its attributes.
func (l *Limiter) Log(log *slog.Logger, level slog.Level, now time.Time, event string, attrs ...any) {
	dropped, ok := l.Allow(now)
	if !ok {
		return
	}
	if dropped > 0 {
		attrs = append([]any{"more_since_last", dropped}, attrs...)
	}
	log.Log(context.Background(), level, event, attrs...)
}
