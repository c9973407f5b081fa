package memmaster

import (
	"crypto/subtle"

	"redlockd/redlock/resp"
)

// cmdPING answers in the form of a message while the client is subscribed, because it could not tell a
// reply from a message otherwise.
func cmdPING(c *client, args [][]byte) {
	switch {
	case len(args) > 2:
		c.failArity("ping")
	case len(c.channels) > 0 && len(args) == 1:
		c.array(2)
		c.texts("pong", "")
	case len(c.channels) > 0:
		c.array(2)
		c.texts("pong", string(args[1]))
	case len(args) == 2:
		c.bulk(args[1])
	default:
		c.status("PONG")
	}
}

// cmdAUTH is AUTH [default] password, which clients send after a HELLO that is refused.
func cmdAUTH(c *client, args [][]byte) {
	switch {
	case len(args) > 3:
		c.fail(errSyntax)
	case len(args) == 2 && c.m.options.Password == "":
		c.fail("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	case len(args) == 2 && c.login([]byte("default"), args[1]), len(args) == 3 && c.login(args[1], args[2]):
		c.ok()
	}
}

// login fails unless the password is that of the user.
func (c *client) login(user, password []byte) bool {
	right := string(user) == "default" && subtle.ConstantTimeCompare([]byte(c.m.options.Password), password) == 1
	if !right {
		c.fail("WRONGPASS invalid username-password pair or user is disabled.")
	}
	c.authenticated = c.authenticated || right
	return right
}

// cmdHELLO is HELLO [2 [AUTH default password]]: this master speaks RESP2 only, and has no other user.
func cmdHELLO(c *client, args [][]byte) {
	if len(args) > 1 && string(args[1]) != "2" {
		c.fail("NOPROTO unsupported protocol version")
		return
	}
	options := args[min(2, len(args)):]
	switch {
	case len(options) == 3 && is(options[0], "AUTH"):
		if !c.login(options[1], options[2]) {
			return
		}
	case len(options) > 0:
		c.fail("ERR Syntax error in HELLO option '" + string(options[0]) + "'")
		return
	}
	if !c.authenticated {
		c.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	c.array(14)
	c.texts("server", "redis", "version", c.m.version(), "proto")
	c.integer(2)
	c.texts("id")
	c.integer(c.id)
	c.texts("mode", "standalone", "role", map[bool]string{true: "master", false: "replica"}[c.m.replicaOf == nil], "modules")
	c.array(0)
}

func cmdCLIENTID(c *client, args [][]byte) { c.integer(c.id) }

// cmdCLIENTKILL is CLIENT KILL ID id, of another connection. What a killed one had sent and was not
// executed yet never is: this is what makes it safe to go on over another connection.
func cmdCLIENTKILL(c *client, args [][]byte) {
	id, ok := resp.ParseInt(args[3])
	switch {
	case !is(args[2], "ID"):
		c.fail(errSyntax)
	case !ok || id < 1:
		c.fail("ERR client-id should be greater than 0")
	default:
		other := c.m.clients[id]
		found := other != nil && other != c // SKIPME is the default
		if found {
			c.m.drop(other)
		}
		c.boolean(found)
	}
}
