package redlock

// Everything that makes peers grant a lock twice, done to real redis-server processes. Client A takes eight leases, harm is done
// to the masters or to the network, and all the while client B tries for the same resources. A grant to B inside the validity
// of A's lease is a violation, and no row may have one. Where a quorum of masters is not affected, B must get other
// resources meanwhile. In the end B must get A's resources too, with higher fences, and no key may be left on any master.
//
// Each client reaches each master through a relay of its own. The masters run under a clock shim, for a Redis expires keys by
// its wall clock. `make test-scenarios` runs them, `-v` prints the table.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"redlockd/redlock/redisproc"
)

// scenario is one row. Masters are numbered from 1, in the order of Options.Masters.
type scenario struct {
	name    string
	args    []string    // of every redis-server
	servers []int       // which server stands behind the address of each master; nil: each has its own
	had     []int       // the masters that A reaches when it locks; nil: all
	sees    []int       // the masters that B ever reaches; nil: all
	ready   func(*play) // when A and B are connected, before A locks
	harm    func(*play) // when A has locked; nil: none
	fresh   bool        // B connects only after the harm
	others  expectation // what B gets of other resources
	says    string      // part of the reason that the log gives
	lasting bool        // A's leases last a minute and A releases them after the harm, so that no key goes by itself
	assumes string      // what exclusion depends on in this row, beyond what doc.go promises
}

// expectation is what B finds when it asks for a resource that nobody holds.
type expectation string

const (
	goesOn  expectation = "goes on" // a quorum of masters is left: granted at once
	waits   expectation = "waits"   // there is none for a while: granted when there is
	refuses expectation = "refuses" // there is none as long as the masters stay as they are, also for A where it has no lease yet
)

var (
	three = []int{1, 2, 3} // a bare quorum
	four  = []int{1, 2, 3, 4}
)

var scenarios = []scenario{
	{name: "no fault", others: goesOn, lasting: true},
	{name: "partial partition: A reaches 1-3, B 3-5", had: three, sees: []int{3, 4, 5}, others: goesOn, lasting: true},

	{name: "had 3/5, 1 restarts empty", had: three, harm: restart(1), others: goesOn, says: "restarted"},
	{name: "had 3/5, 1 restarts empty, B starts then", had: three, harm: restart(1), fresh: true, others: goesOn, says: "restarted"},
	{name: "had 4/5, 2 restart empty", had: four, harm: restart(1, 2), others: goesOn, says: "restarted"},
	{name: "3 restart empty", harm: restart(1, 2, 3), others: waits, says: "restarted"},
	{name: "rolling restart of all inside one TTL", harm: restart(1, 2, 3, 4, 5), others: waits, says: "restarted"},
	{name: "rolling restart, one after the other as it should be, A renews", harm: upgrade, others: goesOn, says: "restarted"},
	{name: "AOF everysec, had 3/5, 1 killed", args: aof("everysec"), had: three, harm: restart(1), others: goesOn, says: "another run"},
	{name: "AOF everysec, had 3/5, 1 loses power", args: aof("everysec"), had: three, ready: markAOF, harm: losePower, others: goesOn, says: "another run"},
	{name: "AOF always, had 3/5, 1 killed", args: aof("always"), had: three, harm: restart(1), others: goesOn, says: "another run"},

	{name: "clock +10 s on 1", harm: step(10, 1), others: goesOn, says: "out of step"},
	{name: "clock +10 s on 1, had 3/5", had: three, harm: step(10, 1), others: goesOn, says: "out of step"},
	{name: "clock +10 s on 2", harm: step(10, 1, 2), others: goesOn, says: "out of step"},
	{name: "clock +10 s on 2, had 3/5", had: three, harm: step(10, 1, 2), others: goesOn, says: "out of step"},
	{name: "clock +10 s on 3", harm: step(10, 1, 2, 3), others: waits, says: "out of step"},
	{name: "clock +10 s on 3, had 3/5", had: three, harm: step(10, 1, 2, 3), others: waits, says: "out of step"},
	{name: "clock +1 min on 3, B starts then", harm: step(60, 1, 2, 3), fresh: true, others: waits, says: "nobody has watched"},
	{name: "clock -10 s on 1, had 3/5", had: three, harm: step(-10, 1), others: goesOn},
	{name: "clock -1 min on 3", harm: step(-60, 1, 2, 3), others: goesOn},

	{name: "allkeys-lru from the start", args: evicting("allkeys-lru"), others: refuses, says: "set noeviction"},
	{name: "volatile-lru from the start", args: evicting("volatile-lru"), others: refuses, says: "set noeviction"},
	{name: "volatile-ttl from the start", args: evicting("volatile-ttl"), others: refuses, says: "set noeviction"},
	{name: "allkeys-lru on 3 by CONFIG SET, then memory full", harm: evict("allkeys-lru", 1, 2, 3), others: refuses, says: "set noeviction", assumes: seenFirst},
	{name: "volatile-lru on 3 by CONFIG SET, then memory full", harm: evict("volatile-lru", 1, 2, 3), others: refuses, says: "set noeviction", assumes: seenFirst},
	{name: "volatile-ttl on 1 by CONFIG SET, then memory full, had 3/5", had: three, harm: evict("volatile-ttl", 1), others: goesOn, says: "set noeviction", assumes: seenFirst},
	{name: "volatile-lru on 1 by CONFIG SET, memory full, and noeviction again, had 3/5", had: three, harm: evictAndRepent(1), others: goesOn, assumes: seenFirst},
	{name: "noeviction, memory full on 2", harm: fillMemoryForLong(1, 2), others: goesOn, lasting: true},
	{name: "noeviction, memory full on 3", harm: fillMemoryForLong(1, 2, 3), others: refuses, says: "OOM", lasting: true},

	{name: "FLUSHALL on 1, had 3/5", had: three, harm: on(flush, 1), others: goesOn, says: "flushed"},
	{name: "FLUSHALL on 1, had 3/5, B starts then", had: three, harm: on(flush, 1), fresh: true, others: goesOn, says: "flushed"},
	{name: "FLUSHALL on 3", harm: on(flush, 1, 2, 3), others: waits, says: "flushed"},
	{name: "FLUSHALL on 1 again, had 3/5", had: three, ready: settled(on(flush, 1), 1), harm: on(flush, 1), others: goesOn, says: "flushed"},
	{name: "SWAPDB on 1, had 3/5", had: three, harm: on(swap, 1), others: goesOn, says: "flushed"},
	{name: "SWAPDB on 3", harm: on(swap, 1, 2, 3), others: waits, says: "flushed"},
	{name: "SWAPDB back on 1, had 3/5", had: three, ready: settled(on(swap, 1), 1), harm: on(swap, 1), others: goesOn},
	{name: "failover of 1 to a lagging replica, had 3/5", had: three, ready: laggingReplica, harm: failOver, others: goesOn, says: "another run"},
	{name: "failover of 1 to a lagging replica and back, had 3/5", had: three, ready: laggingReplica, harm: failOverAndBack, others: goesOn, assumes: beatSince},
	{name: "REPLICAOF another and NO ONE on 1, had 3/5", had: three, harm: copyAnother, others: goesOn, says: "another run"},
	{name: "machine of 1 rolled back to a snapshot, had 3/5", had: three, ready: snapshot, harm: rollBack, others: goesOn, says: "beat went back", assumes: beatSince},
	{name: "2 addresses are one instance, which restarts", servers: []int{1, 1, 2, 3, 4}, had: four, harm: restart(1), others: goesOn, says: "same Redis"},
	{name: "3 addresses are one instance, which restarts", servers: []int{1, 1, 1, 2, 3}, harm: restart(1), others: waits, says: "same Redis"},

	{name: "late SETs: 3 frozen and thawed", harm: late(freeze, thaw), others: goesOn, lasting: true},
	{name: "late SETs: A's links to 3 hold their bytes, and deliver them", harm: late(hold, restore), others: goesOn, lasting: true},
	{name: "late SETs: the same for old connections only, after A is back", harm: late(holdPresent, restoreLate), others: goesOn, lasting: true},
	{name: "CLIENT PAUSE on 2", harm: on(pause, 1, 2), others: goesOn, lasting: true},
	{name: "CLIENT PAUSE on 3", harm: on(pause, 1, 2, 3), others: waits, says: "no answer", lasting: true},
	{name: "DEBUG SLEEP on 2", harm: hangFor(3*time.Second, 1, 2), others: goesOn, lasting: true},
}

const (
	seenFirst = "memory is not full before a heartbeat has seen the policy"
	beatSince = "the memory it goes back to is older than a heartbeat"
)

// Commands that rows send to masters.
var (
	flush = []any{"FLUSHALL"}
	swap  = []any{"SWAPDB", 0, 1}
	pause = []any{"CLIENT", "PAUSE", 3000, "ALL"}
)

const (
	stages     = 6 // plays at the same time: they mostly wait
	resources  = 8 // of A; every second lease is fenced
	briefest   = time.Second
	ttlLasting = time.Minute

	mostPatient = 8                       // times the briefest TTL
	answersIn   = 400 * time.Millisecond  // a master, at patience 1
	answersLast = 1600 * time.Millisecond // at most: those that hang do it for 3 s
)

func TestScenarios(t *testing.T) {
	redisproc.Release(t)
	shim := buildClockShim(t)
	scores := make([]string, len(scenarios))
	room := stageRoom{stages: stages, taken: make(chan struct{}, stages)}
	var wg sync.WaitGroup
	for i, s := range scenarios {
		wg.Go(func() {
			t.Run(s.name, func(t *testing.T) { s.play(t, &room, shim, &scores[i]) })
		})
	}
	wg.Wait()

	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "scenario\tviolations/leases\tother resources\tassumes")
	for i, s := range scenarios {
		if scores[i] != "" {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.name, scores[i], s.others, s.assumes)
		}
	}
	w.Flush()
	t.Log("\n" + table.String())
}

// stageRoom is the room for plays at the same time.
type stageRoom struct {
	entrance sync.Mutex // who takes several stages takes them before anybody else takes one
	stages   int        // that there are
	taken    chan struct{}
}

// take takes so many stages, or all.
func (r *stageRoom) take(wanted int) (got int) {
	r.entrance.Lock()
	defer r.entrance.Unlock()
	got = min(wanted, r.stages)
	for range got {
		r.taken <- struct{}{}
	}
	return got
}

func (r *stageRoom) give(stages int) {
	for range stages {
		<-r.taken
	}
}

// shrink leaves a stage empty from now on, because the machine is too busy for all of them.
func (r *stageRoom) shrink() {
	r.entrance.Lock()
	defer r.entrance.Unlock()
	if r.stages > 2 {
		r.stages--
		r.taken <- struct{}{}
	}
}

// play performs the scenario, and leaves its line of the table. A row proves something only if the harm is done while A's leases
// run, and others go on within a part of the TTL; and masters that a busy machine holds up are silent to clients like those that hang. So what
// does not come to pass in time is played again, with a longer TTL, with more patience for the masters, and with fewer other plays beside it. What is
// wrong however busy the machine is, two holders above all, fails the test at once. The last performance must come to pass.
func (s scenario) play(t *testing.T, room *stageRoom, shim string, score *string) {
	for patience := 1; patience <= mostPatient; patience *= 2 {
		p := &play{scenario: s, ttl: briefest * time.Duration(patience), patience: patience}
		if s.lasting {
			p.ttl = ttlLasting
		}
		taken := room.take(patience * patience)
		passed := t.Run(fmt.Sprint("patience ", patience), func(t *testing.T) { // what it has started ends with it
			p.T = t
			p.perform(shim)
		})
		room.give(taken)
		*score = fmt.Sprintf("%d/%d", p.violations.Load(), len(p.claims))
		if p.came || !passed {
			return
		}
		room.shrink()
	}
}

// play is one performance.
type play struct {
	*testing.T
	scenario
	ttl      time.Duration
	patience int                 // 1, and twice that each time it is played again
	running  []*redisproc.Server // by number - 1 of the master; the same twice where two addresses lead to it
	names    []string            // of the masters, as the membership has them
	log      journal
	a, b     *party
	claims   []*claim

	violations atomic.Int32
	tooLate    bool        // harm that consists of several steps has seen A's leases end
	starved    atomic.Bool // B never got what it asked for
	came       bool        // it came to pass in time

	// What single scenarios remember.
	replica     *redisproc.Server
	replication *redisproc.Relay
	aofSize     int64
}

// party is a client and its links, the first of which leads to master 1.
type party struct {
	*Client
	links []*redisproc.Relay
}

// claim is a lease on which A relies.
type claim struct {
	mu       sync.Mutex
	lease    *Lease
	released bool
}

// left is for how much longer A relies on the lease.
func (c *claim) left() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		return 0
	}
	return c.lease.Validity()
}

func (p *play) perform(shim string) {
	p.startMasters(shim)
	p.a = p.connect(nil)
	if p.refusedFromTheStart() {
		p.a.allRefused(p)
		p.wantRefused("A", func() (*Lease, error) { return p.a.TryLock(p.Context(), "resource", p.ttl) })
		p.came = true
		return
	}
	p.a.allUp(p, nil)
	if !p.fresh {
		p.b = p.connect(p.sees)
		p.b.allUp(p, p.sees)
	}
	if p.ready != nil {
		p.ready(p)
	}
	p.a.keep(p.had)
	p.a.allUp(p, p.had)
	p.lock()

	if p.fresh {
		p.harm(p)
		p.b = p.connect(p.sees)
	}
	pressing, stop := p.pressAll()
	defer pressing.Wait()
	defer stop()
	defer func() {
		if !p.came { // two holders would be wrong all the same
			time.Sleep(min(p.longestLeft(), mostPatient*briefest))
		}
	}()
	if p.harm != nil && !p.fresh {
		p.harm(p)
	}
	if p.longestLeft() <= 0 || p.tooLate {
		p.fallsThrough("the harm takes longer than a TTL of %v", p.ttl)
	}
	p.askOthers()
	if p.lasting {
		p.awaitAttempts()
		p.release()
	}
	if p.others == refuses {
		time.Sleep(p.longestLeft())
		stop()
	}
	pressing.Wait()
	if p.starved.Load() {
		p.fallsThrough("B never got a resource of A's")
	}
	p.noKeys()
	p.wantLog()
	p.came = true
}

// fallsThrough ends a performance that did not come to pass in time. The last one fails the test.
func (p *play) fallsThrough(format string, args ...any) {
	p.Helper()
	if p.isLast() {
		p.Fatalf(format, args...)
	}
	p.Skipf(format+"; it is played again", args...)
}

func (p *play) isLast() bool { return p.patience >= mostPatient }

// deadline is for what comes soon, unless the machine is too busy for this performance, or something hangs.
func (p *play) deadline() time.Duration {
	if p.isLast() {
		return time.Minute
	}
	return 20 * time.Second
}

// until waits for a condition, and ends the performance with what it last said when it does not come.
func (p *play) until(what string, check func() error) {
	p.Helper()
	deadline := time.Now().Add(p.deadline())
	err := check()
	for ; err != nil; err = check() {
		if time.Now().After(deadline) {
			p.fallsThrough("%s: not within %v: %v", what, p.deadline(), err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (p *play) longestLeft() (longest time.Duration) {
	for _, c := range p.claims {
		longest = max(longest, c.left())
	}
	return longest
}

// refusedFromTheStart tells whether no client may ever get a lock here.
func (p *play) refusedFromTheStart() bool { return p.others == refuses && p.harm == nil }

func (p *play) startMasters(shim string) {
	p.Helper()
	behind := p.servers
	if behind == nil {
		behind = []int{1, 2, 3, 4, 5}
	}
	var opts Options
	for i, n := range behind {
		if n <= len(opts.Masters) {
			p.running = append(p.running, p.running[slices.Index(behind, n)])
			p.names = append(p.names, fmt.Sprint("master ", i+1))
			continue
		}
		s := p.start(shim, p.args...)
		p.running = append(p.running, s)
		p.names = append(p.names, s.Addr) // where a client finds the master if its settings do not name it
		opts.Masters = append(opts.Masters, Master{Addr: s.Addr})
	}
	if len(opts.Masters)%2 == 0 { // an odd number is wanted, and which masters are one set does not matter here
		opts.Masters = append(opts.Masters, Master{Addr: p.start("").Addr})
	}
	if p.servers != nil {
		return // twins: the client founds the membership without those
	}
	opts.MaxTTL = p.ttl
	opts.ConnectTimeout = 10 * time.Second // it admits all masters or none: one that is slow is none the less new
	if err := Bootstrap(p.Context(), opts); err != nil && !p.refusedFromTheStart() {
		p.fallsThrough("found the membership: %v", err)
	}
}

func (p *play) start(shim string, args ...string) *redisproc.Server {
	p.Helper()
	args = append([]string{"--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"}, args...)
	redisproc.Need(p, "redis-server")
	s, err := redisproc.StartClocked(shim, args...)
	if err != nil {
		p.fallsThrough("%v", err)
	}
	p.Cleanup(s.Close)
	return s
}

// connect opens a client that reaches some masters, or all.
func (p *play) connect(reach []int) *party {
	p.Helper()
	opts := Options{
		MaxTTL: p.ttl, FoundingWait: p.ttl,
		MasterTimeout: min(answersIn*time.Duration(p.patience), answersLast), ReconnectDelayMax: 50 * time.Millisecond * time.Duration(p.patience),
		Logger: slog.New(slog.NewTextHandler(&p.log, nil)),
	}
	x := new(party)
	for i, s := range p.running {
		link := redisproc.NewRelay(p.T, s.Addr)
		x.links = append(x.links, link)
		opts.Masters = append(opts.Masters, Master{Addr: link.Addr, Name: p.names[i]})
	}
	x.keep(reach)
	c, err := Open(opts)
	if err != nil {
		p.Fatal(err)
	}
	x.Client = c
	p.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c.Close(ctx)
	})
	return x
}

// keep cuts all links but these; nil keeps all.
func (x *party) keep(reach []int) {
	for i, link := range x.links {
		if reach != nil && !slices.Contains(reach, i+1) {
			link.Cut()
		}
	}
}

// allUp waits until each server behind these masters, or behind all, has a vote, and the other masters have none.
func (x *party) allUp(p *play, reach []int) {
	p.Helper()
	p.until("masters up", func() error {
		up := map[*redisproc.Server]bool{}
		status := x.Masters()
		for i, m := range status {
			up[p.running[i]] = up[p.running[i]] || m.State == MasterUp
		}
		for i, s := range p.running {
			if want := reach == nil || slices.Contains(reach, i+1); up[s] != want {
				return fmt.Errorf("master %d is %s: %s", i+1, status[i].State, status[i].Reason)
			}
		}
		return nil
	})
}

// allRefused waits until the client has looked at all masters and refuses them.
func (x *party) allRefused(p *play) {
	p.Helper()
	p.until("masters refused", func() error {
		for i, m := range x.Masters() {
			if m.State != MasterRefused {
				return fmt.Errorf("master %d is %s: %s", i+1, m.State, m.Reason)
			}
		}
		return nil
	})
}

func (p *play) lock() {
	p.Helper()
	for i := range resources {
		req := p.request(i)
		req.Wait = 10 * time.Second // for masters that a busy machine holds up
		lease, err := p.a.Acquire(p.Context(), req)
		if err != nil {
			p.fallsThrough("A, %v: %v", req.Resources, err)
		}
		p.claims = append(p.claims, &claim{lease: lease})
	}
}

func (p *play) request(i int) LockRequest {
	return LockRequest{Resources: []string{fmt.Sprint("resource ", i+1)}, TTL: p.ttl, Fence: i%2 == 1}
}

// pressAll has B ask for all resources of A at once, until it has them or is stopped.
func (p *play) pressAll() (*sync.WaitGroup, context.CancelFunc) {
	ctx, stop := context.WithCancel(p.Context())
	var pressing sync.WaitGroup
	for i, c := range p.claims {
		pressing.Go(func() { p.press(ctx, i, c) })
	}
	return &pressing, stop
}

// press has B ask for the resource of a claim until it gets it.
func (p *play) press(ctx context.Context, i int, c *claim) {
	deadline := time.Now().Add(p.deadline())
	for ctx.Err() == nil {
		lease, err := p.b.Acquire(ctx, p.request(i))
		left := c.left()
		switch {
		case err == nil:
			p.granted(c, lease, left)
			return
		case left > 0:
			deadline = time.Now().Add(left + p.deadline())
		case time.Now().After(deadline) && ctx.Err() == nil:
			p.Logf("B did not get %v within %v: %v", p.request(i).Resources, p.deadline(), err)
			p.starved.Store(true)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// granted judges a lease of B's that was granted when A relied on its own for another while.
func (p *play) granted(c *claim, lease *Lease, left time.Duration) {
	if left > 0 {
		p.violations.Add(1)
		p.Errorf("B was granted %q %v before the end of A's lease", lease.Resources, left)
	}
	if lease.Fence < c.lease.Fence {
		p.Errorf("B's lease of %q has the fence %d, A's before it had %d: want a higher one", lease.Resources, lease.Fence, c.lease.Fence)
	}
	if err := lease.Unlock(p.Context()); err != nil && !errors.Is(err, ErrNoQuorum) && lease.Validity() > 0 {
		p.Errorf("B unlocks %q: %v", lease.Resources, err)
	}
}

// askOthers has B ask for a resource that nobody holds.
func (p *play) askOthers() {
	p.Helper()
	req := LockRequest{Resources: []string{"other"}, TTL: p.ttl}
	switch p.others {
	case refuses:
		p.wantRefused("B", func() (*Lease, error) { return p.b.Acquire(p.Context(), req) })
		return
	case goesOn:
		req.Wait = p.ttl / 2 // shorter than any quarantine
	case waits:
		req.Wait = p.deadline()
	}
	lease, err := p.b.Acquire(p.Context(), req)
	if err != nil {
		p.fallsThrough("B, another resource: got %v, want it granted within %v (%s)", err, req.Wait, p.others)
	}
	lease.Unlock(p.Context())
}

// wantRefused checks that nobody grants, and that the reason is said, if not at first, because a busy machine holds a master up.
func (p *play) wantRefused(who string, try func() (*Lease, error)) {
	p.Helper()
	p.until(who+" is refused", func() error {
		_, err := try()
		switch {
		case !errors.Is(err, ErrNoQuorum):
			p.Fatalf("%s: got %v, want no quorum, with the reason %q", who, err, p.says)
		case !strings.Contains(err.Error(), p.says):
			return fmt.Errorf("got %w, want the reason %q", err, p.says)
		}
		return nil
	})
}

// noKeys waits until no master has a lock.
func (p *play) noKeys() {
	p.Helper()
	for i, s := range p.running {
		p.until(fmt.Sprint("no keys on master ", i+1), func() error { return wantNoKeys(p.T, s) })
	}
}

// awaitAttempts gives B time to ask for each resource a few times.
func (p *play) awaitAttempts() {
	p.Helper()
	began := p.b.Stats().Attempts
	p.until("attempts of B", func() error {
		if now := p.b.Stats().Attempts; now < began+3*resources {
			return fmt.Errorf("%d", now-began)
		}
		return nil
	})
}

// release has A release its leases.
func (p *play) release() {
	for _, c := range p.claims {
		c.mu.Lock()
		c.released = true
		c.mu.Unlock()
		if err := c.lease.Unlock(p.Context()); err != nil && !errors.Is(err, ErrNoQuorum) {
			p.Errorf("A unlocks %q: %v", c.lease.Resources, err)
		}
	}
}

func (p *play) wantLog() {
	if p.others == refuses {
		return // the error that B got has said it
	}
	p.until("log", func() error {
		if text := p.log.String(); !strings.Contains(text, p.says) {
			return fmt.Errorf("no %q in it: %s", p.says, text)
		}
		return nil
	})
}

// journal is the log of both clients.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func buildClockShim(t *testing.T) string {
	t.Helper()
	redisproc.Need(t, "gcc")
	shim, err := redisproc.BuildClockShim(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return shim
}
