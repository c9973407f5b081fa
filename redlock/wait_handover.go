package redlock

import "time"

// Hand-overs. An UNLOCK whose resource has a waiter here is followed by that waiter's acquisition, in the same batch on every master: one
// round trip, and no other client can take the resource between the two. So that waiters of other clients of the masters get it too,
// the hand-overs in a row are limited: then the client leaves the resource free for a moment, a hand-over window.
//
//   - At least handoversMin and at most Options.MaxHandovers are made in a row. Between these bounds the limit doubles with each window in a
//     row that nobody used, because a window costs the waiters here its whole length. It is handoversMin again as soon as somebody uses one.
//   - The masters carry a message that the window is open (windowsChannel), and the heads of other clients ask at once.
//   - The window ends when another client takes the resource and releases it, which invalidates the key, or after windowLength.
//
// So a waiter of another client gets its chance after at most MaxHandovers holders here. Who wins a window is decided on the masters.

// fairness is what the queue of a resource knows of other clients that want it.
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

const (
	// handoversMin is how many hand-overs in a row there are while other clients use the windows.
	handoversMin = 32
	// windowMin is the part of a window that does not depend on the distance of the masters: other processes may be short of CPU.
	windowMin = 5 * time.Millisecond
)

// windowsChannel is the channel of the masters on which a client publishes the resource of each window that it opens. Proxies of all versions
// share it, so its value stays.
const windowsChannel = ReservedPrefix + "turns"

// handOverLocked has the head of the queue ask for a resource right behind its release, or opens a window. It is called in the same hold of
// Client.mu in which the release was launched, so that both are in one batch on every master.
func (c *Client) handOverLocked(resource string, d *deferred) {
	e := c.leases.entries[resource]
	if e == nil || e.queue.head == nil {
		return
	}
	w, f := e.queue.head, &e.queue.fairness
	if w.attempt != nil {
		w.again = true
		return
	}
	if f.handovers >= f.handoversMax(c.opts.MaxHandovers) { //mutant:hand-overs-without-end
		f.handovers, f.windowOpen = 0, true
		c.publishLocked(windowsChannel, resource, d) // behind the release //mutant:windows-that-nobody-is-told-of
		// The probe has the masters send an invalidation when another client takes the resource.
		c.observeLocked(w.op, d) //mutant:no-invalidations-in-a-window
		return
	}
	if f.windowOpen {
		f.windowOpen = false
		f.unusedWindows++ //mutant:windows-never-rarer
	}
	f.handovers++ //mutant:hand-over-not-in-the-same-batch
	c.stats.Handovers++
	w.endPause()
	c.attemptLocked(w.op, d)
}

// windowUsed records that another client has the resource, or has had it in the window.
func (f *fairness) windowUsed() { f.windowOpen, f.unusedWindows = false, 0 } //mutant:windows-stay-rare

// handoversMax is how many hand-overs in a row there may be now. most is Options.MaxHandovers.
func (f *fairness) handoversMax(most int) int {
	return min(handoversMin<<min(f.unusedWindows, 20), most)
}

// windowLength is how long a window stays open if nobody uses it: windowMin and three round trips to the farthest master, for the release,
// the message and the other client's attempt. If fewer than a quorum of masters send invalidations, other clients only find the
// window by an attempt of their own, so it is a retry delay.
func (c *Client) windowLength() time.Duration {
	farthest, subscribed := time.Duration(0), 0
	for _, l := range c.lanes {
		l.mu.Lock()
		farthest = max(farthest, l.rttMin)
		l.mu.Unlock()
		if l.invalidationsID.Load() != 0 {
			subscribed++
		}
	}
	if subscribed < quorumOf(len(c.lanes)) {
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
	f := &e.queue.fairness
	f.windowAnnouncedBy = f.windowAnnouncedBy.with(master)
	if f.windowAnnouncedBy.count() >= quorumOf(len(c.lanes)) {
		f.windowAnnouncedBy = 0
		c.wakeHeadLocked(e.queue.head.op, &d)
	}
}
