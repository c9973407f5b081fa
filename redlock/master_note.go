package redlock

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A note on a master says that its clock has gained. A client that starts within a wait of that must not vouch for the clock, though by then it
// may agree with all others. Clients that have watched it need no note: each has seen the gain itself.

// clockView is what one lane knows of its master's clock.
type clockView struct {
	// gained is when the clock was first seen to gain, of the gains that it is doubted for; gain is by how much; 0: it is
	// not.
	gained, gain time.Duration
	// asked is when it was last asked for its time, and took how long the answer took. Negative: it was not asked.
	asked, took time.Duration
}

func (l *lane) clockViewLocked() clockView {
	k := &l.guard.clock
	view := clockView{gained: k.gained, gain: k.gain, asked: k.asked, took: k.took}
	if !l.state.takesWork() {
		view.asked = -1
	}
	return view
}

// clockViews are what the lanes know, in their order.
func clockViews(lanes []*lane) []clockView {
	views := make([]clockView, len(lanes))
	for i, l := range lanes {
		l.mu.Lock()
		views[i] = l.clockViewLocked()
		l.mu.Unlock()
	}
	return views
}

// gainedBesideOthers are the lanes of masters whose clocks have gained, where another master's clock has not: so it was no pause of
// this machine. That is no proof of who is wrong, but who has not watched those clocks must not vouch for them.
func (c *Client) gainedBesideOthers() (all []*lane) {
	lanes := c.view.Load().masters
	views := clockViews(lanes)
	for i, v := range views {
		if v.gain == 0 {
			continue
		}
		for _, other := range views {
			if other.gain == 0 && other.asked > v.gained && other.took < v.gain { //mutant:a-pause-of-ours-is-noted-on-the-masters
				all = append(all, lanes[i])
				break
			}
		}
	}
	return all
}

// noteGains notes on masters that their clocks have gained, once for each gain.
func (m *coordinator) noteGains(ctx context.Context, s *survey) {
	for _, l := range m.client.gainedBesideOthers() {
		l.mu.Lock()
		gained := l.guard.clock.gained
		l.mu.Unlock()
		f := s.at(l.index)
		if f == nil || !f.ok() || m.noted[l] == gained {
			continue
		}
		if f.conn.redis.Eval(ctx, scriptGained.text, []string{membersKey}, f.v).Err() == nil {
			m.noted[l] = gained
		}
	}
}

// notedGain tells whether somebody has noted on the master that its clock has gained, less than a wait ago by that clock.
func notedGain(fields *redis.SliceCmd, clock time.Time, wait time.Duration) bool {
	if len(fields.Val()) < 3 {
		return false
	}
	text, _ := fields.Val()[2].(string)
	at, err := strconv.ParseInt(text, 10, 64)
	return err == nil && clock.Sub(time.UnixMilli(at)) < wait //mutant:a-noted-gain-is-vouched-for
}
