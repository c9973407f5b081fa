package memmaster

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// chunkName is how Redis calls a script in its errors.
const chunkName = "user_script"

// instructionsMax ends a script that does not end itself: some 50 ms. Redis has no such limit.
const instructionsMax = 2_000_000

// depthMax bounds the nesting of a table that a script returns.
const depthMax = 1000

// budget is a context that ends after a number of instructions: gopher-lua asks for Done before each.
type budget struct {
	context.Context
	left int
}

func (b *budget) Done() <-chan struct{} {
	if b.left > 0 {
		b.left--
		return nil
	}
	return ended
}

func (b *budget) Err() error {
	return fmt.Errorf("script stopped after %d instructions", instructionsMax)
}

var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// start makes the Lua state: the libraries that Redis gives to scripts (without cjson, cmsgpack, struct and bit), less
// what would reach outside.
func (s *scripting) start() {
	s.lua = lua.NewState(lua.Options{
		SkipOpenLibs:    true,
		RegistryMaxSize: 1 << 17, // for unpack of many keys
	})
	L := s.lua
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
		lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		L.Push(L.NewFunction(open))
		L.Push(lua.LString(name))
		L.Call(1, 0)
	}
	for _, name := range []string{"dofile", "loadfile", "print", "_printregs", "collectgarbage", "module", "require",
		"newproxy", "getfenv", "setfenv", "_GOPHER_LUA_VERSION"} {
		L.SetGlobal(name, lua.LNil)
	}
	L.SetGlobal("error", L.NewFunction(luaError))
	L.SetGlobal("pcall", L.NewFunction(luaPcall(L.GetGlobal("pcall").(*lua.LFunction).GFunction)))
	L.SetGlobal("tostring", L.NewFunction(luaToString(L.GetGlobal("tostring").(*lua.LFunction).GFunction)))
	L.SetGlobal("tonumber", L.NewFunction(luaToNumber(L.GetGlobal("tonumber").(*lua.LFunction).GFunction)))
	L.SetGlobal("redis", s.library(L))
	guard := L.NewTable()
	guard.RawSetString("__metatable", lua.LFalse) // and setmetatable refuses
	guard.RawSetString("__index", L.NewFunction(func(L *lua.LState) int {
		L.RaiseError("Script attempted to access nonexistent global variable '%s'", L.ToString(2))
		return 0
	}))
	guard.RawSetString("__newindex", L.NewFunction(func(L *lua.LState) int {
		L.RaiseError("Attempt to modify a readonly table")
		return 0
	}))
	L.G.Global.Metatable = guard
	s.onErr = L.NewFunction(s.describeError)
	s.budget = &budget{Context: context.Background()}
	L.SetContext(s.budget)
}

func (s *scripting) library(L *lua.LState) *lua.LTable {
	lib := L.SetFuncs(L.NewTable(), map[string]lua.LGFunction{
		"call":               func(L *lua.LState) int { return s.call(L, true) },
		"pcall":              func(L *lua.LState) int { return s.call(L, false) },
		"error_reply":        func(L *lua.LState) int { return singleField(L, "err") },
		"status_reply":       func(L *lua.LState) int { return singleField(L, "ok") },
		"sha1hex":            luaSha1hex,
		"log":                luaLog,
		"set_repl":           func(L *lua.LState) int { return 0 },
		"replicate_commands": func(L *lua.LState) int { L.Push(lua.LTrue); return 1 },
	})
	for i, name := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		lib.RawSetString(name, lua.LNumber(i))
	}
	for name, n := range map[string]int{"REPL_NONE": 0, "REPL_AOF": 1, "REPL_SLAVE": 2, "REPL_REPLICA": 2, "REPL_ALL": 3} {
		lib.RawSetString(name, lua.LNumber(n))
	}
	return lib
}

// run executes a script and answers the caller.
func (s *scripting) run(caller *client, fn *lua.LFunction, sha string, keys, argv [][]byte, readOnly bool) {
	L := s.lua
	s.caller, s.sha, s.readOnly = caller, sha, readOnly
	s.client.db, s.client.resp = caller.db, 2
	s.budget.left = instructionsMax
	L.G.Global.RawSetString("KEYS", luaStrings(L, keys))
	L.G.Global.RawSetString("ARGV", luaStrings(L, argv))
	L.Push(fn)
	s.failure = ""
	switch err := L.PCall(0, 1, s.onErr); {
	case err == nil:
		caller.luaReply(L.Get(-1), 0)
	case s.failure != "":
		caller.fail(s.failure)
	default: // even onErr failed: no stack is left
		message, _, _ := strings.Cut(err.Error(), "\n")
		caller.fail("ERR " + message)
	}
	L.SetTop(0)
	s.caller = nil
}

func luaStrings(L *lua.LState, list [][]byte) *lua.LTable {
	t := L.CreateTable(len(list), 0)
	for _, b := range list {
		t.Append(lua.LString(b))
	}
	return t
}

// describeError is called where an error happened, with the stack still there.
func (s *scripting) describeError(L *lua.LState) int {
	message := "ERR unknown error"
	switch v := L.Get(1).(type) {
	case *lua.LTable:
		if err, ok := v.RawGetString("err").(lua.LString); ok {
			message = string(err)
		}
	default:
		message = "ERR " + v.String()
	}
	line := 0
	for level := 1; ; level++ {
		frame, ok := L.GetStack(level)
		if !ok {
			break
		}
		if _, err := L.GetInfo("Sl", frame, lua.LNil); err == nil && frame.What != "G" {
			line = frame.CurrentLine
			break
		}
	}
	s.failure = fmt.Sprintf("%s script: %s, on @%s:%d.", message, s.sha, chunkName, line)
	return 1 // the error itself
}

// call is redis.call (raise) and redis.pcall.
func (s *scripting) call(L *lua.LState, raise bool) int {
	reply, failed := s.command(L)
	if failed && raise {
		L.Error(reply, 1)
	}
	L.Push(reply)
	return 1
}

// command executes the command on Lua's stack and converts its reply.
func (s *scripting) command(L *lua.LState) (reply lua.LValue, failed bool) {
	if L.GetTop() == 0 {
		return errorTable(L, "ERR Please specify at least one argument for this redis lib call"), true
	}
	args, ok := s.arguments(L)
	if !ok {
		return errorTable(L, "ERR Lua redis lib command arguments must be strings or integers"), true
	}
	c := s.client
	c.out = c.out[:0]
	cmd, found := s.m.lookup(args)
	switch {
	case !found:
		return errorTable(L, "ERR Unknown Redis command called from script"), true
	case !cmd.arityFits(len(args)) || cmd.run == nil:
		return errorTable(L, "ERR Wrong number of args calling Redis command from script"), true
	case cmd.flags&flagNoScript != 0:
		return errorTable(L, "ERR This Redis command is not allowed from script"), true
	case cmd.flags&flagWrite != 0 && s.readOnly:
		return errorTable(L, "ERR Write commands are not allowed from read-only scripts."), true
	case cmd.flags&flagWrite != 0 && s.m.replicaOf != nil:
		return errorTable(L, errReadOnly), true
	}
	s.m.call(c, s.caller, cmd, args)
	failed = c.out[0] == '-'
	reply, _ = luaValue(L, c.out)
	if cap(c.out) > keptBytesMax {
		c.out = nil
	}
	return reply, failed
}

// arguments copies the strings and numbers on Lua's stack.
func (s *scripting) arguments(L *lua.LState) (args [][]byte, ok bool) {
	s.bytes, s.args = s.bytes[:0], s.args[:0]
	for i := range L.GetTop() {
		begin := len(s.bytes)
		switch v := L.Get(i + 1).(type) {
		case lua.LString:
			s.bytes = append(s.bytes, v...)
		case lua.LNumber:
			s.bytes = appendDouble(s.bytes, float64(v))
		default:
			return nil, false
		}
		// If a later argument makes s.bytes move, this one stays in the old array.
		s.args = append(s.args, s.bytes[begin:len(s.bytes):len(s.bytes)])
	}
	return s.args, true
}

func errorTable(L *lua.LState, message string) *lua.LTable {
	return fieldTable(L, "err", message)
}

func fieldTable(L *lua.LState, name, value string) *lua.LTable {
	t := L.CreateTable(0, 1)
	t.RawSetString(name, lua.LString(value))
	return t
}

// luaValue converts the reply at the start of b (RESP2, as commands in a script answer) and returns what follows it.
func luaValue(L *lua.LState, b []byte) (v lua.LValue, rest []byte) {
	end := 1
	for b[end] != '\r' {
		end++
	}
	line, rest := b[1:end], b[end+2:]
	switch b[0] {
	case '+':
		return fieldTable(L, "ok", string(line)), rest
	case '-':
		return fieldTable(L, "err", string(line)), rest
	}
	n, _ := strconv.ParseInt(string(line), 10, 64)
	switch {
	case b[0] == ':':
		return lua.LNumber(n), rest
	case n < 0: // a null
		return lua.LFalse, rest
	case b[0] == '$':
		return lua.LString(rest[:n]), rest[n+2:]
	}
	t := L.CreateTable(int(n), 0)
	for range n {
		var element lua.LValue
		element, rest = luaValue(L, rest)
		t.Append(element)
	}
	return t, rest
}

// luaReply answers what a script returned: a number loses its fraction, an array ends at its first nil.
func (c *client) luaReply(v lua.LValue, depth int) {
	if depth > depthMax {
		c.fail("ERR reached lua stack limit")
		return
	}
	switch v := v.(type) {
	case lua.LString:
		c.bulkString(string(v))
	case lua.LNumber:
		c.integer(truncate(float64(v)))
	case lua.LBool:
		if v {
			c.integer(1)
		} else {
			c.null()
		}
	case *lua.LTable:
		c.luaTable(v, depth)
	default:
		c.null()
	}
}

func (c *client) luaTable(t *lua.LTable, depth int) {
	if err, ok := t.RawGetString("err").(lua.LString); ok {
		c.fail(string(err))
		return
	}
	if ok, is := t.RawGetString("ok").(lua.LString); is {
		c.status(string(ok))
		return
	}
	n := 0
	for t.RawGetInt(n+1) != lua.LNil {
		n++
	}
	c.array(n)
	for i := range n {
		c.luaReply(t.RawGetInt(i+1), depth+1)
	}
}

// truncate converts as C does on amd64: what does not fit becomes the least integer.
func truncate(f float64) int64 {
	const limit = 1 << 63
	if f >= -limit && f < limit {
		return int64(f)
	}
	return -limit
}

// luaError is error(): like Lua 5.1's it takes no argument for nil, and a number for a string.
func luaError(L *lua.LState) int {
	v, level := L.Get(1), L.OptInt(2, 1)
	if n, ok := v.(lua.LNumber); ok {
		v = lua.LString(numberString(n))
	}
	L.Error(v, level)
	return 0
}

// luaPcall is pcall() as Redis changes it: of an error that is a table with a field err it returns that field.
func luaPcall(base lua.LGFunction) lua.LGFunction {
	return func(L *lua.LState) int {
		n := base(L)
		if n == 2 && L.Get(-2) == lua.LFalse {
			if t, ok := L.Get(-1).(*lua.LTable); ok {
				if err, ok := t.RawGetString("err").(lua.LString); ok {
					L.Pop(1)
					L.Push(err)
				}
			}
		}
		return n
	}
}

// luaToString is tostring() with Lua's %.14g for numbers, where gopher-lua prints all digits.
func luaToString(base lua.LGFunction) lua.LGFunction {
	return func(L *lua.LState) int {
		if n, ok := L.Get(1).(lua.LNumber); ok {
			L.Push(lua.LString(numberString(n)))
			return 1
		}
		return base(L)
	}
}

// luaToNumber is tonumber() for all that C's strtod reads: gopher-lua does not know 1e3, which is how Redis prints large
// scores.
func luaToNumber(base lua.LGFunction) lua.LGFunction {
	return func(L *lua.LState) int {
		if text, ok := L.Get(1).(lua.LString); ok && L.GetTop() == 1 {
			if f, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err == nil {
				L.Push(lua.LNumber(f))
				return 1
			}
		}
		return base(L)
	}
}

func numberString(n lua.LNumber) string {
	f := float64(n)
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return string(appendDouble(nil, f))
	}
	return strconv.FormatFloat(f, 'g', 14, 64)
}

// singleField is redis.error_reply and redis.status_reply.
func singleField(L *lua.LState, name string) int {
	text, ok := L.Get(1).(lua.LString)
	if !ok || L.GetTop() != 1 {
		L.Push(errorTable(L, "ERR wrong number or type of arguments"))
		return 1
	}
	message := string(text)
	if name == "err" {
		message = errorMessage(message)
	}
	L.Push(fieldTable(L, name, message))
	return 1
}

// errorMessage gives an error that is one word the code ERR, and takes a leading minus away.
func errorMessage(text string) string {
	if len(text) > 0 && text[0] == '-' {
		text = text[1:]
	}
	for _, b := range []byte(text) {
		if b == ' ' {
			return text
		}
	}
	return "ERR " + text
}

func luaSha1hex(L *lua.LState) int {
	if L.GetTop() != 1 {
		L.Error(errorTable(L, "ERR wrong number of arguments"), 1)
	}
	sum := sha1.Sum([]byte(L.ToString(1)))
	L.Push(lua.LString(hex.EncodeToString(sum[:])))
	return 1
}

// luaLog checks its arguments and writes nothing.
func luaLog(L *lua.LState) int {
	if L.GetTop() < 2 {
		L.Error(errorTable(L, "ERR redis.log() requires two arguments or more."), 1)
	}
	if L.Get(1).Type() != lua.LTNumber {
		L.Error(errorTable(L, "ERR First argument must be a number (log level)."), 1)
	}
	return 0
}
