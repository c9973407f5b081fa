package redlock

import (
	"slices"
	"time"

	"redlockd/redlock/quorum"
)

// WATCH of a drop-in client is a reading, and EXEC a commit that is made only if nobody has changed what
// was read. Most values tell that by themselves, but not the token of somebody who has released his lock
// and taken it again. What else tells it is when the key ends on each master: whoever sets a key, or
// moves its end, gives it another one.
//
// A key that is set twice within one millisecond with the same TTL ends at the same time, though. So
// keys that are held are read twice, watchPause apart, and what ended at the same time in both was set
// before the first reading. Whoever sets it after the second one does so later by watchPause and more.
//
// Invariant: a master takes part in the commit only if it has answered both readings with this end, and
// finds it once more. Where that is not known, the key counts as changed.
//
// What is left: two locks under one token whose ends are times of day (PXAT), if they are set within
// 100 ms and end at the same moment on a quorum.

// WatchPause is between the two readings of a key. It is more than the slack of two readings of one
// end, for scripts of old masters read the clock anew for TIME and PTTL (lua/commit.lua).
const WatchPause = 3 * time.Millisecond

// Seen is what each master has said of one key in answer to StartWatch.
type Seen struct {
	reading *round
	key     int // its index in the reading
	// earlier is the reading before this one; nil: there was none. It counts with the votes that were in
	// when this one began.
	earlier *Seen
	votes   quorum.Votes
}

// endUnknown is no end of any key.
const endUnknown = -1000

// StartWatch is StartRead for a client that is going to change the keys if nobody else does: State.Seen
// goes into Change.Seen. before are the States of a first StartWatch of the same keys, which is over since
// WatchPause; nil: this is the first.
func StartWatch(c *Client, op *Op, resources []string, before []State, to Completer) {
	op.watches, op.seen = true, nil
	for i := range before {
		s := before[i].Seen
		s.votes = quorum.Votes(s.reading.votes.Load())
		op.seen = append(op.seen, s)
	}
	op.keys, op.verb, op.onlyReleases = resources, verbRead, false
	c.start(op, to, checkResources(resources, MaxKeys), (*Client).beginReadingLocked)
}

// endOn is when the key ends on the master of a lane, in milliseconds since 1970 by its clock, or what
// PTTL says of one that never ends. It is endUnknown if the master has not said the same in both readings.
func (s *Seen) endOn(l *lane) int64 {
	ends := s.in(quorum.Votes(s.reading.votes.Load()), l)
	if s.earlier == nil || ends != s.earlier.in(s.earlier.votes, l) { //mutant:a-key-that-was-just-set-is-taken-for-an-old-one
		return endUnknown
	}
	return ends
}

// in is the end in one reading, as far as these votes tell.
func (s *Seen) in(v quorum.Votes, l *lane) int64 {
	if v.Of(l.index) != quorum.Granted || !slices.Contains(s.reading.view.masters, l) {
		return endUnknown
	}
	return s.reading.answers[l.index].keys[s.key].ends
}

// seen is what the masters say of one key in this reading; nil if it is none of StartWatch.
func (r *round) seen(key int) *Seen {
	if !r.watches() {
		return nil
	}
	s := &Seen{reading: r, key: key}
	if len(r.op.seen) > 0 {
		s.earlier = r.op.seen[key]
	}
	return s
}

// watches tells whether the round is a reading of StartWatch.
func (r *round) watches() bool { return r.flags.Load()&flagWatches != 0 }
