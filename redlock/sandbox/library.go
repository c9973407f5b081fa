package sandbox

// globals are what scripts see beside KEYS, ARGV and _G. They and all tables in them are read-only, and
// the same for all runs.
var globals, stringMeta, globalsMeta *table

// init breaks a circle: functions in the tables look into them.
func init() {
	globals = newGlobals()
	stringMeta = library(nil, map[string]value{"__index": globals.getString("string")})
	// Scripts do not see that of _G.
	globalsMeta = library(map[string]func(c *call) int{"__index": func(c *call) int {
		c.m.missingGlobal(c.line, c.m.text(c.get(2)))
		return 0
	}}, nil)
}

func newGlobals() *table {
	return library(baseFunctions, map[string]value{
		"string":   library(stringFunctions, nil),
		"table":    library(tableFunctions, nil),
		"math":     mathLibrary(),
		"cjson":    library(map[string]func(c *call) int{"encode": cjsonEncode, "decode": cjsonDecode}, map[string]value{"null": null, "_NAME": "cjson", "_VERSION": "2.1.0"}),
		"redis":    redisLibrary(),
		"_VERSION": "Lua 5.1",
	})
}

// library makes a read-only table of functions and other fields.
func library(functions map[string]func(c *call) int, fields map[string]value) *table {
	t := &table{}
	for name, f := range functions {
		t.setString(name, &function{native: &native{name, f}})
	}
	for name, v := range fields {
		t.setString(name, v)
	}
	return t.freeze()
}

// globalTable is _G: the globals, and what is another in each run.
func (m *machine) globalTable() *table {
	if m.globals == nil {
		m.charge(tableBytes + (len(globals.entries)+3)*(entryBytes+indexBytes))
		t := &table{entries: append([]entry(nil), globals.entries...), meta: globalsMeta}
		t.setString("KEYS", &m.keys)
		t.setString("ARGV", &m.argv)
		t.setString("_G", t)
		m.globals = t.freeze()
	}
	return m.globals
}

const errReadonly = "Attempt to modify a readonly table"

// writable ends the function when the table is read-only. Like Redis it says so without a position.
func (m *machine) writable(t *table) {
	if t.readonly {
		m.raise(0, errReadonly)
	}
}

// missing are the globals of Redis that scripts do not get here.
var missing = map[string]bool{"bit": true, "coroutine": true, "cmsgpack": true, "struct": true, "load": true, "loadstring": true}

func (m *machine) missingGlobal(line int, name string) {
	if missing[name] {
		m.end(&unavailableError{name})
	}
	m.raiseText(line, "Script attempted to access nonexistent global variable '", name, "'")
}

// Arguments of a function in Go. The conversions and the words are those of Lua's auxiliary library.

func (c *call) badArgument(i int, what string) {
	c.raise("bad argument #%d to '%s' (%s)", i, c.name, what)
}

func (c *call) badType(i int, want string) {
	got := "no value"
	if i <= c.top() {
		got = typeName(c.get(i))
	}
	c.badArgument(i, want+" expected, got "+got)
}

func (c *call) argAny(i int) value {
	if i > c.top() {
		c.badArgument(i, "value expected")
	}
	return c.get(i)
}

func (c *call) argString(i int) string {
	text, ok := c.m.concatText(c.get(i))
	if !ok {
		c.badType(i, "string")
	}
	return text
}

func (c *call) argNumber(i int) float64 {
	f, ok := toNumber(c.m, c.get(i))
	if !ok {
		c.badType(i, "number")
	}
	return f
}

func (c *call) argInt(i int) int { return int(truncate(c.argNumber(i))) }

func (c *call) optInt(i, otherwise int) int {
	if c.get(i) == nil {
		return otherwise
	}
	return c.argInt(i)
}

func (c *call) argTable() *table { // always the first
	t, ok := c.get(1).(*table)
	if !ok {
		c.badType(1, "table")
	}
	return t
}

func toNumber(m *machine, v value) (f float64, ok bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case string:
		if len(v) >= 64 {
			m.step(len(v))
		}
		m.charge(parseBytes * len(v))
		return parseNumber(v)
	}
	return 0, false
}

// each goes through a table. Each element is a step.
func (m *machine) each(t *table, f func(k, v value)) {
	for k, v, _ := t.next(nil); k != nil; k, v, _ = t.next(k) {
		m.step(1)
		f(k, v)
	}
}

// text is tostring without metatables. An address would tell runs apart: all tables have the same.
func (m *machine) text(v value) string {
	switch v := v.(type) {
	case bool:
		if v {
			return "true"
		}
		return "false"
	case string:
		return v
	case float64:
		return m.numberString(v, 14)
	case *table:
		return "table: 0x000000000000"
	case *function:
		return "function: 0x000000000000"
	case *userdata:
		return "userdata: (nil)"
	}
	return "nil"
}
