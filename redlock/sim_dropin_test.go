package redlock

// Callers of the simulation that were written for one Redis: SET NX, compare-and-expire, compare-and-delete, rotation. They lock the same
// resources as the others, under tokens that are unique, long or short. They count their TTL from when they sent, and a TTL that is
// shorter than before from when they asked for it; otherwise they believe what they were told. The same ledger watches them.

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// dropInTurn is a turn of such a caller.
func (c *caller) dropInTurn() {
	w, rng := c.w, c.rng
	p := w.present(rng.IntN(simProxies))
	req := LockRequest{Resources: []string{simResources[rng.IntN(len(simResources))]}, TTL: w.maxTTL/3 + upTo(rng, w.maxTTL*2/3)}
	if rng.IntN(5) == 0 {
		i := rng.IntN(len(simResources))
		req.Resources = []string{simResources[i], simResources[(i+1)%len(simResources)]}
	}
	req.TTL = req.TTL.Truncate(ms)
	req.Token = c.newValue()
	var l *ledgerLease
	for range 1 + rng.IntN(4) {
		if l = c.setNX(p, req); l != nil {
			break
		}
		c.sleep(30 * ms) // the same token again, as a library does that makes one per lock object; a balancer may choose another proxy
		if rng.IntN(2) == 0 || p.dead.Load() {
			p = w.present(rng.IntN(simProxies))
		}
	}
	if l == nil {
		return
	}
	for range rng.IntN(4) {
		c.work(req.TTL / 2)
		ttl := (w.maxTTL/3 + upTo(rng, w.maxTTL*2/3)).Truncate(ms)
		p = c.anyProxy(p)
		switch rng.IntN(4) {
		case 0:
			if !c.checkRead(p, l) {
				return
			}
		case 1:
			if len(l.resources) == 1 && !c.rotate(p, l, ttl) {
				return
			}
		default:
			if !c.compareAndExpire(p, l, ttl) {
				return
			}
		}
	}
	c.work(req.TTL / 2)
	if rng.IntN(15) > 0 {
		c.compareAndDelete(c.anyProxy(p), l)
	}
}

// newValue is unique; only if it is long does it look so.
func (c *caller) newValue() string {
	c.count++
	value := fmt.Sprintf("v%d.%d", c.id, c.count)
	if c.rng.IntN(2) == 0 {
		value += ".and-that-is-unique"
	}
	return value
}

// changesOf makes a change of every resource of a lease.
func changesOf(resources []string, change func(resource string) Change) []Change {
	var all []Change
	for _, resource := range resources {
		all = append(all, change(resource))
	}
	return all
}

func (c *caller) setNX(p *incarnation, req LockRequest) *ledgerLease {
	var got *ledgerLease
	began, losses := time.Now(), c.w.ledger.lossesSoFar()
	r := newRequest(p, func(result Result) {
		if !result.Held {
			c.w.ledger.note("caller %d: SET NX %v %s through %d: %v", c.id, req.Resources, short(req.Token), p.id, outcomeText(result))
			return
		}
		// It may have begun later, or once more.
		if took := time.Since(began); result.Until.Before(began.Add(req.TTL)) || result.Until.After(began.Add(took+req.TTL)) {
			c.w.Errorf("SET NX: valid until %v behind the start, want the TTL, %v, and %v more at most", result.Until.Sub(began), req.TTL, took)
		}
		result.Validity = req.TTL
		got = c.w.ledger.granted(c, p, req, result, began, losses)
	})
	c.w.ledger.note("caller %d: SET NX %v %s ttl %v through %d …", c.id, req.Resources, short(req.Token), req.TTL, p.id)
	p.StartCommit(&r.Op, changesOf(req.Resources, func(key string) Change { return setNX(key, req.Token, req.TTL) }), r)
	r.wait()
	if got != nil {
		c.w.count(func(t *tallies) { t.dropIn++ })
	}
	return got
}

// renew runs a commit after which the caller believes in the TTL, and says whether it still believes.
func (c *caller) renew(what string, p *incarnation, l *ledgerLease, ttl time.Duration, changes []Change, done, unknown func()) (still bool) {
	still = true
	began := time.Now()
	c.w.ledger.shortened(l, began.Add(ttl))
	r := newRequest(p, func(result Result) {
		switch {
		case result.Held:
			c.w.ledger.extended(l, p, result, began)
			c.w.count(func(t *tallies) { t.dropInLater++ })
			done()
		case result.Err == nil:
			c.w.ledger.lost(l, p, began)
			still = false
		default:
			c.w.ledger.note("caller %d: %s %v %s through %d: %v", c.id, what, l.resources, short(l.token), p.id, result.Err)
			unknown()
		}
	})
	c.w.ledger.note("caller %d: %s %v %s ttl %v through %d …", c.id, what, l.resources, short(l.token), ttl, p.id)
	p.StartCommit(&r.Op, changes, r)
	if errors.Is(r.wait().Err, errProxyDied) {
		unknown() // what it had sent may be done
	}
	return still
}

func (c *caller) compareAndExpire(p *incarnation, l *ledgerLease, ttl time.Duration) bool {
	return c.renew("EXPIRE", p, l, ttl, changesOf(l.resources, func(key string) Change { return compareAndExpire(key, l.token, ttl) }), func() {}, func() {})
}

// rotate gives the lock another token. If nobody knows what came of it, the caller goes on with the old one.
func (c *caller) rotate(p *incarnation, l *ledgerLease, ttl time.Duration) bool {
	value := c.newValue()
	c.w.ledger.changing(l)
	return c.renew("rotation to "+short(value), p, l, ttl, []Change{rotate(l.resources[0], l.token, value, ttl)}, func() {
		c.w.ledger.renamed(l, value)
		c.w.count(func(t *tallies) { t.rotated++ })
	}, func() {
		// Some masters may have the new token now: with the old one the lock may be found lost. Nobody else can have it.
		c.w.ledger.excuse(l)
	})
}

func (c *caller) compareAndDelete(p *incarnation, l *ledgerLease) {
	c.w.ledger.releasing(l, p)
	r := newRequest(p, func(result Result) { c.w.ledger.released(l, p, result) })
	p.StartCommit(&r.Op, changesOf(l.resources, func(key string) Change { return compareAndDelete(key, l.token) }), r)
	r.wait()
}

// checkRead: as long as a lock is valid and nothing has happened that can lose it, a reading must find it.
func (c *caller) checkRead(p *incarnation, l *ledgerLease) (still bool) {
	still = true
	r := newRequest(p, func(result Result) {
		if result.Err == nil {
			for i, st := range result.States {
				still = still && st.Found && st.Value == l.token
				c.w.ledger.read(l, p, l.resources[i], st)
			}
			c.w.count(func(t *tallies) { t.read++ })
		}
	})
	p.StartRead(&r.Op, l.resources, r)
	result := r.wait()
	return still || errors.Is(result.Err, errProxyDied)
}

// shortened: the caller believes in the TTL that it asks for from now on, if that is shorter.
func (b *ledger) shortened(l *ledgerLease, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until.Before(l.until) {
		l.until = until
	}
}

// changing: the caller asks for another token.
func (b *ledger) changing(l *ledgerLease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.changes = true
}

func (b *ledger) renamed(l *ledgerLease, token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.name == "" {
		l.name = l.token
	}
	b.w.trace.gaveUp(l)
	l.token = token
}

func (b *ledger) read(l *ledgerLease, p *incarnation, resource string, st State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if st.Found && st.Value == l.token {
		return
	}
	b.noteLocked("caller %d: GET %s through %d: %+v", l.caller, resource, p.id, st)
	if time.Now().Before(l.until) && b.nothingLostLocked(l) && slices.Contains(l.resources, resource) {
		b.failLocked("GET %s does not find %s of caller %d, and nothing has happened that can lose it", resource, short(l.token), l.caller)
	}
	l.over = true
	b.endLocked(l, time.Time{}, time.Time{})
}

// excuse: the lock may be found lost without a fault.
func (b *ledger) excuse(l *ledgerLease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.losses = -1
}
