package redlock

// Callers of the simulation whose locks are held by their connections, and who believe what KEEPALIVE answers. They pause, lose their
// connections without knowing it, take their locks over through other proxies, and leave old connections behind that end, with
// RELEASE, when the lock is long somewhere else.

import (
	"sync/atomic"
	"time"
)

const simHolders = 3

// simConn is a connection of such a caller to a proxy.
type simConn struct {
	*Holder
	p    *incarnation
	used atomic.Int64 // when the caller has sent something, in nanoseconds
	cut  bool         // the connection has ended, and the caller does not know
}

func (c *simConn) LockLost([]string) Flusher { return nil } // a caller with KEEPALIVE learns of it there
func (c *simConn) Idle() time.Duration       { return time.Duration(time.Now().UnixNano() - c.used.Load()) }

func newSimConn(p *incarnation) *simConn {
	c := &simConn{p: p}
	c.Holder = NewHolder(c)
	c.used.Store(time.Now().UnixNano())
	return c
}

// end ends the connection.
func (c *simConn) end(byClient bool) {
	if !c.p.dead.Load() {
		c.p.EndHolder(c.Holder, byClient && !c.cut)
	}
}

// endLater ends a connection that its caller has left. Until then its proxy may renew what it holds.
func (h *holder) endLater(conn *simConn, d time.Duration, byClient bool) {
	h.w.left.Add(1)
	time.AfterFunc(d, func() {
		defer h.w.left.Done()
		conn.end(byClient)
	})
}

// holder is a caller that holds.
type holder struct{ *caller }

func (h *holder) run() {
	for !h.w.over.Load() {
		h.sleep(100 * ms)
		h.turn()
	}
}

func (h *holder) turn() {
	w, rng := h.w, h.rng
	h.count++
	conn := newSimConn(w.present(rng.IntN(simProxies)))
	release := rng.IntN(3) > 0
	ttl := w.maxTTL/2 + upTo(rng, w.maxTTL/2)
	req := LockRequest{Resources: []string{simResources[rng.IntN(len(simResources))]}, TTL: ttl, Holder: conn.Holder, Release: release}
	switch rng.IntN(4) {
	case 0:
		req.Resources = []string{simResources[0], simResources[2]}
	case 1:
		if w.trace != nil {
			break // the model has no readers
		}
		req.Resources[0], req.Shared = w.readMostly(), true
	}
	if rng.IntN(2) == 0 {
		req.Wait = upTo(rng, 300*ms)
	}
	l := h.lock(conn.p, req)
	defer func() { conn.end(true) }()
	if l == nil {
		return
	}
	if rng.IntN(3) == 0 && !conn.p.dead.Load() {
		conn.p.SetSilence(conn.Holder, ttl)
	}
	for range 1 + rng.IntN(8) {
		switch rng.IntN(12) {
		case 0: // the caller pauses for long
			h.sleep(4 * ttl)
		case 1:
			if !conn.cut {
				conn.cut = true
				w.ledger.note("caller %d: the connection to %d is cut", h.id, conn.p.id)
				h.endLater(conn, upTo(rng, ttl), false)
			}
		case 2:
			if next, lease := h.takeOver(conn, l, ttl, release); next != nil {
				h.endLater(conn, upTo(rng, 2*ttl), true)
				conn, l = next, lease
			}
		default:
			h.sleep(ttl / 2)
		}
		if conn.p.dead.Load() {
			next, lease := h.takeOver(conn, l, ttl, release)
			if next == nil {
				break
			}
			conn, l = next, lease
		}
		if !h.keepAlive(conn, l) {
			return
		}
	}
	if rng.IntN(2) == 0 {
		h.unlock(h.anyProxy(conn.p), l)
		return
	}
	w.ledger.releasing(l, conn.p) // by the end of the connection
}

// keepAlive is a KEEPALIVE, whose answer may be heard late. It tells whether the caller goes on.
func (h *holder) keepAlive(conn *simConn, l *ledgerLease) bool {
	if conn.cut || conn.p.dead.Load() {
		return time.Now().Before(l.until)
	}
	sent := time.Now()
	conn.used.Store(sent.UnixNano())
	r := newRequest(conn.p, func(Result) {})
	conn.p.StartKeepAlive(&r.Op, conn.Holder, r)
	result := r.wait()
	if h.rng.IntN(4) == 0 { // the answer lies in a buffer, or the caller is paused
		h.sleep(h.w.maxTTL)
	}
	switch {
	case result.Err != nil:
		h.w.ledger.note("caller %d: KEEPALIVE %v %s through %d: %v", h.id, l.resources, short(l.token), conn.p.id, result.Err)
		return true
	case result.Held:
		h.w.ledger.kept(l, conn.p, sent, result.Validity)
		h.w.count(func(t *tallies) { t.kept++ })
	case len(result.Kept.Lost) > 0 || result.Kept.Bound == 0:
		h.w.ledger.lost(l, conn.p, sent)
		h.w.count(func(t *tallies) { t.heldLost++ })
		return false
	}
	return true
}

// takeOver is a HOLD through another connection. It returns that, and the lease, or nil if the lock was not taken over. What was believed
// before is true all the same.
func (h *holder) takeOver(old *simConn, l *ledgerLease, ttl time.Duration, release bool) (*simConn, *ledgerLease) {
	conn := newSimConn(h.w.present(h.rng.IntN(simProxies)))
	sent := time.Now()
	r := newRequest(conn.p, func(result Result) {
		if result.Held {
			h.w.ledger.renamed(l, result.Token)
			h.w.ledger.kept(l, conn.p, sent, result.Validity)
			h.w.count(func(t *tallies) {
				t.takenOver++
				if l.shared {
					t.readsMoved++
				}
			})
		} else {
			h.w.ledger.changing(l)
			h.w.ledger.note("caller %d: HOLD %v %s through %d: %v", h.id, l.resources, short(l.token), conn.p.id, outcomeText(result))
		}
	})
	h.w.ledger.changing(l)
	h.w.ledger.note("caller %d: HOLD %v %s, held through %d, through %d …", h.id, l.resources, short(l.token), old.p.id, conn.p.id)
	conn.p.StartHold(&r.Op, LockRequest{Resources: l.resources, Token: l.token, TTL: ttl, Holder: conn.Holder, Release: release}, r)
	if result := r.wait(); !result.Held {
		h.w.ledger.excuse(l) // single masters may have the new token, and the old one finds no quorum
		conn.end(true)
		return nil, nil
	}
	return conn, l
}

// kept: the caller was told that it holds the lock for so long, counted from when it asked.
func (b *ledger) kept(l *ledgerLease, p *incarnation, sent time.Time, validity time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	until := sent.Add(validity)
	b.noteLocked("caller %d: KEEPALIVE %v %s through %d: held until %v", l.caller, l.resources, short(l.token), p.id, until.Sub(b.w.began))
	for _, r := range l.resources {
		if after := b.sinceLocked(r, l); after != nil && time.Now().Before(until) {
			b.failLocked("KEEPALIVE says that %s of caller %d holds %s, and it has been granted to %s of caller %d since",
				l, l.caller, r, after, after.caller)
		}
	}
	if until.After(l.until) {
		l.until = until
	}
	if time.Now().Before(until) {
		b.w.trace.believes(p, l.resources, l.token, until)
	}
	b.record.add(b.w, l.caller, simStep{kind: stepExtend}, l, sent, sent)
}
