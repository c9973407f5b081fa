package redlock

// Goal: a Share takes no more than its limits, and what ended in whatever way counts no more. Method: dialogues in virtual time, and the
// count of a random sequence of leases compared with one that is made anew each time.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/redisproc"

	"github.com/redis/go-redis/v9"
)

// of starts operations of one share.
type of struct {
	*proxy
	share *Share
}

func (u of) begin(req LockRequest) *call {
	c := &call{Op: Op{Share: u.share}, began: time.Now()}
	u.StartLock(&c.Op, req, c)
	return c
}

func (u of) lock(req LockRequest) *call { return u.finish(u.begin(req)) }

func (u of) commit(changes ...Change) *call {
	c := &call{Op: Op{Share: u.share}, began: time.Now()}
	u.StartCommit(&c.Op, changes, c)
	return u.finish(c)
}

func TestMaxLocksOfAShare(t *testing.T) {
	const full = "may lock 3 resources at the same time (max_locks)"
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		u := of{p, &Share{MaxLocks: 3}}
		a := u.lock(one("a", 10*time.Second))
		b := u.lock(one("b", time.Second).as("token-of-b"))
		u.commit(setNX("c", "a value of c that is unique", 5*time.Second)).want(s, "SET NX", "held", 0)
		u.lock(one("d", time.Second)).want(s, "LOCK beyond the limit", full, 0)
		u.lock(one("d", time.Second).waits(time.Second)).want(s, "LOCK WAIT beyond the limit", full, 0)
		u.commit(setNX("d", "a value of d that is unique", time.Second)).want(s, "SET NX beyond the limit", full, 0)
		of{p, &Share{MaxLocks: 3}}.lock(one("of another", time.Second)).want(s, "LOCK of another share", "held", 0)
		p.lock(one("of nobody", time.Second)).want(s, "LOCK without a share", "held", 0)

		p.extend(a.Token, 5*time.Second, "a").want(s, "EXTEND at the limit", "held", 0)
		u.lock(one("b", time.Second).as("token-of-b")).want(s, "repetition at the limit", "held", 0)
		u.commit(rotate("c", "a value of c that is unique", "another value that is unique", 5*time.Second)).want(s, "rotation at the limit", "held", 0)
		p.commit(compareAndExpire("c", "another value that is unique", 5*time.Second)).want(s, "EXPIRE at the limit", "held", 0)
		u.lock(one("d", time.Second)).want(s, "LOCK beyond the limit", full, 0)

		time.Sleep(b.Validity)
		u.lock(one("d", time.Second)).want(s, "LOCK while the masters keep one that has ended", full, 0)
		time.Sleep(padded(time.Second) - b.Validity + ms) // b's keys end, too
		u.lock(one("d", time.Second)).want(s, "LOCK after one has ended", "held", 0)
		u.lock(one("e", time.Second)).want(s, "LOCK beyond the limit", full, 0)
		p.unlock(a.Token, "a").want(s, "UNLOCK", "held", 0)
		u.lock(several(time.Second, "e", "f")).want(s, "LOCK of two where there is room for one", full, 0)
		u.lock(one("e", time.Second)).want(s, "LOCK after an UNLOCK", "held", 0)
		u.commit(compareAndDelete("c", "another value that is unique")).want(s, "compare and delete", "held", 0)
		time.Sleep(padded(time.Second) + ms)
		u.lock(several(time.Second, "e", "f", "g")).want(s, "LOCK of three", "held", 0)
		if got, want := p.Usage(u.share), (Usage{Locks: 3, Memory: lockMemory([]string{"a", "b", "c"}, a.Token, false)}); got != want {
			s.Errorf("usage: got %+v, want %+v", got, want)
		}
	})
}

// What is under way takes no room: it is refused when it is granted, and leaves nothing behind.
// What replaces something cannot be taken back, so it is done where the share has reached its limit meanwhile.
func TestReplacedBeyondMaxLocks(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		share := &Share{MaxLocks: 2}
		begin := func(changes ...Change) *call {
			c := &call{Op: Op{Share: share}, began: time.Now()}
			p.StartCommit(&c.Op, changes, c)
			return c
		}
		p.finish(begin(setNX("a", longValue, time.Minute))).want(s, "SET NX", "held", 0)
		p.delay(0, ms, 0, 1, 2, 3, 4)
		second := begin(setNX("b", longValue, time.Minute))
		synctest.Wait() // it departs alone
		rotated := begin(rotate("a", longValue, otherValue, time.Minute), setNX("c", longValue, time.Minute))
		p.finish(second).want(s, "SET NX of a second", "held", ms)
		p.finish(rotated).want(s, "rotation beside a third", "held", 2*ms)
	})
}

func TestMaxLocksOfAShareUnderWay(t *testing.T) {
	for _, commits := range []bool{false, true} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			u := of{p, &Share{MaxLocks: 2}}
			p.delay(ms, ms, 0, 1, 2, 3, 4)
			s.do(0, "SET", "k0", "another", "PX", 100)
			s.do(1, "SET", "k0", "another", "PX", 100)
			s.do(2, "SET", "k0", "another", "PX", 100)
			var calls []*call
			for i := range 6 {
				req := one(fmt.Sprint("k", i), time.Minute)
				if i%2 == 1 {
					req = req.as(fmt.Sprint("token of k", i))
				}
				if i > 3 {
					req = req.waits(time.Minute)
				}
				if commits && i%2 == 1 {
					c := &call{Op: Op{Share: u.share}, began: time.Now()}
					u.StartCommit(&c.Op, []Change{setNX(req.Resources[0], longValue, time.Minute)}, c)
					calls = append(calls, c)
					continue
				}
				calls = append(calls, u.begin(req))
			}
			p.finish(calls[0]).want(s, "LOCK of k0", "no", 2*ms)
			var held []string // which two, the goroutines of the lanes decide
			for i, c := range calls[1:] {
				key := fmt.Sprint("k", i+1)
				p.finish(c)
				_, refused := errors.AsType[*ShareError](c.Err)
				switch {
				case c.Held:
					held = append(held, key)
				case !refused || !errors.Is(c.Err, ErrLimit):
					s.Errorf("LOCK of %s: got %+v, want it held, or the limit", key, c.Result)
				}
			}
			if len(held) != 2 {
				s.Errorf("held: got %q, want two of them", held)
			}
			if n := p.Stats().NoQuorum; n != 0 {
				s.Errorf("%d are counted as without a quorum, want none: the limit refused them", n)
			}
			time.Sleep(200 * ms)
			for i, m := range s.masters {
				if got := locksOn(m); !slices.Equal(got, held) {
					s.Errorf("left on master %d: %q, want %q", i+1, got, held)
				}
			}
		})
	}
}

func TestMaxWaitersOfAShare(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		u, other := of{p, &Share{MaxWaiters: 2}}, of{p, &Share{MaxWaiters: 2}}
		held := p.lock(one("r", time.Minute))
		first, second := u.begin(one("r", time.Minute).waits(time.Minute)), u.begin(one("r", time.Minute).waits(100*ms))
		third := u.begin(one("r", time.Minute).waits(time.Minute))
		third.want(s, "one too many", "too many waiters: 2 LOCKs of this user may wait at the same time (max_waiters)", 0)
		if !errors.Is(third.Err, ErrTooManyWaiters) || !errors.Is(third.Err, ErrLimit) {
			s.Errorf("one too many: got %v", third.Err)
		}
		u.lock(one("r", time.Minute)).want(s, "LOCK without WAIT", "no", 0)
		other.begin(one("r", time.Minute).waits(time.Minute)).want(s, "LOCK WAIT of another share", "under way", 0)
		p.finish(second)
		u.begin(one("r", time.Minute).waits(time.Minute)).want(s, "when one has given up", "under way", 0)
		p.unlock(held.Token, "r")
		p.finish(first).want(s, "the first waiter", "held", first.took)
		u.begin(one("r", time.Minute).waits(time.Minute)).want(s, "when one has been granted", "under way", 0)
		if waiters := p.Usage(u.share).Waiters; waiters != 2 {
			s.Errorf("usage: got %d waiters, want 2", waiters)
		}
	})
}

func TestShareCounts(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		s, shares := newLeases(nil, clock.Drift{Factor: 0.1}), []*Share{{MaxLocks: 1 << 20}, {MaxMemory: 1 << 30}}
		now, longest := time.Now(), 0
		for range 2000 {
			now = now.Add(time.Duration(random.IntN(5)) * ms)
			switch key := fmt.Sprint(random.IntN(60)); random.IntN(3) {
			case 0:
				if e := s.entries[key]; e != nil && e.lease != nil {
					s.forget(e.lease)
				}
			default:
				ttl := 1 + random.IntN(200)
				granted := &lease{keys: []string{key}, token: strings.Repeat("t", random.IntN(50)), ttlMs: uint32(ttl), validUntil: now.Add(time.Duration(ttl) * ms)}
				if random.IntN(4) == 0 {
					granted.keys = append(granted.keys, key+"'")
				}
				s.grant(granted, shares[random.IntN(2)], time.Duration(random.IntN(2)*random.IntN(50))*ms, now)
			}
			for i, share := range shares {
				share.uncountEnded(now)
				var want Usage
				for _, lease := range s.all {
					if lease.share == share && now.Before(s.gone(lease)) {
						want.Locks += len(lease.keys)
						want.Memory += lockMemory(lease.keys, lease.token, lease.reader)
					}
				}
				if longest = max(longest, len(share.ends)); (Usage{Locks: share.locks, Memory: share.memory}) != want || longest > 300 {
					t.Fatalf("seed %d: share %d counts %d locks of %d bytes with a heap of %d, want %+v", seed, i, share.locks, share.memory, len(share.ends), want)
				}
			}
		}
	}
}

func TestMaxMemoryOfAShare(t *testing.T) {
	name, token := strings.Repeat("n", 500), strings.Repeat("t", 500)
	most := 2 * lockMemory([]string{name}, token, false)
	full := fmt.Sprintf("take %d of the %d bytes that they may take of each master (max_memory)", most, most)
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		u := of{p, &Share{MaxMemory: most}}
		half := fmt.Sprintf("take %d of the %d bytes", most/2, most)
		u.lock(several(time.Second, name, name+"b", name+"c").as(token)).want(s, "LOCK of three where there is room for two", fmt.Sprintf("take 0 of the %d bytes", most), 0)
		u.lock(one(name, 10*time.Second).as(token)).want(s, "LOCK", "held", 0)
		u.lock(one("r"+name[1:], time.Second).sharing().as(token)).want(s, "a reader, whose token counts twice", half, 0)
		u.commit(setNX("k"+name[1:], token, 10*time.Second)).want(s, "SET NX", "held", 0)
		u.lock(one("s", time.Second)).want(s, "LOCK beyond the limit", full, 0)
		u.lock(one("s", time.Second).waits(time.Second)).want(s, "LOCK WAIT beyond the limit", full, 0)
		u.commit(setNX("s", longValue, time.Second)).want(s, "SET NX beyond the limit", full, 0)
		of{p, &Share{MaxMemory: most}}.lock(one("of another", time.Second)).want(s, "LOCK of another share", "held", 0)

		p.extend(token, 5*time.Second, name).want(s, "EXTEND at the limit", "held", 0)
		u.lock(one(name, 5*time.Second).as(token)).want(s, "repetition at the limit", "held", 0)
		other := strings.Repeat("u", len(token))
		u.commit(rotate("k"+name[1:], token, other, 5*time.Second)).want(s, "rotation at the limit", "held", 0)
		u.commit(rotate("k"+name[1:], other, strings.Repeat("u", 900), 5*time.Second)).want(s, "rotation to a much longer value", full, 0)
		u.commit(rotate("k"+name[1:], other, other+"longer", 5*time.Second)).want(s, "rotation to a value that is a little longer", "held", 0)
		u.commit(rotate("k"+name[1:], other+"longer", longValue, 5*time.Second)).want(s, "rotation to a shorter value", "held", 0)
		p.unlock(token, name).want(s, "UNLOCK", "held", 0)
		time.Sleep(padded(5*time.Second) + ms)
		if got := p.Usage(u.share); got != (Usage{}) {
			s.Errorf("usage when all has ended: got %+v, want none", got)
		}
	})
}

// Redisson's unlock leaves a key, the latch, in the place of the lock. It must not fail because all is taken.
func TestReleaseAtTheLimitOfAShare(t *testing.T) {
	for _, limits := range []Share{{MaxLocks: 8}, {MaxMemory: 8 * lockMemory([]string{"r0"}, longValue, false)}} {
		inVirtualTime(t, 5, func(s *stage) {
			u := of{s.open(), &limits}
			for i := range 8 {
				u.commit(setNX(fmt.Sprint("r", i), longValue, 10*time.Second)).want(s, "SET NX", "held", 0)
			}
			if c := u.lock(one("r8", time.Second)); !errors.Is(c.Err, ErrLimit) {
				s.Errorf("LOCK beyond the limit: got %+v, want the limit", c.Result)
			}
			latch := "latch" + strings.Repeat("l", 100)
			u.commit(compareAndDelete("r0", longValue), setNX(latch, "1", time.Second)).want(s, "release", "held", 0)
			if got := u.Usage(u.share); got.Locks != 8 || limits.MaxMemory > 0 && got.Memory <= limits.MaxMemory {
				s.Errorf("usage: got %+v, want 8 locks, and more memory than the limit", got)
			}
		})
	}
}

// The estimate is no less than what a master takes, and the warning of a master that fills up names who takes most.
func TestRealMemoryOfAShare(t *testing.T) {
	const most = 4 << 20
	servers := redisproc.StartForTest(t, 1)
	client := redis.NewClient(&redis.Options{Addr: servers[0].Addr, Protocol: 2, DisableIdentity: true})
	defer client.Close()
	ctx := context.Background()
	used := func() int64 {
		n, err := strconv.ParseInt(client.InfoMap(ctx, "memory").Item("Memory", "used_memory"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	log := new(journal)
	c := openReal(t, servers, func(o *Options) { patient(o); log.option(o) })
	for _, length := range []int{20, 100, 900} {
		for _, shared := range []bool{false, true} {
			share := &Share{Name: fmt.Sprint("user", length, shared), MaxMemory: most}
			before, name := used(), strings.Repeat("n", length)
			var held []string
			for {
				resource, token := fmt.Sprint(len(held), name), fmt.Sprint(len(held), name)
				_, err := c.wait(ctx, func(op *Op, to Completer) {
					op.Share = share
					c.StartLock(op, LockRequest{Resources: []string{resource}, TTL: 20 * time.Second, Token: token, Shared: shared}, to)
				})
				if limit, ok := errors.AsType[*ShareError](err); ok && limit.Limit == LimitMemory {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				held = append(held, resource)
			}
			taken := used() - before
			t.Logf("names and tokens of %d bytes, shared: %v: %d locks take %d of the %d bytes", length, shared, len(held), taken, most)
			if taken > most || taken < most/2 {
				t.Errorf("names and tokens of %d bytes, shared: %v: %d locks take %d bytes, want from half to all of %d", length, shared, len(held), taken, most)
			}
			if length == 900 && shared {
				client.ConfigSet(ctx, "maxmemory", fmt.Sprint(used()+used()/10))
				for len(log.take(share.Name+": ")) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			for _, resource := range held {
				if err := c.Unlock(ctx, resource, resource); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// A share that gets other limits while it is in use: what it has taken before counts, also if it had no limit then.
func TestSetLimitsOfAShare(t *testing.T) {
	const full = "may lock 2 resources at the same time (max_locks)"
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		u := of{p, &Share{}}
		u.lock(one("a", time.Second))
		u.lock(one("b", 10*time.Second))
		u.lock(one("c", 10*time.Second))
		p.SetLimits(u.share, 2, 0, 1)
		u.lock(one("d", time.Second)).want(s, "LOCK beyond the new limit", full, 0)
		time.Sleep(padded(time.Second) + ms) // a ends by itself
		u.lock(one("d", time.Second)).want(s, "LOCK at the new limit", full, 0)
		p.SetLimits(u.share, 0, 0, 1)
		first := u.begin(one("b", time.Second).waits(time.Minute))
		u.lock(one("b", time.Second).waits(time.Minute)).want(s, "the second that waits", "too many waiters", 0)
		p.SetLimits(u.share, 0, 0, 0)
		u.lock(one("f", 10*time.Second)).want(s, "LOCK without a limit", "held", 0)
		p.SetLimits(u.share, 3, 0, 0)
		u.lock(one("e", time.Second)).want(s, "LOCK at the third limit", "may lock 3 resources", 0)
		if got := p.Usage(u.share); got.Locks != 3 || got.Waiters != 1 {
			s.Errorf("usage: got %+v, want 3 locks, 1 waiter", got)
		}
		p.Unblock(&first.Op, ErrNotHeld)
		u.finish(first)
	})
}

func TestWhichErrorAShareErrorIs(t *testing.T) {
	for limit, waiters := range map[string]bool{LimitLocks: false, LimitMemory: false, LimitBytes: false, LimitWaiters: true} {
		err := &ShareError{Limit: limit}
		if !errors.Is(err, ErrLimit) || errors.Is(err, ErrTooManyWaiters) != waiters || errors.Is(err, ErrNoQuorum) {
			t.Errorf("%s: is ErrLimit %t, ErrTooManyWaiters %t, ErrNoQuorum %t; want true, %t, false", limit, errors.Is(err, ErrLimit),
				errors.Is(err, ErrTooManyWaiters), errors.Is(err, ErrNoQuorum), waiters)
		}
	}
}

// A limit is reached by what comes on top of what is taken: locks and bytes each by their own. What needs no more locks has an eighth more memory, and
// what needs nothing more is never refused.
func TestWhatIsBeyondAShare(t *testing.T) {
	for name, tt := range map[string]struct {
		share         Share
		locks, memory int
		want          string
	}{
		"no limits":                                {Share{locks: 9, memory: 9000}, 5, 5000, ""},
		"the last lock":                            {Share{MaxLocks: 3, locks: 2}, 1, 100, ""},
		"a lock too many":                          {Share{MaxLocks: 3, locks: 3}, 1, 100, LimitLocks},
		"one of two too many":                      {Share{MaxLocks: 3, locks: 2}, 2, 100, LimitLocks},
		"no lock more":                             {Share{MaxLocks: 3, locks: 5}, 0, 100, ""},
		"a lock less":                              {Share{MaxLocks: 3, locks: 5}, -1, 100, ""},
		"the last byte":                            {Share{MaxMemory: 800, memory: 700}, 1, 100, ""},
		"a byte too many":                          {Share{MaxMemory: 800, memory: 800}, 1, 1, LimitMemory},
		"no byte more":                             {Share{MaxMemory: 800, memory: 2000}, 1, 0, ""},
		"fewer bytes":                              {Share{MaxMemory: 800, memory: 2000}, 1, -1, ""},
		"the last byte of an eighth more":          {Share{MaxMemory: 800, memory: 800}, 0, 100, ""},
		"the last byte where a lock goes":          {Share{MaxMemory: 800, memory: 800}, -1, 100, ""},
		"a byte more than an eighth":               {Share{MaxMemory: 800, memory: 800}, 0, 101, LimitMemory},
		"no byte more, beyond the eighth":          {Share{MaxMemory: 800, memory: 2000}, 0, 0, ""},
		"too many locks, and too many bytes":       {Share{MaxLocks: 1, MaxMemory: 1, locks: 1, memory: 1}, 1, 1, LimitLocks},
		"room for locks, and not for their memory": {Share{MaxLocks: 9, MaxMemory: 800, locks: 1, memory: 800}, 1, 1, LimitMemory},
	} {
		got := ""
		if err := tt.share.beyond(tt.locks, tt.memory); err != nil {
			got = err.(*ShareError).Limit
		}
		if got != tt.want {
			t.Errorf("%s: got the limit %q, want %q", name, got, tt.want)
		}
	}
}

// A holder that has all the locks that it may have can still repeat one, and exchange it.
func TestHolderAtItsLimitCanRepeat(t *testing.T) {
	c := new(Client)
	full := &Op{Share: &Share{}, holder: &Holder{bindings: make([]*binding, BoundMax)}}
	for locks, refused := range map[int]bool{-1: false, 0: false, 1: true, 2: true} {
		if err := c.lockable(full, locks, 100, time.Now()); (err != nil) != refused {
			t.Errorf("%d locks more: got %v, want it refused: %t", locks, err, refused)
		}
	}
	if err := c.lockable(&Op{Share: &Share{}}, 1, 100, time.Now()); err != nil {
		t.Errorf("a lock that nobody holds: got %v", err)
	}
}

func TestMemoryOfLocks(t *testing.T) {
	short, long := strings.Repeat("t", skipListFrom), strings.Repeat("t", skipListFrom+1)
	for name, tt := range map[string]struct{ got, want int }{
		"a reader with a short token": {lockMemory([]string{"abcd"}, short, true), 160 + 80},
		"a reader with a long token":  {lockMemory([]string{"abcd"}, long, true), 160 + 81 + 1000},
		"a writer with a long token":  {lockMemory([]string{"abcd"}, long, false), 160 + 81},
		"two of them":                 {lockMemory([]string{"abcd", "abcd"}, long, true), 2 * (160 + 81 + 1000)},
		"a key that is set":           {newMemory([]Change{setNX("abcd", "12345678", time.Second)}), 175},
		"a value for another":         {newMemory([]Change{rotate("abcd", "1234", "12345678", time.Second)}), 5},
		"a key that is deleted":       {newMemory([]Change{compareAndDelete("abcd", "12345678")}), -175},
		"another end":                 {newMemory([]Change{compareAndExpire("abcd", "12345678", time.Second)}), 0},
		"one in the place of another": {newMemory([]Change{compareAndDelete("abcd", "12345678"), setNX("abcd", "1234", time.Second)}), -5},
		"whatever is there":           {newMemory([]Change{{Resource: "abcd", Do: Delete}, {Resource: "abcd", Do: Set, NewValue: "12345678"}}), 175},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %d bytes, want %d", name, tt.got, tt.want)
		}
	}
}

// The ends of leases are known where there is a limit that needs them, each once, also when limits change.
func TestLimitsThatChange(t *testing.T) {
	for _, tt := range []struct {
		locks, memory, thenLocks, thenMemory int
		want                                 int // ends
	}{
		{0, 0, 0, 0, 0}, {0, 0, 3, 0, 3}, {0, 0, 0, 900, 3}, {0, 0, 1, 0, 3}, {3, 0, 5, 0, 3}, {0, 900, 0, 800, 3}, {3, 0, 0, 900, 3}, {0, 900, 3, 0, 3}, {3, 0, 0, 0, 0},
		{0, 900, 0, 0, 0}, {1, 0, 0, 1, 3}, {0, 1, 1, 0, 3},
	} {
		c, s, now := new(Client), &Share{MaxLocks: tt.locks, MaxMemory: tt.memory}, time.Now()
		c.leases = newLeases(nil, clock.Drift{})
		for i, left := range []time.Duration{3, 1, 2, 4} {
			l := &lease{keys: []string{fmt.Sprint("r", i)}, ttlMs: 1000, validUntil: now.Add(left * time.Second)}
			c.leases.grant(l, []*Share{s, s, s, {}}[i], 0, now)
		}
		c.SetLimits(s, tt.thenLocks, tt.thenMemory, 7)
		if len(s.ends) != tt.want || s.MaxLocks != tt.thenLocks || s.MaxMemory != tt.thenMemory || s.MaxWaiters != 7 {
			t.Errorf("from %d locks, %d bytes: %d ends are known with limits of %d, %d and %d; want %d with %d, %d and 7", tt.locks, tt.memory, len(s.ends),
				s.MaxLocks, s.MaxMemory, s.MaxWaiters, tt.want, tt.thenLocks, tt.thenMemory)
		}
		if tt.want > 0 {
			if s.uncountEnded(now.Add(2*time.Second + 10*ms)); s.locks != 1 || len(s.ends) != 1 {
				t.Errorf("from %d locks, %d bytes: when two of three have ended, %d are counted with %d ends, want 1 with 1", tt.locks, tt.memory, s.locks, len(s.ends))
			}
		}
	}
}

// Of leases that were released before their keys have ended a share keeps no more than about as many as run.
func TestEndsOfReleasedLeasesAreBounded(t *testing.T) {
	for running, most := range map[int]int{0: 19, 5: 29} {
		all, s, now := newLeases(nil, clock.Drift{}), &Share{MaxLocks: 1000}, time.Now()
		grant := func(i int) *lease {
			l := &lease{keys: []string{fmt.Sprint("r", i)}, ttlMs: 1000, validUntil: now.Add(time.Minute - time.Duration(i)*ms)}
			all.grant(l, s, 0, now)
			return l
		}
		for i := range running {
			grant(i)
		}
		longest := 0
		for i := range 200 {
			all.forget(grant(running + i))
			longest = max(longest, len(s.ends))
		}
		if longest != most || s.locks != running {
			t.Errorf("%d run: %d ends are kept, want %d; %d are counted", running, longest, most, s.locks)
		}
		if s.uncountEnded(now.Add(time.Minute - 5*ms)); s.locks != min(running, 5) {
			t.Errorf("%d run: before they end %d are counted", running, s.locks)
		}
		if s.uncountEnded(now.Add(time.Minute + 10*ms)); s.locks != 0 || len(s.ends) != 0 {
			t.Errorf("%d run: when all have ended %d are counted, and %d ends kept", running, s.locks, len(s.ends))
		}
	}
}

// When released leases are taken out of the ends, the one that ends first comes first, as before.
func TestEndsStayInOrder(t *testing.T) {
	all, s, now := newLeases(nil, clock.Drift{}), &Share{MaxLocks: 1000}, time.Now()
	grant := func(key string, left time.Duration) *lease {
		l := &lease{keys: []string{key}, ttlMs: 1000, validUntil: now.Add(left)}
		all.grant(l, s, 0, now)
		return l
	}
	first := grant("first", time.Second)
	grant("last", 10*time.Second)
	grant("next", 2*time.Second)
	all.forget(first)
	for i := range 30 {
		all.forget(grant(fmt.Sprint("r", i), time.Minute))
	}
	if s.uncountEnded(now.Add(3 * time.Second)); s.locks != 1 || s.ends[0].lease.keys[0] != "last" {
		t.Errorf("when one of two has ended, %d are counted, want the one that ends last", s.locks)
	}
}

// What is taken out of the ends keeps no lease in memory.
func TestEndsKeepNoMemory(t *testing.T) {
	ends := endHeap{{lease: new(lease)}, {lease: new(lease)}}
	all, last := ends[:2], ends[1]
	if got := ends.Pop(); got != last || len(ends) != 1 || all[1] != (leaseEnd{}) || all[0] == (leaseEnd{}) {
		t.Errorf("got %v, with %d left, and %v behind them", got, len(ends), all[1])
	}
}

// The log names the three shares that take most, of those that take anything at this moment. One that takes nothing is not looked at again before it
// does.
func TestSharesThatTakeMost(t *testing.T) {
	all, now := newLeases(nil, clock.Drift{}), time.Now()
	ended, none := &Share{Name: "ended", MaxLocks: 5}, &Share{Name: "none", listed: true}
	least, nameless := &Share{Name: "least", memory: 1, listed: true}, &Share{memory: 500, listed: true}
	most, third := &Share{Name: "most", memory: 700, listed: true}, &Share{Name: "third", memory: 300, listed: true}
	all.shares = []*Share{third, nameless, none, least, most}
	all.grant(&lease{keys: []string{"r"}, validUntil: now.Add(-time.Hour)}, ended, 0, now)
	if got, want := all.largestShares(now), "most: 700 bytes, clients of no user: 500 bytes, third: 300 bytes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(all.shares) != 4 || slices.Contains(all.shares, ended) || slices.Contains(all.shares, none) || ended.listed || none.listed || !least.listed {
		t.Errorf("%d shares are kept, want the four that take something", len(all.shares))
	}
	all.shares = []*Share{least}
	if got, want := all.largestShares(now), "least: 1 bytes"; got != want {
		t.Errorf("one share: got %q, want %q", got, want)
	}
	all.grant(&lease{keys: []string{"r"}, validUntil: now.Add(time.Hour)}, ended, 0, now)
	if got, want := all.largestShares(now), "ended: 161 bytes, least: 1 bytes"; got != want {
		t.Errorf("one that takes something again: got %q, want %q", got, want)
	}
}

// A flow is in a deep pipeline for a second, from its first moment on; one that never was is in none.
func TestDeepFlow(t *testing.T) {
	for _, tt := range []struct {
		deepAt, now time.Duration
		want        bool
	}{{0, 0, false}, {0, crowdedFor / 2, false}, {1, 1, true}, {1, crowdedFor, true}, {1, crowdedFor + 1, false}, {5, 4, true}} {
		if f := (&Flow{deepAt: tt.deepAt}); f.deep(tt.now) != tt.want {
			t.Errorf("deep at %v: got %t at %v, want %t", tt.deepAt, !tt.want, tt.now, tt.want)
		}
	}
}

func TestFlowOfAnOperation(t *testing.T) {
	s, other, queued := new(Share), new(Share), []*queuedOp{{}}
	idle, here, elsewhere := &Flow{share: other}, &Flow{share: s, queued: queued}, &Flow{share: other, queued: queued}
	for name, tt := range map[string]struct {
		op   *Op
		want *Flow
	}{
		"no operation":                 {nil, &s.own},
		"one without a flow":           {new(Op), &s.own},
		"nothing of it is queued":      {&Op{Flow: idle}, idle},
		"some is queued in this share": {&Op{Flow: here}, here},
		"some is queued in another":    {&Op{Flow: elsewhere}, &s.own},
	} {
		if got := s.flowOf(tt.op); got != tt.want {
			t.Errorf("%s: got %p, want %p", name, got, tt.want)
		}
	}
}
