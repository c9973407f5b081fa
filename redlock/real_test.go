package redlock

// The engine over real redis-server processes that are killed, frozen, thawed and restarted: locks go on being granted, never
// two at once, and no key is left behind. Expected outcomes are waited for, never timed.

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/redisproc"
)

// openFive starts five masters, and opens a client for which all of them are up.
func openFive(t *testing.T, change func(*Options)) ([]*redisproc.Server, *Client) {
	t.Helper()
	servers := redisproc.StartForTest(t, 5)
	c := openReal(t, servers, change)
	allUp(t, c)
	return servers, c
}

// dialServer is a client of one master, until the end of the test.
func dialServer(t testing.TB, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { client.Close() })
	return client
}

// keysOn lists the locks that a master holds.
func keysOn(t *testing.T, addr string) []string {
	t.Helper()
	client := dialServer(t, addr)
	defer client.Close()
	keys, err := client.Keys(context.Background(), "*").Result()
	if err != nil {
		t.Fatalf("KEYS on %s: %v", addr, err)
	}
	return slices.DeleteFunc(keys, func(key string) bool { return strings.HasPrefix(key, ReservedPrefix) })
}

// eventually waits for a condition that comes soon, and fails the test with what it last said when something hangs.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	const patience = time.Minute
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %v", what, patience, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func noKeys(t *testing.T, servers []*redisproc.Server) {
	t.Helper()
	for i, s := range servers {
		eventually(t, fmt.Sprintf("keys left on master %d", i+1), func() error { return wantNoKeys(t, s) })
	}
}

func wantNoKeys(t *testing.T, s *redisproc.Server) error {
	t.Helper()
	if keys := keysOn(t, s.Addr); len(keys) > 0 {
		return fmt.Errorf("%d keys, the first is %q", len(keys), keys[0])
	}
	return nil
}

func allUp(t *testing.T, c *Client) {
	t.Helper()
	eventually(t, "masters up", func() error {
		for _, m := range c.Masters() {
			if m.State != MasterUp {
				return fmt.Errorf("%s is %s: %s", m.Addr, m.State, m.Reason)
			}
		}
		return nil
	})
}

func TestRealLockUnlockExtend(t *testing.T) {
	servers, c := openFive(t, patient)
	ctx := context.Background()
	lease, err := c.TryLock(ctx, "invoices", 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.TryLock(ctx, "invoices", 30*time.Second); !errors.Is(err, ErrHeld) {
		t.Fatalf("second lock: got %v, want ErrHeld", err)
	}
	if err := lease.Extend(ctx, 40*time.Second); err != nil {
		t.Fatal(err)
	}
	info, err := c.Inspect(ctx, "invoices")
	if err != nil || !info.Held || info.TokenDigest != TokenDigest(c, lease.Token) || info.Validity > 40*time.Second {
		t.Fatalf("inspect: got %+v, %v, want held by the lease's token for at most 40 s", info, err)
	}
	if err := lease.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	if err := lease.Unlock(ctx); !errors.Is(err, ErrNotHeld) {
		t.Fatalf("second unlock: got %v, want ErrNotHeld", err)
	}
	noKeys(t, servers)
}

// patient allows for a machine that is busy with other things: a master that is merely slow must not be taken for one that
// is away.
func patient(o *Options) { o.MasterTimeout = 5 * time.Second }

// brief makes quarantines short enough to be waited for, and is as patient as such short TTLs allow.
func brief(o *Options) { o.MaxTTL, o.MasterTimeout = time.Second, 400*time.Millisecond }

// A library that locks on the masters directly, as redsync and node-redlock do, and redlockd exclude each other, also when the TTL of the one has
// ended by itself: both count all of their TTL, the library less the drift that it subtracts.
func TestRealLibraryOnTheMasters(t *testing.T) {
	servers, c := openFive(t, patient)
	ctx := context.Background()
	var masters []*redis.Client
	for _, s := range servers {
		masters = append(masters, dialServer(t, s.Addr))
	}
	locks := func(token string, ttl time.Duration) bool {
		t.Helper()
		granted := 0
		for _, m := range masters {
			done, err := m.SetNX(ctx, "r", token, ttl).Result()
			if err != nil {
				t.Fatal(err)
			}
			if done {
				granted++
			}
		}
		return granted > len(masters)/2
	}
	unlocks := func(token string) {
		t.Helper()
		for _, m := range masters {
			if err := m.Eval(ctx, "return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1])", []string{"r"}, token).Err(); err != nil && !errors.Is(err, redis.Nil) {
				t.Fatal(err)
			}
		}
	}
	lease, err := c.TryLock(ctx, "r", 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if locks("library", 30*time.Second) {
		t.Error("the library has locked what redlockd holds")
	}
	unlocks("library")
	if err := lease.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	noKeys(t, servers)
	if !locks("library", 30*time.Second) {
		t.Fatal("the library has not locked what redlockd has released")
	}
	if _, err := c.TryLock(ctx, "r", 30*time.Second); !errors.Is(err, ErrHeld) {
		t.Errorf("LOCK of what the library holds: got %v, want ErrHeld", err)
	}
	unlocks("library")
	// Nobody releases: the library tries until the keys end, and redlockd waits until they do.
	if lease, err = c.TryLock(ctx, "r", time.Second); err != nil {
		t.Fatal(err)
	}
	var sent time.Time
	eventually(t, "the library has the lock", func() error {
		if sent = time.Now(); !locks("library", time.Second) {
			unlocks("library")
			return ErrHeld
		}
		return nil
	})
	if left := time.Until(lease.Until()); left > 0 {
		t.Errorf("the library has locked what redlockd holds for another %v", left)
	}
	if _, err = c.Lock(ctx, "r", 30*time.Second); err != nil {
		t.Fatal(err)
	}
	if believed := sent.Add(time.Second*99/100 - 2*time.Millisecond); time.Now().Before(believed) {
		t.Errorf("redlockd has locked what the library holds for another %v", time.Until(believed))
	}
}

// 200 clients on one resource: each gets it once, one after the other, in the order in which they came.
func TestRealTwoHundredInTurn(t *testing.T) {
	servers, c := openFive(t, patient)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // of all
	defer cancel()
	var inside atomic.Int32
	var order []int
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			lease, err := c.Lock(ctx, "hot", 30*time.Second)
			if err != nil {
				t.Errorf("client %d: %v", i, err)
				return
			}
			if n := inside.Add(1); n != 1 {
				t.Errorf("client %d: %d holders at once", i, n)
			}
			order = append(order, i)
			inside.Add(-1)
			if err := lease.Unlock(ctx); err != nil {
				t.Errorf("client %d: unlock: %v", i, err)
			}
		})
		// The next one comes when this one stands in line (or has been and gone).
		eventually(t, "in line", func() error {
			if s := c.Stats(); s.Granted+uint64(s.Waiters) <= uint64(i) {
				return fmt.Errorf("granted %d, waiting %d after %d came", s.Granted, s.Waiters, i+1)
			}
			return nil
		})
	}
	wg.Wait()
	if len(order) != 200 {
		t.Fatalf("got %d grants, want 200", len(order))
	}
	for i, client := range order {
		if client != i {
			t.Fatalf("grant %d went to client %d: not first come, first served: %v", i, client, order)
		}
	}
	noKeys(t, servers)
}

// churn locks and unlocks a few resources with many clients until stop is closed, and counts what went well. Two holders of a
// resource at once fail the test. That a machine short of CPU has no quorum for a moment, or a lock run out, does not.
func churn(t *testing.T, c *Client, clients int, stop <-chan struct{}, count *atomic.Int64) *sync.WaitGroup {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var holders [8]*Lease // the last of each resource that has not begun to be released
	for i := range clients {
		wg.Go(func() {
			ctx := context.Background()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				own := (i + n) % len(holders)
				lease, err := c.Acquire(ctx, LockRequest{Resources: []string{fmt.Sprintf("churn:%d", own)}, TTL: time.Second, Wait: 10 * time.Second})
				if errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrHeld) {
					continue
				}
				if err != nil {
					t.Errorf("lock: %v", err)
					return
				}
				mu.Lock()
				// The other one was granted before: if it is valid now, it was when this one was found to be.
				if other := holders[own]; other != nil && lease.Validity() > 0 && other.Validity() > 0 {
					t.Errorf("two holders of churn:%d at once: the one before is valid for another %v", own, other.Validity())
				}
				if lease.Validity() > 0 {
					holders[own] = lease
				}
				mu.Unlock()
				runtime.Gosched() // the others have their chance
				mu.Lock()
				if holders[own] == lease {
					holders[own] = nil
				}
				mu.Unlock()
				switch err := lease.Unlock(ctx); {
				case err == nil:
					count.Add(1)
				case !errors.Is(err, ErrNoQuorum) && !errors.Is(err, ErrNotHeld):
					t.Errorf("unlock: %v", err)
					return
				}
			}
		})
	}
	return &wg
}

// progress waits for n more pairs, for as long as they go on.
func progress(t *testing.T, count *atomic.Int64, n int64) {
	t.Helper()
	for now, goal := count.Load(), count.Load()+n; now < goal; {
		before := now
		eventually(t, "pairs go on", func() error {
			if now = count.Load(); now == before {
				return fmt.Errorf("%d pairs, want %d", now, goal)
			}
			return nil
		})
	}
}

func TestRealMastersFailAndComeBack(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fail   func(*redisproc.Server) error
		repair func(*redisproc.Server) error
		count  int
	}{
		{"1 killed and restarted", kill, (*redisproc.Server).Restart, 1},
		{"2 killed and restarted", kill, (*redisproc.Server).Restart, 2},
		{"1 frozen and thawed", (*redisproc.Server).Freeze, (*redisproc.Server).Thaw, 1},
		{"2 frozen and thawed", (*redisproc.Server).Freeze, (*redisproc.Server).Thaw, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			servers, c := openFive(t, brief)
			var pairs atomic.Int64
			stop := make(chan struct{})
			wg := churn(t, c, 32, stop, &pairs)
			for round := range 3 {
				progress(t, &pairs, 200)
				for i := range tt.count {
					if err := tt.fail(servers[(round+i)%5]); err != nil {
						t.Fatal(err)
					}
				}
				progress(t, &pairs, 500)
				for i := range tt.count {
					if err := tt.repair(servers[(round+i)%5]); err != nil {
						t.Fatal(err)
					}
				}
				allUp(t, c)
			}
			close(stop)
			wg.Wait()
			noKeys(t, servers)
		})
	}
}

func kill(s *redisproc.Server) error {
	s.Kill()
	return nil
}

// Three of five frozen: no quorum, said so with the reason, and nothing stays locked when they are back.
func TestRealNoQuorum(t *testing.T) {
	servers, c := openFive(t, patient)
	ctx := context.Background()
	held, err := c.TryLock(ctx, "held", 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers[:3] {
		if err := s.Freeze(); err != nil {
			t.Fatal(err)
		}
	}
	_, err = c.TryLock(ctx, "free", 30*time.Second)
	var lost *NoQuorumError
	if !errors.As(err, &lost) || lost.Voted != 2 || len(lost.Out) != 3 {
		t.Fatalf("lock with 3 of 5 frozen: got %v, want 2 of 5 answered and 3 named", err)
	}
	if err := held.Unlock(ctx); !errors.Is(err, ErrNoQuorum) {
		t.Fatalf("unlock with 3 of 5 frozen: got %v, want ErrNoQuorum", err)
	}
	for _, s := range servers[:3] {
		s.Thaw()
	}
	allUp(t, c)
	noKeys(t, servers) // both the attempt and the pending release
}
