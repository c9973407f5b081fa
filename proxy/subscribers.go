package proxy

import (
	"slices"
	"strings"
	"sync"

	"redlockd/proxy/access"
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// Messages on their way to subscribers. The engine hands over each message once (deliver), and each
// client gets it behind all that is to be sent to it already. Nobody waits for a client: one that does
// not read is closed at outputMax.
//
// A message is encoded once for all who get it in the same protocol version, and a long one is not
// copied either: a message for ten thousand clients costs its bytes once.

const (
	// patternBytesMax bounds the patterns of all clients together, each counted once however many have
	// it: every message that is published on any redlockd is compared with all of them, which takes a
	// time of their length times that of the channel's name.
	patternBytesMax = 64 << 10

	// channelMax bounds the name of a channel that a message is sent to: that of a resource, and as
	// much again around it. See patternBytesMax.
	channelMax = 2 * redlock.MaxResourceLen
)

// subscribers finds the clients that a message is for. mu is taken after a connection's mu; no other
// lock is taken under it.
type subscribers struct {
	mu sync.Mutex
	// of has the subscribers of each kind by name, and no empty sets.
	of [2]map[string]map[*session]struct{}
	// patternBytes is the sum over the patterns, at most patternBytesMax.
	patternBytes int
}

// add subscribes the client to all of these names, or to none: then it returns the error. The client
// must not have any of them yet.
func (subs *subscribers) add(s *session, kind subscription, names []string) (refusal error) {
	subs.mu.Lock()
	defer subs.mu.Unlock()
	m := subs.of[kind]
	if kind == toPattern {
		bytes := subs.patternBytes
		for _, name := range names {
			if m[name] == nil {
				bytes += len(name)
			}
		}
		if bytes > patternBytesMax {
			return errorf("ERR the patterns of all clients may have %d bytes here, and would have %d", patternBytesMax, bytes)
		}
		subs.patternBytes = bytes
	}
	if m == nil {
		m = make(map[string]map[*session]struct{})
		subs.of[kind] = m
	}
	for _, name := range names {
		if m[name] == nil {
			m[name] = make(map[*session]struct{})
		}
		m[name][s] = struct{}{}
	}
	return nil
}

// remove ends one subscription, which the client must have.
func (subs *subscribers) remove(s *session, kind subscription, name string) {
	subs.mu.Lock()
	defer subs.mu.Unlock()
	m := subs.of[kind]
	delete(m[name], s)
	if len(m[name]) == 0 {
		delete(m, name)
		if kind == toPattern {
			subs.patternBytes -= len(name)
		}
	}
}

// forget ends all subscriptions of a client that has left.
func (subs *subscribers) forget(s *session) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	subs.forgetLocked(s)
}

// forgetLocked is forget with s.conn.mu held.
func (subs *subscribers) forgetLocked(s *session) {
	for kind, names := range s.subscriptions.names {
		for _, name := range names {
			subs.remove(s, subscription(kind), name)
		}
	}
}

// framedMessage is one message as subscribers get it: those of its channel, or those of a pattern that
// matches. Owned by the goroutine that delivers; only the bytes of its frames are shared.
type framedMessage struct {
	message
	// kind and name are the subscription: to the channel, or to a pattern that matches.
	kind subscription
	name string
	// frames has the message in RESP2 and RESP3, once they are needed.
	frames [2][]byte
}

// frame is the message as the session gets it, encoded at the first call for its protocol version; nil
// if it has unsubscribed meanwhile. The bytes must not be changed: clients share them. Called with the
// connection's mu held.
func (m *framedMessage) frame(s *session) []byte {
	if !slices.Contains(s.subscriptions.names[m.kind], m.name) {
		return nil
	}
	proto, b := s.proto, &m.frames[s.proto-2]
	if *b != nil {
		return *b
	}
	if m.kind == toPattern {
		*b = resp.AppendPush(*b, proto, 4)
		*b = resp.AppendBulkString(*b, "pmessage")
		*b = resp.AppendBulkString(*b, m.name)
	} else {
		*b = resp.AppendPush(*b, proto, 3)
		*b = resp.AppendBulkString(*b, "message")
	}
	*b = resp.AppendBulkString(*b, m.channel)
	*b = resp.AppendBulkString(*b, m.payload)
	return *b
}

// delivery is one message for one client.
type delivery struct {
	to    *session
	frame func(*session) []byte
}

// deliver pushes a message to all clients of this server that are subscribed: once for the channel, and
// once for each pattern that matches. It never waits. A client that does not read its messages is
// closed when more than outputMax waits for it, or when more than OutputTotal waits for all and most of
// that is for it.
func (subs *subscribers) deliver(channel, payload string) {
	subs.mu.Lock()
	var deliveries []delivery
	add := func(kind subscription, name string) {
		frame := (&framedMessage{message: message{channel, payload}, kind: kind, name: name}).frame
		for s := range subs.of[kind][name] {
			deliveries = append(deliveries, delivery{s, frame})
		}
	}
	add(toChannel, channel)
	for pattern := range subs.of[toPattern] {
		if access.Match(pattern, channel) {
			add(toPattern, pattern)
		}
	}
	subs.mu.Unlock()
	// With subs.mu free again, because it is taken after a connection's mu.
	for _, d := range deliveries {
		if channel != redlock.LostChannel || d.to.user().May(payload) {
			d.to.conn.push(false, d.frame)
		}
	}
}

// count is how many deliveries a message of the channel would be. A client that gets it twice, by its
// channel and by a pattern, counts twice, as in Redis.
func (subs *subscribers) count(channel string) int {
	subs.mu.Lock()
	defer subs.mu.Unlock()
	n := len(subs.of[toChannel][channel])
	for pattern, sessions := range subs.of[toPattern] {
		if access.Match(pattern, channel) {
			n += len(sessions)
		}
	}
	return n
}

// subscriptions are what one client has subscribed to. The zero value is none.
type subscriptions struct {
	names [2][]string // of each kind, each once, in the order of subscription
	bytes int         // what they take, at most subscriptionBytesMax
}

// count is the number that every confirmation bears.
func (subs *subscriptions) count() int {
	return len(subs.names[toChannel]) + len(subs.names[toPattern])
}

// subscription is a kind of subscription.
type subscription uint8

const (
	toChannel subscription = iota
	toPattern
)

// messageRefusal is the error for a message that cannot be published, or nil. It is checked here
// because the bound of a channel's name is this package's, and because a script must know before it is
// committed.
func messageRefusal(channel, payload string) error {
	switch n := len(channel) + len(payload); {
	case strings.HasPrefix(channel, redlock.ReservedPrefix):
		return errorf("ERR channels that begin with %s are kept for redlockd itself", redlock.ReservedPrefix)
	case len(channel) > channelMax:
		return errorf("ERR the name of the channel has %d bytes, at most %d are possible", len(channel), channelMax)
	case n > redlock.MessageMax:
		return errorf("ERR the message and its channel have %d bytes, at most %d are possible", n, redlock.MessageMax)
	}
	return nil
}

// message is what a script publishes.
type message struct{ channel, payload string }

// size is what a message counts where bytes are bounded.
func (m *message) size() int { return len(m.channel) + len(m.payload) + messageOverhead }
