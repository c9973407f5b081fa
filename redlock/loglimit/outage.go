package loglimit

import (
	"sync"
	"time"
)

// The pauses between two lines about an Outage.
const (
	outagePauseMin = time.Second
	outagePauseMax = time.Minute
)

// Outage limits the lines about something that fails for as long as nobody repairs it: one at once, the
// next ones after 1, 2, 4 … 60 s, and one when it works again. Its methods may be called from any
// goroutine.
type Outage struct {
	mu sync.Mutex
	// logged: the last line says that it fails.
	logged bool
	// pause is that between the last line and next, before which no line says that it fails. Something that
	// fails and works by turns gets two lines in each pause, for the end of an outage does not end it.
	pause time.Duration
	next  time.Time
}

// Fails reports whether to log that it fails.
func (o *Outage) Fails(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Before(o.next) {
		return false
	}
	if o.pause *= 2; !o.logged && now.Sub(o.next) >= o.pause/2 {
		o.pause = 0 // it has worked for long
	}
	o.pause = min(max(o.pause, outagePauseMin), outagePauseMax)
	o.logged, o.next = true, now.Add(o.pause)
	return true
}

// Works reports whether to log that it works again.
func (o *Outage) Works() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	again := o.logged
	o.logged = false
	return again
}
