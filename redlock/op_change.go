package redlock

import (
	"time"

	"redlockd/redlock/clock"
)

// Was says what a key must hold for a commit to happen.
type Was uint8

// What a key held.
const (
	WasAbsent Was = iota + 1 // nothing
	WasValue                 // Change.Value. A key of another type than string holds something else
)

// Do says what a commit makes of a key.
type Do uint8

// What becomes of a key.
const (
	Keep   Do = iota // nothing: it is only compared
	Set              // it holds NewValue for TTL
	Delete           // it is removed
	Expire           // it lives for TTL from now, exactly: also shorter than before
)

// doSetLonger is the Do of a Set that is Longer, for the masters.
const doSetLonger = 4

// Change is what a commit does with one key.
type Change struct {
	Resource string
	Was      Was
	Do       Do
	// Longer, with Set: the key lives for no less than before. If the commit fails after it was made on
	// some masters, the lock does not end there before the holder of the old value expects it.
	Longer bool
	// Leaves, with Set: holders in the old value, a version, are not in the new one, and nobody is in the
	// new one who was not in the old one. If the commit fails, it is made all the same (op_undo.go).
	Leaves   bool
	Seen     Seen          // with WasValue: what it must not have changed since. Nil: only Value counts
	Value    string        // what it must hold, where Was says so. Up to MaxValueLen bytes, may be empty
	NewValue string        // Set: what it will hold, likewise
	TTL      time.Duration // Set and Expire: as the caller counts it, from the moment it sent the command
	// Delay is by how much longer the key lives than the caller counts on, as Terms.Delay.
	Delay time.Duration
	// BornMs is when the youngest of what the key will hold was first granted, in ms since 1970, if the
	// caller knows: what a value says of several holders it says to its caller alone. Zero: it follows
	// from Value.
	BornMs int64
}

// Seen tells when a key ends on the master of a place, in milliseconds since 1970 by its clock; -1: never.
// It is endUnknown where the master has not said so, or not twice (op_watch.go).
type Seen func(place int) (ends int64)

// endUnknown is no end of any key.
const endUnknown = -1000

// becomes is what the key holds when the change is done, if it holds anything then.
func (ch *Change) becomes() string {
	if ch.Do == Set {
		return ch.NewValue
	}
	return ch.Value
}

// locks: the key is locked, and was not before.
func (ch *Change) locks() bool { return ch.Do == Set && ch.Was == WasAbsent }

// rotates: the key held another value before.
func (ch *Change) rotates() bool {
	return ch.Do == Set && ch.Was == WasValue && ch.Value != ch.NewValue
}

// setsNew: the key gets a value that it did not hold.
func (ch *Change) setsNew() bool { return ch.locks() || ch.rotates() }

// askedMs is for how many milliseconds the masters are asked to keep the key: for what the caller counts
// on, and the delay behind it.
func (ch *Change) askedMs(d clock.Drift) int64 {
	return clock.Padded(ch.TTL+ch.Delay, d).Milliseconds() //mutant:a-commit-has-no-delay
}

// lives: the key has a new TTL when the change is done.
func (ch *Change) lives() bool { return ch.Do == Set || ch.Do == Expire }

// uniqueMin is the length from which a value is taken for one that nobody else uses.
const uniqueMin = 16

// unique tells whether nobody else is likely to use the value. Only then may it be released where a
// guard kept it: a release compares the value and nothing else.
func unique(value string) bool { return len(value) >= uniqueMin }

// newKeys is how many more resources are locked when the changes are made than before. A release that
// leaves something in the place of what it deletes, as Redisson's does, locks none more.
func newKeys(changes []Change) (n int) {
	for i := range changes {
		if changes[i].locks() {
			n++
		} else if changes[i].Do == Delete { //mutant:a-release-that-leaves-a-key-is-a-new-lock
			n--
		}
	}
	return n
}
