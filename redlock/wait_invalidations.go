package redlock

import (
	"context"
	"fmt"
	"time"
)

// Waiters of this client learn of a release by another client, or by a library that talks to the masters itself, from the masters:
// the head of a line reads the key it waits for with CLIENT TRACKING on, and the master announces once that it has changed
// ("Redis client-side caching in Redis", two connections mode).
//
//	lane ── GET key ──────────────> master     the head's probe, which arms (OPTIN: nothing else does)
//	ear  <── message: key changed ── master     wakes the head when a quorum of masters has said so
//
// A client whose own waiters hand the resource to each other announces with each hand-over what is of no use to the others, so they
// listen less and less. When it leaves the resource to them for a moment it says so, on a channel of its own (turnsChannel).
//
// What is heard is a hint and never a vote: it makes the head ask earlier than its pause would. Where the ear is deaf, or a
// message is lost, the pause ends it.

// invalidateChannel is where the announcements of client-side caching come, when they are redirected to a RESP2 connection.
const invalidateChannel = "__redis__:invalidate"

// turnsChannel is the channel of the masters for resources that are left to other clients now, see handOverLocked.
const turnsChannel = ReservedPrefix + "turns"

var earChannels = [...]string{invalidateChannel, messagesChannel, turnsChannel}

// listen keeps a connection to the master open for announcements, until the client ends.
func (l *lane) listen() {
	said := ""
	deaf := time.Now() // since when nothing is heard of a master that answers
	l.reconnect(func() {
		var heard bool
		err := concise(survive(func() (err error) {
			heard, err = l.hear()
			return err
		}))
		if heard || !l.answersInTime() {
			deaf = time.Now()
		}
		// While the master is away that is all there is to say, and the lane says it, with its next heartbeat at the latest.
		if time.Since(deaf) > 2*l.client.opts.Heartbeat && l.client.endingContext.Err() == nil && err.Error() != said {
			said = err.Error()
			l.notAnnounced(err)
		}
	})
}

func (l *lane) notAnnounced(reason error) {
	l.client.opts.Logger.Info("master does not announce releases: waiters ask it from time to time", "master", l.master.Addr, "reason", reason)
}

// hear connects and passes on what the master announces, until the connection breaks; heard is whether there ever was one to hear on.
func (l *lane) hear() (heard bool, err error) {
	ctx, cancel := context.WithTimeout(l.client.endingContext, l.client.opts.ConnectTimeout)
	defer cancel()
	link, err := dial(ctx, l.master, l.client.opts)
	if err != nil {
		return false, err
	}
	defer link.close()
	link.stop = context.AfterFunc(l.client.endingContext, func() { link.socket.Close() })
	id, err := link.conn.ClientID(ctx).Result()
	if err != nil {
		return false, err
	}
	w := &link.wire
	w.array(1 + len(earChannels))
	w.bulk("subscribe")
	for _, channel := range earChannels {
		w.bulk(channel)
	}
	if err := w.send(time.Now().Add(l.client.opts.ConnectTimeout)); err != nil {
		return false, err
	}
	for range earChannels {
		if _, _, err := w.message(); err != nil {
			return false, err
		}
	}
	if err := link.socket.SetDeadline(time.Time{}); err != nil {
		return false, err
	}
	l.hearing(link, id)
	defer l.deaf()
	for {
		channel, body, err := w.message()
		if err != nil {
			return true, err
		}
		switch {
		case channel == messagesChannel && body.kind == '$':
			l.client.heardMessage(body.text)
		case channel == turnsChannel && body.kind == '$':
			l.client.offered(l.index, body.text)
		}
		if channel != invalidateChannel || body.kind != '*' {
			continue
		}
		for range body.n { // none when all keys are gone
			key, err := w.text()
			if err != nil {
				return true, err
			}
			l.client.announced(l.index, key.text)
		}
	}
}

// message reads one message: of a body that is an array, the head.
func (w *wire) message() (channel string, body reply, err error) {
	if err := w.head(3); err != nil {
		return "", reply{}, err
	}
	if _, err := w.text(); err != nil {
		return "", reply{}, err
	}
	name, err := w.text()
	if err != nil {
		return "", reply{}, err
	}
	for _, known := range earChannels {
		if name.is(known) {
			channel = known
		}
	}
	body, err = w.next()
	return channel, body, err
}

// text reads a string.
func (w *wire) text() (reply, error) {
	r, err := w.next()
	if err == nil && r.kind != '$' && r.kind != '-' { // that is one that is too long
		err = nonsense(r)
	}
	return r, err
}

// hearing records that the connection hears what tracking redirects to it.
func (l *lane) hearing(link *link, id int64) {
	l.mu.Lock()
	l.ear = link
	l.mu.Unlock()
	l.earID.Store(id)
	l.beat() // has the lane turn tracking on
}

// deaf records that announcements are lost. Whoever relies on them is told.
func (l *lane) deaf() {
	l.mu.Lock()
	l.ear = nil
	l.mu.Unlock()
	l.earID.Store(0)
	c := l.client
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.leases.entries {
		if e.line.first != nil {
			c.heardLocked(e, l.index, &d)
		}
	}
}

// plug breaks the connection for announcements: the master is not to be reached, so it would only seem to stand.
func (l *lane) plug() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ear != nil {
		l.ear.socket.Close()
	}
}

// track has the master announce to the ear what the lane's connection reads after CLIENT CACHING YES.
func (l *lane) track(ctx context.Context, link *link) error {
	id := l.earID.Load()
	if id == l.tracked || id == -l.tracked {
		return nil
	}
	l.tracked = 0
	if id == 0 {
		return nil
	}
	err := link.conn.Do(ctx, "client", "tracking", "on", "redirect", id, "optin", "noloop").Err()
	switch {
	case err == nil:
		l.tracked = id
	case !replied(err):
		return fmt.Errorf("CLIENT TRACKING: %w", err)
	}
	if err != nil { // the ear has just gone, or an ACL refuses it: it is tried again with the next ear
		l.tracked = -id
		l.notAnnounced(fmt.Errorf("CLIENT TRACKING: %w", err))
	}
	return nil
}

// announced hears from a master that a key has changed.
func (c *Client) announced(master int, key []byte) {
	c.mu.Lock()
	e := c.leases.entries[string(key)]
	if e == nil || e.line.first == nil {
		c.mu.Unlock()
		return
	}
	d := deferred{now: time.Now()}
	c.heardLocked(e, master, &d)
	c.mu.Unlock()
	c.runDeferred(&d)
}

// Announcements that are followed by denials come from hand-overs among the clients of another proxy. Each costs an attempt, so
// after dampAfter of them in a row the head waits a little, up to dampMax.
const (
	dampAfter = 2
	dampStep  = time.Millisecond
	dampMax   = 8 * time.Millisecond
)

// heardLocked wakes the head of a line when a quorum of masters has announced that its resource has changed.
func (c *Client) heardLocked(e *entry, master int, d *deferred) {
	line := &e.line
	line.heard = line.heard.with(master)
	if line.heard.count() < quorumOf(len(c.lanes)) {
		return
	}
	line.heard = 0
	line.taken() // what this client changes itself is not announced to it
	op := line.first.op
	if op.waiter.retry != nil && op.waiter.asking == nil {
		c.stats.Wakeups++
		line.woken++
		if line.woken > dampAfter {
			c.pauseForLocked(op, min(time.Duration(line.woken-dampAfter)*dampStep, dampMax))
			return
		}
	}
	c.wakeLocked(op, d)
}

// wakeLocked has a head that waits for a better moment ask now.
func (c *Client) wakeLocked(op *Op, d *deferred) {
	w := op.waiter
	switch {
	case c.draining:
	case w.asking != nil:
		w.again = true
	case w.retry != nil:
		w.endPause()
		c.attemptLocked(op, d)
	}
}

// offered hears from a master that another client leaves the resource to others now. When a quorum of them has said so, the head
// asks at once, however often announcements have woken it in vain. What a client offers it hears itself, and heeds it not.
func (c *Client) offered(master int, resource []byte) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.leases.entries[string(resource)]
	if e == nil || e.line.first == nil || e.line.yielded {
		return
	}
	line := &e.line
	line.offered = line.offered.with(master)
	if line.offered.count() >= quorumOf(len(c.lanes)) {
		line.offered = 0
		c.wakeLocked(line.first.op, &d)
	}
}
