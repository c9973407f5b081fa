package redlock

// Goal: a master that may have forgotten has no vote, for as long as what it forgot may live, for every proxy; and gets its vote
// back when that time is over. Method: a table for the epoch, and every way in which a master forgets, in virtual time.

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/memmaster"
)

func TestReadEpoch(t *testing.T) {
	for _, tt := range []struct {
		value, runID string
		want         epochKind
	}{
		{"", "abc", epochForeign},
		{"abc:1", "abc", epochAdmitted},
		{"abcd:1", "abc", epochForeign},
		{"abc", "abc", epochForeign},
		{"q:abc:1", "abc", epochQuarantined},
		{"q:abcd:1", "abc", epochForeign},
		{"q:1", "abc", epochForeign},
		{"xyz:1", "abc", epochForeign},
		{"nonsense", "abc", epochForeign},
		{"abc:" + strings.Repeat("x", epochMax), "abc", epochForeign},
		{":1", "", epochForeign}, // a master that does not say who it is
		{"q::1", "", epochForeign},
	} {
		if got := readEpoch(tt.value, tt.runID); got != tt.want {
			t.Errorf("epoch %q on run %q: got %d, want %d", tt.value, tt.runID, got, tt.want)
		}
	}
	if a, b := quarantinedEpoch("abc", "r"), quarantinedEpoch("abc", "r"); a == b || readEpoch(a, "abc") != epochQuarantined {
		t.Errorf("two quarantines: got %q and %q, want two nonces", a, b)
	}
	if a, b := admittedEpoch("abc"), admittedEpoch("abc"); a == b || readEpoch(a, "abc") != epochAdmitted {
		t.Errorf("two admissions: got %q and %q, want two nonces", a, b)
	}
}

func TestQuarantineLastsLongerThanAnyKey(t *testing.T) {
	for _, maxTTL := range []time.Duration{10 * ms, time.Second, time.Minute, 24 * time.Hour} {
		for _, factor := range []float64{0.0001, 0.01, 0.5} {
			for _, stepMax := range []time.Duration{ms, 10 * ms, 10 * time.Second} {
				d := drift{factor, stepMax}
				// The slowest clock within the drift keeps a key that much longer, and we may be the fastest. A clock may also step back.
				got, least := quarantineOf(maxTTL, d), max(time.Duration(float64(maxTTL)*(1+2*factor))+driftConstant, paddedTTL(maxTTL, d), maxTTL+stepMax)
				if got < least {
					t.Errorf("quarantine for max_ttl %v, %+v: got %v, want at least %v", maxTTL, d, got, least)
				}
			}
		}
	}
}

func TestFingerprint(t *testing.T) {
	o := Options{Masters: []Master{{Addr: "a:1"}, {Addr: "b:1"}, {Addr: "c:1"}}}.withDefaults()
	same := func(change func(*Options)) bool {
		other := o
		other.Masters = append([]Master(nil), o.Masters...)
		change(&other)
		return agreedSettingsOf(o).fingerprint() == agreedSettingsOf(other).fingerprint()
	}
	for _, tt := range []struct {
		name   string
		change func(*Options)
		want   bool
	}{
		{"another order", func(o *Options) { o.Masters[0], o.Masters[2] = o.Masters[2], o.Masters[0] }, true},
		{"other passwords and timeouts", func(o *Options) { o.Masters[0].Password, o.MasterTimeout = "x", time.Second }, true},
		{"another address for the same name", func(o *Options) { o.Masters[0] = Master{Addr: "z:1", Name: "a:1"} }, true},
		{"another master", func(o *Options) { o.Masters[0].Addr = "z:1" }, false},
		{"two masters more", func(o *Options) { o.Masters = append(o.Masters, Master{Addr: "d:1"}, Master{Addr: "e:1"}) }, false},
		{"another max_ttl", func(o *Options) { o.MaxTTL++; o.MaxTTL += ms }, false},
	} {
		if got := same(tt.change); got != tt.want {
			t.Errorf("%s: the same configuration: got %v, want %v", tt.name, got, tt.want)
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
		epoch, _, _ := s.masters[(i+1)%5].Get(epochKey)
		s.do(i, "DEL", "r")
		s.do(i, "SET", epochKey, epoch)
	}},
	{name: "clock steps forward", reason: "its clock stepped", idle: true, forget: func(s *stage, i int, _ *memory) { s.masters[i].StepClock(20 * time.Second) }},
	{name: "its machine is rolled back", reason: "its beat went back", idle: true, forget: func(s *stage, i int, m *memory) { s.masters[i].Rollback(m.snapshot[i]) }},
}

// The case that the Redis documentation warns of: a lock holds a bare quorum, one of its masters forgets it, and two more never had
// it. Nobody may be granted the lock until it has ended, neither through a proxy that knew the master before nor through a
// new one.
func TestForgetfulMasterHasNoVote(t *testing.T) {
	for _, f := range forgetting {
		inVirtualTime(t, 5, func(s *stage) {
			change := func(o *Options) { o.MaxTTL = 10 * time.Second }
			p, other := s.open(change), s.open(change)
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
			fresh := s.start(change)
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
			for i := 3; i < 5; i++ {
				p.paths[i].Heal()
			}
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
		for i := 3; i < 5; i++ {
			p.paths[i].Partition()
			p.paths[i].Cut()
		}
		held := p.lock(one("r", 10*time.Second))
		for i := range 2 {
			s.masters[i].Crash(false)
			s.masters[i].Restart()
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
		locked, extended := &call{began: time.Now()}, &call{began: time.Now()}
		p.StartLock(&locked.Op, one("r", 10*time.Second).as("T"), locked)
		p.StartExtend(&extended.Op, []string{"r"}, "T", 10*time.Second, extended)
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
			p := s.open(func(o *Options) { o.MaxTTL = maxTTL })
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
				s.Errorf("%s: admitted after %v, want soon after %v", f.name, late, quarantineOf(maxTTL, drift{0.01, 10 * ms}))
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
			forgot := time.Now()
			f.forget(s, 0, before)
			s.until("quarantine", func() bool { return p.Masters()[0].State == MasterQuarantined })
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
		if f.name == "clock steps forward" {
			continue // a step of a quarantined master loses nothing that counts
		}
		inVirtualTime(t, 5, func(s *stage) {
			const maxTTL = 4 * time.Second
			change := func(o *Options) { o.MaxTTL = maxTTL }
			p, other := s.open(change), s.open(change)
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

// The reason of a quarantine is the true one also where the master was never admitted.
func TestFlushedWhileNew(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.do(0, "FLUSHALL")
		p := s.start()
		time.Sleep(time.Second)
		p.wantStates("quuuu")
		s.do(0, "FLUSHALL")
		time.Sleep(time.Second)
		if got := p.Masters()[0]; got.State != MasterQuarantined || !strings.HasPrefix(got.Reason, "it has no epoch: it is new") {
			s.Errorf("flushed again: got %s: %s", got.State, got.Reason)
		}
	})
}

// Whoever is first admits for all; a proxy that came later does not wait for a time of its own. And an epoch that was admitted is
// trusted at once.
func TestOneAdmitsForAll(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		change := func(o *Options) { o.MaxTTL = 10 * time.Second }
		p := s.open(change)
		s.do(0, "FLUSHALL")
		forgot := time.Now()
		time.Sleep(9 * time.Second)
		late := s.start(change)
		time.Sleep(100 * ms)
		late.wantStates("quuuu")
		p.allUp()
		late.allUp()
		if got := time.Since(forgot); got > 15*time.Second {
			s.Errorf("admitted after %v, want when the first proxy's time was over", got)
		}
		fresh := s.start(change)
		began := time.Now()
		fresh.allUp()
		if got := time.Since(began); got > 10*ms {
			s.Errorf("a new proxy has all masters after %v, want at once", got)
		}
	})
}

// A proxy that starts while nobody else knows since when a master is quarantined waits for the whole time.
func TestRestartedProxyWaitsAgain(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		change := func(o *Options) { o.MaxTTL = 2 * time.Second }
		p := s.open(change)
		s.do(0, "FLUSHALL")
		time.Sleep(1500 * ms)
		p.Close(s.Context())
		next := s.start(change)
		began := time.Now()
		next.allUp()
		if got := time.Since(began); got < 2*time.Second {
			s.Errorf("admitted %v after the only proxy started, want not before max_ttl", got)
		}
	})
}

// Masters that nobody has used look like masters that have all just forgotten everything.
func TestBrandNewMastersWaitOnce(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		for i := range s.masters {
			s.do(i, "FLUSHALL")
		}
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

func TestQuarantineReason(t *testing.T) {
	for value, want := range map[string]string{
		quarantinedEpoch("abc", "its clock stepped: 10s"): "its clock stepped: 10s",
		"q:abc:123":                   "it gave no reason",
		"q:abc:123:":                  "it gave no reason",
		"q:abc:123:a\r\n+OK \x00\xff": "a??+OK ??",
		"q:abc:123:" + strings.Repeat("x", 1<<20): strings.Repeat("x", 200) + "…",
	} {
		if got := quarantineReason(value); got != want {
			t.Errorf("%.40q: got %q, want %q", value, got, want)
		}
	}
}

// The proxy that comes second knows why the first one has quarantined the master.
func TestOtherProxiesKnowTheReason(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		s.do(0, "FLUSHALL")
		s.until("quarantine", func() bool { return p.states() == "quuuu" && other.states() == "quuuu" })
		const why = "its epoch is gone: it has restarted without its data, or was flushed"
		first, second := p.Masters()[0].Reason, other.Masters()[0].Reason
		if strings.HasPrefix(first, "another") {
			first, second = second, first
		}
		if first != why || second != "another proxy has quarantined it: "+why {
			s.Errorf("got the reasons %q and %q, want %q and that another proxy has given it", first, second, why)
		}
	})
}

func TestBootstrapRefusesWhatIsNotNew(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(s *stage, p *proxy)
		want   string
	}{
		{"an epoch", func(s *stage, p *proxy) { s.do(2, "SET", epochKey, "q:x:y") }, "m3: it has an epoch (another run's): it is not new"},
		{"a key", func(s *stage, p *proxy) { s.do(2, "SET", "r", "T") }, "m3: it holds 1 keys: it is not new"},
		{"away", func(s *stage, p *proxy) { s.masters[2].Crash(true) }, "m3: cannot connect: connection refused"},
		{"hangs", func(s *stage, p *proxy) { s.masters[2].Freeze() }, "m3: no answer while connecting"},
		{"a replica", func(s *stage, p *proxy) { s.do(2, "REPLICAOF", "elsewhere", "6379") }, "m3: refused: it is a slave of elsewhere:6379"},
		{"may evict", func(s *stage, p *proxy) {
			s.do(2, "CONFIG", "SET", "maxmemory", "1000000", "maxmemory-policy", "allkeys-lru")
		}, "m3: refused: it may evict locks"},
		{"twice the same", func(s *stage, p *proxy) { p.exchangePath(2, s.masters[1].Link()) }, "m3: it is the same Redis as m2"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			for i := range s.masters {
				s.do(i, "FLUSHALL")
			}
			p := s.proxy()
			tt.change(s, p)
			err := Bootstrap(s.Context(), p.options())
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "nothing was changed") {
				s.Errorf("%s: got %v, want an error with %q, and that nothing was changed", tt.name, err, tt.want)
			}
			s.thaw(2)
			for i, m := range s.masters {
				if epoch, _, ok := m.Get(epochKey); ok && i != 2 {
					s.Errorf("%s: epoch of master %d: got %q, want none", tt.name, i+1, epoch)
				}
			}
		})
	}
}

// Who has found new masters waits for them, and has left its epoch there. It does not keep a bootstrap from admitting them, and has them
// as soon as that is done. What is not new stays as it is: masters that it has known before, or that hold a lock.
func TestBootstrapOfMastersThatSomebodyWaitsFor(t *testing.T) {
	flush := func(s *stage) {
		for i := range s.masters {
			s.do(i, "FLUSHALL")
		}
	}
	for _, tt := range []struct {
		name  string
		start func(s *stage) (waiting *proxy)
		want  string
	}{
		{"new", func(s *stage) *proxy { flush(s); return s.start() }, ""},
		{"new, and two wait", func(s *stage) *proxy { flush(s); s.start(); return s.start() }, ""},
		{"known before", func(s *stage) *proxy { p := s.open(); flush(s); return p },
			"it has an epoch (quarantined: its epoch is gone: it has restarted without its data, or was flushed): it is not new"},
		{"one of two knew it, and comes second", func(s *stage) *proxy {
			p := s.open()
			for i := range s.masters {
				p.paths[i].Partition()
			}
			flush(s)
			s.start()
			time.Sleep(2 * time.Second)
			for i := range s.masters {
				p.paths[i].Heal()
			}
			return p
		}, "it has an epoch (quarantined: its epoch is gone: it has restarted without its data, or was flushed): it is not new"},
		{"a clock has stepped", func(s *stage) *proxy {
			p := s.open()
			for _, m := range s.masters {
				m.StepClock(time.Hour)
			}
			return p
		}, "it has an epoch (quarantined: its clock stepped by 1h0m0s): it is not new"},
		{"a lock", func(s *stage) *proxy { flush(s); p := s.start(); s.do(1, "SET", "r", "T"); return p }, "m2: it holds 1 keys: it is not new"},
		{"a fence", func(s *stage) *proxy {
			flush(s)
			p := s.start()
			time.Sleep(2 * time.Second)
			p.lock(LockRequest{Resources: []string{"r"}, TTL: time.Second, Fence: true})
			return p
		}, "m1: it holds 1 keys: it is not new"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := tt.start(s)
			time.Sleep(3 * time.Second)
			err := Bootstrap(s.Context(), s.proxy().options())
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "nothing was changed") {
					s.Errorf("%s: got %v, want an error with %q, and that nothing was changed", tt.name, err, tt.want)
				}
				return
			}
			if err != nil {
				s.Errorf("%s: got %v, want them admitted", tt.name, err)
			}
			time.Sleep(p.opts.Heartbeat)
			p.wantStates("uuuuu")
			p.lock(one("r", time.Second)).want(s, tt.name+": LOCK", "held", 0)
		})
	}
}

func TestDisagreement(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Options)
		reason string
	}{
		{"max_ttl", func(o *Options) { o.MaxTTL = 20 * time.Second }, "max_ttl is 10s there, 20s here"},
		{"names", func(o *Options) { o.MaxTTL, o.Masters[0].Name = 10*time.Second, "another" }, "masters named only there: m1; masters named only here: another"},
		{"quorum", func(o *Options) { o.MaxTTL, o.Masters = 10*time.Second, o.Masters[:3] }, "masters named only there: m4, m5"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(func(o *Options) { o.MaxTTL = 10 * time.Second })
			wrong := s.start(tt.change)
			for range 20 {
				time.Sleep(500 * ms)
				if got := wrong.states(); strings.Trim(got, "r") != "" {
					s.Fatalf("%s: states seen by the one that disagrees: got %s, want all refused", tt.name, got)
				}
			}
			if c := wrong.lock(one("r", time.Second)); c.Held || !strings.Contains(c.Err.Error(), "other proxies use other settings: "+tt.reason+": give all proxies the same") {
				s.Errorf("%s: LOCK through the one that disagrees: got %+v, want an error with %q", tt.name, c.Result, tt.reason)
			}
			p.wantStates("uuuuu")
			p.lock(one("r", time.Second)).want(s, "LOCK through the other", "held", 0)
			p.Close(s.Context())
			left := time.Now()
			wrong.allUp()
			if took := time.Since(left); took < 5*time.Second {
				s.Errorf("%s: it has a vote %v after the other has stopped, want not before about max_ttl", tt.name, took)
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
