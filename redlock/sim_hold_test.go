package redlock

// Callers of the simulation whose locks are held by their connections, and who believe what KEEPALIVE answers. They pause, lose their
// connections without knowing it, take their locks over through other proxies, and leave old connections behind that end, with
// RELEASE, when the lock is long somewhere else.

import (
	"time"

	"redlockd/redlock/resp"
)

const simHolders = 3

// holder is a caller that holds.
type holder struct{ *caller }

func (h *holder) run() {
	for !h.w.over.Load() {
		h.sleep(30 * ms)
		h.turn()
	}
}

// loses has something happen to a connection that its caller does not know. A connection that is reset looks as if the client had ended it: what is
// held with RELEASE would be released.
func (h *holder) loses(s *simConn, ttl time.Duration, release bool) {
	h.w.ledger.note("caller %d: the connection to %d is cut", h.id, s.p.id)
	if release {
		s.link.Partition()
		h.w.left.Add(1)
		time.AfterFunc(simPatience+upTo(h.rng, ttl), func() {
			defer h.w.left.Done()
			s.link.Heal()
		})
		return
	}
	time.AfterFunc(upTo(h.rng, ttl), s.link.Cut)
}

// leave ends a connection later. Until then its proxy may renew what it holds.
func (h *holder) leave(s *simConn, d time.Duration) {
	h.w.left.Add(1)
	time.AfterFunc(d, func() {
		defer h.w.left.Done()
		s.conn.Close()
	})
}

func (h *holder) turn() {
	w, rng := h.w, h.rng
	h.count++
	ttl := (w.maxTTL/2 + upTo(rng, w.maxTTL/2)).Truncate(ms)
	req := LockRequest{Resources: []string{simResources[rng.IntN(len(simResources))]}, TTL: ttl, Release: rng.IntN(3) > 0}
	switch rng.IntN(4) {
	case 0:
		req.Resources = []string{simResources[0], simResources[2]}
	case 1:
		if w.trace.noReaders() {
			break // the model of locks has none
		}
		req.Resources[0], req.Shared = w.readMostly(), true
	}
	if rng.IntN(2) == 0 {
		req.Wait = upTo(rng, 300*ms)
	}
	s := h.connect(w.present(rng.IntN(simProxies)), req.Release)
	l := h.lockOn(s, req, true)
	defer func() { s.close() }()
	if l == nil {
		return
	}
	if rng.IntN(3) == 0 {
		s.do("KEEPALIVE", "1000") // the least
	}
	for range 1 + rng.IntN(8) {
		next := s
		switch rng.IntN(12) {
		case 0: // the caller pauses for long
			h.sleep(4 * ttl)
		case 1:
			h.loses(s, ttl, req.Release)
		case 2:
			next = h.takeOver(s, l, req)
		default:
			h.work(ttl / 2)
		}
		if s.ended && next == s {
			next = h.takeOver(s, l, req)
		}
		if next != s {
			h.leave(s, upTo(rng, 2*ttl))
			s = next
		}
		if !h.keepAlive(s, l) {
			return
		}
	}
	if rng.IntN(2) == 0 {
		h.unlock(h.anyProxy(s.p), l)
		return
	}
	w.ledger.releasing(l, s.p) // by the end of the connection
}

// keepAlive is a KEEPALIVE, whose answer may be heard late. It tells whether the caller goes on.
func (h *holder) keepAlive(s *simConn, l *ledgerLease) bool {
	w, sent := h.w, time.Now()
	v, err := s.do("KEEPALIVE")
	if h.rng.IntN(4) == 0 { // the answer lies in a buffer, or the caller is paused
		h.sleep(w.maxTTL)
	}
	if err != nil || v.Kind == resp.Error {
		w.ledger.note("caller %d: KEEPALIVE %v %s through %d: %v %v", h.id, l.resources, short(l.token), s.p.id, v.Text, err)
		return true
	}
	if w.blind(s.p) {
		w.ledger.note("caller %d: KEEPALIVE %v %s through %d, whose clock stood still, is not believed", h.id, l.resources, short(l.token), s.p.id)
		return true
	}
	if validity := field(v, "validity").Int; validity > 0 {
		w.ledger.kept(l, s.p, sent, time.Duration(validity)*ms)
		w.count(func(t *tallies) { t.kept++ })
	} else if len(field(v, "lost").Elems) > 0 || field(v, "held").Int == 0 {
		w.ledger.lost(l, s.p, sent)
		w.count(func(t *tallies) { t.heldLost++ })
		return false
	}
	return true
}

// takeOver is a HOLD through another connection, which it returns, or the old one if the lock was not taken over. What was believed before is true
// all the same.
func (h *holder) takeOver(old *simConn, l *ledgerLease, req LockRequest) *simConn {
	w := h.w
	s := h.connect(w.present(h.rng.IntN(simProxies)), req.Release)
	w.ledger.changing(l)
	w.ledger.note("caller %d: HOLD %v %s, held through %d, through %d …", h.id, l.resources, short(l.token), old.p.id, s.p.id)
	args := append(commandFor("HOLD", l.resources), l.token, inText(req.TTL))
	if req.Release {
		args = append(args, "RELEASE")
	}
	sent := time.Now()
	v, err := s.do(args...)
	result := resultOf(v, err, sent)
	if !result.Held {
		w.ledger.note("caller %d: HOLD %v %s through %d: %v", h.id, l.resources, short(l.token), s.p.id, outcomeText(result))
		w.ledger.excuse(l) // single masters may have the new token, and the old one finds no quorum
		s.close()
		return old
	}
	w.ledger.renamed(l, result.Token)
	w.ledger.kept(l, s.p, sent, result.Validity)
	w.count(func(t *tallies) {
		t.takenOver++
		if l.shared {
			t.readsMoved++
		}
	})
	return s
}

// kept: the caller was told that it holds the lock for so long, counted from when it asked.
func (b *ledger) kept(l *ledgerLease, p *incarnation, sent time.Time, validity time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	until := sent.Add(validity)
	b.noteLocked("caller %d: KEEPALIVE %v %s through %d: held until %v", l.caller, l.resources, short(l.token), p.id, until.Sub(b.w.began))
	if until.After(l.until) {
		b.stillLocked("KEEPALIVE", l, until)
	}
	if time.Now().Before(until) {
		b.w.trace.believes(p, l, until)
	}
	b.record.add(b.w, l.caller, simStep{kind: stepExtend}, l, sent, sent)
}
