package keyspace

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"redlockd/redlock/resp"
)

// The commands on sorted sets. ZCARD, ZREM, ZSCORE and ZMSCORE are in hash.go, scores and ranges of
// scores in score.go.

// zaddArgs is what stands behind the key of ZADD and ZINCRBY.
type zaddArgs struct {
	nx, xx, gt, lt bool
	// ch is true if changed members count as new ones do.
	ch bool
	// incr is true if the score is added to the one that the member has.
	incr bool
	// scores are those of names, in their order.
	scores []float64
	names  []string
}

var zaddWords = []string{"nx", "xx", "gt", "lt", "ch", "incr"}

// readZADD reads ZADD and ZINCRBY, which is ZADD with INCR.
func readZADD(c *Command) string {
	o := &c.zadd
	o.incr = c.name == "zincrby"
	rest := c.args[1:]
	for len(rest) > 0 && setFlag(rest[0], zaddWords, &o.nx, &o.xx, &o.gt, &o.lt, &o.ch, &o.incr) {
		rest = rest[1:]
	}
	switch {
	case len(rest) == 0 || len(rest)%2 != 0:
		return ErrSyntax
	case o.nx && o.xx:
		return "ERR XX and NX options at the same time are not compatible"
	case o.gt && o.nx || o.lt && o.nx || o.gt && o.lt:
		return "ERR GT, LT, and/or NX options at the same time are not compatible"
	case o.incr && len(rest) > 2:
		return "ERR INCR option supports a single increment-element pair"
	}
	for ; len(rest) > 0; rest = rest[2:] {
		score, ok := parseScore(rest[0])
		if !ok {
			return errNotFloat
		}
		o.scores, o.names = append(o.scores, score), append(o.names, rest[1])
	}
	return ""
}

// runZADD is ZADD and ZINCRBY. With INCR it answers the new score, or null if a condition is not met.
func runZADD(s *Space, c *Command, keys []*key) Reply {
	o, last := &c.zadd, null
	added, changed := int64(0), int64(0)
	for i, name := range o.names {
		m, ok := keys[0].readMember(name)
		score := o.scores[i]
		switch {
		case ok && o.nx || !ok && o.xx:
			continue
		case ok && o.incr:
			if score += m.score; math.IsNaN(score) { // infinity and its negative
				return failure("ERR resulting score is not a number (NaN)")
			}
		}
		if ok && (o.lt && score >= m.score || o.gt && score <= m.score) {
			continue
		}
		last = resp.NewDouble(score)
		switch {
		case !ok:
			added++
		case score != m.score:
			changed++
		default:
			continue
		}
		s.put(keys[0], zset, member{name: name, score: score + 0}) // -0 becomes 0, as in a small sorted set of Redis
	}
	switch {
	case o.incr:
		return last
	case o.ch:
		added += changed
	}
	return integer(added)
}

// runZRANK is ZRANK, and ZREVRANK, which counts from the highest score.
func runZRANK(_ *Space, c *Command, keys []*key) Reply {
	all := byScore(keys[0].readMembers())
	rank := slices.IndexFunc(all, func(m member) bool { return m.name == c.args[1] })
	switch {
	case rank < 0:
		return null
	case c.name == "zrevrank":
		rank = len(all) - 1 - rank
	}
	return integer(int64(rank))
}

// byScore returns the members in the order of their scores, and of their names where scores are equal.
func byScore(members []member) []member {
	all := slices.Clone(members)
	slices.SortFunc(all, func(a, b member) int { return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.name, b.name)) })
	return all
}

// rangeArgs says which members of a sorted set a command is about: those between two ranks, which are
// start and end of the Command, or between two scores.
type rangeArgs struct {
	byScore bool
	scores  scoreRange
	// reverse counts ranks from the highest score, and answers in that order.
	reverse    bool
	withScores bool
	// Of the members in the range, offset are left out, and limit of the others answered, all if it is
	// negative.
	offset, limit int64
}

// readByRank reads the two ranks of ZREMRANGEBYRANK.
func readByRank(c *Command) string {
	c.ranged.limit = -1
	return c.readRange(c.args[1], c.args[2])
}

// readByScore reads the two scores of ZCOUNT and ZREMRANGEBYSCORE.
func readByScore(c *Command) string {
	c.ranged.byScore, c.ranged.limit = true, -1
	return c.readRange(c.args[1], c.args[2])
}

// readRange reads the two ends of a range, from the lower to the higher score.
func (c *Command) readRange(low, high string) string {
	o := &c.ranged
	if o.byScore {
		var ok bool
		if o.scores, ok = parseRange(low, high); !ok {
			return errRange
		}
		return ""
	}
	return readInts(&c.start, low, &c.end, high)
}

// zrangeWords are the options of ZRANGE. The last ones are those of its older kin too.
var zrangeWords = []string{"rev", "byscore", "bylex", "limit", "withscores"}

const errByLex = "ERR BYLEX is not served: this endpoint serves locks only"

// readZRANGE reads ZRANGE and its older kin ZREVRANGE, ZRANGEBYSCORE and ZREVRANGEBYSCORE. It departs
// from Redis in BYLEX, which it refuses.
func readZRANGE(c *Command) string {
	o := &c.ranged
	o.byScore, o.reverse = strings.HasSuffix(c.name, "byscore"), strings.HasPrefix(c.name, "zrev")
	o.limit = -1
	words, modern := zrangeWords[3:], c.name == "zrange"
	if modern {
		words = zrangeWords
	}
	lex := false
	for rest := c.args[3:]; len(rest) > 0; rest = rest[1:] {
		switch word := oneOf(rest[0], words); {
		case word == "withscores":
			o.withScores = true
		case word == "limit" && len(rest) > 2:
			if refusal := readInts(&o.offset, rest[1], &o.limit, rest[2]); refusal != "" {
				return refusal
			}
			rest = rest[2:]
		case word == "rev" && !o.reverse: // given twice, it is an error
			o.reverse = true
		case word == "byscore" && !o.byScore && !lex:
			o.byScore = true
		case word == "bylex" && !o.byScore && !lex:
			lex = true
		default:
			return ErrSyntax
		}
	}
	switch {
	case lex:
		return errByLex
	case o.limit != -1 && !o.byScore:
		return "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
	case o.byScore && o.reverse:
		return c.readRange(c.args[2], c.args[1])
	}
	return c.readRange(c.args[1], c.args[2])
}

// selected returns the members that the command is about, in the order of its reply. It compares nothing.
func (k *key) selected(c *Command) []member {
	all, o := byScore(k.takeMembers()), &c.ranged
	if o.reverse {
		slices.Reverse(all)
	}
	if !o.byScore {
		start, end := ranks(c.start, c.end, int64(len(all)))
		return all[start:end]
	}
	all = slices.DeleteFunc(all, func(m member) bool { return !o.scores.contains(m.score) })
	if o.offset < 0 || o.offset > int64(len(all)) {
		return nil
	}
	all = all[o.offset:]
	if o.limit >= 0 && o.limit < int64(len(all)) {
		all = all[:o.limit]
	}
	return all
}

// ranks turns the first and the last rank of a range, of which those below 0 count from behind, into
// the bounds of a slice.
func ranks(first, last, size int64) (start, end int64) {
	if first < 0 {
		first = max(first+size, 0)
	}
	if last < 0 {
		last += size
	}
	if last = min(last, size-1); first > last {
		return 0, 0
	}
	return first, last + 1
}

func runZCOUNT(_ *Space, c *Command, keys []*key) Reply {
	keys[0].readMembers()
	return integer(int64(len(keys[0].selected(c))))
}

// runZRANGE is ZRANGE and its older kin.
func runZRANGE(_ *Space, c *Command, keys []*key) Reply {
	r := Reply{Kind: resp.Array}
	if c.ranged.withScores {
		r.Kind = resp.Pairs
	}
	keys[0].readMembers()
	for _, m := range keys[0].selected(c) {
		r.Elems = append(r.Elems, bulk(m.name))
		if c.ranged.withScores {
			r.Elems = append(r.Elems, resp.NewDouble(m.score))
		}
	}
	return r
}

// runZREMRANGE is ZREMRANGEBYSCORE and ZREMRANGEBYRANK. Who removes the members up to some score, as
// semaphores do with holders whose time is over, compares the scores. A range of ranks, or one without
// an upper bound, removes members whoever they are.
func runZREMRANGE(s *Space, c *Command, keys []*key) Reply {
	gone := keys[0].selected(c)
	if c.ranged.byScore && !math.IsInf(c.ranged.scores.max, 1) {
		keys[0].compared = true
	}
	for _, m := range gone {
		s.drop(keys[0], m.name)
	}
	return integer(int64(len(gone)))
}
