package sandbox

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"redlockd/redlock/resp"
)

// machine is one run of a script: its account, its stack, and where it is. Used again by later runs.
type machine struct {
	stack  []value  // arguments and results of calls; a function in Go finds its own from call.base on
	frames []*frame // of functions of Lua, by their depth
	frame  *frame   // of the innermost one
	depth  int      // calls that have begun, of Lua and Go
	line   int      // of the script, of the last call or error
	tail   *function
	idle   *call // a list of those that are not used

	// The account. Below 0 left ends the run.
	limits Limits
	left   int           // instructions
	lookAt int           // the clock is looked at when left is below
	slow   bool          // instructions take long: the clock is looked at each
	bytes  int           // that may still be allocated
	calls  int           // of commands
	spent  time.Duration // of Limits.Time
	looked time.Time     // at the clock
	slice  time.Duration // since others were let run
	stop   error         // why the run was ended, by a limit or the Caller

	// The run.
	script     *Script
	caller     Caller
	random     uint64
	keys, argv table
	globals    *table // _G, where the script asks for it
	args       []string
}

// frame is a call of a function of Lua.
type frame struct {
	m          *machine
	slots      []value // of local variables. That of a captured one has a *cell
	cells      []*cell // variables of the functions around it
	varargs    []value
	levels     int // of closures in each other that the run has paid for
	callerLine int // of the function of Lua that called this one; 0 where Go did, or a tail call has lost it
}

// callsDepth bounds how deep calls are nested. C Lua has this bound for those that go through C.
const callsDepth = 200

// LimitError tells that a run was ended by one of its limits.
type LimitError struct{ text string }

func (e *LimitError) Error() string { return e.text }

// UnavailableError tells that a script asked for something of Redis that is not in the sandbox.
type UnavailableError struct{ Name string }

func (e *UnavailableError) Error() string {
	return e.Name + " is not available to scripts here: there are string, table, math, cjson and redis, with replies of RESP2"
}

// luaError is a panic that pcall recovers: an error of the script.
type luaError struct {
	value value
	line  int // where it happened
}

// raise raises an error at a line of the script. Line 0 means that the caller is not Lua: the error has no
// position then.
func (m *machine) raise(line int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if line > 0 {
		m.line = line
		text = fmt.Sprintf("%s:%d: %s", chunkName, line, text)
	}
	m.throw(text)
}

// throw raises any value.
func (m *machine) throw(v value) { panic(&luaError{v, m.line}) }

// end ends the run, also inside pcall.
func (m *machine) end(why error) {
	if m.stop == nil {
		m.stop = why
	}
	panic(m.stop)
}

// step counts instructions. A statement counts once for each node of its syntax tree.
func (m *machine) step(n int) {
	if m.left -= n; m.left < m.lookAt {
		m.check()
	}
}

// lookEvery is after how many instructions the clock is looked at, which costs nothing then.
const lookEvery = 64

func (m *machine) check() {
	if m.left <= 0 {
		m.end(&LimitError{fmt.Sprintf("script stopped after %d instructions", m.limits.Instructions)})
	}
	if m.look(); m.spent > m.limits.Time {
		m.end(&LimitError{fmt.Sprintf("script stopped after %v", m.limits.Time)})
	}
	m.lookAt = m.left - lookEvery
	if m.slow {
		m.lookAt = m.left
	}
}

// betweenLooks is the most time that is counted from one look at the clock to the next. If it was more, the
// machine had no processor for this process, which must not stop a script that does little; or instructions
// took long. So the clock is looked at each one from then on: what a script does adds up then, and what others
// do is still counted once.
const betweenLooks = 5 * time.Millisecond

// sliceMax is how long a run keeps its processor from other goroutines of the process.
const sliceMax = 200 * time.Microsecond

// look counts the time since the last look.
func (m *machine) look() {
	now := time.Now()
	passed := now.Sub(m.looked)
	if passed > betweenLooks {
		passed, m.slow = betweenLooks, true
	}
	m.spent += passed
	m.looked = now
	if m.slice += passed; m.slice > sliceMax {
		m.slice = 0
		runtime.Gosched()
	}
}

// machines are those of runs that have ended. They keep no value of a script.
var machines = sync.Pool{New: func() any { return new(machine) }}

// Run runs the script and returns its reply, which is of the kind Error when the script failed. When a limit or the
// Caller ended the run the error says why, and the reply has it too, as Redis words errors. Nobody can tell then what
// the script would have answered.
func (s *Script) Run(run Run) (resp.Value, error) {
	m := machines.Get().(*machine)
	m.limits = run.Limits.orDefault()
	m.left, m.bytes, m.calls = m.limits.Instructions, m.limits.Bytes, m.limits.Calls
	m.lookAt, m.slow, m.spent, m.slice, m.looked = m.left-lookEvery, false, 0, 0, time.Now()
	m.script, m.caller, m.random = s, run.Caller, (run.Seed<<16|randomSeed)&randomMask
	m.keys.fill(run.Keys)
	m.argv.fill(run.Argv)
	reply := m.run()
	if m.look(); run.Spent != nil {
		*run.Spent = m.spent
	}
	stop := m.stop
	m.forget()
	machines.Put(m)
	return reply, stop
}

func (m *machine) run() (reply resp.Value) {
	defer func() {
		if r := recover(); r != nil {
			reply = resp.Value{Kind: resp.Error, Text: oneLine(m.describe(r))}
		}
	}()
	m.call(m.script.main, 0, 0)
	return m.reply(m.first(0), 0)
}

// describe is the error reply for what has ended the run, as Redis words it.
func (m *machine) describe(r any) string {
	message, line := "", m.line
	switch r := r.(type) {
	case *luaError:
		line = r.line
		if t, ok := r.value.(*table); ok {
			message, ok = t.getString("err").(string)
			if !ok {
				message = "ERR unknown error"
			}
		} else {
			message = "ERR " + text(r.value)
		}
	case error:
		if m.stop == nil { // a fault of this package
			m.stop = fmt.Errorf("the sandbox failed: %w", r)
		}
		message = "ERR " + m.stop.Error()
	default:
		m.stop = fmt.Errorf("the sandbox failed: %v", r)
		message = "ERR " + m.stop.Error()
	}
	return fmt.Sprintf("%s script: %s, on @%s:%d.", message, m.script.SHA, chunkName, line)
}

// keptMax is how large a stack is kept for the next run.
const keptMax = 1 << 10

// forget leaves nothing of the run in the machine.
func (m *machine) forget() {
	stack, frames, idle, args := m.stack[:cap(m.stack)], m.frames, m.idle, m.args[:cap(m.args)]
	if max(len(stack), len(args), cap(m.keys.array), cap(m.argv.array)) > keptMax || len(frames) > 8 {
		*m = machine{}
		return
	}
	clear(stack)
	clear(args)
	for _, f := range frames {
		clear(f.slots[:cap(f.slots)])
		f.cells, f.varargs, f.levels = nil, nil, 0
	}
	keys, argv := m.keys.array, m.argv.array
	clear(keys)
	clear(argv)
	*m = machine{stack: stack[:0], frames: frames, idle: idle, args: args[:0]}
	m.keys.array, m.argv.array = keys[:0], argv[:0]
}

// fill makes an empty table one of these strings.
func (t *table) fill(list []string) {
	for _, s := range list {
		t.array = append(t.array, s)
	}
}

// first takes the results of a call from the stack and returns the first one.
func (m *machine) first(base int) (v value) {
	if base < len(m.stack) {
		v = m.stack[base]
	}
	m.stack = m.stack[:base]
	return v
}

// argumentsFree is how many arguments a call can have that are not charged for.
const argumentsFree = 16

// call calls a value with the arguments that are on the stack from base on, and leaves the results there. Line
// is that of the function of Lua that calls; 0: Go does.
func (m *machine) call(callee value, base, line int) {
	if line > 0 {
		m.line = line
	}
	fn, ok := callee.(*function)
	if !ok {
		if fn, ok = metaField(callee, "__call").(*function); !ok {
			m.raise(line, "attempt to call a %s value", typeName(callee))
		}
		m.stack = append(m.stack, nil)
		copy(m.stack[base+1:], m.stack[base:])
		m.stack[base] = callee
	}
	if n := len(m.stack) - base; n > argumentsFree {
		m.charge(n * slotBytes)
	}
	if m.depth == callsDepth {
		m.raise(line, "stack overflow")
	}
	m.depth++
	if fn.native != nil {
		m.callNative(fn, base, line)
	} else {
		m.callLua(fn, base, line)
	}
	m.depth--
}

func (m *machine) callNative(fn *function, base, line int) {
	c := m.idle
	if c == nil {
		c = &call{m: m}
	} else {
		m.idle = c.next
	}
	c.base, c.line = base, line
	m.step(1)
	n := fn.native(c)
	results := len(m.stack) - n
	copy(m.stack[base:], m.stack[results:])
	m.stack = m.stack[:base+n]
	c.next, m.idle = m.idle, c
}

func (m *machine) callLua(fn *function, base, line int) {
	for len(m.frames) < m.depth {
		m.frames = append(m.frames, &frame{m: m})
	}
	f, caller := m.frames[m.depth-1], m.frame
	m.frame = f
	for {
		m.step(1)
		p := fn.proto
		if cap(f.slots) < p.slots {
			m.charge(p.slots * slotBytes)
			f.slots = make([]value, p.slots)
		}
		if f.levels < p.levels {
			m.charge((p.levels - f.levels) * levelBytes)
			f.levels = p.levels
		}
		f.slots, f.cells, f.callerLine = f.slots[:p.slots], fn.cells, line
		p.begin(f, m.stack[base:])
		m.stack = m.stack[:base]
		if run(f, p.body) != tailCall {
			break
		}
		fn, line = m.tail, 0
	}
	m.frame = caller
}

// protect calls as call does, and returns the error that the call has raised.
func (m *machine) protect(callee value, base int) (raised *luaError) {
	depth, frame := m.depth, m.frame
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*luaError)
			if !ok || m.stop != nil {
				panic(r)
			}
			m.depth, m.frame, m.stack = depth, frame, m.stack[:base]
			raised = e
			m.charge(errorBytes)
		}
	}()
	m.call(callee, base, 0)
	return nil
}

// callFor calls a function for one result: a metamethod.
func (m *machine) callFor(line int, fn value, args ...value) value {
	base := len(m.stack)
	m.stack = append(m.stack, args...)
	m.call(fn, base, line)
	return m.first(base)
}

// call is a call of a function in Go.
type call struct {
	m    *machine
	base int // of its stack in that of m: the arguments, and what it has pushed
	line int // of the function of Lua that called it; 0: Go did
	next *call
}

// get is a value on the stack: from 1, and -1 is the one on top. Behind the end is nil.
func (c *call) get(i int) value {
	if i < 0 {
		return c.m.stack[len(c.m.stack)+i]
	}
	if i += c.base; i <= len(c.m.stack) {
		return c.m.stack[i-1]
	}
	return nil
}

// top is how many values are on the stack.
func (c *call) top() int { return len(c.m.stack) - c.base }

func (c *call) push(v value) { c.m.stack = append(c.m.stack, v) }

// pop takes the value on top.
func (c *call) pop() value {
	n := len(c.m.stack) - 1
	v := c.m.stack[n]
	c.m.stack = c.m.stack[:n]
	return v
}

// keep leaves the first values, and nil where there are fewer.
func (c *call) keep(n int) {
	for c.top() < n {
		c.push(nil)
	}
	c.m.stack = c.m.stack[:c.base+n]
}

// raise raises an error at the line where Lua called.
func (c *call) raise(format string, args ...any) { c.m.raise(c.line, format, args...) }

// invoke calls a function with the n values on top, and returns its first result.
func (c *call) invoke(fn value, n int) value {
	m := c.m
	base := len(m.stack) - n
	m.call(fn, base, 0)
	if c.line > 0 {
		m.line = c.line
	}
	return m.first(base)
}

// position is "user_script:1: " for the function of Lua that called (level 1), or its caller (2), and "" if
// that is not Lua.
func (c *call) position(level int) string {
	line := 0
	switch {
	case level == 1:
		line = c.line
	case level == 2 && c.line > 0:
		line = c.m.frame.callerLine
	}
	if line == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d: ", chunkName, line)
}

// metaField is a field of the metatable of a value.
func metaField(v value, event string) value {
	switch v := v.(type) {
	case *table:
		if v.meta != nil {
			return v.meta.getString(event)
		}
	case string:
		return stringMeta.getString(event)
	}
	return nil
}

func oneLine(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
}
