package proxy

import "redlockd/redlock/resp"

// clientFilter chooses the clients that CLIENT KILL closes. A nil field is no condition.
type clientFilter struct {
	addr, laddr, user *string
	id                *int64
	kind              *clientType
	skipMe            bool
}

func (f *clientFilter) matches(s *session, me bool) bool {
	if me && f.skipMe {
		return false
	}
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return allows(f.addr, s.conn.addr) && allows(f.laddr, s.conn.laddr) && allows(f.user, s.usernameLocked()) &&
		allows(f.id, s.conn.id) && allows(f.kind, s.typeLocked())
}

// allows tells whether a condition, if there is one, holds.
func allows[T comparable](want *T, got T) bool { return want == nil || *want == got }

// cmdCLIENTKILL has two forms: CLIENT KILL ip:port answers OK or that there is no such client, and may hit the caller;
// CLIENT KILL option value … answers how many were closed, and spares the caller unless SKIPME NO.
func cmdCLIENTKILL(s *session, c *call) {
	var filter clientFilter
	oldForm := len(c.args) == 3
	if oldForm {
		filter.addr = new(string(c.args[2]))
	} else {
		var reason error
		if filter, reason = s.parseClientFilter(c.args[2:]); reason != nil {
			c.fail(reason)
			return
		}
	}

	killed := 0
	for _, conn := range s.server.clients() {
		other := conn.session
		if !filter.matches(other, other == s) {
			continue
		}
		killed++
		if other == s {
			s.conn.closeAfterReply = true
		} else {
			other.conn.close("killed")
		}
	}
	switch {
	case !oldForm:
		c.out = resp.AppendInt(c.out, int64(killed))
	case killed == 0:
		c.failf("ERR No such client")
	default:
		c.ok()
	}
}

// parseClientFilter reads pairs of option and value. The reason is "" when all is well, else the error to answer.
func (s *session) parseClientFilter(args [][]byte) (filter clientFilter, reason error) {
	filter.skipMe = true
	for ; len(args) > 0; args = args[2:] {
		if len(args) < 2 {
			return filter, errSyntax
		}
		switch option, value := args[0], args[1]; {
		case equalFold(option, "ID"):
			id, ok := parseInteger(value)
			if !ok || id < 1 {
				return filter, replyError("ERR client-id should be greater than 0")
			}
			filter.id = &id
		case equalFold(option, "TYPE"):
			kind, ok := parseClientType(value)
			if !ok {
				return filter, errorf("ERR Unknown client type '%s'", value)
			}
			filter.kind = &kind
		case equalFold(option, "ADDR"):
			filter.addr = new(string(value))
		case equalFold(option, "LADDR"):
			filter.laddr = new(string(value))
		case equalFold(option, "USER"):
			if !s.server.hasUser(string(value)) {
				return filter, errorf("ERR No such user '%s'", value)
			}
			filter.user = new(string(value))
		case equalFold(option, "SKIPME") && equalFold(value, "YES"):
			filter.skipMe = true
		case equalFold(option, "SKIPME") && equalFold(value, "NO"):
			filter.skipMe = false
		default:
			return filter, errSyntax
		}
	}
	return filter, nil
}

// hasUser tells whether a user has this name. The default user always exists, as in Redis, if only for those who have
// not logged in.
func (srv *Server) hasUser(name string) bool {
	if name == defaultUser {
		return true
	}
	for i := range srv.opts.Users {
		if srv.opts.Users[i].Name == name {
			return true
		}
	}
	return false
}
