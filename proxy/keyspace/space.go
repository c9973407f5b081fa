package keyspace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"redlockd/redlock"
)

// Space is a Redis that has some keys only, for one run: of a client's command, of a transaction, or of
// a script. What commands do to it has not happened yet: see Outcome. It is for one goroutine.
type Space struct {
	// DefaultTTL, unless 0, is given to a key that would have no TTL. Set it before the first command.
	DefaultTTL time.Duration

	// KeepEnded has SET keep a key whose new end has passed already; the engine then refuses the
	// commit. It is set for clients, because the reply OK would mean a lock that has ended. Without it
	// the key is removed, as in Redis.
	KeepEnded bool

	// Random fills b with random bytes, as crypto/rand.Read does: for the versions of envelopes. It
	// must be set if commands can change counters, hashes, sets or sorted sets.
	Random func(b []byte) (n int, err error)

	// Unseen: nobody sees a reply before the run ends, as behind MULTI. So what a command reads compares
	// nothing for those behind it.
	Unseen bool

	// KeysMax is how many keys commands may name, those of New among them. The others are taken to be
	// absent, and the Outcome lists them. 0: only those of New.
	KeysMax int

	// keys are in the order of New. Those that commands have added follow.
	keys []key
	// given is how many are of New.
	given int
	now   int64 // ms since 1970; it stands still during the run, as the time does for a script in Redis
	// collections is true once a command for hashes, sets or sorted sets, or one on a counter, was executed.
	collections bool
	// tooLarge is the error of a command that has made a value larger than the bounds allow; or nil.
	tooLarge error
	// present is the command that is executed.
	present *Command
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

	// kind says what the key holds now.
	kind kind
	// value is the string that it holds, if its kind is text.
	value string
	// counts: the string is a counter, which INCR has made.
	counts bool
	// endless: the string is a number that was set without an end, which no lock is. It is a counter
	// unless it gets an end in this run.
	endless bool
	// collection is what it holds, if its kind is hash, set or zset. Nobody shares its members.
	collection collection
	// end is when the key ends; 0: never.
	end int64

	// What the run has learned. A reply that reports whether something was there counts, as that of
	// DEL.
	sawExistence bool
	sawValue     bool // or what follows from the value: its length, or that it is not what was asked for
	sawTTL       bool

	// What the run has written, also if that is what had been there, because what had been there may
	// only be assumed.
	wroteValue bool
	wroteEnd   bool
	// blind: a command without a condition wrote the key, before anything was known of it.
	blind bool

	// Whether the sender knows whose the key is, see touch.

	// compared: the sender has compared what the key holds, or could have.
	compared bool
	// watched: the sender compared it before the run. See Guard.
	watched bool
	// made: the run has made the key.
	made bool
	// unguarded is the first command that changed what it did not compare; nil: none did.
	unguarded *Unguarded
}

// assumedTTL is the TTL of a key that is only assumed to exist. What depends on it is not committed:
// see Outcome.ReadTTL.
const assumedTTL = time.Millisecond

// absent is the state of a key that does not exist.
var absent = redlock.State{Type: "none"}

// New makes a Space of keys, each once, in these states, for a run at now. The states must not change
// during the run.
func New(keys []string, states []redlock.State, now time.Time) *Space {
	s := &Space{now: now.UnixMilli(), keys: make([]key, len(keys)), given: len(keys)}
	for i, name := range keys {
		st := &states[i]
		s.keys[i] = key{name: name, was: st}
		s.keys[i].open()
		if st.Found && st.TTL >= 0 {
			s.keys[i].end = s.now + st.TTL.Milliseconds()
		}
	}
	return s
}

// ShowDigests has commands see a digest in the place of each string, member and value of a field, for
// who may look at locks and not end them: a reply that is made of these, a length or the answer to a
// guess tells nothing of a token. Counters stay, for INCR alone makes them. Guards compare what the keys
// hold in truth. It comes before the first command, and none may write.
func (s *Space) ShowDigests(digest func(key, text string) string) {
	for i := range s.keys {
		k := &s.keys[i]
		if k.kind == text && !k.counts {
			k.value = digest(k.name, k.value)
		}
		if k.kind <= text {
			continue
		}
		for j := range k.collection.members {
			m := &k.collection.members[j]
			if m.name = digest(k.name, m.name); k.kind == hash {
				m.value = digest(k.name, m.value)
			}
		}
		slices.SortFunc(k.collection.members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	}
}

// open finds out what the key held before the run.
func (k *key) open() {
	switch {
	case !k.was.Found:
	case k.was.Type != kindNames[text]:
		k.kind = other
	case !strings.HasPrefix(k.was.Value, envelopeMark):
		k.kind, k.value = text, k.was.Value
	default:
		k.kind = other
		if c, ok := decode(k.was.Value); ok {
			k.kind, k.collection = c.kind, c
			if k.kind == text {
				k.value, k.counts = c.members[0].name, true
			}
		}
	}
}

// Do executes a command. After an error, *UnknownKeyError, *TooLargeError or refusedError, nothing of the
// run counts.
func (s *Space) Do(c *Command) (Reply, error) {
	if err := s.name(c.Keys()); err != nil {
		return null, err
	}
	on := c.definition.on
	s.present, s.collections = c, s.collections || on > text || on == text && s.named[0].counts
	if s.Unseen {
		for _, k := range s.named {
			k.compared = false
		}
	}
	if on != nothing && !s.named[0].is(on) {
		if on > text && s.named[0].foreign() {
			return foreign, nil
		}
		return wrongType, nil
	}
	return c.definition.run(s, c, s.named), s.tooLarge
}

// name makes the keys of these names those of the present command.
func (s *Space) name(names []string) error {
	s.named = s.named[:0]
	for _, name := range names {
		k := s.find(name)
		if k == nil {
			if len(s.keys) >= s.KeysMax {
				return &UnknownKeyError{name}
			}
			s.keys = append(s.keys, key{name: name, was: &absent})
			return s.name(names) // the keys may have moved
		}
		s.named = append(s.named, k)
	}
	return nil
}

// Call is Parse and Do in one, for a script: an error of Parse is a reply. What Redis would do, and is
// not served here, is an error, or the script would go on as no Redis has it go on.
func (s *Space) Call(name string, args []string) (Reply, error) {
	switch refusal := s.call.parse(name, args); refusal {
	case "":
	case errByLex:
		return null, refusedError(refusal)
	default:
		return failure(refusal), nil
	}
	return s.Do(&s.call)
}

// UnknownKeyError is returned for a command that names a key which is none of the Space's, and for
// which it has no room.
type UnknownKeyError struct{ Key string }

func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("the key %.200q is none of this run", e.Key)
}

// refusedError is returned for what Redis would do and is not served here, although the command is. Its
// text is an error reply.
type refusedError string

func (e refusedError) Error() string { return string(e) }

// TooLargeError is returned for a command that would make a value larger than the bounds allow. Its text is
// an error reply.
type TooLargeError struct {
	// String: the value is a string, and not a collection.
	String bool
	text   string
}

func (e *TooLargeError) Error() string { return e.text }

// refuseSize ends the run of a command that would make a value larger than the bounds allow.
func (s *Space) refuseSize(k *key, format string, args ...any) {
	s.tooLarge = &TooLargeError{k.kind == text, fmt.Sprintf("ERR key %.200q would %s", k.name, fmt.Sprintf(format, args...))}
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
		k.sawExistence, k.sawValue, k.watched = true, true, true
	}
}

// touch comes before each change of what the key holds, and of its end. It is the one rule by which a
// command is refused that could change another's lock: what the key holds decides, not the command. What
// it holds belongs to somebody, unless the run has made it. So the sender must have compared it: by a
// condition of the command on the value, by WATCH, or by a reading before, whose reply a script can look
// at. A change that does not follow is listed in Outcome.Unguarded.
//
// A command that is new here need not be thought of: whatever it changes through the methods below
// comes by here, and compares nothing unless it says so.
func (s *Space) touch(k *key) {
	switch {
	case k.kind == nothing:
		k.made = true
	case k.made || k.compared || k.watched || k.unguarded != nil:
	default:
		k.unguarded = &Unguarded{Key: k.name, Command: s.present.name, Instead: s.present.definition.instead}
	}
}

// foreign reports whether the key holds no lock. That can be neither changed nor compared.
func (k *key) foreign() bool { return k.kind == other }

// is reports whether a command for one kind can be executed on the key, which holds that or nothing.
// The commands themselves note what they read.
func (k *key) is(kind kind) bool {
	if k.kind == nothing || k.kind == kind {
		return true
	}
	k.sawExistence = true
	return false
}

// The ways in which commands touch a key. Each notes what the changes have to compare.

// readValue returns the string that the key holds, for a reply or to compare it. A key of another type
// has none.
func (k *key) readValue() (value string, held bool) {
	k.compared = true
	return k.takeValue()
}

// takeValue is readValue for a command that changes the key whatever it holds: it has compared nothing.
func (k *key) takeValue() (value string, held bool) {
	k.sawExistence = true
	if k.kind > text {
		return "", false
	}
	k.sawValue = true
	return k.value, k.kind == text
}

// readMembers returns the members of the collection, in the order of their names. An absent key has
// none. They must not be changed.
func (k *key) readMembers() []member {
	k.compared = true
	return k.takeMembers()
}

// takeMembers is to readMembers what takeValue is to readValue.
func (k *key) takeMembers() []member {
	k.sawValue, k.sawExistence = true, true
	return k.collection.members
}

// readMember returns one member of the collection.
func (k *key) readMember(name string) (m member, ok bool) {
	all := k.readMembers()
	if at, ok := k.collection.find(name); ok {
		return all[at], true
	}
	return m, false
}

// exists reports whether the key holds anything, of whatever type.
func (k *key) exists() bool {
	k.sawExistence = true
	return k.kind != nothing
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
	s.give(k, value)
	if s.KeepEnded {
		s.setEnd(k, end)
	} else {
		s.expire(k, end)
	}
}

// setKeepingEnd gives a key a value, and leaves it the end that it has.
func (s *Space) setKeepingEnd(k *key, value string) {
	s.give(k, value)
	s.keepEnd(k)
}

// give gives a key a string that its sender names. Who names what is there knows whose the key is.
func (s *Space) give(k *key, value string) {
	k.compared = k.compared || k.kind == text && k.value == value
	counts := k.counts && isNumber(value)
	s.setText(k, value)
	k.counts = counts
}

// setText gives a key a string in the place of whatever it holds.
func (s *Space) setText(k *key, value string) {
	s.touch(k)
	k.kind, k.value, k.collection, k.wroteValue = text, value, collection{}, true
	k.counts, k.endless = false, false
	if n := len(value); n > redlock.MaxTokenLen {
		s.refuseSize(k, "hold a string of %d bytes, at most %d are possible", n, redlock.MaxTokenLen)
	}
}

// keepEnd leaves a key that was written the end that it has. It gets DefaultTTL if it has none.
func (s *Space) keepEnd(k *key) {
	if k.end == 0 && s.DefaultTTL != 0 {
		s.setEnd(k, 0)
	}
}

// put gives a collection a member, or a member that it has another value or score. An absent key
// becomes a collection of this kind. The key keeps its end.
//
// The members that a command names are the holders in every lock that is known to be kept so. So who
// names a member has compared as much as who compares a token, although the collection is another's
// too. Only commands on the whole key, DEL and EXPIRE, are unguarded.
func (s *Space) put(k *key, kind kind, m member) {
	s.touch(k)
	c := &k.collection
	k.kind, c.kind = kind, kind
	k.wroteValue = true
	if at, ok := c.find(m.name); ok {
		c.members[at] = m
	} else {
		c.members = slices.Insert(c.members, at, m)
	}
	s.keepEnd(k)
	member := "members"
	if kind == hash {
		member = "fields"
	}
	if n := len(c.members); n > membersMax {
		s.refuseSize(k, "have %d %s, at most %d are possible", n, member, membersMax)
	} else if n := c.size(); n > envelopeMax {
		s.refuseSize(k, "take %d bytes with all its %s, at most %d are possible", n, member, envelopeMax)
	}
}

// drop removes a member from a collection, and the key with the last one.
func (s *Space) drop(k *key, name string) (dropped bool) {
	at, ok := k.collection.find(name)
	if !ok {
		return false
	}
	s.touch(k)
	if k.wroteValue = true; len(k.collection.members) == 1 {
		s.remove(k)
		return true
	}
	k.collection.members = slices.Delete(k.collection.members, at, at+1)
	return true
}

// remove deletes the key. Its old TTL is gone with it: a SET KEEPTTL behind it finds none.
func (s *Space) remove(k *key) {
	s.touch(k)
	k.kind, k.value, k.collection, k.end = nothing, "", collection{}, 0
	k.counts, k.endless = false, false
	k.wroteValue, k.wroteEnd = true, true
}

// expire gives a key that exists an end, 0 for none. One that has passed removes the key.
func (s *Space) expire(k *key, end int64) {
	if end != 0 && end <= s.now {
		s.remove(k)
		return
	}
	s.setEnd(k, end)
}

// setEnd gives a key an end, 0 for none. It never removes the key.
func (s *Space) setEnd(k *key, end int64) {
	s.touch(k)
	k.endless = k.endless && end == 0
	if end == 0 && s.DefaultTTL != 0 {
		end = s.now + s.DefaultTTL.Milliseconds()
	}
	k.end, k.wroteEnd = end, true
}
