package proxy

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// Slots: how replies that are known late keep the order of the commands. Redis promises that replies
// come in the order of the commands, and clients match them by it alone. Commands that ask the masters
// are executed at the same time all the same: each has a slot in the connection's queue, and a reply is
// sent when all slots before it are done.
//
//	enqueue ── queue: [done] [not yet] [done] ── complete, advanceLocked ── out
//
// A handler embeds its slot in its own object, so that a command with a slot is one allocation.

// slot keeps a reply's place among the replies of one client until the reply is known. Until enqueue it
// belongs to the handler, then to the goroutine that completes it, and from complete on to the
// connection.
type slot struct {
	// out is where the owner appends the reply, before complete.
	out []byte
	// proto is the protocol version that the reply must be in.
	proto int
	// undo takes the outcome back if the reply is lost; nil: nothing does. Set before complete.
	undo undoer
	// queuedKey is the key at the front of whose queue the command is until the slot is complete
	// (keyQueue); empty: none.
	queuedKey string
	// keeps is what the command takes of the server's memory until its reply is in out. The owner may set what
	// it takes beside its bytes; enqueue adds these.
	keeps int
	// reads are the keys that the client tracks by this command; nil: none. See track.
	reads *trackedReads

	// Set by enqueue.
	s       *session
	cmd     *command // its counts of errors
	account *account // of the user who sent the command; the session may be another user's when the slot is complete

	// Guarded by the connection's mu.
	next   *slot
	done   bool  // the reply is known
	blocks bool  // no later command is executed before it is done
	silent bool  // CLIENT REPLY: nothing is sent
	turn   *turn // its place in the order of the connection; nil: it keeps nobody back
	// validity is where in out the validity of a lock stands, an integer in ms, counted from 1; 0: there
	// is none. Set before complete.
	validity int
	// doneAt is when the reply was known, on the clock of server.now, if its validity has run since.
	doneAt int64

	// room is memory of out for most replies: that of LOCK with a token made here has 55 bytes.
	room [56]byte
}

// undoer takes back what its command did, because nobody will read the reply. replyLost is called at
// most once, on any goroutine, with no lock held. It must not block.
type undoer interface{ replyLost() }

// grant is the reply of a command that can be undone, on its way to the client.
type grant struct {
	end  int64 // the reply is out when output.sent has come so far
	undo undoer
}

// queue are the slots of one connection in the order of their commands, at most pipelineMax: then the
// reader executes no more (executeUnread). Guarded by the connection's mu.
type queue struct {
	head   *slot // of the oldest command that is not answered; nil: all are
	tail   *slot // of the latest
	queued int   // bytes of replies in the queue
	kept   int   // memory of their commands, see slot.keeps
}

// slotCost is what a command in the queue takes of the server's memory, beside its bytes and its reply.
// Measured: 0.5 KB for a LOCK.
const slotCost = 512

// enqueue appends the slot of the command that is executed. Called by the reader goroutine, before the
// operation starts: the operation may complete at once, on another goroutine.
//
// What is in batch stands before the slot, and goes to out first. Replies that come later get slots of
// their own (queueReply). So batch is empty while slots are in the queue.
//
// t is its turn among the commands of the client, nil if it has none. It returns false if the command is
// postponed until to.start is called.
func (s *session) enqueue(sl *slot, proto int, blocks bool, t *turn, to starter) (now bool) {
	sl.s, sl.cmd, sl.account, sl.proto = s, s.call.cmd, s.account(), proto
	sl.out = sl.room[:0]
	sl.silent = s.silent()
	conn := s.conn
	conn.mu.Lock()
	conn.flushBatchLocked()
	now = true
	if t != nil {
		sl.turn, now = conn.order.addLocked(t, to)
	}
	sl.keeps += conn.commandSize
	conn.enqueueLocked(sl, conn.tail)
	// A change that is postponed blocks nothing: those on its keys stay behind it all the same.
	if sl.blocks = blocks && (now || !t.rounds); sl.blocks {
		conn.order.blocked.Store(true)
	}
	conn.mu.Unlock()
	return now
}

// enqueueLocked puts a slot into the queue, done or not, behind this one: the tail, for most.
func (conn *connection) enqueueLocked(sl, behind *slot) {
	if behind == nil {
		conn.head = sl
	} else {
		sl.next, behind.next = behind.next, sl
	}
	if behind == conn.tail {
		conn.tail = sl
	}
	conn.inFlight.Add(1)
	sl.keeps += slotCost
	conn.kept += sl.keeps
	conn.countQueuedLocked(0)
	conn.countOutputLocked() // before the next command, fullLocked goes by it
}

// confirmLocked sends the reply, which confirms subscriptions, or puts it into the queue: from now on
// messages come behind it. Called by the reader goroutine, with the connection's mu held.
func (c *call) confirmLocked(reply []byte) {
	conn := c.s.conn
	c.slot = &slot{out: reply, done: true}
	conn.flushBatchLocked()
	conn.enqueueLocked(c.slot, conn.tail)
	conn.countQueuedLocked(len(reply))
	conn.lastPush = c.slot
	conn.advanceLocked(nil) // has no grant to undo: a slot that was done is not in the queue any more
}

// awaitReplies waits until all earlier commands of the client are answered, or the client has gone.
func (c *call) awaitReplies() {
	if c.s.conn.inFlight.Load() > 0 { // else no slot can come but from this goroutine
		c.await(func() bool { return c.s.conn.head == nil })
	}
}

// await waits until ok, which is called with the connection's mu held, or until the client has gone.
func (c *call) await(ok func() bool) {
	conn := c.s.conn
	conn.batch.b = c.out
	conn.sendAndAwait(ok) // fails if the connection is closed
	c.out = conn.batch.b
}

// flushBatchLocked copies what the reader has collected to out.
func (conn *connection) flushBatchLocked() {
	if len(conn.batch.b) > 0 {
		conn.appendLocked(conn.batch.b)
		conn.batch.b = conn.batch.b[:0]
	}
}

// queueReply gives the last reply in batch, from mark on, a slot of its own if others are in the queue,
// because it must not overtake them.
func (conn *connection) queueReply(mark int) {
	if conn.inFlight.Load() == 0 || len(conn.batch.b) == mark {
		return // no slot can come but from this goroutine
	}
	conn.mu.Lock()
	if conn.tail != nil {
		reply := slices.Clone(conn.batch.b[mark:])
		conn.batch.b = conn.batch.b[:mark]
		conn.enqueueLocked(&slot{out: reply, done: true}, conn.tail)
		conn.countQueuedLocked(len(reply))
	}
	conn.mu.Unlock()
}

// countQueuedLocked counts the bytes of a reply that came into the queue. If too much waits, the reader
// must not execute all that it has read first: few bytes of commands can have many bytes of replies.
func (conn *connection) countQueuedLocked(n int) {
	conn.queued += n
	if conn.overOutputMaxLocked() {
		conn.overOutputMax.Store(true)
	}
}

// setWaitingOp says which operation a LOCK with WAIT waits for, so that its wait can be ended. It is
// called when the operation has been started: Unblock leaves one alone that does not wait yet. If the
// operation is complete already, nothing waits and nothing is kept. If the client has gone in between,
// nobody who ended its waits has found this one, and it is ended here.
func (sl *slot) setWaitingOp(op *redlock.Op) {
	conn := sl.s.conn
	conn.mu.Lock()
	gone := conn.closed.Load() || conn.halfClosed
	if !sl.done {
		sl.turn.op = op
	}
	conn.mu.Unlock()
	if gone {
		conn.server.opts.Engine.Unblock(op, errGone)
	}
}

// postpone has a command that runs stay behind those before it that may take a lock, as it does so too.
// It reports whether there are such; then to starts it again.
func (sl *slot) postpone(to starter) bool {
	conn := sl.s.conn
	conn.mu.Lock()
	defer conn.mu.Unlock()
	postponed := conn.order.postponeLocked(sl.turn, to)
	if postponed && sl.blocks {
		sl.blocks = false
		conn.order.blocked.Store(false)
		conn.wakeStoppedLocked()
		conn.changed.Signal()
	}
	return postponed
}

// complete says that the reply is in out. If the result is not nil, its Flush sends the reply: the
// caller calls that at once or, where it completes many slots in a row, at the end. Any goroutine may
// call complete, once; the slot must not be touched afterwards.
func (sl *slot) complete() redlock.Flusher {
	s, conn := sl.s, sl.s.conn
	if isError(sl.out) {
		sl.cmd.stats.count(sl.account.own, commandFailed)
		s.server.countError(sl.account, sl.out)
	}
	if sl.queuedKey != "" {
		s.server.keyQueue.leave(sl.queuedKey)
	}
	sl.finishReads()
	conn.mu.Lock()
	sl.done = true
	if sl.silent {
		sl.out, sl.undo = sl.out[:0], nil // the client does not want the reply, so its lock stays
	}
	conn.countQueuedLocked(len(sl.out))
	t := sl.turn
	if t != nil {
		conn.order.removeLocked(t)
	}
	if sl.blocks || t != nil && t.waits {
		conn.lastUsed.Store(s.server.now())
	}
	if sl.validity > 0 && conn.head != sl && !sl.silent {
		sl.doneAt = s.server.now()
	}
	lost := conn.advanceLocked(nil)
	if sl.blocks {
		conn.order.blocked.Store(false)
	}
	conn.wakeStoppedLocked()
	// No Flusher if somebody else will send and count: the reader at the end of its batch, or the caller of
	// the Flusher that was returned before. A reply that cannot be sent yet counts at least.
	var flusher redlock.Flusher
	if !conn.flushing && !conn.executing.Load() {
		conn.flushing = true
		flusher = conn
	}
	conn.changed.Signal()
	conn.mu.Unlock()
	undo(lost)
	if t != nil {
		startPostponed(conn)
	}
	return flusher
}

// startPostponed starts what was postponed for a command that has left the order. Called with no lock
// held.
func startPostponed(conn *connection) {
	o := &conn.order
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if o.starting {
		return
	}
	for t := o.nextLocked(); t != nil; t = o.nextLocked() {
		starts, gone := t.starts, conn.closed.Load() || conn.halfClosed && t.acquires
		o.starting, t.starts = true, nil
		o.countLocked()
		conn.mu.Unlock()
		if gone {
			flush(starts.fail(errGone))
		} else {
			starts.start(true)
		}
		conn.mu.Lock()
		o.starting = false
		if !t.waits && !t.rounds {
			o.removeLocked(t)
		}
	}
}

// fail is complete with an error in place of any other reply. To a user who does not administer the
// server it names no masters, and not what these say.
func (sl *slot) fail(err error) redlock.Flusher {
	if byPolicy := sl.s.server.live().refuseByPolicy(err); byPolicy != nil {
		err = byPolicy
	} else if limit, ok := errors.AsType[*redlock.ShareError](err); ok {
		err = sl.account.refuse(limit)
	}
	if e, ok := errors.AsType[*redlock.NoQuorumError](err); ok && !sl.account.user().SeesMasters() {
		err = replyError("NOQUORUM " + e.Counts())
	}
	if request, ok := errors.AsType[*redlock.RequestError](err); ok && request.TTL {
		why := reasonTTLTooLong
		if request.TooShort {
			why = reasonTTLTooShort
		}
		err = &refusedError{reason: why, reply: replyErrorOf(err)}
	}
	if refusal, ok := errors.AsType[*refusedError](err); ok {
		sl.s.countRefused(refusal, sl.cmd)
	}
	sl.s.auditRefusal(sl.account.user(), sl.cmd, nil, err)
	sl.out = appendError(sl.out, err)
	return sl.complete()
}

// flush sends what complete returned, for a caller that has nothing else to send.
func flush(f redlock.Flusher) {
	if f != nil {
		f.Flush()
	}
}

// advanceLocked moves the completed replies at the front of the queue to out. It appends to lost what
// the caller must undo once mu is free, because its reply must not be sent or cannot be.
func (conn *connection) advanceLocked(lost []undoer) []undoer {
	closed := conn.closed.Load()
	for conn.head != nil && conn.head.done {
		sl := conn.head
		if conn.head = sl.next; conn.head == nil {
			conn.tail = nil
		}
		if sl == conn.lastPush {
			conn.lastPush = nil
		}
		conn.inFlight.Add(-1)
		conn.queued -= len(sl.out)
		conn.kept -= sl.keeps
		if sl.doneAt > 0 {
			sl.ageValidity(time.Duration(conn.server.now() - sl.doneAt))
		}
		if sl.undo != nil && (conn.halfClosed || closed) {
			lost = append(lost, sl.undo)
			sl.out, sl.undo = appendError(sl.out[:0], errGone), nil // a client that is half closed may still read
		}
		if closed {
			continue
		}
		conn.appendLocked(sl.out)
		if sl.undo != nil {
			conn.grants = append(conn.grants, grant{end: conn.appended, undo: sl.undo})
		}
	}
	return lost
}

// ageValidity takes from the validity in the reply what has run of it while the reply was kept back by
// others before it, in ms: the client counts from the reply.
func (sl *slot) ageValidity(age time.Duration) {
	from := sl.validity - 1
	end := from + bytes.IndexByte(sl.out[from:], '\n') + 1
	rest := slices.Clone(sl.out[end:])
	ms, _ := resp.ParseInt(sl.out[from+1 : end-2])
	sl.out = append(resp.AppendInt(sl.out[:from], max(0, ms-int64((age+time.Millisecond-1)/time.Millisecond))), rest...)
}

// undo is called with no lock held: replyLost calls the engine.
func undo(lost []undoer) {
	for _, u := range lost {
		u.replyLost()
	}
}
