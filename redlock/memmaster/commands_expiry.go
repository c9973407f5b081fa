package memmaster

import "math"

func cmdTTL(c *client, args [][]byte) {
	c.lifetime(args[1], func(e *entry) int64 { return toSeconds(c.m.data.ttl(e)) })
}

func cmdPTTL(c *client, args [][]byte) {
	c.lifetime(args[1], c.m.data.ttl)
}

func cmdEXPIRETIME(c *client, args [][]byte) {
	c.lifetime(args[1], func(e *entry) int64 { return toSeconds(e.expireAt) })
}

func cmdPEXPIRETIME(c *client, args [][]byte) {
	c.lifetime(args[1], func(e *entry) int64 { return e.expireAt })
}

// toSeconds rounds, and does not overflow near the largest integer.
func toSeconds(ms int64) int64 { return ms/1000 + (ms%1000+500)/1000 }

func (c *client) lifetime(key []byte, of func(*entry) int64) {
	switch e := c.m.data.lookup(c.db, key); {
	case e == nil:
		c.integer(-2)
	case e.expireAt == 0:
		c.integer(-1)
	default:
		c.integer(of(e))
	}
}

func cmdEXPIRE(c *client, args [][]byte)    { c.expire(args, true, false, "expire") }
func cmdPEXPIRE(c *client, args [][]byte)   { c.expire(args, false, false, "pexpire") }
func cmdEXPIREAT(c *client, args [][]byte)  { c.expire(args, true, true, "expireat") }
func cmdPEXPIREAT(c *client, args [][]byte) { c.expire(args, false, true, "pexpireat") }

func (c *client) expire(args [][]byte, seconds, absolute bool, command string) {
	allowed, ok := c.parseExpireOptions(args[3:])
	if !ok {
		return
	}
	at, ok := parseInt(args[2])
	if !ok {
		c.fail(errNotInt)
		return
	}
	data := &c.m.data
	if seconds {
		if at > math.MaxInt64/1000 || at < math.MinInt64/1000 {
			c.failExpire(command)
			return
		}
		at *= 1000
	}
	if !absolute {
		if at > math.MaxInt64-data.now {
			c.failExpire(command)
			return
		}
		at += data.now
	}
	e := data.lookup(c.db, args[1])
	if e == nil || !allowed(e, at) {
		c.integer(0)
		return
	}
	if at <= data.now {
		data.remove(e)
	} else {
		data.expireAt(e, at)
		data.touch(e)
	}
	c.integer(1)
}

// parseExpireOptions reads NX, XX, GT, LT and returns what they demand of a key and its new end.
func (c *client) parseExpireOptions(args [][]byte) (allowed func(e *entry, at int64) bool, ok bool) {
	var nx, xx, gt, lt bool
	for _, word := range args {
		switch {
		case is(word, "NX"):
			nx = true
		case is(word, "XX"):
			xx = true
		case is(word, "GT"):
			gt = true
		case is(word, "LT"):
			lt = true
		default:
			c.fail("ERR Unsupported option " + string(word))
			return nil, false
		}
	}
	if nx && (xx || gt || lt) {
		c.fail("ERR NX and XX, GT or LT options at the same time are not compatible")
		return nil, false
	}
	if gt && lt {
		c.fail("ERR GT and LT options at the same time are not compatible")
		return nil, false
	}
	return func(e *entry, at int64) bool {
		expires := e.expireAt != 0 // a key that does not has an infinite end
		return !(nx && expires) &&
			!(xx && !expires) &&
			!(gt && (!expires || at <= e.expireAt)) &&
			!(lt && expires && at >= e.expireAt)
	}, true
}

func cmdPERSIST(c *client, args [][]byte) {
	e := c.m.data.lookup(c.db, args[1])
	expires := e != nil && e.expireAt != 0
	if expires {
		c.m.data.persist(e)
		c.m.data.touch(e)
	}
	c.boolean(expires)
}
