package sandbox

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

// The syntax tree is changed before it is compiled, where an operation of gopher-lua cannot be counted, differs from Lua 5.1, or is
// compiled to something else (rewrite_assign.go, and the list below). The names of the functions and locals that are put in contain
// what no name in a source can. Expressions are in rewrite_expr.go.
//
// What is left of the language is what gopher-lua compiles as Lua 5.1 does; the random programs of programs_test.go check it. Its
// compiler (1.1.2) goes wrong in these places, each of which has a test in miscompiled_test.go:
//
//   - It writes the first values of a multiple assignment to locals before it has computed the others, and counts registers wrongly
//     where locals, upvalues and tables are mixed.
//   - It uses a local as scratch space while it computes "x = (a or b) and x", and the last parameter of a function while it computes
//     the arguments of a call that is assigned to it.
//   - "local f = function" can see its own name.
//   - A for loop over "next, t" starts from whatever stood in a register.
//   - A break out of a block leaves variables of that block open, which closures have captured.
//   - A field with a call as its value, last in a constructor, is also an element. A field behind a multiple of 50 elements overwrites
//     the first of them.
//   - a % b is C's fmod, and #t asks __len of tables.
//   - A function with more than 255 upvalues has the wrong ones.

// levelsMax bounds how deep expressions and blocks are nested, as C Lua does with 200. The time that gopher-lua takes
// to compile an expression grows with the square of it.
const levelsMax = 250

// Bounds of a script, which bound the time and the memory that its compilation takes: gopher-lua compares each constant with those
// that its function has already, and takes some 16 KB for each function.
const (
	functionsMax   = 100
	comparisonsMax = 1 << 20 // of constants: some 1400 different ones in one function
)

type rewriter struct {
	levels      int
	functions   int
	comparisons int
	locals      map[string][]int // the functions that the locals of a name belong to, the innermost declaration last
	marks       []string         // the names in order of declaration
	function    *function
	// jumps has the constants behind which C Lua leaves a jump, as for "false and 2": it copies a local that such a constant is
	// combined with at once, and reads any other local operand late (isLate).
	jumps map[ast.Expr]bool
}

// function is what is known of the function that is being rewritten.
type function struct {
	number    int
	parent    *function
	loop      *loop               // the innermost
	constants map[string]struct{} // numbers begin with "#"
}

// loop is what is known of a loop.
type loop struct {
	breaks, closures bool
}

func rewrite(chunk []ast.Stmt) (rewritten []ast.Stmt, err error) {
	defer func() {
		if r := recover(); r != nil {
			refusal, ok := r.(rewriteError)
			if !ok {
				panic(r)
			}
			err = refusal
		}
	}()
	r := &rewriter{locals: map[string][]int{}, function: &function{}, jumps: map[ast.Expr]bool{}}
	return r.block(chunk), nil
}

// rewriteError ends a rewrite.
type rewriteError string

func (e rewriteError) Error() string { return string(e) }

func refuseAt(at ast.PositionHolder, format string, args ...any) {
	panic(rewriteError(fmt.Sprintf("%s:%d: ", chunkName, at.Line()) + fmt.Sprintf(format, args...)))
}

func (r *rewriter) declare(names ...string) {
	for _, name := range names {
		r.locals[name] = append(r.locals[name], r.function.number)
		r.marks = append(r.marks, name)
	}
}

// scope runs f and forgets the locals that it declared.
func (r *rewriter) scope(f func()) {
	begin := len(r.marks)
	f()
	for _, name := range r.marks[begin:] {
		r.locals[name] = r.locals[name][:len(r.locals[name])-1]
	}
	r.marks = r.marks[:begin]
}

// constant counts what the compiler takes to find a constant, by its text.
func (r *rewriter) constant(at ast.PositionHolder, text string) {
	if r.function.constants == nil {
		r.function.constants = make(map[string]struct{})
	}
	r.function.constants[text] = struct{}{}
	if r.comparisons += len(r.function.constants); r.comparisons > comparisonsMax {
		refuseAt(at, "script has too many constants: %d different ones in this function", len(r.function.constants))
	}
}

// isGlobal tells whether the name is none of a local where we are.
func (r *rewriter) isGlobal(name string) bool { return len(r.locals[name]) == 0 }

// isOwn tells whether the name is that of a local of the function where we are, and not of one around it.
func (r *rewriter) isOwn(name string) bool {
	declared := r.locals[name]
	return len(declared) > 0 && declared[len(declared)-1] == r.function.number
}

func (r *rewriter) block(list []ast.Stmt) []ast.Stmt {
	rewritten := make([]ast.Stmt, 0, len(list))
	for _, s := range list {
		rewritten = r.stmt(rewritten, s)
	}
	return rewritten
}

// enter begins a level; leave ends it.
func (r *rewriter) enter(at ast.PositionHolder) {
	if r.levels++; r.levels > levelsMax {
		refuseAt(at, "chunk has too many syntax levels")
	}
}

func (r *rewriter) leave() { r.levels-- }

// stmt appends what becomes of a statement.
func (r *rewriter) stmt(to []ast.Stmt, s ast.Stmt) []ast.Stmt {
	r.enter(s)
	defer r.leave()
	switch s := s.(type) {
	case *ast.AssignStmt:
		return append(to, r.assign(s))
	case *ast.LocalAssignStmt:
		if isLocalFunction(s) {
			// local f; f = function … end
			r.declare(s.Names...)
			name := ident(s, s.Names[0])
			value := r.expr(s.Exprs[0])
			s.Exprs = nil
			return append(to, s, r.store(s, name, value))
		}
		s.Exprs = r.exprs(s.Exprs)
		r.declare(s.Names...)
	case *ast.FuncCallStmt:
		s.Expr = r.expr(s.Expr)
	case *ast.DoBlockStmt:
		r.scope(func() { s.Stmts = r.block(s.Stmts) })
	case *ast.WhileStmt:
		s.Condition = r.expr(s.Condition)
		s.Stmts = r.loopBody(s.Stmts)
	case *ast.RepeatStmt:
		r.repeat(s)
	case *ast.IfStmt:
		s.Condition = r.expr(s.Condition)
		r.scope(func() { s.Then = r.block(s.Then) })
		r.scope(func() { s.Else = r.block(s.Else) })
	case *ast.NumberForStmt:
		s.Init, s.Limit = r.number(s.Init), r.number(s.Limit)
		if s.Step != nil {
			s.Step = r.number(s.Step)
		}
		s.Stmts = r.loopBody(s.Stmts, s.Name)
	case *ast.GenericForStmt:
		return append(to, r.genericFor(s))
	case *ast.FuncDefStmt:
		return append(to, r.functionStmt(s))
	case *ast.ReturnStmt:
		s.Exprs = r.exprs(s.Exprs)
	case *ast.BreakStmt:
		if r.function.loop != nil { // else the compiler refuses it
			r.function.loop.breaks = true
		}
	case *ast.GotoStmt:
		refuseAt(s, "'=' expected near '%s'", s.Label)
	case *ast.LabelStmt:
		refuseAt(s, "unexpected symbol near ':'")
	}
	return append(to, s)
}

// isLocalFunction tells "local function f" from "local f = function", which the parser leaves without a last line.
func isLocalFunction(s *ast.LocalAssignStmt) bool {
	if len(s.Names) != 1 || len(s.Exprs) != 1 || s.LastLine() == 0 {
		return false
	}
	_, ok := s.Exprs[0].(*ast.FunctionExpr)
	return ok
}

// functionStmt makes an assignment of "function a.b:c() end".
func (r *rewriter) functionStmt(s *ast.FuncDefStmt) ast.Stmt {
	target := s.Name.Func
	if target == nil {
		get := &ast.AttrGetExpr{Object: s.Name.Receiver, Key: str(s, s.Name.Method)}
		place(get, s)
		target = get
		list := *s.Func.ParList
		list.Names = append([]string{"self"}, list.Names...)
		s.Func.ParList = &list
	}
	a := &ast.AssignStmt{Lhs: []ast.Expr{target}, Rhs: []ast.Expr{s.Func}}
	place(a, s)
	return r.assign(a)
}

// loopBody rewrites the body of a loop, whose names it can see.
func (r *rewriter) loopBody(list []ast.Stmt, names ...string) (rewritten []ast.Stmt) {
	r.scope(func() {
		r.declare(names...)
		rewritten = r.inLoop(func() []ast.Stmt { return r.block(list) })
	})
	return rewritten
}

func (r *rewriter) repeat(s *ast.RepeatStmt) {
	r.scope(func() {
		s.Stmts = r.inLoop(func() []ast.Stmt {
			list := r.block(s.Stmts)
			s.Condition = r.expr(s.Condition)
			return list
		})
	})
}

// inLoop has f rewrite the body of a loop, and puts in front of it what gopher-lua needs. A loop that jumps back to a jump would go
// elsewhere: it begins with an instruction that does nothing. And a break closes the variables of blocks within the loop only where
// the block of the loop itself has one that is captured: it gets one, by code that is never executed.
func (r *rewriter) inLoop(f func() []ast.Stmt) []ast.Stmt {
	around := r.function.loop
	this := &loop{}
	r.function.loop = this
	list := f()
	if r.function.loop = around; around != nil {
		around.closures = around.closures || this.closures
	}
	if len(list) == 0 {
		return list
	}
	at := list[0]
	front := []ast.Stmt{localStmt(at, []string{"(captured)"}, nil)}
	if this.breaks && this.closures {
		capture := &ast.FunctionExpr{ParList: &ast.ParList{}, Stmts: []ast.Stmt{&ast.ReturnStmt{Exprs: []ast.Expr{ident(at, "(captured)")}}}}
		never := &ast.IfStmt{Condition: &ast.FalseExpr{}, Then: []ast.Stmt{localStmt(at, []string{"(capture)"}, []ast.Expr{capture})}}
		for _, node := range []ast.PositionHolder{capture, capture.Stmts[0], never, never.Condition} {
			place(node, at)
		}
		front = append(front, never)
	}
	return append(front, list...)
}

// genericFor gives the loop three values, unless a call gives them.
func (r *rewriter) genericFor(s *ast.GenericForStmt) ast.Stmt {
	s.Exprs = r.exprs(s.Exprs)
	s.Stmts = r.loopBody(s.Stmts, s.Names...)
	if c, ok := s.Exprs[0].(*ast.FuncCallExpr); ok && len(s.Exprs) == 1 && !c.AdjustRet {
		return s
	}
	names := []string{"(generator)", "(state)", "(control)"}
	values := localStmt(s, names, s.Exprs)
	s.Exprs = nil
	for _, name := range names {
		s.Exprs = append(s.Exprs, ident(s, name))
	}
	return doStmt(s, values, s)
}
