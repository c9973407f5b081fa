package redlock

import (
	"math/bits"
	"math/rand/v2"
	"time"
)

// Waiting for a slot. All who wait for a slot of one semaphore stand in one queue, whose entry has a
// name that no resource can have (slotsQueue). Its head observes all slots, with one command. It
// differs from the queue of a lock in this:
//
//   - A slot that is released here is handed over to the first waiter that has no acquisition in
//     flight: several slots can be handed over at the same time. So a waiter that is not the head may
//     ask, too, while the head does. If it is denied, it stays where it stands.
//   - While the semaphore is not known to be full, those who come ask at once, as many as it has slots.
//     So a slot that is free is found in the first round.
//   - A new head that knows of no free slot observes first, and asks if the answers show one.
//   - A slot that another client has released is found by invalidations, which name the slot. Each slot
//     is tracked by itself (wait_tracked.go).
//   - A hand-over window leaves one slot to the other clients, for a fixed time. Hand-overs of the
//     other slots go on.

// queueFor returns the entry in whose queue somebody waits for the resource, or nil. If they wait for
// it as a slot, slot is its number, else -1.
func (s *leases) queueFor(resource string) (e *entry, slot int) {
	if e = s.entries[resource]; e != nil && e.queue.head != nil {
		return e, -1
	}
	if semaphore, slot, ok := SlotOf(resource); ok {
		return s.entries[slotsQueue(semaphore)], slot // it is there only while somebody waits
	}
	return nil, -1
}

// nextFor returns the first waiter that can be handed a slot, or nil. At most MaxSlots ask at the same
// time, so it looks at no more than twice as many, of which some may name too few slots.
func (q *waitQueue) nextFor(slot int) *waiter {
	for w, n := q.head, 0; w != nil && n < 2*MaxSlots; w, n = w.next, n+1 {
		if slot < w.slots().count && w.canAsk() { //mutant:a-slot-beyond-its-k-is-handed-over
			return w
		}
	}
	return nil
}

// slots is the search of a waiter for a slot; of another it is nil.
func (w *waiter) slots() *slotSearch {
	s, _ := w.op.kind.(*slotSearch)
	return s
}

// asks tells whether the semaphore is not known to be full, and no more wait than it has slots.
func (s *slotSearch) asks(q *waitQueue) bool { return !q.denied && q.length <= s.count } //mutant:one-after-the-other

// asked are the slots for which waiters ask now, one bit each.
func (q *waitQueue) asked(slots int) (asked uint32) {
	for w := q.head; w != nil && slots > 0; w, slots = w.next, slots-1 {
		if !w.canAsk() {
			asked |= 1 << w.attempt.slot
		}
	}
	return asked
}

// canAsk tells whether no acquisition is in flight for a waiter. An observation in flight is of no more
// interest then.
func (w *waiter) canAsk() bool { return w.attempt == nil || w.attempt.verb == verbObserveSlots }

// handOverSlotLocked hands a slot over right behind its release, or opens a window.
func (ws *waiting) handOverSlotLocked(resource string, d *deferred) {
	e, slot := ws.leases.queueFor(resource)
	if e == nil {
		return
	}
	q, f := &e.queue, &e.queue.fairness
	w := q.nextFor(slot)
	switch {
	case w == nil: // all ask for slots: the head asks once more if it is denied
		q.head.again = true
	case f.leave(ws.own.At(d.now), ws.bounds.limits.Load().handoverTime): //mutant:hand-overs-of-slots-without-end
		ws.rounds.publish(windowsChannel, resource, d)
		time.AfterFunc(ws.windowLength(), func() { ws.slotWindowEnded(resource) }) //mutant:the-slot-of-a-window-is-forgotten
	default:
		ws.client.stats.Handovers++
		ws.askForSlotLocked(w, slot, d)
	}
}

// slotWindowEnded has a waiter ask for the slot that was left to other clients. If all ask for slots, a
// head that is denied observes this one.
func (ws *waiting) slotWindowEnded(resource string) {
	d := ws.client.enter()
	defer ws.client.leave(d)
	e, slot := ws.leases.queueFor(resource)
	if e == nil || slot < 0 {
		return
	}
	e.queue.fairness.closeWindow()
	if w := e.queue.nextFor(slot); w != nil {
		ws.askForSlotLocked(w, slot, d)
	}
}

// askForSlotLocked has a waiter ask for a slot.
func (ws *waiting) askForSlotLocked(w *waiter, slot int, d *deferred) {
	s := w.slots()
	s.next = slot + 1 //mutant:the-wrong-slot-is-handed-over
	ws.attemptLocked(w.op, d)
}

// suggestSlot has the next attempt of a head ask for a slot that may be free.
func (w *waiter) suggestSlot(slot int) {
	if s := w.slots(); s != nil && slot < s.count {
		s.next = slot + 1
	}
}

// newHead goes on when a waiter has left the queue of a semaphore: the next one asks while the
// semaphore is not known to be full. Else the head observes, or only pauses until the first lease ends,
// if all slots are leased here.
func (s *slotSearch) newHead(c *Client, head *waiter, d *deferred) {
	q := &head.entry.queue
	if !q.denied {
		if w := q.nextFor(0); w != nil {
			c.waiting.attemptLocked(w.op, d)
		}
		return
	}
	if head.attempt != nil || head.retry != nil {
		return
	}
	if first, all := c.waiting.slotsLeasedLocked(s, d.now); all {
		head.lastErr = nil
		c.waiting.pauseLocked(head.op, c.opts.retryDelay(first.Sub(d.now)))
		return
	}
	c.waiting.observeLocked(head.op, d)
}

// slotsLeasedLocked tells whether all slots are leased here, and when the first of the leases ends.
func (ws *waiting) slotsLeasedLocked(search *slotSearch, now time.Time) (first time.Time, all bool) {
	for i := range search.count {
		e := ws.leases.entries[SlotName(search.resource, i)]
		if e == nil || e.lease == nil || !now.Before(e.lease.validUntil) {
			return first, false
		}
		if end := ws.leases.keysEnd(e.lease); first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first, true
}

// observation asks for all slots.
func (s *slotSearch) observation(_ *waiter, r *round) {
	r.verb = verbObserveSlots
	r.setKeys(slotNames(s.resource, s.count)...)
	s.tracked = make([]tracked, s.count)
}

// observed has waiters ask for slots that are free. A head that was denied again and again although
// some are free asks for one of them alone.
func (s *slotSearch) observed(c *Client, w *waiter, r *round, d *deferred) {
	free, soon := observedSlots(r.answers, s.tracked, r.view.Quorum())
	open := w.entry.queue.fairness.windowOpen
	c.waiting.pauseLocked(w.op, c.waiting.pauseAfter(w, r.view, free != 0, soon))
	switch {
	case open: // those that are free are left to others
	case w.splits > 1:
		w.suggestSlot(anySlot(free))
	default:
		c.waiting.slotsFreedLocked(&w.entry.queue, free, d) //mutant:slots-that-were-seen-free-are-not-taken
	}
}

// slotsFreedLocked has waiters ask for the slots of which a quorum has said to the head that they are
// free: one each, the head first.
func (ws *waiting) slotsFreedLocked(q *waitQueue, free uint32, d *deferred) {
	for free != 0 {
		slot := anySlot(free)
		free &^= 1 << slot
		if w := q.nextFor(slot); w != nil {
			ws.askForSlotLocked(w, slot, d)
		}
	}
}

// anySlot picks one of the slots at random, so that several clients do not ask for the same one. There
// must be one.
func anySlot(free uint32) int {
	for range rand.N(bits.OnesCount32(free)) {
		free &= free - 1
	}
	return bits.TrailingZeros32(free)
}

// observedSlots tells which of the slots a quorum of the masters is free of, one bit each, and how long
// it takes until a quorum is free of the next one, 0: that is not known. It tracks those that are held.
func observedSlots(answers []answer, slots []tracked, quorum int) (free uint32, soon time.Duration) {
	of := make([]answer, len(answers))
	for i := range slots {
		for j, a := range answers {
			if a.keys != nil {
				of[j] = a.keys[i]
				of[j].known, of[j].armed = true, a.armed
			}
		}
		switch end := freeByQuorum(of, quorum); {
		case absentOn(of) >= quorum: //mutant:a-slot-is-free-on-one-master
			free |= 1 << i
			continue
		case end > 0 && (soon == 0 || end < soon):
			soon = end
		}
		slots[i].observe(of)
	}
	return free, soon
}
