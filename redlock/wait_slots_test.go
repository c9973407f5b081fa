package redlock

// Goal: waiters for a slot are served first come, first served; a slot that is released is taken at once, wherever that happens; and those who
// wait cost the masters little. Method: virtual time over in-process masters.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/quorum"
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

// waitersFor is a queue of waiters for a slot, each of which is one of k and has an attempt, or none.
func waitersFor(all ...*waiter) *waitQueue {
	e := &entry{}
	for i, w := range all {
		w.entry, w.arrival = e, uint64(i)
		e.queue.insertByArrival(w)
	}
	return &e.queue
}

func oneOf(k int, attempt *round) *waiter {
	return &waiter{op: &Op{kind: &slotSearch{count: k}}, attempt: attempt}
}

// A slot goes to the first waiter that can ask for it. Those that name too few slots are passed over, as long as there are not too many of them.
func TestWhoIsHandedASlot(t *testing.T) {
	asks, observes := &round{verb: verbSlot}, &round{verb: verbObserveSlots}
	behind := func(n int) (all []*waiter) {
		for range n {
			all = append(all, oneOf(1, nil))
		}
		return append(all, oneOf(4, nil))
	}
	for _, tt := range []struct {
		name    string
		waiters []*waiter
		slot    int
		want    int // the place of the waiter; -1: none
	}{
		{"nobody", nil, 0, -1},
		{"two", []*waiter{oneOf(2, nil), oneOf(2, nil)}, 1, 0},
		{"the first asks", []*waiter{oneOf(2, asks), oneOf(2, nil)}, 1, 1},
		{"the first observes", []*waiter{oneOf(2, observes), oneOf(2, nil)}, 1, 0},
		{"all ask", []*waiter{oneOf(2, asks), oneOf(2, asks)}, 1, -1},
		{"the last slot of the second", []*waiter{oneOf(2, nil), oneOf(3, nil)}, 2, 1},
		{"the first slot of all", behind(1), 0, 0},
		{"behind many that name too few", behind(2*MaxSlots - 1), 2, 2*MaxSlots - 1},
		{"behind too many", behind(2 * MaxSlots), 2, -1},
	} {
		got := slices.Index(tt.waiters, waitersFor(tt.waiters...).nextFor(tt.slot))
		if got != tt.want {
			t.Errorf("%s: slot %d goes to waiter %d, want %d", tt.name, tt.slot, got, tt.want)
		}
	}

	for _, tt := range []struct {
		denied bool
		length int
		want   bool
	}{{false, 1, true}, {false, 3, true}, {false, 4, false}, {true, 3, false}} {
		if got := (&slotSearch{count: 3}).asks(&waitQueue{denied: tt.denied, length: tt.length}); got != tt.want {
			t.Errorf("known to be full: %v, and %d wait for 3 slots: who comes asks: %v, want %v", tt.denied, tt.length, got, tt.want)
		}
	}

	asksFor := func(slot uint8) *waiter { return oneOf(4, &round{verb: verbSlot, slot: slot}) }
	for _, tt := range []struct {
		waiters []*waiter
		slots   int // it looks at so many waiters
		want    uint32
	}{
		{nil, 4, 0},
		{[]*waiter{asksFor(2), oneOf(4, nil), oneOf(4, observes), asksFor(0)}, 4, 1<<2 | 1<<0},
		{[]*waiter{asksFor(2), asksFor(1), asksFor(0)}, 3, 1<<2 | 1<<1 | 1<<0},
		{[]*waiter{asksFor(2), asksFor(1), asksFor(0)}, 2, 1<<2 | 1<<1},
		{[]*waiter{asksFor(2), asksFor(noSlot)}, 4, 1 << 2},
	} {
		if got := waitersFor(tt.waiters...).asked(tt.slots); got != tt.want {
			t.Errorf("%d waiters for %d slots ask for %b, want %b", len(tt.waiters), tt.slots, got, tt.want)
		}
	}

	// Another client may announce a slot that the head does not ask for.
	for slot, want := range []int{1, 2, 0} {
		w := oneOf(2, nil)
		if w.suggestSlot(slot); w.slots().next != want {
			t.Errorf("slot %d for one of 2: the hint is %d, want %d", slot, w.slots().next, want)
		}
	}

	got := map[int]int{}
	for range 200 {
		got[anySlot(1<<0|1<<1|1<<3)]++
	}
	if len(got) != 3 || got[0] == 0 || got[1] == 0 || got[3] == 0 {
		t.Errorf("any of the slots 0, 1 and 3, 200 times: got %v, want each", got)
	}
}

// A semaphore is full, as far as this client knows, when it has leased all slots. Then the first lease to end counts.
func TestAllSlotsAreLeasedHere(t *testing.T) {
	now := time.Now()
	const unknown, other = -1, -2
	for _, tt := range []struct {
		left []time.Duration // of the leases; unknown: there is no entry, other: one without a lease
		all  bool
		want time.Duration
	}{
		{[]time.Duration{2, 3, 4}, true, 2},
		{[]time.Duration{3, 2, 4}, true, 2},
		{[]time.Duration{4, 3, 2}, true, 2},
		{[]time.Duration{4, 0, 2}, false, 0},
		{[]time.Duration{4, unknown, 2}, false, 0},
		{[]time.Duration{4, other, 2}, false, 0},
		{[]time.Duration{4, 3}, false, 0},
	} {
		all := newLeases(nil, idleClient().drift)
		for i, left := range tt.left {
			if left == unknown {
				continue
			}
			e := all.entry(SlotName("jobs", i))
			if left != other {
				e.lease = &lease{validUntil: now.Add(left * time.Second), ttlMs: 60_000}
			}
		}
		first, full := (&waiting{leases: &all}).slotsLeasedLocked(&slotSearch{resource: "jobs", count: 3}, now)
		if want := all.keysEnd(&lease{validUntil: now.Add(tt.want * time.Second), ttlMs: 60_000}); full != tt.all || full && !first.Equal(want) {
			t.Errorf("leases of %v s: got all %v, the first ends after %v, want %v, %v", tt.left, full, first.Sub(now), tt.all, want.Sub(now))
		}
	}
}

func TestObservedSlots(t *testing.T) {
	held := func(ttl time.Duration) answer { return answer{found: true, ttl: ttl} }
	free, endless := answer{}, answer{found: true, ttl: -1}
	says := func(keys ...answer) answer { return answer{keys: keys} }
	promises := func(keys ...answer) answer { return answer{keys: keys, armed: true} }
	silent := answer{}
	const all = quorum.All
	for _, tt := range []struct {
		name    string
		answers []answer // of three masters, of two slots each
		free    uint32
		soon    time.Duration
		awaited [2]quorum.Mask // that announce what becomes of a slot; all: it is free, so nothing was learned
	}{
		{"free on a quorum", []answer{says(free, held(9)), says(free, held(9)), says(held(5), held(9))}, 1, 9, [2]quorum.Mask{all, 0}},
		{"both are free", []answer{says(free, free), says(free, free), says(free, free)}, 3, 0, [2]quorum.Mask{all, all}},
		{"free on one", []answer{says(held(9), free), says(held(9), held(5)), says(held(9), held(7))}, 0, 5, [2]quorum.Mask{}},
		{"the first ends first", []answer{promises(held(3), held(5)), says(held(3), held(5)), promises(held(3), held(5))}, 0, 3, [2]quorum.Mask{5, 5}},
		{"the second ends first", []answer{promises(held(5), held(3)), says(held(5), held(3)), promises(held(5), free)}, 0, 3, [2]quorum.Mask{5, 1}},
		{"the first has no end", []answer{says(endless, held(1)), says(endless, held(1)), says(endless, held(1))}, 0, 1, [2]quorum.Mask{}},
		{"the second has no end", []answer{says(held(1), endless), says(held(1), endless), says(held(1), endless)}, 0, 1, [2]quorum.Mask{}},
		{"one is silent", []answer{silent, promises(held(5), free), promises(held(7), free)}, 2, 5, [2]quorum.Mask{6, all}},
		{"two are silent", []answer{silent, promises(free, held(5)), silent}, 0, 0, [2]quorum.Mask{0, 2}},
	} {
		slots := []tracked{{awaited: all}, {awaited: all}}
		got, soon := observedSlots(tt.answers, slots, 2)
		if awaited := [2]quorum.Mask{slots[0].awaited, slots[1].awaited}; got != tt.free || soon != tt.soon || awaited != tt.awaited {
			t.Errorf("%s: got free %b, soon %d, awaited %b, want %b, %d, %b", tt.name, got, soon, awaited, tt.free, tt.soon, tt.awaited)
		}
	}
}

// A release here concerns those who wait for that slot, and nobody else.
func TestReleaseBesideWaitersForAnotherSemaphore(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.fill("jobs", 2, time.Minute)
		waiter := p.begin(one("jobs", time.Minute).of(2).waits(time.Minute))
		for _, req := range []LockRequest{one("more", time.Minute).of(2), one("r", time.Minute)} {
			c := p.lock(req)
			p.unlock(c.Token, cmp.Or(c.Slot, "r")).want(s, "UNLOCK of something else", "held", 0)
		}
		waiter.want(s, "a waiter for a slot, and releases of others", "under way", 0)
	})
}

// A hand-over is one round for the slot that was released, also if this client knows nothing of the others.
func TestHandOverIsOfTheSlotThatWasReleased(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		for slot := range MaxSlots {
			if slot != 7 {
				s.doAll("SET", SlotName("jobs", slot), "another's", "PX", 60_000)
			}
		}
		held := p.lock(one("jobs", time.Minute).of(MaxSlots))
		waiter := p.begin(one("jobs", time.Minute).of(MaxSlots).waits(time.Minute))
		before := p.Stats().Attempts
		p.unlock(held.Token, "jobs#7")
		if !waiter.done.Load() || waiter.Slot != "jobs#7" {
			s.Errorf("UNLOCK jobs#7: the waiter got %+v, want jobs#7", waiter.Result)
		}
		p.wantAttempts("the hand-over", before, 1)
	})
}

// A slot that is released while the only waiter asks, too early to get it, is asked for again as soon as that was denied.
func TestSlotThatIsReleasedWhileTheHeadAsks(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		held := p.fill("jobs", 1, time.Minute)
		p.delay(3*ms, 4*ms, 0, 1, 2, 3, 4)
		waiter := p.startLock(one("jobs", time.Minute).of(1).waits(time.Minute))
		time.Sleep(ms)
		p.startUnlock(held["jobs#0"], "jobs#0")
		p.finish(waiter).want(s, "the waiter, after two round trips", "held", 14*ms)
	})
}

// One more waits than there are slots: it asks when the first has got one, is denied, and gets the first slot that ends. Until then who does not wait is
// denied without a round.
func TestWaiterBehindThoseOfAnIdleSemaphore(t *testing.T) {
	for k := 1; k <= 2; k++ {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(func(o *Options) { o.RetryDelayMin, o.RetryDelayMax = 500*ms, 500*ms })
			p.delay(3*ms, 4*ms, 0, 1, 2, 3, 4)
			var first []*call
			for range k {
				first = append(first, p.startLock(one("jobs", 2*time.Second).of(k).waits(time.Minute)))
			}
			last := p.startLock(one("jobs", time.Minute).of(k).waits(30 * time.Second))
			for _, c := range first {
				if p.finish(c); !c.Held || c.took > 4*7*ms {
					s.Errorf("one of the first %d: got %+v after %v, want held after a few round trips of 7ms", k, c.Result, c.took)
				}
			}
			time.Sleep(50 * ms)
			before := p.Stats().Attempts
			p.lock(one("jobs", time.Minute).of(k)).want(s, "LOCK without WAIT behind one that waits", "no", 0)
			p.wantAttempts("LOCK without WAIT behind one that waits", before, 0)
			if p.finish(last); !last.Held || last.took < 1900*ms || last.took > 2300*ms {
				s.Errorf("the waiter behind %d: got %+v after %v, want a slot when the first ends, after 2s", k, last.Result, last.took)
			}
		})
	}
}

// A waiter that goes does not disturb the head, which asks or pauses. If it was the head itself, the next one pauses while all slots are leased here.
func TestWaiterForASlotThatGoes(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.RetryDelayMin, o.RetryDelayMax = 20*time.Second, 20*time.Second })
		held := p.fill("jobs", 2, time.Minute)
		var calls []*call
		for range 4 {
			calls = append(calls, p.begin(one("jobs", time.Minute).of(2).waits(time.Minute)))
		}
		leaves := func(c *call) {
			p.Unblock(&c.Op, nil)
			synctest.Wait()
		}
		head, next := calls[0].waiter, calls[1].waiter
		pause := head.retry
		if leaves(calls[3]); pause == nil || head.retry != pause || head.attempt != nil {
			s.Errorf("a waiter behind a head that pauses has gone: the head has the pause %p and attempt %p, want %p and none", head.retry, head.attempt, pause)
		}
		p.delay(3*ms, 4*ms, 0, 1, 2, 3, 4)
		next.lastErr = ErrNoQuorum
		if leaves(calls[0]); next.attempt != nil || next.retry == nil || next.lastErr != nil {
			s.Errorf("the head has gone, and all slots are leased here: the next one has attempt %p, pause %p, %v; want that it pauses, and knows that the slots are held",
				next.attempt, next.retry, next.lastErr)
		}
		p.startUnlock(held["jobs#1"], "jobs#1")
		attempt := next.attempt
		if leaves(calls[2]); attempt == nil || next.attempt != attempt {
			s.Errorf("a waiter behind a head that asks has gone: the head has attempt %p, want %p", next.attempt, attempt)
		}
		if p.finish(calls[1]); calls[1].Slot != "jobs#1" {
			s.Errorf("the head: got %+v, want jobs#1", calls[1].Result)
		}
	})
}

// What a head has observed: each slot that is free goes to a waiter, the head first; but in a window they are left to others, and a head that was denied
// although some are free asks for one of them alone, after a pause.
func TestWhatAHeadHasObserved(t *testing.T) {
	for _, tt := range []struct {
		name   string
		free   uint32
		window bool // of the client is open
		splits int  // attempts before that were denied although a slot was free
		want   string
	}{
		{"all are held", 0, false, 3, "asked for: 0, hint 0, splits 0, window false"},
		{"two are free", 5, false, 0, "asked for: 101, hint 0, splits 1, window false"},
		{"more are free than wait", 7, false, 0, "asked for: 2 of 111, hint 0, splits 1, window false"},
		{"one is free again", 2, false, 1, "asked for: 0, hint 2, splits 2, window false"},
		{"one is free in a window", 2, true, 0, "asked for: 0, hint 0, splits 0, window true"},
		{"none is free in a window", 0, true, 0, "asked for: 0, hint 0, splits 0, window false"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(), s.open()
			other.fill("jobs", 3, time.Minute)
			calls := []*call{p.begin(one("jobs", time.Minute).of(3).waits(time.Minute)), p.begin(one("jobs", time.Minute).of(3).waits(time.Minute))}
			p.delay(ms, ms, 0, 1, 2, 3, 4)
			w := calls[0].waiter
			r := &round{verb: verbObserveSlots, view: p.fleet.view.Load()}
			for range 5 {
				var keys []answer
				for slot := range 3 {
					keys = append(keys, answer{found: tt.free>>slot&1 == 0, ttl: time.Minute})
				}
				r.answers = append(r.answers, answer{keys: keys})
			}
			d := p.enter()
			queue := &w.entry.queue
			w.splits, queue.fairness.windowOpen = tt.splits, tt.window
			w.op.kind.observed(p.Client, w, r, d)
			var asked uint32
			n := 0
			for _, c := range calls {
				if c.waiter.attempt != nil {
					asked |= 1 << c.waiter.attempt.slot
					n++
				}
			}
			paused := w.retry != nil
			got := fmt.Sprintf("asked for: %b, hint %d, splits %d, window %v", asked, w.slots().next, w.splits, queue.fairness.windowOpen)
			if n == 2 && tt.free == 7 {
				got = fmt.Sprintf("asked for: 2 of %b, hint %d, splits %d, window %v", tt.free, w.slots().next, w.splits, queue.fairness.windowOpen)
			}
			p.leave(d)
			if got != tt.want || paused != (n == 0) {
				s.Errorf("%s: got %s, paused %v, want %s", tt.name, got, paused, tt.want)
			}
		})
	}
}

// openSlotWindow has three wait for the one slot of r, hands it over to the first, and opens a window after that. The other two still wait.
func (p *proxy) openSlotWindow() (waiters []*call) {
	p.s.Helper()
	held := p.fill("r", 1, time.Minute)
	for range 3 {
		waiters = append(waiters, p.begin(one("r", time.Minute).of(1).waits(time.Minute)))
	}
	p.unlock(held["r#0"], "r#0")
	time.Sleep(p.opts.HandoverTime)
	if waiters[0].done.Load() && !waiters[1].done.Load() {
		p.unlock(waiters[0].Token, "r#0")
	}
	if waiters = waiters[1:]; waiters[0].done.Load() || !p.windowOf(waiters[1]) {
		p.s.Fatalf("a release after handover_time: got %+v, want that the slot is left to others", waiters[0].Result)
	}
	return waiters
}

// windowOf tells whether the resource that c waits for is left to others.
func (p *proxy) windowOf(c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.waiter.entry.queue.fairness.windowOpen
}

// A slot that was left to the other clients goes to the next waiter here when the window ends, and the window is over then, though more wait.
func TestWindowOfASlotEnds(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) {
			o.RetryDelayMin, o.RetryDelayMax, o.HandoverTime = 5*time.Second, 5*time.Second, 10*ms
		})
		p.subscribed()
		waiters := p.openSlotWindow()
		time.Sleep(windowMin - ms)
		synctest.Wait()
		waiters[0].want(s, "the next waiter in the window", "under way", 0)
		time.Sleep(ms)
		synctest.Wait()
		if !waiters[0].done.Load() || waiters[0].Slot != "r#0" || p.windowOf(waiters[1]) {
			s.Errorf("the next waiter behind the window: got %+v, window open: %v, want r#0, and no window", waiters[0].Result, p.windowOf(waiters[1]))
		}
	})
}

// The masters say that a slot is left to others: a head of another client that hand-overs here have woken in vain, so that it asks late, asks in the window.
func TestWindowOfASlotIsAnnounced(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(func(o *Options) { o.HandoverTime = 10 * ms }), s.open()
		p.subscribed()
		other.subscribed()
		held := p.fill("r", 1, time.Minute)
		foreign := other.begin(one("r", time.Minute).of(1).waits(time.Minute))
		foreign.waiter.entry.queue.fairness.futileWakeups = 100
		first := p.begin(one("r", time.Minute).of(1).waits(time.Minute))
		second := p.begin(one("r", time.Minute).of(1).waits(time.Minute))
		p.unlock(held["r#0"], "r#0")
		time.Sleep(10 * ms)
		p.align()
		synctest.Wait()
		p.unlock(first.Token, "r#0")
		time.Sleep(ms)
		synctest.Wait()
		if !foreign.done.Load() || second.done.Load() {
			s.Errorf("the window of a slot: the other client got %+v, and the next waiter here %+v, want that the other client has it", foreign.Result, second.Result)
		}
	})
}

// The end of a window finds that nobody waits any more, or that all who wait ask already, or that somebody waits for the slot as a resource of its own.
func TestWindowOfASlotEndsInVain(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.waiting.slotWindowEnded("jobs#0")

		other.fill("jobs", 2, time.Minute)
		plain := p.begin(one("jobs#0", time.Minute).waits(time.Minute))
		pause := plain.waiter.retry
		p.waiting.slotWindowEnded("jobs#0")
		if plain.waiter.retry != pause || plain.waiter.attempt != nil {
			s.Errorf("a waiter for the slot as a resource: got pause %p and attempt %p, want %p and none", plain.waiter.retry, plain.waiter.attempt, pause)
		}

		p.delay(3*ms, 4*ms, 0, 1, 2, 3, 4)
		waiter := p.startLock(one("jobs", time.Minute).of(2).waits(time.Minute))
		attempt := waiter.waiter.attempt
		p.waiting.slotWindowEnded("jobs#1")
		if waiter.waiter.attempt != attempt || attempt == nil {
			s.Errorf("a waiter that asks: got attempt %p, want %p", waiter.waiter.attempt, attempt)
		}
	})
}
