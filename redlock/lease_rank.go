package redlock

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Which leases are listed where not all can be. Whoever shortens a list asks RankLeases: this client, a
// redlockd that answers another one, the status page.

// The reasons for which a lease is listed before others.
const (
	reasonHeld    = iota // for how long it has been held
	reasonWaited         // for how long somebody has waited for it
	reasonWaiters        // how many wait for it
	reasonLost           // the masters no longer have it
	reasons
)

// scores are those of a lease by reason: 0 where it has none. Each lease has reasonHeld.
type scores [reasons]int64

func scoresOf(since time.Time, lost bool, waiters int, waited time.Duration) (s scores) {
	s[reasonHeld] = 1
	if since.Unix() > 0 {
		s[reasonHeld] = math.MaxInt64 - since.UnixNano()
	}
	if waiters > 0 {
		s[reasonWaited], s[reasonWaiters] = int64(waited)+1, int64(waiters)
	}
	if lost {
		s[reasonLost] = 1
	}
	return s
}

// RankLeases returns the indices of the n leases to list of so many, the first to list first. The
// reasons take turns: that which has been held for longest, for which somebody has waited for longest,
// that which most wait for, one that is lost, and so on. So the first of each reason are among any four.
func RankLeases(count, n int, lease func(i int) *LeaseInfo) []int {
	all := make([]scores, count)
	for i := range all {
		l, waited := lease(i), time.Duration(0)
		for _, w := range l.Queue {
			waited = max(waited, w.Waited)
		}
		all[i] = scoresOf(l.Since, l.Lost, l.Waiters, waited)
	}
	chosen, _ := rank(all, n)
	return chosen
}

// rank is RankLeases. last are the scores for which each reason chose its last: another lease whose
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
	for reason := 0; len(chosen) < n; reason = (reason + 1) % reasons {
		rest := order[reason]
		for len(rest) > 0 && taken[rest[0]] {
			rest = rest[1:]
		}
		last[reason] = 0
		if len(rest) > 0 {
			taken[rest[0]], last[reason] = true, all[rest[0]][reason]
			chosen, rest = append(chosen, rest[0]), rest[1:]
		}
		order[reason] = rest
	}
	return chosen, last
}
