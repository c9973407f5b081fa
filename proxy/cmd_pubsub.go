package proxy

import (
	"slices"
	"strings"

	"redlockd/proxy/access"
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// The commands of Pub/Sub, for the wake-up channels of lock libraries, and for clients that subscribe
// as a part of their handshake. A message reaches the subscribers of all redlockds over the same
// masters (redlock/publish.go); like Redis's own it is not stored, and not promised. No lock depends on
// one. subscribers.go finds the clients that a message is for.
//
// A session's subscriptions and the maps of subscribers say the same: both change with the session's
// conn.mu held.

// Bounds of subscriptions and messages. At each bound the command is refused, and changes nothing.
const (
	// subscriptionBytesMax bounds what one client's subscriptions may take here: their names, and
	// subscriptionCost for each.
	subscriptionBytesMax = 64 << 10
	// subscriptionCost is what a subscription takes beside its name, about: its places in the maps.
	subscriptionCost = 64
)

// subscribed and unsubscribed name the replies to a subscription of a kind, and to its end.
var subscribed, unsubscribed = [...]string{"subscribe", "psubscribe"}, [...]string{"unsubscribe", "punsubscribe"}

func cmdSUBSCRIBE(s *session, c *call) error    { return subscribe(s, c, toChannel, s.user().MayChannel) }
func cmdUNSUBSCRIBE(s *session, c *call) error  { return unsubscribe(s, c, toChannel) }
func cmdPSUBSCRIBE(s *session, c *call) error   { return subscribe(s, c, toPattern, s.user().MayMatch) }
func cmdPUNSUBSCRIBE(s *session, c *call) error { return unsubscribe(s, c, toPattern) }

// subscribe subscribes to all of the names, or to none. It answers each name with a message of its own,
// as Redis does: in RESP3 that is a push.
func subscribe(s *session, c *call, kind subscription, may func(name string) bool) error {
	for _, arg := range c.args[1:] {
		if refusal := patternRefusal(arg); refusal != nil && kind == toPattern {
			return refusal
		}
		if !may(string(arg)) && !forAll(string(arg)) {
			return noPermission(s.user(), "channel", string(arg))
		}
		if refusal := silentRefusal(string(arg), kind); refusal != nil {
			return refusal
		}
	}
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	names := &s.subscriptions.names[kind]
	bytes := s.subscriptions.bytes
	var added []string
	for _, arg := range c.args[1:] {
		if !slices.Contains(*names, string(arg)) && !slices.Contains(added, string(arg)) {
			added = append(added, string(arg))
			bytes += len(arg) + subscriptionCost
		}
	}
	if bytes > subscriptionBytesMax {
		return errorf("ERR the subscriptions of one client may take %d bytes here, and would take %d", subscriptionBytesMax, bytes)
	}
	if refusal := s.server.subscribers.add(s, kind, added); refusal != nil {
		return refusal
	}
	s.subscriptions.bytes = bytes
	count := s.subscriptions.count()
	var out []byte
	for _, arg := range c.args[1:] {
		if len(added) > 0 && added[0] == string(arg) {
			*names, added = append(*names, added[0]), added[1:]
			count++
		}
		out = appendSubscription(out, c.proto, subscribed[kind], arg, count)
	}
	if s.silent() {
		out = nil
	}
	c.confirmLocked(out)
	return nil
}

// silentRefusal is the error for a channel that never carries a message here, or for a pattern that can
// only be meant for such channels; nil for others. A client that waits for one of them would wait for
// ever and not know why.
func silentRefusal(name string, kind subscription) error {
	literal := name
	if at := strings.IndexAny(name, `*?[\`); kind == toPattern && at >= 0 {
		literal = name[:at]
	}
	switch {
	case strings.HasPrefix(literal, "__keyevent@"), strings.HasPrefix(literal, "__keyspace@"),
		kind == toPattern && strings.HasPrefix(literal, "__key") && (strings.HasPrefix("__keyevent@", literal) || strings.HasPrefix("__keyspace@", literal)):
		return refusedf(reasonNotifications, "ERR redlockd sends no keyspace notifications, so the subscription %.200q would never get a message: LOCK with WAIT waits until a lock ends, "+
			"CLIENT TRACKING tells when a key changes, %s tells of held locks that are lost", name, redlock.LostChannel)
	case strings.HasPrefix(literal, redlock.ReservedPrefix) && !(literal == redlock.LostChannel || kind == toPattern && access.Match(name, redlock.LostChannel)):
		return errorf("ERR of the channels that begin with %s, clients get the messages of %s alone", redlock.ReservedPrefix, redlock.LostChannel)
	}
	return nil
}

// forAll reports whether every user may subscribe to the channel: it gets only what concerns it there.
func forAll(channel string) bool {
	return channel == invalidateChannel || channel == redlock.LostChannel
}

// unsubscribe answers each name with a message of its own, whether there was such a subscription or
// not. Without names it ends all subscriptions of the kind, and answers one message if there were none,
// with null as the name. What the client has published before this still comes to itself, as in Redis.
func unsubscribe(s *session, c *call, kind subscription) error {
	c.awaitReplies()
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	names := &s.subscriptions.names[kind]
	args := c.args[1:]
	if len(args) == 0 {
		if len(*names) == 0 {
			c.out = appendSubscription(c.out, c.proto, unsubscribed[kind], nil, s.subscriptions.count())
			return nil
		}
		args = nil // a new array: c.args belongs to the session
		for _, name := range *names {
			args = append(args, []byte(name))
		}
	}
	for _, arg := range args {
		s.endSubscriptionLocked(c, kind, arg)
	}
	return nil
}

// endSubscriptionLocked ends a subscription, if there is one of this name, and says that there is none.
func (s *session) endSubscriptionLocked(c *call, kind subscription, name []byte) {
	names := &s.subscriptions.names[kind]
	if i := slices.Index(*names, string(name)); i >= 0 {
		*names = slices.Delete(*names, i, i+1)
		s.subscriptions.bytes -= len(name) + subscriptionCost
		s.server.subscribers.remove(s, kind, string(name))
	}
	c.out = appendSubscription(c.out, c.proto, unsubscribed[kind], name, s.subscriptions.count())
}

// endSubscriptionsLocked ends the subscriptions that the session's new user may not have. Their
// messages of UNSUBSCRIBE come before the reply of the login. This departs from Redis, where AUTH keeps
// all subscriptions.
func (s *session) endSubscriptionsLocked(c *call) {
	for _, kind := range []subscription{toChannel, toPattern} {
		may := s.user().MayChannel
		if kind == toPattern {
			may = s.user().MayMatch
		}
		for _, name := range slices.Clone(s.subscriptions.names[kind]) {
			if !may(name) && !forAll(name) {
				s.endSubscriptionLocked(c, kind, []byte(name))
			}
		}
	}
}

// cmdPUBLISH is PUBLISH channel message. The reply counts the subscribers of this server alone, as that
// of a node of a Redis Cluster does: those of other redlockds are not known.
func cmdPUBLISH(s *session, c *call) error {
	channel, payload := string(c.args[1]), string(c.args[2])
	refusal := messageRefusal(channel, payload)
	if refusal == nil && !s.user().MayChannel(channel) {
		refusal = noPermission(s.user(), "channel", channel)
	}
	if refusal != nil {
		return refusal
	}
	here := s.server.subscribers.count(channel)
	// It is answered when the message has been sent to the masters, so that a client that publishes
	// more than they can take is slowed down.
	p := &operation{then: func(p *operation, _ redlock.Result) {
		s.afterPublish(p.account)
		p.out = resp.AppendInt(p.out, int64(here))
	}}
	c.takeSlot(&p.slot)
	p.startPublish(&p.op, channel, payload, p)
	return nil
}

// appendSubscription appends the message that confirms one subscription, or its end. A nil name is
// null.
func appendSubscription(b []byte, proto int, event string, name []byte, count int) []byte {
	b = resp.AppendPush(b, proto, 3)
	b = resp.AppendBulkString(b, event)
	if name == nil {
		b = resp.AppendNull(b, proto)
	} else {
		b = resp.AppendBulk(b, name)
	}
	return resp.AppendInt(b, int64(count))
}
