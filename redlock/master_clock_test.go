package redlock

// Goal: a clock that steps is found in the reply that would have carried the vote, and nothing else is taken for a step. Method: a table,
// random histories of a clock with bounds on what must and must not be found, and steps of in-process masters under locks.

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A ring with a wait of 8 s, so that a slot is a second long.
const ringWait = 8 * time.Second

// step takes a reading as a lane does. It returns the gain, 0 if it is within the tolerance; a gain begins a new ring.
func (r *clockRing) step(sent, received, master time.Duration, rate float64, tolerance time.Duration) (gain time.Duration) {
	now := clockReadingOf(sent, received, master)
	if gain = r.gain(now, rate); gain > tolerance {
		*r = clockRing{}
	} else {
		gain = 0
	}
	r.add(now, rate, ringWait)
	return gain
}

func TestClockRing(t *testing.T) {
	type asked struct {
		sent, received, master, gain time.Duration
	}
	const hour = time.Hour
	for _, tt := range []struct {
		name     string
		readings []asked
	}{
		{"the first reading is believed", []asked{{0, ms, -hour, 0}}},
		{"in step", []asked{{0, 0, hour, 0}, {100 * ms, 100 * ms, hour + 100*ms, 0}, {time.Second, time.Second, hour + time.Second, 0}}},
		{"forward", []asked{{0, 0, hour, 0}, {100 * ms, 100 * ms, hour + 200*ms, 99500 * time.Microsecond}}},
		{"backward", []asked{{0, 0, hour, 0}, {100 * ms, 100 * ms, hour, 0}}},
		{"backward and forward again", []asked{{0, 0, hour, 0}, {100 * ms, 100 * ms, hour, 0}, {200 * ms, 200 * ms, hour + 200*ms, 99500 * time.Microsecond}}},
		{"backward, and forward a good while later", []asked{{0, 0, 2 * hour, 0}, {time.Second, time.Second, hour, 0}, {2 * time.Second, 2 * time.Second, hour + time.Second, 0},
			{8 * time.Second, 8 * time.Second, 2*hour + 8*time.Second, hour + time.Second - 30*ms}}},
		{"within the tolerance", []asked{{0, 0, hour, 0}, {100 * ms, 100 * ms, hour + 109*ms, 0}, {200 * ms, 200 * ms, hour + 200*ms, 0}}},
		{"twice within the tolerance is more", []asked{{0, 0, hour, 0}, {100 * ms, 100 * ms, hour + 109*ms, 0}, {200 * ms, 200 * ms, hour + 218*ms, 17 * ms}}},
		{"found once, and a new ring", []asked{{0, 0, hour, 0}, {100 * ms, 100 * ms, 2 * hour, hour - 100*ms - 500*time.Microsecond}, {200 * ms, 200 * ms, 2*hour + 100*ms, 0}}},
		{"as fast as rates may differ, for long", []asked{{0, 0, hour, 0}, {hour, hour, hour + hour + 18*time.Second, 0}}},
		{"faster", []asked{{0, 0, hour, 0}, {hour, hour, hour + hour + 19*time.Second, time.Second}}},
		{"a slow reply tells little", []asked{{0, 0, hour, 0}, {100 * ms, 600 * ms, hour + 350*ms, 0}, {700 * ms, 700 * ms, hour + 700*ms, 0}}},
		{"and does not hide what was known", []asked{{0, 0, hour, 0}, {100 * ms, 600 * ms, hour + 590*ms, 0}, {700 * ms, 700 * ms, hour + 800*ms, 96500 * time.Microsecond}}},
	} {
		var ring clockRing
		for i, r := range tt.readings {
			got := ring.step(r.sent, r.received, r.master, 0.005, 10*ms)
			if diff := got - r.gain; diff.Abs() > 2*time.Microsecond {
				t.Errorf("%s: reading %d: got a gain of %v, want %v", tt.name, i, got, r.gain)
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
func TestClockRingRaisesNoFalseAlarm(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		bound := []float64{0, 0.0001, 0.005, 0.1}[rng.IntN(4)]
		h := history{rng: rng, bound: bound, rate: bound, offset: float64(time.Hour)}
		delayMax := []time.Duration{0, ms, 50 * ms, time.Second}[rng.IntN(4)]
		var ring clockRing
		for i := range 60 {
			h.pass(h.delay(2 * time.Second))
			sent, received, master := h.read(delayMax)
			// A tolerance of microseconds is for the rounding alone.
			if gain := ring.step(sent, received, master, bound, 3*time.Microsecond); gain != 0 {
				t.Fatalf("seed %d, reading %d, rates within %v, delays up to %v: got a gain of %v, want none", seed, i, bound, delayMax, gain)
			}
		}
	}
}

// Every gain beyond the tolerance and what cannot be known is found at the next reading, with about its size.
func TestClockRingFindsEveryGain(t *testing.T) {
	const bound, tolerance = 0.005, 10 * ms
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		h := history{rng: rng, bound: bound, offset: -float64(time.Hour)}
		delayMax := []time.Duration{0, ms, 50 * ms}[rng.IntN(3)]
		var ring clockRing
		for range 1 + rng.IntN(40) {
			h.pass(h.delay(2 * time.Second))
			sent, received, master := h.read(delayMax)
			ring.step(sent, received, master, bound, tolerance)
		}
		idle := h.delay(2 * time.Second)
		h.pass(idle / 2)
		unknown := 4*delayMax + time.Duration(2*bound*float64(idle+4*delayMax)) + 2*time.Microsecond
		step := tolerance + unknown + h.delay(time.Second) + 1
		h.offset += float64(step)
		h.pass(idle - idle/2)
		sent, received, master := h.read(delayMax)
		got := ring.step(sent, received, master, bound, tolerance)
		if got == 0 || (got-step).Abs() > unknown {
			t.Fatalf("seed %d: got a gain of %v, want %v, give or take %v", seed, got, step, unknown)
		}
	}
}

// The ring decides as if it compared every reading with each of the last wait, under whatever a clock does.
func TestClockRingComparesWithAllReadings(t *testing.T) {
	const bound, tolerance = 0.005, 10 * ms
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 5))
		h := history{rng: rng, bound: 3 * bound, offset: float64(time.Hour)}
		var ring clockRing
		var all []clockReading
		for i := range 300 {
			h.pass(h.delay(400 * ms))
			if rng.IntN(20) == 0 {
				h.offset += float64(upTo(rng, 30*ms) - 15*ms)
			}
			sent, received, master := h.read(20 * ms)
			now := clockReadingOf(sent, received, master)
			want := false
			for _, before := range all {
				if now.sent-before.sent <= ringWait && now.offset.low-before.offset.high > allowed(now.received-before.sent, bound)+tolerance+1 {
					want = true
				}
			}
			got := ring.step(sent, received, master, bound, tolerance) != 0
			if want && !got {
				t.Fatalf("seed %d, reading %d: the ring found no gain, though one reading of the last wait shows it", seed, i)
			}
			if got {
				all = nil
			}
			all = append(all, now)
		}
	}
}

// A clock that runs too fast is found as soon under load as when idle, however many readings there are.
func TestFastClockIsFoundUnderLoad(t *testing.T) {
	for _, tt := range []struct {
		faster float64
		within time.Duration
	}{
		{0.083, 130 * ms},
		{0.02, 670 * ms},
		{0.007, 5100 * ms},
	} {
		for _, pause := range []time.Duration{100 * time.Microsecond, ms, 250 * ms} {
			var ring clockRing
			found := time.Duration(0)
			for now := time.Duration(0); found == 0 && now < time.Minute; now += pause {
				master := time.Hour + now + time.Duration(float64(now)*tt.faster)
				if ring.step(now, now, master, 0.005, 10*ms) != 0 {
					found = now
				}
			}
			if found == 0 || found > tt.within+pause {
				t.Errorf("a clock %v too fast, read every %v: found after %v, want %v", tt.faster, pause, found, tt.within)
			}
		}
	}
}

// A suspension of this machine is no gain, and hides none.
func TestClockRingSleeps(t *testing.T) {
	var ring clockRing
	ring.step(0, 0, time.Hour, 0.005, 10*ms)
	ring.sleep(time.Minute, 0.005)
	for _, tt := range []struct{ at, ahead, gain time.Duration }{
		{ms, 300 * ms, 0}, // the master's clock may have run fast all that time
		{200 * ms, 315 * ms, 14 * ms},
	} {
		if got := ring.step(tt.at, tt.at, time.Hour+time.Minute+tt.at+tt.ahead, 0.005, 10*ms); (got - tt.gain).Abs() > 5*time.Microsecond {
			t.Errorf("%v after a suspension, %v ahead: got a gain of %v, want %v", tt.at, tt.ahead, got, tt.gain)
		}
	}
}

func TestVouched(t *testing.T) {
	const skew = time.Second
	for _, tt := range []struct {
		name    string
		own     time.Duration
		masters []time.Duration // missing: not known
		want    mask
	}{
		{"nobody but us", 0, []time.Duration{missing, missing, missing}, 0},
		{"one of one", 0, []time.Duration{900 * ms}, 0b1},
		{"one of one, out of step", 0, []time.Duration{1100 * ms}, 0},
		{"two of five are too few", 0, []time.Duration{0, 0, missing, missing, missing}, 0},
		{"three of five are enough", 0, []time.Duration{0, missing, 0, missing, 0}, 0b10101},
		{"one is ahead", 0, []time.Duration{5 * skew, 0, 0, 0, 0}, 0b11110},
		{"two are behind", 0, []time.Duration{-5 * skew, 0, 0, 0, -5 * skew}, 0b01110},
		{"three have stepped together", 0, []time.Duration{5 * skew, 5 * skew, 5 * skew, 0, 0}, 0},
		{"we are alone", 1500 * ms, []time.Duration{0, 0, 0, 0, 0}, 0},
		{"all of them and not we", 0, []time.Duration{skew * 9, skew * 9, skew * 9, skew * 9, skew * 9}, 0},
		{"spread around us", 0, []time.Duration{-900 * ms, -500 * ms, 0, 500 * ms, 900 * ms}, 0b11111},
		{"too far from each other", 0, []time.Duration{-900 * ms, -900 * ms, missing, 900 * ms, 900 * ms}, 0},
	} {
		var known mask
		masters := make([]interval, len(tt.masters))
		for i, m := range tt.masters {
			if m != missing {
				known = known.with(i)
				masters[i] = interval{m, m}
			}
		}
		if got := vouched(tt.own, masters, known, len(masters), skew); got != tt.want {
			t.Errorf("%s: got %05b, want %05b", tt.name, got, tt.want)
		}
	}
}

const missing = 999 * time.Hour

// Three masters hold a lock, the clock of one of them steps forward: its key is gone. The vote that comes next from it does not count,
// here, and for every client that has watched its clock. Its memory is not lost: it votes again one wait later.
func TestStepIsCaughtWithTheVote(t *testing.T) {
	type testCase struct {
		step   time.Duration
		reason string
	}
	for _, tt := range some(2, []testCase{
		{20 * time.Second, "its clock gained 20s"},
		{15 * ms, "its clock gained 15ms"},
	}) {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(func(o *Options) { o.MaxTTL = 10 * time.Second })
			time.Sleep(500 * ms)
			p.align()
			p.lockable("r") // the clocks were seen just now
			before := s.memberships()
			s.masters[0].StepClock(tt.step)
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

// An idle master's step is found by the heartbeat of every proxy.
func TestStepOfAnIdleMaster(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
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

func BenchmarkClockRing(b *testing.B) {
	var ring clockRing
	b.ReportAllocs()
	now := time.Duration(0)
	for b.Loop() {
		now += 50 * time.Microsecond
		ring.step(now, now+20*time.Microsecond, time.Hour+now, 0.005, 10*ms)
	}
}

// BenchmarkLook is for a suspension, in every batch that decides something; BenchmarkSuspended is what asking the system costs.
func BenchmarkLook(b *testing.B) {
	var own ownClock
	own.start(time.Now())
	b.ReportAllocs()
	for b.Loop() {
		own.look()
	}
}

func BenchmarkSuspended(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		suspended()
	}
}
