package proxy

import (
	"strconv"
	"time"

	"redlockd/redlock/resp"
)

// clientType is how CLIENT LIST TYPE and CLIENT KILL TYPE sort clients.
type clientType uint8

const (
	clientNormal clientType = iota
	clientPubSub
	clientReplication // "master", "replica" and "slave": never seen here
)

func parseClientType(arg []byte) (kind clientType, ok bool) {
	switch {
	case equalFold(arg, "normal"):
		return clientNormal, true
	case equalFold(arg, "pubsub"):
		return clientPubSub, true
	case equalFold(arg, "master"), equalFold(arg, "replica"), equalFold(arg, "slave"):
		return clientReplication, true
	}
	return 0, false
}

func (s *session) typeLocked() clientType {
	if s.subscriptions.count() > 0 {
		return clientPubSub
	}
	return clientNormal
}

func cmdCLIENTINFO(s *session, c *call) {
	c.out = resp.AppendVerbatim(c.out, c.proto, "txt", string(s.appendInfo(nil)))
}

func cmdCLIENTLIST(s *session, c *call) {
	var lines []byte
	switch {
	case len(c.args) == 2:
		for _, conn := range s.server.clients() {
			lines = conn.session.appendInfo(lines)
		}

	case len(c.args) == 4 && equalFold(c.args[2], "TYPE"):
		kind, ok := parseClientType(c.args[3])
		if !ok {
			c.failf("ERR Unknown client type '%s'", c.args[3])
			return
		}
		for _, conn := range s.server.clients() {
			other := conn.session
			if other.isOfType(kind) {
				lines = other.appendInfo(lines)
			}
		}

	case len(c.args) > 3 && equalFold(c.args[2], "ID"):
		for _, arg := range c.args[3:] {
			id, ok := parseInteger(arg)
			if !ok {
				c.failf("ERR Invalid client ID")
				return
			}
			if other := s.server.client(id); other != nil {
				lines = other.session.appendInfo(lines)
			}
		}

	default:
		c.fail(errSyntax)
		return
	}
	c.out = resp.AppendVerbatim(c.out, c.proto, "txt", string(lines))
}

func (s *session) isOfType(kind clientType) bool {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.typeLocked() == kind
}

// appendInfo appends the line of CLIENT LIST: the fields of Redis 7.2, in its order, because tools split it at spaces and
// look for names. What has no meaning here has the value that it has in an idle Redis. May be called from any
// goroutine.
func (s *session) appendInfo(line []byte) []byte {
	lastCommand := "NULL"
	if cmd := s.lastCommand.Load(); cmd != nil {
		lastCommand = cmd.fullName()
	}
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	field := func(name, value string) {
		if len(line) > 0 && line[len(line)-1] != '\n' {
			line = append(line, ' ')
		}
		line = append(append(append(line, name...), '='), value...)
	}
	field("id", strconv.FormatInt(s.conn.id, 10))
	field("addr", s.conn.addr)
	field("laddr", s.conn.laddr)
	field("fd", "-1")
	field("name", s.name)
	field("age", seconds(time.Since(s.conn.created)))
	field("idle", seconds(s.conn.idle()))
	field("flags", s.flagsLocked())
	field("db", "0")
	field("sub", strconv.Itoa(len(s.subscriptions.channels)))
	field("psub", strconv.Itoa(len(s.subscriptions.patterns)))
	field("ssub", "0")
	field("multi", "-1")
	for _, name := range []string{"qbuf", "qbuf-free", "argv-mem", "multi-mem", "rbs", "rbp", "obl", "oll"} {
		field(name, "0")
	}
	field("omem", strconv.Itoa(s.conn.unsentLocked()))
	field("tot-mem", strconv.Itoa(s.conn.memoryLocked()))
	field("events", "r")
	field("cmd", lastCommand)
	field("user", s.usernameLocked())
	field("redir", "-1")
	field("resp", strconv.Itoa(s.proto))
	field("lib-name", s.libName)
	field("lib-ver", s.libVer)
	return append(line, '\n')
}

// flagsLocked are the letters of Redis that mean something here: P subscribed, b waiting for a lock, U on a unix socket,
// and N for none of these.
func (s *session) flagsLocked() string {
	var flags []byte
	if s.typeLocked() == clientPubSub {
		flags = append(flags, 'P')
	}
	if s.conn.blocked.Load() {
		flags = append(flags, 'b')
	}
	if s.conn.net.LocalAddr().Network() == "unix" {
		flags = append(flags, 'U')
	}
	if len(flags) == 0 {
		return "N"
	}
	return string(flags)
}

// seconds are whole seconds, rounded down, as Redis shows an age.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(max(d, 0)/time.Second), 10)
}
