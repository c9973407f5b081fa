package redlock

// The stage for the tests in virtual time: masters in this process (memmaster), clients over links of their own, the real
// go-redis between them, all in a testing/synctest bubble. Where nothing delays, an operation takes no time at all, so
// what takes time takes it exactly, and tests compare durations with ==.

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"redlockd/redlock/clock"
	"redlockd/redlock/memmaster"
)

const ms = time.Millisecond

// giveUp is how long a client waits for a master that is silent, from a moment that alignment chose: half a tick of the
// watch, and watchTicks more.
const giveUp = 55 * ms

// giveUpNeeded is how long it waits for one without which there is no quorum.
const giveUpNeeded = giveUp + (neededTicks-watchTicks)*10*ms

// stage is a set of masters and what a test does to them.
type stage struct {
	testing.TB
	masters []*memmaster.Master
	// named is how many of the masters the options name, the first ones; 0: all. The others are spare.
	named int
	// founded tells that the masters have a membership. The first client that is started founds it, with its settings.
	founded bool
}

// inVirtualTime runs a test with n new masters, which vote at once.
func inVirtualTime(t *testing.T, n int, test func(s *stage)) {
	t.Helper()
	onMasters(t, make([]memmaster.Options, n), test)
}

// onMasters is inVirtualTime with masters that are not all alike.
func onMasters(t *testing.T, options []memmaster.Options, test func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{TB: t}
		for _, o := range options {
			m := memmaster.New(o)
			t.Cleanup(m.Close)
			s.masters = append(s.masters, m)
		}
		test(s)
	})
}

// proxy is a client with its own paths to the masters.
type proxy struct {
	*Client
	s      *stage
	opened time.Time

	pathsMu sync.Mutex
	paths   []*memmaster.Link // new connections take these; only the test's goroutine exchanges them
	cutOff  atomic.Bool       // by TestCopierIsKilled
}

func (s *stage) proxy() *proxy {
	p := &proxy{s: s}
	for _, m := range s.masters {
		p.paths = append(p.paths, m.Link())
	}
	return p
}

func (p *proxy) options() Options {
	// Clocks in virtual time step only where a test has them step, and the ceiling rises and falls only where a test has it do so.
	o := Options{MaxTTL: time.Minute, FoundingWait: 10 * ms, ClockStepMax: 10 * ms, firstCeiling: 24 * time.Hour}
	for i := range cmp.Or(p.s.named, len(p.s.masters)) {
		o.Masters = append(o.Masters, Master{Addr: addrOf(i), Dialer: p.dial})
	}
	return o
}

// padded is what the masters of a stage are asked for, for a TTL.
func padded(ttl time.Duration) time.Duration {
	return clock.Padded(ttl, clock.Drift{Factor: 0.01, StepMax: 10 * ms})
}

// addrOf is the address of a master.
func addrOf(i int) string { return fmt.Sprintf("m%d", i+1) }

// numberOf is which master has the address; -1: none.
func numberOf(addr string) int {
	number, _ := strconv.Atoi(strings.TrimPrefix(addr, "m"))
	return number - 1
}

func (p *proxy) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	i := numberOf(addr)
	if i < 0 || i >= len(p.paths) {
		return nil, fmt.Errorf("no such host: %s", addr)
	}
	p.pathsMu.Lock()
	path := p.paths[i]
	p.pathsMu.Unlock()
	return path.Dial(ctx, network, addr)
}

// found founds the membership, where a test needs it before it starts a client.
func (s *stage) found(change ...func(*Options)) {
	s.Helper()
	o := s.proxy().options()
	for _, c := range change {
		c(&o)
	}
	if err := Bootstrap(s.Context(), o); err != nil {
		s.Fatal(err)
	}
	s.founded = true
}

// start opens a client and does not wait for anything.
func (s *stage) start(change ...func(*Options)) *proxy {
	s.Helper()
	p := s.proxy()
	o := p.options()
	for _, c := range change {
		c(&o)
	}
	if !s.founded {
		s.founded = true
		founder := o
		founder.Masters, founder.onLaneState = s.proxy().options().Masters, nil
		if err := Bootstrap(s.Context(), founder); err != nil {
			s.Fatal(err)
		}
	}
	client, err := Open(o)
	if err != nil {
		s.Fatal(err)
	}
	p.Client, p.opened = client, time.Now()
	s.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		p.Close(ended)
		synctest.Wait()
		if n := len(client.leases.inflight); n != 0 {
			s.Errorf("rounds of %d keys are in flight behind the end of their client", n)
		}
	})
	return p
}

// open opens a client, waits until all masters have a vote, and aligns.
func (s *stage) open(change ...func(*Options)) *proxy {
	s.Helper()
	p := s.start(change...)
	p.allUp()
	p.align()
	return p
}

// uncopied is for tests of the wait: no learner is given what it has to know, so it votes when its wait is over.
func uncopied(o *Options) { o.noCopy = true }

// align sleeps to half a tick of the client's watch, when no heartbeat is under way either.
func (p *proxy) align() {
	tick := p.opts.MasterTimeout / watchTicks
	past := time.Since(p.opened) % tick
	time.Sleep((tick/2 - past + tick) % tick)
	synctest.Wait()
}

// until waits for a condition for at most a virtual minute.
func (s *stage) until(what string, condition func() bool) {
	s.Helper()
	s.untilIn(time.Minute, what, condition)
}

func (s *stage) untilIn(limit time.Duration, what string, condition func() bool) {
	s.Helper()
	for range limit / ms {
		synctest.Wait()
		if condition() {
			return
		}
		time.Sleep(ms)
	}
	s.Fatalf("%s: not within %v", what, limit)
}

func (p *proxy) allUp() {
	p.s.Helper()
	defer func() {
		if p.s.Failed() {
			p.s.Logf("the masters: %+v, %+v", p.Masters(), p.Membership())
		}
	}()
	p.s.until("all masters up", func() bool { return !strings.ContainsFunc(p.states(), func(r rune) bool { return r != 'u' }) })
}

// states are the first letters of the states of the masters: up, quarantined, refused, down; and o for doubted.
func (p *proxy) states() string {
	var b strings.Builder
	for _, m := range p.Masters() {
		if m.State == MasterDoubted {
			b.WriteByte('o')
		} else {
			b.WriteByte(m.State[0])
		}
	}
	return b.String()
}

func (p *proxy) wantStates(want string) {
	p.s.Helper()
	synctest.Wait()
	if got := p.states(); got != want {
		for _, m := range p.Masters() {
			p.s.Logf("%s: %s %s", m.Addr, m.State, m.Reason)
		}
		p.s.Errorf("states of the masters: got %s, want %s", got, want)
	}
}

// lockable waits until the resource can be locked, and releases it again.
func (p *proxy) lockable(resource string) {
	p.s.Helper()
	p.s.until(resource+" lockable", func() bool {
		c := p.lock(one(resource, p.opts.MaxTTL))
		if c.Held {
			p.unlock(c.Token, resource)
		}
		return c.Held
	})
}

// reroute gives the client another path to a master. Connections that stand stay on the old one, which is returned.
func (p *proxy) reroute(i int) *memmaster.Link { return p.exchangePath(i, p.s.masters[i].Link()) }

func (p *proxy) exchangePath(i int, path *memmaster.Link) (old *memmaster.Link) {
	p.pathsMu.Lock()
	defer p.pathsMu.Unlock()
	old, p.paths[i] = p.paths[i], path
	return old
}

func (p *proxy) delay(request, reply time.Duration, masters ...int) {
	for _, i := range masters {
		p.paths[i].SetDelay(func() time.Duration { return request }, func() time.Duration { return reply })
	}
}

// orElse is the proxy, or another one where that is asked for.
func (p *proxy) orElse(another bool) *proxy {
	if another {
		return p.s.open()
	}
	return p
}

// holdRequests keeps what the proxy sends to these masters on its way, until heal.
func (p *proxy) holdRequests(masters ...int) {
	for _, i := range masters {
		p.paths[i].HoldRequests()
	}
}

// holdReplies keeps what these masters answer the proxy on its way, until heal.
func (p *proxy) holdReplies(masters ...int) {
	for _, i := range masters {
		p.paths[i].HoldReplies()
	}
}

// stepClocks moves the clocks of masters.
func (s *stage) stepClocks(by time.Duration, masters ...int) {
	for _, i := range masters {
		s.masters[i].StepClock(by)
	}
}

// setClockRates has the clocks of masters gain so much.
func (s *stage) setClockRates(ppm float64, masters ...int) {
	for _, i := range masters {
		s.masters[i].SetClockRate(ppm)
	}
}

// do sends a command to a master from outside.
func (s *stage) do(i int, args ...any) any {
	s.Helper()
	return outside(s, s.masters[i], args...)
}

// doOn sends it to some masters, one after the other, and doAll to all of them.
func (s *stage) doOn(masters []int, args ...any) {
	s.Helper()
	for _, i := range masters {
		s.do(i, args...)
	}
}

func (s *stage) doAll(args ...any) {
	s.Helper()
	for i := range s.masters {
		s.do(i, args...)
	}
}

// outside sends a command to a master over a connection of its own.
func outside(t testing.TB, m *memmaster.Master, args ...any) any {
	t.Helper()
	client := redis.NewClient(&redis.Options{Dialer: m.Dial, Protocol: 2, DisableIdentity: true, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
	defer client.Close()
	reply, err := client.Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// on tells which masters hold the token in the key: one digit each.
func (s *stage) on(key, token string) string {
	var b strings.Builder
	for _, m := range s.masters {
		held := byte('0')
		if value, _, ok := m.Get(key); ok && value == token {
			held = '1'
		}
		b.WriteByte(held)
	}
	return b.String()
}

func (s *stage) wantOn(key, token, want string) {
	s.Helper()
	synctest.Wait()
	if got := s.on(key, token); got != want {
		s.Errorf("masters that hold %s for token %q: got %s, want %s", key, token, got, want)
	}
}

// wantSet checks which masters hold the key, for whatever token.
func (s *stage) wantSet(key, want string) {
	s.Helper()
	synctest.Wait()
	got := ""
	for _, m := range s.masters {
		if slices.Contains(m.Keys(), key) {
			got += "1"
		} else {
			got += "0"
		}
	}
	if got != want {
		s.Errorf("masters that hold %s: got %s, want %s", key, got, want)
	}
}

// wantNoLocks checks that nothing but our own keys is on any master.
func (s *stage) wantNoLocks() {
	s.Helper()
	synctest.Wait()
	for i, m := range s.masters {
		if keys := locksOn(m); len(keys) > 0 {
			s.Errorf("locks left on master %d: got %q, want none", i+1, keys)
		}
	}
}

func locksOn(m *memmaster.Master) []string {
	return slices.DeleteFunc(m.Keys(), func(key string) bool { return strings.HasPrefix(key, ReservedPrefix) })
}

func (s *stage) freeze(masters ...int) {
	for _, i := range masters {
		s.masters[i].Freeze()
	}
}

func (s *stage) thaw(masters ...int) {
	for _, i := range masters {
		s.masters[i].Thaw()
	}
}

// call is an operation under way.
type call struct {
	Op
	began time.Time
	took  time.Duration
	done  atomic.Bool // the fields before and after may be read
	Result
	after func()
}

func (c *call) Done(_ *Op, r Result) Flusher {
	if c.done.Load() {
		panic("an operation was told its result twice")
	}
	c.Result, c.took = r, time.Since(c.began)
	c.done.Store(true)
	if c.after != nil {
		c.after()
	}
	return nil
}

// begin starts a LOCK and returns when nothing moves any more without time passing.
func (p *proxy) begin(req LockRequest) *call {
	c := p.startLock(req)
	synctest.Wait()
	return c
}

// startLock, startUnlock and startExtend begin an operation, and return while it is on its way.
func (p *proxy) startLock(req LockRequest) *call {
	c := &call{began: time.Now()}
	p.StartLock(&c.Op, req, c)
	return c
}

func (p *proxy) startUnlock(token string, resources ...string) *call {
	c := &call{began: time.Now()}
	p.StartUnlock(&c.Op, resources, token, c)
	return c
}

func (p *proxy) startExtend(token string, ttl time.Duration, resources ...string) *call {
	c := &call{began: time.Now()}
	p.StartExtend(&c.Op, resources, token, ttl, c)
	return c
}

// lock is a LOCK that is run to its end.
func (p *proxy) lock(req LockRequest) *call { return p.finish(p.begin(req)) }

func (p *proxy) finish(c *call) *call {
	p.s.Helper()
	p.s.until("the operation's end", func() bool { return c.done.Load() })
	return c
}

func (p *proxy) unlock(token string, resources ...string) *call {
	p.s.Helper()
	return p.finish(p.startUnlock(token, resources...))
}

func (p *proxy) extend(token string, ttl time.Duration, resources ...string) *call {
	p.s.Helper()
	return p.finish(p.startExtend(token, ttl, resources...))
}

// want compares the result of an operation: "held", "no", or a part of the error; and how long it took.
func (c *call) want(s *stage, what, result string, took time.Duration) {
	s.Helper()
	got := "no"
	switch {
	case !c.done.Load():
		got = "under way"
	case c.Err != nil:
		got = c.Err.Error()
	case c.Held:
		got = "held"
	}
	words := result == "no" || result == "held" || result == "under way"
	if got != result && (words || !strings.Contains(got, result)) {
		s.Errorf("%s: got %q, want %q", what, got, result)
	}
	if c.done.Load() && c.took != took {
		s.Errorf("%s: took %v, want %v", what, c.took, took)
	}
}

func one(resource string, ttl time.Duration) LockRequest {
	return LockRequest{Resources: []string{resource}, TTL: ttl}
}

func (r LockRequest) as(token string) LockRequest       { r.Token = token; return r }
func (r LockRequest) waits(d time.Duration) LockRequest { r.Wait = d; return r }
func several(ttl time.Duration, res ...string) LockRequest {
	return LockRequest{Resources: res, TTL: ttl}
}
