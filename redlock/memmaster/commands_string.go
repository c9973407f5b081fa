package memmaster

import (
	"math"
	"strconv"

	"redlockd/redlock/resp"
)

func cmdGET(c *client, e *entry, args [][]byte) { c.value(e) }

// cmdMGET answers null for a key of another type, without an error.
func cmdMGET(c *client, args [][]byte) {
	c.array(len(args) - 1)
	for _, key := range args[1:] {
		c.value(c.m.data.lookup(key))
	}
}

// value answers a string, and null for what is none.
func (c *client) value(e *entry) {
	if e.kind == isString {
		c.texts(e.str)
	} else {
		c.null()
	}
}

// cmdSET knows the options NX, XX, PX and EX, which go-redis sends for whole seconds.
func cmdSET(c *client, args [][]byte) {
	data := &c.m.data
	var nx, xx bool
	var life []byte // of PX or EX; nil: not given
	unit := int64(1)
	for options := args[3:]; len(options) > 0; {
		switch {
		case is(options[0], "NX") && !xx:
			nx, options = true, options[1:]
		case is(options[0], "XX") && !nx:
			xx, options = true, options[1:]
		case is(options[0], "PX") && len(options) > 1 && unit == 1:
			life, options = options[1], options[2:]
		case is(options[0], "EX") && len(options) > 1 && (life == nil || unit == 1000):
			life, unit, options = options[1], 1000, options[2:]
		default:
			c.fail(errSyntax)
			return
		}
	}
	at := int64(0)
	if life != nil {
		n, ok := resp.ParseInt(life)
		switch {
		case !ok:
			c.fail(errNotInt)
			return
		case n <= 0 || n > (math.MaxInt64-data.now)/unit:
			c.failExpire("set")
			return
		}
		at = data.now + n*unit
	}
	// NX is denied by a key of any type, and XX where there is none. Else a key of any type is overwritten.
	if held := data.lookup(args[1]).kind != none; nx && held || xx && !held {
		c.null()
		return
	}
	e := data.setString(args[1], string(args[2]))
	if at != 0 {
		data.expireAt(e, at)
	}
	c.ok()
}

// cmdINCR adds one to a string that holds an integer. The key keeps its expiry.
func cmdINCR(c *client, e *entry, args [][]byte) {
	n, ok := c.count(e.str, e.kind != none, 1, errNotInt)
	if !ok {
		return
	}
	e = c.m.data.open(args[1], isString)
	e.str = strconv.FormatInt(n, 10)
	c.m.data.touch(e)
	c.integer(n)
}

// cmdDELEX is DELEX key IFEQ value: Redis 8.4, see Options.IFEQ.
func cmdDELEX(c *client, args [][]byte) {
	if !is(args[2], "IFEQ") {
		c.fail("ERR Invalid condition. Use IFEQ")
		return
	}
	c.deleteIfEqual(args[1], args[3])
}

// cmdDELIFEQ deletes a key that holds a value: Valkey 9, see Options.DELIFEQ.
func cmdDELIFEQ(c *client, args [][]byte) { c.deleteIfEqual(args[1], args[2]) }

func (c *client) deleteIfEqual(key, value []byte) {
	e, ok := c.lookup(key, isString)
	if !ok {
		return
	}
	met := e.kind != none && e.str == string(value)
	if met {
		c.m.data.remove(e)
	}
	c.boolean(met)
}
