package keyspace

import (
	"fmt"
	"time"

	"redlockd/redlock"
)

// Space is a Redis that has some keys only, for one run: of a client's command, of a transaction, or of
// a script. What commands do to it has not happened yet: see Outcome. It is for one goroutine.
type Space struct {
	// DefaultTTL is given to a key that would have no TTL, if it is not 0. Set it before the first command.
	DefaultTTL time.Duration

	// KeepEnded has SET keep a key whose new end has passed already; the engine then refuses the
	// commit. It is set for clients, because the reply OK would mean a lock that has ended. Without it
	// the key is removed, as in Redis.
	KeepEnded bool

	// keys are in the order of New.
	keys []key
	now  int64 // ms since 1970; it stands still during the run, as the time does for a script in Redis
	// call is the command that Call executes, and named are the keys of the present command. They are
	// kept to spare allocations.
	call  Command
	named []*key
}

// key is one key of a Space. Times are in ms since 1970.
type key struct {
	name string
	// was is what the key held before the run, or was assumed to hold.
	was *redlock.State

	// held is true if the key holds something now, which may be of another type than string.
	held  bool
	value string
	// end is when the key ends; 0: never.
	end int64

	// What the run has learned. A reply that reports whether something was there counts: that of DEL, say.
	sawExistence bool
	sawValue     bool // or what follows from the value: its length, or that it is not what was asked for
	sawTTL       bool

	// What the run has written, also if that is what had been there, because what had been there may
	// only be assumed.
	wroteValue bool
	wroteEnd   bool
	// blind is true if the key was written by a command without a condition, before anything was known of it.
	blind bool
}

// assumedTTL is the TTL of a key that is only assumed to exist. What depends on it is not committed:
// see Outcome.ReadTTL.
const assumedTTL = time.Millisecond

// absent is the state of a key that does not exist.
var absent = redlock.State{Type: "none"}

// New makes a Space of keys, each once, in these states, for a run at now. The states must not change
// during the run.
func New(keys []string, states []redlock.State, now time.Time) *Space {
	s := &Space{now: now.UnixMilli(), keys: make([]key, len(keys))}
	for i, name := range keys {
		st := &states[i]
		s.keys[i] = key{name: name, was: st, held: st.Found, value: st.Value}
		if st.Found && st.TTL >= 0 {
			s.keys[i].end = s.now + st.TTL.Milliseconds()
		}
	}
	return s
}

// Do executes a command. The error is an *UnknownKeyError: then nothing of the run counts.
func (s *Space) Do(c *Command) (Reply, error) {
	s.named = s.named[:0]
	for _, name := range c.Keys() {
		k := s.find(name)
		if k == nil {
			return null, &UnknownKeyError{name}
		}
		s.named = append(s.named, k)
	}
	if c.definition.text && s.named[0].foreign() {
		return wrongType, nil
	}
	return c.definition.run(s, c, s.named), nil
}

// Call is Parse and Do in one, for a script: an error of Parse is a reply.
func (s *Space) Call(name string, args []string) (Reply, error) {
	if refusal := s.call.parse(name, args); refusal != "" {
		return failure(refusal), nil
	}
	return s.Do(&s.call)
}

// UnknownKeyError is returned for a command that names a key which is none of the Space's.
type UnknownKeyError struct{ Key string }

func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("the key %.200q is none of this run", e.Key)
}

// find returns the key of a name; nil if there is none. There are few.
func (s *Space) find(name string) *key {
	for i := range s.keys {
		if s.keys[i].name == name {
			return &s.keys[i]
		}
	}
	return nil
}

// Guard has the changes compare a key of the Space although no command reads it: one that is watched.
func (s *Space) Guard(name string) {
	if k := s.find(name); k != nil {
		k.sawExistence, k.sawValue = true, true
	}
}

// foreign reports whether the key holds something that is no lock. That can be neither changed nor compared.
func (k *key) foreign() bool { return k.was.Found && k.was.Type != "string" }

// The ways in which commands touch a key. Each notes what the changes have to compare.

// readValue returns the value, for a reply or to compare it. A key of another type has none.
func (k *key) readValue() (value string, held bool) {
	k.sawValue, k.sawExistence = true, true
	return k.value, k.held && !k.foreign()
}

// exists reports whether the key holds anything, of whatever type.
func (k *key) exists() bool {
	k.sawExistence = true
	return k.held
}

// readEnd tells when the key ends, 0 for never. The key must exist.
func (k *key) readEnd() int64 {
	k.sawTTL = true
	return k.end
}

// writeBlindly notes that a command without a condition is going to write the key. It comes before the
// command reads anything.
func (k *key) writeBlindly() {
	if !k.sawExistence {
		k.blind = true
	}
}

// set gives a key a value and an end, 0 for none.
func (s *Space) set(k *key, value string, end int64) {
	k.held, k.value, k.wroteValue = true, value, true
	if s.KeepEnded {
		s.setEnd(k, end)
	} else {
		s.expire(k, end)
	}
}

// setKeepingEnd gives a key a value, and leaves it the end that it has.
func (s *Space) setKeepingEnd(k *key, value string) {
	k.held, k.value, k.wroteValue = true, value, true
	if k.end == 0 && s.DefaultTTL != 0 {
		s.setEnd(k, 0)
	}
}

// remove deletes the key. Its old TTL is gone with it: a SET KEEPTTL behind it finds none.
func (k *key) remove() {
	k.held, k.value, k.end = false, "", 0
	k.wroteValue, k.wroteEnd = true, true
}

// expire gives a key that exists an end, 0 for none. One that has passed removes the key.
func (s *Space) expire(k *key, end int64) {
	if end != 0 && end <= s.now {
		k.remove()
		return
	}
	s.setEnd(k, end)
}

// setEnd gives a key an end, 0 for none. It never removes the key.
func (s *Space) setEnd(k *key, end int64) {
	if end == 0 && s.DefaultTTL != 0 {
		end = s.now + s.DefaultTTL.Milliseconds()
	}
	k.end, k.wroteEnd = end, true
}
