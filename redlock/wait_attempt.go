package redlock

import (
	"math/rand/v2"
	"time"

	"redlockd/redlock/quorum"
)

// What the head of a queue does. It alternates between an attempt, an observation, and a pause:
//
//	attempt      all its resources (op_lock.go), or the next one of its reservation (wait_reserve.go)
//	observation  after a denial: reads the key and its TTL, and has the masters send an invalidation when it changes
//	pause        until the holder's TTL ends, or a random delay ("Retry on failure"); long if masters will announce the end (wait_tracked.go)
//
// A hand-over, invalidations or another client's window end the pause early. If one of them comes while
// an observation is in flight, the next attempt follows at once (waiter.again); so it does if a
// hand-over or a window comes while an attempt is. Without a quorum, the head waits for one
// (wait_quorum.go).

// attemptLocked ends the pause of a waiter, usually the head of a queue, and has it ask the masters, or
// wait for a quorum of them.
func (ws *waiting) attemptLocked(op *Op, d *deferred) {
	w := op.waiter
	w.endPause()
	switch {
	case w.lastErr != nil && ws.waitForQuorumLocked(op):
	case w.reservation.token != "" && w.reservation.held < len(w.keys):
		ws.reserveLocked(op, d)
	default:
		ws.client.launchAttemptLocked(op, d)
	}
}

// raisedLocked goes on with a LOCK whose ceiling was raised. One that only looks for the slot that it may
// hold need not be the head.
func (ws *waiting) raisedLocked(op *Op, d *deferred) {
	switch w := op.waiter; {
	case w == nil:
		ws.client.launchAttemptLocked(op, d)
	case !w.answered && w.attempt == nil && (w.isHead() || op.lookFirst()):
		ws.attemptLocked(op, d)
	}
}

// retryDelay is random, so that several clients do not split the votes again and again. free is how
// long the holder's keys still live, if that is known, else 0: the delay ends by then.
func (o *Options) retryDelay(free time.Duration) time.Duration {
	delay := o.RetryDelayMin + rand.N(o.RetryDelayMax-o.RetryDelayMin+1)
	if free > 0 {
		delay = min(delay, free+time.Millisecond)
	}
	return delay
}

// pauseLocked has op make its next attempt after the delay.
func (ws *waiting) pauseLocked(op *Op, delay time.Duration) {
	w := op.waiter
	w.endPause()
	var timer *time.Timer
	timer = time.AfterFunc(delay, func() {
		d := ws.client.enter()
		defer ws.client.leave(d)
		if w.retry == timer { // else the pause was ended
			ws.attemptLocked(op, d)
		}
	})
	w.retry = timer
}

func (w *waiter) endPause() {
	if w.retry != nil {
		w.retry.Stop()
		w.retry = nil
	}
}

// deniedLocked decides how a waiter goes on after an attempt that failed. err is nil if a resource is
// held by another.
func (ws *waiting) deniedLocked(op *Op, err error, d *deferred) {
	w := op.waiter
	r := w.attempt
	reserving := r.verb == verbReserve
	if !reserving && w.reservation.token != "" {
		ws.releaseReservationLocked(op, d)
	}
	w.attempt, w.lastErr, op.stale = nil, err, 0 //mutant:the-first-attempt-decides
	from := w.entry
	if !w.last && err == nil && !reserving && w.keys != nil {
		ws.moveToDenierLocked(op, r, d)
	}
	queue := &w.entry.queue
	// If it has just begun to reserve, it stands in the queue of its first resource, of which the attempt
	// says nothing.
	if reserving || w.reservation.token == "" {
		queue.denied = err == nil
		if queue.denied && w.entry == from {
			ws.outrunLocked(w, d)
		}
	}
	switch {
	case ws.goOnLocked(op, d):
	case err == nil:
		ws.observeLocked(op, d)
	case !ws.waitForQuorumLocked(op):
		ws.pauseLocked(op, ws.opts.retryDelay(0))
	}
}

// goOnLocked does what is due when nothing is in flight for a waiter any more, and returns false if
// that is nothing: end its wait, leave the attempts to the new head of its queue, or attempt again at
// once.
func (ws *waiting) goOnLocked(op *Op, d *deferred) bool {
	w := op.waiter
	switch {
	case w.last:
		ws.leaveQueueLocked(op, d)
		ws.client.answerDenied(op, w.lastErr, d)
	case !w.isHead(): // an older waiter has moved before it
		w.again = false
	case w.again:
		w.again = false
		ws.attemptLocked(op, d)
	default:
		return false
	}
	return true
}

// observeLocked asks the masters how long the holder's keys still live, to try again when they end, and
// has them send an invalidation when the key changes before that. A lease of this client is observed
// too, because it may be released through another.
func (ws *waiting) observeLocked(op *Op, d *deferred) {
	r := &round{verb: verbObserve, start: d.now, op: op}
	op.kind.observation(op.waiter, r)
	op.waiter.trackAnew()
	op.waiter.endPause()
	op.waiter.attempt = r
	ws.rounds.launch(r, quorum.All, d)
}

// observationDecided has the waiter pause as long as the answers tell, if nothing has happened
// meanwhile.
func (c *Client) observationDecided(r *round, _ quorum.Outcome, _ quorum.Votes, d *deferred) {
	c.mu.Lock()
	defer c.mu.Unlock()
	op, w := r.op, r.op.waiter
	if w.attempt != r { // a slot was handed over meanwhile
		return
	}
	w.attempt = nil
	w.meetsReaders(r.answers)
	if w.answered || c.waiting.goOnLocked(op, d) {
		return
	}
	op.kind.observed(c, w, r, d)
}

const (
	// splitDelay bounds the first pause of a head that was denied although the resource is free: other
	// clients tried at the same time and split the votes. The bound doubles with every such attempt in a
	// row, up to RetryDelayMax.
	splitDelay = time.Millisecond
	// invalidationPatience is by how much the pause is longer if masters must announce a change before the
	// key can be free.
	invalidationPatience = 150
)

// pauseAfter is how long a head whose attempt was denied pauses, by what the masters have answered to
// its observation: absent tells whether the resource is free on a quorum of them, and else free is how
// long it takes until it is; 0: that is not known.
func (ws *waiting) pauseAfter(w *waiter, v *view, absent bool, free time.Duration) time.Duration {
	if queue := &w.entry.queue; queue.fairness.windowOpen {
		if absent {
			return ws.windowLength() + queue.fairness.yields(time.Now())
		}
		queue.fairness.closeWindow()
	}
	if absent {
		w.splits++
		return rand.N(min(splitDelay<<min(w.splits-1, 10), ws.opts.RetryDelayMax) + 1)
	}
	w.splits = 0
	patience := time.Duration(invalidationPatience)
	keys := w.trackedKeys()
	for i := range keys {
		switch k := &keys[i]; {
		case k.mayBeFree(&v.Electorate):
			k.begin()
			w.suggestSlot(i)
			return ws.wakeDelay(w)
		case !k.bound(&v.Electorate):
			patience = 1
		}
	}
	delay := patience * ws.opts.retryDelay(0)
	if free > 0 {
		delay = min(delay, free+time.Millisecond)
	}
	return delay
}

// observe takes in what the masters have answered about the key.
func (k *tracked) observe(answers []answer) {
	k.awaited = 0 //mutant:what-is-announced-before-the-reply-is-lost
	for i := range answers {
		switch a := &answers[i]; {
		case !a.known || a.err != nil:
		case !a.found:
			k.absent = k.absent.With(i) //mutant:an-attempt-elsewhere-is-a-release //mutant:a-master-that-cannot-announce-it-is-awaited
		case a.armed: //mutant:a-master-that-promises-nothing-is-awaited
			k.awaited = k.awaited.With(i)
		}
	}
}

// absentOn is how many masters have said that the key is absent.
func absentOn(answers []answer) (n int) {
	for _, a := range answers {
		if a.err == nil && a.known && !a.found {
			n++
		}
	}
	return n
}

// freeByQuorum is how long it takes at least until a quorum of masters is free of the key, if nobody
// releases or extends the lock: one that has not answered may be free of it. 0: it is free already, or
// not known (keys without TTL, too few answers).
func freeByQuorum(answers []answer, quorum int) time.Duration {
	remaining := make([]time.Duration, 0, len(answers))
	for _, a := range answers {
		switch {
		case a.err != nil || !a.found:
			remaining = append(remaining, 0) //mutant:a-silent-master-holds-the-key
		case a.ttl >= 0:
			remaining = append(remaining, a.ttl)
		}
	}
	if len(remaining) < quorum {
		return 0
	}
	return nth(remaining, quorum-1)
}
