package sandbox

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

// late is the local variable of this function that an expression is, and is read late. C Lua leaves out
// a constant in front of "and" and "or", unless it has made a jump for it, as for "false and 2".
func (c *compiler) late(e ast.Expr) *variable {
	switch e := e.(type) {
	case *ast.IdentExpr:
		return c.find(e.Value)
	case *ast.LogicalOpExpr:
		if truth, constant := truthOf(e.Lhs); constant && truth == (e.Operator == "and") {
			return c.late(e.Rhs)
		}
	}
	return nil
}

// truthOf is the truth of what is a constant to C Lua, without a jump.
func truthOf(e ast.Expr) (truth, constant bool) {
	switch e := e.(type) {
	case *ast.TrueExpr, *ast.StringExpr:
		return true, true
	case *ast.FalseExpr, *ast.NilExpr:
		return false, true
	case *ast.UnaryNotOpExpr:
		truth, constant = truthOf(e.Expr)
		return !truth, constant
	case *ast.LogicalOpExpr:
		if truth, constant = truthOf(e.Lhs); constant && truth == (e.Operator == "and") {
			return truthOf(e.Rhs)
		}
		return false, false
	}
	_, constant = numberOf(e)
	return true, constant
}

// numberOf is the number that C Lua computes when it compiles.
func numberOf(e ast.Expr) (f float64, constant bool) {
	switch e := e.(type) {
	case *ast.NumberExpr:
		return parseNumber(e.Value)
	case *ast.UnaryMinusOpExpr:
		f, constant = numberOf(e.Expr)
		return -f, constant
	case *ast.ArithmeticOpExpr:
		a, okA := numberOf(e.Lhs)
		b, okB := numberOf(e.Rhs)
		f = calculate(e.Operator[0], a, b)
		return f, okA && okB && f == f && (b != 0 || e.Operator != "/" && e.Operator != "%")
	}
	return 0, false
}

// constant is an expression that is v.
func constant(v value) expr { return func(*frame) value { return v } }

// expr compiles an expression for one value.
func (c *compiler) expr(e ast.Expr) expr {
	c.enter(e)
	defer c.leave()
	switch e := e.(type) {
	case *ast.NilExpr:
		return constant(nil)
	case *ast.FalseExpr:
		return constant(false)
	case *ast.TrueExpr:
		return constant(true)
	case *ast.NumberExpr:
		f, ok := parseNumber(e.Value)
		if !ok {
			refuseAt(e, "malformed number near '%s'", e.Value)
		}
		return constant(f)
	case *ast.StringExpr:
		return constant(e.Value)
	case *ast.Comma3Expr:
		c.variadic(e)
		return func(f *frame) value {
			if len(f.varargs) == 0 {
				return nil
			}
			return f.varargs[0]
		}
	case *ast.IdentExpr:
		return c.read(e)
	case *ast.AttrGetExpr:
		return c.element(e)
	case *ast.TableExpr:
		return c.constructor(e)
	case *ast.FuncCallExpr:
		invoke := c.invocation(e)
		return func(f *frame) value { return f.m.first(invoke(f)) }
	case *ast.LogicalOpExpr:
		a, b, or := c.expr(e.Lhs), c.expr(e.Rhs), e.Operator == "or"
		return func(f *frame) value {
			if v := a(f); truthy(v) == or {
				return v
			}
			return b(f)
		}
	case *ast.RelationalOpExpr:
		return c.relation(e)
	case *ast.StringConcatOpExpr:
		return c.concat(e)
	case *ast.ArithmeticOpExpr:
		operator, line := e.Operator[0], e.Line()
		both := c.operands(e.Lhs, e.Rhs)
		return func(f *frame) value {
			a, b := both(f)
			if x, ok := a.(float64); ok {
				if y, ok := b.(float64); ok {
					return calculate(operator, x, y)
				}
			}
			return f.m.arithmeticOdd(operator, a, b, line)
		}
	case *ast.UnaryMinusOpExpr:
		operand, line := c.expr(e.Expr), e.Line()
		return func(f *frame) value {
			v := operand(f)
			if x, ok := toNumber(f.m, v); ok {
				return -x
			}
			return f.m.arithmeticOdd('_', v, v, line)
		}
	case *ast.UnaryNotOpExpr:
		operand := c.expr(e.Expr)
		return func(f *frame) value { return !truthy(operand(f)) }
	case *ast.UnaryLenOpExpr: // asks no metatable of a table
		operand, line := c.expr(e.Expr), e.Line()
		return func(f *frame) value {
			switch v := operand(f).(type) {
			case string:
				return float64(len(v))
			case *table:
				return float64(v.length())
			default:
				f.m.raise(line, "attempt to get length of a %s value", typeName(v))
				return nil
			}
		}
	case *ast.FunctionExpr:
		return c.closure(e)
	}
	panic(fmt.Sprintf("unknown expression %T", e))
}

// operands computes both sides of an operator.
func (c *compiler) operands(left, right ast.Expr) func(f *frame) (a, b value) {
	l, r := c.expr(left), c.expr(right)
	if c.late(left) != nil {
		return func(f *frame) (a, b value) {
			b = r(f)
			return l(f), b
		}
	}
	return func(f *frame) (a, b value) {
		a = l(f)
		return a, r(f)
	}
}

// read reads a variable. What a global is is known: all are read-only.
func (c *compiler) read(e *ast.IdentExpr) expr {
	if v := c.find(e.Value); v != nil {
		return v.get
	}
	if at := c.capture(e, e.Value); at >= 0 {
		return func(f *frame) value { return f.cells[at].v }
	}
	switch e.Value {
	case "KEYS":
		return func(f *frame) value { return &f.m.keys }
	case "ARGV":
		return func(f *frame) value { return &f.m.argv }
	case "_G":
		return func(f *frame) value { return f.m.globalTable() }
	}
	if v := globals.getString(e.Value); v != nil {
		return constant(v)
	}
	name, line := e.Value, e.Line()
	return func(f *frame) value {
		f.m.missingGlobal(line, name)
		return nil
	}
}

// element is t[k]. A function of a library is known.
func (c *compiler) element(e *ast.AttrGetExpr) expr {
	key, isString := e.Key.(*ast.StringExpr)
	if ident, ok := e.Object.(*ast.IdentExpr); ok && isString && c.find(ident.Value) == nil && c.capture(e, ident.Value) < 0 {
		if library, ok := globals.getString(ident.Value).(*table); ok {
			if v := library.getString(key.Value); v != nil {
				return constant(v)
			}
		}
	}
	both, line := c.operands(e.Object, e.Key), e.Line()
	return func(f *frame) value {
		o, k := both(f)
		return f.m.index(o, k, line)
	}
}

// variadic notes that this function uses "...".
func (c *compiler) variadic(e *ast.Comma3Expr) {
	if !c.proto.vararg {
		refuseAt(e, "cannot use '...' outside a vararg function near '...'")
	}
	c.dots = true
}

// list puts the values of expressions on the stack, all of the last one.
func (c *compiler) list(exprs []ast.Expr) values {
	if len(exprs) == 0 {
		return func(*frame) {}
	}
	n := len(exprs) - 1
	single := make([]expr, 0, n)
	for _, e := range exprs[:n] {
		single = append(single, c.expr(e))
	}
	var last values
	switch e := exprs[n].(type) {
	case *ast.FuncCallExpr:
		if !e.AdjustRet {
			c.enter(e)
			invoke := c.invocation(e)
			c.leave()
			last = func(f *frame) { invoke(f) }
		}
	case *ast.Comma3Expr:
		if !e.AdjustRet {
			c.variadic(e)
			last = func(f *frame) {
				f.m.many(len(f.varargs))
				f.m.pushAll(f.varargs)
			}
		}
	}
	if last == nil {
		e := c.expr(exprs[n])
		last = func(f *frame) {
			v := e(f)
			f.m.push(v)
		}
	}
	if n == 0 {
		return last
	}
	return func(f *frame) {
		for _, e := range single {
			v := e(f)
			f.m.push(v)
		}
		last(f)
	}
}

// invocation makes a call, and returns from where on its results are on the stack.
func (c *compiler) invocation(e *ast.FuncCallExpr) func(f *frame) (base int) {
	push, line := c.callee(e), e.Line()
	return func(f *frame) int {
		base := len(f.m.stack)
		f.m.call(push(f), base, line)
		return base
	}
}

// callee computes what is called, and puts the arguments on the stack.
func (c *compiler) callee(e *ast.FuncCallExpr) func(f *frame) value {
	if e.Receiver == nil {
		fn, push := c.expr(e.Func), c.list(e.Args)
		return func(f *frame) value {
			v := fn(f)
			push(f)
			return v
		}
	}
	object, push, method, line := c.expr(e.Receiver), c.list(e.Args), e.Method, e.Line()
	return func(f *frame) value {
		o := object(f)
		v := f.m.index(o, method, line)
		f.m.push(o)
		push(f)
		return v
	}
}

// relation compiles a comparison. C Lua makes a > b of b < a, behind the evaluation of both.
func (c *compiler) relation(e *ast.RelationalOpExpr) expr {
	both, line := c.operands(e.Lhs, e.Rhs), e.Line()
	if e.Operator == "==" || e.Operator == "~=" {
		want := e.Operator == "=="
		return func(f *frame) value {
			a, b := both(f)
			return (a == b || f.m.equalOdd(a, b, line)) == want
		}
	}
	swapped, orEqual := e.Operator[0] == '>', len(e.Operator) == 2
	return func(f *frame) value {
		a, b := both(f)
		if swapped {
			a, b = b, a
		}
		return f.m.compare(a, b, orEqual, line)
	}
}

// concat takes a chain of operators, which is one operand and a chain again, as one.
func (c *compiler) concat(e *ast.StringConcatOpExpr) expr {
	var operands []expr
	var rest ast.Expr = e
	levels := c.levels
	for {
		next, ok := rest.(*ast.StringConcatOpExpr)
		if !ok {
			break
		}
		c.enter(next)
		operands = append(operands, c.expr(next.Lhs))
		rest = next.Rhs
	}
	operands = append(operands, c.expr(rest))
	c.levels = levels
	line := e.Line()
	return func(f *frame) value {
		m := f.m
		base := len(m.stack)
		for _, o := range operands {
			v := o(f)
			m.push(v)
		}
		v := m.concat(m.stack[base:], line)
		m.stack = m.stack[:base]
		return v
	}
}

// closure compiles a function. When the expression is executed, the closure takes the cells of the
// variables that it uses: from slots of the function around it, or from among that one's own cells.
func (c *compiler) closure(e *ast.FunctionExpr) expr {
	inner := &compiler{script: c.script, around: c, proto: &proto{vararg: e.ParList.HasVargs}}
	p := inner.proto
	cost := c.cost
	p.params = inner.locals(e, e.ParList.Names)
	if p.vararg {
		p.arg = inner.local(e, "arg")
	}
	p.body = inner.block(e.Stmts)
	p.argTable = p.vararg && !inner.dots
	c.cost = cost
	return func(f *frame) value {
		f.m.charge(closureBytes + len(p.captures)*cellBytes)
		fn := &function{proto: p, cells: make([]*cell, len(p.captures))}
		for i, from := range p.captures {
			if from.slot {
				fn.cells[i] = f.slots[from.at].(*cell)
			} else {
				fn.cells[i] = f.cells[from.at]
			}
		}
		return fn
	}
}

// flushAt is after how many elements of a constructor C Lua stores them. What stands behind a field
// with the same key replaces it, and is replaced by one that stands behind these.
const flushAt = 50

// constructor compiles {…}. Elements wait on the stack until they are stored.
func (c *compiler) constructor(e *ast.TableExpr) expr {
	type field struct {
		key, value expr // no key: an element
		late       bool
		line       int
	}
	fields := make([]field, len(e.Fields))
	elements := 0
	var last values
	for i, from := range e.Fields {
		if from.Key != nil {
			fields[i] = field{c.expr(from.Key), c.expr(from.Value), c.late(from.Key) != nil, from.Key.Line()}
			continue
		}
		elements++
		if i == len(e.Fields)-1 {
			last = c.list([]ast.Expr{from.Value})
		} else {
			fields[i].value = c.expr(from.Value)
		}
	}
	if last != nil {
		fields = fields[:len(fields)-1]
	}
	others := len(e.Fields) - elements
	return func(f *frame) value {
		m := f.m
		t := m.table(elements, others)
		base, stored, numbered := len(m.stack), 0, false
		flush := func() {
			pending := m.stack[base:]
			if n := stored + len(pending); n > cap(t.array) {
				t.reserve(m, n, 0)
			}
			if !numbered { // with what is nil among them
				t.array = append(t.array, pending...)
			} else {
				for i, v := range pending {
					t.set(m, float64(stored+i+1), v)
				}
			}
			stored += len(pending)
			m.stack = m.stack[:base]
		}
		for i := range fields {
			if len(m.stack)-base == flushAt {
				flush()
			}
			x := &fields[i]
			if x.key == nil {
				v := x.value(f)
				m.push(v)
				continue
			}
			var k value
			if !x.late {
				k = x.key(f)
			}
			v := x.value(f)
			if x.late {
				k = x.key(f)
			}
			m.checkKey(k, x.line)
			_, isNumber := k.(float64)
			numbered = numbered || isNumber
			t.set(m, k, v)
		}
		if last != nil {
			if len(m.stack)-base == flushAt {
				flush()
			}
			last(f)
		}
		flush()
		return t
	}
}
