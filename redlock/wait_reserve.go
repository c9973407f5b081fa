package redlock

import (
	"time"

	"redlockd/redlock/quorum"
)

// Reserving. A LOCK of several resources asks for all of them at once, and holds nothing between two
// attempts. If other LOCKs contend for each of the resources, the moment in which all are free may
// never come. So after reserveAfter attempts that were denied by another resource than the one whose
// queue it stood in, the waiter takes the resources one after the other, and keeps what it has. Such a
// resource is reserved.
//
//   - On the masters a reservation is a lock under a token that is made here and that no caller learns.
//     It makes others wait, and grants nothing. When all resources are reserved, an attempt like any
//     other is made for all, with a token, a TTL and a fence of its own, in which a key that holds the
//     reservation's token counts as free. What makes a lock safe is in that attempt alone.
//   - All clients reserve in the order of the resources' names, so LOCKs of several resources do not
//     wait for each other in a circle. The same is true of callers that take single locks in that order
//     and keep them.
//   - A caller that keeps another order can wait for a reserved resource while it holds the next one.
//     So the waiter waits for the next resource no longer than its patience: then it gives all back and
//     waits in a queue as before. The patience starts at reservePatience and doubles with each
//     reservation of the waiter, up to max_ttl.
//   - A resource that one holder keeps for long starts no reservation: the waiter stays in its queue,
//     and all attempts are denied by it.
//
// The bound: if a LOCK of any one of its n resources, from its place in the queue on, is granted within
// a time T below max_ttl, the reservation is complete after n × T, counted from when the patience is at
// least T. Each of the n steps has the guarantees of a single LOCK: its waiter moves up in the queue by
// its arrival, and other clients open a window after handover_time.
//
// A reservation is released with the wait, however that ends. The release is kept for masters that are
// away, and the reservation ends by itself within max_ttl if this process dies. max_hold has no part in
// it, because every step has a limit.

const (
	// reserveAfter is how many attempts must be denied by another resource than the one before. If the
	// resources are not contended, the first or the second attempt is granted.
	reserveAfter = 3
	// reservePatience is the first patience: how long a waiter waits for the next resource while it keeps
	// those it has.
	reservePatience = time.Second
)

// reservation is the part of a waiter that reserves.
type reservation struct {
	// token holds the reserved resources on the masters. Empty: the waiter does not reserve.
	token string
	// held is how many of waiter.keys, from the first on, are reserved.
	held int
	// patience is how long the waiter waits for the next resource before it gives all back.
	patience time.Duration
	// timer ends the patience; nil while nothing is reserved.
	timer *time.Timer
}

func (r *reservation) endPatience() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// startReservingLocked begins a reservation. Its patience is not limited until the first resource is
// reserved, because it keeps nobody out.
func (ws *waiting) startReservingLocked(op *Op, d *deferred) {
	w := op.waiter
	w.moves = 0
	w.reservation.patience = min(max(2*w.reservation.patience, reservePatience), ws.fleet.view.Load().ceiling)
	// A token for each reservation: the release of an earlier one cannot hit it.
	w.reservation.token = ws.tokens.make(d.now)
}

// limitReservingLocked has the reservation end after its patience, counted from now.
func (ws *waiting) limitReservingLocked(op *Op) {
	w := op.waiter
	w.reservation.endPatience()
	var timer *time.Timer
	timer = time.AfterFunc(w.reservation.patience, func() {
		d := ws.client.enter()
		defer ws.client.leave(d)
		if w.reservation.timer == timer { //mutant:reserves-for-ever
			ws.releaseReservationLocked(op, d)
		}
	})
	w.reservation.timer = timer
}

// reserveLocked asks for the next resource, together with those that are reserved: each step refreshes
// their TTL, and the quorum of the last step has all of them.
func (ws *waiting) reserveLocked(op *Op, d *deferred) {
	w := op.waiter
	ttl := min(2*w.reservation.patience, ws.fleet.view.Load().ceiling)
	r := &round{verb: verbReserve, token: w.reservation.token, ttlMs: ttl.Milliseconds(), start: time.Now(), op: op}
	r.setKeys(w.keys[:w.reservation.held+1]...)
	ws.client.askLocked(r, d)
}

// reservationDecided goes on after a step: to the next resource, to the attempt for all, or, if the
// step was denied, as after any denial.
func (c *Client) reservationDecided(r *round, o quorum.Outcome, v quorum.Votes, d *deferred) {
	c.mu.Lock()
	defer c.mu.Unlock()
	op, w := r.op, r.op.waiter
	r.op = nil
	c.stats.Rounds.add(d.now.Sub(r.start))
	current := w.reservation.token == r.token
	if w.answered { // leaveQueueLocked has launched the release behind this step
		return
	}
	if current && o == quorum.Yes {
		w.reservation.held, w.lastErr = w.reservation.held+1, nil
		c.waiting.limitReservingLocked(op)
	} else if current {
		c.rounds.drop(r.keys[w.reservation.held:], r.token, v.MayHold(r.view.Places), false, d) //mutant:a-denied-step-leaves-its-resource //mutant:a-denied-step-gives-all-back
	}
	switch {
	case w.last || w.reservation.held == len(w.keys): // of a reservation that has ended, nothing is held
		w.attempt = nil
		c.launchAttemptLocked(op, d)
	case current && o == quorum.Yes:
		w.attempt = nil
		c.waiting.moveToQueueLocked(op, w.keys[w.reservation.held], d)
		if w.isHead() {
			c.waiting.attemptLocked(op, d)
		}
	case o == quorum.NoQuorum:
		c.waiting.deniedLocked(op, r.noQuorumError(v, r.view.Quorum(), 0), d)
	default: // denied, or the patience has ended meanwhile
		c.waiting.deniedLocked(op, nil, d)
	}
}

// releaseReservationLocked ends the reservation of a waiter, and hands what was reserved over to the
// waiters for it. It releases all of the LOCK's resources, also those that are not reserved yet: a step
// may be in flight.
func (ws *waiting) releaseReservationLocked(op *Op, d *deferred) {
	w := op.waiter
	token, held := w.reservation.token, w.reservation.held
	w.reservation.token, w.reservation.held = "", 0
	w.reservation.endPatience()
	ws.rounds.drop(w.keys, token, quorum.All, false, d)
	for _, resource := range w.keys[:held] {
		if e := ws.leases.entries[resource]; e != nil && e.lease == nil && !ws.client.draining {
			ws.handOverLocked(resource, d)
		}
	}
}
