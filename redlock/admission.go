package redlock

import (
	"slices"
	"sync/atomic"
	"time"
)

// Admission slows callers down when the masters have as much to do as they can answer in time. Without
// it, an overload fills the lanes' queues, batches take longer than MasterTimeout, and the masters
// count as silent, although all of them work.
//
// What is limited: the cost of what waits in a lane for the next batch (lane.fullLocked). While a quorum
// of the masters that vote has room, an operation begins at once, for the price of one comparison.
// Otherwise it is queued in its Flow, in order. The shares take turns, and the flows of one share, by
// cost (turns.go). So an operation waits for what its own flow has queued, and for as much of each other
// share and of each other flow of its share. UNLOCK, too: a flood of UNLOCKs that need not wait would
// leave no room for anybody's LOCK.
//
// Batches are large if nobody waits, or only deep pipelines of one share: large ones are what these
// want. While others wait beside them, a batch may cost costTurn, or as much as one operation of each
// that waits (turn), and queues begin to fill just before it departs: who asks for one lock beside a
// flood then waits for little more than one batch.
//
// At the bound: one share may queue shareMax of memory, all together shareQueues times as much. An operation
// beyond that is refused with a *ShareError, and nothing of it was started. A release may use twice as
// much, because a refused UNLOCK blocks others until the TTL.
//
// Invariants:
//   - What is queued here has not begun: it has no T1, no token, no lease, no place in a queue of
//     waiters, and no attempt in flight. So all rules about order hold from rounds.launch on, as if it
//     were only now started. The queues of lanes are never reordered. That is true also of what begins
//     once more after a step of the membership (op_again.go).
//   - The operations of one flow begin in the order in which they were started. So an UNLOCK never
//     overtakes the LOCK that the same connection has sent before. On another connection, a token that
//     was made here is known only after the LOCK began. A token of the caller's own may be known before:
//     its UNLOCK there may find nothing, as it may where two connections are read at the same time. If
//     the caller has given the first connection up, the LOCK is undone, because its reply is lost.
//   - What the engine itself launches is never queued here: undo, pending releases, refills,
//     hand-overs, attempts and probes of waiters, audits. An undo is launched with the decision that
//     asks for it, behind its SET in every lane.
//   - If anything is queued, admission.full is set. Whatever can make room calls admit afterwards: a
//     batch that departs, a lane that goes up or down or whose votes count again, and the ticks of the
//     watchdog.
type admission struct {
	fleet *fleet
	// full: new operations are queued. Changed under Client.mu; lanes read it without.
	full atomic.Bool

	// Client.mu guards what follows.
	share    Share         // of operations that name none
	turns    turns[*Share] // shares with something queued, in the order of their turns
	count    int           // queued operations
	bytes    int           // of their memory
	shareMax int           // of them, for one share: Options.ShareQueueBytes; it never changes
	flows    int           // that have something queued
	// crowdedAt is when a flow last began to wait that gains by small batches: others waited, of another
	// share or while it was in no deep pipeline.
	crowdedAt time.Time
	// turn is what one batch to a near master may cost. Lanes read it without Client.mu.
	turn atomic.Int32
}

// queuedOpBytes is what a queued operation takes besides its names and values, its reply's place included.
const queuedOpBytes = 768

// queuedOp is an operation that has not begun.
type queuedOp struct {
	// begin is called with Client.mu held. nil: cancelled.
	begin func(d *deferred)
	// op is nil if nobody waits for the result.
	op *Op
	// bytes it takes while it is queued.
	bytes int
	cost  int // in turns, about that of costOf
}

// start begins an operation when there is room for it, or tells its caller what is wrong with it. begin
// finds in op all that it needs.
func (c *Client) start(op *Op, to Completer, wrong error, begin func(c *Client, op *Op, d *deferred)) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	op.to, op.arrived, op.againFrom = to, c.own.At(d.now), nil
	if wrong != nil {
		d.deliver(op, Result{Err: wrong})
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startLocked(op, 0, begin, &d)
}

// startLocked begins an operation, or queues it until it is the turn of its share. bytes is the size of
// what it needs besides what op has.
func (c *Client) startLocked(op *Op, bytes int, begin func(c *Client, op *Op, d *deferred), d *deferred) {
	if c.admission.arrives(op) { //mutant:nothing-waits-for-room
		begin(c, op, d)
		return
	}
	share := c.admission.shareOf(op)
	op.keys = slices.Clone(op.keys) // the caller's slice may change
	err := c.admission.enqueue(op, share, bytes+stringsBytes(op.keys)+len(op.token), func(d *deferred) { begin(c, op, d) })
	switch {
	case err != nil:
		d.deliver(op, Result{Err: err})
	case op.kind != nil && op.againFrom == nil: // a LOCK that has asked no master
		flow := share.flowOf(op)
		op.queued = flow.queued[len(flow.queued)-1]
	}
}

// arrives takes note of an operation that is started now. room tells that it need not be queued: neither
// until the masters have room, nor behind an operation of its flow that waits.
func (a *admission) arrives(op *Op) (room bool) {
	if f, now := op.Flow, op.arrived; f != nil {
		if f.burst++; now-f.lastAt > burstGap {
			f.burst = 1
		}
		if f.lastAt = now; f.burst >= deepBurst {
			f.deepAt = now
		}
		if f.held { //mutant:the-order-of-a-flow-is-lost-at-the-ceiling
			return false
		}
	}
	return !a.full.Load()
}

// enqueue queues an operation until it is the turn of its share. bytes is the size of its names and
// values; op is nil if nobody waits for the result. The error is a *ShareError: it was refused.
func (a *admission) enqueue(op *Op, share *Share, bytes int, begin func(d *deferred)) error {
	bytes += queuedOpBytes
	times, allMax := 1, shareQueues*a.shareMax
	if op != nil && op.onlyReleases {
		times = 2
	}
	switch {
	case share.queuedBytes+bytes > times*a.shareMax:
		return &ShareError{Limit: LimitBytes, Max: a.shareMax}
	case a.bytes+bytes > times*allMax:
		return &ShareError{Limit: LimitAllBytes, Max: allMax}
	}
	now, flow := time.Now(), share.flowOf(op)
	if len(flow.queued) == 0 {
		flow.share = share
		if !flow.held {
			a.joinTurns(flow)
		}
		if len(a.turns) > 1 || a.count > 0 && (op == nil || !flow.deep(op.arrived)) {
			a.crowdedAt = now
		}
	}
	cost := min(1+(bytes-queuedOpBytes)/costBytes, costMax)
	flow.queued = append(flow.queued, &queuedOp{begin: begin, op: op, bytes: bytes, cost: cost}) //mutant:the-last-come-of-a-share-begins-first
	share.queuedBytes += bytes
	a.bytes += bytes
	a.count++
	a.setTurn(now)
	return nil
}

// hold keeps the turns from a flow until resume: one of its operations waits that the others must not
// overtake.
func (a *admission) hold(f *Flow) {
	f.held = true
	if len(f.queued) == 0 {
		return
	}
	a.flows--
	f.share.flows = slices.DeleteFunc(f.share.flows, func(other *Flow) bool { return other == f })
	if len(f.share.flows) == 0 {
		a.turns = slices.DeleteFunc(a.turns, func(other *Share) bool { return other == f.share })
	}
}

// resume ends hold. What the flow has queued begins with the next admit.
func (a *admission) resume(f *Flow) {
	f.held = false
	if len(f.queued) > 0 {
		a.joinTurns(f)
		a.full.Store(true)
	}
}

func (a *admission) joinTurns(f *Flow) {
	if len(f.share.flows) == 0 {
		a.turns = append(a.turns, f.share)
	}
	f.share.flows = append(f.share.flows, f)
	a.flows++
}

// next takes the operation whose turn it is out of its queue, and returns it, or nil.
func (a *admission) next() *queuedOp {
	for len(a.turns) > 0 {
		share := a.turns.next()
		flow := share.flows.next()
		next := flow.queued[0]
		flow.queued[0] = nil
		flow.queued = flow.queued[1:]
		if len(flow.queued) == 0 {
			flow.queued = nil
			a.flows--
		}
		share.queuedBytes -= next.bytes
		a.bytes -= next.bytes
		a.count--
		share.flows.served(next.cost, len(flow.queued) > 0) //mutant:flows-take-no-turns
		a.turns.served(next.cost, len(share.flows) > 0)     //mutant:shares-take-no-turns
		if next.begin == nil {
			continue
		}
		if next.op != nil {
			next.op.queued = nil
		}
		return next
	}
	return nil
}

// cancelQueued has a queued LOCK never begin, and returns false if op is not queued. It needs
// Client.mu. It leaves the queue when its turn comes.
func (op *Op) cancelQueued() bool {
	if op.queued == nil {
		return false
	}
	op.queued.begin, op.queued.cost, op.queued = nil, 0, nil
	return true
}

// admit begins what is queued, as far as there is room. It must be called without locks, whenever there
// may be room again.
func (c *Client) admit() {
	if !c.admission.full.Load() {
		return
	}
	d := deferred{now: time.Now()}
	c.mu.Lock()
	a := &c.admission
	a.setTurn(d.now)
	if a.lookForRoom(); !a.full.Load() {
		c.ceiling.goOnLocked(&d)
		a.lookForRoom() // what goes on may have filled the lanes
	} // else not once more: what gets room from here on calls admit, for what waits for the ceiling, too
	for !a.full.Load() {
		next := a.next()
		if next == nil {
			break
		}
		next.begin(&d)
	}
	published := len(c.messages.own) > 0
	c.mu.Unlock()
	if published {
		c.messages.receiveOwn()
	}
	c.runDeferred(&d)
}

// crowdedFor is how long batches stay small behind the last flow that had to wait while others did.
const crowdedFor = time.Second

// setTurn decides what a batch may cost from now on.
func (a *admission) setTurn(now time.Time) {
	turn := costMax
	if now.Sub(a.crowdedAt) < crowdedFor { //mutant:batches-are-large-in-a-crowd //mutant:a-crowd-never-ends
		turn = min(max(a.flows, costTurn), costMax)
	}
	a.turn.Store(int32(turn))
}

// lookForRoom sets full to whether the lanes are full. A lane whose batch departs looks at full after
// that; so here full is set before the lanes are looked at: one of the two sees the other.
func (a *admission) lookForRoom() {
	a.full.Store(true)
	if a.fleet.hasRoom() && !a.fleet.waitsForStep() {
		a.full.Store(false)
	}
}

// stringsBytes is how many bytes the strings have.
func stringsBytes(all []string) (n int) {
	for _, s := range all {
		n += len(s)
	}
	return n
}

// changesBytes is how many bytes the values of changes have.
func changesBytes(changes []Change) (n int) {
	for i := range changes {
		n += len(changes[i].Value) + len(changes[i].NewValue)
	}
	return n
}
