package redlock

// Callers of the simulation who keep locks for long: so many that a copy takes several batches, and up to a day. Others try to get them all the time, and
// wait for those that end next. What these are granted is checked as ever: it must not run beside a lease that its caller believes in.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// simHoard begins the names of what is hoarded.
	simHoard = "hoard"
	// simMarks begins the names of what is locked with fences, so many that masters forget the marks of some.
	simMarks = "mark"
	// marksAtOnce is how many of those one LOCK has. Two are more than a master has beyond its bound (bound_marks.lua).
	marksAtOnce = 40
)

// hoarder is a caller who keeps many locks.
type hoarder struct {
	*caller
	held []*ledgerLease
}

// hoards starts a hoarder and two that want what he has. They hold no places of other callers.
func (w *world) hoards(run func(func())) {
	size := w.sizes.hoard
	if !w.longLocks() {
		size = min(size, 8) // all end soon, and are locked again
	}
	h := &hoarder{caller: w.besides(0), held: make([]*ledgerLease, size)}
	run(h.run)
	for i := range 2 {
		c := w.besides(1 + i)
		run(func() { h.rival(c) })
	}
}

// besides is a caller who is not counted among the others.
func (w *world) besides(i int) *caller {
	return &caller{w: w, id: simCallers + simHolders + 1 + i, rng: w.rng(uint64(400 + i)), operates: true, uncounted: true}
}

// longLocks tells whether a lock may outlive the simulation.
func (w *world) longLocks() bool { return w.profile.long || w.clocks.long() }

func (h *hoarder) run() {
	defer h.hangUp()
	w, rng := h.w, h.rng
	for !w.over.Load() {
		h.sleep(150 * ms)
		for i := range h.held {
			if w.over.Load() {
				break
			}
			if h.held[i] == nil || w.ledger.ended(h.held[i]) {
				h.take(i)
			}
		}
		if one := h.held[rng.IntN(len(h.held))]; one != nil && rng.IntN(4) == 0 {
			h.extend(w.present(rng.IntN(simProxies)), one, h.term())
		}
		if rng.IntN(6) == 0 {
			h.markTurn()
		}
	}
	for _, l := range h.held {
		if l == nil || w.ledger.ended(l) {
			continue
		}
		for tries := 0; tries < 20 && !h.unlock(w.present(rng.IntN(simProxies)), l); tries++ {
			h.sleep(20 * ms)
		}
	}
}

// term is how long something is locked: as long as possible, or so that it ends in this simulation.
func (h *hoarder) term() time.Duration {
	most := h.w.present(0).MaxTTL()
	if h.rng.IntN(3) > 0 {
		return most
	}
	return between(h.rng, 50*ms, min(most, simStepMax))
}

// take locks one, or some, through any proxy.
func (h *hoarder) take(i int) {
	p := h.w.present(h.rng.IntN(simProxies))
	h.held[i] = h.lock(p, LockRequest{Resources: []string{hoarded(i)}, TTL: min(h.term(), p.MaxTTL()), Fence: h.rng.IntN(4) == 0})
}

func hoarded(i int) string { return fmt.Sprint(simHoard, i) }

// rival wants what a hoarder has.
func (h *hoarder) rival(c *caller) {
	defer c.hangUp()
	w, rng := c.w, c.rng
	for !w.over.Load() {
		c.sleep(60 * ms)
		req := LockRequest{Resources: []string{hoarded(rng.IntN(len(h.held)))}, TTL: w.maxTTL / 2}
		if next, left := w.ledger.endsNext(rng); next != "" && rng.IntN(2) == 0 {
			req.Resources[0], req.Wait = next, left+200*ms
		}
		l := c.lock(w.present(rng.IntN(simProxies)), req)
		w.count(func(t *tallies) { t.coveted++ })
		if l == nil {
			continue
		}
		c.sleep(20 * ms)
		c.unlock(c.anyProxy(w.present(rng.IntN(simProxies))), l)
	}
}

// markTurn locks so much with fences that masters forget marks, through a proxy whose clock may be ahead, and then some of it again through others. A fence
// is above those of before also where the mark is forgotten.
func (h *hoarder) markTurn() {
	w := h.w
	first := w.present(h.rng.IntN(simProxies))
	for half := range 2 {
		req := LockRequest{TTL: min(time.Second, first.MaxTTL()), Fence: true}
		for i := range marksAtOnce {
			req.Resources = append(req.Resources, fmt.Sprint(simMarks, half*marksAtOnce+i))
		}
		if l := h.lock(first, req); l != nil {
			h.unlock(first, l)
		}
	}
	for _, i := range h.rng.Perm(marksAtOnce)[:4] {
		p := w.present(h.rng.IntN(simProxies))
		if l := h.lock(p, LockRequest{Resources: []string{fmt.Sprint(simMarks, i)}, TTL: min(time.Second, p.MaxTTL()), Fence: true}); l != nil {
			h.unlock(p, l)
			w.count(func(t *tallies) { t.marks++ })
		}
	}
}

// ended tells whether a caller does not believe in a lease any more.
func (b *ledger) ended(l *ledgerLease) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !l.runs(time.Now())
}

// endsNext picks, of a few leases that are hoarded, the one that ends first, within some seconds, and tells how long it runs.
func (b *ledger) endsNext(rng *rand.Rand) (resource string, left time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	left = 6 * time.Second
	for _, at := range rng.Perm(len(b.hoarded))[:min(16, len(b.hoarded))] {
		name := b.hoarded[at]
		if l := b.last[name]; l.runs(time.Now()) && time.Until(l.until) < left {
			resource, left = name, time.Until(l.until)
		}
	}
	return resource, left
}

// listHoardedLocked lists what a hoarder was granted.
func (b *ledger) listHoardedLocked(l *ledgerLease) {
	for _, r := range l.resources {
		if len(r) > len(simHoard) && r[:len(simHoard)] == simHoard && !slices.Contains(b.hoarded, r) {
			b.hoarded = append(b.hoarded, r)
		}
	}
}
