package proxy

import (
	"errors"

	"redlockd/redlock"
)

// slot keeps a reply's place among the replies of one client until the reply is known.
type slot struct {
	// out is where the owner appends the reply, before complete.
	out []byte
	// proto is the protocol version that the reply must be in.
	proto int
	// undo, when set before complete, is called if the reply cannot reach the client: it takes the outcome back.
	undo undoer

	s       *session
	cmd     *command
	account *account // of the user who sent the command
	next    *slot
	after   []byte // replies of later commands that needed no slot
	done    bool
	holds   bool // nothing behind is executed before it is done
	mute    bool // CLIENT REPLY: nothing is sent
	room    [56]byte
	// scripted are the keys that commands behind it wait for until it is done, see session.scripted. Set before enqueue.
	scripted []string
}

// undoer takes back what its command did, because nobody will read the reply. It must not block.
type undoer interface{ replyLost() }

// grant is the reply of a command that can be undone, on its way to the client.
type grant struct {
	end  int64 // the reply is out when output.sent has come so far
	undo undoer
}

// queue are the slots of one session in the order of their commands. Its lock is session.mu.
type queue struct {
	head, tail *slot
	queued     int // bytes of replies in the queue
}

// enqueue appends a slot: the reader goroutine, for the command that it executes.
func (s *session) enqueue(sl *slot, proto int, holds bool) {
	sl.s, sl.cmd, sl.account, sl.proto, sl.holds = s, s.call.cmd, s.account, proto, holds
	sl.out = sl.room[:0]
	sl.mute = s.replyMode == replyOff || s.replyMode == replySkipping
	s.mu.Lock()
	s.flushBatchLocked()
	if s.tail == nil {
		s.head = sl
	} else {
		s.tail.next = sl
	}
	s.tail = sl
	s.inFlight.Add(1)
	if len(sl.scripted) > 0 {
		s.beginScriptLocked(sl.scripted)
	}
	if holds {
		s.held.Store(true)
	}
	s.mu.Unlock()
}

// flushBatchLocked moves what the reader has collected to out.
func (s *session) flushBatchLocked() {
	if len(s.batch.b) > 0 {
		s.appendLocked(s.batch.b)
		s.batch.b = s.batch.b[:0]
	}
}

// behindQueue puts the last reply in batch, from mark on, behind the slots that are not complete.
func (s *session) behindQueue(mark int) {
	if s.inFlight.Load() == 0 {
		return // and none can come but from this goroutine
	}
	s.mu.Lock()
	if s.tail != nil {
		reply := s.batch.b[mark:]
		s.tail.after = append(s.tail.after, reply...)
		s.queueLocked(len(reply))
		s.batch.b = s.batch.b[:mark]
	}
	s.mu.Unlock()
}

// queueLocked counts the bytes of a reply that came into the queue. The reader must not execute all that it has read first: some bytes of
// commands can have many of replies.
func (s *session) queueLocked(n int) {
	s.queued += n
	if s.unsentLocked() > s.outputMax() {
		s.crowded.Store(true)
	}
}

// waits tells the session which operation its held command waits for, after it was started.
func (s *session) waits(op *redlock.Op) {
	s.mu.Lock()
	ended := s.dead.Load()
	if s.held.Load() {
		s.waitOp = op
	}
	s.mu.Unlock()
	if ended {
		s.server.opts.Engine.Unblock(op, errGone)
	}
}

// complete says that the reply is in out. What it returns, if not nil, sends it: the caller calls that at once or,
// where many slots are completed in a row, at the end. Any goroutine may call it, once; the slot is not touched afterwards.
func (sl *slot) complete() redlock.Flusher {
	s := sl.s
	if isError(sl.out) {
		sl.cmd.stats.failed.Add(1)
		s.server.stats.countError(sl.out)
	}
	s.mu.Lock()
	sl.done = true
	if len(sl.scripted) > 0 {
		s.endScriptLocked(sl.scripted)
	}
	if sl.mute {
		sl.out, sl.undo = sl.out[:0], nil // nobody asked for the reply, so it is not missed
	}
	s.queueLocked(len(sl.out))
	if sl.holds {
		s.held.Store(false)
		s.waitOp = nil
		s.lastUsed.Store(s.server.now())
		if s.parked {
			s.kickLocked()
		}
	}
	lost := s.advanceLocked(nil)
	var flusher redlock.Flusher
	if s.out != nil && !s.writing && !s.flushing && !s.inBatch.Load() {
		s.flushing = true
		flusher = s
	}
	s.changed.Signal()
	s.mu.Unlock()
	undo(lost)
	return flusher
}

// fail is complete with an error in place of any other reply.
func (sl *slot) fail(text string) redlock.Flusher {
	sl.out = appendError(sl.out, text)
	return sl.complete()
}

// failWith is fail with the error that an operation of the engine ended with.
func (sl *slot) failWith(err error) redlock.Flusher {
	if limit, ok := errors.AsType[*redlock.ShareError](err); ok {
		return sl.fail(sl.account.refuse(limit))
	}
	return sl.fail(codedFor(sl.account.user.confined(), err))
}

// flush sends what complete returned, for a caller that has nothing else to send.
func flush(f redlock.Flusher) {
	if f != nil {
		f.Flush()
	}
}

// advanceLocked moves the replies at the front of the queue that are known to out. It appends to lost what is to be
// undone once mu is free, because its reply must not be sent or cannot be.
func (s *session) advanceLocked(lost []undoer) []undoer {
	for s.head != nil && s.head.done {
		sl := s.head
		if s.head = sl.next; s.head == nil {
			s.tail = nil
		}
		s.inFlight.Add(-1)
		s.queued -= len(sl.out) + len(sl.after)
		if sl.undo != nil && (s.gone || s.dead.Load()) {
			lost = append(lost, sl.undo)
			sl.out, sl.undo = appendError(sl.out[:0], coded(errGone)), nil // who has half-closed may still read
		}
		if s.dead.Load() {
			continue
		}
		s.appendLocked(sl.out)
		if sl.undo != nil {
			s.grants = append(s.grants, grant{end: s.appended, undo: sl.undo})
		}
		s.appendLocked(sl.after)
	}
	return lost
}

func undo(lost []undoer) {
	for _, u := range lost {
		u.replyLost()
	}
}
