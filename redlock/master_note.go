package redlock

import (
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/clock"
)

// A note on a master says that its clock has gained. A client that starts within a wait of that must
// not vouch for the clock, though by then it may agree with all others. Clients that have watched it
// need no note: each has seen the gain itself.
//
// A pause of this machine looks like a gain of all masters. It is not noted, because it would keep
// everybody out who starts then. It was no pause if
//   - another master's clock did not gain meanwhile, and was read fast enough to show it;
//   - our wall clock gained on our monotonic one, too: a pause stops both. So the clocks stepped, and
//     ours with them;
//   - the master's clock agrees with our wall clock now, and did not before: a pause would have left
//     ours behind.
//
// Where somebody sets the wall clock right after a pause, as tools of a hypervisor do, clocks that are
// right are noted: that costs their votes to clients that start within a wait. And a gain is taken for
// a pause if it is less than clock_skew_max, of all masters together, and our wall clock was right; or
// if it is so small that no other master answers fast enough.

// clockView is what a lane knows of its master's clock, on our monotonic clock.
type clockView struct {
	// gain is by how much the clock has gained at least since it was good; 0: it has not. It did between
	// before, when it had last been read before that, and gained. A clock that runs too fast gains a bit
	// more than the tolerance, again and again: doubtClock adds that up.
	gain           time.Duration
	before, gained time.Duration
	// began is since when the clock has been read and shown no gain; asked is when the last heartbeat
	// asked for it, and took how long the answer took.
	began, asked, took time.Duration
	// offset is how far the clock was ahead of our wall clock then.
	offset time.Duration
	// wall is what that heartbeat read. known tells that the master is connected since.
	wall  clock.Interval
	known bool
}

// stepped tells whether a clock that gained stepped, or runs too fast; false: as far as is known, this
// machine was paused. all are the clocks of all masters, and ownGain is by how much our wall clock
// gained on our monotonic one within the last wait.
func (v clockView) stepped(all []clockView, ownGain, tolerance, skew time.Duration) bool {
	for _, other := range all {
		throughout := other.began < v.before && other.asked > v.gained //mutant:a-clock-that-gained-too-is-a-witness //mutant:a-clock-that-was-not-asked-is-a-witness
		// A pause shows there as its length less what the answers took, now and before.
		couldShow := 2*other.took+tolerance < v.gain //mutant:a-far-clock-is-a-witness
		if throughout && couldShow {                 //mutant:a-pause-of-ours-is-noted-on-the-masters
			return true
		}
	}
	intoAgreement := v.offset.Abs() <= skew && (v.offset-v.gain).Abs() > skew
	return intoAgreement || ownGain > tolerance //mutant:clocks-that-stepped-to-ours-are-not-noted //mutant:clocks-that-stepped-with-ours-are-not-noted
}

// notedGain tells whether somebody has noted on the master that its clock has gained, less than a wait
// ago by that clock.
func notedGain(fields *redis.SliceCmd, clock time.Time, wait time.Duration) bool {
	if len(fields.Val()) < 3 {
		return false
	}
	text, _ := fields.Val()[2].(string)
	at, err := strconv.ParseInt(text, 10, 64)
	return err == nil && clock.Sub(time.UnixMilli(at)) < wait //mutant:a-noted-gain-is-vouched-for
}
