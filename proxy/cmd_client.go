package proxy

import (
	"redlockd/redlock/resp"
)

// The subcommands of CLIENT about the caller's own connection, and those that libraries send when they
// connect. The ones about other clients are in cmd_client_list.go.
//
// A subcommand that asks for less than it means here is accepted without effect (NO-EVICT, NO-TOUCH).
// One whose effect a client would count on is refused (PAUSE). Those about tracking are in
// cmd_tracking.go.

// clientTextMax bounds, in bytes, each text that a client may choose and CLIENT LIST shows.
const clientTextMax = 1024

// cmdCLIENTID answers the number of the connection, which no other one of this server ever has.
func cmdCLIENTID(s *session, c *call) error { return c.reply(s.conn.id) }

// cmdCLIENTGETNAME answers null for a connection without a name, in RESP2 too.
func cmdCLIENTGETNAME(s *session, c *call) error {
	return c.reply(orNull(s.name))
}

// cmdCLIENTSETNAME names the connection. An empty name takes the name away.
func cmdCLIENTSETNAME(s *session, c *call) error {
	if refusal := checkWord("Client names", c.args[2]); refusal != nil {
		return refusal
	}
	s.conn.mu.Lock()
	s.setNameLocked(string(c.args[2]))
	s.conn.mu.Unlock()
	return c.ok()
}

// setNameLocked names the connection. Locks that it has keep the name under which they were taken.
func (s *session) setNameLocked(name string) {
	s.name = name
	s.caller.Store(nil)
}

// checkWord returns the error for a text that CLIENT LIST could not show in one word, and nil for a
// good one, the empty one among them. what is how Redis names the text.
func checkWord(what string, text []byte) error {
	switch {
	case len(text) > clientTextMax:
		return errorf("ERR %s cannot be longer than %d bytes.", what, clientTextMax)
	case !isOneWord(text):
		return errorf("ERR %s cannot contain spaces, newlines or special characters.", what)
	}
	return nil
}

// cmdCLIENTSETINFO is CLIENT SETINFO LIB-NAME name | LIB-VER version, which libraries send when they
// connect. CLIENT LIST shows both; nothing depends on them.
func cmdCLIENTSETINFO(s *session, c *call) error {
	option, value := c.args[2], c.args[3]
	var field *string
	switch {
	case equalFold(option, "LIB-NAME"):
		field = &s.libName
	case equalFold(option, "LIB-VER"):
		field = &s.libVer
	default:
		return errorf("ERR Unrecognized option '%s'", option)
	}
	if refusal := checkWord(string(option), value); refusal != nil {
		return refusal
	}
	s.conn.mu.Lock() // CLIENT LIST of others reads it
	*field = string(value)
	s.conn.mu.Unlock()
	return c.ok()
}

// cmdCLIENTREPLY is CLIENT REPLY ON | OFF | SKIP. It is itself answered only when it turns replies on.
// SKIP behind OFF changes nothing, as in Redis.
func cmdCLIENTREPLY(s *session, c *call) error {
	switch mode := c.args[2]; {
	case equalFold(mode, "ON"):
		s.replyMode = replyOn
		return c.ok()
	case equalFold(mode, "OFF"):
		s.replyMode = replyOff
	case equalFold(mode, "SKIP"):
		if s.replyMode != replyOff {
			s.replyMode = replySkipNext
		}
	default:
		return errSyntax
	}
	return nil
}

// cmdCLIENTUNBLOCK is CLIENT UNBLOCK id [TIMEOUT | ERROR]. The LOCK that waits is answered as if its
// WAIT had run out, or with UNBLOCKED. It answers 1, or 0 if that client does not wait. The waiting
// client is answered once: if the lock is granted in the same moment, one of the two wins, and the
// reply here says which.
func cmdCLIENTUNBLOCK(s *session, c *call) error {
	var reason error // as if WAIT had run out
	if len(c.args) > 4 {
		return wrongSubcommandArity(c.args)
	}
	if len(c.args) == 4 {
		switch mode := c.args[3]; {
		case equalFold(mode, "TIMEOUT"):
		case equalFold(mode, "ERROR"):
			reason = errUnblocked
		default:
			return errorf("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
		}
	}
	id, ok := resp.ParseInt(c.args[2])
	if !ok {
		return errNotInteger
	}
	// A client that has left, and one that waits for a reply but not for a lock, both count as not
	// waiting.
	other := s.server.client(id)
	return c.reply(other != nil && other.unblock(reason))
}

// cmdCLIENTNOEVICT is CLIENT NO-EVICT and NO-TOUCH. Both are accepted and do nothing, because libraries
// send them when they connect.
func cmdCLIENTNOEVICT(_ *session, c *call) error {
	if !equalFold(c.args[2], "ON") && !equalFold(c.args[2], "OFF") {
		return errSyntax
	}
	return c.ok()
}
