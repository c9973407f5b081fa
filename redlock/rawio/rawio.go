// Package rawio reads and writes sockets without a word to Go's scheduler.
//
// It is ours because net.Conn has no such way. Around an ordinary system call the scheduler is told
// that the thread may be away for long, and a thread of the runtime (sysmon) looks every 20 µs whether
// the processor should go to another thread. The sockets of Go's poller are non-blocking: a call takes
// as long as the kernel needs to move the bytes, and nothing is gained by leaving. Measured with 64
// clients, and one processor for redlockd: 15 % less of its CPU per lock, a twentieth of the naps of
// sysmon, a fiftieth of the wake-ups of other threads.
//
// Only sockets of Go's poller may be given to it: one that blocks would stop the processor.
//
// REDLOCK_RAWIO=off in the environment of the process turns it off: then everything here is the
// ordinary way. That is for a kernel, a sandbox or a debugger with which the calls misbehave, and to
// find out whether they do.
package rawio

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// variable is the environment variable that turns this package off, if its value is "off".
const variable = "REDLOCK_RAWIO"

// off is set before main begins, and does not change.
var off = os.Getenv(variable) == "off"

// callMax bounds the bytes of one call, and so how long the garbage collector may have to wait for it.
const callMax = 64 << 10

// Read is read(2), for functions given to [syscall.RawConn]. Zero bytes without an error are the end of
// the stream; the error is a [syscall.Errno], EAGAIN where nothing is there.
func Read(fd uintptr, b []byte) (int, error) { return call(syscall.SYS_READ, fd, b) }

// Write is write(2), likewise. It may write less than b without an error.
func Write(fd uintptr, b []byte) (int, error) { return call(syscall.SYS_WRITE, fd, b) }

func call(number, fd uintptr, b []byte) (int, error) {
	b = b[:min(len(b), callMax)]
	invoke := rawCall
	if off {
		invoke = plainCall
	}
	for {
		n, errno := invoke(number, fd, b)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			return 0, errno
		}
		return n, nil
	}
}

// plainCall is the ordinary system call, which tells the scheduler.
func plainCall(number, fd uintptr, b []byte) (n int, errno syscall.Errno) {
	var err error
	if number == syscall.SYS_READ {
		n, err = syscall.Read(int(fd), b)
	} else {
		n, err = syscall.Write(int(fd), b)
	}
	errors.As(err, &errno)
	return n, errno
}

// conn is a connection whose Read and Write pass the scheduler by.
type conn struct {
	net.Conn
	raw         syscall.RawConn
	reading     transfer
	writing     transfer
	tryRead     func(fd uintptr) bool // method values, made once
	tryWriteAll func(fd uintptr) bool
}

// transfer is the call that is under way in one direction.
type transfer struct {
	b   []byte
	n   int
	err error
}

// New returns c with a Read and a Write that pass the scheduler by, deadlines and Close included; or c
// itself if it is not a connection of Go's poller (TLS, net.Pipe), or if REDLOCK_RAWIO=off. Unlike
// those of c, they are for one goroutine each.
func New(c net.Conn) net.Conn {
	if off {
		return c
	}
	switch c.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		return c
	}
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return c
	}
	r := &conn{Conn: c, raw: raw}
	r.tryRead, r.tryWriteAll = r.readFd, r.writeFd
	return r
}

func (c *conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	c.reading = transfer{b: b}
	err := c.raw.Read(c.tryRead)
	done := c.reading
	c.reading = transfer{}
	switch {
	case err != nil:
		return 0, named("read", err)
	case done.err != nil:
		return 0, c.opError("read", done.err)
	case done.n == 0:
		return 0, io.EOF
	}
	return done.n, nil
}

// readFd returns false, which waits, while there is nothing to read.
func (c *conn) readFd(fd uintptr) bool {
	c.reading.n, c.reading.err = Read(fd, c.reading.b)
	return c.reading.err != syscall.EAGAIN
}

func (c *conn) Write(b []byte) (int, error) {
	c.writing = transfer{b: b}
	err := c.raw.Write(c.tryWriteAll)
	done := c.writing
	c.writing = transfer{}
	if err != nil {
		return done.n, named("write", err)
	}
	if done.err != nil {
		return done.n, c.opError("write", done.err)
	}
	return done.n, nil
}

// writeFd returns false, which waits, while something is left.
func (c *conn) writeFd(fd uintptr) bool {
	t := &c.writing
	for t.n < len(t.b) {
		n, err := Write(fd, t.b[t.n:])
		if err == syscall.EAGAIN {
			return false
		}
		if err != nil {
			t.err = err
			return true
		}
		t.n += n
	}
	return true
}

// named makes an error of RawConn ("raw-read") that of the ordinary call.
func named(op string, err error) error {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		e.Op = op
	}
	return err
}

// opError words an error as package net does.
func (c *conn) opError(op string, err error) error {
	local, remote := c.LocalAddr(), c.RemoteAddr()
	return &net.OpError{Op: op, Net: local.Network(), Source: local, Addr: remote, Err: os.NewSyscallError(op, err)}
}
