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

	"redlockd/redlock/conn"
	"redlockd/redlock/loglimit"
	"redlockd/redlock/quorum"
	"redlockd/redlock/rawio"
)

// reconnectDelayMin is the first pause after a connection attempt that failed.
const reconnectDelayMin = 10 * time.Millisecond

// lane is the one ordered way to one master. What enters its queue first reaches the master first;
// while one batch is in flight, the next one forms (master_inflight.go). What the lane does with its
// connection is its state (master_state.go).
//
// Invariant: a release never overtakes the SET it undoes. Within a connection the queue keeps the
// order. Across connections, the master first discards what it has not read of the old one (CLIENT
// KILL), then gets its pending releases, then new work.
//
// Goroutines: one runs run, work and next, and owns the connection; with a far master a second one
// reads (readReplies). The watchdog of the client calls watch, and the goroutine that launches a round
// calls push. Client.mu may be held when mu is taken, never the other way round.
type lane struct {
	fleet  *fleet
	client *Client // told of votes, messages and changes of state
	index  int     // its place among the masters, and the number of its seat
	master Master
	// ending is cancelled when the client closes, or the seat is no more.
	ending context.Context
	cancel context.CancelFunc

	// mu guards all fields down to logLimiter, except where they say otherwise.
	mu sync.Mutex
	// wake is signalled when something that next looks at has changed. Only the lane's goroutine waits.
	wake sync.Cond

	// queue holds the rounds for the next batches, in the order in which they were launched.
	queue     []*round
	queueCost int // of queue
	window    window

	// state is changed by setStateLocked only, and downReason and since with it.
	state laneState
	// downReason is why the lane takes no work; nil while it does.
	downReason error
	// since is when the lane last began or ceased to take work, or the master to vote.
	since time.Time
	// lastDown is the reason of the last connection that failed; "" once the lane takes work again. A
	// reason that repeats itself is not logged again.
	lastDown string
	// logged is the state of the master in the last line of the log about it, and loggedReason the reason
	// there; "": something has happened since.
	logged       MasterState
	loggedReason string

	// heartbeatDue has the lane's goroutine send a heartbeat as soon as nothing is in flight.
	heartbeatDue bool
	// leaving has the next heartbeat tell the master that this client says nothing more of its clock; left
	// tells that it has.
	leaving, left bool
	followed      atomic.Pointer[followed] // nil: the master has no note of this client
	inflight
	// ticks counts the ticks of the watchdog so far.
	ticks int
	// oldestSentTick is ticks when the oldest unanswered batch was sent, or when maintaining began.
	oldestSentTick int

	// replyErr is the last error that the master replied to a round, or errQueueFull.
	replyErr error
	// replyErrAt is when it did: reason shows it only for rounds that began before.
	replyErrAt time.Time

	// pending are the releases that the master gets before it gets new work (master_pending.go).
	pending pendingReleases
	// guard says whether votes count. The lane's goroutine reads it without mu, because nobody else writes
	// it.
	guard guard
	// identity is what the master said of itself on the last connection.
	identity conn.Identity
	// socket is that of the connection in use; nil: there is none.
	socket net.Conn
	// invalidations is the connection that was subscribed last, see keepSubscribed; nil: none was yet.
	invalidations *conn.Conn

	// Counters and the last round trip, for MasterStatus.
	rtt        time.Duration
	roundTrips RoundTrips
	batches    uint64
	ops        uint64
	timeouts   uint64
	shed       uint64

	// invalidationsID is the client id of invalidations at the master; 0: there is none.
	invalidationsID atomic.Int64

	// deferred is owned by the goroutine that delivers votes. There is one at a time: see
	// inflight.delivering.
	deferred deferred
	// logLimiter limits the lines about the master. It has a mutex of its own.
	logLimiter loglimit.Limiter

	// trackingID is the invalidationsID for which CLIENT TRACKING was last asked for on the lane's
	// connection; 0: it was not. Owned by the lane's goroutine, and so is tracking.
	trackingID int64
	// tracking tells that the master accepted it.
	tracking bool
}

func newLane(f *fleet, index int, master Master) *lane {
	l := &lane{fleet: f, client: f.client, index: index, master: master, window: window{limit: costFirst}, logLimiter: newLogLimiter(), since: time.Now(), downReason: errConnecting}
	l.wake.L, l.readable.L = &l.mu, &l.mu
	l.ending, l.cancel = context.WithCancel(f.endingContext)
	return l
}

var (
	errConnecting = errors.New("connecting")
	errClosed     = errors.New("closed")
	errMoved      = errors.New("another Redis answers at its address now")
	errQueueFull  = errors.New("queue is full (queue_max)")
)

// push puts a round into the queue, or refuses it. The master abstains from a round that was refused; a
// release that was refused because the lane takes no work is kept (keepReleaseLocked). full tells that
// the queue holds as much as one batch may take.
//
// The caller holds Client.mu, so that all lanes see all rounds in the same order (rounds.launch).
func (l *lane) push(r *round) (taken, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch queueMax := l.fleet.opts.QueueMax; {
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
	// In the other states the lane's goroutine looks at the queue by itself before it waits again.
	if len(l.queue) == 1 && (l.state == laneIdle || l.state == laneWaiting && l.pipelined) {
		l.wake.Signal()
	}
	return true, l.queueCost >= l.fullLocked()
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

// run is the lane's goroutine. It connects, sends batches until the connection breaks, and starts over,
// until the client closes.
func (l *lane) run() {
	l.reconnect(func() {
		conn, err := l.connect()
		if err == nil {
			err = l.work(conn)
			conn.Close()
		}
		l.breakOff(err)
	})
	l.mu.Lock()
	l.setStateLocked(laneClosed, errClosed)
	l.mu.Unlock()
	l.client.laneChanged(l)
}

// reconnect calls connection, which makes a connection and uses it, again and again until the client
// closes. The pauses in between double up to ReconnectDelayMax. A connection that lasted longer than
// that makes them short again.
func (l *lane) reconnect(connection func()) {
	delay := time.Duration(0)
	for l.sleep(delay) {
		began := time.Now()
		connection()
		if time.Since(began) > l.fleet.opts.ReconnectDelayMax {
			delay = 0
		}
		delay = min(max(2*delay, reconnectDelayMin), l.fleet.opts.ReconnectDelayMax)
	}
}

// sleep waits for between half of d and d, at random, so that many lanes do not try in step. It returns
// false when the client closes.
func (l *lane) sleep(d time.Duration) bool {
	if d > 0 {
		select {
		case <-time.After(d/2 + rand.N(d/2+1)):
		case <-l.ending.Done():
		}
	}
	return l.ending.Err() == nil
}

// connect makes and vets a connection, off the path of requests, and flushes the pending releases. When
// it returns without error, the lane is idle and takes work.
func (l *lane) connect() (*conn.Conn, error) {
	ctx, cancel := context.WithTimeout(l.ending, l.fleet.opts.ConnectTimeout)
	defer cancel()
	begun := time.Now()
	link, err := conn.Dial(ctx, l.master, l.fleet.opts.ConnectTimeout)
	if err != nil {
		return nil, err
	}
	// When the client closes, this ends whatever call is waiting on the connection.
	link.Stop = link.BreakOff(l.ending)
	if err := conn.RecoverPanic(func() error { return l.ready(ctx, link, begun) }); err != nil {
		link.Close()
		return nil, conn.AsRefusal(conn.Explain(err))
	}
	return link, nil
}

// ready vets the connection, sends a first heartbeat, and opens the lane. What the guard knows of the
// master stays if it is still the same process (run_id), and is forgotten otherwise.
func (l *lane) ready(ctx context.Context, link *conn.Conn, begun time.Time) error {
	before := l.identity
	l.trackingID, l.tracking = 0, false
	id, err := link.Vet(ctx, before)
	if err != nil {
		return err
	}
	if other := l.fleet.claim(id.RunID, l); other != nil {
		return sameRedis(other)
	}
	l.mu.Lock()
	l.identity = id
	l.rttMin = 0
	l.guard.shown, l.guard.record, l.guard.changing = "", nil, false // trusted only when the master shows it again
	l.guard.confirmed.Store(int64(l.fleet.own.At(begun)))
	l.guard.unreached, l.guard.unreachedLogged = nil, false
	if id.RunID != before.RunID { //mutant:the-past-forgotten-with-the-connection
		l.guard.memory, l.guard.beat, l.guard.evicted, l.guard.forgotten = "", 0, -1, nil
		l.guard.clock = newClockGuard(l.fleet.own, l.master.SameClock)
		l.toResolve = guardResult{} // it was about the other one, and nobody believes anything of this one yet
	}
	l.mu.Unlock()
	if err := l.heartbeat(ctx, link); err != nil {
		return err
	}
	return l.open(ctx, link)
}

// open flushes the pending releases and, with none left, has the lane take work. That none is left and
// that the lane takes work is decided under one hold of mu: a release that push refuses before is
// flushed here, and one that comes later is queued.
func (l *lane) open(ctx context.Context, conn *conn.Conn) error {
	for {
		l.mu.Lock()
		l.pending.expire(time.Now())
		if len(l.pending) == 0 {
			l.setStateLocked(laneIdle, nil)
			l.lastDown = ""
			if l.logged == MasterDown {
				l.logged = ""
			}
			l.mu.Unlock()
			l.client.laneChanged(l)
			l.client.audits.suspect() // it may be another process, or have forgotten meanwhile //mutant:leases-not-looked-at-behind-a-new-connection
			return nil
		}
		releases := slices.Clone(l.pending[:min(len(l.pending), foldMax)])
		l.pending.remove(len(releases))
		l.mu.Unlock()
		if err := flushReleases(ctx, conn, releases); err != nil { //mutant:kept-releases-not-delivered
			l.mu.Lock()
			l.pending = append(releases, l.pending...)
			l.mu.Unlock()
			return fmt.Errorf("deliver pending releases: %w", err)
		}
	}
}

// watchTicks is how many ticks of the watchdog make one MasterTimeout.
const watchTicks = 5

// watch abandons the batches of a master that has not answered within MasterTimeout: they get no vote
// from it, and it gets no new work until it answers or the connection breaks. The client's watchdog
// calls it at every tick. A master that is needed for a quorum has longer (excusedLocked).
//
// Time is counted in ticks, which come late when this process is short of CPU, so that its own stall
// does not condemn the masters.
func (l *lane) watch(d *deferred) {
	l.mu.Lock()
	l.ticks++
	l.pending.expire(d.now)
	late, voter := l.lateLocked(), l.mayVoteLocked()
	l.askAgainLocked(d.now)
	l.mu.Unlock()
	if !late {
		return
	}
	needed := voter && l.fleet.voters() <= l.fleet.view.Load().Quorum() //mutant:a-learner-is-waited-for //mutant:a-learner-takes-the-place-of-a-voter
	l.mu.Lock()
	if !l.lateLocked() || l.excusedLocked(needed) { // or it has just answered
		l.mu.Unlock()
		return
	}
	l.timeouts++
	l.setStateLocked(laneTimedOut, fmt.Errorf("no answer within %v", l.fleet.opts.MasterTimeout))
	sent, queue := l.abandonLocked(), l.queue
	l.queue, l.queueCost = nil, 0
	for _, r := range sent {
		l.keepReleaseLocked(r)
	}
	for _, r := range queue {
		l.keepReleaseLocked(r)
	}
	l.mu.Unlock()
	l.logEvent(slog.LevelWarn, "master slow", "reason", "no answer within "+l.fleet.opts.MasterTimeout.String(),
		"to_do", "see what it is busy with (its SLOWLOG, the load of its machine, the network); raise master.timeout if the way there is long")
	l.client.laneChanged(l)
	d.now = time.Now()
	for _, r := range sent {
		l.client.vote(r, quorum.Cast(l.index, quorum.Unknown), d)
	}
	for _, r := range queue {
		l.client.vote(r, quorum.Cast(l.index, quorum.Abstained), d)
	}
	l.client.runDeferred(d)
}

// lateLocked tells whether a batch or a heartbeat was sent longer than MasterTimeout ago and is not
// answered. A lane that has timed out already is not late again.
func (l *lane) lateLocked() bool {
	waits := l.state == laneSending || l.state == laneWaiting || l.state == laneMaintaining
	return waits && l.ticks-l.oldestSentTick > watchTicks //mutant:a-silent-master-is-waited-for
}

// neededTicks is for how many ticks a master is waited for without which there is no quorum. The
// deadline of the connection may come earlier (batch.send).
const neededTicks = 4 * watchTicks

// excusedLocked tells whether a late master is waited for all the same. There are two reasons:
//   - Its answer has arrived, and this process is so short of CPU that nobody has read it.
//   - It is needed for a quorum. Without it nothing can be granted, so waiting costs nobody a lock.
//     Most stalls are short: its machine pauses, or all masters are overloaded and work off large
//     batches. A library that was written for one Redis would take NOQUORUM for the end of its wait. It
//     is told that after neededTicks.
func (l *lane) excusedLocked(needed bool) bool {
	if l.socket != nil && rawio.Unread(l.socket) {
		return true
	}
	return needed && l.ticks-l.oldestSentTick <= neededTicks //mutant:needed-masters-are-given-up //mutant:silent-masters-are-excused
}

// answersInTime tells whether the lane takes work.
func (l *lane) answersInTime() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.takesWork()
}

// breakOff clears up after a connection, or after an attempt to make one. The rounds that are still
// queued were never sent: the master abstains from them, and the releases among them are kept. Both
// goroutines of the connection have ended.
func (l *lane) breakOff(err error) {
	if err = conn.Shorten(err); l.ending.Err() != nil {
		err = errClosed
	}
	l.fleet.unclaim(l)
	l.closeInvalidations()
	l.mu.Lock()
	changed := l.lastDown != err.Error()
	l.lastDown, l.downReason, l.delivering, l.socket = err.Error(), err, false, nil
	l.guard.clock.known = false
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
		if conn.IsRefused(err) {
			// A replica, for one, has another's memory: what is left of the leases is on the other masters.
			l.client.audits.suspect() //mutant:leases-not-looked-at-when-a-master-becomes-a-replica
		}
	}
	l.deferred.now = time.Now()
	for _, r := range queue {
		l.client.vote(r, quorum.Cast(l.index, quorum.Abstained), &l.deferred)
	}
	l.client.runDeferred(&l.deferred)
	l.client.laneChanged(l)
}

// reason says why the master gave no vote that counts in a round that began at start. It is for
// NoQuorumError and LOCKINFO.
func (l *lane) reason(start time.Time) MasterError {
	l.mu.Lock()
	defer l.mu.Unlock()
	because := func(state MasterState, err error) MasterError { return MasterError{l.master.Addr, err, state} }
	up := l.state.takesWork()
	switch {
	case up && l.guard.refusal != "":
		return because(MasterRefused, &conn.RefusedError{Reason: l.guard.refusal})
	case up && l.guard.record == nil:
		return because(MasterQuarantined, errors.New(l.waitsLocked()))
	case up && l.unconfirmedLocked() != "":
		return because(MasterQuarantined, errors.New(l.unconfirmedLocked()))
	case up && !l.guard.clock.good:
		return because(MasterDoubted, fmt.Errorf("doubted for another %v: %s", max(0, time.Until(l.guard.clock.until)).Round(time.Millisecond), l.guard.clock.reason))
	case up && l.guard.lockRefusal != "":
		return because(MasterRefused, &conn.RefusedError{Reason: l.guard.lockRefusal})
	case up && (l.replyErr == nil || l.replyErrAt.Before(start)): // what it has replied earlier is about something else
		return because(MasterUp, errors.New("its vote came too late or does not count"))
	case up:
		return because(MasterUp, l.replyErr)
	case conn.IsRefused(l.downReason):
		return because(MasterRefused, l.downReason)
	}
	return because(MasterDown, fmt.Errorf("down for %v: %w", time.Since(l.since).Round(time.Millisecond), l.downReason))
}

// waitsLocked says why the master has no vote, and for how long.
func (l *lane) waitsLocked() string {
	if left := l.fleet.coordinator.Left(l.index); left > 0 {
		return fmt.Sprintf("quarantined for another %v: %s", left.Round(time.Millisecond), l.guard.reason)
	}
	return "quarantined: " + l.guard.reason
}

// unconfirmedLocked says why a master does not vote that no new connection has reached for too long;
// "": it votes. It needs a record of the guard.
func (l *lane) unconfirmedLocked() string {
	ago := l.guard.unconfirmed(l.fleet.own.At(time.Now()))
	if ago == 0 {
		return ""
	}
	why := "see whether it accepts connections (maxclients, the network)"
	if l.master.Inside() {
		why = "this process was paused, or has too little CPU"
	}
	if err := l.guard.unreached; conn.IsRefused(err) {
		why = strings.TrimPrefix(err.Error(), conn.RefusedPrefix)
	} else if err != nil {
		why = err.Error() + "; " + why
	}
	return fmt.Sprintf("no new connection has reached it for %v, so another master may have its address by now: %s", ago.Round(time.Millisecond), why)
}

// idle tells whether nothing is queued or in flight, and no release is pending that could be delivered.
// A master that is away is idle: Close does not wait for it.
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

// end has the lane's goroutines end.
func (l *lane) end() {
	l.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake.Signal()
}

// status describes the master for Client.Masters, INFO and the metrics.
func (l *lane) status() MasterStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := MasterStatus{
		Addr: l.master.Addr, State: MasterUp, Since: l.since, Connected: l.state.takesWork(), Version: l.identity.Version, RunID: l.identity.RunID,
		Batches: l.batches, Ops: l.ops, Timeouts: l.timeouts, Shed: l.shed, RTT: l.rtt, ClockOffset: l.guard.clock.offset, UsedMemory: l.guard.usedMemory, MaxMemory: l.guard.maxMemory, Queued: len(l.queue), PendingReleases: len(l.pending),
	}
	switch {
	case l.downReason != nil && conn.IsRefused(l.downReason):
		s.State, s.Reason = MasterRefused, strings.TrimPrefix(l.downReason.Error(), conn.RefusedPrefix)
	case l.downReason != nil:
		s.State, s.Reason = MasterDown, l.downReason.Error()
	case l.guard.refusal != "":
		s.State, s.Reason = MasterRefused, l.guard.refusal
	case l.guard.lockRefusal != "":
		s.State, s.Reason = MasterRefused, l.guard.lockRefusal
	case l.guard.record == nil:
		s.State, s.Reason, s.Left = MasterQuarantined, l.guard.reason, l.fleet.coordinator.Left(l.index)
	case l.unconfirmedLocked() != "":
		s.State, s.Reason = MasterQuarantined, l.unconfirmedLocked()
	case !l.guard.clock.good:
		s.State, s.Reason, s.Left = MasterDoubted, l.guard.clock.reason, max(0, time.Until(l.guard.clock.until))
	}
	return s
}

// setStateLocked is the only function that changes the state of a lane. err is why the lane takes no
// work in the new state, nil where it does.
func (l *lane) setStateLocked(to laneState, err error) {
	from := l.state
	if allowedFrom[from]&(1<<to) == 0 {
		panic(conn.Bug(fmt.Sprintf("redlock: the lane of %s cannot go from %v to %v", l.master.Addr, from, to)))
	}
	l.state, l.downReason = to, err
	if from.takesWork() != to.takesWork() {
		l.since = time.Now()
	}
	if l.fleet.opts.onLaneState != nil {
		l.fleet.opts.onLaneState(l.index, from, to)
	}
}

// mayVoteLocked tells whether the master takes work, is a voter, and has a clock that is good.
func (l *lane) mayVoteLocked() bool {
	return l.state.takesWork() && l.guard.record != nil && l.guard.clock.good
}

// keepReleaseLocked keeps a release that the master of the lane has not confirmed, where it may
// hold the key. It needs lane.mu.
func (l *lane) keepReleaseLocked(r *round) {
	if !verbs[r.verb].release || !r.keepFor.Has(l.index) {
		return
	}
	expiresAt := r.start.Add(l.fleet.keyLifeMax())
	for _, key := range r.keys {
		l.pending.add(pendingRelease{key, r.token, expiresAt})
	}
}

// What others ask of a lane. Only the files of the lane take its mutex.

// mayVote tells whether the master takes work, is a voter, and has a clock that is good.
func (l *lane) mayVote() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mayVoteLocked()
}

// fullLocked is how much may queue before the lane counts as full: what the next batch can take. To a
// far master, where the distance is most of what one waits for, batches stay large.
func (l *lane) fullLocked() int {
	if l.pipelined {
		return min(l.window.limit, costMax)
	}
	return min(l.window.limit, int(l.client.admission.turn.Load()))
}

// room tells whether the master may vote, and whether its next batch has room. While flows take turns
// and a batch is in flight, most of the room is kept for those who come before the next one departs.
func (l *lane) room() (votes, room bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := l.fullLocked()
	if len(l.out) > 0 && !l.pipelined && l.client.admission.turn.Load() < costMax { //mutant:a-crowd-leaves-no-room-for-who-comes
		most /= aheadShare
	}
	return l.mayVoteLocked(), l.queueCost < most
}

// distance is the shortest round trip to the master.
func (l *lane) distance() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rttMin
}
