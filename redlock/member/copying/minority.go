package copying

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/member"
)

// A copy gives the learner what so few masters held that it need not be a lock: one of them may deny a
// lease, or have what is left of an attempt. Nobody can tell which. It keeps others out either way, so
// the learner lists such keys, in the field minority of its hash, and LOCKINFO and LOCKS show that.

// minorityRead bounds those that are read once more at the end.
const minorityRead = 4096

// minorityLocks are those of a copy, by resource. Those beyond minorityRead are counted.
type minorityLocks struct {
	named  map[string]member.MinorityLock
	others int
}

// decided takes note of what becomes of a key.
func (all *minorityLocks) decided(name string, o *copyOrder, now time.Time) {
	delete(all.named, name) // another reading has said something else
	switch {
	case !o.minority:
	case len(all.named) == minorityRead:
		all.others++
	default:
		one := member.MinorityLock{Resource: name, Digest: member.ReadersDigest, On: strings.Join(o.on, ","), Ends: now.Add(time.Duration(o.left) * time.Millisecond)}
		if o.readers == nil {
			one.Digest = conn.Digest(o.value)
		}
		all.named[name] = one
	}
}

// minorityLogged is how many of them the log names.
const minorityLogged = 8

func (all *minorityLocks) sample() string {
	names := slices.Sorted(maps.Keys(all.named))
	for i := range names {
		names[i] = conn.Sanitize(names[i])
	}
	more := len(names) + all.others - minorityLogged
	text := strings.Join(names[:min(len(names), minorityLogged)], ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
