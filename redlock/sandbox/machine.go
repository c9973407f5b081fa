package sandbox

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"redlockd/redlock/resp"
)

// machine is one run of a script: its account, its stack, and where it is. Later runs use it again. One
// goroutine works on it at a time.
//
// Nothing in it outlives a run but memory: globals and libraries are read-only and the same for all
// machines, and forget takes away what a script has made.
type machine struct {
	// stack has the arguments and results of calls, and values of expressions that are being computed.
	// It grows by append, so that nobody may keep a part of it over a call.
	stack []value
	// frames are those of functions of Lua, by their depth; frame is that of the innermost one.
	frames []*frame
	frame  *frame
	// depth counts the calls that have begun and not ended, of Lua and Go.
	depth int
	// line is that of the last call or error.
	line int
	// tail is the function that a tail call goes to.
	tail *function
	// idle is a list of calls that can be used again.
	idle *call

	// The account.
	limits Limits
	// left is how many instructions are left. Below 0 the run ends.
	left int
	// lookAt: the clock is looked at when left is below it.
	lookAt int
	// slow: instructions take long, so that the clock is looked at behind each.
	slow bool
	// bytes is how many may still be allocated. Below 0 the run ends.
	bytes int
	// lookAtBytes: the clock is looked at when bytes is below it.
	lookAtBytes int
	// calls is how many commands may still be called.
	calls int
	// spent is how much of Limits.Time has passed.
	spent time.Duration
	// looked is when the clock was looked at.
	looked time.Time
	// slice is the time since other goroutines were let run.
	slice time.Duration
	// stop is why a limit or the Caller has ended the run. Once it is set, nothing is executed.
	stop error

	// The run.
	script *Script
	caller Caller
	// random is the state of math.random.
	random     uint64
	keys, argv table
	// globals is _G, made when the script asks for it.
	globals *table
	// args is room for the arguments of a command.
	args []string
}

// LimitError tells that a run was ended by one of its limits.
type LimitError struct{ text string }

func (e *LimitError) Error() string { return e.text }

// unavailableError tells that a script asked for something of Redis that is not in the sandbox.
type unavailableError struct{ Name string }

func (e *unavailableError) Error() string {
	return e.Name + " is not available to scripts here: there are string, table, math, cjson and redis, with replies of RESP2"
}

// luaError is a panic that pcall recovers: an error of the script. All other panics end the run.
type luaError struct {
	value value
	line  int // where it happened
}

// raise raises an error at a line of the script. Line 0 means that the caller is not Lua: the error has
// no position then. The args are short, as names of functions and types are: errorBytes pays for them.
func (m *machine) raise(line int, format string, args ...any) {
	m.raiseText(line, fmt.Sprintf(format, args...))
}

// raiseText raises an error that consists of texts of any length.
func (m *machine) raiseText(line int, parts ...string) {
	b := builder{m: m}
	if line > 0 {
		m.line = line
	}
	b.position(line)
	for _, part := range parts {
		b.text(part)
	}
	m.throw(b.string())
}

// throw raises any value, as error does. What the function has put on the stack stays there until
// protect or the end of the run takes it away.
func (m *machine) throw(v value) { panic(&luaError{v, m.line}) }

// end ends the run, also inside pcall: a script must not go on behind a limit, or behind a command that
// its Caller has refused.
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

// check ends the run if it has met its limit of instructions or time.
func (m *machine) check() {
	if m.left <= 0 {
		m.end(&LimitError{fmt.Sprintf("script stopped after %d instructions", m.limits.Instructions)})
	}
	m.checkTime()
	m.lookAt = m.left - lookEvery
	if m.slow {
		m.lookAt = m.left
	}
}

// checkTime ends the run if its time has passed.
func (m *machine) checkTime() {
	if m.look(); m.spent > m.limits.Time {
		m.end(&LimitError{fmt.Sprintf("script stopped after %v", m.limits.Time)})
	}
}

// betweenLooks is the most time that is counted from one look at the clock to the next. If it was more,
// the machine had no processor for this process, which must not stop a script that does little; or
// instructions took long. So the clock is looked at each one from then on: what a script does adds up
// then, and what others do is still counted once.
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

// machines are those of runs that have ended. A run needs no other memory for its stack, its frames,
// KEYS and ARGV.
var machines = sync.Pool{New: func() any { return new(machine) }}

// Run runs the script and returns its reply, which is of the kind Error when the script failed. When a
// limit or the Caller ended the run the error says why, and the reply has it too, as Redis words
// errors. Nobody can tell then what the script would have answered.
func (s *Script) Run(run Run) (resp.Value, error) {
	m := machines.Get().(*machine)
	m.limits = run.Limits.orDefault()
	m.left, m.bytes, m.calls = m.limits.Instructions, m.limits.Bytes, m.limits.Calls
	m.lookAt, m.slow, m.spent, m.slice, m.looked = m.left-lookEvery, false, 0, 0, time.Now()
	m.lookAtBytes = max(m.bytes-lookEveryBytes, 0)
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

// run executes the script, and makes a reply of all that can end it. A panic that is a fault of this
// package ends the run too: the process serves others.
func (m *machine) run() (reply resp.Value) {
	defer func() {
		if r := recover(); r != nil {
			reply = resp.Value{Kind: resp.Error, Text: oneLine(m.describe(r))}
		}
	}()
	m.call(m.script.main, 0, 0)
	return m.reply(m.first(0), 0)
}

// errorTextMax bounds the error that ends a run, in bytes. The rest of a longer one is cut off.
const errorTextMax = 16 << 10

// describe is the error reply for what has ended the run, as Redis words it. It must charge nothing, as
// nobody recovers from its panics.
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
			message = m.text(r.value) // never a number, which would be charged: luaRaise makes a string of one
			message = "ERR " + message[:min(len(message), errorTextMax)]
		}
	default:
		if m.stop == nil { // a fault of this package
			m.stop = fmt.Errorf("the sandbox failed: %v", r)
		}
		message = "ERR " + m.stop.Error()
	}
	return fmt.Sprintf("%s script: %s, on @%s:%d.", message[:min(len(message), errorTextMax)], m.script.SHA, chunkName, line)
}

// What is kept for the next run: stacks of so many values, and frames of calls in each other.
const (
	keptMax       = 1 << 10
	keptFramesMax = 8
)

// forget leaves nothing of the run in the machine but memory that is empty. A machine that has become
// large is given up.
func (m *machine) forget() {
	stack, frames, idle, args := m.stack[:cap(m.stack)], m.frames, m.idle, m.args[:cap(m.args)]
	if max(len(stack), len(args), cap(m.keys.array), cap(m.argv.array)) > keptMax || len(frames) > keptFramesMax {
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

// oneLine makes text fit for a reply that ends with its line.
func oneLine(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
}
