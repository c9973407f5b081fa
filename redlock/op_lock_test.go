package redlock

// Goal: a LOCK is counted as what it came to, is refused before it asks a master where that is known, and asks again for a higher fence as long as that
// can help. Method: virtual time, exact counts of rounds.

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/fence"
	"redlockd/redlock/lua"
)

// Each LOCK counts once, by its outcome. Rounds count those that were decided, and how long they took.
func TestOutcomesOfLocks(t *testing.T) {
	const trip = 4 * ms
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.FenceAlways, o.RetryDelayMin, o.RetryDelayMax = true, 5*time.Second, 5*time.Second })
		p.delay(trip/2, trip/2, 0, 1, 2, 3, 4)
		before := p.Stats()
		want := func(what, counts string) {
			s.Helper()
			synctest.Wait()
			now := p.Stats()
			got := fmt.Sprintf("%d granted, %d denied, %d without a quorum; %d rounds of %v", now.Granted-before.Granted, now.Denied-before.Denied,
				now.NoQuorum-before.NoQuorum, total(now.Rounds.Buckets[:])-total(before.Rounds.Buckets[:]), now.Rounds.Sum-before.Rounds.Sum)
			if got != counts {
				s.Errorf("%s: got %s, want %s", what, got, counts)
			}
			before = now
		}
		held := p.lock(one("r", time.Minute))
		want("a grant", "1 granted, 0 denied, 0 without a quorum; 1 rounds of 4ms")
		if held.Fence == 0 {
			s.Errorf("LOCK where all have a fence: got %+v, want one", held.Result)
		}
		p.lock(one("r", time.Minute)).want(s, "LOCK of a held one", "no", trip)
		want("a denial", "0 granted, 1 denied, 0 without a quorum; 1 rounds of 4ms")
		waiting := one("r", time.Minute).waits(10 * time.Second)
		waiting.Waited = 9900 * ms
		p.lock(waiting).want(s, "LOCK that has waited for all but 100 ms", "no", 100*ms)
		want("a wait that runs out", "0 granted, 1 denied, 0 without a quorum; 1 rounds of 4ms")
		next := p.begin(one("r", time.Minute).waits(time.Minute))
		time.Sleep(10 * trip)
		want("a wait", "0 granted, 0 denied, 0 without a quorum; 1 rounds of 4ms")
		p.lock(one("r", time.Minute)).want(s, "LOCK behind one that waits", "no", 0)
		want("a denial without a round", "0 granted, 1 denied, 0 without a quorum; 0 rounds of 0s")
		p.unlock(held.Token, "r")
		p.finish(next).want(s, "the one that waits", "held", 11*trip)
		want("a wait that ends in a grant", "1 granted, 0 denied, 0 without a quorum; 1 rounds of 4ms")

		s.freeze(0, 1, 2)
		p.align()
		failed := p.lock(one("other", time.Minute))
		failed.want(s, "LOCK without a quorum", "2 of 5 masters voted", giveUpNeeded)
		if got := p.Stats().NoQuorumFor; got != failed.took {
			s.Errorf("after it: all have failed for %v, want %v", got, failed.took)
		}
		want("no quorum", fmt.Sprintf("0 granted, 0 denied, 1 without a quorum; 1 rounds of %v", giveUpNeeded))
		s.thaw(0, 1, 2)
		p.allUp()
		p.lock(one("third", time.Minute)).want(s, "LOCK with a quorum again", "held", trip)
		if got := p.Stats().NoQuorumFor; got != 0 {
			s.Errorf("after a grant: all have failed for %v, want 0", got)
		}
	})
}

// A lock of which a millisecond is left is one; one of which less is left is not, and the caller is told what it asked for.
func TestGrantThatComesLate(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.delay(9*ms, 10*ms, 0, 1, 2, 3, 4)
		c := p.lock(one("r", 20*ms))
		if c.want(s, "LOCK of which 1 ms is left", "held", 19*ms); c.Validity != ms {
			s.Errorf("validity: got %v, want 1ms", c.Validity)
		}
		p.delay(9*ms, 10500*time.Microsecond, 0, 1, 2, 3, 4)
		c = p.lock(one("other", 20*ms))
		if late, is := errors.AsType[*NoQuorumError](c.Err); !is || late.Late != 19500*time.Microsecond || late.TTL != 20*ms {
			s.Errorf("LOCK of which half a millisecond is left: got %+v, want that it came after 19.5ms, of 20ms", c.Result)
		}
		time.Sleep(40 * ms)
		s.wantSet("other", "00000")
	})
}

// A LOCK whose fence is too low asks again, eight times at most, while a quorum can grant it.
func TestFenceThatIsTooLow(t *testing.T) {
	all := []int{0, 1, 2, 3, 4}
	for name, tt := range map[string]struct {
		denied []int // where another holds the resource
		marked []int // where the mark of the resource is above the fence
		frozen []int
		raises int // how often the mark is raised, before each round
		result string
		rounds uint64
	}{
		"on all":                       {nil, all, nil, 1, "held", 2},
		"in eight rounds":              {nil, all, nil, 8, "held", 9},
		"in each round":                {nil, all, nil, 100, "no", 9},
		"beside two that deny":         {all[:2], all[2:], nil, 1, "held", 2},
		"beside three that are silent": {nil, all[3:], all[:3], 1, "2 of 5 masters voted", 1},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p := s.open()
				p.delay(2*ms, 2*ms, all...)
				p.delay(ms, ms, tt.denied...) // their votes come first
				s.doOn(tt.denied, "SET", "r", "another's token", "PX", 60_000)
				s.freeze(tt.frozen...)
				before := p.Stats().Attempts
				c := p.startLock(LockRequest{Resources: []string{"r"}, TTL: time.Minute, Fence: true})
				for i := 0; !c.done.Load() && i < 100; i++ {
					time.Sleep(ms)
					if i < tt.raises { // by one second each time
						s.doOn(tt.marked, "ZADD", lua.MarksKey, fence.Time(time.Now().Add(time.Duration(i+1)*time.Second)), "r")
					}
					time.Sleep(3 * ms)
					synctest.Wait()
				}
				if c.want(s, "LOCK", tt.result, c.took); p.Stats().Attempts-before != tt.rounds {
					s.Errorf("got %d rounds, want %d", p.Stats().Attempts-before, tt.rounds)
				}
			})
		})
	}
}

// What a share has no memory for is refused before a master is asked. A set of readers takes more for a long token.
func TestRefusedWithoutARound(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		u := of{p, &Share{MaxMemory: 1000}}
		token := strings.Repeat("t", 100)
		reader := one("r", time.Minute).as(token)
		reader.Shared = true
		before := p.Stats().Attempts
		p.finish(u.begin(reader)).want(s, "LOCK of a reader with a long token", "bytes that they may take of each master", 0)
		p.wantAttempts("it", before, 0)
		p.finish(u.begin(one("r", time.Minute).as(token))).want(s, "LOCK of a writer with a long token", "held", 0)
		p.lock(LockRequest{TTL: time.Minute, Slots: 2}).want(s, "LOCK of a slot of nothing", "resource", 0)
	})
}

// A caller's token that holds the lock takes no more of the share, goes on with the hold that it has, and is bound by the same max_hold.
func TestRepeatedLock(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.MaxHold = time.Minute })
		u := of{p, &Share{MaxLocks: 1}}
		req := one("r", 30*time.Second).as("T")
		p.finish(u.begin(req)).want(s, "LOCK", "held", 0)
		time.Sleep(20 * time.Second)
		p.finish(u.begin(req)).want(s, "LOCK again", "held", 0)
		if got := p.Stats().LongestHold; got != 20*time.Second {
			s.Errorf("the longest hold: got %v, want that of the first LOCK, 20s", got)
		}
		time.Sleep(20 * time.Second)
		before := p.Stats().Attempts
		p.finish(u.begin(req)).want(s, "LOCK again beyond max_hold", "(max_hold)", 0)
		p.wantAttempts("it", before, 0)
		if got := p.Usage(u.share).Locks; got != 1 {
			s.Errorf("the share has %d locks, want 1", got)
		}
	})
}

// The Delay is part of what may run: a LOCK raises the ceiling for both, and its caller has all of the TTL.
func TestDelayAboveTheCeiling(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(low)
		const ttl = 1500 * ms
		c := &call{Op: Op{Terms: &Terms{Delay: ttl}}, began: time.Now()}
		p.StartLock(&c.Op, one("r", ttl), c)
		if p.finish(c); !c.Held || c.Validity != ttl {
			s.Errorf("LOCK of 1.5s with as long a delay, above the ceiling of 2s: got %+v, want it held for 1.5s", c.Result)
		}
		if got := p.Membership().Ceiling; got < 2*ttl {
			s.Errorf("the ceiling: got %v, want 3s or more", got)
		}
	})
}

// What a request asks for decides on the kind: a reader has no fence, also where all have one.
func TestKindOfALock(t *testing.T) {
	for _, tt := range []struct {
		name    string
		req     LockRequest
		want    kind
		writers int32
		fenced  bool
	}{
		{"one", one("a", time.Second), plainLock{}, 1, true},
		{"several", several(time.Second, "a", "b"), severalLocks{}, 1, true},
		{"a reader", one("a", time.Second).sharing(), readerLock{}, 0, false},
		{"a slot", one("a", time.Second).of(3), &slotSearch{resource: "a", queue: slotsQueue("a"), count: 3}, 1, true},
	} {
		op := Op{keys: tt.req.Resources, fenced: true}
		op.setKind(&tt.req)
		if !reflect.DeepEqual(op.kind, tt.want) || op.writers != tt.writers || op.fenced != tt.fenced || op.isReader() != (tt.writers == 0) {
			t.Errorf("%s: got %T, %d writers, fenced %v, want %T, %d, %v", tt.name, op.kind, op.writers, op.fenced, tt.want, tt.writers, tt.fenced)
		}
	}
}

// SET NX suffices unless there is a fence, a token that masters may know, or something in the way that is no other token.
func TestVerbOfAPlainLock(t *testing.T) {
	for _, tt := range []struct {
		name string
		op   Op
		want verb
	}{
		{"a token of ours", Op{}, verbSet},
		{"one that waits", Op{waiter: &waiter{}}, verbSet},
		{"one that waits for readers", Op{waiter: &waiter{behindReaders: true}}, verbAcquire},
		{"a fence", Op{fenced: true}, verbAcquire},
		{"a token of the caller's own", Op{callerToken: true}, verbAcquire},
	} {
		tt.op.keys = []string{"a"}
		r := &round{verb: verbSet, op: &tt.op}
		if (plainLock{}).aim(nil, r); r.verb != tt.want || len(r.keys) != 1 || r.keys[0] != "a" {
			t.Errorf("%s: got verb %d of %q, want %d of a", tt.name, r.verb, r.keys, tt.want)
		}
	}
}
