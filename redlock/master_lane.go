package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redlockd/redlock/loglimit"
	"redlockd/redlock/rawio"
)

// reconnectDelayMin is the first pause after a connection attempt that failed.
const reconnectDelayMin = 10 * time.Millisecond

// batchMax bounds the rounds in one pipeline: what a master works off without a look at anybody else, and, times
// inflightMax, what a broken connection can leave unknown.
const batchMax = 1024

// lane is the one ordered way to one master. What enters its queue first reaches the master first; while one batch is in
// flight, the next one forms (master_inflight.go).
//
// Invariant: a release never overtakes the SET it undoes. Within a connection the queue keeps the order; across
// connections, the master first discards what it has not read of the old one (CLIENT KILL), then gets its
// pending releases, then new work.
type lane struct {
	client *Client
	index  int
	master Master

	mu         sync.Mutex
	wake       sync.Cond // something that next looks at has changed; only the lane's goroutine waits
	queue      []*round  // waits for the next batch
	queueCost  int       // of queue
	limit      int       // how much may be in flight, see master_window.go
	paced      time.Time // when limit was last looked at
	state      laneState // changed by setStateLocked only
	downReason error     // why the lane takes no work; nil while it does
	since      time.Time // when the lane last began or ceased to take work, or the master to vote
	lastDown   string    // reason of the last connection that failed, until a lane takes work again
	loggedDown bool      // the log knows that it is down

	heartbeatDue   bool // a heartbeat is to be sent
	inflight            // the batches on their way
	ticks          int  // of the watch, so far
	oldestSentTick int  // ticks when the oldest batch that is not answered was sent, or maintaining began

	replyErr   error     // the last error that the master replied to a round
	replyErrAt time.Time // when it did

	pending                      pendingReleases
	guard                        guard
	identity                     identity // of the master at the last connection
	socket                       net.Conn // of the connection in use; nil: there is none
	invalidations                *link    // subscribed connection, see keepSubscribed; nil: there is none
	rtt                          time.Duration
	batches, ops, timeouts, shed uint64

	invalidationsID atomic.Int64 // its client id at the master; 0: there is none

	deferred   deferred         // owned by the goroutine that counts votes
	logLimiter loglimit.Limiter // of lines about the master

	// CLIENT TRACKING on the lane's connection. Owned by the goroutine of the lane.
	trackingID int64 // invalidationsID for which it was last asked for; 0: not on this connection
	tracking   bool  // the master accepted it
}

// identity is what a master says of itself on a new connection.
type identity struct {
	runID, version string
	clientID       int64 // of the lane's connection
}

func newLane(c *Client, index int, master Master) *lane {
	l := &lane{client: c, index: index, master: master, limit: costFirst, logLimiter: newLogLimiter(), since: time.Now(), downReason: errConnecting}
	l.wake.L, l.readable.L = &l.mu, &l.mu
	return l
}

var (
	errConnecting = errors.New("connecting")
	errClosed     = errors.New("closed")
	errQueueFull  = errors.New("queue is full (queue_max)")
)

// push puts a round into the queue, or refuses it: the master will abstain. A release that is refused is kept. It tells whether the queue
// is as much as one batch may take. It needs Client.mu.
func (l *lane) push(r *round) (taken, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch queueMax := l.client.opts.QueueMax; {
	case !l.state.takesWork():
		l.keepReleaseLocked(r)
		return false, false
	case (len(l.queue) >= queueMax || l.queueCost >= 4*queueMax) && !verbs[r.verb].neverShed: //mutant:releases-shed
		l.shed++
		l.replyErr, l.replyErrAt = errQueueFull, r.start
		return false, true
	}
	l.queue = append(l.queue, r)
	l.queueCost += int(r.cost)
	if len(l.queue) == 1 && (l.state == laneIdle || l.state == laneWaiting && l.pipelined) {
		l.wake.Signal()
	}
	return true, l.queueCost >= l.queueLimit()
}

// requestHeartbeat has the lane send a heartbeat as soon as nothing is in flight.
func (l *lane) requestHeartbeat() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.takesWork() && !l.heartbeatDue {
		l.heartbeatDue = true
		l.wake.Signal()
	}
}

// run connects, works off batches until the connection breaks, and starts over, until the lane has ended.
func (l *lane) run() {
	l.reconnect(func() {
		link, err := l.connect()
		if err == nil {
			err = l.work(link)
			link.close()
		}
		l.breakOff(err)
	})
	l.mu.Lock()
	l.setStateLocked(laneClosed, errClosed)
	l.mu.Unlock()
	l.client.laneChanged(l)
}

// reconnect has a connection made and used, with longer and longer pauses between connections, until the lane has ended.
func (l *lane) reconnect(connection func()) {
	delay := time.Duration(0)
	for l.sleep(delay) {
		began := time.Now()
		connection()
		// A connection that breaks at once is no better than none.
		if time.Since(began) > l.client.opts.ReconnectDelayMax {
			delay = 0
		}
		delay = min(max(2*delay, reconnectDelayMin), l.client.opts.ReconnectDelayMax)
	}
}

// sleep waits for up to d, shortened by a random part so that many lanes do not try in step. It returns false when the lane
// has ended.
func (l *lane) sleep(d time.Duration) bool {
	if d > 0 {
		select {
		case <-time.After(d/2 + rand.N(d/2+1)):
		case <-l.client.endingContext.Done():
		}
	}
	return l.client.endingContext.Err() == nil
}

// connect makes and vets a connection, off the path of requests, and flushes its pending releases. When it returns without error,
// the lane is up.
func (l *lane) connect() (*link, error) {
	ctx, cancel := context.WithTimeout(l.client.endingContext, l.client.opts.ConnectTimeout)
	defer cancel()
	link, err := dial(ctx, l.master, l.client.opts)
	if err != nil {
		return nil, err
	}
	// The end of the client breaks off whatever the link is doing.
	link.stop = context.AfterFunc(l.client.endingContext, func() { link.socket.Close() })
	if err := survive(func() error { return l.ready(ctx, link) }); err != nil {
		link.close()
		return nil, connectError(err)
	}
	return link, nil
}

func (l *lane) ready(ctx context.Context, link *link) error {
	before := l.identity
	l.trackingID, l.tracking = 0, false
	id, err := link.vet(ctx, before)
	if err != nil {
		return err
	}
	if other := l.client.claim(id.runID, l); other != nil {
		return &refusedError{fmt.Sprintf("it is the same Redis as %s: each vote must come from a master of its own", other.master.Addr)}
	}
	l.mu.Lock()
	l.identity = id
	l.rttMin = 0
	l.guard.epoch = ""            // trusted only when the master shows it again
	if id.runID != before.runID { //mutant:the-past-forgotten-with-the-connection
		l.guard.quarantine, l.guard.beat, l.guard.clock, l.guard.evicted, l.guard.former = "", 0, clockTrack{}, -1, nil
		l.toResolve = guardResult{} // it was about the other one, and nobody believes anything of this one yet
	}
	l.mu.Unlock()
	if err := l.heartbeat(ctx, link); err != nil {
		return err
	}
	return l.open(ctx, link)
}

// open flushes the pending releases and, with none left, lets the queue fill.
func (l *lane) open(ctx context.Context, link *link) error {
	for {
		l.mu.Lock()
		l.pending.expire(time.Now())
		if len(l.pending) == 0 {
			l.setStateLocked(laneIdle, nil)
			l.lastDown, l.loggedDown = "", false
			l.mu.Unlock()
			l.client.laneChanged(l)
			return nil
		}
		releases := slices.Clone(l.pending[:min(len(l.pending), foldMax)])
		l.pending.remove(len(releases))
		l.mu.Unlock()
		if err := link.flush(ctx, releases); err != nil { //mutant:kept-releases-not-delivered
			l.mu.Lock()
			l.pending = append(releases, l.pending...)
			l.mu.Unlock()
			return fmt.Errorf("deliver pending releases: %w", err)
		}
	}
}

// watchTicks is after how many ticks of the watch, a part of MasterTimeout each, a master that is waited for is given up.
const watchTicks = 5

// watch is called at every tick, on the goroutine of the watch. A master that has not answered within MasterTimeout gives no
// vote, and gets no new work until it does answer or the connection is given up too. Time is counted in ticks, which come late
// when this process is short of CPU: its own stall does not condemn the masters. Neither does overload: see excusedLocked.
func (l *lane) watch(d *deferred) {
	l.mu.Lock()
	l.ticks++
	l.pending.expire(d.now)
	late := l.lateLocked()
	l.mu.Unlock()
	if !late {
		return
	}
	needed := l.client.mastersUp() <= quorumOf(len(l.client.lanes))
	l.mu.Lock()
	if !l.lateLocked() || l.excusedLocked(needed) { // or it has just answered
		l.mu.Unlock()
		return
	}
	l.timeouts++
	l.setStateLocked(laneTimedOut, fmt.Errorf("no answer within %v", l.client.opts.MasterTimeout))
	sent, queue := l.abandonLocked(), l.queue
	l.queue, l.queueCost = nil, 0
	for _, r := range sent {
		l.keepReleaseLocked(r)
	}
	for _, r := range queue {
		l.keepReleaseLocked(r)
	}
	l.mu.Unlock()
	l.logEvent(slog.LevelWarn, "master slow", "reason", "no answer within "+l.client.opts.MasterTimeout.String(),
		"to_do", "see what it is busy with (its SLOWLOG, the load of its machine, the network); raise master.timeout if the way there is long")
	l.client.laneChanged(l)
	d.now = time.Now()
	for _, r := range sent {
		l.client.vote(r, cast(l.index, voteUnknown), d)
	}
	for _, r := range queue {
		l.client.vote(r, cast(l.index, voteAbstained), d)
	}
	l.client.runDeferred(d)
}

// lateLocked tells whether something was sent longer than MasterTimeout ago and is not answered.
func (l *lane) lateLocked() bool {
	waits := l.state == laneSending || l.state == laneWaiting || l.state == laneMaintaining
	return waits && l.ticks-l.oldestSentTick > watchTicks //mutant:a-silent-master-is-waited-for
}

// overloadTicks is for how many ticks at most a master is excused by a large batch.
const overloadTicks = 4 * watchTicks

// excusedLocked tells whether a master that is late is not given up yet. Either it has answered, and this process is so short of CPU that
// nobody has read that. Or without it there would be no quorum, and it is working off a large batch: then all are overloaded, and to give
// them up would lose a quorum that only takes longer. A master that is silent under a small load is given up in time.
func (l *lane) excusedLocked(needed bool) bool {
	if l.socket != nil && rawio.Unread(l.socket) {
		return true
	}
	return needed && len(l.out) > 0 && l.out[0].cost >= costMin && l.ticks-l.oldestSentTick <= overloadTicks //mutant:overloaded-masters-are-given-up //mutant:silent-masters-are-excused
}

func (l *lane) answersInTime() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.takesWork()
}

// breakOff ends a connection, or an attempt to make one: what is still queued was never sent and will not be, and every release
// among it is kept.
func (l *lane) breakOff(err error) {
	err = concise(err)
	l.client.unclaim(l)
	l.closeInvalidations()
	l.mu.Lock()
	changed := l.lastDown != err.Error()
	l.lastDown, l.downReason, l.delivering, l.socket = err.Error(), err, false, nil
	if l.state == laneBroken {
		l.setStateLocked(laneConnecting, err)
	}
	queue := l.queue
	l.queue, l.queueCost = nil, 0
	for _, r := range queue {
		l.keepReleaseLocked(r)
	}
	l.mu.Unlock()
	if changed && !errors.Is(err, errClosed) {
		l.logState()
		if isRefused(err) {
			l.client.suspect() // a replica, for one, has another's memory: what is left of the leases is on the other masters //mutant:leases-not-looked-at-when-a-master-becomes-a-replica
		}
	}
	l.deferred.now = time.Now()
	for _, r := range queue {
		l.client.vote(r, cast(l.index, voteAbstained), &l.deferred)
	}
	l.client.runDeferred(&l.deferred)
	l.client.laneChanged(l)
}

// reason says why the master gave no vote that counts in a round that began at start.
func (l *lane) reason(start time.Time) MasterError {
	l.mu.Lock()
	defer l.mu.Unlock()
	because := func(state MasterState, err error) MasterError { return MasterError{l.master.Addr, err, state} }
	up := l.state.takesWork()
	switch {
	case up && l.guard.refusal != "":
		return because(MasterRefused, &refusedError{l.guard.refusal})
	case up && l.guard.quarantine != "" && time.Until(l.guard.until) <= 0:
		return because(MasterQuarantined, fmt.Errorf("about to be admitted after a quarantine: %s", l.guard.reason))
	case up && l.guard.quarantine != "":
		return because(MasterQuarantined, fmt.Errorf("quarantined for another %v: %s", time.Until(l.guard.until).Round(time.Millisecond), l.guard.reason))
	case up && (l.replyErr == nil || l.replyErrAt.Before(start)): // what it has replied earlier is about something else
		return because(MasterUp, errors.New("its vote came too late or does not count"))
	case up:
		return because(MasterUp, l.replyErr)
	case isRefused(l.downReason):
		return because(MasterRefused, l.downReason)
	}
	return because(MasterDown, fmt.Errorf("down for %v: %w", time.Since(l.since).Round(time.Millisecond), l.downReason))
}

func isRefused(err error) bool {
	_, refused := errors.AsType[*refusedError](err)
	return refused
}

// idle tells whether nothing is queued or in flight, and no release is pending that could be delivered.
func (l *lane) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.state {
	case laneConnecting, laneClosed:
		return true
	case laneIdle:
		return len(l.queue) == 0 && !l.delivering && len(l.pending) == 0
	}
	return false
}

// end has the lane's goroutine look whether the client has closed.
func (l *lane) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake.Signal()
}

func (l *lane) status() MasterStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := MasterStatus{
		Addr: l.master.Addr, State: MasterUp, Since: l.since, Version: l.identity.version, RunID: l.identity.runID,
		Batches: l.batches, Ops: l.ops, Timeouts: l.timeouts, Shed: l.shed, RTT: l.rtt, Queued: len(l.queue), PendingReleases: len(l.pending),
	}
	switch {
	case l.downReason != nil && isRefused(l.downReason):
		s.State, s.Reason = MasterRefused, strings.TrimPrefix(l.downReason.Error(), refusedPrefix)
	case l.downReason != nil:
		s.State, s.Reason = MasterDown, l.downReason.Error()
	case l.guard.refusal != "":
		s.State, s.Reason = MasterRefused, l.guard.refusal
	case l.guard.epoch == "":
		s.State, s.Reason, s.Left = MasterQuarantined, l.guard.reason, max(0, time.Until(l.guard.until))
	}
	return s
}
