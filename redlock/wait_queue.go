package redlock

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Waiting. A LOCK that waits for a resource stands in the queue of that resource, first come first served. Only the head of a queue asks
// the masters. So each client has one contender per resource: many waiters cost no more than one, and do not split the votes among
// them ("Retry on failure": the fewer try at the same time, the fewer "split brain condition"s).
//
// A LOCK of several resources stands in one queue at a time: that of a resource which has denied it. It is no waiter of its other
// resources, keeps nobody from them, and holds nothing while it waits. Its rules:
//   - It joins the first queue, in the order of names, in which somebody waits. If nobody does, it asks at once.
//   - As the head of its queue it asks for all its resources. Each master that denies them names the resource that is in the way.
//     The waiter moves to the queue of the resource that most of these masters have named.
//   - In every queue it stands by its arrival: behind the LOCKs that came to this client before it, before those that came later. So it
//     comes to the head of any queue.
//   - If its resources become free one at a time and never together, it reserves them one after the other (wait_reserve.go). Only then
//     does a waiter hold anything.

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
	// moves counts attempts that another resource denied than the one whose queue it stood in, since it reserved last.
	moves       int
	reservation reservation
	// attempt is the round in flight for it: an acquisition, a step of the reservation, or a probe; nil between them.
	attempt *round
	// sentAt is when the last acquisition or step was launched.
	sentAt time.Time
	// answered: the caller has its result. What a round in flight still acquires is undone.
	answered bool
	// last: the wait has run out while a round is in flight. An acquisition still decides.
	last bool
	// again: the resource may have become free while a round was in flight. Ask again at once.
	again bool
	// lastErr is the outcome of the last attempt: nil for "held by another".
	lastErr error
	// splits counts attempts in a row that found the resource free and got no quorum.
	splits int
	// deadline ends the wait.
	deadline *time.Timer
	// retry ends the pause before the next attempt; nil while it does not pause.
	retry *time.Timer
}

// fairness keeps what a queue knows of other clients' interest in its resource. Waiters of one client hand the resource to each other, so
// from time to time they leave it to the others: a hand-over window (handOverLocked).
type fairness struct {
	// handovers counts the hand-overs here in a row, since the resource was last left to others or denied.
	handovers int
	// unusedWindows counts the windows in a row in which no other client took the resource.
	unusedWindows int
	// windowOpen: the resource is left to others, and nothing tells yet whether they took it.
	windowOpen bool
	// windowAnnouncedBy are the masters that have passed on another client's window since the head's last attempt.
	windowAnnouncedBy mask
	// invalidatedBy are the masters that have sent an invalidation since the head's last attempt.
	invalidatedBy mask
	// futileWakeups counts the wake-ups by invalidations in a row after which the head was denied.
	futileWakeups int
}

// waitQueue is the waiters for one resource, in order of arrival.
type waitQueue struct {
	head, tail *waiter
	length     int
	// denied: the last attempt of a head was denied, so the resource is held by another.
	denied   bool
	fairness fairness
}

// insertByArrival searches the waiter's position from both ends: new waiters belong at the end, and those that move have mostly waited
// for long.
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
	if q.head == nil {
		q.denied, q.fairness = false, fairness{unusedWindows: q.fairness.unusedWindows}
	}
}

func (w *waiter) isHead() bool { return w.entry.queue.head == w }

// joinQueueLocked puts op at the end of a queue, and asks at once if it is the head.
func (c *Client) joinQueueLocked(op *Op, wait time.Duration, d *deferred) {
	if c.waiting >= c.opts.MaxWaiters {
		d.deliver(op, Result{Err: ErrTooManyWaiters})
		return
	}
	share := c.shareOf(op)
	if err := share.waitable(); err != nil {
		d.deliver(op, Result{Err: err})
		return
	}
	c.waiting++
	share.waiters++
	c.arrivals++
	w := &waiter{op: op, arrival: c.arrivals}
	op.waiter = w
	resource := op.keys[0]
	if len(op.keys) > 1 {
		w.keys = slices.Sorted(slices.Values(op.keys)) //mutant:reserves-in-the-callers-order
		resource = c.leases.waitedFor(w.keys)
	}
	w.entry = c.leases.entry(resource)
	w.entry.queue.insertByArrival(w)
	w.deadline = time.AfterFunc(wait, func() { c.waitTimedOut(op) })
	if w.isHead() {
		c.attemptLocked(op, d)
	}
}

// waitedFor is the first of the resources that somebody waits for, or the first.
func (s *leases) waitedFor(resources []string) string {
	for _, resource := range resources {
		if e := s.entries[resource]; e != nil && e.queue.head != nil {
			return resource
		}
	}
	return resources[0]
}

// leaveQueueLocked takes op out of its queue, and gives back what it has reserved. Whoever becomes the head is up next.
func (c *Client) leaveQueueLocked(op *Op, d *deferred) {
	w := op.waiter
	c.waiting--
	c.shareOf(op).waiters--
	w.deadline.Stop()
	w.endPause()
	e := w.entry
	e.queue.remove(w)
	c.releaseReservationLocked(op, d)
	c.leftQueueLocked(e, d)
}

// moveToQueueLocked puts op into the queue of another one of its resources.
func (c *Client) moveToQueueLocked(op *Op, resource string, d *deferred) {
	w := op.waiter
	from := w.entry
	if from.resource == resource {
		return
	}
	w.endPause()
	w.again = false // the release that it is about was one of the other resource
	from.queue.remove(w)
	w.entry = c.leases.entry(resource)
	w.entry.queue.insertByArrival(w)
	if behind := w.next; behind != nil && w.isHead() { //mutant:a-head-pauses-on-when-it-is-the-head-again
		behind.endPause() // it asks as soon as it is the head again
	}
	c.leftQueueLocked(from, d)
}

// leftQueueLocked sees to a queue that somebody has left.
func (c *Client) leftQueueLocked(e *entry, d *deferred) {
	if next := e.queue.head; next != nil {
		c.newHeadLocked(next.op, d)
	}
	c.leases.tidy(e)
}

// attemptLocked has the head of a queue ask the masters: for its next reservation, or for all that it wants. Without a quorum of masters
// that can vote it stalls.
func (c *Client) attemptLocked(op *Op, d *deferred) {
	w := op.waiter
	switch {
	case w.lastErr != nil && c.stallLocked(op):
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
	return max(0, lease.validUntil.Add(driftOf(lease.ttl(), c.drift)).Sub(now))
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
	if !r.reserves {
		c.releaseReservationLocked(op, d)
	}
	w.attempt, w.lastErr, op.stale = nil, err, 0 //mutant:the-first-attempt-decides
	from := w.entry
	if !w.last && err == nil && !r.reserves && len(w.keys) > 1 {
		c.moveToDenierLocked(op, r, d)
	}
	queue := &w.entry.queue
	if r.reserves || w.reservation.token == "" { // otherwise nothing is known of its first resource yet
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
		if !c.stallLocked(op) {
			c.pauseLocked(op, 0)
		}
	default:
		c.probeLocked(op, d)
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

// probeLocked asks the masters for how long the holder's keys still live, to try again when they end, and has them announce it when
// the resource changes before that: also of a lease of this client, which may be released through another.
func (c *Client) probeLocked(op *Op, d *deferred) {
	n := len(c.lanes)
	r := &round{verb: verbRead, probe: true, start: d.now, op: op, answers: make([]answer, n)}
	r.setKeys(op.waiter.entry.resource)
	op.waiter.endPause()
	op.waiter.attempt = r
	c.launchLocked(r, allMasters(n), d)
}

func (c *Client) probed(r *round, d *deferred) {
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

// handoversMin is how many hand-overs in a row there are while other clients of the masters want the resource too.
const handoversMin = 32

// windowMin is how much longer than the messages take a resource is left to others: their processes may be short of CPU.
const windowMin = 5 * time.Millisecond

// windowUsed: another client has the resource, or has had it in the window.
func (f *fairness) windowUsed() { f.windowOpen, f.unusedWindows = false, 0 } //mutant:windows-stay-rare

// handoversMax is how many hand-overs in a row there may be now. It doubles with every window that no other client used.
func (f *fairness) handoversMax(most int) int {
	return min(handoversMin<<min(f.unusedWindows, 20), most)
}

// windowLength is for how long a resource is left to others: they hear of it, and then ask for it. Where masters do not announce it they
// find it by asking now and then.
func (c *Client) windowLength() time.Duration {
	farthest, announcing := time.Duration(0), 0
	for _, l := range c.lanes {
		l.mu.Lock()
		farthest = max(farthest, l.floor)
		l.mu.Unlock()
		if l.invalidationsID.Load() != 0 {
			announcing++
		}
	}
	if announcing < quorumOf(len(c.lanes)) {
		return c.retryDelay(0)
	}
	return windowMin + 3*farthest
}

// handOverLocked gives a resource that is just being released to the head of its queue: the acquisition follows the release
// in the same batch on every master. After some in a row (line.run) other clients of the masters get their turn.
func (c *Client) handOverLocked(resource string, d *deferred) {
	e := c.leases.entries[resource]
	if e == nil || e.queue.head == nil {
		return
	}
	op := e.queue.head.op
	w := op.waiter
	if w.attempt != nil {
		w.again = true
		return
	}
	if e.queue.fairness.handovers >= e.queue.fairness.handoversMax(c.opts.MaxHandovers) { //mutant:hand-overs-without-end
		e.queue.fairness.handovers, e.queue.fairness.windowOpen = 0, true
		c.tellAllLocked(windowsChannel, resource, d) // behind the release //mutant:windows-that-nobody-is-told-of
		// The probe subscribes: the masters announce it when another client takes its turn.
		c.probeLocked(op, d) //mutant:no-invalidations-in-a-window
		return
	}
	if e.queue.fairness.windowOpen { // and nobody wanted it
		e.queue.fairness.windowOpen = false
		e.queue.fairness.unusedWindows++ //mutant:windows-never-rarer
	}
	e.queue.fairness.handovers++ //mutant:hand-over-not-in-the-same-batch
	c.stats.Handovers++
	w.endPause()
	c.attemptLocked(op, d)
}

// waitTimedOut ends a wait whose time has run out. An attempt in flight still decides: it takes no longer than one batch.
func (c *Client) waitTimedOut(op *Op) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	c.mu.Lock()
	defer c.mu.Unlock()
	w := op.waiter
	switch {
	case w.answered:
	case w.attempt != nil:
		w.last = true
	case !c.draining && w.retry != nil && w.isHead() && d.now.Sub(w.sentAt) > c.opts.RetryDelayMax:
		// It relied on announcements. The last attempt is to be a recent one.
		w.last = true
		w.endPause()
		c.askLocked(op, &d)
	default:
		w.answered = true
		// Who never came to the head is told what the head was told last.
		err := w.lastErr
		if head := w.entry.queue.head.op; head != op {
			err = head.waiter.lastErr
		}
		c.leaveQueueLocked(op, &d)
		c.answerDenied(op, err, &d)
	}
}

// Unblock ends the wait of a LOCK: if op waits, its Done is called with err, and Unblock returns true; err nil answers as if
// the wait had run out. What an attempt in flight brings is undone. An op that does not wait, or not any more, is left alone.
func (c *Client) Unblock(op *Op, err error) bool {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unblockLocked(op, err, &d)
}

func (c *Client) unblockLocked(op *Op, err error, d *deferred) bool {
	w := op.waiter
	switch {
	case c.cancelQueuedLocked(op):
	case w == nil || w.answered:
		return false
	default:
		w.answered = true
		c.leaveQueueLocked(op, d)
	}
	if err == nil {
		c.stats.Denied++
	}
	d.deliver(op, Result{Err: err})
	return true
}
