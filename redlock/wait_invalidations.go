package redlock

import (
	"context"
	"fmt"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/quorum"
)

// How a waiter learns that another client, or a library that talks to the masters itself, has released
// a resource: from the masters. The head of a queue reads the key that it waits for with CLIENT
// TRACKING on, and the master sends one invalidation when the key changes ("Redis client-side caching
// in Redis", two connections mode).
//
//	lane          ── GET key ──────────────> master   the head's probe; only this read is tracked (OPTIN)
//	invalidations <── message: key changed ── master   wakes the head if the key may be free (wait_tracked.go)
//
// Waiters of one client hand the resource to each other, which also invalidates the key, and is of no
// use to other clients. So their heads react less and less to it (dampAfter). When a client leaves the
// resource to the others for a moment, it says so on windowsChannel.
//
// Invariant: an invalidation is a hint and never a vote. It makes the head ask before its pause is
// over. If the connection breaks or a message is lost, the head asks when the pause is over.

// invalidateChannel is where Redis sends invalidations to a RESP2 connection.
const invalidateChannel = "__redis__:invalidate"

var subscribedChannels = [...]string{invalidateChannel, messagesChannel, windowsChannel}

// keepSubscribed keeps a connection to the master open for invalidations and messages, until the client
// ends.
func (l *lane) keepSubscribed() {
	logged := ""
	lastUsable := time.Now() // when the subscription stood last, or the master was away, which the lane logs itself
	l.reconnect(func() {
		var subscribed bool
		err := conn.Shorten(conn.RecoverPanic(func() (err error) {
			subscribed, err = l.subscribe()
			return err
		}))
		if subscribed || !l.answersInTime() {
			lastUsable = time.Now()
		}
		// Two heartbeats: if the master is away, the lane has noticed by then.
		if time.Since(lastUsable) > 2*l.fleet.opts.Heartbeat && l.ending.Err() == nil && err.Error() != logged {
			logged = err.Error()
			l.logNoInvalidations(err)
		}
	})
}

func (l *lane) logNoInvalidations(reason error) {
	l.fleet.opts.Logger.Info("master sends no invalidations: waiters ask it from time to time", "master", l.master.Addr, "reason", reason)
}

// subscribe connects and acts on what the master sends, until the connection breaks. It tells whether
// the subscription ever stood.
func (l *lane) subscribe() (subscribed bool, err error) {
	ctx, cancel := context.WithTimeout(l.ending, l.fleet.opts.ConnectTimeout)
	defer cancel()
	conn, err := conn.Dial(ctx, l.master, l.fleet.opts.ConnectTimeout)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	conn.Stop = conn.BreakOff(l.ending)
	id, err := conn.Redis.ClientID(ctx).Result()
	if err != nil {
		return false, err
	}
	w := &conn.Wire
	mailbox := l.client.messages.channel
	w.Array(2 + len(subscribedChannels))
	w.Bulk("subscribe")
	for _, channel := range subscribedChannels {
		w.Bulk(channel)
	}
	w.Bulk(mailbox)
	// Where a deadline cannot be set, the connection is broken, and what comes next fails.
	w.Socket.SetDeadline(time.Now().Add(l.fleet.opts.ConnectTimeout))
	if err := w.Send(); err != nil {
		return false, err
	}
	for range 1 + len(subscribedChannels) {
		if _, _, err := readPushed(w, mailbox); err != nil {
			return false, err
		}
	}
	w.Socket.SetDeadline(time.Time{})
	l.subscribed(conn, id)
	defer l.unsubscribed()
	return true, l.actOnPushed(w, mailbox)
}

// actOnPushed reads what the master sends on the subscribed connection, and acts on it, until that fails.
func (l *lane) actOnPushed(w *conn.Wire, mailbox string) error {
	for {
		channel, body, err := readPushed(w, mailbox)
		if err != nil {
			return err
		}
		switch {
		case (channel == messagesChannel || channel == mailbox) && body.Kind == '$':
			l.client.messages.receivePublished(l, body.Text)
		case channel == windowsChannel && body.Kind == '$':
			l.client.waiting.windowAnnounced(l.index, body.Text)
		case channel == invalidateChannel && body.Null: // FLUSHALL
			l.client.waiting.allInvalidated(l.index) //mutant:a-flush-wakes-nobody
		case channel == invalidateChannel && body.Kind == '*':
			for range body.N {
				key, err := readString(w)
				if err != nil {
					return err
				}
				l.client.waiting.invalidated(l.index, key.Text)
				if changed := l.client.changed.Load(); changed != nil {
					(*changed)(string(key.Text)) //mutant:nobody-is-told-of-a-change
				}
			}
		}
	}
}

// readPushed reads one pushed message. If its body is an array, only the array's head is read. channel
// is "" for one not subscribed to.
func readPushed(w *conn.Wire, mailbox string) (channel string, body conn.Reply, err error) {
	if err := w.Head(3); err != nil {
		return "", conn.Reply{}, err
	}
	if _, err := readString(w); err != nil {
		return "", conn.Reply{}, err
	}
	name, err := readString(w)
	if err != nil {
		return "", conn.Reply{}, err
	}
	for _, known := range subscribedChannels {
		if name.Is(known) {
			channel = known
		}
	}
	if name.Is(mailbox) {
		channel = mailbox
	}
	body, err = w.ReadReply()
	return channel, body, err
}

// readString reads a bulk string; anything else is an error.
func readString(w *conn.Wire) (conn.Reply, error) {
	r, err := w.ReadReply()
	if err == nil && r.Kind != '$' && r.Kind != '-' { // '-': a string that is too long
		err = conn.ProtocolError(r)
	}
	return r, err
}

// subscribed records the connection to which the lane is to redirect its invalidations.
func (l *lane) subscribed(conn *conn.Conn, id int64) {
	l.mu.Lock()
	l.invalidations = conn
	l.mu.Unlock()
	l.invalidationsID.Store(id)
	l.requestHeartbeat() // has the lane turn tracking on
}

// unsubscribed records that no invalidation comes from this master any more.
func (l *lane) unsubscribed() {
	l.invalidationsID.Store(0)
	l.client.waiting.allInvalidated(l.index) //mutant:a-connection-that-breaks-wakes-nobody
}

// closeInvalidations breaks the subscribed connection. The lane calls it when the master is not
// reachable: without traffic, the connection would not break by itself.
func (l *lane) closeInvalidations() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.invalidations != nil {
		l.invalidations.Socket.Close()
	}
}

// track turns CLIENT TRACKING on for the lane's connection, redirected to the subscribed one. An error
// means that the lane's connection is broken; a refusal by the master (an ACL, or the subscribed
// connection has just gone) is tried again with the next subscription.
func (l *lane) track(ctx context.Context, link *conn.Conn) error {
	id := l.invalidationsID.Load()
	if id == l.trackingID { //mutant:tracked-for-a-subscription-of-before
		return nil
	}
	l.trackingID, l.tracking = id, false
	if id == 0 {
		return nil
	}
	err := link.Redis.Do(ctx, "client", "tracking", "on", "redirect", id, "optin", "noloop").Err()
	switch {
	case err == nil:
		l.tracking = true
	case !conn.Replied(err):
		return fmt.Errorf("CLIENT TRACKING: %w", err)
	default:
		l.logNoInvalidations(fmt.Errorf("CLIENT TRACKING: %w", err))
	}
	return nil
}

// tracks tells whether a read that asks for it (CLIENT CACHING YES) is followed by an invalidation.
func (l *lane) tracks() bool { return l.tracking && l.trackingID == l.invalidationsID.Load() }

// invalidated acts on a master's message that a key has changed.
func (ws *waiting) invalidated(master int, key []byte) {
	ws.client.mu.Lock()
	e, slot := ws.leases.queueFor(string(key))
	if e == nil {
		ws.client.mu.Unlock()
		return
	}
	d := deferred{now: time.Now()}
	ws.invalidatedLocked(e, slot, master, &d)
	ws.client.mu.Unlock()
	ws.client.runDeferred(&d)
}

// OnChange has changed called when a master announces that another client has changed a key that was read
// with Op.Tracked set. Each master does so by itself, once after each reading, as far as it can announce
// (Redis 6). changed must not block, and may be called for keys that nobody has read.
func OnChange(c *Client, changed func(resource string)) { c.changed.Store(&changed) }

// If the head is denied after an invalidation, the change was a hand-over among the waiters of another
// client. Each such wake-up costs an attempt. So after dampAfter of them in a row the head asks only
// after a delay, which grows by dampStep up to dampMax.
const (
	dampAfter = 2
	dampStep  = time.Millisecond
	dampMax   = 8 * time.Millisecond
)

// wakeDelay counts a wake-up of a head, and is how long it waits before it asks.
func (ws *waiting) wakeDelay(w *waiter) time.Duration {
	f := &w.entry.queue.fairness
	ws.client.stats.Wakeups++
	f.futileWakeups++
	return min(time.Duration(max(0, f.futileWakeups-dampAfter))*dampStep, dampMax)
}

// invalidatedLocked wakes the head of a queue when a resource may be free after what a master has
// announced. Changes that this client makes itself are not sent to it (NOLOOP), so another client has
// used a window that was open. slot is the slot that has changed, or -1.
func (ws *waiting) invalidatedLocked(e *entry, slot, master int, d *deferred) {
	w := e.queue.head
	keys, i := w.trackedKeys(), max(0, slot)
	if w.asking() || i >= len(keys) || !keys[i].change(master, &ws.fleet.view.Load().Electorate) {
		return
	}
	keys[i].begin() // what it asks next says more
	e.queue.fairness.closeWindow()
	w.suggestSlot(slot)
	if w.retry != nil {
		if delay := ws.wakeDelay(w); delay > 0 {
			ws.pauseLocked(w.op, delay)
			return
		}
	}
	ws.wakeHeadLocked(w.op, d)
}

// trackedKeys are those that a waiter waits for: its resource, or the slots of its semaphore, of which it
// knows nothing before it has observed them.
func (w *waiter) trackedKeys() []tracked {
	if s := w.slots(); s != nil {
		return s.tracked
	}
	return w.tracked[:]
}

// asking tells whether an attempt is in flight. What changes meanwhile is seen by the observation after
// it.
func (w *waiter) asking() bool { return w.attempt != nil && !verbs[w.attempt.verb].arms }

// trackAnew is for the launch of an observation.
func (w *waiter) trackAnew() {
	keys := w.trackedKeys()
	for i := range keys {
		keys[i].begin()
	}
}

// changesLocked is for a round of this client that may change keys on these masters, before anything that
// is launched after it. Where a waiter relied on an announcement, it asks after a retry delay instead. A
// hand-over comes before that. The attempts of the waiter itself are followed by an observation.
func (ws *waiting) changesLocked(r *round, targets quorum.Mask) {
	v := &ws.fleet.view.Load().Electorate
	for _, resource := range r.keys {
		e, slot := ws.leases.queueFor(resource)
		if e == nil {
			continue
		}
		w := e.queue.head
		if r.op == w.op {
			continue
		}
		keys := w.trackedKeys()
		if slot = max(0, slot); slot >= len(keys) {
			continue
		}
		k := &keys[slot]
		relied := k.awaited != quorum.All && k.bound(v)
		k.changed |= targets
		if relied && !k.bound(v) && w.retry != nil {
			ws.pauseLocked(w.op, ws.opts.retryDelay(0))
		}
	}
}

// allInvalidated takes note that a master announces no change any more of what it has shown to this
// client: the connection for that has gone, or it was flushed. For each head that counts as a change of
// what it waits for. Those that relied on the master ask, spread over a short time.
func (ws *waiting) allInvalidated(master int) {
	d := ws.client.enter()
	defer ws.client.leave(d)
	v := &ws.fleet.view.Load().Electorate
	var heads []*waiter
	for _, e := range ws.leases.entries {
		w := e.queue.head
		if w == nil || w.asking() {
			continue
		}
		ask, keys := false, w.trackedKeys()
		for i := range keys {
			ask = keys[i].change(master, v) || ask
		}
		switch {
		case !ask:
		case w.attempt != nil:
			w.again = true
		case w.retry != nil:
			heads = append(heads, w)
		}
	}
	ws.spreadLocked(heads)
}

// wakeHeadLocked has the head of a queue ask now: it ends its pause, or follows an attempt in flight
// with another one.
func (ws *waiting) wakeHeadLocked(op *Op, d *deferred) {
	w := op.waiter
	switch {
	case ws.client.draining:
	case w.attempt != nil:
		w.again = true
	case w.retry != nil:
		ws.attemptLocked(op, d)
	}
}
