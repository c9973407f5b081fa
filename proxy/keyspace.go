package proxy

import (
	"errors"
	"strings"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/arguments"
	"redlockd/redlock/sandbox"
)

// keyspace is a Redis that has some keys only, for one run: of a script, whose sandbox.Caller it is, or of what a client sends. What
// commands do to it has not happened yet: see outcome and changes.
type keyspace struct {
	keys  []keyState
	now   int64 // ms; stands still, as the time does for a script in Redis
	clock time.Time

	// client: it is no script that is run. What would have no TTL gets lifetime, in ms, if there is one. What would end at once
	// is not removed: the engine refuses such a TTL, and who wants a lock is told so.
	client   bool
	lifetime int64

	// Of a script.
	readOnly       bool  // commands that write are errors
	user           *User // who may publish on some channels only, or nil
	readTime       bool
	blind          bool
	published      []message
	publishedBytes int // of them
	spent          time.Duration
}

// keyCommand executes a command on keys. args begin with its name, and are as many as it may have.
type keyCommand func(ks *keyspace, args []string) (sandbox.Reply, error)

// keyState is one key. Times are absolute, in ms of the Unix epoch; 0 is none.
type keyState struct {
	name string
	was  *redlock.State // before the run

	held  bool // by a value, or by something of another type
	value string
	end   int64

	read keyRead
	// What was written, also if it was what had been there: it may be that this was only assumed.
	wroteValue, wroteEnd, blind bool
}

// newKeyspace has keys, each once, in these states.
func newKeyspace(keys []string, states []redlock.State, now time.Time) *keyspace {
	ks := &keyspace{now: now.UnixMilli(), clock: now, keys: make([]keyState, len(keys))}
	for i, name := range keys {
		st := &states[i]
		ks.keys[i] = keyState{name: name, was: st, held: st.Found, value: st.Value, read: keyRead{key: name}}
		if st.Found && st.TTL >= 0 {
			ks.keys[i].end = ks.now + st.TTL.Milliseconds()
		}
	}
	return ks
}

// key is a key that a command names, or the refusal of it. Those of a client's command are all there, and there are few.
func (ks *keyspace) key(name string) (*keyState, error) {
	for i := range ks.keys {
		if ks.keys[i].name == name {
			return &ks.keys[i], nil
		}
	}
	if strings.HasPrefix(name, redlock.ReservedPrefix) {
		return nil, refuse("the script uses the key %.200q: names that begin with %s are redlockd's own", name, redlock.ReservedPrefix)
	}
	return nil, refuse("the script uses the key %.200q, which is not among its KEYS: pass every key of a lock script as a key", name)
}

// text is key for a command that is for strings only.
func (ks *keyspace) text(name string) (*keyState, error) {
	k, err := ks.key(name)
	if err == nil && k.foreign() {
		return nil, errWrongType
	}
	return k, err
}

// errWrongType is the reply to a client's command. A script is not run on such keys.
var errWrongType = errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")

// foreign: it holds something that is no lock. That can be neither changed nor compared.
func (k *keyState) foreign() bool { return k.was.Found && k.was.Type != "string" }

// The ways in which commands touch a key. Each notes what the caller of the run has to know.

func (k *keyState) readValue() (value string, held bool) {
	k.read.value, k.read.existence = true, true
	return k.value, k.held && !k.foreign()
}

func (k *keyState) exists() bool {
	k.read.existence = true
	return k.held
}

// endsAt tells what is left of the TTL; only for a key that exists.
func (k *keyState) endsAt() int64 {
	k.read.ttl = true
	return k.end
}

// unconditional notes a write before anything else is noted of it: a write by a command that has no condition of its own.
func (ks *keyspace) unconditional(k *keyState) {
	if !k.read.existence {
		k.blind, ks.blind = true, true
	}
}

// set gives a key a value and an end, 0 for none.
func (ks *keyspace) set(k *keyState, value string, end int64) {
	k.held, k.value, k.wroteValue = true, value, true
	if ks.client {
		ks.setEnd(k, end)
	} else {
		ks.expire(k, end)
	}
}

// setKeepingEnd is set without a new end.
func (ks *keyspace) setKeepingEnd(k *keyState, value string) {
	k.held, k.value, k.wroteValue = true, value, true
	if k.end == 0 && ks.lifetime != 0 {
		ks.setEnd(k, 0)
	}
}

func (k *keyState) remove() {
	k.held, k.value, k.end = false, "", 0
	k.wroteValue, k.wroteEnd = true, true
}

// expire gives a key that exists an end, 0 for none. One that has passed removes it.
func (ks *keyspace) expire(k *keyState, end int64) {
	if end != 0 && end <= ks.now {
		k.remove()
		return
	}
	ks.setEnd(k, end)
}

func (ks *keyspace) setEnd(k *keyState, end int64) {
	if end == 0 && ks.lifetime != 0 {
		end = ks.now + ks.lifetime
	}
	k.end, k.wroteEnd = end, true
}

// changes are what commands of a client have done. All keys are guarded by what they held before, also those that were only read: so
// the replies of a transaction are true of one moment. real: something changes.
func (ks *keyspace) changes() (changes []redlock.Change, real bool) {
	changes = make([]redlock.Change, 0, len(ks.keys))
	for i := range ks.keys {
		k := &ks.keys[i]
		if k.foreign() {
			continue
		}
		ch := redlock.Change{Resource: k.name, Was: redlock.WasAbsent}
		if k.was.Found {
			ch.Was, ch.Value = redlock.WasValue, k.was.Value
		}
		ttl := time.Duration(0) // none, which the engine refuses
		if k.end != 0 {
			ttl = arguments.Duration(k.end - ks.now)
		}
		switch {
		case k.held && (!k.was.Found || k.value != k.was.Value):
			ch.Do, ch.NewValue, ch.TTL = redlock.Set, k.value, ttl
		case k.held && (k.wroteValue || k.wroteEnd):
			ch.Do, ch.TTL = redlock.Expire, ttl
		case k.was.Found && !k.held:
			ch.Do = redlock.Delete
		}
		real = real || ch.Do != redlock.Keep
		changes = append(changes, ch)
	}
	return changes, real
}
