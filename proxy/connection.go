package proxy

import (
	"container/list"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// connection is one client's connection: bytes in, frames, replies in order, bytes out. It does not
// know what commands do. It hands each command to its session, and gets back a reply in batch or a slot
// for a reply that comes later.
//
//	reader:  read ─ frames ─ session.dispatch ─ handler ─┬─ batch ─────────────────┬─ out ─ kernel
//	engine:                                              └─ slot … Done, complete ─┘
//
// One goroutine, the reader, reads commands and runs their handlers in order. An idle connection has no
// other. Replies that are known at once go to batch, which the reader moves to out when it has executed
// all that it has read: many replies, one write. A command that cannot be answered at once leaves a
// slot in the queue. The goroutine that learns its reply completes the slot, and moves the completed
// replies at the front of the queue to out (slot.go). The goroutine that has put something into out
// sends it without blocking (output.go).
//
// A reply buffer has one owner at a time. The reader owns batch; send hands the chunk itself over to
// out, which mu guards; the goroutine that writes unlinks the chunk and owns it until it goes back to
// the pool. So a reply that is known at once is never copied while the client keeps up. It is copied
// once if it has been in a slot, or if out is not empty: then small replies share a chunk, because each
// chunk of 16 KiB counts in OutputTotal.
//
// Operations reach the engine in the order in which the client has sent them, except past those that
// wait (order.go).
//
// Rejected: a goroutine for each command, as an HTTP server would have. That order would be lost, and
// each LOCK would pay for the start of a goroutine and a switch to it.
type connection struct {
	// Set once, before any other goroutine knows the connection.
	server  *Server
	session *session
	id      int64
	addr    string       // of the client, as CLIENT LIST shows it
	laddr   string       // of the server, likewise
	origin  netip.Prefix // what limits by address take for this client
	created time.Time

	// Guarded by server.mu.
	preauthElem *list.Element // its place in server.preauth; nil: the client has authenticated

	// Owned by the reader goroutine, which also runs the handlers.
	in     readBuffer
	frames resp.FrameScanner
	// args are those of the command that is executed. They alias in.
	args [][]byte
	// commandSize is how many bytes it has.
	commandSize int
	// batch has replies that follow all in out. It is empty while slots are queued, and nil between
	// batches.
	batch *chunk
	// stopped: the last batch ended before the end of what was read, see stopsLocked, so that more may be
	// in the buffer than half a command.
	stopped      bool
	tlsTransport *tlsTransport // nil without TLS
	hasCPU       bool          // it holds a place of server.cpu
	hadCPU       bool          // it has held one before
	// closeAfterReply is set by a handler: nothing more is executed, the replies are sent, then the
	// connection is closed.
	closeAfterReply bool

	// Read and written by any goroutine.

	// executing: the reader executes commands, and will send what is in out afterwards. So others need
	// not.
	executing atomic.Bool
	// inFlight counts the slots in the queue, at most pipelineMax.
	inFlight atomic.Int32
	// overOutputMax: more than outputMax waited when a reply came last. The reader must look again, in
	// send.
	overOutputMax atomic.Bool
	// lastUsed is when the last bytes came or the last blocking command was answered, on the clock of
	// server.now.
	lastUsed atomic.Int64
	// incompleteSince is when the command that is not complete yet began to come, on the same clock; 0:
	// none is.
	incompleteSince atomic.Int64
	// closed is written with mu held.
	closed atomic.Bool

	// mu guards all below, and fields of session as stated there. The engine's goroutines take it. So
	// nothing is waited for under it, the engine is not called under it, and the only lock taken under
	// it is that of subscribers.
	mu      sync.Mutex
	changed sync.Cond // signalled when anything changes that the reader may wait for in await
	net     net.Conn
	raw     syscall.RawConn // of a TCP or unix connection, to read and write without blocking; nil for others
	queue
	order order
	output
	// nextStays: the next command is not executed while others wait, see goesAhead. Written by the reader.
	nextStays bool
	// parked: the reader waits with bytes not executed. Wake it when nothing stops it any more.
	parked bool
	// woken: the read deadline is in the past, to wake the reader.
	woken bool
	// cpuWait is the last wait of the reader for a place of server.cpu, which close ends.
	cpuWait *placeWait
	// halfClosed: the client has ended its stream, so it is granted no lock. Written by the reader.
	halfClosed bool
	// closedByClient: the client's side has made the end, by QUIT or by the end of its stream.
	closedByClient bool
}

const (
	// batchMax is how many bytes of replies the reader collects before it sends them. At the bound it
	// sends, and goes on. One short reply more does not make the chunk grow.
	batchMax = chunkSize - 1<<10
	// argsKeepMax is how many arguments an idle connection has room for: 384 bytes.
	argsKeepMax = 16
	// aheadMax bounds what is read when the reader is stopped. At the bound nothing is read, so that
	// the client has left is noticed only when nothing stops it any more.
	aheadMax = 64 << 10
	// lingerTime and lingerMax bound for how long and how much is read of a client after the error that
	// ends its connection. Closing a socket with bytes unread would make the kernel take the error
	// back.
	lingerTime = time.Second
	lingerMax  = 4 << 20
)

// errClosed ends the reader of a connection that another goroutine has closed.
var errClosed = errors.New("the connection is closed")

// newConnection makes a connection and its session. Nothing is read before serve. The caller enters the
// session's account.
func newConnection(srv *Server, c net.Conn, id int64) *connection {
	conn := &connection{
		server:  srv,
		net:     c,
		id:      id,
		addr:    addrText(c.RemoteAddr(), c.LocalAddr()),
		laddr:   addrText(c.LocalAddr(), nil),
		created: time.Now(),
	}
	conn.origin = access.OriginOf(conn.addr)
	conn.session = &session{server: srv, conn: conn, proto: 2}
	conn.session.current.Store(srv.anonymous)
	conn.changed.L = &conn.mu
	conn.lastUsed.Store(srv.now())
	return conn
}

// addrText is how CLIENT LIST shows an address. The client of a unix socket has no address of its own
// and shows the socket's.
func addrText(addr, other net.Addr) string {
	u, ok := addr.(*net.UnixAddr)
	switch {
	case addr == nil:
		return "?"
	case !ok:
		return addr.String()
	case (u.Name == "" || u.Name == "@") && other != nil:
		return addrText(other, nil)
	}
	return u.Name + ":0"
}

// serve is the reader goroutine. It ends when the connection is closed.
func (conn *connection) serve() {
	err := conn.start()
	for err == nil && !conn.closeAfterReply {
		if err = conn.read(); err == nil {
			err = conn.executeBatch()
		} else if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF) { // or TLS that was cut
			conn.noteClosedByClient()
		}
	}
	var wrong resp.ProtocolError
	switch {
	case err == nil: // closeAfterReply
		conn.sendAndClose("closed by the server")
	case err == io.EOF:
		conn.endOfStream()
		conn.sendAndClose("closed by the client")
	case errors.As(err, &wrong):
		conn.refuse(wrong)
	default:
		conn.close(err.Error())
	}
	conn.in.release()
}

// start does the TLS handshake where TLS is configured, and finds out how the connection is best read
// and written: directly, on its file descriptor, for TCP and unix sockets without TLS. A client without
// a login, where none is asked for, counts as authenticated when its handshake is done.
func (conn *connection) start() error {
	c, raw := conn.net, syscall.RawConn(nil)
	// Only these types: one that embeds them may read and write in a way of its own.
	switch c := conn.net.(type) {
	case *net.TCPConn:
		raw, _ = c.SyscallConn()
	case *net.UnixConn:
		raw, _ = c.SyscallConn()
	}
	if conn.server.usesTLS(conn.net) {
		t, err := conn.handshake(conn.server.opts.TLSConfig)
		if err != nil {
			return err
		}
		c, raw = t, nil
		if err := conn.logInByCertificate(t); err != nil {
			return err
		}
	}
	if conn.session.authenticated() {
		if refusal := conn.server.authenticated(conn, conn.session.user()); refusal != nil {
			c.SetWriteDeadline(time.Now().Add(lingerTime))
			c.Write(appendError(nil, refusal))
			conn.linger()
			return refusal
		}
	}
	conn.mu.Lock()
	conn.net, conn.raw = c, raw
	conn.mu.Unlock()
	conn.in.init(c, raw)
	return nil
}

// stopsLocked reports whether what was read must not be executed yet: a command blocks, or others wait
// and the next one must stay behind them or has no room beside them.
func (conn *connection) stopsLocked() bool {
	return conn.order.blocked.Load() ||
		conn.order.waiting.Load() > 0 && (conn.nextStays || conn.inFlight.Load() >= int32(conn.server.bounds.pipelineMax) || conn.overOutputMaxLocked())
}

// read waits for bytes, or until nothing stops the execution of those that are there. While it is
// stopped it reads on, up to aheadMax, for one reason: a client that leaves shows by the end of its
// stream, and its wait for a lock must end then.
func (conn *connection) read() error {
	if conn.stopped {
		conn.mu.Lock()
		for conn.stopsLocked() && len(conn.in.unread()) >= conn.aheadMax() && !conn.closed.Load() {
			conn.changed.Wait()
		}
		stopped := conn.stopsLocked()
		conn.parked = stopped && len(conn.in.unread()) > 0
		conn.mu.Unlock()
		if !stopped {
			return nil
		}
	}
	if conn.tlsTransport != nil {
		conn.tlsTransport.left = preauthReadMax
		if conn.session.authenticated() {
			conn.tlsTransport.left = math.MaxInt
		}
	}
	n, err := conn.in.fill()
	if n > 0 {
		conn.lastUsed.Store(conn.server.now())
		conn.server.counters[countBytesIn].Add(uint64(n))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		conn.mu.Lock()
		defer conn.mu.Unlock()
		if conn.woken {
			conn.woken = false
			return conn.net.SetReadDeadline(time.Time{})
		}
	}
	return err
}

// aheadMax is how many bytes are read when the reader is stopped.
func (conn *connection) aheadMax() int {
	if !conn.session.authenticated() {
		return preauthLimits.Command
	}
	return aheadMax
}

// wakeStoppedLocked ends the reader's wait for bytes if it was stopped and is not any more: the wait ends
// with a timeout, which read takes for no error while woken is set.
func (conn *connection) wakeStoppedLocked() {
	if !conn.parked || conn.stopsLocked() {
		return
	}
	conn.parked, conn.woken = false, true
	conn.net.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection only, and that wakes the reader too
}

// executeBatch executes every complete command that was read, up to one that must not be executed yet,
// and sends the replies.
func (conn *connection) executeBatch() error {
	if !conn.session.authenticated() || len(conn.in.unread()) >= muchSent {
		conn.in.park() // it may wait here for long
		conn.server.countIn(conn)
		conn.acquireCPU()
	}
	conn.beginBatch()
	err := conn.executeUnread()
	conn.releaseCPU()
	if conn.in.kept() > 0 {
		conn.in.room() // a larger chunk counts before it is filled
	}
	if sendErr := conn.send(); err == nil {
		err = sendErr
	}
	// References to the last command would keep its chunk alive while the connection is idle.
	conn.session.call = call{}
	if cap(conn.args) <= argsKeepMax {
		clear(conn.args[:cap(conn.args)])
	} else {
		conn.args = nil
	}
	return err
}

// countInLocked notes what the reader keeps while it waits. Called by the reader goroutine.
func (conn *connection) countInLocked() {
	conn.inMemory, conn.sessionMemory = conn.in.kept()+conn.tlsTransport.kept(), conn.session.memory()
}

// beginBatch begins a batch, which send ends. Called by the reader goroutine.
func (conn *connection) beginBatch() {
	conn.executing.Store(true)
	conn.batch = getChunk()
}

// executeUnread executes what was read, command by command, until half a command is left, one must not
// be executed yet, or one closes the connection. An error ends the connection; a resp.ProtocolError is
// sent to the client first.
//
// Before each command it checks the bounds. If one is reached it sends what is known and waits, in the
// middle of what was read, so that a client cannot exceed a bound by sending all at once.
func (conn *connection) executeUnread() error {
	srv, s := conn.server, conn.session
	conn.stopped = false
	stop := func(nextStays bool) bool {
		conn.mu.Lock()
		defer conn.mu.Unlock()
		conn.nextStays = nextStays
		if conn.stopped = conn.stopsLocked(); conn.stopped {
			conn.incompleteSince.Store(0)
		}
		return conn.stopped
	}
	var executed uint64
	defer func() { srv.counters[countCommands].Add(executed) }()
	for {
		// The client has left. To execute what it sent would be of no use to anybody, because no reply
		// can say what was done.
		if conn.closed.Load() {
			return errClosed
		}
		waits := conn.order.waits() // then stopsLocked looks for room
		n := conn.inFlight.Load()
		mayBeFull := !waits && n > 0 && (n >= int32(srv.bounds.pipelineMax) || srv.flightHigh(s.account()))
		if mayBeFull || len(conn.batch.b) >= batchMax || conn.overOutputMax.Load() {
			room := func() bool { return conn.order.waits() || !conn.fullLocked() }
			if err := conn.sendAndAwait(room); err != nil {
				return err
			}
		}
		if s.mustSlowDown.Load() {
			if err := s.slowDown(); err != nil {
				return err
			}
		}
		limits := &srv.bounds.command
		if !s.authenticated() {
			limits = &preauthLimits
		}
		unread := conn.in.unread()
		// An inline command cannot be scanned twice, so that one stays behind, whatever it is.
		if waits && stop(len(unread) > 0 && unread[0] != '*') {
			return nil
		}
		args, size, err := conn.frames.Scan(unread, limits, conn.args)
		conn.args = args // whatever came of it, this is the room for the next command
		if err != nil {
			return err
		}
		if size == 0 { // half a command, or nothing
			conn.noteIncomplete(len(unread) > 0, executed > 0)
			return nil
		}
		if waits && stop(len(args) > 0 && !srv.table.goesAhead(args)) {
			return nil
		}
		conn.in.take(size)
		if len(args) > 0 { // an empty line, or *0, is no command and gets no reply, as in Redis
			executed++
			conn.commandSize = size
			s.dispatch(args)
		}
		if conn.closeAfterReply {
			return nil
		}
	}
}

// fullLocked reports whether the client must wait for a reply before its next command is executed: it has
// pipelineMax in flight, or so much waits for its user's clients, or for all, that each has its part of the
// memory (partOf) and no more. Many deep pipelines are slowed down by this, and not closed (relieve), nor
// are their commands refused in the engine.
func (conn *connection) fullLocked() bool {
	n, a := conn.inFlight.Load(), conn.session.account()
	return n >= int32(conn.server.bounds.pipelineMax) || n > 0 && conn.server.flightHigh(a) && conn.kept > conn.server.partOf(a)
}

// noteIncomplete notes for timedOut whether a command is incomplete, and since when. fresh: complete
// commands came with it.
func (conn *connection) noteIncomplete(incomplete, fresh bool) {
	switch {
	case !incomplete:
		conn.incompleteSince.Store(0)
	case fresh || conn.incompleteSince.Load() == 0:
		conn.incompleteSince.Store(conn.lastUsed.Load())
	}
}

// sendAndAwait ends the batch, waits until ok as await does, and begins another batch. Called by the
// reader goroutine.
func (conn *connection) sendAndAwait(ok func() bool) error {
	return conn.sendAnd(func() error { return conn.await(ok) })
}

// sendAnd ends the batch, calls wait, and begins another batch. No place of server.cpu is held
// meanwhile, because those who hold one must not wait for anything (semaphore). Called by the reader
// goroutine; a handler may call it, after it has stored its reply so far in batch (see awaitScripts).
func (conn *connection) sendAnd(wait func() error) error {
	defer withoutCPU(conn)()
	err := conn.send()
	if err == nil {
		err = wait()
	}
	conn.beginBatch()
	return err
}

// await waits until ok, which is called with mu held, or until the connection is closed: then it
// returns errClosed. Code that makes an ok true must signal changed. Called by the reader goroutine,
// the only one that waits for changed.
func (conn *connection) await(ok func() bool) error {
	conn.mu.Lock()
	defer conn.mu.Unlock()
	for !ok() && !conn.closed.Load() {
		conn.changed.Wait()
	}
	if conn.closed.Load() {
		return errClosed
	}
	return nil
}

// endOfStream answers what was received of a client that has ended its stream. It may still read
// (printf … | nc), but it may as well be gone for good, which looks the same from here. So no lock is
// granted to it any more, and what it waits for ends.
func (conn *connection) endOfStream() {
	conn.mu.Lock()
	conn.halfClosed, conn.closedByClient = true, true
	waits := conn.order.waitsLocked()
	conn.mu.Unlock()
	conn.server.endWaits(waits)
	for {
		// A LOCK with WAIT behind this is refused. A command that blocks because it takes several
		// rounds ends by itself.
		if conn.await(func() bool { return !conn.stopsLocked() }) != nil || conn.executeBatch() != nil || !conn.stopped {
			return
		}
	}
}

// refuse answers bytes that are no command, behind the replies of all commands before them, and closes.
func (conn *connection) refuse(wrong resp.ProtocolError) {
	conn.server.counters[countProtocolErrors].Add(1)
	conn.server.protocolErrors.Log(conn.server.log, slog.LevelInfo, time.Now(), "protocol error", "client", conn.id, "addr", conn.addr, "err", wrong)
	conn.in.release()
	conn.batch = getChunk()
	conn.batch.b = appendError(conn.batch.b, wrong)
	conn.queueReply(0)
	if conn.send() == nil && conn.awaitSent() == nil {
		conn.linger()
	}
	conn.close(wrong.Error())
}

// noteClosedByClient notes that the client's side has made the end: what is held with RELEASE is
// released.
func (conn *connection) noteClosedByClient() {
	conn.mu.Lock()
	defer conn.mu.Unlock()
	conn.closedByClient = true
}

// awaitSent waits until all replies are handed to the kernel.
func (conn *connection) awaitSent() error {
	return conn.await(func() bool { return conn.head == nil && conn.unsentLocked() == 0 })
}

// sendAndClose closes when all replies are handed to the kernel.
func (conn *connection) sendAndClose(why string) {
	err := conn.awaitSent()
	if t, ok := conn.net.(*tls.Conn); ok && err == nil {
		t.SetWriteDeadline(time.Now().Add(lingerTime))
		t.CloseWrite() // without it the client would have to take the end for an attack
	}
	conn.close(why)
}

// linger reads what the client still sends, within bounds, until it closes.
func (conn *connection) linger() {
	c, ok := conn.net.(interface{ CloseWrite() error })
	if !ok || c.CloseWrite() != nil {
		return
	}
	conn.net.SetReadDeadline(time.Now().Add(lingerTime))
	io.CopyN(io.Discard, conn.net, lingerMax)
}

// close closes the connection at once. Any goroutine may call it, any number of times; the first call
// says why. Waits are ended, and locks whose grant cannot reach the client any more are released.
// Operations in progress go on: their slots stay in the queue, and advanceLocked drops them as they
// complete.
//
// The caller must hold no connection's mu, nor srv.mu.
func (conn *connection) close(why string) {
	conn.mu.Lock()
	if conn.closed.Load() {
		conn.mu.Unlock()
		return
	}
	conn.closed.Store(true)
	conn.countOutputLocked()
	waits, c, cpuWait := conn.order.waitsLocked(), conn.net, conn.cpuWait
	held, byClient := conn.session.held, conn.closedByClient
	lost := conn.advanceLocked(nil)
	if !conn.writing {
		lost = conn.dropOutputLocked(lost)
	} // else the goroutine that writes does, when it knows how far it got
	conn.changed.Signal()
	conn.mu.Unlock()

	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn() // closing t would try to write, and wait for it
	}
	c.Close()
	if cpuWait != nil {
		conn.server.cpu.cancel(cpuWait)
	}
	conn.server.log.Debug("client left", "client", conn.id, "addr", conn.addr, "why", why)
	conn.server.endWaits(waits)
	if held != nil {
		conn.server.opts.Engine.EndHolder(held.Holder, byClient)
	}
	undo(lost)
}

// unblock ends the wait of the LOCK that waits for longest, if one does, and reports whether it did. err
// nil: as if its WAIT had run out.
func (conn *connection) unblock(err error) bool {
	conn.mu.Lock()
	waits := conn.order.waitsLocked()
	conn.mu.Unlock()
	return len(waits) > 0 && conn.server.opts.Engine.Unblock(waits[0], err)
}

// endWaits ends the waits of a client that has gone, the last one first: none of them comes to the front.
func (srv *Server) endWaits(waits []*redlock.Op) {
	for _, op := range slices.Backward(waits) {
		srv.opts.Engine.Unblock(op, errGone)
	}
}

// idle is for how long the client has sent nothing.
func (conn *connection) idle() time.Duration {
	return time.Duration(conn.server.now() - conn.lastUsed.Load())
}
