package sandbox

import (
	"fmt"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

func (m *machine) baseFunctions() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"assert":         m.luaAssert,
		"collectgarbage": func(L *lua.LState) int { L.Push(lua.LNumber(0)); return 1 },
		"error":          m.luaError,
		"gcinfo":         func(L *lua.LState) int { L.Push(lua.LNumber(64)); L.Push(lua.LNumber(0)); return 2 },
		"getmetatable":   m.luaGetmetatable,
		"ipairs":         m.luaIpairs(),
		"next":           m.luaNext,
		"pairs":          m.luaPairs(),
		"pcall":          m.luaPcall,
		"rawequal":       luaRawequal,
		"rawget":         m.luaRawget,
		"rawset":         m.luaRawset,
		"select":         luaSelect,
		"setmetatable":   m.luaSetmetatable,
		"tonumber":       luaTonumber,
		"tostring":       m.luaTostring,
		"type":           luaType,
		"unpack":         m.luaUnpack,
		"xpcall":         m.luaXpcall,
	}
}

func (m *machine) luaAssert(L *lua.LState) int {
	argAny(L, 1, "assert")
	if !lua.LVAsBool(L.Get(1)) {
		if L.GetTop() < 2 {
			L.RaiseError("assertion failed!")
		}
		text := argString(L, 2, "assert")
		m.chargeString(len(text))
		L.Error(lua.LString(text), 1)
	}
	return L.GetTop()
}

// luaError is error(). Like Lua 5.1's it takes no argument for nil, and a number for a string.
func (m *machine) luaError(L *lua.LState) int {
	v, level := L.Get(1), optInt(L, 2, "error", 1)
	if n, ok := v.(lua.LNumber); ok {
		v = lua.LString(numberString(float64(n)))
	}
	if text, ok := v.(lua.LString); ok {
		m.chargeString(len(text))
		L.Error(lua.LString(position(L, level))+text, 0)
	}
	L.Error(v, 0)
	return 0
}

// position is "user_script:1: " for the function that called ours (level 1), or its caller (2), and "" if it is not Lua.
func position(L *lua.LState, level int) string {
	frame, ok := L.GetStack(level)
	if !ok || level < 1 {
		return ""
	}
	if _, err := L.GetInfo("Sl", frame, lua.LNil); err != nil || frame.What == "G" {
		return ""
	}
	return fmt.Sprintf("%s:%d: ", chunkName, frame.CurrentLine)
}

func (m *machine) luaGetmetatable(L *lua.LState) int {
	v := argAny(L, 1, "getmetatable")
	if t, ok := v.(*lua.LTable); ok {
		if _, ok := m.frozen[t]; ok {
			L.Push(lua.LNil)
			return 1
		}
	}
	if _, ok := v.(lua.LString); ok {
		L.Push(m.frozenFor(L.GetMetatable(v).(*lua.LTable)))
		return 1
	}
	if protected := L.GetMetaField(v, "__metatable"); protected != lua.LNil {
		L.Push(protected)
		return 1
	}
	L.Push(L.GetMetatable(v))
	return 1
}

func (m *machine) luaSetmetatable(L *lua.LState) int {
	t := argTable(L, 1, "setmetatable")
	if L.GetTop() < 2 || L.Get(2).Type() != lua.LTNil && L.Get(2).Type() != lua.LTTable {
		badArgument(L, 2, "setmetatable", "nil or table expected")
	}
	m.writable(t)
	if L.GetMetaField(t, "__metatable") != lua.LNil {
		L.RaiseError("cannot change a protected metatable")
	}
	t.Metatable = L.Get(2)
	L.SetTop(1)
	return 1
}

func (m *machine) luaIpairs() lua.LGFunction {
	step := m.lua.NewFunction(func(L *lua.LState) int {
		t, i := argTable(L, 1, "ipairs"), argInt(L, 2, "ipairs")+1
		v := m.content(t).RawGetInt(i)
		if v == lua.LNil {
			return 0
		}
		L.Push(lua.LNumber(i))
		L.Push(v)
		return 2
	})
	return func(L *lua.LState) int {
		t := argTable(L, 1, "ipairs")
		L.Push(step)
		L.Push(t)
		L.Push(lua.LNumber(0))
		return 3
	}
}

func (m *machine) luaNext(L *lua.LState) int {
	t := argTable(L, 1, "next")
	k, v := m.content(t).Next(L.Get(2))
	if k == lua.LNil {
		L.Push(lua.LNil)
		return 1
	}
	L.Push(k)
	L.Push(v)
	return 2
}

func (m *machine) luaPairs() lua.LGFunction {
	next := m.lua.NewFunction(m.luaNext)
	return func(L *lua.LState) int {
		t := argTable(L, 1, "pairs")
		L.Push(next)
		L.Push(t)
		L.Push(lua.LNil)
		return 3
	}
}

// luaPcall is pcall() as Redis changes it: of an error that is a table with a field err it returns that field.
func (m *machine) luaPcall(L *lua.LState) int {
	argAny(L, 1, "pcall")
	err := m.protect(L)
	if err == nil {
		L.Insert(lua.LTrue, 1)
		return L.GetTop()
	}
	raised := m.caught(err)
	if t, ok := raised.(*lua.LTable); ok {
		if text, ok := t.RawGetString("err").(lua.LString); ok {
			raised = text
		}
	}
	L.Push(lua.LFalse)
	L.Push(raised)
	return 2
}

// luaXpcall is xpcall(), whose handler gets what was raised.
func (m *machine) luaXpcall(L *lua.LState) int {
	argAny(L, 2, "xpcall")
	handler, ok := L.Get(2).(*lua.LFunction)
	L.SetTop(1)
	err := m.protect(L)
	if err == nil {
		L.Insert(lua.LTrue, 1)
		return L.GetTop()
	}
	raised := m.caught(err)
	L.Push(lua.LFalse)
	if ok {
		L.Push(handler)
	}
	L.Push(raised)
	if ok {
		L.Call(1, 1)
	}
	return 2
}

// Bounds of the calls of pcall within each other, and of the Lua threads that are kept for them.
const (
	protectedMax  = 100
	protectedKept = 2
	threadBytes   = 32 << 10
	threadStack   = 1 << 8
)

// protect calls the function that is first on the stack with the values behind it, and leaves its results there, or nothing. The
// call has a Lua thread of its own: with an error gopher-lua closes all variables of a thread that closures have captured, also those
// of functions that go on.
func (m *machine) protect(L *lua.LState) error {
	if m.protected == protectedMax {
		L.RaiseError("C stack overflow")
	}
	if m.protected == len(m.threads) {
		m.charge(threadBytes)
		m.threads = append(m.threads, m.newThread())
	}
	thread := m.threads[m.protected]
	m.protected++
	m.lua = thread
	L.XMoveTo(thread, L.GetTop())
	err := thread.PCall(thread.GetTop()-1, lua.MultRet, nil)
	m.lua = L
	m.protected--
	if err == nil {
		thread.XMoveTo(L, thread.GetTop())
	}
	thread.SetTop(0)
	return err
}

func (m *machine) newThread() *lua.LState {
	stack := &m.lua.Options.RegistrySize
	size := *stack
	*stack = threadStack
	thread, cancel := m.lua.NewThread()
	*stack = size
	cancel() // nothing waits for it: its context is the machine
	thread.SetContext(m)
	return thread
}

// caught is what was raised.
func (m *machine) caught(err error) lua.LValue {
	if m.stop != nil {
		m.end(m.stop)
	}
	m.charge(errorBytes)
	var raised lua.LValue
	if api, ok := err.(*lua.ApiError); ok {
		raised = api.Object
		if api.Type == lua.ApiErrorPanic {
			m.grown = true // something broke in Go: this state ends with the run
		}
	} else {
		raised = lua.LString(err.Error())
	}
	switch v := raised.(type) {
	case lua.LString:
		m.chargeString(len(v))
		raised = lua.LString(inLuaWords(string(v)))
	case nil:
		raised = lua.LNil
	}
	return raised
}

func luaRawequal(L *lua.LState) int {
	L.Push(lua.LBool(argAny(L, 1, "rawequal") == argAny(L, 2, "rawequal")))
	return 1
}

func (m *machine) luaRawget(L *lua.LState) int {
	L.Push(m.content(argTable(L, 1, "rawget")).RawGet(argAny(L, 2, "rawget")))
	return 1
}

func (m *machine) luaRawset(L *lua.LState) int {
	t, k, v := argTable(L, 1, "rawset"), argAny(L, 2, "rawset"), argAny(L, 3, "rawset")
	m.writable(t)
	m.checkKey(L, k)
	m.grow(t, k, v)
	t.RawSet(k, v)
	L.SetTop(1)
	return 1
}

func luaSelect(L *lua.LState) int {
	n := L.GetTop()
	if L.Get(1) == lua.LString("#") {
		L.Push(lua.LNumber(n - 1))
		return 1
	}
	i := argInt(L, 1, "select")
	switch {
	case i < 0:
		i += n
	case i > n:
		i = n
	}
	if i < 1 {
		badArgument(L, 1, "select", "index out of range")
	}
	return n - i
}

func luaTonumber(L *lua.LState) int {
	base := optInt(L, 2, "tonumber", 10)
	if base == 10 {
		if f, ok := toNumber(L, argAny(L, 1, "tonumber")); ok {
			L.Push(lua.LNumber(f))
		} else {
			L.Push(lua.LNil)
		}
		return 1
	}
	text := argString(L, 1, "tonumber")
	workOnDigits(L, text)
	text, _, _ = strings.Cut(text, "\x00") // C's string ends there
	text = strings.Trim(text, " \t\n\v\f\r")
	if base < 2 || base > 36 {
		badArgument(L, 2, "tonumber", "base out of range")
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
		L.Push(lua.LNil)
		return 1
	}
	if negative && u != math.MaxUint64 {
		u = -u
	}
	L.Push(lua.LNumber(u))
	return 1
}

func (m *machine) luaTostring(L *lua.LState) int {
	v := argAny(L, 1, "tostring")
	if f := L.GetMetaField(v, "__tostring"); f != lua.LNil {
		L.Push(f)
		L.Push(v)
		L.Call(1, 1)
		return 1
	}
	L.Push(lua.LString(m.text(v)))
	return 1
}

// text is tostring without metatables. An address would tell runs apart: all tables have the same.
func (m *machine) text(v lua.LValue) string {
	switch v := v.(type) {
	case lua.LNumber:
		return numberString(float64(v))
	case *lua.LTable:
		return fmt.Sprintf("table: 0x%012x", 0)
	case *lua.LFunction:
		return fmt.Sprintf("function: 0x%012x", 0)
	case *lua.LUserData:
		return "userdata: (nil)"
	}
	return v.String()
}

func luaType(L *lua.LState) int {
	L.Push(lua.LString(argAny(L, 1, "type").Type().String()))
	return 1
}

func (m *machine) luaUnpack(L *lua.LState) int {
	t := m.content(argTable(L, 1, "unpack"))
	i, j := optInt(L, 2, "unpack", 1), optInt(L, 3, "unpack", t.Len())
	if i > j {
		return 0
	}
	if j-i < 0 || j-i >= unpackMax {
		L.RaiseError("too many results to unpack")
	}
	m.many(j - i + 1)
	for k := i; k <= j; k++ {
		L.Push(t.RawGet(lua.LNumber(k)))
	}
	return j - i + 1
}
