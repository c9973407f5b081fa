package sandbox

import "fmt"

// globals are what scripts see beside KEYS, ARGV and _G. They and all tables in them are read-only, and the
// same for all runs.
var globals, stringMeta, globalsMeta *table

// init breaks a circle: functions in the tables look into them.
func init() {
	globals = newGlobals()
	stringMeta = library(nil, map[string]value{"__index": globals.getString("string")})
	// Scripts do not see that of _G.
	globalsMeta = library(map[string]func(c *call) int{"__index": func(c *call) int {
		c.m.missingGlobal(c.line, text(c.get(2)))
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
		t.setString(name, &function{native: f})
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
		m.end(&UnavailableError{name})
	}
	m.chargeString(len(name))
	m.raise(line, "Script attempted to access nonexistent global variable '%s'", name)
}

// Arguments of our functions. The conversions and the words are those of Lua's auxiliary library.

func badArgument(c *call, i int, function, what string) {
	c.raise("bad argument #%d to '%s' (%s)", i, function, what)
}

func badType(c *call, i int, function, want string) {
	got := "no value"
	if i <= c.top() {
		got = typeName(c.get(i))
	}
	badArgument(c, i, function, want+" expected, got "+got)
}

func argAny(c *call, i int, function string) value {
	if i > c.top() {
		badArgument(c, i, function, "value expected")
	}
	return c.get(i)
}

func argString(c *call, i int, function string) string {
	text, ok := concatText(c.get(i))
	if !ok {
		badType(c, i, function, "string")
	}
	return text
}

func toNumber(m *machine, v value) (f float64, ok bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case string:
		if len(v) >= 64 {
			m.step(len(v))
		}
		return parseNumber(v)
	}
	return 0, false
}

func argNumber(c *call, i int, function string) float64 {
	f, ok := toNumber(c.m, c.get(i))
	if !ok {
		badType(c, i, function, "number")
	}
	return f
}

func argInt(c *call, i int, function string) int {
	return int(truncate(argNumber(c, i, function)))
}

func optInt(c *call, i int, function string, otherwise int) int {
	if c.get(i) == nil {
		return otherwise
	}
	return argInt(c, i, function)
}

func argTable(c *call, i int, function string) *table {
	t, ok := c.get(i).(*table)
	if !ok {
		badType(c, i, function, "table")
	}
	return t
}

func argFunction(c *call, i int, name string) *function {
	f, ok := c.get(i).(*function)
	if !ok {
		badType(c, i, name, "function")
	}
	return f
}

// each goes through a table. Each element is a step.
func (m *machine) each(t *table, f func(k, v value)) {
	for k, v, _ := t.next(nil); k != nil; k, v, _ = t.next(k) {
		m.step(1)
		f(k, v)
	}
}

// text is tostring without metatables. An address would tell runs apart: all tables have the same.
func text(v value) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case string:
		return v
	case float64:
		return numberString(v)
	case *table:
		return fmt.Sprintf("table: 0x%012x", 0)
	case *function:
		return fmt.Sprintf("function: 0x%012x", 0)
	case *userdata:
		return "userdata: (nil)"
	}
	return fmt.Sprint(v)
}
