package memmaster

import "redlockd/redlock/resp"

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
