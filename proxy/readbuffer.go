package proxy

import (
	"io"
	"net"
	"sync"
	"syscall"

	"redlockd/redlock/rawio"
)

// Chunks of memory, and the buffer of what a client has sent. Ten thousand idle clients must cost
// little, so memory is got when bytes come and put back when they are executed, and an idle connection
// has none. Only commands that are not complete, or wait, keep memory between two reads. It counts in
// OutputTotal, as what waits on its way out.

// chunk is a piece of memory for bytes on their way in or out. Connections hold chunks only while they
// have something to read or to write. It has one owner at a time, see connection.
type chunk struct {
	b      []byte
	next   *chunk // in output
	shared bool   // b is read by others, too: it does not change any more, and is not put back
}

// chunkSize is enough for what a client mostly sends at one time, and for the replies to that.
const chunkSize = 16 << 10

// chunks are free. The garbage collector empties the pool in time, so that a burst of clients does not
// leave its memory.
var chunks = sync.Pool{New: func() any { return &chunk{b: make([]byte, 0, chunkSize)} }}

// getChunk returns an empty chunk of chunkSize.
func getChunk() *chunk { return chunks.Get().(*chunk) }

// put puts the chunk back. The caller must have no slice of it any more: the next getChunk, by any
// goroutine, writes there. A chunk that grew is left to the garbage collector: otherwise a few large
// commands would make the pool's chunks large for ever, and all of a chunk counts for who has it.
func (c *chunk) put() {
	if cap(c.b) == chunkSize && !c.shared {
		c.b = c.b[:0]
		chunks.Put(c)
	}
}

// readBuffer holds what was read from a connection and is not executed yet. Owned by the reader
// goroutine.
//
// No chunk is held while a read waits: on a TCP or unix connection the chunk is got when the kernel
// says that bytes are there. What is left of an incomplete small command is then kept in memory of its
// own size. So a client that sends half a command and falls silent costs the bytes that it has sent,
// and no more.
type readBuffer struct {
	conn net.Conn
	raw  syscall.RawConn // nil: conn has no file descriptor of its own (TLS, net.Pipe)

	// Unread bytes are in c from start on, or, while c is nil, in small.
	c     *chunk
	start int
	small []byte

	// For connections without a file descriptor of their own.
	wait []byte // what a read that has to wait reads into
	more bool   // the last read filled its buffer, so more is there already

	tryRead func(fd uintptr) bool // method value, made once
	n       int                   // result of tryRead: bytes read; 0 with err nil is the end of the stream
	err     error                 // likewise
}

const (
	// smallMax bounds what is kept in small: it is copied to and fro with each read.
	smallMax = 1 << 10
	// waitSize is the buffer of a read that waits on a connection without a file descriptor.
	waitSize = 512
	// roomMin is the least room for a read.
	roomMin = 2 << 10
)

// init makes the buffer one of conn. raw is conn's descriptor if it may be read without conn's
// knowledge, else nil.
func (r *readBuffer) init(conn net.Conn, raw syscall.RawConn) {
	*r = readBuffer{conn: conn, raw: raw}
	r.tryRead = r.tryReadFd
}

// unread returns the bytes that were read and not taken.
func (r *readBuffer) unread() []byte {
	if r.c == nil {
		return r.small
	}
	return r.c.b[r.start:]
}

// take removes n bytes from the front. They stay as they are until the next fill.
func (r *readBuffer) take(n int) {
	if r.c == nil {
		r.small = r.small[n:]
	} else {
		r.start += n
	}
}

// fill waits until bytes have come, and returns how many, at least one. Slices that unread returned
// are invalid then.
func (r *readBuffer) fill() (int, error) {
	if r.raw == nil {
		return r.fillWaiting()
	}
	err := r.raw.Read(r.tryRead)
	switch {
	case err != nil:
		return 0, err
	case r.err != nil:
		return 0, r.err
	case r.n == 0:
		return 0, io.EOF
	}
	return r.n, nil
}

// tryReadFd reads what is there. RawConn.Read calls it at once, and again whenever something may have
// come, until it returns true. Before it returns false, so that the goroutine waits, it puts the chunk
// back.
func (r *readBuffer) tryReadFd(fd uintptr) bool {
	r.n, r.err = rawio.Read(fd, r.room())
	if r.err == syscall.EAGAIN {
		r.park()
		return false
	}
	r.c.b = r.c.b[:len(r.c.b)+r.n]
	return true
}

// fillWaiting is fill for a connection that has to be given its buffer before there is something to
// read. The buffer is a small one while the client may be idle, and a chunk when the last read has
// shown that more is there.
func (r *readBuffer) fillWaiting() (n int, err error) {
	if r.more {
		room := r.room()
		n, err = r.conn.Read(room)
		r.c.b = r.c.b[:len(r.c.b)+n]
		r.more = n == len(room)
	} else {
		r.park()
		if r.wait == nil {
			r.wait = make([]byte, waitSize)
		}
		n, err = r.conn.Read(r.wait)
		if n > 0 {
			copy(r.room(), r.wait[:n])
			r.c.b = r.c.b[:len(r.c.b)+n]
		}
		r.more = n == len(r.wait)
	}
	if n > 0 {
		return n, nil // an error comes again with the next read
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return 0, err
}

// kept is the memory that a wait keeps: none, if park puts the chunk back.
func (r *readBuffer) kept() int {
	if r.c == nil || len(r.unread()) <= smallMax {
		return 0
	}
	return cap(r.c.b)
}

// room returns free memory behind the unread bytes, in a chunk. If the chunk is full of unread bytes, a
// larger one takes its place.
func (r *readBuffer) room() []byte {
	if r.c == nil {
		r.c, r.start = getChunk(), 0
		r.c.b = append(r.c.b, r.small...)
	}
	if free := cap(r.c.b) - len(r.c.b); free < roomMin {
		unread := r.unread()
		if len(unread)+roomMin <= cap(r.c.b)/2 {
			r.c.b = r.c.b[:copy(r.c.b, unread)]
		} else {
			grown := &chunk{b: make([]byte, 0, 2*cap(r.c.b))}
			grown.b = append(grown.b, unread...)
			r.c.put()
			r.c = grown
		}
		r.start = 0
	}
	return r.c.b[len(r.c.b):cap(r.c.b)]
}

// park puts the chunk back before a wait, unless it holds more than smallMax unread bytes, whose
// copying would cost more than the memory is worth.
func (r *readBuffer) park() {
	unread := r.unread()
	switch {
	case len(unread) == 0:
		r.small = nil
	case r.c == nil || len(unread) > smallMax:
		return
	default:
		r.small = append(r.small[:0], unread...)
	}
	r.release()
}

// release puts the chunk back. What it holds is lost.
func (r *readBuffer) release() {
	if r.c != nil {
		r.c.put()
		r.c = nil
	}
}
