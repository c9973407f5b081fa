package redlock

// Goal: LOCKs of several resources that wait. They keep nobody from a resource that is free; they are granted in bounded time beside
// single LOCKs that contend for their resources through other clients; and what they reserve for that is never left behind, never
// granted to anybody, and never in the way for ever. Method: virtual time over in-process masters.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/quorum"
	"redlockd/redlock/redisproc"
)

// The holder of x takes y while somebody waits for both: the order x, y that all keep must not end in a circle.
func TestWaitingForSeveralKeepsNobodyOut(t *testing.T) {
	for _, ordered := range [][]string{{"x", "y"}, {"y", "x"}} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			first, second := ordered[0], ordered[1]
			held := p.lock(one(first, time.Minute))
			both := p.begin(several(time.Minute, "x", "y").waits(10 * time.Second))
			next := p.begin(one(second, time.Minute).waits(5 * time.Second))
			next.want(s, "LOCK of the second one, with WAIT", "held", 0)
			p.unlock(next.Token, second)
			again := p.lock(one(second, time.Minute))
			again.want(s, "LOCK of the second one", "held", 0)
			p.unlock(again.Token, second)
			p.unlock(held.Token, first)
			if p.finish(both); !both.Held || both.took > time.Second {
				s.Errorf("LOCK of both: got %+v after %v, want held soon", both.Result, both.took)
			}
		})
	}
}

// Where it waits is told by who is denied: a LOCK without WAIT is refused in that queue only, and LOCKINFO counts it there.
func TestSeveralStandInOneLine(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		waiters := func(want string) {
			s.Helper()
			got := ""
			p.mu.Lock()
			for _, key := range []string{"a", "b", "c"} {
				n := 0
				if e := p.leases.entries[key]; e != nil {
					n = e.queue.length
				}
				got += fmt.Sprint(n)
			}
			p.mu.Unlock()
			if got != want {
				s.Errorf("waiters in the queues of a, b, c: got %s, want %s", got, want)
			}
		}
		b := p.lock(one("b", time.Minute))
		c := p.lock(one("c", time.Minute))
		all := p.begin(several(time.Minute, "c", "b", "a").waits(time.Minute))
		waiters("010")
		p.lock(one("a", time.Minute)).want(s, "LOCK of a free one that it wants too", "held", 0)
		if got := p.Stats().Waiters; got != 1 {
			s.Errorf("waiters: got %d, want 1", got)
		}
		p.unlock(b.Token, "b")
		s.until("it has moved", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.leases.entries["b"] == nil
		})
		waiters("100")
		p.unlock(c.Token, "c")
		p.Unblock(&all.Op, nil)
		waiters("000")
	})
}

// An older waiter moves to the head of a queue and away again, because the resource is free and another one is not. Who was the head before it
// asks at once, however long it meant to pause.
func TestDisplacedHeadAsksAgain(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.subscribed()
		x, y := other.lock(one("x", time.Minute)), other.lock(one("y", time.Minute))
		both := p.begin(several(time.Minute, "x", "y").waits(time.Minute))
		single := p.begin(one("y", time.Minute).waits(time.Minute))
		time.Sleep(100 * ms) // both pause, for they will hear of a release
		other.unlock(x.Token, "x")
		time.Sleep(ms) // the older one has moved to the queue of y
		x = other.lock(one("x", time.Minute))
		x.want(s, "LOCK of x by another", "held", 0)
		time.Sleep(ms) // and the other one still pauses
		other.unlock(y.Token, "y")
		time.Sleep(10 * ms)
		if !single.done.Load() || !single.Held {
			s.Errorf("LOCK of y, which is free: got %+v 10ms after its release, want held", single.Result)
		}
		p.unlock(single.Token, "y")
		other.unlock(x.Token, "x")
		time.Sleep(10 * ms)
		if !both.Held {
			s.Errorf("LOCK of both: got %+v 10ms after both are free, want held", both.Result)
		}
	})
}

// crowdOf has callers lock one of the resources each, hold it for up to two milliseconds and come back at once, until the function that it returns is
// called: that tells how often they were granted.
func crowdOf(s *stage, p *proxy, callers int, resources []string) (end func() int64) {
	var granted atomic.Int64
	var over atomic.Bool
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			resource, rng := resources[i%len(resources)], rand.New(rand.NewPCG(uint64(i), 0))
			for !over.Load() {
				lease, err := p.Acquire(s.Context(), one(resource, time.Minute).waits(time.Minute))
				if err != nil {
					s.Errorf("single LOCK: %v", err)
					return
				}
				granted.Add(1)
				time.Sleep(upTo(rng, 2*ms))
				lease.Unlock(s.Context())
			}
		})
	}
	return func() int64 {
		over.Store(true)
		running.Wait()
		return granted.Load()
	}
}

// Single LOCKs at one client contend for six resources, which a LOCK at another client wants together. Its bound: each of its resources is
// left to others after handover_time and a hold; reserveAfter of these turns start the reservation, and one for each
// resource completes it.
func TestSeveralAreGrantedBesideSingleOnes(t *testing.T) {
	type testCase struct {
		name string
		with func(LockRequest) LockRequest
	}
	for _, tt := range redisproc.Some(1, []testCase{
		{"a token of ours", func(r LockRequest) LockRequest { return r }},
		{"a token of the caller", func(r LockRequest) LockRequest { return r.as("T" + fmt.Sprint(rand.Int64())) }},
		{"a fence", func(r LockRequest) LockRequest { r.Fence = true; return r }},
	}) {
		inVirtualTime(t, 5, func(s *stage) {
			const way = 100 * time.Microsecond
			resources := []string{"a", "b", "c", "d", "e", "f"}
			p, other := s.open(), s.open()
			for _, q := range []*proxy{p, other} {
				q.delay(way, way, 0, 1, 2, 3, 4)
				q.subscribed()
			}
			end := crowdOf(s, p, 24, resources)
			time.Sleep(time.Second)
			hold := ms + 2*way
			longest := time.Duration(0)
			bound := time.Duration(reserveAfter+len(resources)+1) * (p.opts.HandoverTime + hold + p.waiting.windowLength())
			fence := int64(0)
			for range 5 {
				c := other.begin(tt.with(several(time.Minute, resources...).waits(20 * time.Second)))
				s.until("the LOCK of several", func() bool { return c.done.Load() })
				if !c.Held || c.took > bound {
					end()
					s.Fatalf("%s: LOCK of several beside single ones: got %+v after %v, want held within %v", tt.name, c.Result, c.took, bound)
				}
				if tt.name == "a fence" && c.Fence <= fence {
					s.Errorf("%s: got %d after %d", tt.name, c.Fence, fence)
				}
				fence = c.Fence
				longest = max(longest, c.took)
				for _, key := range resources {
					if on := s.on(key, c.Token); strings.Count(on, "1") < 3 {
						s.Errorf("%s: masters that hold %s: %s, want a quorum", tt.name, key, on)
					}
				}
				other.unlock(c.Token, resources...)
			}
			n := end()
			s.Logf("%s: the longest of 5 waits took %v, beside %d single grants; bound %v", tt.name, longest, n, bound)
			time.Sleep(10 * ms)
			s.wantNoLocks()
		})
	}
}

// A LOCK of several resources that each time finds another one taken begins to reserve them.
func TestReservesAfterSomeDenials(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		resources := []string{"a", "b"}
		held := p.lock(one(resources[0], time.Minute))
		c := p.begin(several(time.Minute, resources...).waits(time.Minute))
		for i := range reserveAfter {
			time.Sleep(5 * ms)
			if p.isReserving(&c.Op) {
				t.Fatalf("it was denied by another resource %d times, and reserves", i)
			}
			next := p.lock(one(resources[(i+1)%2], time.Minute))
			next.want(s, "LOCK of what is free", "held", 0)
			p.unlock(held.Token, resources[i%2])
			held = next
		}
		time.Sleep(5 * ms)
		if !p.isReserving(&c.Op) {
			t.Errorf("it was denied by another resource %d times, and does not reserve", reserveAfter)
		}
		p.unlock(held.Token, resources[reserveAfter%2])
		if p.finish(c); !c.Held {
			t.Errorf("LOCK of both: got %+v, want held", c.Result)
		}
	})
}

// isReserving tells whether a LOCK of several resources waits, and has begun to reserve.
func (p *proxy) isReserving(op *Op) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return op.waiter != nil && op.waiter.reservation.token != ""
}

// reserves has a waiter begin to reserve.
func (p *proxy) reserves(c *call) {
	p.s.Helper()
	if !p.startReserving(&c.Op) {
		p.s.Fatal("it does not wait any more")
	}
	synctest.Wait()
}

// startReserving has a LOCK of several resources begin to reserve, as if it had been denied often enough, and tells whether it still waits.
func (c *Client) startReserving(op *Op) bool {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	c.mu.Lock()
	defer c.mu.Unlock()
	w := op.waiter
	if w == nil || w.answered || c.draining {
		return false
	}
	if w.reservation.token != "" {
		c.waiting.releaseReservationLocked(op, &d)
	}
	c.waiting.startReservingLocked(op, &d)
	c.waiting.moveToQueueLocked(op, w.keys[0], &d)
	if w.endPause(); w.isHead() && w.attempt == nil {
		c.waiting.attemptLocked(op, &d)
	}
	return true
}

// reserve is startReserving for some LOCK that waits for these resources.
func (c *Client) reserve(resources []string) bool {
	c.mu.Lock()
	var found *Op
	for _, r := range resources {
		if e := c.leases.entries[r]; e != nil {
			for w := e.queue.head; w != nil && found == nil; w = w.next {
				if sameKeys(w.keys, resources) {
					found = w.op
				}
			}
		}
	}
	c.mu.Unlock()
	return found != nil && c.startReserving(found)
}

// A caller that keeps another order than that of names waits for a resource that is reserved, and holds the next one. That ends with the
// patience of the waiter, which doubles.
func TestReservationEndsWithItsPatience(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		for i, q := range []*proxy{p, other} {
			y := q.lock(one("y", time.Minute))
			both := p.begin(several(time.Minute, "x", "y").waits(time.Minute))
			p.reserves(both)
			q.lock(one("x", time.Minute)).want(s, "LOCK of x, which is reserved", "no", 0)
			x := q.begin(one("x", time.Minute).waits(30 * time.Second))
			q.finish(x)
			if most := reservePatience + 3*p.opts.RetryDelayMax; !x.Held || x.took > most || x.took < reservePatience-100*ms {
				s.Errorf("client %d: LOCK of x by the holder of y: got %+v after %v, want held after about %v", i, x.Result, x.took, reservePatience)
			}
			q.unlock(y.Token, "y")
			q.unlock(x.Token, "x")
			if p.finish(both); !both.Held {
				s.Errorf("client %d: LOCK of both: got %+v, want held", i, both.Result)
			}
			p.reservesAgain(s)
			p.unlock(both.Token, "x", "y")
			s.wantNoLocks()
		}
	})
}

// reservesAgain checks how the patience grows.
func (p *proxy) reservesAgain(s *stage) {
	var op Op
	op.waiter = &waiter{}
	var got []time.Duration
	p.mu.Lock()
	for range 8 {
		op.waiter.moves = reserveAfter
		p.waiting.startReservingLocked(&op, &deferred{now: time.Now()})
		if op.waiter.moves != 0 {
			s.Errorf("it reserves, and %d moves count still", op.waiter.moves)
		}
		got = append(got, op.waiter.reservation.patience/time.Second)
	}
	p.mu.Unlock()
	if want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}; !slices.Equal(got, want) {
		s.Errorf("patience in seconds: got %d, want %d", got, want)
	}
}

// However the wait ends, what was reserved is released, also by a master that was silent then.
func TestReservationEndsWithTheWait(t *testing.T) {
	for name, end := range map[string]func(p *proxy, c *call){
		"the wait runs out":   func(p *proxy, c *call) { time.Sleep(600 * ms) },
		"the caller has gone": func(p *proxy, c *call) { p.Unblock(&c.Op, context.Canceled) },
		"the server drains":   func(p *proxy, c *call) { p.Drain() },
		"gone in the attempt": func(p *proxy, c *call) {
			p.delay(5*ms, 5*ms, 0, 1, 2, 3, 4)
			p.reserves(c)
			p.Unblock(&c.Op, context.Canceled)
			time.Sleep(20 * ms)
		},
		"a master is away too": func(p *proxy, c *call) { p.s.freeze(0); time.Sleep(600 * ms); p.s.thaw(0); p.allUp() },
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(), s.open()
			z := other.lock(one("z", time.Minute))
			c := p.begin(several(time.Minute, "x", "y", "z").waits(500 * ms))
			p.reserves(c)
			other.lock(one("x", time.Minute)).want(s, name+": LOCK of x, which is reserved", "no", 0)
			other.lock(one("y", time.Minute)).want(s, name+": LOCK of y, which is reserved", "no", 0)
			end(p, c)
			if p.finish(c); c.Held {
				s.Errorf("%s: LOCK of several: got held, and z is another's", name)
			}
			time.Sleep(10 * ms)
			for _, key := range []string{"x", "y"} {
				other.lock(one(key, time.Minute)).want(s, name+": LOCK of "+key+" afterwards", "held", 0)
			}
			s.wantOn("z", z.Token, "11111")
		})
	}
}

// A step that is denied keeps what is reserved, and leaves nothing of the next resource: another client may have found as little of it.
func TestDeniedStepLeavesNothing(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doOn([]int{0, 1, 2}, "SET", "y", "another", "PX", 60_000)
		c := p.begin(several(time.Minute, "x", "y").waits(10 * time.Second))
		p.reserves(c)
		time.Sleep(10 * ms)
		token := c.waiter.reservation.token
		s.wantOn("x", token, "11111")
		s.wantOn("y", token, "00000")
		s.doOn([]int{0, 1, 2}, "DEL", "y")
		if p.finish(c); !c.Held {
			s.Errorf("LOCK of both: got %+v, want held", c.Result)
		}
	})
}

// All reserve in the order of names, in whichever order their callers name the resources.
func TestReservationsMakeNoCircle(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		third, p, other := s.open(), s.open(), s.open()
		for _, q := range []*proxy{third, p, other} {
			q.delay(ms, ms, 0, 1, 2, 3, 4)
		}
		x, y := third.lock(one("x", time.Minute)), third.lock(one("y", time.Minute))
		a, b := p.begin(several(time.Minute, "x", "y").waits(time.Minute)), other.begin(several(time.Minute, "y", "x").waits(time.Minute))
		time.Sleep(50 * ms)
		p.reserves(a)
		other.reserves(b)
		time.Sleep(50 * ms)
		began := time.Now()
		for _, q := range []struct {
			*proxy
			*call
		}{{p, a}, {other, b}} {
			q.after = func() { q.startUnlock(q.Token, "x", "y") }
		}
		third.startUnlock(x.Token, "x")
		third.startUnlock(y.Token, "y")
		p.finish(a)
		other.finish(b)
		if took := time.Since(began); !a.Held || !b.Held || took > reservePatience/2 {
			s.Errorf("two LOCKs of both: got %v and %v, %v after both were free, want held soon", a.Held, b.Held, took)
		}
	})
}

// The last attempt of a wait is for all, and counts what is reserved.
func TestLastAttemptTakesTheReservation(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		z := other.lock(one("z", time.Minute))
		c := p.begin(several(time.Minute, "x", "y", "z").waits(500 * ms))
		p.reserves(c)
		p.delay(5*ms, 5*ms, 0, 1, 2, 3, 4)
		time.Sleep(time.Until(c.began.Add(493 * ms)))
		other.unlock(z.Token, "z") // it hears of that, and reserves z when the wait is over
		if p.finish(c); !c.Held {
			s.Errorf("LOCK of several: got %+v, want held", c.Result)
		}
		if n := p.Stats(); n.ByPrefix[0].Rounds.Sum != n.Attempts {
			s.Errorf("rounds until the grant: got %d, want all %d", n.ByPrefix[0].Rounds.Sum, n.Attempts)
		}
		for _, key := range []string{"x", "y", "z"} {
			s.wantOn(key, c.Token, "11111")
		}
	})
}

// Who moves to another queue stands there by arrival.
func TestInsertByArrival(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var q waitQueue
		var want []uint64
		for _, arrival := range rng.Perm(12) {
			want = append(want, uint64(arrival))
			q.insertByArrival(&waiter{op: &Op{}, arrival: uint64(arrival)})
		}
		slices.Sort(want)
		var got, back []uint64
		for w := q.head; w != nil; w = w.next {
			got = append(got, w.arrival)
		}
		for w := q.tail; w != nil; w = w.prev {
			back = append(back, w.arrival)
		}
		slices.Reverse(back)
		if !slices.Equal(got, want) || !slices.Equal(back, want) || q.length != len(want) {
			t.Fatalf("seed %d: got %d, from the end %d, length %d, want %d", seed, got, back, q.length, want)
		}
	}
}

// reserving has a LOCK of x, y and z wait that has reserved x and y; another client holds z.
func (s *stage) reserving(before ...LockRequest) (p *proxy, c *call, waiters []*call) {
	s.Helper()
	p, other := s.open(seldom), s.open()
	other.lock(one("z", time.Minute))
	for _, req := range before {
		waiters = append(waiters, p.begin(req.waits(30*time.Second)))
	}
	c = p.begin(several(30*time.Second, "x", "y", "z").waits(30 * time.Second))
	time.Sleep(10 * ms)
	p.reserves(c)
	time.Sleep(10 * ms)
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := c.waiter; w.reservation.held != 2 || w.entry.resource != "z" || w.reservation.timer == nil {
		s.Fatalf("%d resources are reserved, and it stands in the queue of %s, want 2, and z", w.reservation.held, w.entry.resource)
	}
	return p, c, waiters
}

// How a waiter goes on after a step of its reservation.
func TestStepOfAReservation(t *testing.T) {
	silence := errors.New("silence")
	for name, tt := range map[string]struct {
		held   int
		votes  string
		o      quorum.Outcome
		ended  bool // the patience ended while the step was under way
		behind bool // an older LOCK waits for z
		change func(p *proxy, w *waiter)

		then     int    // so many are reserved
		queue    string // where it stands
		attempt  verb   // what is under way then; verbCount: nothing
		of       int    // how many keys that has
		launched int    // so many rounds
		err      string // of the last attempt
		patience bool   // it begins anew
	}{
		"granted":                           {votes: "GGGGG", o: quorum.Yes, then: 1, queue: "y", attempt: verbReserve, of: 2, launched: 1, patience: true},
		"the last one is granted":           {held: 2, votes: "GGGGG", o: quorum.Yes, then: 3, queue: "z", attempt: verbAcquire, of: 3, launched: 1, patience: true},
		"granted, others want the next one": {held: 1, behind: true, votes: "GGGGG", o: quorum.Yes, then: 2, queue: "z", attempt: verbCount, patience: true},
		"the last one, above the ceiling": {held: 2, votes: "GGGGG", o: quorum.Yes, change: func(p *proxy, _ *waiter) { p.lowerCeiling(10 * time.Second) },
			then: 3, queue: "z", attempt: verbCount, patience: true},
		"granted, and the wait is over":         {votes: "GGGGG", o: quorum.Yes, change: func(_ *proxy, w *waiter) { w.last = true }, then: 1, queue: "x", attempt: verbAcquire, of: 3, launched: 1, patience: true},
		"denied":                                {held: 1, votes: "DDDDD", o: quorum.No, then: 1, queue: "y", attempt: verbObserve, of: 1, launched: 2},
		"denied, and the wait is over":          {held: 1, votes: "DDDDD", o: quorum.No, change: func(_ *proxy, w *waiter) { w.last = true }, then: 1, queue: "y", attempt: verbAcquire, of: 3, launched: 2, err: "silence"},
		"no quorum":                             {held: 1, votes: "UUUUU", o: quorum.NoQuorum, then: 1, queue: "y", attempt: verbCount, launched: 1, err: "0 of 5 masters voted"},
		"granted, and the patience has ended":   {ended: true, votes: "GGGGG", o: quorum.Yes, queue: "x", attempt: verbObserve, of: 1, launched: 1},
		"denied, and the patience has ended":    {ended: true, votes: "DDDDD", o: quorum.No, queue: "x", attempt: verbObserve, of: 1, launched: 1},
		"no quorum, and the patience has ended": {ended: true, votes: "UUUUU", o: quorum.NoQuorum, queue: "x", attempt: verbCount, err: "0 of 5 masters voted"},
		"its caller has gone":                   {held: 1, votes: "GGGGG", o: quorum.Yes, change: func(_ *proxy, w *waiter) { w.answered = true }, then: 1, queue: "y", attempt: verbReserve, of: 2, err: "silence"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			var before []LockRequest
			if tt.behind {
				before = append(before, one("z", time.Minute))
			}
			p, c, _ := s.reserving(before...)
			p.mu.Lock()
			w, d, view := c.waiter, &deferred{now: time.Now()}, p.fleet.view.Load()
			r := &round{verb: verbReserve, view: view, op: w.op, token: w.reservation.token, keys: w.keys[:tt.held+1], start: d.now.Add(-7 * ms)}
			r.votes.Store(uint64(votesOf(tt.votes)))
			w.reservation.held = tt.held
			if tt.ended {
				w.reservation.token = ""
			}
			p.waiting.moveToQueueLocked(w.op, w.keys[tt.held], d)
			w.endPause()
			w.attempt, w.lastErr = r, silence
			if tt.change != nil {
				tt.change(p, w)
			}
			timer, launched, took := w.reservation.timer, p.rounds.launched, p.stats.Rounds.Sum
			p.mu.Unlock()
			p.reservationDecided(r, tt.o, votesOf(tt.votes), d)
			p.mu.Lock()
			if w.reservation.held != tt.then || w.entry.resource != tt.queue || (w.reservation.timer != timer) != tt.patience {
				s.Errorf("%s: %d are reserved, it stands in the queue of %s, and its patience begins anew %t; want %d, %s, %t", name, w.reservation.held, w.entry.resource, w.reservation.timer != timer, tt.then, tt.queue, tt.patience)
			}
			attempt, of := verbCount, 0
			if w.attempt != nil {
				attempt, of = w.attempt.verb, len(w.attempt.keys)
			}
			if got := int(p.rounds.launched - launched); attempt != tt.attempt || of != tt.of || got != tt.launched {
				s.Errorf("%s: %d of %d keys is under way, of %d rounds that were launched; want %d of %d, of %d", name, attempt, of, got, tt.attempt, tt.of, tt.launched)
			}
			if err := w.lastErr; (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				s.Errorf("%s: the last attempt: got %v, want %q", name, err, tt.err)
			} else if e, ok := err.(*NoQuorumError); ok && e.Late != 0 {
				s.Errorf("%s: late by %v, want none", name, e.Late)
			}
			if got := p.stats.Rounds.Sum - took; got != 7*ms {
				s.Errorf("%s: a round of %v is counted, want 7ms", name, got)
			}
			if w.answered {
				w.answered, w.attempt = false, nil
			}
			p.fleet.view.Store(view)
			p.mu.Unlock()
			p.runDeferred(d)
			p.Unblock(&c.Op, nil)
		})
	}
}

// lowerCeiling has locks that live for longer wait.
func (p *proxy) lowerCeiling(to time.Duration) {
	lower := *p.fleet.view.Load()
	lower.ceiling = to
	p.fleet.view.Store(&lower)
}

// What a reservation that ends has held is handed over to who waits for it here, unless it is held here by now, or nothing new begins.
func TestReservationThatEndsIsHandedOver(t *testing.T) {
	for name, tt := range map[string]struct {
		held   int
		change func(p *proxy)
		asks   string
	}{
		"both":              {2, func(*proxy) {}, "x y"},
		"the first":         {1, func(*proxy) {}, "x"},
		"none":              {0, func(*proxy) {}, ""},
		"the client drains": {2, func(p *proxy) { p.draining = true }, ""},
		"one is held here":  {2, func(p *proxy) { p.leases.entries["x"].lease = &lease{} }, "y"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, c, _ := s.reserving()
			var asks []string
			singles := []*call{p.begin(one("x", time.Minute).waits(20 * time.Second)), p.begin(one("y", time.Minute).waits(20 * time.Second))}
			time.Sleep(10 * ms)
			p.mu.Lock()
			w, d := c.waiter, &deferred{now: time.Now()}
			token := w.reservation.token
			w.reservation.held = tt.held
			tt.change(p)
			p.waiting.releaseReservationLocked(w.op, d)
			for _, single := range singles {
				if a := single.waiter.attempt; a != nil && a.verb == verbSet {
					asks = append(asks, a.keys[0])
				}
			}
			if got := strings.Join(asks, " "); got != tt.asks || w.reservation.token != "" || w.reservation.held != 0 || w.reservation.timer != nil {
				s.Errorf("%s: those who wait for %q ask, and %+v is left; want %q, and nothing", name, got, w.reservation, tt.asks)
			}
			p.draining, p.leases.entries["x"].lease = false, nil
			p.mu.Unlock()
			p.runDeferred(d)
			time.Sleep(10 * ms)
			for _, key := range []string{"x", "y"} {
				s.wantOn(key, token, "00000")
			}
		})
	}
}

// Patience that ends in the moment in which it begins anew does not count; else all is given back.
func TestPatienceThatBeginsAnew(t *testing.T) {
	for _, anew := range []bool{true, false} {
		inVirtualTime(t, 5, func(s *stage) {
			p, c, _ := s.reserving()
			p.mu.Lock()
			w := c.waiter
			token, patience := w.reservation.token, w.reservation.patience
			p.waiting.limitReservingLocked(w.op)
			if anew { // the timer of before fires all the same
				w.reservation.timer = time.AfterFunc(time.Hour, func() {})
			}
			p.mu.Unlock()
			time.Sleep(patience)
			synctest.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			if kept := w.reservation.token == token; kept != anew {
				s.Errorf("patience begins anew %t: it reserves still %t", anew, kept)
			}
		})
	}
}

// A step asks for twice the patience, and for no more than what may run.
func TestTTLOfAStep(t *testing.T) {
	for patience, want := range map[time.Duration]time.Duration{time.Second: 2 * time.Second, 30 * time.Second: time.Minute, 40 * time.Second: time.Minute} {
		inVirtualTime(t, 5, func(s *stage) {
			p, c, _ := s.reserving()
			p.mu.Lock()
			w, d := c.waiter, &deferred{now: time.Now()}
			w.endPause()
			w.reservation.held, w.reservation.patience = 1, patience
			p.waiting.reserveLocked(w.op, d)
			if r := w.attempt; r.ttlMs != want.Milliseconds() || !slices.Equal(r.keys, []string{"x", "y"}) || r.token != w.reservation.token {
				s.Errorf("a patience of %v: %d ms for %q, want %v for x and y", patience, r.ttlMs, r.keys, want)
			}
			p.mu.Unlock()
			p.runDeferred(d)
			p.Unblock(&c.Op, nil)
		})
	}
}

// A LOCK of several that was denied moves to the queue of the resource that most of the masters which denied it have named, of two the first by
// name, and reserves instead when that was another one too often.
func TestWhereSeveralMove(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		for _, key := range []string{"a", "b", "c"} {
			p.lock(one(key, time.Minute))
		}
		for _, tt := range []struct {
			denied string // by each master, as the one in the way: a, b, c; -: it did not deny it
			moves  int    // of before
			want   string
		}{
			{"bbb--", 0, "in b, 1 moves"},
			{"--bcc", 0, "in c, 1 moves"},
			{"cb---", 0, "in b, 1 moves"},
			{"cbcb-", 0, "in b, 1 moves"},
			{"cbbcc", 0, "in c, 1 moves"},
			{"----b", 0, "in b, 1 moves"},
			{"-----", 0, "in a, 0 moves"},
			{"aab--", 0, "in a, 0 moves"},
			{"abaab", reserveAfter - 1, "in a, 2 moves"},
			{"bbbaa", reserveAfter - 2, "in b, 2 moves"},
			{"ccbab", reserveAfter - 1, "in a, 0 moves, reserves, asks again"},
			{"ccbbc", reserveAfter - 1, "in a, 0 moves, reserves, asks again"},
		} {
			c := p.begin(several(time.Minute, "c", "b", "a").waits(time.Minute))
			time.Sleep(5 * ms) // it is denied, and pauses in the queue of a
			p.mu.Lock()
			w, d := c.waiter, &deferred{now: time.Now()}
			if w.entry.resource != "a" {
				s.Fatalf("it waits in the queue of %s", w.entry.resource)
			}
			w.moves = tt.moves
			r := &round{op: &c.Op, view: p.fleet.view.Load(), answers: make([]answer, 6)}
			r.setKeys(w.keys...)
			v := quorum.Votes(0)
			for i, named := range tt.denied {
				if named != '-' {
					r.answers[i].denier = int32(named - 'a')
					v += quorum.Cast(i, quorum.Denied)
				} else {
					v += quorum.Cast(i, quorum.Unknown)
				}
			}
			r.votes.Store(uint64(v))
			p.waiting.moveToDenierLocked(&c.Op, r, d)
			got := fmt.Sprintf("in %s, %d moves", w.entry.resource, w.moves)
			if w.reservation.token != "" {
				got += ", reserves"
			}
			if w.again {
				got += ", asks again"
			}
			p.mu.Unlock()
			if got != tt.want {
				s.Errorf("denied by %s, behind %d moves: got %q, want %q", tt.denied, tt.moves, got, tt.want)
			}
			p.Unblock(&c.Op, context.Canceled)
			p.finish(c)
			time.Sleep(5 * ms)
		}
	})
}

// Who begins to reserve while it stands in another queue moves to that of its first resource.
func TestReservesFromAnotherQueue(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		held := p.lock(one("b", time.Minute))
		c := p.begin(several(time.Minute, "a", "b").waits(time.Minute))
		time.Sleep(5 * ms)
		p.mu.Lock()
		w, d := c.waiter, &deferred{now: time.Now()}
		if w.entry.resource != "b" {
			s.Fatalf("it waits in the queue of %s", w.entry.resource)
		}
		w.moves = reserveAfter - 1
		r := &round{op: &c.Op, view: p.fleet.view.Load(), answers: make([]answer, 4)}
		r.setKeys(w.keys...)
		r.votes.Store(uint64(quorum.Cast(0, quorum.Denied)))
		p.waiting.moveToDenierLocked(&c.Op, r, d)
		if got := w.entry.resource; got != "a" || w.reservation.token == "" {
			s.Errorf("it waits in the queue of %s, and reserves: %v, want a, true", got, w.reservation.token != "")
		}
		p.waiting.attemptLocked(&c.Op, d)
		p.mu.Unlock()
		p.runDeferred(d)
		p.unlock(held.Token, "b")
		if p.finish(c); !c.Held {
			s.Errorf("LOCK of both: got %+v, want held", c.Result)
		}
	})
}

// A LOCK of several joins the first queue, by name, in which somebody waits.
func TestWaitedFor(t *testing.T) {
	s := newLeaseTable(t)
	s.entry("b")
	s.entry("c").queue.head = &waiter{}
	s.entry("d").queue.head = &waiter{}
	for resources, want := range map[string]string{"a b": "a", "b a": "b", "a b c d": "c", "a d": "d", "c": "c"} {
		if got := s.waitedFor(strings.Fields(resources)); got != want {
			t.Errorf("%s: got %s, want %s", resources, got, want)
		}
	}
}
