package redlock

// The ledger of the simulation: what callers were told, and whether that can be true all at once.

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"
)

// ledgerLease is a lock as its caller knows it.
type ledgerLease struct {
	resources []string
	token     string
	name      string    // the first token, if there have been several; the history knows it by that
	until     time.Time // as the caller was told last
	over      bool      // the caller has sent UNLOCK, or was told that the lock is lost
	losses    int       // of the ledger, when the LOCK was sent
	caller    int
	session   int       // how often the token was granted the lock anew
	ended     bool      // its end is recorded
	sent      time.Time // when its UNLOCK was; zero: not yet
	told      time.Time // when the LOCK that was granted last was answered
}

type ledger struct {
	w  *world
	mu sync.Mutex
	// last is the lease that was granted last, by resource.
	last   map[string]*ledgerLease
	fence  map[string]int64
	leases []*ledgerLease
	record simRecord
	losses int // faults so far by which a master may lose or misjudge a lock
	trace  []string
	failed bool
}

// traceMax bounds the story that a failure prints.
const traceMax = 150

var traceAll = os.Getenv("REDLOCK_SIM_TRACE") != ""

func newLedger(w *world) *ledger {
	return &ledger{w: w, last: map[string]*ledgerLease{}, fence: map[string]int64{}}
}

func (b *ledger) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteLocked(format, args...)
}

func (b *ledger) noteLocked(format string, args ...any) {
	if b.failed {
		return // the story ends with the violation
	}
	b.trace = append(b.trace, fmt.Sprintf("%13v  ", time.Since(b.w.began))+fmt.Sprintf(format, args...))
	if len(b.trace) > 2*traceMax && !traceAll {
		b.trace = slices.Clone(b.trace[traceMax:])
	}
}

func (b *ledger) printTrace() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.trace {
		b.w.Log(line)
	}
}

// failLocked reports a violation, with the story up to here.
func (b *ledger) failLocked(format string, args ...any) {
	b.noteLocked("VIOLATION: "+format, args...)
	b.failed = true
	b.w.Errorf("at %v: "+format, append([]any{time.Since(b.w.began)}, args...)...)
}

// lossy notes a fault by which a master may lose or misjudge a lock.
func (b *ledger) lossy() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.losses++
}

// running picks a lease that somebody believes in.
func (b *ledger) running(rng *rand.Rand) *ledgerLease {
	b.mu.Lock()
	defer b.mu.Unlock()
	var running []*ledgerLease
	for _, r := range simResources {
		if l := b.last[r]; l != nil && !l.over && time.Now().Before(l.until) {
			running = append(running, l)
		}
	}
	if len(running) == 0 {
		return nil
	}
	return running[rng.IntN(len(running))]
}

func (b *ledger) lossesSoFar() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.losses
}

func (b *ledger) granted(c *caller, p *incarnation, req LockRequest, result Result, began time.Time, losses int) *ledgerLease {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.noteLocked("caller %d: LOCK %v %s through %d: granted until %v, fence %d", c.id, req.Resources, short(result.Token), p.id, result.Until.Sub(b.w.began), result.Fence)
	l := &ledgerLease{resources: req.Resources, token: result.Token, until: result.Until, losses: losses, caller: c.id}
	again, fence := false, result.Fence
	for _, r := range req.Resources {
		before := b.last[r]
		if before != nil && before.token != result.Token && !before.over && now.Before(before.until) {
			b.failLocked("%s was granted to %s of caller %d, and is held by %s of caller %d for another %v",
				r, short(result.Token), c.id, short(before.token), before.caller, before.until.Sub(now))
		}
		if before != nil && before != l && before.token == result.Token && slices.Equal(before.resources, req.Resources) {
			// Granted again: the same lease if it still ran, otherwise a new one.
			if again = !before.over && !before.ended && now.Before(before.until); again {
				l = before
				l.until = result.Until
			} else {
				l.session = before.session + 1
			}
		}
		if req.Fence {
			if again && began.Before(before.told) && result.Fence < b.fence[r] {
				fence = 0 // two LOCKs of one token were under way through two proxies: the answers may come in either order
				continue
			}
			if result.Fence <= b.fence[r] {
				b.failLocked("%s was granted with the fence %d, and before with %d", r, result.Fence, b.fence[r])
			}
			b.fence[r] = result.Fence
		}
	}
	l.told = now
	kind := stepExtend
	if !again {
		kind = stepLock
		b.leases = append(b.leases, l)
		for _, r := range req.Resources {
			b.last[r] = l
		}
	}
	b.record.add(b.w, c.id, simStep{kind: kind, fence: fence}, l, began, now)
	if max := began.Add(req.Wait + req.TTL + b.w.maxTTL); result.Until.After(max) {
		b.failLocked("%v: valid until %v, which is beyond any TTL", req.Resources, result.Until.Sub(b.w.began))
	}
	return l
}

func (b *ledger) extended(l *ledgerLease, p *incarnation, result Result, began time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteLocked("caller %d: EXTEND %v %s through %d: granted until %v", l.caller, l.resources, short(l.token), p.id, result.Until.Sub(b.w.began))
	for _, r := range l.resources {
		if after := b.last[r]; after != l {
			b.failLocked("EXTEND of %s for %s of caller %d was granted, and it has been granted to %s of caller %d since",
				r, short(l.token), l.caller, short(after.token), after.caller)
		}
	}
	l.until = result.Until
	b.record.add(b.w, l.caller, simStep{kind: stepExtend}, l, began, time.Now())
}

// lost: the caller was told that it does not hold the lock.
func (b *ledger) lost(l *ledgerLease, p *incarnation, began time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteLocked("caller %d: EXTEND %v %s through %d: lost", l.caller, l.resources, short(l.token), p.id)
	if time.Now().Before(l.until) && b.losses == l.losses {
		b.failLocked("EXTEND of %v for %s of caller %d says that it is lost, and nothing has happened that can lose it", l.resources, short(l.token), l.caller)
	}
	l.over = true
	b.endLocked(l, began, time.Time{})
}

// releasing: the caller gives the lock up from now on, whatever becomes of its UNLOCK.
func (b *ledger) releasing(l *ledgerLease, p *incarnation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteLocked("caller %d: UNLOCK %v %s through %d …", l.caller, l.resources, short(l.token), p.id)
	if time.Now().After(l.until) {
		l.losses = -1 // it may have ended before it is released
	}
	l.over, l.sent = true, time.Now()
}

func (b *ledger) released(l *ledgerLease, p *incarnation, result Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteLocked("caller %d: UNLOCK %v %s through %d: %v", l.caller, l.resources, short(l.token), p.id, outcomeText(result))
	if result.Err == nil && !result.Held && time.Now().Before(l.until) && b.losses == l.losses {
		b.failLocked("UNLOCK of %v for %s of caller %d says 0 before its validity is over, and nothing has happened that can lose it", l.resources, short(l.token), l.caller)
	}
	if result.Held {
		b.endLocked(l, l.sent, time.Now())
	}
}
