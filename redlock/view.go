package redlock

import (
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/member"
	"redlockd/redlock/quorum"
)

// view is who the masters are, and what holds for them, as this client sees it at one moment. It never changes: when something does, the
// client gets another view (setRecord). A round keeps the one that it was launched under, and its votes are counted by that.
type view struct {
	quorum.Electorate
	// lanes are the masters by place. Nil: nobody has the place.
	lanes []*lane
	// masters are the same without the gaps.
	masters []*lane

	// record is the one in force; nil: none is known, and no vote counts. since is when it was adopted here.
	record *member.Record
	since  time.Time
	// maxTTL is the longest TTL in force, and longestMs the longest that a master is asked for, in milliseconds.
	maxTTL    time.Duration
	longestMs int64
	// wait is for how long a master has no vote that may have forgotten locks, and how long a clock is watched.
	wait time.Duration
	// stamps are the waits that run, and seats the numbers of the seats, for heartbeats.
	stamps []string
	seats  []int
	// lowering: locks of a longer max_ttl may live.
	lowering bool
}

// newView makes the view of these lanes, each of which has its index as its place.
func newView(lanes []*lane, r *member.Record, c *Client) *view {
	v := &view{lanes: lanes, record: r, since: time.Now(), maxTTL: c.opts.MaxTTL}
	v.Places = len(lanes)
	for place, l := range lanes {
		if l == nil {
			v.Gaps += quorum.Cast(place, quorum.Nobody)
			continue
		}
		v.masters = append(v.masters, l)
		v.Masters = v.Masters.With(place)
		v.seats = append(v.seats, place)
	}
	v.Count = len(v.masters)
	v.wait = clock.QuarantineOf(v.maxTTL, c.drift)
	if r != nil {
		v.maxTTL = r.MaxTTL
		v.wait = max(r.Wait, clock.QuarantineOf(r.MaxTTL, c.drift))
		v.stamps = member.TimersOf(r, c.drift)
		v.lowering = r.Wait > r.Needed(c.drift)
	}
	v.longestMs = paddedTTL(v.maxTTL, c.drift).Milliseconds()
	return v
}

// beatArgs are what the lane's heartbeat tells its master.
func (v *view) beatArgs(to *lane) []any {
	if v.record == nil {
		return member.BeatArgs("", false, nil, nil, nil)
	}
	var heard []int
	for _, l := range v.masters {
		l.mu.Lock()
		if s := v.record.Seat(l.index); l.state.takesWork() && s.Memory != "" && l.guard.memory == s.Memory {
			heard = append(heard, l.index)
		}
		l.mu.Unlock()
	}
	to.mu.Lock()
	agrees := to.guard.clock.same || to.guard.clock.agrees
	to.mu.Unlock()
	return member.BeatArgs(v.record.ShownBy(to.guard.memory), agrees, v.stamps, heard, v.seats)
}

// setRecord makes the record the one in force. Masters that stay keep their lanes; votes of rounds that are under way do not count any more,
// for the masters show another record.
func (c *Client) setRecord(r *member.Record) {
	last := r.Seats[len(r.Seats)-1].Number
	lanes := make([]*lane, last+1)
	var begin []*lane
	c.mu.Lock()
	before := c.view.Load()
	for i := range r.Seats {
		s := &r.Seats[i]
		m := c.opts.members().MasterAt(s.Name, s.Addr)
		if s.Number < len(before.lanes) {
			if l := before.lanes[s.Number]; l != nil && l.master.SeatName() == s.Name && l.master.FullAddr() == m.FullAddr() {
				lanes[s.Number] = l
				continue
			}
		}
		l := newLane(c, s.Number, m)
		lanes[s.Number] = l
		begin = append(begin, l)
	}
	after := newView(lanes, r, c)
	c.view.Store(after)
	c.mu.Unlock()
	for _, l := range before.masters {
		if l.index >= len(lanes) || lanes[l.index] != l {
			l.end()
		}
	}
	for _, l := range begin {
		c.running.Go(l.run)
		c.running.Go(l.keepSubscribed)
	}
	c.recheckLanes()
}

// recheckLanes has every lane look at what its master shows.
func (c *Client) recheckLanes() {
	for _, l := range c.view.Load().masters {
		l.mu.Lock()
		l.toResolve.recheck = true
		l.wake.Signal()
		l.mu.Unlock()
	}
}
