package copying

import (
	"maps"
	"slices"
	"strings"

	"redlockd/redlock/lua"
)

// What becomes of one key of a learner, by what the sources of a copy hold. It is pure: no
// clock, no I/O.

// RecoveredPrefix begins a value that nobody owns.
const RecoveredPrefix = lua.ReservedPrefix + "recovered:"

// copyKind says what a master holds under a key.
type copyKind uint8

const (
	copyNothing copyKind = iota
	copyString           // a token, or the value of a library
	copyReaders          // a set of readers (op_shared.go)
	// copyForeign is what no lock is: a key that never ends, of another type, or longer than any value.
	copyForeign
)

// copyEntry is what one master holds under a key.
type copyEntry struct {
	master string // its name
	kind   copyKind
	value  string
	// left is how long the key lives, in milliseconds.
	left int64
	// readers are the members of a set of readers, by how long each lasts, in milliseconds.
	readers map[string]int64
}

// lock tells whether the key can be that of a lock.
func (e *copyEntry) lock() bool { return e.kind == copyString || e.kind == copyReaders }

// lengthen has all ends come so much later, in milliseconds.
func (e *copyEntry) lengthen(by int64) {
	if e.lock() {
		e.left += by
		for member := range e.readers {
			e.readers[member] += by
		}
	}
}

// same tells whether two masters hold the same, but for its end.
func (e *copyEntry) same(o *copyEntry) bool { return e.kind == o.kind && e.value == o.value }

// copyDo says what is to be done with a key of the learner.
type copyDo uint8

const (
	copyLeave  copyDo = iota // nothing
	copyAgain                // all are to be read again
	copyGive                 // the value, or the readers
	copyRemove               // too few sources have it
)

// copyOrder is what the learner is told of one key.
type copyOrder struct {
	do copyDo
	// value, or readers where they are not nil, and their ends in milliseconds from now.
	value   string
	left    int64
	readers map[string]int64
	// gone are the readers whom no source has.
	gone []string
	// minority: fewer than a quorum hold what is given, or nobody can tell; on are those.
	minority bool
	on       []string
	// whatever the learner holds by now is replaced, because it has changed again and again while it was
	// read.
	whatever bool
}

// copyTries is how often a key is read before it is decided whatever it holds. A key that changes hands
// all the time differs from one master to the next in most readings.
const copyTries = 8

// orderOf decides about one key, by what the sources hold. least is how many of them have to deny a
// lock that is valid, tries how often the key was read before, nobodys a value that no client has,
// longest what the masters are asked for at most, and most the longest that a key may live.
//
// A source denies a lock with its key, or with what has come in the place of that: the value of a
// takeover, or of a change that a library makes, which may be under way or broken off; or a value that
// nobody owns. Only all that a source can hold counts, never one value by itself. So:
//   - Where fewer than least sources hold anything, there is no lock: it is of an attempt that failed,
//     or was released and missed that there. It is not copied, or it would come to a quorum at last,
//     one restart after the other.
//   - What is held by all of them but fewer than least, the learner gets, with the latest end: one of
//     those that deny the lock is among its holders. What it has had before may be of a failed attempt,
//     which takes it back, and leaves the learner with nothing.
//   - Readers exclude nobody but writers: the learner gets all of them, each with its latest end.
//   - Where no value is that, nobody can tell which one the lock has. The learner gets a value that
//     nobody owns: it denies, nobody releases it, and it ends with the last of them.
//   - What no source has was released, or never granted. It may also be on its way to them: so they are
//     asked once more.
//
// The end is moved as by everybody who counts on a key that he finds (op_undo.go): so the undo of a
// failed attempt leaves it alone.
func orderOf(learner *copyEntry, sources []copyEntry, least, tries int, nobodys string, longest, most int64) copyOrder {
	held, differ := heldBy(sources, least)
	last := tries+1 >= copyTries
	quorum := len(sources) - least + 1
	if held.kind == copyNothing {
		switch {
		case !learner.lock() || last: // it is changing hands
			return copyOrder{do: copyLeave}
		case tries == 0: //mutant:what-is-on-its-way-to-the-sources-is-removed
			return copyOrder{do: copyAgain}
		}
		return copyOrder{do: copyRemove}
	}
	moved := func(left int64) int64 {
		if left > longest {
			return min(left, most)
		}
		return min(left+lua.EndMoveMs, most) //mutant:the-end-of-a-copied-key-is-not-moved
	}
	order := copyOrder{do: copyGive, value: held.value, left: moved(held.left), whatever: last}
	for i := range sources {
		if e := &sources[i]; e.lock() && (differ || e.same(&held)) {
			order.on = append(order.on, e.master)
		}
	}
	order.minority = differ || len(order.on) < quorum //mutant:what-a-minority-held-is-not-told
	switch {
	case differ && !last: //mutant:sources-that-differ-are-not-read-again
		return copyOrder{do: copyAgain}
	case differ: //mutant:of-two-values-one-is-copied
		order.value, order.whatever = nobodys, true
	case held.kind == copyReaders:
		order.readers = held.readers
		for member, left := range order.readers {
			order.readers[member] = moved(max(left, learner.readers[member])) //mutant:a-copy-cuts-a-reader-short
		}
		for _, member := range slices.Sorted(maps.Keys(learner.readers)) {
			if _, is := order.readers[member]; !is {
				order.gone = append(order.gone, member)
			}
		}
		if len(order.gone) > 0 && tries == 0 {
			return copyOrder{do: copyAgain}
		}
	case learner.same(&held):
		order.left = moved(max(held.left, learner.left)) //mutant:a-copy-cuts-a-key-short
	}
	return order
}

// heldBy is what the sources hold that a valid lock may have left: what most of them have. differ tells
// that so many hold something else that it need not be that. Nothing: too few hold anything.
func heldBy(sources []copyEntry, least int) (held copyEntry, differ bool) {
	holders, most := 0, 0
	for i := range sources {
		e := &sources[i]
		if !e.lock() {
			continue
		}
		holders++
		count := 0
		for j := range sources {
			if o := &sources[j]; o.same(e) || o.nobodys() && e.nobodys() {
				count++
			}
		}
		if count > most || count == most && held.nobodys() && !e.nobodys() {
			held, most = copyEntry{kind: e.kind, value: e.value}, count
		}
	}
	if holders < least { //mutant:a-lock-on-a-bare-quorum-is-not-copied
		return copyEntry{}, false
	}
	differ = holders-most >= least //mutant:a-change-that-is-broken-off-hides-a-lock
	nobodys := int64(0)            // when the last value ends that may hide any other
	for i := range sources {
		e := &sources[i]
		if e.nobodys() {
			nobodys = max(nobodys, e.left)
		}
		if e.lock() && (differ || e.same(&held) || e.nobodys()) {
			held.left = max(held.left, e.left) //mutant:the-nearest-end-is-copied
		}
	}
	if held.kind == copyReaders {
		held.readers = make(map[string]int64)
		for i := range sources {
			for member, left := range sources[i].readers {
				held.readers[member] = max(held.readers[member], left, nobodys) //mutant:the-end-of-a-reader-is-not-the-latest
			}
		}
	}
	return held, differ
}

// nobodys tells whether the value was made by a copy.
func (e *copyEntry) nobodys() bool {
	return strings.HasPrefix(e.value, RecoveredPrefix)
}
