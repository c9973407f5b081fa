package redlock

// Callers of the simulation that take slots of a semaphore. A slot is a resource like any other for the ledger and the history, so that at most one token
// holds each. Here is checked what is more than that: at most simSlots hold, no token holds two slots, and at rest all slots are free.

import "time"

const (
	simSemaphore = "s"
	simSlots     = 2
)

// slotTurn is a turn of such a caller.
func (c *caller) slotTurn() {
	w, rng := c.w, c.rng
	req := LockRequest{Resources: []string{simSemaphore}, Slots: simSlots, TTL: w.ttl(rng), Fence: rng.IntN(4) == 0}
	c.lockAndWork(w.present(rng.IntN(simProxies)), req)
}

// slotGranted checks a grant that the ledger has taken in.
func (b *ledger) slotGranted(req LockRequest, result Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, held, mine, known := time.Now(), 0, 0, false
	for i := range req.Slots {
		slot := SlotName(req.Resources[0], i)
		known = known || slot == result.Slot
		if l := b.last[slot]; l.runs(now) {
			held++
			if l.token == result.Token {
				mine++
			}
		}
	}
	switch {
	case !known:
		b.failLocked("a LOCK with %d slots was granted %q", req.Slots, result.Slot)
	case mine > 1 && !b.w.operates():
		b.failLocked("%s holds %d slots", short(result.Token), mine)
	}
	b.w.count(func(t *tallies) {
		t.slots++
		if held == req.Slots {
			t.slotsFull++
		}
	})
}

// checkSlots locks all slots through the proxy, and has others wait for them.
func (w *world) checkSlots(p *incarnation) {
	req := LockRequest{Resources: []string{simSemaphore}, Slots: simSlots, TTL: longest(p)}
	held := map[string]string{}
	for range simSlots {
		c := p.lock(req)
		if !c.Held || held[c.Slot] != "" {
			w.Errorf("LOCK with slots through proxy %d at the end: got %+v, want another slot than %v", p.id, c.Result, held)
			return
		}
		held[c.Slot] = c.Token
	}
	if c := p.lock(req); c.Held || c.Err != nil {
		w.Errorf("LOCK of a full semaphore through proxy %d at the end: got %+v, want no", p.id, c.Result)
	}
	var waiters []*call
	for range 2 * simSlots {
		c := p.begin(req.waits(longest(p)))
		c.after = func() {
			if c.Held {
				time.AfterFunc(ms, func() { p.startUnlock(c.Token, c.Slot) })
			}
		}
		waiters = append(waiters, c)
	}
	for slot, token := range held {
		if c := p.unlock(token, slot); !c.Held {
			w.Errorf("UNLOCK %s through proxy %d at the end: got %+v, want released", slot, p.id, c.Result)
		}
	}
	for _, c := range waiters {
		if p.finish(c); !c.Held {
			w.Errorf("a waiter for a slot through proxy %d at the end: got %+v, want held", p.id, c.Result)
		}
	}
	time.Sleep(300 * ms) // the last of them releases
}
