package redlock

// Fencing tokens over real masters: they grow from grant to grant, whichever client grants, whatever the clocks of the clients
// say, over restarts of masters, and when marks are pushed out.

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"redlockd/redlock/fence"
	"redlockd/redlock/lua"
	"redlockd/redlock/redisproc"

	"github.com/redis/go-redis/v9"
)

// fenceSlack is slack of lua/bound_marks.lua.
const fenceSlack = 64

// fencedPair locks with a fence and unlocks. A machine that is busy may hold masters up, or let the lock run out: LOCK is tried again for a
// minute, and UNLOCK may find no quorum, or nothing left.
func fencedPair(t *testing.T, c *Client, resources ...string) int64 {
	t.Helper()
	ctx := context.Background()
	lease, err := c.Acquire(ctx, LockRequest{Resources: resources, TTL: min(c.MaxTTL(), 30*time.Second), Wait: time.Minute, Fence: true})
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(lease.Validity())
	err = lease.Unlock(ctx)
	ranOut := errors.Is(err, ErrNotHeld) && !time.Now().Before(until)
	if err != nil && !ranOut && !errors.Is(err, ErrNoQuorum) {
		t.Fatal(err)
	}
	if lease.Fence <= 0 || lease.Fence >= 1<<53 {
		t.Fatalf("fence: got %d, want an integer above 0 and below 2^53", lease.Fence)
	}
	return lease.Fence
}

func TestRealFencesGrow(t *testing.T) {
	servers := redisproc.StartForTest(t, 5)
	a, b := openReal(t, servers, brief), openReal(t, servers, brief)
	allUp(t, a)
	allUp(t, b)
	// A's clock is an hour ahead of b's: b must go above what a has given.
	a.mu.Lock()
	a.fences.Observe(fence.Time(time.Now().Add(time.Hour)), time.Now())
	a.mu.Unlock()
	last := int64(0)
	for i := range 20 {
		c := a
		if i%2 == 1 {
			c = b
		}
		resources := []string{"fenced"}
		if i%5 == 4 {
			resources = []string{"other", "fenced"}
		}
		fence := fencedPair(t, c, resources...)
		if fence <= last {
			t.Fatalf("grant %d: got fence %d, want more than %d", i, fence, last)
		}
		last = fence
	}
	eventually(t, "inspect", func() error {
		info, err := b.Inspect(context.Background(), "fenced")
		if err == nil && info.Fence != last {
			err = fmt.Errorf("got fence %d, want %d", info.Fence, last)
		}
		return err
	})
	// Two masters forget everything, one after the other; the fence is relearned from the others.
	for i, s := range servers[:2] {
		before := b.Masters()[i].RunID
		s.Kill()
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		// It votes again when its quarantine is over, which may be too short to be seen.
		eventually(t, "the new process is known", func() error {
			if m := b.Masters()[i]; m.RunID == before {
				return fmt.Errorf("%+v", m)
			}
			return nil
		})
		allUp(t, b)
	}
	client := redis.NewClient(&redis.Options{Addr: servers[0].Addr, Protocol: 2, DisableIdentity: true})
	defer client.Close()
	floor, err := client.Get(context.Background(), lua.FloorKey).Int64()
	if err != nil || floor < last {
		t.Fatalf("floor of a master that forgot: got %d, %v, want %d", floor, err, last)
	}
	if fence := fencedPair(t, b, "fenced"); fence <= floor {
		t.Fatalf("after restarts: got fence %d, want more than the floor %d", fence, floor)
	}
}

func TestRealFenceMarksAreBounded(t *testing.T) {
	servers := redisproc.StartForTest(t, 1)
	c := openReal(t, servers, func(o *Options) { patient(o); o.FenceMarks = 100 })
	first := fencedPair(t, c, "first")
	last := int64(0)
	for i := range 1000 {
		last = fencedPair(t, c, fmt.Sprintf("r%d", i))
	}
	client := redis.NewClient(&redis.Options{Addr: servers[0].Addr, Protocol: 2, DisableIdentity: true})
	defer client.Close()
	ctx := context.Background()
	if n := client.ZCard(ctx, lua.MarksKey).Val(); n > 100+fenceSlack {
		t.Errorf("marks: got %d, want at most %d", n, 100+fenceSlack)
	}
	floor, err := client.Get(ctx, lua.FloorKey).Int64()
	if err != nil || floor < first || floor >= last {
		t.Errorf("floor: got %d, %v, want from %d to below %d: the marks that were pushed out", floor, err, first, last)
	}
	// A client whose clock is behind the floor is taken above it.
	c.mu.Lock()
	c.fences.Last = 0
	c.mu.Unlock()
	if fence := fencedPair(t, c, "first"); fence <= floor {
		t.Errorf("fence of a forgotten resource: got %d, want above the floor %d", fence, floor)
	}
}

// What marks take of a master is bounded, whatever the names; and where there are far too many of them, since another redlockd allowed
// more, one LOCK pushes out some only, so that the master is not blocked.
func TestRealMemoryOfFenceMarks(t *testing.T) {
	servers := redisproc.StartForTest(t, 1)
	c := openReal(t, servers, patient)
	client := redis.NewClient(&redis.Options{Addr: servers[0].Addr, Protocol: 2, DisableIdentity: true})
	defer client.Close()
	ctx := context.Background()
	used := func() int {
		n, err := strconv.Atoi(client.InfoMap(ctx, "memory").Item("Memory", "used_memory"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := fencedPair(t, c, "first")
	before, marks := used(), c.opts.FenceMarks+3000
	for i := 0; i < marks; {
		var some []redis.Z
		for ; i < marks && len(some) < 1000; i++ {
			some = append(some, redis.Z{Score: float64(first + int64(i)), Member: fmt.Sprintf("%0*d", MaxResourceLen, i)})
		}
		if err := client.ZAdd(ctx, lua.MarksKey, some...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	each := (used() - before) / marks
	t.Logf("a mark with the longest name takes %d bytes, all that are kept %d", each, each*c.opts.FenceMarks)
	if each*c.opts.FenceMarks > 24<<20 {
		t.Errorf("marks of the longest names take %d bytes each, and so %d in all, want at most 24 MB", each, each*c.opts.FenceMarks)
	}
	for want := marks; want > c.opts.FenceMarks; {
		fencedPair(t, c, "first")
		n := int(client.ZCard(ctx, lua.MarksKey).Val())
		if want = max(want-1000, c.opts.FenceMarks); n < want || n > want+fenceSlack {
			t.Fatalf("marks after another LOCK: got %d, want %d to %d", n, want, want+fenceSlack)
		}
	}
}

func TestRealFenceYearsAheadIsRefused(t *testing.T) {
	c := openReal(t, redisproc.StartForTest(t, 1), patient)
	c.mu.Lock()
	c.fences.Ahead = (1000 * time.Hour).Milliseconds() << fence.CounterBits
	c.mu.Unlock()
	_, err := c.Acquire(context.Background(), LockRequest{Resources: []string{"ahead"}, TTL: time.Second, Fence: true})
	if err == nil {
		t.Fatal("a fence a thousand hours ahead: got a grant, want a refusal")
	}
	t.Log(err)
}

// Goal: fences of clocks that agree are in the order of their moments, and fit the 53 bits that every language has for integers.
func TestFenceTime(t *testing.T) {
	before := int64(0)
	for _, moment := range []string{"2000-01-01T00:00:00.000001Z", "2026-11-21T12:00:00.0009Z", "2026-11-21T12:00:00.001Z", "2069-01-01T00:00:00Z"} {
		at, err := time.Parse(time.RFC3339Nano, moment)
		if err != nil {
			t.Fatal(err)
		}
		if fence := fence.Time(at); fence <= before || fence >= 1<<53 {
			t.Errorf("%s: got %d, want it above %d and below %d", moment, fence, before, int64(1)<<53)
		} else {
			before = fence
		}
	}
}
