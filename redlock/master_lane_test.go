package redlock

// Goal: what a lane decides by itself: which rounds it takes, when it counts as full, late or idle, how it reconnects, what it keeps for a master that is
// away, and what people are told of it. Method: lanes that no goroutine runs, in virtual time; masters in memory where something is delivered.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/quorum"
)

// idleLane is a lane of its own that takes work, and that nobody runs.
func (p *proxy) idleLane() *lane {
	l := newLane(&p.fleet, 1, Master{Addr: addrOf(1)})
	l.state, l.downReason = laneIdle, nil
	l.guard.record, l.guard.recheckWithin = p.fleet.view.Load().record, time.Hour
	l.guard.confirmed.Store(int64(p.own.At(time.Now())))
	l.guard.clock.good = true
	return l
}

func TestPendingReleasesInOrder(t *testing.T) {
	began := time.Now()
	at := func(seconds int) pendingRelease {
		return pendingRelease{fmt.Sprint("r", seconds), "T", began.Add(time.Duration(seconds) * time.Second)}
	}
	all := []pendingRelease{at(1), at(2), at(3)}
	for after, want := range map[time.Duration]int{0: 3, time.Second: 3, time.Second + 1: 2, 2*time.Second + 1: 1, 3 * time.Second: 1, 4 * time.Second: 0} {
		p := pendingReleases(slices.Clone(all))
		before := p
		p.expire(began.Add(after))
		if !slices.Equal(p, all[3-want:]) || (p == nil) != (want == 0) {
			t.Errorf("after %v: got %v, want the last %d", after, p, want)
		}
		for _, gone := range before[:3-want] {
			if gone != (pendingRelease{}) {
				t.Errorf("after %v: %v is still in memory", after, gone)
			}
		}
	}
}

// A master that comes back gets each release that was kept for it, also two of one key; and all of them again when its connection breaks before it has
// got them.
func TestPendingReleasesAreDelivered(t *testing.T) {
	for _, breaks := range []bool{false, true} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			p.cut(4)
			s.until("a master is away", func() bool { return p.states() == "uuuud" })
			l := p.fleet.view.Load().lanes[4]
			l.mu.Lock()
			for _, one := range []pendingRelease{{key: "r", token: "before"}, {key: "q", token: "T"}, {key: "r", token: "T"}, {key: "r", token: "behind"}} {
				one.expiresAt = time.Now().Add(time.Minute)
				l.pending.add(one)
			}
			l.mu.Unlock()
			s.doOn([]int{4}, "SET", "r", "T", "PX", 60000)
			s.doOn([]int{4}, "SET", "q", "T", "PX", 60000)
			s.doOn([]int{4}, "SET", "kept", "T", "PX", 60000)
			if breaks {
				broke := false
				s.masters[4].SetCost(func(args [][]byte) time.Duration {
					if !broke && len(args) > 3 && strings.EqualFold(string(args[0]), "evalsha") && slices.ContainsFunc(args, func(arg []byte) bool { return string(arg) == "before" }) {
						broke = true
						go p.paths[4].Cut()
						return 5 * ms
					}
					return 0
				})
			}
			p.heal(4)
			p.allUp()
			s.wantOn("r", "T", "00000")
			s.wantOn("q", "T", "00000")
			s.wantOn("kept", "T", "00001")
			if got := p.Masters()[4].PendingReleases; got != 0 {
				s.Errorf("%d releases are kept still", got)
			}
		})
	}
}

// Which rounds a lane takes, and when its queue is as full as one batch may be.
func TestWhatALaneTakes(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(func(o *Options) { o.QueueMax = 100 })
		for name, tt := range map[string]struct {
			state       laneState
			queued      int
			cost        int
			verb        verb
			taken, full bool
			shed        uint64
			kept        int
		}{
			"a LOCK":                                   {state: laneIdle, verb: verbSet, taken: true},
			"it is connecting":                         {state: laneConnecting, verb: verbSet},
			"a release, and it is connecting":          {state: laneConnecting, verb: verbRelease, kept: 1},
			"the last place":                           {state: laneWaiting, queued: 99, verb: verbSet, taken: true},
			"no place":                                 {state: laneWaiting, queued: 100, verb: verbSet, full: true, shed: 1},
			"a release finds one":                      {state: laneWaiting, queued: 100, verb: verbRelease, taken: true},
			"nearly too much":                          {state: laneWaiting, queued: 5, cost: 399, verb: verbSet, taken: true, full: true},
			"too much":                                 {state: laneWaiting, queued: 5, cost: 400, verb: verbSet, full: true, shed: 1},
			"too much, and it is a release":            {state: laneWaiting, queued: 5, cost: 400, verb: verbRelease, taken: true, full: true},
			"with it there is as much as a batch is":   {state: laneIdle, queued: 1, cost: 40 - 7, verb: verbSet, taken: true, full: true},
			"with it there is less than a batch takes": {state: laneIdle, queued: 1, cost: 40 - 8, verb: verbSet, taken: true},
		} {
			l := p.idleLane()
			l.state, l.queueCost, l.window.limit = tt.state, tt.cost, 40
			l.queue = make([]*round, tt.queued)
			r := &round{verb: tt.verb, keys: []string{"r"}, token: "T", cost: 7, start: time.Now(), keepFor: quorum.All}
			taken, full := l.push(r)
			if taken != tt.taken || full != tt.full || l.shed != tt.shed || len(l.pending) != tt.kept {
				s.Errorf("%s: taken %t, full %t, %d shed, %d kept; want %+v", name, taken, full, l.shed, len(l.pending), tt)
			}
			if want := tt.cost + 7; taken && (l.queueCost != want || l.queue[tt.queued] != r) || !taken && len(l.queue) != tt.queued {
				s.Errorf("%s: %d rounds of a cost of %d are queued", name, len(l.queue), l.queueCost)
			}
			if tt.shed > 0 && (l.replyErr != errQueueFull || l.replyErrAt != r.start) {
				s.Errorf("%s: got %v at %v for a reason", name, l.replyErr, l.replyErrAt)
			}
		}
	})
}

// A lane has room for as much as one batch takes. To a far master that is its window; while flows take turns, it is what a turn is, and most of that is
// kept behind a batch in flight.
func TestRoomOfALane(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		defer p.admission.turn.Store(costMax)
		for name, tt := range map[string]struct {
			limit, turn, queued int
			pipelined, inFlight bool
			votes               bool
			full                int
			room                bool
		}{
			"nothing is queued":                  {limit: 40, turn: costMax, votes: true, full: 40, room: true},
			"less than the limit":                {limit: 40, turn: costMax, queued: 39, votes: true, full: 40, room: true},
			"the limit":                          {limit: 40, turn: costMax, queued: 40, votes: true, full: 40},
			"flows take turns":                   {limit: 40, turn: 24, queued: 23, votes: true, full: 24, room: true},
			"a turn is queued":                   {limit: 40, turn: 24, queued: 24, votes: true, full: 24},
			"behind a batch in flight":           {limit: 40, turn: 24, queued: 24/aheadShare - 1, inFlight: true, votes: true, full: 24, room: true},
			"more behind a batch in flight":      {limit: 40, turn: 24, queued: 24 / aheadShare, inFlight: true, votes: true, full: 24},
			"behind one, and nobody takes turns": {limit: 40, turn: costMax, queued: 39, inFlight: true, votes: true, full: 40, room: true},
			"far away":                           {limit: 40, turn: 24, queued: 39, pipelined: true, inFlight: true, votes: true, full: 40, room: true},
			"far away, and a wide window":        {limit: costMax + 9, turn: 24, queued: costMax, pipelined: true, votes: true, full: costMax},
			"it does not vote":                   {limit: 40, turn: costMax, full: 40, room: true},
		} {
			l := p.idleLane()
			p.admission.turn.Store(int32(tt.turn))
			l.window.limit, l.queueCost, l.pipelined = tt.limit, tt.queued, tt.pipelined
			if tt.inFlight {
				l.out = append(l.out, nil)
			}
			if !tt.votes {
				l.guard.record = nil
			}
			if votes, room := l.room(); votes != tt.votes || room != tt.room || l.fullLocked() != tt.full {
				s.Errorf("%s: votes %t, room %t, full at %d; want %t, %t and %d", name, votes, room, l.fullLocked(), tt.votes, tt.room, tt.full)
			}
		}
	})
}

// When a lane is late, and for how long one is waited for that is needed; when it takes work and votes, and when Close need not wait for it.
func TestStatesOfALane(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		for state, want := range map[laneState]struct{ late, idle, takes bool }{
			laneConnecting: {false, true, false}, laneIdle: {false, true, true}, laneSending: {true, false, true}, laneWaiting: {true, false, true},
			laneMaintaining: {true, false, true}, laneTimedOut: {false, false, false}, laneBroken: {false, false, false}, laneClosed: {false, true, false},
		} {
			l := p.idleLane()
			l.state, l.ticks, l.oldestSentTick = state, 10+watchTicks+1, 10
			if l.lateLocked() != want.late || l.idle() != want.idle || l.answersInTime() != want.takes || l.mayVote() != want.takes {
				s.Errorf("%v: late %t, idle %t, takes work %t, may vote %t; want %+v", state, l.lateLocked(), l.idle(), l.answersInTime(), l.mayVote(), want)
			}
			if l.ticks--; l.lateLocked() {
				s.Errorf("%v: late after %d ticks", state, watchTicks)
			}
		}
		for name, change := range map[string]func(l *lane){
			"queued":     func(l *lane) { l.queue = append(l.queue, nil) },
			"delivering": func(l *lane) { l.delivering = true },
			"pending":    func(l *lane) { l.pending = append(l.pending, pendingRelease{}) },
		} {
			l := p.idleLane()
			if change(l); l.idle() {
				s.Errorf("%s: the lane counts as idle", name)
			}
		}
		l := p.idleLane()
		l.oldestSentTick, l.ticks = 10, 10+neededTicks
		if !l.excusedLocked(true) || l.excusedLocked(false) {
			s.Errorf("after %d ticks: excused %t if it is needed, %t if not", neededTicks, l.excusedLocked(true), l.excusedLocked(false))
		}
		if l.ticks++; l.excusedLocked(true) {
			s.Errorf("after %d ticks: excused", neededTicks+1)
		}
		l.guard.clock.good = false
		if l.mayVote() {
			s.Error("a master whose clock is doubted may vote")
		}
		for _, due := range []bool{false, true} {
			for state, takes := range map[laneState]bool{laneIdle: true, laneBroken: false} {
				l := p.idleLane()
				l.state, l.heartbeatDue = state, due
				if l.requestHeartbeat(); l.heartbeatDue != (due || takes) {
					s.Errorf("%v: a heartbeat is due %t", state, l.heartbeatDue)
				}
			}
		}
	})
}

// The pauses between connections double, and are short again behind one that lasted.
func TestPausesBetweenConnections(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		l := p.idleLane()
		most := p.opts.ReconnectDelayMax
		if most < 4*reconnectDelayMin {
			s.Fatalf("pauses up to %v say nothing", most)
		}
		var pauses []time.Duration
		lasts := map[int]time.Duration{0: 0, 12: most, 13: most + 1}
		last, n := time.Now(), 0
		l.reconnect(func() {
			pauses = append(pauses, time.Since(last))
			time.Sleep(lasts[n])
			last = time.Now()
			if n++; n == 18 {
				l.cancel()
			}
		})
		want := time.Duration(0)
		for i, got := range pauses {
			if got < want/2 || got > want {
				s.Errorf("pause %d: got %v, want between half of %v and that", i, got, want)
			}
			if i == 13 {
				want = 0
			}
			want = min(max(2*want, reconnectDelayMin), most)
		}
		if len(pauses) != 18 {
			s.Errorf("%d connections, want 18", len(pauses))
		}
		began := time.Now()
		if l.sleep(time.Hour) || l.sleep(0) || time.Since(began) > 0 {
			s.Error("the client closes: the lane sleeps, or goes on")
		}
	})
}

// What people are told of a master, and why it gave no vote: one reason, the one that they can do most about.
func TestWhatIsToldOfAMaster(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		refused := &conn.RefusedError{Reason: "it is a replica"}
		for name, tt := range map[string]struct {
			change func(l *lane)
			state  MasterState // of Client.Masters
			reason string
			why    MasterState // in a round
			text   string
		}{
			"all is well":             {func(*lane) {}, MasterUp, "", MasterUp, "its vote came too late or does not count"},
			"it has replied an error": {func(l *lane) { l.replyErr, l.replyErrAt = errors.New("BUSY"), time.Now() }, MasterUp, "", MasterUp, "BUSY"},
			"it has replied one before": {func(l *lane) { l.replyErr, l.replyErrAt = errors.New("BUSY"), time.Now().Add(-time.Second) }, MasterUp, "", MasterUp,
				"its vote came too late or does not count"},
			"it is down":        {func(l *lane) { l.state, l.downReason = laneConnecting, errors.New("connection refused") }, MasterDown, "connection refused", MasterDown, "down for 2s: connection refused"},
			"it is refused":     {func(l *lane) { l.state, l.downReason = laneConnecting, refused }, MasterRefused, "it is a replica", MasterRefused, "it is a replica"},
			"it may evict":      {func(l *lane) { l.guard.refusal, l.guard.lockRefusal = "it may evict", "it is full" }, MasterRefused, "it may evict", MasterRefused, "it may evict"},
			"it is full":        {func(l *lane) { l.guard.lockRefusal = "it is full" }, MasterRefused, "it is full", MasterRefused, "it is full"},
			"it is quarantined": {func(l *lane) { l.guard.record, l.guard.reason = nil, "it has forgotten" }, MasterQuarantined, "it has forgotten", MasterQuarantined, "quarantined: it has forgotten"},
			"its clock is doubted": {func(l *lane) {
				l.guard.clock.good, l.guard.clock.reason, l.guard.clock.until = false, "a step", time.Now().Add(3*time.Second)
			}, MasterDoubted, "a step", MasterDoubted, "doubted for another 3s: a step"},
			"it was doubted long ago": {func(l *lane) {
				l.guard.clock.good, l.guard.clock.reason, l.guard.clock.until = false, "a step", time.Now().Add(-time.Second)
			}, MasterDoubted, "a step", MasterDoubted, "doubted for another 0s: a step"},
			"nobody has reached it": {func(l *lane) {
				l.guard.recheckWithin, l.guard.unreached = time.Second, errors.New("i/o timeout")
				l.guard.confirmed.Add(-int64(9 * time.Second))
			},
				MasterQuarantined, "no new connection has reached it for 9s", MasterQuarantined, "i/o timeout; see whether it accepts connections"},
			"a new connection is refused": {func(l *lane) {
				l.guard.recheckWithin, l.guard.unreached = time.Second, refused
				l.guard.confirmed.Add(-int64(9 * time.Second))
			},
				MasterQuarantined, "by now: it is a replica", MasterQuarantined, "by now: it is a replica"},
			"no connection was tried": {func(l *lane) { l.guard.recheckWithin = time.Second; l.guard.confirmed.Add(-int64(9 * time.Second)) },
				MasterQuarantined, "by now: see whether", MasterQuarantined, "by now: see whether"},
		} {
			l := p.idleLane()
			l.since = time.Now().Add(-2 * time.Second)
			tt.change(l)
			told, why := l.status(), l.reason(time.Now())
			if told.State != tt.state || !strings.Contains(told.Reason, tt.reason) || told.Connected != l.state.takesWork() || told.Since != l.since {
				s.Errorf("%s: told %v, %q (%+v), want %v, %q", name, told.State, told.Reason, told, tt.state, tt.reason)
			}
			if why.State != tt.why || !strings.Contains(fmt.Sprint(why.Err), tt.text) || why.Addr != l.master.Addr {
				s.Errorf("%s: no vote for %v, %v, want %v, %q", name, why.State, why.Err, tt.why, tt.text)
			}
			if want := max(0, time.Until(l.guard.clock.until)); told.State == MasterDoubted && told.Left != want {
				s.Errorf("%s: for %v, want %v", name, told.Left, want)
			}
		}
	})
}

// A lane can only go from one state to another as laneTransitions says, and since when it takes work, or takes none, is when that began.
func TestStatesThatFollow(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		l := p.idleLane()
		began := l.since
		time.Sleep(time.Second)
		if l.setStateLocked(laneSending, nil); l.since != began {
			s.Error("it takes work as before: it does so since now")
		}
		broken := errors.New("broken")
		if l.setStateLocked(laneBroken, broken); l.since != time.Now() || l.downReason != broken {
			s.Errorf("it takes no work: since %v, for %v", time.Since(l.since), l.downReason)
		}
		defer func() {
			if recover() == nil {
				s.Error("a broken lane is idle: nothing panics")
			}
		}()
		l.setStateLocked(laneIdle, nil)
	})
}

// A release is kept for a master that may hold the key, until the key has ended there.
func TestReleasesThatAreKept(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		for name, tt := range map[string]struct {
			verb    verb
			keepFor quorum.Mask
			want    int
		}{
			"a release":                {verbRelease, maskOf("010"), 2},
			"one that others may hold": {verbRelease, maskOf("101"), 0},
			"a LOCK":                   {verbSet, quorum.All, 0},
		} {
			l := p.idleLane()
			r := &round{verb: tt.verb, keepFor: tt.keepFor, keys: []string{"a", "b"}, token: "T", start: time.Now()}
			l.keepReleaseLocked(r)
			if len(l.pending) != tt.want || tt.want > 0 && l.pending[1] != (pendingRelease{"b", "T", r.start.Add(p.fleet.keyLifeMax())}) {
				s.Errorf("%s: kept %v, want %d", name, l.pending, tt.want)
			}
		}
	})
}
