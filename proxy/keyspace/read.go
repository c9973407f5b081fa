package keyspace

import (
	"redlockd/redlock/resp"
	"redlockd/redlock/sandbox"
)

// The commands that read keys.

func runGET(s *Space, c *Command) (Reply, error) {
	k, err := s.key(c.args[0])
	switch {
	case err != nil:
		return null, err
	case k.foreign():
		return wrongType, nil
	}
	return bulkOrNull(k.readValue()), nil
}

func runMGET(s *Space, c *Command) (Reply, error) {
	r := Reply{Kind: sandbox.Array}
	for _, name := range c.args {
		k, err := s.key(name)
		if err != nil {
			return null, err
		}
		r.Elems = append(r.Elems, bulkOrNull(k.readValue()))
	}
	return r, nil
}

func runSTRLEN(s *Space, c *Command) (Reply, error) {
	value, err := runGET(s, c)
	if err != nil || value.Kind == sandbox.Error {
		return value, err
	}
	return integer(int64(len(value.Text))), nil
}

// runGETRANGE is GETRANGE and SUBSTR. Both ends are included, and those below 0 count from behind.
func runGETRANGE(s *Space, c *Command) (Reply, error) {
	start, ok1 := resp.ParseInt(c.args[1])
	end, ok2 := resp.ParseInt(c.args[2])
	if !ok1 || !ok2 {
		return failure(ErrNotInteger), nil
	}
	reply, err := runGET(s, c)
	if err != nil || reply.Kind == sandbox.Error {
		return reply, err
	}
	value := reply.Text
	size := int64(len(value))
	if start < 0 && end < 0 && start > end { // before both are cut off to the first byte
		return bulk(""), nil
	}
	if start < 0 {
		start = max(start+size, 0)
	}
	if end < 0 {
		end = max(end+size, 0)
	}
	end = min(end, size-1)
	if start > end {
		return bulk(""), nil
	}
	return bulk(value[start : end+1]), nil
}

func runEXISTS(s *Space, c *Command) (Reply, error) {
	n := int64(0)
	for _, name := range c.args {
		k, err := s.key(name)
		if err != nil {
			return null, err
		}
		if k.exists() {
			n++
		}
	}
	return integer(n), nil
}

func runTYPE(s *Space, c *Command) (Reply, error) {
	k, err := s.key(c.args[0])
	if err != nil {
		return null, err
	}
	kind := "none"
	switch {
	case k.foreign():
		kind = k.was.Type
	case k.exists():
		kind = "string"
	}
	return Reply{Kind: sandbox.Status, Text: kind}, nil
}

// runTTL is TTL, PTTL, EXPIRETIME and PEXPIRETIME.
func runTTL(s *Space, c *Command) (Reply, error) {
	k, err := s.key(c.args[0])
	if err != nil {
		return null, err
	}
	if !k.exists() {
		return integer(-2), nil
	}
	ms := k.readEnd()
	if ms == 0 {
		return integer(-1), nil
	}
	if c.name == "ttl" || c.name == "pttl" {
		ms -= s.now
	}
	if c.name[0] != 'p' {
		ms = ms/1000 + (ms%1000+500)/1000 // rounded, without overflow
	}
	return integer(ms), nil
}
