package keyspace

import "redlockd/redlock/resp"

// The commands on sets. SCARD, SREM, SISMEMBER and SMISMEMBER are in hash.go.

// runSMEMBERS answers the members in their order; Redis promises none.
func runSMEMBERS(_ *Space, _ *Command, keys []*key) Reply {
	r := Reply{Kind: resp.Set}
	for _, m := range keys[0].readMembers() {
		r.Elems = append(r.Elems, bulk(m.name))
	}
	return r
}

// runSADD answers how many members are new.
func runSADD(s *Space, c *Command, keys []*key) Reply {
	n := int64(0)
	for _, name := range c.args[1:] {
		if _, ok := keys[0].readMember(name); !ok {
			s.put(keys[0], set, member{name: name})
			n++
		}
	}
	return integer(n)
}
