package redlock

// Goal: waiters for a slot are served first come, first served; a slot that is released is taken at once, wherever that happens; and those who
// wait cost the masters little. Method: virtual time over in-process masters.

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The release of a slot and the acquisition of the next waiter are one batch to every master: of exactly this slot. Several slots that are released
// at the same time go to as many waiters in one round trip.
func TestSlotHandOverInOneBatch(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.RetryDelayMin, o.RetryDelayMax = 5*time.Second, 5*time.Second })
		const k = 4
		held := p.fill("jobs", k, time.Minute)
		p.delay(3*ms, 4*ms, 0, 1, 2, 3, 4)
		var waiters []*call
		for range k {
			waiters = append(waiters, p.begin(one("jobs", time.Minute).of(k).waits(10*time.Second)))
		}
		time.Sleep(50 * ms)
		p.align()
		batches, attempts := p.Masters()[0].Batches, p.Stats().Attempts
		began := time.Now()
		for _, slot := range []string{"jobs#3", "jobs#1"} {
			p.startUnlock(held[slot], slot)
		}
		for i, slot := range []string{"jobs#3", "jobs#1"} {
			w := p.finish(waiters[i])
			if answered := w.began.Add(w.took).Sub(began); w.Slot != slot || answered < 7*ms || answered > 8*ms { // the second batch may go out a little later
				s.Errorf("waiter %d: got %+v after %v, want %s after one round trip, 7ms", i, w.Result, answered, slot)
			}
		}
		if got := p.Stats().Attempts - attempts; got != 2 {
			s.Errorf("rounds of two hand-overs: got %d, want 2", got)
		}
		time.Sleep(ms)
		if got := p.Masters()[0].Batches - batches; got > 2 { // the first may be on its way when the second comes
			s.Errorf("batches of two releases with a hand-over each: got %d, want no more than one for each", got)
		}
		if got := p.Stats().Handovers; got != 2 {
			s.Errorf("hand-overs: got %d, want 2", got)
		}
	})
}

// Those who come while slots are free ask at once, and not one after the other.
func TestWaitersOfAnIdleSemaphoreAskAtOnce(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.delay(3*ms, 4*ms, 0, 1, 2, 3, 4)
		const k = 16
		var calls []*call
		for range k {
			calls = append(calls, p.begin(one("jobs", time.Minute).of(k).waits(time.Minute)))
		}
		slots := map[string]bool{}
		for _, c := range calls {
			p.finish(c)
			slots[c.Slot] = true
			if c.took > 4*7*ms {
				s.Errorf("LOCK of an idle semaphore among %d: took %v, want a few round trips of 7ms", k, c.took)
			}
		}
		if len(slots) != k {
			s.Errorf("slots: got %v, want all %d", slots, k)
		}
	})
}

// Slots that are released elsewhere at the same time go to as many waiters at once.
func TestSlotsReleasedElsewhereAtOnce(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.subscribed()
		const k = 6
		held := other.fill("jobs", k, time.Minute)
		var waiters []*call
		for range k {
			waiters = append(waiters, p.begin(one("jobs", time.Minute).of(k).waits(10*time.Second)))
		}
		time.Sleep(time.Second)
		p.delay(3*ms, 4*ms, 0, 1, 2, 3, 4)
		began := time.Now()
		for slot, token := range held {
			other.startUnlock(token, slot)
		}
		for _, w := range waiters {
			p.finish(w)
		}
		if took := time.Since(began); took > 8*7*ms {
			s.Errorf("%d slots that were released at once: taken after %v, want within a few round trips of 7ms", k, took)
		}
	})
}

// A slot that fewer than a quorum of masters are free of is held.
func TestSlotThatAMinorityHasLostIsNotAskedFor(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.subscribed()
		other.fill("jobs", 2, time.Minute)
		s.doOn([]int{0, 1}, "DEL", "jobs#0")
		p.delay(ms, ms, 0, 1, 2, 3, 4)
		before := p.Stats().Attempts
		p.begin(one("jobs", time.Minute).of(2).waits(10 * time.Second))
		time.Sleep(5 * time.Second)
		if got := p.Stats().Attempts - before; got > 6 {
			s.Errorf("%d attempts in 5 s of waiting, want few", got)
		}
	})
}

// A slot whose holder is dead goes to the head when it ends.
func TestSlotThatEnds(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.subscribed()
		other.fill("jobs", 2, time.Minute)
		held := other.lock(one("x", time.Minute)) // keeps the client busy with something else
		defer other.unlock(held.Token, "x")
		other.extend(held.Token, time.Minute, "x")
		dead := p.begin(one("jobs", time.Minute).of(3).waits(time.Minute))
		if !dead.Held {
			s.Fatalf("the third slot: got %+v, want held", dead.Result)
		}
		p.unlock(dead.Token, dead.Slot)
		short := other.lock(one("jobs", 2*time.Second).of(3))
		waiter := p.begin(one("jobs", time.Minute).of(3).waits(30 * time.Second))
		p.finish(waiter)
		if waiter.Slot != short.Slot || waiter.took < 1900*ms || waiter.took > 2300*ms {
			s.Errorf("a waiter for a slot that ends after 2 s: got %+v after %v", waiter.Result, waiter.took)
		}
	})
}

// The wait ends with null, and who did not wait gets null at once while others wait.
func TestSlotsWaitRunsOut(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.fill("jobs", 2, time.Minute)
		first := p.begin(one("jobs", time.Minute).of(2).waits(300 * ms))
		second := p.begin(one("jobs", time.Minute).of(2).waits(200 * ms))
		attempts := p.Stats().Attempts
		p.lock(one("jobs", time.Minute).of(2)).want(s, "LOCK without WAIT behind others", "no", 0)
		p.wantAttempts("LOCK without WAIT behind others", attempts, 0)
		p.lock(one("jobs", time.Minute)).want(s, "LOCK of the resource itself", "held", 0)
		p.finish(second).want(s, "the second waiter", "no", 200*ms)
		p.finish(first).want(s, "the first waiter", "no", 300*ms)
		if got := p.Stats().Waiters; got != 0 {
			s.Errorf("waiters: got %d, want 0", got)
		}
	})
}

// The clients of other proxies get slots too, while hand-overs here go on and on.
func TestSlotHandOversAreLimited(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.HandoverTime = 8 * ms })
		other := s.open()
		p.subscribed()
		other.subscribed()
		const k = 4
		held := p.fill("r", k, time.Minute)
		var ended atomic.Bool
		granted := p.keepBusy(20, k, func() bool { return !ended.Load() })
		synctest.Wait()
		foreign := other.begin(one("r", time.Minute).of(k).waits(time.Minute))
		for slot, token := range held {
			p.unlock(token, slot)
		}
		s.until("the other proxy's window", func() bool { return foreign.done.Load() })
		if n := granted.Load(); !foreign.Held || n > 400 {
			s.Errorf("the other proxy: got %+v after %d grants here, want held soon", foreign.Result, n)
		}
		ended.Store(true)
		other.unlock(foreign.Token, foreign.Slot)
		s.until("nobody waits", func() bool { return p.Stats().Waiters == 0 })
	})
}

// The slot of a window that no other client uses comes back when the window ends, while hand-overs of the others go on.
func TestSlotsOfWindowsComeBack(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.HandoverTime = 4 * ms })
		p.subscribed()
		const k = 4
		var ended atomic.Bool
		began := time.Now()
		granted := p.keepBusy(20, k, func() bool { return !ended.Load() })
		s.until("4000 grants", func() bool { return granted.Load() >= 4000 })
		// A grant takes a slot for 1 ms, and after 4 ms one of the slots is left for a window of 5 ms.
		if took := time.Since(began); took > 2*(4000*ms+1000/4*windowMin)/k {
			s.Errorf("4000 grants of %d slots: took %v, want that all slots are used", k, took)
		}
		ended.Store(true)
	})
}

// Waiters of one semaphore that name different k get only slots of their own.
func TestHandOverKeepsToTheSlotsOfTheWaiter(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		held := p.fill("jobs", 4, time.Minute)
		few := p.begin(one("jobs", time.Minute).of(2).waits(time.Minute))
		many := p.begin(one("jobs", time.Minute).of(4).waits(time.Minute))
		p.unlock(held["jobs#3"], "jobs#3")
		p.finish(many)
		if many.Slot != "jobs#3" || few.done.Load() {
			s.Errorf("UNLOCK jobs#3: the waiter of 4 slots got %+v, want jobs#3; that of 2 is done: %v, want that it waits", many.Result, few.done.Load())
		}
		p.unlock(held["jobs#0"], "jobs#0")
		p.finish(few)
		if few.Slot != "jobs#0" {
			s.Errorf("UNLOCK jobs#0: got %+v, want jobs#0", few.Result)
		}
	})
}

// A slot that was handed to a waiter who could not take it goes to the head.
func TestHandOverThatFails(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.subscribed()
		const k = 2
		held := p.fill("jobs", k, time.Minute)
		first := p.begin(one("jobs", time.Minute).of(k).waits(time.Minute))
		second := p.begin(one("jobs", time.Minute).of(k).waits(time.Minute))
		time.Sleep(time.Second)
		p.delay(3*ms, 4*ms, 0, 1, 2, 3, 4)
		p.startUnlock(held["jobs#0"], "jobs#0") // goes to the first
		p.startUnlock(held["jobs#1"], "jobs#1") // goes to the second
		time.Sleep(ms)
		p.Unblock(&second.Op, nil) // it is granted the slot all the same, and does not want it
		third := p.begin(one("jobs", time.Minute).of(k).waits(time.Minute))
		p.finish(first)
		p.finish(third)
		if first.Slot != "jobs#0" || third.Slot != "jobs#1" || third.took > 50*ms {
			s.Errorf("got %+v, and %+v after %v; want both slots taken at once", first.Result, third.Result, third.took)
		}
	})
}

// LOCKS and LOCKINFO show who waits for a slot.
func TestWaitersForSlotsAreShown(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.fill("jobs", 2, time.Minute)
		for range 3 {
			p.begin(one("jobs", time.Minute).of(2).waits(10 * time.Second))
		}
		var got []string
		for _, l := range p.Leases(func([]string) bool { return true }, 10) {
			got = append(got, fmt.Sprint(strings.Join(l.Resources, " "), " ", l.Waiters))
		}
		if want := []string{"jobs#* 3", "jobs#0 0", "jobs#1 0"}; !slices.Equal(got, want) {
			s.Errorf("Leases: got %q, want %q", got, want)
		}
		info, err := p.Inspect(s.Context(), "jobs#1")
		if err != nil || info.Waiters != 3 || !info.Held {
			s.Errorf("Inspect: got %+v, %v, want held and 3 waiters", info, err)
		}
	})
}
