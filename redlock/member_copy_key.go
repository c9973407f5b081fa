package redlock

import (
	"maps"
	"slices"
	"strings"
)

// What becomes of one key of a learner, by what the sources of a copy hold (member_copy.go). It is pure: no clock, no I/O.

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
	kind  copyKind
	value string
	// left is how long the key lives, in milliseconds.
	left int64
	// readers are the members of a set of readers, by how long each lasts, in milliseconds.
	readers map[string]int64
}

// lock tells whether the key can be that of a lock.
func (e *copyEntry) lock() bool { return e.kind == copyString || e.kind == copyReaders }

// same tells whether two masters hold the same, but for its end.
func (e *copyEntry) same(o *copyEntry) bool { return e.kind == o.kind && e.value == o.value }

// copyDo says what is to be done with a key of the learner.
type copyDo uint8

const (
	copyLeave  copyDo = iota // nothing
	copyAgain                // all are to be read again
	copyGive                 // the value, or the readers
	copyRemove               // no source has it
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
	// whatever the learner holds by now is replaced, because it has changed again and again while it was read.
	whatever bool
}

// copyTries is how often a key is read before it is decided whatever it holds. A key that changes hands all the time differs from one master to
// the next in most readings.
const copyTries = 8

// orderOf decides about one key, by what the sources hold. least is how many of them have to hold a lock that is valid, tries how often the key was
// read before, nobodys a value that no client has, longest the longest TTL, and most the longest that a key may live.
//
// Of each lock that may be valid fewer than a quorum of the voters do not know (member_copy.go). So:
//   - What too few sources hold is of an attempt that failed, or of a lock that was released and missed that there. It is not copied, or it would come to
//     a quorum at last, one restart after the other.
//   - What enough of them hold, the learner gets, with the latest end. What it has had before may be of a failed attempt, which takes it back, and leaves
//     the learner with nothing.
//   - Readers exclude nobody but writers: the learner gets all of them, each with its latest end.
//   - Where that is true of two values, only one of them can be valid, and nobody can tell which. The learner gets a value that nobody owns: it denies,
//     nobody releases it, and it ends with the last of them. A source that holds such a value may do so in the place of any other.
//   - What no source has was released, or never granted. It may also be on its way to them: so they are asked once more.
//
// The end is moved as by everybody who counts on a key that he finds (op_undo.go): so the undo of a failed attempt leaves it alone.
func orderOf(learner *copyEntry, sources []copyEntry, least, tries int, nobodys string, longest, most int64) copyOrder {
	var few [2]candidate
	valid := candidates(sources, least, few[:0])
	last := tries+1 >= copyTries
	if len(valid) == 0 {
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
		return min(left+endMoveMs, most) //mutant:the-end-of-a-copied-key-is-not-moved
	}
	first := &valid[0]
	order := copyOrder{do: copyGive, value: first.value, left: moved(first.left), whatever: last}
	switch {
	case len(valid) > 1 && !last: //mutant:sources-that-differ-are-not-read-again
		return copyOrder{do: copyAgain}
	case len(valid) > 1: //mutant:of-two-values-one-is-copied
		order.value, order.whatever = nobodys, true
		for _, one := range valid {
			order.left = max(order.left, moved(one.left))
		}
	case first.kind == copyReaders:
		order.readers = first.readers
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
	case learner.kind == copyString && learner.value == first.value:
		order.left = moved(max(first.left, learner.left)) //mutant:a-copy-cuts-a-key-short
	}
	return order
}

// candidate is what a valid lock may have left under a key.
type candidate struct {
	kind  copyKind
	value string
	left  int64 // the latest end
	// readers are those whom enough sources have.
	readers map[string]int64
}

// candidates appends what at least so many sources hold.
func candidates(sources []copyEntry, least int, list []candidate) []candidate {
	anybodys, theirEnd := 0, int64(0) // values in whose place any other may have been
	for i := range sources {
		if e := &sources[i]; e.nobodys() {
			anybodys++
			theirEnd = max(theirEnd, e.left)
		}
	}
	readersDone := false
	for i := range sources {
		e := &sources[i]
		switch {
		case e.kind == copyReaders && !readersDone:
			readersDone = true
			if readers := readersOf(sources, least-anybodys, theirEnd); len(readers) > 0 {
				list = append(list, candidate{kind: copyReaders, left: slices.Max(slices.Collect(maps.Values(readers))), readers: readers})
			}
		case e.kind != copyString || slices.ContainsFunc(sources[:i], func(o copyEntry) bool { return o.same(e) || o.nobodys() && e.nobodys() }):
		case e.nobodys() && anybodys >= least:
			list = append(list, candidate{kind: copyString, value: e.value, left: theirEnd})
		case !e.nobodys():
			count, left := anybodys, theirEnd //mutant:a-value-that-nobody-owns-denies-nothing
			for j := range sources {
				if o := &sources[j]; o.same(e) {
					count, left = count+1, max(left, o.left) //mutant:the-nearest-end-is-copied
				}
			}
			if count >= least { //mutant:a-lock-on-a-bare-quorum-is-not-copied
				list = append(list, candidate{kind: copyString, value: e.value, left: left})
			}
		}
	}
	return list
}

// readersOf are the readers whom at least so many sources have, each with its latest end, which is no nearer than that.
func readersOf(sources []copyEntry, least int, end int64) map[string]int64 {
	counts, readers := make(map[string]int), make(map[string]int64)
	for i := range sources {
		for member, left := range sources[i].readers {
			counts[member]++
			readers[member] = max(readers[member], left, end) //mutant:the-end-of-a-reader-is-not-the-latest
		}
	}
	maps.DeleteFunc(readers, func(member string, _ int64) bool { return counts[member] < least })
	return readers
}

// nobodys tells whether the value was made by a copy.
func (e *copyEntry) nobodys() bool {
	return e.kind == copyString && strings.HasPrefix(e.value, recoveredPrefix)
}
