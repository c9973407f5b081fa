package memmaster

import (
	"strconv"

	"redlockd/redlock/resp"
)

func cmdHGET(c *client, e *entry, args [][]byte) { c.field(e, args[2]) }

func cmdHMGET(c *client, e *entry, args [][]byte) {
	c.array(len(args) - 2)
	for _, name := range args[2:] {
		c.field(e, name)
	}
}

// field answers a field of a hash.
func (c *client) field(e *entry, name []byte) {
	if value, ok := e.hash[string(name)]; ok {
		c.texts(value)
	} else {
		c.null()
	}
}

// cmdHKEYS answers the fields in their order as strings; Redis promises none.
func cmdHKEYS(c *client, e *entry, args [][]byte) {
	c.array(len(e.hash))
	c.texts(sortedKeys(e.hash)...)
}

// cmdHGETALL answers fields and values in the order of the fields.
func cmdHGETALL(c *client, e *entry, args [][]byte) {
	c.array(2 * len(e.hash))
	for _, field := range sortedKeys(e.hash) {
		c.texts(field, e.hash[field])
	}
}

func cmdHSET(c *client, args [][]byte) {
	if len(args)%2 != 0 {
		c.failArity("hset")
		return
	}
	if _, ok := c.lookup(args[1], isHash); !ok {
		return
	}
	e := c.m.data.open(args[1], isHash)
	before := len(e.hash)
	for i := 2; i < len(args); i += 2 {
		e.hash[string(args[i])] = string(args[i+1])
	}
	c.m.data.touch(e)
	c.integer(int64(len(e.hash) - before))
}

func cmdHSETNX(c *client, e *entry, args [][]byte) {
	_, there := e.hash[string(args[2])]
	if !there {
		c.setField(args[1], args[2], string(args[3]))
	}
	c.boolean(!there)
}

func (c *client) setField(key, name []byte, value string) {
	e := c.m.data.open(key, isHash)
	e.hash[string(name)] = value
	c.m.data.touch(e)
}

func cmdHDEL(c *client, e *entry, args [][]byte) {
	before := len(e.hash)
	for _, name := range args[2:] {
		delete(e.hash, string(name))
	}
	n := before - len(e.hash)
	c.m.data.removed(e, n)
	c.integer(int64(n))
}

func cmdHINCRBY(c *client, args [][]byte) {
	by, ok := resp.ParseInt(args[3])
	if !ok {
		c.fail(errNotInt)
		return
	}
	e, ok := c.lookup(args[1], isHash)
	if !ok {
		return
	}
	old, there := e.hash[string(args[2])]
	n, ok := c.count(old, there, by, "ERR hash value is not an integer")
	if !ok {
		return
	}
	c.setField(args[1], args[2], strconv.FormatInt(n, 10))
	c.integer(n)
}
