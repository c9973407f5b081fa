package redlock

// What other Redlock libraries make of the faults of scenario_test.go: a benchmark that prints README's table, and no test of ours.
// `make scenarios` runs it. In each trial client A takes one lease, harm is done, and client B tries for the same resource until
// A's lease ends by A's own reckoning. Two holders: B got it before.
//
// The peers are used as their READMEs show, with one attempt per call; the caller tries again.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const (
	peerTTL   = 3 * time.Second
	nodeLocks = "testdata/node-redlock"
)

// peerRows are the key rows of scenarios, in the same words.
var peerRows = []scenario{
	{name: "no fault"},
	{name: "holder reached 3 of 5, one of them restarts empty", had: three, harm: restart(1)},
	{name: "all five restart, one after another, within one TTL", harm: restart(1, 2, 3, 4, 5)},
	{name: "AOF everysec, holder reached 3 of 5, one loses power", args: aof("everysec"), had: three, ready: markAOF, harm: losePower},
	{name: "FLUSHALL on three", harm: on(flush, 1, 2, 3)},
	{name: "holder reached 3 of 5, failover of one to a lagging replica", had: three, ready: lagBehind, harm: failOver},
	{name: "clocks of three step by +10 s", harm: step(10, 1, 2, 3)},
	{name: "holder reached 3 of 5, clock of one steps by +10 s", had: three, harm: step(10, 1)},
	{name: "three that may evict (volatile-lru) run out of memory", ready: mayEvict, harm: evictLocks, others: refuses},
}

// mayEvict allows three masters to evict, and gives clients that look at such things the time to do so.
func mayEvict(p *play) {
	on([]any{"CONFIG", "SET", "maxmemory", "1gb", "maxmemory-policy", "volatile-lru"}, three...)(p)
	time.Sleep(3 * DefaultOptions().Heartbeat)
}

// evictLocks fills their memory with keys that have no TTL, until locks had to go, and empties it again.
func evictLocks(p *play) {
	for _, n := range three {
		field := func(section, name string) string { return parseInfo(p.do(p.master(n), "INFO", section).(string))[name] }
		used, err := strconv.Atoi(field("memory", "used_memory"))
		if err != nil {
			p.Fatal(err)
		}
		p.do(p.master(n), "CONFIG", "SET", "maxmemory", used+1<<20)
		client := redis.NewClient(&redis.Options{Addr: p.master(n).Addr, MaxRetries: -1})
		defer client.Close()
		for i := 0; field("stats", "evicted_keys") == "0"; i++ {
			if i == 1000 {
				p.Fatalf("master %d evicts nothing", n)
			}
			client.Set(p.Context(), fmt.Sprint("filler ", i%30), strings.Repeat("x", 64<<10), 0) // with its memory full it may refuse
		}
		for i := range 30 {
			p.do(p.master(n), "DEL", fmt.Sprint("filler ", i))
		}
	}
}

// locker is one client of a lock library.
type locker interface {
	// try asks once. It returns until when the holder may rely on the lock.
	try(ctx context.Context, resource string) (until time.Time, err error)
}

// peer is a lock library. It opens a client over the links of a party, all of which pass at that time.
type peer struct {
	name string
	open func(*play) (*party, locker)
}

var peers = []peer{
	{"redlockd", openOurs},
	{"redsync", openRedsync},
	{"node-redlock", openNode},
}

func TestPeerScenarios(t *testing.T) {
	trials, _ := strconv.Atoi(os.Getenv("REDLOCK_PEERS"))
	if trials == 0 {
		t.Skip("a benchmark: REDLOCK_PEERS is the number of trials")
	}
	shim := buildClockShim(t)
	type cell struct{ leases, twice int }
	cells := make([][]cell, len(peerRows))
	slots := make(chan struct{}, stages)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, row := range peerRows {
		cells[i] = make([]cell, len(peers))
		for j, peer := range peers {
			if _, err := os.Stat(filepath.Join(nodeLocks, "node_modules")); peer.name == "node-redlock" && err != nil {
				continue
			}
			for range trials {
				wg.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					t.Run(peer.name+" "+row.name, func(t *testing.T) {
						held, twice := (&play{T: t, scenario: row, ttl: peerTTL}).trial(shim, peer)
						mu.Lock()
						defer mu.Unlock()
						if held {
							cells[i][j].leases++
						}
						if twice {
							cells[i][j].twice++
						}
					})
				})
			}
		}
	}
	wg.Wait()

	var b strings.Builder
	b.WriteString("| fault |")
	for _, peer := range peers {
		b.WriteString(" " + peer.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(peers)) + "\n")
	for i, row := range peerRows {
		b.WriteString("| " + row.name + " |")
		for j, c := range cells[i] {
			switch {
			case c.leases == 0 && j == 0:
				b.WriteString(" gives no lock |")
			case c.leases == 0:
				b.WriteString(" - |")
			case c.twice > 0:
				fmt.Fprintf(&b, " **%d of %d** |", c.twice, c.leases)
			default:
				fmt.Fprintf(&b, " 0 of %d |", c.leases)
			}
		}
		b.WriteString("\n")
	}
	t.Logf("two holders, in so many leases\n\n%s", &b)
	for i, row := range peerRows {
		if ours := cells[i][0]; ours.twice > 0 || (ours.leases == 0) != (row.others == refuses) {
			t.Errorf("%s: redlockd gave %d leases, and had two holders %d times", row.name, ours.leases, ours.twice)
		}
	}
}

// trial tells whether A got the lease, and whether B got the same while A relied on it.
func (p *play) trial(shim string, with peer) (held, twice bool) {
	p.startMasters(shim)
	var a, b locker
	p.a, a = with.open(p)
	p.b, b = with.open(p)
	if p.ready != nil {
		p.ready(p)
	}
	p.a.keep(p.had)
	const resource = "resource"
	var until time.Time
	err := errors.New("not tried")
	for began := time.Now(); err != nil && time.Since(began) < 5*time.Second; time.Sleep(50 * time.Millisecond) {
		until, err = a.try(p.Context(), resource)
		if err == nil {
			break
		}
	}
	if err != nil {
		p.Logf("A got no lock: %v", err)
		return false, false
	}
	if p.harm != nil {
		p.harm(p)
	}
	for time.Until(until) > 0 {
		if _, err := b.try(p.Context(), resource); err == nil {
			return true, time.Until(until) > 0
		}
		time.Sleep(20 * time.Millisecond)
	}
	return true, false
}

func openOurs(p *play) (*party, locker) {
	x := p.connect(nil)
	x.allUp(p, nil)
	return x, ours{x.Client}
}

type ours struct{ *Client }

func (o ours) try(ctx context.Context, resource string) (time.Time, error) {
	lease, err := o.TryLock(ctx, resource, peerTTL)
	if err != nil {
		return time.Time{}, err
	}
	return lease.Until(), nil
}

func openRedsync(p *play) (*party, locker) {
	x := p.wire()
	var pools []redsyncredis.Pool
	for _, link := range x.links {
		client := redis.NewClient(&redis.Options{Addr: link.addr})
		p.Cleanup(func() { client.Close() })
		pools = append(pools, goredis.NewPool(client))
	}
	return x, redsyncLocker{redsync.New(pools...)}
}

type redsyncLocker struct{ *redsync.Redsync }

func (r redsyncLocker) try(ctx context.Context, resource string) (time.Time, error) {
	mutex := r.NewMutex(resource, redsync.WithExpiry(peerTTL))
	if err := mutex.TryLockContext(ctx); err != nil {
		return time.Time{}, err
	}
	return mutex.Until(), nil
}

// openNode starts a process with one client of node-redlock.
func openNode(p *play) (*party, locker) {
	p.Helper()
	x := p.wire()
	args := []string{filepath.Join(nodeLocks, "peer.mjs")}
	for _, link := range x.links {
		args = append(args, link.addr)
	}
	cmd := exec.Command("node", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		p.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	n := nodeLocker{in, bufio.NewScanner(out)}
	if !n.out.Scan() || n.out.Text() != "ready" {
		p.Fatalf("node-redlock: got %q (%v), want ready", n.out.Text(), n.out.Err())
	}
	return x, n
}

type nodeLocker struct {
	in  io.Writer
	out *bufio.Scanner
}

func (n nodeLocker) try(_ context.Context, resource string) (time.Time, error) {
	sent := time.Now()
	if _, err := fmt.Fprintf(n.in, "%s %d\n", resource, peerTTL.Milliseconds()); err != nil {
		return time.Time{}, err
	}
	if !n.out.Scan() {
		return time.Time{}, errors.Join(io.ErrUnexpectedEOF, n.out.Err())
	}
	left, err := strconv.Atoi(n.out.Text())
	if err != nil {
		return time.Time{}, fmt.Errorf("node-redlock: %s", n.out.Text())
	}
	return sent.Add(time.Duration(left) * time.Millisecond), nil
}
