package proxy

import (
	"fmt"
	"strings"
	"time"

	"redlockd/redlock/sandbox"
)

// scriptKeysMax is how many keys a script may declare.
const scriptKeysMax = 64

// ownPrefix begins the names of keys that redlock keeps on the masters for itself.
const ownPrefix = "redlockd:"

// scriptKey is what a script is run on: one of its KEYS, and the state that it is assumed to be in.
type scriptKey struct {
	name  string
	held  bool // the key exists, with value
	value string
	ttl   int64 // ms that are left; 0: no TTL
}

// outcome is what a script did to its keys. Nothing of it has happened yet: the caller decides whether the state that the
// script saw is the true one, and commits the writes together with that condition.
type outcome struct {
	reply sandbox.Reply

	reads     []keyRead  // the keys that something was learned about, in the order of KEYS
	writes    []keyWrite // the keys that end in another state than they began, in the order of KEYS
	published []message

	readTTL  bool // what is left of some key's TTL went into the run: it must not have been a guess
	readTime bool // so did the time
	blind    bool // some key was written before anything was known of it, also where that changed nothing

	spent time.Duration // of the run's limit of time

	// refused says why this is no script of a lock, or that it met a limit. Then nothing else of the outcome counts: what the
	// script would have gone on to do is not known. Its text is an error reply.
	refused error
}

// keyRead says what a run learned about a key. A reply that tells whether something was there counts: of DEL, say.
type keyRead struct {
	key       string
	value     bool // or something that follows from the value: its length, or that it is not what was asked for
	existence bool // only this is known where value is false
	ttl       bool
}

type writeKind uint8

const (
	writeNone    writeKind = iota
	writeSet               // value, and ttl or none
	writeDelete            //
	writeExpire            // the value stays, ttl is new
	writePersist           // the value stays, the TTL is taken away
)

// keyWrite is how a key's final state differs from the one that it began with.
type keyWrite struct {
	key     string
	value   string // of writeSet
	ttl     int64  // ms from the time of the run, at least 1; 0: none (of writeSet)
	kind    writeKind
	keepTTL bool // of writeSet: the TTL is the key's old one, whatever that is
	blind   bool // nothing was known of the key when it was first written
}

type message struct{ channel, payload string }

// scriptRefusal ends a script that is not one of a lock, also inside pcall.
type scriptRefusal struct{ why error }

func (e *scriptRefusal) Error() string { return "ERR " + e.why.Error() }
func (e *scriptRefusal) Unwrap() error { return e.why }

func refuse(format string, args ...any) error { return &scriptRefusal{fmt.Errorf(format, args...)} }

// scriptState is a Redis that has the declared keys of one script only, for one run. It is the sandbox.Caller of that run.
type scriptState struct {
	keys      []stateKey
	now       int64 // ms; stands still, as the time does for a script in Redis
	clock     time.Time
	published []message
	readTime  bool
	blind     bool
	readOnly  bool // commands that write are errors
	spent     time.Duration
}

// stateKey is one key. Times are absolute, in ms of the Unix epoch; 0 is none.
type stateKey struct {
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

// runScript runs a script on keys, which are its KEYS in their order, and argv. A key that comes twice is in the state
// of the first. now is the time for TIME and for what is relative to it. It calls nobody and keeps nothing.
func runScript(pool *sandbox.Pool, script *sandbox.Script, keys []scriptKey, argv []string, now time.Time, limits sandbox.Limits) outcome {
	st, err := newScriptState(keys, now)
	if err != nil {
		return outcome{refused: err}
	}
	st.readOnly = script.NoWrites
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	seed := uint64(now.UnixNano()) // a run that is repeated with the same time draws the same random numbers
	reply, err := pool.Run(script, sandbox.Run{Keys: names, Argv: argv, Caller: st, Limits: limits, Seed: seed, Spent: &st.spent})
	if err != nil {
		if _, ok := err.(*scriptRefusal); !ok {
			err = refuse("the script cannot run here: %w", err)
		}
		return outcome{refused: err, spent: st.spent}
	}
	return st.outcome(reply)
}

func newScriptState(keys []scriptKey, now time.Time) (*scriptState, error) {
	if len(keys) > scriptKeysMax {
		return nil, refuse("the script has %d keys: scripts here can have %d", len(keys), scriptKeysMax)
	}
	st := &scriptState{now: now.UnixMilli(), clock: now, keys: make([]stateKey, 0, len(keys))}
	for _, k := range keys {
		if strings.HasPrefix(k.name, ownPrefix) {
			return nil, refuse("key %.200q: names that begin with %s are redlockd's own", k.name, ownPrefix)
		}
		if st.find(k.name) != nil {
			continue
		}
		s := stateKey{name: k.name, read: keyRead{key: k.name}}
		if k.held {
			s.held, s.value = true, k.value
			if k.ttl > 0 {
				s.end = st.now + k.ttl
			}
		}
		s.before.held, s.before.value, s.before.end = s.held, s.value, s.end
		st.keys = append(st.keys, s)
	}
	return st, nil
}

// find returns nil for a key that is not declared. There are few.
func (st *scriptState) find(name string) *stateKey {
	for i := range st.keys {
		if st.keys[i].name == name {
			return &st.keys[i]
		}
	}
	return nil
}

// key is a key that a command names, or the refusal of it.
func (st *scriptState) key(name string) (*stateKey, error) {
	if k := st.find(name); k != nil {
		return k, nil
	}
	if strings.HasPrefix(name, ownPrefix) {
		return nil, refuse("the script uses the key %.200q: names that begin with %s are redlockd's own", name, ownPrefix)
	}
	return nil, refuse("the script uses the key %.200q, which is not among its KEYS: pass every key of a lock script as a key", name)
}

// The ways in which commands touch a key. Each notes what the caller of the run has to know.

func (k *stateKey) readValue() (value string, held bool) {
	k.read.value, k.read.existence = true, true
	return k.value, k.held
}

func (k *stateKey) exists() bool {
	k.read.existence = true
	return k.held
}

// endsAt tells what is left of the TTL; only for a key that exists.
func (k *stateKey) endsAt() int64 {
	k.read.ttl = true
	return k.end
}

// time is what the run takes the time to be.
func (st *scriptState) time() time.Time { return st.clock }

// unconditional notes a write before anything else is noted of it: a write by a command that has no condition of its own.
func (st *scriptState) unconditional(k *stateKey) {
	if !k.read.existence {
		k.blind, st.blind = true, true
	}
}

func (k *stateKey) set(value string, end int64) {
	k.held, k.value, k.end = true, value, end
	k.wroteValue, k.wroteEnd = true, true
}

// setKeepingEnd is set without a new end.
func (k *stateKey) setKeepingEnd(value string) {
	k.held, k.value, k.wroteValue = true, value, true
}

func (k *stateKey) remove() {
	k.held, k.value, k.end = false, "", 0
	k.wroteValue, k.wroteEnd = true, true
}

// expire gives a key that exists an end, 0 for none. One that has passed removes it.
func (k *stateKey) expire(end, now int64) {
	if end != 0 && end <= now {
		k.remove()
		return
	}
	k.end, k.wroteEnd = end, true
}

func (st *scriptState) outcome(reply sandbox.Reply) outcome {
	o := outcome{reply: reply, published: st.published, readTime: st.readTime, blind: st.blind, spent: st.spent}
	for i := range st.keys {
		k := &st.keys[i]
		if k.read.existence || k.read.ttl {
			o.reads = append(o.reads, k.read)
			o.readTTL = o.readTTL || k.read.ttl
		}
		if w := k.write(st.now); w.kind != writeNone {
			o.writes = append(o.writes, w)
		}
	}
	return o
}

// write compares a key's states before and after.
func (k *stateKey) write(now int64) keyWrite {
	w := keyWrite{key: k.name, blind: k.blind}
	ttl := int64(0)
	if k.end != 0 {
		ttl = max(k.end-now, 1)
	}
	switch {
	case !k.wroteValue && !k.wroteEnd:
	case !k.held && !k.before.held && k.read.existence: // it came and went
	case !k.held:
		w.kind = writeDelete
	// A value that is the old one is still a write if the old one was only assumed.
	case k.wroteValue && (!k.before.held || k.value != k.before.value || !k.read.value):
		w.kind, w.value, w.ttl = writeSet, k.value, ttl
		w.keepTTL = !k.wroteEnd && (k.before.held || !k.read.existence) // what is not known to be absent may have a TTL
	case !k.wroteEnd: // SET KEEPTTL of the value that was read
	case k.end != 0:
		w.kind, w.ttl = writeExpire, ttl
	default: // also if it had none: that may have been only assumed
		w.kind = writePersist
	}
	return w
}
