package clock

// Goal: a clock that steps is found, and nothing else is taken for a step. Method: a table, and random histories of a clock with bounds on what
// must and must not be found.

import (
	"math/rand/v2"
	"testing"
	"time"

	"redlockd/redlock/quorum"
)

// A ring with a wait of 8 s, so that a slot is a second long.
const ms = time.Millisecond

const ringWait = 8 * time.Second

// Step takes a reading as a lane does. It returns the gain, 0 if it is within the tolerance; a gain begins a new ring.
func (r *Ring) step(sent, received, master time.Duration, rate float64, tolerance time.Duration) (gain time.Duration) {
	now := ReadingOf(sent, received, master)
	if gain = r.Gain(now, rate); gain > tolerance {
		*r = Ring{}
	} else {
		gain = 0
	}
	r.Add(now, rate, ringWait)
	return gain
}

func TestReading(t *testing.T) {
	now := ReadingOf(3*ms, 5*ms, time.Hour)
	if want := (Reading{3 * ms, 5 * ms, Interval{time.Hour - 5*ms, time.Hour + time.Microsecond - 3*ms}}); now != want {
		t.Errorf("got %v, want %v", now, want)
	}
	var ring Ring
	if gain := ring.Gain(now, 0); gain != 0 {
		t.Errorf("with nothing to compare: got a gain of %v, want none", gain)
	}
}

func TestRing(t *testing.T) {
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
		{"forward", []asked{{0, 0, hour, 0}, {100 * ms, 100 * ms, hour + 200*ms, 100 * ms}}},
		{"backward", []asked{{0, 0, hour, 0}, {100 * ms, 100 * ms, hour, 0}}},
		{"backward and forward again", []asked{{0, 0, hour, 0}, {100 * ms, 100 * ms, hour, 0}, {200 * ms, 200 * ms, hour + 200*ms, 100 * ms}}},
		{"backward, and forward a good while later", []asked{{0, 0, 2 * hour, 0}, {time.Second, time.Second, hour, 0}, {2 * time.Second, 2 * time.Second, hour + time.Second, 0},
			{8 * time.Second, 8 * time.Second, 2*hour + 8*time.Second, hour + time.Second}}},
		{"within the tolerance", []asked{{0, 0, hour, 0}, {100 * ms, 100 * ms, hour + 109*ms, 0}, {200 * ms, 200 * ms, hour + 200*ms, 0}}},
		{"twice within the tolerance is more", []asked{{0, 0, hour, 0}, {100 * ms, 100 * ms, hour + 109*ms, 0}, {200 * ms, 200 * ms, hour + 218*ms, 17500 * time.Microsecond}}},
		{"found, and a new ring", []asked{{0, 0, hour, 0}, {100 * ms, 100 * ms, 2 * hour, hour - 100*ms}, {200 * ms, 200 * ms, 2*hour + 100*ms, 0}}},
		{"as fast as rates may differ", []asked{{0, 0, hour, 0}, {2 * time.Second, 2 * time.Second, hour + 2010*ms, 0}, {4 * time.Second, 4 * time.Second, hour + 4020*ms, 0}}},
		{"faster", []asked{{0, 0, hour, 0}, {2 * time.Second, 2 * time.Second, hour + 2006*ms, 0}, {4 * time.Second, 4 * time.Second, hour + 4021*ms, 15 * ms}}},
		{"between two readings nothing is allowed, for a key may have been set at the end", []asked{{0, 0, hour, 0}, {hour, hour, hour + hour + 18*time.Second, 18 * time.Second}}},
		{"a slow reply tells little", []asked{{0, 0, hour, 0}, {100 * ms, 600 * ms, hour + 350*ms, 0}, {700 * ms, 700 * ms, hour + 700*ms, 0}}},
		{"and does not hide what was known", []asked{{0, 0, hour, 0}, {100 * ms, 600 * ms, hour + 590*ms, 0}, {700 * ms, 700 * ms, hour + 800*ms, 99500 * time.Microsecond}}},
	} {
		var ring Ring
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

func (h *history) delay(limit time.Duration) time.Duration {
	switch h.rng.IntN(3) {
	case 0:
		return 0
	case 1:
		return limit
	}
	return time.Duration(h.rng.Int64N(int64(limit) + 1))
}

// Whatever the delays are, and as long as the rates keep to their bounds, there is no false alarm: not even with hardly any tolerance.
func TestRingRaisesNoFalseAlarm(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		bound := []float64{0, 0.0001, 0.005, 0.1}[rng.IntN(4)]
		h := history{rng: rng, bound: bound, rate: bound, offset: float64(time.Hour)}
		delayMax := []time.Duration{0, ms, 50 * ms, time.Second}[rng.IntN(4)]
		var ring Ring
		longest := time.Duration(0)
		for i := range 60 {
			h.pass(h.delay(2 * time.Second))
			sent, received, master := h.read(delayMax)
			// A tolerance of microseconds is for the rounding alone. Between two readings nothing is allowed.
			tolerance := 3*time.Microsecond + Allowed(received-ring.Latest, bound)
			longest = max(longest, tolerance)
			if gain := ring.step(sent, received, master, bound, longest); gain != 0 {
				t.Fatalf("seed %d, reading %d, rates within %v, delays up to %v: got a gain of %v, want none", seed, i, bound, delayMax, gain)
			}
		}
	}
}

// Every gain beyond the tolerance and what cannot be known is found at the next reading, with about its size.
func TestRingFindsEveryGain(t *testing.T) {
	const bound, tolerance = 0.005, 10 * ms
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		h := history{rng: rng, bound: bound, offset: -float64(time.Hour)}
		delayMax := []time.Duration{0, ms, 50 * ms}[rng.IntN(3)]
		var ring Ring
		for range 1 + rng.IntN(40) {
			h.pass(h.delay(2 * time.Second))
			sent, received, master := h.read(delayMax)
			ring.step(sent, received, master, bound, tolerance)
		}
		idle := h.delay(2 * time.Second)
		h.pass(idle / 2)
		unknown := 4*delayMax + time.Duration(4*bound*float64(2*time.Second+4*delayMax)) + 2*time.Microsecond
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
func TestRingComparesWithAllReadings(t *testing.T) {
	const bound, tolerance = 0.005, 10 * ms
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 5))
		h := history{rng: rng, bound: 3 * bound, offset: float64(time.Hour)}
		var ring Ring
		var all []Reading
		for i := range 300 {
			h.pass(h.delay(400 * ms))
			if rng.IntN(20) == 0 {
				h.offset += float64(rng.IntN(int(30*ms)+1)) - float64(15*ms)
			}
			sent, received, master := h.read(20 * ms)
			now := ReadingOf(sent, received, master)
			want := false
			for _, before := range all {
				if now.Sent-before.Sent <= ringWait && now.Offset.Low-before.Offset.High > Allowed(now.Received-before.Sent, bound)+tolerance+1 {
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

// A vote counts only if no two readings of the last wait, the earlier one and the later one, show that a key which was set at the first had ended by the
// second, though its lock may be valid now. The ring knows that of each pair, however long it goes on, and forgets a pair a little later than a wait.
func TestRingKnowsEveryPair(t *testing.T) {
	const rate, tolerance = 0.0075, 10 * ms
	found, clear := 0, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 6))
		h := history{rng: rng, bound: 2 * rate, offset: float64(time.Hour)}
		var ring Ring
		var all []Reading
		for i := range 200 {
			h.pass(h.delay(400 * ms))
			if rng.IntN(15) == 0 {
				h.offset += float64(rng.IntN(int(80*ms)+1)) - float64(40*ms)
			}
			now := ReadingOf(h.read(5 * ms))
			all = append(all, now)
			// The most by which any pair is beyond what the time since allows, of those whose first one is no older.
			worst := func(oldest time.Duration) (worst time.Duration) {
				worst = -time.Hour
				for s := range all {
					if now.Sent-all[s].Sent > oldest {
						continue
					}
					for u := s + 1; u < len(all); u++ { // a key may have been set until the next reading
						worst = max(worst, all[u].Offset.Low-all[s].Offset.High-Allowed(now.Received-all[s+1].Received, rate))
					}

				}
				return worst
			}
			got := ring.Gain(now, rate)
			ring.Add(now, rate, ringWait)
			least, most := worst(ringWait), worst(ringWait*ringSlots/(ringSlots-1)+time.Second)
			if got+2 < least || i > 0 && got > most+2 {
				t.Fatalf("seed %d, reading %d: got a gain of %v, want from %v to %v", seed, i, got, least, most)
			}
			if got > tolerance {
				found++
			} else {
				clear++
			}
		}
	}
	if found < 1000 || clear < 1000 {
		t.Errorf("%d readings were out of step, and %d in step: want some of both", found, clear)
	}
}

// A ring that inherits the watch of another one finds whatever both of them together have seen, for as long as it matters.
func TestRingInherits(t *testing.T) {
	const rate, tolerance = 0.0075, 20 * ms
	missed, late := 0, 0
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		h := history{rng: rng, bound: rate / 2, offset: float64(time.Hour)}
		var teller, told, alone Ring
		joint, stated := 20+rng.IntN(20), time.Duration(0) // a statement is older than the moment in which it is read
		for i := range 100 {
			h.pass(h.delay(150 * ms))
			if rng.IntN(10) == 0 {
				h.offset += float64(rng.IntN(int(30*ms)+1)) - float64(8*ms)
			}
			now := ReadingOf(h.read(0))
			gain := teller.Gain(now, rate)
			teller.Add(now, rate, ringWait)
			if i < joint-5 {
				continue
			}
			own := told.Gain(now, rate)
			told.Add(now, rate, ringWait)
			alone.Add(now, rate, ringWait)
			if i == joint-3 {
				stated = max(0, gain)
			}
			if i == joint {
				told.Inherit(stated, now, rate, ringWait)
			}
			if i > joint && gain > tolerance+time.Microsecond {
				if own <= tolerance {
					t.Fatalf("seed %d, reading %d: the heir finds a gain of %v, the other one of %v", seed, i, own, gain)
				}
				if alone.Gain(now, rate) <= tolerance {
					missed++
				}
			}
			if i > joint && gain <= tolerance && own > tolerance {
				late++
			}
		}
		if !told.Watched(0, ringWait) || alone.Watched(alone.Began+ringWait-1, ringWait) {
			t.Fatal("the heir need not watch for a wait, and the other one must")
		}
	}
	if missed < 100 || late > 20*missed {
		t.Errorf("without that %d gains would be missed; %d readings were doubted for too long", missed, late)
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
			var ring Ring
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
func TestRingSleeps(t *testing.T) {
	var ring Ring
	ring.step(0, 0, time.Hour, 0.005, 10*ms)
	ring.Sleep(time.Minute, 0.005)
	for _, tt := range []struct{ at, ahead, gain time.Duration }{
		{ms, 300 * ms, 0}, // the master's clock may have run fast all that time
		{200 * ms, 315 * ms, 15 * ms},
	} {
		if got := ring.step(tt.at, tt.at, time.Hour+time.Minute+tt.at+tt.ahead, 0.005, 10*ms); (got - tt.gain).Abs() > 5*time.Microsecond {
			t.Errorf("%v after a suspension, %v ahead: got a gain of %v, want %v", tt.at, tt.ahead, got, tt.gain)
		}
	}
	// Nor when another slot begins.
	ring = Ring{}
	ring.step(0, 0, time.Hour, 0, 10*ms)
	ring.Sleep(time.Minute, 0)
	for _, at := range []time.Duration{2 * time.Second, 3 * time.Second, 4 * time.Second} {
		if got := ring.step(at, at, time.Hour+time.Minute+at, 0, 10*ms); got != 0 {
			t.Errorf("%v after a suspension: got a gain of %v, want none", at, got)
		}
	}
}

// A ring with readings in several slots keeps, over a suspension, what each of them says: no gain that was none, and every gain that was one.
func TestRingSleepsWithItsSlots(t *testing.T) {
	const asleep, hour = time.Minute, time.Hour
	for _, tt := range []struct {
		name  string
		rate  float64
		ahead []time.Duration // of our clock, each second
		after time.Duration   // at once after the suspension
		gain  time.Duration
		plain time.Duration
	}{
		{"in step", 0, []time.Duration{0, 0, 0}, 0, 0, 0},
		{"a gain meanwhile", 0, []time.Duration{0, 0, 0}, 9 * ms, 9 * ms, 9 * ms},
		{"as fast as it may be, meanwhile", 0.005, []time.Duration{0, 0, 0}, 300 * ms, 0, 300 * ms},
		{"a gain before, and one meanwhile", 0, []time.Duration{0, 4 * ms, 4 * ms}, 9 * ms, 9 * ms, 9 * ms},
		{"a gain before it went back", 0, []time.Duration{0, 8 * ms, 8 * ms}, -time.Second, 8 * ms, 8 * ms},
		{"a gain before it went back, and before it went back", 0, []time.Duration{0, 8 * ms, -time.Second}, -2 * time.Second, 8 * ms, 8 * ms},
		{"two gains before it went back", 0, []time.Duration{0, 40 * ms, 80 * ms}, -time.Second, 80 * ms, 80 * ms},
		{"it went back, and was read again: that is no gain", 0, []time.Duration{0, 0, -time.Second, -time.Second}, -time.Second, 0, 0},
		{"a gain of before, which the rate allows by now", 0.005, []time.Duration{0, 400 * ms, -time.Second}, -time.Second, 400*ms - 300*ms - 10*ms, 400 * ms},
	} {
		var ring Ring
		at := time.Duration(0)
		for _, ahead := range tt.ahead {
			ring.Add(ReadingOf(at, at, hour+at+ahead), tt.rate, ringWait)
			at += time.Second
		}
		ring.Sleep(asleep, tt.rate)
		at -= time.Second
		now := ReadingOf(at, at, hour+at+asleep+tt.after)
		if got := ring.Gain(now, tt.rate); (got - tt.gain).Abs() > 6*ms {
			t.Errorf("%s: got a gain of %v, want %v", tt.name, got, tt.gain)
		}
		ring.Add(now, tt.rate, ringWait)
		if got := ring.Plain(); (got - tt.plain).Abs() > 2*time.Microsecond {
			t.Errorf("%s: got a gain of %v without any allowance, want %v", tt.name, got, tt.plain)
		}
	}
}

// What the other one has seen the clock gain, and what it has gained since this one watches, is gained already, and shows with the first reading.
// Without that a clock is believed that has nearly used up what it may gain.
func TestGainIsInherited(t *testing.T) {
	var ring Ring
	for i, ahead := range []time.Duration{0, -ms, 3 * ms} {
		at := time.Duration(i) * time.Second
		ring.Add(ReadingOf(at, at, time.Hour+at+ahead), 0, ringWait)
	}
	if got := ring.Plain(); got != 4*ms-time.Microsecond {
		t.Errorf("got %v gained since the first reading, want 4ms", got)
	}
	now := ReadingOf(3*time.Second, 3*time.Second, time.Hour+3*time.Second+3*ms)
	if ring.Watched(3*time.Second, ringWait) {
		t.Error("nobody vouches for the time before")
	}
	vouched := ring
	if vouched.Vouch(); !vouched.Watched(3*time.Second, ringWait) {
		t.Error("somebody vouches for the time before, and it does not count")
	}
	ring.Inherit(5*ms, now, 0, ringWait)
	if got := ring.Gain(now, 0); got != 9*ms-time.Microsecond {
		t.Errorf("got a gain of %v, want 5ms of the other one and 4ms since", got)
	}
	if !ring.Watched(3*time.Second, ringWait) || ring.Plain() > 0 {
		t.Errorf("watched: %v, %v gained since; want that it begins anew, and that the time before is watched", ring.Watched(3*time.Second, ringWait), ring.Plain())
	}
}

func TestVouched(t *testing.T) {
	const skew = time.Second
	for _, tt := range []struct {
		name    string
		own     time.Duration
		masters []time.Duration // missing: not known
		want    quorum.Mask
	}{
		{"nobody but us", 0, []time.Duration{missing, missing, missing}, 0},
		{"one of one", 0, []time.Duration{900 * ms}, 0b1},
		{"one of one, ahead by the skew", 0, []time.Duration{skew}, 0b1},
		{"one of one, behind by the skew", 0, []time.Duration{-skew}, 0b1},
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
		var known quorum.Mask
		masters := make([]Interval, len(tt.masters))
		for i, m := range tt.masters {
			if m != missing {
				known = known.With(i)
				masters[i] = Interval{m, m}
			}
		}
		if got := Vouched(tt.own, masters, known, len(masters), skew); got != tt.want {
			t.Errorf("%s: got %05b, want %05b", tt.name, got, tt.want)
		}
	}
}

const missing = 999 * time.Hour

// A clock that gains little in each wait, again and again, as one does that is put right, has gained little since any moment that still counts.
func TestRingForgets(t *testing.T) {
	var ring Ring
	for now := time.Duration(0); now < 20*ringWait; now += 100 * ms {
		if gain := ring.step(now, now, time.Hour+now+now/2000, 0, 5*ms); gain > 0 { // 4 ms in a wait
			t.Fatalf("after %v: got a gain of %v, want none", now, gain)
		}
		if ring.Latest != now || ring.Watched(now, ringWait) != (now >= ringWait) {
			t.Fatalf("after %v: got that it was asked last at %v, and that it is watched: %v", now, ring.Latest, ring.Watched(now, ringWait))
		}
	}
	if (&Ring{}).Watched(ringWait, ringWait) {
		t.Error("a ring without a reading is watched")
	}
}

func TestWentBack(t *testing.T) {
	before := ReadingOf(time.Second, time.Second+ms, time.Hour)
	for back, want := range map[time.Duration]bool{0: false, 100 * ms: false, 121 * ms: false, 123 * ms: true, time.Minute: true} {
		// Ten seconds later, at a rate of 1 %, a tolerance of 20 ms, and a reply that took 2 ms.
		now := ReadingOf(11*time.Second-ms, 11*time.Second+ms, time.Hour+10*time.Second-back)
		if got := WentBack(before, now, 0.01, 20*ms); got != want {
			t.Errorf("back by %v: got %v, want %v", back, got, want)
		}
	}
}

func TestTexts(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1234567 * time.Microsecond: "1.23s", -1234567 * time.Microsecond: "-1.23s", time.Second: "1s", 999_600 * time.Microsecond: "1s", 12_345 * time.Microsecond: "12ms",
	} {
		if got := Roughly(d).String(); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
	for v, want := range map[any]string{
		time.Minute: "1m", 10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Second: "1m30s", time.Hour + time.Second: "1h0m1s", "1m0s": "1m0s", 7: "7", 10 * time.Second: "10s",
	} {
		if got := Text(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}

func BenchmarkRing(b *testing.B) {
	var ring Ring
	b.ReportAllocs()
	now := time.Duration(0)
	for b.Loop() {
		now += 50 * time.Microsecond
		ring.step(now, now+20*time.Microsecond, time.Hour+now, 0.005, 10*ms)
	}
}

// BenchmarkLook is for a suspension, in every batch that decides something; BenchmarkSuspended is what asking the system costs.
func BenchmarkLook(b *testing.B) {
	var own Own
	own.Start(time.Now())
	b.ReportAllocs()
	for b.Loop() {
		own.Look()
	}
}

func BenchmarkSuspended(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Suspended()
	}
}
