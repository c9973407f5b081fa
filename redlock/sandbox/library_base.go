package sandbox

import (
	"math"
	"strings"
)

// baseFunctions are the globals that are functions.
var baseFunctions = map[string]func(c *call) int{
	"assert":         luaAssert,
	"collectgarbage": func(c *call) int { c.push(0.0); return 1 },
	"error":          luaRaise,
	"gcinfo":         func(c *call) int { c.push(64.0); c.push(0.0); return 2 },
	"getmetatable":   luaGetmetatable,
	"ipairs":         luaIpairs,
	"next":           luaNext,
	"pairs":          luaPairs,
	"pcall":          luaPcall,
	"rawequal":       func(c *call) int { c.push(argAny(c, 1, "rawequal") == argAny(c, 2, "rawequal")); return 1 },
	"rawget":         func(c *call) int { c.push(argTable(c, 1, "rawget").get(argAny(c, 2, "rawget"))); return 1 },
	"rawset":         luaRawset,
	"select":         luaSelect,
	"setmetatable":   luaSetmetatable,
	"tonumber":       luaTonumber,
	"tostring":       luaTostring,
	"type":           func(c *call) int { c.push(typeName(argAny(c, 1, "type"))); return 1 },
	"unpack":         luaUnpack,
	"xpcall":         luaXpcall,
}

func luaAssert(c *call) int {
	if !truthy(argAny(c, 1, "assert")) {
		if c.top() < 2 {
			c.raise("assertion failed!")
		}
		text := argString(c, 2, "assert")
		c.m.chargeString(len(text))
		c.raise("%s", text)
	}
	return c.top()
}

// luaRaise is error(). Like Lua 5.1's it takes no argument for nil, and a number for a string.
func luaRaise(c *call) int {
	v, level := c.get(1), optInt(c, 2, "error", 1)
	if text, ok := concatText(v); ok {
		c.m.chargeString(len(text))
		v = c.position(level) + text
	}
	if c.line > 0 {
		c.m.line = c.line
	}
	c.m.throw(v)
	return 0
}

func luaGetmetatable(c *call) int {
	switch v := argAny(c, 1, "getmetatable").(type) {
	case string:
		c.push(stringMeta)
	case *table:
		switch protected := metaField(v, "__metatable"); {
		case protected != nil:
			c.push(protected)
		case v.meta == nil || v.readonly:
			c.push(nil)
		default:
			c.push(v.meta)
		}
	default:
		c.push(nil)
	}
	return 1
}

func luaSetmetatable(c *call) int {
	t := argTable(c, 1, "setmetatable")
	meta, isTable := c.get(2).(*table)
	if c.top() < 2 || !isTable && c.get(2) != nil {
		badArgument(c, 2, "setmetatable", "nil or table expected")
	}
	c.m.writable(t)
	if metaField(t, "__metatable") != nil {
		c.raise("cannot change a protected metatable")
	}
	t.meta = meta
	c.keep(1)
	return 1
}

var ipairsStep = &function{native: func(c *call) int {
	i := argInt(c, 2, "ipairs") + 1
	v := argTable(c, 1, "ipairs").get(float64(i))
	if v == nil {
		return 0
	}
	c.push(float64(i))
	c.push(v)
	return 2
}}

func luaIpairs(c *call) int {
	t := argTable(c, 1, "ipairs")
	c.push(ipairsStep)
	c.push(t)
	c.push(0.0)
	return 3
}

func luaNext(c *call) int {
	k, v, ok := argTable(c, 1, "next").next(c.get(2))
	if !ok {
		c.raise("invalid key to 'next'")
	}
	c.push(k)
	if k == nil {
		return 1
	}
	c.push(v)
	return 2
}

var nextStep = &function{native: luaNext}

func luaPairs(c *call) int {
	t := argTable(c, 1, "pairs")
	c.push(nextStep)
	c.push(t)
	c.push(nil)
	return 3
}

// luaPcall is pcall() as Redis changes it: of an error that is a table with a field err it returns that field.
func luaPcall(c *call) int {
	f := argAny(c, 1, "pcall")
	raised := c.m.protect(f, c.base+1)
	if raised == nil {
		c.m.stack[c.base] = true
		return c.top()
	}
	v := raised.value
	if t, ok := v.(*table); ok {
		if text, ok := t.getString("err").(string); ok {
			v = text
		}
	}
	c.push(false)
	c.push(v)
	return 2
}

// luaXpcall is xpcall(), whose handler gets what was raised.
func luaXpcall(c *call) int {
	f := c.get(1)
	handler, ok := argAny(c, 2, "xpcall").(*function)
	c.keep(1)
	raised := c.m.protect(f, c.base+1)
	if raised == nil {
		c.m.stack[c.base] = true
		return c.top()
	}
	v := raised.value
	if ok {
		c.push(v)
		v = c.invoke(handler, 1)
	}
	c.push(false)
	c.push(v)
	return 2
}

func luaRawset(c *call) int {
	t, k, v := argTable(c, 1, "rawset"), argAny(c, 2, "rawset"), argAny(c, 3, "rawset")
	c.m.writable(t)
	c.m.checkKey(k, c.line)
	t.set(c.m, k, v)
	c.keep(1)
	return 1
}

func luaSelect(c *call) int {
	n := c.top()
	if c.get(1) == "#" {
		c.push(float64(n - 1))
		return 1
	}
	i := argInt(c, 1, "select")
	switch {
	case i < 0:
		i += n
	case i > n:
		i = n
	}
	if i < 1 {
		badArgument(c, 1, "select", "index out of range")
	}
	return n - i
}

func luaTonumber(c *call) int {
	base := optInt(c, 2, "tonumber", 10)
	if base == 10 {
		if f, ok := toNumber(c.m, argAny(c, 1, "tonumber")); ok {
			c.push(f)
		} else {
			c.push(nil)
		}
		return 1
	}
	text := argString(c, 1, "tonumber")
	c.m.step(len(text))
	text, _, _ = strings.Cut(text, "\x00") // C's string ends there
	text = strings.Trim(text, " \t\n\v\f\r")
	if base < 2 || base > 36 {
		badArgument(c, 2, "tonumber", "base out of range")
	}
	digits, negative := strings.CutPrefix(text, "-")
	if !negative {
		digits = strings.TrimPrefix(text, "+")
	}
	if base == 16 && len(digits) > 2 && (digits[:2] == "0x" || digits[:2] == "0X") {
		digits = digits[2:]
	}
	u, ok := parseUnsigned(digits, base)
	if !ok {
		c.push(nil)
		return 1
	}
	if negative && u != math.MaxUint64 {
		u = -u
	}
	c.push(float64(u))
	return 1
}

func luaTostring(c *call) int {
	v := argAny(c, 1, "tostring")
	if f := metaField(v, "__tostring"); f != nil {
		c.push(v)
		c.push(c.invoke(f, 1))
		return 1
	}
	c.push(text(v))
	return 1
}

// unpackMax is how many values a table or a string can be unpacked to, as in C Lua.
const unpackMax = 8000

func luaUnpack(c *call) int {
	t := argTable(c, 1, "unpack")
	i, j := optInt(c, 2, "unpack", 1), optInt(c, 3, "unpack", t.length())
	if i > j {
		return 0
	}
	if j-i < 0 || j-i >= unpackMax {
		c.raise("too many results to unpack")
	}
	c.m.many(j - i + 1)
	for k := i; k <= j; k++ {
		c.push(t.get(float64(k)))
	}
	return j - i + 1
}
