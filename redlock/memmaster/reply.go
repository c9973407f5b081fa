package memmaster

import (
	"math"
	"strconv"

	"github.com/tidwall/redcon"
)

// Replies in the client's protocol version. redcon writes what RESP2 has; the rest of RESP3 is here.

func (c *client) ok()                    { c.out = redcon.AppendOK(c.out) }
func (c *client) status(s string)        { c.out = redcon.AppendString(c.out, s) }
func (c *client) fail(message string)    { c.out = redcon.AppendError(c.out, message) }
func (c *client) integer(n int64)        { c.out = redcon.AppendInt(c.out, n) }
func (c *client) bulk(b []byte)          { c.out = redcon.AppendBulk(c.out, b) }
func (c *client) bulkString(s string)    { c.out = redcon.AppendBulkString(c.out, s) }
func (c *client) array(n int)            { c.out = redcon.AppendArray(c.out, n) }
func (c *client) header(t byte, n int64) { c.out = appendHeader(c.out, t, n) }

func (c *client) boolean(b bool) {
	if b {
		c.integer(1)
	} else {
		c.integer(0)
	}
}

func (c *client) bulks(s []string) {
	c.array(len(s))
	c.texts(s...)
}

// texts writes strings without a header.
func (c *client) texts(s ...string) {
	for _, s := range s {
		c.bulkString(s)
	}
}

// null stands for an absent value.
func (c *client) null() {
	if c.resp == 3 {
		c.out = append(c.out, "_\r\n"...)
	} else {
		c.out = redcon.AppendNull(c.out)
	}
}

// nullArray stands for an absent list.
func (c *client) nullArray() {
	if c.resp == 3 {
		c.null()
	} else {
		c.out = append(c.out, "*-1\r\n"...)
	}
}

// mapping announces n pairs.
func (c *client) mapping(n int) {
	if c.resp == 3 {
		c.header('%', int64(n))
	} else {
		c.array(2 * n)
	}
}

// double writes a score.
func (c *client) double(f float64) {
	if c.resp == 3 {
		c.out = append(c.out, ',')
		c.out = appendDouble(c.out, f)
		c.out = append(c.out, "\r\n"...)
	} else {
		c.bulk(appendDouble(nil, f))
	}
}

// appendDouble prints a number as Redis prints scores and as a script's numbers become arguments: C's %.17g.
func appendDouble(b []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(b, "inf"...)
	case math.IsInf(f, -1):
		return append(b, "-inf"...)
	case math.IsNaN(f):
		return append(b, "-nan"...)
	}
	return strconv.AppendFloat(b, f, 'g', 17, 64)
}

func appendHeader(b []byte, t byte, n int64) []byte {
	b = append(b, t)
	b = strconv.AppendInt(b, n, 10)
	return append(b, "\r\n"...)
}

// Errors that several commands give.
const (
	errSyntax    = "ERR syntax error"
	errNotInt    = "ERR value is not an integer or out of range"
	errWrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errOverflow  = "ERR increment or decrement would overflow"
)

func (c *client) failArity(command string) {
	c.fail("ERR wrong number of arguments for '" + command + "' command")
}

func (c *client) failExpire(command string) {
	c.fail("ERR invalid expire time in '" + command + "' command")
}
