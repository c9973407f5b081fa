package sandbox

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

// Assignments. As in C Lua 5.1, the tables and keys on the left are evaluated first, then the values, from left to right, and then the
// last target is assigned first. A table or key that is a local of the same function is not evaluated before the assignment, unless a
// target behind it in the same statement is that local: this can be told where the values change it. So
//
//	a, t.x[i], y = f(), g()
//
// becomes
//
//	do
//	  local (table 2) = t.x
//	  local (value 1), (value 2), (value 3) = f(), g()
//	  y = (value 3)
//	  (set)((table 2), i, (value 2))
//	  a = (value 1)
//	end
func (r *rewriter) assign(s *ast.AssignStmt) ast.Stmt {
	if len(s.Lhs) == 1 && len(s.Rhs) == 1 {
		switch target := s.Lhs[0].(type) {
		case *ast.IdentExpr:
			return r.store(s, r.variable(target), r.expr(s.Rhs[0]))
		case *ast.AttrGetExpr:
			// All in the order in which a call evaluates it.
			late := r.isLate(target.Object) || r.isLate(target.Key)
			inert := isInert(s.Rhs[0]) && (isInert(target.Key) || !r.isLate(target.Object))
			if !late || inert {
				return r.set(s, r.expr(target.Object), r.expr(target.Key), r.expr(s.Rhs[0]))
			}
		}
	}
	// Every target but the first takes two values at most, and each a register.
	var list []ast.Stmt
	targets := make([]func(value ast.Expr) ast.Stmt, len(s.Lhs))
	names := make([]string, len(s.Lhs))
	for i, target := range s.Lhs {
		names[i] = fmt.Sprintf("(value %d)", i)
		switch target := target.(type) {
		case *ast.IdentExpr:
			name := r.variable(target)
			targets[i] = func(value ast.Expr) ast.Stmt { return r.store(s, name, value) }
		case *ast.AttrGetExpr:
			object := r.early(&list, target.Object, s.Lhs[i+1:], fmt.Sprintf("(table %d)", i))
			key := r.early(&list, target.Key, s.Lhs[i+1:], fmt.Sprintf("(key %d)", i))
			targets[i] = func(value ast.Expr) ast.Stmt { return r.set(s, object, key, value) }
		default:
			refuseAt(s, "syntax error near '='")
		}
	}
	list = append(list, localStmt(s, names, r.exprs(s.Rhs)))
	for i := len(targets) - 1; i >= 0; i-- {
		list = append(list, targets[i](ident(s, names[i])))
	}
	return doStmt(s, list...)
}

// variable is a variable that is assigned to. Globals are read-only, also those that are there.
func (r *rewriter) variable(target *ast.IdentExpr) *ast.IdentExpr {
	if r.isGlobal(target.Value) {
		target.Value = nameReadonly
	}
	return target
}

// isLate tells whether the table or key of a target is read when it is assigned to.
func (r *rewriter) isLate(e ast.Expr) bool {
	name, ok := e.(*ast.IdentExpr)
	return ok && r.isOwn(name.Value)
}

// early evaluates the table or key of a target in front of the statement, unless it is to be read late.
func (r *rewriter) early(list *[]ast.Stmt, e ast.Expr, behind []ast.Expr, name string) ast.Expr {
	switch e := e.(type) {
	case *ast.StringExpr, *ast.NumberExpr, *ast.TrueExpr, *ast.FalseExpr, *ast.NilExpr:
		return r.expr(e)
	case *ast.IdentExpr:
		assigned := false
		for _, target := range behind {
			other, ok := target.(*ast.IdentExpr)
			assigned = assigned || ok && other.Value == e.Value
		}
		if r.isLate(e) && !assigned {
			return e
		}
	}
	*list = append(*list, localStmt(e, []string{name}, []ast.Expr{r.expr(e)}))
	return ident(e, name)
}

// isInert tells whether an expression can change no local.
func isInert(e ast.Expr) bool {
	switch e.(type) {
	case *ast.StringExpr, *ast.NumberExpr, *ast.TrueExpr, *ast.FalseExpr, *ast.NilExpr, *ast.IdentExpr, *ast.FunctionExpr:
		return true
	}
	return false
}

// store assigns a rewritten value to a variable. gopher-lua would use the variable while it computes some values.
func (r *rewriter) store(at ast.PositionHolder, variable *ast.IdentExpr, value ast.Expr) ast.Stmt {
	a := &ast.AssignStmt{Lhs: []ast.Expr{variable}, Rhs: []ast.Expr{value}}
	place(a, at)
	switch value := value.(type) {
	case *ast.FuncCallExpr:
		value.AdjustRet = false // one value is wanted in any case
	case *ast.LogicalOpExpr:
		a.Rhs = []ast.Expr{ident(at, "(value)")}
		return doStmt(at, localStmt(at, []string{"(value)"}, []ast.Expr{value}), a)
	}
	return a
}

// set assigns to an element of a table. All are rewritten.
func (r *rewriter) set(at ast.PositionHolder, object, key, value ast.Expr) ast.Stmt {
	s := &ast.FuncCallStmt{Expr: call(at, nameSet, object, key, value)}
	place(s, at)
	return s
}

// Nodes of the tree that are put in.

func localStmt(at ast.PositionHolder, names []string, values []ast.Expr) ast.Stmt {
	s := &ast.LocalAssignStmt{Names: names, Exprs: values}
	place(s, at)
	return s
}

func doStmt(at ast.PositionHolder, list ...ast.Stmt) ast.Stmt {
	s := &ast.DoBlockStmt{Stmts: list}
	place(s, at)
	return s
}

func ident(at ast.PositionHolder, name string) *ast.IdentExpr {
	e := &ast.IdentExpr{Value: name}
	place(e, at)
	return e
}

func str(at ast.PositionHolder, text string) ast.Expr {
	e := &ast.StringExpr{Value: text}
	place(e, at)
	return e
}

func place(node, at ast.PositionHolder) {
	node.SetLine(at.Line())
	node.SetLastLine(at.LastLine())
}
