package sandbox

import (
	"errors"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// Steering says which elements of ARGV can steer a script, that is make a difference to what it does by what is in them. The
// others are tokens: the script may compare tokens with each other and with what keys hold, hand them to commands that do no more,
// and return them, but it cannot look into them.
//
// So a run does the same, but for names, whatever the keys are called and whatever the tokens and the values of keys are, as long as
// the same ones of them are equal. Who knows how one such run has ended knows it of all. (The idea is that of "Theorems for free!",
// Wadler 1989: what cannot be looked into can only be handed on.)
//
// It is found in the syntax tree, for scripts in a fragment of Lua that has no loops, no functions, no assignments and no
// tables but KEYS, ARGV and what is returned. Each value is followed to all its uses. What the rules do not name is not in
// the fragment: a rule that is missing costs time, one that is wrong would let somebody hold what is another's.
type Steering struct {
	Args   uint16 // bit i: ARGV[i+1] steers
	Tokens uint16 // bit i: ARGV[i+1] is compared or written. Never one of Args
}

// Steering is nil for a script outside of the fragment.
func (s *Script) Steering() *Steering { return s.steering }

const (
	steeringArgs  = 16  // elements of ARGV that a script in the fragment can name
	steeringNodes = 500 // of its syntax tree: it comes nowhere near the limits of a run
)

// origin is all that a value can be. None of it: nil, false and true, which no text is equal to and no command takes.
type origin struct {
	args  uint16 // these elements of ARGV
	held  bool   // what a key holds
	key   bool   // an element of KEYS
	plain bool   // anything else. It follows from what steers, from what is equal and from which keys exist
}

func (o origin) or(other origin) origin {
	return origin{o.args | other.args, o.held || other.held, o.key || other.key, o.plain || other.plain}
}

var (
	nothing = origin{}
	plain   = origin{plain: true}
	held    = origin{held: true}
)

// steeringOf is nil for a chunk outside of the fragment. The chunk is as it was parsed.
func steeringOf(chunk []ast.Stmt) (found *Steering) {
	defer func() {
		if r := recover(); r != nil {
			if r != errOutside {
				panic(r)
			}
			found = nil
		}
	}()
	f := &flow{}
	f.block(chunk)
	if f.Args&f.Tokens != 0 {
		return nil
	}
	return &f.Steering
}

// errOutside ends the analysis.
var errOutside = errors.New("outside of the fragment")

func outside() { panic(errOutside) }

// flow follows values.
type flow struct {
	Steering
	locals []local // in scope, the innermost last
	nodes  int
}

type local struct {
	name string
	origin
}

func (f *flow) visit() {
	if f.nodes++; f.nodes > steeringNodes {
		outside()
	}
}

func (f *flow) block(list []ast.Stmt) {
	scope := len(f.locals)
	for _, s := range list {
		f.stmt(s)
	}
	f.locals = f.locals[:scope]
}

func (f *flow) stmt(s ast.Stmt) {
	f.visit()
	switch s := s.(type) {
	case *ast.LocalAssignStmt:
		values := make([]origin, max(len(s.Exprs), len(s.Names))) // a call here has one value: names that are left over are nil
		for i, e := range s.Exprs {
			values[i] = f.expr(e)
		}
		for i, name := range s.Names {
			f.locals = append(f.locals, local{name, values[i]})
		}
	case *ast.FuncCallStmt:
		f.expr(s.Expr)
	case *ast.DoBlockStmt:
		f.block(s.Stmts)
	case *ast.IfStmt:
		f.expr(s.Condition)
		f.block(s.Then)
		f.block(s.Else)
	case *ast.ReturnStmt:
		for _, e := range s.Exprs {
			f.returned(e)
		}
	default:
		outside()
	}
}

// returned is a value that becomes the reply. It may be anything: what a reply holds, whoever has the reply can see.
func (f *flow) returned(e ast.Expr) {
	table, ok := e.(*ast.TableExpr)
	if !ok {
		f.expr(e)
		return
	}
	f.visit()
	for _, field := range table.Fields {
		if _, constant := field.Key.(*ast.StringExpr); field.Key != nil && !constant {
			outside()
		}
		f.expr(field.Value)
	}
}

func (f *flow) expr(e ast.Expr) origin {
	f.visit()
	switch e := e.(type) {
	case *ast.NilExpr, *ast.FalseExpr, *ast.TrueExpr:
		return nothing
	case *ast.NumberExpr, *ast.StringExpr:
		return plain
	case *ast.IdentExpr:
		if l := f.local(e.Value); l != nil {
			return l.origin
		}
	case *ast.AttrGetExpr:
		return f.element(e)
	case *ast.FuncCallExpr:
		return f.call(e)
	case *ast.LogicalOpExpr:
		return f.expr(e.Lhs).or(f.expr(e.Rhs))
	case *ast.UnaryNotOpExpr:
		f.expr(e.Expr)
		return plain
	case *ast.RelationalOpExpr:
		a, b := f.expr(e.Lhs), f.expr(e.Rhs)
		if e.Operator == "==" || e.Operator == "~=" {
			f.compare(a.or(b))
		} else {
			f.steer(a.or(b))
		}
		return plain
	case *ast.ArithmeticOpExpr:
		f.steer(f.expr(e.Lhs).or(f.expr(e.Rhs)))
		return plain
	case *ast.UnaryMinusOpExpr:
		f.steer(f.expr(e.Expr))
		return plain
	}
	outside()
	return nothing
}

func (f *flow) local(name string) *local {
	for i := len(f.locals) - 1; i >= 0; i-- {
		if f.locals[i].name == name {
			return &f.locals[i]
		}
	}
	return nil
}

// global tells whether e is that global.
func (f *flow) global(e ast.Expr, name string) bool {
	ident, ok := e.(*ast.IdentExpr)
	return ok && ident.Value == name && f.local(name) == nil
}

// element is KEYS[n] or ARGV[n]. One that is not there is nil, so how many there are is part of what steers.
func (f *flow) element(e *ast.AttrGetExpr) origin {
	n, ok := e.Key.(*ast.NumberExpr)
	i := 0
	if ok {
		for _, c := range []byte(n.Value) {
			if i = 10*i + int(c-'0'); c < '0' || c > '9' || i > steeringArgs {
				outside()
			}
		}
	}
	switch {
	case i == 0:
	case f.global(e.Object, "KEYS"):
		return origin{key: true}
	case f.global(e.Object, "ARGV"):
		return origin{args: 1 << (i - 1)}
	}
	outside()
	return nothing
}

// steer is a use of a value that depends on what is in it.
func (f *flow) steer(o origin) {
	if o.held || o.key {
		outside()
	}
	f.Args |= o.args
}

// token is a use of a value that depends on what it is equal to: other tokens and what keys hold.
func (f *flow) token(o origin) {
	if o.plain || o.key {
		outside()
	}
	f.Tokens |= o.args
}

// compare is == of two values that can be either of what o says.
func (f *flow) compare(o origin) {
	if o.plain {
		f.steer(o)
	} else {
		f.token(o)
	}
}

func (f *flow) call(e *ast.FuncCallExpr) origin {
	if e.Receiver != nil {
		outside()
	}
	if f.global(e.Func, "tonumber") {
		f.plainly(e.Args)
		return plain
	}
	get, ok := e.Func.(*ast.AttrGetExpr)
	if !ok || !f.global(get.Object, "redis") {
		outside()
	}
	name, _ := get.Key.(*ast.StringExpr)
	if name == nil {
		outside()
	}
	switch name.Value {
	case "call", "pcall":
		return f.command(e.Args)
	case "status_reply", "error_reply":
		f.plainly(e.Args)
		return plain
	}
	outside()
	return nothing
}

// command is a call of a command. Of its arguments it must know which it only compares and keeps.
func (f *flow) command(args []ast.Expr) origin {
	if len(args) < 2 {
		outside()
	}
	name, ok := args[0].(*ast.StringExpr)
	if !ok {
		outside()
	}
	command := strings.ToLower(name.Value)
	rest := args[1:]
	switch command {
	case "exists", "del", "unlink": // key …
		for _, arg := range rest {
			f.key(arg)
		}
		return plain
	}
	f.key(rest[0])
	rest = rest[1:]
	switch command {
	case "get":
		f.plainly(rest)
		return held
	case "set": // value option …
		if len(rest) == 0 {
			outside()
		}
		f.token(f.expr(rest[0]))
		f.setOptions(rest[1:])
		return held // with GET
	case "setnx", "delifeq": // value
		if len(rest) != 1 {
			outside()
		}
		f.token(f.expr(rest[0]))
		return plain
	case "expire", "pexpire": // time option …
		f.plainly(rest)
		return plain
	}
	outside()
	return nothing
}

// key is an argument that names a key.
func (f *flow) key(e ast.Expr) {
	if f.expr(e) != (origin{key: true}) {
		outside()
	}
}

// plainly are arguments that a command may look into.
func (f *flow) plainly(args []ast.Expr) {
	for _, arg := range args {
		f.steer(f.expr(arg))
	}
}

// setOptions are those of SET. Each must be there in words, to tell the arguments of the options from options.
func (f *flow) setOptions(args []ast.Expr) {
	for len(args) > 0 {
		word, ok := args[0].(*ast.StringExpr)
		if !ok {
			outside()
		}
		argument := f.steer
		switch strings.ToLower(word.Value) {
		case "nx", "xx", "get":
			args = args[1:]
			continue
		case "px", "ex":
		case "ifeq", "ifne":
			argument = f.token
		default:
			outside()
		}
		if len(args) == 1 {
			outside()
		}
		argument(f.expr(args[1]))
		args = args[2:]
	}
}
