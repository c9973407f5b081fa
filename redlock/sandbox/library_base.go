package sandbox

import (
	"math"
	"strings"
)

// baseFunctions are the globals that are functions.
var baseFunctions = map[string]func(c *call) int{
	"assert":         luaAssert,
	"collectgarbage": func(c *call) int { return c.result(0.0) },
	"error":          luaRaise,
	"gcinfo":         func(c *call) int { return c.results(64.0, 0.0) },
	"getmetatable":   luaGetmetatable,
	"ipairs":         luaIpairs,
	"next":           luaNext,
	"pairs":          luaPairs,
	"pcall":          luaPcall,
	"rawequal":       func(c *call) int { return c.result(c.argAny(1) == c.argAny(2)) },
	"rawget":         func(c *call) int { return c.result(c.argTable().get(c.argAny(2))) },
	"rawset":         luaRawset,
	"select":         luaSelect,
	"setmetatable":   luaSetmetatable,
	"tonumber":       luaTonumber,
	"tostring":       luaTostring,
	"type":           func(c *call) int { return c.result(typeName(c.argAny(1))) },
	"unpack":         luaUnpack,
	"xpcall":         luaXpcall,
}

func luaAssert(c *call) int {
	if !truthy(c.argAny(1)) {
		if c.top() < 2 {
			c.raise("assertion failed!")
		}
		c.m.raiseText(c.line, c.argString(2))
	}
	return c.top()
}

// luaRaise is error(). Like Lua 5.1's it takes no argument for nil, and a number for a string.
func luaRaise(c *call) int {
	v, level := c.get(1), c.optInt(2, 1)
	b := builder{m: c.m}
	b.position(c.lineOf(level))
	if b.value(v) {
		v = b.string()
	}
	if c.line > 0 {
		c.m.line = c.line
	}
	c.m.throw(v)
	return 0
}

func luaGetmetatable(c *call) int {
	switch v := c.argAny(1).(type) {
	case string:
		return c.result(stringMeta)
	case *table:
		if protected := metaField(v, "__metatable"); protected != nil {
			return c.result(protected)
		}
		if v.meta != nil && !v.readonly {
			return c.result(v.meta)
		}
	}
	return c.result(nil)
}

func luaSetmetatable(c *call) int {
	t := c.argTable()
	meta, isTable := c.get(2).(*table)
	if c.top() < 2 || !isTable && c.get(2) != nil {
		c.badArgument(2, "nil or table expected")
	}
	c.m.writable(t)
	if metaField(t, "__metatable") != nil {
		c.raise("cannot change a protected metatable")
	}
	t.meta = meta
	c.keepFirst()
	return 1
}

var ipairsStep = &function{native: &native{"ipairs", func(c *call) int {
	i := c.argInt(2) + 1
	v := c.argTable().get(float64(i))
	if v == nil {
		return 0
	}
	return c.results(float64(i), v)
}}}

func luaIpairs(c *call) int {
	t := c.argTable()
	return c.results(ipairsStep, t, 0.0)
}

func luaNext(c *call) int {
	k, v, ok := c.argTable().next(c.get(2))
	if !ok {
		c.m.raise(0, "invalid key to 'next'") // without a position, as in C Lua
	}
	if k == nil {
		return c.result(nil)
	}
	return c.results(k, v)
}

var nextStep = &function{native: &native{"next", luaNext}}

func luaPairs(c *call) int {
	t := c.argTable()
	return c.results(nextStep, t, nil)
}

// luaPcall is pcall() as Redis changes it: of an error with a field err it returns that field.
func luaPcall(c *call) int {
	return c.protected(c.argAny(1), func(raised value) value {
		if t, ok := raised.(*table); ok {
			if text, ok := t.getString("err").(string); ok {
				return text
			}
		}
		return raised
	})
}

// luaXpcall is xpcall(), whose handler gets what was raised.
func luaXpcall(c *call) int {
	f := c.get(1)
	handler, ok := c.argAny(2).(*function)
	c.keepFirst()
	return c.protected(f, func(raised value) value {
		if !ok {
			return raised
		}
		c.push(raised)
		return c.invoke(handler, 1)
	})
}

// protected calls a function with the arguments behind it, and returns true and its results, or false
// and what handle makes of the error.
func (c *call) protected(f value, handle func(raised value) value) int {
	if raised := c.m.protect(f, c.base+1); raised != nil {
		return c.results(false, handle(raised.value))
	}
	c.m.stack[c.base] = true
	return c.top()
}

func luaRawset(c *call) int {
	t, k, v := c.argTable(), c.argAny(2), c.argAny(3)
	c.m.writable(t)
	c.m.checkKey(k, c.line)
	t.set(c.m, k, v)
	c.keepFirst()
	return 1
}

func luaSelect(c *call) int {
	n := c.top()
	if c.get(1) == "#" {
		return c.result(float64(n - 1))
	}
	i := c.argInt(1)
	switch {
	case i < 0:
		i += n
	case i > n:
		i = n
	}
	if i < 1 {
		c.badArgument(1, "index out of range")
	}
	return n - i
}

func luaTonumber(c *call) int {
	base := c.optInt(2, 10)
	if base == 10 {
		if f, ok := toNumber(c.m, c.argAny(1)); ok {
			return c.result(f)
		}
		return c.result(nil)
	}
	text := c.argString(1)
	c.m.step(len(text))
	text, _, _ = strings.Cut(text, "\x00") // C's string ends there
	text = strings.Trim(text, " \t\n\v\f\r")
	if base < 2 || base > 36 {
		c.badArgument(2, "base out of range")
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
		return c.result(nil)
	}
	if negative && u != math.MaxUint64 {
		u = -u
	}
	return c.result(float64(u))
}

func luaTostring(c *call) int {
	v := c.argAny(1)
	if f := metaField(v, "__tostring"); f != nil {
		c.push(v)
		return c.result(c.invoke(f, 1))
	}
	return c.result(c.m.text(v))
}

// unpackMax is how many values a table or a string can be unpacked to, as in C Lua.
const unpackMax = 8000

func luaUnpack(c *call) int {
	t := c.argTable()
	i, j := c.optInt(2, 1), c.optInt(3, t.length())
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
