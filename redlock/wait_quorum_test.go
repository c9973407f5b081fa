package redlock

// Goal: waiters leave masters that cannot vote alone, and go on as soon as a quorum can. Method: virtual time.

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A head that was denied before, and is handed the lock while no quorum can vote, asks as soon as one can.
func TestHandOverWithoutAQuorum(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.RetryDelayMin, o.RetryDelayMax = time.Minute, time.Minute })
		held := p.lock(one("r", time.Minute))
		c := p.begin(one("r", time.Minute).waits(50 * time.Second))
		time.Sleep(100 * ms)
		s.freeze(0, 1, 2)
		s.until("no quorum", func() bool { return !p.fleet.quorumCanVote() })
		p.unlock(held.Token, "r")
		time.Sleep(time.Second)
		s.thaw(0, 1, 2)
		s.until("a quorum", p.fleet.quorumCanVote)
		back := time.Now()
		p.finish(c)
		if at := c.began.Add(c.took).Sub(back); !c.Held || at > 100*ms {
			s.Errorf("got %+v %v after the quorum was back, want held soon", c.Result, at)
		}
	})
}

func TestWaitersAskNobodyWithoutQuorum(t *testing.T) {
	for _, tt := range []struct {
		name        string
		away, comes func(s *stage)
	}{
		{"quarantined", func(s *stage) {
			for _, m := range s.masters[:3] {
				m.Crash(false)
				m.Restart()
			}
		}, func(s *stage) {}},
		{"silent", func(s *stage) { s.freeze(0, 1, 2) }, func(s *stage) { time.Sleep(4 * time.Second); s.thaw(0, 1, 2) }},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(func(o *Options) { o.MaxTTL = 5 * time.Second })
			tt.away(s)
			s.until("the masters are away", func() bool { return p.states()[:3] == "qqq" || p.states()[:3] == "ddd" })
			const waiters = 300
			before, granted := p.Stats().Attempts, p.Stats().Granted
			var calls []*call
			for i := range waiters {
				calls = append(calls, p.begin(one(fmt.Sprint("r", i), 5*time.Second).waits(30*time.Second)))
			}
			short := p.begin(one("short", 5*time.Second).waits(time.Second))
			time.Sleep(time.Second)
			p.finish(short)
			if short.Err == nil || short.took > time.Second+giveUp+5*ms {
				s.Errorf("%s: a wait that ends meanwhile: got %+v after %v, want NOQUORUM after 1s", tt.name, short.Result, short.took)
			}
			tt.comes(s)
			var back time.Time
			s.until("a quorum", func() bool { back = time.Now(); return p.fleet.quorumCanVote() })
			// One attempt of each when it came, and the last one of the wait that has ended; some that found out when the masters fell silent, and
			// those of the first millisecond.
			if got := p.Stats().Attempts - before; got > waiters+2+waiters/10 {
				s.Errorf("%s: %d attempts of %d waiters without a quorum, want one each", tt.name, got, waiters+1)
			}
			// Spread: in the first tenth of the time a tenth of them is granted, or not many more.
			time.Sleep(waiters / 10 * quorumRetrySpread)
			synctest.Wait()
			if got := p.Stats().Granted - granted; got > waiters/3 {
				s.Errorf("%s: %d of %d waiters were granted at once, want them spread over %v", tt.name, got, waiters, waiters*quorumRetrySpread)
			}
			for i, c := range calls {
				p.finish(c)
				if at := c.began.Add(c.took).Sub(back); !c.Held || at > waiters*quorumRetrySpread+5*ms {
					s.Fatalf("%s: waiter %d: got %+v %v after the quorum was back, want held within %v", tt.name, i, c.Result, at, waiters*quorumRetrySpread)
				}
			}
			if got := p.Stats().Attempts - before; got > 2*(waiters+1) {
				s.Errorf("%s: %d attempts of %d waiters in all, want two each", tt.name, got, waiters+1)
			}
		})
	}
}

// A head that was denied last asks once more, also where no quorum can vote: so it learns that, and what it is told when its wait ends is true.
func TestDeniedHeadAsksWithoutAQuorum(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, waiter := s.waitsForAnother()
		s.freeze(0, 1, 2)
		s.until("three masters are away", func() bool { return p.states() == "ddduu" })
		p.mu.Lock()
		w, d, asked := waiter.waiter, &deferred{now: time.Now()}, p.stats.Attempts
		w.lastErr = nil
		p.waiting.attemptLocked(w.op, d)
		if p.stats.Attempts != asked+1 {
			s.Error("a head that was denied does not ask")
		}
		p.mu.Unlock()
		p.runDeferred(d)
		p.mu.Lock()
		defer p.mu.Unlock()
		if w.lastErr == nil || w.retry == nil || !p.waiting.quorumAwaited {
			s.Errorf("the head has asked: got %v, want no quorum, and that it waits for one", w.lastErr)
		}
		asked = p.stats.Attempts
		if p.waiting.attemptLocked(w.op, d); p.stats.Attempts != asked {
			s.Error("a head that has found no quorum asks, and there is none")
		}
	})
}

// When a quorum can vote again, the heads ask that were told that there is none and pause; nobody looks for them where none has said so.
func TestWhoAsksWhenAQuorumIsBack(t *testing.T) {
	for name, tt := range map[string]struct {
		awaited, can bool
		wakes        bool
	}{
		"a quorum is back":         {true, true, true},
		"nobody has waited for it": {false, true, false},
		"there is none yet":        {true, false, false},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(seldom), s.open()
			p.lock(one("held here", time.Minute))
			type testCase struct {
				resource string
				err      error
				asks     bool
				wakes    bool
				waiter   *call
				retry    *time.Timer
			}
			cases := []*testCase{
				{resource: "pauses without a quorum", err: ErrNoQuorum, wakes: true},
				{resource: "pauses too", err: ErrNoQuorum, wakes: true},
				{resource: "was denied"},
				{resource: "asks, and had no quorum", err: ErrNoQuorum, asks: true},
			}
			for _, tt := range cases {
				other.lock(one(tt.resource, time.Minute))
				tt.waiter = p.begin(one(tt.resource, time.Minute).waits(40 * time.Second))
			}
			if !tt.can {
				s.freeze(0, 1, 2)
				s.until("no quorum", func() bool { return !p.fleet.quorumCanVote() })
			}
			time.Sleep(100 * ms)
			p.mu.Lock()
			for _, c := range cases {
				w := c.waiter.waiter
				w.endPause()
				w.lastErr, w.attempt = c.err, nil
				if c.asks {
					w.attempt = &round{verb: verbSet}
				} else {
					p.waiting.pauseLocked(w.op, time.Minute)
				}
				c.retry = w.retry
			}
			p.waiting.quorumAwaited = tt.awaited
			p.mu.Unlock()
			p.waiting.wakeQuorumWaiters()
			p.mu.Lock()
			for _, c := range cases {
				w := c.waiter.waiter
				if got, want := w.retry != c.retry, tt.wakes && c.wakes; got != want || c.asks && w.retry != nil {
					s.Errorf("%s: %s: pauses anew %t, want %t", name, c.resource, got, want)
				}
				w.attempt, w.lastErr = nil, nil
			}
			if got, want := p.waiting.quorumAwaited, tt.awaited && !tt.can; got != want {
				s.Errorf("%s: a quorum is awaited %t, want %t", name, got, want)
			}
			p.mu.Unlock()
			s.thaw(0, 1, 2)
			p.Drain()
		})
	}
}

// Without a quorum a head does not even look often by itself.
func TestPauseWithoutAQuorumIsLong(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(func(o *Options) { o.RetryDelayMin, o.RetryDelayMax = 20*ms, 20*ms }), s.open()
		other.lock(one("r", time.Minute))
		waiter := p.begin(one("r", time.Minute).waits(30 * time.Second))
		s.freeze(0, 1, 2)
		s.until("the head waits for a quorum", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.waiting.quorumAwaited && waiter.waiter.retry != nil
		})
		p.mu.Lock()
		retry := waiter.waiter.retry
		p.mu.Unlock()
		time.Sleep(invalidationPatience*20*ms - 100*ms)
		p.mu.Lock()
		defer p.mu.Unlock()
		if waiter.waiter.retry != retry {
			s.Errorf("the head has looked for a quorum before %v were over", invalidationPatience*20*ms)
		}
	})
}
