package redlock

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/member"
	"redlockd/redlock/member/coordinator"
	"redlockd/redlock/member/copying"
	"redlockd/redlock/quorum"
)

// fleet is the lanes to the masters, and what this client knows of the masters together: who they are,
// which of them vote, whether their clocks agree. It knows nothing of locks. It calls the coordinator
// and its lanes; what the lanes have to tell the engine goes to client.
type fleet struct {
	// id names the client on the masters: one at a time.
	id   string
	opts *Options
	// followsAnew counts Host.FollowAnew.
	followsAnew atomic.Int32
	drift       clock.Drift // of opts
	own         *clock.Own  // this machine's clock
	// view is who the masters are. It is exchanged under gate.
	view atomic.Pointer[view]
	// gate is Client.mu.
	gate   *sync.Mutex
	bounds *bounds
	// client gets the votes, messages and changes of state of the lanes. The fleet itself does not use it.
	client *Client
	// coordinator keeps the membership.
	coordinator *coordinator.Coordinator

	// changedMu guards claims and changed. No other mutex is taken while it is held.
	changedMu sync.Mutex
	// claims tells which lane has the master with this run_id: no process has two votes.
	claims map[string]*lane
	// changed is closed, and made anew, when a lane goes up or down.
	changed chan struct{}

	// endingContext is cancelled by Close, and with it all connections end.
	endingContext context.Context
	end           context.CancelFunc
	// running counts the goroutines of the client, which Close waits for.
	running sync.WaitGroup
}

// view is who the masters are, and what holds for them, as this client sees it at one moment. It never
// changes: when something does, the client gets another view (setRecord). A round keeps the one that it
// was launched under, and its votes are counted by that.
type view struct {
	quorum.Electorate
	// lanes are the masters by place. Nil: nobody has the place.
	lanes []*lane
	// masters are the same without the gaps.
	masters []*lane

	// record is the one in force; nil: none is known, and no vote counts. since is when it was adopted
	// here.
	record *member.Record
	since  time.Time
	// maxTTL is the longest TTL that may be asked for, ceiling the longest that may run (member/ceiling.go),
	// and longestMs what a master is asked for then, in milliseconds. Locks above withoutCeiling need it.
	maxTTL, ceiling, withoutCeiling time.Duration
	longestMs                       int64
	// wait is for how long a master has no vote that may have forgotten locks, and how long a clock is
	// watched.
	wait time.Duration
	// stamps are the waits that run, and seats the numbers of the seats, for heartbeats.
	stamps []string
	seats  []int
	// lowering: locks of a longer max_ttl may live.
	lowering bool
	// digestKey is the key of TokenDigest: the lineage, which is random and stands on the masters alone.
	// A founding draws another. As long as no record is known it is this client's id.
	digestKey string
}

// init makes a fleet without lanes.
func (f *fleet) init(c *Client) {
	f.id = member.Nonce()
	f.opts, f.drift, f.own, f.gate, f.bounds, f.client = &c.opts, c.drift, &c.own, &c.mu, &c.bounds, c
	f.claims, f.changed = make(map[string]*lane), make(chan struct{})
	f.endingContext, f.end = context.WithCancel(context.Background())
}

// start has a lane work.
func (f *fleet) start(l *lane) {
	f.running.Go(l.run)
	f.running.Go(l.keepSubscribed)
}

// heartbeat is the pause between two looks at a master: Options.Heartbeat, and less where a wait is short.
// A clock that nobody has read for a wait is not trusted any more.
func (f *fleet) heartbeat() time.Duration {
	return min(f.opts.Heartbeat, f.view.Load().wait/3) //mutant:a-clock-is-read-once-in-a-long-heartbeat
}

// set makes the view the one in force.
func (f *fleet) set(v *view) {
	f.view.Store(v)
	f.bounds.maxTTL.Store(int64(v.maxTTL))
}

// newView makes the view of these lanes, each of which has its index as its place.
func newView(lanes []*lane, r *member.Record, f *fleet) *view {
	v := &view{lanes: lanes, record: r, since: time.Now(), maxTTL: f.opts.MaxTTL, ceiling: min(f.opts.MaxTTL, f.opts.members().LowestCeiling()), digestKey: f.id}
	v.withoutCeiling = v.ceiling
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
	v.wait = clock.QuarantineOf(v.ceiling, f.drift)
	if r != nil {
		v.maxTTL, v.ceiling, v.withoutCeiling = r.MaxTTL, r.Ceiling, f.opts.members().WithoutCeiling(r.Ceiling)
		v.wait = max(r.Wait, clock.QuarantineOf(r.Ceiling, f.drift))
		v.stamps = member.TimersOf(r, f.drift)
		v.lowering = r.Wait > r.Needed(f.drift)
		v.digestKey = r.Lineage
	}
	v.longestMs = clock.Padded(v.ceiling, f.drift).Milliseconds()
	return v
}

// beatArgs are what the lane's heartbeat tells its master.
func (v *view) beatArgs(to *lane) []any {
	if v.record == nil {
		return member.BeatArgs("", false, 0, nil, nil, nil)
	}
	var heard []int
	for _, l := range v.masters {
		if l.hasMemory(v.record.Seat(l.index).Memory) {
			heard = append(heard, l.index)
		}
	}
	return member.BeatArgs(v.record.ShownBy(to.guard.memory), to.clockAgrees(), to.fleet.opts.ClockSkewMax, v.stamps, heard, v.seats)
}

// setRecord makes the record the one in force. Masters that stay keep their lanes; votes of rounds that
// are under way do not count any more, for the masters show another record.
func (f *fleet) setRecord(r *member.Record) {
	last := r.Seats[len(r.Seats)-1].Number
	lanes := make([]*lane, last+1)
	var begin []*lane
	f.gate.Lock()
	before := f.view.Load()
	for i := range r.Seats {
		s := &r.Seats[i]
		m := f.opts.members().MasterAt(s.Name, s.Addr)
		if s.Number < len(before.lanes) {
			if l := before.lanes[s.Number]; l != nil && l.master.SeatName() == s.Name && l.master.FullAddr() == m.FullAddr() {
				lanes[s.Number] = l
				continue
			}
		}
		l := newLane(f, s.Number, m)
		lanes[s.Number] = l
		begin = append(begin, l)
	}
	after := newView(lanes, r, f)
	f.set(after)
	if len(f.client.ceiling.waits) > 0 {
		f.client.admission.full.Store(true) // admit goes on with them
	}
	f.gate.Unlock()
	for _, l := range before.masters {
		if l.index >= len(lanes) || lanes[l.index] != l {
			l.end()
		}
	}
	for _, l := range begin {
		f.start(l)
	}
	f.recheck()
}

// leave has every lane tell its master that this client leaves, and tells whether all have.
func (f *fleet) leave() (done bool) {
	done = true
	for _, l := range f.view.Load().masters {
		done = l.leave() && done
	}
	return done
}

// recheck has every lane look at what its master shows.
func (f *fleet) recheck() {
	for _, l := range f.view.Load().masters {
		l.recheck()
	}
}

// up is how many masters get new work.
func (f *fleet) up() (n int) {
	for _, l := range f.view.Load().masters {
		if l.answersInTime() {
			n++
		}
	}
	return n
}

// claim makes the lane the only one for the master with this run_id, or returns the one that is. The
// lane of the seat that lists a memory of this process goes first: another one loses its connection.
func (f *fleet) claim(runID string, l *lane) *lane {
	listed := false
	if r := f.view.Load().record; r != nil {
		s := r.Seat(l.index)
		listed = s != nil && member.SameProcess(s.Memory, runID+":")
	}
	f.changedMu.Lock()
	other := f.claims[runID]
	if other != nil && other != l && !listed { //mutant:one-redis-votes-twice
		f.changedMu.Unlock()
		return other
	}
	f.claims[runID] = l
	f.changedMu.Unlock()
	if other != nil && other != l {
		other.disconnect(sameRedis(l))
	}
	return nil
}

// sameRedis is why a lane is refused that has reached the master of this one.
func sameRedis(l *lane) error {
	return &conn.RefusedError{Reason: fmt.Sprintf("it is the same Redis as %s: each vote must come from a master of its own", l.master.Addr)}
}

// unclaim gives up the lane's claim.
func (f *fleet) unclaim(l *lane) {
	f.changedMu.Lock()
	defer f.changedMu.Unlock()
	maps.DeleteFunc(f.claims, func(_ string, owner *lane) bool { return owner == l })
}

// voters is how many masters are up and admitted.
func (f *fleet) voters() (n int) {
	for _, l := range f.view.Load().masters {
		if l.mayVote() {
			n++
		}
	}
	return n
}

// quorumCanVote tells whether a quorum of masters is up and admitted.
func (f *fleet) quorumCanVote() bool {
	return quorum.Standing{Seats: f.view.Load().Count, Voting: f.voters()}.Quorum()
}

// subscribed is how many masters send invalidations.
func (f *fleet) subscribed() (n int) {
	for _, l := range f.view.Load().masters {
		if l.invalidationsID.Load() != 0 {
			n++
		}
	}
	return n
}

// farthest is the round trip to the farthest master.
func (f *fleet) farthest() (most time.Duration) {
	for _, l := range f.view.Load().masters {
		most = max(most, l.distance())
	}
	return most
}

// hasRoom tells whether a quorum of the masters that vote can take more. Where fewer than a quorum
// vote, all of these must: no round is granted then, but its undo and its wait for an answer cost as
// much. With none there is nothing to protect.
func (f *fleet) hasRoom() bool {
	voting, open := 0, 0
	for _, l := range f.view.Load().masters {
		if votes, room := l.room(); votes {
			voting++
			if room {
				open++
			}
		}
	}
	return open >= min(voting, f.view.Load().Quorum())
}

// keyLifeMax is how long a release is kept: no key that was set before lives for longer.
func (f *fleet) keyLifeMax() time.Duration {
	v := f.view.Load()
	padded := clock.Padded(v.ceiling, f.drift)
	return max(padded+clock.DriftOf(padded, f.drift), v.wait) // the ceiling may have been higher
}

// waitsForStep tells whether operations should wait because a step of the membership is under way: the
// masters that take work and remember everything are a quorum, but too many of them show something else
// than this client knows.
func (f *fleet) waitsForStep() bool {
	v := f.view.Load()
	if v.record == nil {
		return false
	}
	same, other := 0, 0
	for _, l := range v.masters {
		switch votes, steps := l.inStep(v.record); {
		case votes:
			same++
		case steps:
			other++
		}
	}
	return same < v.Quorum() && same+other >= v.Quorum()
}

func (c *Client) newCoordinator() *coordinator.Coordinator {
	return coordinator.New(host{c}, c.opts.members(), &c.own, c.fleet.endingContext, &c.fleet.running)
}

// host is what the coordinator sees of the client.
type host struct{ *Client }

func (h host) Places() map[int]conn.Master {
	places := make(map[int]conn.Master)
	for _, l := range h.fleet.view.Load().masters {
		places[l.index] = l.master
	}
	return places
}

func (h host) Follower() string       { return h.fleet.follower() }
func (h host) FollowAnew()            { h.fleet.followsAnew.Add(1) }
func (h host) FollowedAt() time.Time  { return h.fleet.followedAt() }
func (h host) Answering() int         { return h.fleet.up() }
func (h host) Adopt(r *member.Record) { h.fleet.setRecord(r) }
func (h host) Recheck()               { h.fleet.recheck() }

// lane is the one of a place; nil: there is none.
func (h host) lane(place int) *lane {
	if lanes := h.fleet.view.Load().lanes; place < len(lanes) {
		return lanes[place]
	}
	return nil
}

func (h host) Confirm(place int, runID string, at time.Time) {
	if l := h.lane(place); l != nil {
		l.confirm(runID, at)
	}
}

func (h host) Unreached(place int, why error) {
	if l := h.lane(place); l != nil {
		l.unreached(why)
	}
}

func (h host) Source(place int) (s copying.Source) {
	if l := h.lane(place); l != nil {
		return l.source()
	}
	return s
}

func (h host) Saw(place int, runID string, now clock.Reading) {
	if l := h.lane(place); l != nil {
		l.saw(runID, now)
	}
}

func (h host) OutOfStep(place int) string {
	if l := h.lane(place); l != nil {
		return h.fleet.outOfStep(l)
	}
	return ""
}

func (h host) Copied(place int, memory string, began time.Time) {
	if l := h.lane(place); l != nil {
		l.gave(memory, h.own.At(began))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stats.Copies++
}
