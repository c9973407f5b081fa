package redlock

import (
	"bytes"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"redlockd/redlock/member"
	"redlockd/redlock/quorum"
)

// Messages between all proxies over the same masters. They are of two kinds: those of clients, the
// wake-ups of lock libraries for example, and those of redlockd itself, on channels that begin with
// ReservedPrefix, which act on clients and servers: LostChannel, and what package proxy sends. A
// message goes to every master as a PUBLISH, in the order of the lanes, and every proxy gets one copy
// from each master over its subscribed connections (wait_invalidations.go).
//
// A client's message acts with its first copy, so it arrives if one master is reached by both sides.
// One master can also make it up: that costs those who get it a try, and Redis promises its subscribers
// no more. A message of redlockd's own acts when a quorum of the masters has delivered the same text,
// as a forced release does (op_force.go), so no master can speak for a redlockd. The quorum is one of
// the masters that are members when the copy comes.
//
// Like Redis's own, messages are not stored and not promised. One that too few masters deliver is lost,
// and nobody may wait for one without a limit.
//
// Order: two messages of one kind from one publisher are received in the order in which they were
// launched, because every lane and every master keeps it, and a proxy receives one message at a time
// (messages.mu). There are two exceptions: if a master loses the first of them, the second may be
// received earlier; and a client's message may be received before one of redlockd's own that was
// launched before it.
//
// A message to one client alone (StartSend) goes the same way, on a channel that only this client has
// subscribed to.

// messagesChannel is the channel of the masters on which all messages travel. Proxies of all versions
// share it, so its value stays.
const messagesChannel = ReservedPrefix + "messages"

// mailboxChannel is the channel of the masters that only the client with this mailbox has subscribed
// to.
func mailboxChannel(mailbox string) string { return messagesChannel + ":" + mailbox }

// MessageMax bounds a message and its channel's name together, in bytes.
const MessageMax = 32 << 10

// messagesRemembered is how many messages a proxy remembers of those that one master was the first to
// deliver, to know their other copies. All copies of a message come within moments. If so many others
// come between them, a client's message is received a second time, and one of redlockd's own needs a
// quorum among the copies that come later.
const messagesRemembered = 8192

// messages is the receiving side of a Client. It knows the masters, and nothing of locks. Lock order:
// messages.mu, then Client.mu.
type messages struct {
	fleet *fleet
	gate  *sync.Mutex // Client.mu
	// mailbox is by what others send to this client alone, and channel its channel.
	mailbox, channel string
	receiver         atomic.Pointer[func(channel, payload string)]
	// seed makes sums of texts that no sender can foresee.
	seed maphash.Seed

	// mu is held while the receiver runs: copies come from several masters at the same time, and messages
	// must not overtake each other.
	mu sync.Mutex
	// known are the messages that are remembered.
	known map[messageKey]copies
	// remembered has the keys of known by the place of the master that delivered the message first. So
	// a master that sends very many pushes out only what it was the first to deliver.
	remembered [MaxMasters + 1]messageRing

	// own are messages that were published here and are not received here yet, in the order of the lanes.
	// Client.mu guards it.
	own []message
}

func (m *messages) init(f *fleet, gate *sync.Mutex) {
	m.fleet, m.gate = f, gate
	m.mailbox = member.Nonce()
	m.channel = mailboxChannel(m.mailbox)
	m.seed = maphash.MakeSeed()
}

// message is one that is published here, and its text for the masters.
type message struct{ text, channel, payload string }

// messageKey identifies the copies of one message: by the id, and by a sum of the whole text. A copy
// with another text under the same id is another message: it does not count for the true one, and does
// not keep it out.
type messageKey struct {
	id  [member.NonceLen]byte
	sum uint64
}

// copies says which copies of one message have come.
type copies struct {
	by    quorum.Mask // the places that have delivered one
	acted bool        // the receiver has got the message
}

// ownPlace is the place of this client among the masters that deliver messages.
const ownPlace = MaxMasters

// messageRing has the last messagesRemembered keys, the oldest at next once there are so many.
type messageRing struct {
	keys []messageKey
	next int
}

// add adds a key. forgotten is the one that gives way to it, or zero.
func (r *messageRing) add(key messageKey) (forgotten messageKey) {
	if len(r.keys) < messagesRemembered {
		r.keys = append(r.keys, key)
		return messageKey{}
	}
	forgotten, r.keys[r.next] = r.keys[r.next], key
	r.next = (r.next + 1) % messagesRemembered
	return forgotten
}

// receiveOwn has the receiver get the messages that were published here. It must be called without
// Client.mu.
func (m *messages) receiveOwn() {
	m.mu.Lock() // first, so that nobody who takes later messages comes before us
	defer m.mu.Unlock()
	m.gate.Lock()
	own := m.own
	m.own = nil
	m.gate.Unlock()
	for _, one := range own {
		key := messageKey{[member.NonceLen]byte([]byte(one.text[:member.NonceLen])), maphash.String(m.seed, one.text)}
		if m.countLocked(key, ownPlace, quorum.Mask(0).With(ownPlace), 1) {
			m.receiveLocked(one.channel, one.payload)
		}
	}
}

// receivePublished takes a copy of a message from a master, and has the receiver get the message if it
// acts with this copy. What is not a message of a proxy is ignored.
func (m *messages) receivePublished(from *lane, text []byte) {
	id, rest, _ := bytes.Cut(text, []byte(" "))
	length, rest, ok := bytes.Cut(rest, []byte(" "))
	n, err := strconv.Atoi(string(length))
	if !ok || err != nil || n < 0 || n > len(rest) || len(rest) > MessageMax || len(id) != member.NonceLen {
		return
	}
	channel, payload := rest[:n], rest[n:]
	key := messageKey{[member.NonceLen]byte(id), maphash.Bytes(m.seed, text)} //mutant:another-text-under-the-id-counts
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.fleet.view.Load()
	if from.index >= len(v.lanes) || v.lanes[from.index] != from { //mutant:a-former-master-delivers-messages
		return
	}
	enough := 1
	if bytes.HasPrefix(channel, []byte(ReservedPrefix)) {
		enough = v.Quorum() //mutant:one-master-speaks-for-redlockds
	}
	if m.countLocked(key, from.index, v.Masters, enough) {
		m.receiveLocked(string(channel), string(payload))
	}
}

// countLocked counts a copy from the place. It tells whether the message acts with this copy, which it
// does once: when enough of these places have delivered it.
func (m *messages) countLocked(key messageKey, place int, places quorum.Mask, enough int) bool {
	known, ok := m.known[key]
	if known.acted { //mutant:each-copy-of-a-message-acts
		return false
	}
	if !ok {
		if m.known == nil {
			m.known = make(map[messageKey]copies)
		}
		forgotten := m.remembered[place].add(key) //mutant:a-flood-has-all-messages-forgotten
		delete(m.known, forgotten)                //mutant:forgotten-messages-stay
	}
	known.by = known.by.With(place)                     //mutant:copies-of-one-master-count-each
	known.acted = (known.by & places).Count() >= enough //mutant:copies-of-former-masters-count
	m.known[key] = known
	return known.acted
}

// receiveLocked has the receiver get a message.
func (m *messages) receiveLocked(channel, payload string) {
	if receiver := m.receiver.Load(); receiver != nil {
		(*receiver)(channel, payload)
	}
}

// OnMessage has receive called with every message that is published through this client or another one
// of the same masters. It is called on goroutines of the engine, one message after the other; it must
// not block and must not publish. There is one receiver; a later call takes the place of an earlier.
func (c *Client) OnMessage(receive func(channel, payload string)) {
	c.messages.receiver.Store(&receive)
}

// StartPublish sends a message to the receivers of all clients of the same masters, this one included.
// It does not wait for the masters' answers: to.Done is called, possibly before StartPublish returns,
// once the message is queued for them and the receiver here has got it. Under overload both happen
// later, so publishers are slowed down. Result.Err is a *RequestError if the message is too long, a
// *ShareError if too much waits already.
func (c *Client) StartPublish(op *Op, channel, payload string, to Completer) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	op.to = to
	defer c.messages.receiveOwn()
	c.startMessage(op, channel, payload, &d, func(d *deferred) { c.publishMessageLocked(channel, payload, d) })
}

// Mailbox is by what other clients of the same masters send to this one alone: see StartSend. It is
// another one in each process.
func (c *Client) Mailbox() string { return c.messages.mailbox }

// StartSend is StartPublish to the receiver of one other client. Whether there is one is not known.
// Result.Err is also a *RequestError if the text cannot be a mailbox.
func (c *Client) StartSend(op *Op, mailbox, channel, payload string, to Completer) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	op.to = to
	if !member.IsHex(mailbox, member.NonceLen) {
		d.deliver(op, Result{Err: badRequest("%.32q is no mailbox", mailbox)})
		return
	}
	c.startMessage(op, channel, payload, &d, func(d *deferred) {
		c.rounds.publish(mailboxChannel(mailbox), newMessage(channel, payload).text, d)
	})
}

// startMessage sends a message when there is room. The caller of what is received here, too, calls
// receiveOwn, without Client.mu, before runDeferred: the publisher's answer comes after the receiver
// has got the message.
func (c *Client) startMessage(op *Op, channel, payload string, d *deferred, send func(d *deferred)) {
	bytes := len(channel) + len(payload)
	if bytes > MessageMax {
		d.deliver(op, Result{Err: badRequest("the message and its channel have %d bytes, at most %d are possible", bytes, MessageMax)})
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startLocked(op, bytes, func(_ *Client, op *Op, d *deferred) {
		send(d)
		d.deliver(op, Result{Held: true})
	}, d)
}

// publishMessageLocked sends a message to the receivers of all clients. The caller calls receiveOwn,
// without Client.mu.
func (c *Client) publishMessageLocked(channel, payload string, d *deferred) {
	m := newMessage(channel, payload)
	c.messages.own = append(c.messages.own, m)
	c.rounds.publish(messagesChannel, m.text, d)
}

// newMessage makes a message with an id of its own.
func newMessage(channel, payload string) message {
	return message{member.Nonce() + " " + strconv.Itoa(len(channel)) + " " + channel + payload, channel, payload}
}
