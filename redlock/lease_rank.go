package redlock

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// Which leases are listed where not all can be. Whoever shortens a list asks RankLeases: this client, a
// redlockd that answers another one, the status page.

// Reason is why a lease is listed before others.
type Reason int

// The reasons. With ByAny, the others take turns.
const (
	ByAny     Reason = iota
	ByHeld           // for how long it has been held
	ByWaited         // for how long somebody has waited for it
	ByWaiters        // how many wait for it
	ByLost           // the masters no longer have it
	reasons
)

// reasonNames are what commands and messages call the reasons.
var reasonNames = [reasons]string{"", "held", "waited", "waiters", "lost"}

// ReasonOf is the reason of this name, in any case; "": ByAny.
func ReasonOf(name string) (by Reason, ok bool) {
	i := slices.IndexFunc(reasonNames[:], func(known string) bool { return strings.EqualFold(known, name) })
	return Reason(i), i >= 0
}

// String is the name that ReasonOf reads.
func (by Reason) String() string { return reasonNames[by] }

// scores are those of a lease by reason: 0 where it has none. Each lease has one for ByHeld, where the
// reasons take turns, and none has one for ByAny.
type scores [reasons]int64

func scoresOf(since time.Time, lost bool, waiters int, waited time.Duration) (s scores) {
	s[ByHeld] = heldByNobody
	if since.Unix() > 0 {
		s[ByHeld] = math.MaxInt64 - since.UnixNano()
	}
	if waiters > 0 {
		s[ByWaited], s[ByWaiters] = int64(waited)+1, int64(waiters)
	}
	if lost {
		s[ByLost] = 1
	}
	return s
}

// heldByNobody is the score for ByHeld of a resource that is only waited for.
const heldByNobody = 1

// only leaves the score for one reason. A lease without any is not listed.
func (s scores) only(by Reason) scores {
	if by == ByAny {
		return s
	}
	var kept scores
	if by != ByHeld || s[by] != heldByNobody {
		kept[by] = s[by]
	}
	return kept
}

// RankLeases returns the indices of the n leases to list of so many, the first to list first: with a
// reason, those that have it, in its order. With ByAny the reasons take turns: that which has been held
// for longest, for which somebody has waited for longest, that which most wait for, one that is lost, and
// so on. So the first n of each reason are among any 4n.
func RankLeases(by Reason, count, n int, lease func(i int) *LeaseInfo) []int {
	var all []scores
	var at []int // whose scores these are
	for i := range count {
		l, waited := lease(i), time.Duration(0)
		for _, w := range l.Queue {
			waited = max(waited, w.Waited)
		}
		if s := scoresOf(l.Since, l.Lost, l.Waiters, waited).only(by); s != (scores{}) {
			all, at = append(all, s), append(at, i)
		}
	}
	chosen, _ := rank(all, n)
	for i, c := range chosen {
		chosen[i] = at[c]
	}
	return chosen
}

// rank is RankLeases of leases each of which has a score. last are the scores for which each reason chose its last: another lease whose
// scores are all below would not be chosen. More leases never have one chosen that was not before, because
// each reason then chooses another one or the same. So a long list can be ranked in pieces.
func rank(all []scores, n int) (chosen []int, last scores) {
	var order [reasons][]int // what each reason has still to choose from
	for reason := range order {
		for i := range all {
			if all[i][reason] > 0 {
				order[reason] = append(order[reason], i)
			}
		}
		slices.SortStableFunc(order[reason], func(a, b int) int { return cmp.Compare(all[b][reason], all[a][reason]) })
	}
	taken := make([]bool, len(all))
	n = min(n, len(all))
	for reason := Reason(0); len(chosen) < n; reason = (reason + 1) % reasons {
		rest := order[reason]
		for len(rest) > 0 && taken[rest[0]] {
			rest = rest[1:]
		}
		last[reason] = 0
		if len(rest) > 0 {
			taken[rest[0]], last[reason] = true, all[rest[0]][reason]
			chosen = append(chosen, rest[0])
		}
		order[reason] = rest
	}
	return chosen, last
}
