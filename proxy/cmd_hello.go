package proxy

import (
	"log/slog"
	"time"

	"redlockd/redlock/resp"
)

// HELLO, AUTH, RESET and QUIT: the protocol version of a session, and whose it is.
//
// These commands run for clients that nobody knows. What they may cost is bounded elsewhere: preauth.go
// (memory, processors, connections), login.go (passwords per second). Users are configured; nothing
// here can make or change one.

// errWrongPass has Redis's words. It is the same for a wrong name and a wrong password.
const errWrongPass replyError = "WRONGPASS invalid username-password pair or user is disabled."

// cmdHELLO is HELLO [version [AUTH name password] [SETNAME name]]. If any part is wrong, it changes
// nothing: all options are read before the first takes effect, and the login is the last step that can
// fail. Without a version the present one stays.
func cmdHELLO(s *session, c *call) error {
	var (
		proto              = s.proto
		name               []byte
		setName, logIn     bool
		username, password []byte
	)
	if len(c.args) > 1 {
		version, ok := resp.ParseInt(c.args[1])
		if !ok {
			return errorf("ERR Protocol version is not an integer or out of range")
		}
		if version != 2 && version != 3 {
			return errorf("NOPROTO unsupported protocol version")
		}
		proto = int(version)
	}
	for i := 2; i < len(c.args); i++ {
		switch more := len(c.args) - 1 - i; {
		case more >= 2 && equalFold(c.args[i], "AUTH"):
			logIn, username, password = true, c.args[i+1], c.args[i+2]
			i += 2
		case more >= 1 && equalFold(c.args[i], "SETNAME"):
			setName, name = true, c.args[i+1]
			if reason := checkWord("Client names", name); reason != nil {
				return reason
			}
			i++
		default:
			return errorf("ERR Syntax error in HELLO option '%s'", c.args[i])
		}
	}

	if logIn {
		if done, refusal := s.logIn(c, username, password); !done {
			return refusal
		}
	}
	if !s.authenticated() {
		return errorf("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> " +
			"option can be used to authenticate the client and select the RESP protocol version at the same time")
	}

	s.conn.mu.Lock() // others read both: CLIENT LIST, and push for the form of a message
	if setName {
		s.setNameLocked(string(name))
	}
	s.proto = proto
	s.conn.mu.Unlock()

	// The reply has the fields of Redis's. It is the first in the new version: clients read it with the
	// new parser.
	c.proto = proto
	return c.reply(fields{"server", "redis", "version", redisVersion, "proto", proto, "id", s.conn.id,
		"mode", "standalone", "role", "master", "modules", array{}})
}

// cmdAUTH is AUTH [name] password. Where no users are configured, a password alone is an error in
// Redis's words, because it is a mistake of the configuration. With the name "default" it succeeds, see
// logIn.
func cmdAUTH(s *session, c *call) error {
	username, password := []byte(defaultUser), c.args[len(c.args)-1]
	switch {
	case len(c.args) > 3:
		return errSyntax
	case len(c.args) == 3:
		username = c.args[1]
	case len(s.server.live().Users) == 0:
		return errorf("ERR AUTH <password> called without any password configured for the default user. " +
			"Are you sure your configuration is correct?")
	}
	done, refusal := s.logIn(c, username, password)
	if done {
		return c.ok()
	}
	return refusal
}

// logIn makes the session that of the user with this name and password. A login that fails leaves the
// session as it was. Where no users are configured anybody is the default user, with any password, as
// in a Redis without one. Called by the reader goroutine.
//
// Neither done nor refused: the call is answered. An answer "wrong password" comes late and blocks the
// commands behind it: a connection cannot try the next password meanwhile (logins).
func (s *session) logIn(c *call, name, password []byte) (done bool, refusal error) {
	srv := s.server
	if len(srv.live().Users) == 0 {
		if string(name) != defaultUser {
			return false, errWrongPass
		}
		return true, nil
	}
	found := srv.live().accountOf(name, password)
	// A failed login keeps its slot until the pause is over. The reader goes on reading, so that a
	// client that leaves is noticed.
	if found == nil {
		srv.counters[countLoginsFailed].Add(1)
		// Never the password. The name is whatever the client sent.
		srv.failedLogins.Log(srv.log, slog.LevelWarn, time.Now(),
			"a client could not log in", "client", s.conn.addr, "user", string(name[:min(len(name), failedLoginName)]),
			"to_do", "compare the password of this client with [auth]; if nobody knows the client, keep it from the port")
		s.auditLogin(name, c.cmd.fullName())
		sl := new(slot)
		c.takeBlockingSlot(sl)
		time.AfterFunc(srv.logins.failed(s.conn.origin, time.Now()), func() { flush(sl.fail(errWrongPass)) })
		return false, nil
	}
	if found != s.account() {
		if refusal := srv.live().enter(found); refusal != nil {
			srv.refusedConnection(s.conn, found.user())
			return false, refusal
		}
		if refusal := srv.authenticated(s.conn, found.user()); refusal != nil {
			found.leave()
			s.conn.closeAfterReply = true
			return false, refusal
		}
		s.endHold()
		s.conn.mu.Lock()
		s.becomeLocked(found)
		s.endSubscriptionsLocked(c)
		s.conn.mu.Unlock()
		// A reload may have changed the user since it was found. It closes the connections that it sees on
		// the old account, but may have looked at this one before.
		if !srv.live().knows(found) {
			s.conn.closeAfterReply = true
			return false, errWrongPass
		}
	}
	s.conn.releaseCPU()
	return true, nil
}

// cmdQUIT has the connection closed once all replies before OK, and OK itself, are sent. Locks that the
// client holds stay; those under HOLD end with their TTLs, or are released.
func cmdQUIT(s *session, c *call) error {
	s.conn.closeAfterReply = true
	s.conn.noteClosedByClient()
	return c.ok()
}

// cmdRESET takes the session back to what it was when the client connected: RESP2, no user, no name, no
// subscription, no transaction. Locks stay, as they belong to tokens and not to connections; those
// under HOLD are renewed no more, and end with their TTLs. Where users are configured, the connection
// is preauth again, unless its certificate is that of a user. libName and libVer stay, as in Redis.
func cmdRESET(s *session, c *call) error {
	s.endHold()
	s.conn.mu.Lock()
	s.proto = 2
	first := s.server.anonymous
	if own := s.server.live().accountOfCN(commonName(s.conn.net)); own != nil && (own == s.account() || s.server.live().enter(own) == nil) {
		first = own
	} else if s.account() != first {
		s.server.live().enter(first)
	}
	if s.account() != first {
		s.becomeLocked(first)
	}
	s.setNameLocked("")
	s.server.subscribers.forgetLocked(s)
	s.subscriptions = subscriptions{}
	s.conn.mu.Unlock()
	s.server.tracking.forget(s)
	s.caching = false
	s.replyMode = replyOn
	s.transaction = transaction{}
	if !s.authenticated() {
		s.server.mu.Lock()
		s.server.addPreauthLocked(s.conn)
		s.server.mu.Unlock()
	}
	c.out = resp.AppendStatus(c.out, "RESET")
	return nil
}
