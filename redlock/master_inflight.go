package redlock

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/quorum"
)

// inflight is the batches of one lane that are sent and not answered. Its lock is lane.mu.
//
// A near master answers before another batch is worth sending. So the next batch forms while one is in
// flight, and the lane's goroutine sends and reads in turn. With a far master every operation would
// wait up to a round trip in the queue that way. So its batches are pipelined: one may be sent every
// spacing-th part of a round trip, and a second goroutine, the reader, reads the replies. The lane
// changes between the two only when all that was sent is answered and delivered.
//
// Invariants:
//   - A master executes batches in the order in which they were sent, and their replies are read in
//     that order.
//   - All other use of the connection (maintain: heartbeat, what the guard asks for, pending releases)
//     waits until nothing is in flight.
//   - Once the guard has found something in a trailer, nothing is sent before resolve has acted on it,
//     and the votes of batches that were in flight already do not count.
type inflight struct {
	// out are the batches that are sent and not answered, the oldest first.
	out     []*batch
	outCost int // of out
	// spare are batches whose memory can be used again.
	spare []*batch
	// readable is signalled when the replies of the oldest batch may be read, or the connection has
	// failed. Only the reader waits.
	readable sync.Cond
	// pipelined tells that more than one batch may be in flight. Written by the lane's goroutine only.
	pipelined bool
	// rttMin is the shortest round trip on this connection: the distance of the master, without what load
	// adds.
	rttMin time.Duration
	// lastSent is when the last batch was sent to a far master.
	lastSent time.Time
	// toResolve is what the guard has found and resolve has not acted on. It outlives the connection.
	toResolve guardResult
	// delivering tells that votes of an answered batch are being delivered, by the reader or, without one,
	// by the lane's goroutine.
	delivering bool
	// paused tells that the reader uses the connection, to repeat commands whose script was lost: nothing
	// else is sent.
	paused bool
	// broken is why the connection can no longer be used; nil: it can.
	broken error
}

const (
	// pipelineFrom is the round trip from which on a master is far. Below it, larger batches are worth
	// more than early ones.
	pipelineFrom = 500 * time.Microsecond
)

// work sends batch after batch until the connection breaks, and returns why. It runs on the lane's
// goroutine, and starts the reader when the first pipelined batch is sent.
func (l *lane) work(link *conn.Conn) error {
	l.mu.Lock()
	l.spare, l.broken, l.socket = nil, nil, link.Socket
	l.mu.Unlock()
	var reader sync.WaitGroup
	reading := false
	var done *batch
	for {
		b, ok := l.next(link, done)
		done = nil
		var err error
		switch {
		case !ok:
			err = errClosed
		case b == nil:
			err = conn.RecoverPanic(func() error { return l.maintain(link) })
		default:
			b.encode()
			if l.pipelined {
				if !reading {
					reading = true
					reader.Go(func() { l.readReplies(link) })
				}
				l.seal(b)
			}
			err = b.send()
			l.written()
			if l.client.admission.full.Load() {
				l.client.admit() // while the master is at work, the next batch forms
			}
			if l.pipelined {
				break
			}
			if err == nil {
				err = b.readReplies()
			}
			if err != nil {
				err = l.hangUp(link, err)
			}
			l.deliverVotes(b, err)
			done = b
		}
		if err != nil {
			err = l.hangUp(link, err)
			reader.Wait()
			return err
		}
	}
}

// next waits until there is something to do. It returns a batch to send, or nil when maintain has to
// run; or false when the client closes or the connection has failed. The caller is done with the batch
// that it gives back, whose memory can be used again.
func (l *lane) next(conn *conn.Conn, done *batch) (b *batch, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if done != nil {
		l.spare, l.delivering = append(l.spare, done), false
	}
	yielded := false
	for {
		due := l.heartbeatDue || l.toResolve.unresolved() || l.state == laneTimedOut
		wait, open := l.windowLocked()
		switch {
		case l.state == laneBroken || l.ending.Err() != nil:
			return nil, false
		case due && len(l.out) == 0:
			if l.state == laneIdle {
				l.setStateLocked(laneMaintaining, nil)
				l.oldestSentTick = l.ticks
			}
			return nil, true
		case due || len(l.queue) == 0 || !open:
			l.wake.Wait()
			yielded = false
		case wait > 0:
			l.mu.Unlock()
			time.Sleep(wait)
			l.mu.Lock()
		case !yielded:
			// Goroutines that are ready to run queue their operations first, which makes larger batches.
			// Measured: a fifth more throughput with clients that do not pipeline.
			l.mu.Unlock()
			runtime.Gosched()
			runtime.Gosched()
			if l.client.admission.full.Load() {
				l.client.admit() // who has come last goes with this batch
			}
			// What is launched under one hold of Client.mu goes into one batch: the release and the acquisition
			// of a hand-over then take one round trip.
			l.fleet.gate.Lock()
			l.mu.Lock()
			l.fleet.gate.Unlock()
			yielded = true
		default:
			return l.departLocked(conn), true
		}
	}
}

// windowLocked tells whether another batch may be sent now, or after a wait.
func (l *lane) windowLocked() (wait time.Duration, open bool) {
	switch n := len(l.out); {
	case n == 0:
		return 0, true
	case !l.pipelined || l.paused || n >= inflightMax || l.outCost >= l.window.limit:
		return 0, false
	}
	return max(l.rttMin/spacing, spacingMin) - time.Since(l.lastSent), true
}

// departLocked makes a batch of the front of the queue: up to batchMax rounds, and what the window has
// room for. From here on the watchdog can abandon it.
func (l *lane) departLocked(conn *conn.Conn) *batch {
	if len(l.out) == 0 {
		l.oldestSentTick = l.ticks
		// While the reader still delivers votes, it uses what the lane's goroutine would use without it.
		if !l.delivering { //mutant:the-distance-changes-while-votes-are-told
			l.pipelined = l.rttMin >= pipelineFrom
		}
	}
	var b *batch
	if n := len(l.spare); n > 0 {
		b, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		b = newBatch(l, conn)
	}
	l.setStateLocked(laneSending, nil)
	b.abandoned, b.sealed, b.sentTick = false, false, l.ticks
	n := 0
	for b.cost = 0; n < min(len(l.queue), batchMax) && b.cost < min(l.window.limit-l.outCost, l.fullLocked()); n++ {
		b.cost += int(l.queue[n].cost)
	}
	l.queueCost -= b.cost
	l.outCost += b.cost
	b.inFlight = l.outCost
	b.rounds = append(b.rounds[:0], l.queue[:n]...)
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	l.out = append(l.out, b)
	if l.pipelined {
		l.lastSent = time.Now()
	}
	return b
}

// seal hands a batch to the reader before it is written: a large one is answered in part while the rest
// is on its way.
func (l *lane) seal(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.sealed = true
	l.readable.Signal()
}

// written ends laneSending. The reader of a far master may have read the whole answer already.
func (l *lane) written() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.state != laneSending: // it has timed out, or is broken
	case len(l.out) > 0:
		l.setStateLocked(laneWaiting, nil)
	default:
		l.setStateLocked(laneIdle, nil)
	}
}

// readReplies is the reader's goroutine. It reads the replies to batch after batch, and delivers their
// votes. It ends when the connection has failed and no batch is left in flight.
func (l *lane) readReplies(conn *conn.Conn) {
	var done *batch
	for {
		b, broken := l.oldest(done)
		if b == nil {
			return
		}
		err := broken
		if err == nil {
			err = b.readReplies()
		}
		if err != nil {
			err = l.hangUp(conn, err)
		}
		l.deliverVotes(b, err)
		done = b
	}
}

// oldest waits until the oldest batch in flight may be read, and returns it. When the connection has
// failed, broken says why, and the batch is to be delivered without votes; when none is left, it
// returns nil.
func (l *lane) oldest(done *batch) (b *batch, broken error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if done != nil {
		l.spare, l.delivering = append(l.spare, done), false
	}
	for len(l.out) == 0 && l.state != laneBroken || len(l.out) > 0 && !l.out[0].sealed {
		l.readable.Wait()
	}
	if len(l.out) == 0 {
		return nil, l.broken
	}
	b = l.out[0]
	b.behindFinding = l.toResolve.unresolved() //mutant:votes-behind-a-finding-counted
	return b, l.broken
}

// hangUp closes the connection and ends both goroutines that use it. Both may call it: the reason that
// came first is kept and returned. It is set before the connection is closed, because the other
// goroutine then finds it closed, which is nobody's reason.
func (l *lane) hangUp(link *conn.Conn, err error) error {
	defer link.Socket.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.brokenLocked(err)
	if l.state != laneBroken {
		l.setStateLocked(laneBroken, conn.Shorten(l.broken))
	}
	l.wake.Signal()
	l.readable.Signal()
	return l.broken
}

// brokenLocked keeps the first reason why the connection can no longer be used.
func (l *lane) brokenLocked(err error) {
	switch {
	case l.broken != nil:
	case l.ending.Err() != nil:
		l.broken = errClosed // whatever the connection says that was closed under it
	default:
		l.broken = conn.AsRefusal(err)
	}
}

// pause reserves the connection for the reader of the only batch in flight, and returns false if there
// are others.
func (l *lane) pause() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = len(l.out) <= 1
	return l.paused
}

// resume ends pause.
func (l *lane) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = false
	l.wake.Signal()
}

// last tells whether nothing was sent behind the batch.
func (l *lane) last(b *batch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.out) == 0 || l.out[len(l.out)-1] == b
}

// deliverVotes takes the oldest batch out of inflight and delivers its votes. With err, the batch was
// not answered: its votes are unknown, and keepReleaseLocked keeps its releases until the lane has
// reconnected. Votes of a batch that the watchdog has abandoned are dropped, because these were
// reported as unknown then.
func (l *lane) deliverVotes(b *batch, err error) {
	l.deferred.now, l.deferred.looked = time.Now(), false
	l.mu.Lock()
	l.batches++
	l.ops += uint64(len(b.rounds))
	if err == nil {
		l.answeredLocked(b, l.deferred.now.Sub(b.sent))
	}
	if b.err != nil {
		l.replyErr, l.replyErrAt, b.err = b.err, l.deferred.now, nil
	}
	if b.guardResult.unresolved() {
		l.toResolve = l.toResolve.merge(b.guardResult)
	}
	l.out = slices.Delete(l.out, 0, 1)
	l.outCost -= b.cost
	switch {
	case len(l.out) > 0:
		l.oldestSentTick = l.out[0].sentTick //mutant:an-answer-buys-time-for-what-was-sent-behind
	case l.state == laneWaiting:
		l.setStateLocked(laneIdle, nil)
	}
	l.delivering = true
	if l.pipelined {
		l.wake.Signal()
	}
	abandoned := b.abandoned //mutant:late-votes-counted-twice
	for i, r := range b.rounds {
		if b.votes[i] == quorum.Unknown || b.votes[i] == quorum.Abstained {
			l.keepReleaseLocked(r)
		}
	}
	l.mu.Unlock()
	if !abandoned {
		if err == nil {
			for _, set := range b.sets {
				b.rounds[set.round].attempt.setAt[l.index] = set.at
			}
		}
		for i := range b.readings {
			b.readings[i].round.answers[l.index] = b.readings[i].answer
		}
		for i, r := range b.rounds {
			l.client.vote(r, quorum.Cast(l.index, b.votes[i]), &l.deferred)
		}
	}
	clear(b.rounds)
	clear(b.readings)
	l.client.runDeferred(&l.deferred)
}

// answeredLocked records how long the master took to answer a batch, or a heartbeat where b is nil.
func (l *lane) answeredLocked(b *batch, rtt time.Duration) {
	l.rtt = rtt
	l.roundTrips.add(rtt)
	if l.rttMin == 0 || rtt < l.rttMin {
		l.rttMin = rtt
	}
	if b != nil {
		l.window.adjust(b.inFlight, b.sent, rtt, l.rttMin, l.fleet.opts.MasterTimeout)
	}
}

// abandonLocked marks all batches in flight as abandoned and returns their rounds. Their votes are
// unknown, whatever still comes.
func (l *lane) abandonLocked() (rounds []*round) {
	for _, b := range l.out { //mutant:only-the-oldest-batch-is-given-up
		if !b.abandoned {
			b.abandoned = true
			rounds = append(rounds, b.rounds...)
		}
	}
	return rounds
}

// maintain runs between batches, while nothing is in flight: it resolves what the guard has found,
// sends the heartbeat, and readmits a master that timed out but has answered since. That needs no new
// connection.
func (l *lane) maintain(conn *conn.Conn) error {
	ctx, cancel := context.WithTimeout(l.ending, l.fleet.opts.ConnectTimeout)
	defer cancel()
	l.mu.Lock()
	before, heartbeat := l.guard.verdict(), l.heartbeatDue
	recheck := l.toResolve.recheck || l.toResolve.clock.unwatched
	l.heartbeatDue = false
	l.mu.Unlock()
	err := l.resolve(ctx, conn)
	// The heartbeat stamps the waits of a record that is new, and has a clock that nobody watched compared
	// with the others.
	if err == nil && (heartbeat || recheck) {
		err = l.heartbeat(ctx, conn)
	}
	if err == nil && l.guard.verdict() != before {
		l.client.laneChanged(l)
	}
	if err != nil || l.maintained() {
		return err
	}
	ctx, cancel = context.WithTimeout(l.ending, l.fleet.opts.ConnectTimeout) // what was sent so far may have taken long
	defer cancel()
	return l.open(ctx, conn)
}

// maintained ends maintaining. It returns false when the lane has timed out: then it takes no work
// until it is opened again.
func (l *lane) maintained() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != laneMaintaining {
		return false
	}
	l.setStateLocked(laneIdle, nil)
	return true
}
