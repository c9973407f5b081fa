package proxy

import (
	"strings"
	"time"
)

// ownPrefix begins the names of keys that redlock keeps on the masters for itself.
const ownPrefix = "redlockd:"

// keyspace is a Redis that has the declared keys of one script only, for one run. It is the sandbox.Caller of that run.
type keyspace struct {
	keys      []keyState
	now       int64 // ms; stands still, as the time does for a script in Redis
	clock     time.Time
	published []message
	readTime  bool
	blind     bool
	readOnly  bool // commands that write are errors
	spent     time.Duration
}

// keyState is one key. Times are absolute, in ms of the Unix epoch; 0 is none.
type keyState struct {
	name string

	held  bool
	value string
	end   int64

	before struct {
		held  bool
		value string
		end   int64
	}
	read keyRead
	// What was written, also if it was what had been there: it may be that this was only assumed.
	wroteValue, wroteEnd, blind bool
}

func newKeyspace(keys []scriptKey, now time.Time) (*keyspace, error) {
	if len(keys) > scriptKeysMax {
		return nil, refuse("the script has %d keys: scripts here can have %d", len(keys), scriptKeysMax)
	}
	ks := &keyspace{now: now.UnixMilli(), clock: now, keys: make([]keyState, 0, len(keys))}
	for _, k := range keys {
		if strings.HasPrefix(k.name, ownPrefix) {
			return nil, refuse("key %.200q: names that begin with %s are redlockd's own", k.name, ownPrefix)
		}
		if ks.find(k.name) != nil {
			continue
		}
		s := keyState{name: k.name, read: keyRead{key: k.name}}
		if k.held {
			s.held, s.value = true, k.value
			if k.ttl > 0 {
				s.end = ks.now + k.ttl
			}
		}
		s.before.held, s.before.value, s.before.end = s.held, s.value, s.end
		ks.keys = append(ks.keys, s)
	}
	return ks, nil
}

// find returns nil for a key that is not declared. There are few.
func (ks *keyspace) find(name string) *keyState {
	for i := range ks.keys {
		if ks.keys[i].name == name {
			return &ks.keys[i]
		}
	}
	return nil
}

// key is a key that a command names, or the refusal of it.
func (ks *keyspace) key(name string) (*keyState, error) {
	if k := ks.find(name); k != nil {
		return k, nil
	}
	if strings.HasPrefix(name, ownPrefix) {
		return nil, refuse("the script uses the key %.200q: names that begin with %s are redlockd's own", name, ownPrefix)
	}
	return nil, refuse("the script uses the key %.200q, which is not among its KEYS: pass every key of a lock script as a key", name)
}

// The ways in which commands touch a key. Each notes what the caller of the run has to know.

func (k *keyState) readValue() (value string, held bool) {
	k.read.value, k.read.existence = true, true
	return k.value, k.held
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

// time is what the run takes the time to be.
func (ks *keyspace) time() time.Time { return ks.clock }

// unconditional notes a write before anything else is noted of it: a write by a command that has no condition of its own.
func (ks *keyspace) unconditional(k *keyState) {
	if !k.read.existence {
		k.blind, ks.blind = true, true
	}
}

func (k *keyState) set(value string, end int64) {
	k.held, k.value, k.end = true, value, end
	k.wroteValue, k.wroteEnd = true, true
}

// setKeepingEnd is set without a new end.
func (k *keyState) setKeepingEnd(value string) {
	k.held, k.value, k.wroteValue = true, value, true
}

func (k *keyState) remove() {
	k.held, k.value, k.end = false, "", 0
	k.wroteValue, k.wroteEnd = true, true
}

// expire gives a key that exists an end, 0 for none. One that has passed removes it.
func (k *keyState) expire(end, now int64) {
	if end != 0 && end <= now {
		k.remove()
		return
	}
	k.end, k.wroteEnd = end, true
}
