package proxy

import (
	"fmt"
	"strings"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/sandbox"
)

const (
	// scriptKeysMax is how many keys a script may declare.
	scriptKeysMax = 64
	// scriptReplyMax bounds a script's reply, in bytes: what all its keys can hold, and as much again. One client can have a
	// thousand scripts on their way.
	scriptReplyMax = 128 << 10
)

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

// size is what a message counts where bytes are bounded.
func (m *message) size() int { return len(m.channel) + len(m.payload) + messageOverhead }

// scriptRefusal ends a script that is not one of a lock, also inside pcall. Its text is that of the error reply.
type scriptRefusal struct{ error }

func (e *scriptRefusal) Unwrap() error { return e.error }

func refuse(format string, args ...any) error {
	return &scriptRefusal{fmt.Errorf("ERR "+format, args...)}
}

// runScript runs a script on keys, to which it is said that they are those of declared, and argv. It calls nobody and keeps nothing.
func runScript(pool *sandbox.Pool, script *sandbox.Script, declared []string, ks *keyspace, argv []string, limits sandbox.Limits) outcome {
	for _, name := range declared {
		if strings.HasPrefix(name, redlock.ReservedPrefix) {
			return outcome{refused: refuse("key %.200q: names that begin with %s are redlockd's own", name, redlock.ReservedPrefix)}
		}
	}
	ks.readOnly = script.NoWrites
	seed := uint64(ks.clock.UnixNano()) // a run that is repeated with the same time draws the same random numbers
	reply, err := pool.Run(script, sandbox.Run{Keys: declared, Argv: argv, Caller: ks, Limits: limits, Seed: seed, Spent: &ks.spent})
	if err != nil {
		if _, ok := err.(*scriptRefusal); !ok {
			err = refuse("the script cannot run here: %w", err)
		}
		return outcome{refused: err, spent: ks.spent}
	}
	if n := replyBytes(&reply); n > scriptReplyMax {
		return outcome{refused: refuse("the script's reply takes %d bytes, at most %d are possible", n, scriptReplyMax), spent: ks.spent}
	}
	return ks.outcome(reply)
}

// replyBytes is what a reply takes here until it is sent.
func replyBytes(r *sandbox.Reply) int {
	n := 64 + len(r.Text)
	for i := range r.Elems {
		n += replyBytes(&r.Elems[i])
	}
	return n
}

// outcome is what a script has done.
func (ks *keyspace) outcome(reply sandbox.Reply) outcome {
	o := outcome{reply: reply, published: ks.published, readTime: ks.readTime, blind: ks.blind, spent: ks.spent}
	for i := range ks.keys {
		k := &ks.keys[i]
		if k.read.existence || k.read.ttl {
			o.reads = append(o.reads, k.read)
			o.readTTL = o.readTTL || k.read.ttl
		}
		if w := k.write(ks.now); w.kind != writeNone {
			o.writes = append(o.writes, w)
		}
	}
	return o
}

// write compares a key's states before and after.
func (k *keyState) write(now int64) keyWrite {
	w := keyWrite{key: k.name, blind: k.blind}
	ttl := int64(0)
	if k.end != 0 {
		ttl = max(k.end-now, 1)
	}
	switch {
	case !k.wroteValue && !k.wroteEnd:
	case !k.held && !k.was.Found && k.read.existence: // it came and went
	case !k.held:
		w.kind = writeDelete
	// A value that is the old one is still a write if the old one was only assumed.
	case k.wroteValue && (!k.was.Found || k.value != k.was.Value || !k.read.value):
		w.kind, w.value, w.ttl = writeSet, k.value, ttl
		w.keepTTL = !k.wroteEnd && (k.was.Found || !k.read.existence) // what is not known to be absent may have a TTL
	case !k.wroteEnd: // SET KEEPTTL of the value that was read
	case k.end != 0:
		w.kind, w.ttl = writeExpire, ttl
	default: // also if it had none: that may have been only assumed
		w.kind = writePersist
	}
	return w
}
