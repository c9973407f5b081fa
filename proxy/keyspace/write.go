package keyspace

// The commands that change keys. A command that changes a key without comparing what it holds calls writeBlindly before anything else.

// runSET is SET with all its options.
func runSET(s *Space, c *Command, keys []*key) Reply {
	k, o := keys[0], &c.set
	switch o.Word {
	case "xx":
		k.writeBlindly()
		k.exists()
	case "":
		k.writeBlindly()
	case "nx":
		k.exists()
	case "ifeq", "ifne":
		k.readValue()
	}
	met := o.Met(k.held, k.value)
	if k.foreign() && (o.Get || met) {
		return wrongType // Redis would replace the key, unless it is asked for the old value
	}
	reply := OK
	if o.Get {
		reply = bulkOrNull(k.readValue())
	}
	switch {
	case !met && !o.Get:
		return null
	case !met:
	case o.Lifetime == "keepttl":
		s.setKeepingEnd(k, c.args[1])
	default:
		s.set(k, c.args[1], o.End(s.now))
	}
	return reply
}

// runSETEX is SETEX and PSETEX.
func runSETEX(s *Space, c *Command, keys []*key) Reply {
	keys[0].writeBlindly()
	s.set(keys[0], c.args[2], c.set.End(s.now))
	return OK
}

func runGETSET(s *Space, c *Command, keys []*key) Reply {
	keys[0].writeBlindly()
	old := bulkOrNull(keys[0].readValue())
	s.set(keys[0], c.args[1], 0)
	return old
}

func runGETDEL(_ *Space, _ *Command, keys []*key) Reply {
	keys[0].writeBlindly()
	value, held := keys[0].readValue()
	if held {
		keys[0].remove()
	}
	return bulkOrNull(value, held)
}

func runGETEX(s *Space, c *Command, keys []*key) Reply {
	if c.set.Lifetime != "" {
		keys[0].writeBlindly()
	}
	value, held := keys[0].readValue()
	switch {
	case !held:
	case c.refusal != "":
		return failure(c.refusal)
	case c.set.Lifetime != "":
		s.expire(keys[0], c.set.End(s.now))
	}
	return bulkOrNull(value, held)
}

func runMSET(s *Space, c *Command, keys []*key) Reply {
	for i, k := range keys {
		k.writeBlindly()
		s.set(k, c.args[2*i+1], 0)
	}
	return OK
}

// runMSETNX is MSETNX, and SETNX, which is the same for one key.
func runMSETNX(s *Space, c *Command, keys []*key) Reply {
	for _, k := range keys {
		if k.exists() {
			return zero
		}
	}
	for i, k := range keys {
		s.set(k, c.args[2*i+1], 0)
	}
	return integer(1)
}

// runDEL is DEL and UNLINK. What is no lock is not this server's to remove, and counts as absent.
func runDEL(_ *Space, _ *Command, keys []*key) Reply {
	n := int64(0)
	for _, k := range keys {
		k.writeBlindly()
		if k.exists() && !k.foreign() {
			k.remove()
			n++
		}
	}
	return integer(n)
}

// runDELEX is DELEX and DELIFEQ. DELEX without a condition is DEL.
func runDELEX(s *Space, c *Command, keys []*key) Reply {
	if c.set.Word == "" {
		return runDEL(s, c, keys)
	}
	value, held := keys[0].readValue()
	if !held || !c.set.Met(held, value) {
		return zero
	}
	keys[0].remove()
	return integer(1)
}

// runEXPIRE is EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT.
func runEXPIRE(s *Space, c *Command, keys []*key) Reply {
	k, o := keys[0], &c.expire
	k.writeBlindly()
	end := o.End(s.now)
	switch {
	case !k.exists() || k.foreign():
		return zero
	case o.Conditional() && !o.Allows(end, k.readEnd()):
		return zero
	case end <= s.now: // also 0, which is no end elsewhere
		k.remove()
	default:
		s.setEnd(k, end)
	}
	return integer(1)
}

func runPERSIST(s *Space, _ *Command, keys []*key) Reply {
	k := keys[0]
	k.writeBlindly()
	if !k.exists() || k.foreign() || k.readEnd() == 0 {
		return zero
	}
	s.setEnd(k, 0)
	return integer(1)
}
