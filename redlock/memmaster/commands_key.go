package memmaster

func cmdDEL(c *client, args [][]byte) {
	n := int64(0)
	for _, key := range args[1:] {
		if e := c.m.data.lookup(c.db, key); e != nil {
			c.m.data.remove(e)
			n++
		}
	}
	c.integer(n)
}

func cmdEXISTS(c *client, args [][]byte) {
	n := int64(0)
	for _, key := range args[1:] {
		if c.m.data.lookup(c.db, key) != nil {
			n++
		}
	}
	c.integer(n)
}

func cmdTYPE(c *client, args [][]byte) {
	if e := c.m.data.lookup(c.db, args[1]); e != nil {
		c.status(e.kind.String())
	} else {
		c.status("none")
	}
}

func cmdKEYS(c *client, args [][]byte) {
	c.bulks(c.matching(string(args[1]), ""))
}

// matching lists the keys that a glob fits and that are of the kind, if one is named.
func (c *client) matching(glob, kind string) []string {
	keys := []string{}
	for _, key := range c.m.data.keys(c.db) {
		if kind != "" && c.m.data.dbs[c.db].entries[key].kind.String() != kind {
			continue
		}
		if globMatch(glob, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// cmdSCAN returns everything at once with cursor 0, whatever COUNT hints: a scan is over after the first call.
func cmdSCAN(c *client, args [][]byte) {
	cursor, ok := parseInt(args[1])
	if !ok || cursor < 0 {
		c.fail("ERR invalid cursor")
		return
	}
	glob, kind := "*", ""
	for i := 2; i < len(args); i += 2 {
		if i+1 == len(args) {
			c.fail(errSyntax)
			return
		}
		switch value := args[i+1]; {
		case is(args[i], "MATCH"):
			glob = string(value)
		case is(args[i], "TYPE"):
			kind = string(value)
		case is(args[i], "COUNT"):
			n, ok := parseInt(value)
			if !ok {
				c.fail(errNotInt)
				return
			}
			if n < 1 {
				c.fail(errSyntax)
				return
			}
		default:
			c.fail(errSyntax)
			return
		}
	}
	c.array(2)
	c.bulkString("0")
	if cursor != 0 {
		c.array(0)
		return
	}
	c.bulks(c.matching(glob, kind))
}

// cmdDBSIZE counts the keys that have not expired. (Redis also counts those that have and that nothing has touched.)
func cmdDBSIZE(c *client, args [][]byte) {
	c.m.data.sweep(len(c.m.data.due.items))
	c.integer(int64(len(c.m.data.dbs[c.db].entries)))
}

func cmdFLUSHDB(c *client, args [][]byte) {
	if c.flushModeValid(args) {
		c.m.trackFlush()
		c.m.data.flush(c.db)
		c.ok()
	}
}

func cmdFLUSHALL(c *client, args [][]byte) {
	if c.flushModeValid(args) {
		c.m.trackFlush()
		for db := range c.m.data.dbs {
			c.m.data.flush(db)
		}
		c.ok()
	}
}

func (c *client) flushModeValid(args [][]byte) bool {
	if len(args) > 2 || len(args) == 2 && !is(args[1], "ASYNC") && !is(args[1], "SYNC") {
		c.fail(errSyntax)
		return false
	}
	return true
}

func cmdSWAPDB(c *client, args [][]byte) {
	var db [2]int
	for i := range db {
		n, ok := parseInt(args[i+1])
		if !ok {
			c.fail("ERR invalid " + [...]string{"first", "second"}[i] + " DB index")
			return
		}
		if n < 0 || n >= databaseCount {
			c.fail("ERR DB index is out of range")
			return
		}
		db[i] = int(n)
	}
	c.m.data.swap(db[0], db[1])
	c.ok()
}

// globMatch reports whether a Redis glob fits all of s: * any bytes, ? one byte, [a-c] [^a] one of a class, \x the byte x.
func globMatch(glob, s string) bool {
	for len(glob) > 0 {
		switch glob[0] {
		case '*':
			for len(glob) > 1 && glob[1] == '*' {
				glob = glob[1:]
			}
			if len(glob) == 1 {
				return true
			}
			for i := range len(s) + 1 {
				if globMatch(glob[1:], s[i:]) {
					return true
				}
			}
			return false
		case '[':
			if len(s) == 0 {
				return false
			}
			fits, rest := globClass(glob[1:], s[0])
			if !fits {
				return false
			}
			glob, s = rest, s[1:]
			continue
		case '\\':
			if len(glob) > 1 {
				glob = glob[1:]
			}
			fallthrough
		default:
			if len(s) == 0 || glob[0] != s[0] {
				return false
			}
		case '?':
			if len(s) == 0 {
				return false
			}
		}
		glob, s = glob[1:], s[1:]
	}
	return len(s) == 0
}

// globClass matches b against the class whose text follows its opening bracket, and returns what follows the class.
func globClass(glob string, b byte) (fits bool, rest string) {
	not := len(glob) > 0 && glob[0] == '^'
	if not {
		glob = glob[1:]
	}
	for len(glob) > 0 && glob[0] != ']' {
		switch {
		case glob[0] == '\\' && len(glob) > 1:
			fits = fits || glob[1] == b
			glob = glob[2:]
		case len(glob) > 2 && glob[1] == '-':
			low, high := min(glob[0], glob[2]), max(glob[0], glob[2])
			fits = fits || low <= b && b <= high
			glob = glob[3:]
		default:
			fits = fits || glob[0] == b
			glob = glob[1:]
		}
	}
	if len(glob) > 0 { // an unclosed class ends with the glob
		glob = glob[1:]
	}
	return fits != not, glob
}
