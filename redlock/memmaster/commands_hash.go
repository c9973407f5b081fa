package memmaster

import "strconv"

func cmdHGET(c *client, args [][]byte) {
	if e, ok := c.lookupKind(args[1], kindHash); ok {
		c.field(e, args[2])
	}
}

func cmdHMGET(c *client, args [][]byte) {
	e, ok := c.lookupKind(args[1], kindHash)
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
		if value, ok := e.hash.get(name); ok {
			c.bulkString(value)
			return
		}
	}
	c.null()
}

func cmdHGETALL(c *client, args [][]byte) {
	e, ok := c.lookupKind(args[1], kindHash)
	if !ok {
		return
	}
	if e == nil {
		c.mapping(0)
		return
	}
	fields := e.hash.all()
	c.mapping(len(fields))
	for _, f := range fields {
		c.bulkString(f.name)
		c.bulkString(f.value)
	}
}

func cmdHSET(c *client, args [][]byte) {
	if len(args)%2 != 0 {
		c.failArity("hset")
		return
	}
	e, ok := c.lookupKind(args[1], kindHash)
	if !ok {
		return
	}
	if e == nil {
		e = c.m.data.create(c.db, args[1], kindHash)
	}
	added := int64(0)
	for i := 2; i < len(args); i += 2 {
		if e.hash.set(args[i], string(args[i+1])) {
			added++
		}
	}
	c.m.data.touch(e)
	c.integer(added)
}

func cmdHDEL(c *client, args [][]byte) {
	e, ok := c.lookupKind(args[1], kindHash)
	if !ok {
		return
	}
	removed := int64(0)
	if e != nil {
		for _, name := range args[2:] {
			if e.hash.remove(name) {
				removed++
			}
		}
		switch {
		case len(e.hash.fields) == 0:
			c.m.data.remove(e)
		case removed > 0:
			c.m.data.touch(e)
		}
	}
	c.integer(removed)
}

func cmdHINCRBY(c *client, args [][]byte) {
	n, ok := parseInt(args[3])
	if !ok {
		c.fail(errNotInt)
		return
	}
	e, ok := c.lookupKind(args[1], kindHash)
	if !ok {
		return
	}
	var old int64
	if e != nil {
		if value, ok := e.hash.get(args[2]); ok {
			if old, ok = parseInt([]byte(value)); !ok {
				c.fail("ERR hash value is not an integer")
				return
			}
		}
	}
	sum, ok := addInts(old, n)
	if !ok {
		c.fail(errOverflow)
		return
	}
	if e == nil {
		e = c.m.data.create(c.db, args[1], kindHash)
	}
	e.hash.set(args[2], strconv.FormatInt(sum, 10))
	c.m.data.touch(e)
	c.integer(sum)
}
