package redlock

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// inflight is the batches of one lane that are sent and not answered, the oldest first. Its lock is lane.mu.
//
// From a near master the answer is there before another batch is worth sending: the next batch forms while one is in inflight,
// and the lane's goroutine sends and reads in turn. To a far one that would cost every operation up to a round trip in the
// queue. So there a batch may be sent every spacing-th part of a round trip, and a goroutine of its own, the reader, reads
// what comes back. Which of the two it is changes only when all that was sent is answered and delivered.
//
// Invariants: a master executes batches in the order in which they were sent, and their replies are read in that order. All else that
// is said on the connection (heartbeat, what the guard asks for, pending releases) waits until nothing is in inflight. Once a
// guard has found something in a trailer, nothing is sent before resolve has acted on it, and votes of batches that were on their way do not count.
type inflight struct {
	out        []*batch
	outCost    int // of out
	spare      []*batch
	readable   sync.Cond     // the replies of the oldest batch may be read, or the connection has failed; only the reader waits
	pipelined  bool          // more than one batch may be in flight
	rttMin     time.Duration // shortest round trip on this connection: its distance, without what load adds
	lastSent   time.Time
	toResolve  guardResult // what the guard has found and resolve has not acted on; outlives the connection
	delivering bool        // votes of a batch that was answered are being delivered
	paused     bool        // the reader uses the connection: nothing is sent
	broken     error       // why the connection is of no more use; nil until laneBroken
}

const (
	// pipelineFrom is the round trip from which on a master is far: below it, larger batches are worth more than early ones.
	pipelineFrom = 500 * time.Microsecond
	// spacing is how many batches are sent in one round trip to a far master: what waits for the next one waits for half of
	// that part on average. spacingMin keeps batches large where the part is small.
	spacing    = 16
	spacingMin = 250 * time.Microsecond
	// inflightMax bounds the batches in flight. More than spacing are there only when a master is slower than usual.
	inflightMax = 2 * spacing
)

// work sends batch after batch until the connection breaks, and returns why.
func (l *lane) work(link *link) error {
	l.mu.Lock()
	l.spare, l.broken, l.socket = nil, nil, link.socket
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
			err = survive(func() error { return l.maintain(link) })
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
			l.client.admit() // while the master is at work, the next batch forms
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

// next waits for what there is to do: a batch to send, or, b being nil, something to see to with nothing in flight. It returns
// false when the lane has ended or the connection has failed. The batch that the caller has done with can be used again.
func (l *lane) next(link *link, done *batch) (b *batch, ok bool) {
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
		case l.state == laneBroken || l.client.endingContext.Err() != nil:
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
			// Whoever is ready to run gets to queue its operation first: larger batches, less work per operation for
			// everybody. Measured: a fifth more throughput with clients that do not pipeline.
			l.mu.Unlock()
			runtime.Gosched()
			runtime.Gosched()
			// And what is launched together is taken together, a hand-over's release and acquisition: one round trip.
			l.client.mu.Lock()
			l.mu.Lock()
			l.client.mu.Unlock()
			yielded = true
		default:
			return l.departLocked(link), true
		}
	}
}

// windowLocked tells whether another batch may be in flight, and after which wait.
func (l *lane) windowLocked() (wait time.Duration, open bool) {
	switch n := len(l.out); {
	case n == 0:
		return 0, true
	case !l.pipelined || l.paused || n >= inflightMax || l.outCost >= l.limit:
		return 0, false
	}
	return max(l.rttMin/spacing, spacingMin) - time.Since(l.lastSent), true
}

// departLocked makes a batch of what has queued. From here on the watch can give it up.
func (l *lane) departLocked(link *link) *batch {
	if len(l.out) == 0 {
		l.oldestSentTick = l.ticks
		if !l.delivering { // or the reader would still be using what the lane's goroutine is to use now //mutant:the-distance-changes-while-votes-are-told
			l.pipelined = l.rttMin >= pipelineFrom
		}
	}
	var b *batch
	if n := len(l.spare); n > 0 {
		b, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		b = newBatch(l, link)
	}
	l.setStateLocked(laneSending, nil)
	b.abandoned, b.sealed, b.sentTick = false, false, l.ticks
	n := 0
	for b.cost = 0; n < min(len(l.queue), batchMax) && b.cost < min(l.limit-l.outCost, costMax); n++ {
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

// seal hands a batch to the reader.
func (l *lane) seal(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.sealed = true
	l.readable.Signal()
}

// written records that the batch is written. The reader of a far master may have read the answer already.
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

// readReplies is the reader: it reads the replies to batch after batch until the connection has failed and nothing is in flight any more.
func (l *lane) readReplies(link *link) {
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
			err = l.hangUp(link, err)
		}
		l.deliverVotes(b, err)
		done = b
	}
}

// oldest waits for a batch whose replies may be read. It returns nil when the connection has failed and there is none, and with a
// batch why the connection has failed, if it has.
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
	b.guardResult.counts = !l.toResolve.unresolved() //mutant:votes-behind-a-finding-counted
	return b, l.broken
}

// hangUp gives the connection up. The first to say why is believed, and returned.
func (l *lane) hangUp(link *link, err error) error {
	link.socket.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != laneBroken {
		l.broken = err
		l.setStateLocked(laneBroken, concise(err))
	}
	l.wake.Signal()
	l.readable.Signal()
	return l.broken
}

// pause keeps the connection for the reader of the only batch in flight, and tells whether it is that.
func (l *lane) pause() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = len(l.out) <= 1
	return l.paused
}

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

// deliverVotes takes a batch that was answered, or was not because of err, out of inflight and delivers its votes.
func (l *lane) deliverVotes(b *batch, err error) {
	l.deferred.now = time.Now()
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
		l.toResolve = guardResult{counts: true}.merge(l.toResolve).merge(b.guardResult)
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
		if b.votes[i] == voteUnknown || b.votes[i] == voteAbstained {
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
			l.client.vote(r, cast(l.index, b.votes[i]), &l.deferred)
		}
	}
	clear(b.rounds)
	clear(b.readings)
	l.client.runDeferred(&l.deferred)
}

// answeredLocked notes how long the master took to answer a batch, or, b being nil, a heartbeat.
func (l *lane) answeredLocked(b *batch, rtt time.Duration) {
	l.rtt = rtt
	if l.rttMin == 0 || rtt < l.rttMin {
		l.rttMin = rtt
	}
	if b != nil {
		l.paceLocked(b.inFlight, b.sent, rtt)
	}
}

// abandonLocked returns the rounds of all batches in flight. Their votes are unknown, whatever still comes.
func (l *lane) abandonLocked() (rounds []*round) {
	for _, b := range l.out { //mutant:only-the-oldest-batch-is-given-up
		if !b.abandoned {
			b.abandoned = true
			rounds = append(rounds, b.rounds...)
		}
	}
	return rounds
}

// maintain does, with nothing in flight, what is due: what the checks of a batch have found, the heartbeat, and the return of a
// master that the watch has given up and that has answered after all, without a new connection.
func (l *lane) maintain(link *link) error {
	ctx, cancel := context.WithTimeout(l.client.endingContext, l.client.opts.ConnectTimeout)
	defer cancel()
	l.mu.Lock()
	before, refused, recheck, heartbeat := l.guard.epoch, l.guard.refusal, l.toResolve.recheck, l.heartbeatDue
	l.heartbeatDue = false
	l.mu.Unlock()
	err := l.resolve(ctx, link)
	// Whatever it was, it may have taken the shared configuration away: the heartbeat sets it again.
	if err == nil && (heartbeat || recheck) {
		err = l.heartbeat(ctx, link)
	}
	if err == nil && (l.guard.epoch != before || l.guard.refusal != refused) {
		l.client.laneChanged(l)
	}
	if err == nil && !l.maintained() {
		err = l.reopen(link)
	}
	return err
}

// maintained ends maintaining. It returns false when the lane has timed out: then it takes no work until it is opened again.
func (l *lane) maintained() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != laneMaintaining {
		return false
	}
	l.setStateLocked(laneIdle, nil)
	return true
}

func (l *lane) reopen(link *link) error {
	ctx, cancel := context.WithTimeout(l.client.endingContext, l.client.opts.ConnectTimeout)
	defer cancel()
	return l.open(ctx, link)
}
