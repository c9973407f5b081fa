package redlock

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/fence"
	"redlockd/redlock/quorum"
)

// Client is the Redlock engine over one set of masters. It is safe for use by many goroutines.
type Client struct {
	opts   Options // as Open got them; what SetOptions may change is in bounds.limits
	bounds bounds
	drift  clock.Drift // of opts
	tokens *tokenSource
	own    clock.Own // this machine's clock
	fleet  fleet
	// onQuorum is for tests: it gets the votes by which a round is a yes.
	onQuorum func(*round, quorum.Votes)
	// changed is what OnChange has set; nil: nothing.
	changed atomic.Pointer[func(resource string)]

	// mu guards what follows. It is held for lookups and appends only, never over I/O or a Completer.
	// Order: mu before lane.mu.
	mu        sync.Mutex
	rounds    rounds
	admission admission
	ceiling   ceiling
	leases    leases
	holds     holds
	waiting   waiting
	audits    audits
	forced    forcedReleases
	fences    fence.Clock
	stats     Stats
	outcomes  outcomes
	settling  settling
	// overtaking are releases that may have overtaken the grant, the oldest first (releaseAgain).
	overtaking []*round
	// draining refuses new LOCKs. It is never taken back.
	draining bool

	messages messages // has a mutex of its own, which is taken before mu
}

// Open starts the engine. It does not wait for masters: they may be down, and Ready tells when a quorum
// is not. The error says which option is out of bounds.
func Open(opts Options) (*Client, error) {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	c := newClient(opts)
	c.own.Start(time.Now())
	var lanes []*lane
	for i, m := range opts.Masters {
		lanes = append(lanes, newLane(&c.fleet, i, m))
	}
	c.fleet.coordinator = c.newCoordinator()
	c.fleet.set(newView(lanes, nil, &c.fleet))
	// All lanes exist before the first one runs: they look at each other (claim, voters).
	for _, l := range lanes {
		c.fleet.start(l)
	}
	c.fleet.running.Go(c.fleet.coordinator.Run)
	c.fleet.running.Go(c.watch)
	return c, nil
}

// newClient is a client whose roles know each other, and that has no lanes.
func newClient(opts Options) *Client {
	c := &Client{
		opts: opts, drift: opts.drift(), tokens: newTokenSource(), own: clock.Own{Faults: opts.clockFaults},
		fences: fence.Clock{AheadMax: opts.ClockSkewMax.Milliseconds() << fence.CounterBits},
		leases: newLeases(opts.Prefixes, opts.drift()),
	}
	c.bounds.opts = &c.opts
	c.bounds.limits.Store(opts.limits())
	c.fleet.init(c)
	c.rounds.fleet, c.rounds.admission, c.rounds.waiting, c.admission.fleet = &c.fleet, &c.admission, &c.waiting, &c.fleet
	c.ceiling.client, c.rounds.ceiling = c, &c.ceiling
	c.admission.turn.Store(costMax)
	c.admission.shareMax = opts.ShareQueueBytes()
	c.leases.remember = 2 * opts.ConnectTimeout
	c.holds = holds{client: c, own: &c.own, bounds: &c.bounds, logger: opts.Logger, log: newLogLimiter()}
	c.waiting = newWaiting(c)
	c.settling = settling{client: c, rounds: make(map[*round]*unsettled), found: make(map[string]found)}
	c.audits = audits{client: c, log: newLogLimiter()}
	c.messages.init(&c.fleet, &c.mu)
	return c
}

// watch is the watchdog, a goroutine of its own. At every tick it abandons the batches of masters that
// do not answer in time, and requests the heartbeats that are due. Once per round of heartbeats it lets
// the audit look at some leases.
func (c *Client) watch() {
	ticker := time.NewTicker(c.opts.MasterTimeout / watchTicks)
	defer ticker.Stop()
	var d deferred
	last := time.Now() // when the last heartbeat was due
	heartbeats := 0
	for {
		select {
		case now := <-ticker.C:
			d.now = now
			lanes := c.fleet.view.Load().masters
			for _, l := range lanes {
				l.watch(&d)
				l.logMissedState(now)
			}
			c.fleet.logDoubts(now)
			c.admit()
			d.now = now
			c.renewHeld(&d)
			d.now = now
			c.releaseAgain(&d)
			d.now = now
			c.settling.again(&d)
			c.ceiling.giveUp(&d)
			// One lane after the other. A lane sends its heartbeat when nothing is in flight, and takes no vote
			// meanwhile; so a quorum goes on. The number of lanes changes with the membership.
			heartbeat := c.fleet.heartbeat()
			if longAgo := now.Add(-heartbeat); last.Before(longAgo) {
				last = longAgo
			}
			for pause := heartbeat / time.Duration(len(lanes)); now.Sub(last) >= pause; last = last.Add(pause) { //mutant:no-heartbeats-after-a-removal
				heartbeats++
				lanes[heartbeats%len(lanes)].requestHeartbeat()
				if heartbeats%len(lanes) == 0 {
					d.now = now
					c.audits.next(&d)
				}
			}
		case <-c.fleet.endingContext.Done():
			return
		}
	}
}

// laneChanged tells the log, waiters, everybody in Ready, and what waits for room, that a lane went up
// or down.
func (c *Client) laneChanged(l *lane) {
	defer c.admit()
	if s := l.status(); s.State == MasterUp || s.State == MasterRefused && s.Connected { // else breakOff has done it
		l.logState()
	}
	c.waiting.wakeQuorumWaiters()
	c.fleet.changedMu.Lock()
	defer c.fleet.changedMu.Unlock()
	close(c.fleet.changed)
	c.fleet.changed = make(chan struct{})
}

// Ready waits until a quorum of masters has a vote, or ctx is done: then it returns the *NoQuorumError
// that a LOCK would get.
func (c *Client) Ready(ctx context.Context) error {
	for {
		c.fleet.changedMu.Lock()
		changed := c.fleet.changed
		c.fleet.changedMu.Unlock()
		view := c.fleet.view.Load()
		v := view.Gaps
		up, now := 0, time.Now()
		for _, l := range view.masters {
			if l.status().State == MasterUp {
				up++
				v += quorum.Cast(l.index, quorum.Granted)
			} else {
				v += quorum.Cast(l.index, quorum.Abstained)
			}
		}
		if up >= view.Quorum() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return view.noQuorumError(now, v, view.Quorum(), 0)
		}
	}
}

// Drain refuses new LOCKs with ErrDraining and ends all waits with it. UNLOCK and EXTEND go on.
func (c *Client) Drain() {
	d := c.enter()
	defer c.leave(d)
	c.draining = true
	var waiting []*Op
	for _, e := range c.leases.entries {
		for p := e.queue.head; p != nil; p = p.next {
			waiting = append(waiting, p.op)
		}
	}
	for _, op := range waiting {
		c.waiting.unblockLocked(op, ErrDraining, d)
	}
}

// Close drains, gives rounds in flight and pending releases until ctx is done, and ends every goroutine
// of the client. What is still pending then ends with its TTL.
func (c *Client) Close(ctx context.Context) error {
	c.Drain()
	err := c.settle(ctx)
	for began := time.Now(); !c.fleet.leave() && time.Since(began) < c.opts.MasterTimeout; {
		time.Sleep(time.Millisecond)
	}
	// Cancelled first: a lane that is woken looks at the context.
	c.fleet.end()
	for _, l := range c.fleet.view.Load().masters {
		l.end()
	}
	c.fleet.running.Wait()
	c.ceiling.giveUp(&deferred{now: time.Now().Add(ceilingHold)}) //mutant:what-waits-for-the-ceiling-outlives-its-client
	c.admit()                                                     // what waited is told that there is no quorum
	return err
}

// settle waits until nothing is queued and no release is pending that can be delivered.
func (c *Client) settle(ctx context.Context) error {
	for {
		c.mu.Lock()
		idle := c.admission.count+len(c.ceiling.waits) == 0
		c.mu.Unlock()
		for _, l := range c.fleet.view.Load().masters {
			idle = idle && l.idle()
		}
		if idle {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// SetOptions puts other limits into force: MaxHold, MaxWait, MaxWaiters, MaxBound and HandoverTime. It
// ignores the other options. If a limit is not valid together with the options in force it changes
// nothing, and returns the error of Validate. Zero is the default.
//
// Limits count for what comes: no LOCK stops waiting and no lock is lost because one is lower. But a
// lock that has been held for longer than the new MaxHold is not extended again.
//
// The others need a new client. MinTTL and DriftFactor must be those by which the validity of every
// lock was computed, MaxTTL is that of the membership, and the rest shapes the connections to masters.
func (c *Client) SetOptions(opts Options) error {
	next := c.opts
	next.MaxHold, next.MaxWait, next.MaxWaiters, next.MaxBound, next.HandoverTime = opts.MaxHold, opts.MaxWait, opts.MaxWaiters, opts.MaxBound, opts.HandoverTime
	next = next.withDefaults()
	if err := next.Validate(); err != nil {
		return err
	}
	c.bounds.limits.Store(next.limits())
	return nil
}

// Options returns the options in force, defaults filled in.
func (c *Client) Options() Options {
	o, l := c.opts, c.bounds.limits.Load()
	o.MaxHold, o.MaxWait, o.MaxWaiters, o.MaxBound, o.HandoverTime = l.maxHold, l.maxWait, l.maxWaiters, l.maxBound, l.handoverTime
	return o
}

// MinTTL is the shortest TTL that a caller may ask for, as Options.MinTTL.
func (c *Client) MinTTL() time.Duration { return c.opts.MinTTL }

// Stats returns the counters and gauges. Locks go on meanwhile, also where there are many leases.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	leases, longest := c.leases.running(time.Now(), func() { c.mu.Unlock(); c.mu.Lock() })
	s := c.stats
	s.ByPrefix = slices.Clone(c.leases.byPrefix)
	s.HeldLost = c.holds.losses
	s.Bound = len(c.holds.due)
	s.NoQuorumFor = c.outcomes.noQuorumFor(c.own.At(time.Now()))
	s.Leases, s.LongestHold, s.Waiters, s.Deferred = leases, longest, c.waiting.count, c.admission.count
	return s
}

// Masters describes the masters, in the order of Options.Masters.
func (c *Client) Masters() []MasterStatus {
	lanes := c.fleet.view.Load().masters
	all := make([]MasterStatus, len(lanes))
	for i, l := range lanes {
		all[i] = l.status()
	}
	return all
}

// RoundTripsOf are those of the masters since this client knows them, in the order of Masters. A heartbeat
// counts, too, and so does an answer that came too late; what was never answered does not.
func RoundTripsOf(c *Client) []RoundTrips {
	lanes := c.fleet.view.Load().masters
	all := make([]RoundTrips, len(lanes))
	for i, l := range lanes {
		l.mu.Lock()
		all[i] = l.roundTrips
		l.mu.Unlock()
		all[i].Addr = l.master.Addr
	}
	return all
}
