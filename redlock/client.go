package redlock

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/fence"
	"redlockd/redlock/loglimit"
	"redlockd/redlock/member"
	"redlockd/redlock/quorum"
)

// Client is the Redlock engine over one set of masters. It is safe for use by many goroutines.
type Client struct {
	opts   Options                // as Open got them; those that limits has are there
	limits atomic.Pointer[limits] // in force
	drift  clock.Drift            // of opts
	tokens *tokenSource
	// view is who the masters are. It is exchanged under mu.
	view atomic.Pointer[view]
	// own is this machine's clock, and walls what the masters' clocks say of it.
	own   clock.Own
	walls wallTable
	// coordinator keeps the membership.
	coordinator *member.Coordinator

	// mu guards what follows, and is the one gate through which every round enters the lanes (see
	// launchLocked). It is held for lookups and appends only, never over I/O or a Completer. Order: mu before
	// lane.mu.
	mu        sync.Mutex
	leases    leases
	share     Share // of operations that name none
	admission admission
	waiting   int    // LOCKs that wait
	arrivals  uint64 // LOCKs that have waited
	fences    fence.Clock
	stats     Stats
	// audited is an index in leases.all: the audit has read the leases before it lately.
	audited int
	// doubts counts the leases that the audit has to read soon.
	doubts int
	// overtaking are releases that may have overtaken the grant, the oldest first (releaseAgain).
	overtaking []*round
	// heldLog limits the lines about held locks that are lost.
	heldLog loglimit.Limiter
	// lostLog limits the lines about leases that are lost.
	lostLog loglimit.Limiter
	// quorumAwaited tells that some head of a queue waits for a quorum, see wait_quorum.go.
	quorumAwaited bool
	// draining refuses new LOCKs. It is never taken back.
	draining bool

	// forced are the forced releases of late, the oldest first (op_force.go).
	forced []*forcedRelease

	messages messages

	// changedMu guards claims and changed. No other mutex is taken while it is held.
	changedMu sync.Mutex
	// claims tells which lane has the master with this run_id: no process has two votes.
	claims map[string]*lane
	// changed is closed, and made anew, when a lane goes up or down.
	changed chan struct{}

	// endingContext is cancelled by Close, and with it all connections end.
	endingContext context.Context
	end           context.CancelFunc
	// running counts the goroutines of the client, which Close waits for.
	running sync.WaitGroup
}

// Open starts the engine. It does not wait for masters: they may be down, and Ready tells when a quorum is not.
// The error says which option is out of bounds.
func Open(opts Options) (*Client, error) {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	c := &Client{
		opts: opts, drift: opts.drift(), tokens: newTokenSource(), own: clock.Own{Faults: opts.clockFaults},
		fences: fence.Clock{AheadMax: opts.ClockSkewMax.Milliseconds() << fence.CounterBits},
		leases: newLeases(opts.Prefixes), claims: make(map[string]*lane), changed: make(chan struct{}), lostLog: newLogLimiter(), heldLog: newLogLimiter(),
	}
	c.limits.Store(opts.limits())
	c.endingContext, c.end = context.WithCancel(context.Background())
	c.leases.remember = 2 * opts.ConnectTimeout
	c.messages.mailbox = member.Nonce()
	c.messages.channel = mailboxChannel(c.messages.mailbox)
	c.messages.seed = maphash.MakeSeed()
	c.own.Start(time.Now())
	var lanes []*lane
	for i, m := range opts.Masters {
		lanes = append(lanes, newLane(c, i, m))
	}
	c.coordinator = c.newCoordinator()
	c.view.Store(newView(lanes, nil, c))
	// All lanes exist before the first one runs: they look at each other (claim, voters).
	for _, l := range lanes {
		c.running.Go(l.run)
		c.running.Go(l.keepSubscribed)
	}
	c.running.Go(c.coordinator.Run)
	c.running.Go(c.watch)
	return c, nil
}

// watch is the watchdog, a goroutine of its own. At every tick it abandons the batches of masters that do not
// answer in time, and requests the heartbeats that are due. Once per round of heartbeats it lets the audit look
// at some leases.
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
			lanes := c.view.Load().masters
			for _, l := range lanes {
				l.watch(&d)
				l.logMissedState(now)
			}
			c.logDoubts(now)
			c.admit()
			d.now = now
			c.renewHeld(&d)
			d.now = now
			c.releaseAgain(&d)
			// One lane after the other. A lane sends its heartbeat when nothing is in flight, and takes no vote
			// meanwhile; so a quorum goes on. The number of lanes changes with the membership.
			if longAgo := now.Add(-c.opts.Heartbeat); last.Before(longAgo) {
				last = longAgo
			}
			for pause := c.opts.Heartbeat / time.Duration(len(lanes)); now.Sub(last) >= pause; last = last.Add(pause) { //mutant:no-heartbeats-after-a-removal
				heartbeats++
				lanes[heartbeats%len(lanes)].requestHeartbeat()
				if heartbeats%len(lanes) == 0 {
					d.now = now
					c.audit(&d)
				}
			}
		case <-c.endingContext.Done():
			return
		}
	}
}

// mastersUp is how many masters get new work.
func (c *Client) mastersUp() (n int) {
	for _, l := range c.view.Load().masters {
		if l.answersInTime() {
			n++
		}
	}
	return n
}

// laneChanged tells the log, waiters, everybody in Ready, and what waits for room, that a lane went up or down.
func (c *Client) laneChanged(l *lane) {
	defer c.admit()
	if l.status().State == MasterUp {
		l.logState()
	}
	c.wakeQuorumWaiters()
	c.changedMu.Lock()
	defer c.changedMu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// claim makes the lane the only one for the master with this run_id, or returns the one that is. The lane of the seat that lists
// a memory of this process goes first: another one loses its connection.
func (c *Client) claim(runID string, l *lane) *lane {
	listed := false
	if r := c.view.Load().record; r != nil {
		s := r.Seat(l.index)
		listed = s != nil && member.SameProcess(s.Memory, runID+":")
	}
	c.changedMu.Lock()
	other := c.claims[runID]
	if other != nil && other != l && !listed { //mutant:one-redis-votes-twice
		c.changedMu.Unlock()
		return other
	}
	c.claims[runID] = l
	c.changedMu.Unlock()
	if other != nil && other != l {
		other.disconnect()
	}
	return nil
}

// unclaim gives up the lane's claim.
func (c *Client) unclaim(l *lane) {
	c.changedMu.Lock()
	defer c.changedMu.Unlock()
	maps.DeleteFunc(c.claims, func(_ string, owner *lane) bool { return owner == l })
}

// Ready waits until a quorum of masters has a vote, or ctx is done: then it returns the *NoQuorumError that a
// LOCK would get.
func (c *Client) Ready(ctx context.Context) error {
	for {
		c.changedMu.Lock()
		changed := c.changed
		c.changedMu.Unlock()
		view := c.view.Load()
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
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	var waiting []*Op
	for _, e := range c.leases.entries {
		for p := e.queue.head; p != nil; p = p.next {
			waiting = append(waiting, p.op)
		}
	}
	for _, op := range waiting {
		c.unblockLocked(op, ErrDraining, &d)
	}
}

// Close drains, gives rounds in flight and pending releases until ctx is done, and ends every goroutine of the
// client. What is still pending then ends with its TTL.
func (c *Client) Close(ctx context.Context) error {
	c.Drain()
	err := c.settle(ctx)
	// Cancelled first: a lane that is woken looks at the context.
	c.end()
	for _, l := range c.view.Load().masters {
		l.end()
	}
	c.running.Wait()
	c.admit() // what waited is told that there is no quorum
	return err
}

// settle waits until nothing is queued and no release is pending that can be delivered.
func (c *Client) settle(ctx context.Context) error {
	for {
		c.mu.Lock()
		idle := c.admission.count == 0
		c.mu.Unlock()
		for _, l := range c.view.Load().masters {
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

// Stats returns the counters and gauges.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.leases.forgetSome(now, len(c.leases.all))
	s := c.stats
	s.ByPrefix = slices.Clone(c.leases.byPrefix)
	s.Bound = len(c.leases.holds.due)
	s.Leases, s.Waiters, s.Deferred = c.leases.running(now), c.waiting, c.admission.count
	return s
}

// Masters describes the masters, in the order of Options.Masters.
func (c *Client) Masters() []MasterStatus {
	lanes := c.view.Load().masters
	all := make([]MasterStatus, len(lanes))
	for i, l := range lanes {
		all[i] = l.status()
	}
	return all
}
