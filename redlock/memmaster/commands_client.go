package memmaster

func cmdCLIENTID(c *client, args [][]byte) { c.integer(c.id) }

func cmdCLIENTGETNAME(c *client, args [][]byte) {
	if c.name == "" {
		c.null()
	} else {
		c.bulkString(c.name)
	}
}

func cmdCLIENTSETNAME(c *client, args [][]byte) {
	if name := string(args[2]); clientNameValid(name) {
		c.name = name
		c.ok()
	} else {
		c.fail(errClientName)
	}
}

// cmdCLIENTSETINFO (Redis 7.2) checks what it is told and keeps nothing.
func cmdCLIENTSETINFO(c *client, args [][]byte) {
	switch {
	case !is(args[2], "LIB-NAME") && !is(args[2], "LIB-VER"):
		c.fail("ERR Unrecognized option '" + string(args[2]) + "'")
	case !clientNameValid(string(args[3])):
		c.fail("ERR " + string(args[2]) + " cannot contain spaces, newlines or special characters.")
	default:
		c.ok()
	}
}

// cmdCLIENTNOEVICT does nothing: no client is ever evicted for its memory.
func cmdCLIENTNOEVICT(c *client, args [][]byte) {
	if is(args[2], "ON") || is(args[2], "OFF") {
		c.ok()
	} else {
		c.fail(errSyntax)
	}
}

// cmdCLIENTKILL closes connections. What a killed one had sent and was not executed yet never is: this is what makes it
// safe to go on over another connection.
func cmdCLIENTKILL(c *client, args [][]byte) {
	if len(args) == 3 { // by address, and here nobody has one
		c.fail("ERR No such client")
		return
	}
	if len(args)%2 != 0 {
		c.fail(errSyntax)
		return
	}
	id, skipMe := int64(0), true
	for i := 2; i < len(args); i += 2 {
		switch value := args[i+1]; {
		case is(args[i], "ID"):
			n, ok := parseInt(value)
			if !ok || n < 1 {
				c.fail("ERR client-id should be greater than 0")
				return
			}
			id = n
		case is(args[i], "SKIPME") && (is(value, "yes") || is(value, "no")):
			skipMe = is(value, "yes")
		default: // TYPE, USER, ADDR, LADDR too
			c.fail(errSyntax)
			return
		}
	}
	killed := int64(0)
	for _, other := range c.m.allClients() {
		switch {
		case id != 0 && other.id != id:
		case other != c:
			c.m.drop(other)
			killed++
		case !skipMe:
			c.hangUp = true
			killed++
		}
	}
	c.integer(killed)
}
