package memmaster

import (
	"math"
	"strconv"

	"redlockd/redlock/resp"
)

// lookupHash returns a key's entry, nil if it is absent. With ok false the key holds no hash, and the error is answered.
func (c *client) lookupHash(key []byte) (e *entry, ok bool) {
	e = c.m.data.lookup(key)
	if e != nil && e.hash == nil {
		c.fail(errWrongType)
		return nil, false
	}
	return e, true
}

// createHash returns the entry of a key for a hash, an empty one if e, its entry, is nil.
func (c *client) createHash(key []byte, e *entry) *entry {
	if e == nil {
		e = c.m.data.create(key)
		e.hash = hash{}
	}
	return e
}

func cmdHGET(c *client, args [][]byte) {
	if e, ok := c.lookupHash(args[1]); ok {
		c.field(e, args[2])
	}
}

func cmdHMGET(c *client, args [][]byte) {
	e, ok := c.lookupHash(args[1])
	if !ok {
		return
	}
	c.array(len(args) - 2)
	for _, name := range args[2:] {
		c.field(e, name)
	}
}

// field answers a field of a hash; e is nil for an absent one.
func (c *client) field(e *entry, name []byte) {
	if e != nil {
		if value, ok := e.hash[string(name)]; ok {
			c.texts(value)
			return
		}
	}
	c.null()
}

// cmdHKEYS answers the fields in their order as strings; Redis promises none.
func cmdHKEYS(c *client, args [][]byte) {
	e, ok := c.lookupHash(args[1])
	switch {
	case !ok:
	case e == nil:
		c.array(0)
	default:
		c.array(len(e.hash))
		c.texts(e.hash.fields()...)
	}
}

// cmdHGETALL answers fields and values in the order of the fields.
func cmdHGETALL(c *client, args [][]byte) {
	e, ok := c.lookupHash(args[1])
	switch {
	case !ok:
	case e == nil:
		c.array(0)
	default:
		c.array(2 * len(e.hash))
		for _, field := range e.hash.fields() {
			c.texts(field, e.hash[field])
		}
	}
}

func cmdHSET(c *client, args [][]byte) {
	if len(args)%2 != 0 {
		c.failArity("hset")
		return
	}
	e, ok := c.lookupHash(args[1])
	if !ok {
		return
	}
	e = c.createHash(args[1], e)
	before := len(e.hash)
	for i := 2; i < len(args); i += 2 {
		e.hash[string(args[i])] = string(args[i+1])
	}
	c.m.data.touch(e)
	c.integer(int64(len(e.hash) - before))
}

func cmdHSETNX(c *client, args [][]byte) {
	e, ok := c.lookupHash(args[1])
	if !ok {
		return
	}
	if e != nil {
		if _, there := e.hash[string(args[2])]; there {
			c.boolean(false)
			return
		}
	}
	e = c.createHash(args[1], e)
	e.hash[string(args[2])] = string(args[3])
	c.m.data.touch(e)
	c.boolean(true)
}

func cmdHDEL(c *client, args [][]byte) {
	e, ok := c.lookupHash(args[1])
	if !ok {
		return
	}
	removed := 0
	if e != nil {
		before := len(e.hash)
		for _, name := range args[2:] {
			delete(e.hash, string(name))
		}
		removed = before - len(e.hash)
		switch {
		case len(e.hash) == 0: // an empty hash is no key
			c.m.data.remove(e)
		case removed > 0:
			c.m.data.touch(e)
		}
	}
	c.integer(int64(removed))
}

func cmdHINCRBY(c *client, args [][]byte) {
	n, ok := resp.ParseInt(args[3])
	if !ok {
		c.fail(errNotInt)
		return
	}
	e, ok := c.lookupHash(args[1])
	if !ok {
		return
	}
	var old int64
	if e != nil {
		if value, there := e.hash[string(args[2])]; there {
			if old, ok = resp.ParseInt(value); !ok {
				c.fail("ERR hash value is not an integer")
				return
			}
		}
	}
	if n > 0 && old > math.MaxInt64-n || n < 0 && old < math.MinInt64-n {
		c.fail(errOverflow)
		return
	}
	e = c.createHash(args[1], e)
	e.hash[string(args[2])] = strconv.FormatInt(old+n, 10)
	c.m.data.touch(e)
	c.integer(old + n)
}
