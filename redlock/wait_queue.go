package redlock

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Waiting. A LOCK that waits for a resource stands in the line of that resource, first come first served. Only the head of a line
// asks the masters. So each client has one contender per resource: many waiters cost no more than one, and do not split the votes
// among them ("Retry on failure": the fewer try at the same time, the fewer "split brain condition"s).
//
// A LOCK of several resources stands in one line at a time, that of a resource which has denied it. It keeps nobody from the others:
// it is no waiter of theirs, and holds nothing while it waits. Its rules:
//   - It joins the first line, in the order of names, in which somebody waits; where nobody does, it asks at once.
//   - As the head of its line it asks for all its resources. Each master that denies them names the resource that is in the way.
//     The waiter moves to the line of the resource that most of these masters have named.
//   - In every line it stands by its arrival, behind the LOCKs that came to this client before it. No LOCK that came later gets
//     before it in a line where it stands. So it comes to the head of any line.
//   - If its resources get free one at a time and never together, it reserves them one after the other (wait_reserve.go).
//     This is the only time in which it holds anything.

// waiter is the part of an Op that waits. Client.mu guards it.
type waiter struct {
	place   place
	keys    []string // of a LOCK of several resources, in the order of their names; nil for one
	arrival uint64   // number of this LOCK among those that have waited, in the order in which they came to the client
	moves   int      // attempts, since it reserved last, that another resource denied than the one whose line it stood in
	reserving
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

// place is where a waiter stands: in the line of one resource.
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

// insert puts a waiter where its arrival belongs. It searches from both ends, since those who join belong at the end, and those who
// move have mostly waited for long.
func (l *line) insert(p *place) {
	arrival := p.op.waiter.arrival
	before, after := l.end, l.first //mutant:who-moves-goes-to-the-end
	for before != nil {
		if before.op.waiter.arrival < arrival {
			after = before.next
			break
		}
		if after.op.waiter.arrival > arrival {
			before = after.prev
			break
		}
		before, after = before.prev, after.next
	}
	p.prev, p.next = before, after //mutant:last-come-first-served
	if before == nil {
		l.first = p
	} else {
		before.next = p
	}
	if after == nil {
		l.end = p
	} else {
		after.prev = p
	}
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

// head tells whether op is the first in its line.
func (op *Op) head() bool {
	p := &op.waiter.place
	return p.entry.line.first == p
}

// joinLocked puts op at the end of a line, and asks at once if it is the head.
func (c *Client) joinLocked(op *Op, wait time.Duration, d *deferred) {
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
	w := &waiter{arrival: c.arrivals}
	op.waiter = w
	resource := op.keys[0]
	if len(op.keys) > 1 {
		w.keys = slices.Sorted(slices.Values(op.keys)) //mutant:reserves-in-the-callers-order
		resource = c.leases.waitedFor(w.keys)
	}
	w.place = place{op: op, entry: c.leases.entry(resource)}
	w.place.entry.line.insert(&w.place)
	w.deadline = time.AfterFunc(wait, func() { c.waitOver(op) })
	if op.head() {
		c.attemptLocked(op, d)
	}
}

// waitedFor is the first of the resources that somebody waits for, or the first.
func (s *leases) waitedFor(resources []string) string {
	for _, resource := range resources {
		if e := s.entries[resource]; e != nil && e.line.first != nil {
			return resource
		}
	}
	return resources[0]
}

// leaveLocked takes op out of its line, and gives back what it has reserved. Whoever becomes the head is up next.
func (c *Client) leaveLocked(op *Op, d *deferred) {
	w := op.waiter
	c.waiting--
	c.shareOf(op).waiters--
	w.deadline.Stop()
	w.endPause()
	e := w.place.entry
	e.line.remove(&w.place)
	c.giveBackLocked(op, d)
	c.leftLineLocked(e, d)
}

// moveLocked puts op into the line of another one of its resources.
func (c *Client) moveLocked(op *Op, resource string, d *deferred) {
	w := op.waiter
	from := w.place.entry
	if from.resource == resource {
		return
	}
	w.endPause()
	w.again = false // the release that it is about was one of the other resource
	from.line.remove(&w.place)
	w.place.entry = c.leases.entry(resource)
	w.place.entry.line.insert(&w.place)
	if behind := w.place.next; behind != nil && op.head() { //mutant:a-head-pauses-on-when-it-is-the-head-again
		behind.op.waiter.endPause() // it asks as soon as it is the head again
	}
	c.leftLineLocked(from, d)
}

// leftLineLocked sees to a line that somebody has left.
func (c *Client) leftLineLocked(e *entry, d *deferred) {
	if next := e.line.first; next != nil {
		c.upNextLocked(next.op, d)
	}
	c.leases.tidy(e)
}

// attemptLocked has the head of a line ask the masters: for its next reservation, or for all that it wants. Without a quorum of masters
// that can vote it stalls.
func (c *Client) attemptLocked(op *Op, d *deferred) {
	w := op.waiter
	switch {
	case w.denied != nil && c.stallLocked(op):
	case w.reserved != "" && w.had < len(w.keys):
		c.reserveLocked(op, d)
	default:
		c.askLocked(op, d)
	}
}

// sentLocked records the attempt that is in flight from now on.
func (w *waiter) sentLocked(r *round) {
	w.asking, w.asked = r, r.start
	w.place.entry.line.heard, w.place.entry.line.offered = 0, 0
}

// upNextLocked starts the attempts of a waiter that has become the head of its line: now, or, where we know that the resource
// is held, after a pause.
func (c *Client) upNextLocked(op *Op, d *deferred) {
	w := op.waiter
	if c.draining || w.asking != nil || w.retry != nil || !op.head() {
		return
	}
	if lease := w.place.entry.lease; lease != nil && d.now.Before(lease.validUntil) {
		w.denied = nil
		w.place.entry.line.denied = true
		c.pauseLocked(op, c.freeIn(op, d.now))
		return
	}
	c.attemptLocked(op, d)
}

// freeIn is when, to our own knowledge, no lease of this client stands in the way of op any more; 0 when that is not known.
func (c *Client) freeIn(op *Op, now time.Time) time.Duration {
	lease := op.waiter.place.entry.lease
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
		if w.retry != timer || w.gone || w.asking != nil {
			return
		}
		w.retry = nil
		if !op.head() { // an older one has moved before it
			return
		}
		w.place.entry.line.handovers = 0
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
	r := w.asking
	if !r.reserves {
		c.giveBackLocked(op, d)
	}
	w.asking, w.denied, op.stale = nil, err, 0 //mutant:the-first-attempt-decides
	from := w.place.entry
	if !w.last && err == nil && !r.reserves && len(w.keys) > 1 {
		c.followLocked(op, r, d)
	}
	line := &w.place.entry.line
	if r.reserves || w.reserved == "" { // otherwise nothing is known of its first resource yet
		line.denied = err == nil
	}
	if err == nil && w.place.entry == from {
		line.taken()
	}
	switch {
	case w.last:
		w.gone = true
		c.leaveLocked(op, d)
		c.answerDenied(op, err, d)
	case !op.head(): // an older one stands before it
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

// followLocked moves op to the line of the resource that has kept it from all, by what most of the masters have said.
func (c *Client) followLocked(op *Op, r *round, d *deferred) {
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
	if most < 0 || r.keys[most] == w.place.entry.resource { //mutant:waits-in-one-line-for-ever
		return
	}
	if w.moves++; w.moves < reserveAfter { //mutant:never-reserves
		c.moveLocked(op, r.keys[most], d)
		return
	}
	c.startReservingLocked(op, d)
	c.moveLocked(op, w.keys[0], d)
	w.again = true
}

// probeLocked asks the masters for how long the holder's keys still live, to try again when they end, and has them announce it when
// the resource changes before that: also of a lease of this client, which may be released through another.
func (c *Client) probeLocked(op *Op, d *deferred) {
	n := len(c.lanes)
	r := &round{verb: verbRead, probe: true, start: d.now, op: op, answers: make([]answer, n)}
	r.setKeys(op.waiter.place.entry.resource)
	op.waiter.endPause()
	op.waiter.asking = r
	c.launchLocked(r, allMasters(n), d)
}

func (c *Client) probed(r *round, d *deferred) {
	op := r.op
	c.mu.Lock()
	defer c.mu.Unlock()
	w := op.waiter
	w.asking = nil
	switch {
	case w.gone:
	case w.last:
		w.gone = true
		c.leaveLocked(op, d)
		c.answerDenied(op, w.denied, d)
	case !op.head(): // an older one has moved before it
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
	if line := &w.place.entry.line; line.yielded {
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

// yieldMin is how much longer than the messages take a resource is left to others: their processes may be short of CPU.
const yieldMin = 5 * time.Millisecond

// taken: another client has the resource, or had it just now.
func (l *line) taken() { l.yielded, l.unwanted = false, 0 } //mutant:turns-stay-rare

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
		if l.invalidationsID.Load() != 0 {
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
func (c *Client) handOverLocked(resource string, d *deferred) {
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
	if e.line.handovers >= e.line.run(c.opts.MaxHandovers) { //mutant:hand-overs-without-end
		e.line.handovers, e.line.yielded = 0, true
		c.tellAllLocked(windowsChannel, resource, d) // behind the release //mutant:turns-that-nobody-hears-of
		// The probe subscribes: the masters announce it when another client takes its turn.
		c.probeLocked(op, d) //mutant:who-leaves-a-turn-to-others-does-not-listen
		return
	}
	if e.line.yielded { // and nobody wanted it
		e.line.yielded = false
		e.line.unwanted++ //mutant:turns-never-rarer
	}
	e.line.handovers++ //mutant:hand-over-not-in-the-same-batch
	c.stats.Handovers++
	w.endPause()
	c.attemptLocked(op, d)
}

// waitOver ends a wait whose time has run out. An attempt in flight still decides: it takes no longer than one batch.
func (c *Client) waitOver(op *Op) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	c.mu.Lock()
	defer c.mu.Unlock()
	w := op.waiter
	switch {
	case w.gone:
	case w.asking != nil:
		w.last = true
	case !c.draining && w.retry != nil && op.head() && d.now.Sub(w.asked) > c.opts.RetryDelayMax:
		// It relied on announcements. The last attempt is to be a recent one.
		w.last = true
		w.endPause()
		c.askLocked(op, &d)
	default:
		w.gone = true
		// Who never came to the head is told what the head was told last.
		err := w.denied
		if head := w.place.entry.line.first.op; head != op {
			err = head.waiter.denied
		}
		c.leaveLocked(op, &d)
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
	case w == nil || w.gone:
		return false
	default:
		w.gone = true
		c.leaveLocked(op, d)
	}
	if err == nil {
		c.stats.Denied++
	}
	d.deliver(op, Result{Err: err})
	return true
}
