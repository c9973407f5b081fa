package memmaster

import (
	"bytes"

	"redlockd/redlock/resp"
)

// lookupZset returns a key's entry, nil if it is absent. With ok false the key holds no sorted set, and the error is answered.
func (c *client) lookupZset(key []byte) (e *entry, ok bool) {
	e = c.m.data.lookup(key)
	if e != nil && e.zset == nil {
		c.fail(errWrongType)
		return nil, false
	}
	return e, true
}

func cmdZSCORE(c *client, args [][]byte) {
	e, ok := c.lookupZset(args[1])
	if !ok {
		return
	}
	if e != nil {
		if m := e.zset.members[string(args[2])]; m != nil {
			c.double(m.score)
			return
		}
	}
	c.null()
}

func cmdZCARD(c *client, args [][]byte) {
	switch e, ok := c.lookupZset(args[1]); {
	case !ok:
	case e == nil:
		c.integer(0)
	default:
		c.integer(int64(len(e.zset.members)))
	}
}

// cmdZADD takes one member, with no option but XX or NX.
func cmdZADD(c *client, args [][]byte) {
	pair := args[2:]
	xx, nx := is(pair[0], "XX"), is(pair[0], "NX")
	if xx || nx {
		pair = pair[1:]
	}
	if len(pair) != 2 {
		c.fail(errSyntax)
		return
	}
	score, exact, ok := resp.ParseFloat(string(pair[0]))
	if !ok || !exact {
		c.fail("ERR value is not a valid float")
		return
	}
	score += 0 // -0 loses its sign, as it does in most encodings of Redis
	e, ok := c.lookupZset(args[1])
	if !ok {
		return
	}
	if e == nil {
		if xx {
			c.integer(0)
			return
		}
		e = c.m.data.create(args[1])
		e.zset = newZset()
	}
	m := e.zset.members[string(pair[1])]
	added := m == nil && !xx
	switch {
	case added:
		e.zset.add(pair[1], score)
		c.m.data.touch(e)
	case m != nil && m.score != score && !nx: // the same score again is no change, so nobody is told
		e.zset.setScore(m, score)
		c.m.data.touch(e)
	}
	c.boolean(added)
}

func cmdZPOPMIN(c *client, args [][]byte) {
	count := int64(1)
	if len(args) > 3 {
		c.fail(errSyntax)
		return
	}
	if len(args) == 3 {
		var ok bool
		if count, ok = resp.ParseInt(args[2]); !ok || count < 0 {
			c.fail("ERR value is out of range, must be positive")
			return
		}
	}
	e, ok := c.lookupZset(args[1])
	if !ok {
		return
	}
	if e == nil || count == 0 {
		c.array(0)
		return
	}
	// Members and scores by turns, as RESP2 has it.
	n := int(min(count, int64(len(e.zset.members))))
	c.array(2 * n)
	for range n {
		m := e.zset.lowest.items[0]
		e.zset.remove(m)
		c.texts(m.name)
		c.double(m.score)
	}
	c.m.data.shrunk(e)
}

// shrunk is for a sorted set that has lost members. An empty one is no key.
func (s *store) shrunk(e *entry) {
	if len(e.zset.members) == 0 {
		s.remove(e)
	} else {
		s.touch(e)
	}
}

func cmdZREM(c *client, args [][]byte) {
	e, ok := c.lookupZset(args[1])
	if !ok {
		return
	}
	removed := 0
	if e != nil {
		for _, name := range args[2:] {
			if m := e.zset.members[string(name)]; m != nil {
				e.zset.remove(m)
				removed++
			}
		}
		if removed > 0 {
			c.m.data.shrunk(e)
		}
	}
	c.integer(int64(removed))
}

// cmdZREMRANGEBYSCORE is ZREMRANGEBYSCORE key -inf max, where max may be (max.
func cmdZREMRANGEBYSCORE(c *client, args [][]byte) {
	text, below := bytes.CutPrefix(args[3], []byte("("))
	most, _, ok := resp.ParseFloat(string(text))
	switch {
	case !ok:
		c.fail("ERR min or max is not a float")
		return
	case string(args[2]) != "-inf":
		c.fail("ERR only ZREMRANGEBYSCORE key -inf max and (max are supported here")
		return
	}
	e, ok := c.lookupZset(args[1])
	if !ok {
		return
	}
	removed := 0
	if e != nil {
		for len(e.zset.members) > 0 {
			m := e.zset.lowest.items[0]
			if m.score > most || below && m.score == most {
				break
			}
			e.zset.remove(m)
			removed++
		}
		if removed > 0 {
			c.m.data.shrunk(e)
		}
	}
	c.integer(int64(removed))
}

// cmdZREVRANGE is ZREVRANGE key 0 stop [WITHSCORES] for a stop of 0 to 999, or -1: the members with the highest scores, or all.
func cmdZREVRANGE(c *client, args [][]byte) {
	withScores := len(args) == 5 && is(args[4], "WITHSCORES")
	stop, ok := resp.ParseInt(args[3])
	if len(args) > 4 && !withScores || string(args[2]) != "0" || !ok || stop < -1 || stop > 999 {
		c.fail("ERR only ZREVRANGE key 0 stop [WITHSCORES] is supported here, for a stop of 0 to 999, or -1")
		return
	}
	e, ok := c.lookupZset(args[1])
	if !ok {
		return
	}
	var top []*member
	switch {
	case e == nil:
	case stop < 0:
		top = e.zset.highest(len(e.zset.members))
	default:
		top = e.zset.highest(int(stop) + 1)
	}
	if withScores {
		c.array(2 * len(top))
	} else {
		c.array(len(top))
	}
	for _, m := range top {
		c.texts(m.name)
		if withScores {
			c.double(m.score)
		}
	}
}
