package redlock

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Messages between clients of all proxies: the wake-up channels of lock libraries. A message goes to every master, as a PUBLISH in the
// lane's order, and comes back to every proxy through its subscribed connections, once per master; the first copy is passed on. So it
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

	// mu guards what follows. It is held while a message is passed on: copies come from several masters at the same time, and messages
	// must not overtake each other there.
	mu   sync.Mutex
	seen map[string]struct{} // by id
	ring [messagesRemembered]string
	next int

	ownMu    sync.Mutex   // guards own; taken last
	own      []message    // published here and not passed on, in the order in which the lanes got them
	ownCount atomic.Int32 // of own
}

// message is one, with the id by which its copies are known.
type message struct{ id, channel, payload string }

// passOwn passes on the messages that were published here. It must be called without Client.mu.
func (m *messages) passOwn() {
	if m.ownCount.Load() == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ownMu.Lock() // while mu is held, so that nobody who takes later ones comes first
	own := m.own
	m.own = nil
	m.ownCount.Store(0)
	m.ownMu.Unlock()
	for _, one := range own {
		m.passOnLocked(one)
	}
}

// passOn hands the message to the receiver, unless its id says that this was done already.
func (m *messages) passOn(one message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passOnLocked(one)
}

func (m *messages) passOnLocked(one message) {
	id := one.id
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
		(*receive)(one.channel, one.payload)
	}
}

// OnMessage has receive called with every message that is published through this client or another one of the same masters.
// It is called on goroutines of the engine, one message after the other; it must not block and must not publish. There is
// one receiver; a later call takes the place of an earlier.
func (c *Client) OnMessage(receive func(channel, payload string)) {
	c.messages.receive.Store(&receive)
}

// StartPublish sends a message to the receivers of all clients of the same masters, this one included. It does not wait for the masters'
// answers: to.Done is called once the message is on its way to them, and the receiver here has been called, possibly before StartPublish
// returns. While the masters have enough to do that is later, and so publishers are slowed down. Result.Err says that the message is
// too long, or that too many wait.
func (c *Client) StartPublish(op *Op, channel, payload string, to Completer) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	op.to = to
	if n := len(channel) + len(payload); n > MessageMax {
		d.deliver(op, Result{Err: badRequest("the message and its channel have %d bytes, at most %d are possible", n, MessageMax)})
		return
	}
	defer c.messages.passOwn()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.waitsForRoom() {
		c.beginPublishLocked(op, channel, payload, &d)
		return
	}
	bytes := len(channel) + len(payload)
	err := c.enqueueLocked(op, c.shareOf(op), costOf(1, bytes), bytes, 1, func(d *deferred) { c.beginPublishLocked(op, channel, payload, d) })
	if err != nil {
		d.deliver(op, Result{Err: err})
	}
}

// beginPublishLocked sends a message for which there is room. The caller calls passOwn, without Client.mu, before it calls runDeferred.
func (c *Client) beginPublishLocked(op *Op, channel, payload string, d *deferred) {
	m := message{nonce(), channel, payload}
	c.messages.ownMu.Lock()
	c.messages.own = append(c.messages.own, m)
	c.messages.ownCount.Add(1)
	c.messages.ownMu.Unlock()
	c.publishLocked(messagesChannel, m.id+" "+strconv.Itoa(len(channel))+" "+channel+payload, d)
	d.deliver(op, Result{Held: true})
}

// Publish is StartPublish for who does not want to be slowed down. The error says that the message is too long, or that too many wait.
func (c *Client) Publish(channel, payload string) error {
	var p publishing
	c.StartPublish(&p.Op, channel, payload, &p)
	err, _ := p.err.Load().(error)
	return err
}

// publishing is a message of which only an error that is there at once is told.
type publishing struct {
	Op
	err atomic.Value
}

// Done implements Completer.
func (p *publishing) Done(_ *Op, result Result) Flusher {
	if result.Err != nil {
		p.err.Store(result.Err)
	}
	return nil
}

// publishLocked publishes a text on a channel of all masters, behind all that was launched before.
func (c *Client) publishLocked(channel, text string, d *deferred) {
	r := &round{verb: verbPublish, token: text, start: d.now}
	r.setKeys(channel)
	c.launchLocked(r, allMasters(len(c.lanes)), d)
}

// heardMessage passes on what came from a master, once. What is not a message of ours is passed over.
func (c *Client) heardMessage(text []byte) {
	id, rest, _ := strings.Cut(string(text), " ")
	length, rest, ok := strings.Cut(rest, " ")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 0 || n > len(rest) || len(rest) > MessageMax || len(id) != nonceLen {
		return
	}
	c.messages.passOn(message{strings.Clone(id), rest[:n], rest[n:]}) // what is remembered must not keep the message alive
}
