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
	proxy   *proxy      // nil when no target uses redlockd
	etcd    *etcdServer // nil when it is not among the targets
	peers   string      // the program that is the load generator of peers
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
	if c.etcd != nil {
		c.etcd.close()
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
	if c.etcd != nil {
		spec.Etcd = c.etcd.addr
	}
	if isPeer(spec.Target) {
		spec.program = c.peers
	}
	return spec
}

// cpu is the CPU time that the servers which a target uses have spent so far; etcd counts as a master.
func (c *cluster) cpu(target string) (redlockd, masters time.Duration, err error) {
	if usesRedlockd(target) {
		if redlockd, err = processCPU([]int{c.proxy.process.Process.Pid}); err != nil {
			return 0, 0, err
		}
	}
	if target == targetEtcd {
		masters, err = processCPU([]int{c.etcd.process.Process.Pid})
		return 0, masters, err
	}
	masters, err = processCPU(c.pids()[:mastersUsed(target, len(c.masters))])
	return redlockd, masters, err
}

// mastersCPU is the CPU time that all the masters have spent so far.
func (c *cluster) mastersCPU() (time.Duration, error) { return processCPU(c.pids()) }

// pids are the processes of the masters.
func (c *cluster) pids() []int {
	return column(c.masters, func(m *redisproc.Server) int { return m.Pid() })
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
