package memmaster

import (
	"math"
	"strconv"
	"strings"
)

func cmdZSCORE(c *client, args [][]byte) {
	e, ok := c.lookupKind(args[1], kindZset)
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
	if e, ok := c.lookupKind(args[1], kindZset); ok {
		if e == nil {
			c.integer(0)
		} else {
			c.integer(int64(len(e.zset.members)))
		}
	}
}

// zaddOptions are the options of ZADD.
type zaddOptions struct{ nx, xx, gt, lt, ch, incr bool }

func cmdZADD(c *client, args [][]byte) {
	o, pairs := parseZaddOptions(args[2:])
	if refusal := o.refusal(len(pairs)); refusal != "" {
		c.fail(refusal)
		return
	}
	scores := make([]float64, len(pairs)/2)
	for i := range scores {
		var ok bool
		if scores[i], ok = parseFloat(pairs[2*i]); !ok {
			c.fail("ERR value is not a valid float")
			return
		}
	}
	e, ok := c.lookupKind(args[1], kindZset)
	if !ok {
		return
	}
	if e == nil {
		if o.xx {
			c.zaddReply(o, nil, 0)
			return
		}
		e = c.m.data.create(c.db, args[1], kindZset)
	}
	added, updated := int64(0), int64(0)
	var last *member // of INCR
	for i, score := range scores {
		name := pairs[2*i+1]
		m := e.zset.members[string(name)]
		if m != nil && o.incr {
			score += m.score
			if math.IsNaN(score) {
				c.fail("ERR resulting score is not a number (NaN)")
				return
			}
		}
		switch {
		case m == nil && !o.xx:
			e.zset.add(name, score)
			last = e.zset.members[string(name)]
			added++
		case m != nil && !o.nx && !(o.gt && score <= m.score) && !(o.lt && score >= m.score):
			last = m
			if score != m.score {
				e.zset.setScore(m, score)
				updated++
			}
		}
	}
	if added+updated > 0 {
		c.m.data.touch(e)
	}
	if o.ch {
		added += updated
	}
	c.zaddReply(o, last, added)
}

func (c *client) zaddReply(o zaddOptions, incremented *member, n int64) {
	switch {
	case !o.incr:
		c.integer(n)
	case incremented == nil:
		c.null()
	default:
		c.double(incremented.score)
	}
}

func parseZaddOptions(args [][]byte) (o zaddOptions, pairs [][]byte) {
	for i, word := range args {
		switch {
		case is(word, "NX"):
			o.nx = true
		case is(word, "XX"):
			o.xx = true
		case is(word, "GT"):
			o.gt = true
		case is(word, "LT"):
			o.lt = true
		case is(word, "CH"):
			o.ch = true
		case is(word, "INCR"):
			o.incr = true
		default:
			return o, args[i:]
		}
	}
	return o, nil
}

func (o zaddOptions) refusal(arguments int) string {
	switch {
	case arguments == 0 || arguments%2 != 0:
		return errSyntax
	case o.nx && o.xx:
		return "ERR XX and NX options at the same time are not compatible"
	case o.gt && o.lt || o.nx && (o.gt || o.lt):
		return "ERR GT, LT, and/or NX options at the same time are not compatible"
	case o.incr && arguments > 2:
		return "ERR INCR option supports a single increment-element pair"
	}
	return ""
}

// parseFloat reads what C's strtod reads, without spaces around it and without NaN. A negative zero loses its sign, as it
// does in most encodings of Redis.
func parseFloat(b []byte) (float64, bool) {
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

func cmdZREM(c *client, args [][]byte) {
	e, ok := c.lookupKind(args[1], kindZset)
	if !ok {
		return
	}
	removed := int64(0)
	if e != nil {
		for _, name := range args[2:] {
			if m := e.zset.members[string(name)]; m != nil {
				e.zset.remove(m)
				removed++
			}
		}
		c.zsetShrunk(e, removed > 0)
	}
	c.integer(removed)
}

// zsetShrunk is to be called after members may have been removed: an empty set is no key.
func (c *client) zsetShrunk(e *entry, changed bool) {
	switch {
	case len(e.zset.members) == 0:
		c.m.data.remove(e)
	case changed:
		c.m.data.touch(e)
	}
}

func cmdZPOPMIN(c *client, args [][]byte) {
	count := int64(1)
	if len(args) > 3 {
		c.fail(errSyntax)
		return
	}
	if len(args) == 3 {
		var ok bool
		if count, ok = parseInt(args[2]); !ok || count < 0 {
			c.fail("ERR value is out of range, must be positive")
			return
		}
	}
	e, ok := c.lookupKind(args[1], kindZset)
	if !ok {
		return
	}
	if e == nil || count == 0 {
		c.array(0)
		return
	}
	n := int(min(count, int64(len(e.zset.members))))
	pairs := len(args) == 3 && c.resp == 3 // RESP3 nests the members, if a count is given
	if pairs {
		c.array(n)
	} else {
		c.array(2 * n)
	}
	for range n {
		m := e.zset.lowest.items[0]
		e.zset.remove(m)
		if pairs {
			c.array(2)
		}
		c.bulkString(m.name)
		c.double(m.score)
	}
	c.zsetShrunk(e, true)
}

// cmdZREVRANGE lists members from the highest score down. The set keeps only its lower end in order, so this looks at all of
// them; the first one alone, which is what is asked for regularly, is found without sorting.
func cmdZREVRANGE(c *client, args [][]byte) {
	first, ok1 := parseInt(args[2])
	last, ok2 := parseInt(args[3])
	withScores := len(args) == 5 && is(args[4], "WITHSCORES")
	switch {
	case len(args) > 4 && !withScores:
		c.fail(errSyntax)
		return
	case !ok1 || !ok2:
		c.fail("ERR value is not an integer or out of range")
		return
	}
	e, ok := c.lookupKind(args[1], kindZset)
	if !ok {
		return
	}
	var members []*member
	if e != nil {
		members = e.zset.highest(first, last)
	}
	pairs := withScores && c.resp == 3
	if withScores && !pairs {
		c.array(2 * len(members))
	} else {
		c.array(len(members))
	}
	for _, m := range members {
		if pairs {
			c.array(2)
		}
		c.bulkString(m.name)
		if withScores {
			c.double(m.score)
		}
	}
}
