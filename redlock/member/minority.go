package member

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/conn"
)

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
	return m.Digest == digest || m.Digest == ReadersDigest && readers > 0
}

// ReadersDigest is the Digest of readers, who have no value.
const ReadersDigest = "-"

const (
	MinorityField = "minority"
	// minorityMax bounds the locks that a master tells of, minorityNameMax their names, in bytes: every
	// survey reads them.
	minorityMax     = 32
	minorityNameMax = 256
)

// MinorityText is what a learner keeps of these locks, given by resource, a line for each;
// Report.Minority reads it. ahead is by how much its clock is ahead of this one's.
func MinorityText(locks map[string]MinorityLock, ahead time.Duration) string {
	var b strings.Builder
	told := 0
	for _, name := range slices.Sorted(maps.Keys(locks)) {
		if told == minorityMax || len(name) > minorityNameMax {
			continue
		}
		told++
		one := locks[name]
		fmt.Fprintf(&b, "%d %s %q %q\n", one.Ends.Add(ahead).UnixMilli(), one.Digest, one.On, name)
	}
	return b.String()
}

// Minority are the locks that the master tells of and that have not ended. What cannot be read is left
// out: it is for people.
func (f *Report) Minority() (list []MinorityLock) {
	text := f.Fields[MinorityField]
	if len(text) > minorityMax*(4*minorityNameMax+1024) {
		return nil
	}
	for line := range strings.Lines(text) {
		var ms int64
		one := MinorityLock{By: conn.Sanitize(f.Master.SeatName())}
		if _, err := fmt.Sscanf(line, "%d %s %q %q\n", &ms, &one.Digest, &one.On, &one.Resource); err != nil {
			continue
		}
		one.On = conn.Sanitize(one.On)
		if one.Ends = time.UnixMilli(ms); len(list) < minorityMax && one.Ends.After(f.Clock) { //mutant:a-minority-is-told-of-for-ever
			list = append(list, one)
		}
	}
	return list
}
