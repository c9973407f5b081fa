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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// session is one client's connection.
//
// One goroutine, the reader, reads commands and runs their handlers, in order; an idle connection has no other. Replies
// that are known at once go to batch, which the reader moves to out when it has executed all that it has read: many
// replies, one write. A command that cannot be answered at once leaves a slot in the queue; the goroutine that learns
// its reply completes it, and what is then at the front of the queue moves to out (slot.go). Whoever put something into
// out has it sent without blocking (output.go).
//
//	reader:  read ─ guard ─ dispatch ─ handler ─┬─ batch ─────────────────┬─ out ─ kernel
//	engine:                                     └─ slot … Done, complete ─┘
type session struct {
	server      *Server
	id          int64
	addr, laddr string
	origin      netip.Prefix // see originOf
	created     time.Time
	preauthElem *list.Element // its place in server.preauth; nil: the client has authenticated. Guarded by server.mu

	// Of the reader goroutine, which is that of the handlers.
	in              readBuffer
	frames          resp.FrameScanner
	args            [][]byte
	call            call
	batch           *chunk // replies that come after all that is in out; empty while the queue is not; nil between batches
	stalled         bool   // the last batch ended at a command that waits
	replyMode       replyMode
	transaction     transaction
	tlsTransport    *tlsTransport // nil without TLS
	hasCPU          bool          // it holds a place of server.preauthCPU
	hadCPU          bool          // it has held one before
	shortTTLNoted   bool          // the log has been told of a short ttl without a unit
	closeAfterReply bool          // set by a handler: nothing more is executed; what is to be sent is sent, then the connection is closed

	inBatch     atomic.Bool  // the reader is executing commands, and will send what is in out afterwards
	inFlight    atomic.Int32 // slots in the queue
	scripts     atomic.Int32 // scripts on their way
	held        atomic.Bool  // a command waits: those behind it are not executed
	crowded     atomic.Bool  // more than OutputMax waited for the client when a reply came last, as the reader has to find out by send
	slowed      atomic.Bool  // it has published while too much waits for its user's clients: see slowDown
	lastUsed    atomic.Int64 // when the last bytes came, on server.now's clock
	halfSince   atomic.Int64 // when the command that is not complete yet began to come, likewise; 0: there is none
	dead        atomic.Bool  // the connection is closed, or about to be. Written with mu held
	lastCommand atomic.Pointer[command]

	// mu guards all below. The engine's goroutines take it, so nothing is waited for under it, no other lock but that of
	// subscribers is taken under it, and the engine is not called under it.
	mu   sync.Mutex
	conn net.Conn
	raw  syscall.RawConn // of a TCP or unix connection, to write without blocking; nil for others

	// Who the client is. The reader goroutine alone writes these, with mu held, and reads them without.
	proto           int      // 2 or 3, by HELLO
	user            *User    // nil until authenticated; always nil where no users are configured
	account         *account // never nil
	name            string
	libName, libVer string
	subscriptions   subscriptions

	queue
	output

	scripted  map[string]struct{} // keys of scripts on their way; no two of these have one in common, see orderBehind
	composing bool                // confirmations of SUBSCRIBE are in batch: messages wait in pushed until they are out
	pushed    []byte              // at most OutputMax

	changed sync.Cond   // tells the reader, which waits in await, that something here has changed
	waitOp  *redlock.Op // the LOCK that waits, while held
	parked  bool        // the reader waits for bytes although some are not executed: kick it when held ends
	kicked  bool        // the read deadline is in the past, to wake the reader
	gone    bool        // the client has ended its stream: no lock is granted to it any more. Written by the reader
}

// replyMode is what CLIENT REPLY asked for.
type replyMode uint8

const (
	replyOn       replyMode = iota
	replyOff                // CLIENT REPLY OFF
	replySkipNext           // CLIENT REPLY SKIP: the next command gets no reply
	replySkipping           // this command gets none
)

const (
	// batchMax is how many bytes of replies the reader collects before it sends them.
	batchMax = chunkSize
	// argsKeepMax is how many arguments an idle connection has room for.
	argsKeepMax = 16
	// aheadMax bounds what is read of commands behind one that waits. At the bound nothing is read, and that the client
	// has left is noticed when the wait ends.
	aheadMax = 64 << 10
	// lingerTime and lingerMax bound how long and how much is read of a client after the error that ends its connection, so that
	// the error reaches it: closing with bytes unread would take the reply back.
	lingerTime = time.Second
	lingerMax  = 4 << 20
)

// errDead ends the reader of a session whose connection was closed by another goroutine.
var errDead = errors.New("the connection is closed")

func newSession(srv *Server, conn net.Conn, id int64) *session {
	s := &session{
		server:  srv,
		conn:    conn,
		id:      id,
		addr:    addrText(conn.RemoteAddr(), conn.LocalAddr()),
		laddr:   addrText(conn.LocalAddr(), nil),
		origin:  originOf(conn.RemoteAddr()),
		created: time.Now(),
		proto:   2,
		account: srv.anonymous,
	}
	s.changed.L = &s.mu
	s.lastUsed.Store(srv.now())
	return s
}

// addrText is how CLIENT LIST shows an address. The client of a unix socket has none of its own and goes by the socket's.
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
func (s *session) serve() {
	err := s.begin()
	for err == nil && !s.closeAfterReply {
		if err = s.read(); err == nil {
			err = s.execute()
		}
	}
	var wrong resp.ProtocolError
	switch {
	case err == nil: // closeAfterReply
		s.finish("closed by the server")
	case err == io.EOF:
		s.leave()
		s.finish("closed by the client")
	case errors.As(err, &wrong):
		s.refuse(wrong)
	default:
		s.die(err.Error())
	}
	s.in.release()
}

// begin does the TLS handshake where one is configured, with a deadline of its own, and finds out how the connection is
// best read and written.
func (s *session) begin() error {
	conn, raw := s.conn, syscall.RawConn(nil)
	// Only these types: one that embeds them may read and write in a way of its own.
	switch c := s.conn.(type) {
	case *net.TCPConn:
		raw, _ = c.SyscallConn()
	case *net.UnixConn:
		raw, _ = c.SyscallConn()
	}
	if config := s.server.opts.TLSConfig; config != nil {
		t, err := s.handshake(config)
		if err != nil {
			return err
		}
		conn, raw = t, nil
	}
	if s.authenticated() {
		s.server.authenticated(s)
	}
	s.mu.Lock()
	s.conn, s.raw = conn, raw
	s.mu.Unlock()
	s.in.init(conn, raw, &s.server.input)
	return nil
}

// read waits for bytes, or for the end of the command that holds back those that are there.
func (s *session) read() error {
	if s.stalled {
		s.mu.Lock()
		for s.held.Load() && len(s.in.unread()) >= s.aheadMax() && !s.dead.Load() {
			s.changed.Wait()
		}
		s.parked = s.held.Load() && len(s.in.unread()) > 0
		held := s.held.Load()
		s.mu.Unlock()
		if !held {
			return nil
		}
	}
	if s.tlsTransport != nil {
		s.tlsTransport.left = preauthReadMax
		if s.authenticated() {
			s.tlsTransport.left = math.MaxInt
		}
	}
	n, err := s.in.fill()
	if n > 0 {
		s.lastUsed.Store(s.server.now())
		s.server.counters.bytesIn.Add(uint64(n))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.kicked {
			s.kicked = false
			return s.conn.SetReadDeadline(time.Time{})
		}
	}
	return err
}

// aheadMax is how many bytes are read behind a command that waits.
func (s *session) aheadMax() int {
	if !s.authenticated() {
		return preauthLimits.Command
	}
	return aheadMax
}

// kickLocked wakes the reader, which waits for bytes.
func (s *session) kickLocked() {
	s.parked, s.kicked = false, true
	s.conn.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection only, and that wakes the reader too
}

// execute runs every complete command that was read, up to one that waits, and sends the replies.
func (s *session) execute() error {
	if !s.authenticated() {
		s.acquireCPU()
	}
	s.inBatch.Store(true)
	s.batch = getChunk()
	err := s.executeAll()
	s.releaseCPU()
	if sendErr := s.send(); err == nil {
		err = sendErr
	}
	// What is left here of the last commands would keep their chunk alive while the connection is idle.
	s.call = call{}
	if cap(s.args) <= argsKeepMax {
		clear(s.args[:cap(s.args)])
	} else {
		s.args = nil
	}
	return err
}

func (s *session) executeAll() error {
	srv := s.server
	var executed uint64
	defer func() { srv.counters.commands.Add(executed) }()
	for {
		if s.stalled = s.held.Load(); s.stalled {
			s.halfSince.Store(0)
			return nil
		}
		if s.dead.Load() { // nobody would know what the commands that were read already have done
			return errDead
		}
		if s.inFlight.Load() >= int32(srv.opts.PipelineMax) || len(s.batch.b) >= batchMax || s.crowded.Load() {
			if err := s.awaitRoom(); err != nil {
				return err
			}
		}
		if s.slowed.Load() {
			if err := s.slowDown(); err != nil {
				return err
			}
		}
		limits := &srv.limits
		if !s.authenticated() {
			limits = &preauthLimits
		}
		unread := s.in.unread()
		size, err := s.frames.ScanFrame(unread, limits)
		if err != nil {
			return err
		}
		if size == 0 {
			s.markHalf(len(unread) > 0, executed > 0)
			return nil
		}
		if s.args, err = resp.SplitFrame(s.in.take(size), s.args); err != nil {
			return err
		}
		if len(s.args) > 0 {
			executed++
			s.dispatch(s.args)
		}
		if s.closeAfterReply {
			return nil
		}
	}
}

// awaitRoom sends what there is to send, and waits until the client and the engine have taken enough of the commands
// before for another one to be executed.
func (s *session) awaitRoom() error {
	return s.awaitOthers(func() bool { return s.inFlight.Load() < int32(s.server.opts.PipelineMax) })
}

// awaitOthers sends what there is to send, and waits until ok, which is called with mu held.
func (s *session) awaitOthers(ok func() bool) error {
	return s.betweenBatches(func() error { return s.await(ok) })
}

// betweenBatches sends what there is to send, then waits, and goes on with a new batch.
func (s *session) betweenBatches(wait func() error) error {
	if s.hasCPU {
		s.releaseCPU()
		defer s.acquireCPU()
	}
	err := s.send()
	if err == nil {
		err = wait()
	}
	s.inBatch.Store(true)
	s.batch = getChunk()
	return err
}

// await waits until ok, which is called with mu held, or until the connection is closed. What changes the truth of
// any ok must signal changed.
func (s *session) await(ok func() bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !ok() && !s.dead.Load() {
		s.changed.Wait()
	}
	if s.dead.Load() {
		return errDead
	}
	return nil
}

// markHalf notes whether half a command is there, and since when, for timedOut. fresh: commands before it came with it.
func (s *session) markHalf(half, fresh bool) {
	switch {
	case !half:
		s.halfSince.Store(0)
	case fresh || s.halfSince.Load() == 0:
		s.halfSince.Store(s.lastUsed.Load())
	}
}

// leave is for a client that has ended its stream. It may still read (printf … | nc), so commands that were received and
// do not wait are answered; but it may as well be gone for good, which looks the same from here. So no lock is
// granted to it any more, and what it waits for ends.
func (s *session) leave() {
	s.mu.Lock()
	s.gone = true
	op := s.waitOp
	s.mu.Unlock()
	if op != nil {
		s.server.opts.Engine.Unblock(op, errGone)
	}
	for {
		// What may wait is refused behind this; what holds because it takes several rounds ends by itself.
		if s.await(func() bool { return !s.held.Load() }) != nil || s.execute() != nil || !s.stalled {
			return
		}
	}
}

// refuse answers bytes that are no command, behind all commands before them, and closes.
func (s *session) refuse(wrong resp.ProtocolError) {
	s.server.counters.protocolErrors.Add(1)
	s.server.protocolErrors.Log(s.server.log, slog.LevelInfo, time.Now(), "protocol error", "client", s.id, "addr", s.addr, "err", wrong)
	s.batch = getChunk()
	s.batch.b = appendError(s.batch.b, "ERR "+wrong.Error())
	s.behindQueue(0)
	if s.send() == nil && s.drained() == nil {
		s.linger()
	}
	s.die(wrong.Error())
}

// drained waits until all replies are handed to the kernel.
func (s *session) drained() error {
	return s.await(func() bool { return s.head == nil && s.unsentLocked() == 0 })
}

// finish sends what is to be sent, and closes.
func (s *session) finish(why string) {
	if t, ok := s.conn.(*tls.Conn); ok && s.drained() == nil {
		t.SetWriteDeadline(time.Now().Add(lingerTime))
		t.CloseWrite() // without it the client would have to take the end for an attack
	}
	s.drained()
	s.die(why)
}

// linger reads what the client still sends, within bounds, until it closes.
func (s *session) linger() {
	c, ok := s.conn.(interface{ CloseWrite() error })
	if !ok || c.CloseWrite() != nil {
		return
	}
	s.conn.SetReadDeadline(time.Now().Add(lingerTime))
	io.CopyN(io.Discard, s.conn, lingerMax)
}

// die closes the connection at once. Any goroutine may call it, any number of times; the first says why. Waits are ended,
// locks whose grant cannot reach the client any more are released.
func (s *session) die(why string) {
	s.mu.Lock()
	if s.dead.Load() {
		s.mu.Unlock()
		return
	}
	s.dead.Store(true)
	s.countOutputLocked()
	op, conn := s.waitOp, s.conn
	lost := s.advanceLocked(nil)
	if !s.writing {
		lost = s.abandonLocked(lost)
	} // else the writer does, when it knows how far it got
	s.changed.Signal()
	s.mu.Unlock()

	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn() // closing t would try to write, and wait for it
	}
	conn.Close()
	s.server.log.Debug("client left", "client", s.id, "addr", s.addr, "why", why)
	if op != nil {
		s.server.opts.Engine.Unblock(op, errGone)
	}
	undo(lost)
}

// unblock ends the wait of the session's LOCK, if it waits, and tells whether it did. err nil: as if its WAIT had run out.
func (s *session) unblock(err error) bool {
	s.mu.Lock()
	op := s.waitOp
	s.mu.Unlock()
	return op != nil && s.server.opts.Engine.Unblock(op, err)
}

// authenticated tells whether the client may send any command.
func (s *session) authenticated() bool { return s.user != nil || len(s.server.opts.Users) == 0 }

// idle is how long the client has sent nothing.
func (s *session) idle() time.Duration { return time.Duration(s.server.now() - s.lastUsed.Load()) }
