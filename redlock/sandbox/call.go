package sandbox

// Calls. The caller puts the arguments on the stack of the machine, and finds the results in their
// place. Functions of Lua move their arguments to slots; functions in Go work on the stack (call).
//
// Errors are panics: a call that raises one leaves depth, frame and stack to protect, which puts them
// right.

// frame is a call of a function of Lua. Its machine uses it again for every call of the same depth.
type frame struct {
	m *machine
	// slots has the local variables. The slot of a captured one has a *cell.
	slots []value
	// cells has the variables of the functions around this one that it uses.
	cells   []*cell
	varargs []value
	// levels is for how many closures in each other the run has paid at this depth.
	levels int
	// callerLine is the line of the function of Lua that called this one. It is 0 if Go did, or a tail
	// call has lost it, as in C Lua.
	callerLine int
}

// callsDepth bounds how deep calls are nested. C Lua has this bound for those that go through C, and 20
// 000 for others. Here all of them go through Go, and a function that calls itself a few hundred times
// is no lock script.
const callsDepth = 200

// first takes the results of a call from the stack, and returns the first one, or nil if there is none.
func (m *machine) first(base int) (v value) {
	if base < len(m.stack) {
		v = m.stack[base]
	}
	m.stack = m.stack[:base]
	return v
}

// argumentsFree is how many arguments a call can have that are not charged for.
const argumentsFree = 16

// call calls a value with the arguments that are on the stack from base on, and leaves the results
// there. Line is that of the function of Lua that calls; 0: Go does.
func (m *machine) call(callee value, base, line int) {
	if line > 0 {
		m.line = line
	}
	fn, ok := callee.(*function)
	if !ok {
		if fn, ok = metaField(callee, "__call").(*function); !ok {
			m.raise(line, "attempt to call a %s value", typeName(callee))
		}
		m.push(nil)
		copy(m.stack[base+1:], m.stack[base:])
		m.stack[base] = callee
	}
	// Each level of a recursion can have as many arguments as a source has room for.
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

// callNative calls a function in Go, whose results are on top of its stack.
func (m *machine) callNative(fn *function, base, line int) {
	c := m.idle
	if c == nil {
		c = &call{m: m}
	} else {
		m.idle = c.next
	}
	c.native, c.base, c.line = fn.native, base, line
	m.step(1)
	n := fn.native.run(c)
	results := len(m.stack) - n
	copy(m.stack[base:], m.stack[results:])
	m.stack = m.stack[:base+n]
	c.native, c.next, m.idle = nil, m.idle, c // the iterator of gmatch holds its subject
}

// callLua calls a function of Lua, and those that it calls in its last return, one behind the other:
// these are not nested, so that a loop of tail calls needs no depth.
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

// protect calls as call does, and returns the error that the call has raised. The end of a run is none.
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
	m.pushAll(args)
	m.call(fn, base, line)
	return m.first(base)
}

// call is a call of a function in Go.
type call struct {
	m *machine
	*native
	// base is where its part of the machine's stack begins: the arguments, and then what it has pushed.
	base int
	// line is that of the function of Lua that made the call; 0: Go did.
	line int
	// next is the next one in machine.idle.
	next *call
}

// get is a value on the stack, from 1. Behind the end is nil.
func (c *call) get(i int) value {
	if i += c.base; i <= len(c.m.stack) {
		return c.m.stack[i-1]
	}
	return nil
}

// top is how many values are on the stack.
func (c *call) top() int { return len(c.m.stack) - c.base }

// push puts a value on top: an argument for invoke, or a result.
func (c *call) push(v value) { c.m.push(v) }

// result puts the one result of a function on top, and results puts several there. They say how many.
func (c *call) result(v value) int {
	c.push(v)
	return 1
}

func (c *call) results(list ...value) int {
	c.m.pushAll(list)
	return len(list)
}

// keepFirst leaves the first value alone.
func (c *call) keepFirst() { c.m.stack = c.m.stack[:c.base+1] }

// raise raises an error at the line where Lua called. What Go called has no position, as with C.
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

// lineOf is the line of the function of Lua that called (level 1), or of its caller (2), and 0 if that is
// not Lua.
func (c *call) lineOf(level int) int {
	switch {
	case level == 1:
		return c.line
	case level == 2 && c.line > 0:
		return c.m.frame.callerLine
	}
	return 0
}
