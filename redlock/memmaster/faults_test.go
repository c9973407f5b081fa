// Goal: each fault does to a client what its doc comment says. Method: the real go-redis on an
// in-process connection, in virtual time (testing/synctest), so that a time out of 50 ms or a TTL of 30
// s is exact and costs nothing.
package memmaster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// redisClient dials over a link; nil for one of its own. It is closed when the test ends.
func redisClient(t *testing.T, m *Master, l *Link) *redis.Client {
	if l == nil {
		l = m.Link()
	}
	c := redis.NewClient(&redis.Options{
		Dialer: l.Dial, Protocol: 2,
		// More connections than are used at once, and than are dialled in vain while the master cannot
		// be reached: a caller that waits for its turn uses a timer which go-redis pools for the whole
		// process, and one from another bubble ends it.
		PoolSize: 1000, PipelinePoolSize: -1,
		MaxRetries: -1, DialerRetries: 1, // one command on the wire per call: the tests count
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// bubble runs a test in virtual time with one master. Every goroutine must have ended when it returns.
func bubble(t *testing.T, run func(t *testing.T, m *Master)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // go-redis notices so late that it has been closed
		run(t, newMaster(t, Options{}))
	})
}

// go-redis logs every dial that fails, and here they are meant to.
func init() { logging.Disable() }

// setNX acquires as a lock does, and reports the error.
func setNX(c *redis.Client, key, token string, timeout time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return c.SetNX(ctx, key, token, 30*time.Second).Result()
}

// mustSetNX wants the lock granted.
func mustSetNX(t *testing.T, c *redis.Client, key, token string) {
	t.Helper()
	if ok, err := setNX(c, key, token, time.Second); !ok || err != nil {
		t.Fatalf("SET %s %s NX: got %v, %v, want granted", key, token, ok, err)
	}
}

func timedOut(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// wantTimeout wants no answer.
func wantTimeout(t *testing.T, c *redis.Client, key, token string) {
	t.Helper()
	begin := time.Now()
	ok, err := setNX(c, key, token, 50*time.Millisecond)
	if ok || !timedOut(err) {
		t.Fatalf("SET %s %s NX: got %v, %v, want a time out", key, token, ok, err)
	}
	if got := time.Since(begin); got != 50*time.Millisecond {
		t.Fatalf("time out: got after %v, want 50ms", got)
	}
}

func wantKeys(t *testing.T, m *Master, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := m.Keys(); !slices.Equal(got, want) {
		t.Errorf("keys: got %q, want %q", got, want)
	}
}

func TestFreezeExecutesLate(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		c := redisClient(t, m, nil)
		mustSetNX(t, c, "a", "1")
		m.Freeze()
		wantTimeout(t, c, "b", "2") // on the standing connection
		wantTimeout(t, c, "c", "3") // on a new one: dialing succeeds, HELLO is not answered, nothing else is sent
		wantKeys(t, m, "a")
		m.Thaw()
		wantKeys(t, m, "a", "b")
		if _, pttl, _ := m.Get("b"); pttl != 30*time.Second {
			t.Errorf("PTTL of what was executed late: got %v, want 30s from the execution", pttl)
		}
		mustSetNX(t, c, "d", "4")
	})
}

func TestThawKeepsTheOrderOfArrival(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		var conns []*wire
		for range 8 {
			conns = append(conns, dial(t, m))
		}
		m.Freeze()
		order := rand.New(rand.NewPCG(1, 1)).Perm(len(conns))
		for i, n := range order {
			conns[n].Send("EVAL", appendScript, "1", "order", string(rune('a'+i)))
			synctest.Wait()
		}
		m.Thaw()
		synctest.Wait()
		if got, _, _ := m.Get("order"); got != "abcdefgh" {
			t.Errorf("order of execution: got %q, want abcdefgh", got)
		}
		for _, c := range conns {
			c.Conn.Close()
		}
	})
}

func TestClientKillBeforeLateDelivery(t *testing.T) {
	// Both ways in which a command is late: the master was frozen, or the network held it.
	for _, frozen := range []bool{true, false} {
		for _, kill := range []bool{true, false} {
			bubble(t, func(t *testing.T, m *Master) {
				link := m.Link()
				old := redisClient(t, m, link)
				id := old.ClientID(t.Context()).Val()
				if frozen {
					// The kill reaches the frozen host first, the old command second.
					fresh := dial(t, m)
					defer fresh.Conn.Close()
					link.SetDelay(func() time.Duration { return time.Second }, nil)
					m.Freeze()
					if kill {
						fresh.Send("CLIENT", "KILL", "ID", string(rune('0'+id)))
					}
					wantTimeout(t, old, "a", "late")
					time.Sleep(2 * time.Second)
					m.Thaw()
				} else {
					link.HoldRequests()
					wantTimeout(t, old, "a", "late")
					fresh := redisClient(t, m, nil)
					if kill {
						if n, err := fresh.ClientKillByFilter(t.Context(), "ID", string(rune('0'+id))).Result(); n != 1 || err != nil {
							t.Errorf("CLIENT KILL: got %d, %v, want 1", n, err)
						}
					}
					link.Heal()
				}
				if kill {
					wantKeys(t, m)
				} else {
					wantKeys(t, m, "a")
				}
			})
		}
	}
}

func TestHoldReplies(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		link := m.Link()
		c, other := redisClient(t, m, link), redisClient(t, m, nil)
		mustSetNX(t, c, "a", "1")
		link.HoldReplies()
		wantTimeout(t, c, "b", "2")
		wantKeys(t, m, "a", "b") // executed; only the answer is lost
		mustSetNX(t, other, "c", "3")
		link.Heal()
		mustSetNX(t, c, "d", "4") // and no reply of the past is taken for that of the present
	})
}

func TestPartitionOfOneLink(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		link := m.Link()
		a, b := redisClient(t, m, link), redisClient(t, m, nil)
		mustSetNX(t, a, "a", "1")
		link.Partition()
		wantTimeout(t, a, "b", "2") // the connection stands
		wantTimeout(t, a, "c", "3") // a new one cannot be made
		mustSetNX(t, b, "d", "4")
		wantKeys(t, m, "a", "d")
		link.Heal()
		wantKeys(t, m, "a", "b", "d") // resent by the client's kernel, long after it gave up
		mustSetNX(t, a, "e", "5")

		link.Partition()
		wantTimeout(t, a, "f", "6")
		link.Cut() // a middlebox forgets: the bytes are lost
		link.Heal()
		wantKeys(t, m, "a", "b", "d", "e")
		mustSetNX(t, a, "g", "7")
	})
}

func TestDelay(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		link := m.Link()
		there := func() time.Duration { return 3 * time.Millisecond }
		back := func() time.Duration { return 4 * time.Millisecond }
		link.SetDelay(there, back)
		begin := time.Now()
		conn, err := link.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		c := newWire(t, conn)
		if got := time.Since(begin); got != 7*time.Millisecond {
			t.Errorf("dial: got %v, want one round trip of 7ms", got)
		}
		begin = time.Now()
		c.Send("SET", "a", "1")
		time.Sleep(3*time.Millisecond - 1)
		wantKeys(t, m)
		time.Sleep(time.Nanosecond)
		wantKeys(t, m, "a")
		if got := c.Reply(); got != "+OK\r\n" {
			t.Errorf("reply: got %q", got)
		}
		if got := time.Since(begin); got != 7*time.Millisecond {
			t.Errorf("round trip: got %v, want 7ms", got)
		}
		conn.Close()
	})
}

// appendScript is APPEND, which this master does not have.
const appendScript = "local a = (redis.call('get', KEYS[1]) or '') .. ARGV[1]; redis.call('set', KEYS[1], a); return #a"

func TestRandomDelaysKeepOrder(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		link := m.Link()
		r := rand.New(rand.NewPCG(1, 2))
		jitter := func() time.Duration { return time.Duration(r.IntN(20)) * time.Millisecond }
		link.SetDelay(jitter, jitter)
		conn, err := link.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		c := newWire(t, conn)
		for i := range 100 {
			c.Send("EVAL", appendScript, "1", "a", string(rune('a'+i%26)))
			time.Sleep(time.Duration(i%3) * time.Millisecond)
		}
		for i := range 100 {
			if got, want := visible(c.Reply()), fmt.Sprintf(":%d|", i+1); got != want {
				t.Fatalf("reply %d: got %s, want %s", i, got, want)
			}
		}
		if got, _, _ := m.Get("a"); got[:26] != "abcdefghijklmnopqrstuvwxyz" {
			t.Errorf("order of execution: got %q", got)
		}
	})
}

func TestCrash(t *testing.T) {
	for _, keep := range []bool{false, true} {
		bubble(t, func(t *testing.T, m *Master) {
			c := redisClient(t, m, nil)
			ctx := t.Context()
			mustSetNX(t, c, "a", "1")
			runID := m.runID
			sha := c.ScriptLoad(ctx, "return 1").Val()
			c.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru")
			c.Do(ctx, "replicaof", "localhost", "1")
			time.Sleep(time.Minute)
			m.Crash(keep)
			if _, err := setNX(c, "b", "2", time.Second); err == nil {
				t.Errorf("on the old connection: got no error")
			}
			if _, err := setNX(c, "b", "2", time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("dial while crashed: got %v, want ECONNREFUSED", err)
			}
			m.Freeze() // a process that is not there cannot be stopped
			m.Restart()
			dial(t, m).expect("client id", ":1|")
			time.Sleep(2 * time.Second) // go-redis dials again once a second only
			if keep {
				// Redis drops a key that expired while it was down as any other.
				if got := c.PTTL(ctx, "a").Val(); got != -2 {
					t.Errorf("TTL of a key that expired meanwhile: got %v, want -2", got)
				}
			}
			mustSetNX(t, c, "a", "3")
			if m.runID == runID {
				t.Errorf("run_id after a restart: got the same, %s", runID)
			}
			if err := c.EvalSha(ctx, sha, nil).Err(); !redis.HasErrorPrefix(err, "NOSCRIPT") {
				t.Errorf("script after a restart: got %v, want NOSCRIPT", err)
			}
			if got := c.Info(ctx, "memory").Val(); !strings.Contains(got, "maxmemory_policy:noeviction\r\n") {
				t.Errorf("maxmemory-policy after a restart: got %q, want noeviction", got)
			}
			m.Restart() // a running one
			wantKeys(t, m, "a")
			m.Crash(keep)
			m.Restart()
			if keep {
				wantKeys(t, m, "a")
			} else {
				wantKeys(t, m)
			}
		})
	}
}

func TestRollback(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		c := redisClient(t, m, nil)
		ctx := t.Context()
		mustSetNX(t, c, "a", "1")
		c.Set(ctx, "s", "1", 0)
		c.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "m"})
		runID := m.runID
		then := m.Snapshot()
		mustSetNX(t, c, "b", "2")
		c.Set(ctx, "s", "2", 0)
		c.ZPopMin(ctx, "z")
		c.Del(ctx, "a")
		m.Rollback(then)
		if _, err := setNX(c, "b", "3", time.Second); err == nil {
			t.Errorf("on the old connection: got no error")
		}
		wantKeys(t, m, "a", "s", "z")
		if got := c.Get(ctx, "s").Val(); got != "1" {
			t.Errorf("string: got %q, want 1", got)
		}
		if got := c.ZScore(ctx, "z", "m").Val(); got != 1 {
			t.Errorf("score: got %v, want 1", got)
		}
		if m.runID != runID {
			t.Errorf("run_id: got %s, want the same %s", m.runID, runID)
		}
		if ok, err := setNX(c, "a", "2", time.Second); ok || err != nil {
			t.Errorf("SET NX of a key that is back: got %v, %v, want denied", ok, err)
		}

		// The last second of an AOF is lost: a snapshot that only a restart brings back, as often as
		// one likes.
		m.Crash(true)
		m.Rollback(then)
		if _, err := m.Dial(ctx, "", ""); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial between Rollback and Restart: got %v, want ECONNREFUSED", err)
		}
		m.Restart()
		wantKeys(t, m, "a", "s", "z")
		time.Sleep(31 * time.Second)
		mustSetNX(t, redisClient(t, m, nil), "a", "4") // expiry came along
	})
}

func TestEvict(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		c := redisClient(t, m, nil)
		ctx := t.Context()
		for _, key := range []string{"a", "b", "c"} {
			mustSetNX(t, c, key, "1")
		}
		c.Set(ctx, "kept", "1", 0)
		evict := func() bool { return m.Evict(func(key string) bool { return key != "b" }) }
		if evict() {
			t.Error("under noeviction: got keys evicted")
		}
		c.ConfigSet(ctx, "maxmemory", "1")
		c.ConfigSet(ctx, "maxmemory-policy", "volatile-lru")
		if !evict() {
			t.Error("under volatile-lru: got nothing")
		}
		wantKeys(t, m, "b", "kept")
		if got := c.Info(ctx, "stats").Val(); !strings.Contains(got, "evicted_keys:2\r\n") {
			t.Errorf("INFO stats: got %q, want two keys evicted", got)
		}
		m.Freeze()
		if evict() {
			t.Error("frozen: got keys evicted")
		}
		m.Thaw()
		m.Restart()
		if got := redisClient(t, m, nil).Info(ctx, "stats").Val(); evict() || !strings.Contains(got, "evicted_keys:0\r\n") {
			t.Errorf("after a restart: got %q, want none evicted, and none any more", got)
		}
	})
}

func TestReachable(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		c := redisClient(t, m, nil)
		mustSetNX(t, c, "a", "1")
		m.SetReachable(false)
		mustSetNX(t, c, "b", "2") // the connection stands
		m.Cut()
		if _, err := setNX(c, "c", "3", time.Second); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("on the cut connection: got %v, want ECONNRESET", err)
		}
		if _, err := setNX(c, "c", "3", time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial: got %v, want ECONNREFUSED", err)
		}
		m.SetReachable(true)
		time.Sleep(2 * time.Second)
		mustSetNX(t, c, "c", "3")
	})
}

func TestClock(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		c := redisClient(t, m, nil)
		ctx := t.Context()
		if got, want := c.Time(ctx).Val(), time.Now(); !got.Equal(want) {
			t.Errorf("TIME at the start: got %v, want the process's %v", got, want)
		}
		mustSetNX(t, c, "a", "1")
		m.StepClock(-10 * time.Second)
		if got := c.PTTL(ctx, "a").Val(); got != 40*time.Second {
			t.Errorf("PTTL after a step of -10 s: got %v, want 40s", got)
		}
		m.StepClock(40 * time.Second)
		if _, _, ok := m.Get("a"); !ok {
			t.Errorf("after a step to its very end the key is gone")
		}
		m.StepClock(time.Millisecond)
		mustSetNX(t, c, "a", "2")

		// 50 % fast: 30 s of the master's are 20 s of ours.
		m.SetClockRate(500_000)
		mustSetNX(t, c, "b", "1")
		time.Sleep(20 * time.Second)
		if _, _, ok := m.Get("b"); !ok {
			t.Errorf("after 20 s at 1.5 times the rate: the key is gone, want it at its end")
		}
		time.Sleep(time.Millisecond)
		if _, _, ok := m.Get("b"); ok {
			t.Errorf("after 20.001 s at 1.5 times the rate: the key is there")
		}
		before, begin := c.Time(ctx).Val(), time.Now()
		m.SetClockRate(-100) // no step at the change
		time.Sleep(time.Hour)
		if got, want := c.Time(ctx).Val().Sub(before), time.Since(begin)-360*time.Millisecond; got != want {
			t.Errorf("an hour at -100 ppm: got %v, want %v", got, want)
		}
	})
}

func TestFull(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		c, ctx := redisClient(t, m, nil), context.Background()
		mustSetNX(t, c, "a", "1")
		m.SetFull(true)
		refused := func(what string, err error) {
			t.Helper()
			if err == nil || !strings.HasPrefix(err.Error(), "OOM ") {
				t.Errorf("%s: got %v, want OOM", what, err)
			}
		}
		refused("SET", c.Set(ctx, "b", "1", 0).Err())
		refused("a script", c.Eval(ctx, "return redis.call('HSET', KEYS[1], 'f', 1)", []string{"h"}).Err())
		if err := c.Eval(ctx, "redis.call('DEL', KEYS[1]) return redis.call('HSET', KEYS[2], 'f', 1)", []string{"a", "h"}).Err(); err != nil {
			t.Errorf("a script that has written: %v", err)
		}
		if err := c.Del(ctx, "h").Err(); err != nil {
			t.Errorf("DEL: %v", err)
		}
		m.SetFull(false)
		mustSetNX(t, c, "a", "1")
		m.SetFull(true)
		m.Restart()
		if err := redisClient(t, m, nil).Set(ctx, "b", "1", 0).Err(); err != nil {
			t.Errorf("SET after a restart: %v", err)
		}
	})
}

func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		link := m.Link()
		c, held := redisClient(t, m, nil), redisClient(t, m, link)
		mustSetNX(t, c, "a", "1")
		mustSetNX(t, held, "b", "1")
		link.Partition()
		m.Freeze()
		wantTimeout(t, c, "c", "1")
		m.Close() // returns when the goroutines have ended, though frozen and partitioned
		m.Close()
		if _, err := m.Dial(t.Context(), "", ""); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial after Close: got %v, want ECONNREFUSED", err)
		}
		m.Restart()
		if _, err := m.Dial(t.Context(), "", ""); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial after Close and Restart: got %v, want ECONNREFUSED", err)
		}
		link.Heal()
		wantKeys(t, m, "a", "b")
	})
}
