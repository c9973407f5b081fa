package proxy

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"redlockd/redlock/rawio"
)

// output is what is to be sent to one client. Its lock is session.mu.
//
// One goroutine at a time writes. It is whoever comes first: the reader at the end of its batch, or a goroutine of the
// engine. Both try without blocking; if the kernel does not take all, or if the connection cannot be written that way
// (TLS, net.Pipe), a writer goroutine is started, which ends when nothing is left.
type output struct {
	out, outEnd    *chunk // replies and messages in order, a list; nil: none
	outHolds       int    // memory of out
	appended, sent int64  // bytes ever put into out, and handed to the kernel
	writerHolds    int    // memory that the writer goroutine writes from; 0: there is none
	counted        int    // of memoryLocked in the counts of the account and of the server
	writing        bool   // somebody writes, and will look at out again
	flushing       bool   // a Flusher was given away and not called yet
	grants         []grant
	tryWrite       func(fd uintptr) bool // method value, made once
	now            []byte                // what tryWrite writes, and its result
	n              int
	err            error
}

// writeMax bounds one write of the writer goroutine, and so what WriteTimeout is for.
const writeMax = 64 << 10

// unsentLocked is how many bytes of replies wait for the client.
func (s *session) unsentLocked() int { return int(s.appended-s.sent) + s.queued }

// outputMax is how many of them may. For the reader goroutine, or with mu held.
func (s *session) outputMax() int {
	if !s.authenticated() {
		return min(preauthOutputMax, s.server.opts.OutputMax)
	}
	return s.server.opts.OutputMax
}

// appendLocked copies b behind all that is to be sent.
func (s *session) appendLocked(b []byte) {
	if len(b) == 0 || s.dead.Load() {
		return
	}
	c := s.outEnd
	// A chunk is not made larger and larger: to copy all that waits for each reply would leave as much garbage as there is memory.
	if c == nil || c.shared || len(c.b) > 0 && len(c.b)+len(b) > chunkKeepMax {
		c = getChunk()
		s.linkLocked(c)
	}
	before := cap(c.b)
	c.b = append(c.b, b...)
	s.outHolds += cap(c.b) - before
	s.appended += int64(len(b))
}

// linkLocked puts a chunk behind all that is to be sent. Its bytes are not counted in appended.
func (s *session) linkLocked(c *chunk) {
	if s.outEnd == nil {
		s.out = c
	} else {
		s.outEnd.next = c
	}
	s.outEnd = c
	s.outHolds += cap(c.b)
}

// unlinkLocked takes the first chunk of out, or returns nil.
func (s *session) unlinkLocked() *chunk {
	c := s.out
	if c == nil {
		return nil
	}
	if s.out = c.next; s.out == nil {
		s.outEnd = nil
	}
	c.next = nil
	s.outHolds -= cap(c.b)
	return c
}

// send ends the reader's batch: it sends all replies that are known. If too many are waiting for the client it waits until it
// has taken some: a client that sends and does not read is slowed down by TCP, and ended by WriteTimeout.
func (s *session) send() error {
	s.inBatch.Store(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.batch.b) > 0 && s.out == nil && !s.dead.Load() {
		s.appended += int64(len(s.batch.b))
		s.linkLocked(s.batch)
		s.batch = nil
	} else {
		s.flushBatchLocked()
		s.batch.put()
		s.batch = nil
	}
	if s.composing {
		s.appendLocked(s.pushed)
		s.composing, s.pushed = false, nil
	}
	s.sendLocked()
	s.mu.Unlock()
	s.server.relieve()
	s.mu.Lock()
	for s.unsentLocked() > s.outputMax() && !s.dead.Load() {
		s.changed.Wait()
	}
	s.crowded.Store(false)
	if s.dead.Load() {
		return errDead
	}
	return nil
}

// Flush implements redlock.Flusher: it sends what completed slots have put into out. It does not block.
func (s *session) Flush() {
	s.mu.Lock()
	s.flushing = false
	s.sendLocked()
	s.mu.Unlock()
	s.server.relieve()
}

// sendLocked hands out to the kernel, or to a writer goroutine, and counts what is left. It frees mu while it writes.
func (s *session) sendLocked() {
	defer s.countOutputLocked()
	for s.out != nil && !s.writing && !s.dead.Load() {
		s.writing = true
		c := s.unlinkLocked()
		if s.raw == nil {
			s.startWriterLocked(c, 0)
			return
		}
		s.mu.Unlock()
		n, err := s.writeNow(c.b)
		s.mu.Lock()
		s.sentLocked(n)
		switch {
		case err == syscall.EAGAIN:
			s.startWriterLocked(c, n)
			return
		case err != nil:
			s.mu.Unlock()
			s.die("write: " + err.Error())
			s.mu.Lock()
		}
		c.put()
		s.stopWritingLocked()
	}
}

// writeNow writes what the kernel takes at once. The error is EAGAIN if that is not all. The caller has set writing.
func (s *session) writeNow(b []byte) (int, error) {
	if s.tryWrite == nil {
		s.tryWrite = s.tryWriteFd
	}
	s.now = b
	err := s.raw.Write(s.tryWrite)
	s.now = nil
	if err == nil {
		err = s.err
	}
	return s.n, err
}

// tryWriteFd is for RawConn.Write. It always returns true: false would wait.
func (s *session) tryWriteFd(fd uintptr) bool {
	s.n = 0
	for s.n < len(s.now) {
		var n int
		n, s.err = rawio.Write(fd, s.now[s.n:])
		if s.err != nil {
			return true
		}
		s.n += n
	}
	s.err = nil
	return true
}

// startWriterLocked starts the writer goroutine with a chunk of which n bytes are written.
func (s *session) startWriterLocked(c *chunk, n int) {
	s.writerHolds = cap(c.b)
	s.server.goroutines.Go(func() { s.write(c, n) })
}

// write is the writer goroutine: it writes c from n on, and what is in out then, until nothing is left.
func (s *session) write(c *chunk, n int) {
	rest := c.b[n:]
	for {
		s.conn.SetWriteDeadline(time.Now().Add(s.server.opts.WriteTimeout))
		n, err := s.conn.Write(rest[:min(len(rest), writeMax)])
		rest = rest[n:]
		if n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil // slow, but it reads
		}
		if err == nil && n == 0 && len(rest) > 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			s.writeFailed(err)
		}
		s.mu.Lock()
		s.sentLocked(n)
		if s.dead.Load() || len(rest) == 0 {
			c.put()
			s.writerHolds = 0
			if s.out == nil || s.dead.Load() {
				s.countOutputLocked()
				s.conn.SetWriteDeadline(time.Time{})
				s.stopWritingLocked()
				s.mu.Unlock()
				return
			}
			c = s.unlinkLocked()
			rest, s.writerHolds = c.b, cap(c.b)
			s.countOutputLocked()
		}
		s.mu.Unlock()
	}
}

func (s *session) writeFailed(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.mu.Lock()
		unsent := s.unsentLocked()
		s.mu.Unlock()
		s.server.log.Warn("client does not read its replies", "client", s.id, "addr", s.addr,
			"bytes", unsent, "write_timeout", s.server.opts.WriteTimeout,
			"to_do", "nothing for redlockd, the client is cut; look why it hangs")
	}
	s.die("write: " + err.Error())
}

// sentLocked counts n bytes that the kernel has taken, and forgets the grants among them: their replies can reach the client.
func (s *session) sentLocked(n int) {
	if n == 0 {
		return
	}
	s.sent += int64(n)
	s.server.counters.bytesOut.Add(uint64(n))
	out := 0
	for out < len(s.grants) && s.grants[out].end <= s.sent {
		out++
	}
	if out > 0 {
		rest := copy(s.grants, s.grants[out:])
		clear(s.grants[rest:])
		s.grants = s.grants[:rest]
	}
	s.changed.Signal()
}

// stopWritingLocked ends the turn of a goroutine that wrote. If the session died meanwhile, what could not be sent is undone now.
func (s *session) stopWritingLocked() {
	s.writing = false
	if !s.dead.Load() {
		return
	}
	if lost := s.abandonLocked(nil); len(lost) > 0 {
		s.mu.Unlock()
		undo(lost)
		s.mu.Lock()
	}
}

// abandonLocked gives up what is not sent, and appends to lost what is to be undone. The session is dead and nobody writes.
func (s *session) abandonLocked(lost []undoer) []undoer {
	for _, g := range s.grants {
		lost = append(lost, g.undo)
	}
	s.grants = nil
	for c := s.unlinkLocked(); c != nil; c = s.unlinkLocked() {
		c.put()
	}
	return lost
}
