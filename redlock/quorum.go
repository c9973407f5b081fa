package redlock

import "math/bits"

// The quorum rule, pure: no clock, no I/O. Everything that decides whether a lock is held stands in
// this file.
//
// Implements steps 2, 3 and 5 of "The Redlock algorithm" (Distributed Locks with Redis): the client
// "is able to acquire the lock in the majority of the instances". Departure: the page counts
// successes only; we keep apart what a master that did not grant has told us, because it decides
// what must be undone there and whether the answer is "no" or "unknown".

// vote is what one master said in one round. It fits four bits.
type vote uint64

const (
	// votePending: the master has not answered yet.
	votePending vote = iota
	// voteGranted: the master did it. SET stored the key, a release removed it, an extension found
	// it and gave it a new TTL.
	voteGranted
	// voteMine: an acquisition found its own token already there, and refreshed it. Counts like
	// voteGranted, but tells that an earlier grant to the same token may still be believed in, so
	// that it must not be undone. An extension: the token is there as a reader's. A forced release:
	// the holder has renewed it.
	voteMine
	// voteDenied: a definite no, which left nothing behind: the key holds another token.
	voteDenied
	// voteAbsent: release and extension found no key. A definite no.
	voteAbsent
	// voteAbstained: no answer, and nothing left behind: the command was never sent, or refused
	// with an error.
	voteAbstained
	// voteUnknown: the command was sent, and what came of it is not known, or may not be counted.
	// It may have been executed, or be executed later.
	voteUnknown
	// voteHole: an extension found no key on a master whose vote does not count. It is given the
	// key again.
	voteHole
	// voteStale: a definite no, which left nothing behind: the key is free, and the fence was not
	// above the master's mark.
	voteStale
	// voteDone: the master did it, but its vote does not count. Is no answer; what it left behind
	// is known to be there.
	voteDone
	// voteNobody: there is no master at this place. It stands there from the start.
	voteNobody

	voteKinds
)

// votes packs the votes of up to MaxMasters places into one word, four bits each, so that a round
// needs one atomic addition per vote, and the sum tells the one goroutine whose vote decides that
// it does.
type votes uint64

// of is the vote of one master.
func (v votes) of(master int) vote { return vote(v>>(4*master)) & 15 }

// cast returns what must be added to a word in which this master's vote is pending.
func cast(master int, v vote) votes { return votes(v) << (4 * master) }

// mask is a set of masters, one bit each.
type mask uint16

// toAll is every master that there is.
const toAll mask = 1<<MaxMasters - 1

func (m mask) has(master int) bool  { return m>>master&1 != 0 }
func (m mask) count() int           { return bits.OnesCount16(uint16(m)) }
func (m mask) with(master int) mask { return m | mask(1)<<master }

// electorate says how many masters vote, and where in a word of votes they stand. A place is a bit of a mask and four bits of votes; it is
// a master's for as long as that is a member, so there may be gaps.
type electorate struct {
	places int   // of the words, gaps included
	count  int   // of the masters
	all    mask  // the masters
	gaps   votes // the word of a round that nobody has voted in: voteNobody in every gap
}

// quorum is how many votes grant.
func (e *electorate) quorum() int { return quorumOf(e.count) }

// needed is how many masters must deny so that no quorum is left.
func (e *electorate) needed() int { return e.count - e.quorum() + 1 }

// where are the masters whose votes are of one of these kinds: 1<<voteGranted and so on.
func (v votes) where(places int, kinds uint16) (m mask) {
	for i := range places {
		if kinds>>v.of(i)&1 != 0 {
			m = m.with(i)
		}
	}
	return m
}

// mayHold are the masters that may have the key.
func (v votes) mayHold(places int) mask {
	return v.where(places, 1<<votePending|1<<voteGranted|1<<voteMine|1<<voteUnknown|1<<voteDone) //mutant:undo-skipped-for-the-silent
}

// did are the masters that did it, whether their votes count or not.
func (v votes) did(places int) mask {
	return v.where(places, 1<<voteGranted|1<<voteMine|1<<voteDone)
}

// lost are the masters that said that the key is absent.
func (v votes) lost(places int) mask { return v.where(places, 1<<voteAbsent|1<<voteHole) }

// denied are the masters that hold something else.
func (v votes) denied(places int) mask { return v.where(places, 1<<voteDenied) }

// voted are the masters whose votes are in.
func (v votes) voted(places int) mask {
	return (mask(1)<<places - 1) &^ v.where(places, 1<<votePending|1<<voteNobody)
}

// tally counts the votes of each kind, five bits each: a word instead of an array, for nearly every
// vote is weighed.
type tally uint64

func (v votes) tally(places int) (t tally) {
	for range places {
		t += 1 << (5 * (v & 15))
		v >>= 4
	}
	return t
}

func (t tally) of(kind vote) int { return int(t>>(5*kind)) & 31 }

// masters is how many masters there are.
func (t tally) masters(places int) int { return places - t.of(voteNobody) }

// tooFew tells whether so few votes are in that no rule decides: a quorum must have voted to say
// yes, and as many to make a quorum impossible.
func (v votes) tooFew(places int) bool {
	voted := v | v>>2
	voted = (voted | voted>>1) & 0x1111_1111_1111_1111
	return bits.OnesCount64(uint64(voted)) <= places-quorumOf(places)
}

// uncounted is what is left of a vote that must not count, because the master may have forgotten
// locks: a key that may be there must still be removed when the round fails.
func (v vote) uncounted() vote { //mutant:votes-counted-in-quarantine
	switch v {
	case voteGranted, voteMine:
		return voteDone
	case voteAbsent:
		return voteHole
	case voteDenied, voteStale:
		return voteAbstained
	}
	return v
}

// abstains is what is left of the vote of a master that may have forgotten what it is asked for.
func (v vote) abstains() vote { return voteAbstained }

// quorumOf is the least number of masters that any two sets of that size have one in common.
func quorumOf(masters int) int { return masters/2 + 1 } //mutant:quorum-off-by-one

// outcome is what a round has come to.
type outcome uint8

const (
	undecided outcome = iota
	yes               // granted, released, extended
	no                // enough masters answered, and the answer is no
	noQuorum          // so many masters are silent that neither can be said
)

// An acquisition is granted when a quorum granted. When that cannot come about any more, it is
// contended if a quorum answered, and without a quorum if so many can no longer answer. It is
// decided at the first moment it can be.
//
// One that has found its own token repeats an earlier one. It is not contended if the masters that
// hold the token and those that are silent could be a quorum: then the lock may still be held, and
// a caller that is told of another holder would leave it behind.
func acquisitionOutcome(v votes, places int) outcome {
	t := v.tally(places)
	masters := t.masters(places)
	quorum := quorumOf(masters)
	granted, pending := t.of(voteGranted)+t.of(voteMine), t.of(votePending)
	answered := granted + t.of(voteDenied) + t.of(voteAbsent) + t.of(voteStale)
	mayHold := t.of(voteMine) + masters - answered - pending //mutant:a-repetition-denied-by-a-minority
	switch {
	case granted >= quorum:
		return yes
	case granted+pending >= quorum:
		return undecided
	case answered+pending < quorum || mayHold >= quorum:
		return noQuorum
	case answered >= quorum && mayHold+pending < quorum:
		return no
	}
	return undecided
}

// A release is certain when the masters that did not answer are too few to be a quorum that still
// holds the lock. Then it is "released" if some master removed the token, and "did not hold it" if
// none did.
func releaseOutcome(v votes, places int) outcome {
	t := v.tally(places)
	masters := t.masters(places)
	needed := masters - quorumOf(masters) + 1
	answered := t.of(voteGranted) + t.of(voteMine) + t.of(voteDenied) + t.of(voteAbsent)
	switch {
	case answered >= needed && t.of(voteGranted) > 0:
		return yes
	case answered >= needed:
		return no
	case answered+t.of(votePending) < needed:
		return noQuorum
	}
	return undecided
}

// An extension needs a quorum of matching keys, like an acquisition. The lock is definitely lost
// when the masters that do not hold it leave no room for a quorum that does. A token that its caller
// used as a reader's and as a writer's may be there as both: each needs a quorum of its own.
func extensionOutcome(v votes, places int) outcome {
	t := v.tally(places)
	masters := t.masters(places)
	quorum := quorumOf(masters)
	writer, reader, pending := t.of(voteGranted), t.of(voteMine), t.of(votePending)
	granted := max(writer, reader) //mutant:an-extension-counts-both-modes
	lost, lostNeeded := t.of(voteDenied)+t.of(voteAbsent)+min(writer, reader), masters-quorum+1
	switch {
	case granted >= quorum:
		return yes
	case lost >= lostNeeded:
		return no
	case granted+pending < quorum && lost+pending < lostNeeded:
		return noQuorum
	}
	return undecided
}

// A reading is over when every master has answered or failed to.
func readingOutcome(v votes, places int) outcome {
	if v.tally(places).of(votePending) > 0 {
		return undecided
	}
	return yes
}
