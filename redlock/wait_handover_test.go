package redlock

// Goal: every client that waits for a contended resource gets it, also where others are nearer to the masters. Method: three clients
// in virtual time, whose callers want one resource all the time.

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redlockd/redlock/quorum"
	"redlockd/redlock/redisproc"
)

// One client is farther away than the other two, and comes too late for each window. It must not be left with next to nothing.
func TestClientThatIsFartherAwayIsNotStarved(t *testing.T) {
	const length, least = 5 * time.Second, 4
	const near = 100 * time.Microsecond
	for _, tt := range []struct{ far, hold time.Duration }{{ms, ms}, {10 * ms, ms}, {10 * ms, 100 * ms}} {
		far, hold := tt.far, tt.hold
		inVirtualTime(t, 5, func(s *stage) {
			proxies := []*proxy{s.open(), s.open(), s.open()}
			for i, p := range proxies {
				delay := near
				if i == 2 {
					delay += far
				}
				for _, path := range p.paths {
					path.SetDelay(func() time.Duration { return delay }, func() time.Duration { return delay })
				}
			}
			for _, m := range s.masters { // connections of before have no delay
				m.Cut()
			}
			for _, p := range proxies {
				p.subscribed()
				p.allUp()
			}
			granted := make([]atomic.Int64, len(proxies))
			end := time.Now().Add(length)
			var running sync.WaitGroup
			for i, p := range proxies {
				running.Go(func() {
					for range 3 {
						running.Go(func() {
							for time.Now().Before(end) {
								granted[i].Add(p.lockAndUnlock(one("r", 10*time.Second).waits(10*time.Second), hold))
							}
						})
					}
				})
			}
			running.Wait()
			// A hand-over takes the farther one a longer round trip, so what counts is for how long the resource was its own.
			had := func(i int, way time.Duration) time.Duration { return time.Duration(granted[i].Load()) * (hold + 2*way) }
			if a, b, farther := had(0, near), had(1, near), had(2, near+far); farther*least < min(a, b) {
				s.Errorf("%v farther away, held for %v: had it for %v, and the others for %v and %v, want more than a part in %d", far, hold, farther, a, b, least)
			}
		})
	}
}

// lockAndUnlock holds a lock for some time, and returns how often it was granted: once, or not.
func (p *proxy) lockAndUnlock(req LockRequest, hold time.Duration) int64 {
	await := func(c *call) {
		for !c.done.Load() {
			time.Sleep(100 * time.Microsecond)
		}
	}
	c, u := &call{began: time.Now()}, &call{}
	p.StartLock(&c.Op, req, c)
	if await(c); !c.Held {
		p.s.Errorf("LOCK … WAIT: got %+v, want held", c.Result)
		return 0
	}
	time.Sleep(hold)
	p.StartUnlock(&u.Op, req.Resources, c.Token, u)
	await(u)
	return 1
}

// However many clients want a resource all the time, each gets it again and again: of those that others keep waiting, the one that waits for longest comes
// next (testdata/tla/Turns.tla).
func TestManyClientsTakeTurns(t *testing.T) {
	const length, near = 6 * time.Second, 100 * time.Microsecond
	for _, tt := range redisproc.Some(1, []struct {
		clients int
		far     time.Duration // the last one is so much farther away than the others
	}{{4, 10 * ms}, {6, 0}, {6, 10 * ms}}) {
		inVirtualTime(t, 5, func(s *stage) {
			var running sync.WaitGroup
			var mu sync.Mutex
			longest := make([]time.Duration, tt.clients)
			var proxies []*proxy
			for i := range tt.clients {
				p := s.open()
				way := near + time.Duration(i)*10*time.Microsecond
				if i == tt.clients-1 {
					way += tt.far
				}
				p.delay(way, way, 0, 1, 2, 3, 4)
				p.subscribed()
				p.allUp()
				proxies = append(proxies, p)
			}
			end := time.Now().Add(length)
			for i, p := range proxies {
				last := time.Now()
				for range 2 {
					running.Go(func() {
						for time.Now().Before(end) {
							p.lockAndUnlock(one("r", 10*time.Second).waits(10*time.Second), ms)
							mu.Lock()
							longest[i] = max(longest[i], time.Since(last))
							last = time.Now()
							mu.Unlock()
						}
					})
				}
			}
			running.Wait()
			most := time.Duration(2*tt.clients) * proxies[0].opts.HandoverTime
			for i, wait := range longest {
				if wait > most {
					s.Errorf("of %d clients, one %v farther away: client %d had to wait for %v, want it within %v", tt.clients, tt.far, i+1, wait, most)
				}
			}
		})
	}
}

// Of clients that are kept waiting, the one that waits for longest has the next window left, and that may be the one that hears of the others. A client of
// a version before does not say for how long it waits.
func TestWindowIsLeftToWhoWaitsForLongest(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, waiter := s.waitsForAnother()
		for i, tt := range []struct {
			says string
			want string // to whom a window is left then
		}{{"a:80 300 r", ""}, {"b:300 300 r", "b:300"}, {"c:200 300 r", "b:300"}, {p.fleet.id + ":900 300 r", "b:300"}, {"d 300 r", "d"}, {"e:2000 300 r", "e:2000"}, {"f:99999999999 300 r", "e:2000"}, {"g:x 300 r", "e:2000"}, {"h:3000 -1 r", "e:2000"}} {
			p.waiting.windowAnnounced(0, []byte(missedPrefix+tt.says))
			if got := p.leavesWindowTo(waiter); got != tt.want {
				s.Errorf("%d: after %q a window is left to %q, want %q", i, tt.says, got, tt.want)
			}
		}
		for _, master := range []int{0, 1, 2} {
			p.waiting.windowAnnounced(master, []byte("r"))
		}
		time.Sleep(20 * ms)
		p.waiting.windowAnnounced(0, []byte(missedPrefix+"f:400 300 r"))
		if got := p.leavesWindowTo(waiter); got != "f:400" {
			s.Errorf("a window was left to one: the next is left to %q, want f:400", got)
		}
	})
}

// leavesWindowTo is the message of the client to which the next window is left; "": it is left to none.
func (p *proxy) leavesWindowTo(waiter *call) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &waiter.waiter.entry.queue.fairness
	if f.yields(time.Now()) == 0 {
		return ""
	}
	return f.yield.id
}

// The message of a client that is kept waiting comes from every master, and to that client too. Each copy that is late must not have another
// window left to nobody.
func TestCopiesOfAMessageLeaveOneWindow(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		other.lock(one("r", time.Minute))
		waiter := p.begin(one("r", time.Minute).waits(30 * time.Second))
		time.Sleep(10 * ms)
		left := func() bool { return p.leavesWindowTo(waiter) != "" }
		announce := func(text string, masters ...int) {
			for _, master := range masters {
				p.waiting.windowAnnounced(master, []byte(text))
			}
		}
		announce(missedPrefix+"1 300 r", 0, 1)
		if !left() {
			s.Fatal("a client was kept waiting: no window is left to it")
		}
		announce("r", 0, 1, 2)
		time.Sleep(20 * ms) // until it is over
		announce(missedPrefix+"1 300 r", 2, 3, 4)
		if left() {
			s.Error("late copies of the message have another window left")
		}
		announce(missedPrefix+"2 300 r", 0)
		if !left() {
			s.Error("it was kept waiting again: no window is left to it")
		}
		time.Sleep(yieldLife*p.opts.HandoverTime + ms)
		if left() {
			s.Error("a window is left that has not come for long")
		}
	})
}

// Holders that hold for long keep a waiter of another client no longer than handover_time, one hold and a window.
func TestLongHoldsLeaveWindows(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		for i, q := range []*proxy{p, other} {
			way := time.Duration(100+37*i) * time.Microsecond
			q.delay(way, way, 0, 1, 2, 3, 4)
			q.subscribed()
		}
		const hold = 200 * ms
		var over atomic.Bool
		var running sync.WaitGroup
		for range 2 {
			running.Go(func() {
				for !over.Load() {
					p.lockAndUnlock(one("r", time.Minute).waits(time.Minute), hold)
				}
			})
		}
		for turn := range 20 {
			time.Sleep(time.Duration(turn) * 37 * ms)
			c := other.finish(other.begin(one("r", time.Minute).waits(time.Minute)))
			if most := p.opts.HandoverTime + 2*hold; !c.Held || c.took > most {
				s.Errorf("turn %d: waited for %v, want at most %v: %+v", turn, c.took, most, c.Result)
			}
			other.unlock(c.Token, "r")
		}
		over.Store(true)
		running.Wait()
	})
}

// The clients of several proxies hold for some time, and each proxy gets its part.
func TestProxiesShare(t *testing.T) {
	for _, tt := range redisproc.Some(2, []struct {
		proxies int
		hold    time.Duration
	}{{3, 5 * ms}, {3, 20 * ms}, {4, 5 * ms}, {6, 20 * ms}}) {
		hold := tt.hold
		inVirtualTime(t, 5, func(s *stage) {
			var proxies []*proxy
			for range tt.proxies {
				proxies = append(proxies, s.open())
			}
			for i, p := range proxies {
				way := time.Duration(100+17*i) * time.Microsecond // never at the same instant, when chance would decide
				p.delay(way, way, 0, 1, 2, 3, 4)
				p.subscribed()
			}
			granted := make([]atomic.Int64, len(proxies))
			end := time.Now().Add(20 * time.Second)
			var running sync.WaitGroup
			for i, p := range proxies {
				for range 3 {
					running.Go(func() {
						for time.Now().Before(end) {
							granted[i].Add(p.lockAndUnlock(one("r", time.Minute).waits(time.Minute), hold))
						}
					})
				}
			}
			running.Wait()
			var times []int64
			for i := range granted {
				times = append(times, granted[i].Load())
			}
			if least, most := slices.Min(times), slices.Max(times); 4*least < 3*most {
				s.Errorf("held for %v each: granted %d times, want no less than three quarters of the most", hold, times)
			}
		})
	}
}

// So it is also where more than one wait here, so that the next of them asks while another one holds.
func TestLongHoldsOfManyLeaveWindows(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.subscribed()
		hold := 3 * p.opts.RetryDelayMax
		held := p.lock(one("r", time.Minute))
		for range 30 {
			c := p.begin(one("r", time.Minute).waits(time.Minute))
			c.after = func() { time.AfterFunc(hold, func() { p.release(c) }) }
		}
		foreign := other.begin(one("r", time.Minute).waits(3 * time.Second))
		p.unlock(held.Token, "r")
		other.finish(foreign)
		if most := p.opts.HandoverTime + 2*hold; !foreign.Held || foreign.took > most {
			s.Errorf("held here for %v by each of 30: another client waited for %v, want at most %v: %+v", hold, foreign.took, most, foreign.Result)
		}
		other.unlock(foreign.Token, "r")
		p.Drain()
	})
}

// What is no message of a client that waits is ignored, and the one before counts. With hand-overs going on here, the window is left to others however
// long ago they began, and to none where the head waits for as long as they.
func TestMessagesOfClientsThatWait(t *testing.T) {
	before := &yield{id: "before", since: time.Hour, roundTrip: ms, until: time.Now().AddDate(100, 0, 0)}
	for name, tt := range map[string]struct {
		text string
		turn fairness
		want string
	}{
		"near":                             {"a:300 1 r", fairness{}, "a:300"},
		"no way at all":                    {"a:300 0 r", fairness{yield: before}, "before"},
		"no distance":                      {"a:300 far r", fairness{}, ""},
		"a distance beyond all":            {"a:300 99999999999999999999 r", fairness{}, ""},
		"a distance below 0":               {"a:300 -1 r", fairness{}, ""},
		"nobody wants it here":             {"a:300 300 nowhere", fairness{}, ""},
		"hand-overs here have begun early": {"a:300 300 r", fairness{since: 1}, "a:300"},
		"the head waits for longer":        {"a:300 300 r", fairness{since: 1, outrun: true}, ""},
		"the head waits for as long":       {"a:300 300 r", fairness{since: -1, outrun: true}, ""},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(), s.open()
			other.lock(one("r", time.Minute))
			waiter := p.begin(one("r", time.Minute).waits(30 * time.Second))
			time.Sleep(time.Second)
			p.mu.Lock()
			if tt.turn.since < 0 {
				tt.turn.since = p.own.At(time.Now()) - 300*ms
			}
			f := &waiter.waiter.entry.queue.fairness
			*f = tt.turn
			p.mu.Unlock()
			p.waiting.windowAnnounced(0, []byte(missedPrefix+tt.text))
			p.mu.Lock()
			*f = fairness{yield: f.yield}
			p.mu.Unlock()
			if got := p.leavesWindowTo(waiter); got != tt.want {
				s.Errorf("%s: a window is left to %q, want %q", name, got, tt.want)
			}
		})
	}
}

// A window that is announced by a quorum of masters wakes the head, or is left to another client. Each window is announced anew.
func TestAnnouncedWindows(t *testing.T) {
	for name, tt := range map[string]struct {
		masters []int
		text    string
		turn    fairness
		slots   bool
		asks    bool
		pauses  bool // anew, for as long as the window that is left to the other
		open    bool
		by      quorum.Mask
	}{
		"by two":                         {masters: []int{0, 1}, text: "r", by: 0b11},
		"by one, twice":                  {masters: []int{0, 0, 0}, text: "r", by: 0b1},
		"by three":                       {masters: []int{0, 1, 2}, text: "r", asks: true},
		"by three in an open one":        {masters: []int{0, 1, 2}, text: "r", turn: fairness{windowOpen: true}, open: true},
		"of another resource":            {masters: []int{0, 1, 2}, text: "q"},
		"by five: two are of the next":   {masters: []int{0, 1, 2, 3, 4}, text: "r", asks: true, by: 0b11000},
		"it is left to another":          {masters: []int{0, 1, 2}, text: "r", turn: fairness{yield: &yield{id: "other", roundTrip: ms, until: time.Now().AddDate(100, 0, 0)}}, pauses: true, open: true},
		"a slot's":                       {masters: []int{0, 1, 2}, text: "r#1", slots: true, asks: true},
		"the first slot's":               {masters: []int{0, 1, 2}, text: "r#0", slots: true, turn: fairness{yield: &yield{id: "other", roundTrip: ms, until: time.Now().AddDate(100, 0, 0)}}, asks: true},
		"a slot's: it is left to nobody": {masters: []int{0, 1, 2}, text: "r#1", slots: true, turn: fairness{yield: &yield{id: "other", roundTrip: ms, until: time.Now().AddDate(100, 0, 0)}}, asks: true},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(func(o *Options) { o.RetryDelayMin, o.RetryDelayMax = 5*time.Second, 5*time.Second }), s.open()
			p.subscribed()
			req := one("r", time.Minute)
			if tt.slots {
				req.Slots = 2
				other.lock(req)
			}
			other.lock(req)
			waiter := p.begin(req.waits(30 * time.Second))
			time.Sleep(100 * ms)
			p.mu.Lock()
			w := waiter.waiter
			f := &w.entry.queue.fairness
			tt.turn.outrun, tt.turn.since = f.outrun, f.since
			*f = tt.turn
			before, attempts := w.retry, p.stats.Attempts
			p.mu.Unlock()
			for _, master := range tt.masters {
				p.waiting.windowAnnounced(master, []byte(tt.text))
			}
			p.mu.Lock()
			asks, pauses := w.attempt != nil && p.stats.Attempts == attempts+1, w.retry != nil && w.retry != before
			if asks != tt.asks || pauses != tt.pauses || f.windowOpen != tt.open || f.windowAnnouncedBy != tt.by {
				s.Errorf("%s: asks %t, pauses anew %t, a window is open: %t, announced by %05b; want %t, %t, %t, %05b", name, asks, pauses, f.windowOpen, f.windowAnnouncedBy, tt.asks, tt.pauses, tt.open, tt.by)
			}
			if tt.slots && asks && w.attempt.keys[0] != tt.text {
				s.Errorf("%s: it asks for %s, want %s", name, w.attempt.keys[0], tt.text)
			}
			length := p.waiting.windowLength() + ms + ms/2
			p.mu.Unlock()
			if tt.pauses {
				time.Sleep(length - 1)
				if got := p.Stats().Attempts; got != attempts {
					s.Errorf("%s: it asks before the window of the other is over", name)
				}
				time.Sleep(2 * time.Nanosecond)
				if got := p.Stats().Attempts; got != attempts+1 {
					s.Errorf("%s: it does not ask when the window of the other is over", name)
				}
			}
		})
	}
}

// A hand-over to a head that asks already has it ask again; any other ends a window.
func TestHandOverToAHeadThatAsks(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		other.lock(one("r", time.Minute))
		waiter := p.begin(one("r", time.Minute).waits(30 * time.Second))
		time.Sleep(100 * ms)
		p.mu.Lock()
		w, d := waiter.waiter, &deferred{now: time.Now()}
		f := &w.entry.queue.fairness
		*f = fairness{windowOpen: true, yield: &yield{id: "other", until: d.now.Add(time.Hour)}}
		p.waiting.handOverLocked("r", d)
		asked := w.attempt
		if asked == nil || w.again || f.windowOpen || !f.yield.until.IsZero() || p.stats.Handovers != 1 {
			s.Errorf("a hand-over: asks %t, and again %t, a window is open %t, left to another until %v; want one attempt and no window", asked != nil, w.again, f.windowOpen, f.yield.until)
		}
		p.waiting.handOverLocked("r", d)
		if w.attempt != asked || !w.again || p.stats.Handovers != 1 {
			s.Errorf("a second one: asks again %t, in the attempt of before %t; want both", w.again, w.attempt == asked)
		}
		p.mu.Unlock()
		p.runDeferred(d)
	})
}

// A head with a round in flight does not pause for the window of another, and does not begin a second one.
func TestWindowThatIsLeftDuringAnAttempt(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.subscribed()
		other.lock(one("r", time.Minute))
		waiter := p.begin(one("r", time.Minute).waits(30 * time.Second))
		time.Sleep(100 * ms)
		p.mu.Lock()
		defer p.mu.Unlock()
		w := waiter.waiter
		w.entry.queue.fairness.yield = &yield{id: "other", roundTrip: ms, until: time.Now().Add(time.Hour)}
		d := &deferred{now: time.Now()}
		p.waiting.attemptLocked(w.op, d)
		asked := w.attempt
		p.mu.Unlock()
		for _, master := range []int{0, 1, 2} {
			p.waiting.windowAnnounced(master, []byte("r"))
		}
		p.mu.Lock()
		if w.retry != nil || w.attempt != asked || asked == nil {
			s.Error("it pauses, or asks anew, want the attempt that is in flight")
		}
		p.mu.Unlock()
		p.runDeferred(d)
		p.mu.Lock()
	})
}

// A head says for how long others keep it waiting, each time that another handover_time of that is over. It says nothing where the holder is here, nor of
// slots, and a denial is the end of a window.
func TestHeadSaysThatItIsKeptWaiting(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(func(o *Options) { o.RetryDelayMin, o.RetryDelayMax = 20*time.Second, 20*time.Second }), s.open()
		p.subscribed()
		other.lock(one("r", time.Minute))
		other.lock(one("s", time.Minute))
		semaphore := LockRequest{Resources: []string{"s"}, Slots: 1, TTL: time.Minute}
		other.lock(semaphore)
		p.begin(semaphore.waits(time.Minute))
		head := p.begin(one("r", time.Minute).waits(time.Minute))
		time.Sleep(100 * ms)
		most := p.opts.HandoverTime
		denied := func(w *waiter, after time.Duration) (published uint32) {
			p.mu.Lock()
			defer p.mu.Unlock()
			d := &deferred{now: time.Now()}
			began := p.own.At(d.now)
			w.entry.queue.fairness.since = began - after
			before := p.rounds.launched
			p.waiting.outrunLocked(w, d)
			return p.rounds.launched - before
		}
		w := head.waiter
		for i, tt := range []struct {
			after time.Duration
			want  uint32
		}{{0, 0}, {most - 1, 0}, {most, 1}, {most + ms, 0}, {2*most - 1, 0}, {3 * most, 1}, {4*most - 1, 0}, {4 * most, 1}} {
			if got := denied(w, tt.after); got != tt.want {
				s.Errorf("%d: denied %v after it began to wait: %d messages, want %d", i, tt.after, got, tt.want)
			}
		}
		p.mu.Lock()
		w.entry.queue.fairness.windowOpen = true
		p.mu.Unlock()
		if denied(w, 9*most); w.entry.queue.fairness.windowOpen {
			s.Error("the head was denied in a window: the window is open still")
		}
		w.entry.queue.fairness = fairness{windowOpen: true}
		if got := denied(w, 9*most); got != 0 || w.entry.queue.fairness.since != p.own.At(time.Now()) || !w.entry.queue.fairness.outrun {
			s.Errorf("the first denial: %d messages, want none, and that it waits since now", got)
		}
		slots := p.leases.entries[slotsQueue("s")].queue.head
		slots.entry.queue.fairness.outrun = true
		if got := denied(slots, 9*most); got != 0 {
			s.Errorf("a head that waits for slots: %d messages, want none", got)
		}
	})
}

// Hand-overs go on for handover_time, and then the resource is left to others.
func TestWhenAWindowIsDue(t *testing.T) {
	const most = 100 * ms
	for name, tt := range map[string]struct {
		f         fairness
		now       time.Duration
		want      bool
		sinceThen time.Duration
	}{
		"the first":                {fairness{}, 7, false, 7},
		"soon behind it":           {fairness{since: 7}, 7 + most - 1, false, 7},
		"after handover_time":      {fairness{since: 7}, 7 + most, true, 0},
		"it was kept waiting":      {fairness{since: 7, outrun: true}, 7 + 2*most, false, 7 + 2*most},
		"and has just been before": {fairness{since: 7, outrun: true}, 8, false, 8},
	} {
		if got := tt.f.leave(tt.now, most); got != tt.want || tt.f.windowOpen != tt.want || tt.f.since != tt.sinceThen || tt.f.outrun {
			t.Errorf("%s: left %t, the window is open: %t, since %d, outrun %t; want %t, %t, %d, false", name, got, tt.f.windowOpen, tt.f.since, tt.f.outrun, tt.want, tt.want, tt.sinceThen)
		}
	}
}

// A window is long enough for the farthest master. Where fewer than a quorum of masters send invalidations, others find it by asking now and then.
func TestLengthOfAWindow(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		const delay = 777 * ms
		p := s.open(func(o *Options) { o.RetryDelayMin, o.RetryDelayMax = delay, delay })
		p.delay(3*ms, 4*ms, 4)
		p.subscribed()
		time.Sleep(10 * time.Second)
		length := func() time.Duration {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.waiting.windowLength()
		}
		if got, want := length(), windowMin+3*p.fleet.farthest(); got != want || p.fleet.farthest() != 7*ms {
			s.Errorf("the farthest master is %v away: got a window of %v, want %v", p.fleet.farthest(), got, want)
		}
		s.freeze(0, 1)
		s.until("three masters send invalidations", func() bool { return p.fleet.subscribed() == 3 })
		if got := length(); got >= delay {
			s.Errorf("three of five send invalidations: got a window of %v", got)
		}
		s.freeze(2)
		s.until("two masters send invalidations", func() bool { return p.fleet.subscribed() == 2 })
		if got := length(); got != delay {
			s.Errorf("two of five send invalidations: got a window of %v, want a retry's delay", got)
		}
	})
}
