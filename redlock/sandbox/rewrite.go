package sandbox

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

// The syntax tree is changed before it is compiled, where an operation of gopher-lua cannot be counted or differs from
// Lua 5.1. The names of the functions that are put in contain what no name in a source can.
//
//	a .. b .. c          (concat)(a, b, c)    bounded; numbers as %.14g
//	t[i] = v             (set)(t, i, v)       t[1e7] = 1 makes gopher-lua fill an array
//	{[i] = v}            {[(key)(i)] = v}     the same
//	{1, 2, …}            (table)({1, 2, …})   only long ones: bounded
//	...                  (vararg)(...)        bounded: one instruction copies thousands
//	a + b                (number)(a) + b      only where an operand may be a string: "010" is ten
//	x = v                (readonly) = v       if x is global: also the existing globals are read-only
//	redis.call           redis.call           one look-up of a global with a dot in its name, if redis is global
const (
	nameConcat   = "(concat)"
	nameSet      = "(set)"
	nameKey      = "(key)"
	nameTable    = "(table)"
	nameVararg   = "(vararg)"
	nameNumber   = "(number)"
	nameReadonly = "(readonly)"
)

const (
	concatMax    = 40 // operands of one call: registers are few
	tableFreeMax = 16 // elements of a constructor that are not counted
)

// levelsMax bounds how deep expressions and blocks are nested, as C Lua does with 200. The time that gopher-lua takes
// to compile an expression grows with the square of it.
const levelsMax = 250

type rewriter struct {
	levels int
	locals map[string]int // how often a name is local where we are
	marks  []string       // the names in order of declaration
}

func rewrite(chunk []ast.Stmt) (err error) {
	defer func() {
		if r := recover(); r != nil {
			refusal, ok := r.(rewriteError)
			if !ok {
				panic(r)
			}
			err = refusal
		}
	}()
	r := &rewriter{locals: map[string]int{}}
	r.block(chunk)
	return nil
}

// rewriteError ends a rewrite.
type rewriteError string

func (e rewriteError) Error() string { return string(e) }

func (r *rewriter) declare(names ...string) {
	for _, name := range names {
		r.locals[name]++
		r.marks = append(r.marks, name)
	}
}

// scope runs f and forgets the locals that it declared.
func (r *rewriter) scope(f func()) {
	begin := len(r.marks)
	f()
	for _, name := range r.marks[begin:] {
		r.locals[name]--
	}
	r.marks = r.marks[:begin]
}

func (r *rewriter) block(list []ast.Stmt) {
	for i, s := range list {
		list[i] = r.stmt(s)
	}
}

// enter begins a level; leave ends it.
func (r *rewriter) enter(at ast.PositionHolder) {
	if r.levels++; r.levels > levelsMax {
		panic(rewriteError(fmt.Sprintf("%s:%d: chunk has too many syntax levels", chunkName, at.Line())))
	}
}

func (r *rewriter) leave() { r.levels-- }

func (r *rewriter) stmt(s ast.Stmt) ast.Stmt {
	r.enter(s)
	defer r.leave()
	switch s := s.(type) {
	case *ast.AssignStmt:
		return r.assign(s)
	case *ast.LocalAssignStmt:
		// gopher-lua knows the name inside when the only value is a function, with "local function" or without.
		if len(s.Names) == 1 && len(s.Exprs) == 1 {
			if _, ok := s.Exprs[0].(*ast.FunctionExpr); ok {
				r.declare(s.Names...)
				r.exprs(s.Exprs)
				return s
			}
		}
		r.exprs(s.Exprs)
		r.declare(s.Names...)
	case *ast.FuncCallStmt:
		s.Expr = r.expr(s.Expr)
	case *ast.DoBlockStmt:
		r.scope(func() { r.block(s.Stmts) })
	case *ast.WhileStmt:
		s.Condition = r.expr(s.Condition)
		r.scope(func() { r.block(s.Stmts) })
	case *ast.RepeatStmt:
		r.scope(func() {
			r.block(s.Stmts)
			s.Condition = r.expr(s.Condition)
		})
	case *ast.IfStmt:
		s.Condition = r.expr(s.Condition)
		r.scope(func() { r.block(s.Then) })
		r.scope(func() { r.block(s.Else) })
	case *ast.NumberForStmt:
		s.Init, s.Limit = r.number(s.Init), r.number(s.Limit)
		if s.Step != nil {
			s.Step = r.number(s.Step)
		}
		r.scope(func() {
			r.declare(s.Name)
			r.block(s.Stmts)
		})
	case *ast.GenericForStmt:
		r.exprs(s.Exprs)
		r.scope(func() {
			r.declare(s.Names...)
			r.block(s.Stmts)
		})
	case *ast.FuncDefStmt:
		if s.Name.Func != nil {
			s.Name.Func = r.target(s.Name.Func)
		}
		if s.Name.Receiver != nil {
			s.Name.Receiver = r.expr(s.Name.Receiver)
		}
		r.expr(s.Func)
	case *ast.ReturnStmt:
		r.exprs(s.Exprs)
	case *ast.GotoStmt:
		panic(rewriteError(fmt.Sprintf("%s:%d: '=' expected near '%s'", chunkName, s.Line(), s.Label)))
	case *ast.LabelStmt:
		panic(rewriteError(fmt.Sprintf("%s:%d: unexpected symbol near ':'", chunkName, s.Line())))
	}
	return s
}

func (r *rewriter) assign(s *ast.AssignStmt) ast.Stmt {
	if get, ok := s.Lhs[0].(*ast.AttrGetExpr); ok && len(s.Lhs) == 1 && len(s.Rhs) == 1 {
		if _, constant := get.Key.(*ast.StringExpr); !constant {
			object, key, value := r.expr(get.Object), r.expr(get.Key), r.expr(s.Rhs[0])
			set := &ast.FuncCallStmt{Expr: call(s, nameSet, object, key, value)}
			place(set, s)
			return set
		}
	}
	for i, e := range s.Lhs {
		s.Lhs[i] = r.target(e)
	}
	r.exprs(s.Rhs)
	return s
}

// target is what is assigned to.
func (r *rewriter) target(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.IdentExpr:
		if r.locals[e.Value] == 0 {
			e.Value = nameReadonly
		}
	case *ast.AttrGetExpr:
		e.Object = r.expr(e.Object)
		e.Key = r.key(e.Key)
	}
	return e
}

func (r *rewriter) key(e ast.Expr) ast.Expr {
	if _, constant := e.(*ast.StringExpr); constant {
		return e
	}
	return call(e, nameKey, r.expr(e))
}

func (r *rewriter) exprs(list []ast.Expr) {
	for i, e := range list {
		list[i] = r.expr(e)
	}
}

func (r *rewriter) expr(e ast.Expr) ast.Expr {
	r.enter(e)
	defer r.leave()
	switch e := e.(type) {
	case *ast.NumberExpr:
		if f, ok := parseNumber(e.Value); ok {
			e.Value = string(appendNumber(nil, f, 17))
		}
	case *ast.Comma3Expr:
		c := call(e, nameVararg, e)
		c.AdjustRet = e.AdjustRet
		return c
	case *ast.AttrGetExpr:
		if object, ok := e.Object.(*ast.IdentExpr); ok && object.Value == "redis" && r.locals["redis"] == 0 {
			if key, ok := e.Key.(*ast.StringExpr); ok && (key.Value == "call" || key.Value == "pcall") {
				object.Value = "redis." + key.Value
				return object
			}
		}
		e.Object, e.Key = r.expr(e.Object), r.expr(e.Key)
	case *ast.TableExpr:
		return r.constructor(e)
	case *ast.FuncCallExpr:
		if e.Func != nil {
			e.Func = r.expr(e.Func)
		}
		if e.Receiver != nil {
			e.Receiver = r.expr(e.Receiver)
		}
		r.exprs(e.Args)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.RelationalOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.StringConcatOpExpr:
		return r.concat(e)
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = r.number(e.Lhs), r.number(e.Rhs)
	case *ast.UnaryMinusOpExpr:
		e.Expr = r.number(e.Expr)
	case *ast.UnaryNotOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.UnaryLenOpExpr:
		e.Expr = r.expr(e.Expr)
	case *ast.FunctionExpr:
		r.scope(func() {
			r.declare("self", "arg") // at most too many: they stay what they are
			r.declare(e.ParList.Names...)
			r.block(e.Stmts)
		})
	}
	return e
}

func (r *rewriter) constructor(e *ast.TableExpr) ast.Expr {
	for _, f := range e.Fields {
		if f.Key != nil {
			f.Key = r.key(f.Key)
		}
		f.Value = r.expr(f.Value)
	}
	if len(e.Fields) <= tableFreeMax {
		return e
	}
	n := &ast.NumberExpr{Value: fmt.Sprint(len(e.Fields))}
	place(n, e)
	return call(e, nameTable, e, n)
}

// concat makes calls of a chain of operators, which is one operand and a chain again.
func (r *rewriter) concat(e *ast.StringConcatOpExpr) ast.Expr {
	var operands []ast.Expr
	var rest ast.Expr = e
	for {
		next, ok := rest.(*ast.StringConcatOpExpr)
		if !ok {
			operands = append(operands, r.expr(rest))
			break
		}
		operands = append(operands, r.expr(next.Lhs))
		rest = next.Rhs
	}
	// A long chain is joined from the left in pieces, which takes few registers. Only __concat could tell.
	for len(operands) > concatMax {
		operands = append([]ast.Expr{call(e, nameConcat, operands[:concatMax]...)}, operands[concatMax:]...)
	}
	return call(e, nameConcat, operands...)
}

// number is an operand of arithmetic.
func (r *rewriter) number(e ast.Expr) ast.Expr {
	switch e.(type) {
	case *ast.NumberExpr, *ast.ArithmeticOpExpr, *ast.UnaryMinusOpExpr, *ast.UnaryLenOpExpr:
		return r.expr(e)
	}
	return call(e, nameNumber, r.expr(e))
}

// call is a call of one of our functions for one value. AdjustRet keeps it from being a tail call, which would lose the
// line for its errors, and its last argument from being many.
func call(at ast.PositionHolder, name string, args ...ast.Expr) *ast.FuncCallExpr {
	fn := &ast.IdentExpr{Value: name}
	place(fn, at)
	c := &ast.FuncCallExpr{Func: fn, Args: args, AdjustRet: true}
	place(c, at)
	return c
}

func place(node, at ast.PositionHolder) {
	node.SetLine(at.Line())
	node.SetLastLine(at.LastLine())
}
