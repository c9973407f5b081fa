package main

import (
	"testing"
	"time"

	"redlockd/redlock/redisproc"

	"github.com/redis/go-redis/v9"
)

// Goal: the masters' commands are counted, ours are not. Method: two real masters, three commands between two readings.
func TestCommandCounter(t *testing.T) {
	redisproc.Need(t, "redis-server")
	ctx := t.Context()
	c, err := startCluster(ctx, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	client := redis.NewClient(&redis.Options{Addr: c.masters[1].Addr})
	defer client.Close()
	counter := newCommandCounter(c)
	defer counter.close()
	var counts []int
	for range 3 {
		if err := client.Ping(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		n, err := counter.read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		counts = append(counts, n)
	}
	if got := counts[2] - counts[1]; got != 1 {
		t.Errorf("got %d commands between two readings, want the one PING", got)
	}
}

// Goal: clients of several redlockd exclude each other and all get their turn. Method: a fleet of two on real masters,
// 300 ms.
func TestProxiesCell(t *testing.T) {
	b := builtBench(t)
	b.hotDuration = 300 * time.Millisecond
	r, err := runProxiesCell(t.Context(), b, fleet{proxies: 2, clients: 2})
	if err != nil {
		t.Fatal(err)
	}
	if r.Violations != 0 || r.Failures.Count != 0 {
		t.Errorf("got %d violations, failures %v, want none", r.Violations, r.Failures)
	}
	if r.Across == 0 || r.Across > r.HandOvers || r.ProxyMin == 0 || r.CommandsPerGrant < masterCount || r.IdleCommandsPerSec <= 0 {
		t.Errorf("got %+v, want hand-overs across, turns for both, at least a command to every master per grant", r)
	}
}
