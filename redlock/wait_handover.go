package redlock

import "time"

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

// handoversMin is how many hand-overs in a row there are while other clients of the masters want the resource too.
const handoversMin = 32

// windowMin is how much longer than the messages take a resource is left to others: their processes may be short of CPU.
const windowMin = 5 * time.Millisecond

// windowsChannel is the channel of the masters for hand-over windows: resources that a client leaves to the others now, see openWindowLocked.
// Proxies of all versions share it, so its value stays.
const windowsChannel = ReservedPrefix + "turns"

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

// windowAnnounced acts on a master's message that a client leaves the resource to the others now. When a quorum of masters has sent it, the
// head asks at once, however often invalidations have woken it in vain. The client that opened the window gets the message too, and ignores it.
func (c *Client) windowAnnounced(master int, resource []byte) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.leases.entries[string(resource)]
	if e == nil || e.queue.head == nil || e.queue.fairness.windowOpen {
		return
	}
	queue := &e.queue
	queue.fairness.windowAnnouncedBy = queue.fairness.windowAnnouncedBy.with(master)
	if queue.fairness.windowAnnouncedBy.count() >= quorumOf(len(c.lanes)) {
		queue.fairness.windowAnnouncedBy = 0
		c.wakeHeadLocked(queue.head.op, &d)
	}
}
