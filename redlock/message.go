package redlock

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Messages between clients of all proxies: the wake-up channels of lock libraries. A message goes to every master, as a PUBLISH in the
// lane's order, and comes back to every proxy through its ears, once per master; whoever hears it first passes it on. So it
// reaches all as long as one master is reached by both sides. Like Redis's own, messages are not stored and not promised.

// messagesChannel is the channel of the masters on which all messages travel.
const messagesChannel = ReservedPrefix + "messages"

// MessageMax bounds the bytes of a message and its channel's name together.
const MessageMax = 32 << 10

// messagesRemembered is for how many messages it is known that they were passed on already. They come from all masters within
// moments; one that is forgotten before its last copy comes is delivered twice.
const messagesRemembered = 8192

// messages is what a Client needs to pass them on.
type messages struct {
	receive atomic.Pointer[func(channel, payload string)]

	// mu guards what follows. It is held while a message is passed on: copies come through several ears at the same time, and messages
	// must not overtake each other there.
	mu   sync.Mutex
	seen map[string]struct{} // by id
	ring [messagesRemembered]string
	next int
}

// passOn hands the message to the receiver, unless its id says that this was done already.
func (m *messages) passOn(id, channel, payload string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.seen[id]; ok {
		return
	}
	if m.seen == nil {
		m.seen = make(map[string]struct{})
	}
	delete(m.seen, m.ring[m.next])
	m.ring[m.next] = id
	m.next = (m.next + 1) % len(m.ring)
	m.seen[id] = struct{}{}
	if receive := m.receive.Load(); receive != nil {
		(*receive)(channel, payload)
	}
}

// OnMessage has receive called with every message that is published through this client or another one of the same masters.
// It is called on goroutines of the engine, one message after the other; it must not block and must not publish. There is
// one receiver; a later call takes the place of an earlier.
func (c *Client) OnMessage(receive func(channel, payload string)) {
	c.messages.receive.Store(&receive)
}

// Publish sends a message to the receivers of all clients of the same masters, this one included: that one is called before Publish
// returns. Nobody waits for the masters. The error says that the message is too long.
func (c *Client) Publish(channel, payload string) error {
	if n := len(channel) + len(payload); n > MessageMax {
		return badRequest("the message and its channel have %d bytes, at most %d are possible", n, MessageMax)
	}
	id := nonce()
	c.messages.passOn(id, channel, payload)
	t := turn{now: time.Now()}
	defer c.finish(&t)
	c.mu.Lock()
	defer c.mu.Unlock()
	text := id + " " + strconv.Itoa(len(channel)) + " " + channel + payload
	c.tellAllLocked(messagesChannel, text, &t)
	return nil
}

// tellAllLocked publishes a text on a channel of all masters, behind all that was launched before.
func (c *Client) tellAllLocked(channel, text string, t *turn) {
	r := &round{verb: verbPublish, token: text, start: t.now}
	r.setKeys(channel)
	c.launchLocked(r, allMasters(len(c.lanes)), t)
}

// heardMessage passes on what came from a master, once. What is not a message of ours is passed over.
func (c *Client) heardMessage(text []byte) {
	id, rest, _ := strings.Cut(string(text), " ")
	length, rest, ok := strings.Cut(rest, " ")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 0 || n > len(rest) || len(rest) > MessageMax || len(id) != nonceLen {
		return
	}
	c.messages.passOn(strings.Clone(id), rest[:n], rest[n:]) // what is remembered must not keep the message alive
}
