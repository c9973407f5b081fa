package member

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
)

// A copy gives the learner what so few masters held that it need not be a lock: one of them may deny a
// lease, or have what is left of an attempt. Nobody can tell which. It keeps others out either way, so
// the learner tells of it, in the field minority of its hash, and whoever asks for the lock is told.

// MinorityLock is a key that a master was given when it came back, although fewer than a quorum of the
// masters had it.
type MinorityLock struct {
	Resource string
	// Digest is conn.Digest of its value; "-": readers.
	Digest string
	// On are the names of the masters that had it, with commas between them; By is the one that was given it.
	// Both are fit to be shown.
	On, By string
	// Ends is when the key ends at the latest, by the clock of By.
	Ends time.Time
}

// Of tells whether what a master holds, by the digest of its value, or by how many readers, is this.
func (m MinorityLock) Of(digest string, readers int) bool {
	return m.Digest == digest || m.Digest == readersDigest && readers > 0
}

const (
	minorityField = "minority"
	// minorityMax bounds the locks that a master tells of, minorityNameMax their names, in bytes: every
	// survey reads them.
	minorityMax     = 32
	minorityNameMax = 256
	// minorityRead bounds those that are read once more at the end.
	minorityRead = 4096
)

// readersDigest is the Digest of readers, who have no value.
const readersDigest = "-"

// minorityLocks are those of a copy, by resource. Those beyond minorityRead are counted.
type minorityLocks struct {
	named  map[string]MinorityLock
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
		one := MinorityLock{Resource: name, Digest: readersDigest, On: strings.Join(o.on, ","), Ends: now.Add(time.Duration(o.left) * time.Millisecond)}
		if o.readers == nil {
			one.Digest = conn.Digest(o.value)
		}
		all.named[name] = one
	}
}

// text is what the learner keeps, a line for each; Report.minority reads it. ahead is by how much its
// clock is ahead of this one's.
func (all *minorityLocks) text(ahead time.Duration) string {
	var b strings.Builder
	told := 0
	for _, name := range slices.Sorted(maps.Keys(all.named)) {
		if told == minorityMax || len(name) > minorityNameMax {
			continue
		}
		told++
		one := all.named[name]
		fmt.Fprintf(&b, "%d %s %q %q\n", one.Ends.Add(ahead).UnixMilli(), one.Digest, one.On, name)
	}
	return b.String()
}

// minority are the locks that the master tells of and that have not ended. What cannot be read is left
// out: it is for people.
func (f *Report) minority() (list []MinorityLock) {
	text := f.fields[minorityField]
	if len(text) > minorityMax*(4*minorityNameMax+1024) {
		return nil
	}
	for line := range strings.Lines(text) {
		var ms int64
		one := MinorityLock{By: conn.Sanitize(f.master.SeatName())}
		if n, err := fmt.Sscanf(line, "%d %s %q %q\n", &ms, &one.Digest, &one.On, &one.Resource); n < 4 || err != nil {
			continue
		}
		one.On = conn.Sanitize(one.On)
		if one.Ends = time.UnixMilli(ms); len(list) < minorityMax && one.Ends.After(f.clock) { //mutant:a-minority-is-told-of-for-ever
			list = append(list, one)
		}
	}
	return list
}

// tellMinority has the learner tell of them, and the log. They are read once more before: what was on its
// way to all masters, or to none, has come by now.
func (c *copier) tellMinority(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(c.minority.named)) {
		c.again = append(c.again, copyKey{name: name})
	}
	if err := c.settleAll(ctx); err != nil {
		return err
	}
	text := c.minority.text(c.learner.ahead)
	_, err := c.ask([]*copyPlace{c.learner}, func(p *copyPlace) (a copyAnswer, err error) {
		return a, c.pipe(ctx, p, func(pipe redis.Pipeliner) {
			if text == "" {
				pipe.HDel(ctx, lua.MembersKey, minorityField)
			} else {
				pipe.HSet(ctx, lua.MembersKey, minorityField, text) //mutant:a-learner-does-not-tell-of-a-minority
			}
		})
	})
	if n := len(c.minority.named) + c.minority.others; err == nil && n > 0 {
		c.opts.Logger.Warn("a master was given what fewer than a quorum held", "master", conn.Sanitize(c.learner.name), "locks", n, "resources", c.minority.sample(),
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

// takeMinority takes note of what the masters tell of.
func (m *Coordinator) takeMinority(s *Survey, r *Record) {
	all := make(map[string][]MinorityLock)
	for _, f := range s.Reports {
		if f.shows(r) {
			for _, one := range f.minority() {
				all[one.Resource] = append(all[one.Resource], one)
			}
		}
	}
	m.mu.Lock()
	m.minority = all
	m.mu.Unlock()
}

// Minority is what the masters tell of a resource that fewer than a quorum of them held when one of them
// came back. What they were given may have ended since, or somebody else may hold the lock.
func (m *Coordinator) Minority(resource string) []MinorityLock {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.minority[resource]
}
