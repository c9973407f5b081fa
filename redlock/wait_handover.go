package redlock

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"redlockd/redlock/member"
	"redlockd/redlock/quorum"
)

// Hand-overs. An UNLOCK whose resource has a waiter here is followed by that waiter's acquisition, in
// the same batch on every master: one round trip, and no other client can take the resource between the
// two. So that waiters of other clients of the masters get it too, hand-overs are bounded by time:
// Options.HandoverTime after the first one in a row, the client leaves the resource free for a moment,
// a hand-over window. How many there were does not count: those of long holds would keep others waiting
// for very long.
//
//   - The masters carry a message that the window is open (windowsChannel), and the heads of other
//     clients ask at once.
//   - The window ends when another client takes the resource and releases it, which invalidates the
//     key, or after windowLength.
//   - Who wins a window is decided on the masters, where a client that is farther away than two others
//     comes too late each time. A head that others keep waiting for Options.HandoverTime says so, for how
//     long that is, and how far away it is (missedPrefix). The others leave the next window, which is
//     longer by that distance, to the one that waits for longest, however many clients there are.

// fairness is what the queue of a resource knows of other clients that want it.
type fairness struct {
	// since is when the hand-overs here began that follow each other, on clock.Own. If outrun, it is since
	// when others keep the head here waiting. 0: neither.
	since time.Duration
	// futileWakeups counts the wake-ups by invalidations in a row after which the head was denied.
	futileWakeups int32
	// said is for how long others kept the head waiting when it said so last, in times of HandoverTime.
	said int32
	// yield is the client that waits for longest of those that have said that others keep them waiting;
	// nil: none has.
	yield  *yield
	outrun bool
	// windowOpen: the resource is left to others, as the window of this client or of one that leaves it to
	// yield, and nothing tells yet whether they took it.
	windowOpen bool
	// windowAnnouncedBy are the masters that have passed on another client's window since the head's last
	// attempt.
	windowAnnouncedBy quorum.Mask
}

// yield is a client that has said that others keep it waiting: the next window is left to it.
type yield struct {
	id        string        // by which the copies of the message are known
	since     time.Duration // when it began to wait, on clock.Own
	roundTrip time.Duration // to its farthest master
	until     time.Time     // its window must come by then; zero: it was left one
}

const (
	// windowMin is the part of a window that does not depend on the distance of the masters: other
	// processes may be short of CPU.
	windowMin = 5 * time.Millisecond
	// missedPrefix begins the text that does so on windowsChannel. The id of the client and that of the
	// text, with the milliseconds that it was kept waiting behind a colon, a round trip in microseconds and
	// the resource follow, with blanks between them. No resource begins so, and so proxies of versions
	// before ignore it.
	missedPrefix = ReservedPrefix + "missed:"
	// yieldMost bounds by how much a window is longer for another client's distance.
	yieldMost = 100 * time.Millisecond
	// yieldLife is for how long a client waits for the window that it is to leave to another one, in times
	// of HandoverTime.
	yieldLife = 3
)

// windowsChannel is the channel of the masters on which a client publishes the resource of each window
// that it opens. Proxies of all versions share it, so its value stays.
const windowsChannel = ReservedPrefix + "turns"

// handOverReleasedLocked makes the hand-overs behind a release. What was released here is lease, nil if
// that is not known. Behind a reader beside whom another one has a lease here there is nothing to hand
// over.
func (ws *waiting) handOverReleasedLocked(resources []string, lease *lease, d *deferred) {
	for _, resource := range resources {
		if lease != nil && ws.leases.entries[resource].hasReaders(d.now) { //mutant:each-reader-wakes-the-writer
			continue
		}
		ws.handOverLocked(resource, d)
	}
}

// handOverLocked has the head of the queue ask for a resource right behind its release, or opens a
// window. It is called in the same hold of Client.mu in which the release was launched, so that both
// are in one batch on every master.
func (ws *waiting) handOverLocked(resource string, d *deferred) {
	e := ws.leases.entries[resource]
	if e == nil || e.queue.head == nil {
		if ws.leases.slotted {
			ws.handOverSlotLocked(resource, d)
		}
		return
	}
	w, f := e.queue.head, &e.queue.fairness
	if w.attempt != nil {
		w.again = true
		return
	}
	if f.leave(ws.own.At(d.now), ws.bounds.limits.Load().handoverTime) { //mutant:hand-overs-without-end
		ws.rounds.publish(windowsChannel, resource, d) // behind the release //mutant:windows-that-nobody-is-told-of
		// The probe has the masters send an invalidation when another client takes the resource.
		ws.observeLocked(w.op, d) //mutant:no-invalidations-in-a-window
		return
	}
	f.closeWindow()
	ws.client.stats.Handovers++ //mutant:hand-over-not-in-the-same-batch
	ws.attemptLocked(w.op, d)
}

// leave tells whether the resource that was just released is to be left to others, and opens the
// window. Else a hand-over follows.
func (f *fairness) leave(now, most time.Duration) bool {
	switch {
	case f.since == 0 || f.outrun:
		f.since, f.outrun = now, false
	case now-f.since >= most:
		f.since, f.windowOpen = 0, true
		return true
	}
	return false
}

// closeWindow is for a resource that is not left to others any more: whom the window was left to has had
// it.
func (f *fairness) closeWindow() {
	if f.windowOpen && f.yield != nil {
		f.yield.until = time.Time{} //mutant:windows-are-left-to-one-again-and-again
	}
	f.windowOpen = false
}

// outrunLocked is for a head that was denied the resource of its queue. If others have it, and keep it
// for long, it says so. A queue of slots says nothing: which slots are here, and whether others have
// them, is not known.
func (ws *waiting) outrunLocked(w *waiter, d *deferred) {
	e, f := w.entry, &w.entry.queue.fairness
	f.closeWindow()
	if e.lease != nil || w.slots() != nil { // the holder is here, or may be
		return
	}
	now, most := ws.own.At(d.now), ws.bounds.limits.Load().handoverTime
	switch {
	case !f.outrun:
		f.since, f.said, f.outrun = now, 0, true
	case int32((now-f.since)/most) > f.said: //mutant:a-client-that-is-outrun-says-nothing
		f.said = int32((now - f.since) / most)
		ws.rounds.publish(windowsChannel, fmt.Sprintf("%s%s%s:%d %d %s", missedPrefix, ws.fleet.id, member.Nonce(), (now-f.since).Milliseconds(), ws.fleet.farthest().Microseconds(), e.resource), d)
	}
}

// windowLength is how long a window stays open if nobody uses it: windowMin and three round trips to
// the farthest master, for the release, the message and the other client's attempt. If fewer than a
// quorum of masters send invalidations, other clients only find the window by an attempt of their own,
// so it is a retry delay.
func (ws *waiting) windowLength() time.Duration {
	if ws.fleet.subscribed() < ws.fleet.view.Load().Quorum() {
		return ws.opts.retryDelay(0)
	}
	return windowMin + 3*ws.fleet.farthest()
}

// yields is by how much the next window is longer for a client that was kept waiting, 0: it is left to
// nobody. The message that the window is open reaches that client half a round trip later than others,
// and its attempt takes another half. The rest is for a busy machine.
func (f *fairness) yields(now time.Time) time.Duration {
	if f.yield == nil || now.After(f.yield.until) {
		return 0
	}
	return f.yield.roundTrip + f.yield.roundTrip/2
}

// windowAnnounced acts on a master's message on windowsChannel: a client leaves the resource to the
// others now, was kept waiting, or has released tokens by force. The client that has sent it gets it
// too, and ignores it.
func (ws *waiting) windowAnnounced(master int, text []byte) {
	d := ws.client.enter()
	defer ws.client.leave(d)
	if missed, ok := strings.CutPrefix(string(text), missedPrefix); ok {
		ws.yieldLocked(missed, d)
		return
	}
	if forced, ok := strings.CutPrefix(string(text), forcedPrefix); ok {
		ws.client.forcedElsewhereLocked(master, forced, d)
		return
	}
	e, slot := ws.leases.queueFor(string(text))
	if e == nil || e.queue.fairness.windowOpen {
		return
	}
	f := &e.queue.fairness
	f.windowAnnouncedBy = f.windowAnnouncedBy.With(master)
	if f.windowAnnouncedBy.Count() < ws.fleet.view.Load().Quorum() {
		return
	}
	f.windowAnnouncedBy = 0
	head := e.queue.head
	if slot < 0 {
		if more := f.yields(d.now); more > 0 {
			f.windowOpen = true
			if head.retry != nil {
				ws.pauseLocked(head.op, ws.windowLength()+more)
			}
			return
		}
	}
	head.suggestSlot(slot)
	ws.wakeHeadLocked(head.op, d)
}

// yieldLocked has the next window of a resource left to another client. If several say that they wait, it
// is the one that waits for longest, and none if the head here waits for as long: who leaves a window to
// each that has said so last may be passed over for ever (Turns.tla).
func (ws *waiting) yieldLocked(text string, d *deferred) {
	id, rest, _ := strings.Cut(text, " ")
	micros, resource, _ := strings.Cut(rest, " ")
	distance, err := strconv.ParseInt(micros, 10, 32)
	e := ws.leases.entries[resource]
	if err != nil || distance <= 0 || e == nil {
		return
	}
	handoverTime := ws.bounds.limits.Load().handoverTime
	waited := 3 * handoverTime // versions before said so after that, and not for how long
	if _, text, ok := strings.Cut(id, ":"); ok {
		ms, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return
		}
		waited = time.Duration(ms) * time.Millisecond
	}
	f, since := &e.queue.fairness, ws.own.At(d.now)-waited
	switch before := f.yield; {
	case before != nil && before.id == id, strings.HasPrefix(id, ws.fleet.id): //mutant:each-copy-has-a-window-left
	case f.outrun && f.since <= since: //mutant:a-window-is-left-to-one-that-waits-for-less
	case f.yields(d.now) > 0 && before.since < since: //mutant:who-waits-for-less-comes-before
	default:
		f.yield = &yield{id, since, min(time.Duration(distance)*time.Microsecond, yieldMost), d.now.Add(yieldLife * handoverTime)}
	}
}
