package proxy

import (
	"slices"
	"strconv"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock/resp"
)

// CLIENT LIST, CLIENT INFO and CLIENT KILL: what one client may see of the others, and do to them. LIST
// and KILL are flagAdmin, because they show addresses and end the waits of others; INFO shows the
// caller alone.
//
// A handler reads the fields of another session only with that connection's mu held, and takes one mu
// at a time: two clients that list each other would otherwise wait for ever.

// clientType names the type of a client as CLIENT LIST TYPE and CLIENT KILL TYPE do, or returns "" for
// a word that is none. Master and replica are known because tools filter by them, but no client here
// ever is one.
func clientType(arg []byte) string {
	return keyword(arg, "normal", "pubsub", "master", "replica", "slave")
}

// typeLocked is the type of this client: pubsub as long as it has a subscription.
func (s *session) typeLocked() string {
	if s.subscriptions.count() > 0 {
		return "pubsub"
	}
	return "normal"
}

// isOfType is for any goroutine that does not hold the connection's mu.
func (s *session) isOfType(kind string) bool {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.typeLocked() == kind
}

// cmdCLIENTINFO is CLIENT INFO: the caller's own line of CLIENT LIST.
func cmdCLIENTINFO(s *session, c *call) error {
	c.out = resp.AppendVerbatim(c.out, c.proto, "txt", string(s.appendInfo(nil)))
	return nil
}

// cmdCLIENTLIST is CLIENT LIST [TYPE type | ID id …]. Ids of clients that are not there are passed
// over, as in Redis. Clients come and go meanwhile: each line is true for a moment, the list as a whole
// need not be.
func cmdCLIENTLIST(s *session, c *call) error {
	var listed []*connection
	switch { // one filter at a time, as in Redis 7.2
	case len(c.args) == 2:
		listed = s.server.clients()
	case len(c.args) == 4 && equalFold(c.args[2], "TYPE"):
		kind := clientType(c.args[3])
		if kind == "" {
			return errorf("ERR Unknown client type '%s'", c.args[3])
		}
		listed = slices.DeleteFunc(s.server.clients(), func(conn *connection) bool { return !conn.session.isOfType(kind) })
	case len(c.args) > 3 && equalFold(c.args[2], "ID"):
		for _, arg := range c.args[3:] {
			id, ok := resp.ParseInt(arg)
			if !ok {
				return errorf("ERR Invalid client ID")
			}
			if other := s.server.client(id); other != nil {
				listed = append(listed, other)
			}
		}
	default:
		return errSyntax
	}
	var lines []byte
	for _, conn := range listed {
		lines = conn.session.appendInfo(lines)
	}
	c.out = resp.AppendVerbatim(c.out, c.proto, "txt", string(lines))
	return nil
}

// cmdCLIENTKILL has two forms. CLIENT KILL ip:port answers OK or that there is no such client, and may
// close the caller. CLIENT KILL option value … answers how many were closed, and spares the caller
// unless SKIPME NO.
//
// A killed client is treated as one that has left: its wait ends, and a lock whose grant it has not got
// is released. A lock that it has goes on until its TTL ends.
func cmdCLIENTKILL(s *session, c *call) error {
	// The old form is the new one with ADDR, which does not spare the caller.
	options := c.args[2:]
	oldForm := len(options) == 1
	if oldForm {
		options = [][]byte{[]byte("ADDR"), options[0], []byte("SKIPME"), []byte("NO")}
	}
	conditions, err := s.killConditions(options)
	if err != nil {
		return err
	}
	killed := 0
	for _, conn := range s.server.clients() {
		// The conditions read fields of other sessions. close takes mu itself, so mu is free again before it.
		conn.mu.Lock()
		chosen := true
		for _, holds := range conditions {
			chosen = chosen && holds(conn.session)
		}
		conn.mu.Unlock()
		switch {
		case !chosen:
			continue
		case conn == s.conn: // the caller gets its reply first
			conn.closeAfterReply = true
		default:
			conn.close("killed")
		}
		killed++
	}
	switch {
	case !oldForm:
		return c.reply(killed)
	case killed == 0:
		return errorf("ERR No such client")
	default:
		return c.ok()
	}
}

// killConditions reads pairs of option and value, and returns one condition for each option. A client
// is closed if all conditions hold. They are called with the client's mu held. An option that comes
// again replaces the earlier one, as in Redis. SKIPME is a condition also when it is not given, because
// it is on by default.
func (s *session) killConditions(args [][]byte) (map[string]func(*session) bool, error) {
	conditions := map[string]func(*session) bool{"SKIPME": func(other *session) bool { return other != s }}
	for ; len(args) > 0; args = args[2:] {
		if len(args) < 2 {
			return nil, errSyntax
		}
		value := string(args[1])
		// To add an option: a word here, a case, and its place in the row of CLIENT KILL (commands.go).
		// MAXAGE is Redis 7.4's.
		switch option := keyword(args[0], "ID", "TYPE", "ADDR", "LADDR", "USER", "SKIPME"); option {
		case "ID":
			id, ok := resp.ParseInt(value)
			if !ok || id < 1 {
				return nil, replyError("ERR client-id should be greater than 0")
			}
			conditions[option] = func(other *session) bool { return other.conn.id == id }
		case "TYPE":
			kind := clientType(args[1])
			if kind == "" {
				return nil, errorf("ERR Unknown client type '%s'", value)
			}
			conditions[option] = func(other *session) bool { return other.typeLocked() == kind }
		case "ADDR":
			// addr and laddr never change, and are compared as CLIENT LIST shows them.
			conditions[option] = func(other *session) bool { return other.conn.addr == value }
		case "LADDR":
			conditions[option] = func(other *session) bool { return other.conn.laddr == value }
		case "USER":
			if !s.server.hasUser(value) {
				return nil, errorf("ERR No such user '%s'", value)
			}
			conditions[option] = func(other *session) bool { return other.username() == value }
		case "SKIPME":
			skip := equalFold(value, "YES")
			if !skip && !equalFold(value, "NO") {
				return nil, errSyntax
			}
			conditions[option] = func(other *session) bool { return !skip || other != s }
		default:
			return nil, errSyntax
		}
	}
	return conditions, nil
}

// hasUser reports whether a user has this name. The default user always exists, as in Redis, if only
// for clients that have not logged in.
func (srv *Server) hasUser(name string) bool {
	return name == defaultUser || slices.ContainsFunc(srv.live().Users, func(u access.User) bool { return u.Name == name })
}

// appendInfo appends the line of CLIENT LIST: the fields of Redis 7.2, in its order, because tools
// split it at spaces and look for names. What has no meaning here has the value that it has in an idle
// Redis. May be called from any goroutine that holds no connection's mu.
//
// To add a field: append it behind lib-ver, where Redis adds its own. Its value must be one word.
func (s *session) appendInfo(line []byte) []byte {
	lastCommand := "NULL" // Redis's word for a client that has sent none
	if cmd := s.lastCommand.Load(); cmd != nil {
		lastCommand = cmd.fullName()
	}
	bound := s.bound()
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
	field("fd", "-1") // Go's runtime owns the descriptor: the number would be of no use
	field("name", s.name)
	field("age", seconds(time.Since(s.conn.created)))
	field("idle", seconds(s.conn.idle()))
	field("flags", s.flagsLocked())
	field("db", "0")
	field("sub", strconv.Itoa(len(s.subscriptions.names[toChannel])))
	field("psub", strconv.Itoa(len(s.subscriptions.names[toPattern])))
	field("ssub", "0")
	field("multi", "-1")
	// Redis's buffers that have no counterpart here. What waits for the client is omem, what it takes
	// in all tot-mem.
	for _, name := range []string{"qbuf", "qbuf-free", "argv-mem", "multi-mem", "rbs", "rbp", "obl", "oll"} {
		field(name, "0")
	}
	field("omem", strconv.Itoa(s.conn.unsentLocked()))
	field("tot-mem", strconv.Itoa(s.conn.memoryLocked()))
	field("events", "r")
	field("cmd", lastCommand)
	field("user", s.username())
	field("redir", strconv.FormatInt(s.redirectID(), 10))
	field("resp", strconv.Itoa(s.proto))
	field("lib-name", s.libName)
	field("lib-ver", s.libVer)
	if bound > 0 { // no field of Redis's
		field("bound", strconv.Itoa(bound))
	}
	return append(line, '\n')
}

// flagsLocked are the letters of Redis that mean something here: P subscribed, b blocked by a command
// that waits, t tracking, U on a unix socket, and N for none of these.
func (s *session) flagsLocked() string {
	var flags []byte
	if s.typeLocked() == "pubsub" {
		flags = append(flags, 'P')
	}
	// Also while WATCH or a write takes its rounds: not all behind it is executed, which is what an
	// operator looks for.
	if s.conn.order.waits() {
		flags = append(flags, 'b')
	}
	if s.redirectID() >= 0 {
		flags = append(flags, 't')
	}
	if s.conn.net.LocalAddr().Network() == "unix" {
		flags = append(flags, 'U')
	}
	if len(flags) == 0 {
		return "N"
	}
	return string(flags)
}

// seconds are whole seconds, rounded down, as Redis shows an age. INFO uses it too. A negative duration
// is 0.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(max(d, 0)/time.Second), 10)
}
