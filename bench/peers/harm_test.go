package peers

// What is done to masters and links.

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

	"redlockd/redlock"
	"redlockd/redlock/redisproc"
)

func (p *trial) master(n int) *redisproc.Server { return p.masters[n-1] }

// connect opens a connection to a server, past the relays.
func (p *trial) connect(s *redisproc.Server) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	p.Cleanup(func() { client.Close() })
	return client
}

// do sends a command to a server, past the relays, and fails the trial if it is refused.
func (p *trial) do(s *redisproc.Server, args ...any) any {
	p.Helper()
	client := p.connect(s)
	defer client.Close()
	reply, err := client.Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		p.Fatalf("%v on %s: %v", args, s.Addr, err)
	}
	return reply
}

// onThree sends a command to three masters.
func onThree(command ...any) func(*trial) {
	return func(p *trial) {
		for _, n := range three {
			p.do(p.master(n), command...)
		}
	}
}

// aBeat lets heartbeats pass, of clients that have them.
func aBeat() { time.Sleep(3 * redlock.DefaultOptions().Heartbeat) }

// Restarts and persistence.

func restart(masters ...int) func(*trial) {
	return func(p *trial) {
		for _, n := range masters {
			p.master(n).Kill()
			p.startAgain(n)
		}
	}
}

func (p *trial) startAgain(n int) {
	p.Helper()
	if err := p.master(n).Restart(); err != nil {
		p.Fatal(err)
	}
}

func (p *trial) aofPath() string {
	return filepath.Join(p.master(1).Dir(), "appendonlydir", "appendonly.aof.1.incr.aof")
}

// markAOF remembers what of the file of master 1 will have reached the disk.
func markAOF(p *trial) {
	info, err := os.Stat(p.aofPath())
	if err != nil {
		p.Fatal(err)
	}
	p.aofSize = info.Size()
}

func losePower(p *trial) {
	p.master(1).Kill()
	if err := os.Truncate(p.aofPath(), p.aofSize); err != nil {
		p.Fatal(err)
	}
	p.startAgain(1)
}

// saveMemory takes a snapshot of master 1.
func saveMemory(p *trial) {
	p.do(p.master(1), "SAVE")
	aBeat()
}

// rollBack has master 1 come back from the network with the same run_id and the memory of the snapshot.
func rollBack(p *trial) {
	p.a.links[0].Cut()
	p.b.links[0].Cut()
	p.do(p.master(1), "DEBUG", "RELOAD", "NOSAVE")
	p.a.links[0].Restore()
	p.b.links[0].Restore()
}

// Addresses.

// lagBehind makes a replica of master 1 that hears no more of it.
func lagBehind(p *trial) {
	p.replica = p.start("")
	p.replication = redisproc.NewRelay(p.T, p.master(1).Addr)
	host, port, _ := net.SplitHostPort(p.replication.Addr)
	p.do(p.replica, "REPLICAOF", host, port)
	until(p.T, "replication", func() error {
		if info := fmt.Sprint(p.do(p.replica, "INFO", "replication")); !strings.Contains(info, "master_link_status:up") {
			return errors.New("the link is not up")
		}
		return nil
	})
	p.replication.Hold()
}

// failOver puts the replica in the place of master 1.
func failOver(p *trial) {
	p.master(1).Kill()
	p.do(p.replica, "REPLICAOF", "NO", "ONE")
	p.moveTo(p.replica)
}

// moveName puts an empty Redis behind the first name.
func moveName(p *trial) { p.moveTo(p.start("")) }

func (p *trial) moveTo(s *redisproc.Server) {
	p.masters[0] = s
	p.a.links[0].Redirect(s.Addr)
	p.b.links[0].Redirect(s.Addr)
}

// Clocks.

// step moves the wall clock of masters.
func step(seconds int, masters ...int) func(*trial) {
	return func(p *trial) {
		for _, n := range masters {
			if err := p.master(n).SetClock(time.Duration(seconds) * time.Second); err != nil {
				p.Error(err)
			}
		}
	}
}

// hurry has the clocks of masters run fast from now on, by so many percent.
func hurry(percent int, masters ...int) func(*trial) {
	return func(p *trial) {
		began, ended := time.Now(), make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() {
			for {
				select {
				case <-ended:
					return
				case <-time.After(5 * time.Millisecond):
				}
				gained := time.Since(began) * time.Duration(percent) / 100
				for _, n := range masters {
					p.master(n).SetClock(gained)
				}
			}
		})
		p.Cleanup(func() {
			close(ended)
			running.Wait()
		})
	}
}

// Memory.

// mayEvict allows three masters to evict, and gives clients that look at such things the time to do so.
func mayEvict(p *trial) {
	onThree("CONFIG", "SET", "maxmemory", "1gb", "maxmemory-policy", "volatile-lru")(p)
	aBeat()
}

// evictLocks fills their memory with keys that have no TTL, until locks had to go, and empties it again.
func evictLocks(p *trial) {
	const fillers = 100
	for _, n := range three {
		used := p.field(n, "memory", "used_memory")
		p.do(p.master(n), "CONFIG", "SET", "maxmemory", used+1<<20)
		client := p.connect(p.master(n))
		for i := 0; p.field(n, "stats", "evicted_keys") == 0; i++ {
			if i == 1000 {
				p.Fatalf("master %d evicts nothing", n)
			}
			client.Set(p.Context(), fmt.Sprint("filler ", i%fillers), strings.Repeat("x", 64<<10), 0) // with its memory full it may refuse
		}
		for i := range fillers {
			p.do(p.master(n), "DEL", fmt.Sprint("filler ", i))
		}
	}
}

// evictAtOnce lets three masters evict when their memory is full already, and gives them room when they have.
func evictAtOnce(p *trial) {
	for _, n := range three {
		p.connect(p.master(n)).Pipelined(p.Context(), func(pipe redis.Pipeliner) error {
			pipe.ConfigSet(p.Context(), "maxmemory", "1")
			pipe.ConfigSet(p.Context(), "maxmemory-policy", "volatile-lru")
			pipe.Set(p.Context(), "filler", "x", 0) // is refused when all has been evicted that may be
			pipe.ConfigSet(p.Context(), "maxmemory", "1gb")
			return nil
		})
	}
}

// field is a number in a master's INFO.
func (p *trial) field(n int, section, name string) (number int) {
	p.Helper()
	_, after, _ := strings.Cut(fmt.Sprint(p.do(p.master(n), "INFO", section)), name+":")
	if _, err := fmt.Sscan(after, &number); err != nil {
		p.Fatalf("%s of master %d: %v", name, n, err)
	}
	return number
}

// Late bytes.

// hearLate delivers what the first instance of A has sent, and the replies.
func hearLate(p *trial) {
	for _, n := range three {
		p.first.links[n-1].Restore()
	}
}
