package redlock

import (
	"encoding/binary"
	"time"
)

// WATCH of a drop-in client is a reading, and EXEC a commit that is made only if nobody has changed what
// was read. Most values tell that by themselves, but not the token of somebody who has released his lock
// and taken it again. What else tells it is when the key ends on each master: whoever sets a key, or
// moves its end, gives it another one.
//
// A key that is set twice within one millisecond with the same TTL ends at the same time, though. So
// keys that are held are read twice, WatchPause apart, and what ended at the same time in both was set
// before the first reading. Whoever sets it after the second one does so later by WatchPause and more.
//
// Invariant: a master takes part in the commit only if it has answered both readings with this end, and
// finds it once more. Where that is not known, the key counts as changed. So readings of keys that are held
// wait for every master that they were sent to, until it is given up (MasterTimeout). Otherwise a master
// that is only slower than the others would take part in no commit, and keep what the others delete.
//
// What is left: two locks under one token whose ends are times of day (PXAT), if they are set within
// 100 ms and end at the same moment on a quorum.

// WatchPause is between the two readings of a key. It is more than the millisecond within which a key can
// be set twice with one end.
const WatchPause = 3 * time.Millisecond

// StartWatch is StartRead for a client that is going to change the keys if nobody else does: State.Seen
// goes into Change.Seen. before is what a first StartWatch of the same keys has answered, at least
// WatchPause ago. nil: this is the first, and for keys that are found a second one must follow.
func StartWatch(c *Client, op *Op, resources []string, before []State, to Completer) {
	var ends []byte
	places := c.fleet.view.Load().Places
	for i := range before {
		for place := range places {
			ends = binary.BigEndian.AppendUint64(ends, uint64(before[i].Seen(place)))
		}
	}
	op.watches, op.token = true, string(ends)
	op.keys, op.verb, op.onlyReleases = resources, verbRead, false
	c.start(op, to, checkResources(resources, MaxKeys), (*Client).beginReadingLocked)
}
