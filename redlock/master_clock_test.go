package redlock

// Goal: a clock that steps is found in the reply that would have carried the vote. Method: steps of in-process masters under locks.

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// Three masters hold a lock, the clock of one of them steps forward: its key is gone. The vote that comes next from it does not count,
// here, and for every client that has watched its clock. Where it is not given what the others remember, nothing is lost: it votes again when
// nothing that it has ended early is valid any more.
func TestStepIsCaughtWithTheVote(t *testing.T) {
	type testCase struct {
		step   time.Duration
		reason string
	}
	for _, tt := range redisproc.Some(2, []testCase{
		{20 * time.Second, "its clock gained 20s"},
		{50 * ms, "its clock gained 50ms"},
	}) {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(uncopied, func(o *Options) { o.MaxTTL, o.ClockStepMax = 10*time.Second, 10*ms })
			time.Sleep(500 * ms)
			p.align()
			p.lockable("r") // the clocks were seen just now
			before := s.memberships()
			s.masters[0].StepClock(tt.step)
			stepped := time.Now()
			s.freeze(3, 4)
			p.lock(one("r", 5*time.Second).as("T")).want(s, tt.reason, "2 of 5 masters voted", giveUpNeeded)
			if m := p.Masters()[0]; m.State != MasterDoubted || !strings.Contains(m.Reason, tt.reason) {
				s.Errorf("master 1 after a step of %v: got %s, %q, want doubted, %q", tt.step, m.State, m.Reason, tt.reason)
			}
			s.thaw(3, 4)
			time.Sleep(600 * ms)
			p.wantStates("ouuuu")
			if after := s.memberships(); after != before {
				s.Errorf("memberships after a step of %v: got\n%s\nwant what they were before,\n%s", tt.step, after, before)
			}
			p.lockable("r")
			s.until("admitted again", func() bool { return p.states() == "uuuuu" })
			if took, early := time.Since(stepped), min(10*time.Second+200*ms, (tt.step-10*ms)*100); took < early {
				s.Errorf("a step of %v: it votes again after %v, want not before %v", tt.step, took, early)
			}
		})
	}
}

// A step within the tolerance is none.
func TestSmallStepIsForgiven(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		for _, step := range []time.Duration{9 * ms, -9 * ms} {
			s.masters[0].StepClock(step)
			time.Sleep(time.Second)
			p.wantStates("uuuuu")
		}
	})
}

// An idle master's step is found by the heartbeat of every proxy.
func TestStepOfAnIdleMaster(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(uncopied), s.open(uncopied)
		s.masters[2].StepClock(time.Hour)
		time.Sleep(600 * ms)
		p.wantStates("uuouu")
		other.wantStates("uuouu")
	})
}

// A clock that runs as fast or as slow as the drift allows is no reason for anything, however slow the replies are.
func TestDriftIsNoStep(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		for i, ppm := range []float64{5000, -5000, 4000, -100, 0} {
			s.masters[i].SetClockRate(ppm)
		}
		p := s.open()
		rng := rand.New(rand.NewPCG(1, 5))
		for i := range 5 {
			rng := rand.New(rand.NewPCG(uint64(i), 6))
			p.paths[i].SetDelay(func() time.Duration { return upTo(rng, 45*ms) }, nil)
		}
		for range 300 {
			time.Sleep(upTo(rng, 200*ms))
			if got := p.states(); strings.Contains(got, "o") {
				s.Fatalf("states: got %s, want no doubt: %s", got, p.Masters()[strings.Index(got, "o")].Reason)
			}
		}
	})
}

// What the check of the clocks lets pass ends no lock before its validity, whatever kind it is of: a majority of clocks that run as fast as the
// drift allows and step forward by nearly clock_step_max, just after the grant.
func TestSmallStepsStayInsideTheValidity(t *testing.T) {
	usual, long := 500*ms, func(o *Options) {
		o.MaxTTL, o.MasterTimeout, o.Heartbeat = 24*time.Hour, 10*time.Second, 10*time.Second
	} // few beats and ticks in hours
	for _, ttl := range redisproc.Some(2, []time.Duration{20 * ms, time.Minute, 50 * ms, 200 * ms, 500 * ms, time.Second, 4 * time.Second, time.Hour}) {
		inVirtualTime(t, 5, func(s *stage) {
			change := func(o *Options) {
				if o.ClockStepMax = 0; ttl >= time.Minute { // the default
					long(o)
				}
			}
			p, other := s.open(change), s.open(change)
			if p.opts.ClockStepMax != usual {
				t.Fatalf("clock_step_max: got %v, want %v", p.opts.ClockStepMax, usual)
			}
			s.setClockRates(7490, 0, 1, 2)
			time.Sleep(p.opts.Heartbeat) // the clocks have been looked at
			p.align()
			short := max(ttl/2, p.opts.MinTTL)
			shared := one("reader", ttl).sharing()
			holder := p.holder()
			kinds := map[string]func(r string) *call{
				"LOCK":                func(r string) *call { return p.lock(one(r, ttl)) },
				"LOCK … TOKEN":        func(r string) *call { return p.lock(one(r, ttl).as("mine")) },
				"LOCK … TOKEN, again": func(r string) *call { p.lock(one(r, short).as("mine")); return p.lock(one(r, ttl).as("mine")) },
				"LOCK … FENCE":        func(r string) *call { return p.lock(LockRequest{Resources: []string{r}, TTL: ttl, Fence: true}) },
				"a hand-over": func(r string) *call {
					before := p.lock(one(r, ttl))
					waiter := p.begin(one(r, ttl).waits(time.Second))
					p.unlock(before.Token, r)
					return p.finish(waiter)
				},
				"MLOCK":              func(r string) *call { return p.lock(several(ttl, "another", r)) },
				"slots#0":            func(string) *call { return p.lock(one("slots", ttl).of(1)) },
				"reader":             func(string) *call { return p.lock(shared) },
				"EXTEND":             func(r string) *call { return p.extend(p.lock(one(r, short)).Token, ttl, r) },
				"EXTEND of a reader": func(r string) *call { return p.extend(p.lock(one(r, short).sharing()).Token, ttl, r) },
				"SET NX":             func(r string) *call { return p.commit(setNX(r, longValue, ttl)) },
				"a short SET NX":     func(r string) *call { return p.commit(setNX(r, "1", ttl)) },
				"PEXPIRE": func(r string) *call {
					p.commit(setNX(r, "1", short))
					return p.commit(compareAndExpire(r, "1", ttl))
				},
				"a rotation": func(r string) *call {
					p.commit(setNX(r, longValue, short))
					return p.commit(rotate(r, longValue, otherValue, ttl))
				},
			}
			if ttl >= 3*p.opts.MasterTimeout {
				kinds["HOLD"] = func(r string) *call { return holder.hold(p.lock(one(r, short)).Token, ttl, false, r) }
			}
			held := make(map[string]*call)
			for name, lock := range kinds {
				held[name] = lock(name)
				held[name].want(s, name, "held", 0)
			}
			p.EndHolder(holder.Holder, false) // nothing is renewed
			// Nothing is allowed for their rate since the last reading.
			s.stepClocks(usual-time.Duration(7490e-6*float64(p.opts.Heartbeat+40*ms))-100*time.Microsecond, 0, 1, 2)
			for name, c := range held {
				if want := c.began.Add(ttl); c.Until.After(want) || want.Sub(c.Until) > 0 && name != "a hand-over" {
					s.Errorf("%s for %v: valid for %v", name, ttl, c.Until.Sub(c.began))
				}
				time.Sleep(time.Until(c.Until) - time.Microsecond)
				if second := other.lock(one(name, ttl)); second.Held || second.Err != nil {
					s.Errorf("%s for %v: another got %+v before the end of the validity", name, ttl, second.Result)
				}
			}
			s.wantAllUp(p, other)
		})
	}
}

func (s *stage) wantAllUp(proxies ...*proxy) {
	s.Helper()
	for _, p := range proxies {
		p.wantStates("uuuuu")
	}
}
