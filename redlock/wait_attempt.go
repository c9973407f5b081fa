package redlock

import (
	"math/rand/v2"
	"time"
)

// attemptLocked has the head of a queue ask the masters: for its next reservation, or for all that it wants. Without a quorum of masters
// that can vote it waits for one.
func (c *Client) attemptLocked(op *Op, d *deferred) {
	w := op.waiter
	switch {
	case w.lastErr != nil && c.waitForQuorumLocked(op):
	case w.reservation.token != "" && w.reservation.held < len(w.keys):
		c.reserveLocked(op, d)
	default:
		c.askLocked(op, d)
	}
}

// sentLocked records the attempt that is in flight from now on.
func (w *waiter) sentLocked(r *round) {
	w.attempt, w.sentAt = r, r.start
	w.entry.queue.fairness.invalidatedBy, w.entry.queue.fairness.windowAnnouncedBy = 0, 0
}

// newHeadLocked starts the attempts of a waiter that has become the head of its queue: now, or, where we know that the resource
// is held, after a pause.
func (c *Client) newHeadLocked(op *Op, d *deferred) {
	w := op.waiter
	if c.draining || w.attempt != nil || w.retry != nil || !w.isHead() {
		return
	}
	if lease := w.entry.lease; lease != nil && d.now.Before(lease.validUntil) {
		w.lastErr = nil
		w.entry.queue.denied = true
		c.pauseLocked(op, c.freeIn(op, d.now))
		return
	}
	c.attemptLocked(op, d)
}

// freeIn is when, to our own knowledge, no lease of this client stands in the way of op any more; 0 when that is not known.
func (c *Client) freeIn(op *Op, now time.Time) time.Duration {
	lease := op.waiter.entry.lease
	if lease == nil || lease.token == op.token {
		return 0
	}
	return max(0, lease.validUntil.Add(driftOf(lease.ttl, c.drift)).Sub(now))
}

// pauseLocked has op ask again after a random delay, or earlier, when the holder's TTL has run out ("Retry on failure").
// A free of 0 means that nothing is known of that end.
func (c *Client) pauseLocked(op *Op, free time.Duration) {
	c.pauseForLocked(op, c.retryDelay(free))
}

// retryDelay is random, and ends with free where that is known.
func (c *Client) retryDelay(free time.Duration) time.Duration {
	delay := c.opts.RetryDelayMin + rand.N(c.opts.RetryDelayMax-c.opts.RetryDelayMin+1)
	if free > 0 {
		delay = min(delay, free+time.Millisecond)
	}
	return delay
}

// pauseForLocked has op ask again after the delay.
func (c *Client) pauseForLocked(op *Op, delay time.Duration) {
	w := op.waiter
	w.endPause()
	var timer *time.Timer
	timer = time.AfterFunc(delay, func() {
		d := deferred{now: time.Now()}
		defer c.runDeferred(&d)
		c.mu.Lock()
		defer c.mu.Unlock()
		if w.retry != timer || w.answered || w.attempt != nil {
			return
		}
		w.retry = nil
		if !w.isHead() { // an older one has moved before it
			return
		}
		w.entry.queue.fairness.handovers = 0
		c.attemptLocked(op, &d)
	})
	w.retry = timer
}

func (w *waiter) endPause() {
	if w.retry != nil {
		w.retry.Stop()
		w.retry = nil
	}
}

// deniedLocked decides how a waiter goes on after an attempt that failed: err is nil when a resource is held by another.
func (c *Client) deniedLocked(op *Op, err error, d *deferred) {
	w := op.waiter
	r := w.attempt
	reserving := r.verb == verbReserve
	if !reserving {
		c.releaseReservationLocked(op, d)
	}
	w.attempt, w.lastErr, op.stale = nil, err, 0 //mutant:the-first-attempt-decides
	from := w.entry
	if !w.last && err == nil && !reserving && len(w.keys) > 1 {
		c.moveToDenierLocked(op, r, d)
	}
	queue := &w.entry.queue
	if reserving || w.reservation.token == "" { // otherwise nothing is known of its first resource yet
		queue.denied = err == nil
	}
	if err == nil && w.entry == from {
		queue.fairness.windowUsed()
	}
	switch {
	case w.last:
		w.answered = true
		c.leaveQueueLocked(op, d)
		c.answerDenied(op, err, d)
	case !w.isHead(): // an older one stands before it
		w.again = false
	case w.again:
		w.again = false
		c.attemptLocked(op, d)
	case err != nil:
		if !c.waitForQuorumLocked(op) {
			c.pauseLocked(op, 0)
		}
	default:
		c.observeLocked(op, d)
	}
}

// moveToDenierLocked moves op to the queue of the resource that has kept it from all, by what most of the masters have said.
func (c *Client) moveToDenierLocked(op *Op, r *round, d *deferred) {
	w := op.waiter
	voted := votes(r.votes.Load()).where(len(c.lanes), 1<<voteDenied)
	named := make([]int, len(r.keys))
	most := -1
	for i := range c.lanes {
		if !voted.has(i) {
			continue
		}
		key := int(r.answers[i].denier)
		named[key]++
		if most < 0 || named[key] > named[most] || named[key] == named[most] && key < most {
			most = key
		}
	}
	if most < 0 || r.keys[most] == w.entry.resource { //mutant:waits-in-one-queue-for-ever
		return
	}
	if w.moves++; w.moves < reserveAfter { //mutant:never-reserves
		c.moveToQueueLocked(op, r.keys[most], d)
		return
	}
	c.startReservingLocked(op, d)
	c.moveToQueueLocked(op, w.keys[0], d)
	w.again = true
}

// observeLocked asks the masters for how long the holder's keys still live, to try again when they end, and has them announce it when
// the resource changes before that: also of a lease of this client, which may be released through another.
func (c *Client) observeLocked(op *Op, d *deferred) {
	n := len(c.lanes)
	r := &round{verb: verbObserve, start: d.now, op: op, answers: make([]answer, n)}
	r.setKeys(op.waiter.entry.resource)
	op.waiter.endPause()
	op.waiter.attempt = r
	c.launchLocked(r, allMasters(n), d)
}

func (c *Client) observationDecided(r *round, _ outcome, _ votes, d *deferred) {
	op := r.op
	c.mu.Lock()
	defer c.mu.Unlock()
	w := op.waiter
	w.attempt = nil
	switch {
	case w.answered:
	case w.last:
		w.answered = true
		c.leaveQueueLocked(op, d)
		c.answerDenied(op, w.lastErr, d)
	case !w.isHead(): // an older one has moved before it
		w.again = false
	case w.again:
		w.again = false
		c.attemptLocked(op, d)
	default:
		c.pauseForLocked(op, c.pauseAfter(w, r.answers))
	}
}

const (
	// splitDelay is the longest first pause of a head that found the resource free and got no quorum: others tried at the same time.
	// It doubles with every such attempt in a row.
	splitDelay = time.Millisecond
	// armedPatience is how much longer the pause is when a quorum of masters will announce a release.
	armedPatience = 100
)

// pauseAfter is for how long a head whose attempt was denied leaves the masters alone, by what they have answered since.
func (c *Client) pauseAfter(w *waiter, answers []answer) time.Duration {
	absent, armed := 0, 0
	for _, a := range answers {
		if a.err == nil && a.known && !a.found {
			absent++
		}
		if a.armed {
			armed++
		}
	}
	quorum := quorumOf(len(answers))
	if queue := &w.entry.queue; queue.fairness.windowOpen {
		if absent >= quorum {
			return c.windowLength()
		}
		queue.fairness.windowUsed()
	}
	if absent >= quorum {
		w.splits++
		return rand.N(min(splitDelay<<min(w.splits-1, 10), c.opts.RetryDelayMax) + 1)
	}
	w.splits = 0
	free := freeByQuorum(answers)
	if armed < quorum {
		return c.retryDelay(free)
	}
	delay := armedPatience * c.retryDelay(0)
	if free > 0 {
		delay = min(delay, free+time.Millisecond)
	}
	return delay
}

// freeByQuorum is when a quorum of masters will be free of the key, if nobody releases or prolongs it; 0 when they cannot
// tell (a key without TTL, too few answers) or are free already.
func freeByQuorum(answers []answer) time.Duration {
	remaining := make([]time.Duration, 0, len(answers))
	for _, a := range answers {
		if a.err != nil || (a.found && a.ttl < 0) {
			continue
		}
		remaining = append(remaining, a.ttl)
	}
	quorum := quorumOf(len(answers))
	if len(remaining) < quorum {
		return 0
	}
	return nth(remaining, quorum-1)
}
