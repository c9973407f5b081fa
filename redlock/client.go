package redlock

import (
	"context"
	"maps"
	"sync"
	"time"

	"redlockd/redlock/loglimit"
)

// Client is the Redlock engine over one set of masters. It is safe for use by many goroutines.
type Client struct {
	opts  Options
	drift drift // of opts
	// longestMs is the longest TTL that a master is asked for, in milliseconds.
	longestMs int64
	lanes     []*lane // one per master, in the order of Options.Masters
	tokens    *tokenSource
	// began is the zero of the clock that the masters' clocks are compared with.
	began time.Time
	// fingerprint is that of the settings that all proxies must agree on.
	fingerprint string

	// mu guards what follows, and is the one gate through which every round enters the lanes (see
	// launchLocked). It is held for lookups and appends only, never over I/O or a Completer. Order: mu before
	// lane.mu.
	mu        sync.Mutex
	leases    leases
	share     Share // of operations that name none
	admission admission
	waiting   int    // LOCKs that wait
	arrivals  uint64 // LOCKs that have waited
	fences    fenceClock
	stats     Stats
	// audited is an index in leases.all: the audit has read the leases before it lately.
	audited int
	// doubts counts the leases that the audit has to read soon.
	doubts int
	// lostLog limits the lines about leases that are lost.
	lostLog loglimit.Limiter
	// quorumAwaited tells that some head of a queue waits for a quorum, see wait_quorum.go.
	quorumAwaited bool
	// draining refuses new LOCKs. It is never taken back.
	draining bool

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
		opts: opts, drift: opts.drift(), tokens: newTokenSource(), began: time.Now(), fingerprint: agreedSettingsOf(opts).fingerprint(),
		fences: fenceClock{aheadMax: opts.ClockSkewMax.Milliseconds() << fenceCounterBits},
		leases: newLeases(), claims: make(map[string]*lane), changed: make(chan struct{}), lostLog: newLogLimiter(),
	}
	c.endingContext, c.end = context.WithCancel(context.Background())
	c.leases.remember = 2 * opts.ConnectTimeout
	c.longestMs = paddedTTL(opts.MaxTTL, c.drift).Milliseconds()
	for i, m := range opts.Masters {
		c.lanes = append(c.lanes, newLane(c, i, m))
	}
	// All lanes exist before the first one runs: they look at each other (claim, mastersUp).
	for _, l := range c.lanes {
		c.running.Go(l.run)
		c.running.Go(l.keepSubscribed)
	}
	c.running.Go(c.watch)
	return c, nil
}

// Options returns the options in force, defaults filled in.
func (c *Client) Options() Options { return c.opts }

// watch is the watchdog, a goroutine of its own. At every tick it abandons the batches of masters that do not
// answer in time, and requests the heartbeats that are due. Once per round of heartbeats it lets the audit look
// at some leases.
func (c *Client) watch() {
	ticker := time.NewTicker(c.opts.MasterTimeout / watchTicks)
	defer ticker.Stop()
	var d deferred
	began := time.Now()
	heartbeats := 0
	for {
		select {
		case now := <-ticker.C:
			d.now = now
			for _, l := range c.lanes {
				l.watch(&d)
				l.logMissedState(now)
			}
			c.admit()
			// One lane after the other. A lane sends its heartbeat when nothing is in flight, and takes no vote
			// meanwhile; so a quorum goes on.
			due := int(now.Sub(began) * time.Duration(len(c.lanes)) / c.opts.Heartbeat)
			for heartbeats = max(heartbeats, due-len(c.lanes)); heartbeats < due; heartbeats++ {
				c.lanes[heartbeats%len(c.lanes)].requestHeartbeat()
				if heartbeats%len(c.lanes) == 0 {
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
	for _, l := range c.lanes {
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

// claim makes the lane the only one for the master with this run_id, or returns the one that is.
func (c *Client) claim(runID string, l *lane) *lane {
	c.changedMu.Lock()
	defer c.changedMu.Unlock()
	if other := c.claims[runID]; other != nil && other != l { //mutant:one-redis-votes-twice
		return other
	}
	c.claims[runID] = l
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
		var v votes
		up, now := 0, time.Now()
		for i, l := range c.lanes {
			if l.status().State == MasterUp {
				up++
				v += cast(i, voteGranted)
			} else {
				v += cast(i, voteAbstained)
			}
		}
		if up >= quorumOf(len(c.lanes)) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return c.noQuorumError(now, v, quorumOf(len(c.lanes)), 0)
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
	for _, l := range c.lanes {
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
		for _, l := range c.lanes {
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
	s.Leases, s.Waiters, s.Deferred = c.leases.running(now), c.waiting, c.admission.count
	return s
}

// Masters describes the masters, in the order of Options.Masters.
func (c *Client) Masters() []MasterStatus {
	all := make([]MasterStatus, len(c.lanes))
	for i, l := range c.lanes {
		all[i] = l.status()
	}
	return all
}
