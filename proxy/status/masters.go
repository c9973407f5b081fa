package status

import (
	"slices"
	"time"

	"redlockd/redlock"
)

// Outcomes counts what is known of operations: done, not done, or unknown. These three
// are kept apart everywhere, because an alert on "unknown" says that masters are out, and one on "not
// done" only that locks are contended. INFO and the metrics have the names, the page the words.
var Outcomes = [...]struct {
	Name, Label string
	what, words string // empty: the page has it in its last row
	Count       func(n *redlock.Stats) uint64
}{
	{"locks", "granted", "LOCK", "granted", func(n *redlock.Stats) uint64 { return n.Granted }},
	{"locks", "denied", "LOCK", "held by another", func(n *redlock.Stats) uint64 { return n.Denied }},
	{"locks", "noquorum", "LOCK", "no quorum", func(n *redlock.Stats) uint64 { return n.NoQuorum }},
	{"unlocks", "released", "UNLOCK", "released", func(n *redlock.Stats) uint64 { return n.Released }},
	{"unlocks", "not_held", "UNLOCK", "not held", func(n *redlock.Stats) uint64 { return n.NotHeld }},
	{"unlocks", "noquorum", "", "", func(n *redlock.Stats) uint64 { return n.UnlockFail }},
	{"extends", "granted", "EXTEND", "extended", func(n *redlock.Stats) uint64 { return n.Extended }},
	{"extends", "lost", "EXTEND", "lost before", func(n *redlock.Stats) uint64 { return n.ExtendLost }},
	{"extends", "noquorum", "", "", func(n *redlock.Stats) uint64 { return n.ExtendFail }},
}

// Voting counts the masters whose votes count.
func Voting(masters []redlock.MasterStatus) int { return CountState(masters, redlock.MasterUp) }

// CountState counts the masters in one state.
func CountState(masters []redlock.MasterStatus, state redlock.MasterState) (n int) {
	for i := range masters {
		if masters[i].State == state {
			n++
		}
	}
	return n
}

// Standing is what the votes of the masters come to. There is one for each seat of the membership.
func Standing(masters []redlock.MasterStatus) redlock.Standing {
	return redlock.Standing{Seats: len(masters), Voting: Voting(masters)}
}

// Quorum is how many votes a lock needs.
func Quorum(masters []redlock.MasterStatus) int { return Standing(masters).Needed() }

// quorumIn is the longest time until a quorum can vote, if enough of the masters without a vote have
// only to wait; 0: too few do, or nobody knows for how long. Call it without a quorum.
func quorumIn(masters []redlock.MasterStatus) time.Duration {
	var left []time.Duration
	for i := range masters {
		if masters[i].Left > 0 {
			left = append(left, masters[i].Left)
		}
	}
	missing := Quorum(masters) - Voting(masters)
	if missing > len(left) {
		return 0
	}
	slices.Sort(left)
	return left[missing-1]
}

// Learners are the seats whose masters get every command and have no vote yet.
func Learners(m redlock.Membership) (learners []redlock.Seat) {
	for _, s := range m.Seats {
		if s.State == redlock.SeatLearner {
			learners = append(learners, s)
		}
	}
	return learners
}

// CopyingOf is what is known of the copy to a learner; zero: nothing.
func CopyingOf(s redlock.Seat) redlock.Copying {
	if s.Copying == nil {
		return redlock.Copying{}
	}
	return *s.Copying
}

// MasterOf is the address of a seat as redlock.MasterStatus has it: without the database.
func MasterOf(s redlock.Seat) string {
	addr, _, _ := redlock.SplitAddr(s.Addr)
	return addr
}
