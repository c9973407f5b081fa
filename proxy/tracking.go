package proxy

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// CLIENT TRACKING: a client keeps what it has read, and is notified once when that is not true any more
// ("Client-side caching reference" of Redis's documentation). rueidislock waits for a lock in this way.
//
//	read begins ── in progress ── reply ── tracked ─┬─ a change passes through this redlockd ─┬─> invalidate
//	                   │                            └─ the key ends, or trackedMax is over ───┘
//	                   └─ a change: invalidate directly behind the reply
//
// Redis knows of every change of a key. A redlockd knows of those that pass through it, of the end that
// it has read, and of what masters announce, where they can (Redis 6). An announcement may be lost, so
// each tracked read is also invalidated after trackedMax: that is how long a client may take what another
// redlockd has changed for true at most.
//
// Invariants:
//   - An invalidation follows the reply that it is about, on the same connection. One in between would
//     leave the client with an old value for good.
//   - A tracked key is invalidated once, and is then tracked no more until it is read again.
//
// Departures from Redis: BCAST and PREFIX are refused, because the changes of other redlockds are not
// known. A client is not notified that it has extended a key itself: rueidislock extends its lock at
// each invalidation, and would do so without end. More may be invalidated than has changed; clients
// must allow for that.

const (
	// trackedMax is the longest that a read stays tracked.
	trackedMax = time.Second
	// trackedAnnounced is when a read is invalidated after a master has announced a change: the change has
	// reached the others by then.
	trackedAnnounced = 10 * time.Millisecond
	// trackedMin keeps clients that read again at each invalidation from doing so without pause, where a
	// key has all but ended.
	trackedMin = 10 * time.Millisecond
	// trackedBytesMax bounds what the tracked keys of one client may take: their names, and trackedCost
	// for each. A read beyond it is invalidated at once.
	trackedBytesMax = 64 << 10
	// trackedCost is what a tracked key takes beside its name, about.
	trackedCost = 192

	// invalidateChannel is where a RESP2 client gets invalidations, by REDIRECT. Redis's name.
	invalidateChannel = "__redis__:invalidate"
)

// tracking has the tracked keys of all clients. mu may be taken under a connection's mu; no lock is
// taken under it.
type tracking struct {
	// max is trackedMax, or what a test wants instead.
	max time.Duration
	// clients counts the trackers, so that nothing is locked while there are none.
	clients atomic.Int32

	mu sync.Mutex
	// keys finds those who track a key. It has no empty maps.
	keys map[string]map[*tracker]*trackedKey
}

// trackingMode says which reads of a client are tracked.
type trackingMode uint8

const (
	trackAll trackingMode = iota
	trackOptIn
	trackOptOut
)

// tracker is one client with tracking on. tracking.mu guards all but s; the reader goroutine of s,
// which alone writes the options, reads them without it.
type tracker struct {
	s *session
	// redirect is the id of the connection that gets the invalidations; 0: the client's own.
	redirect int64
	mode     trackingMode
	noLoop   bool

	keys  map[string]*trackedKey
	bytes int // what they take
	// off: tracking was turned off, or the client has left.
	off bool
	// broken: the connection of redirect was gone when it should have got something.
	broken bool
	// timer invalidates the keys that end first, at next. nil: there was none yet.
	timer *time.Timer
	next  time.Time // zero: it does not run
}

// trackedKey is a key that a client has read, or is reading.
type trackedKey struct {
	reads   int       // in progress
	changed bool      // while a read was in progress
	end     time.Time // when what was replied last is invalidated; zero: nothing is tracked
}

// trackedReads are the keys that one command in progress reads for a client that tracks.
type trackedReads struct {
	by   *tracker
	keys []string
	// found has for each of keys what it is counted in; nil: beyond trackedBytesMax.
	found []*trackedKey
	// last has for each of keys for how long its state was seen to last. nil: the reply has none of them.
	last []time.Duration
}

// track notes that the command reads these keys, each named once. It must be called before they are
// read, with the session of the slot known, by the reader goroutine. If the command has reads, it may be called again for
// further keys, by the goroutine that works on it.
func (sl *slot) track(keys []string) {
	s := sl.s
	if sl.reads == nil {
		t := s.tracker
		if t == nil || t.mode == trackOptIn && !s.caching || t.mode == trackOptOut && s.caching {
			return
		}
		sl.reads = &trackedReads{by: t}
	}
	all, r := &s.server.tracking, sl.reads
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, key := range keys {
		k := r.by.keys[key]
		if k == nil && !r.by.off && r.by.bytes+len(key)+trackedCost <= trackedBytesMax {
			k = all.addLocked(r.by, key)
		}
		if k != nil {
			k.reads++
		}
		r.keys, r.found = append(r.keys, key), append(r.found, k)
	}
}

func (all *tracking) addLocked(t *tracker, key string) *trackedKey {
	k := new(trackedKey)
	t.keys[key] = k
	t.bytes += len(key) + trackedCost
	if all.keys == nil {
		all.keys = make(map[string]map[*tracker]*trackedKey)
	}
	if all.keys[key] == nil {
		all.keys[key] = make(map[*tracker]*trackedKey)
	}
	all.keys[key][t] = k
	return k
}

// dropIfDoneLocked forgets a key of which nothing is tracked.
func (all *tracking) dropIfDoneLocked(t *tracker, key string, k *trackedKey) {
	if k.reads > 0 || !k.end.IsZero() || t.keys[key] != k {
		return
	}
	delete(t.keys, key)
	t.bytes -= len(key) + trackedCost
	delete(all.keys[key], t)
	if len(all.keys[key]) == 0 {
		delete(all.keys, key)
	}
}

// saw says that the reply is made of these states of the keys, as changes have left them.
func (sl *slot) saw(keys []string, states []redlock.State, changes []redlock.Change) {
	if sl.reads == nil {
		return
	}
	longest := sl.s.server.tracking.max
	sl.reads.last = make([]time.Duration, len(sl.reads.keys))
	for i, key := range sl.reads.keys {
		last := longest
		if at := slices.Index(keys, key); at >= 0 && at < len(states) && states[at].Found && states[at].TTL > 0 {
			last = min(last, max(states[at].TTL, states[at].Ending))
		}
		for j := range changes {
			switch ch := &changes[j]; {
			case ch.Resource != key:
			case ch.Do == redlock.Delete:
				last = longest
			case ch.Do == redlock.Set || ch.Do == redlock.Expire:
				last = min(longest, ch.TTL)
			}
		}
		sl.reads.last[i] = max(last, trackedMin)
	}
}

// finishReads ends the reads of a command whose reply is in out. What has changed meanwhile is
// invalidated behind the reply. Called by complete.
func (sl *slot) finishReads() {
	r := sl.reads
	if r == nil {
		return
	}
	all, t := &sl.s.server.tracking, r.by
	var changed []string
	now := time.Now()
	all.mu.Lock()
	for i, key := range r.keys {
		k := r.found[i]
		if k == nil {
			if r.last != nil && !t.off {
				changed = append(changed, key)
			}
			continue
		}
		k.reads--
		switch {
		case r.last == nil || t.off:
		case k.changed:
			changed, k.end = append(changed, key), time.Time{}
		default:
			if end := now.Add(r.last[i]); k.end.IsZero() || end.Before(k.end) {
				k.end = end
				t.wakeAtLocked(end, now)
			}
		}
		if k.reads == 0 {
			k.changed = false
		}
		all.dropIfDoneLocked(t, key, k)
	}
	redirected := t.redirect != 0
	all.mu.Unlock()
	switch {
	case len(changed) == 0:
	case redirected:
		t.send(changed)
	case sl.proto >= 3 && !sl.silent:
		sl.out = appendInvalidation(sl.out, 3, changed)
	}
}

// notifyChanges has the audit record that the command of the slot has changed keys, and notifies those
// who track them.
func (sl *slot) notifyChanges(changes []redlock.Change) {
	sl.auditChanges(changes)
	if sl.s.server.tracking.clients.Load() == 0 {
		return
	}
	for i := range changes {
		if ch := &changes[i]; ch.Do != redlock.Keep {
			sl.notifyChanged([]string{ch.Resource}, ch.Do == redlock.Expire)
		}
	}
}

// notifyChanged is notifyChanges for keys that have all been changed, or have all been extended.
func (sl *slot) notifyChanged(keys []string, extended bool) {
	all := &sl.s.server.tracking
	if all.clients.Load() == 0 {
		return
	}
	invalid := make(map[*tracker][]string)
	all.mu.Lock()
	for _, key := range keys {
		for t, k := range all.keys[key] {
			own := 0 // reads that see this change themselves
			if t.s == sl.s {
				if extended || t.noLoop {
					continue
				}
				if sl.reads != nil && slices.Contains(sl.reads.keys, key) {
					own = 1
				}
			}
			if k.reads > own {
				k.changed = true
			}
			if !k.end.IsZero() {
				k.end = time.Time{}
				invalid[t] = append(invalid[t], key)
				all.dropIfDoneLocked(t, key, k)
			}
		}
	}
	all.mu.Unlock()
	for t, keys := range invalid {
		t.send(keys)
	}
}

// announced takes note that another client has changed a key on a master.
func (all *tracking) announced(key string) {
	if all.clients.Load() == 0 {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	now := time.Now()
	for t, k := range all.keys[key] {
		if k.reads > 0 {
			k.changed = true
		}
		if end := now.Add(trackedAnnounced); !k.end.IsZero() && k.end.After(end) {
			k.end = end
			t.wakeAtLocked(end, now)
		}
	}
}

// wakeAtLocked has the timer run at the end of a key, if it would run later.
func (t *tracker) wakeAtLocked(end, now time.Time) {
	switch {
	case t.timer == nil:
		t.timer = time.AfterFunc(end.Sub(now), t.ended)
	case t.next.IsZero() || end.Before(t.next):
		t.timer.Reset(end.Sub(now))
	default:
		return
	}
	t.next = end
}

// ended invalidates the keys whose end has come.
func (t *tracker) ended() {
	all := &t.s.server.tracking
	var keys []string
	all.mu.Lock()
	now := time.Now()
	t.next = time.Time{}
	var next time.Time
	for key, k := range t.keys {
		switch {
		case k.end.IsZero():
		case k.end.After(now):
			if next.IsZero() || k.end.Before(next) {
				next = k.end
			}
		default:
			k.end = time.Time{}
			keys = append(keys, key)
			all.dropIfDoneLocked(t, key, k)
		}
	}
	if !next.IsZero() && !t.off {
		t.wakeAtLocked(next, now)
	}
	all.mu.Unlock()
	if len(keys) > 0 {
		t.send(keys)
	}
}

// send sends an invalidation. It does not block.
func (t *tracker) send(keys []string) {
	all := &t.s.server.tracking
	all.mu.Lock()
	redirect := t.redirect
	all.mu.Unlock()
	to, redirected := t.s, redirect != 0
	if redirected {
		conn := t.s.server.client(redirect)
		gone := conn == nil || conn.closed.Load()
		all.mu.Lock()
		t.broken = gone
		all.mu.Unlock()
		if gone {
			t.s.conn.push(true, func(s *session) (b []byte) {
				if s.proto >= 3 {
					b = resp.AppendPush(b, s.proto, 2)
					b = resp.AppendBulkString(b, "tracking-redir-broken")
					b = resp.AppendInt(b, redirect)
				}
				return b
			})
			return
		}
		to = conn.session
	}
	to.conn.push(true, func(s *session) []byte {
		if s.proto < 3 && !(redirected && slices.Contains(s.subscriptions.names[toChannel], invalidateChannel)) {
			return nil // as in Redis: a client that cannot take it gets nothing
		}
		return appendInvalidation(nil, s.proto, keys)
	})
}

// appendInvalidation appends the message that these keys have changed: a push in RESP3, and a message
// of invalidateChannel in RESP2.
func appendInvalidation(b []byte, proto int, keys []string) []byte {
	if proto >= 3 {
		b = resp.AppendPush(b, proto, 2)
		b = resp.AppendBulkString(b, "invalidate")
	} else {
		b = resp.AppendArray(b, 3)
		b = resp.AppendBulkString(b, "message")
		b = resp.AppendBulkString(b, invalidateChannel)
	}
	b = resp.AppendArray(b, len(keys))
	for _, key := range keys {
		b = resp.AppendBulkString(b, key)
	}
	return b
}

// forget ends the tracking of a client that has left or turned it off.
func (all *tracking) forget(s *session) {
	all.mu.Lock()
	defer all.mu.Unlock()
	t := s.tracker
	if t == nil {
		return
	}
	s.tracker, t.off = nil, true
	all.clients.Add(-1)
	if t.timer != nil {
		t.timer.Stop()
	}
	for key := range t.keys {
		delete(all.keys[key], t)
		if len(all.keys[key]) == 0 {
			delete(all.keys, key)
		}
	}
	t.keys, t.bytes = nil, 0
}
