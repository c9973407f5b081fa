package sandbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// machine is a Lua state with the libraries, and the account of the run in it. It runs one script at a time.
//
// It is the state's context.Context: gopher-lua asks for Done before each instruction, which makes it an exact counter.
type machine struct {
	context.Context

	lua     *lua.LState
	globals *lua.LTable
	frozen  map[*lua.LTable]*lua.LTable // of read-only tables: what stands for one in scripts -> its content
	onErr   *lua.LFunction
	null    *lua.LUserData // cjson.null

	threads   []*lua.LState // in which pcall calls, by how many calls of it are around
	protected int           // calls of pcall that have begun

	script *Script // the last one that ran, and
	fn     *lua.LFunction

	// The account. Below 0 left ends the run.
	limits Limits
	left   int // instructions
	bytes  int
	calls  int
	spent  time.Duration
	looked time.Time     // at the clock
	slice  time.Duration // since others were let run
	mask   int           // of left: where it is 0 the clock is looked at
	stop   error         // why the run was ended, by a limit or the Caller
	grown  bool          // the state has more than it should keep

	// The run.
	caller  Caller
	resp    int
	random  uint64
	failure string // what to answer after an error of the script
	args    []string
}

// A Lua state's stack of values and of calls. One unpack can fill the former.
const (
	stackSize  = 1 << 11
	stackMax   = 1 << 14
	callsDepth = 200
	unpackMax  = 8000
)

// LimitError tells that a run was ended by one of its limits.
type LimitError struct{ text string }

func (e *LimitError) Error() string { return e.text }

// UnavailableError tells that a script asked for something of Redis that is not in the sandbox.
type UnavailableError struct{ Name string }

func (e *UnavailableError) Error() string {
	return e.Name + " is not available to scripts here: there are string, table, math, bit, cjson and redis"
}

// ended is closed. It is made outside of any synctest bubble, as states are used inside and outside.
var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done counts an instruction. It is called for each one: the usual way out must be short.
func (m *machine) Done() <-chan struct{} {
	m.left--
	if m.left > 0 && m.left&m.mask != 0 {
		return nil
	}
	return m.check()
}

func (m *machine) check() <-chan struct{} {
	if m.stop == nil && m.left <= 0 {
		m.stop = &LimitError{fmt.Sprintf("script stopped after %d instructions", m.limits.Instructions)}
	}
	if m.look(); m.stop == nil && m.spent > m.limits.Time {
		m.stop = &LimitError{fmt.Sprintf("script stopped after %v", m.limits.Time)}
	}
	if m.stop == nil {
		return nil
	}
	m.left = 0
	return ended
}

// betweenLooks is the most time that is counted from one look at the clock to the next. If it was more, the machine had no processor for
// this process, which must not stop a script that does little; or instructions took long. So the clock is looked at each one from then
// on: what a script does adds up then, and what others do is still counted once.
const betweenLooks = 5 * time.Millisecond

// lookMask has the clock looked at every 64 instructions, which costs nothing.
const lookMask = 63

// look counts the time since the last look.
func (m *machine) look() {
	now := time.Now()
	passed := now.Sub(m.looked)
	if passed > betweenLooks {
		passed, m.mask = betweenLooks, 0
	}
	m.spent += passed
	m.looked = now
	if m.slice += passed; m.slice > sliceMax {
		m.slice = 0
		runtime.Gosched()
	}
}

// sliceMax is how long a run keeps its processor from other goroutines of the process.
const sliceMax = 200 * time.Microsecond

// Err is asked for after Done has said that the run is over.
func (m *machine) Err() error { return m.stop }

// end ends the run: nothing of the script is executed after it, as left is 0.
func (m *machine) end(why error) {
	if m.stop == nil {
		m.stop = why
	}
	m.left = 0
	m.lua.RaiseError("%s", m.stop.Error())
}

// work counts steps that a function does for the script, as instructions.
func (m *machine) work(steps int) {
	before := m.left
	m.left -= steps
	if m.left <= 0 || before&^m.mask != m.left&^m.mask {
		if m.check() != nil {
			m.end(m.stop)
		}
	}
}

// run runs a script. A machine that is not clean afterwards must not run another.
func (m *machine) run(s *Script, run Run) (reply Reply, err error, clean bool) {
	m.limits = run.Limits.orDefault()
	m.left, m.bytes, m.calls = m.limits.Instructions, m.limits.Bytes, m.limits.Calls
	m.spent, m.slice, m.looked, m.mask = 0, 0, time.Now(), lookMask
	m.stop, m.failure, m.resp, m.random, m.caller = nil, "", 2, (run.Seed<<16|randomSeed)&randomMask, run.Caller
	if m.script != s {
		m.script, m.fn = s, m.lua.NewFunctionFromProto(s.proto)
	}
	m.globals.RawSetString("KEYS", m.strings(run.Keys))
	m.globals.RawSetString("ARGV", m.strings(run.Argv))
	m.lua.Push(m.fn)
	failed := m.lua.PCall(0, 1, m.onErr)
	if failed == nil {
		reply, failed = m.result()
	}
	if failed != nil {
		if m.failure == "" { // even onErr failed: no stack is left
			message, _, _ := strings.Cut(failed.Error(), "\n")
			var line int
			fmt.Sscanf(message, chunkName+":%d:", &line)
			m.failure = fmt.Sprintf("ERR %s script: %s, on @%s:%d.", message, s.SHA, chunkName, line)
		}
		reply = Reply{Kind: Error, Text: oneLine(m.failure)}
	}
	if m.look(); run.Spent != nil {
		*run.Spent = m.spent
	}
	m.lua.SetTop(0)
	m.threads = m.threads[:min(len(m.threads), protectedKept)]
	clear(m.threads[len(m.threads):cap(m.threads)])
	// Nothing of this run may be reached from the pool.
	m.caller = nil
	m.globals.RawSetString("KEYS", lua.LNil)
	m.globals.RawSetString("ARGV", lua.LNil)
	clear(m.args[:cap(m.args)])
	return reply, m.stop, failed == nil && m.stop == nil && !m.grown
}

// result converts what the script left on the stack, within its limits.
func (m *machine) result() (reply Reply, err error) {
	defer func() {
		if r := recover(); r != nil {
			m.failure = "ERR the script's reply: " + fmt.Sprint(r)
			if m.stop != nil {
				m.failure = "ERR the script's reply: " + m.stop.Error()
			}
			err = errors.New(m.failure)
		}
	}()
	return m.reply(m.lua.Get(-1), 0), nil
}

func (m *machine) strings(list []string) *lua.LTable {
	t := m.lua.CreateTable(len(list), 0)
	for i, s := range list {
		t.RawSetInt(i+1, lua.LString(s))
	}
	return t
}

// describeError is called where an error happened, with the stack still there.
func (m *machine) describeError(L *lua.LState) int {
	message := "ERR unknown error"
	switch v := L.Get(1).(type) {
	case *lua.LTable:
		if err, ok := v.RawGetString("err").(lua.LString); ok {
			message = string(err)
		}
	default:
		message = "ERR " + inLuaWords(v.String())
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
	m.failure = fmt.Sprintf("%s script: %s, on @%s:%d.", message, m.script.SHA, chunkName, line)
	return 1 // the error itself
}

// inLuaWords says what gopher-lua found wrong as Lua 5.1 would, as far as it can be told.
func inLuaWords(text string) string {
	if before, after, found := strings.Cut(text, "attempt to compare "); found {
		if a, b, _ := strings.Cut(after, " with "); a == b {
			return before + "attempt to compare two " + a + " values"
		}
	}
	for _, words := range [][2]string{
		{"attempt to index a non-table object(", "attempt to index a %s value"},
		{"cannot perform ", "attempt to perform arithmetic on a %s value"},
		{"attempt to call a non-function object", "attempt to call a nil value"},
		{"__len undefined", "attempt to get length of a nil value"},
		{"__unm undefined", "attempt to perform arithmetic on a nil value"},
	} {
		before, after, found := strings.Cut(text, words[0])
		if !found {
			continue
		}
		kind, _, _ := strings.Cut(after, ")")
		if words[0] == "cannot perform " {
			kind = "nil"
			if _, operands, ok := strings.Cut(after, " between "); ok {
				a, b, _ := strings.Cut(operands, " and ")
				if kind = a; a == "number" {
					kind = b
				}
			}
		}
		if strings.Contains(words[1], "%s") {
			return before + fmt.Sprintf(words[1], kind)
		}
		return before + words[1]
	}
	return text
}
