package proxy

import (
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// MLOCK, MUNLOCK and MEXTEND lock several resources as one lock with one token: all or none. They are
// LOCK, UNLOCK and EXTEND (cmd_lock.go) with the number of resources before them, as the keys of EVAL
// have it. The engine sorts the resources, so that two MLOCKs of the same ones in another order cannot
// wait for each other.

// cmdMLOCK is MLOCK numkeys resource… ttl [TOKEN token] [WAIT ms] [FENCE] [HOLD [RELEASE]] [NOTE text].
func cmdMLOCK(s *session, c *call) {
	if resources, rest, ok := c.resources(1, -1); ok {
		handleLock(s, c, resources, rest)
	}
}

// cmdMUNLOCK is MUNLOCK numkeys resource… token.
func cmdMUNLOCK(_ *session, c *call) {
	if resources, rest, ok := c.resources(1, 1); ok {
		handleUnlock(c, resources, rest[0])
	}
}

// cmdMEXTEND is MEXTEND numkeys resource… token ttl.
func cmdMEXTEND(s *session, c *call) {
	if resources, rest, ok := c.resources(2, 2); ok {
		handleExtend(s, c, resources, rest[0], rest[1])
	}
}

// resources divides the arguments of a command that begins with numkeys. Behind the resources must be
// least to most more arguments, or any number above least when most is -1. If not, the error is
// answered.
func (c *call) resources(least, most int) (resources, rest [][]byte, ok bool) {
	n, ok := resp.ParseInt(c.args[1])
	if !ok || n < 1 || n > redlock.MaxResources {
		c.failf("ERR numkeys '%s' is not an integer from 1 to %d", clipped(c.args[1], 32), redlock.MaxResources)
		return nil, nil, false
	}
	args := c.args[2:]
	if extra := len(args) - int(n); extra < least || most >= 0 && extra > most {
		c.failf("ERR syntax error: numkeys says %d, which does not fit the %d arguments behind it: %s", n, len(args), c.cmd.form)
		return nil, nil, false
	}
	return args[:n], args[n:], true
}
