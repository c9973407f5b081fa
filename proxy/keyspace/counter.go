package keyspace

import (
	"math"
	"strconv"

	"redlockd/redlock/resp"
)

// Counters are strings that these commands have made, or that were set to a number without an end, as
// some libraries begin them. On the masters they are envelopes, so that they can be told from a lock
// whose token is a number: who counts there would put another token in its place.

const errOverflow = "ERR increment or decrement would overflow"

// readINCR reads INCR, DECR, INCRBY and DECRBY. DECRBY of the least integer has no opposite.
func readINCR(c *Command) string {
	c.by = 1
	if len(c.args) == 2 {
		var ok bool
		if c.by, ok = resp.ParseInt(c.args[1]); !ok {
			return ErrNotInteger
		}
	}
	if c.name[0] == 'd' {
		if c.by == math.MinInt64 {
			return "ERR decrement would overflow"
		}
		c.by = -c.by
	}
	return ""
}

// runINCRBY is INCR, DECR, INCRBY and DECRBY. An absent key counts from 0. The key keeps its end. A
// counter is there to be counted in by everybody. A string that is none, and whose sender has compared
// it, stays a string.
func runINCRBY(s *Space, c *Command, keys []*key) Reply {
	k := keys[0]
	value, held := k.takeValue()
	n, refusal := count(value, held, c.by, ErrNotInteger)
	if refusal != "" {
		return failure(refusal)
	}
	counts := k.counts || !held || k.endless
	k.compared = k.compared || counts
	s.setText(k, strconv.FormatInt(n, 10))
	s.keepEnd(k)
	k.counts = counts
	return integer(n)
}

// count adds to the number in value, or to 0 if there is none. notInteger is the error if there is
// something else.
func count(value string, held bool, by int64, notInteger string) (n int64, refusal string) {
	if held {
		var ok bool
		if n, ok = resp.ParseInt(value); !ok {
			return 0, notInteger
		}
	}
	if by < 0 && n < math.MinInt64-by || by > 0 && n > math.MaxInt64-by {
		return 0, errOverflow
	}
	return n + by, ""
}
