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
func cmdHELLO(s *session, c *call) {
	var (
		proto              = s.proto
		name               []byte
		setName, logIn     bool
		username, password []byte
	)
	if len(c.args) > 1 {
		version, ok := resp.ParseInt(c.args[1])
		if !ok {
			c.failf("ERR Protocol version is not an integer or out of range")
			return
		}
		if version != 2 && version != 3 {
			c.failf("NOPROTO unsupported protocol version")
			return
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
				c.fail(reason)
				return
			}
			i++
		default:
			c.failf("ERR Syntax error in HELLO option '%s'", c.args[i])
			return
		}
	}

	if logIn {
		if !s.logIn(c, username, password) {
			return
		}
	}
	if !s.authenticated() {
		c.failf("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> " +
			"option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
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
	c.reply(fields{"server", "redis", "version", redisVersion, "proto", proto, "id", s.conn.id,
		"mode", "standalone", "role", "master", "modules", array{}})
}

// cmdAUTH is AUTH [name] password. Where no users are configured, a password alone is an error in
// Redis's words, because it is a mistake of the configuration. With the name "default" it succeeds, see
// logIn.
func cmdAUTH(s *session, c *call) {
	username, password := []byte(defaultUser), c.args[len(c.args)-1]
	switch {
	case len(c.args) > 3:
		c.fail(errSyntax)
		return
	case len(c.args) == 3:
		username = c.args[1]
	case len(s.server.live().Users) == 0:
		c.failf("ERR AUTH <password> called without any password configured for the default user. " +
			"Are you sure your configuration is correct?")
		return
	}
	if s.logIn(c, username, password) {
		c.ok()
	}
}

// logIn makes the session that of the user with this name and password, or answers with an error and
// returns false. A login that fails leaves the session as it was. Where no users are configured anybody
// is the default user, with any password, as in a Redis without one. Called by the reader goroutine,
// which it may keep for loginWaitMax.
//
// An answer "wrong password" comes late and blocks the commands behind it: a client cannot try the next
// password meanwhile.
func (s *session) logIn(c *call, name, password []byte) bool {
	srv := s.server
	if len(srv.live().Users) == 0 {
		if string(name) != defaultUser {
			c.fail(errWrongPass)
			return false
		}
		return true
	}
	if wait := srv.logins.before(s.conn.origin, time.Now()); wait > 0 && !s.conn.pause(wait) {
		c.fail(errGone)
		return false
	}
	found := srv.live().accountOf(name, password) // those of now: the pause may have been long
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
		return false
	}
	if found != s.account() {
		if refusal := found.enter(); refusal != nil {
			srv.refusedConnection(s.conn, found.user())
			c.fail(refusal)
			return false
		}
		if refusal := srv.authenticated(s.conn, found.user()); refusal != nil {
			found.leave()
			c.fail(refusal)
			s.conn.closeAfterReply = true
			return false
		}
		s.endHold()
		s.conn.mu.Lock()
		s.becomeLocked(found)
		s.endSubscriptionsLocked(c)
		s.conn.mu.Unlock()
		// A reload may have changed the user since it was found. It closes the connections that it sees on
		// the old account, but may have looked at this one before.
		if !srv.live().knows(found) {
			c.fail(errWrongPass)
			s.conn.closeAfterReply = true
			return false
		}
	}
	s.conn.releaseCPU()
	return true
}

// cmdQUIT has the connection closed once all replies before OK, and OK itself, are sent. Locks that the
// client holds stay; those under HOLD end with their TTLs, or are released.
func cmdQUIT(s *session, c *call) {
	s.conn.closeAfterReply = true
	s.conn.noteClosedByClient()
	c.ok()
}

// cmdRESET takes the session back to what it was when the client connected: RESP2, no user, no name, no
// subscription, no transaction. Locks stay, as they belong to tokens and not to connections; those under
// HOLD are renewed no more, and end with their TTLs. Where users are configured, the connection is preauth
// again, unless its certificate is that of a user. libName and libVer stay, as in Redis.
func cmdRESET(s *session, c *call) {
	s.endHold()
	s.conn.mu.Lock()
	s.proto = 2
	first := s.server.anonymous
	if own := s.server.live().accountOfCN(commonName(s.conn.net)); own != nil && (own == s.account() || own.enter() == nil) {
		first = own
	} else if s.account() != first {
		first.enter()
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
}
