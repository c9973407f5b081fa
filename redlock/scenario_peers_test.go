package redlock

// What other Redlock libraries make of the faults of scenario_test.go, and of attacks that were made to break redlockd: a benchmark that
// prints the table of bench/README.md, and no test of ours. `make scenarios` runs it, `-run 'PeerScenarios/FLUSHALL'` a part of it. In each
// trial client A takes one lease, harm is done, and client B tries for the same resource until A's lease ends by A's own reckoning. Two
// holders: B got it before.
//
// The peers are used as their READMEs show, with one attempt per call; the caller tries again. scenario_etcd_test.go has the control.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// peerRow is one row: a scenario, and what only the peers' rows have.
type peerRow struct {
	scenario
	told  []int // the masters that B's settings name; nil: all
	retry bool  // A gets its lease from a second instance, under the token that it gave the first one
}

// peerRows are the key rows of scenarios, in the same words. Behind them are the directed attacks.
var peerRows = []peerRow{
	{scenario: scenario{name: "no fault"}},
	{scenario: scenario{name: "holder reached 3 of 5, one of them restarts empty", had: three, harm: restart(1)}},
	{scenario: scenario{name: "all five restart, one after another, within one TTL", harm: restart(1, 2, 3, 4, 5)}},
	{scenario: scenario{name: "AOF everysec, holder reached 3 of 5, one loses power", args: aof("everysec"), had: three, ready: markAOF, harm: losePower}},
	{scenario: scenario{name: "FLUSHALL on three", harm: on(flush, 1, 2, 3)}},
	{scenario: scenario{name: "holder reached 3 of 5, failover of one to a lagging replica", had: three, ready: lagBehind, harm: failOver}},
	{scenario: scenario{name: "clocks of three step by +10 s", harm: step(10, 1, 2, 3)}},
	{scenario: scenario{name: "holder reached 3 of 5, clock of one steps by +10 s", had: three, harm: step(10, 1)}},
	{scenario: scenario{name: "three that may evict (volatile-lru) run out of memory", ready: mayEvict, harm: evictLocks, others: refuses}},
	{scenario: scenario{name: "holder reached 3 of 5, machine of one is rolled back to a snapshot", had: three, ready: saveMemory, harm: rollBack}},
	{scenario: scenario{name: "holder reached 3 of 5, name of one comes to mean another Redis", had: three, harm: moveName}},
	{scenario: scenario{name: "holder reached 3 of 5, settings of the other client name the wrong three", had: three}, told: []int{3, 4, 5}},
	{scenario: scenario{name: "clocks of three run 8 % fast", harm: hurry(8, 1, 2, 3)}},
	{scenario: scenario{name: "LOCK is sent again through a second instance, the first one hears late that it failed", harm: hearLate}, retry: true},
	{scenario: scenario{name: "volatile-lru is switched on at three that are out of memory", harm: evictAtOnce, assumes: seenFirst}},
}

// mayEvict allows three masters to evict, and gives clients that look at such things the time to do so.
func mayEvict(p *play) {
	on([]any{"CONFIG", "SET", "maxmemory", "1gb", "maxmemory-policy", "volatile-lru"}, three...)(p)
	time.Sleep(3 * DefaultOptions().Heartbeat)
}

// evictLocks fills their memory with keys that have no TTL, until locks had to go, and empties it again.
func evictLocks(p *play) {
	const fillers = 100
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
			client.Set(p.Context(), fmt.Sprint("filler ", i%fillers), strings.Repeat("x", 64<<10), 0) // with its memory full it may refuse
		}
		for i := range fillers {
			p.do(p.master(n), "DEL", fmt.Sprint("filler ", i))
		}
	}
}

// evictAtOnce lets three masters evict when their memory is full already, and gives them room when they have.
func evictAtOnce(p *play) {
	for _, n := range three {
		client := redis.NewClient(&redis.Options{Addr: p.master(n).Addr, MaxRetries: -1})
		defer client.Close()
		client.Pipelined(p.Context(), func(pipe redis.Pipeliner) error {
			pipe.ConfigSet(p.Context(), "maxmemory", "1")
			pipe.ConfigSet(p.Context(), "maxmemory-policy", "volatile-lru")
			pipe.Set(p.Context(), "filler", "x", 0) // is refused when all has been evicted that may be
			pipe.ConfigSet(p.Context(), "maxmemory", "1gb")
			return nil
		})
	}
}

// saveMemory takes a snapshot of master 1, and lets heartbeats pass, of clients that have them.
func saveMemory(p *play) {
	p.do(p.master(1), "SAVE")
	time.Sleep(3 * DefaultOptions().Heartbeat)
}

// moveName puts an empty Redis behind the first name.
func moveName(p *play) {
	p.running[0] = p.start("")
	p.a.links[0].Redirect(p.running[0].Addr)
	p.b.links[0].Redirect(p.running[0].Addr)
}

// hurry has the clocks of masters run fast from now on, by so many percent.
func hurry(percent int, masters ...int) func(*play) {
	return func(p *play) {
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
					p.setClock(n, gained)
				}
			}
		})
		p.Cleanup(func() {
			close(ended)
			running.Wait()
		})
	}
}

// hearLate delivers what the first instance of A has sent, and the replies.
func hearLate(p *play) {
	for _, n := range three {
		p.first.links[n-1].Restore()
	}
}

// locker is one client of a lock library.
type locker interface {
	// try asks once. It returns until when the holder may rely on the lock.
	try(ctx context.Context, resource string) (until time.Time, err error)
}

// tokenLocker is a locker of a library whose callers can choose the token.
type tokenLocker interface {
	locker
	tryAs(ctx context.Context, resource, token string) (until time.Time, err error)
}

// peer is a lock library. It opens a client over the links of a party, all of which pass at that time. The client is told of some masters, or
// of all.
type peer struct {
	name string
	open func(p *play, told []int) (*party, locker)
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
	var names, rows []string
	for _, peer := range peers {
		names = append(names, peer.name)
	}
	for _, row := range peerRows {
		rows = append(rows, row.name)
	}
	table := newScoreTable(rows, names)
	slots := make(chan struct{}, stages)
	var wg sync.WaitGroup
	for i, row := range peerRows {
		for j, peer := range peers {
			if _, err := os.Stat(filepath.Join(nodeLocks, "node_modules")); peer.name == "node-redlock" && err != nil {
				continue
			}
			for range trials {
				wg.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					t.Run(row.name+" "+peer.name, func(t *testing.T) {
						table.add(i, j, (&play{T: t, scenario: row.scenario, ttl: peerTTL}).trial(shim, row, peer))
					})
				})
			}
		}
	}
	wg.Wait()
	t.Logf("two holders, in so many leases\n\n%s", table)
	for i, row := range peerRows {
		ours := table.cells[i][0]
		if ours.trials > 0 && (ours.twice > 0 && row.assumes == "" || (ours.leases == 0) != (row.others == refuses)) {
			t.Errorf("%s: redlockd gave %d leases, and had two holders %d times", row.name, ours.leases, ours.twice)
		}
	}
}

// trialResult is what a trial has shown.
type trialResult string

const (
	oneHolder   trialResult = "one holder"
	twoHolders  trialResult = "two holders"
	noLock      trialResult = "no lock"      // A got none
	notPossible trialResult = "not possible" // or the harm came too late to prove anything
)

// scoreTable counts results, by row and column.
type scoreTable struct {
	rows, columns []string
	mu            sync.Mutex
	cells         [][]cell
}

type cell struct{ trials, leases, twice int }

func newScoreTable(rows, columns []string) *scoreTable {
	t := &scoreTable{rows: rows, columns: columns}
	for range rows {
		t.cells = append(t.cells, make([]cell, len(columns)))
	}
	return t
}

func (t *scoreTable) add(row, column int, result trialResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.cells[row][column]
	switch result {
	case notPossible:
		return
	case twoHolders:
		c.twice++
		c.leases++
	case oneHolder:
		c.leases++
	}
	c.trials++
}

// String is a table of the rows that were run.
func (t *scoreTable) String() string {
	var b strings.Builder
	b.WriteString("| fault |")
	for _, name := range t.columns {
		b.WriteString(" " + name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(t.columns)) + "\n")
	for i, row := range t.rows {
		if !slices.ContainsFunc(t.cells[i], func(c cell) bool { return c.trials > 0 }) {
			continue
		}
		b.WriteString("| " + row + " |")
		for _, c := range t.cells[i] {
			switch {
			case c.trials == 0:
				b.WriteString(" - |")
			case c.leases == 0:
				b.WriteString(" gives no lock |")
			case c.twice > 0:
				fmt.Fprintf(&b, " **%d of %d** |", c.twice, c.leases)
			default:
				fmt.Fprintf(&b, " 0 of %d |", c.leases)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

const peerResource = "resource"

// trial tells whether A got the lease, and whether B got the same while A relied on it.
func (p *play) trial(shim string, row peerRow, with peer) trialResult {
	p.startMasters(shim)
	var a, b locker
	p.a, a = with.open(p, nil)
	p.b, b = with.open(p, row.told)
	if _, canChoose := a.(tokenLocker); row.retry && !canChoose {
		return notPossible
	}
	if p.ready != nil {
		p.ready(p)
	}
	p.a.keep(p.had)
	var until time.Time
	var err error
	if row.retry {
		until, err = p.lockAgain(with, a.(tokenLocker))
	} else {
		until, err = p.lockOnce(a)
	}
	if err != nil {
		p.Logf("A got no lock: %v", err)
		return noLock
	}
	if p.harm != nil {
		p.harm(p)
	}
	if time.Until(until) <= 0 {
		p.Log("the harm took longer than the lease")
		return notPossible
	}
	for time.Until(until) > 0 {
		if _, err := b.try(p.Context(), peerResource); err == nil {
			if time.Until(until) > 0 {
				return twoHolders
			}
			return oneHolder
		}
		time.Sleep(20 * time.Millisecond)
	}
	return oneHolder
}

// lockOnce has A ask until it is granted the lock.
func (p *play) lockOnce(a locker) (until time.Time, err error) {
	for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(50 * time.Millisecond) {
		if until, err = a.try(p.Context(), peerResource); err == nil {
			return until, nil
		}
	}
	return time.Time{}, err
}

// lockAgain has A ask an instance whose links to three masters carry nothing. After a second A asks another one, with the same token.
func (p *play) lockAgain(with peer, second tokenLocker) (until time.Time, err error) {
	const token = "the token of A"
	x, opened := with.open(p, nil)
	p.first = x
	for _, n := range three {
		x.links[n-1].Hold()
	}
	answered := make(chan error, 1)
	go func() {
		_, err := opened.(tokenLocker).tryAs(p.Context(), peerResource, token)
		answered <- err
	}()
	p.Cleanup(func() {
		x.keep([]int{})
		if err := <-answered; err == nil {
			p.Error("A was granted the lock by three masters of which it heard nothing")
		}
	})
	time.Sleep(time.Second)
	return second.tryAs(p.Context(), peerResource, token)
}

func openOurs(p *play, told []int) (*party, locker) {
	x := p.connectTold(nil, told)
	x.allUp(p, nil)
	return x, ours{x.Client}
}

type ours struct{ *Client }

func (o ours) try(ctx context.Context, resource string) (time.Time, error) {
	return o.tryAs(ctx, resource, "")
}

func (o ours) tryAs(ctx context.Context, resource, token string) (time.Time, error) {
	lease, err := o.Acquire(ctx, LockRequest{Resources: []string{resource}, TTL: peerTTL, Token: token})
	if err != nil {
		return time.Time{}, err
	}
	return lease.Until(), nil
}

func openRedsync(p *play, told []int) (*party, locker) {
	x := p.wire()
	var pools []redsyncredis.Pool
	for _, link := range x.linksTo(told) {
		client := redis.NewClient(&redis.Options{Addr: link.Addr})
		p.Cleanup(func() { client.Close() })
		pools = append(pools, goredis.NewPool(client))
	}
	return x, redsyncLocker{redsync.New(pools...)}
}

type redsyncLocker struct{ *redsync.Redsync }

func (r redsyncLocker) try(ctx context.Context, resource string) (time.Time, error) {
	return tryRedsync(ctx, r.NewMutex(resource, redsync.WithExpiry(peerTTL)))
}

func (r redsyncLocker) tryAs(ctx context.Context, resource, token string) (time.Time, error) {
	chosen := func() (string, error) { return token, nil }
	return tryRedsync(ctx, r.NewMutex(resource, redsync.WithExpiry(peerTTL), redsync.WithGenValueFunc(chosen)))
}

func tryRedsync(ctx context.Context, mutex *redsync.Mutex) (time.Time, error) {
	if err := mutex.TryLockContext(ctx); err != nil {
		return time.Time{}, err
	}
	return mutex.Until(), nil
}

// openNode starts a process with one client of node-redlock.
func openNode(p *play, told []int) (*party, locker) {
	p.Helper()
	x := p.wire()
	args := []string{filepath.Join(nodeLocks, "peer.mjs")}
	for _, link := range x.linksTo(told) {
		args = append(args, link.Addr)
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
