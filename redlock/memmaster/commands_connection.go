package memmaster

import (
	"crypto/subtle"
	"slices"
)

const defaultUser = "default"

func cmdPING(c *client, args [][]byte) {
	if len(args) > 2 {
		c.failArity("ping")
		return
	}
	if len(c.channels) > 0 && c.resp == 2 {
		c.array(2)
		c.bulkString("pong")
		if len(args) == 2 {
			c.bulk(args[1])
		} else {
			c.bulkString("")
		}
		return
	}
	if len(args) == 2 {
		c.bulk(args[1])
	} else {
		c.status("PONG")
	}
}

func cmdECHO(c *client, args [][]byte) { c.bulk(args[1]) }

func cmdSELECT(c *client, args [][]byte) {
	n, ok := parseInt(args[1])
	switch {
	case !ok:
		c.fail(errNotInt)
	case n < 0 || n >= databaseCount:
		c.fail("ERR DB index is out of range")
	default:
		c.db = int(n)
		c.ok()
	}
}

func cmdQUIT(c *client, args [][]byte) {
	c.hangUp = true
	c.ok()
}

func cmdRESET(c *client, args [][]byte) {
	c.forgetState()
	c.status("RESET")
}

func cmdAUTH(c *client, args [][]byte) {
	user, password := defaultUser, args[1]
	switch len(args) {
	case 2:
		if c.m.options.Password == "" {
			c.fail("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
			return
		}
	case 3:
		user, password = string(args[1]), args[2]
	default:
		c.fail(errSyntax)
		return
	}
	if c.authenticate(user, password) {
		c.ok()
	}
}

// authenticate answers the error if it fails.
func (c *client) authenticate(user string, password []byte) bool {
	want, known := c.m.options.Users[user]
	if user == defaultUser {
		want, known = c.m.options.Password, true
	}
	free := user == defaultUser && want == "" // any password will do
	if !known || !free && subtle.ConstantTimeCompare([]byte(want), password) != 1 {
		c.fail("WRONGPASS invalid username-password pair or user is disabled.")
		return false
	}
	c.user = user
	return true
}

func cmdHELLO(c *client, args [][]byte) {
	resp := c.resp
	var options [][]byte
	if len(args) > 1 {
		n, ok := parseInt(args[1])
		if !ok {
			c.fail("ERR Protocol version is not an integer or out of range")
			return
		}
		if n != 2 && n != 3 {
			c.fail("NOPROTO unsupported protocol version")
			return
		}
		resp, options = int(n), args[2:]
	}
	name, named := "", false
	var login [][]byte
	for len(options) > 0 {
		switch {
		case is(options[0], "AUTH") && len(options) > 2:
			login, options = options[1:3], options[3:]
		case is(options[0], "SETNAME") && len(options) > 1:
			name, named, options = string(options[1]), true, options[2:]
			if !clientNameValid(name) {
				c.fail(errClientName)
				return
			}
		default:
			c.fail("ERR Syntax error in HELLO option '" + string(options[0]) + "'")
			return
		}
	}
	if login != nil && !c.authenticate(string(login[0]), login[1]) {
		return
	}
	if c.user == "" {
		c.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	if named {
		c.name = name
	}
	c.resp = resp
	c.mapping(7)
	c.texts("server", "redis", "version", c.m.version())
	c.bulkString("proto")
	c.integer(int64(c.resp))
	c.bulkString("id")
	c.integer(c.id)
	c.texts("mode", "standalone", "role", map[bool]string{true: "master", false: "replica"}[c.m.replicaOf == nil])
	c.bulkString("modules")
	c.array(0)
}

const errClientName = "ERR Client names cannot contain spaces, newlines or special characters."

func clientNameValid(name string) bool {
	return !slices.ContainsFunc([]byte(name), func(b byte) bool { return b < '!' || b > '~' })
}
