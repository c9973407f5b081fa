package redlock

// Goal: waiting. Who waits is served first come, first served; a wait ends when it should, with the answer it should; nobody waits
// in a circle; and ends of all kinds leave nothing behind. Method: virtual time over in-process masters.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/quorum"
)

func TestFirstComeFirstServed(t *testing.T) {
	for k, free := range map[int]string{0: "r", 3: "r#1"} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			held := p.fill("r", k, time.Minute)
			var mu sync.Mutex
			var order []int
			for i := range 20 {
				c := p.begin(one("r", time.Minute).of(k).waits(time.Minute))
				c.after = func() {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, i)
					time.AfterFunc(ms, func() { p.release(c) })
				}
				time.Sleep(time.Duration(i) * 7 * ms)
			}
			synctest.Wait()
			if got := p.Stats().Waiters; got != 20 {
				s.Errorf("%d slots: waiters: got %d, want 20", k, got)
			}
			p.unlock(held[free], free)
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			if !slices.IsSorted(order) || len(order) != 20 {
				s.Errorf("%d slots: order of the grants: got %v, want that of arrival", k, order)
			}
			delete(held, free)
			for slot, token := range held {
				p.unlock(token, slot)
			}
			s.wantNoLocks()
		})
	}
}

// release begins to release what a call was granted, and does not wait for it.
func (p *proxy) release(c *call) {
	p.startUnlock(c.Token, cmp.Or(c.Slot, "r"))
}

// keepBusy has n callers wait for r, or for one of its k slots, hold it for 1 ms, and wait again, while more says so. It returns how often they
// were granted it.
func (p *proxy) keepBusy(n, k int, more func() bool) *atomic.Int32 {
	var granted atomic.Int32
	var wait func()
	wait = func() {
		c := &call{began: time.Now()}
		c.after = func() {
			if !c.Held {
				return
			}
			granted.Add(1)
			time.AfterFunc(ms, func() {
				p.release(c)
				if more() {
					wait()
				}
			})
		}
		p.StartLock(&c.Op, one("r", time.Minute).of(k).waits(time.Minute), c)
	}
	for range n {
		wait()
	}
	return &granted
}

// A wait that runs out before the head has its first answer says nothing that nobody knows: it waits for that answer.
func TestWaitRunsOutBeforeTheHeadIsAnswered(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		other.lock(one("held", time.Minute))
		p.delay(20*ms, 20*ms, 0, 1, 2, 3, 4)
		short := func(resource string) *call {
			p.begin(one(resource, time.Minute).waits(time.Second))
			return p.begin(one(resource, time.Minute).waits(10 * ms))
		}
		within := func(c *call, what, want string, most time.Duration) {
			s.Helper()
			p.finish(c)
			c.want(s, what, want, c.took)
			if c.took > most {
				s.Errorf("%s: took %v, want at most %v", what, c.took, most)
			}
		}
		within(short("held"), "another holds it", "no", 50*ms)
		time.Sleep(2 * time.Second)
		p.delay(0, 0, 0, 1, 2, 3, 4)
		s.freeze(0, 1, 2)
		p.align()
		ended := short("a")
		within(short("b"), "no quorum", "masters voted, 3 needed; out: m1: ", giveUpNeeded+10*ms)
		p.finish(ended)

		s.thaw(0, 1, 2)
		p.lockable("c")
		s.freeze(0, 1, 2)
		p.align()
		p.begin(one("c", time.Minute).waits(time.Second))
		unblocked := p.begin(one("c", time.Minute).waits(time.Second))
		p.Unblock(&unblocked.Op, nil)
		p.finish(unblocked).want(s, "UNBLOCK before the head is answered", "2 of 5 masters voted, 3 needed; 3 more have not answered yet", 0)
	})
}

// A release and the acquisition of the next in queue are one batch to every master, so a hand-over takes one round trip.
func TestHandOverInOneBatch(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.RetryDelayMin, o.RetryDelayMax = 5*time.Second, 5*time.Second })
		p.delay(3*ms, 4*ms, 0, 1, 2, 3, 4)
		held := p.lock(one("r", time.Minute))
		waiter := p.begin(one("r", time.Minute).waits(10 * time.Second))
		time.Sleep(50 * ms) // denied, and now pausing
		p.align()
		batches := p.Masters()[0].Batches
		began := time.Now()
		var answered time.Duration
		waiter.after = func() { answered = time.Since(began) }
		p.unlock(held.Token, "r").want(s, "UNLOCK", "held", 7*ms)
		p.finish(waiter)
		if !waiter.Held || answered != 7*ms {
			s.Errorf("the waiter: got %+v after %v, want held after one round trip, 7ms", waiter.Result, answered)
		}
		if got := p.Masters()[0].Batches - batches; got != 1 {
			s.Errorf("batches for release and acquisition: got %d, want 1", got)
		}
		if got := p.Stats().Handovers; got != 1 {
			s.Errorf("hand-overs: got %d, want 1", got)
		}
		if want := began.Add(time.Minute); !waiter.Until.Equal(want) {
			s.Errorf("until: got %v after the release, want what counts from the hand-over, %v", waiter.Until.Sub(began), want.Sub(began))
		}
	})
}

// After handover_time the clients of other proxies get a turn.
func TestHandOversAreLimited(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.HandoverTime = 3 * ms })
		other := s.open()
		held := p.lock(one("r", time.Minute))
		var calls []*call
		for range 20 {
			c := p.begin(one("r", time.Minute).waits(time.Minute))
			c.after = func() { time.AfterFunc(ms, func() { p.release(c) }) }
			calls = append(calls, c)
		}
		foreign := other.begin(one("r", time.Minute).waits(time.Minute))
		time.Sleep(200 * ms)
		p.unlock(held.Token, "r")
		s.until("the other proxy's window", func() bool { return foreign.done.Load() })
		last := calls[len(calls)-1]
		if !foreign.Held || last.done.Load() {
			s.Errorf("the other proxy: got %+v, and the last of 20 in queue here is done: %v; want held before that", foreign.Result, last.done.Load())
		}
		other.unlock(foreign.Token, "r")
		p.finish(last)
	})
}

// Windows that nobody uses cost their length, once in handover_time.
func TestHandOversInARow(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.subscribed()
		held := p.lock(one("r", time.Minute))
		var granted atomic.Int32
		for range 600 {
			c := p.begin(one("r", time.Minute).waits(time.Minute))
			c.after = func() {
				granted.Add(1)
				time.AfterFunc(ms, func() { p.release(c) })
			}
		}
		began := time.Now()
		p.unlock(held.Token, "r")
		s.until("600 hand-overs", func() bool { return granted.Load() == 600 })
		if got, want := time.Since(began), 599*ms+2*windowMin; got != want {
			s.Errorf("600 hand-overs that nobody else wants: took %v, want %v", got, want)
		}
	})
}

// A token that was made here serves one attempt, so that no release of an earlier one can hit it, however late it comes.
func TestEachAttemptHasItsToken(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.doOn([]int{0, 1, 2}, "SET", "r", "another", "PX", 60_000)
		p.delay(0, 10*ms, 0, 1, 2, 3, 4)
		p.begin(one("r", time.Second).waits(time.Minute))
		tokens := map[string]bool{}
		for range 3 {
			s.until("an attempt", func() bool { return len(locksOn(s.masters[4])) > 0 })
			token, _, _ := s.masters[4].Get("r")
			tokens[token] = true
			s.until("it is undone", func() bool { return len(locksOn(s.masters[4])) == 0 })
		}
		if len(tokens) != 3 {
			s.Errorf("three attempts: got the tokens %v, want three", tokens)
		}
	})
}

// A LOCK that does not wait must not get past those who do.
func TestNoBarging(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		held := other.lock(one("r", time.Minute))
		waiter := p.begin(one("r", time.Minute).waits(10 * time.Second))
		time.Sleep(5 * ms)
		for _, l := range p.fleet.view.Load().lanes {
			l.closeInvalidations()
		}
		time.Sleep(ms)
		other.unlock(held.Token, "r")
		// The resource is free, and the waiter does not know it yet: nobody could tell it.
		p.lock(one("r", time.Minute)).want(s, "LOCK without WAIT", "no", 0)
		p.finish(waiter)
		if !waiter.Held {
			s.Errorf("the waiter: got %+v, want held", waiter.Result)
		}
	})
}

func TestWaitRunsOut(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(s *stage, p *proxy)
		during func(s *stage, p *proxy) // after half of the wait
		result string
	}{
		{"held all the time", func(s *stage, p *proxy) { p.lock(one("r", time.Minute)) }, nil, "no"},
		{"held through another proxy", func(s *stage, p *proxy) { s.open().lock(one("r", time.Minute)) }, nil, "no"},
		{"no quorum all the time", func(s *stage, p *proxy) { s.freeze(0, 1, 2) }, nil, "masters voted, 3 needed; out: m1: "},
		{"held, and then no quorum", func(s *stage, p *proxy) { s.open().lock(one("r", time.Minute)) },
			func(s *stage, p *proxy) { s.freeze(0, 1, 2) }, "masters voted, 3 needed; out: m1: |no"},
		{"no quorum, and then held", func(s *stage, p *proxy) {
			s.open().lock(one("r", time.Minute))
			s.freeze(0, 1, 2)
		}, func(s *stage, p *proxy) { s.thaw(0, 1, 2) }, "no"},
		{"no quorum, and then free", func(s *stage, p *proxy) { s.freeze(0, 1, 2) }, func(s *stage, p *proxy) { s.thaw(0, 1, 2) }, "held"},
		{"held, and then free", func(s *stage, p *proxy) { s.open().lock(one("r", 1500*ms)) }, nil, "held"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			tt.before(s, p)
			time.Sleep(200 * ms) // frozen masters are known as such
			p.align()
			if tt.during != nil {
				time.AfterFunc(1100*ms, func() { tt.during(s, p) })
			}
			req := one("r", time.Minute).waits(2200 * ms)
			first, second := p.begin(req), p.begin(req) // one at the head of the queue, one behind
			p.finish(first)
			p.finish(second)
			if tt.result == "held" {
				if !first.Held || first.took >= 2200*ms || first.took < 1100*ms {
					s.Errorf("%s: got %+v after %v, want held in the second half of the wait", tt.name, first.Result, first.took)
				}
				second.want(s, tt.name+", behind the head", "no", 2200*ms)
				return
			}
			// An attempt that is in flight when the wait runs out may still decide.
			if first.took < 2200*ms || first.took > 2200*ms+giveUp+5*ms {
				s.Errorf("%s: took %v, want the wait", tt.name, first.took)
			}
			// Who stands behind the head is told what the head was told last, which the last attempt of all may not be.
			head, _, either := strings.Cut(tt.result, "|")
			first.want(s, tt.name, head, first.took)
			if !either || second.Err != nil {
				second.want(s, tt.name+", behind the head", head, second.took)
			} else {
				second.want(s, tt.name+", behind the head", "no", second.took)
			}
		})
	}
}

// The head of the queue leaves, and the one behind it goes on with the rest of its own wait.
func TestHeadLeaves(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		held := other.lock(one("r", time.Minute))
		first, second := p.begin(one("r", time.Minute).waits(200*ms)), p.begin(one("r", time.Minute).waits(time.Second))
		p.finish(first).want(s, "the head", "no", 200*ms)
		other.unlock(held.Token, "r")
		p.finish(second)
		if !second.Held || second.took > 300*ms {
			s.Errorf("the one behind: got %+v after %v, want held soon after the head has left", second.Result, second.took)
		}
	})
}

// A waiter that pauses until the lock of another client ends, and whose caller gives up before, asks for nothing when the pause would have been over.
func TestWaiterThatHasGivenUpAsksNoMore(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		other.lock(one("r", 2*time.Second))
		waiter := p.begin(one("r", time.Minute).waits(time.Minute))
		time.Sleep(time.Second)
		p.mu.Lock()
		if waiter.waiter.retry == nil {
			s.Error("the head does not pause: this test shows nothing")
		}
		p.mu.Unlock()
		p.Unblock(&waiter.Op, nil)
		p.finish(waiter).want(s, "the waiter", "no", time.Second)
		before := p.Stats().Attempts
		time.Sleep(5 * time.Minute)
		if n := p.Stats().Attempts - before; n > 0 {
			s.Errorf("got %d attempts for a caller that was answered", n)
		}
	})
}

func TestUnblock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		held := p.lock(one("r", time.Minute))
		gone := errors.New("the client has gone")
		a, b, c := p.begin(one("r", time.Minute).waits(time.Minute)), p.begin(one("r", time.Minute).waits(time.Minute)), p.begin(one("r", time.Minute).waits(time.Minute))
		if !p.Unblock(&a.Op, gone) || !errors.Is(a.Err, gone) {
			s.Errorf("Unblock of the head: got %+v, want done with the error", a)
		}
		if !p.Unblock(&b.Op, nil) || !b.done.Load() || b.Err != nil || b.Held {
			s.Errorf("Unblock without an error: got %+v, want no", b)
		}
		if p.Unblock(&a.Op, gone) || p.Unblock(&held.Op, gone) {
			s.Error("Unblock of what does not wait: got true, want false")
		}
		p.unlock(held.Token, "r")
		p.finish(c)
		if !c.Held {
			s.Errorf("the one behind them: got %+v, want held", c.Result)
		}
		if p.Unblock(&c.Op, gone) {
			s.Error("Unblock of one that was granted: got true, want false")
		}
		if got := p.Stats().Waiters; got != 0 {
			s.Errorf("waiters: got %d, want 0", got)
		}
	})
}

// What an attempt brings whose waiter has left is given back.
func TestUnblockUndoesTheAttemptInFlight(t *testing.T) {
	for _, frozen := range [][]int{nil, {0}, {0, 1, 2}} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			p.delay(5*ms, 5*ms, 0, 1, 2, 3, 4)
			s.freeze(frozen...)
			c := p.begin(one("r", time.Minute).waits(time.Minute))
			time.Sleep(2 * ms)
			p.Unblock(&c.Op, context.Canceled)
			c.want(s, "the LOCK", "context canceled", 2*ms)
			time.Sleep(100 * ms)
			s.thaw(frozen...)
			p.allUp()
			time.Sleep(100 * ms)
			s.wantNoLocks()
		})
	}
}

func TestMaxWaiters(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxWaiters = 3 })
		held := p.lock(one("r", time.Minute))
		var calls []*call
		for i := range 3 {
			calls = append(calls, p.begin(one([]string{"r", "r", "free"}[i], time.Minute).waits(time.Minute)))
		}
		calls[2].want(s, "LOCK of a free resource", "held", 0)
		calls = append(calls, p.begin(one("r", time.Minute).waits(time.Minute)))
		p.begin(one("r", time.Minute).waits(time.Minute)).want(s, "one too many", "too many waiters", 0)
		p.lock(one("r", time.Minute)).want(s, "LOCK without WAIT", "no", 0)
		for _, c := range []*call{calls[0], calls[1], calls[3]} {
			p.unlock(held.Token, "r")
			held = p.finish(c)
		}
		p.begin(one("r", time.Minute).waits(100*ms)).want(s, "LOCK when there is room again", "under way", 0)
		time.Sleep(time.Second)
	})
}

func TestDrain(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		held := p.lock(one("r", time.Minute))
		head, behind := p.begin(one("r", time.Minute).waits(time.Minute)), p.begin(one("r", time.Minute).waits(time.Minute))
		p.delay(5*ms, 5*ms, 0, 1, 2, 3, 4)
		underWay := p.begin(one("free", time.Minute))
		asking := p.begin(one("other", time.Minute).waits(time.Minute))
		time.Sleep(ms)
		p.Drain()
		for name, c := range map[string]*call{"head": head, "behind": behind, "asking": asking} {
			if !errors.Is(c.Err, ErrDraining) {
				s.Errorf("%s: got %+v, want ErrDraining", name, c)
			}
		}
		p.lock(one("new", time.Minute)).want(s, "LOCK after Drain", "draining", 0)
		p.finish(underWay).want(s, "LOCK under way", "held", 10*ms)
		time.Sleep(50 * ms)
		p.extend(held.Token, time.Minute, "r").want(s, "EXTEND after Drain", "held", 10*ms)
		p.unlock(held.Token, "r").want(s, "UNLOCK after Drain", "held", 10*ms)
		p.unlock(underWay.Token, "free").want(s, "UNLOCK after Drain", "held", 10*ms)
		time.Sleep(50 * ms)
		s.wantNoLocks() // nor of the one that asked
	})
}

// Close waits for what is under way, and every operation gets an answer, also those that come too late.
func TestClose(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.delay(5*ms, 5*ms, 0, 1, 2, 3, 4)
		held := p.lock(one("r", time.Minute))
		waiter := p.begin(one("r", time.Minute).waits(time.Minute))
		time.Sleep(20 * ms)
		released := p.startUnlock(held.Token, "r")
		if err := p.Close(s.Context()); err != nil {
			s.Errorf("Close: got %v", err)
		}
		synctest.Wait()
		if !released.Held || !errors.Is(waiter.Err, ErrDraining) && !waiter.Held {
			s.Errorf("UNLOCK under way: got %+v, want held; the waiter: got %+v, want an answer", released, waiter)
		}
		s.wantNoLocks()
		p.unlock(held.Token, "r").want(s, "UNLOCK after Close", "0 of 5 masters voted", 0)
		p.lock(one("r", time.Minute)).want(s, "LOCK after Close", "draining", 0)
		if err := p.Close(s.Context()); err != nil {
			s.Errorf("second Close: got %v", err)
		}
	})
}

// Close does not wait for masters that are down, also if they went down while a batch was with them.
func TestCloseWithMastersDown(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		s.freeze(0, 1, 2)
		p.lock(one("r", time.Minute)).want(s, "LOCK with three masters frozen", "2 of 5 masters voted", giveUpNeeded)
		for _, m := range s.masters[:3] {
			m.Crash(false)
		}
		s.until("they are down", func() bool {
			return !slices.ContainsFunc(p.Masters()[:3], func(m MasterStatus) bool { return !strings.HasPrefix(m.Reason, "cannot connect") })
		})
		began := time.Now()
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		if err := p.Close(ctx); err != nil || time.Since(began) > time.Second {
			s.Errorf("Close: got %v after %v, want nil at once", err, time.Since(began))
		}
	})
}

// Close delivers pending releases where they can be delivered within its context.
func TestCloseDeliversWhatIsOwed(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		held := p.lock(one("r", time.Minute))
		p.holdReplies(0, 1, 2, 3, 4)
		p.align()
		p.unlock(held.Token, "r").want(s, "UNLOCK", "0 of 5 masters voted", giveUpNeeded)
		time.AfterFunc(300*ms, func() { p.heal(0, 1, 2, 3, 4) })
		ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			s.Errorf("Close: got %v", err)
		}
		s.wantNoLocks()
	})
}

// Several resources are locked together or not at all, whatever sets others ask for.
func TestSeveralResources(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		c := p.lock(one("c", time.Minute))
		p.lock(several(time.Minute, "a", "b", "c")).want(s, "LOCK of a, b, c with c held", "no", 0)
		for _, key := range []string{"a", "b"} {
			for i, m := range s.masters {
				if _, _, ok := m.Get(key); ok {
					s.Errorf("master %d keeps %s of a lock that was denied", i+1, key)
				}
			}
		}
		waiter := p.begin(several(time.Minute, "a", "b", "c").waits(time.Second))
		p.unlock(c.Token, "c")
		p.finish(waiter)
		if !waiter.Held {
			s.Errorf("LOCK of a, b, c: got %+v, want held", waiter.Result)
		}
		for _, key := range []string{"a", "b", "c"} {
			s.wantOn(key, waiter.Token, "11111")
		}
		p.extend(waiter.Token, 2*time.Minute, "a", "b", "c").want(s, "EXTEND", "ttl of 120000 ms is above the most", 0)
		p.extend(waiter.Token, 30*time.Second, "c", "a", "b").want(s, "EXTEND in another order", "held", 0)
		s.do(0, "DEL", "b")
		p.extend(waiter.Token, 30*time.Second, "a", "b", "c").want(s, "EXTEND with a hole on one master", "held", 0)
		s.wantOn("b", waiter.Token, "11111")
		p.unlock(waiter.Token, "a", "b", "c").want(s, "UNLOCK", "held", 0)
		s.wantNoLocks()
	})
}

// A full queue sheds acquisitions, and never a release.
func TestQueueMaxShedsAcquisitionsOnly(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.QueueMax = 16 })
		var held []*call
		for i := range 40 {
			held = append(held, p.lock(one(fmt.Sprint("r", i), time.Minute)))
		}
		p.align()
		// Three masters take 30 ms: what comes meanwhile queues.
		p.delay(0, 30*ms, 0, 1, 2)
		p.begin(one("first", time.Minute))
		var released, asked []*call
		for i := range 40 {
			c := p.startUnlock(held[i].Token, fmt.Sprint("r", i))
			released = append(released, c)
		}
		for i := range 40 {
			asked = append(asked, p.begin(one(fmt.Sprint("s", i), time.Minute)))
		}
		for i, c := range asked {
			c.want(s, fmt.Sprintf("LOCK %d on full queues", i), "queue is full (queue_max)", 0)
		}
		if shed := p.Masters()[0].Shed; shed != 40 {
			s.Errorf("shed by master 1: got %d, want 40", shed)
		}
		time.Sleep(200 * ms)
		for i, c := range released {
			if p.finish(c); !c.Held {
				s.Errorf("UNLOCK %d: got %+v, want held", i, c.Result)
			}
		}
		for i := range s.masters {
			if keys := locksOn(s.masters[i]); len(keys) != 1 || keys[0] != "first" {
				s.Errorf("locks on master %d: got %q, want only the first", i+1, keys)
			}
		}
	})
}

// What is over of a wait when its LOCK is started is not waited for again. The limit is for the whole of it.
func TestWaitThatIsPartlyOver(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.lock(one("r", time.Minute)).want(s, "LOCK", "held", 0)
		for _, tt := range []struct{ wait, waited, took time.Duration }{
			{time.Second, 0, time.Second}, {time.Second, 700 * ms, 300 * ms}, {time.Second, time.Second, 0}, {time.Second, time.Hour, 0},
		} {
			req := one("r", time.Minute).waits(tt.wait)
			req.Waited = tt.waited
			if c := p.lock(req); c.Err != nil || c.Held || (c.took-tt.took).Abs() > 5*ms {
				s.Errorf("WAIT %v of which %v are over: got %+v after %v, want denied after %v", tt.wait, tt.waited, c.Result, c.took, tt.took)
			}
		}
		req := one("r", time.Minute).waits(2 * time.Hour)
		req.Waited = 90 * time.Minute
		if c := p.lock(req); c.Err == nil || !strings.Contains(c.Err.Error(), "WAIT of 7200000 is outside") {
			s.Errorf("WAIT of 2 h of which the half is over: got %+v, want that it is too long", c.Result)
		}
	})
}

// waitsForAnother opens a client with a LOCK of r that waits, and pauses, for another client has r.
func (s *stage) waitsForAnother() (p *proxy, waiter *call) {
	s.Helper()
	p, other := s.open(), s.open()
	other.lock(one("r", time.Minute))
	waiter = p.begin(one("r", time.Minute).waits(30 * time.Second))
	time.Sleep(100 * ms)
	return p, waiter
}

// What happens when the wait of a LOCK has run out: one that asks is decided by that, a head that pauses for long asks once more, and all others are
// answered at once.
func TestEndOfAWait(t *testing.T) {
	for name, tt := range map[string]struct {
		before           func(p *proxy, w *waiter)
		asks, last, over bool
		err              string
	}{
		"it has its result":                    {before: func(_ *proxy, w *waiter) { w.answered = true }},
		"it asks":                              {before: func(p *proxy, w *waiter) { p.waiting.attemptLocked(w.op, &deferred{now: time.Now()}) }, asks: true, last: true},
		"it has asked lately":                  {before: func(p *proxy, w *waiter) { w.sentAt = time.Now().Add(-p.opts.RetryDelayMax) }, over: true},
		"it asked long ago":                    {before: func(p *proxy, w *waiter) { w.sentAt = time.Now().Add(-p.opts.RetryDelayMax - 1) }, asks: true, last: true},
		"it has never asked, and is not asked": {before: func(_ *proxy, w *waiter) { w.endPause() }, over: true},
		"it needs a higher ceiling": {before: func(_ *proxy, w *waiter) {
			w.aboveCeiling, w.op.ttl, w.op.Terms = true, 7*time.Second, &Terms{Delay: 3 * time.Second}
		}, over: true, err: "10000 ms"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, c := s.waitsForAnother()
			p.mu.Lock()
			tt.before(p, c.waiter)
			p.mu.Unlock()
			p.waiting.waitTimedOut(&c.Op)
			p.mu.Lock()
			w := c.waiter
			if asks := w.attempt != nil; asks != tt.asks || w.last != tt.last || c.done.Load() != tt.over {
				s.Errorf("%s: asks %t, for the last time %t, answered %t; want %t, %t, %t", name, asks, w.last, c.done.Load(), tt.asks, tt.last, tt.over)
			}
			if (tt.asks || tt.over) && w.retry != nil {
				s.Errorf("%s: a pause goes on", name)
			}
			if tt.over && (tt.err == "" && c.Err != nil || !strings.Contains(fmt.Sprint(c.Err), cmp.Or(tt.err, "nil"))) {
				s.Errorf("%s: got %v, want %q", name, c.Err, tt.err)
			}
			if w.answered && !tt.over {
				w.answered = false
			}
			p.mu.Unlock()
			p.Drain()
		})
	}
}

// What a waiter is told that asks nothing itself is what the head was told last. While the first answer is on its way, none is known.
func TestLastAnswerOfAQueue(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		silence, asked := errors.New("silence"), &round{view: p.fleet.view.Load()}
		for name, tt := range map[string]struct {
			head   waiter
			denied bool // the queue's head was
			mine   waiter
			err    string // "": none
			known  bool
		}{
			"the head found no quorum":             {head: waiter{lastErr: silence}, err: "silence", known: true},
			"it found none, and was denied before": {head: waiter{lastErr: silence}, denied: true, err: "silence", known: true},
			"the head was denied":                  {denied: true, known: true},
			"it was denied, and asks again":        {head: waiter{attempt: asked}, denied: true, known: true},
			"the waiter was denied":                {mine: waiter{sentAt: time.Now()}, known: true},
			"the waiter was denied, the head asks": {head: waiter{attempt: asked}, mine: waiter{sentAt: time.Now()}, known: true},
			"the waiter found no quorum":           {mine: waiter{sentAt: time.Now(), lastErr: silence}, err: "0 of 5 masters voted", known: true},
			"the waiter asks":                      {mine: waiter{sentAt: time.Now(), attempt: asked}, err: "0 of 5 masters voted", known: true},
			"the waiter asks, and the head":        {head: waiter{attempt: asked}, mine: waiter{sentAt: time.Now(), attempt: asked}, err: "5 more have not answered yet"},
			"nobody has asked":                     {err: "0 of 5 masters voted", known: true},
			"the head asks for the first time":     {head: waiter{attempt: asked}, err: "5 more have not answered yet"},
		} {
			e := &entry{}
			e.queue.head, e.queue.denied = &tt.head, tt.denied
			tt.mine.entry = e
			p.mu.Lock()
			err, known := p.waiting.lastAnswerLocked(&tt.mine)
			p.mu.Unlock()
			if known != tt.known || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				s.Errorf("%s: got %v, known %t; want %q, %t", name, err, known, tt.err, tt.known)
			}
		}
	})
}

// A waiter that moves brings nothing along of the queue that it has left: no pause, and nothing that was learned of the other resource.
func TestWhoMovesBeginsAnew(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		other.lock(one("a", time.Minute))
		other.lock(one("b", time.Minute))
		c := p.begin(several(time.Minute, "a", "b").waits(time.Minute))
		time.Sleep(100 * ms)
		p.mu.Lock()
		w := c.waiter
		w.again, w.behindReaders, w.tracked[0] = true, true, tracked{changed: 0b1, absent: 0b10}
		p.waiting.moveToQueueLocked(w.op, w.entry.resource, &deferred{now: time.Now()})
		if !w.again || w.retry == nil {
			s.Error("it stays in its queue: want all as it was")
		}
		from := w.entry.resource
		p.waiting.moveToQueueLocked(w.op, map[string]string{"a": "b", "b": "a"}[from], &deferred{now: time.Now()})
		if w.again || w.behindReaders || w.retry != nil || w.tracked[0] != (tracked{awaited: quorum.All}) || w.entry.resource == from {
			s.Errorf("it moves: asks again %t, behind readers %t, pauses %t, tracks %+v", w.again, w.behindReaders, w.retry != nil, w.tracked[0])
		}
		p.mu.Unlock()
	})
}

// When the last waiter leaves, what was learned of the holder goes; whose turn it is stays.
func TestWhatAnEmptyQueueKeeps(t *testing.T) {
	turns := fairness{since: 7, said: 3, outrun: true, yield: &yield{id: "other"}}
	full := turns
	full.futileWakeups, full.windowOpen, full.windowAnnouncedBy = 5, true, 0b11
	q := waitQueue{denied: true, fairness: full}
	first, second := &waiter{op: &Op{writers: 1}, arrival: 1}, &waiter{op: &Op{}, arrival: 2}
	q.insertByArrival(first)
	q.insertByArrival(second)
	if q.remove(first); !q.denied || q.fairness != full || q.head != second || q.length != 1 || q.writers != 0 {
		t.Errorf("the first of two leaves: got %+v", q)
	}
	if q.remove(second); q.denied || q.fairness != turns || q.head != nil || q.tail != nil || q.length != 0 {
		t.Errorf("the last leaves: got %+v, want %+v", q.fairness, turns)
	}
}

// A LOCK of several stands behind those who wait for any of its resources, and a caller that may have no more waiters is refused, whatever its terms say.
func TestWhoBeginsToWait(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		other.lock(one("b", time.Minute))
		share := &Share{MaxWaiters: 1}
		first := &call{began: time.Now()}
		first.Share = share
		p.StartLock(&first.Op, one("b", time.Minute).waits(time.Minute), first)
		time.Sleep(50 * ms)
		attempts := p.Stats().Attempts
		behind := p.begin(several(time.Minute, "a", "b").waits(time.Minute))
		if behind.waiter.entry.resource != "b" || p.Stats().Attempts != attempts {
			s.Errorf("somebody waits for b: a LOCK of a and b waits for %s, and has asked %d times; want for b, and 0", behind.waiter.entry.resource, p.Stats().Attempts-attempts)
		}
		refused := &call{began: time.Now()}
		refused.Share, refused.Terms = share, &Terms{Waiters: []*Share{{MaxWaiters: 9}}}
		p.StartLock(&refused.Op, one("b", time.Minute).waits(time.Minute), refused)
		refused.want(s, "one waiter more than its share may have", "waiters", 0)
		if p.Drain(); p.Stats().Attempts != attempts {
			s.Errorf("draining: those behind a head that is told so have asked %d times", p.Stats().Attempts-attempts)
		}
	})
}

// Unblock without an error is a denial, and is counted as one; with an error it is none.
func TestUnblockIsCounted(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		other.lock(one("r", time.Minute))
		for _, tt := range []struct {
			err  error
			want uint64
		}{{nil, 1}, {context.Canceled, 0}} {
			c := p.begin(one("r", time.Minute).waits(time.Minute))
			time.Sleep(50 * ms)
			before := p.Stats().Denied
			p.Unblock(&c.Op, tt.err)
			if got := p.Stats().Denied - before; got != tt.want || c.Err != tt.err {
				s.Errorf("Unblock with %v: got %v, and %d denials, want %d", tt.err, c.Err, got, tt.want)
			}
		}
	})
}

// A LOCK for which the ceiling has risen goes on once, if it still waits for that: as the head of its queue, or to look for a slot that its token may hold.
func TestWhoGoesOnWhenTheCeilingRises(t *testing.T) {
	for name, tt := range map[string]struct {
		behind bool
		change func(w *waiter)
		asks   bool
	}{
		"the head":            {false, func(*waiter) {}, true},
		"it has its result":   {false, func(w *waiter) { w.answered = true }, false},
		"it asks already":     {false, func(w *waiter) { w.attempt = &round{} }, false},
		"one behind the head": {true, func(*waiter) {}, false},
		"one that may hold a slot": {true, func(w *waiter) {
			w.op.kind, w.op.token, w.op.callerToken = &slotSearch{resource: "r", count: 2}, longValue, true
		}, true},
		"one that can hold none so": {true, func(w *waiter) { w.op.kind = &slotSearch{resource: "r", count: 2} }, false},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, c := s.waitsForAnother()
			if tt.behind {
				c = p.begin(one("r", time.Minute).waits(30 * time.Second))
			}
			p.mu.Lock()
			tt.change(c.waiter)
			d, asked := &deferred{now: time.Now()}, p.stats.Attempts
			if p.waiting.raisedLocked(&c.Op, d); (p.stats.Attempts > asked) != tt.asks {
				s.Errorf("%s: asks %d times, want it %t", name, p.stats.Attempts-asked, tt.asks)
			}
			if w := c.waiter; !tt.asks {
				w.answered, w.attempt, w.op.kind = false, nil, plainLock{}
			}
			p.mu.Unlock()
			p.runDeferred(d)
			time.Sleep(50 * ms)
		})
	}
}

// An observation that comes back says nothing to a waiter that has its result by then, or asks by then; and who is no head any more forgets that it was to
// ask again.
func TestObservationThatComesTooLate(t *testing.T) {
	for name, change := range map[string]func(p *proxy, w, older *waiter){
		"it has its result": func(_ *proxy, w, _ *waiter) { w.answered = true },
		"it asks":           func(_ *proxy, w, _ *waiter) { w.attempt = &round{} },
		"another one is before": func(p *proxy, w, older *waiter) {
			w.again, older.arrival = true, 0
			w.entry.queue.insertByArrival(older)
		},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, c := s.waitsForAnother()
			p.mu.Lock()
			w, d := c.waiter, &deferred{now: time.Now()}
			p.waiting.observeLocked(w.op, d)
			r := w.attempt
			older := &waiter{op: &Op{}, entry: w.entry}
			change(p, w, older)
			asks, attempts := w.attempt, p.stats.Attempts
			p.mu.Unlock()
			p.observationDecided(r, quorum.Yes, votesOf("GGGGG"), d)
			p.mu.Lock()
			if w.retry != nil || w.again || p.stats.Attempts != attempts || asks != r && w.attempt != asks {
				s.Errorf("%s: it pauses %t, is to ask again %t, has asked %d times; want nothing of that", name, w.retry != nil, w.again, p.stats.Attempts-attempts)
			}
			if older.next != nil {
				w.entry.queue.remove(older)
			}
			w.answered, w.attempt = false, nil
			p.mu.Unlock()
			p.runDeferred(d)
			p.Unblock(&c.Op, nil)
		})
	}
}

// What a failed attempt means for the queue of its waiter: whether the resource is held, and by others.
func TestFailedAttemptOfAHead(t *testing.T) {
	silence := errors.New("silence")
	for name, tt := range map[string]struct {
		of          []string // the LOCK's resources; it stands in the queue of a
		verb        verb
		reservation reservation
		denier      int // which of them all masters have named
		moves       int
		err         error

		queue          string // where it stands then
		denied, outrun bool   // the queue it stands in has its resource held, and it was in the queue of the one that denied it
		reserving      bool
	}{
		"held":                                   {of: []string{"a"}, queue: "a", denied: true, outrun: true},
		"no quorum":                              {of: []string{"a"}, err: silence, queue: "a"},
		"a of a and b":                           {of: []string{"a", "b"}, queue: "a", denied: true, outrun: true},
		"b of a and b":                           {of: []string{"a", "b"}, denier: 1, queue: "b", denied: true},
		"no quorum for a and b":                  {of: []string{"a", "b"}, denier: 1, err: silence, queue: "a"},
		"b, and it begins to reserve":            {of: []string{"a", "b"}, denier: 1, moves: reserveAfter - 1, queue: "a", reserving: true},
		"a step of a reservation":                {of: []string{"a", "b"}, verb: verbReserve, reservation: reservation{token: longValue}, queue: "a", denied: true, outrun: true, reserving: true},
		"a step of a reservation without quorum": {of: []string{"a", "b"}, verb: verbReserve, reservation: reservation{token: longValue}, err: silence, queue: "a", reserving: true},
		"all, after all were reserved":           {of: []string{"a", "b"}, reservation: reservation{token: longValue, held: 2}, queue: "a", denied: true, outrun: true},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(), s.open()
			other.lock(one("a", time.Minute))
			other.lock(one("b", time.Minute))
			c := p.begin(LockRequest{Resources: tt.of, TTL: time.Minute, Wait: 30 * time.Second})
			time.Sleep(50 * ms)
			p.mu.Lock()
			w, d := c.waiter, &deferred{now: time.Now()}
			p.waiting.moveToQueueLocked(w.op, "a", d)
			w.endPause()
			w.reservation, w.moves = tt.reservation, tt.moves
			r := &round{verb: tt.verb, view: p.fleet.view.Load(), answers: make([]answer, 5), keys: tt.of}
			r.votes.Store(uint64(votesOf("DDDDD")))
			for i := range r.answers {
				r.answers[i].denier = int32(tt.denier)
			}
			for _, resource := range tt.of {
				p.leases.entry(resource).queue.fairness = fairness{}
				p.leases.entry(resource).queue.denied = false
			}
			w.attempt = r
			p.waiting.deniedLocked(w.op, tt.err, d)
			q := &w.entry.queue
			if w.entry.resource != tt.queue || q.denied != tt.denied || q.fairness.outrun != tt.outrun || (w.reservation.token != "") != tt.reserving || !errors.Is(w.lastErr, tt.err) || w.attempt == r {
				s.Errorf("%s: it stands in the queue of %s, whose resource is held %t, and keeps it waiting %t; it reserves %t, and has found %v; want %s, %t, %t, %t, %v",
					name, w.entry.resource, q.denied, q.fairness.outrun, w.reservation.token != "", w.lastErr, tt.queue, tt.denied, tt.outrun, tt.reserving, tt.err)
			}
			p.mu.Unlock()
			p.runDeferred(d)
			p.Unblock(&c.Op, nil)
		})
	}
}

// The new head of a queue asks at once, unless it asks or pauses already, or this client knows of a lease that runs: then it pauses, and knows that
// another holds the resource.
func TestNewHead(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		held := p.lock(one("r", time.Minute))
		first, second := p.begin(one("r", time.Minute).waits(30*time.Second)), p.begin(one("r", time.Minute).waits(30*time.Second))
		p.mu.Lock()
		d := &deferred{now: time.Now()}
		w, e := first.waiter, p.leases.entries["r"]
		newHead := func(what string, w *waiter, attempts, pauses bool) {
			s.Helper()
			plainLock{}.newHead(p.Client, w, d)
			if (w.attempt != nil) != attempts || (w.retry != nil) != pauses {
				s.Errorf("%s: it asks: %v, pauses: %v; want %v, %v", what, w.attempt != nil, w.retry != nil, attempts, pauses)
			}
		}
		newHead("it is not the head", second.waiter, false, false)
		before := w.retry
		newHead("it pauses", w, false, true)
		if w.retry != before {
			s.Error("it pauses: it has begun another pause")
		}
		w.endPause()
		w.lastErr, e.queue.denied = ErrDraining, false
		newHead("a lease runs", w, false, true)
		if w.lastErr != nil || !e.queue.denied {
			s.Errorf("a lease runs: got the last answer %v, and denied %v, want none, true", w.lastErr, e.queue.denied)
		}
		w.endPause()
		e.lease.validUntil = d.now
		newHead("a lease is over", w, true, false)
		asked := w.attempt
		newHead("it asks", w, true, false)
		if w.attempt != asked {
			s.Error("it asks: it has begun another attempt")
		}
		p.mu.Unlock()
		p.runDeferred(d)
		p.unlock(held.Token, "r")
		p.finish(first).want(s, "the head", "held", 0)
		p.unlock(first.Token, "r")
		p.finish(second).want(s, "the next", "held", 0)
	})
}

// A waiter that leaves does not have the head ask that pauses.
func TestWhoLeavesWakesNobody(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.lock(one("r", time.Minute))
		p.begin(one("r", time.Minute).waits(30 * time.Second))
		behind := p.begin(one("r", time.Minute).waits(30 * time.Second))
		before := p.Stats().Attempts
		p.Unblock(&behind.Op, context.Canceled)
		synctest.Wait()
		if got := p.Stats().Attempts; got != before {
			s.Errorf("%d attempts behind one that has left, want none", got-before)
		}
	})
}

// An observation by which a quorum is free of the key was split: the pause is short.
func TestObservationOfAFreeResource(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.lock(one("r", time.Minute))
		c := p.begin(one("r", time.Minute).waits(30 * time.Second))
		p.mu.Lock()
		defer p.mu.Unlock()
		for found, splits := range map[int]int{5: 0, 3: 0, 2: 1, 0: 1} {
			c.waiter.splits = 0
			r := &round{view: p.fleet.view.Load(), answers: make([]answer, 5)}
			for i := range r.answers {
				r.answers[i] = answer{known: true, found: i < found, ttl: time.Minute}
			}
			plainLock{}.observed(p.Client, c.waiter, r, &deferred{now: time.Now()})
			if c.waiter.splits != splits || c.waiter.retry == nil {
				s.Errorf("%d of 5 have the key: got %d split votes, and a pause: %v; want %d, true", found, c.waiter.splits, c.waiter.retry != nil, splits)
			}
		}
	})
}

// A LOCK under a token that is still to be made holds nothing, also where a library has set an empty value: it waits behind those who wait.
func TestEmptyValueIsNobodysToken(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		p.commit(setNX("r", "", time.Minute)).want(s, "SET NX of nothing", "held", 0)
		p.begin(one("r", time.Minute).waits(time.Minute))
		time.Sleep(50 * ms)
		asked := p.Stats().Attempts
		p.lock(one("r", time.Minute)).want(s, "LOCK", "no", 0)
		if got := p.Stats().Attempts - asked; got != 0 {
			s.Errorf("it has asked %d times, before one that waits", got)
		}
	})
}
