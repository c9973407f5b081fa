package memmaster

import (
	"math"

	"redlockd/redlock/resp"
)

// Replies, in RESP2.

func (c *client) ok()                 { c.out = resp.AppendOK(c.out) }
func (c *client) status(s string)     { c.out = resp.AppendStatus(c.out, s) }
func (c *client) fail(message string) { c.out = resp.AppendError(c.out, message) }
func (c *client) integer(n int64)     { c.out = resp.AppendInt(c.out, n) }
func (c *client) boolean(b bool)      { c.out = resp.AppendBool(c.out, 2, b) }
func (c *client) bulk(b []byte)       { c.out = resp.AppendBulk(c.out, b) }
func (c *client) null()               { c.out = resp.AppendNull(c.out, 2) }
func (c *client) array(n int)         { c.out = resp.AppendArray(c.out, n) }
func (c *client) double(f float64)    { c.out = resp.AppendDouble(c.out, 2, f) }

// texts answers strings without a header.
func (c *client) texts(s ...string) {
	for _, s := range s {
		c.out = resp.AppendBulkString(c.out, s)
	}
}

// lookup returns a key's entry. If that is of another kind, ok is false and the error answered.
func (c *client) lookup(key []byte, of kind) (e *entry, ok bool) {
	e = c.m.data.lookup(key)
	if e.kind != none && e.kind != of {
		c.fail(errWrongType)
		return nil, false
	}
	return e, true
}

// count adds to the number in value, or to 0 if there is none. With ok false the error is answered,
// which is notInteger where there is something else.
func (c *client) count(value string, there bool, by int64, notInteger string) (n int64, ok bool) {
	if there {
		if n, ok = resp.ParseInt(value); !ok {
			c.fail(notInteger)
			return 0, false
		}
	}
	if by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by {
		c.fail(errOverflow)
		return 0, false
	}
	return n + by, true
}

// Errors that several commands give.
const (
	errSyntax    = "ERR syntax error"
	errNotInt    = "ERR value is not an integer or out of range"
	errOverflow  = "ERR increment or decrement would overflow"
	errWrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
)

func (c *client) failArity(command string) {
	c.fail("ERR wrong number of arguments for '" + command + "' command")
}

func (c *client) failExpire(command string) {
	c.fail("ERR invalid expire time in '" + command + "' command")
}
