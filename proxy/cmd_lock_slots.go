package proxy

import (
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// LOCK … SLOTS k: at most k clients hold the resource at one time, each a slot of it. A slot is an
// ordinary resource, resource#0 to resource#(k-1), and the reply names it: UNLOCK, EXTEND and LOCKINFO
// take that name. What applies to the resource applies to its slots.

// parseSlots reads the k of SLOTS. The engine would take 0 for "not given".
func parseSlots(arg []byte) (k int, refusal error) {
	n, ok := resp.ParseInt(arg)
	if !ok || n < 1 || n > redlock.MaxSlots {
		return 0, errorf("ERR SLOTS '%s' is not an integer from 1 to %d", clipped(arg, 32), redlock.MaxSlots)
	}
	return int(n), nil
}

// refusedSlots is the error for SLOTS k of a command that has none, or of a user who may not use every
// one of the slots: it could be granted one that it may not release. k is 0 without SLOTS.
func (s *session) refusedSlots(c *call, k int, resources [][]byte) error {
	if k == 0 {
		return nil
	}
	if c.cmd.name != "lock" {
		return replyError("ERR SLOTS is an option of LOCK alone: a lock of several resources has no slots")
	}
	for i := 0; i < k && s.user().Confined(); i++ {
		if slot := redlock.SlotName(string(resources[0]), i); !s.user().May(slot) {
			return noPermission(s.user(), "resource", slot)
		}
	}
	return nil
}

// withSlots are the keys and the k slots of the first one.
func withSlots(keys []string, k int) []string {
	for i := range k {
		keys = append(keys, redlock.SlotName(keys[0], i))
	}
	return keys
}
