package redlock

// An operator of the simulation who releases locks by force. The callers do not know, and go on as before: they renew, repeat their LOCK with the same
// token, and release what they no longer hold. A lease that a force has ended may still be believed in; all others exclude each other as ever.

import (
	"slices"
	"time"

	"redlockd/redlock/conn"
)

// simForce is an UNLOCK … FORCE, under way or over.
type simForce struct {
	resource string
	began    time.Time
	ended    time.Time      // zero: it is under way
	digests  []string       // of the tokens that it has found. Nil if nobody knows
	known    bool           // the operator was told what came of it
	fence    int64          // the highest of the resource when it began
	leases   []*ledgerLease // that were listed when it began; their callers may be told later that they last longer
	// pairs are leases that were granted beside each other while this was under way. It must have ended one of the two.
	pairs [][2]*ledgerLease
}

// ends tells whether the force, which is over, may have ended the lease: it has found its token, or nobody knows. A lease that was asked for
// behind it is another one, also if the token is the same.
func (f *simForce) ends(l *ledgerLease) bool {
	return !l.asked.After(f.ended) &&
		(!f.known || len(f.digests) > 0 && l.changes || slices.Contains(f.digests, conn.Digest(l.token)))
}

// operates tells whether the simulation has an operator. In all others a lock is lost by faults alone.
func (w *world) operates() bool { return w.trace == nil && w.seed/uint64(len(profiles))%3 == 1 }

// operate releases resources by force until the callers stop.
func (w *world) operate(c *caller) {
	for !w.over.Load() {
		c.sleep(800 * ms)
		resource := simResources[c.rng.IntN(len(simResources))]
		if c.rng.IntN(5) == 0 {
			resource = SlotName(simSemaphore, c.rng.IntN(simSlots))
		}
		w.force(resource, w.present(c.rng.IntN(simProxies)))
	}
}

// force asks the engine: the reply to UNLOCK … FORCE does not say which tokens were found.
func (w *world) force(resource string, p *incarnation) {
	f := w.ledger.forcing(resource, p)
	done := make(chan struct{})
	c := &call{}
	c.after = func() {
		if !p.dead.Load() {
			w.ledger.forced(f, c.Result)
			close(done)
		}
	}
	p.StartForce(&c.Op, resource, c)
	select {
	case <-done:
	case <-p.gone:
		w.ledger.forced(f, Result{Err: errNoAnswer})
		return
	}
	if c.Err == nil && c.Held {
		w.count(func(t *tallies) { t.forced++ })
	}
}

// forcing notes the begin of a force. The holders of the resource may lose it from now on.
func (b *ledger) forcing(resource string, p *incarnation) *simForce {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteLocked("operator: UNLOCK %s FORCE through %d …", resource, p.id)
	f := &simForce{resource: resource, began: time.Now(), fence: b.fence[resource]}
	b.forces[resource] = append(b.forces[resource], f)
	f.leases = b.listedOrLateLocked(resource)
	for _, l := range f.leases {
		l.losses = -1
	}
	return f
}

// listedOrLateLocked are the leases that a force of the resource may end.
func (b *ledger) listedOrLateLocked(resource string) []*ledgerLease {
	all := b.listedLocked(resource)
	for _, l := range b.late {
		if slices.Contains(l.resources, resource) {
			all = append(all, l)
		}
	}
	return all
}

// forced notes what came of it.
func (b *ledger) forced(f *simForce, result Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !f.ended.IsZero() {
		return
	}
	b.noteLocked("operator: UNLOCK %s FORCE: %v %+v", f.resource, outcomeText(result), result.Forced)
	f.ended = time.Now()
	if f.known = result.Err == nil; f.known {
		f.digests = result.Forced.digests
		if result.Forced.Fence <= f.fence {
			b.failLocked("the force of %s has the fence %d, and the resource was granted with %d before", f.resource, result.Forced.Fence, f.fence)
		}
		b.fence[f.resource] = max(b.fence[f.resource], result.Forced.Fence)
	}
	for _, l := range append(b.listedOrLateLocked(f.resource), f.leases...) {
		b.endByForceLocked(f, l)
	}
	for _, pair := range f.pairs {
		b.endByForceLocked(f, pair[0])
		b.endByForceLocked(f, pair[1])
		b.exclusiveLocked(f.resource, pair[0], pair[1])
	}
}

// endByForceLocked ends a lease on the resource of a force that is over, if that may have found it.
func (b *ledger) endByForceLocked(f *simForce, l *ledgerLease) {
	if f.ends(l) && !slices.Contains(l.forced, f.resource) {
		b.recordForceLocked(f, l, f.known)
		l.forced = append(l.forced, f.resource)
	}
}

// recordForceLocked records that a force has ended the lease on a resource, or, if that is not sure, that it ends at any time from then on.
func (b *ledger) recordForceLocked(f *simForce, l *ledgerLease, sure bool) {
	if l.late {
		return
	}
	b.record.believed(b.w, l, f.resource, f.began)
	if l.ended { // its caller has given it up already, maybe because of a force of another resource
		b.record.endsSooner(b.w, l, f.resource, f.began)
		return
	}
	end, call, ret := *l, f.began, time.Time{}
	for _, t := range []time.Time{l.sent, l.until} {
		if !t.IsZero() && t.Before(call) {
			call = t
		}
	}
	if sure {
		ret = f.ended
	}
	end.resources, end.forced = []string{f.resource}, nil
	b.record.add(b.w, l.caller, simStep{kind: stepEnd}, &end, call, ret)
}

// forcesOfLocked are the forces that may have ended the lease before its caller is told of it. underWay: another may be about to.
func (b *ledger) forcesOfLocked(l *ledgerLease) (all []*simForce, underWay bool) {
	for _, r := range l.resources {
		for _, f := range b.forces[r] {
			if f.ended.IsZero() {
				underWay = true
			} else if f.ends(l) && !slices.Contains(l.forced, r) {
				all, l.forced = append(all, f), append(l.forced, r)
			}
		}
	}
	if underWay || len(all) > 0 {
		l.losses = -1
	}
	return all, underWay
}

// exclusiveLocked checks that a lease which was granted runs beside no other that does, unless a force has ended one of the two, or may be about to.
func (b *ledger) exclusiveLocked(resource string, l, other *ledgerLease) {
	if !other.runsOn(resource, time.Now()) || slices.Contains(l.forced, resource) || other.shared && l.shared && other.hash == l.hash {
		return
	}
	for _, f := range b.forces[resource] {
		if f.ended.IsZero() {
			f.pairs = append(f.pairs, [2]*ledgerLease{l, other})
			return
		}
	}
	b.failLocked("%s was granted to %s of caller %d, and is held by %s of caller %d for another %v",
		resource, l, l.caller, other, other.caller, time.Until(other.until))
}
