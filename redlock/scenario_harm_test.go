package redlock

// What the scenarios do to masters and links. Masters are numbered from 1.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/lua"
	"redlockd/redlock/redisproc"
)

func (p *play) master(n int) *redisproc.Server { return p.running[n-1] }

// do sends a command to a server, past the relays, and fails the test if it is refused.
func (p *play) do(s *redisproc.Server, args ...any) any {
	p.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	defer client.Close()
	reply, err := client.Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		p.Fatalf("%v on %s: %v", args, s.Addr, err)
	}
	return reply
}

// on sends a command to masters.
func on(command []any, masters ...int) func(*play) {
	return func(p *play) {
		for _, n := range masters {
			p.do(p.master(n), command...)
		}
	}
}

// settled waits after what it does until all masters have a vote again.
func settled(f func(*play), masters ...int) func(*play) {
	return func(p *play) {
		f(p)
		p.awaitOut(masters...)
		p.a.allUp(p, nil)
		p.b.allUp(p, nil)
	}
}

// awaitOut waits until both clients have found masters that must not vote. One that a busy machine holds up is none: it has its vote back with
// its answer.
func (p *play) awaitOut(masters ...int) {
	p.Helper()
	p.until("masters out", func() error {
		for _, n := range masters {
			for _, x := range []*party{p.a, p.b} {
				if m := x.Masters()[n-1]; m.State != MasterRefused && m.State != MasterQuarantined {
					return fmt.Errorf("master %d is %s: %s", n, m.State, m.Reason)
				}
			}
		}
		return nil
	})
}

// Restarts.

func restart(masters ...int) func(*play) {
	return func(p *play) {
		for _, n := range masters {
			p.restart(n)
		}
	}
}

func (p *play) restart(n int) {
	p.Helper()
	p.master(n).Kill()
	if err := p.master(n).Restart(); err != nil {
		p.fallsThrough("%v", err)
	}
}

// upgrade restarts one master after the other: the next when both clients have admitted the one before, and it has A's locks
// again. A renews its leases all the while, which gives the masters back what they have lost, and must not lose one.
func upgrade(p *play) {
	for n := 1; n <= len(p.running); n++ {
		p.restart(n)
		p.until(fmt.Sprintf("master %d as before", n), func() error {
			if !p.renew(n) {
				return errors.New("it has not all locks of A")
			}
			for _, x := range []*party{p.a, p.b} {
				if m := x.Masters()[n-1]; m.State != MasterUp && !p.tooLate {
					return fmt.Errorf("%s: %s", m.State, m.Reason)
				}
			}
			return nil
		})
	}
}

// renew extends A's leases that have run for a while, or that a master does not have. It returns whether that has them all.
func (p *play) renew(master int) bool {
	p.Helper()
	all := true
	for _, c := range p.claims {
		has := p.do(p.master(master), "GET", c.lease.Resources[0]) == c.lease.Token
		if !has || c.left() < p.ttl/2 {
			p.extend(c)
		}
		all = all && has
	}
	return all || p.tooLate
}

func (p *play) extend(c *claim) {
	p.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.lease.Extend(p.Context(), p.ttl)
	switch {
	case c.lease.Validity() <= 0:
		p.tooLate = true
	case err != nil && !errors.Is(err, ErrNoQuorum):
		p.Fatalf("A extends %q: %v", c.lease.Resources, err)
	}
}

// Persistence.

func aof(fsync string) []string { return []string{"--appendonly", "yes", "--appendfsync", fsync} }

func (p *play) aofPath() string {
	return filepath.Join(p.master(1).Dir(), "appendonlydir", "appendonly.aof.1.incr.aof")
}

// markAOF remembers what of the file will have reached the disk.
func markAOF(p *play) {
	info, err := os.Stat(p.aofPath())
	if err != nil {
		p.Fatal(err)
	}
	p.aofSize = info.Size()
}

func losePower(p *play) {
	p.master(1).Kill()
	if err := os.Truncate(p.aofPath(), p.aofSize); err != nil {
		p.Fatal(err)
	}
	if err := p.master(1).Restart(); err != nil {
		p.fallsThrough("%v", err)
	}
}

// snapshot saves the memory of master 1, and waits until both clients have seen it grow older.
func snapshot(p *play) {
	p.do(p.master(1), "SAVE")
	p.beats()
}

// beats waits until both clients have raised the beat of master 1.
func (p *play) beats() {
	p.Helper()
	beat := func() (n int) {
		fmt.Sscan(fmt.Sprint(p.do(p.master(1), "HGET", lua.MembersKey, "beat")), &n)
		return n
	}
	began := beat()
	p.until("beats", func() error {
		if now := beat(); now < began+4 {
			return fmt.Errorf("from %d to %d", began, now)
		}
		return nil
	})
}

// rollBack has master 1 come back from the network with the same run_id and the memory of the snapshot.
func rollBack(p *play) {
	p.a.links[0].Cut()
	p.b.links[0].Cut()
	p.do(p.master(1), "DEBUG", "RELOAD", "NOSAVE")
	p.a.links[0].Restore()
	p.b.links[0].Restore()
}

// Clocks.

// step moves the wall clock of masters.
func step(seconds int, masters ...int) func(*play) {
	return func(p *play) {
		for _, n := range masters {
			if err := p.master(n).SetClock(time.Duration(seconds) * time.Second); err != nil {
				p.Error(err)
			}
		}
	}
}

// Memory.

func evicting(policy string) []string {
	return []string{"--maxmemory", "1gb", "--maxmemory-policy", policy}
}

// fillMemory has masters use more memory than they may.
func fillMemory(masters ...int) func(*play) {
	return on([]any{"CONFIG", "SET", "maxmemory", 1}, masters...)
}

// fillMemoryForLong does the same and lets all clients have a look at it.
func fillMemoryForLong(masters ...int) func(*play) {
	return func(p *play) {
		fillMemory(masters...)(p)
		time.Sleep(2 * p.a.Options().Heartbeat)
	}
}

// evict allows masters to evict keys, waits until both clients have seen that, and fills the memory.
func evict(policy string, masters ...int) func(*play) {
	return func(p *play) {
		on([]any{"CONFIG", "SET", "maxmemory", "1gb", "maxmemory-policy", policy}, masters...)(p)
		p.awaitOut(masters...)
		fillMemory(masters...)(p)
	}
}

// evictAndRepent does the same, and then sets the policy right, as the log says one should.
func evictAndRepent(master int) func(*play) {
	return func(p *play) {
		evict("volatile-lru", master)(p)
		on([]any{"CONFIG", "SET", "maxmemory", 0, "maxmemory-policy", "noeviction"}, master)(p)
	}
}

// Replication.

// laggingReplica makes a replica of master 1 that hears no more of it, and is behind the beats of both clients.
func laggingReplica(p *play) {
	p.replica = p.start("")
	p.replication = redisproc.NewRelay(p.T, p.master(1).Addr)
	p.replicate(p.replica, p.replication.Addr)
	p.replication.Hold()
	p.beats()
}

// replicate makes a server a replica and waits until it has everything.
func (p *play) replicate(s *redisproc.Server, of string) {
	p.Helper()
	host, port, _ := net.SplitHostPort(of)
	p.do(s, "REPLICAOF", host, port)
	p.until("replication", func() error {
		if info := fmt.Sprint(p.do(s, "INFO", "replication")); !strings.Contains(info, "master_link_status:up") {
			return errors.New("the link is not up")
		}
		return nil
	})
}

func (p *play) promote(s *redisproc.Server) { p.do(s, "REPLICAOF", "NO", "ONE") }

// failOver puts the replica in the place of master 1.
func failOver(p *play) {
	p.master(1).Kill()
	p.promote(p.replica)
	p.a.links[0].Redirect(p.replica.Addr)
	p.b.links[0].Redirect(p.replica.Addr)
	p.running[0] = p.replica
}

// failOverAndBack makes master 1 the replica of its own replica, and the master again.
func failOverAndBack(p *play) {
	p.promote(p.replica)
	p.replicate(p.master(1), p.replica.Addr)
	p.promote(p.master(1))
}

func copyAnother(p *play) {
	p.replicate(p.master(1), p.master(5).Addr)
	p.promote(p.master(1))
}

// Hangs.

func hangFor(d time.Duration, masters ...int) func(*play) {
	return func(p *play) {
		for _, n := range masters {
			conn, err := net.Dial("tcp", p.master(n).Addr)
			if err != nil {
				p.Fatal(err)
			}
			p.Cleanup(func() { conn.Close() })
			fmt.Fprintf(conn, "DEBUG SLEEP %v\r\n", d.Seconds())
		}
	}
}

// late has A send SETs to three masters that do not answer until A has given up the attempts and the connections. Then they execute
// what has reached them: no key may be left of it.
func late(stop, resume func(*play, int)) func(*play) {
	return func(p *play) {
		for _, n := range three {
			stop(p, n)
		}
		var wg sync.WaitGroup
		for i := range resources {
			wg.Go(func() {
				if _, err := p.a.TryLock(p.Context(), fmt.Sprint("late ", i+1), p.ttl); !errors.Is(err, ErrNoQuorum) {
					p.Errorf("A locks with 3 masters silent: got %v, want no quorum", err)
				}
			})
		}
		wg.Wait()
		silent := "no answer within " + p.a.Options().MasterTimeout.String()
		p.until("connections given up", func() error {
			for _, n := range three {
				if m := p.a.Masters()[n-1]; m.Reason == silent {
					return fmt.Errorf("master %d: %s", n, m.Reason)
				}
			}
			return nil
		})
		for _, n := range three {
			resume(p, n)
		}
	}
}

func freeze(p *play, n int) {
	if err := p.master(n).Freeze(); err != nil {
		p.Fatal(err)
	}
}

func thaw(p *play, n int) {
	if err := p.master(n).Thaw(); err != nil {
		p.Fatal(err)
	}
}

func hold(p *play, n int)        { p.a.links[n-1].Hold() }
func holdPresent(p *play, n int) { p.a.links[n-1].HoldPresent() }
func restore(p *play, n int)     { p.a.links[n-1].Restore() }

// restoreLate delivers what was held when A is back on connections of later date.
func restoreLate(p *play, n int) {
	p.until("A is back", func() error {
		if m := p.a.Masters()[n-1]; m.State != MasterUp {
			return fmt.Errorf("master %d: %s", n, m.Reason)
		}
		return nil
	})
	restore(p, n)
}
