// Package quorum says what the votes of masters come to. It is pure: no clock, no I/O. Everything that
// decides whether a lock is held stands here.
//
// It implements steps 2, 3 and 5 of "The Redlock algorithm" (Distributed Locks with Redis): the client
// "is able to acquire the lock in the majority of the instances". Departure: the page counts
// successes only; we keep apart what a master that did not grant has told us, because it decides
// what must be undone there and whether the answer is "no" or "unknown".
package quorum

import (
	"fmt"
	"math/bits"
	"strconv"
)

// Vote is what one master said in one round. It fits four bits.
type Vote uint64

const (
	// Pending: the master has not answered yet.
	Pending Vote = iota
	// Granted: the master did it. SET stored the key, a release removed it, an extension found
	// it and gave it a new TTL.
	Granted
	// AlreadyMine: an acquisition found its own token already there, and refreshed it. Counts like
	// Granted, but tells that an earlier grant to the same token may still be believed in, so
	// that it must not be undone.
	AlreadyMine
	// AsReader: an extension, or a commit that passes a lock on, did it with a token that is there as a
	// reader's.
	AsReader
	// Renewed: a definite no to a forced release: the holder has renewed its lock.
	Renewed
	// Denied: a definite no, which left nothing behind: the key holds another token.
	Denied
	// Absent: release and extension found no key. A definite no.
	Absent
	// Abstained: no answer, and nothing left behind: the command was never sent, or refused
	// with an error.
	Abstained
	// Unknown: the command was sent, and what came of it is not known, or may not be counted.
	// It may have been executed, or be executed later.
	Unknown
	// Hole: an extension found no key on a master whose vote does not count. It is given the
	// key again.
	Hole
	// Stale: a definite no, which left nothing behind: the key is free, and the fence was not
	// above the master's mark.
	Stale
	// Done: the master did it, but its vote does not count. Is no answer; what it left behind
	// is known to be there.
	Done
	// Nobody: there is no master at this place. It stands there from the start.
	Nobody

	voteKinds
)

// MaxMasters is the largest number of masters: their votes are packed into one machine word.
const MaxMasters = 15

// Votes packs the votes of up to MaxMasters places into one word, four bits each, so that a round
// needs one atomic addition per vote, and the sum tells the one goroutine whose vote decides that
// it does.
type Votes uint64

// Of is the vote of one master.
func (v Votes) Of(master int) Vote { return Vote(v>>(4*master)) & 15 }

// Cast returns what must be added to a word in which this master's vote is pending.
func Cast(master int, v Vote) Votes { return Votes(v) << (4 * master) }

// Mask is a set of masters, one bit each.
type Mask uint16

// All is every master that there is.
const All Mask = 1<<MaxMasters - 1

// Has tells whether the master is in the set, Count how many are, and With adds one.
func (m Mask) Has(master int) bool  { return m>>master&1 != 0 }
func (m Mask) Count() int           { return bits.OnesCount16(uint16(m)) }
func (m Mask) With(master int) Mask { return m | Mask(1)<<master }

// Electorate says how many masters vote, and where in a word of votes they stand. A place is a bit of a
// mask and four bits of votes; it is a master's for as long as that is a member, so there may be gaps.
type Electorate struct {
	Places  int   // of the words, gaps included
	Count   int   // of the masters
	Masters Mask  // the masters
	Gaps    Votes // the word of a round that nobody has voted in: Nobody in every gap
}

// Quorum is how many votes grant.
func (e *Electorate) Quorum() int { return Of(e.Count) }

// Needed is how many masters must deny so that no quorum is left.
func (e *Electorate) Needed() int { return e.Count - e.Quorum() + 1 }

// Where are the masters whose votes are of one of these kinds: 1<<Granted and so on.
func (v Votes) Where(places int, kinds uint16) (m Mask) {
	for i := range places {
		m |= Mask(kinds>>v.Of(i)&1) << i
	}
	return m
}

// MayHold are the masters that may have the key.
func (v Votes) MayHold(places int) Mask {
	return v.Where(places, 1<<Pending|1<<Granted|1<<AlreadyMine|1<<AsReader|1<<Renewed|1<<Unknown|1<<Done) //mutant:undo-skipped-for-the-silent
}

// Did are the masters that did it, whether their votes count or not.
func (v Votes) Did(places int) Mask {
	return v.Where(places, 1<<Granted|1<<AlreadyMine|1<<AsReader|1<<Done)
}

// Lost are the masters that said that the key is absent.
func (v Votes) Lost(places int) Mask { return v.Where(places, 1<<Absent|1<<Hole) }

// Denied are the masters that hold something else.
func (v Votes) Denied(places int) Mask { return v.Where(places, 1<<Denied) }

// Voted are the masters whose votes are in.
func (v Votes) Voted(places int) Mask {
	return (Mask(1)<<places - 1) &^ v.Where(places, 1<<Pending|1<<Nobody)
}

// tally counts the votes of each kind, four bits each: a word instead of an array, for nearly every
// vote is weighed.
type tally uint64

// Tally counts the votes of these places.
func (v Votes) Tally(places int) (t tally) {
	for range places {
		t += 1 << (4 * (v & 15))
		v >>= 4
	}
	return t
}

func (t tally) Of(kind Vote) int { return int(t>>(4*kind)) & 15 }

// TooFew tells whether so few votes are in that no rule decides: a quorum must have voted to say
// yes, and as many to make a quorum impossible.
func (v Votes) TooFew(places int) bool {
	voted := v | v>>2
	voted = (voted | voted>>1) & 0x1111_1111_1111_1111
	return bits.OnesCount64(uint64(voted)) <= places-Of(places)
}

// Uncounted is what is left of a vote that must not count, because the master may have forgotten
// locks: a key that may be there must still be removed when the round fails.
func (v Vote) Uncounted() Vote { //mutant:votes-counted-in-quarantine
	switch v {
	case Granted, AlreadyMine, AsReader:
		return Done
	case Absent:
		return Hole
	case Denied, Stale:
		return Abstained
	}
	return v
}

// Abstains is what is left of the vote of a master that may have forgotten what it is asked for.
func (v Vote) Abstains() Vote { return Abstained }

// Of is the least number of masters that any two sets of that size have one in common.
func Of(masters int) int { return masters/2 + 1 } //mutant:quorum-off-by-one

// Outcome is what a round has come to.
type Outcome uint8

const (
	Undecided Outcome = iota
	Yes               // granted, released, extended
	No                // enough masters answered, and the answer is no
	NoQuorum          // so many masters are silent that neither can be said
)

// An acquisition is granted when a quorum granted. When that cannot come about any more, it is
// contended if a quorum answered, and without a quorum if so many can no longer answer. It is
// decided at the first moment it can be.
//
// One that has found its own token repeats an earlier one. It is not contended if the masters that
// hold the token and those that are silent could be a quorum: then the lock may still be held, and
// a caller that is told of another holder would leave it behind.
func Acquisition(v Votes, places int) Outcome {
	t := v.Tally(places)
	masters := places - t.Of(Nobody)
	quorum := Of(masters)
	granted, pending := t.Of(Granted)+t.Of(AlreadyMine), t.Of(Pending)
	answered := granted + t.Of(Denied) + t.Of(Absent) + t.Of(Stale)
	mayHold := t.Of(AlreadyMine) + masters - answered - pending //mutant:a-repetition-denied-by-a-minority
	switch {
	case granted >= quorum:
		return Yes
	case granted+pending >= quorum:
		return Undecided
	case answered+pending < quorum || mayHold >= quorum:
		return NoQuorum
	case answered >= quorum && mayHold+pending < quorum:
		return No
	}
	return Undecided
}

// Release decides as soon as the masters that did not answer are too few to be a quorum that still
// holds the lock. It says Yes if one of the answers so far removed the token, and No if none did. A
// removal that comes later does not change a No: fewer than a quorum held the lock.
func Release(v Votes, places int) Outcome {
	t := v.Tally(places)
	masters := places - t.Of(Nobody)
	needed := masters - Of(masters) + 1
	answered := t.Of(Granted) + t.Of(Denied) + t.Of(Absent)
	switch {
	case answered >= needed && t.Of(Granted) > 0:
		return Yes
	case answered >= needed:
		return No
	case answered+t.Of(Pending) < needed:
		return NoQuorum
	}
	return Undecided
}

// An extension needs a quorum of matching keys, like an acquisition. The lock is definitely lost
// when the masters that do not hold it leave no room for a quorum that does. A token that its caller
// used as a reader's and as a writer's may be there as both: each needs a quorum of its own.
func Extension(v Votes, places int) Outcome {
	t := v.Tally(places)
	masters := places - t.Of(Nobody)
	quorum := Of(masters)
	writer, reader, pending := t.Of(Granted), t.Of(AsReader), t.Of(Pending)
	granted := max(writer, reader) //mutant:an-extension-counts-both-modes
	lost, lostNeeded := t.Of(Denied)+t.Of(Absent)+min(writer, reader), masters-quorum+1
	switch {
	case granted >= quorum:
		return Yes
	case lost >= lostNeeded:
		return No
	case granted+pending < quorum && lost+pending < lostNeeded:
		return NoQuorum
	}
	return Undecided
}

// A reading is over when every master has answered or failed to.
func Reading(v Votes, places int) Outcome {
	if v.Tally(places).Of(Pending) > 0 {
		return Undecided
	}
	return Yes
}

// Standing is what the votes of now come to. Engine, /readyz, metrics, the page, INFO, `members` and
// `check` all count with it.
type Standing struct {
	Seats  int // of the membership: each counts, also one that waits for its vote or is leaving
	Voting int // masters whose votes count now
}

// Needed is how many votes a lock needs.
func (s Standing) Needed() int { return Of(s.Seats) }

// Quorum tells whether locks can be granted.
func (s Standing) Quorum() bool { return s.Voting >= s.Needed() }

// MayFail is how many of those that vote may fail, and locks are still granted.
func (s Standing) MayFail() int { return max(0, s.Voting-s.Needed()) }

func (s Standing) String() string {
	if !s.Quorum() {
		return fmt.Sprintf("%d of %d seats vote, %d are needed: no lock is granted", s.Voting, s.Seats, s.Needed())
	}
	may := "none"
	if n := s.MayFail(); n > 0 {
		may = strconv.Itoa(n)
	}
	return fmt.Sprintf("%d of %d seats vote, %d are needed: %s may fail", s.Voting, s.Seats, s.Needed(), may)
}
