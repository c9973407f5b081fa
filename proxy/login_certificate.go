package proxy

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/asn1"
	"log/slog"
	"net"
	"time"

	"redlockd/proxy/access"
)

// commonName is the CN of the client's certificate, if the server's authorities have signed it; else
// "". A certificate that has several CNs has none here: its authority may have looked at one of them, and
// the login would be that of another one.
func commonName(c net.Conn) string {
	t, ok := c.(*tls.Conn)
	if !ok {
		return ""
	}
	chains := t.ConnectionState().VerifiedChains
	if len(chains) == 0 {
		return ""
	}
	subject := &chains[0][0].Subject
	if countNames(subject) > 1 {
		return ""
	}
	return subject.CommonName
}

// countNames is how many CNs a subject has.
func countNames(subject *pkix.Name) (n int) {
	for i := range subject.Names {
		if subject.Names[i].Type.Equal(oidCommonName) {
			n++
		}
	}
	return n
}

// oidCommonName is the type of a CN.
var oidCommonName = asn1.ObjectIdentifier{2, 5, 4, 3}

// logInByCertificate makes the session that of the user whom the client's certificate names. Without
// one it does nothing: the client can still log in with a password. If the user has as many connections
// as it may, the client gets the error and is to be closed. Called by the reader goroutine after the
// handshake.
func (conn *connection) logInByCertificate(t *tls.Conn) error {
	srv, s := conn.server, conn.session
	a := srv.live().accountOfCN(commonName(t))
	if a == nil {
		return nil
	}
	if refusal := srv.live().enter(a); refusal != nil {
		srv.refusedConnection(conn, a.user())
		t.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		t.Write(appendError(nil, refusal))
		return refusal
	}
	conn.mu.Lock()
	s.becomeLocked(a)
	conn.mu.Unlock()
	if !srv.live().knows(a) { // a reload has come meanwhile, see logIn
		return errClosed
	}
	return nil
}

// refusedConnection logs that a user has as many connections as it may.
func (srv *Server) refusedConnection(conn *connection, u *access.User) {
	srv.refusedClients.Log(srv.log, slog.LevelWarn, time.Now(), "client refused",
		"addr", conn.addr, "user", u.Name, "max_connections", u.MaxConnections,
		"to_do", "have the services of this user share connections, or raise its max_connections")
}
