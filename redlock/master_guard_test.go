package redlock

// Goal: a master that may have forgotten has no vote, for as long as what it forgot may live, for every proxy; and gets its vote
// back when that time is over. Method: every way in which a master forgets, in virtual time.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/survey"
	"redlockd/redlock/memmaster"
	"redlockd/redlock/redisproc"
)

func TestQuarantineLastsLongerThanAnyKey(t *testing.T) {
	for _, maxTTL := range []time.Duration{10 * ms, time.Second, time.Minute, 24 * time.Hour} {
		for _, factor := range []float64{0.0001, 0.01, 0.5} {
			for _, stepMax := range []time.Duration{ms, 10 * ms, 10 * time.Second} {
				d := clock.Drift{Factor: factor, StepMax: stepMax}
				// The slowest clock within the drift keeps a key that much longer, and we may be the fastest. A clock may also step back.
				got, least := clock.QuarantineOf(maxTTL, d), max(time.Duration(float64(maxTTL)*(1+2*factor))+clock.DriftConstant, clock.Padded(maxTTL, d), maxTTL+stepMax)
				if got < least {
					t.Errorf("quarantine for max_ttl %v, %+v: got %v, want at least %v", maxTTL, d, got, least)
				}
			}
		}
	}
}

// forgetting is every way in which a master loses a lock that it has voted for. Before runs ahead of the lock.
var forgetting = []struct {
	name   string
	forget func(s *stage, i int, before *memory)
	reason string // of the quarantine
	idle   bool   // only the heartbeat of a proxy that knows the master finds it: give it time before a new proxy starts
}{
	{name: "restart without data", reason: "restarted without its data", forget: func(s *stage, i int, _ *memory) { s.masters[i].Crash(false); s.masters[i].Restart() }},
	{name: "restart with the data of half a second ago", reason: "of another run", forget: func(s *stage, i int, m *memory) {
		s.masters[i].Crash(true)
		s.masters[i].Rollback(m.snapshot[i])
		s.masters[i].Restart()
	}},
	{name: "restart with all data", reason: "of another run", forget: func(s *stage, i int, _ *memory) { s.masters[i].Crash(true); s.masters[i].Restart() }},
	{name: "FLUSHALL", reason: "flushed", forget: func(s *stage, i int, _ *memory) { s.do(i, "FLUSHALL") }},
	{name: "FLUSHDB", reason: "flushed", forget: func(s *stage, i int, _ *memory) { s.do(i, "FLUSHDB") }},
	{name: "SWAPDB", reason: "flushed", forget: func(s *stage, i int, _ *memory) { s.do(i, "SWAPDB", 0, 1) }},
	{name: "failover to a replica of another master", reason: "of another run", forget: func(s *stage, i int, _ *memory) {
		s.do(i, "DEL", "r")
		s.do(i, "HSET", lua.MembersKey, "v", s.do((i+1)%5, "HGET", lua.MembersKey, "v"), "r", s.do((i+1)%5, "HGET", lua.MembersKey, "r"))
	}},
	{name: "its machine is rolled back", reason: "its beat went back", idle: true, forget: func(s *stage, i int, m *memory) { s.masters[i].Rollback(m.snapshot[i]) }},
}

// The case that the Redis documentation warns of: a lock holds a bare quorum, one of its masters forgets it, and two more never had
// it. Nobody may be granted the lock until it has ended, neither through a proxy that knew the master before nor through a
// new one.
func TestForgetfulMasterHasNoVote(t *testing.T) {
	for _, f := range redisproc.Some(2, forgetting) {
		inVirtualTime(t, 5, func(s *stage) {
			change := func(o *Options) { o.MaxTTL = 10 * time.Second }
			p, other := s.open(change, uncopied), s.open(change, uncopied)
			before := s.remember()
			time.Sleep(2 * time.Second) // several heartbeats
			for i := 3; i < 5; i++ {
				p.paths[i].Partition()
				p.paths[i].Cut()
			}
			held := p.lock(one("r", 10*time.Second))
			held.want(s, f.name+": LOCK on a bare quorum", "held", 0)
			s.wantOn("r", held.Token, "11100")
			f.forget(s, 0, before)

			if c := other.lock(one("r", time.Second)); c.Held {
				s.Fatalf("%s: another proxy was granted the lock at once", f.name)
			}
			if f.idle {
				time.Sleep(600 * ms)
			}
			fresh := s.start(change, uncopied)
			for time.Now().Before(held.Until) {
				for _, c := range []*proxy{other, fresh} {
					if c.lock(one("r", time.Second)).Held && time.Now().Before(held.Until) {
						s.Fatalf("%s: another was granted the lock %v before its end", f.name, time.Until(held.Until))
					}
				}
				time.Sleep(23 * ms)
			}
			// The proxy that was first to notice says why.
			a, b, c := p.Masters()[0], other.Masters()[0], fresh.Masters()[0]
			if b.State != MasterQuarantined || !strings.Contains(a.Reason+b.Reason+c.Reason, f.reason) {
				s.Errorf("%s: master 1: got %s, %q, %q and %q, want quarantined, %q", f.name, b.State, a.Reason, b.Reason, c.Reason, f.reason)
			}
			p.heal(3, 4)
			for _, c := range []*proxy{p, other, fresh} {
				c.allUp()
			}
			fresh.lockable("r")
		})
	}
}

// memory is what the masters remember at one time.
type memory struct{ snapshot []*memmaster.Snapshot }

func (s *stage) remember() *memory {
	m := new(memory)
	for _, master := range s.masters {
		m.snapshot = append(m.snapshot, master.Snapshot())
	}
	return m
}

// What the first of two pipelines has found is acted on, though the second finds nothing any more, and its votes do not count.
func TestFindingsOfTwoPipelines(t *testing.T) {
	one, another := new(member.Record), new(member.Record)
	counts := func(r *member.Record) guardResult { return guardResult{counts: true, record: r} }
	suspects := func(why string) guardResult { return guardResult{suspicion: why} }
	gained := func(gain, before time.Duration) guardResult {
		return guardResult{clock: clockResult{gain: gain, before: before}}
	}
	unwatched, recheck := guardResult{clock: clockResult{unwatched: true}}, guardResult{recheck: true}
	for _, tt := range []struct {
		what               string
		first, later, want guardResult
		resolved           bool
	}{
		{"both count", counts(one), counts(one), counts(one), true},
		{"the first does not count", guardResult{record: one}, counts(one), guardResult{record: one}, true},
		{"the later one does not", counts(one), guardResult{record: one}, guardResult{record: one}, true},
		{"each under another record", counts(one), counts(another), guardResult{record: another}, true},
		{"a beat that went back", suspects("1"), guardResult{}, suspects("1"), false},
		{"then", guardResult{}, suspects("2"), suspects("2"), false},
		{"twice", suspects("1"), suspects("2"), suspects("1"), false},
		{"a clock that gained", gained(1, 7), guardResult{}, gained(1, 7), false},
		{"then", guardResult{}, gained(1, 7), gained(1, 7), false},
		{"twice", gained(1, 7), gained(2, 8), gained(2, 7), false},
		{"a clock that nobody watched", unwatched, guardResult{}, unwatched, false},
		{"then", guardResult{}, unwatched, unwatched, false},
		{"another record", recheck, guardResult{}, recheck, false},
		{"then", guardResult{}, recheck, recheck, false},
	} {
		if got := tt.first.merge(tt.later); got != tt.want || got.unresolved() == tt.resolved {
			t.Errorf("%s: got %+v, want %+v", tt.what, got, tt.want)
		}
	}
}

// What one guard makes of the end of a pipeline.
func TestGuardJudges(t *testing.T) {
	f := &fleet{opts: &Options{MasterTimeout: 40 * ms}, drift: clock.Drift{Factor: 0.01}, own: &clock.Own{Faults: &clock.Faults{}}}
	f.own.Start(time.Now())
	f.view.Store(&view{wait: time.Minute})
	const at, within = 10 * time.Second, time.Second
	record := new(member.Record)
	counts, nothing := guardResult{counts: true, remembers: true, record: record}, guardResult{}
	for _, tt := range []struct {
		what   string
		change func(g *guard)
		end    member.Trailer
		want   guardResult
		beat   int64
	}{
		{"the same beat", nil, member.Trailer{Shown: "shown", Beat: 5}, counts, 5},
		{"a later one", nil, member.Trailer{Shown: "shown", Beat: 7}, counts, 7},
		{"an earlier one", nil, member.Trailer{Shown: "shown", Beat: 4}, guardResult{suspicion: "its beat went back from 5 to 4: its memory is of an earlier time"}, 5},
		{"another record", nil, member.Trailer{Shown: "another", Beat: 6}, guardResult{recheck: true}, 5},
		{"none is shown, and none was", func(g *guard) { g.shown = "" }, member.Trailer{Beat: 6}, guardResult{recheck: true}, 5},
		{"it does not vote", func(g *guard) { g.record = nil }, member.Trailer{Shown: "shown", Beat: 6}, nothing, 6},
		{"its address was made sure of just in time", func(g *guard) { g.confirmed.Store(int64(at - within)) }, member.Trailer{Shown: "shown", Beat: 6}, counts, 6},
		{"and a moment before", func(g *guard) { g.confirmed.Store(int64(at - within - 1)) }, member.Trailer{Shown: "shown", Beat: 6}, nothing, 6},
		{"it may evict", func(g *guard) { g.refusal = "it may evict" }, member.Trailer{Shown: "shown", Beat: 6}, guardResult{record: record}, 6},
		{"its clock is doubted", func(g *guard) { g.clock.good = false }, member.Trailer{Shown: "shown", Beat: 6}, guardResult{remembers: true, record: record}, 6},
	} {
		g := &guard{shown: "shown", record: record, recheckWithin: within, beat: 5, clock: newClockGuard(f.own, false)}
		g.confirmed.Store(int64(at))
		g.clock.good = true
		g.clock.ring.Add(clock.ReadingOf(at, at, at), f.drift.Rate(), time.Minute)
		if tt.change != nil {
			tt.change(g)
		}
		got := g.judge(tt.end, clock.ReadingOf(at, at, at), f)
		if got.clock = (clockResult{}); got != tt.want || g.beat != tt.beat {
			t.Errorf("%s: got %+v with beat %d, want %+v with beat %d", tt.what, got, g.beat, tt.want, tt.beat)
		}
	}
	g := &guard{clock: newClockGuard(f.own, false)}
	for _, tt := range []struct {
		what        string
		took, ahead time.Duration
		want        time.Duration
	}{
		{"the first, though it was slow", 20 * ms, 100 * ms, 120 * ms},
		{"a slow one", 10*ms + 1, 0, 120 * ms},
		{"one that just was not", 10 * ms, 50 * ms, 60 * ms},
	} {
		now := clock.ReadingOf(at-tt.took, at, at+tt.ahead)
		g.judge(member.Trailer{}, now, f)
		if got := time.Duration(g.ahead.Load()); (got - tt.want).Abs() > 2*ms {
			t.Errorf("%s: the clock is ahead by at most %v, want %v", tt.what, got, tt.want)
		}
	}
}

// What a lane makes of what its master shows: whether its votes count, why not, who looks at the leases, and what the log has.
func TestWhatAMasterShows(t *testing.T) {
	b := standing(t, newMemMaster(t))
	l, c := b.lane, b.lane.client
	record, memory := l.guard.record, l.guard.memory
	if record == nil || l.guard.shown != record.ShownBy(memory) {
		t.Fatalf("shown at first: got %q, want the record with %s", l.guard.shown, memory)
	}
	later := member.NewMemory(l.identity.RunID)
	listed := func(change func(s *member.Seat)) *member.Record {
		r := *record
		r.Seats = slices.Clone(r.Seats)
		change(&r.Seats[0])
		return &r
	}
	learner := listed(func(s *member.Seat) { s.State = member.Learner })
	voter, elsewhere := listed(func(*member.Seat) {}), listed(func(s *member.Seat) { s.Number = 1 })
	elsewhere.Version, elsewhere.Seats[0].State = 1, member.Learner
	settled := member.State{Memory: memory, Record: record.ID()}
	changed := func(change func(s *member.State)) member.State {
		s := settled
		change(&s)
		return s
	}
	accepted := changed(func(s *member.State) { s.Child = strings.Repeat("a", member.DigestLen) })
	behind := changed(func(s *member.State) { s.Record = elsewhere.ID() })
	forgot := changed(func(s *member.State) { s.Memory = later })
	c.leases.all = make([]*lease, 1)
	for _, tt := range []struct {
		what               string
		record             *member.Record // in force
		state              member.State
		why                string
		votes, logged      bool // before
		reason             string
		changing, suspects bool
		quarantined        bool // is logged
	}{
		{what: "it votes", record: voter, state: settled, votes: true},
		{what: "it votes again", record: voter, state: settled},
		{what: "no membership is known", state: settled, votes: true, reason: "no membership is known yet", suspects: true},
		{what: "none is known, and it says why", state: settled, why: "it is new", reason: "it is new"},
		{what: "it has no seat", record: elsewhere, state: settled, votes: true, reason: "the membership does not list what it remembers", suspects: true},
		{what: "it is listed with another memory", record: voter, state: forgot, votes: true, reason: "it was flushed: the same run has forgotten", suspects: true},
		{what: "and was before", record: voter, state: forgot, why: "it was flushed", reason: "it was flushed", suspects: true}, // its memory is forgotten
		{what: "it shows another version", record: voter, state: behind, votes: true, reason: "it does not show version 0 of the membership", changing: true},
		{what: "it has accepted a child", record: voter, state: accepted, votes: true, reason: "a change of the membership is under way", changing: true},
		{what: "it learns", record: learner, state: settled, votes: true, reason: "it may have forgotten locks", suspects: true, quarantined: true},
		{what: "it learns still", record: learner, state: settled, logged: true, reason: "it may have forgotten locks"},
		{what: "it learns, and a change is under way", record: learner, state: accepted, reason: "a change of the membership is under way"},
	} {
		var text strings.Builder
		l.fleet.opts.Logger = slog.New(slog.NewTextHandler(&text, nil))
		l.fleet.set(newView([]*lane{l}, tt.record, l.fleet))
		long := time.Now().Add(-time.Hour)
		l.since, l.guard = long, guard{memory: memory, beat: 7, high: 8, logged: tt.logged, clock: l.guard.clock}
		if tt.votes {
			l.guard.record = record
		}
		c.audits.doubts = 0
		l.shows(tt.state.String(), tt.state, tt.why)
		g := &l.guard
		if g.shown != tt.state.String() || g.memory != tt.state.Memory || g.seenBy != tt.record || (g.record != nil) != (tt.reason == "") || g.record != nil && g.record != tt.record {
			t.Errorf("%s: got %+v", tt.what, g)
		}
		if !strings.HasPrefix(g.reason, tt.reason) || tt.reason == "" && g.reason != "" {
			t.Errorf("%s: got the reason %q, want %q", tt.what, g.reason, tt.reason)
		}
		if g.changing != tt.changing || (c.audits.doubts > 0) != tt.suspects || l.since.Equal(long) != (tt.votes == (tt.reason == "")) {
			t.Errorf("%s: got changing %v, %d leases to look at, and since %v", tt.what, g.changing, c.audits.doubts, time.Since(l.since))
		}
		if forgotten := tt.state.Memory != memory; (g.beat == 0) != forgotten || (g.high == 0) != forgotten || slices.Contains(g.forgotten, memory) != forgotten {
			t.Errorf("%s: got beat %d, high %d, forgotten %q", tt.what, g.beat, g.high, g.forgotten)
		}
		if tt.reason == "" && (!g.voted || g.logged || g.recheckWithin != member.RecheckWithin(record.Wait)) {
			t.Errorf("%s: got %+v", tt.what, g)
		}
		if got := strings.Contains(text.String(), "master quarantined"); got != tt.quarantined || got != (g.logged && !tt.logged) {
			t.Errorf("%s: got the log %q", tt.what, text.String())
		}
	}
}

// What a lane makes of heartbeats. Each step begins where the one before has ended.
func TestHeartbeats(t *testing.T) {
	m := newMemMaster(t)
	b := standing(t, m)
	l, c, ctx := b.lane, b.lane.client, t.Context()
	c.leases.all = make([]*lease, 1)
	g, first, named := &l.guard, l.guard.memory, l.guard.memory
	do := func(args ...any) {
		t.Helper()
		if err := b.conn.Redis.Do(ctx, args...).Err(); err != nil {
			t.Fatal(args, err)
		}
	}
	evict := func(key string) {
		t.Helper()
		if do("SET", key, "", "PX", 60_000); !m.Evict(func(name string) bool { return name == key }) {
			t.Fatal("nothing is evicted")
		}
	}
	policy := func(name string) { do("CONFIG", "SET", "maxmemory", 100_000_000, "maxmemory-policy", name) }
	const evicts = "it may evict locks"
	for _, tt := range []struct {
		what          string
		do            func()
		err           string
		votes, loses  bool   // its memory gets another name
		suspects      bool   // all leases are looked at
		refusal       string // afterwards
		high, evicted int64
		renamed       bool // by another client
	}{
		{what: "nothing happens", votes: true},
		{what: "its first eviction", do: func() { policy("volatile-lru"); evict("k"); policy("noeviction") }, loses: true, suspects: true, evicted: 1},
		{what: "it has a vote again", do: func() { b.admit(t) }, votes: true, evicted: 1},
		{what: "a fence", do: func() { do("ZADD", lua.MarksKey, 70, "r") }, votes: true, high: 70, evicted: 1},
		{what: "a floor that can be no fence", do: func() { do("SET", lua.FloorKey, "x") }, votes: true, suspects: true, refusal: "its redlockd:floor is x", high: 70, evicted: 1},
		{what: "a floor that can be one", do: func() { do("SET", lua.FloorKey, 60) }, votes: true, high: 70, evicted: 1},
		{what: "a connection that is new, and sees the evictions of before", do: func() { policy("volatile-lru"); evict("k0"); policy("noeviction"); g.evicted = -1 }, votes: true, high: 70, evicted: 2},
		{what: "it may evict", do: func() { policy("volatile-lru") }, votes: true, suspects: true, refusal: evicts, high: 0, evicted: 2},
		{what: "it evicts", do: func() { evict("k1") }, loses: true, suspects: true, refusal: evicts, evicted: 3},
		{what: "it goes on evicting", do: func() { evict("k2") }, suspects: true, refusal: evicts, evicted: 3},
		{what: "it may no longer", do: func() { policy("noeviction") }, loses: true, suspects: true, evicted: 4},
		{what: "it does not", evicted: 4},
		{what: "it has a vote again", do: func() { b.admit(t); do("ZADD", lua.MarksKey, 80, "r") }, votes: true, high: 80, evicted: 4},
		{what: "it evicts, and may not by now", do: func() { policy("volatile-lru"); evict("k3"); policy("noeviction") }, loses: true, suspects: true, evicted: 5},
		{what: "it has a vote again", do: func() { b.admit(t) }, votes: true, high: 80, evicted: 5},
		{what: "its fences went back", do: func() { do("DEL", lua.MarksKey) }, loses: true, suspects: true, evicted: 5},
		{what: "a fence without a vote", do: func() { do("ZADD", lua.MarksKey, 90, "r") }, evicted: 5},
		{what: "its beat went back by one", do: func() { do("HINCRBY", lua.MembersKey, "beat", -1) }, loses: true, suspects: true, evicted: 5},
		{what: "another client has named its memory", do: func() {
			named = member.NewMemory(l.identity.RunID)
			if err := survey.NameMemory(ctx, b.conn, g.shown, named, "another"); err != nil {
				t.Fatal(err)
			}
		}, renamed: true, suspects: true, evicted: 5},
		{what: "what it shows cannot be read", do: func() { do("HSET", lua.MembersKey, "v", l.identity.RunID+" in another form") }, err: "which this redlockd cannot read"},
		{what: "a beat that is no number", do: func() { do("HSET", lua.MembersKey, "beat", "x") }, err: "heartbeat: ERR hash value is not an integer"},
		{what: "its membership is no hash", do: func() { do("DEL", lua.MembersKey); do("SET", lua.MembersKey, "x") }, err: "is no membership"},
		{what: "it is a replica", do: func() { do("REPLICAOF", "elsewhere", 1) }, err: "it is a slave of elsewhere:1"},
	} {
		if tt.do != nil {
			tt.do()
		}
		c.audits.doubts, l.rttMin = 0, 0
		memory, was := g.memory, g.beat
		switch err := l.heartbeat(ctx, b.conn); {
		case tt.err != "":
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got the error %v, want %q", tt.what, err, tt.err)
			}
			continue
		case err != nil:
			t.Fatalf("%s: %v", tt.what, err)
		}
		if got := g.memory != memory; got != (tt.loses || tt.renamed) || (g.record != nil) != tt.votes || tt.renamed && g.memory != named {
			t.Errorf("%s: another memory is %v, its record %v, its name %s", tt.what, got, g.record, g.memory)
		}
		if !strings.Contains(g.refusal, tt.refusal) || (tt.refusal == "") != (g.refusal == "") || (c.audits.doubts > 0) != tt.suspects {
			t.Errorf("%s: refusal %q, %d leases to look at", tt.what, g.refusal, c.audits.doubts)
		}
		if g.high != tt.high || g.evicted != tt.evicted || l.rttMin == 0 {
			t.Errorf("%s: highest fence %d, %d evicted, distance %v, want %d and %d", tt.what, g.high, g.evicted, l.rttMin, tt.high, tt.evicted)
		}
		if g.memory == memory && g.beat <= was {
			t.Errorf("%s: its beat went from %d to %d", tt.what, was, g.beat)
		}
	}
	if slices.Contains(g.forgotten, named) || !slices.Contains(g.forgotten, first) {
		t.Errorf("forgotten: got %q", g.forgotten)
	}
}

func TestFirstOfBeat(t *testing.T) {
	reply := func(value any, err error) *redis.Cmd {
		cmd := redis.NewCmd(t.Context(), "evalsha")
		cmd.SetVal(value)
		if err != nil {
			cmd.SetErr(err)
		}
		return cmd
	}
	for _, tt := range []struct {
		reply *redis.Cmd
		want  int64
		err   string
	}{
		{reply([]any{int64(7), "1"}, nil), 7, ""},
		{reply([]any{"7"}, nil), 0, "heartbeat: refused: it sends"},
		{reply([]any{}, nil), 0, "heartbeat: refused: it sends"},
		{reply(int64(7), nil), 0, "heartbeat: "},
		{reply([]any{int64(7)}, errors.New("ERR no")), 0, "heartbeat: ERR no"},
	} {
		if got, err := firstOfBeat(tt.reply); got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%v: got %d, %v, want %d, %q", tt.reply, got, err, tt.want, tt.err)
		}
	}
}

// A new connection to the address of a master has found this process there, or another one.
func TestConfirm(t *testing.T) {
	l := standing(t, newMemMaster(t)).lane
	begun := time.Now().Add(time.Hour)
	for _, tt := range []struct {
		what        string
		state       laneState
		runID       string
		socket      bool
		confirms    bool
		disconnects bool
	}{
		{what: "the same", state: laneIdle, runID: l.identity.RunID, socket: true, confirms: true},
		{what: "another", state: laneIdle, runID: "another", socket: true, disconnects: true},
		{what: "another, and the connection is gone", state: laneIdle, runID: "another"},
		{what: "the lane connects", state: laneConnecting, runID: "another", socket: true},
		{what: "the lane connects, to the same", state: laneConnecting, runID: l.identity.RunID, socket: true},
	} {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		l.state, l.socket = tt.state, nil
		if tt.socket {
			l.socket = ours
		}
		l.guard.confirmed.Store(0)
		l.confirm(tt.runID, begun)
		theirs.SetReadDeadline(time.Now().Add(ms))
		_, err := theirs.Read(make([]byte, 1))
		if confirmed := l.guard.confirmed.Load() == int64(l.fleet.own.At(begun)); confirmed != tt.confirms || (err == io.EOF) != tt.disconnects {
			t.Errorf("%s: confirmed %v, and the other end reads %v", tt.what, confirmed, err)
		}
	}
}

// The reason why a connected master has no vote is noted once, has the leases looked at, and stays until it is gone.
func TestRefuse(t *testing.T) {
	l := standing(t, newMemMaster(t)).lane
	c := l.client
	c.leases.all = make([]*lease, 1)
	for i, tt := range []struct {
		reason          string
		since, suspects bool
	}{{"it may evict", true, true}, {"it may evict", false, false}, {"its fences are false", false, true}, {"", true, false}, {"", false, false}} {
		long := time.Now().Add(-time.Hour)
		l.since, c.audits.doubts = long, 0
		l.refuse(tt.reason)
		if l.guard.refusal != tt.reason || l.since.Equal(long) == tt.since || (c.audits.doubts > 0) != tt.suspects {
			t.Errorf("%d, %q: got %q, since %v, %d leases to look at", i, tt.reason, l.guard.refusal, time.Since(l.since), c.audits.doubts)
		}
	}
}

// insteadOf answers a command in a master's place. One that is sent alone never reaches the master; in a pipeline only the answer is replaced.
type insteadOf struct {
	name   string
	answer func(cmd redis.Cmder)
}

// fails answers the command with this error, or with nothing where it is nil.
func fails(name string, err error) insteadOf {
	return insteadOf{name, func(cmd redis.Cmder) { cmd.SetErr(err) }}
}

func (h insteadOf) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != h.name {
			return next(ctx, cmd)
		}
		h.answer(cmd)
		return cmd.Err()
	}
}

func (h insteadOf) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, all []redis.Cmder) error {
		err := next(ctx, all)
		for _, cmd := range all {
			if cmd.Name() == h.name {
				h.answer(cmd)
			}
		}
		return err
	}
}

func (insteadOf) DialHook(next redis.DialHook) redis.DialHook { return next }

// A master with a full memory cannot count the beat: it stays. What else it answers that nobody can read ends the connection.
func TestHeartbeatWithOddAnswers(t *testing.T) {
	for _, tt := range []struct {
		hook insteadOf
		want string
	}{
		{fails("evalsha", errors.New("OOM command not allowed when used memory > 'maxmemory'.")), ""},
		{fails("evalsha", errors.New("ERR OOM")), "heartbeat: ERR OOM"},
		{insteadOf{"evalsha", func(cmd redis.Cmder) { cmd.(*redis.Cmd).SetVal("7") }}, "heartbeat: "},
		{fails("get", errors.New("ERR no")), "heartbeat: GET redlockd:floor: ERR no"},
	} {
		b := standing(t, newMemMaster(t))
		memory := b.lane.guard.memory
		b.conn.Redis.AddHook(tt.hook)
		err := b.lane.heartbeat(t.Context(), b.conn)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || b.lane.guard.memory != memory {
			t.Errorf("%s: got %v, want %q", tt.hook.name, err, tt.want)
		}
	}
}

// Where a master cannot be told that it has forgotten, the reason that an operator can change comes first. Everything else is told as it is.
func TestMemoryThatCannotBeNamed(t *testing.T) {
	full, other := errors.New("OOM command not allowed when used memory > 'maxmemory'."), errors.New("ERR no")
	for _, tt := range []struct {
		refusal string
		err     error // of the naming; nil: the name is gone at once
		refused bool
		want    string
	}{
		{"it may evict", full, true, "it may evict"},
		{"it may evict", nil, true, "it may evict"},
		{"it may evict", other, false, "ERR no"},
		{"", full, false, "OOM command"},
		{"", nil, false, survey.ErrUnsteady.Error()},
	} {
		b := standing(t, newMemMaster(t))
		l := b.lane
		if err := b.conn.Redis.HDel(t.Context(), lua.MembersKey, "v").Err(); err != nil {
			t.Fatal(err)
		}
		b.conn.Redis.AddHook(fails("eval", tt.err))
		l.guard.refusal, l.toResolve.recheck = tt.refusal, true
		err := l.resolve(t.Context(), b.conn)
		if err == nil || !strings.Contains(err.Error(), tt.want) || conn.IsRefused(err) != tt.refused {
			t.Errorf("refusal %q, %v: got %v, want %q", tt.refusal, tt.err, err, tt.want)
		}
		if !l.toResolve.recheck {
			t.Errorf("refusal %q, %v: what was found is forgotten", tt.refusal, tt.err)
		}
	}
}

// What others ask of a guard.
func TestAskedOfAGuard(t *testing.T) {
	l := standing(t, newMemMaster(t)).lane
	record, another, hold := l.guard.record, new(member.Record), stepHold*l.fleet.opts.MasterTimeout
	for _, tt := range []struct {
		what                        string
		change                      func(l *lane, g *guard)
		votes, steps, has, isSource bool
	}{
		{"it votes", func(l *lane, g *guard) {}, true, false, true, true},
		{"it is to look again", func(l *lane, g *guard) { l.toResolve.recheck = true }, false, true, true, true},
		{"it is not connected", func(l *lane, g *guard) { l.state = laneConnecting }, false, false, false, true},
		{"its clock is doubted", func(l *lane, g *guard) { g.clock.good = false }, false, false, true, false},
		{"it may evict", func(l *lane, g *guard) { g.refusal = "it may evict" }, false, false, true, false},
		{"it votes under another record", func(l *lane, g *guard) { g.record = another }, false, true, true, true},
		{"it does not vote", func(l *lane, g *guard) { g.record = nil }, false, false, true, true},
		{"it changes", func(l *lane, g *guard) { g.record, g.changing = nil, true }, false, true, true, true},
		{"it changes for too long", func(l *lane, g *guard) { g.record, g.changing, l.since = nil, true, time.Now().Add(-hold) }, false, false, true, true},
		{"it has no memory", func(l *lane, g *guard) { g.memory = "" }, true, false, false, true},
		{"it has another one", func(l *lane, g *guard) { g.memory = "another" }, true, false, false, true},
	} {
		l.state, l.since, l.toResolve = laneIdle, time.Now(), guardResult{}
		l.guard = guard{record: record, memory: "memory", clock: newClockGuard(l.fleet.own, false)}
		l.guard.clock.good, l.guard.clock.copied.Begun, l.guard.clock.copiedBeat = true, true, 7
		tt.change(l, &l.guard)
		if votes, steps := l.inStep(record); votes != tt.votes || steps != tt.steps {
			t.Errorf("%s: in step: got %v, %v, want %v, %v", tt.what, votes, steps, tt.votes, tt.steps)
		}
		if has := l.hasMemory("memory"); has != tt.has || l.hasMemory("") {
			t.Errorf("%s: has the memory: got %v, want %v, and never none", tt.what, has, tt.has)
		}
		if is := l.source(); is.Good != tt.isSource || !is.Read || !is.Ring.Begun || is.Beat != 7 {
			t.Errorf("%s: source: got %+v, want %v", tt.what, is, tt.isSource)
		}
	}
	l.guard.clock.same, l.guard.clock.agrees = true, false
	if is := l.source(); is.Ring != nil || !is.Good || !is.Read || !l.clockAgrees() {
		t.Errorf("a master with our clock: got %+v", is)
	}
	l.guard.clock = clockGuard{}
	if is := l.source(); is.Good || is.Read {
		t.Errorf("a clock that was never read: got %+v", is)
	}
	for _, agrees := range []bool{false, true} {
		if l.guard.clock.same, l.guard.clock.agrees = false, agrees; l.clockAgrees() != agrees {
			t.Errorf("a clock that agrees (%v): got %v", agrees, l.clockAgrees())
		}
	}
}

// admit gives the memory that the lane's master has now a vote.
func (b *batch) admit(t *testing.T) {
	t.Helper()
	l, memory := b.lane, b.lane.guard.memory
	r := l.fleet.view.Load().record.Child()
	r.Seats[0].Memory = memory
	l.fleet.set(newView([]*lane{l}, r.Seal(), l.fleet))
	if err := b.conn.Redis.HSet(t.Context(), lua.MembersKey, "v", r.ShownBy(memory)).Err(); err != nil {
		t.Fatal(err)
	}
	if err := l.heartbeat(t.Context(), b.conn); err != nil {
		t.Fatal(err)
	}
}

// A lane remembers a bounded number of memories that are lost, the latest, and each of them has the leases looked at once.
func TestForgottenMemories(t *testing.T) {
	c := &Client{}
	c.audits.client, c.leases.all = c, make([]*lease, 3)
	l := &lane{client: c}
	for i, tt := range []struct {
		memory string
		want   []string
		doubts int
	}{{"", nil, 0}, {"a", []string{"a"}, 3}, {"b", []string{"a", "b"}, 3}, {"a", []string{"a", "b"}, 0}} {
		c.audits.doubts = 0
		if l.forget(tt.memory); !slices.Equal(l.guard.forgotten, tt.want) || c.audits.doubts != tt.doubts {
			t.Errorf("%d: forgotten: got %q and %d doubts, want %q and %d", i, l.guard.forgotten, c.audits.doubts, tt.want, tt.doubts)
		}
	}
	for i := range forgottenMax {
		l.forget(fmt.Sprint(i))
		if n := len(l.guard.forgotten); n != min(i+3, forgottenMax) {
			t.Fatalf("%d are remembered behind %d, want at most %d", n, i+3, forgottenMax)
		}
	}
	if all := l.guard.forgotten; all[0] != "0" || all[forgottenMax-1] != fmt.Sprint(forgottenMax-1) {
		t.Errorf("remembered are %q to %q, want the latest", all[0], all[forgottenMax-1])
	}
}

// A memory that went back by one heartbeat shows with the next one, which counts to where the last one was.
func TestRollbackByOneHeartbeat(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(uncopied)
		before := s.remember()
		time.Sleep(p.opts.Heartbeat)
		s.masters[0].Rollback(before.snapshot[0])
		time.Sleep(p.opts.Heartbeat)
		p.wantStates("quuuu")
	})
}

// A bare quorum again, and the quarantined master is not needed: the others grant, and it gets every command all the same.
func TestQuarantinedMasterGetsEveryCommand(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxTTL = 10 * time.Second })
		s.do(0, "FLUSHALL")
		s.until("quarantine", func() bool { return p.states() == "quuuu" })
		c := p.lock(one("r", 10*time.Second))
		s.wantOn("r", c.Token, "11111")
		p.extend(c.Token, 10*time.Second, "r").want(s, "EXTEND", "held", 0)
		p.unlock(c.Token, "r").want(s, "UNLOCK", "held", 0)
		s.wantNoLocks()
	})
}

// EXTEND gives the key back to a master that has forgotten it, and must not count it: that alone would let two hold the lock.
func TestRefillDoesNotCount(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		change := func(o *Options) { o.MaxTTL = 10 * time.Second }
		p, other := s.open(change), s.open(change)
		p.cut(3, 4)
		held := p.lock(one("r", 10*time.Second))
		// Without masters 4 and 5 the other cannot change the membership either: master 3 keeps its vote.
		other.cut(3, 4)
		for i := range 2 {
			s.restart(i)
		}
		time.Sleep(500 * ms)
		p.wantStates("qqudd")
		// Only master 3 remembers. However often it is asked, the extension has one vote.
		for range 5 {
			if c := p.extend(held.Token, 10*time.Second, "r"); c.Held {
				s.Fatal("EXTEND was granted with one vote")
			}
			time.Sleep(50 * ms)
		}
		other.heal(3, 4)
		s.until("votes of masters 4 and 5", func() bool { return other.states() == "qquuu" })
		if c := other.lock(one("r", time.Second)); c.Held {
			s.Error("another was granted the lock")
		}
	})
}

// The same where the key came to the quarantined master with an attempt that is about to be undone: another holds the lock, on masters of
// which one has forgotten it.
func TestExtendDoesNotCountAQuarantinedMaster(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		change := func(o *Options) { o.MaxTTL = 10 * time.Second }
		p, other := s.open(change), s.open(change)
		for i := 1; i < 3; i++ {
			other.paths[i].Partition()
			other.paths[i].Cut()
		}
		other.lock(one("r", 10*time.Second)).want(s, "LOCK by another proxy, on masters 1, 4, 5", "held", 0)
		s.do(0, "FLUSHALL")
		s.until("quarantine", func() bool { return p.Masters()[0].State == MasterQuarantined })
		p.align()
		locked := p.startLock(one("r", 10*time.Second).as("T"))
		extended := p.startExtend("T", 10*time.Second, "r")
		p.finish(locked).want(s, "LOCK", "no", 0)
		if p.finish(extended); extended.Held {
			s.Error("EXTEND right behind a LOCK that was refused: got granted")
		}
	})
}

func TestExtendFillsAQuarantinedMaster(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxTTL = 5 * time.Second })
		held := p.lock(one("r", 5*time.Second))
		s.do(0, "FLUSHALL")
		s.until("quarantine", func() bool { return p.states() == "quuuu" })
		p.extend(held.Token, 5*time.Second, "r").want(s, "EXTEND", "held", 0)
		s.wantOn("r", held.Token, "11111")
		for range 20 { // until it is admitted
			time.Sleep(500 * ms)
			p.extend(held.Token, 5*time.Second, "r").want(s, "EXTEND", "held", 0)
		}
		p.wantStates("uuuuu")
		// Now it counts: with two of the others away it makes the quorum.
		s.freeze(3, 4)
		p.align()
		p.extend(held.Token, 5*time.Second, "r").want(s, "EXTEND with the master that had forgotten", "held", 0)
	})
}

func TestQuarantineHasItsTime(t *testing.T) {
	for _, f := range redisproc.SomeRaced(1, forgetting) {
		inVirtualTime(t, 5, func(s *stage) {
			const maxTTL = 4 * time.Second
			p := s.open(func(o *Options) { o.MaxTTL = maxTTL }, uncopied)
			before := s.remember()
			time.Sleep(2 * time.Second)
			forgot := time.Now()
			f.forget(s, 0, before)
			s.until("quarantine", func() bool { return p.Masters()[0].State == MasterQuarantined })
			for time.Since(forgot) < maxTTL {
				if got := p.Masters()[0].State; got == MasterUp {
					s.Fatalf("%s: up %v after the master forgot", f.name, time.Since(forgot))
				}
				time.Sleep(10 * ms)
			}
			p.allUp()
			if late := time.Since(forgot); late > maxTTL+3*time.Second {
				s.Errorf("%s: admitted after %v, want soon after %v", f.name, late, clock.QuarantineOf(maxTTL, clock.Drift{Factor: 0.01, StepMax: 10 * ms}))
			}
			s.freeze(3, 4)
			p.align()
			p.lock(one("another", time.Second)).want(s, "LOCK with the vote of the master that was admitted again", "held", 0)
		})
	}
}

// The reason for a missing quorum names the quarantine, its cause, and how long it lasts.
func TestQuarantineIsExplained(t *testing.T) {
	for _, f := range redisproc.SomeRaced(1, forgetting) {
		inVirtualTime(t, 5, func(s *stage) {
			const maxTTL = time.Second
			p := s.open(func(o *Options) { o.MaxTTL = maxTTL })
			before := s.remember()
			time.Sleep(2 * time.Second)
			f.forget(s, 0, before)
			s.until("it waits", func() bool { return p.Masters()[0].Left > 0 })
			forgot := time.Now()
			s.freeze(3, 4)
			for time.Since(forgot) < maxTTL {
				if c := p.lock(one("other", time.Second)); c.Held {
					s.Fatalf("%s: a vote counted %v after the master forgot", f.name, time.Since(forgot))
				} else if errText := c.Err.Error(); time.Since(forgot) > 500*ms && time.Since(forgot) < 900*ms && !strings.Contains(errText, "m1: quarantined for another ") {
					s.Fatalf("%s: got %v, want an error that says that m1 is quarantined, and for how long", f.name, c.Err)
				}
				time.Sleep(20 * ms)
			}
		})
	}
}

// A master that forgets again while it is quarantined: the timer of the first time must not end the second.
func TestSecondEpisode(t *testing.T) {
	for _, f := range redisproc.SomeRaced(1, forgetting) {
		inVirtualTime(t, 5, func(s *stage) {
			const maxTTL = 4 * time.Second
			change := func(o *Options) { o.MaxTTL = maxTTL }
			p, other := s.open(change, uncopied), s.open(change, uncopied)
			before := s.remember()
			time.Sleep(2 * time.Second)
			f.forget(s, 0, before)
			time.Sleep(2400 * ms)
			f.forget(s, 0, before)
			again := time.Now()
			time.Sleep(ms)
			for time.Since(again) < maxTTL {
				for _, c := range []*proxy{p, other} {
					if c.Masters()[0].State == MasterUp && time.Since(again) > 300*ms { // a heartbeat may not have passed yet
						s.Fatalf("%s: up %v after the master forgot a second time", f.name, time.Since(again))
					}
				}
				time.Sleep(10 * ms)
			}
			p.allUp()
			other.allUp()
		})
	}
}

// The wait is over for all at the same time: a proxy that came later does not wait for a time of its own. And what is over is over for one
// that comes then.
func TestOneAdmitsForAll(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		change := func(o *Options) { o.MaxTTL = 10 * time.Second }
		p := s.open(change, uncopied)
		s.do(0, "FLUSHALL")
		forgot := time.Now()
		time.Sleep(9 * time.Second)
		late := s.start(change, uncopied)
		time.Sleep(2 * late.opts.Heartbeat) // by then the first one has said of each clock that it is in step
		late.wantStates("quuuu")
		p.allUp()
		late.allUp()
		if got := time.Since(forgot); got > 15*time.Second {
			s.Errorf("admitted after %v, want when the first proxy's time was over", got)
		}
		fresh := s.start(change, uncopied)
		began := time.Now()
		fresh.allUp()
		if got := time.Since(began); got > 2*fresh.opts.Heartbeat {
			s.Errorf("a new proxy has all masters after %v, want two heartbeats at most", got)
		}
	})
}

// Masters that nobody has used look like masters that have all just forgotten everything.
func TestBrandNewMastersWaitOnce(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.founded = true
		var log journal
		p := s.start(log.option, func(o *Options) { o.MaxTTL = 2 * time.Second })
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if err := p.Ready(ctx); !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "it is new") {
			s.Errorf("Ready after a second: got %v, want no quorum, and that the masters may be new", err)
		}
		p.allUp()
		if err := p.Ready(s.Context()); err != nil {
			s.Error(err)
		}
	})
}

// A founding that too few masters accept is none.
func TestFoundingNeedsAQuorum(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.founded = true
		for _, m := range s.masters[2:] {
			m.SetCost(func(args [][]byte) (takes time.Duration) {
				if len(args) > 1 && string(args[1]) == lua.Accept.Text {
					takes = time.Hour
				}
				return takes
			})
		}
		p := s.start()
		s.until("a master has accepted it", func() bool { return strings.Contains(s.do(0, "HGET", lua.MembersKey, "v").(string), " ? ") })
		time.Sleep(5 * time.Second)
		if m := p.Membership(); len(m.Seats) > 0 {
			s.Errorf("founded by two of five: got %+v, want no membership", m)
		}
	})
}

func TestBootstrapRefusesWhatIsNotNew(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(s *stage, p *proxy)
		want   string
	}{
		{"a membership", func(s *stage, p *proxy) {
			other := p.options()
			other.Masters = []Master{other.Masters[2]}
			if err := Bootstrap(s.Context(), other); err != nil {
				s.Fatal(err)
			}
		}, "m3: it has a membership (version 0): it is not new"},
		{"a key", func(s *stage, p *proxy) { s.do(2, "SET", "r", "T") }, "m3: it holds 1 keys: it is not new"},
		{"away", func(s *stage, p *proxy) { s.masters[2].Crash(true) }, "m3: cannot connect: connection refused"},
		{"hangs", func(s *stage, p *proxy) { s.masters[2].Freeze() }, "m3: no answer while connecting"},
		{"a replica", func(s *stage, p *proxy) { s.do(2, "REPLICAOF", "elsewhere", "6379") }, "m3: refused: it is a slave of elsewhere:6379"},
		{"may evict", func(s *stage, p *proxy) {
			s.do(2, "CONFIG", "SET", "maxmemory", "1000000", "maxmemory-policy", "allkeys-lru")
		}, "m3: refused: it may evict locks"},
		{"twice the same", func(s *stage, p *proxy) { p.exchangePath(2, s.masters[1].Link()) }, "m3: refused: it is the same Redis as m2"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.proxy()
			tt.change(s, p)
			err := Bootstrap(s.Context(), p.options())
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "nothing was changed") {
				s.Errorf("%s: got %v, want an error with %q, and that nothing was changed", tt.name, err, tt.want)
			}
			s.thaw(2)
			for i := range s.masters {
				if i == 2 {
					continue
				}
				if v, _ := s.do(i, "HGET", lua.MembersKey, "v").(string); !strings.HasSuffix(v, " -") && v != "" {
					s.Errorf("%s: membership of %s: got %q, want none", tt.name, string(rune(0x31+i)), v)
				}
			}
		})
	}
}

func TestRefusedMasters(t *testing.T) {
	for _, tt := range []struct {
		name          string
		spoil, repair func(s *stage, p *proxy)
		reason        string
	}{
		{"replica",
			func(s *stage, p *proxy) { s.do(1, "REPLICAOF", "elsewhere", "6379") },
			func(s *stage, p *proxy) { s.do(1, "REPLICAOF", "NO", "ONE") },
			"it is a slave of elsewhere:6379"},
		{"evicting",
			func(s *stage, p *proxy) {
				s.do(1, "CONFIG", "SET", "maxmemory", "1000000", "maxmemory-policy", "volatile-lru")
			},
			func(s *stage, p *proxy) { s.do(1, "CONFIG", "SET", "maxmemory-policy", "noeviction") },
			"it may evict locks when its memory is full: maxmemory-policy is volatile-lru, set noeviction"},
		{"the same as another",
			func(s *stage, p *proxy) { p.paths[1].Cut(); p.exchangePath(1, s.masters[0].Link()) },
			func(s *stage, p *proxy) { p.reroute(1) },
			"it is the same Redis as m1"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			tt.spoil(s, p)
			time.Sleep(2 * time.Second)
			p.wantStates("uruuu")
			if got := p.Masters()[1].Reason; !strings.HasPrefix(got, tt.reason) {
				s.Errorf("%s: got %q, want %q", tt.name, got, tt.reason)
			}
			// It has no vote, and the error says why.
			s.freeze(3, 4)
			p.align()
			c := p.lock(one("r", time.Second))
			if c.Held || !strings.Contains(c.Err.Error(), "m2: refused: "+tt.reason) {
				s.Errorf("%s: LOCK that needs its vote: got %+v, want an error that says why", tt.name, c.Result)
			}
			s.thaw(3, 4)
			tt.repair(s, p)
			p.allUp()
		})
	}
}

// For one client the address of a seat means another Redis than for all others. It lists that one nowhere, for the others hear the listed
// memory; it has one vote less, and nobody else notices.
func TestNameThatMeansAnotherTakesNoVote(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		brief := func(o *Options) { o.MaxTTL = 2 * time.Second }
		p, sick := s.open(brief), s.open(brief)
		other := memmaster.New(memmaster.Options{})
		s.Cleanup(other.Close)
		time.Sleep(time.Second) // heartbeats note on the masters who is heard
		sick.exchangePath(4, other.Link()).Cut()
		for range 200 {
			time.Sleep(50 * ms)
			if got := p.states(); got != "uuuuu" {
				s.Fatalf("states of the masters for a client whose names are right: got %s", got)
			}
		}
		sick.wantStates("uuuuq")
		sick.lockable("r")
		if v := p.Membership().Version; v != 0 {
			s.Errorf("the membership has version %d, want 0", v)
		}
	})
}
