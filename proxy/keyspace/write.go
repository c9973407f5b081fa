package keyspace

// The commands that change keys. A command that changes a key without comparing what it holds calls writeBlindly before anything else.

// runSET is SET with all its options.
func runSET(s *Space, c *Command) (Reply, error) {
	o := &c.set
	k, err := s.key(c.args[0])
	if err != nil {
		return null, err
	}
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
		return wrongType, nil // Redis would replace the key, unless it is asked for the old value
	}
	var old Reply
	if o.Get {
		old = bulkOrNull(k.readValue())
	}
	switch {
	case !met:
		return old, nil
	case o.Lifetime == "keepttl":
		s.setKeepingEnd(k, c.args[1])
	default:
		s.set(k, c.args[1], o.End(s.now))
	}
	if o.Get {
		return old, nil
	}
	return OK, nil
}

func runSETNX(s *Space, c *Command) (Reply, error) {
	k, err := s.key(c.args[0])
	if err != nil {
		return null, err
	}
	if k.exists() {
		return zero, nil
	}
	s.set(k, c.args[1], 0)
	return integer(1), nil
}

// runSETEX is SETEX and PSETEX.
func runSETEX(s *Space, c *Command) (Reply, error) {
	k, err := s.key(c.args[0])
	switch {
	case err != nil:
		return null, err
	case k.foreign():
		return wrongType, nil
	}
	k.writeBlindly()
	s.set(k, c.args[2], c.set.End(s.now))
	return OK, nil
}

func runGETSET(s *Space, c *Command) (Reply, error) {
	return s.readAndWrite(c, func(k *key) { s.set(k, c.args[1], 0) })
}

func runGETDEL(s *Space, c *Command) (Reply, error) {
	return s.readAndWrite(c, func(k *key) {
		if k.held {
			k.remove()
		}
	})
}

func runGETEX(s *Space, c *Command) (Reply, error) {
	if c.set.Lifetime == "" {
		return runGET(s, c)
	}
	refused := false
	old, err := s.readAndWrite(c, func(k *key) {
		switch {
		case !k.held:
		case c.refusal != "":
			refused = true
		default:
			s.expire(k, c.set.End(s.now))
		}
	})
	if refused {
		return failure(c.refusal), nil
	}
	return old, err
}

// readAndWrite answers what the key holds, and writes it without comparing that.
func (s *Space) readAndWrite(c *Command, write func(*key)) (Reply, error) {
	k, err := s.key(c.args[0])
	switch {
	case err != nil:
		return null, err
	case k.foreign():
		return wrongType, nil
	}
	k.writeBlindly()
	old := bulkOrNull(k.readValue())
	write(k)
	return old, nil
}

// pairs looks up the keys of MSET and MSETNX.
func (s *Space) pairs(c *Command) (keys []*key, err error) {
	for _, name := range c.Keys() {
		k, err := s.key(name)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func runMSET(s *Space, c *Command) (Reply, error) {
	keys, err := s.pairs(c)
	if err != nil {
		return null, err
	}
	for i, k := range keys {
		k.writeBlindly()
		s.set(k, c.args[2*i+1], 0)
	}
	return OK, nil
}

func runMSETNX(s *Space, c *Command) (Reply, error) {
	keys, err := s.pairs(c)
	if err != nil {
		return null, err
	}
	for _, k := range keys {
		if k.exists() {
			return zero, nil
		}
	}
	for i, k := range keys {
		s.set(k, c.args[2*i+1], 0)
	}
	return integer(1), nil
}

// runDEL is DEL and UNLINK.
func runDEL(s *Space, c *Command) (Reply, error) {
	n := int64(0)
	for _, name := range c.Keys() {
		k, err := s.key(name)
		if err != nil {
			return null, err
		}
		k.writeBlindly()
		if k.exists() && !k.foreign() { // what is no lock is not this server's to remove
			k.remove()
			n++
		}
	}
	return integer(n), nil
}

// runDELEX is DELEX and DELIFEQ. DELEX without a condition is DEL.
func runDELEX(s *Space, c *Command) (Reply, error) {
	if c.set.Word == "" {
		return runDEL(s, c)
	}
	k, err := s.key(c.args[0])
	if err != nil {
		return null, err
	}
	value, held := k.readValue()
	met := held && c.set.Met(held, value)
	if met {
		k.remove()
	}
	return boolean(met), nil
}

// runEXPIRE is EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT.
func runEXPIRE(s *Space, c *Command) (Reply, error) {
	o := &c.expire
	k, err := s.key(c.args[0])
	if err != nil {
		return null, err
	}
	k.writeBlindly()
	end := o.End(s.now)
	switch {
	case !k.exists() || k.foreign():
		return zero, nil
	case o.Conditional() && !o.Allows(end, k.readEnd()):
		return zero, nil
	case end <= s.now: // also 0, which is no end elsewhere
		k.remove()
	default:
		s.setEnd(k, end)
	}
	return integer(1), nil
}

func runPERSIST(s *Space, c *Command) (Reply, error) {
	k, err := s.key(c.args[0])
	if err != nil {
		return null, err
	}
	k.writeBlindly()
	if !k.exists() || k.foreign() || k.readEnd() == 0 {
		return zero, nil
	}
	s.setEnd(k, 0)
	return integer(1), nil
}
