package redlock

import (
	"slices"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/quorum"
)

// Waiting. A LOCK that waits for a resource stands in the queue of that resource, first come first
// served. Only the head of a queue asks the masters. So each client has one contender per resource:
// many waiters cost no more than one, and do not split the votes among them ("Retry on failure": the
// fewer try at the same time, the fewer "split brain condition"s).
//
// A LOCK of several resources stands in one queue at a time: that of a resource which has denied it. It
// is no waiter of its other resources, keeps nobody from them, and holds nothing while it waits. Its
// rules:
//   - It joins the first queue, in the order of names, in which somebody waits. If nobody does, it asks
//     at once.
//   - As the head of its queue it asks for all its resources. Each master that denies them names the
//     resource that is in the way. The waiter moves to the queue of the resource that most of these
//     masters have named.
//   - In every queue it stands by its arrival: behind the LOCKs that came to this client before it,
//     before those that came later. So it comes to the head of any queue.
//   - If its resources become free one at a time and never together, it reserves them one after the
//     other (wait_reserve.go). Only then does a waiter hold anything.

// waiting is the LOCKs that wait. Client.mu guards it, and its queues, which stand in the entries of
// leases. It says when a waiter asks the masters; of the client it uses what asks (launchAttemptLocked,
// askLocked), what releases, and what answers.
type waiting struct {
	client *Client
	opts   *Options
	own    *clock.Own
	fleet  *fleet
	bounds *bounds
	tokens *tokenSource
	leases *leases
	rounds *rounds

	count    int    // LOCKs that wait
	arrivals uint64 // LOCKs that have waited
	// quorumAwaited tells that some head of a queue waits for a quorum, see wait_quorum.go.
	quorumAwaited bool
}

func newWaiting(c *Client) waiting {
	return waiting{client: c, opts: &c.opts, own: &c.own, fleet: &c.fleet, bounds: &c.bounds, tokens: c.tokens, leases: &c.leases, rounds: &c.rounds}
}

// waiter is the part of an Op that waits. Client.mu guards it.
type waiter struct {
	op *Op
	// entry is the resource in whose queue it stands, between prev and next.
	entry      *entry
	prev, next *waiter
	// keys are the resources of a LOCK of several, sorted by name; nil for one resource.
	keys []string
	// arrival numbers the LOCKs that have waited, in the order in which they came to this client.
	arrival uint64
	// moves counts attempts that another resource denied than the one whose queue it stood in, since it
	// reserved last.
	moves       int
	reservation reservation
	// attempt is the round in flight for it: an acquisition, a step of the reservation, or a probe; nil
	// between them.
	attempt *round
	// sentAt is when the last acquisition or step was launched.
	sentAt time.Time
	// answered: the caller has its result. What a round in flight still acquires is undone.
	answered bool
	// last: the wait has run out while a round is in flight. An acquisition still decides.
	last bool
	// aboveCeiling: its next attempt waits for a higher ceiling (op_again.go).
	aboveCeiling bool
	// again: the resource may have become free while a round was in flight. Ask again at once.
	again bool
	// lastErr is the outcome of the last attempt: nil for "held by another".
	lastErr error
	// behindReaders: by the last observation, readers are there, or the intent of a writer, which keeps
	// out readers, and SET NX.
	behindReaders bool
	// tracked is of the resource in whose queue it stands.
	tracked [1]tracked
	// splits counts attempts in a row that found the resource free and got no quorum.
	splits int
	// deadline ends the wait.
	deadline *time.Timer
	// retry ends the pause before the next attempt; nil while it does not pause, so while attempt is set.
	retry *time.Timer
}

// waitQueue is the waiters for one resource, in order of arrival.
type waitQueue struct {
	head, tail *waiter
	length     int
	writers    int32 // among them
	// denied: the last attempt of a head was denied, so the resource is held by another.
	denied bool
	// announced: writers here have told the masters that they wait for readers (op_shared.go).
	announced bool
	fairness  fairness
}

// insertByArrival searches the waiter's position from both ends: new waiters belong at the end, and
// those that move have mostly waited for long.
func (q *waitQueue) insertByArrival(w *waiter) {
	before, after := q.tail, q.head //mutant:who-moves-goes-to-the-end
	for before != nil {
		if before.arrival < w.arrival {
			after = before.next
			break
		}
		if after.arrival > w.arrival {
			before = after.prev
			break
		}
		before, after = before.prev, after.next
	}
	w.prev, w.next = before, after //mutant:last-come-first-served
	if before == nil {
		q.head = w
	} else {
		before.next = w
	}
	if after == nil {
		q.tail = w
	} else {
		after.prev = w
	}
	q.length++
	q.writers += w.op.writers
}

func (q *waitQueue) remove(w *waiter) {
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	q.length--
	q.writers -= w.op.writers
	if q.head == nil {
		q.denied = false
		// What is known of turns stays: who has the resource here often asks for it again at once.
		f := &q.fairness
		f.futileWakeups, f.windowOpen, f.windowAnnouncedBy = 0, false, 0 //mutant:hand-overs-are-forgotten-when-nobody-waits //mutant:who-waits-is-forgotten-when-nobody-waits
	}
}

func (w *waiter) isHead() bool { return w.entry.queue.head == w }

// joinQueueLocked begins the wait of a LOCK: op stands at the end of a queue, and asks at once if it is
// the head.
func (ws *waiting) joinQueueLocked(op *Op, wait time.Duration, d *deferred) {
	if ws.count >= ws.bounds.limits.Load().maxWaiters {
		d.deliver(op, Result{Err: ErrTooManyWaiters})
		return
	}
	err := ws.client.admission.shareOf(op).waitable()
	if err == nil && op.Terms != nil {
		err = op.Terms.waitable()
	}
	if err != nil {
		d.deliver(op, Result{Err: err})
		return
	}
	ws.countWaiter(op, 1)
	ws.arrivals++
	w := &waiter{op: op, arrival: ws.arrivals, tracked: [1]tracked{{awaited: quorum.All}}}
	op.waiter = w
	resource := op.keys[0]
	if len(op.keys) > 1 {
		w.keys = slices.Sorted(slices.Values(op.keys)) //mutant:reserves-in-the-callers-order
		resource = ws.leases.waitedFor(w.keys)
	}
	w.entry = ws.leases.entry(resource)
	w.entry.queue.insertByArrival(w)
	w.deadline = time.AfterFunc(wait, func() { ws.waitTimedOut(op) })
	switch {
	case w.isHead() || op.kind.asks(&w.entry.queue):
		ws.client.launchAttemptLocked(op, d)
	case op.lookFirst(): //mutant:a-repetition-waits-behind-others
		ws.client.launchAttemptLocked(op, d)
	}
}

// leaveQueueLocked ends a wait: it takes op out of its queue, releases what it has reserved, and starts
// the next head. The caller answers.
func (ws *waiting) leaveQueueLocked(op *Op, d *deferred) {
	w := op.waiter
	w.answered = true
	ws.countWaiter(op, -1)
	w.deadline.Stop()
	if w.retry != nil {
		w.endPause()
	}
	e := w.entry
	e.queue.remove(w)
	if w.reservation.token != "" { //mutant:a-reservation-outlives-the-wait
		ws.releaseReservationLocked(op, d)
	}
	ws.leftQueueLocked(e, d)
}

// moveToQueueLocked puts op into the queue of another one of its resources, where its arrival belongs.
func (ws *waiting) moveToQueueLocked(op *Op, resource string, d *deferred) {
	w := op.waiter
	from := w.entry
	if from.resource == resource {
		return
	}
	w.endPause()
	w.again, w.behindReaders = false, false // they were about the other resource
	w.trackAnew()
	from.queue.remove(w)
	w.entry = ws.leases.entry(resource)
	w.entry.queue.insertByArrival(w)
	if behind := w.next; behind != nil { //mutant:a-head-pauses-on-when-it-is-the-head-again
		behind.endPause() // if it was the head: it asks as soon as it is that again
	}
	ws.leftQueueLocked(from, d)
}

// leftQueueLocked is for a queue that a waiter has left: it takes back what was announced, starts the
// new head, and forgets a resource that nobody wants or holds any more.
func (ws *waiting) leftQueueLocked(e *entry, d *deferred) {
	if e.queue.announced {
		ws.withdrawLocked(e, d)
	}
	if next := e.queue.head; next != nil && !ws.client.draining {
		next.op.kind.newHead(ws.client, next, d)
	}
	ws.leases.tidy(e)
}

// waitTimedOut ends a wait whose time has run out. An attempt in flight still decides: it takes no
// longer than one batch. A head that pauses and relied on invalidations makes one more attempt: its
// last one may be long ago. A waiter that was never the head answers what the head was answered last.
func (ws *waiting) waitTimedOut(op *Op) {
	d := ws.client.enter()
	defer ws.client.leave(d)
	w := op.waiter
	switch {
	case w.answered:
	case w.aboveCeiling: //mutant:a-wait-at-the-ceiling-does-not-end
		ws.leaveQueueLocked(op, d)
		ws.client.answerDenied(op, ws.client.ceiling.tooHigh(op.ttl+op.delay()), d)
	case w.attempt != nil:
		w.last = true
	case w.retry != nil && d.now.Sub(w.sentAt) > ws.opts.RetryDelayMax:
		w.last = true
		w.endPause()
		ws.client.launchAttemptLocked(op, d)
	default:
		err, known := ws.lastAnswerLocked(w)
		if !known {
			w.deadline.Reset(ws.opts.MasterTimeout / watchTicks)
			return
		}
		ws.leaveQueueLocked(op, d)
		ws.client.answerDenied(op, err, d)
	}
}

// lastAnswerLocked is what the masters have answered last about the resource of a waiter that asks them
// nothing itself: nil if it is held by another. known is false while the first attempt is in flight,
// whose end is not far: so long a waiter that has never asked knows of no holder.
func (ws *waiting) lastAnswerLocked(w *waiter) (err error, known bool) {
	q := &w.entry.queue
	switch head := q.head; {
	case head.lastErr != nil:
		return head.lastErr, true
	case q.denied || !w.sentAt.IsZero() && w.lastErr == nil && w.attempt == nil: //mutant:a-head-without-an-answer-is-a-denial
		return nil, true
	case head.attempt != nil:
		r := head.attempt
		return r.noQuorumError(quorum.Votes(r.votes.Load()), r.view.Quorum(), 0), false
	}
	v := ws.fleet.view.Load()
	return v.noQuorumError(time.Now(), v.Gaps, v.Quorum(), 0), true
}

// Unblock ends the wait of a LOCK. If op waits, its Done is called with err, and Unblock returns true;
// with err nil, the answer is that of a wait that has run out. What an attempt in
// flight still acquires is undone. An op that does not wait is left alone.
func (c *Client) Unblock(op *Op, err error) bool {
	d := c.enter()
	defer c.leave(d)
	return c.waiting.unblockLocked(op, err, d)
}

func (ws *waiting) unblockLocked(op *Op, err error, d *deferred) bool {
	w := op.waiter
	switch {
	case op.cancelQueued():
	case w == nil || w.answered:
		return false
	default:
		if err == nil {
			err, _ = ws.lastAnswerLocked(w)
		}
		ws.leaveQueueLocked(op, d)
	}
	if err == nil {
		ws.client.stats.Denied++
	}
	d.deliver(op, Result{Err: err})
	return true
}
