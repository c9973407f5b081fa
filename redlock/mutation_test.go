//go:build !race

package redlock

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mutation changes the code at a mark. In the code that it is given, MUTANT is the switch of the mutant, a bool expression. No change adds or
// removes a line, so that failures name the right ones.
type mutation func(at *marked) []edit

// edit puts text in the place of the source from one offset to another.
type edit struct {
	from, to int
	text     string
}

var (
	never  = when("false")        // the condition never holds
	always = when("true")         // it always does
	skip   = instead("_ = false") // the statement is not executed
)

// when puts another condition in the place of the first condition or boolean value in the line; COND is what it reads now.
func when(condition string) mutation {
	return func(at *marked) []edit {
		e := at.expression()
		cond := at.text(e)
		return []edit{
			at.insert(e.Pos(), "(!MUTANT && ("),
			at.insert(e.End(), ") || MUTANT && ("+strings.ReplaceAll(condition, "COND", "("+cond+")")+"))"),
		}
	}
}

// without leaves one operand out of a chain of && or ||, or of arithmetic (not its first). path says which, counted from 1, or from the end if it
// is negative: without(2, 1) is the first operand of the chain that is the second one of the whole.
func without(path ...int) mutation {
	return func(at *marked) []edit {
		e := at.expression()
		var op token.Token
		var before ast.Expr // the chain in front of the operand
		var chain ast.Expr
		for _, n := range path {
			chain = unparen(e)
			b, ok := chain.(*ast.BinaryExpr)
			if !ok {
				at.fail("%s is no chain of operators", at.text(e))
			}
			op = b.Op
			operands, fronts := operandsOf(b)
			if n < 0 {
				n += len(operands) + 1
			}
			if n < 1 || n > len(operands) {
				at.fail("%s has no operand %d", at.text(e), n)
			}
			e, before = operands[n-1], fronts[n-1]
		}
		switch op {
		case token.LAND:
			return []edit{at.insert(e.Pos(), "(MUTANT || "), at.insert(e.End(), ")")}
		case token.LOR:
			return []edit{at.insert(e.Pos(), "(!MUTANT && "), at.insert(e.End(), ")")}
		}
		return []edit{at.insert(chain.Pos(), "pick(MUTANT, "+at.text(before)+at.source[at.offset(e.End()):at.offset(chain.End())]+", "), at.insert(chain.End(), ")")}
	}
}

// instead executes other code in the place of the statement STMT.
func instead(code string) mutation {
	return func(at *marked) []edit {
		s := at.statement()
		return []edit{
			at.insert(s.Pos(), "if MUTANT { "+strings.ReplaceAll(code, "STMT", at.text(s))+" } else { "),
			at.insert(s.End(), " }"),
		}
	}
}

// doBefore executes code in front of the statement, doAfter behind it, doInside at the beginning of its block.
func doBefore(code string) mutation {
	return func(at *marked) []edit {
		return []edit{at.insert(at.statement().Pos(), "if MUTANT { "+code+" }; ")}
	}
}

func doAfter(code string) mutation {
	return func(at *marked) []edit {
		return []edit{at.insert(at.statement().End(), "; if MUTANT { "+code+" }")}
	}
}

func doInside(code string) mutation {
	return func(at *marked) []edit {
		return []edit{at.insert(at.block().Lbrace+1, " if MUTANT { "+code+" }; ")}
	}
}

// replace puts another text in the place of one that occurs once in the line, or, if the mark has a line of its own, in the declaration
// below it, or the file of a script.
func replace(old, new string) mutation {
	return func(at *marked) []edit {
		text := at.source[at.from:at.to]
		if n := strings.Count(text, old); n != 1 {
			at.fail("%q occurs %d times, want one", old, n)
		}
		if !strings.Contains(new, "MUTANT") {
			at.fail("%q takes the place of %q without the switch MUTANT: then all tests run with it", new, old)
		}
		i := at.from + strings.Index(text, old)
		return []edit{{i, i + len(old), new}}
	}
}

// script is replace in a script of the package lua; mutantScriptSwitch reads what it puts there.
func script(old, new string) mutation {
	return replace(old, "\x01MUTANT\x02"+new+"\x02"+old+"\x03")
}

// marked is the line, or the declaration, that a mark is about.
type marked struct {
	t        *testing.T
	name     string
	file     *token.File
	tree     *ast.File // nil: it is a script
	source   string
	line     int // of the code
	from, to int // its offsets
}

var mutantMark = regexp.MustCompile(`(?://|--)mutant:([a-z0-9_-]+)`)

// mutantRooms are the packages whose code has marks, as folders.
var mutantRooms = []string{".", "clock", "conn", "fence", "member", "member/survey", "member/copying", "member/coordinator", "member/admin", "quorum"}

// mutatedSources returns the files that have marks, with all mutants in them.
func mutatedSources(t *testing.T) map[string]string {
	t.Helper()
	changes := map[string]mutation{}
	for _, m := range mutants {
		if changes[m.name] != nil {
			t.Errorf("two mutants are called %q", m.name)
		}
		changes[m.name] = m.change
	}
	for _, name := range hunted {
		if changes[name] == nil {
			t.Errorf("no mutant is called %q", name)
		}
	}
	luaFiles, err := filepath.Glob("lua/*")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	for _, name := range append(filesOf(t, "*.go"), luaFiles...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source := string(text)
		if mutantMark.MatchString(source) {
			sources[name] = mutate(t, name, source, changes)
		}
		if name == "lua/lua.go" {
			sources[name] = strings.Replace(source, "files.ReadFile(", "readFile(", 1)
		}
	}
	for name := range changes {
		t.Errorf("mutant %q: no line of the package has the mark mutant:%s", name, name)
	}
	if t.Failed() {
		t.FailNow()
	}
	return sources
}

// filesOf are the files of all rooms.
func filesOf(t *testing.T, pattern string) (files []string) {
	t.Helper()
	for _, room := range mutantRooms {
		in, err := filepath.Glob(filepath.Join(room, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, in...)
	}
	return files
}

// mutate returns the source with the mutants whose marks it has, and takes these off the list.
func mutate(t *testing.T, name, source string, changes map[string]mutation) string {
	t.Helper()
	fset := token.NewFileSet()
	var tree *ast.File
	var file *token.File
	if filepath.Ext(name) == ".lua" {
		file = fset.AddFile(name, -1, len(source))
		file.SetLinesForContent([]byte(source))
	} else {
		var err error
		if tree, err = parser.ParseFile(fset, name, source, parser.SkipObjectResolution); err != nil {
			t.Fatal(err)
		}
		file = fset.File(tree.Pos())
	}
	var edits []edit
	for _, m := range mutantMark.FindAllStringSubmatchIndex(source, -1) {
		mutant := source[m[2]:m[3]]
		change := changes[mutant]
		if change == nil {
			t.Errorf("%s: no mutant is called %q, or two lines are marked with it", file.Position(file.Pos(m[0])), mutant)
			continue
		}
		delete(changes, mutant)
		at := &marked{t: t, name: mutant, file: file, tree: tree, source: source}
		at.place(m[0])
		for _, e := range change(at) {
			e.text = strings.ReplaceAll(e.text, "MUTANT", fmt.Sprintf("isMutant(%q)", mutant))
			edits = append(edits, e)
		}
	}
	// From the end, so that offsets stay right. Of two texts that are put in at one place the one that is found first comes to stand first.
	slices.Reverse(edits)
	slices.SortStableFunc(edits, func(a, b edit) int { return b.from - a.from })
	end := len(source)
	for _, e := range edits {
		if e.to > end {
			t.Errorf("%s: two mutants change the same text", file.Position(file.Pos(e.from)))
			continue
		}
		source, end = source[:e.from]+e.text+source[e.to:], e.from
	}
	return source
}

// place finds what the mark at the offset is about.
func (at *marked) place(offset int) {
	at.line = at.file.Line(at.file.Pos(offset))
	start := at.offset(at.file.LineStart(at.line))
	if strings.TrimSpace(at.source[start:offset]) != "" {
		at.from, at.to = start, offset
		return
	}
	// A line of its own: the declaration below, or the file.
	if at.tree == nil {
		at.to = len(at.source)
		return
	}
	ast.Inspect(at.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl, *ast.FuncDecl, *ast.ValueSpec:
			if at.from == 0 && at.offset(n.Pos()) > offset {
				at.from, at.to, at.line = at.offset(n.Pos()), at.offset(n.End()), at.file.Line(n.Pos())
			}
		}
		return at.from == 0
	})
	if at.from == 0 {
		at.fail("no declaration stands below the mark")
	}
}

// expression is the first condition or value in the line.
func (at *marked) expression() (found ast.Expr) {
	at.inspect(func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			found = n.Cond
		case *ast.ForStmt:
			found = n.Cond
		case *ast.CaseClause:
			if len(n.List) > 0 {
				found = n.List[0]
			}
		case *ast.ReturnStmt:
			if len(n.Results) > 0 {
				found = n.Results[0]
			}
		case *ast.AssignStmt:
			found = n.Rhs[0]
		case *ast.KeyValueExpr:
			found = n.Value
		}
		return found != nil
	}, "condition or value")
	return found
}

func (at *marked) statement() (found ast.Stmt) {
	at.inspect(func(n ast.Node) bool {
		if s, ok := n.(ast.Stmt); ok {
			if _, block := s.(*ast.BlockStmt); !block {
				found = s
			}
		}
		return found != nil
	}, "statement")
	return found
}

func (at *marked) block() (found *ast.BlockStmt) {
	at.inspect(func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			found = n.Body
		case *ast.IfStmt:
			found = n.Body
		}
		return found != nil
	}, "block")
	return found
}

// inspect shows look the nodes that begin in the line, the outer ones first, until it says that it has what it wants.
func (at *marked) inspect(look func(ast.Node) bool, what string) {
	found := false
	ast.Inspect(at.tree, func(n ast.Node) bool {
		if n == nil || found {
			return false
		}
		if at.file.Line(n.Pos()) == at.line {
			found = look(n)
		}
		return !found
	})
	if !found {
		at.fail("no %s begins in the line", what)
	}
}

// operandsOf returns the operands of a chain of one operator, or of + and −, and for each what stands in front of it.
func operandsOf(b *ast.BinaryExpr) (operands, fronts []ast.Expr) {
	if left, ok := b.X.(*ast.BinaryExpr); ok && left.Op.Precedence() == b.Op.Precedence() {
		operands, fronts = operandsOf(left)
	} else {
		operands, fronts = []ast.Expr{b.X}, []ast.Expr{nil}
	}
	return append(operands, b.Y), append(fronts, b.X)
}

func unparen(e ast.Expr) ast.Expr {
	if p, ok := e.(*ast.ParenExpr); ok {
		return unparen(p.X)
	}
	return e
}

func (at *marked) offset(p token.Pos) int { return at.file.Offset(p) }

func (at *marked) text(n ast.Node) string { return at.source[at.offset(n.Pos()):at.offset(n.End())] }

func (at *marked) insert(p token.Pos, text string) edit {
	return edit{at.offset(p), at.offset(p), text}
}

func (at *marked) fail(format string, args ...any) {
	at.t.Helper()
	at.t.Fatalf("%s:%d: mutant %q: %s", at.file.Name(), at.line, at.name, fmt.Sprintf(format, args...))
}
