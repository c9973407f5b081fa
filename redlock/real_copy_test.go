package redlock

// Recovery by copying over real redis-server processes without persistence: they are killed and restarted one after another while clients lock, also
// with a max_ttl that no wait of a test reaches the end of.

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// killFor is the environment variable that says for how long TestRealKillLoop kills masters.
const killFor = "REDLOCK_KILL_FOR"

func longTTL(o *Options) { o.MaxTTL = 10 * time.Minute }

func TestRealKillLoop(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv(killFor))
	if err != nil {
		length = 5 * time.Second
	}
	servers := redisproc.StartForTest(t, 5)
	c, other := openReal(t, servers, longTTL), openReal(t, servers, longTTL)
	allUp(t, c)
	allUp(t, other)
	ctx := context.Background()
	var held []*Lease
	for i := range 300 {
		lease, err := c.TryLock(ctx, fmt.Sprint("held:", i), 10*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, lease)
	}
	var pairs atomic.Int64
	stop := make(chan struct{})
	first, second := churn(t, c, 25, stop, &pairs), churn(t, other, 25, stop, &pairs)
	kills, worst := 0, time.Duration(0)
	for began := time.Now(); time.Since(began) < length || kills < len(servers); kills++ {
		s := servers[kills%len(servers)]
		s.Kill()
		progress(t, &pairs, 50)
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		restarted := time.Now()
		allUp(t, c)
		worst = max(worst, time.Since(restarted))
		allUp(t, other)
		progress(t, &pairs, 50)
		taken := fmt.Sprint("held:", kills%len(held))
		if lease, err := other.TryLock(ctx, taken, time.Second); err == nil {
			t.Fatalf("%s is held, and was granted as %+v after %d restarts", taken, lease, kills+1)
		}
	}
	close(stop)
	first.Wait()
	second.Wait()
	t.Logf("%d restarts, each votes within %v; %d pairs", kills, worst.Round(time.Millisecond), pairs.Load())
	for i, lease := range held {
		if err := lease.Extend(ctx, 10*time.Minute); err != nil {
			t.Errorf("held:%d after %d restarts: %v", i, kills, err)
		}
		if err := lease.Unlock(ctx); err != nil {
			t.Errorf("held:%d: %v", i, err)
		}
	}
	noKeys(t, servers)
}

// send sends commands to a server in one pipeline.
func send(t *testing.T, s *redisproc.Server, commands ...[]any) {
	t.Helper()
	client := dialServer(t, s.Addr)
	pipe := client.Pipeline()
	for _, command := range commands {
		pipe.Do(context.Background(), command...)
	}
	if _, err := pipe.Exec(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// A learner whose memory is full is not given what it has to know. That is said, and ends when it has room.
func TestRealLearnerIsFull(t *testing.T) {
	servers := redisproc.StartForTest(t, 3)
	c := openReal(t, servers, longTTL)
	allUp(t, c)
	long := strings.Repeat("x", 900)
	for i := range 3000 {
		if _, err := c.TryLock(context.Background(), fmt.Sprint(i, long), 10*time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	servers[0].Kill()
	if err := servers[0].Restart(); err != nil {
		t.Fatal(err)
	}
	send(t, servers[0], []any{"CONFIG", "SET", "maxmemory", "2mb"}) // half of it is taken by the process itself
	eventually(t, "it is told", func() error {
		if copying := c.Membership().Seats[0].Copying; copying == nil || !strings.Contains(copying.Problem, "its memory is full") {
			return fmt.Errorf("got %+v", copying)
		}
		return nil
	})
	if state := c.Masters()[0].State; state == MasterUp {
		t.Error("it votes, and has not got all locks")
	}
	send(t, servers[0], []any{"CONFIG", "SET", "maxmemory", "0"})
	allUp(t, c)
}

// What is no lock is not copied, however much of it there is.
func TestRealForeignKeysAreNotCopied(t *testing.T) {
	servers := redisproc.StartForTest(t, 3)
	c := openReal(t, servers, longTTL)
	allUp(t, c)
	if _, err := c.TryLock(context.Background(), "r", 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	var commands [][]any
	for i := range 50_000 {
		commands = append(commands, []any{"SET", fmt.Sprint("page:", i), "for ever"})
	}
	for i := range 5_000 {
		commands = append(commands, []any{"HSET", fmt.Sprint("session:", i), "f", "v"}, []any{"EXPIRE", fmt.Sprint("session:", i), 600},
			[]any{"SET", fmt.Sprint("blob:", i), strings.Repeat("x", MaxValueLen+1), "EX", 600})
	}
	send(t, servers[1], commands...)
	servers[0].Kill()
	if err := servers[0].Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has no vote", func() error {
		if c.Masters()[0].State == MasterUp {
			return fmt.Errorf("it votes")
		}
		return nil
	})
	allUp(t, c)
	if keys := keysOn(t, servers[0].Addr); len(keys) != 1 || keys[0] != "r" {
		t.Errorf("got %d keys, the first is %q, want the lock alone", len(keys), keys[0])
	}
}
