package coordinator

// Goal: a coordinator founds, waits, adopts and pauses as the rules say, and not earlier. Method: masters in memory, in virtual time. The test
// makes each poll itself; the engine is a host that takes notes.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/copying"
	"redlockd/redlock/member/fleettest"
	"redlockd/redlock/member/survey"
	"redlockd/redlock/memmaster"
)

// scene is a coordinator and its masters.
type scene struct {
	*fleettest.Fleet
	*Coordinator
	paths []*memmaster.Link
	host  *hostOfScene
	log   *bytes.Buffer
	open  atomic.Int64 // connections to the masters
}

// countedConn is one of them.
type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// hostOfScene stands for the engine.
type hostOfScene struct {
	opts          *member.Options
	record        *member.Record // adopted last
	followedAt    time.Time
	anew          int // how often FollowAnew was called
	rechecks      int
	answering     int
	wanted, inUse time.Duration
	wantedBy      string
	mu            sync.Mutex
	confirmed     []string // guarded by mu where the coordinator runs
	unreached     []int
	outOfStep     string // says why m2 is; "": it is in step
	sources       map[int]copying.Source
}

func (h *hostOfScene) Places() map[int]conn.Master {
	if h.record == nil {
		return h.opts.Places()
	}
	return h.opts.PlacesOf(h.record)
}
func (h *hostOfScene) Answering() int         { return h.answering }
func (h *hostOfScene) Adopt(r *member.Record) { h.record = r }
func (h *hostOfScene) Recheck()               { h.rechecks++ }
func (h *hostOfScene) Confirm(p int, runID string, _ time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.confirmed = append(h.confirmed, runID)
}

func (h *hostOfScene) confirmations() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.confirmed)
}

func (h *hostOfScene) Unreached(p int, _ error)       { h.unreached = append(h.unreached, p) }
func (h *hostOfScene) Follower() string               { return "own-0" }
func (h *hostOfScene) FollowAnew()                    { h.anew++ }
func (h *hostOfScene) FollowedAt() time.Time          { return h.followedAt }
func (h *hostOfScene) WantedBy() string               { return h.wantedBy }
func (h *hostOfScene) Source(p int) copying.Source    { return h.sources[p] }
func (h *hostOfScene) Saw(int, string, clock.Reading) {}
func (h *hostOfScene) Copied(int, string, time.Time)  {}

func (h *hostOfScene) OutOfStep(place int) string {
	if place != 1 {
		return ""
	}
	return h.outOfStep
}

func (h *hostOfScene) TTLs(time.Duration) (wanted, inUse time.Duration) { return h.wanted, h.inUse }

// onScene runs a test with n masters, which vote, and a coordinator that has not looked at them yet.
func onScene(t *testing.T, n int, test func(s *scene), change ...func(o *member.Options)) {
	t.Helper()
	onNewMasters(t, n, func(s *scene) {
		s.vote(s.opts)
		test(s)
	}, change...)
}

// onNewMasters is onScene with masters that nobody has used.
func onNewMasters(t *testing.T, n int, test func(s *scene), change ...func(o *member.Options)) {
	t.Helper()
	fleettest.InVirtualTime(t, n, func(f *fleettest.Fleet) {
		s := &scene{Fleet: f, paths: f.Links(), log: new(bytes.Buffer)}
		o := f.Options(s.paths)
		for i := range o.Masters {
			o.Masters[i].Dialer = s.dial
		}
		o.Logger, o.LogInterval, o.LogBurst, o.NoCopy = slog.New(slog.NewTextHandler(s.log, nil)), time.Second, 100, true
		for _, c := range change {
			c(&o)
		}
		s.host = &hostOfScene{}
		own := &clock.Own{Faults: &clock.Faults{}}
		own.Start(time.Now())
		ctx, cancel := context.WithCancel(f.Context())
		var running sync.WaitGroup
		f.Cleanup(func() { cancel(); running.Wait() })
		s.Coordinator = New(s.host, o, own, ctx, &running)
		s.host.opts = &s.opts
		test(s)
	})
}

// dial takes the path to m1, m2 …, which are called alias1, alias2 … as well.
func (s *scene) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	for i, path := range s.paths {
		if n := fmt.Sprint(i + 1); addr == "m"+n || addr == "alias"+n {
			c, err := path.Dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			s.open.Add(1)
			return &countedConn{c, sync.OnceFunc(func() { s.open.Add(-1) })}, nil
		}
	}
	return nil, errors.New("no such host")
}

// named is for a scene whose first n masters the settings name. The others are spare.
func named(n int) func(o *member.Options) {
	return func(o *member.Options) { o.Masters = o.Masters[:n] }
}

// vote founds a membership in which all masters vote.
func (s *scene) vote(o member.Options) {
	s.Helper()
	all := survey.Ask(s.Context(), o.Places(), survey.Patience{Enough: len(o.Masters)}, o)
	defer all.Close()
	first, why := all.Founding(nil, o)
	if first == nil {
		s.Fatal(why)
	}
	first.Admit(all.Reports, o)
	chosen, err := all.Step(s.Context(), nil, first.Seal())
	if err != nil {
		s.Fatal(err)
	}
	all.Teach(s.Context(), all.Reports, chosen)
}

// look polls, and returns when to look again.
func (s *scene) look() time.Duration { return s.poll(s.Context()) }

// settle polls until the record in force is known, and settled.
func (s *scene) settle() *member.Record {
	s.Helper()
	for range 10 {
		s.look()
		if s.record != nil && s.settled {
			return s.record
		}
	}
	s.Fatalf("no record in force: %s", s.problem)
	return nil
}

// forget has masters forget everything; all, if none are named.
func (s *scene) forget(masters ...int) {
	for i := range s.Masters {
		if len(masters) == 0 || slices.Contains(masters, i) {
			s.Do(i, "FLUSHALL")
		}
	}
}

// foundAgain polls until the membership is founded anew, and returns that record and how long it took.
func (s *scene) foundAgain() (r *member.Record, took time.Duration) {
	s.Helper()
	before, began := s.record.Generation, time.Now()
	for range 1000 {
		again := s.look()
		if s.record.Generation > before {
			return s.record, time.Since(began)
		}
		time.Sleep(max(again, pollPause))
	}
	s.Fatalf("not founded anew: %s", s.problem)
	return nil, 0
}

// Who followed the last record until the masters forgot knows that no lock is longer than it allows. Who has not noted that lately, on a clock
// that stood still with the machine, does not know, and waits for founding_wait.
func TestFoundingWaitOfWhoFollowed(t *testing.T) {
	const long = 10 * time.Minute
	for _, tt := range []struct {
		name    string
		ago     time.Duration // since it was noted last that this client follows; 0: it was not
		asleep  time.Duration // of it the machine slept so long besides
		follows bool
	}{
		{"just now", time.Second, 0, true},
		{"as long ago as it may be", 30 * time.Second, 0, true},
		{"longer ago", 30*time.Second + 1, 0, false},
		{"as long ago as it may be, and the machine slept", 30 * time.Second, 2 * time.Millisecond, false},
		{"not long ago, and the machine slept for long", time.Second, time.Minute, false},
		{"never", 0, 0, false},
		{"never, and the machine slept", 0, time.Minute, false},
	} {
		onScene(t, 3, func(s *scene) {
			r := s.settle()
			if got := member.FollowedFor(r.Wait); got != 30*time.Second {
				s.Fatalf("a note counts for %v, want that of this test", got)
			}
			s.forget()
			patience := heardWithin * s.opts.Heartbeat
			for s.foundable.IsZero() {
				s.look()
			}
			time.Sleep(patience)
			if tt.ago > 0 {
				time.Sleep(tt.ago)
				s.host.followedAt = time.Now().Add(-tt.ago)
			}
			s.own.Faults.Suspended.Add(int64(tt.asleep))
			s.look()
			if s.record.Generation != 2 {
				s.Fatalf("%s: not founded anew: %s", tt.name, s.problem)
			}
			if got := s.record.Wait < long; got != tt.follows {
				s.Errorf("%s: got a wait of %v; want that founding_wait counts: %v", tt.name, s.record.Wait, !tt.follows)
			}
			// The notes of before must not keep those who know from a higher ceiling, nor let it rise over a founding that is chosen late.
			if got := s.host.anew == 1; got != tt.follows {
				s.Errorf("%s: takes another name: %v", tt.name, got)
			}
		}, func(o *member.Options) { o.FoundingWait = long })
	}
}

// Another client's record leads this one to the masters, but this client has not followed it: what it has followed says nothing of it.
func TestFoundingOverTheRecordOfAnother(t *testing.T) {
	const long = 10 * time.Minute
	onScene(t, 3, func(s *scene) {
		own := s.settle()
		next := own.Child()
		next.MaxTTL = 2 * time.Minute
		next.Seal()
		s.host.followedAt = time.Now()
		s.forget(1, 2)
		s.Do(0, "HSET", lua.MembersKey, "v", next.ShownBy(own.Seats[0].Memory), "r", next.Text)
		r, _ := s.foundAgain()
		if r.MaxTTL != next.MaxTTL || r.Wait < long {
			s.Errorf("got max_ttl %v and a wait of %v, want those of the record that m1 shows, and founding_wait", r.MaxTTL, r.Wait)
		}
	}, func(o *member.Options) { o.FoundingWait = long })
}

// A founding has patience from the moment at which it is possible, however long that takes, and anew where it was not possible meanwhile.
func TestPatienceOfAFounding(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		s.settle()
		patience := heardWithin * s.opts.Heartbeat
		s.forget()
		began := time.Now()
		if again := s.look(); again > s.opts.Heartbeat || s.record.Generation != 1 || !strings.Contains(s.problem, "unless more of them come back, it is founded anew") {
			s.Errorf("at once: got generation %d, %q, the next look after %v", s.record.Generation, s.problem, again)
		}
		time.Sleep(patience - time.Millisecond)
		if again := s.look(); again != time.Millisecond || s.record.Generation != 1 {
			s.Errorf("a millisecond before the end: got generation %d, the next look after %v", s.record.Generation, again)
		}
		all, _ := s.Membership()
		if !strings.HasSuffix(all.Problem, "it is founded anew, in 1ms") {
			s.Errorf("people are told: %q", all.Problem)
		}
		// A master cannot be reached: nothing can be founded, and when it can, patience begins anew.
		s.paths[0].Cut()
		s.paths[1].Cut()
		for _, path := range s.paths[:2] {
			path.Partition()
		}
		s.look()
		for _, path := range s.paths[:2] {
			path.Heal()
		}
		if _, took := s.foundAgain(); took < patience {
			s.Errorf("founded %v after it was not possible, %v after they forgot; want it %v after at least", took, time.Since(began), patience)
		}
	})
}

// Of three one has forgotten and one is silent: it may come back and be a quorum with the one that remembers. The founding waits for it as long as
// it would have the fleet wait itself, from when it was heard last, whatever the settings say of a first founding.
func TestSilenceOfAMember(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		r := s.settle()
		time.Sleep(10 * time.Second)
		s.look() // all are heard
		heard := time.Now()
		time.Sleep(20 * time.Second)
		s.forget(1)
		s.paths[2].Partition()
		defer s.paths[2].Heal()
		s.foundAgain()
		if took := time.Since(heard); took < r.Wait || took > r.Wait+3*time.Second {
			s.Errorf("founded %v after it was heard, want after %v", took, r.Wait)
		}
		if log := s.log.String(); !strings.Contains(log, `change="founded: the masters are new, or too many have forgotten"`+"\n") {
			s.Errorf("got the log %s", log)
		}
	}, func(o *member.Options) { o.FoundingWait = 10 * time.Minute })
}

// Other redlockds hear a memory that is listed, and this client finds another one at the address: it founds nothing, because its way there may be
// wrong.
func TestFoundingIsVetoed(t *testing.T) {
	onScene(t, 5, func(s *scene) {
		s.settle()
		s.forget(2, 4)
		s.Masters[3].Crash(false) // it is another process
		s.Masters[3].Restart()
		hear := func(age time.Duration) {
			for i := range 2 {
				s.Do(i, "HSET", lua.MembersKey, member.HeardField(3), time.Now().Add(-age).UnixMilli())
			}
		}
		for range 20 {
			hear(100 * time.Millisecond)
			time.Sleep(max(s.look(), pollPause))
		}
		if all, _ := s.Membership(); s.record.Generation != 1 || all.Problem != "m4 is heard by another redlockd and shows another memory here: see what its address means on both machines" {
			s.Errorf("got generation %d, %q; want that nothing is founded, and why", s.record.Generation, all.Problem)
		}
		if r, _ := s.foundAgain(); r.Generation != 2 {
			s.Errorf("nobody hears it any more: got generation %d", r.Generation)
		}
	})
}

// One master alone says how long waits were: the log names it, because nobody can tell whether it lies.
func TestWaitOfOneMaster(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		own := s.settle()
		s.forget(1, 2)
		s.settleOn(changed(own, func(r *member.Record) { r.Version, r.Parent, r.Wait = 1, r.Digest, 2*time.Hour }), 0)
		s.foundAgain()
		if log := s.log.String(); !strings.Contains(log, "change=\"founded: the masters are new, or too many have forgotten; m1 alone remembers that waits were 2h0m0s\"") {
			s.Errorf("got the log %s", log)
		}
	})
}

// A founding that is not wanted any more, because enough masters remember again, begins its patience anew the next time.
func TestPatienceBeginsAnew(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		r := s.settle()
		s.forget(1, 2)
		s.look()
		if s.foundable.IsZero() {
			s.Fatal("no founding is ahead")
		}
		for _, i := range []int{1, 2} {
			s.Do(i, "HSET", lua.MembersKey, "v", r.ShownBy(r.Seats[i].Memory), "r", r.Text)
		}
		if s.look(); !s.foundable.IsZero() || s.record.Generation != 1 {
			s.Errorf("all remember again: a founding is ahead since %v", s.foundable)
		}
	})
}

// Masters say that a wait began long ago: that is known as soon as the record is.
func TestWaitOfTheStamps(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		next := fleettest.Demotes(s.settle(), 1)
		s.settleOn(next, 0, 1, 2)
		for i := range s.Masters {
			s.Do(i, "HSET", lua.MembersKey, next.StampField(next.Seat(1)), time.Now().Add(-30*time.Second).UnixMilli())
		}
		s.look()
		if got, want := s.Left(1), next.Quarantine(s.opts.Drift)+2*s.opts.ClockSkewMax-30*time.Second; s.record.Version != 1 || got != want {
			s.Errorf("version %d: got %v left, want %v", s.record.Version, got, want)
		}
	})
}

// A master that forgets again and again changes the record after a second, after two, four … at most, and after a second again when it was
// quiet for so long.
func TestPausesOfASeat(t *testing.T) {
	onScene(t, 1, func(s *scene) {
		const most = 5 * time.Second
		for i, want := range []time.Duration{1, 2, 4, 5, 5} {
			s.pauseReseat(3, most)
			if got := time.Until(s.pauses[3].until); got != want*time.Second {
				s.Errorf("pause %d: got %v, want %vs", i+1, got, int(want))
			}
			time.Sleep(want * time.Second)
		}
		time.Sleep(most)
		s.pauseReseat(3, most)
		if got := time.Until(s.pauses[3].until); got != most {
			s.Errorf("after %v without a change: got %v, want as before", most, got)
		}
		time.Sleep(2*most + 1)
		s.pauseReseat(3, most)
		if got := time.Until(s.pauses[3].until); got != time.Second {
			s.Errorf("after more than that: got %v, want a second", got)
		}
		s.pauseReseat(4, most)
		if got := time.Until(s.pauses[4].until); got != time.Second {
			s.Errorf("another seat: got %v, want a second", got)
		}
	})
}

// What a master shows in two surveys, and a majority does not know, was not chosen in between. What it shows in one, or shows otherwise in the
// next, or showed some surveys ago, proves nothing.
func TestStrayOfTwoSurveys(t *testing.T) {
	onScene(t, 1, func(s *scene) {
		r := votersOf(3)
		shows := func(version int64) *member.Survey {
			s := shownByAll(r)
			if version > 0 {
				one := changed(r, func(r *member.Record) { r.Version = version })
				f := s.Reports[1]
				f.Record, f.State.Record = one, one.ID()
				f.V = f.State.String()
			}
			return s
		}
		for i, tt := range []struct {
			version int64 // that m2 shows; 0: the record in force
			want    bool
		}{{9, false}, {9, true}, {10, false}, {0, false}, {10, false}, {10, true}} {
			if got := len(s.repeatedStrays(shows(tt.version), r)) == 1; got != tt.want {
				s.Errorf("survey %d, m2 shows version %d: got a stray: %v, want %v", i+1, tt.version, got, tt.want)
			}
		}
	})
}

// As long as the present ceiling was not watched for one wait, all of it counts as in use: what was granted before this client looked still runs.
func TestCeilingInUse(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		r := s.settle()
		high := changed(r, func(r *member.Record) {
			r.Version, r.Parent, r.MaxTTL, r.Ceiling = 1, r.Digest, time.Hour, 15*time.Minute
			r.Wait = r.Needed(fleettest.Drift)
		})
		weigh := func(r *member.Record) *member.Situation {
			n := &member.Situation{Record: r, Survey: shownByAll(r), FirstCeiling: s.opts.LowestCeiling()}
			s.weighCeiling(n)
			return n
		}
		s.adopt(high, nil)
		within := high.Quarantine(s.opts.Drift)
		time.Sleep(within - 1)
		if n := weigh(high); n.InUse != high.Ceiling {
			s.Errorf("a nanosecond before the wait is over: got %v in use, want the ceiling", n.InUse)
		}
		time.Sleep(time.Nanosecond)
		s.host.inUse = 5 * time.Minute
		if n := weigh(high); n.InUse != 5*time.Minute {
			s.Errorf("when it is over: got %v in use, want what was asked for here", n.InUse)
		}
		n := &member.Situation{Record: high, Survey: shownByAll(high), FirstCeiling: s.opts.LowestCeiling()}
		for _, f := range n.Survey.Reports {
			f.Fields["f:other-0"] = fmt.Sprint(time.Now().UnixMilli(), " ", member.FollowerText(high, 10*time.Minute))
		}
		if s.weighCeiling(n); n.InUse != 10*time.Minute {
			s.Errorf("another client was asked for longer: got %v in use", n.InUse)
		}
		// Another step of the same ceiling does not begin anew; another ceiling does.
		s.adopt(changed(high, func(r *member.Record) { r.Version, r.Parent = 2, r.Digest }), nil)
		if n := weigh(s.record); n.InUse != 5*time.Minute {
			s.Errorf("another step: got %v in use, want what was asked for here", n.InUse)
		}
		time.Sleep(24 * time.Hour)
		s.adopt(changed(high, func(r *member.Record) { r.Version, r.Parent, r.Ceiling = 3, r.Digest, 20*time.Minute }), nil)
		if n := weigh(s.record); n.InUse != 20*time.Minute {
			s.Errorf("another ceiling: got %v in use, want all of it", n.InUse)
		}
	})
}

// The ceiling that is wanted: what locks here wait for, and no less than the first one, which nobody need ask for, as far as max_ttl allows it.
func TestCeilingWanted(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		r := s.settle()
		for _, tt := range []struct{ maxTTL, wanted, want time.Duration }{
			{time.Hour, 0, time.Minute},
			{time.Hour, 10 * time.Minute, 10 * time.Minute},
			{time.Hour, 10 * time.Second, time.Minute},
			{30 * time.Second, 0, 30 * time.Second},
		} {
			s.host.wanted = tt.wanted
			n := &member.Situation{Record: changed(r, func(r *member.Record) { r.MaxTTL, r.Ceiling = tt.maxTTL, min(time.Minute, tt.maxTTL) }), FirstCeiling: s.opts.LowestCeiling()}
			n.Survey = shownByAll(n.Record)
			for _, f := range n.Survey.Reports {
				f.Fields["f:other-0"] = fmt.Sprint(time.Now().UnixMilli(), " ", member.FollowerText(r, 0)) // goes by a record before
			}
			before := time.Now()
			s.weighCeiling(n)
			higher := n.Wanted > n.Record.Ceiling
			if n.Wanted != tt.want || n.Behind != higher || (s.behind != "") != higher || s.ceilingWanted.IsZero() == higher || higher && s.ceilingWanted != before {
				s.Errorf("max_ttl %v, locks of %v wait: got %v wanted since %v, behind: %v %q; want %v", tt.maxTTL, tt.wanted, n.Wanted, s.ceilingWanted, n.Behind, s.behind, tt.want)
			}
			if higher {
				time.Sleep(time.Second)
				if s.weighCeiling(n); s.ceilingWanted != before {
					s.Errorf("a second later: it is wanted since %v, want %v", s.ceilingWanted, before)
				}
			}
		}
	})
}

// A change is asked for while too few masters are reached: the caller is told so at once, and why.
func TestChangeWithoutAMembership(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		s.settle()
		s.paths[0].Partition()
		s.paths[1].Partition()
		s.request = asked(Change{SetMaxTTL: 30 * time.Second})
		request := s.request
		s.look()
		select {
		case reply := <-request.done:
			if reply.err == nil || !strings.HasPrefix(reply.err.Error(), "too few masters are reached to change anything: 1 of 3 masters can be reached") {
				s.Errorf("got %v", reply.err)
			}
		default:
			s.Error("the caller was not told")
		}
		if s.request != nil {
			s.Error("the change still waits")
		}
		if all, _ := s.Membership(); !strings.HasPrefix(all.Problem, "1 of 3 masters can be reached") || strings.Contains(all.Problem, ", in ") {
			s.Errorf("people are told: %q", all.Problem)
		}
		s.paths[0].Heal()
		s.paths[1].Heal()
	})
}

// What a record allows is what people see, how much of each wait is left with it; nothing of it is left of a record before.
func TestMembershipForPeople(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		all, places := s.Membership()
		if s.Left(0) != 0 || all.Known || places != nil || all.MaxTTL != time.Hour || all.Ceiling != time.Minute {
			s.Errorf("without a record: got %+v, %v; want the settings", all, places)
		}
		r := s.settle()
		s.setProblem("it hangs", 1500*time.Millisecond)
		time.Sleep(time.Second)
		all, places = s.Membership()
		if !all.Known || !all.Settled || all.Problem != "it hangs, in 500ms" || !slices.Equal(places, []int{0, 1, 2}) {
			s.Errorf("got %+v, %v", all, places)
		}
		time.Sleep(time.Second)
		if all, _ = s.Membership(); all.Problem != "it hangs, in 0s" {
			s.Errorf("later than expected: got %q", all.Problem)
		}
		next := changed(fleettest.Demotes(r, 1), func(r *member.Record) { r.Seats[2].Memory, r.Seats[2].State, r.Seats[2].Since = "", member.Leaving, 1 })
		s.adopt(next, []string{"m2 becomes a learner"})
		time.Sleep(time.Second)
		all, _ = s.Membership()
		left := next.Quarantine(s.opts.Drift) - time.Second
		if all.Settled || all.Problem != "" || all.Seats[0].Left != 0 || all.Seats[1].Left != left || all.Seats[2].Left != left {
			s.Errorf("another record: got %+v; want %v of the waits left", all, left)
		}
		s.recoveries = map[int]*recovery{0: {problem: "a voter"}, 1: {problem: "too few"}}
		all, _ = s.Membership()
		if all.Seats[0].Copying != nil || all.Seats[1].Copying == nil || all.Seats[1].Copying.Problem != "too few" {
			s.Errorf("got %+v and %+v of copies; want that of the learner alone", all.Seats[0].Copying, all.Seats[1].Copying)
		}
		for place, want := range []time.Duration{0, left, 0, 0} {
			if got := s.Left(place); got != want {
				s.Errorf("place %d: got %v left before it votes, want %v", place, got, want)
			}
		}
		if log := s.log.String(); strings.Count(log, "msg=membership version") != 2 || strings.Count(log, "change=") != 1 || strings.Count(log, "the settings differ from the membership") != 1 || !strings.Contains(log, `change="m2 becomes a learner"`) {
			s.Errorf("got the log %s; want a line for each record, and what changes where it is known", log)
		}
	}, func(o *member.Options) { o.MaxTTL = time.Hour })
}

// The log has a problem once, whatever time is left of it, and its end.
func TestProblemInTheLog(t *testing.T) {
	onScene(t, 1, func(s *scene) {
		s.opts.Logger = slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == "time" || a.Key == "to_do" {
				return slog.Attr{}
			}
			return a
		}}))
		s.log.Reset()
		for i, text := range []string{"", "a", "a", "b", "", ""} {
			s.setProblem(text, time.Duration(i)*time.Second)
		}
		const want = "level=WARN msg=membership problem=a\nlevel=WARN msg=membership problem=b\nlevel=INFO msg=\"membership problem is resolved\" problem=b\n"
		if got := s.log.String(); got != want {
			s.Errorf("got the log\n%swant\n%s", got, want)
		}
	})
}
