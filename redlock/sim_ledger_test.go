package redlock

// The ledger of the simulation: what callers were told, and whether that can be true all at once.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// ledgerLease is a lock as its caller knows it.
type ledgerLease struct {
	resources []string
	shared    bool // a reader's
	token     string
	name      string    // the first token, if there have been several; the history knows it by that
	until     time.Time // as the caller was told last
	over      bool      // the caller has sent UNLOCK, or was told that the lock is lost
	losses    int       // of the ledger, when the LOCK was sent
	caller    int
	session   int       // how often the token was granted the lock anew
	ended     bool      // its end is recorded
	sent      time.Time // when its UNLOCK was; zero: not yet
	open      time.Time // when a LOCK of its token was sent of which nobody knows what came of it; zero: there is none
	asked     time.Time // when its LOCK was sent
	told      time.Time // when the LOCK that was granted last was answered
	changes   bool      // the caller has asked for another token, and may have got it
	forced    []string  // the resources of which a force may have ended it
	// late: what its caller was told last came so late that it was over: the next holder may have been told before.
	late bool
	// hash: the masters keep the token with others in a hash (sim_redisson_test.go).
	hash bool
}

// runs tells whether the caller believes in the lease. It is false for nil.
func (l *ledgerLease) runs(now time.Time) bool { return l != nil && !l.over && now.Before(l.until) }

// runsOn tells the same of one resource.
func (l *ledgerLease) runsOn(resource string, now time.Time) bool {
	return l.runs(now) && !slices.Contains(l.forced, resource)
}

func (l *ledgerLease) String() string {
	if l.shared {
		return "the reader " + short(l.token)
	}
	return short(l.token)
}

type ledger struct {
	w  *world
	mu sync.Mutex
	// last is the lease that was granted last to a writer, by resource.
	last map[string]*ledgerLease
	// readers are the leases that were granted to readers since, by resource.
	readers map[string][]*ledgerLease
	// waiting counts the writers that wait, by resource.
	waiting map[string]int
	fence   map[string]int64
	forces  map[string][]*simForce // by resource
	// unsettled is when a change of a hash was left open last, by resource.
	unsettled map[string]time.Time
	leases    []*ledgerLease
	late      []*ledgerLease // those that are late, or were
	hoarded   []string       // resources of hoarders, as they were first granted
	record    simRecord
	losses    int // faults so far by which a master may lose or misjudge a lock; -1: there is one all the time
	story     []string
	failed    bool
}

func newLedger(w *world) *ledger {
	return &ledger{w: w, last: map[string]*ledgerLease{}, readers: map[string][]*ledgerLease{}, waiting: map[string]int{},
		fence: map[string]int64{}, forces: map[string][]*simForce{}, unsettled: map[string]time.Time{}}
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
	b.story = append(b.story, fmt.Sprintf("%13v  ", time.Since(b.w.began))+fmt.Sprintf(format, args...))
}

func (b *ledger) violated(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failLocked(format, args...)
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
	if b.losses >= 0 {
		b.losses++
	}
}

// alwaysLossy notes a fault whose effects come later.
func (b *ledger) alwaysLossy() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.losses = -1
}

// nothingLostLocked tells whether nothing has happened that can lose the lease.
func (b *ledger) nothingLostLocked(l *ledgerLease) bool {
	return b.losses >= 0 && b.losses == l.losses && b.settledLocked(l)
}

// running picks a lease that somebody believes in, and returns what it is at the moment.
func (b *ledger) running(rng *rand.Rand) *ledgerLease {
	b.mu.Lock()
	defer b.mu.Unlock()
	var running []*ledgerLease
	for _, r := range slices.Concat(simResources, []string{simDay}, b.hoarded[:min(3, len(b.hoarded))]) {
		for _, l := range b.listedLocked(r) {
			if l.runs(time.Now()) {
				running = append(running, l)
			}
		}
	}
	if len(running) == 0 {
		return nil
	}
	now := *running[rng.IntN(len(running))]
	return &now
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
	if now.Before(result.Until) {
		b.w.trace.granted(p, req.Resources, req.Shared, result)
	}
	b.noteLocked("caller %d: LOCK %v %s through %d: granted until %v, fence %d", c.id, req.Resources, short(result.Token), p.id, result.Until.Sub(b.w.began), result.Fence)
	l := &ledgerLease{resources: req.Resources, shared: req.Shared, token: result.Token, until: result.Until, losses: losses, caller: c.id, asked: began, hash: isOwner(result.Token), changes: isOwner(result.Token)}
	again, fence := false, result.Fence
	forces, beingForced := b.forcesOfLocked(l)
	for _, r := range req.Resources {
		var before *ledgerLease // that the token has
		for _, other := range b.listedLocked(r) {
			if other.token == result.Token && other.shared == req.Shared {
				before = other
			}
		}
		if before != nil && before != l && slices.Equal(before.resources, req.Resources) {
			// Granted again: the same lease if it still ran, otherwise a new one.
			if again = before.runs(now) && !before.ended && len(before.forced)+len(l.forced) == 0; again {
				l = before
				l.until = result.Until
			} else {
				l.session = before.session + 1
				if len(before.forced) > 0 {
					b.endLocked(before, began, now) // on the other resources it goes on as the new lease
				}
			}
		}
		if req.Fence {
			if again && began.Before(before.told) && result.Fence < b.fence[r] {
				fence = 0 // two LOCKs of one token were under way through two proxies: the answers may come in either order
				continue
			}
			if !now.Before(result.Until) {
				fence = 0 // the answer has come so late that the next holder may have been told before
				continue
			}
			if beingForced || len(forces) > 0 {
				fence = 0 // the next holder may have been told before
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
		b.countReadersLocked(l, began)
		if b.listLocked(l); !l.late {
			b.leases = append(b.leases, l)
		}
	}
	b.record.add(b.w, c.id, simStep{kind: kind, fence: fence}, l, began, now)
	for _, f := range forces {
		b.recordForceLocked(f, l, false) // it may have been granted behind the force, too
	}
	if v := result.Validity; v <= 0 || v > req.TTL {
		b.failLocked("LOCK %v with a TTL of %v was granted for %v", req.Resources, req.TTL, v)
	}
	return l
}

// listLocked lists a lease as the one that was granted last, and checks that it runs beside no other.
func (b *ledger) listLocked(l *ledgerLease) {
	if l.late = !l.runs(time.Now()); l.late {
		b.late = append(b.late, l)
		b.w.count(func(t *tallies) { t.late++ })
		return
	}
	b.listHoardedLocked(l)
	for _, r := range l.resources {
		for _, other := range b.listedLocked(r) {
			if other.token != l.token || other.shared != l.shared {
				b.exclusiveLocked(r, l, other)
			}
			if early := time.Until(other.until.Add(SimLockDelay)); r == SimDelayed && early > 0 && !other.over && other.token != l.token && b.nothingLostLocked(other) {
				b.failLocked("%s was granted to %s of caller %d, and %s of caller %d, which was not released, has ended %v too late for that",
					r, l, l.caller, other, other.caller, early)
			}
		}
		switch {
		case slices.Contains(l.forced, r):
		case l.shared:
			b.readers[r] = append(b.readers[r], l)
		default:
			b.last[r], b.readers[r] = l, nil
		}
	}
}

// lockAgainLocked: others have had the resource since, and the caller is told that it holds it. So a LOCK of its token that nobody has heard of was
// granted behind them: a lease of its own.
func (b *ledger) lockAgainLocked(l *ledgerLease) {
	b.endLocked(l, time.Time{}, time.Time{})
	l.session++
	l.ended, l.late, l.asked, l.open = false, true, l.open, time.Time{}
}

// stillLocked notes that the caller was told that it holds the lock until then.
func (b *ledger) stillLocked(what string, l *ledgerLease, until time.Time) {
	if !l.late && !l.open.IsZero() && !l.runs(time.Now()) && slices.ContainsFunc(l.resources, func(r string) bool { return b.sinceLocked(r, l) != nil }) {
		b.lockAgainLocked(l)
	}
	l.until = until
	if l.late {
		if b.listLocked(l); !l.late {
			granted := *l // but for what a force has ended meanwhile
			granted.resources = slices.DeleteFunc(slices.Clone(l.resources), func(r string) bool { return slices.Contains(l.forced, r) })
			b.leases = append(b.leases, l)
			b.record.add(b.w, l.caller, simStep{kind: stepLock}, &granted, l.asked, time.Now())
		}
	}
	for _, r := range l.resources {
		if after := b.sinceLocked(r, l); after != nil && l.runs(time.Now()) {
			b.failLocked("%s of %s for %s of caller %d was granted, and it has been granted to %s of caller %d since",
				what, r, l, l.caller, after, after.caller)
		}
	}
}

func (b *ledger) extended(l *ledgerLease, p *incarnation, result Result, began time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Now().Before(result.Until) {
		b.w.trace.believes(p, l, result.Until)
	}
	b.noteLocked("caller %d: EXTEND %v %s through %d: granted until %v", l.caller, l.resources, short(l.token), p.id, result.Until.Sub(b.w.began))
	b.stillLocked("EXTEND", l, result.Until)
	b.record.add(b.w, l.caller, simStep{kind: stepExtend}, l, began, time.Now())
}

// lapsed tells whether the lock has ended, as far as the caller was told.
func (b *ledger) lapsed(l *ledgerLease) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !time.Now().Before(l.until)
}

// lost: the caller was told that it does not hold the lock.
func (b *ledger) lost(l *ledgerLease, p *incarnation, began time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if began.Before(l.told) {
		return // the answer of a watchdog, which asked before the lock was taken anew
	}
	b.w.trace.lost(l)
	b.noteLocked("caller %d: EXTEND %v %s through %d: lost", l.caller, l.resources, short(l.token), p.id)
	if time.Now().Before(l.until) && b.nothingLostLocked(l) {
		b.failLocked("EXTEND of %v for %s of caller %d says that it is lost, and nothing has happened that can lose it", l.resources, short(l.token), l.caller)
	}
	l.over = true
	b.endLocked(l, began, time.Time{})
}

// releasing: the caller gives the lock up from now on, whatever becomes of its UNLOCK.
func (b *ledger) releasing(l *ledgerLease, p *incarnation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.w.trace.gaveUp(l)
	b.noteLocked("caller %d: UNLOCK %v %s through %d …", l.caller, l.resources, short(l.token), p.id)
	if time.Now().After(l.until) {
		l.losses = -1 // it may have ended before it is released
	}
	l.over = true
	if l.sent.IsZero() { // a repetition does not move it: the first one may have released it
		l.sent = time.Now()
	}
	for _, r := range l.resources { // a LOCK of the same token that was answered too late is a lease of its own
		for _, other := range b.listedLocked(r) {
			if other.token == l.token {
				other.over = true
			}
		}
	}
}

func (b *ledger) released(l *ledgerLease, p *incarnation, result Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteLocked("caller %d: UNLOCK %v %s through %d: %v", l.caller, l.resources, short(l.token), p.id, outcomeText(result))
	// Open: the unlock of a reader of Redisson that comes when the hold of another reader ends may be answered that it is not held: a commit that fails,
	// because masters see that end at different moments, leaves the lock with what was left of the other one. Nobody holds what he should not.
	readWrite := l.shared && l.hash
	// Open: while masters are slow to answer an UNLOCK, the audit of the proxy that granted may find the lock released by others, and remove what is left
	// before the UNLOCK has come there: then that is answered that it is not held.
	slow := time.Since(l.sent) > simShortTimeout
	if result.Err != nil {
		l.losses = -1 // it may be released, and a repetition may find that
	}
	if result.Err == nil && !result.Held && !readWrite && !slow && time.Now().Before(l.until) && b.nothingLostLocked(l) {
		b.failLocked("UNLOCK of %v for %s of caller %d says 0 before its validity is over, and nothing has happened that can lose it", l.resources, short(l.token), l.caller)
	}
	if result.Held {
		b.endLocked(l, l.sent, time.Now())
	}
}
