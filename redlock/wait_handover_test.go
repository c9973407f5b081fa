package redlock

// Goal: every client that waits for a contended resource gets it, also where others are nearer to the masters. Method: three clients
// in virtual time, whose callers want one resource all the time.

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
		p, other := s.open(), s.open()
		other.lock(one("r", time.Minute))
		waiter := p.begin(one("r", time.Minute).waits(30 * time.Second))
		time.Sleep(100 * ms)
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
