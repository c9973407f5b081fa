package redlock

import (
	"sync/atomic"
	"time"
)

// Admission slows callers down when the masters have as much to do as they can answer in time. Without it, an overload fills the lanes'
// queues, batches take longer than MasterTimeout, and the masters count as silent, although all of them work.
//
// The lanes are open while a quorum of the masters that vote has room in its queue (lane.limit, master_window.go). Then an operation begins at once:
// that costs one comparison. Otherwise it waits in the line of its Share, and the shares take turns, by the cost of what they ask
// for (deficit round robin): one that asks for much waits for itself, and the others do not wait for it.
//
// Invariants:
//   - What waits here has not begun: it has no T1, no token, no lease, no place in a queue of waiters, and no attempt under way. So all rules
//     about order hold from launchLocked on, as if it were only now started. Queues of lanes are never reordered.
//   - The operations of one share begin in the order in which they were started. So an UNLOCK never overtakes the LOCK of the same
//     user that it undoes. Another user can know a token only after the LOCK began.
//   - What the engine itself launches never waits here: undo, owed releases, refills, hand-overs, attempts and probes of waiters, looks
//     at leases. An undo is launched with the decision that asks for it, behind its SET in every lane.
//   - If anything waits, admission.full is set. Whatever can make room looks at it afterwards: a batch that departs, a lane that goes
//     up or down, and the ticks of the watch.
//
// The bounds are shareBytesMax and admissionBytesMax. An operation beyond them is refused with a *ShareError. UNLOCK may use twice as much.
type admission struct {
	full atomic.Bool // new operations wait. Changed under Client.mu; lanes read it without

	// Client.mu guards what follows.
	turns, last *Share // the shares that wait: a list, in the order of their turns
	count       int    // operations that wait
	bytes       int    // what they take
}

const (
	// shareBytesMax bounds the bytes of what waits for admission in one share, admissionBytesMax in all.
	shareBytesMax     = 64 << 20
	admissionBytesMax = 4 * shareBytesMax
	// queuedOpBytes is what an operation that waits takes besides its names and values, its reply's place included.
	queuedOpBytes = 768
	// quantum is the cost that a share may launch in one turn: small against the smallest batch, for the turn of each comes soon.
	quantum = 16
)

// queuedOp is an operation that has not begun.
type queuedOp struct {
	begin func(d *deferred) // with Client.mu held
	op    *Op               // nil: nobody is told
	cost  int
	bytes int
	next  *queuedOp
}

// waitsForRoom tells whether an operation must not begin yet. It needs Client.mu.
func (c *Client) waitsForRoom() bool { return c.admission.full.Load() } //mutant:nothing-waits-for-room

// enqueueLocked has an operation begin later, when it is the turn of its share. Its names and values have so many bytes, and most bounds the
// bytes that may wait: 1 for what may be refused first, 2 for a release. The error says that it is refused.
func (c *Client) enqueueLocked(op *Op, share *Share, cost, bytes, most int, begin func(d *deferred)) error {
	a := &c.admission
	bytes += queuedOpBytes
	switch {
	case share.bytes+bytes > most*shareBytesMax:
		return &ShareError{LimitBytes, shareBytesMax}
	case a.bytes+bytes > most*admissionBytesMax:
		return &ShareError{LimitAllBytes, admissionBytesMax}
	}
	d := &queuedOp{begin: begin, op: op, cost: cost, bytes: bytes}
	if share.first == nil {
		share.first, share.deficit = d, quantum
		a.append(share)
	} else {
		share.end.next = d //mutant:the-last-come-of-a-share-begins-first
	}
	share.end = d
	share.bytes += bytes
	a.bytes += bytes
	a.count++
	return nil
}

// append puts the share at the end of the list.
func (a *admission) append(share *Share) {
	if share.next = nil; a.turns == nil {
		a.turns = share
	} else {
		a.last.next = share
	}
	a.last = share
}

// takeLocked returns the operation whose turn it is, or nil.
func (a *admission) takeLocked() *queuedOp {
	for a.turns != nil {
		share := a.turns
		d := share.first
		if d.begin != nil && d.cost > share.deficit { //mutant:no-turns
			share.deficit += quantum
			a.turns = share.next
			a.append(share)
			continue
		}
		share.first = d.next
		share.bytes -= d.bytes
		a.bytes -= d.bytes
		a.count--
		if share.first == nil {
			share.end, share.deficit = nil, 0
			a.turns = share.next
		}
		if d.begin == nil {
			continue // nobody wants it any more: see cancelQueuedLocked
		}
		share.deficit -= d.cost
		if d.op != nil {
			d.op.queued = nil
		}
		return d
	}
	return nil
}

// cancelQueuedLocked has a LOCK that waits for room never begin. It returns false if it does not wait for that.
func (c *Client) cancelQueuedLocked(op *Op) bool {
	if op.queued == nil {
		return false
	}
	op.queued.begin, op.queued = nil, nil
	return true
}

// admit begins what waits, as far as there is room. It must be called without locks, whenever there may be room again.
func (c *Client) admit() {
	if !c.admission.full.Load() {
		return
	}
	d := deferred{now: time.Now()}
	c.mu.Lock()
	a := &c.admission
	for c.lookForRoomLocked(); !a.full.Load(); {
		next := a.takeLocked()
		if next == nil {
			break
		}
		next.begin(&d)
	}
	published := len(c.messages.own) > 0
	c.mu.Unlock()
	if published {
		c.receiveOwn()
	}
	c.runDeferred(&d)
}

// lookForRoomLocked sets full to whether the lanes are full. A lane whose batch departs looks at full after that; so here full is set
// before the lanes are looked at: one of the two sees the other.
func (c *Client) lookForRoomLocked() {
	c.admission.full.Store(true)
	if c.lanesHaveRoomLocked() {
		c.admission.full.Store(false)
	}
}

// lanesHaveRoomLocked tells whether a quorum of the masters that vote can take more. Where fewer than a quorum vote, all of these must: no
// round is granted then, but its undo and its wait for an answer cost as much. With none there is nothing to protect.
func (c *Client) lanesHaveRoomLocked() bool {
	voting, open := 0, 0
	for _, l := range c.lanes {
		l.mu.Lock()
		if l.mayVoteLocked() {
			voting++
			if l.queueCost < l.queueLimit() {
				open++
			}
		}
		l.mu.Unlock()
	}
	return open >= min(voting, quorumOf(len(c.lanes)))
}

// costOf is what a command with so many keys, and so many bytes of names and values, costs a master, in the price of a SET of a short key.
func costOf(keys, bytes int) int { return keys + bytes/costBytes }

// costBytes is how many bytes cost as much as another key.
const costBytes = 256

// costOfKeys is what a command costs that names the keys and the token.
func (r *round) costOfKeys() int {
	return costOf(len(r.keys), stringsBytes(r.keys)+len(r.token))
}

// costOfCommit is what a command costs that names also the values of a commit's changes.
func (r *round) costOfCommit() int {
	return costOf(len(r.keys), stringsBytes(r.keys)+len(r.token)+changesBytes(r.commit.changes))
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
