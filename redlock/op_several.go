package redlock

import (
	"slices"

	"redlockd/redlock/quorum"
)

// severalLocks is a lock of several resources, all or none. How it waits is in wait_queue.go and
// wait_reserve.go.
type severalLocks struct{ plainLock }

func (severalLocks) aim(c *Client, r *round) {
	op := r.op
	r.setKeys(op.keys...)
	slices.Sort(r.keys) // as waiter.keys
	r.verb = verbAcquire
	if op.waiter != nil {
		r.expectDeniers(c.fleet.view.Load().Places, op.waiter.reservation.token)
	}
}

// expectDeniers makes room for what the masters answer to an acquisition of several resources: which
// one is in the way. One more cell holds the token of the reservation whose place the acquisition
// takes, or "": a field would make every round larger (TestSizes).
func (r *round) expectDeniers(masters int, reservation string) {
	r.answers = make([]answer, masters+1)
	r.answers[masters].value = reservation //mutant:a-reservation-is-in-its-own-way
}

// reservation is the second token under which a key counts as free for an acquisition. "": there is
// none.
func (r *round) reservation() string {
	if r.answers == nil {
		return ""
	}
	return r.answers[len(r.answers)-1].value
}

// moveToDenierLocked moves a LOCK of several resources to the queue of the one that most of the masters
// named as the reason of their denial (of several such resources: the first by name). If that was
// another one than before too often, it begins to reserve instead.
func (ws *waiting) moveToDenierLocked(op *Op, r *round, d *deferred) {
	w := op.waiter
	denied := quorum.Votes(r.votes.Load()).Denied(r.view.Places)
	named := make([]int, len(r.keys))
	for i := range r.view.Places {
		if denied.Has(i) {
			named[r.answers[i].denier]++
		}
	}
	most, times := -1, 0
	for key, n := range named {
		if n > times {
			most, times = key, n
		}
	}
	if most < 0 || r.keys[most] == w.entry.resource { //mutant:waits-in-one-queue-for-ever
		return
	}
	if w.moves++; w.moves < reserveAfter { //mutant:never-reserves
		ws.moveToQueueLocked(op, r.keys[most], d)
		return
	}
	ws.startReservingLocked(op, d)
	ws.moveToQueueLocked(op, w.keys[0], d)
	w.again = true
}

// waitedFor returns the first of the resources for which somebody waits, or the first of all if nobody
// does.
func (s *leases) waitedFor(resources []string) string {
	for _, resource := range resources {
		if e := s.entries[resource]; e != nil && e.queue.head != nil {
			return resource
		}
	}
	return resources[0]
}
