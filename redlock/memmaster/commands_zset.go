package memmaster

import (
	"bytes"

	"redlockd/redlock/resp"
)

func cmdZSCORE(c *client, e *entry, args [][]byte) {
	if m := e.zset.members[string(args[2])]; m != nil {
		c.double(m.score)
	} else {
		c.null()
	}
}

func cmdZCARD(c *client, e *entry, args [][]byte) {
	c.integer(int64(len(e.zset.members)))
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
	e, ok := c.lookup(args[1], isZset)
	if !ok {
		return
	}
	m := e.zset.members[string(pair[1])]
	added := m == nil && !xx
	switch {
	case added:
		e = c.m.data.open(args[1], isZset)
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
	e, ok := c.lookup(args[1], isZset)
	if !ok {
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
	c.m.data.removed(e, n)
}

func cmdZREM(c *client, e *entry, args [][]byte) {
	n := 0
	for _, name := range args[2:] {
		if m := e.zset.members[string(name)]; m != nil {
			e.zset.remove(m)
			n++
		}
	}
	c.m.data.removed(e, n)
	c.integer(int64(n))
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
	e, ok := c.lookup(args[1], isZset)
	if !ok {
		return
	}
	n := 0
	for ; len(e.zset.members) > 0; n++ {
		m := e.zset.lowest.items[0]
		if m.score > most || below && m.score == most {
			break
		}
		e.zset.remove(m)
	}
	c.m.data.removed(e, n)
	c.integer(int64(n))
}

// cmdZREVRANGE is ZREVRANGE key 0 stop [WITHSCORES] for a stop of 0 to 999, or -1: the members with the
// highest scores, or all.
func cmdZREVRANGE(c *client, args [][]byte) {
	withScores := len(args) == 5 && is(args[4], "WITHSCORES")
	stop, ok := resp.ParseInt(args[3])
	if len(args) > 4 && !withScores || string(args[2]) != "0" || !ok || stop < -1 || stop > 999 {
		c.fail("ERR only ZREVRANGE key 0 stop [WITHSCORES] is supported here, for a stop of 0 to 999, or -1")
		return
	}
	e, ok := c.lookup(args[1], isZset)
	if !ok {
		return
	}
	n := len(e.zset.members)
	if stop >= 0 {
		n = min(n, int(stop)+1)
	}
	top := e.zset.highest(n)
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
