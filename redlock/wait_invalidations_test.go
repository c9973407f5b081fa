package redlock

// Goal: a waiter learns of a release that another client makes, from the masters, without asking all the time; and it gets on
// without that too. Method: two clients on masters in this process, in virtual time, where nothing takes time unless it waits.

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// subscribed waits until the masters announce to the client what it waits for.
func (p *proxy) subscribed() {
	p.s.Helper()
	p.s.until("tracking on all masters", func() bool {
		for _, l := range p.fleet.view.Load().lanes {
			if l.invalidationsID.Load() == 0 {
				return false
			}
		}
		return true
	})
	time.Sleep(p.opts.Heartbeat) // the lanes turn it on
	p.align()
}

// What is released through another client, or on the masters, wakes the head, which knows which slot that is.
func TestReleaseByAnotherClientWakesTheHead(t *testing.T) {
	for _, tt := range []struct {
		name    string
		release func(s *stage, other *proxy, resource, token string)
	}{
		{"UNLOCK", func(s *stage, other *proxy, resource, token string) { other.unlock(token, resource) }},
		{"DEL on the masters", func(s *stage, _ *proxy, resource, _ string) { s.doAll("DEL", resource) }},
		{"DEL on a quorum", func(s *stage, _ *proxy, resource, _ string) { s.doOn([]int{0, 1, 2}, "DEL", resource) }},
	} {
		for k, resource := range map[int]string{0: "r", 6: "r#4"} {
			inVirtualTime(t, 5, func(s *stage) {
				p, other := s.open(), s.open()
				p.subscribed()
				held := other.fill("r", k, time.Minute)
				waiter := p.begin(one("r", time.Minute).of(k).waits(10 * time.Second))
				time.Sleep(3 * time.Second)
				before := p.Stats()
				if before.Attempts > 6 {
					s.Errorf("%s: %d attempts in 3 s of waiting, want few: the masters will tell", tt.name, before.Attempts)
				}
				began := time.Now()
				tt.release(s, other, resource, held[resource])
				p.finish(waiter)
				if took := time.Since(began); !waiter.Held || waiter.Slot != resource && k > 0 || took > 3*ms {
					s.Errorf("%s: got %+v after %v, want %s at once", tt.name, waiter.Result, took, resource)
				}
				p.wantAttempts(tt.name, before.Attempts, 1)
				if got := p.Stats().Wakeups - before.Wakeups; got != 1 {
					s.Errorf("%s: %d wake-ups, want 1", tt.name, got)
				}
			})
		}
	}
}

// A change on fewer than a quorum of masters is none: others try, and fail.
func TestMinorityWakesNobody(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.subscribed()
		other.lock(one("r", time.Minute))
		waiter := p.begin(one("r", time.Minute).waits(time.Second))
		time.Sleep(100 * ms)
		s.do(0, "DEL", "r")
		s.do(1, "DEL", "r")
		p.finish(waiter)
		if got := p.Stats().Wakeups; got != 0 || waiter.Held {
			s.Errorf("got %d wake-ups and held %v, want none", got, waiter.Held)
		}
	})
}

// Without announcements, because the connections for them broke, the waiter asks from time to time as it used to.
func TestUnsubscribedWaiterAsks(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.subscribed()
		held := other.lock(one("r", time.Minute))
		waiter := p.begin(one("r", time.Minute).waits(10 * time.Second))
		time.Sleep(time.Second)
		for _, l := range p.fleet.view.Load().lanes {
			l.closeInvalidations()
		}
		time.Sleep(5 * ms) // it asks again, and the masters will not announce anything yet
		other.unlock(held.Token, "r")
		began := time.Now()
		p.finish(waiter)
		if took := time.Since(began); !waiter.Held || took > 2*p.opts.RetryDelayMax {
			s.Errorf("got %+v after %v, want held after a usual pause", waiter.Result, took)
		}

		p.subscribed() // again
		p.unlock(waiter.Token, "r")
		held = other.lock(one("r", time.Minute))
		waiter = p.begin(one("r", time.Minute).waits(10 * time.Second))
		time.Sleep(time.Second)
		began = time.Now()
		other.unlock(held.Token, "r")
		p.finish(waiter)
		if took := time.Since(began); !waiter.Held || took > 3*ms {
			s.Errorf("with announcements again: got %+v after %v, want held at once", waiter.Result, took)
		}
	})
}

// A head that has learned not to heed every announcement hears at once that it is its turn, and who has left the resource to it hears
// when it is free again, however short the turn was.
func TestTurnsOfTwoProxies(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(func(o *Options) { o.HandoverTime = 30 * ms }), s.open()
		const way = 100 * time.Microsecond
		for _, q := range []*proxy{p, other} {
			q.delay(way, way, 0, 1, 2, 3, 4)
			q.subscribed()
		}
		held := p.lock(one("r", time.Minute))
		var granted, released atomic.Pointer[time.Time]
		now := func(at *atomic.Pointer[time.Time]) {
			t := time.Now()
			at.Store(&t)
		}
		for range 400 {
			c := p.begin(one("r", time.Minute).waits(time.Minute))
			c.after = func() {
				now(&granted)
				time.AfterFunc(ms, func() {
					now(&released)
					p.startUnlock(c.Token, "r")
				})
			}
		}
		p.unlock(held.Token, "r")
		for turn := range 8 {
			c := other.begin(one("r", time.Minute).waits(time.Minute))
			s.until("the other proxy's window", func() bool { return c.done.Load() })
			// The release and what tells of it go to the masters, that comes to the other proxy, it asks, and is answered.
			if got := c.began.Add(c.took).Sub(*released.Load()); !c.Held || got != 4*way {
				s.Errorf("turn %d: got the lock (%v) %v after the release, want %v", turn, c.Held, got, 4*way)
			}
			began := time.Now()
			other.unlock(c.Token, "r")
			s.until("a hand-over here", func() bool { return granted.Load().After(began) })
			// Its head may find the resource free between its attempt and its observation, and tries again after a random moment.
			if got := granted.Load().Sub(began); got > 4*way+2*splitDelay {
				s.Errorf("turn %d: back here %v after the release, want %v", turn, got, 4*way)
			}
		}
	})
}

// A client's message reaches every client once, in the order in which it was published, as long as one master carries it.
func TestMessages(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		from, to := s.open(), s.open()
		from.subscribed()
		to.subscribed()
		var here, there []string
		var mu sync.Mutex
		from.OnMessage(func(channel, payload string) { mu.Lock(); here = append(here, channel+"="+payload); mu.Unlock() })
		to.OnMessage(func(channel, payload string) { mu.Lock(); there = append(there, channel+"="+payload); mu.Unlock() })
		var want []string
		publish := func(channel, payload string) {
			want = append(want, channel+"="+payload)
			c := call{began: time.Now()}
			from.StartPublish(&c.Op, channel, payload, &c)
			c.want(s, "PUBLISH", "held", 0)
		}
		publish("c", "1")
		publish("c d", " 2\r\n\x00")
		publish("", "")
		time.Sleep(10 * ms)
		s.freeze(0, 1, 2, 3)
		publish("c", "through one master")
		time.Sleep(10 * ms)
		s.thaw(0, 1, 2, 3) // four more copies
		time.Sleep(time.Second)
		s.do(0, "PUBLISH", messagesChannel, "nonsense")
		s.do(0, "PUBLISH", messagesChannel, strings.Repeat("x", 1000)+" 0 a long id")
		s.do(0, "PUBLISH", messagesChannel, "id 99 short")
		s.do(0, "PUBLISH", messagesChannel, "id -1 x")
		time.Sleep(10 * ms)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(here, want) || !slices.Equal(there, want) {
			s.Errorf("here %q, there %q, want %q", here, there, want)
		}

		// A message to one client alone.
		send := func(mailbox, want string) {
			c := call{began: time.Now()}
			from.StartSend(&c.Op, mailbox, "c", "to one", &c)
			c.want(s, "a message to "+mailbox, want, 0)
		}
		send(to.Mailbox(), "held")
		send("nobody", "is no mailbox")
		mu.Unlock()
		time.Sleep(10 * ms)
		mu.Lock()
		if last := there[len(there)-1]; len(there) != len(want)+1 || last != "c=to one" || len(here) != len(want) {
			s.Errorf("here %q, there %q, want one message more, there alone", here, there)
		}
		long := call{began: time.Now()}
		from.StartPublish(&long.Op, "c", strings.Repeat("x", MessageMax), &long)
		long.want(s, "PUBLISH of a message that is too long", "at most 32768 are possible", 0)
	})
}

// Waiters cost the masters little, also where another client holds what they wait for: one attempt or two until the masters tell.
func TestWaitersAskSeldom(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.subscribed()
		const waiters = 50
		var held []*call
		for i := range waiters {
			holder := p
			if i%2 == 1 {
				holder = other
			}
			held = append(held, holder.lock(one("r"+strconv.Itoa(i), time.Minute)))
		}
		attempts := p.Stats().Attempts
		var calls []*call
		for i := range waiters {
			calls = append(calls, p.begin(one("r"+strconv.Itoa(i), time.Minute).waits(time.Minute)))
		}
		time.Sleep(10 * time.Second)
		if n := p.Stats().Attempts - attempts; n > 6*waiters {
			s.Errorf("%d attempts of %d waiters in 10 s, want few", n, waiters)
		}
		for i, c := range held {
			holder := p
			if i%2 == 1 {
				holder = other
			}
			holder.unlock(c.Token, "r"+strconv.Itoa(i))
		}
		began := time.Now()
		for _, c := range calls {
			if p.finish(c); !c.Held {
				s.Errorf("a waiter: got %+v, want held", c.Result)
			}
		}
		if took := time.Since(began); took > 5*ms {
			s.Errorf("all waiters were served after %v, want at once", took)
		}
	})
}
