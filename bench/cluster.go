package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/redisproc"
)

// masterCount is the number of masters of every cluster, the five of the Redlock page.
const masterCount = 5

// cluster is the servers under test: fresh masters and, when a target needs it, a redlockd in front of them.
type cluster struct {
	masters []*redisproc.Server
	proxy   *proxy // nil when no target uses redlockd
}

// startCluster starts n masters and, with a program to run, redlockd. Nothing is left running on an error.
func startCluster(ctx context.Context, n int, program *proxyProgram) (_ *cluster, err error) {
	c := new(cluster)
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.masters, err = redisproc.StartN(n); err != nil {
		return nil, err
	}
	if program != nil {
		if c.proxy, err = program.start(ctx, redisproc.Addrs(c.masters)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *cluster) close() {
	if c.proxy != nil {
		c.proxy.close()
	}
	for _, m := range c.masters {
		m.Close()
	}
}

// spec fills in where the servers of this cluster listen.
func (c *cluster) spec(spec loadSpec) loadSpec {
	spec.Masters = redisproc.Addrs(c.masters)
	if c.proxy != nil {
		spec.Redlockd = c.proxy.addr
	}
	return spec
}

// cpu is the CPU time that the servers which a target uses have spent so far.
func (c *cluster) cpu(target string) (redlockd, masters time.Duration, err error) {
	if usesRedlockd(target) {
		if redlockd, err = processCPU([]int{c.proxy.process.Process.Pid}); err != nil {
			return 0, 0, err
		}
	}
	var pids []int
	for _, m := range c.masters[:mastersUsed(target, len(c.masters))] {
		pids = append(pids, m.Pid())
	}
	masters, err = processCPU(pids)
	return redlockd, masters, err
}

// ownKeys begins the name of every key that redlockd keeps for itself on a master.
const ownKeys = "redlockd:"

// keysLeft counts on each master the keys that are locks. After every caller has released everything each one is an
// orphan: a resource that stays locked until its TTL ends, for nobody.
func (c *cluster) keysLeft(ctx context.Context) ([]int, error) {
	left := make([]int, len(c.masters))
	for i, m := range c.masters {
		client := redis.NewClient(&redis.Options{Addr: m.Addr})
		keys, err := client.Keys(ctx, "*").Result()
		client.Close()
		if err != nil {
			return nil, fmt.Errorf("count the keys of master %s: %w", m.Addr, err)
		}
		left[i] = countLocks(keys)
	}
	return left, nil
}

// countLocks leaves out what redlockd keeps for itself.
func countLocks(keys []string) int {
	n := 0
	for _, key := range keys {
		if !strings.HasPrefix(key, ownKeys) {
			n++
		}
	}
	return n
}
