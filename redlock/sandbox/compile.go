package sandbox

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

// The syntax tree becomes closures of Go, one for each node, that are executed one in another.
// Expressions are in compile_expr.go. Names are resolved here: a local variable is a slot, one of a
// function around is a cell, and a global is its value, as globals never change. A compiled script
// holds no state, and can run many times at once.
//
// Order of evaluation. C Lua 5.1 reads a local variable of the same function not where it stands, but
// where the instruction is that uses it: in "x + f()", "t[i] = f()" and "t[f()]" the variables x, t and
// i are read behind the call, and f may have changed them. Such an expression is called late here. All
// else is evaluated from left to right.

// Bounds of a script, as C Lua has them.
const (
	levelsMax   = 250 // of expressions and blocks within each other, which are levels of calls in Go: C Lua has 200
	localsMax   = 200 // of a function
	upvaluesMax = 60  // of a function
)

// compiler compiles one function, with those that it has inside.
type compiler struct {
	*script
	// around compiles the function around this one; nil: this is the script itself.
	around *compiler
	proto  *proto
	// scope has the variables that can be seen, the innermost last. The place of each is its slot.
	scope []*variable
	// captured has what it uses of the functions around this one. The place of each is its cell.
	captured []*variable
	// loops counts those that a break could leave.
	loops int
	// dots is true once "..." is used.
	dots bool
}

// script is what the functions of a script have in common while they are compiled.
type script struct {
	// levels is how deep the node is that is being compiled.
	levels int
	// cost is how many nodes the statement has so far. Blocks within it count when they are executed.
	cost int
	// nodes counts those of the whole script.
	nodes int
}

// refusal is a panic of the compiler: why it does not take a script.
type refusal string

func (e refusal) Error() string { return string(e) }

func refuseAt(at ast.PositionHolder, format string, args ...any) {
	panic(refusal(fmt.Sprintf("%s:%d: ", chunkName, max(at.Line(), 1)) + fmt.Sprintf(format, args...)))
}

// compileChunk makes a function of a script, and tells how many nodes its syntax tree has.
func compileChunk(chunk []ast.Stmt) (main *function, nodes int, err error) {
	defer func() {
		if r := recover(); r != nil {
			refused, ok := r.(refusal)
			if !ok {
				panic(r)
			}
			err = refused
		}
	}()
	c := &compiler{script: &script{}, proto: &proto{vararg: true}}
	c.proto.body = c.block(chunk)
	return &function{proto: c.proto}, c.nodes, nil
}

// enter begins a level; leave ends it.
func (c *compiler) enter(at ast.PositionHolder) {
	c.cost++
	c.nodes++
	if c.levels++; c.levels > levelsMax {
		refuseAt(at, "chunk has too many syntax levels")
	}
	c.proto.levels = max(c.proto.levels, c.levels)
}

func (c *compiler) leave() { c.levels-- }

// local is a new variable. It can be seen from then on.
func (c *compiler) local(at ast.PositionHolder, name string) *variable {
	v := &variable{name: name, slot: len(c.scope)}
	if len(c.scope) == localsMax {
		refuseAt(at, "too many local variables (limit is %d) in function", localsMax)
	}
	c.scope = append(c.scope, v)
	c.proto.slots = max(c.proto.slots, len(c.scope))
	return v
}

// locals are new variables.
func (c *compiler) locals(at ast.PositionHolder, names []string) (list []*variable) {
	for _, name := range names {
		list = append(list, c.local(at, name))
	}
	return list
}

// find is the local variable of that name of this function, or nil.
func (c *compiler) find(name string) *variable {
	for i := len(c.scope) - 1; i >= 0; i-- {
		if c.scope[i].name == name {
			return c.scope[i]
		}
	}
	return nil
}

// capture is the place of the cell of a variable of a function around this one, or -1 if the name is
// that of a global.
func (c *compiler) capture(at ast.PositionHolder, name string) int {
	if c.around == nil {
		return -1
	}
	from := capture{slot: true}
	v := c.around.find(name)
	if v != nil {
		v.captured, from.at = true, v.slot
	} else {
		if from.at = c.around.capture(at, name); from.at < 0 {
			return -1
		}
		from.slot, v = false, c.around.captured[from.at]
	}
	for i := range c.captured {
		if c.captured[i] == v {
			return i
		}
	}
	if len(c.captured) == upvaluesMax {
		refuseAt(at, "function has more than %d upvalues", upvaluesMax)
	}
	c.captured = append(c.captured, v)
	c.proto.captures = append(c.proto.captures, from)
	return len(c.captured) - 1
}

// block compiles statements in a scope of their own.
func (c *compiler) block(list []ast.Stmt) []stmt {
	seen := len(c.scope)
	compiled := c.stmts(list)
	c.scope = c.scope[:seen]
	return compiled
}

// stmts compiles statements. Each counts its nodes as instructions when it is executed.
func (c *compiler) stmts(list []ast.Stmt) []stmt {
	compiled := make([]stmt, 0, len(list))
	for _, s := range list {
		c.enter(s)
		c.cost = 1
		compiled = append(compiled, c.stmt(s))
		c.leave()
	}
	return compiled
}

// stmt compiles one statement.
func (c *compiler) stmt(s ast.Stmt) stmt {
	switch s := s.(type) {
	case *ast.AssignStmt:
		return c.assign(s, s.Lhs, s.Rhs)
	case *ast.LocalAssignStmt:
		return c.localAssign(s)
	case *ast.FuncCallStmt:
		invoke := c.invocation(s.Expr.(*ast.FuncCallExpr))
		cost := c.cost
		return func(f *frame) control {
			f.m.step(cost)
			f.m.stack = f.m.stack[:invoke(f)]
			return goesOn
		}
	case *ast.DoBlockStmt:
		body := c.block(s.Stmts)
		return func(f *frame) control { return run(f, body) }
	case *ast.WhileStmt:
		condition := c.expr(s.Condition)
		cost := c.cost
		body := c.loop(s.Stmts)
		return func(f *frame) control {
			for {
				f.m.step(cost)
				if !truthy(condition(f)) {
					return goesOn
				}
				if ended := run(f, body); ended != goesOn {
					return behindLoop(ended)
				}
			}
		}
	case *ast.RepeatStmt:
		return c.repeat(s)
	case *ast.IfStmt:
		condition := c.expr(s.Condition)
		cost := c.cost
		then, otherwise := c.block(s.Then), c.block(s.Else)
		return func(f *frame) control {
			f.m.step(cost)
			if truthy(condition(f)) {
				return run(f, then)
			}
			return run(f, otherwise)
		}
	case *ast.NumberForStmt:
		return c.numericFor(s)
	case *ast.GenericForStmt:
		return c.genericFor(s)
	case *ast.FuncDefStmt:
		target := s.Name.Func
		if target == nil { // function a.b:c() end
			key := &ast.StringExpr{Value: s.Name.Method}
			key.SetLine(s.Line())
			get := &ast.AttrGetExpr{Object: s.Name.Receiver, Key: key}
			get.SetLine(s.Line())
			target = get
			list := *s.Func.ParList
			list.Names = append([]string{"self"}, list.Names...)
			s.Func.ParList = &list
		}
		return c.assign(s, []ast.Expr{target}, []ast.Expr{s.Func})
	case *ast.ReturnStmt:
		return c.returnStmt(s)
	case *ast.BreakStmt:
		if c.loops == 0 {
			refuseAt(s, "no loop to close")
		}
		return func(f *frame) control { return breaks }
	case *ast.GotoStmt:
		refuseAt(s, "'=' expected near '%s'", s.Label)
	case *ast.LabelStmt:
		refuseAt(s, "unexpected symbol near ':'")
	}
	panic(fmt.Sprintf("unknown statement %T", s))
}

// loop compiles the body of a loop, which can be left by break.
func (c *compiler) loop(list []ast.Stmt) []stmt {
	c.loops++
	body := c.block(list)
	c.loops--
	return body
}

// behindLoop is how a loop ends whose body ended so.
func behindLoop(body control) control {
	if body == breaks {
		return goesOn
	}
	return body
}

// repeat: the condition can see the variables of the body.
func (c *compiler) repeat(s *ast.RepeatStmt) stmt {
	seen := len(c.scope)
	c.loops++
	body := c.stmts(s.Stmts)
	c.loops--
	c.cost = 1
	condition := c.expr(s.Condition)
	cost := c.cost
	c.scope = c.scope[:seen]
	return func(f *frame) control {
		for {
			if ended := run(f, body); ended != goesOn {
				return behindLoop(ended)
			}
			f.m.step(cost)
			if truthy(condition(f)) {
				return goesOn
			}
		}
	}
}

// numericFor adds the step before it compares, and begins one step below, as C Lua does: the numbers
// that a loop gives depend on it where they have fractions.
func (c *compiler) numericFor(s *ast.NumberForStmt) stmt {
	bounds := []expr{c.expr(s.Init), c.expr(s.Limit), func(*frame) value { return 1.0 }}
	if s.Step != nil {
		bounds[2] = c.expr(s.Step)
	}
	cost, line, seen := c.cost, s.Line(), len(c.scope)
	c.locals(s, []string{"(initial)", "(limit)", "(step)"}) // as C Lua counts them
	v := c.local(s, s.Name)
	body := c.loop(s.Stmts)
	c.scope = c.scope[:seen]
	return func(f *frame) control {
		m := f.m
		m.step(cost)
		var given [3]value
		for i, bound := range bounds {
			given[i] = bound(f)
		}
		var numbers [3]float64
		for i, x := range given {
			n, ok := toNumber(m, x)
			if !ok {
				m.raise(line, "'for' %s must be a number", [3]string{"initial value", "limit", "step"}[i])
			}
			numbers[i] = n
		}
		i, limit, step := numbers[0], numbers[1], numbers[2]
		for i -= step; ; {
			m.step(1)
			if i += step; step > 0 && !(i <= limit) || !(step > 0) && !(limit <= i) {
				return goesOn
			}
			v.declare(f, i)
			if ended := run(f, body); ended != goesOn {
				return behindLoop(ended)
			}
		}
	}
}

// genericFor keeps the function, the state and the control in slots, which no script can see.
func (c *compiler) genericFor(s *ast.GenericForStmt) stmt {
	push := c.list(s.Exprs)
	cost, line, seen := c.cost, s.Line(), len(c.scope)
	hidden := c.locals(s, []string{"(generator)", "(state)", "(control)"})
	names := c.locals(s, s.Names)
	body := c.loop(s.Stmts)
	c.scope = c.scope[:seen]
	return func(f *frame) control {
		m := f.m
		m.step(cost)
		base := len(m.stack)
		push(f)
		m.adjust(base + len(hidden))
		for i, v := range hidden {
			f.slots[v.slot] = m.stack[base+i]
		}
		m.stack = m.stack[:base]
		slots := f.slots[hidden[0].slot:]
		for {
			m.step(1)
			m.push(slots[1])
			m.push(slots[2])
			m.call(slots[0], base, line)
			m.adjust(base + len(names))
			if slots[2] = m.stack[base]; slots[2] == nil {
				m.stack = m.stack[:base]
				return goesOn
			}
			for i, v := range names {
				v.declare(f, m.stack[base+i])
			}
			m.stack = m.stack[:base]
			if ended := run(f, body); ended != goesOn {
				return behindLoop(ended)
			}
		}
	}
}

// adjust makes the stack n values long: with nil, or without what is too much.
func (m *machine) adjust(n int) {
	for len(m.stack) < n {
		m.push(nil)
	}
	m.stack = m.stack[:n]
}

// returnStmt: a single call is made by the caller of this function, so that such calls are not nested.
func (c *compiler) returnStmt(s *ast.ReturnStmt) stmt {
	if e, ok := one(s.Exprs).(*ast.FuncCallExpr); ok && !e.AdjustRet {
		push := c.callee(e)
		cost, line := c.cost, e.Line()
		return func(f *frame) control {
			m := f.m
			m.step(cost)
			base := len(m.stack)
			callee := push(f)
			if fn, ok := callee.(*function); ok && fn.native == nil {
				m.tail, m.line = fn, line
				return tailCall
			}
			m.call(callee, base, line)
			return returns
		}
	}
	push := c.list(s.Exprs)
	cost := c.cost
	return func(f *frame) control {
		f.m.step(cost)
		push(f)
		return returns
	}
}

// localAssign declares after the values, which so can use a variable of the same name from before.
func (c *compiler) localAssign(s *ast.LocalAssignStmt) stmt {
	// The parser makes the same of "local f = function" and "local function", but for the last line.
	if fn, ok := one(s.Exprs).(*ast.FunctionExpr); ok && len(s.Names) == 1 && s.LastLine() != 0 {
		v := c.local(s, s.Names[0])
		e := c.expr(fn)
		return func(f *frame) control {
			f.m.step(1)
			v.declare(f, nil)
			v.set(f, e(f))
			return goesOn
		}
	}
	push := c.list(s.Exprs)
	cost := c.cost
	names := c.locals(s, s.Names)
	return func(f *frame) control {
		m := f.m
		m.step(cost)
		base := len(m.stack)
		push(f)
		m.adjust(base + len(names))
		for i, v := range names {
			v.declare(f, m.stack[base+i])
		}
		m.stack = m.stack[:base]
		return goesOn
	}
}

func one(list []ast.Expr) ast.Expr {
	if len(list) != 1 {
		return nil
	}
	return list[0]
}

// target is what is assigned to: a variable, or an element of a table.
type target struct {
	store       func(f *frame, v value) // a variable
	object, key operand
	line        int
}

// operand is a table or a key on the left side. A late one is read when the assignment is made; of
// another one the value is on the stack, at this distance from where the statement has begun.
type operand struct {
	expr
	late bool
	at   int
}

func (o *operand) value(f *frame, base int) value {
	if o.late {
		return o.expr(f)
	}
	return f.m.stack[base+o.at]
}

// assign: tables and keys on the left are evaluated first, unless they are late, then the values, and
// then the last target is assigned to first. A local variable that is the table or key of one target,
// and itself a target behind that, is not late.
func (c *compiler) assign(at ast.PositionHolder, left, right []ast.Expr) stmt {
	var early []expr
	side := func(e ast.Expr, behind []ast.Expr) operand {
		o := operand{expr: c.expr(e)}
		if v := c.late(e); v != nil {
			o.late = true
			for _, other := range behind {
				ident, ok := other.(*ast.IdentExpr)
				o.late = o.late && !(ok && c.find(ident.Value) == v)
			}
		}
		if !o.late {
			o.at = len(early)
			early = append(early, o.expr)
		}
		return o
	}
	targets := make([]target, len(left))
	for i, e := range left {
		switch e := e.(type) {
		case *ast.IdentExpr:
			c.cost++
			targets[i].store = c.store(e)
		case *ast.AttrGetExpr:
			targets[i] = target{object: side(e.Object, left[i+1:]), key: side(e.Key, left[i+1:]), line: e.Line()}
		default:
			refuseAt(at, "syntax error near '='")
		}
	}
	push := c.list(right)
	cost := c.cost
	return func(f *frame) control {
		m := f.m
		m.step(cost)
		base := len(m.stack)
		for _, e := range early {
			v := e(f)
			m.push(v)
		}
		values := len(m.stack)
		push(f)
		m.adjust(values + len(targets))
		for i := len(targets) - 1; i >= 0; i-- {
			t, v := &targets[i], m.stack[values+i]
			if t.store != nil {
				t.store(f, v)
			} else {
				m.setIndex(t.object.value(f, base), t.key.value(f, base), v, t.line)
			}
		}
		m.stack = m.stack[:base]
		return goesOn
	}
}

// store assigns to a variable. Globals are read-only.
func (c *compiler) store(e *ast.IdentExpr) func(f *frame, v value) {
	if v := c.find(e.Value); v != nil {
		return v.set
	}
	if at := c.capture(e, e.Value); at >= 0 {
		return func(f *frame, v value) { f.cells[at].v = v }
	}
	line := e.Line()
	return func(f *frame, _ value) { f.m.raise(line, errReadonly) }
}
