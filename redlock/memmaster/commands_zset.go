package memmaster

import (
	"math"
	"strconv"
	"strings"

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

// cmdZADD takes one member, with no option but XX.
func cmdZADD(c *client, args [][]byte) {
	pair := args[2:]
	xx := is(pair[0], "XX")
	if xx {
		pair = pair[1:]
	}
	if len(pair) != 2 {
		c.fail(errSyntax)
		return
	}
	score, ok := parseScore(pair[0])
	if !ok {
		c.fail("ERR value is not a valid float")
		return
	}
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
	case m != nil && m.score != score: // the same score again is no change, so nobody is told
		e.zset.setScore(m, score)
		c.m.data.touch(e)
	}
	c.boolean(added)
}

// parseScore reads what C's strtod reads, without spaces around it and without NaN. A negative zero loses its sign, as it
// does in most encodings of Redis.
func parseScore(b []byte) (float64, bool) {
	if strings.ContainsRune(string(b), '_') {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil && !math.IsInf(f, 0) || math.IsNaN(f) {
		return 0, false
	}
	if f == 0 {
		f = 0
	}
	return f, true
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
	if len(e.zset.members) == 0 { // an empty set is no key
		c.m.data.remove(e)
	} else {
		c.m.data.touch(e)
	}
}

// cmdZREVRANGE is ZREVRANGE key 0 0 [WITHSCORES]: the member with the highest score.
func cmdZREVRANGE(c *client, args [][]byte) {
	withScores := len(args) == 5 && is(args[4], "WITHSCORES")
	if len(args) > 4 && !withScores || string(args[2]) != "0" || string(args[3]) != "0" {
		c.fail("ERR only ZREVRANGE key 0 0 [WITHSCORES] is supported here")
		return
	}
	e, ok := c.lookupZset(args[1])
	switch {
	case !ok:
	case e == nil:
		c.array(0)
	case withScores:
		top := e.zset.highest()
		c.array(2)
		c.texts(top.name)
		c.double(top.score)
	default:
		c.array(1)
		c.texts(e.zset.highest().name)
	}
}
