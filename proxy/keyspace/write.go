package keyspace

// The commands that change keys. A command that changes a key without comparing what it holds calls
// writeBlindly before it reads or writes anything. If it did not, a run on an assumption could be
// committed although the script never looked whose the key is.

// runSET is SET with all its options. Its condition decides what is noted: NX and XX ask whether the
// key exists, IFEQ and IFNE compare the value. XX does not make the change guarded, because it is met
// by another's lock too.
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
	case "ifeq":
		k.readValue()
	case "ifne": // met by another's lock, too
		k.takeValue()
	}
	met := o.Met(k.kind != nothing, k.value)
	switch {
	case k.kind > text && (o.Get || o.Compares()):
		k.exists()
		return wrongType
	case k.foreign() && met:
		return wrongType // Redis would replace the key
	}
	reply := OK
	if o.Get {
		reply = bulkOrNull(k.takeValue())
	}
	switch {
	case !met && !o.Get:
		return null
	case !met:
	case o.Lifetime == "keepttl":
		s.setKeepingEnd(k, c.args[1])
	default:
		s.set(k, c.args[1], o.End(s.now))
		k.endless = o.Word == "" && o.Lifetime == "" && isNumber(c.args[1])
	}
	return reply
}

// runSETEX is SETEX and PSETEX.
func runSETEX(s *Space, c *Command, keys []*key) Reply {
	keys[0].writeBlindly()
	if keys[0].foreign() {
		return wrongType
	}
	s.set(keys[0], c.args[2], c.set.End(s.now))
	return OK
}

// runGETSET answers the old value. To read it is not to compare it: the new value is set whatever the
// old one was.
func runGETSET(s *Space, c *Command, keys []*key) Reply {
	keys[0].writeBlindly()
	old := bulkOrNull(keys[0].takeValue())
	s.set(keys[0], c.args[1], 0)
	keys[0].endless = isNumber(c.args[1])
	return old
}

// runGETDEL answers the value of the key that it deletes.
func runGETDEL(s *Space, _ *Command, keys []*key) Reply {
	keys[0].writeBlindly()
	value, held := keys[0].takeValue()
	if held {
		s.remove(keys[0])
	}
	return bulkOrNull(value, held)
}

// runGETEX is GET that can change the TTL. Redis looks at the time only if the key exists, so an error
// of it comes last.
func runGETEX(s *Space, c *Command, keys []*key) Reply {
	if c.set.Lifetime == "" {
		return bulkOrNull(keys[0].readValue())
	}
	keys[0].writeBlindly()
	value, held := keys[0].takeValue()
	switch {
	case !held:
	case c.refusal != "":
		return failure(c.refusal)
	default:
		s.expire(keys[0], c.set.End(s.now))
	}
	return bulkOrNull(value, held)
}

// runMSET sets one key after the other. A key that comes twice keeps its last value. Nothing is set if
// one of the keys cannot be.
func runMSET(s *Space, c *Command, keys []*key) Reply {
	for _, k := range keys {
		if k.writeBlindly(); k.foreign() {
			return wrongType
		}
	}
	for i, k := range keys {
		s.set(k, c.args[2*i+1], 0)
		k.endless = isNumber(c.args[2*i+1])
	}
	return OK
}

// runMSETNX is MSETNX, and SETNX, which is the same for one key. It notes only the keys up to the first
// one that exists: the others make no difference to the reply.
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
func runDEL(s *Space, _ *Command, keys []*key) Reply {
	n := int64(0)
	for _, k := range keys {
		k.writeBlindly()
		if k.exists() && !k.foreign() {
			s.remove(k)
			n++
		}
	}
	return integer(n)
}

// runDELEX is DELEX and DELIFEQ, the guarded release. It compares also where that changes nothing,
// because its reply tells that the token does not hold the key. DELEX without a condition is DEL, and
// with IFNE it is met by another's lock.
func runDELEX(s *Space, c *Command, keys []*key) Reply {
	if c.set.Word == "" {
		return runDEL(s, c, keys)
	}
	read := (*key).readValue
	if c.set.Word == "ifne" {
		read = (*key).takeValue
	}
	value, held := read(keys[0])
	if !held || !c.set.Met(held, value) {
		return zero
	}
	s.remove(keys[0])
	return integer(1)
}

// runEXPIRE is EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT. Its options compare ends, not values, so it is
// unguarded with them too. An end that has passed deletes the key, as in Redis: libraries release so.
func runEXPIRE(s *Space, c *Command, keys []*key) Reply {
	k, o := keys[0], &c.expire
	k.writeBlindly()
	end := o.End(s.now)
	switch {
	case !k.exists() || k.foreign():
		return zero
	case o.conditional() && !o.allows(end, k.readEnd()):
		return zero
	case end <= s.now: // also 0, which is no end elsewhere
		s.remove(k)
	default:
		s.setEnd(k, end)
	}
	return integer(1)
}

// runPERSIST takes the TTL away, or sets DefaultTTL. Without DefaultTTL the Outcome is Endless, and the
// caller refuses it.
func runPERSIST(s *Space, _ *Command, keys []*key) Reply {
	k := keys[0]
	k.writeBlindly()
	if !k.exists() || k.foreign() || k.readEnd() == 0 {
		return zero
	}
	s.setEnd(k, 0)
	return integer(1)
}
