package redlock

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Messages between the clients of all proxies: the wake-up channels of lock libraries. A message goes to every master as a PUBLISH, in the
// order of the lanes, and every proxy gets one copy from each master over its subscribed connections (wait_invalidations.go). The first copy
// counts. So a message arrives if one master is reached by both sides. Like Redis's own, messages are not stored and not promised.
//
// Order: two messages of one publisher are received in the order in which they were launched, because every lane and every master keeps it,
// and a proxy receives one message at a time (messages.mu).
//
// A message to one client alone (StartSend) goes the same way, on a channel that only this client has subscribed to.

// messagesChannel is the channel of the masters on which all messages travel. Proxies of all versions share it, so its value stays.
const messagesChannel = ReservedPrefix + "messages"

// mailboxChannel is the channel of the masters that only the client with this mailbox has subscribed to.
func mailboxChannel(mailbox string) string { return messagesChannel + ":" + mailbox }

// MessageMax bounds a message and its channel's name together, in bytes.
const MessageMax = 32 << 10

// messagesRemembered is how many messages a proxy remembers, to know their later copies. All copies of a message come within moments; one
// that comes after so many other messages is received a second time.
const messagesRemembered = 8192

// messages is the receiving side of a Client. Lock order: messages.mu, then Client.mu.
type messages struct {
	// mailbox is by what others send to this client alone, and channel its channel.
	mailbox, channel string
	receiver         atomic.Pointer[func(channel, payload string)]

	// mu is held while the receiver runs: copies come from several masters at the same time, and messages must not overtake each other.
	mu sync.Mutex
	// seen are the ids of the messages received last; ring has them in order, the oldest at next.
	seen map[string]struct{}
	ring [messagesRemembered]string
	next int

	// own are messages that were published here and are not received here yet, in the order of the lanes. Client.mu guards it.
	own []message
}

// message has the id by which its copies are known.
type message struct{ id, channel, payload string }

// receiveOwn has the receiver get the messages that were published here. It must be called without Client.mu.
func (c *Client) receiveOwn() {
	c.messages.mu.Lock() // first, so that nobody who takes later messages comes before us
	defer c.messages.mu.Unlock()
	c.mu.Lock()
	own := c.messages.own
	c.messages.own = nil
	c.mu.Unlock()
	for _, m := range own {
		c.messages.receiveLocked(m)
	}
}

// receivePublished has the receiver get a message that came from a master. What is not a message of a proxy is ignored.
func (c *Client) receivePublished(text []byte) {
	id, rest, _ := strings.Cut(string(text), " ")
	length, rest, ok := strings.Cut(rest, " ")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 0 || n > len(rest) || len(rest) > MessageMax || len(id) != nonceLen {
		return
	}
	c.messages.mu.Lock()
	defer c.messages.mu.Unlock()
	c.messages.receiveLocked(message{strings.Clone(id), rest[:n], rest[n:]}) // a remembered id must not keep the message alive
}

// receiveLocked has the receiver get a message, unless it has got a copy of it.
func (m *messages) receiveLocked(one message) {
	if _, ok := m.seen[one.id]; ok {
		return
	}
	if m.seen == nil {
		m.seen = make(map[string]struct{})
	}
	delete(m.seen, m.ring[m.next])
	m.ring[m.next] = one.id
	m.next = (m.next + 1) % len(m.ring)
	m.seen[one.id] = struct{}{}
	if receiver := m.receiver.Load(); receiver != nil {
		(*receiver)(one.channel, one.payload)
	}
}

// OnMessage has receive called with every message that is published through this client or another one of the same masters.
// It is called on goroutines of the engine, one message after the other; it must not block and must not publish. There is
// one receiver; a later call takes the place of an earlier.
func (c *Client) OnMessage(receive func(channel, payload string)) {
	c.messages.receiver.Store(&receive)
}

// StartPublish sends a message to the receivers of all clients of the same masters, this one included. It does not wait for the masters'
// answers: to.Done is called, possibly before StartPublish returns, once the message is queued for them and the receiver here has got it.
// Under overload both happen later, so publishers are slowed down. Result.Err is a *RequestError if the message is too long, a
// *ShareError if too much waits already.
func (c *Client) StartPublish(op *Op, channel, payload string, to Completer) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	op.to = to
	defer c.receiveOwn()
	c.startMessage(op, channel, payload, &d, func(d *deferred) { c.publishMessageLocked(channel, payload, d) })
}

// Mailbox is by what other clients of the same masters send to this one alone: see StartSend. It is another one in each process.
func (c *Client) Mailbox() string { return c.messages.mailbox }

// StartSend is StartPublish to the receiver of one other client. Whether there is one is not known. Result.Err is also a *RequestError if the
// text cannot be a mailbox.
func (c *Client) StartSend(op *Op, mailbox, channel, payload string, to Completer) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	op.to = to
	if !isHex(mailbox, nonceLen) {
		d.deliver(op, Result{Err: badRequest("%.32q is no mailbox", mailbox)})
		return
	}
	c.startMessage(op, channel, payload, &d, func(d *deferred) {
		c.publishLocked(mailboxChannel(mailbox), textOf(message{nonce(), channel, payload}), d)
	})
}

// startMessage sends a message when there is room. The caller of what is received here, too, calls receiveOwn, without Client.mu, before
// runDeferred: the publisher's answer comes after the receiver has got the message.
func (c *Client) startMessage(op *Op, channel, payload string, d *deferred, send func(d *deferred)) {
	bytes := len(channel) + len(payload)
	if bytes > MessageMax {
		d.deliver(op, Result{Err: badRequest("the message and its channel have %d bytes, at most %d are possible", bytes, MessageMax)})
		return
	}
	begin := func(d *deferred) {
		send(d)
		d.deliver(op, Result{Held: true})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.waitsForRoom() {
		begin(d)
		return
	}
	if err := c.enqueueLocked(op, c.shareOf(op), bytes, 1, begin); err != nil {
		d.deliver(op, Result{Err: err})
	}
}

// publishMessageLocked sends a message to the receivers of all clients. The caller calls receiveOwn, without Client.mu.
func (c *Client) publishMessageLocked(channel, payload string, d *deferred) {
	m := message{nonce(), channel, payload}
	c.messages.own = append(c.messages.own, m)
	c.publishLocked(messagesChannel, textOf(m), d)
}

// textOf is a message as it goes to the masters.
func textOf(m message) string {
	return m.id + " " + strconv.Itoa(len(m.channel)) + " " + m.channel + m.payload
}

// publishLocked publishes a text on a channel of all masters, behind all that was launched before.
func (c *Client) publishLocked(channel, text string, d *deferred) {
	r := &round{verb: verbPublish, token: text, start: d.now}
	r.setKeys(channel)
	c.launchLocked(r, toAll, d)
}
