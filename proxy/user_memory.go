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

// memoryAssumed is taken for the maxmemory of a master that says it has none, and as long as no master
// has said anything.
const memoryAssumed = 1 << 30

// memoryShare is that share, in bytes, of what these masters have said. One that has said nothing yet,
// which a used memory of 0 shows, does not count.
func memoryShare(redlockds int, masters []redlock.MasterStatus) int64 {
	var limits []int64
	for _, m := range masters {
		if m.UsedMemory > 0 {
			limits = append(limits, cmp.Or(m.MaxMemory, memoryAssumed))
		}
	}
	quorumHas := int64(memoryAssumed)
	if slices.Sort(limits); len(limits) > 0 {
		quorumHas = limits[(len(limits)-1)/2]
	}
	return max(1, quorumHas/2/int64(redlockds))
}
