package copying

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
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
	case o.do != copyGive || !o.minority:
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

// tellMinority has the learner tell of them, and the log. They are read once more before: what was on its
// way to all masters, or to none, has come by now.
func (c *Copy) tellMinority(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(c.minority.named)) {
		c.again = append(c.again, copyKey{name: name})
	}
	if err := c.settleAll(ctx); err != nil {
		return err
	}
	text := member.MinorityText(c.minority.named, c.learner.ahead)
	_, err := c.ask([]*Place{c.learner}, func(p *Place) (a copyAnswer, err error) {
		return a, c.pipe(ctx, p, func(pipe redis.Pipeliner) {
			if text == "" {
				pipe.HDel(ctx, lua.MembersKey, member.MinorityField)
			} else {
				pipe.HSet(ctx, lua.MembersKey, member.MinorityField, text) //mutant:a-learner-does-not-tell-of-a-minority
			}
		})
	})
	if n := len(c.minority.named) + c.minority.others; err == nil && n > 0 {
		c.Opts.Logger.Warn("a master was given what fewer than a quorum held", "master", conn.Sanitize(c.learner.Name), "locks", n, "resources", c.minority.sample(),
			"to_do", "nothing: it ends by itself; where nobody holds such a lock and somebody waits for it, LOCKINFO says so, and UNLOCK resource FORCE reason ends it")
	}
	return err
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
