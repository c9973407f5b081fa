package sandbox

import (
	"fmt"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
)

// a .. b .. c          (concat)(a, b, c)    bounded; numbers as %.14g
// a + b, -a, #a        (+)(a, b)            strings that are numbers, % and # as in Lua 5.1. Not of two constants
// t[i] = v             (set)(t, i, v)       bounded: t[1e7] = 1 makes gopher-lua fill an array
// {[i] = v}            {[(key)(i)] = v}     the same
// {1, 2, …}            (table)({1, 2, …})   counted
// function() end       (closure)(…)         counted
// ...                  (vararg)(...)        bounded: one instruction copies thousands
// x = v                (readonly) = v       if x is global: also the existing globals are read-only
// redis.call           redis.call           one look-up of a global with a dot in its name, if redis is global
const (
	nameConcat   = "(concat)"
	nameSet      = "(set)"
	nameKey      = "(key)"
	nameTable    = "(table)"
	nameClosure  = "(closure)"
	nameVararg   = "(vararg)"
	nameNumber   = "(number)" // of the bounds of a loop
	nameReadonly = "(readonly)"
	nameMinus    = "(minus)"
	nameLength   = "(#)"
)

// nameOf is the function for an operator of arithmetic; that of nameSwapped has its operands in the other order.
func nameOf(operator string) string      { return "(" + operator + ")" }
func nameSwapped(operator string) string { return "(" + operator + " swapped)" }

const (
	concatMax    = 40 // operands of one call: registers are few
	tableFreeMax = 16 // values that are copied without being counted
)

func (r *rewriter) exprs(list []ast.Expr) []ast.Expr {
	for i, e := range list {
		list[i] = r.expr(e)
	}
	return list
}

func (r *rewriter) expr(e ast.Expr) ast.Expr {
	r.enter(e)
	defer r.leave()
	switch e := e.(type) {
	case *ast.NumberExpr:
		if f, ok := parseNumber(e.Value); ok {
			e.Value = string(appendNumber(nil, f, 17))
		}
		r.constant(e, "#"+e.Value)
	case *ast.StringExpr:
		r.constant(e, e.Value)
	case *ast.IdentExpr:
		if r.isGlobal(e.Value) {
			r.constant(e, e.Value)
		}
	case *ast.Comma3Expr:
		c := call(e, nameVararg, e)
		c.AdjustRet = e.AdjustRet
		return c
	case *ast.AttrGetExpr:
		if object, ok := e.Object.(*ast.IdentExpr); ok && object.Value == "redis" && r.isGlobal("redis") {
			if key, ok := e.Key.(*ast.StringExpr); ok && (key.Value == "call" || key.Value == "pcall") {
				return ident(e, "redis."+key.Value)
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
		e.Args = r.exprs(e.Args)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
		if truth, constant := truthOf(e.Lhs); constant {
			if truth == (e.Operator == "or") {
				r.jumps[e.Lhs] = true
				return e.Lhs
			}
			if r.jumps[e.Lhs] && r.isLate(e.Rhs) {
				return call(e, nameVararg, e.Rhs)
			}
			return single(e.Rhs)
		}
	case *ast.RelationalOpExpr:
		e.Lhs, e.Rhs = r.expr(e.Lhs), r.expr(e.Rhs)
	case *ast.StringConcatOpExpr:
		return r.concat(e)
	case *ast.ArithmeticOpExpr:
		lhs, rhs := r.expr(e.Lhs), r.expr(e.Rhs)
		if folded := fold(e, lhs, rhs); folded != nil {
			return folded
		}
		if r.isLate(lhs) && !isInert(rhs) { // Lua reads it when it has computed the other
			return call(e, nameSwapped(e.Operator), rhs, lhs)
		}
		return call(e, nameOf(e.Operator), lhs, rhs)
	case *ast.UnaryMinusOpExpr:
		e.Expr = r.expr(e.Expr)
		if _, constant := e.Expr.(*ast.NumberExpr); !constant {
			return call(e, nameMinus, e.Expr)
		}
	case *ast.UnaryNotOpExpr:
		e.Expr = r.expr(e.Expr)
		if truth, constant := truthOf(e.Expr); constant {
			var not ast.Expr = &ast.TrueExpr{}
			if truth {
				not = &ast.FalseExpr{}
			}
			place(not, e)
			r.jumps[not] = r.jumps[e.Expr]
			return not
		}
	case *ast.UnaryLenOpExpr:
		return call(e, nameLength, r.expr(e.Expr))
	case *ast.FunctionExpr:
		return r.closure(e)
	}
	return e
}

// truthOf is the truth of a constant. None may come first in a condition: gopher-lua would have it jump, and computes backward jumps
// to a jump wrongly (rewriter.inLoop).
func truthOf(e ast.Expr) (truth, constant bool) {
	switch e.(type) {
	case *ast.TrueExpr, *ast.NumberExpr, *ast.StringExpr:
		return true, true
	case *ast.FalseExpr, *ast.NilExpr:
		return false, true
	}
	return false, false
}

// single makes one value of a rewritten expression that may be a call.
func single(e ast.Expr) ast.Expr {
	if c, ok := e.(*ast.FuncCallExpr); ok {
		c.AdjustRet = true
	}
	return e
}

// fold computes an operator of two constants, as Lua does. It is nil for others, and where the result is no finite number.
func fold(e *ast.ArithmeticOpExpr, lhs, rhs ast.Expr) ast.Expr {
	x, isNumber := lhs.(*ast.NumberExpr)
	y, areNumbers := rhs.(*ast.NumberExpr)
	if !isNumber || !areNumbers {
		return nil
	}
	a, okA := parseNumber(x.Value)
	b, okB := parseNumber(y.Value)
	f := float64(calculate(e.Operator[0], lua.LNumber(a), lua.LNumber(b)))
	if !okA || !okB || f-f != 0 {
		return nil
	}
	x.Value = string(appendNumber(nil, f, 17))
	return x
}

// closure rewrites a function.
func (r *rewriter) closure(e *ast.FunctionExpr) ast.Expr {
	if r.functions++; r.functions > functionsMax {
		refuseAt(e, "script has more than %d functions", functionsMax)
	}
	if r.function.loop != nil {
		r.function.loop.closures = true
	}
	r.function = &function{number: r.functions, parent: r.function}
	r.scope(func() {
		r.declare(e.ParList.Names...)
		if e.ParList.HasVargs {
			r.declare("arg")
		}
		e.Stmts = r.block(e.Stmts)
	})
	r.function = r.function.parent
	return call(e, nameClosure, e)
}

func (r *rewriter) constructor(e *ast.TableExpr) ast.Expr {
	elements := 0
	for i, f := range e.Fields {
		f.Value = r.expr(f.Value)
		c, isCall := f.Value.(*ast.FuncCallExpr)
		if many := i == len(e.Fields)-1 && isCall && !c.AdjustRet; f.Key != nil || many {
			if elements > 0 && elements%lua.FieldsPerFlush == 0 {
				refuseAt(e, "constructor has a field or a last call behind %d elements: put the field in front, the call in parentheses", elements)
			}
		}
		if f.Key == nil {
			elements++
			continue
		}
		if _, constant := f.Key.(*ast.StringExpr); constant {
			f.Key = r.expr(f.Key)
		} else {
			f.Key = call(f.Key, nameKey, r.expr(f.Key))
		}
		f.Value = single(f.Value) // else the values of a call that comes last would be elements
	}
	many := false
	if n := len(e.Fields); n > 0 && e.Fields[n-1].Key == nil {
		c, ok := e.Fields[n-1].Value.(*ast.FuncCallExpr)
		many = ok && !c.AdjustRet
	}
	n := &ast.NumberExpr{Value: fmt.Sprint(constructed(elements, len(e.Fields)-elements, many))}
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
	joined := call(e, nameConcat, operands[:min(concatMax, len(operands))]...)
	for i := concatMax; i < len(operands); i += concatMax - 1 {
		piece := append([]ast.Expr{joined}, operands[i:min(i+concatMax-1, len(operands))]...)
		joined = call(e, nameConcat, piece...)
	}
	return joined
}

// number is a bound of a loop.
func (r *rewriter) number(e ast.Expr) ast.Expr {
	e = r.expr(e)
	switch e.(type) {
	case *ast.NumberExpr, *ast.UnaryMinusOpExpr: // which is left only of a constant
		return e
	}
	return call(e, nameNumber, e)
}

// call is a call of one of our functions for one value. AdjustRet keeps it from being a tail call, which would lose the
// line for its errors, and its last argument from being many.
func call(at ast.PositionHolder, name string, args ...ast.Expr) *ast.FuncCallExpr {
	for _, arg := range args {
		single(arg) // also the last is one value
	}
	c := &ast.FuncCallExpr{Func: ident(at, name), Args: args, AdjustRet: true}
	place(c, at)
	return c
}
