package memmaster

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"

	"redlockd/redlock/resp"
)

// cmdDEL is UNLINK, too: there is no memory to be freed later.
func cmdDEL(c *client, args [][]byte) {
	n := int64(0)
	for _, key := range args[1:] {
		if e := c.m.data.lookup(key); e.kind != none {
			c.m.data.remove(e)
			n++
		}
	}
	c.integer(n)
}

func cmdEXISTS(c *client, args [][]byte) {
	n := int64(0)
	for _, key := range args[1:] {
		if c.m.data.lookup(key).kind != none {
			n++
		}
	}
	c.integer(n)
}

func cmdTYPE(c *client, args [][]byte) {
	c.status(kindNames[c.m.data.lookup(args[1]).kind])
}

func cmdPTTL(c *client, args [][]byte) {
	switch e := c.m.data.lookup(args[1]); {
	case e.kind == none:
		c.integer(-2)
	case e.expireAt == 0:
		c.integer(-1)
	default:
		c.integer(c.m.data.ttl(e))
	}
}

// cmdPEXPIRE knows no NX, XX, GT, LT.
func cmdPEXPIRE(c *client, args [][]byte) {
	data := &c.m.data
	ms, ok := resp.ParseInt(args[2])
	switch {
	case !ok:
		c.fail(errNotInt)
		return
	case ms > math.MaxInt64-data.now: // an end beyond 64 bits, which Redis refuses too
		c.failExpire("pexpire")
		return
	}
	e := data.lookup(args[1])
	switch {
	case e.kind == none:
		c.integer(0)
		return
	case ms <= 0: // an end that has passed deletes the key now
		data.remove(e)
	default:
		data.expireAt(e, data.now+ms)
		data.touch(e)
	}
	c.integer(1)
}

// scanCount is how many keys SCAN names without COUNT.
const scanCount = 10

// cmdSCAN names the keys in the order of their hashes, from the cursor on. So a key that stands there
// from the first call to the last is named, whatever comes and goes meanwhile.
func cmdSCAN(c *client, args [][]byte) {
	cursor, ok := resp.ParseInt(args[1])
	if !ok || cursor < 0 {
		c.fail("ERR invalid cursor")
		return
	}
	count := int64(scanCount)
	if len(args) > 2 {
		if len(args) != 4 || !is(args[2], "COUNT") {
			c.fail(errSyntax)
			return
		}
		if count, ok = resp.ParseInt(args[3]); !ok {
			c.fail(errNotInt)
			return
		} else if count < 1 {
			c.fail(errSyntax)
			return
		}
	}
	keys := c.m.data.keysFrom(cursor)
	n, next := len(keys), int64(0)
	if int64(n) > count {
		n = int(count)
		for next = keys[n-1].place + 1; n < len(keys) && keys[n].place < next; { // those of one place are named together
			n++
		}
		if n == len(keys) {
			next = 0
		}
	}
	c.array(2)
	c.texts(strconv.FormatInt(next, 10))
	c.array(n)
	for _, k := range keys[:n] {
		c.texts(k.key)
	}
}

// scanned is a key, and where it is in the order of SCAN.
type scanned struct {
	place int64
	key   string
}

// keysFrom are those from the cursor on, in the order of SCAN.
func (s *store) keysFrom(cursor int64) (keys []scanned) {
	for key, e := range s.entries {
		if place := scanPlace(key); place >= cursor && !s.expired(e) {
			keys = append(keys, scanned{place, key})
		}
	}
	slices.SortFunc(keys, func(a, b scanned) int { return cmp.Or(cmp.Compare(a.place, b.place), strings.Compare(a.key, b.key)) })
	return keys
}

// scanPlace is where a key is in the order of SCAN, from 1 on.
func scanPlace(key string) int64 {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int64(h.Sum32()) + 1
}

// cmdDBSIZE counts the keys that have not expired. (Redis also counts those that nothing has touched
// since.)
func cmdDBSIZE(c *client, args [][]byte) {
	// The count is for redlockd bootstrap, which must not take a key that has expired for a lock.
	c.m.data.sweep(len(c.m.data.due.items))
	c.integer(int64(len(c.m.data.entries)))
}

func cmdFLUSHALL(c *client, args [][]byte) { c.flushKeys(args, c.m.data.flush) }

func cmdFLUSHDB(c *client, args [][]byte) {
	c.flushKeys(args, func() {
		for _, key := range sortedKeys(c.m.data.entries) {
			c.m.data.remove(c.m.data.entries[key])
		}
	})
}

func (c *client) flushKeys(args [][]byte, flush func()) {
	if len(args) > 2 || len(args) == 2 && !is(args[1], "ASYNC") && !is(args[1], "SYNC") {
		c.fail(errSyntax)
		return
	}
	// Those who track are told once of all keys, before each key is forgotten without a word.
	c.m.trackFlush()
	flush()
	c.ok()
}

// cmdSELECT knows databases 0 and 1.
func cmdSELECT(c *client, args [][]byte) {
	switch db, ok := resp.ParseInt(args[1]); {
	case !ok:
		c.fail(errNotInt)
	case db < 0 || db > 1:
		c.fail("ERR DB index is out of range")
	default:
		c.db = int(db)
		c.ok()
	}
}

// cmdSWAPDB knows databases 0 and 1.
func cmdSWAPDB(c *client, args [][]byte) {
	if string(args[1]) != "0" || string(args[2]) != "1" {
		c.fail("ERR only SWAPDB 0 1 is supported here")
		return
	}
	c.m.data.swap()
	c.ok()
}
