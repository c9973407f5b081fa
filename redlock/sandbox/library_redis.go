package sandbox

import (
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// version is what redis.REDIS_VERSION tells a script.
const (
	version    = "7.0.15"
	versionNum = 7<<16 | 0<<8 | 15
)

func (m *machine) redisLibrary() *lua.LTable {
	lib := m.library(map[string]lua.LGFunction{
		"call":               m.redisCall,
		"pcall":              m.redisPcall,
		"error_reply":        func(L *lua.LState) int { return m.singleField(L, "err") },
		"status_reply":       func(L *lua.LState) int { return m.singleField(L, "ok") },
		"sha1hex":            m.redisSha1hex,
		"log":                m.redisLog,
		"setresp":            m.redisSetresp,
		"set_repl":           m.redisSetRepl,
		"replicate_commands": func(L *lua.LState) int { L.Push(lua.LTrue); return 1 },
	})
	for i, name := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		lib.RawSetString(name, lua.LNumber(i))
	}
	for name, n := range map[string]int{"REPL_NONE": 0, "REPL_AOF": 1, "REPL_SLAVE": 2, "REPL_REPLICA": 2, "REPL_ALL": 3} {
		lib.RawSetString(name, lua.LNumber(n))
	}
	lib.RawSetString("REDIS_VERSION", lua.LString(version))
	lib.RawSetString("REDIS_VERSION_NUM", lua.LNumber(versionNum))
	return lib
}

func (m *machine) redisCall(L *lua.LState) int {
	reply := m.command(L)
	v := m.value(reply)
	if reply.Kind == Error {
		L.Error(v, 1)
	}
	L.Push(v)
	return 1
}

func (m *machine) redisPcall(L *lua.LState) int {
	L.Push(m.value(m.command(L)))
	return 1
}

// command has the caller execute the command on Lua's stack.
func (m *machine) command(L *lua.LState) Reply {
	if m.stop != nil { // a chain of functions in Go has no instruction at which Done would have ended the run
		m.end(m.stop)
	}
	n := L.GetTop()
	if n == 0 {
		return Reply{Kind: Error, Text: "ERR Please specify at least one argument for this redis lib call"}
	}
	m.args = m.args[:0]
	for i := 1; i <= n; i++ {
		switch v := L.Get(i).(type) {
		case lua.LString:
			m.args = append(m.args, string(v))
		case lua.LNumber:
			var room [32]byte
			m.args = append(m.args, string(appendNumber(room[:0], float64(v), 17)))
		default:
			return Reply{Kind: Error, Text: "ERR Lua redis lib command arguments must be strings or integers"}
		}
	}
	if m.calls--; m.calls < 0 {
		m.end(&LimitError{fmt.Sprintf("script stopped: it would call more than %d commands", m.limits.Calls)})
	}
	reply, err := m.caller.Call(m.args, m.resp)
	if err != nil {
		m.end(err)
	}
	m.chargeReply(reply)
	return reply
}

func (m *machine) chargeReply(r Reply) {
	if len(r.Text) > 64 {
		m.charge(len(r.Text))
	}
	if len(r.Elems) > 0 {
		m.charge(tableBytes + len(r.Elems)*replyBytes)
		for _, e := range r.Elems {
			m.chargeReply(e)
		}
	}
}

// singleField is redis.error_reply and redis.status_reply.
func (m *machine) singleField(L *lua.LState, name string) int {
	text, ok := L.Get(1).(lua.LString)
	if !ok || L.GetTop() != 1 {
		L.Push(m.fieldTable("err", "ERR wrong number or type of arguments"))
		return 1
	}
	message := string(text)
	if name == "err" {
		m.chargeString(len(message))
		message = errorMessage(message)
	}
	L.Push(m.fieldTable(name, message))
	return 1
}

// errorMessage gives an error that is one word the code ERR, and takes a leading minus away.
func errorMessage(text string) string {
	text = strings.TrimPrefix(text, "-")
	if strings.Contains(text, " ") {
		return text
	}
	return "ERR " + text
}

func (m *machine) redisSha1hex(L *lua.LState) int {
	if L.GetTop() != 1 {
		m.raise("ERR wrong number of arguments")
	}
	text, _ := concatText(L.Get(1)) // of what is neither a string nor a number it is that of nothing
	m.work(len(text) / 16)
	L.Push(lua.LString(SHA(text)))
	return 1
}

// raise raises an error reply.
func (m *machine) raise(message string) { m.lua.Error(m.fieldTable("err", message), 1) }

// redisLog checks its arguments and writes nothing.
func (m *machine) redisLog(L *lua.LState) int {
	switch {
	case L.GetTop() < 2:
		m.raise("ERR redis.log() requires two arguments or more.")
	case L.Get(1).Type() != lua.LTNumber:
		m.raise("ERR First argument must be a number (log level).")
	case lua.LVAsNumber(L.Get(1)) < 0 || lua.LVAsNumber(L.Get(1)) > 3:
		m.raise("ERR Invalid debug level.")
	}
	return 0
}

func (m *machine) redisSetresp(L *lua.LState) int {
	if L.GetTop() != 1 {
		m.raise("ERR redis.setresp() requires one argument.")
	}
	n, _ := toNumber(L, L.Get(1))
	if n != 2 && n != 3 {
		m.raise("ERR RESP version must be 2 or 3.")
	}
	m.resp = int(n)
	return 0
}

// redisSetRepl checks its argument: there is nothing to replicate to.
func (m *machine) redisSetRepl(L *lua.LState) int {
	if L.GetTop() != 1 {
		m.raise("ERR redis.set_repl() requires two arguments.")
	}
	if n, ok := toNumber(L, L.Get(1)); !ok || n < 0 || n > 3 {
		m.raise("ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
	}
	return 0
}
