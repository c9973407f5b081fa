package keyspace

import "redlockd/redlock"

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

	// Blind is true if some key was written before anything was known of it, also where that changed nothing.
	Blind bool

	// Unguarded is a change of a key that held something which the run did not compare, and so could be
	// another's lock; or nil.
	Unguarded *redlock.Change

	// Endless is a change after which the key would have no TTL, so that it would never end if its
	// holder dies; or nil. The engine refuses it.
	Endless *redlock.Change
}

// Outcome sums up the run so far.
func (s *Space) Outcome() Outcome {
	o := Outcome{Changes: make([]redlock.Change, 0, len(s.keys))}
	for i := range s.keys {
		k := &s.keys[i]
		o.ReadTTL = o.ReadTTL || k.sawTTL
		o.Blind = o.Blind || k.blind
		if k.foreign() || !k.sawExistence && !k.wroteValue && !k.wroteEnd {
			continue
		}
		o.Changes = append(o.Changes, k.change(s.now))
		ch := &o.Changes[len(o.Changes)-1]
		if ch.Do == redlock.Keep {
			continue
		}
		o.Writes = true
		if ch.Do == redlock.Set && !k.wroteEnd && k.was.Found {
			o.ReadTTL = true // the new value keeps the old TTL
		}
		if o.Endless == nil && ch.Do != redlock.Delete && k.end == 0 {
			o.Endless = ch
		}
		// Who sets the value that is there anyway knows whose the key is.
		if o.Unguarded == nil && k.was.Found && !k.sawValue && !(k.wroteValue && k.held && k.value == k.was.Value) {
			o.Unguarded = ch
		}
	}
	return o
}

// change compares a key's states before and after the run.
func (k *key) change(now int64) redlock.Change {
	ch := redlock.Change{Resource: k.name, Was: redlock.WasAbsent}
	if k.was.Found {
		ch.Was, ch.Value = redlock.WasValue, k.was.Value
	}
	switch {
	case k.held && k.wroteValue && (!k.was.Found || k.value != k.was.Value):
		ch.Do, ch.NewValue = redlock.Set, k.value
	case k.held && k.wroteEnd:
		ch.Do = redlock.Expire
	case k.was.Found && !k.held:
		ch.Do = redlock.Delete
	}
	if k.end != 0 && (ch.Do == redlock.Set || ch.Do == redlock.Expire) {
		ch.TTL = Duration(k.end - now)
	}
	return ch
}
