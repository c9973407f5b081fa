package redlock

import (
	"math/rand/v2"
	"time"
)

// Waiting. Whoever waits for a resource stands in its line, first come first served, and only the head of the line asks the
// masters: one contender per resource and client, so that many waiters cost no more than one and do not split the votes
// among them ("Retry on failure": the fewer try at the same time, the fewer "split brain condition"s).
//
// A LOCK of several resources stands in all their lines and asks when it is the head of each. It enters them all at
// once, under Client.mu, so of two that share resources one is before the other in every line they share: nobody waits
// in a circle.

// waiter is the part of an Op that waits. Client.mu guards it.
type waiter struct {
	places   []place
	one      [1]place  // backs places when there is one
	asking   *round    // the attempt in flight, nil between attempts
	asked    time.Time // when the last attempt was made
	gone     bool      // answered, or given up: what an attempt in flight still brings is not wanted
	last     bool      // the wait has run out while an attempt is in flight: that attempt decides
	again    bool      // a release passed while the attempt was in flight: ask again at once
	denied   error     // outcome of the last attempt: nil for "held by another"
	split    int       // attempts in a row that found the resource free and got no quorum
	deadline *time.Timer
	retry    *time.Timer
}

// place is one waiter in one line.
type place struct {
	op         *Op
	entry      *entry
	prev, next *place
}

// line is who waits for one resource, in order of arrival.
type line struct {
	first, end *place
	length     int
	handovers  int  // releases in a row that were handed over here
	unwanted   int  // turns in a row that nobody else took
	woken      int  // times in a row that announcements have woken a head which then was denied
	heard      mask // masters that have announced a change since the head asked
	offered    mask // masters that have said, since then, that it is the turn of others
	denied     bool // the last attempt of a head was denied: the resource is held by another
	yielded    bool // others have had their turn since, and nothing tells yet whether they took it
}

func (l *line) push(p *place) {
	p.prev, p.next = l.end, nil
	if l.end == nil {
		l.first = p
	} else {
		l.end.next = p
	}
	l.end = p
	l.length++
}

func (l *line) remove(p *place) {
	if p.prev == nil {
		l.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		l.end = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next = nil, nil
	l.length--
	if l.first == nil {
		l.denied, l.handovers, l.yielded, l.heard, l.offered, l.woken = false, 0, false, 0, 0, 0
	}
}

// head tells whether op is the first in every line it stands in.
func (op *Op) head() bool {
	places := op.waiter.places
	for i := range places {
		if places[i].entry.line.first != &places[i] {
			return false
		}
	}
	return true
}

// joinLocked puts op at the end of its lines, and asks at once if it is the head.
func (c *Client) joinLocked(op *Op, wait time.Duration, t *turn) {
	if c.waiting >= c.opts.MaxWaiters {
		t.tell(op, Result{Err: ErrTooManyWaiters})
		return
	}
	share := c.shareOf(op)
	if err := share.waitable(); err != nil {
		t.tell(op, Result{Err: err})
		return
	}
	c.waiting++
	share.waiters++
	w := &waiter{}
	op.waiter = w
	w.places = w.one[:]
	if len(op.keys) > 1 {
		w.places = make([]place, len(op.keys))
	}
	for i, key := range op.keys {
		e := c.leases.entry(key)
		w.places[i] = place{op: op, entry: e}
		e.line.push(&w.places[i])
	}
	w.deadline = time.AfterFunc(wait, func() { c.waitOver(op) })
	if op.head() {
		c.askLocked(op, t)
	}
}

// leaveLocked takes op out of its lines. Whoever becomes the head of all theirs is up next.
func (c *Client) leaveLocked(op *Op, t *turn) {
	w := op.waiter
	c.waiting--
	c.shareOf(op).waiters--
	w.deadline.Stop()
	w.endPause()
	for i := range w.places {
		w.places[i].entry.line.remove(&w.places[i])
	}
	for i := range w.places {
		e := w.places[i].entry
		if next := e.line.first; next != nil {
			c.upNextLocked(next.op, t)
		}
		c.leases.tidy(e)
	}
}

// upNextLocked starts the attempts of a waiter that has become the head of its lines: now, or, where we know that the resource
// is held, after a pause.
func (c *Client) upNextLocked(op *Op, t *turn) {
	w := op.waiter
	if c.draining || w.asking != nil || w.retry != nil || !op.head() {
		return
	}
	for i := range w.places {
		if lease := w.places[i].entry.lease; lease != nil && t.now.Before(lease.validUntil) {
			w.denied = nil
			w.places[i].entry.line.denied = true
			c.pauseLocked(op, c.freeIn(op, t.now))
			return
		}
	}
	c.askLocked(op, t)
}

// freeIn is when, to our own knowledge, no lease of this client stands in the way of op any more; 0 when that is not known.
func (c *Client) freeIn(op *Op, now time.Time) time.Duration {
	var longest time.Duration
	for i := range op.waiter.places {
		if lease := op.waiter.places[i].entry.lease; lease != nil && lease.token != op.token {
			end := lease.validUntil.Add(driftOf(lease.ttl(), c.drift))
			longest = max(longest, end.Sub(now))
		}
	}
	return longest
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
		t := turn{now: time.Now()}
		defer c.finish(&t)
		c.mu.Lock()
		defer c.mu.Unlock()
		if w.retry != timer || w.gone || w.asking != nil {
			return
		}
		w.retry = nil
		for i := range w.places {
			w.places[i].entry.line.handovers = 0
		}
		c.askLocked(op, &t)
	})
	w.retry = timer
}

func (w *waiter) endPause() {
	if w.retry != nil {
		w.retry.Stop()
		w.retry = nil
	}
}

// deniedLocked decides how a waiter goes on after an attempt that failed: err is nil when the resource is held by another.
func (c *Client) deniedLocked(op *Op, err error, t *turn) {
	w := op.waiter
	w.asking, w.denied, op.stale = nil, err, 0
	for i := range w.places {
		l := &w.places[i].entry.line
		if l.denied = err == nil; l.denied {
			l.taken()
		}
	}
	switch {
	case w.last:
		w.gone = true
		c.leaveLocked(op, t)
		c.answerDenied(op, err, t)
	case w.again:
		w.again = false
		c.askLocked(op, t)
	case err != nil:
		c.pauseLocked(op, 0)
	default:
		c.probeLocked(op, t)
	}
}

// probeLocked asks the masters for how long the holder's keys still live, to try again when they end, and has them announce it when
// the resource changes before that: also of a lease of this client, which may be released through another.
func (c *Client) probeLocked(op *Op, t *turn) {
	n := len(c.lanes)
	// One key stands for all: the first that is in the way will do, and a wrong guess costs one random delay.
	r := &round{verb: verbRead, probe: true, start: t.now, op: op, answers: make([]answer, n)}
	r.setKeys(op.keys[0])
	op.waiter.endPause()
	op.waiter.asking = r
	c.launchLocked(r, allMasters(n), t)
}

func (c *Client) probed(r *round, t *turn) {
	op := r.op
	c.mu.Lock()
	defer c.mu.Unlock()
	w := op.waiter
	w.asking = nil
	switch {
	case w.gone:
	case w.last:
		w.gone = true
		c.leaveLocked(op, t)
		c.answerDenied(op, w.denied, t)
	case w.again:
		w.again = false
		c.askLocked(op, t)
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
	if line := &w.places[0].entry.line; line.yielded {
		if absent >= quorum {
			return c.yieldTime()
		}
		line.taken()
	}
	if absent >= quorum {
		w.split++
		return rand.N(min(splitDelay<<min(w.split-1, 10), c.opts.RetryDelayMax) + 1)
	}
	w.split = 0
	free := freeByQuorum(answers)
	if armed < quorum || len(w.places) > 1 {
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

// yieldMin is how much longer than the messages take a resource is left to others: their processes may be short of CPU.
const yieldMin = 5 * time.Millisecond

// taken: another client has the resource, or had it just now.
func (l *line) taken() { l.yielded, l.unwanted = false, 0 }

// run is how many hand-overs in a row there may be now. They double with every turn that nobody else took.
func (l *line) run(most int) int { return min(handoversMin<<min(l.unwanted, 20), most) }

// yieldTime is for how long a resource is left to others: they hear of it, and then ask for it. Where masters do not announce it they
// find it by asking now and then.
func (c *Client) yieldTime() time.Duration {
	farthest, announcing := time.Duration(0), 0
	for _, l := range c.lanes {
		l.mu.Lock()
		farthest = max(farthest, l.floor)
		l.mu.Unlock()
		if l.earID.Load() != 0 {
			announcing++
		}
	}
	if announcing < quorumOf(len(c.lanes)) {
		return c.retryDelay(0)
	}
	return yieldMin + 3*farthest
}

// handOverLocked gives a resource that is just being released to the head of its line: the acquisition follows the release
// in the same batch on every master. After some in a row (line.run) other clients of the masters get their turn.
func (c *Client) handOverLocked(resource string, t *turn) {
	e := c.leases.entries[resource]
	if e == nil || e.line.first == nil {
		return
	}
	op := e.line.first.op
	w := op.waiter
	if w.asking != nil {
		w.again = true
		return
	}
	if !op.head() {
		return
	}
	if e.line.handovers >= e.line.run(c.opts.MaxHandovers) {
		e.line.handovers, e.line.yielded = 0, true
		c.tellAllLocked(turnsChannel, resource, t) // behind the release
		if len(w.places) > 1 {
			c.pauseForLocked(op, c.yieldTime())
			return
		}
		c.probeLocked(op, t) // to hear of it when somebody takes the turn
		return
	}
	if e.line.yielded { // and nobody wanted it
		e.line.yielded = false
		e.line.unwanted++
	}
	e.line.handovers++
	c.stats.Handovers++
	w.endPause()
	c.askLocked(op, t)
}

// waitOver ends a wait whose time has run out. An attempt in flight still decides: it takes no longer than one batch.
func (c *Client) waitOver(op *Op) {
	t := turn{now: time.Now()}
	defer c.finish(&t)
	c.mu.Lock()
	defer c.mu.Unlock()
	w := op.waiter
	switch {
	case w.gone:
	case w.asking != nil:
		w.last = true
	case !c.draining && w.retry != nil && op.head() && t.now.Sub(w.asked) > c.opts.RetryDelayMax:
		// It relied on announcements. The last attempt is to be a recent one.
		w.last = true
		w.endPause()
		c.askLocked(op, &t)
	default:
		w.gone = true
		// Who never came to the head is told what the head was told last.
		err := w.denied
		if head := w.places[0].entry.line.first.op; head != op {
			err = head.waiter.denied
		}
		c.leaveLocked(op, &t)
		c.answerDenied(op, err, &t)
	}
}

// Unblock ends the wait of a LOCK: if op waits, its Done is called with err, and Unblock returns true; err nil answers as if
// the wait had run out. What an attempt in flight brings is undone. An op that does not wait, or not any more, is left alone.
func (c *Client) Unblock(op *Op, err error) bool {
	t := turn{now: time.Now()}
	defer c.finish(&t)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unblockLocked(op, err, &t)
}

func (c *Client) unblockLocked(op *Op, err error, t *turn) bool {
	w := op.waiter
	if w == nil || w.gone {
		return false
	}
	w.gone = true
	c.leaveLocked(op, t)
	if err == nil {
		c.stats.Denied++
	}
	t.tell(op, Result{Err: err})
	return true
}
