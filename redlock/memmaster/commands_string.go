package memmaster

import (
	"math"
	"strconv"
	"strings"
)

// lookupString returns a key's entry, nil if it is absent. With ok false the key holds no string, and the error is
// answered.
func (c *client) lookupString(key []byte) (e *entry, ok bool) {
	return c.lookupKind(key, kindString)
}

func (c *client) lookupKind(key []byte, k kind) (e *entry, ok bool) {
	e = c.m.data.lookup(c.db, key)
	if e != nil && e.kind != k {
		c.fail(errWrongType)
		return nil, false
	}
	return e, true
}

func (c *client) stringOrNull(e *entry) {
	if e == nil {
		c.null()
	} else {
		c.bulkString(e.str)
	}
}

func cmdGET(c *client, args [][]byte) {
	if e, ok := c.lookupString(args[1]); ok {
		c.stringOrNull(e)
	}
}

func cmdMGET(c *client, args [][]byte) {
	c.array(len(args) - 1)
	for _, key := range args[1:] {
		if e := c.m.data.lookup(c.db, key); e != nil && e.kind == kindString {
			c.bulkString(e.str)
		} else {
			c.null()
		}
	}
}

func cmdSTRLEN(c *client, args [][]byte) {
	if e, ok := c.lookupString(args[1]); ok {
		if e == nil {
			c.integer(0)
		} else {
			c.integer(int64(len(e.str)))
		}
	}
}

func cmdGETRANGE(c *client, args [][]byte) {
	start, ok1 := parseInt(args[2])
	end, ok2 := parseInt(args[3])
	if !ok1 || !ok2 {
		c.fail(errNotInt)
		return
	}
	e, ok := c.lookupString(args[1])
	if !ok {
		return
	}
	var s string
	if e != nil {
		s = e.str
	}
	size := int64(len(s))
	if start < 0 && end < 0 && start > end {
		c.bulkString("")
		return
	}
	if start < 0 {
		start = max(start+size, 0)
	}
	if end < 0 {
		end = max(end+size, 0)
	}
	end = min(end, size-1)
	if start > end || size == 0 {
		c.bulkString("")
		return
	}
	c.bulkString(s[start : end+1])
}

// setOptions are the options of SET and GETEX. A condition or a lifetime is the lower-case word that gave it, or "".
type setOptions struct {
	condition string // nx xx ifeq ifne
	match     []byte // the argument of ifeq and ifne
	lifetime  string // ex px exat pxat keepttl persist
	time      []byte // the argument of ex px exat pxat
	get       bool
}

// setWords has every option under its own name: an argument is looked up without making a string of it.
var setWords = func() map[string]string {
	words := map[string]string{}
	for _, w := range []string{"nx", "xx", "ifeq", "ifne", "get", "ex", "px", "exat", "pxat", "keepttl", "persist"} {
		words[w] = w
	}
	return words
}()

// parseSetOptions reads the options of SET, or with getex set those of GETEX. The same option may come again and then
// counts; two conditions or two lifetimes exclude each other.
func (c *client) parseSetOptions(args [][]byte, getex bool) (o setOptions, ok bool) {
	for i := 0; i < len(args); i++ {
		var room [wordSize]byte
		word := setWords[string(lower(&room, args[i]))]
		slot, argument, allowed := &o.lifetime, &o.time, true
		switch word {
		case "get":
			if !getex {
				o.get = true
				continue
			}
			allowed = false
		case "nx", "xx":
			slot, argument, allowed = &o.condition, nil, !getex
		case "ifeq", "ifne":
			slot, argument, allowed = &o.condition, &o.match, c.m.options.IFEQ && !getex
		case "keepttl":
			argument, allowed = nil, !getex
		case "persist":
			argument, allowed = nil, getex
		case "ex", "px", "exat", "pxat":
		default:
			allowed = false
		}
		if !allowed || *slot != "" && *slot != word || argument != nil && i+1 == len(args) {
			c.fail(errSyntax)
			return o, false
		}
		*slot = word
		if argument != nil {
			i++
			*argument = args[i]
		}
	}
	return o, true
}

// allow reports whether the condition holds for what the key holds now.
func (o *setOptions) allow(e *entry) bool {
	switch o.condition {
	case "nx":
		return e == nil
	case "xx":
		return e != nil
	case "ifeq":
		return e != nil && e.str == string(o.match)
	case "ifne":
		return e == nil || e.str != string(o.match)
	}
	return true
}

// comparing reports whether the condition is about the value, which must be a string then.
func (o *setOptions) comparing() bool { return o.match != nil }

// end is the absolute time that the lifetime means, 0 for none; or it answers the error.
func (c *client) end(o setOptions, command string) (at int64, ok bool) {
	if o.time == nil {
		return 0, true
	}
	return c.expiry(o.time, o.lifetime[0] == 'e', len(o.lifetime) == 4, command)
}

// expiry turns the argument of EX, PX, EXAT or PXAT into an absolute time in milliseconds, or answers the error.
func (c *client) expiry(arg []byte, seconds, absolute bool, command string) (at int64, ok bool) {
	n, ok := parseInt(arg)
	if !ok {
		c.fail(errNotInt)
		return 0, false
	}
	if n <= 0 || seconds && n > math.MaxInt64/1000 {
		c.failExpire(command)
		return 0, false
	}
	if seconds {
		n *= 1000
	}
	if !absolute {
		if n > math.MaxInt64-c.m.data.now {
			c.failExpire(command)
			return 0, false
		}
		n += c.m.data.now
	}
	return n, true
}

func cmdSET(c *client, args [][]byte) {
	o, ok := c.parseSetOptions(args[3:], false)
	if !ok {
		return
	}
	at, ok := c.end(o, "set")
	if !ok {
		return
	}
	data := &c.m.data
	e := data.lookup(c.db, args[1])
	if e != nil && e.kind != kindString && (o.get || o.comparing()) {
		c.fail(errWrongType)
		return
	}
	if o.get {
		c.stringOrNull(e)
	}
	if !o.allow(e) {
		if !o.get {
			c.null()
		}
		return
	}
	if o.lifetime == "keepttl" && e != nil {
		at = e.expireAt
	}
	e = data.setString(c.db, args[1], string(args[2]))
	if at != 0 {
		data.expireAt(e, at)
	}
	if !o.get {
		c.ok()
	}
}

func cmdSETNX(c *client, args [][]byte) {
	absent := c.m.data.lookup(c.db, args[1]) == nil
	if absent {
		c.m.data.setString(c.db, args[1], string(args[2]))
	}
	c.boolean(absent)
}

func cmdSETEX(c *client, args [][]byte)  { c.setFor(args, true, "setex") }
func cmdPSETEX(c *client, args [][]byte) { c.setFor(args, false, "psetex") }

func (c *client) setFor(args [][]byte, seconds bool, command string) {
	if at, ok := c.expiry(args[2], seconds, false, command); ok {
		c.m.data.expireAt(c.m.data.setString(c.db, args[1], string(args[3])), at)
		c.ok()
	}
}

func cmdGETDEL(c *client, args [][]byte) {
	if e, ok := c.lookupString(args[1]); ok {
		c.stringOrNull(e)
		if e != nil {
			c.m.data.remove(e)
		}
	}
}

func cmdGETEX(c *client, args [][]byte) {
	o, ok := c.parseSetOptions(args[2:], true)
	if !ok {
		return
	}
	e, ok := c.lookupString(args[1])
	if !ok {
		return
	}
	if e == nil {
		c.null()
		return
	}
	at, ok := c.end(o, "getex")
	if !ok {
		return
	}
	c.bulkString(e.str)
	data := &c.m.data
	switch {
	case at != 0 && at <= data.now:
		data.remove(e)
	case at != 0:
		data.expireAt(e, at)
		data.touch(e)
	case o.lifetime == "persist" && e.expireAt != 0:
		data.persist(e)
		data.touch(e)
	}
}

func cmdMSET(c *client, args [][]byte) {
	if len(args)%2 == 0 {
		c.failArity("mset")
		return
	}
	c.setPairs(args)
	c.ok()
}

func cmdMSETNX(c *client, args [][]byte) {
	if len(args)%2 == 0 {
		c.failArity("msetnx")
		return
	}
	for i := 1; i < len(args); i += 2 {
		if c.m.data.lookup(c.db, args[i]) != nil {
			c.integer(0)
			return
		}
	}
	c.setPairs(args)
	c.integer(1)
}

func (c *client) setPairs(args [][]byte) {
	for i := 1; i < len(args); i += 2 {
		c.m.data.setString(c.db, args[i], string(args[i+1]))
	}
}

// valueBytesMax bounds a string that grows by APPEND, as Redis's proto-max-bulk-len does.
const valueBytesMax = 512 << 20

func cmdAPPEND(c *client, args [][]byte) {
	e, ok := c.lookupString(args[1])
	if !ok {
		return
	}
	data := &c.m.data
	if e == nil {
		e = data.create(c.db, args[1], kindString)
	}
	if len(e.str)+len(args[2]) > valueBytesMax {
		c.fail("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
		return
	}
	e.str += string(args[2])
	data.touch(e)
	c.integer(int64(len(e.str)))
}

func cmdINCR(c *client, args [][]byte) { c.add(args[1], 1) }
func cmdDECR(c *client, args [][]byte) { c.add(args[1], -1) }

func cmdINCRBY(c *client, args [][]byte) {
	if n, ok := parseInt(args[2]); ok {
		c.add(args[1], n)
	} else {
		c.fail(errNotInt)
	}
}

func cmdDECRBY(c *client, args [][]byte) {
	n, ok := parseInt(args[2])
	switch {
	case !ok:
		c.fail(errNotInt)
	case n == math.MinInt64:
		c.fail("ERR decrement would overflow")
	default:
		c.add(args[1], -n)
	}
}

// add adds to a string that holds an integer. The key keeps its expiry.
func (c *client) add(key []byte, n int64) {
	e, ok := c.lookupString(key)
	if !ok {
		return
	}
	var old int64
	if e != nil {
		if old, ok = parseInt([]byte(e.str)); !ok {
			c.fail(errNotInt)
			return
		}
	}
	sum, ok := addInts(old, n)
	if !ok {
		c.fail(errOverflow)
		return
	}
	if e == nil {
		e = c.m.data.create(c.db, key, kindString)
	}
	e.str = strconv.FormatInt(sum, 10)
	c.m.data.touch(e)
	c.integer(sum)
}

func addInts(a, b int64) (sum int64, ok bool) {
	sum = a + b
	return sum, (sum > a) == (b > 0)
}

// cmdDELEX is DEL with a condition: Redis 8.4, see Options.IFEQ. Its digests are not supported.
func cmdDELEX(c *client, args [][]byte) {
	if len(args) == 2 {
		cmdDEL(c, args)
		return
	}
	if len(args) != 4 {
		c.failArity("delex")
		return
	}
	o := setOptions{condition: strings.ToLower(string(args[2])), match: args[3]}
	if o.condition != "ifeq" && o.condition != "ifne" {
		c.fail("ERR Invalid condition. Use IFEQ or IFNE")
		return
	}
	e, ok := c.lookupString(args[1])
	if !ok {
		return
	}
	met := e != nil && o.allow(e)
	if met {
		c.m.data.remove(e)
	}
	c.boolean(met)
}

// cmdDELIFEQ deletes a key that holds a value: Valkey 9, see Options.DELIFEQ.
func cmdDELIFEQ(c *client, args [][]byte) {
	e, ok := c.lookupString(args[1])
	if !ok {
		return
	}
	met := e != nil && e.str == string(args[2])
	if met {
		c.m.data.remove(e)
	}
	c.boolean(met)
}
