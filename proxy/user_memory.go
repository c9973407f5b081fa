package proxy

import (
	"cmp"
	"slices"

	"redlockd/redlock"
)

// One user must not fill the masters for all others. So where there are several users, the locks of each
// may take a share of the memory of each master, if max_memory says nothing else: over all redlockds, at
// most half of the maxmemory that a quorum of the masters has. A master with less may be filled, and locks
// go on without it: so one bad setting does not starve everybody. Each redlockd counts only what was locked
// through it, so it divides that by the number of redlockds.
//
// What else a user can leave on the masters is bounded without a share: marks of fences by
// Options.FenceMarks, for all users together, and stored scripts by storedMax and storedBytesMax.

// memoryAssumed is taken for the maxmemory of masters that have none, or have not told it yet.
const memoryAssumed = 1 << 30

// memoryShare is the share of a user without a max_memory, in bytes; 0: there is no limit.
func memoryShare(users, redlockds int, masters []redlock.MasterStatus) int64 {
	if users < 2 {
		return 0
	}
	var limits []int64
	for _, m := range masters {
		limits = append(limits, cmp.Or(m.MaxMemory, memoryAssumed))
	}
	quorumHas := int64(memoryAssumed)
	if slices.Sort(limits); len(limits) > 0 {
		quorumHas = limits[(len(limits)-1)/2]
	}
	return max(1, quorumHas/2/int64(redlockds))
}
