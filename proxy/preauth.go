package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock/resp"
)

// A connection is preauth while its TLS handshake is under way, or while users are configured and it
// has not logged in. Anybody can open as many of these as they like, so they must cost clients that
// have authenticated nothing:
//
//   - Memory: little of their input and output is kept (preauthLimits, preauthOutputMax,
//     preauthReadMax).
//   - CPU: they compute on half of the processors, in rotation over their addresses (semaphore).
//   - Connections: at MaxClients and adminPlaces, the oldest preauth connection is closed for a new one
//     (evictPreauthLocked).
const (
	// preauthOutputMax is outputMax for preauth connections.
	preauthOutputMax = 16 << 10
	// preauthReadMax bounds what the TLS library may read before it returns something: a handshake, or
	// after it one record of 16 KB and some bytes. The library keeps about twice that, because it joins
	// messages; left alone it would read a ClientHello of 64 KB and certificates of 256 KB. A real
	// ClientHello has at most 2 KB, a certificate chain some more.
	preauthReadMax = 17 << 10
)

// preauthLimits bound the commands of a preauth connection. Redis allows it as many arguments, but of
// 16 KB each; redlockd gives that much memory to nobody whom it does not know.
var preauthLimits = resp.Limits{Args: 10, Bulk: access.LoginMax, Command: 6 << 10, BeforeAuth: true}

// acquireCPU takes a place of server.cpu, or none if the connection is closed meanwhile. Called by the
// reader goroutine.
func (conn *connection) acquireCPU() {
	group := semaphoreGroup{origin: conn.origin, again: conn.hadCPU}
	if t := conn.tlsTransport; conn.session.authenticated() && (t == nil || t.deadline.IsZero()) { // no handshake is under way
		group = semaphoreGroup{alone: conn.id}
	}
	if w := conn.server.cpu.enter(group); w != nil {
		conn.mu.Lock()
		conn.cpuWait = w
		closed := conn.closed.Load()
		conn.mu.Unlock()
		if closed {
			conn.server.cpu.cancel(w)
		}
		if <-w.done; !w.has {
			return
		}
	}
	conn.hasCPU, conn.hadCPU = true, true
}

// releaseCPU gives the place back, if the connection holds one. Called by the reader goroutine.
func (conn *connection) releaseCPU() {
	if conn.hasCPU {
		conn.hasCPU = false
		conn.server.cpu.release()
	}
}

// withoutCPU gives the place back, if the connection holds one, until the function that it returns is
// called. Called by the reader goroutine.
func withoutCPU(conn *connection) (again func()) {
	if !conn.hasCPU {
		return func() {}
	}
	conn.releaseCPU()
	return conn.acquireCPU
}

// tlsTransport is the connection below TLS. It bounds what is read before the login, and makes the
// handshake wait for its CPU place. The TLS library reads and writes through it, so this is the one
// place where a handshake can be held up.
//
// left is the reader goroutine's. deadline is set by it before the connection is written by others.
type tlsTransport struct {
	net.Conn
	conn     *connection
	left     int       // bytes that may still be read; the last read may go beyond it
	deadline time.Time // of the handshake; zero once that is over
}

// errPreauthReadMax closes the connection.
var errPreauthReadMax = errors.New("too many bytes before the login")

// Read gives the CPU place back while it waits, so that a client that sends nothing holds none.
func (t *tlsTransport) Read(b []byte) (int, error) {
	if t.left <= 0 {
		return 0, errPreauthReadMax
	}
	t.conn.releaseCPU()
	n, err := t.Conn.Read(b)
	if t.left -= n; !t.deadline.IsZero() {
		t.conn.server.countIn(t.conn)
	}
	return n, t.resume(err)
}

// Write is called by the reader goroutine during the handshake, and by any goroutine after it.
func (t *tlsTransport) Write(b []byte) (int, error) {
	if t.deadline.IsZero() {
		return t.Conn.Write(b) // any goroutine may
	}
	t.conn.releaseCPU()
	n, err := t.Conn.Write(b)
	return n, t.resume(err)
}

// resume takes a CPU place again after a read or write of the handshake, before the TLS library
// computes on.
func (t *tlsTransport) resume(err error) error {
	if err != nil || t.deadline.IsZero() {
		return err
	}
	t.conn.acquireCPU()
	// The place may have come late.
	if time.Now().After(t.deadline) {
		return os.ErrDeadlineExceeded
	}
	if t.conn.closed.Load() {
		return errClosed
	}
	return nil
}

// handshakeCopies is how often the TLS library keeps what it reads of a handshake, about: the record, the
// messages that are joined of records, and room to grow.
const handshakeCopies = 3

// kept is what the TLS library keeps of the handshake that is under way; t may be nil.
func (t *tlsTransport) kept() int {
	if t == nil || t.deadline.IsZero() {
		return 0
	}
	return handshakeCopies * (preauthReadMax - t.left)
}

// handshake does the TLS handshake, within handshakeTimeout in all: the waits for CPU places count.
func (conn *connection) handshake(config *tls.Config) (*tls.Conn, error) {
	deadline := time.Now().Add(conn.server.bounds.handshakeTimeout)
	conn.tlsTransport = &tlsTransport{Conn: conn.net, conn: conn, left: preauthReadMax, deadline: deadline}
	conn.net.SetDeadline(deadline)
	t := tls.Server(conn.tlsTransport, config)
	err := t.Handshake()
	conn.releaseCPU()
	if err != nil {
		conn.handshakeFailed(err)
		return nil, err
	}
	conn.tlsTransport.deadline = time.Time{}
	conn.net.SetDeadline(time.Time{})
	conn.server.countIn(conn)
	return t, nil
}

// handshakeFailed counts and logs a failed handshake, unless the client closed at once, as port
// scanners and health checks do.
func (conn *connection) handshakeFailed(err error) {
	if err == io.EOF || conn.closed.Load() {
		return
	}
	conn.server.counters[countHandshakesFailed].Add(1)
	conn.server.failedHandshakes.Log(conn.server.log, slog.LevelInfo, time.Now(), "TLS handshake failed", "client", conn.id, "addr", conn.addr, "err", err)
	if wrong, ok := errors.AsType[tls.RecordHeaderError](err); ok && wrong.Conn != nil {
		conn.net.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		conn.net.Write(appendError(nil, replyError("ERR Protocol error: this port speaks TLS, and this does not look like it")))
	}
}

// addPreauthLocked makes the connection the newest of the preauth connections. Called with srv.mu held.
func (srv *Server) addPreauthLocked(conn *connection) {
	if conn.preauthElem == nil {
		conn.preauthElem = srv.preauth.PushBack(conn)
	}
}

// adminPlaces is how many connections more than MaxClients are accepted before they have authenticated.
// Only users who are administrators may stay in these places: someone must be able to look what takes
// all others. Where no users are configured everybody is an administrator, so nobody may.
const adminPlaces = 3

// authenticated takes the connection off the preauth connections, now that it is the user's, who is nil
// where no users are configured. Or it returns the error if as many have authenticated as may.
func (srv *Server) authenticated(conn *connection, u *access.User) (refusal error) {
	most := srv.live().MaxClients
	if u != nil && u.MayForce() {
		most += adminPlaces
	}
	srv.mu.Lock()
	if conn.preauthElem == nil || len(srv.connections)-srv.preauth.Len() < most {
		srv.removePreauthLocked(conn)
		srv.mu.Unlock()
		return nil
	}
	srv.mu.Unlock()
	srv.refused(conn.addr, "all others have logged in")
	return errMaxClients
}

// removePreauthLocked does nothing if the connection has authenticated, or was evicted. Called with
// srv.mu held.
func (srv *Server) removePreauthLocked(conn *connection) {
	if conn.preauthElem != nil {
		srv.preauth.Remove(conn.preauthElem)
		conn.preauthElem = nil
	}
}

// evictPreauthLocked forgets the oldest preauth connection and returns it, so that the caller closes
// it. nil: there is none. Evicting the oldest is safe: an honest client logs in long before MaxClients
// others have connected.
func (srv *Server) evictPreauthLocked() *connection {
	first := srv.preauth.Front()
	if first == nil {
		return nil
	}
	conn := first.Value.(*connection)
	srv.removePreauthLocked(conn)
	delete(srv.connections, conn.id)
	return conn
}
