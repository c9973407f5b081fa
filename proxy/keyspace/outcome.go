package keyspace

import (
	"slices"
	"time"

	"redlockd/redlock"
)

// Outcome is what a run has done to its keys. Nothing of it has happened yet.
type Outcome struct {
	// Changes has one entry for each key that the run has read or written, in the order of the Space's
	// keys: what the key must hold still, and what becomes of it. A key of another type than string has
	// none, because it cannot be compared.
	//
	// Invariant: if all guards of Changes hold, a run on the truth would give the same reply and the
	// same changes; but for TTLs, see ReadTTL.
	Changes []redlock.Change

	// Writes is true if one of Changes changes something.
	Writes bool

	// ReadTTL is true if the TTL of some key went into a reply or a change. The guards do not compare
	// TTLs, so such a run must not be committed if the TTL was only assumed.
	ReadTTL bool

	// Blind is true if some key was written before anything was known of it, also where that changed
	// nothing.
	Blind bool

	// Missing has the keys that commands have named beside those of New. They were taken to be absent,
	// which nobody has looked at.
	Missing []string

	// Collections is true if a command for hashes, sets or sorted sets, or one on a counter, was executed:
	// several clients may change these at the same time.
	Collections bool

	// Unguarded has the keys that the run changes although they held something which it did not compare,
	// and which so could be another's lock: see Space.touch.
	Unguarded []Unguarded

	// Timed are the keys whose end the run has set. Other changes leave a key the end that it has.
	Timed []string
	// Endless is a change after which the key would have no TTL, so that it would never end if its
	// holder dies; or nil. The engine refuses it.
	Endless *redlock.Change
}

// Unguarded is a change of a key by a command that did not compare what the key held.
type Unguarded struct {
	Key string
	// Command is its name in lower case, and Instead is what to use in its place.
	Command, Instead string
}

// Outcome sums up the run so far.
func (s *Space) Outcome() Outcome {
	o := Outcome{Changes: make([]redlock.Change, 0, len(s.keys)), Collections: s.collections}
	for i := range s.keys {
		k := &s.keys[i]
		if i >= s.given {
			o.Missing = append(o.Missing, k.name)
		}
		o.ReadTTL = o.ReadTTL || k.sawTTL
		o.Blind = o.Blind || k.blind
		if k.foreign() || !k.sawExistence && !k.wroteValue && !k.wroteEnd {
			continue
		}
		o.Changes = append(o.Changes, s.change(k))
		ch := &o.Changes[len(o.Changes)-1]
		if ch.Do == redlock.Keep {
			continue
		}
		o.Writes = true
		if k.wroteEnd {
			o.Timed = append(o.Timed, k.name)
		}
		if ch.Do == redlock.Set && !k.wroteEnd && k.was.Found {
			o.ReadTTL = true // the new value keeps the old TTL
		}
		if o.Endless == nil && ch.Do != redlock.Delete && k.end == 0 {
			o.Endless = ch
		}
		if k.unguarded != nil {
			o.Unguarded = append(o.Unguarded, *k.unguarded)
		}
	}
	return o
}

// change compares a key's states before and after the run.
func (s *Space) change(k *key) redlock.Change {
	ch := redlock.Change{Resource: k.name, Was: redlock.WasAbsent}
	if k.was.Found {
		ch.Was, ch.Value, ch.Seen = redlock.WasValue, k.was.Value, k.was.Seen
	}
	held, becomes := k.kind != nothing, ""
	// Each of several members may be somebody who counts on the end of the key, and guards do not
	// compare ends. So a new end is a new value there: who has read the old end, to set the longest
	// of several, does not set that behind the new one.
	shared := k.wroteEnd && len(k.collection.members) > 1
	if held && (k.wroteValue || shared) {
		becomes = s.becomes(k, shared)
	}
	switch {
	case held && (k.wroteValue || shared) && (!k.was.Found || becomes != k.was.Value):
		ch.Do, ch.NewValue = redlock.Set, becomes
		ch.Leaves = s.leaves(k)
	case held && k.wroteEnd:
		ch.Do = redlock.Expire
	case k.was.Found && !held:
		ch.Do = redlock.Delete
	}
	if ch.Do == redlock.Set || ch.Do == redlock.Expire {
		if k.end != 0 {
			ch.TTL = Duration(k.end - s.now)
			if shared {
				ch.TTL = s.sparing(ch.TTL)
			}
		}
		if k.kind > text || k.kind == text && k.collection.kind == text {
			ch.BornMs = k.collection.born
		}
	}
	return ch
}

// leaves reports whether members have left the collection, and nobody has joined it.
func (s *Space) leaves(k *key) bool {
	before, ok := decode(k.was.Value)
	return ok && k.kind > text && len(k.collection.members) < len(before.members) && !k.collection.joined(&before)
}

// sparing is the TTL of a key of several holders, for a run that asks for ttl. That may follow from
// ends which the run has read. These are sure, but their holders may count on later ones, by up to the
// spread. So the key lives for longer by the largest spread, but not beyond the latest end that any of
// these holders counts on. Others are excluded for longer than the run asks for, which is safe.
func (s *Space) sparing(ttl time.Duration) time.Duration {
	var spread, latest time.Duration
	for i := range s.keys {
		if k := &s.keys[i]; k.sawTTL && k.was.Found && k.was.TTL >= 0 {
			spread, latest = max(spread, k.was.Spread), max(latest, k.was.TTL+k.was.Spread)
		}
	}
	return max(ttl, min(ttl+spread, latest))
}

// becomes is what a key that was written holds on the masters: a string, or an envelope. Members that
// are what they were leave the envelope as it was, unless it is to be renewed.
func (s *Space) becomes(k *key, renewed bool) string {
	if k.kind == text && !k.counts && !k.endless {
		return k.value
	}
	if k.kind == text {
		k.collection = counterOf(k.value)
	}
	before, _ := decode(k.was.Value)
	c := &k.collection
	if c.kind == before.kind && slices.Equal(c.members, before.members) {
		c.born = before.born
		if !renewed {
			return k.was.Value
		}
	}
	if c.born = before.born; c.joined(&before) {
		c.born = s.now
	}
	var random [redlock.VersionLen]byte
	s.Random(random[:])
	was := ""
	if before.kind != nothing {
		was = k.was.Value
	}
	return c.encode(redlock.NextVersion(random, was))
}
