package proxy

import "redlockd/redlock/sandbox"

// The commands that read keys.

func runGET(ks *keyspace, args []string) (sandbox.Reply, error) {
	k, err := ks.text(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	return bulkOrNil(k.readValue()), nil
}

func runMGET(ks *keyspace, args []string) (sandbox.Reply, error) {
	r := sandbox.Reply{Kind: sandbox.Array}
	for _, name := range args[1:] {
		k, err := ks.key(name)
		if err != nil {
			return sandbox.Reply{}, err
		}
		r.Elems = append(r.Elems, bulkOrNil(k.readValue()))
	}
	return r, nil
}

func runSTRLEN(ks *keyspace, args []string) (sandbox.Reply, error) {
	k, err := ks.text(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	value, _ := k.readValue()
	return integer(int64(len(value))), nil
}

func runGETRANGE(ks *keyspace, args []string) (sandbox.Reply, error) {
	start, ok1 := parseInteger(args[2])
	end, ok2 := parseInteger(args[3])
	if !ok1 || !ok2 {
		return failure(errNotInteger), nil
	}
	k, err := ks.text(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	value, _ := k.readValue()
	size := int64(len(value))
	if start < 0 && end < 0 && start > end {
		return bulk(""), nil
	}
	if start < 0 {
		start = max(start+size, 0)
	}
	if end < 0 {
		end = max(end+size, 0)
	}
	end = min(end, size-1)
	if start > end || size == 0 {
		return bulk(""), nil
	}
	return bulk(value[start : end+1]), nil
}

func runEXISTS(ks *keyspace, args []string) (sandbox.Reply, error) {
	n := int64(0)
	for _, name := range args[1:] {
		k, err := ks.key(name)
		if err != nil {
			return sandbox.Reply{}, err
		}
		if k.exists() {
			n++
		}
	}
	return integer(n), nil
}

func runTYPE(ks *keyspace, args []string) (sandbox.Reply, error) {
	k, err := ks.key(args[1])
	if err != nil {
		return sandbox.Reply{}, err
	}
	kind := "none"
	switch {
	case k.foreign():
		kind = k.was.Type
	case k.exists():
		kind = "string"
	}
	return sandbox.Reply{Kind: sandbox.Status, Text: kind}, nil
}

// runTTL makes TTL, PTTL and, with absolute times, EXPIRETIME and PEXPIRETIME.
func runTTL(seconds, absolute bool) keyCommand {
	return func(ks *keyspace, args []string) (sandbox.Reply, error) {
		k, err := ks.key(args[1])
		if err != nil {
			return sandbox.Reply{}, err
		}
		if !k.exists() {
			return integer(-2), nil
		}
		ms := k.endsAt()
		if ms == 0 {
			return integer(-1), nil
		}
		if !absolute {
			ms -= ks.now
		}
		if seconds {
			ms = ms/1000 + (ms%1000+500)/1000
		}
		return integer(ms), nil
	}
}
