package redlock

// Goal: a clock that steps is found in the reply that would have carried the vote. Method: steps of in-process masters under locks.

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// Three masters hold a lock, the clock of one of them steps forward: its key is gone. The vote that comes next from it does not count,
// here, and for every client that has watched its clock. Where it is not given what the others remember, nothing is lost: it votes again when
// nothing that it has ended early is valid any more.
func TestStepIsCaughtWithTheVote(t *testing.T) {
	type testCase struct {
		step   time.Duration
		reason string
	}
	for _, tt := range some(2, []testCase{
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

// What the check of the clocks lets pass ends no lock before its validity: a majority of clocks that run as fast as the drift allows and
// step forward by nearly clock_step_max, however short the TTL is.
func TestSmallStepsStayInsideTheValidity(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		s.setClockRates(4990, 0, 1, 2)
		for _, ttl := range []time.Duration{20 * ms, 50 * ms, 200 * ms, 500 * ms, time.Second, 2 * time.Second, 4 * time.Second} {
			for name, lock := range map[string]func() *call{
				"LOCK":           func() *call { return p.lock(one("r", ttl)) },
				"EXTEND":         func() *call { held := p.lock(one("r", ttl)); return p.extend(held.Token, ttl, "r") },
				"LOCK … FENCE":   func() *call { return p.lock(LockRequest{Resources: []string{"r"}, TTL: ttl, Fence: true}) },
				"SET NX":         func() *call { return p.commit(setNX("r", longValue, ttl)) },
				"a short SET NX": func() *call { return p.commit(setNX("r", "1", ttl)) },
			} {
				time.Sleep(time.Second) // the clocks have been looked at since the last step
				other.align()
				held := lock()
				held.want(s, name, "held", 0)
				s.stepClocks(9900*time.Microsecond, 0, 1, 2)
				time.Sleep(time.Until(held.Until) - time.Microsecond)
				second := other.lock(one("r", ttl))
				if second.Held {
					s.Errorf("%s for %v: another was granted it %v before the end of the validity", name, ttl, time.Until(held.Until))
				}
				s.wantAllUp(p, other)
				time.Sleep(time.Second)
				s.stepClocks(-9900*time.Microsecond, 0, 1, 2)
				time.Sleep(5 * time.Second)
			}
		}
	})
}

func (s *stage) wantAllUp(proxies ...*proxy) {
	s.Helper()
	for _, p := range proxies {
		p.wantStates("uuuuu")
	}
}
