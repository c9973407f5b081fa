package redlock

import (
	"math"
	"sync/atomic"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/quorum"
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
	view  *view     // who the masters were when it was launched: set by rounds.launch
	// ttlMs is what the masters are asked for: of a lock it is padded (clock.Padded).
	ttlMs int64
	fence int64 // of verbAcquire, verbSlot or verbRaise; 0: none
	op    *Op   // whose Completer gets the result; nil: nobody waits for it
	// answers has one cell per master, where more than votes is asked for. Its lane writes the cell
	// before it votes, and nobody reads the cell before that vote. Of a verbForceCallers it has when the
	// key ends on each master, as it was found.
	answers []answer
	commit  *commit // the changes of a verbCommit…; nil for all other verbs
	// attempt is set where keys are set under a caller's token, and in the verbUndo that takes them
	// back. Nil: the token was made here, and a release undoes the round.
	attempt  *attempt
	launched uint32 // number of the round: see launchedAfter
	cost     uint16 // of its command, see costOf
	// keepFor are the masters that may hold the key of a verbRelease. Those of them that are away
	// get the release when they are back.
	keepFor quorum.Mask

	votes atomic.Uint64 // see votes
	// mark is the highest mark that a master held against the fence.
	mark  atomic.Int64
	flags atomic.Uint32 // see flagAnswered

	// Client.mu guards released and unlocked.

	// released: an UNLOCK of its token was launched behind it while it was in flight. What it is
	// granted is gone already.
	released bool
	// unlocked: an UNLOCK of its token in another slot was launched behind it. What it is granted stays,
	// and no other slot is asked for.
	unlocked bool
	// These are set before the round enters the first queue, as those above. They stand here because that
	// leaves no gap.
	verb  verb
	slots uint8 // verbSlot: how many slots there are
	slot  uint8 // and which one is asked for
}

const (
	// flagAnswered: the result of a verbRead is known. Votes that are still to come change nothing.
	flagAnswered = 1 << iota
	// flagReader: the lock is a reader's, as far as is known (op_shared.go). A release with it is a
	// script's, which finds either.
	flagReader
	// flagPart: on some master the token of an extension holds some of its keys, and others not.
	flagPart
	// flagWatches: the masters are asked when the keys end.
	flagWatches
	// flagTimely: the masters may execute it within MasterTimeout alone (master_late.go).
	flagTimely
)

// watches tells whether the round is a reading of StartWatch.
func (r *round) watches() bool { return r.flags.Load()&flagWatches != 0 }

// asReader sets flagReader, if it is a reader's.
func (r *round) asReader(reader bool) *round {
	if reader {
		r.flags.Or(flagReader)
	}
	return r
}

// ofReader tells whether the lock of the round is a reader's, as far as is known.
func (r *round) ofReader() bool { return r.flags.Load()&flagReader != 0 }

// answer is what one master said about a key.
type answer struct {
	value     string
	found     bool
	known     bool          // the master has answered
	armed     bool          // the master will send an invalidation when the key changes
	ofReaders bool          // the key is a set of readers
	slot      int8          // an acquisition of a slot that was denied: another slot holds the token, counted from 1; 0: none
	free      uint32        // likewise: the slots that are free, one bit each
	denier    int32         // an acquisition that was denied: the index of the key that is in the way
	readers   int32         // verbInspect: how many readers there are
	mark      int64         // last fence
	ttl       time.Duration // negative: the key has no TTL
	ends      int64         // verbRaise: when it ends by the master's clock, in milliseconds; 0: it has no TTL. StartWatch: see Seen
	err       error
	keys      []answer // verbRead: one for each key
	kind      string   // where a script tells it: the type of the key, "none" where it is absent
}

// lives takes in what PTTL says of a key, in the same script as its kind and its value. It decides whether
// the key is there: a key can end between two commands of a script in no Redis, but in a copy of one.
func (a *answer) lives(pttl conn.Reply) {
	a.ttl, a.found = time.Duration(pttl.N)*time.Millisecond, pttl.N != -2
}

// setKeys says what the round is about. It keeps none of the caller's memory, for the round
// outlives the operation where a master is slow.
func (r *round) setKeys(keys ...string) {
	r.keys = append(r.key[:0], keys...) //mutant:the-callers-slice-kept
}

// rounds is the one gate through which every round enters the lanes. Client.mu guards it.
type rounds struct {
	fleet     *fleet
	admission *admission
	waiting   *waiting
	ceiling   *ceiling
	// launched numbers the rounds in the order in which the lanes get them: see launchedAfter.
	launched uint32
}

// launch puts the round into the queue of every master in targets. It needs Client.mu: every
// round enters all queues under it, so every lane sees all rounds in the same order, and a release
// that is started after the SET it undoes was answered stands behind that SET everywhere, also
// where the SET is still under way.
func (rs *rounds) launch(r *round, targets quorum.Mask, d *deferred) {
	rs.launched++
	r.launched = rs.launched
	cost := costOf(r.keys, len(r.token))
	if special := verbs[r.verb].cost; special != nil {
		cost = special(r)
	}
	r.cost = uint16(min(cost, math.MaxUint16))
	full := false
	var away quorum.Mask
	v := rs.fleet.view.Load()
	r.view = v
	if (r.commit != nil || verbs[r.verb].release) && r.mustBeTimely() {
		r.flags.Or(flagTimely)
	}
	r.votes.Store(uint64(v.Gaps))
	// It may have waited here while the ceiling was lowered.
	switch {
	case r.verb <= verbExtend:
		if r.op != nil && r.op.ttl+r.op.delay() > v.withoutCeiling {
			rs.ceiling.use(r.op.ttl+r.op.delay(), v, d.now)
		}
		r.ttlMs = min(r.ttlMs, v.longestMs) //mutant:a-lock-outlives-max_ttl
	case r.commit != nil && r.commit.longest > v.withoutCeiling:
		rs.ceiling.use(r.commit.longest, v, d.now)
		if r.commit.longest > v.ceiling {
			targets = 0
		}
	}
	if verbs[r.verb].changes && rs.waiting.count > 0 {
		rs.waiting.changesLocked(r, targets) //mutant:own-changes-are-not-counted
	}
	if verbs[r.verb].answers {
		r.answers = make([]answer, v.Places)
	}
	for _, l := range v.masters {
		taken := false
		if targets.Has(l.index) {
			var laneFull bool
			taken, laneFull = l.push(r)
			full = full || laneFull
		}
		if !taken {
			away = away.With(l.index)
		}
	}
	if full && !rs.admission.full.Load() {
		rs.admission.lookForRoom()
	}
	if away != 0 {
		d.abstentions = append(d.abstentions, abstention{r, away})
	}
}

// vote counts the votes in word, usually one. The goroutine that counts the deciding
// vote carries out the decision.
func (c *Client) vote(r *round, word quorum.Votes, d *deferred) {
	n, row := r.view.Places, &verbs[r.verb]
	after := quorum.Votes(r.votes.Add(uint64(word)))
	switch {
	case row.answered != nil:
		row.answered(c, r, after, d)
		return
	case row.outcome == nil || after.TooFew(n):
		return
	}
	if before := after - word; !before.TooFew(n) && row.outcome(before, n) != quorum.Undecided {
		if row.late != nil {
			row.late(c, r, word, d)
		}
		return
	}
	if o := row.outcome(after, n); o != quorum.Undecided {
		if o == quorum.Yes && c.onQuorum != nil {
			c.onQuorum(r, after)
		}
		row.decided(c, r, o, after, d)
	}
}

// noQuorumError says who gave no vote in a round, and why. Late is how long a grant took that came too
// late, else 0.
func (r *round) noQuorumError(v quorum.Votes, needed int, late time.Duration) *NoQuorumError {
	return r.view.noQuorumError(r.start, v, needed, late)
}

// noQuorumError is that of a round that began at start.
func (w *view) noQuorumError(start time.Time, v quorum.Votes, needed int, late time.Duration) *NoQuorumError {
	e := &NoQuorumError{Needed: needed, Masters: w.Count, Late: late}
	for _, l := range w.masters {
		switch v.Of(l.index) {
		case quorum.Abstained, quorum.Unknown, quorum.Hole, quorum.Done:
			e.Out = append(e.Out, l.reason(start))
		case quorum.Pending:
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

// validityOf is how long a LOCK or an EXTEND took, and what is left of its TTL: step 4 of "The Redlock
// algorithm". The drift is in what the masters were asked for (clock.Padded).
func (c *Client) validityOf(r *round, d *deferred) (elapsed, validity time.Duration) {
	ttl := min(r.op.ttl, r.view.ceiling-r.op.delay()) // the ceiling may have been lowered before the launch //mutant:the-delay-is-told-as-validity
	elapsed = c.elapsed(r, d)
	return elapsed, ttl - elapsed //mutant:elapsed-left-out
}

// elapsed is how long a round has taken that is decided. If the machine may have been suspended
// meanwhile, it is at least as long as all suspensions together: the masters' clocks went on.
func (c *Client) elapsed(r *round, d *deferred) time.Duration {
	if !d.looked {
		c.own.Look()
		d.looked = true
	}
	return d.now.Sub(r.start) + c.own.SleptSince(r.start)
}

// drop releases, for nobody, what a token that was made here may hold on the targets. It is
// kept for those that are away.
func (rs *rounds) drop(keys []string, token string, targets quorum.Mask, reader bool, d *deferred) {
	r := &round{verb: verbRelease, keys: keys, token: token, start: d.now, keepFor: targets}
	rs.launch(r.asReader(reader), targets, d)
}

// publish publishes a text on a channel of all masters, behind all that was launched before.
func (rs *rounds) publish(channel, text string, d *deferred) {
	r := &round{verb: verbPublish, token: text, start: d.now}
	r.setKeys(channel)
	rs.launch(r, quorum.All, d)
}
