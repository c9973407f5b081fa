package redlock

// Callers of the simulation that read and write with LOCK … SHARED. All other callers lock the same resources, and are writers for the ledger: any
// number of readers may believe in a lease at one time, and nobody else beside them. (sim_redisson_test.go has the read-write locks of Redisson.)

import (
	"slices"
	"strings"
	"time"
)

// readMostly is the resource that readers ask for at the moment, so that they meet.
func (w *world) readMostly() string {
	return simResources[int(time.Since(w.began)/(2*time.Second))%len(simResources)]
}

// readTurn is a turn of a reader, or sometimes of a writer that waits for readers.
func (c *caller) readTurn() {
	w, rng := c.w, c.rng
	req := LockRequest{Resources: []string{w.readMostly()}, Shared: true, TTL: w.ttl(rng)}
	if rng.IntN(4) == 0 {
		req.Shared, req.Wait = false, w.maxTTL
	}
	c.lockAndWork(w.present(rng.IntN(simProxies)), req)
}

// holds tells whether a master has the first resource of the lease. The master must be up, and not frozen.
func (w *world) holds(master int, l *ledgerLease) bool {
	m := w.masters[master]
	if value, _, ok := m.Get(l.resources[0]); l.hash {
		return ok && strings.Contains(value, l.token)
	}
	if l.shared {
		return outside(w, m, "TYPE", l.resources[0]) == "zset" && outside(w, m, "ZSCORE", l.resources[0], readerPrefix+l.token) != nil
	}
	value, _, ok := m.Get(l.resources[0])
	return ok && value == l.token
}

// listedLocked are the leases of a resource that were granted last: that of a writer, and those of readers behind it.
func (b *ledger) listedLocked(resource string) (all []*ledgerLease) {
	if l := b.last[resource]; l != nil {
		all = append(all, l)
	}
	return append(all, b.readers[resource]...)
}

// sinceLocked returns a lease that was granted behind this one, and beside which it cannot be; or nil. A force may have made room for that.
func (b *ledger) sinceLocked(resource string, l *ledgerLease) *ledgerLease {
	if slices.Contains(l.forced, resource) || slices.ContainsFunc(b.forces[resource], func(f *simForce) bool { return f.ended.IsZero() }) {
		return nil
	}
	if last := b.last[resource]; last != nil && slices.Contains(last.forced, resource) {
		return nil // its caller may have heard of it late: the force may have ended it before this one began
	}
	switch readers := b.readers[resource]; {
	case l.shared && !slices.Contains(readers, l), !l.shared && b.last[resource] != l:
		return b.last[resource]
	case !l.shared && len(readers) > 0:
		return readers[0]
	}
	return nil
}

// asked notes a LOCK. The caller calls what it returns when it waits no more.
func (b *ledger) asked(c *caller, p *incarnation, req LockRequest) (over func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteLocked("caller %d: LOCK %v shared %t slots %d %s ttl %v wait %v through %d …", c.id, req.Resources, req.Shared, req.Slots, short(req.Token), req.TTL, req.Wait, p.id)
	waits := func(n int) {
		if !req.Shared && req.Wait > 0 {
			for _, r := range req.Resources {
				b.waiting[r] += n
			}
		}
	}
	waits(1)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		waits(-1)
	}
}

// denied notes a LOCK that was not granted, and counts a reader that was denied because a writer waits.
func (b *ledger) denied(c *caller, p *incarnation, req LockRequest, result Result, began time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if result.Err != nil && req.Token != "" { // it may be granted yet
		for _, l := range append(slices.Clone(b.late), b.leases...) {
			if l.token == req.Token && l.open.IsZero() {
				l.open = began
			}
		}
	}
	b.noteLocked("caller %d: LOCK %v %s through %d: %v", c.id, req.Resources, short(req.Token), p.id, outcomeText(result))
	if now, r := time.Now(), req.Resources[0]; req.Shared && result.Err == nil && b.waiting[r] > 0 && !b.last[r].runs(now) {
		if slices.ContainsFunc(b.readers[r], func(l *ledgerLease) bool { return l.runs(now) }) {
			b.w.count(func(t *tallies) { t.readsKeptOut++ })
		}
	}
}

// countReadersLocked counts a lease that is granted beside readers, or behind readers that had the resource when it was asked for.
func (b *ledger) countReadersLocked(l *ledgerLease, began time.Time) {
	now, together, behind := time.Now(), false, false
	for _, r := range l.resources {
		for _, reader := range b.readers[r] {
			together = together || reader.runs(now)
			behind = behind || reader.told.Before(began) && began.Before(reader.until) && (!reader.over || began.Before(reader.sent))
		}
	}
	b.w.count(func(t *tallies) {
		switch {
		case !l.shared && behind:
			t.behindReaders++
		case l.shared:
			t.reads++
			if together {
				t.readsTogether++
			}
		}
	})
}

// readerChanges counts a reader that comes or goes while a master is copied to.
func (w *world) readerChanges() {
	if w.copying() {
		w.count(func(t *tallies) { t.readsCopied++ })
	}
}

// copying tells whether a master is given what the others remember, as far as its proxies know.
func (w *world) copying() bool {
	for id := range simProxies {
		if slices.ContainsFunc(w.present(id).Membership().Seats, func(s Seat) bool { return s.Copying != nil }) {
			return true
		}
	}
	return false
}

// checkReaders has readers come all the time through all proxies, and go without UNLOCK: nobody keeps them out at first, and a writer that waits
// gets its turn.
func (w *world) checkReaders() {
	const patience = 1500 * ms // beyond the readers' TTL
	p, resource := w.proxies[0], simResources[0]
	req := LockRequest{Resources: []string{resource}, Shared: true, TTL: longest(p)}
	for _, p := range w.proxies {
		if c := p.lock(req); !c.Held {
			w.Errorf("LOCK SHARED through proxy %d at the end: got %+v, want held", p.id, c.Result)
		}
	}
	writer := p.begin(LockRequest{Resources: req.Resources, TTL: req.TTL, Wait: req.TTL + patience})
	for !writer.done.Load() {
		time.Sleep(50 * ms)
		for _, p := range w.proxies {
			p.lock(req)
		}
	}
	if !writer.Held {
		w.Errorf("LOCK behind readers through proxy %d at the end: got %+v after %v, want held", p.id, writer.Result, writer.took)
		return
	}
	if c := p.unlock(writer.Token, resource); !c.Held {
		w.Errorf("UNLOCK of the writer at the end: got %+v, want released", c.Result)
	}
}
