package sandbox

import (
	"context"
	"fmt"

	lua "github.com/yuin/gopher-lua"
)

// newMachine makes a Lua state with everything that a script can see.
func newMachine() *machine {
	m := &machine{
		Context: context.Background(),
		lua: lua.NewState(lua.Options{
			SkipOpenLibs: true, CallStackSize: callsDepth,
			RegistrySize: stackSize, RegistryMaxSize: stackMax, RegistryGrowStep: stackSize,
		}),
		frozen: map[*lua.LTable]*lua.LTable{},
	}
	L := m.lua
	m.globals = L.G.Global
	m.null = &lua.LUserData{Metatable: lua.LNil}
	stringLib := m.freeze(m.library(m.stringFunctions()))
	for name, v := range map[string]lua.LValue{
		"string": stringLib,
		"table":  m.freeze(m.library(m.tableFunctions())),
		"math":   m.freeze(m.mathLibrary()),
		"bit":    m.freeze(m.library(m.bitFunctions())),
		"cjson":  m.freeze(m.cjsonLibrary()),
		"redis":  m.freeze(m.redisLibrary()),
	} {
		m.globals.RawSetString(name, v)
	}
	for name, f := range m.baseFunctions() {
		m.globals.RawSetString(name, L.NewFunction(f))
	}
	for name, f := range m.operators() {
		m.globals.RawSetString(name, L.NewFunction(f))
	}
	m.globals.RawSetString("redis.call", L.NewFunction(m.redisCall))
	m.globals.RawSetString("redis.pcall", L.NewFunction(m.redisPcall))
	m.globals.RawSetString("_VERSION", lua.LString("Lua 5.1"))
	m.globals.RawSetString("_G", m.freeze(m.globals))

	// A string's methods.
	methods := L.NewTable()
	methods.RawSetString("__index", stringLib)
	L.SetMetatable(lua.LString(""), methods)
	m.freeze(methods)

	guard := L.NewTable()
	guard.RawSetString("__index", L.NewFunction(m.missingGlobal))
	guard.RawSetString("__newindex", L.NewFunction(readonly))
	m.globals.Metatable = guard

	m.onErr = L.NewFunction(m.describeError)
	L.SetContext(m)
	return m
}

func (m *machine) library(functions map[string]lua.LGFunction) *lua.LTable {
	t := m.lua.NewTable()
	for name, f := range functions {
		t.RawSetString(name, m.lua.NewFunction(f))
	}
	return t
}

// freeze makes what scripts get instead of a table: an empty one that looks its content up there and cannot be written.
// gopher-lua has no read-only tables; functions that go round metatables (rawset, next, …) look into frozen.
func (m *machine) freeze(content *lua.LTable) *lua.LTable {
	front := m.lua.NewTable()
	guard := m.lua.NewTable()
	guard.RawSetString("__index", content)
	guard.RawSetString("__newindex", m.lua.NewFunction(readonly))
	front.Metatable = guard
	m.frozen[front] = content
	return front
}

// frozenFor finds what scripts get for a table of ours.
func (m *machine) frozenFor(content *lua.LTable) lua.LValue {
	for front, c := range m.frozen {
		if c == content {
			return front
		}
	}
	return lua.LNil
}

const errReadonly = "Attempt to modify a readonly table"

func readonly(L *lua.LState) int {
	L.RaiseError(errReadonly)
	return 0
}

// writable ends the function when the table is read-only. Like Redis it says so without a position.
func (m *machine) writable(t *lua.LTable) {
	if _, ok := m.frozen[t]; ok {
		m.fail(errReadonly)
	}
}

// content is the table to read.
func (m *machine) content(t *lua.LTable) *lua.LTable {
	if c, ok := m.frozen[t]; ok {
		return c
	}
	return t
}

// missing are the globals of Redis that scripts do not get here.
var missing = map[string]bool{"coroutine": true, "cmsgpack": true, "struct": true, "load": true, "loadstring": true}

func (m *machine) missingGlobal(L *lua.LState) int {
	name := L.ToString(2)
	if missing[name] {
		m.end(&UnavailableError{name})
	}
	m.chargeString(len(name))
	L.RaiseError("Script attempted to access nonexistent global variable '%s'", name)
	return 0
}

// fail raises an error without a position.
func (m *machine) fail(format string, args ...any) {
	m.lua.Error(lua.LString(fmt.Sprintf(format, args...)), 0)
}

// Arguments of our functions. The conversions and the words are those of Lua's auxiliary library.

func badArgument(L *lua.LState, i int, function, what string) {
	L.RaiseError("bad argument #%d to '%s' (%s)", i, function, what)
}

func badType(L *lua.LState, i int, function, want string) {
	got := "no value"
	if i <= L.GetTop() {
		got = L.Get(i).Type().String()
	}
	badArgument(L, i, function, want+" expected, got "+got)
}

func argAny(L *lua.LState, i int, function string) lua.LValue {
	if i > L.GetTop() {
		badArgument(L, i, function, "value expected")
	}
	return L.Get(i)
}

func argString(L *lua.LState, i int, function string) string {
	switch v := L.Get(i).(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return numberString(float64(v))
	}
	badType(L, i, function, "string")
	return ""
}

func toNumber(L *lua.LState, v lua.LValue) (f float64, ok bool) {
	switch v := v.(type) {
	case lua.LNumber:
		return float64(v), true
	case lua.LString:
		workOnDigits(L, string(v))
		return parseNumber(string(v))
	}
	return 0, false
}

// workOnDigits counts what it takes to read a number, where that is much.
func workOnDigits(L *lua.LState, text string) {
	if len(text) >= 64 {
		L.Context().(*machine).work(len(text))
	}
}

func argNumber(L *lua.LState, i int, function string) float64 {
	f, ok := toNumber(L, L.Get(i))
	if !ok {
		badType(L, i, function, "number")
	}
	return f
}

func argInt(L *lua.LState, i int, function string) int {
	return int(truncate(argNumber(L, i, function)))
}

func optInt(L *lua.LState, i int, function string, otherwise int) int {
	if L.Get(i) == lua.LNil {
		return otherwise
	}
	return argInt(L, i, function)
}

func argTable(L *lua.LState, i int, function string) *lua.LTable {
	t, ok := L.Get(i).(*lua.LTable)
	if !ok {
		badType(L, i, function, "table")
	}
	return t
}

func argFunction(L *lua.LState, i int, function string) *lua.LFunction {
	f, ok := L.Get(i).(*lua.LFunction)
	if !ok {
		badType(L, i, function, "function")
	}
	return f
}

// each goes through a table. Each element is a step.
func (m *machine) each(t *lua.LTable, f func(k, v lua.LValue)) {
	t = m.content(t)
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		m.work(1)
		f(k, v)
	}
}
