package redlock

// Goal: a clock that steps is found in the reply that would have carried the vote, and nothing else is taken for a step. Method: a table,
// random histories of a clock with bounds on what must and must not be found, and steps of in-process masters under locks.

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestClockTrack(t *testing.T) {
	type reading struct {
		sent, received, master, step time.Duration
	}
	const hour = time.Hour
	for _, tt := range []struct {
		name     string
		readings []reading
	}{
		{"the first reading is believed", []reading{{0, ms, -hour, 0}}},
		{"in step", []reading{{0, 0, hour, 0}, {100 * ms, 100 * ms, hour + 100*ms, 0}, {time.Second, time.Second, hour + time.Second, 0}}},
		{"forward", []reading{{0, 0, hour, 0}, {100 * ms, 100 * ms, hour + 200*ms, 99500 * time.Microsecond}}},
		{"backward", []reading{{0, 0, hour, 0}, {100 * ms, 100 * ms, hour, -99500 * time.Microsecond}}},
		{"within the tolerance", []reading{{0, 0, hour, 0}, {100 * ms, 100 * ms, hour + 109*ms, 0}, {200 * ms, 200 * ms, hour + 200*ms, 0}}},
		{"found once, and believed from then on", []reading{{0, 0, hour, 0}, {100 * ms, 100 * ms, 2 * hour, hour - 100*ms - 500*time.Microsecond}, {200 * ms, 200 * ms, 2*hour + 100*ms, 0}}},
		{"as fast as rates may differ, for long", []reading{{0, 0, hour, 0}, {hour, hour, hour + hour + 18*time.Second, 0}}},
		{"faster", []reading{{0, 0, hour, 0}, {hour, hour, hour + hour + 19*time.Second, time.Second}}},
		{"a slow reply tells little", []reading{{0, 0, hour, 0}, {100 * ms, 600 * ms, hour + 350*ms, 0}, {700 * ms, 700 * ms, hour + 700*ms, 0}}},
		{"and nothing new", []reading{{0, 0, hour, 0}, {100 * ms, 600 * ms, hour + 590*ms, 0}, {700 * ms, 700 * ms, hour + 800*ms, 94 * ms}}},
	} {
		var c clockTrack
		for i, r := range tt.readings {
			got := c.sample(r.sent, r.received, r.master, 0.005, 10*ms)
			if diff := got - r.step; diff.Abs() > 2*time.Microsecond {
				t.Errorf("%s: reading %d: got a step of %v, want %v", tt.name, i, got, r.step)
			}
		}
	}
}

// history is a master's clock as it might be: its rate wanders within bounds, and it steps now and then.
type history struct {
	rng    *rand.Rand
	now    time.Duration // ours
	offset float64       // of the master's clock, nanoseconds
	rate   float64
	bound  float64
}

func (h *history) pass(d time.Duration) {
	for d > 0 {
		if h.rng.IntN(8) == 0 {
			h.rate = h.bound * float64(h.rng.IntN(3)-1) // the worst is at the bounds
		}
		part := min(d, time.Duration(h.rng.Int64N(int64(300*ms))+1))
		h.now += part
		h.offset += float64(part) * h.rate
		d -= part
	}
}

// read asks for the time, with any delays.
func (h *history) read(delayMax time.Duration) (sent, received, master time.Duration) {
	sent = h.now
	h.pass(h.delay(delayMax))
	master = (h.now + time.Duration(h.offset)).Truncate(time.Microsecond)
	h.pass(h.delay(delayMax))
	return sent, h.now, master
}

// upTo is a random duration of at most limit.
func upTo(rng *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(limit) + 1))
}

func (h *history) delay(limit time.Duration) time.Duration {
	switch h.rng.IntN(3) {
	case 0:
		return 0
	case 1:
		return limit
	}
	return upTo(h.rng, limit)
}

// Whatever the delays are, and as long as the rates keep to their bounds, there is no false alarm: not even with hardly any tolerance.
func TestClockTrackRaisesNoFalseAlarm(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		bound := []float64{0, 0.0001, 0.005, 0.1}[rng.IntN(4)]
		h := history{rng: rng, bound: bound, rate: bound, offset: float64(time.Hour)}
		delayMax := []time.Duration{0, ms, 50 * ms, time.Second}[rng.IntN(4)]
		var c clockTrack
		for i := range 60 {
			h.pass(h.delay(2 * time.Second))
			sent, received, master := h.read(delayMax)
			// A tolerance of microseconds is for the rounding alone.
			if step := c.sample(sent, received, master, bound, 3*time.Microsecond); step != 0 {
				t.Fatalf("seed %d, reading %d, rates within %v, delays up to %v: got a step of %v, want none", seed, i, bound, delayMax, step)
			}
		}
	}
}

// Every step beyond the tolerance and what cannot be known is found at the next reading, with about its size.
func TestClockTrackFindsEveryStep(t *testing.T) {
	const bound, tolerance = 0.005, 10 * ms
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		h := history{rng: rng, bound: bound, offset: -float64(time.Hour)}
		delayMax := []time.Duration{0, ms, 50 * ms}[rng.IntN(3)]
		var c clockTrack
		for range 1 + rng.IntN(40) {
			h.pass(h.delay(2 * time.Second))
			sent, received, master := h.read(delayMax)
			c.sample(sent, received, master, bound, tolerance)
		}
		idle := h.delay(2 * time.Second)
		h.pass(idle / 2)
		unknown := c.offset.high - c.offset.low + 2*delayMax + time.Duration(2*bound*float64(idle+4*delayMax)) + time.Microsecond
		step := tolerance + unknown + h.delay(time.Second) + 1
		if rng.IntN(2) == 0 {
			step = -step
		}
		h.offset += float64(step)
		h.pass(idle - idle/2)
		sent, received, master := h.read(delayMax)
		got := c.sample(sent, received, master, bound, tolerance)
		if got == 0 || (got > 0) != (step > 0) || (got-step).Abs() > unknown {
			t.Fatalf("seed %d: got a step of %v, want %v, give or take %v", seed, got, step, unknown)
		}
	}
}

// Three masters hold a lock, one of them steps: its key is gone, or lives too long. The vote that comes next from it does not count.
func TestStepIsCaughtWithTheVote(t *testing.T) {
	type testCase struct {
		step   time.Duration
		reason string
	}
	for _, tt := range some(2, []testCase{
		{20 * time.Second, "its clock stepped by 20s"},
		{-20 * time.Second, "its clock stepped by -20s"},
		{15 * ms, "its clock stepped by 15ms"},
		{-15 * ms, "its clock stepped by -15ms"},
	}) {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(func(o *Options) { o.MaxTTL = 10 * time.Second })
			time.Sleep(500 * ms)
			p.align()
			p.lockable("r") // the clocks were seen just now
			s.masters[0].StepClock(tt.step)
			s.freeze(3, 4)
			p.lock(one("r", 5*time.Second).as("T")).want(s, tt.reason, "2 of 5 masters voted", giveUp)
			time.Sleep(100 * ms) // its redlockd:config may have expired at once, which breaks the connection
			if m := p.Masters()[0]; m.State != MasterQuarantined || !strings.Contains(m.Reason, tt.reason) {
				s.Errorf("master 1 after a step of %v: got %s, %q, want quarantined, %q", tt.step, m.State, m.Reason, tt.reason)
			}
			s.thaw(3, 4)
			p.lockable("r")
			s.until("admitted again", func() bool { return p.states() == "uuuuu" })
			if early := 10*time.Second + 200*ms; time.Since(p.opened) < early {
				s.Errorf("admitted after %v, want not before the longest TTL is over", time.Since(p.opened))
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

// An idle master's step is found by the heartbeat, and quarantines it for every proxy.
func TestStepOfAnIdleMaster(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		s.masters[2].StepClock(time.Hour)
		time.Sleep(600 * ms)
		p.wantStates("uuquu")
		other.wantStates("uuquu")
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
			if got := p.states(); strings.Contains(got, "q") {
				s.Fatalf("states: got %s, want no quarantine: %s", got, p.Masters()[strings.Index(got, "q")].Reason)
			}
		}
	})
}

// What the check of the clocks lets pass ends no lock before its validity: a majority of clocks that run as fast as the drift allows and
// step forward by nearly clock_step_max, however short the TTL is.
func TestSmallStepsStayInsideTheValidity(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		for i := range 3 {
			s.masters[i].SetClockRate(4990)
		}
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
				for i := range 3 {
					s.masters[i].StepClock(9900 * time.Microsecond)
				}
				time.Sleep(time.Until(held.Until) - time.Microsecond)
				second := other.lock(one("r", ttl))
				if second.Held {
					s.Errorf("%s for %v: another was granted it %v before the end of the validity", name, ttl, time.Until(held.Until))
				}
				s.wantAllUp(p, other)
				time.Sleep(time.Second)
				for i := range 3 {
					s.masters[i].StepClock(-9900 * time.Microsecond)
				}
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
