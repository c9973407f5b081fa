package redlock

import "time"

// Reserving. A LOCK of several resources asks for all of them at once, and holds nothing between two attempts. Where each of them is
// rarely free, because other LOCKs contend for it, it could wait for ever for the moment in which all of them are. So after
// reserveAfter attempts that were denied by another resource than the one whose line it stood in, it takes the resources one after
// the other, and keeps what it has. Such a resource is reserved.
//
//   - On the masters a reservation is a lock under a token that is made here and that no caller learns. It makes others wait, and
//     grants nothing. When all resources are reserved, an attempt like any other is made for all, with a token, a TTL and a fence of
//     its own, in which a key that holds the reservation's token counts as free. What makes a lock safe is in that attempt alone.
//   - All clients reserve in the order of the resources' names, so LOCKs of several resources do not wait for each other in a circle.
//     The same is true of callers that take single locks in that order and keep them.
//   - Callers that keep another order can wait for a reserved resource while they hold the next one. So the waiter is patient with each
//     resource for a while only: then it gives all back and stands in queue as before. That while is reservePatience, doubles each
//     time, and is at most max_ttl.
//   - A resource that is held for long and by one holder starts no reservation: the waiter stands in its queue, and all its attempts are
//     denied by this one.
//
// So it is granted in bounded time: if a LOCK of any one of its n resources, with its place in queue, is granted within some time below
// max_ttl, the reservation is complete after n times that time, counted from when the patience is as long. Each of these n steps
// has the guarantees of a single LOCK: it moves up in its queue here by its arrival, and other clients yield after max_handovers.
//
// A reservation is released with the wait, however that ends. It is kept for masters that are away, and ends by itself within
// max_ttl if this process dies. max_hold has no part in it, since every step has a limit.

const (
	// reserveAfter is how many attempts are denied by another resource than the one before until a waiter reserves. Where the
	// resources are not contended, the first or the second attempt is granted.
	reserveAfter = 3
	// reservePatience is for how long a waiter first waits for the next resource while it keeps those it has.
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

// startReservingLocked begins a reservation, with nothing reserved yet. While that is so, it keeps nobody out and has no limit.
func (c *Client) startReservingLocked(op *Op, d *deferred) {
	w := op.waiter
	w.moves, w.reservation.held = 0, 0
	w.reservation.patience = min(max(2*w.reservation.patience, reservePatience), c.opts.MaxTTL)
	// A token for each reservation: the release of an earlier one cannot hit it.
	w.reservation.token = c.tokens.make(d.now)
}

// limitReservingLocked has the reservation end when the patience with the next resource does.
func (c *Client) limitReservingLocked(op *Op) {
	w := op.waiter
	if w.reservation.timer != nil {
		w.reservation.timer.Stop()
	}
	var timer *time.Timer
	timer = time.AfterFunc(w.reservation.patience, func() {
		d := deferred{now: time.Now()}
		defer c.runDeferred(&d)
		c.mu.Lock()
		defer c.mu.Unlock()
		if w.reservation.timer == timer { //mutant:reserves-for-ever
			c.releaseReservationLocked(op, &d)
		}
	})
	w.reservation.timer = timer
}

// expectDeniers makes room for what the masters answer to an acquisition of several resources that they deny: which one is in the way. The
// token of the reservation whose place it takes, or nothing, is kept behind that: a round has no room for it (TestSizes).
func (r *round) expectDeniers(masters int, reservation string) {
	r.answers = make([]answer, masters+1)
	r.answers[masters].value = reservation //mutant:a-reservation-is-in-its-own-way
}

// reservation is the token of the reservation whose place an acquisition takes; empty: there is none.
func (r *round) reservation() string {
	if r.answers == nil {
		return ""
	}
	return r.answers[len(r.answers)-1].value
}

// reserveLocked asks for the next resource, together with those that are reserved, so that all masters of the quorum that is found last
// have all of them. These live on with every step.
func (c *Client) reserveLocked(op *Op, d *deferred) {
	w := op.waiter
	ttl := min(2*w.reservation.patience, c.opts.MaxTTL)
	r := &round{verb: verbReserve, token: w.reservation.token, ttlMs: ttl.Milliseconds(), start: time.Now(), op: op}
	r.setKeys(w.keys[:w.reservation.held+1]...)
	w.sentLocked(r)
	c.stats.Attempts++
	c.launchLocked(r, allMasters(len(c.lanes)), d)
}

func (c *Client) reservationDecided(r *round, o outcome, v votes, d *deferred) {
	c.mu.Lock()
	defer c.mu.Unlock()
	op, w := r.op, r.op.waiter
	r.op = nil
	c.stats.Rounds.add(d.now.Sub(r.start))
	current := w.reservation.token == r.token
	if w.answered { // the release is on its way behind it
		return
	}
	if current && o == yes {
		w.reservation.held, w.lastErr = w.reservation.held+1, nil
		c.limitReservingLocked(op)
	} else if current {
		c.dropLocked(r.keys[w.reservation.held:], r.token, v.mayHold(len(c.lanes)), d) //mutant:a-denied-step-leaves-its-resource //mutant:a-denied-step-gives-all-back
	}
	switch {
	case w.last || current && w.reservation.held == len(w.keys):
		w.attempt = nil
		c.launchAttemptLocked(op, d)
	case current && o == yes:
		w.attempt = nil
		c.moveToQueueLocked(op, w.keys[w.reservation.held], d)
		if w.isHead() {
			c.attemptLocked(op, d)
		}
	case o == noQuorum:
		c.deniedLocked(op, c.noQuorumError(r.start, v, quorumOf(len(c.lanes)), 0), d)
	default: // or the patience has ended meanwhile
		c.deniedLocked(op, nil, d)
	}
}

// releaseReservationLocked ends the reservation of a waiter, if it has one, and passes on what was reserved.
func (c *Client) releaseReservationLocked(op *Op, d *deferred) {
	w := op.waiter
	if w.reservation.token == "" { //mutant:a-reservation-outlives-the-wait
		return
	}
	token, had := w.reservation.token, w.reservation.held
	w.reservation.token, w.reservation.held = "", 0
	if w.reservation.timer != nil {
		w.reservation.timer.Stop()
		w.reservation.timer = nil
	}
	// All of them: a step may be under way.
	c.dropLocked(w.keys, token, allMasters(len(c.lanes)), d)
	for _, resource := range w.keys[:had] {
		if e := c.leases.entries[resource]; e != nil && e.lease == nil && !c.draining {
			c.handOverLocked(resource, d)
		}
	}
}
