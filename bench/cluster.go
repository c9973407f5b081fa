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
	proxies []*proxy    // over the same masters; none when no target uses redlockd
	etcd    *etcdServer // nil when it is not among the targets
	floor   *proxy      // as etcd
	relays  []*relay    // one in front of each master that stands at a distance; none otherwise
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
		if err := program.vouch(ctx, redisproc.Addrs(c.masters)); err != nil {
			return nil, err
		}
		if err := c.addProxy(ctx, program, redisproc.Addrs(c.masters)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// addProxy starts one more redlockd over the masters, which it reaches at addrs.
func (c *cluster) addProxy(ctx context.Context, program *proxyProgram, addrs []string) error {
	started, err := program.start(ctx, addrs)
	if err != nil {
		return err
	}
	c.proxies = append(c.proxies, started)
	return nil
}

func (c *cluster) close() {
	for _, p := range c.proxies {
		p.close()
	}
	if c.etcd != nil {
		c.etcd.close()
	}
	if c.floor != nil {
		c.floor.close()
	}
	for _, r := range c.relays {
		r.close()
	}
	for _, m := range c.masters {
		m.Close()
	}
}

// moveAway puts a relay in front of every master, a round trip away. A redlockd that runs already does not notice.
func (c *cluster) moveAway(roundTrip time.Duration) error {
	for _, m := range c.masters {
		r, err := newRelay(m.Addr, roundTrip)
		if err != nil {
			return err
		}
		c.relays = append(c.relays, r)
	}
	return nil
}

// mastersSeen are the addresses at which the masters are reached.
func (c *cluster) mastersSeen() []string {
	if len(c.relays) > 0 {
		return column(c.relays, func(r *relay) string { return r.addr })
	}
	return redisproc.Addrs(c.masters)
}

// spec fills in where the servers of this cluster listen.
func (c *cluster) spec(spec loadSpec) loadSpec {
	spec.Masters = c.mastersSeen()
	if len(c.proxies) > 0 {
		spec.Redlockd = c.proxies[0].addr
		spec.Fleet = column(c.proxies, func(p *proxy) string { return p.addr })
	}
	if c.etcd != nil {
		spec.Etcd = c.etcd.addr
	}
	if c.floor != nil {
		spec.Floor = c.floor.addr
	}
	return spec
}

// cpu is the CPU time that the servers which a target uses have spent so far; etcd counts as a master, the floor as redlockd.
func (c *cluster) cpu(target string) (s serverCPU, err error) {
	var proxies []*proxy
	switch {
	case usesRedlockd(target):
		proxies = c.proxies
	case target == targetFloor:
		proxies = []*proxy{c.floor}
	}
	if s.redlockd, err = processCPU(column(proxies, (*proxy).pid)...); err != nil {
		return s, err
	}
	masters := c.pids()[:mastersUsed(target, len(c.masters))]
	if target == targetEtcd {
		masters = []int{c.etcd.process.Process.Pid}
	}
	s.masters, err = processCPU(masters...)
	return s, err
}

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
