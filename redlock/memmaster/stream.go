package memmaster

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// streamBytesMax bounds what is sent in one direction and not read yet, as the two kernels' socket
// buffers do: beyond it a client's Write blocks, and the master stops reading from a client that does
// not read its replies.
const streamBytesMax = 1 << 20

// keptBytesMax is the largest empty buffer that a connection keeps for its next burst.
const keptBytesMax = 64 << 10

// stream is one direction of a connection: what one end wrote and the other has not read yet, in order.
// It models both kernels' buffers and the wire between them, so that faults of the network need no
// goroutine that pumps: bytes carry the time of their arrival, and the reader waits for it. Everything
// in it is guarded by link.mu.
type stream struct {
	link *Link
	dir  direction
	cond sync.Cond // something has changed; waited for by readers and writers

	// buf[head:] was sent and not read. Invariant: it is what has arrived, and behind that the segments in
	// flight, in order.
	buf  []byte
	head int
	// arrived is how many bytes from head on the reader may take.
	arrived int
	// inflight are the writes on their way, in the order in which they were sent.
	inflight []segment
	// held: nothing arrives.
	held bool

	// ended: the writer has closed and its FIN has arrived. EOF comes after the last byte.
	ended bool
	// finSent: the writer has closed.
	finSent bool
	// readerGone: the reader has closed, and what is written vanishes.
	readerGone bool
	// broken is why the connection was cut, for both ends at once; nil while it was not.
	broken error

	readDeadline, writeDeadline time.Time
	readTimer, writeTimer       *time.Timer
}

// segment is one write on its way.
type segment struct {
	size int
	// due is when it arrives, unless something keeps it back.
	due time.Time
	// fin is the writer's close, which has no bytes.
	fin bool
}

func newStream(l *Link, dir direction) *stream {
	s := &stream{link: l, dir: dir, held: l.held[dir]}
	s.cond.L = &l.mu
	return s
}

func (s *stream) sizeLocked() int { return len(s.buf) - s.head }

// read blocks until there is something to return: bytes that have arrived, the end, or an error.
func (s *stream) read(p []byte) (int, error) {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	for {
		s.arriveDueLocked()
		switch {
		case s.broken != nil:
			return 0, s.broken
		case s.readerGone:
			return 0, net.ErrClosed
		case passed(s.readDeadline):
			return 0, os.ErrDeadlineExceeded
		case s.arrived > 0:
			return s.takeLocked(p), nil
		case s.ended:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		until := s.readDeadline
		if len(s.inflight) > 0 && !s.held {
			until = earlier(until, s.inflight[0].due)
		}
		s.waitLocked(&s.readTimer, until)
	}
}

// takeLocked moves what has arrived to the reader, as far as p has room.
func (s *stream) takeLocked(p []byte) int {
	n := copy(p, s.buf[s.head:s.head+s.arrived])
	s.head += n
	s.arrived -= n
	if s.head == len(s.buf) {
		s.head, s.buf = 0, s.buf[:0]
		if cap(s.buf) > keptBytesMax {
			s.buf = nil
		}
	}
	s.cond.Broadcast() // room for a writer
	return n
}

// write sends p and blocks while the stream is full.
func (s *stream) write(p []byte) (n int, err error) {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	for {
		switch {
		case s.broken != nil:
			return n, s.broken
		case s.finSent:
			return n, net.ErrClosed
		case passed(s.writeDeadline):
			return n, os.ErrDeadlineExceeded
		case s.readerGone: // the peer's RST is still on its way
			return n + len(p), nil
		}
		if room := streamBytesMax - s.sizeLocked(); room > 0 {
			m := min(room, len(p))
			s.sendLocked(p[:m])
			n, p = n+m, p[m:]
		}
		if len(p) == 0 {
			return n, nil
		}
		s.waitLocked(&s.writeTimer, s.writeDeadline)
	}
}

// send sends p without blocking, above streamBytesMax too: see awaitRoom. It reports how much is unread
// now.
func (s *stream) send(p []byte) (unread int) {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	if s.broken == nil && !s.readerGone && !s.finSent {
		s.sendLocked(p)
	}
	return s.sizeLocked()
}

// awaitRoom blocks while the stream is full and its reader still there.
func (s *stream) awaitRoom() {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	for s.sizeLocked() >= streamBytesMax && s.broken == nil && !s.readerGone && !s.finSent {
		s.waitLocked(&s.writeTimer, time.Time{})
	}
}

// sendLocked puts bytes on their way. There is no bound here: write and send have theirs.
func (s *stream) sendLocked(p []byte) {
	if s.head > 0 && len(s.buf)+len(p) > cap(s.buf) { // compact instead of growing
		s.buf = s.buf[:copy(s.buf, s.buf[s.head:])]
		s.head = 0
	}
	s.buf = append(s.buf, p...)
	s.departLocked(segment{size: len(p)})
}

// departLocked puts a segment on its way. One that nothing delays has arrived already.
func (s *stream) departLocked(seg segment) {
	delay := s.link.delayLocked(s.dir)
	if delay <= 0 && len(s.inflight) == 0 && !s.held {
		s.arriveLocked(seg)
	} else {
		seg.due = time.Now().Add(max(delay, 0))
		s.inflight = append(s.inflight, seg)
	}
	s.cond.Broadcast()
}

// arriveDueLocked lets arrive what is due, in order: what is due early waits for what was sent before
// it.
func (s *stream) arriveDueLocked() {
	if len(s.inflight) == 0 || s.held {
		return
	}
	now := time.Now()
	for len(s.inflight) > 0 && !s.inflight[0].due.After(now) {
		s.arriveLocked(s.inflight[0])
		s.inflight = s.inflight[1:]
	}
	if len(s.inflight) == 0 {
		s.inflight = nil
	}
}

// arriveLocked lets the reader have a segment. Segments must arrive in the order in which they were
// sent.
func (s *stream) arriveLocked(seg segment) {
	s.arrived += seg.size
	s.ended = s.ended || seg.fin
}

// holdLocked stops the arrival of bytes, or lets it go on: those that became due meanwhile arrive at
// once.
func (s *stream) holdLocked(held bool) {
	s.arriveDueLocked() // what was due until now has arrived
	s.held = held
	s.cond.Broadcast()
}

// finishLocked is the writer's close: the reader gets what is on its way, then EOF.
func (s *stream) finishLocked() {
	if !s.finSent {
		s.finSent = true
		s.departLocked(segment{fin: true})
	}
	s.cond.Broadcast()
}

// abandonLocked is the reader's close: what was not read is lost, and so is what comes.
func (s *stream) abandonLocked() {
	s.readerGone = true
	s.discardLocked()
}

// breakLocked ends the stream for both ends at once, and loses what is in it.
func (s *stream) breakLocked(err error) {
	if s.broken == nil {
		s.broken = err
	}
	s.discardLocked()
}

// discardLocked loses what is in the stream, and wakes who waits for it.
func (s *stream) discardLocked() {
	s.buf, s.head, s.arrived, s.inflight = nil, 0, 0, nil
	for _, t := range []*time.Timer{s.readTimer, s.writeTimer} {
		if t != nil {
			t.Stop()
		}
	}
	s.cond.Broadcast()
}

// waitLocked waits for a change, or until the given time (zero: no limit).
func (s *stream) waitLocked(timer **time.Timer, until time.Time) {
	if until.IsZero() {
		s.cond.Wait()
		return
	}
	if *timer == nil {
		*timer = time.AfterFunc(time.Until(until), s.wake)
	} else {
		(*timer).Reset(time.Until(until))
	}
	s.cond.Wait()
	(*timer).Stop()
}

// setDeadline binds a read or write that waits already, too, as package net has it.
func (s *stream) setDeadline(deadline *time.Time, t time.Time) error {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	*deadline = t
	s.cond.Broadcast()
	return nil
}

// wake has readers and writers look again: a deadline or an arrival is due.
func (s *stream) wake() {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	s.cond.Broadcast()
}

func passed(deadline time.Time) bool {
	return !deadline.IsZero() && !time.Now().Before(deadline)
}

// earlier is the earlier of two times, of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
