package proxy

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"redlockd/redlock/rawio"
)

// output is what is to be sent to one client, and the counts of it. Guarded by the connection's mu,
// except where a field says otherwise.
//
// One goroutine at a time writes: whichever comes first, the reader at the end of its batch or a
// goroutine of the engine. Both write without blocking. If the kernel does not take all, or if the
// connection cannot be written without blocking (TLS, net.Pipe), a writer goroutine is started. It ends
// when nothing is left.
//
// The engine's goroutines put replies here and must never wait for a client. So nothing in this file
// blocks but send, which is the reader's, and write, which is the writer goroutine.
//
// Bounds: of replies, and of commands that the server keeps until they are answered, outputMax; beyond
// it the reader stops executing the client's commands until it has read some. Of messages, also
// outputMax; beyond it the client is closed, because messages come whether it sends or not (tooSlow).
// Of all clients together, and of what else is kept for them, OutputTotal (output_total.go).
type output struct {
	out       *chunk // replies and messages in order, a list; nil: none
	outEnd    *chunk // its last
	outMemory int    // memory of out
	// appended counts the bytes ever put into out.
	appended int64
	// sent counts the bytes ever handed to the kernel. A reply is sent when sent has come to what
	// appended was with it, see grant.
	sent int64
	// writerMemory is the memory of the chunk that the writer goroutine writes from; 0: there is no
	// writer goroutine.
	writerMemory int
	// inMemory is what the reader keeps of commands that have come and are not executed, and
	// sessionMemory what the session keeps for its client. The reader sets both before it waits.
	inMemory      int
	sessionMemory int
	// counted is how much of memoryLocked is in the counts of the account and of the server.
	counted int
	// writing: a goroutine writes, and will look at out again. No other may write meanwhile, or bytes
	// would change places.
	writing bool
	// flushing: a Flusher was returned by complete and is not called yet.
	flushing bool
	// grants are the replies not sent yet whose commands can be undone, in the order of their bytes.
	grants []grant
	// lastPush is the last slot in the queue that has a confirmation of SUBSCRIBE or a message behind
	// one; nil: there is none. Messages come behind it, because clients take one before its confirmation
	// for a protocol error.
	lastPush *slot

	// Owned by the goroutine that has set writing.
	tryWrite func(fd uintptr) bool // method value, made once
	toWrite  []byte                // what tryWrite writes
	written  int                   // its result
	writeErr error                 // likewise
}

// writeMax bounds one write of the writer goroutine, and so what writeTimeout is for.
const writeMax = 64 << 10

// unsentLocked is how many bytes of replies wait for the client: in out, with the goroutine that
// writes, and in the queue.
func (conn *connection) unsentLocked() int { return int(conn.appended-conn.sent) + conn.queued }

// overOutputMaxLocked reports whether more waits for the client, or is kept of its commands, than outputMax
// allows, or preauthOutputMax before AUTH.
func (conn *connection) overOutputMaxLocked() bool {
	most := conn.server.bounds.outputMax
	if !conn.session.authenticated() {
		most = min(preauthOutputMax, most)
	}
	return conn.unsentLocked()+conn.kept > most
}

// appendLocked copies b behind all that is to be sent. On a closed connection it does nothing.
func (conn *connection) appendLocked(b []byte) {
	if len(b) == 0 || conn.closed.Load() {
		return
	}
	c := conn.outEnd
	// No chunk grows but for one reply: a client that does not read would make each reply copy all that
	// waits, and leave as much garbage as there is memory.
	if c == nil || c.shared || len(c.b) > 0 && len(c.b)+len(b) > cap(c.b) {
		c = getChunk()
		conn.linkLocked(c)
	}
	before := cap(c.b)
	c.b = append(c.b, b...)
	conn.outMemory += cap(c.b) - before
	conn.appended += int64(len(b))
}

// linkLocked puts a chunk behind all that is to be sent, without copying. From now on mu guards the
// chunk. The caller counts its bytes in appended.
func (conn *connection) linkLocked(c *chunk) {
	if conn.outEnd == nil {
		conn.out = c
	} else {
		conn.outEnd.next = c
	}
	conn.outEnd = c
	conn.outMemory += cap(c.b)
}

// sharedMin is the length of a message from which on it is kept once for all who get it, and not copied
// to each. Below it a copy is cheaper than a chunk.
const sharedMin = 1 << 10

// push sends a message that is no reply. It does not block. message is called with mu held; it returns
// nothing for a client that does not get the message, and nobody may change what it returns.
//
// behind: the message follows all replies that are due, or are known and still in the queue. While others
// may wait for long it is not kept back by these: it goes before them, and once more behind the reply of
// the last read, which may show what the message is about. Other messages go before all of these, as in
// Redis, but behind lastPush.
func (conn *connection) push(behind bool, message func(*session) []byte) {
	conn.mu.Lock()
	b := message(conn.session)
	full := len(b) > 0 && !conn.closed.Load() && conn.unsentLocked()+len(b) > conn.server.bounds.outputMax
	sends := len(b) > 0 && !full && !conn.closed.Load()
	if last := conn.tail; sends && behind {
		waits := conn.order.waits()
		if waits {
			last = lastRead(conn.head)
		}
		if last != nil {
			conn.enqueueLocked(&slot{out: b, done: true}, last)
			conn.countQueuedLocked(len(b))
			sends = waits
		}
	}
	switch {
	case !sends:
	case conn.lastPush != nil:
		sl := &slot{out: b, done: true}
		conn.enqueueLocked(sl, conn.lastPush)
		conn.lastPush = sl
		conn.countQueuedLocked(len(b))
	case len(b) < sharedMin:
		conn.appendLocked(b)
		conn.sendLocked()
	default:
		conn.appended += int64(len(b))
		conn.linkLocked(&chunk{b: b, shared: true})
		conn.sendLocked()
	}
	conn.countOutputLocked()
	conn.mu.Unlock()
	if full {
		conn.tooSlow()
	}
	conn.server.relieve()
}

// lastRead is the last slot, of this one and those behind it, whose reply shows what a client that tracks
// has read; nil: none does.
func lastRead(sl *slot) (last *slot) {
	for ; sl != nil; sl = sl.next {
		if sl.reads != nil {
			last = sl
		}
	}
	return last
}

// unlinkLocked takes the first chunk of out, which then belongs to the caller: no other goroutine can
// reach it. nil: there is none.
func (conn *connection) unlinkLocked() *chunk {
	c := conn.out
	if c == nil {
		return nil
	}
	if conn.out = c.next; conn.out == nil {
		conn.outEnd = nil
	}
	c.next = nil
	conn.outMemory -= cap(c.b)
	return c
}

// send ends the reader's batch: it sends all replies that are known. Called by the reader goroutine.
//
// If more than outputMax waits for the client or is kept, send waits until that is less. Meanwhile
// nothing is read of it, so TCP slows down a client that sends and does not read. writeTimeout ends it.
// While a command waits for long, stopsLocked stops the reader instead, which reads on to notice a client
// that leaves.
func (conn *connection) send() error {
	conn.mu.Lock()
	defer conn.mu.Unlock()
	conn.executing.Store(false) // with mu held, so that quiet sees the replies in batch or in out
	// With nothing else to send, the batch becomes out as it is. Otherwise its bytes are copied, see
	// connection.
	if len(conn.batch.b) > 0 && conn.out == nil && !conn.closed.Load() {
		conn.appended += int64(len(conn.batch.b))
		conn.linkLocked(conn.batch)
		conn.batch = nil
	} else {
		conn.flushBatchLocked()
		conn.batch.put()
		conn.batch = nil
	}
	conn.countInLocked()
	conn.sendLocked()
	conn.mu.Unlock()
	conn.server.relieve() // takes the mu of other connections, so not with ours held
	conn.mu.Lock()
	for conn.overOutputMaxLocked() && !conn.order.waits() && !conn.closed.Load() {
		conn.changed.Wait()
	}
	conn.overOutputMax.Store(false)
	if conn.closed.Load() {
		return errClosed
	}
	return nil
}

// Flush implements redlock.Flusher: it sends what completed slots have put into out. It does not block.
// The engine calls it once after it has completed many slots, so that their replies leave with one
// write.
func (conn *connection) Flush() {
	conn.mu.Lock()
	conn.flushing = false
	conn.sendLocked()
	conn.mu.Unlock()
	conn.server.relieve()
}

// sendLocked passes out on to the kernel, or to a writer goroutine, and counts what is left. It frees
// mu while it writes; the flag writing keeps other goroutines from writing then, and makes this one
// look at out again.
func (conn *connection) sendLocked() {
	defer conn.countOutputLocked()
	for conn.out != nil && !conn.writing && !conn.closed.Load() {
		conn.writing = true
		c := conn.unlinkLocked()
		if conn.raw == nil { // only a blocking write is possible, and the caller must not block
			conn.startWriterLocked(c, 0)
			return
		}
		conn.mu.Unlock()
		n, err := conn.writeNow(c.b)
		conn.mu.Lock()
		conn.sentLocked(n)
		switch {
		case err == syscall.EAGAIN: // the client does not keep up
			conn.startWriterLocked(c, n)
			return
		case err != nil:
			conn.mu.Unlock()
			conn.close("write: " + err.Error())
			conn.mu.Lock()
		}
		c.put()
		conn.stopWritingLocked()
	}
}

// writeNow writes what the kernel takes at once, and returns how many bytes that is. The error is
// EAGAIN if it is not all. The caller has set writing, and must not hold mu: a write takes some
// microseconds, and completing goroutines need mu.
func (conn *connection) writeNow(b []byte) (int, error) {
	if conn.tryWrite == nil {
		conn.tryWrite = conn.tryWriteFd
	}
	conn.toWrite = b
	err := conn.raw.Write(conn.tryWrite)
	conn.toWrite = nil
	if err == nil {
		err = conn.writeErr
	}
	return conn.written, err
}

// tryWriteFd is for RawConn.Write, which would wait for room and call it again if it returned false. So
// it always returns true.
func (conn *connection) tryWriteFd(fd uintptr) bool {
	conn.written = 0
	for conn.written < len(conn.toWrite) {
		var n int
		n, conn.writeErr = rawio.Write(fd, conn.toWrite[conn.written:])
		if conn.writeErr != nil {
			return true
		}
		conn.written += n
	}
	conn.writeErr = nil
	return true
}

// startWriterLocked starts the writer goroutine with a chunk of which n bytes are written already. The
// flag writing and the chunk pass on to it.
func (conn *connection) startWriterLocked(c *chunk, n int) {
	conn.writerMemory = cap(c.b)
	conn.server.goroutines.Go(func() { conn.write(c, n) })
}

// write is the writer goroutine. It writes c from n on, then what is in out, and ends when nothing is
// left. writeTimeout is for each write, so a slow client is kept as long as it takes some bytes.
func (conn *connection) write(c *chunk, n int) {
	rest := c.b[n:]
	for {
		conn.net.SetWriteDeadline(time.Now().Add(conn.server.bounds.writeTimeout))
		n, err := conn.net.Write(rest[:min(len(rest), writeMax)])
		rest = rest[n:]
		if n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil // slow, but it reads
		}
		if err == nil && n == 0 && len(rest) > 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			conn.writeFailed(err)
		}
		conn.mu.Lock()
		conn.sentLocked(n)
		if conn.closed.Load() || len(rest) == 0 {
			c.put()
			conn.writerMemory = 0
			if conn.out == nil || conn.closed.Load() {
				conn.countOutputLocked()
				conn.net.SetWriteDeadline(time.Time{})
				conn.stopWritingLocked()
				conn.mu.Unlock()
				return
			}
			c = conn.unlinkLocked()
			rest, conn.writerMemory = c.b, cap(c.b)
			conn.countOutputLocked()
		}
		conn.mu.Unlock()
	}
}

// writeFailed closes the connection. Only a client that reads nothing is worth a warning; others have
// just left. Called by the writer goroutine, without mu.
func (conn *connection) writeFailed(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		conn.mu.Lock()
		unsent := conn.unsentLocked()
		conn.mu.Unlock()
		conn.server.log.Warn("client does not read its replies", "client", conn.id, "addr", conn.addr,
			"bytes", unsent, "write_timeout", conn.server.bounds.writeTimeout,
			"to_do", "find out why this client hangs; redlockd has closed it")
	}
	conn.close("write: " + err.Error())
}

// sentLocked counts n bytes that the kernel has taken. Grants among them are not undone any more: their
// replies can reach the client.
func (conn *connection) sentLocked(n int) {
	if n == 0 {
		return
	}
	conn.sent += int64(n)
	conn.server.counters[countBytesOut].Add(uint64(n))
	out := 0
	for out < len(conn.grants) && conn.grants[out].end <= conn.sent {
		out++
	}
	if out > 0 {
		rest := copy(conn.grants, conn.grants[out:])
		clear(conn.grants[rest:])
		conn.grants = conn.grants[:rest]
	}
	conn.wakeStoppedLocked()
	conn.changed.Signal()
}

// stopWritingLocked clears the flag writing. If the connection was closed meanwhile, the goroutine that
// wrote undoes what could not be sent, because close did not know how far it got.
func (conn *connection) stopWritingLocked() {
	conn.writing = false
	if !conn.closed.Load() {
		return
	}
	if lost := conn.dropOutputLocked(nil); len(lost) > 0 {
		conn.mu.Unlock()
		undo(lost)
		conn.mu.Lock()
	}
}

// dropOutputLocked gives up what is not sent, and appends to lost what is to be undone. The connection
// must be closed, and writing must be false.
func (conn *connection) dropOutputLocked(lost []undoer) []undoer {
	for _, g := range conn.grants {
		lost = append(lost, g.undo)
	}
	conn.grants = nil
	for c := conn.unlinkLocked(); c != nil; c = conn.unlinkLocked() {
		c.put()
	}
	return lost
}
