package redlock

// Goal: every client that waits for a contended resource gets it, also where others are nearer to the masters. Method: three clients
// in virtual time, whose callers want one resource all the time.

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// One client is farther away than the other two, and comes too late for each window. It must not be left with next to nothing.
func TestClientThatIsFartherAwayIsNotStarved(t *testing.T) {
	const length, least = 2 * time.Second, 8
	for _, far := range []time.Duration{ms, 10 * ms} {
		inVirtualTime(t, 5, func(s *stage) {
			proxies := []*proxy{s.open(), s.open(), s.open()}
			for i, p := range proxies {
				delay := 100 * time.Microsecond
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
								granted[i].Add(p.lockAndUnlock(one("r", 10*time.Second).waits(10*time.Second), ms))
							}
						})
					}
				})
			}
			running.Wait()
			if a, b, farther := granted[0].Load(), granted[1].Load(), granted[2].Load(); farther*least < min(a, b) {
				s.Errorf("%v farther away: granted %d times, and the others %d and %d times, want more than a part in %d", far, farther, a, b, least)
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

// The message of a client that misses windows comes from every master, and to that client too. Each copy that is late must not have another window
// left to nobody.
func TestCopiesOfAMessageLeaveOneWindow(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		other.lock(one("r", time.Minute))
		waiter := p.begin(one("r", time.Minute).waits(30 * time.Second))
		time.Sleep(10 * ms)
		left := func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return waiter.waiter.entry.queue.fairness.yields(time.Now()) > 0
		}
		announce := func(text string, masters ...int) {
			for _, master := range masters {
				p.windowAnnounced(master, []byte(text))
			}
		}
		announce(missedPrefix+"1 300 r", 0, 1)
		if !left() {
			s.Fatal("a client has missed too many windows: none is left to it")
		}
		announce("r", 0, 1, 2)
		announce(missedPrefix+"1 300 r", 2, 3, 4)
		if left() {
			s.Error("late copies of the message have another window left")
		}
		announce(missedPrefix+"2 300 r", 0)
		if !left() {
			s.Error("it has missed another one: none is left to it")
		}
		for range missedMax + 1 { // now this client is the one that misses them
			announce("r", 0, 1, 2)
			time.Sleep(10 * ms)
		}
		p.mu.Lock()
		waiter.waiter.entry.queue.fairness.missed = 0 // as a grant does
		p.mu.Unlock()
		time.Sleep(ms)
		if left() {
			s.Error("its own message has a window left to nobody")
		}
	})
}
