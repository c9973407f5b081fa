package keyspace

import "redlockd/redlock/resp"

// The commands that read keys. What a reply tells must be noted on the key by the method that reads it:
// a reply is confirmed by guards, and only what is noted has one.

// runGET answers the value, and null for an absent key. Space.Do has refused keys of other types.
func runGET(_ *Space, _ *Command, keys []*key) Reply { return bulkOrNull(keys[0].readValue()) }

// runMGET answers null also for a key of another type, as Redis does. So it is no error beside others.
func runMGET(_ *Space, _ *Command, keys []*key) Reply {
	r := Reply{Kind: resp.Array, Elems: make([]Reply, len(keys))}
	for i, k := range keys {
		r.Elems[i] = bulkOrNull(k.readValue())
	}
	return r
}

// runSTRLEN answers 0 for an absent key. A length tells of the value, so the whole value is compared.
func runSTRLEN(_ *Space, _ *Command, keys []*key) Reply {
	value, _ := keys[0].readValue()
	return integer(int64(len(value)))
}

// runGETRANGE is GETRANGE and SUBSTR. Both ends are included, and those below 0 count from behind.
func runGETRANGE(_ *Space, c *Command, keys []*key) Reply {
	value, _ := keys[0].readValue()
	start, end, size := c.start, c.end, int64(len(value))
	if start < 0 && end < 0 && start > end { // nothing, also where both would be cut off to the first byte
		return bulk("")
	}
	if start < 0 {
		start = max(start+size, 0)
	}
	if end < 0 {
		end = max(end+size, 0)
	}
	end = min(end, size-1)
	if start > end {
		return bulk("")
	}
	return bulk(value[start : end+1])
}

// runEXISTS counts a key as often as it is named. A key of another type exists.
func runEXISTS(_ *Space, _ *Command, keys []*key) Reply {
	n := int64(0)
	for _, k := range keys {
		if k.exists() {
			n++
		}
	}
	return integer(n)
}

// runTYPE names the type of a key that is no lock without a guard: nothing here can change or compare
// such a key.
func runTYPE(_ *Space, _ *Command, keys []*key) Reply {
	k := keys[0]
	if k.foreign() {
		return Reply{Kind: resp.Status, Text: k.was.Type}
	}
	k.exists()
	return Reply{Kind: resp.Status, Text: kindNames[k.kind]}
}

// runTTL is TTL, PTTL, EXPIRETIME and PEXPIRETIME: -2 for an absent key, -1 for one that never ends.
// Seconds are rounded to the nearest one, as Redis rounds them.
func runTTL(s *Space, c *Command, keys []*key) Reply {
	if !keys[0].exists() {
		return integer(-2)
	}
	ms := keys[0].readEnd()
	if ms == 0 {
		return integer(-1)
	}
	if c.name == "ttl" || c.name == "pttl" {
		ms -= s.now
	}
	if c.name[0] != 'p' {
		ms = ms/1000 + (ms%1000+500)/1000 // does not overflow near the largest integer
	}
	return integer(ms)
}
