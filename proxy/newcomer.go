package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"redlockd/redlock/resp"
)

// A newcomer is a client that has not shown yet who it is: its TLS handshake is under way, or users are named and it has not logged in.
// Anybody can be one, as often as it likes, so newcomers are to cost those who have logged in nothing:
//
//   - memory: of their bytes little is kept, see limitsBeforeAuth, newcomerOutputMax and newcomerWireMax.
//   - processors: all newcomers together compute on half of them, by turns of their addresses, see gate.
//   - places: where MaxClients are connected, the newcomer that came first makes room, see makeRoomLocked.
const (
	// newcomerOutputMax is OutputMax for them.
	newcomerOutputMax = 16 << 10
	// newcomerWireMax bounds what the TLS library reads of them before it has something for us: a handshake, or after it one record,
	// which has 16 KB and some bytes. The library keeps about twice that, because it copies messages together. It would read a
	// ClientHello of 64 KB, and certificates of 256 KB. A hello has 2 KB at most, a certificate with its chain some more.
	newcomerWireMax = 17 << 10
)

// limitsBeforeAuth are for a client before AUTH. Redis allows it as many arguments, but of 16 KB each, and that is memory that
// nobody has given it.
var limitsBeforeAuth = resp.Limits{Args: 10, Bulk: 4 << 10, Command: 6 << 10, BeforeAuth: true}

// enterGate and leaveGate are for the reader goroutine.
func (s *session) enterGate() {
	s.server.gate.enter(queueKey{s.origin, s.wasInGate})
	s.inGate, s.wasInGate = true, true
}

func (s *session) leaveGate() {
	if s.inGate {
		s.inGate = false
		s.server.gate.leave()
	}
}

// tlsWire is the connection below TLS. Only the reader goroutine uses left and deadline.
type tlsWire struct {
	net.Conn
	s        *session
	left     int       // bytes that may be read yet; what is read at once may go beyond
	deadline time.Time // of the handshake; zero: it is over
}

var errWireMax = errors.New("too many bytes before the login")

func (w *tlsWire) Read(b []byte) (int, error) {
	if w.left <= 0 {
		return 0, errWireMax
	}
	w.s.leaveGate()
	n, err := w.Conn.Read(b)
	w.left -= n
	return n, w.goOn(err)
}

func (w *tlsWire) Write(b []byte) (int, error) {
	if w.deadline.IsZero() {
		return w.Conn.Write(b) // any goroutine may
	}
	w.s.leaveGate()
	n, err := w.Conn.Write(b)
	return n, w.goOn(err)
}

// goOn lets the handshake compute with what has come, when it is its turn.
func (w *tlsWire) goOn(err error) error {
	if err != nil || w.deadline.IsZero() {
		return err
	}
	w.s.enterGate()
	// The turn may have come late.
	if time.Now().After(w.deadline) {
		return os.ErrDeadlineExceeded
	}
	if w.s.dead.Load() {
		return errDead
	}
	return nil
}

// handshake makes the connection one of TLS.
func (s *session) handshake(config *tls.Config) (*tls.Conn, error) {
	deadline := time.Now().Add(s.server.opts.HandshakeTimeout)
	s.wire = &tlsWire{Conn: s.conn, s: s, left: newcomerWireMax, deadline: deadline}
	s.conn.SetDeadline(deadline)
	t := tls.Server(s.wire, config)
	err := t.Handshake()
	s.leaveGate()
	if err != nil {
		s.handshakeFailed(err)
		return nil, err
	}
	s.wire.deadline = time.Time{}
	s.conn.SetDeadline(time.Time{})
	return t, nil
}

// handshakeFailed says why, but of those who only look whether somebody listens.
func (s *session) handshakeFailed(err error) {
	if err == io.EOF || s.dead.Load() {
		return
	}
	s.server.counters.shakesFailed.Add(1)
	s.server.failedHandshakes.tell(s.server.log, slog.LevelInfo, time.Now(), "TLS handshake failed", "client", s.id, "addr", s.addr, "err", err)
	if wrong, ok := errors.AsType[tls.RecordHeaderError](err); ok && wrong.Conn != nil {
		s.conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		s.conn.Write(appendError(nil, "ERR Protocol error: this port speaks TLS, and this does not look like it"))
	}
}

// arriveLocked makes the session the last of the newcomers.
func (srv *Server) arriveLocked(s *session) {
	if s.arrival == nil {
		s.arrival = srv.newcomers.PushBack(s)
	}
}

// settle says that its client is no newcomer, or none any more.
func (srv *Server) settle(s *session) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.settleLocked(s)
}

func (srv *Server) settleLocked(s *session) {
	if s.arrival != nil {
		srv.newcomers.Remove(s.arrival)
		s.arrival = nil
	}
}

// makeRoomLocked takes away the newcomer that has been one for longest, and returns it for the caller to end. nil: there is none. It
// is the one that stays because it has nothing to say; who has comes to log in while MaxClients others arrive.
func (srv *Server) makeRoomLocked() *session {
	first := srv.newcomers.Front()
	if first == nil {
		return nil
	}
	s := first.Value.(*session)
	srv.settleLocked(s)
	delete(srv.sessions, s.id)
	return s
}
