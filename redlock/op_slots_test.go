package redlock

// Goal: at most k hold a semaphore; each holds a slot of its own, which is an ordinary lock; a token never holds two; and a slot that is free
// is found in one round, or in a few where the semaphore is nearly full. Method: virtual time over in-process masters.

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/redisproc"
)

func (r LockRequest) of(slots int) LockRequest { r.Slots = slots; return r }

// fill locks all slots of the semaphore, and returns the tokens by slot. No slots: it locks the resource, and returns its token by its name.
func (p *proxy) fill(resource string, slots int, ttl time.Duration) map[string]string {
	p.s.Helper()
	if slots == 0 {
		return map[string]string{resource: p.lock(one(resource, ttl)).Token}
	}
	held := map[string]string{}
	for range slots {
		c := p.lock(one(resource, ttl).of(slots))
		if !c.Held || held[c.Slot] != "" {
			p.s.Fatalf("LOCK %s SLOTS %d: got %+v, want a slot that is not among %v", resource, slots, c.Result, held)
		}
		held[c.Slot] = c.Token
	}
	return held
}

// wantAttempts checks how many rounds LOCKs have taken since before.
func (p *proxy) wantAttempts(what string, before uint64, want uint64) {
	p.s.Helper()
	if got := p.Stats().Attempts - before; got != want {
		p.s.Errorf("%s: got %d rounds, want %d", what, got, want)
	}
}

func TestSlots(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		const k = 4
		before := p.Stats().Attempts
		held := p.fill("jobs", k, time.Minute)
		p.wantAttempts("LOCKs of an idle semaphore", before, k)
		for i := range k {
			slot := fmt.Sprint("jobs#", i)
			s.wantOn(slot, held[slot], "11111")
		}
		before = p.Stats().Attempts
		p.lock(one("jobs", time.Minute).of(k)).want(s, "LOCK of a full semaphore", "no", 0)
		p.wantAttempts("LOCK of a full semaphore", before, 1)
		other.lock(one("jobs", time.Minute).of(k)).want(s, "LOCK of a full semaphore through another client", "no", 0)

		// A slot is an ordinary lock.
		p.lock(one("jobs#2", time.Minute)).want(s, "LOCK of a slot that is held", "no", 0)
		other.extend(held["jobs#2"], time.Minute, "jobs#2").want(s, "EXTEND of a slot", "held", 0)
		other.unlock(held["jobs#2"], "jobs#2").want(s, "UNLOCK of a slot", "held", 0)
		s.wantSet("jobs#2", "00000")

		// The only free slot is found in the second round at the latest.
		for range 20 {
			before := other.Stats().Attempts
			c := other.lock(one("jobs", time.Minute).of(k))
			if c.Slot != "jobs#2" {
				s.Fatalf("LOCK with one slot free: got %+v, want jobs#2", c.Result)
			}
			if got := other.Stats().Attempts - before; got > 2 {
				s.Errorf("LOCK with one slot free: got %d rounds, want 2 at most", got)
			}
			other.unlock(c.Token, c.Slot)
		}
		p.lock(one("jobs", time.Minute)).want(s, "LOCK of the resource itself", "held", 0)
	})
}

func TestSlotsAreChecked(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		long := strings.Repeat("x", MaxResourceLen-2)
		for _, tt := range []struct {
			req  LockRequest
			want string
		}{
			{one("jobs", time.Minute).of(-1), "SLOTS of -1 is outside 1 … 32"},
			{one("jobs", time.Minute).of(33), "SLOTS of 33 is outside 1 … 32"},
			{several(time.Minute, "a", "b").of(2), "SLOTS is for one resource, and 2 are named"},
			{one(long, time.Minute).of(11), "the resource name has 1022 bytes, and its slots add 3: at most 1024 are possible"},
			{one("redlockd:jobs", time.Minute).of(2), "resource names that begin with redlockd: are kept"},
			{one("", time.Minute).of(2), "a resource name is empty"},
			{one("jobs", time.Hour).of(2), "above the most"},
		} {
			c := p.lock(tt.req)
			if c.Held || !errors.Is(c.Err, ErrBadRequest) || !strings.Contains(c.Err.Error(), tt.want) {
				s.Errorf("%.20q SLOTS %d: got %+v, want an error with %q", tt.req.Resources, tt.req.Slots, c.Result, tt.want)
			}
		}
		p.lock(one(long, time.Minute).of(10)).want(s, "the longest name", "held", 0)
		p.lock(one("jobs", time.Minute).of(MaxSlots)).want(s, "the most slots", "held", 0)
	})
}

func TestSlotOf(t *testing.T) {
	for _, tt := range []struct {
		name, resource string
		slot           int
		ok             bool
	}{
		{"jobs#0", "jobs", 0, true},
		{"jobs#31", "jobs", 31, true},
		{"a#1#2", "a#1", 2, true},
		{"jobs", "", 0, false},
		{"#1", "", 0, false},
		{"jobs#", "", 0, false},
		{"jobs#32", "", 0, false},
		{"jobs#01", "", 0, false},
		{"jobs#-1", "", 0, false},
		{"jobs#+1", "", 0, false},
		{"jobs#1x", "", 0, false},
		{"jobs#100", "", 0, false},
	} {
		if resource, slot, ok := SlotOf(tt.name); resource != tt.resource || slot != tt.slot || ok != tt.ok {
			t.Errorf("SlotOf(%q): got %q, %d, %v, want %q, %d, %v", tt.name, resource, slot, ok, tt.resource, tt.slot, tt.ok)
		}
	}
}

// A LOCK that is repeated with the caller's token gets the slot that it has, through every client, and never a second one.
func TestRepeatedLockGetsItsSlot(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		const k = 5
		for i := range 40 {
			token := fmt.Sprint("mine-", i)
			// Some of the slots are held, so that the first guess is often wrong.
			var filled []*call
			for range i % k {
				filled = append(filled, p.lock(one("jobs", time.Minute).of(k)))
			}
			first := p.lock(one("jobs", time.Minute).of(k).as(token))
			for _, c := range filled {
				p.unlock(c.Token, c.Slot)
			}
			rounds := uint64(2)
			if i%k == 0 {
				rounds = 1 // its first guess was right
			}
			for _, through := range []*proxy{other, p, other} {
				before := through.Stats().Attempts
				again := through.lock(one("jobs", time.Minute).of(k).as(token))
				if !again.Held || again.Slot != first.Slot {
					s.Fatalf("LOCK again with %s: got %+v, want %s", token, again.Result, first.Slot)
				}
				if got := through.Stats().Attempts - before; got > rounds {
					s.Errorf("LOCK again: got %d rounds, want %d at most", got, rounds)
				}
			}
			p.unlock(token, first.Slot).want(s, "UNLOCK", "held", 0)
			other.unlock(token, first.Slot).want(s, "UNLOCK through the other client", "no", 0) // which knows now that the slot is free
			s.wantNoLocks()
		}
	})
}

// A LOCK that is repeated gets its slot also through a client where others wait for one; and a new token waits behind them.
func TestRepeatedLockBesideWaitersGetsItsSlot(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(), s.open()
			const k = 3
			p.fill("jobs", k-1, time.Minute)
			mine := p.lock(one("jobs", time.Minute).of(k).as("mine"))
			var waiters []*call
			for range 2 {
				waiters = append(waiters, other.begin(one("jobs", time.Minute).of(k).waits(time.Minute)))
			}
			time.Sleep(time.Second)
			again := other.lock(one("jobs", time.Minute).of(k).as("mine").waits(wait))
			again.want(s, "LOCK again beside waiters", "held", 0)
			if again.Slot != mine.Slot {
				s.Errorf("LOCK again beside waiters: got %+v, want %s", again.Result, mine.Slot)
			}
			other.lock(one("jobs", time.Minute).of(k).as("new")).want(s, "LOCK with a new token", "no", 0)
			last := other.begin(one("jobs", time.Minute).of(k).as("new").waits(time.Minute))
			p.unlock("mine", mine.Slot)
			p.finish(waiters[0])
			if !waiters[0].Held || waiters[1].done.Load() || last.done.Load() {
				s.Errorf("after UNLOCK: got %+v, and the others are done: %v, %v; want that the first has it", waiters[0].Result, waiters[1].done.Load(), last.done.Load())
			}
		})
	}
}

// Two LOCKs with one token that are under way through two clients at the same time get one slot between them.
func TestTokenNeverHoldsTwoSlots(t *testing.T) {
	redisproc.NotRaced(t)
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		const k = 8
		for i := range 60 {
			token := fmt.Sprint("mine-", i)
			// The first guess of one client differs from that of the other.
			var taken []*call
			for range i % 3 {
				taken = append(taken, p.lock(one("jobs", time.Second).of(k)))
			}
			for m := range 5 {
				p.delay(time.Duration((i*7+m*3)%5)*ms, ms, m)
				other.delay(time.Duration((i*3+m*5)%7)*ms, ms, m)
			}
			a, b := &call{began: time.Now()}, &call{began: time.Now()}
			p.StartLock(&a.Op, one("jobs", time.Second).of(k).as(token), a)
			for _, c := range taken {
				other.startUnlock(c.Token, c.Slot)
			}
			time.Sleep(time.Duration(i%4) * ms)
			other.StartLock(&b.Op, one("jobs", time.Second).of(k).as(token), b)
			p.finish(a)
			other.finish(b)
			if a.Held && b.Held && a.Slot != b.Slot {
				s.Fatalf("two LOCKs with %s: got %s and %s, want one slot", token, a.Slot, b.Slot)
			}
			time.Sleep(50 * ms)
			on := 0
			for n := range k {
				if strings.Count(s.on(SlotName("jobs", n), token), "1") >= 3 {
					on++
				}
			}
			if on > 1 {
				s.Fatalf("%s holds %d slots on a quorum, want one at most", token, on)
			}
			for n := range k {
				p.unlock(token, SlotName("jobs", n))
			}
			time.Sleep(2 * time.Second)
		}
		s.wantNoLocks()
	})
}

// A master that was given what others remember may hold two slots of one token: what a round has left there, and what it was given. It gives
// neither again, so that a repetition finds the slot that the token has, or none.
func TestMasterWithTwoSlotsOfAToken(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		for i := range 20 { // the first guess is one of the two
			token, has, left := fmt.Sprint("mine-", i/2), SlotName("jobs", i%2), SlotName("jobs", 1-i%2)
			for m := range 5 {
				s.do(m, "DEL", has, left)
				if m >= 2 {
					s.do(m, "SET", has, token, "PX", 60_000)
				}
				if m == 2 {
					s.do(m, "SET", left, token, "PX", 60_000)
				}
			}
			if c := p.lock(one("jobs", time.Minute).of(2).as(token)); c.Held && c.Slot == left {
				s.Fatalf("LOCK with %s, which has %s on three masters and a rest of %s on one of them: got %s", token, has, left, c.Slot)
			}
		}
	})
}

// A split vote leaves nothing, and the next round asks for another slot.
func TestSplitSlotIsUndone(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		const k = 4
		for slot := range k { // on three masters each slot but the last is somebody's
			for m := range 3 {
				if slot < k-1 {
					s.do(m, "SET", SlotName("jobs", slot), "another's", "PX", 60_000)
				}
			}
		}
		for range 20 {
			c := p.lock(one("jobs", time.Minute).of(k))
			if c.Slot != "jobs#3" {
				s.Fatalf("LOCK: got %+v, want jobs#3", c.Result)
			}
			time.Sleep(ms)
			for slot := range k - 1 {
				for m := 3; m < 5; m++ {
					if value, _, ok := s.masters[m].Get(SlotName("jobs", slot)); ok {
						s.Errorf("master %d holds %s for %q, want it undone", m+1, SlotName("jobs", slot), value)
					}
				}
			}
			p.unlock(c.Token, c.Slot)
		}
	})
}

// A slot that is not free on one master, for somebody's failed attempt is still there, is granted all the same. So is one on masters of which
// a minority is away, and one beside a key of another type.
func TestSlotsOverAMinority(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		const k = 3
		held := p.fill("jobs", k, time.Minute)
		s.do(0, "SET", "jobs#1", "left over", "PX", 600_000)
		p.unlock(held["jobs#1"], "jobs#1")
		s.do(1, "HSET", "jobs#1", "a", "b")
		for range 10 {
			c := p.lock(one("jobs", time.Minute).of(k))
			if c.Slot != "jobs#1" {
				s.Fatalf("LOCK with a slot that two masters do not give: got %+v, want jobs#1", c.Result)
			}
			s.wantOn("jobs#1", c.Token, "00111")
			p.unlock(c.Token, c.Slot)
		}
		for _, m := range []int{0, 2, 3, 4} {
			s.do(m, "DEL", "jobs#1")
			s.do(m, "HSET", "jobs#1", "a", "b")
		}
		other := s.open()
		s.masters[3].Crash(true)
		s.masters[4].Crash(true)
		s.until("two masters are away", func() bool { return other.states() == "uuudd" })
		s.do(0, "DEL", "jobs#1") // on one of the others it is free
		before := other.Stats().Attempts
		for range 10 {
			other.lock(one("jobs", time.Minute).of(k)).want(s, "LOCK beside a key of another type", "no", 0)
		}
		other.wantAttempts("LOCK beside a key of another type", before, 10)
		if got := s.do(1, "HGET", "jobs#1", "a"); got != "b" {
			s.Errorf("the key of another type: got %v, want it untouched", got)
		}
	})
}

// A client that sends UNLOCK behind a repeated LOCK ends without the lock: no other slot is asked for behind the UNLOCK.
func TestUnlockBehindARepeatedLockOfASlot(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		for i := range 30 {
			token := fmt.Sprint("mine-", i)
			filled := other.fill("jobs", 4, time.Minute)
			free := fmt.Sprint("jobs#", i%4)
			other.unlock(filled[free], free)
			first := other.lock(one("jobs", time.Minute).of(4).as(token))
			for slot, t := range filled {
				other.unlock(t, slot)
			}
			again := p.startLock(one("jobs", time.Minute).of(4).as(token))
			unlock := p.startUnlock(token, first.Slot)
			p.finish(again)
			p.finish(unlock).want(s, "UNLOCK behind a repeated LOCK", "held", 0)
			time.Sleep(ms)
			for n := range 4 {
				if on := s.on(SlotName("jobs", n), token); on != "00000" {
					s.Fatalf("%s after UNLOCK of %s: masters %s hold it, want none (LOCK: %+v)", SlotName("jobs", n), first.Slot, on, again.Result)
				}
			}
		}
	})
}

// What a client's caller never learns of is released, and the slot goes to somebody else.
func TestAbandonedSlot(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		const k = 2
		held := p.fill("jobs", k, time.Minute)
		left := p.begin(one("jobs", time.Minute).of(k).waits(time.Minute))
		next := p.begin(one("jobs", time.Minute).of(k).waits(time.Minute))
		p.unlock(held["jobs#0"], "jobs#0")
		if !left.Held || left.Slot != "jobs#0" {
			s.Fatalf("the first waiter: got %+v, want jobs#0", left.Result)
		}
		p.Abandon(&left.Op)
		synctest.Wait()
		if !next.done.Load() || next.Slot != "jobs#0" {
			s.Errorf("the second waiter: got %+v, want jobs#0 when the first has gone", next.Result)
		}
	})
}
