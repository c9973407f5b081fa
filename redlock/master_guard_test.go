package redlock

// Goal: a master that may have forgotten has no vote, for as long as what it forgot may live, for every proxy; and gets its vote
// back when that time is over. Method: every way in which a master forgets, in virtual time.

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/memmaster"
)

func TestQuarantineLastsLongerThanAnyKey(t *testing.T) {
	for _, maxTTL := range []time.Duration{10 * ms, time.Second, time.Minute, 24 * time.Hour} {
		for _, factor := range []float64{0.0001, 0.01, 0.5} {
			for _, stepMax := range []time.Duration{ms, 10 * ms, 10 * time.Second} {
				d := clock.Drift{Factor: factor, StepMax: stepMax}
				// The slowest clock within the drift keeps a key that much longer, and we may be the fastest. A clock may also step back.
				got, least := clock.QuarantineOf(maxTTL, d), max(time.Duration(float64(maxTTL)*(1+2*factor))+clock.DriftConstant, paddedTTL(maxTTL, d), maxTTL+stepMax)
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
	for _, f := range forgetting {
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
	for _, f := range forgetting {
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
	for _, f := range forgetting {
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
	for _, f := range forgetting {
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
		time.Sleep(100 * ms)
		late.wantStates("quuuu")
		p.allUp()
		late.allUp()
		if got := time.Since(forgot); got > 15*time.Second {
			s.Errorf("admitted after %v, want when the first proxy's time was over", got)
		}
		fresh := s.start(change, uncopied)
		began := time.Now()
		fresh.allUp()
		if got := time.Since(began); got > 10*ms {
			s.Errorf("a new proxy has all masters after %v, want at once", got)
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
