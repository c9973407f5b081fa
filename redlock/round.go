package redlock

import (
	"math"
	"sync/atomic"
	"time"
)

// round is one command to all masters, and what they answered. Every operation makes at least one:
// its fields are in an order that leaves few gaps (TestSizes).
type round struct {
	// The fields of this block are set before the round enters the first queue, and never change
	// while a lane can see it.
	keys  []string
	key   [1]string // backs keys when there is one
	token string    // or what else the verb sends with the keys
	start time.Time // T1, read before the first byte goes out; monotonic
	ttlMs int64
	fence int64 // verbFence
	op    *Op   // whose Completer gets the result; nil: nobody waits for it
	// answers has one cell per master, where more than votes is asked for. Its lane writes the cell
	// before it votes, and nobody reads the cell before that vote.
	answers []answer
	commit  *commit // the changes of a verbCommit…; nil for all other verbs
	// attempt is set where keys are set under a caller's token, and in the verbUndo that takes them
	// back. Nil: the token was made here, and a release undoes the round.
	attempt  *attempt
	launched uint32 // number of the round: see after
	cost     uint16 // of its command, see costOf
	// keepFor are the masters that may hold the key of a verbRelease. Those of them that are away
	// get the release when they are back.
	keepFor mask
	verb    verb

	votes atomic.Uint64 // see votes
	// mark is the highest mark that a master held against the fence of a verbFence.
	mark atomic.Int64
	// answered: the result of a verbRead is known. Votes that are still to come change nothing.
	answered atomic.Bool

	// Client.mu guards these two.
	inflightIndex int32 // in leases.inflight, under one of its keys
	// released: an UNLOCK of its token was launched behind it while it was in flight. What it is
	// granted is gone already.
	released bool
}

// answer is what one master said about a key.
type answer struct {
	value  string
	found  bool
	mark   int64         // last fence
	ttl    time.Duration // negative: the key has no TTL
	known  bool          // the master has answered
	armed  bool          // the master will send an invalidation when the key changes
	denier int32         // an acquisition that was denied: the index of the key that is in the way
	err    error
	keys   []answer // verbRead: one for each key
	kind   string   // likewise: the type of the key, "none" where it is absent
}

// setKeys says what the round is about. It keeps none of the caller's memory, for the round
// outlives the operation where a master is slow.
func (r *round) setKeys(keys ...string) {
	r.keys = append(r.key[:0], keys...) //mutant:the-callers-slice-kept
}

// ttl is what the masters are asked for.
func (r *round) ttl() time.Duration { return time.Duration(r.ttlMs) * time.Millisecond }

// launchLocked puts the round into the queue of every master in targets. It needs Client.mu: every
// round enters all queues under it, so every lane sees all rounds in the same order, and a release
// that is started after the SET it undoes was answered stands behind that SET everywhere, also
// where the SET is still under way.
func (c *Client) launchLocked(r *round, targets mask, d *deferred) {
	c.leases.launched++
	r.launched = c.leases.launched
	r.cost = uint16(min(verbs[r.verb].cost(r), math.MaxUint16))
	full := false
	var away mask
	for i, l := range c.lanes {
		taken := false
		if targets.has(i) {
			var laneFull bool
			taken, laneFull = l.push(r)
			full = full || laneFull
		}
		if !taken {
			away = away.with(i)
		}
	}
	if full && !c.admission.full.Load() {
		c.lookForRoomLocked()
	}
	if away != 0 {
		d.abstentions = append(d.abstentions, abstention{r, away})
	}
}

// vote counts the votes in word, usually one. The goroutine that counts the deciding
// vote carries out the decision.
func (c *Client) vote(r *round, word votes, d *deferred) {
	n, row := len(c.lanes), &verbs[r.verb]
	after := votes(r.votes.Add(uint64(word)))
	switch {
	case row.answered != nil:
		row.answered(c, r, after, d)
		return
	case row.outcome == nil || after.tooFew(n):
		return
	}
	if before := after - word; !before.tooFew(n) && row.outcome(before, n) != undecided {
		if row.late != nil {
			row.late(c, r, word, d)
		}
		return
	}
	if o := row.outcome(after, n); o != undecided {
		row.decided(c, r, o, after, d)
	}
}

// noQuorumError says who gave no vote in a round that began at start, and why. Late is how long a
// grant took that came too late, else 0.
func (c *Client) noQuorumError(start time.Time, v votes, needed int, late time.Duration) *NoQuorumError {
	e := &NoQuorumError{Needed: needed, Masters: len(c.lanes), Late: late}
	for i, l := range c.lanes {
		switch v.of(i) {
		case voteAbstained, voteUnknown, voteHole, voteDone:
			e.Out = append(e.Out, l.reason(start))
		case votePending:
			if l.answersInTime() {
				e.Pending++
			} else {
				e.Out = append(e.Out, l.reason(start))
			}
		default:
			e.Voted++
		}
	}
	return e
}
