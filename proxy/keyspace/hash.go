package keyspace

import (
	"strconv"

	"redlockd/redlock/resp"
)

// The commands on hashes, and those that do the same to sets and sorted sets too.

func readHINCRBY(c *Command) string {
	var ok bool
	if c.by, ok = resp.ParseInt(c.args[2]); !ok {
		return ErrNotInteger
	}
	return ""
}

// runMember runs a command that answers something of one member of a collection.
func runMember(reply func(m member, ok bool) Reply) func(*Space, *Command, []*key) Reply {
	return func(_ *Space, c *Command, keys []*key) Reply { return reply(keys[0].readMember(c.args[1])) }
}

// runMembers runs one that answers an array of that, for each of the names.
func runMembers(reply func(m member, ok bool) Reply) func(*Space, *Command, []*key) Reply {
	return func(_ *Space, c *Command, keys []*key) Reply {
		r := Reply{Kind: resp.Array, Elems: make([]Reply, len(c.args)-1)}
		for i, name := range c.args[1:] {
			r.Elems[i] = reply(keys[0].readMember(name))
		}
		return r
	}
}

// What such commands answer of a member, or of none.
func valueOf(m member, ok bool) Reply { return bulkOrNull(m.value, ok) }
func isThere(_ member, ok bool) Reply { return oneIf(ok) }
func lengthOf(m member, _ bool) Reply { return integer(int64(len(m.value))) }
func scoreOf(m member, ok bool) Reply {
	if !ok {
		return null
	}
	return resp.NewDouble(m.score)
}

// runHGETALL is HGETALL, HKEYS and HVALS. Fields come in the order of their names; Redis promises none.
func runHGETALL(_ *Space, c *Command, keys []*key) Reply {
	r := Reply{Kind: resp.Array}
	if c.name == "hgetall" {
		r.Kind = resp.Map
	}
	for _, m := range keys[0].readMembers() {
		if c.name != "hvals" {
			r.Elems = append(r.Elems, bulk(m.name))
		}
		if c.name != "hkeys" {
			r.Elems = append(r.Elems, bulk(m.value))
		}
	}
	return r
}

// runHSET is HSET, which answers how many fields are new, and HMSET.
func runHSET(s *Space, c *Command, keys []*key) Reply {
	n := int64(0)
	for i := 1; i < len(c.args); i += 2 {
		if _, ok := keys[0].readMember(c.args[i]); !ok {
			n++
		}
		s.put(keys[0], hash, member{name: c.args[i], value: c.args[i+1]})
	}
	if c.name == "hmset" {
		return OK
	}
	return integer(n)
}

func runHSETNX(s *Space, c *Command, keys []*key) Reply {
	_, ok := keys[0].readMember(c.args[1])
	if !ok {
		s.put(keys[0], hash, member{name: c.args[1], value: c.args[2]})
	}
	return oneIf(!ok)
}

// runHINCRBY counts in a field. An absent field counts from 0.
func runHINCRBY(s *Space, c *Command, keys []*key) Reply {
	m, ok := keys[0].readMember(c.args[1])
	n, refusal := count(m.value, ok, c.by, "ERR hash value is not an integer")
	if refusal != "" {
		return failure(refusal)
	}
	s.put(keys[0], hash, member{name: c.args[1], value: strconv.FormatInt(n, 10)})
	return integer(n)
}

// runCARD is HLEN, SCARD and ZCARD.
func runCARD(_ *Space, _ *Command, keys []*key) Reply {
	return integer(int64(len(keys[0].readMembers())))
}

// runREM is HDEL, SREM and ZREM. A key without members is gone.
func runREM(s *Space, c *Command, keys []*key) Reply {
	keys[0].readMembers()
	n := int64(0)
	for _, name := range c.args[1:] {
		if s.drop(keys[0], name) {
			n++
		}
	}
	return integer(n)
}
