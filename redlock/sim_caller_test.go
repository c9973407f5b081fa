package redlock

// The callers of the simulation, and the proxies they call.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/memmaster"
	"redlockd/redlock/resp"
)

// incarnation is a proxy from its start to its end.
type incarnation struct {
	*proxy
	id   int
	dead atomic.Bool   // killed: what it still says is not heard by anybody
	gone chan struct{} // closed with dead
	// blind is until when its clock tells nobody how long a lock is still valid, from the world's beginning (sim_clocks_test.go).
	blind atomic.Int64

	server   SimServer // nil: it has no clients
	edition  int       // of its settings
	listener *simListener

	mu    sync.Mutex
	conns []net.Conn        // to masters
	links []*memmaster.Link // of clients
}

// spawn starts a proxy whose paths have random delays.
func (w *world) spawn(id int, change ...func(*Options)) *incarnation {
	p := &incarnation{proxy: w.stage.proxy(), id: id, gone: make(chan struct{})}
	w.spawned = append(w.spawned, p)
	for at, machine := range w.behind {
		p.exchangePath(at, w.masters[machine].Link())
		w.setDelay(id, at, p.paths[at])
	}
	o := p.options()
	w.opts(&o)
	for _, c := range change {
		c(&o)
	}
	for m := range o.Masters {
		o.Masters[m].Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if p.dead.Load() {
				return nil, errors.New("this process has ended")
			}
			conn, err := p.dial(ctx, network, addr)
			if err == nil {
				w.trace.dialed(conn, p)
				p.mu.Lock()
				p.conns = append(p.conns, conn)
				p.mu.Unlock()
			}
			return conn, err
		}
	}
	o.clockFaults = &clock.Faults{}
	o.clockFaults.Ahead.Store(int64(w.walls))
	o.Logger = slog.New(slog.NewTextHandler(logWriter(func(line string) { w.ledger.note("proxy %d: %s", id, line) }),
		&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == "run_id" || a.Key == "version" {
				return slog.Attr{}
			}
			return a
		}}))
	client, err := Open(o)
	if err != nil {
		w.Fatal(err)
	}
	p.Client, p.opened = client, time.Now()
	if id < simProxies {
		p.serve(o.Logger, w.maxTTL, w.sizes.places)
	}
	w.trace.opened(p)
	p.ahead(upTo(w.rng(2000+uint64(id)), o.ClockSkewMax*4/5)) // clocks tell nothing about the order of fences
	w.Cleanup(func() { p.end(0) })
	return p
}

// logWriter takes the lines of a client's log into the story.
type logWriter func(line string)

func (f logWriter) Write(line []byte) (int, error) {
	f(strings.TrimSpace(string(line)))
	return len(line), nil
}

// setDelay gives a path delays of its own: usually short, sometimes so long that the master is given up.
func (w *world) setDelay(proxy, master int, path *memmaster.Link) {
	rng := w.rng(1000 + uint64(proxy*20+master))
	base := 50*time.Microsecond + upTo(rng, ms)
	delay := func() time.Duration { // never called twice at a time on one link
		if rng.IntN(200) == 0 && !w.prompt.Load() {
			return base + upTo(rng, 60*ms)
		}
		return base + upTo(rng, base)
	}
	path.SetDelay(delay, delay)
}

// end drains the server, closes it and the client, and gives each some time.
func (i *incarnation) end(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if i.server != nil {
		if patience > 0 {
			i.server.Leave()
			i.server.Shutdown(ctx)
		}
		i.server.Close()
	}
	i.Close(ctx)
}

// kill is kill -9: what was sent is on its way to the masters, and nothing follows; clients hear no more.
func (i *incarnation) kill() {
	i.dead.Store(true)
	close(i.gone)
	i.mu.Lock()
	conns, links := i.conns, i.links
	i.mu.Unlock()
	for _, conn := range conns {
		conn.Close()
	}
	for _, link := range links {
		link.Cut()
	}
	i.end(0)
}

// present returns the proxy that runs under a number at the moment.
func (w *world) present(id int) *incarnation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.proxies[id]
}

// caller locks, works, renews, releases, or forgets to.
type caller struct {
	calm  bool // nothing happens to its connections
	w     *world
	id    int
	rng   *rand.Rand
	count int
	conns map[int]*simConn // by the number of the proxy
	// operates: its user is an operator.
	operates bool
	// uncounted: what it is granted or denied does not count among what the others are (sim_hoard_test.go).
	uncounted bool
}

// beside is the same caller on other connections, for what it does at the same time.
func (c *caller) beside() *caller {
	return &caller{w: c.w, id: c.id, rng: rand.New(rand.NewPCG(c.rng.Uint64(), 0))}
}

// sleep adds a nanosecond of its own to every pause, so that no two callers wake at the same time.
func (c *caller) sleep(limit time.Duration) {
	time.Sleep(upTo(c.rng, limit) + time.Duration(c.id))
}

// work is what a caller does while it holds: mostly brief, so that much is granted, and sometimes up to the limit.
func (c *caller) work(limit time.Duration) {
	if c.rng.IntN(8) > 0 {
		limit = min(limit, 15*ms)
	}
	c.sleep(limit)
}

func (c *caller) run() {
	defer c.hangUp()
	for !c.w.over.Load() {
		c.sleep(15 * ms)
		c.turn()
	}
}

func (c *caller) turn() {
	w, rng := c.w, c.rng
	if w.clocks.on && rng.IntN(8) == 0 {
		c.dayTurn()
		return
	}
	kind := rng.IntN(20)
	if w.trace != nil && (kind < 4 || kind >= 9 && kind < 13 || (kind == 13 || kind == 14) && w.trace.noReaders()) {
		kind = 19 // only what the models have: no drop-in clients, and readers in worlds of their own
	}
	switch kind {
	case 0, 1, 2, 3:
		c.libraryTurn()
		return
	case 4, 5:
		c.orderedTurn()
		return
	case 6, 7, 8:
		c.slotTurn()
		return
	case 9, 10, 11:
		c.redissonTurn(false)
		return
	case 12:
		c.redissonTurn(true)
		return
	case 13, 14:
		c.readTurn()
		return
	}
	p := w.present(rng.IntN(simProxies))
	req := LockRequest{Resources: []string{simResources[rng.IntN(len(simResources))]}, TTL: w.ttl(rng), Fence: rng.IntN(3) == 0}
	if w.trace == nil && rng.IntN(6) == 0 {
		req.Resources[0], req.TTL = SimDelayed, w.delayedTTL()
		if rng.IntN(2) == 0 {
			req.Resources[0] = SimFenced
		}
	} else if rng.IntN(3) == 0 { // sets that overlap, in any order
		req.Resources = nil
		for _, i := range rng.Perm(len(simResources))[:2+rng.IntN(len(simResources)-1)] {
			req.Resources = append(req.Resources, simResources[i])
		}
	}
	c.lockAndWork(p, req)
}

// lockAndWork locks what is asked for, with a token and a wait or without, works, and releases it.
func (c *caller) lockAndWork(p *incarnation, req LockRequest) {
	w, rng := c.w, c.rng
	c.count++
	if w.trace != nil && rng.IntN(6) == 0 {
		req.TTL = 20*ms + upTo(rng, 30*ms) // as short as a master may be silent: what comes late is worth nothing
	}
	if rng.IntN(3) == 0 {
		req.Token = fmt.Sprintf("caller%d.%d", c.id, c.count)
		w.trace.choose(req.Token)
	}
	if rng.IntN(3) > 0 {
		req.Wait += upTo(rng, 400*ms)
	}
	if req.Wait == 0 && rng.IntN(4) > 0 { // those who do not wait come more often
		c.sleep(10 * ms)
	}
	lease := c.lockImpatiently(p, req)
	for range 2 {
		// A caller with a token of its own may repeat its LOCK, through any proxy and for another TTL: because it was refused, or has lost
		// patience, or to refresh it.
		if req.Token == "" || rng.IntN(3) == 0 {
			break
		}
		before := p.id
		if rng.IntN(2) == 0 || p.dead.Load() {
			p = w.present(rng.IntN(simProxies))
		}
		if rng.IntN(2) == 0 {
			req.TTL = w.ttl(rng)
		}
		if rng.IntN(2) == 0 {
			c.sleep(60 * ms)
		}
		w.count(func(t *tallies) {
			if t.repeated++; p.id != before {
				t.elsewhere++
			}
		})
		if again := c.lock(p, req); again != nil {
			lease = again
		}
	}
	if lease == nil {
		return
	}
	for range rng.IntN(3) {
		c.work(req.TTL * 2 / 3)
		if rng.IntN(4) == 0 && !c.checkInfo(c.anyProxy(p), lease) {
			return
		}
		if !c.extend(c.anyProxy(p), lease, req.TTL+upTo(rng, w.maxTTL-req.TTL)) {
			return
		}
	}
	c.work(req.TTL * 3 / 4)
	if rng.IntN(15) > 0 {
		c.unlock(c.anyProxy(p), lease)
	}
}

// orderedTurn takes single locks, each while it holds those before, through one proxy or several: usually in the order of their names, and sometimes not, so
// that two callers can wait for each other until one gives up.
func (c *caller) orderedTurn() {
	w, rng := c.w, c.rng
	p := w.present(rng.IntN(simProxies))
	var held []*ledgerLease
	resources := simResources
	anyOrder := rng.IntN(3) == 0
	if anyOrder {
		resources = slices.Clone(resources)
		rng.Shuffle(len(resources), func(i, j int) { resources[i], resources[j] = resources[j], resources[i] })
	}
	for _, resource := range resources {
		if rng.IntN(3) == 0 {
			continue
		}
		l := c.lock(p, LockRequest{Resources: []string{resource}, TTL: w.maxTTL/2 + upTo(rng, w.maxTTL/2), Wait: ms + upTo(rng, 400*ms)})
		if l == nil {
			break
		}
		held = append(held, l)
		c.sleep(20 * ms)
		p = c.anyProxy(p)
	}
	if len(held) > 1 {
		w.count(func(t *tallies) {
			if anyOrder && !slices.IsSortedFunc(held, func(a, b *ledgerLease) int { return cmp.Compare(a.resources[0], b.resources[0]) }) {
				t.unordered++
			} else {
				t.ordered++
			}
		})
	}
	for _, l := range slices.Backward(held) {
		c.unlock(c.anyProxy(p), l)
	}
}

// anyProxy is usually the one that granted, if it still lives.
func (c *caller) anyProxy(p *incarnation) *incarnation {
	if p.dead.Load() || c.rng.IntN(5) == 0 {
		return c.w.present(c.rng.IntN(simProxies))
	}
	return p
}

// lockImpatiently is lock. A caller with a token of its own sometimes asks another proxy before the first one has answered.
func (c *caller) lockImpatiently(p *incarnation, req LockRequest) *ledgerLease {
	if req.Token == "" || req.Wait > 0 || c.rng.IntN(3) > 0 {
		return c.lock(p, req)
	}
	other := c.w.present(c.rng.IntN(simProxies))
	twin, first := c.beside(), make(chan *ledgerLease, 1)
	go func() {
		defer twin.hangUp()
		first <- twin.lock(p, req)
	}()
	c.sleep(3 * ms)
	second := c.lock(other, req)
	return cmp.Or(<-first, second)
}

func (c *caller) lock(p *incarnation, req LockRequest) *ledgerLease {
	return c.lockOn(c.to(p), req, false)
}

// lockOn locks through a connection, which holds the lock or not.
func (c *caller) lockOn(s *simConn, req LockRequest, hold bool) (got *ledgerLease) {
	w, p := c.w, s.p
	defer w.ledger.asked(c, p, req)()
	began, losses := time.Now(), w.ledger.lossesSoFar()
	args := lockCommand(req, hold)
	if c.rng.IntN(8) == 0 {
		args = append(args, "NOTE", fmt.Sprint("caller ", c.id))
	}
	if req.Wait > 0 && c.rng.IntN(24) == 0 {
		c.isUnblocked(s, req.Wait)
	}
	s.late = true // what is granted late excludes others, and nobody believes in it
	s.send(args...)
	var leaves *time.Timer
	if req.Wait > 0 && c.rng.IntN(6) == 0 && !s.ended { // the caller loses patience, perhaps while the first attempt is under way
		leaves = c.leaves(s, req.Wait)
	}
	if req.Wait > 0 && len(req.Resources) > 1 && c.rng.IntN(4) == 0 { // as if it had missed them too often
		time.AfterFunc(upTo(c.rng, req.Wait), func() {
			if !p.dead.Load() && p.reserve(req.Resources) {
				w.count(func(t *tallies) { t.reserved++ })
			}
		})
	}
	v, err := s.receive(req.Wait)
	if s.late = false; leaves != nil && !leaves.Stop() {
		s.ended, err = true, errNoAnswer
	}
	result := resultOf(v, err, began)
	if !result.Held {
		w.ledger.denied(c, p, req, result, began)
	} else {
		granted := req
		if req.Slots > 0 {
			granted.Resources = []string{result.Slot}
		}
		granted.Fence = result.Fence > 0
		got = w.ledger.granted(c, p, granted, result, began, losses)
		if req.Slots > 0 {
			w.ledger.slotGranted(req, result)
		}
	}
	if result.Held && req.Shared {
		w.readerChanges()
	}
	w.count(func(t *tallies) {
		switch {
		case c.uncounted && result.Held:
			t.hoarded++
		case c.uncounted:
		case result.Held:
			t.granted++
			if len(req.Resources) > 1 {
				t.several++
			}
			if result.Fence > 0 {
				t.fences++
			}
		case result.Err == nil:
			t.denied++
		case errors.Is(result.Err, ErrNoQuorum):
			t.noQuorum++
		}
	})
	// As proxy/commands.md says of a LOCK that has waited.
	if got != nil && req.Wait > 0 && !c.extendOn(s, got, req.TTL) {
		return nil
	}
	return got
}

// isUnblocked has an operator end the wait of what the connection sends next.
func (c *caller) isUnblocked(s *simConn, within time.Duration) {
	v, err := s.do("CLIENT", "ID")
	if err != nil || v.Kind != resp.Int {
		return
	}
	operator, why := c.beside(), []string{"ERROR", "TIMEOUT"}[c.rng.IntN(2)]
	operator.operates = true
	c.w.left.Add(1)
	time.AfterFunc(upTo(c.rng, within), func() {
		defer c.w.left.Done()
		o := operator.connect(s.p, false)
		defer o.giveUp()
		if v, err := o.do("CLIENT", "UNBLOCK", strconv.FormatInt(v.Int, 10), why); err == nil && v.Int == 1 {
			c.w.count(func(t *tallies) { t.unblocked++ })
		}
	})
}

// leaves has the caller leave within some time: it closes the connection, or is gone.
func (c *caller) leaves(s *simConn, within time.Duration) *time.Timer {
	if c.rng.IntN(2) == 0 {
		within = min(within, 3*ms)
	}
	leave := s.link.Cut
	if c.rng.IntN(2) == 0 {
		leave = func() { s.conn.Close() }
	}
	return time.AfterFunc(upTo(c.rng, within), leave)
}

func (c *caller) extend(p *incarnation, l *ledgerLease, ttl time.Duration) (still bool) {
	return c.extendOn(c.to(p), l, ttl)
}

func (c *caller) extendOn(s *simConn, l *ledgerLease, ttl time.Duration) (still bool) {
	w, p := c.w, s.p
	w.ledger.note("caller %d: EXTEND %v %s ttl %v through %d …", c.id, l.resources, short(l.token), ttl, p.id)
	began := time.Now()
	v, err := s.do(append(commandFor("EXTEND", l.resources), l.token, inText(ttl))...)
	switch result := resultOf(v, err, began); {
	case result.Held:
		w.ledger.extended(l, p, result, began)
		w.count(func(t *tallies) { t.extended++ })
	case result.Err == nil:
		w.ledger.lost(l, p, began)
		w.count(func(t *tallies) { t.lost++ })
		return false
	default:
		w.ledger.note("caller %d: EXTEND %v %s through %d: %v", c.id, l.resources, short(l.token), p.id, result.Err)
	}
	return true
}

// checkInfo is a LOCKINFO of each resource: as long as the lock is valid and nothing has happened that can lose it, it is held.
func (c *caller) checkInfo(p *incarnation, l *ledgerLease) (still bool) {
	s := c.to(p)
	for _, r := range l.resources {
		v, err := s.do("LOCKINFO", r)
		if err != nil || v.Kind == resp.Error {
			continue
		}
		if held := field(v, "held"); held.Kind == resp.Int && held.Int == 0 {
			c.w.ledger.notFound("LOCKINFO", l, p, r, "not held")
			return false
		}
		c.w.count(func(t *tallies) { t.looked++ })
	}
	return true
}

// unlock tells whether it was answered.
func (c *caller) unlock(p *incarnation, l *ledgerLease) (answered bool) {
	s := c.to(p)
	c.w.ledger.releasing(l, p)
	if l.shared {
		c.w.readerChanges()
	}
	began := time.Now()
	v, err := s.do(append(commandFor("UNLOCK", l.resources), l.token)...)
	result := resultOf(v, err, began)
	c.w.ledger.released(l, p, result)
	if result.Held && !c.uncounted {
		c.w.count(func(t *tallies) { t.released++ })
	}
	return result.Err == nil
}

func (w *world) count(f func(*tallies)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.tallies)
}

func outcomeText(r Result) string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case r.Held:
		return "held"
	}
	return "no"
}

func short(token string) string {
	if token == "" {
		return "new token"
	}
	if isVersion(token) {
		return fmt.Sprintf("%q", token[lineageAt:versionEnd])
	}
	return token[:min(len(token), 10)]
}

// upTo is a random duration of at most limit.
func upTo(rng *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(limit) + 1))
}
