package redlock

// Goal: clocks that step by as much as healthy machines do cost nothing; one that steps by more costs its master a second; and no client
// that starts, and no copy, believes a clock that somebody else has seen step. Method: virtual time.

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/redisproc"
)

// aDay has locks that may live for a day, so that what costs one wait shows.
func aDay(o *Options) { o.MaxTTL, o.ClockStepMax = 24*time.Hour, 500*ms }

// Steps and pauses of up to half a second are what migrations, stolen processors and corrections of NTP make: nobody is refused a lock.
func TestSmallStepsCostNothing(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, other := s.open(aDay, withFaults), s.open(aDay)
		for i := range 3 {
			s.stepClocks(50*ms, i)
			for range 100 {
				p.lockable("r")
				other.lockable("r")
				time.Sleep(10 * ms)
			}
		}
		p.pauseClock(50 * ms)
		for range 200 {
			p.lockable("r")
			time.Sleep(10 * ms)
		}
		for _, x := range []*proxy{p, other} {
			x.wantStates("uuu")
		}
	})
}

// One master's clock steps by seconds, and its locks are over too early. It votes again for everybody when it was given what the others remember,
// however long a lock may live. A lock on a bare quorum, with that master, is granted to nobody else.
func TestMasterWhoseClockSteppedIsGivenItsLocks(t *testing.T) {
	for _, n := range []int{3, 5} {
		inVirtualTime(t, n, func(s *stage) {
			p, other := s.open(aDay), s.open(aDay)
			held := p.lock(one("r", 24*time.Hour))
			held.want(s, "LOCK", "held", 0)
			var out []int // of the quorum that holds it
			for i := n/2 + 1; i < n; i++ {
				out = append(out, i)
			}
			s.doOn(out, "DEL", "r")
			s.stepClocks(25*time.Hour, 0)
			stepped := time.Now()
			s.until("it has no vote", func() bool { return p.states()[0] != 'u' && other.states()[0] != 'u' })
			p.allUp()
			other.allUp()
			if took := time.Since(stepped); took > 2*time.Second {
				s.Errorf("%d masters: it votes again after %v, want two seconds at most", n, took)
			}
			if on := s.setOn("r"); on[0] != '1' {
				s.Errorf("%d masters: the lock is on %s, want it on the first, too", n, on)
			}
			for _, x := range []*proxy{p, other, s.start(aDay)} {
				x.allUp()
				x.lock(one("r", time.Second)).want(s, "LOCK of what is held", "no", 0)
			}
			if reason := fmt.Sprint(s.do(0, "HGET", lua.MembersKey, "why")); !strings.Contains(reason, "its clock gained") {
				s.Errorf("why it lost its vote: got %q", reason)
			}
		})
	}
}

// No vote is taken that a quorum needs: two of three clocks that step by a second within a moment cost no founding. One master is given its locks,
// and the other one votes again in proportion to its step.
func TestClocksThatStepTogetherCostNoFounding(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, other := s.open(aDay), s.open(aDay)
		lineage := s.membership(2).Lineage
		s.stepClocks(time.Second, 0, 1)
		s.until("they have no votes", func() bool { return p.states()[:2] != "uu" })
		began := time.Now()
		for !strings.HasPrefix(p.states(), "uuu") && time.Since(began) < 5*time.Minute {
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took > 100*time.Second {
			s.Errorf("all vote again after %v, want what a gain of a second costs", took)
		}
		p.lockable("r")
		other.lockable("r")
		if now := s.membership(2).Lineage; now != lineage {
			s.Errorf("founded anew")
		}
	})
}

// A clock that runs 8 % fast for ever does not have the fleet copy to its master for ever.
func TestFastClockKeepsNobodyCopying(t *testing.T) {
	redisproc.NotRaced(t)
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxTTL = 10 * time.Minute }, func(o *Options) { o.ClockStepMax = 500 * ms })
		s.setClockRates(83_000, 0)
		minutes := redisproc.Some(1, []int{10, 50})
		for _, n := range minutes {
			for range 60 * n {
				p.lockable("r")
				time.Sleep(time.Second)
			}
		}
		if steps := int(s.membership(1).Version); steps < 2*len(minutes) || steps > 30*len(minutes) {
			s.Errorf("%d steps of the membership in an hour, or ten minutes, want a few", steps)
		}
		s.setClockRates(0, 0)
		s.until("it votes again", func() bool { time.Sleep(time.Second); return p.states() == "uuu" })
	})
}

// A client that starts while another one has just seen a clock step into agreement does not believe it, nor does a copy that it makes. The one that has
// watched cannot say so: it is cut from that master at the step, or has no room there.
func TestNewClientBelievesNoClockThatSteppedBeforeIt(t *testing.T) {
	for _, tt := range []struct {
		name        string
		begin, heal func(s *stage, p *proxy)
		restarts    bool
	}{
		{"cut at the step", func(s *stage, p *proxy) { p.paths[2].Partition() }, func(s *stage, p *proxy) { p.paths[2].Heal() }, false},
		{"cut at the step, and a copy", func(s *stage, p *proxy) { p.paths[2].Partition() }, func(s *stage, p *proxy) { p.paths[2].Heal() }, true},
		{"at once", func(s *stage, p *proxy) {}, func(s *stage, p *proxy) {}, false},
		{"at once, and a copy", func(s *stage, p *proxy) {}, func(s *stage, p *proxy) {}, true},
		{"its requests are late", func(s *stage, p *proxy) { p.paths[2].HoldRequests() }, func(s *stage, p *proxy) { p.paths[2].Heal() }, true},
	} {
		for _, after := range redisproc.Some(1, []time.Duration{100 * ms, 0, 300 * ms}) {
			inVirtualTime(t, 5, func(s *stage) {
				// Where nothing restarts nothing is copied either: else the master would soon have its locks again.
				long := func(o *Options) { o.MaxTTL, o.ClockStepMax, o.noCopy = 8*time.Second, 500*ms, !tt.restarts }
				s.stepClocks(-7500*ms, 2)
				p := s.open(long) // it watches the third clock for a wait
				time.Sleep(p.fleet.view.Load().wait)
				s.freeze(3, 4)
				held := p.lock(one("r", 7900*ms))
				held.want(s, tt.name+": LOCK", "held", held.took)
				s.thaw(3, 4)
				p.allUp()
				s.doOn([]int{3, 4}, "DEL", "r")
				tt.begin(s, p)
				s.stepClocks(7500*ms, 2)
				time.Sleep(after)
				c := s.start(long)
				if tt.restarts {
					s.restart(1)
				}
				time.Sleep(300 * ms)
				tt.heal(s, p)
				s.nobodyElse(held, "r", c, p, s.start(long))
				c.allUp()
				p.allUp()
				c.lockable("r")
			})
		}
	}
}

// A client that starts beside others counts all votes within two heartbeats, and one that starts where nobody is at once; behind one that has left,
// too. One that was killed is waited for, for four heartbeats.
func TestWhenAClientCountsVotes(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.found(briefly)
		first := s.start(briefly)
		upWithin := func(what string, p *proxy, most time.Duration) {
			s.Helper()
			s.until(what, func() bool { return p.states() == "uuuuu" })
			if took := time.Since(p.opened); took > most {
				s.Errorf("%s: all votes count after %v, want %v at most", what, took, most)
			}
		}
		upWithin("alone", first, 0)
		for range 5 {
			time.Sleep(37 * ms)
			upWithin("beside another one", s.start(briefly), 3*first.opts.Heartbeat/2)
		}
		inVirtualClose := func(p *proxy) {
			if err := p.Close(context.Background()); err != nil {
				s.Error(err)
			}
		}
		for range 2 { // both leave, and nobody is there
			inVirtualClose(first)
			first = s.start(briefly)
			first.allUp()
		}
	})
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly)
		if err := p.Close(context.Background()); err != nil {
			s.Error(err)
		}
		next := s.start(briefly)
		s.until("all votes count", func() bool { return next.states() == "uuuuu" })
		if took := time.Since(next.opened); took > 0 {
			s.Errorf("behind one that has left: all votes count after %v, want at once", took)
		}
		next.cut(0, 1, 2, 3, 4) // killed
		third := s.start(briefly)
		third.allUp()
		if took := time.Since(third.opened); took > (statementLife+2)*third.opts.Heartbeat {
			s.Errorf("behind one that was killed: all votes count after %v", took)
		}
	})
}

// Nobody watches a master that all who are there cannot reach. When one can, it is given what the others remember, and votes.
func TestMasterThatNobodyWatches(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(aDay)
		p.cut(4)
		other := s.start(aDay)
		s.until("it counts the four that are watched, and nobody speaks for the fifth", func() bool {
			return other.states() == "uuuuo" && time.Since(other.opened) > (statementLife+1)*other.opts.Heartbeat
		})
		if reason := other.Masters()[4].Reason; !strings.Contains(reason, "another redlockd watches other masters' clocks") {
			s.Errorf("the fifth: got %q", reason)
		}
		began := time.Now()
		other.allUp()
		if took := time.Since(began); took > 5*time.Second {
			s.Errorf("it votes after %v, want five seconds at most", took)
		}
		p.heal(4)
		p.allUp()
	})
}

// Two redlockds that pad keys by different amounts do not go together: the one that starts gets no vote, and says both values. The other one goes on.
func TestDifferentPaddings(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly, func(o *Options) { o.ClockStepMax = 500 * ms })
		for _, change := range []func(o *Options){func(o *Options) { o.ClockStepMax = 200 * ms }, func(o *Options) { o.ClockStepMax, o.DriftFactor = 500*ms, 0.02 }} {
			other := s.start(briefly, change)
			for range 100 {
				time.Sleep(100 * ms)
				p.wantStates("uuuuu")
				if strings.Contains(other.states(), "u") {
					s.Fatalf("its votes count: %s", other.states())
				}
			}
			_, err := other.TryLock(s.Context(), "r", time.Second)
			if want := "another redlockd has clock_step_max=500ms,drift_factor=0.01, and this one clock_step_max="; err == nil || !strings.Contains(err.Error(), want) {
				s.Errorf("LOCK: got %v, want %q", err, want)
			}
			if err := other.Close(context.Background()); err != nil {
				s.Error(err)
			}
		}
	})
}

// A client that was paused alone says nothing of it to one that starts, for that one's clock is right; a suspension before that, which the wall clock
// has gained by, is no step.
func TestSuspensionIsNoStep(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(briefly, withFaults, func(o *Options) { o.ClockStepMax = 10 * ms })
		p.suspend(2 * time.Second)
		time.Sleep(3 * time.Second) // suspend puts its clock back: by then it reads what is later than before
		p.wantStates("uuuuu")
		s.passes(50 * ms)
		s.until("it doubts all clocks", func() bool { return p.states() == "ooooo" })
		time.Sleep(4 * p.opts.Heartbeat) // by then it has asked all masters, and all say that they gained
		q := s.start(briefly, func(o *Options) { o.ClockStepMax = 10 * ms })
		q.allUp()
		if took := time.Since(q.opened); took > q.opts.Heartbeat {
			s.Errorf("one that starts counts all votes after %v, want at once", took)
		}
	})
}

// Who is a witness of a step, and when a clock that is out of step takes the master's vote from everybody.
func TestWitnesses(t *testing.T) {
	const second, hour = time.Second, time.Hour
	b := standing(t, newMemMaster(t))
	f, record := b.lane.fleet, b.lane.guard.record
	now := f.own.At(time.Now())
	for _, tt := range []struct {
		what     string
		change   func(k *clockGuard)            // of the one that gained
		others   func(i int, other *clockGuard) // of the four others
		stepped  bool                           // by one witness, whether its votes count or not
		outOfIt  bool
		votesNot int // of the others
	}{
		{what: "four witnesses", stepped: true, outOfIt: true},
		{what: "two witnesses", others: func(i int, k *clockGuard) { k.took = time.Duration(i/2) * hour }, stepped: true},
		{what: "one that gained too since", others: func(_ int, k *clockGuard) { k.began = now - second }},
		{what: "all have gained, and are in step again", others: func(_ int, k *clockGuard) { k.found = now - second }},
		{what: "none was asked since", others: func(_ int, k *clockGuard) { k.asked = now - 3*second }},
		{what: "all are too far", others: func(_ int, k *clockGuard) { k.took = 4800 * ms }},
		{what: "all are just near enough", others: func(_ int, k *clockGuard) { k.took = 4700 * ms }, stepped: true, outOfIt: true},
		{what: "two do not vote", votesNot: 2, stepped: true},
		{what: "none votes", votesNot: 4, stepped: true},
		{what: "the votes of none count since they gained before", others: func(_ int, k *clockGuard) { k.good = false }, stepped: true},
		{what: "it is good", change: func(k *clockGuard) { k.good, k.gained = true, 0 }},
		{what: "it is soon over", change: func(k *clockGuard) { k.until = time.Now().Add(second) }, stepped: true},
		{what: "it is not connected", change: func(k *clockGuard) { k.known = false }, stepped: true},
		{what: "nobody watches it", change: func(k *clockGuard) { k.gained, k.began = 0, now-3*second }, outOfIt: true},
		{what: "nobody watches it, and two do not vote", change: func(k *clockGuard) { k.gained, k.began = 0, now-3*second }, votesNot: 2},
		{what: "nobody has watched it for a moment", change: func(k *clockGuard) { k.gained, k.began = 0, now-second }},
		{what: "somebody speaks for it", change: func(k *clockGuard) { k.gained, k.began, k.watched = 0, now-3*second, true }},
		{what: "our wall clock gained, too", change: func(k *clockGuard) { k.ownGain = second }, others: func(_ int, k *clockGuard) { k.took = hour }, stepped: true, outOfIt: true},
		{what: "it stepped into agreement", change: func(k *clockGuard) { k.offset = 0 }, others: func(_ int, k *clockGuard) { k.took = hour }, stepped: true, outOfIt: true},
	} {
		lanes := make([]*lane, 5)
		for i := range lanes {
			l := newLane(f, i, b.lane.master)
			l.state = laneIdle
			if i < 5-tt.votesNot {
				l.guard.record = record
			}
			k := &l.guard.clock
			k.good, k.known, k.began, k.found, k.asked, k.took = true, true, now-hour, now-hour, now, ms
			if i > 0 && tt.others != nil {
				tt.others(i-1, k)
			}
			lanes[i] = l
		}
		k := &lanes[0].guard.clock
		k.reason = "it is out of step"
		k.good, k.gained, k.before, k.found, k.offset, k.until = false, 10*second, now-3*second, now-2*second, 10*second+hour, time.Now().Add(hour)
		f.opts.ClockStepMax, f.opts.ClockSkewMax = 500*ms, second
		if tt.change != nil {
			tt.change(k)
		}
		f.set(newView(lanes, record, f))
		if got := f.stepped(lanes[0], 1); got != tt.stepped {
			t.Errorf("%s: it stepped: got %v, want %v", tt.what, got, tt.stepped)
		}
		if got := f.outOfStep(lanes[0]) != ""; got != tt.outOfIt {
			t.Errorf("%s: a vote is taken: got %v, want %v", tt.what, got, tt.outOfIt)
		}
	}
}

// Statements of others are read after the first reading of the clock in question: that of a client which has begun to count its votes meanwhile is there.
func TestNobodyWatches(t *testing.T) {
	b := standing(t, newMemMaster(t))
	f := b.lane.fleet
	const began = time.Minute
	for _, tt := range []struct {
		what   string
		change func(i int, k *clockGuard) // of the four others
		nobody bool
		looks  int
	}{
		{"all were asked since", func(int, *clockGuard) {}, true, 0},
		{"two were asked since", func(i int, k *clockGuard) {
			if i > 1 {
				k.asked = began - 1
			}
		}, true, 2},
		{"one was asked since", func(i int, k *clockGuard) {
			if i > 0 {
				k.asked = began - 1
			}
		}, false, 3},
		{"two are heard", func(i int, k *clockGuard) { k.watched = i > 1 }, true, 0},
		{"three are heard", func(i int, k *clockGuard) { k.watched = i > 0 }, false, 0},
		{"three are not connected", func(i int, k *clockGuard) { k.known = i == 0 }, false, 0},
	} {
		lanes := make([]*lane, 5)
		for i := range lanes {
			lanes[i] = newLane(f, i, b.lane.master)
			k := &lanes[i].guard.clock
			k.known, k.asked, k.began = true, began, time.Hour
			if i > 0 {
				tt.change(i-1, k)
			}
		}
		lanes[0].guard.clock.began, lanes[0].guard.clock.asked = began, began-1 // TIME at the front of the same heartbeat
		f.set(newView(lanes, b.lane.guard.record, f))
		if nobody, looks := f.nobodyWatches(lanes[0]); nobody != tt.nobody || len(looks) != tt.looks {
			t.Errorf("%s: nobody speaks: got %v, and %d more looks, want %v, %d", tt.what, nobody, len(looks), tt.nobody, tt.looks)
		}
	}
}

// A client that starts after the clocks of a majority have stepped grants nothing that another one still holds, though by these clocks others have
// said nothing for long. Where all masters step at once by less than clock_skew_max, nobody can tell that from a pause: guarantees.md says so.
func TestNewClientAfterAMajoritySteps(t *testing.T) {
	redisproc.NotRaced(t)
	for _, n := range []int{3, 5} {
		for _, after := range []time.Duration{0, 300 * ms, 600 * ms, 2 * time.Second} {
			inVirtualTime(t, n, func(s *stage) {
				o := func(o *Options) { o.ClockSkewMax, o.MaxTTL, o.ClockStepMax = 25*time.Second, 8*time.Second, 500*ms }
				p, _ := s.open(o), s.open(o)
				time.Sleep(10 * time.Second)
				held := p.lock(one("r", 5*time.Second))
				held.want(s, "LOCK", "held", 0)
				for i := range n/2 + 1 {
					s.stepClocks(6*time.Second, i)
				}
				time.Sleep(after)
				s.nobodyElse(held, "r", s.start(o))
			})
		}
	}
}

// First a majority of the clocks steps, and then the others, which had shown that it was no pause: they showed it. And the other way round: those
// whose votes count no more, since they have stepped, show that it was no pause in which the others gained. A client that starts then grants nothing
// that another one holds.
func TestNewClientAfterAllStepped(t *testing.T) {
	majority, others := []int{0, 1, 2}, []int{3, 4}
	for _, i := range redisproc.Some(2, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
		first, then, after := majority, others, []time.Duration{0, 300 * ms, 600 * ms, 2 * time.Second}[i/2]
		if i%2 == 1 {
			first, then = others, majority
		}
		inVirtualTime(t, 5, func(s *stage) {
			o := func(o *Options) { o.ClockSkewMax, o.MaxTTL, o.ClockStepMax = 25*time.Second, 8*time.Second, 500*ms }
			p, _ := s.open(o), s.open(o)
			time.Sleep(10 * time.Second)
			held := p.lock(one("r", 7*time.Second))
			held.want(s, "LOCK", "held", 0)
			s.stepClocks(8*time.Second, first...)
			time.Sleep(250 * ms)
			s.stepClocks(8*time.Second, then...)
			time.Sleep(after)
			s.nobodyElse(held, "r", s.start(o))
		})
	}
}

// A master whose memory is full keeps nothing of what a client says. The client says it again, five times with each heartbeat at most.
func TestFullMasterIsNotAskedAgainAndAgain(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.found(briefly)
		s.masters[0].SetFull(true)
		var beats atomic.Int64
		s.masters[0].SetCost(func(args [][]byte) time.Duration {
			if len(args) > 1 && string(args[1]) == lua.Watch.SHA {
				beats.Add(1)
			}
			return 0
		})
		p := s.start(briefly)
		time.Sleep(10 * time.Second)
		if most := int(50*time.Second/p.opts.Heartbeat) + 10; beats.Load() > int64(most) || beats.Load() < 10 {
			s.Errorf("%d heartbeats in ten seconds, want %d at most", beats.Load(), most)
		}
		s.masters[0].SetFull(false)
		p.allUp()
	})
}

// The clocks of three masters have stepped by nearly as much as counts as no step. Then this machine stands still for longer than that: the first
// reading after it falls into the standstill, so what is left of it looks like a gain, too. Other clients state both gains. This one
// counts the masters as soon as it has begun anew.
func TestStandstillBesideAStep(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		change := func(o *Options) { o.MaxTTL, o.ClockStepMax = time.Minute, 400*ms }
		s.open(change)
		p := s.open(change, withFaults)
		time.Sleep(5 * time.Second)
		s.stepClocks(390*ms, 0, 1, 2)
		time.Sleep(time.Second)
		p.wantStates("uuuuu")
		f, still := p.opts.clockFaults, 700*ms
		f.StandsAt.Store(int64(p.fleet.own.At(time.Now())))
		time.Sleep(still)
		f.StoodStill.Add(int64(still))
		f.StandsAt.Store(0)
		began := time.Now()
		p.allUp()
		if took := time.Since(began); took > 10*p.opts.Heartbeat {
			s.Errorf("it counts all masters after %v, want ten heartbeats at most", took)
		}
	})
}
