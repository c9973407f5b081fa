//go:build !race

package redlock

// The mutants of mutants_test.go are named by hand, one for each rule. Those here are made by rule, in each place where a rule fits:
// generator.visit has the rules for Go, scriptMutants those for the scripts. mutants_generated_test.go runs them.

import (
	"cmp"
	"crypto/sha1"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"redlockd/redlock/sandbox"
)

// generated is a mutant that was made by rule.
type generated struct {
	name     string // its switch: file:line:rule, and a number if the line has several
	file     string
	function string // or the variable, or the script
	key      string // function: rule: text. It does not change when lines above do: explanations go by it
	index    int    // in the file: what stands around others comes first
	edits    []edit // the first begins it and the last ends it. Mutants nest, so all but operators are put in between, and nothing is replaced
}

// generation is the mutants of some files.
type generation struct {
	mutants []*generated
	ends    []*generated      // no mutants: with these at their ends, functions compile without their last return
	texts   map[string]string // of the Go files
}

// generate makes the mutants of the files.
func generate(t *testing.T, files []string) *generation {
	t.Helper()
	all := &generation{texts: map[string]string{}}
	exports := map[string]string{}
	rooms := map[string][]string{}
	for _, file := range files {
		if filepath.Ext(file) == ".lua" {
			all.mutants = append(all.mutants, scriptMutants(t, file)...)
		} else {
			rooms[filepath.Dir(file)] = append(rooms[filepath.Dir(file)], file)
		}
	}
	list := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "."}
	for room := range rooms {
		list = append(list, "./"+room)
	}
	for line := range strings.Lines(run(t, "go", list...)) {
		path, export, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = export
	}
	for room, files := range rooms {
		all.room(t, room, files, exports)
	}
	slices.SortStableFunc(all.mutants, func(a, b *generated) int {
		return cmp.Or(slices.Index(files, a.file)-slices.Index(files, b.file), a.index-b.index)
	})
	return all
}

// sources are the Go files with these mutants in them.
func (all *generation) sources(mutants []*generated) map[string]string {
	sources := map[string]string{}
	for _, m := range mutants {
		if text, ok := all.texts[m.file]; ok && sources[m.file] == "" {
			sources[m.file], _ = apply(m.file, text, slices.Concat(all.ends, mutants))
		}
	}
	return sources
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return string(out)
}

// room makes the mutants of files of one package. Those that do not compile are left out: the package is checked until it has no error.
func (all *generation) room(t *testing.T, room string, files []string, exports map[string]string) {
	var mutants []*generated
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	texts, trees := map[string]string{}, map[string]*ast.File{}
	parse := func(name, text string) {
		tree, err := parser.ParseFile(fset, name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		trees[name] = tree
	}
	check := func(info *types.Info, report func(types.Error)) (errors int) {
		config := types.Config{Importer: imports, Error: func(err error) { errors++; report(err.(types.Error)) }}
		var list []*ast.File
		for _, tree := range trees {
			list = append(list, tree)
		}
		config.Check(room, fset, list, info)
		return errors
	}
	for name := range strings.FieldsSeq(run(t, "go", "list", "-f", "{{range .GoFiles}}{{.}} {{end}}", "./"+room)) {
		file := filepath.Join(room, name)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(text)
		parse(file, texts[file])
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	check(info, func(err types.Error) { t.Fatal(err) })
	for _, file := range files {
		if trees[file] == nil {
			continue // of another system
		}
		g := &generator{file: file, source: texts[file], fset: fset, info: info.Types, count: map[string]int{}}
		g.declarations(trees[file])
		mutants = append(mutants, g.mutants...)
	}
	parse("mutant_switch.go", fmt.Sprintf(generatedSwitch, trees[files[0]].Name.Name))
	for range 100 {
		spans := map[string][]span{}
		for _, file := range files {
			if trees[file] != nil {
				var text string
				text, spans[file] = apply(file, texts[file], mutants)
				parse(file, text)
				all.texts[file] = texts[file]
			}
		}
		invalid := map[*generated]bool{}
		if check(nil, func(err types.Error) {
			at := fset.Position(err.Pos)
			m := innermost(spans[at.Filename], at.Offset)
			if m == nil {
				t.Fatalf("the generated mutants do not compile: %v", err)
			}
			invalid[m] = true
		}) == 0 {
			for _, m := range mutants {
				if m.key == "" {
					all.ends = append(all.ends, m)
				} else {
					all.mutants = append(all.mutants, m)
				}
			}
			return
		}
		mutants = slices.DeleteFunc(mutants, func(m *generated) bool { return invalid[m] })
	}
	t.Fatalf("%s: each check finds more mutants that do not compile", room)
}

// span is where the text of a mutant stands.
type span struct {
	from, to int
	mutant   *generated
}

// apply puts all mutants of a file into it. The spans of outer ones stand before those of inner ones.
func apply(file, source string, mutants []*generated) (string, []span) {
	type piece struct {
		edit
		mutant *generated
		first  bool
		order  int
	}
	var pieces []piece
	for _, m := range mutants {
		for i, e := range m.edits {
			if m.file == file {
				// At one place, ends come before beginnings: the ends of the inner ones first, the beginnings of the outer ones first.
				order := m.index + 1
				if i > 0 && i == len(m.edits)-1 {
					order = -order
				}
				pieces = append(pieces, piece{e, m, i == 0, order})
			}
		}
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Or(a.from-b.from, a.order-b.order) })
	var text strings.Builder
	var spans []span
	open := map[*generated]int{}
	at := 0
	for _, p := range pieces {
		text.WriteString(source[at:p.from])
		if p.first {
			open[p.mutant] = len(spans)
			spans = append(spans, span{text.Len(), 0, p.mutant})
		}
		text.WriteString(strings.ReplaceAll(p.text, "MUTANT", fmt.Sprintf("isMutant(%q)", p.mutant.name)))
		spans[open[p.mutant]].to = text.Len()
		at = p.to
	}
	text.WriteString(source[at:])
	return text.String(), spans
}

func innermost(spans []span, offset int) (m *generated) {
	for _, s := range spans {
		if s.from <= offset && offset <= s.to {
			m = s.mutant
		}
	}
	return m
}

// generator makes the mutants of a file.
type generator struct {
	file    string
	source  string
	fset    *token.FileSet
	info    map[ast.Expr]types.TypeAndValue
	inside  string // the function
	mutants []*generated
	count   map[string]int // how often a name or a key was given
}

func (g *generator) declarations(tree *ast.File) {
	for _, p := range generatedPlaces(g.fset, tree, g.source) {
		g.inside = p.name
		switch n := p.node.(type) {
		case *ast.FuncDecl:
			if n.Type.Results != nil {
				end := g.offset(n.Body.Rbrace)
				g.mutants = append(g.mutants, &generated{file: g.file, index: len(g.mutants), edits: []edit{{end, end, `; panic("a mutant has left out a return");`}}})
			}
			g.visit(n.Body)
		case *ast.ValueSpec:
			for _, e := range n.Values {
				g.visit(e)
			}
		}
	}
}

// generatedPlace is where mutants are made: a function, a variable that has a value, or a script.
type generatedPlace struct {
	name string
	hash string // of its text, without comments
	node ast.Node
}

func generatedPlaces(fset *token.FileSet, tree *ast.File, source string) (places []generatedPlace) {
	count := map[string]int{}
	text := func(n ast.Node) string { return source[fset.Position(n.Pos()).Offset:fset.Position(n.End()).Offset] }
	add := func(name string, n ast.Node) {
		places = append(places, generatedPlace{numbered(count, name), hashOf(withoutComments(text(n))), n})
	}
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = strings.TrimLeft(text(d.Recv.List[0].Type), "*") + "." + name
			}
			if d.Body != nil {
				add(name, d)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR && len(s.Values) > 0 && s.Names[0].Name != "_" {
					add(s.Names[0].Name, s)
				}
			}
		}
	}
	return places
}

// placesOfFile are those of a Go file or a script.
func placesInFile(t *testing.T, file string) []generatedPlace {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Ext(file) == ".lua" {
		code := scriptComment.ReplaceAllStringFunc(string(text), func(comment string) string {
			if strings.HasPrefix(comment, "--include ") {
				return comment
			}
			return ""
		})
		code = strings.Join(strings.Fields(code), " ")
		return []generatedPlace{{strings.TrimSuffix(filepath.Base(file), ".lua"), hashOf(code), nil}}
	}
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return generatedPlaces(fset, tree, string(text))
}

// withoutComments is code as a list of its tokens.
func withoutComments(code string) string {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(code)), []byte(code), nil, 0)
	var tokens strings.Builder
	for {
		_, is, text := s.Scan()
		if is == token.EOF {
			return tokens.String()
		}
		tokens.WriteString(cmp.Or(text, is.String()) + " ")
	}
}

func hashOf(text string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(text)))[:8] }

// add makes a mutant: before and after are put around the node.
func (g *generator) add(n ast.Node, rule, before, after string, operator ...edit) {
	from, to := g.offset(n.Pos()), g.offset(n.End())
	g.mutants = append(g.mutants, &generated{
		name:     numbered(g.count, fmt.Sprintf("%s:%d:%s", g.file, g.fset.Position(n.Pos()).Line, strings.ReplaceAll(rule, " ", "-"))),
		key:      numbered(g.count, fmt.Sprintf("%s: %s: %s", g.inside, rule, inOneLine(g.text(n)))),
		file:     g.file,
		function: g.inside,
		index:    len(g.mutants),
		edits:    slices.Concat([]edit{{from, from, before}}, operator, []edit{{to, to, after}}),
	})
}

// numbered tells apart texts that would be the same.
func numbered(count map[string]int, text string) string {
	if count[text]++; count[text] > 1 {
		return fmt.Sprintf("%s #%d", text, count[text])
	}
	return text
}

// inOneLine is code in one line.
func inOneLine(code string) string {
	code = strings.Join(strings.Fields(code), " ")
	if len(code) > 100 {
		return code[:100] + "…"
	}
	return code
}

func (g *generator) offset(p token.Pos) int { return g.fset.Position(p).Offset }

func (g *generator) text(n ast.Node) string { return g.source[g.offset(n.Pos()):g.offset(n.End())] }

// visit makes the mutants of a node and of what is in it, the outer ones first.
func (g *generator) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.BlockStmt:
		g.statements(n.List, false)
		return
	case *ast.CommClause:
		g.statements(n.Body, false)
		return
	case *ast.CaseClause: // of a type switch
		g.statements(n.Body, false)
		return
	case *ast.SwitchStmt:
		g.cases(n)
		return
	case *ast.IfStmt:
		if n.Init != nil {
			g.visit(n.Init)
		}
		g.condition(n.Cond)
		g.visit(n.Cond)
		g.statements(n.Body.List, n.Else == nil)
		if n.Else != nil {
			g.visit(n.Else)
		}
		return
	case *ast.ForStmt:
		if n.Cond != nil {
			g.add(n.Cond, "never", "(!MUTANT && (", "))")
		}
	case *ast.ReturnStmt:
		for i, e := range n.Results {
			if g.boolean(e); len(n.Results) == 1 || i == len(n.Results)-1 || g.text(e) != "0" { // 0 beside an error or false is nothing
				g.visit(e)
			}
		}
		return
	case *ast.AssignStmt:
		for _, e := range n.Rhs {
			g.boolean(e)
		}
	case *ast.KeyValueExpr:
		g.boolean(n.Value)
		g.visit(n.Value)
		return
	case *ast.CallExpr:
		if !g.call(n) {
			return
		}
	case *ast.BinaryExpr:
		if g.number(n) {
			return
		}
		g.binary(n)
	case *ast.BasicLit, *ast.Ident, *ast.SelectorExpr:
		if g.number(n.(ast.Expr)) {
			return
		}
	case *ast.DeclStmt:
		if n.Decl.(*ast.GenDecl).Tok != token.VAR {
			return
		}
	case *ast.ArrayType, *ast.StructType:
		return
	}
	ast.Inspect(n, func(child ast.Node) bool {
		if child != nil && child != n {
			g.visit(child)
		}
		return child == n
	})
}

// condition is a condition that decides what is executed, or a value that is one.
func (g *generator) condition(e ast.Expr) {
	g.add(e, "always", "(MUTANT || (", "))")
	g.add(e, "never", "(!MUTANT && (", "))")
}

func (g *generator) boolean(e ast.Expr) {
	switch x := unparen(e).(type) {
	case *ast.BinaryExpr:
		if x.Op == token.LAND || x.Op == token.LOR || x.Op.Precedence() == token.EQL.Precedence() {
			g.condition(e)
		}
	case *ast.UnaryExpr:
		if x.Op == token.NOT {
			g.condition(e)
		}
	case *ast.Ident:
		if x.Name == "true" || x.Name == "false" {
			g.add(e, "negated", "(MUTANT != ", ")")
		}
	}
}

// statements are each left out, but for one that stands alone under a condition: there the condition never holds.
func (g *generator) statements(list []ast.Stmt, conditional bool) {
	for i, s := range list {
		if !(conditional && len(list) == 1) && g.mayGo(s, i == len(list)-1) {
			g.add(s, "dropped", "if !MUTANT { ", " }")
		}
		g.visit(s)
	}
}

// mayGo reports whether a statement is left out. What the log says is no rule, and a mutex that is not locked is for the race detector.
func (g *generator) mayGo(s ast.Stmt, last bool) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return !ok || !g.logs(call) // else it receives from a channel
	case *ast.DeferStmt:
		return !g.logs(s.Call)
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE && g.text(s.Lhs[0]) != "_"
	case *ast.ReturnStmt:
		return !last
	case *ast.ForStmt:
		return len(s.Body.List) > 1
	case *ast.RangeStmt:
		return len(s.Body.List) > 1
	case *ast.BranchStmt:
		return s.Tok == token.BREAK || s.Tok == token.CONTINUE
	case *ast.IncDecStmt, *ast.GoStmt, *ast.SendStmt:
		return true
	}
	return false
}

func (g *generator) logs(call *ast.CallExpr) bool {
	name := g.text(call.Fun)
	return name == "panic" || regexp.MustCompile(`\.(Debug|Info|Warn|Error|Log|LogAttrs|R?Lock|R?Unlock)$`).MatchString(name)
}

// cases are each left out: a condition never holds, a value is the one of the case before, so that this one takes it. The statements of the first
// value and of default are left out instead.
func (g *generator) cases(s *ast.SwitchStmt) {
	if s.Init != nil {
		g.visit(s.Init)
	}
	if s.Tag != nil {
		g.visit(s.Tag)
	}
	var before ast.Expr
	for i, c := range s.Body.List {
		c := c.(*ast.CaseClause)
		for _, e := range c.List {
			if s.Tag == nil {
				g.add(e, "never", "(!MUTANT && (", "))")
				g.visit(e)
			} else if before != nil {
				g.add(e, "case dropped", "pick(MUTANT, "+g.text(before)+", ", ")")
			}
			before = e
		}
		g.statements(c.Body, c.List != nil && !(s.Tag != nil && i == 0))
	}
}

// call reports whether the arguments are visited.
func (g *generator) call(n *ast.CallExpr) bool {
	name := g.text(n.Fun)
	switch {
	case name == "make" || g.logs(n) || strings.HasPrefix(name, "strconv.") || strings.HasPrefix(name, "fmt.") || strings.HasPrefix(name, "errors."):
		return false
	case name == "min" || name == "max":
		from, to := g.offset(n.Pos()), g.offset(n.Lparen)+1
		other := map[string]string{"min": "max", "max": "min"}[name]
		g.add(n, other+" for "+name, "", "", edit{from, to, name + "Of(MUTANT, "})
	}
	for _, e := range n.Args {
		g.boolean(e)
	}
	return true
}

func (g *generator) binary(n *ast.BinaryExpr) {
	operator := func(text string) edit { return edit{g.offset(n.OpPos), g.offset(n.OpPos) + len(n.Op.String()), text} }
	switch n.Op {
	case token.LAND, token.LOR:
		before := map[token.Token]string{token.LAND: "(MUTANT || (", token.LOR: "(!MUTANT && ("}[n.Op]
		for _, e := range []ast.Expr{n.X, n.Y} {
			if x, ok := e.(*ast.BinaryExpr); !ok || x.Op != n.Op { // else its own operands are left out
				g.add(e, "operand dropped", before, "))")
			}
		}
	case token.LSS, token.LEQ:
		g.add(n, map[token.Token]string{token.LSS: "<= for <", token.LEQ: "< for <="}[n.Op],
			fmt.Sprintf("lessOrEqual(MUTANT != %v, ", n.Op == token.LEQ), ")", operator(","))
	case token.GTR, token.GEQ:
		g.add(n, map[token.Token]string{token.GTR: ">= for >", token.GEQ: "> for >="}[n.Op],
			fmt.Sprintf("moreOrEqual(MUTANT != %v, ", n.Op == token.GEQ), ")", operator(","))
	case token.ADD, token.SUB:
		if basic, ok := g.info[n].Type.Underlying().(*types.Basic); ok && basic.Info()&types.IsString != 0 {
			return
		}
		g.add(n, map[token.Token]string{token.ADD: "- for +", token.SUB: "+ for -"}[n.Op],
			fmt.Sprintf("plusOrMinus(MUTANT != %v, ", n.Op == token.SUB), ")", operator(","))
	}
}

// number makes a mutant of a constant that is a number or a duration, and reports whether it is a constant at all.
func (g *generator) number(e ast.Expr) bool {
	v := g.info[e]
	if v.Value == nil {
		return false
	}
	kind := types.TypeString(v.Type, func(p *types.Package) string { return p.Name() })
	basic, ok := v.Type.Underlying().(*types.Basic)
	if _, named := v.Type.(*types.Basic); ok && basic.Info()&types.IsNumeric != 0 && basic.Info()&types.IsUntyped == 0 && (named || kind == "time.Duration") {
		other := "0"
		if v.Value.String() == "0" {
			other = "1"
		}
		g.add(e, other, "pick["+kind+"](MUTANT, "+other+", ", ")")
	}
	return true
}

// generatedSwitch is added to each package in the place of mutantSwitch. It also writes down which mutants a test comes across.
const generatedSwitch = `package %s

import (
	"cmp"
	"os"
	"sync"
)

var (
	mutantOn      = os.Getenv("REDLOCK_MUTANT")
	mutantsToFile = os.Getenv("REDLOCK_MUTANTS_TO_FILE")
	mutantsMet    sync.Map
)

func isMutant(name string) bool {
	if mutantsToFile != "" {
		if _, known := mutantsMet.LoadOrStore(name, true); !known {
			if f, err := os.OpenFile(mutantsToFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
				f.WriteString(name + "\n")
				f.Close()
			}
		}
	}
	return mutantOn == name
}

func pick[T any](mutant bool, yes, no T) T {
	if mutant {
		return yes
	}
	return no
}

func lessOrEqual[T cmp.Ordered](equal bool, a, b T) bool { return a < b || equal && a == b }

func moreOrEqual[T cmp.Ordered](equal bool, a, b T) bool { return a > b || equal && a == b }

func plusOrMinus[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float64](minus bool, a, b T) T {
	if minus {
		return a - b
	}
	return a + b
}

func minOf[T cmp.Ordered](mutant bool, a T, more ...T) T {
	for _, b := range more {
		if (b < a) != mutant {
			a = b
		}
	}
	return a
}

func maxOf[T cmp.Ordered](mutant bool, a T, more ...T) T { return minOf(!mutant, a, more...) }
`

var (
	scriptCondition = regexp.MustCompile(`(?s)\b(?:if|elseif|while)\s+(.*?)\s+(?:then|do)\b`)
	scriptValue     = regexp.MustCompile(`(?m)(?: = |\breturn )(.*)$`)
	scriptStatement = regexp.MustCompile(`(?m)^ *((?:redis\.call\(|[a-z]\w*\(|return\b|[a-z][\w.\[\]#+ ]* = ).*)$`)
	scriptOperator  = regexp.MustCompile(`<=|>=|==|~=|<|>| [-+] |\bmath\.(?:min|max)\b`)
	scriptNumber    = regexp.MustCompile(`(?:KEYS|ARGV)\[\d+\]|\b\d+\b`)
	scriptComment   = regexp.MustCompile(`--.*`)
	scriptHidden    = regexp.MustCompile(`--.*|'[^'\n]*'`)
)

// scriptMutants makes the mutants of a script: a condition is true or false, an operand of and, or is left out, a comparison or a number
// is another, a statement is left out. Those that do not compile are left out.
func scriptMutants(t *testing.T, file string) (mutants []*generated) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	source := string(text)
	code := scriptHidden.ReplaceAllStringFunc(source, func(hidden string) string {
		if hidden[0] == '\'' {
			return "'" + strings.Repeat("s", len(hidden)-2) + "'"
		}
		return strings.Repeat(" ", len(hidden))
	})
	count := map[string]int{}
	add := func(rule string, from, to int, other string) {
		changed := source[:from] + other + source[to:]
		if _, err := sandbox.Compile(changed); err != nil {
			return
		}
		line := strings.Count(source[:from], "\n")
		whole, _, _ := strings.Cut(strings.Split(source, "\n")[line], "--")
		what := source[from:to]
		if whole := strings.TrimSpace(whole); len(what) < 8 {
			what += " in " + whole
		}
		mutants = append(mutants, &generated{
			name:     numbered(count, fmt.Sprintf("%s:%d:%s", file, line+1, strings.ReplaceAll(rule, " ", "-"))),
			key:      numbered(count, rule+": "+inOneLine(what)),
			file:     file,
			function: strings.TrimSuffix(filepath.Base(file), ".lua"),
			index:    from,
			edits:    []edit{{from, to, other}},
		})
	}
	var operands func(from, to int)
	operands = func(from, to int) {
		for _, operator := range []string{" or ", " and "} {
			parts := splitOutside(code[from:to], operator)
			if len(parts) < 2 {
				continue
			}
			for i, p := range parts {
				left, right := from+p[0], from+p[1]
				if i > 0 {
					add("operand dropped", left-len(operator), right, "")
				} else {
					add("operand dropped", left, right+len(operator), "")
				}
				operands(left, right)
			}
			return
		}
		if inner := strings.TrimPrefix(code[from:to], "not "); strings.HasPrefix(inner, "(") && strings.HasSuffix(inner, ")") {
			operands(to-len(inner)+1, to-1)
		}
	}
	for _, m := range scriptCondition.FindAllStringSubmatchIndex(code, -1) {
		if !strings.HasPrefix(code[m[0]:], "while") {
			add("always", m[2], m[3], "true")
		}
		add("never", m[2], m[3], "false")
		operands(m[2], m[3])
	}
	for _, m := range scriptValue.FindAllStringSubmatchIndex(code, -1) {
		operands(m[2], m[2]+len(strings.TrimRight(code[m[2]:m[3]], " ")))
	}
	for _, m := range scriptStatement.FindAllStringSubmatchIndex(code, -1) {
		add("dropped", m[2], m[2]+len(strings.TrimRight(code[m[2]:m[3]], " ")), "")
	}
	other := map[string]string{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "~=", "~=": "==", " + ": " - ", " - ": " + ", "math.min": "math.max", "math.max": "math.min"}
	for _, m := range scriptOperator.FindAllStringIndex(code, -1) {
		is := code[m[0]:m[1]]
		add(strings.TrimSpace(other[is])+" for "+strings.TrimSpace(is), m[0], m[1], other[is])
	}
	for _, m := range scriptNumber.FindAllStringIndex(code, -1) {
		switch is := code[m[0]:m[1]]; {
		case strings.Contains(is, "["):
		case is == "0":
			add("1", m[0], m[1], "1")
		default:
			add("0", m[0], m[1], "0")
		}
	}
	return mutants
}

// splitOutside splits at a separator that stands in no brackets, and returns where the parts are.
func splitOutside(text, separator string) (parts [][2]int) {
	depth, begin := 0, 0
	for i := range text {
		switch text[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
		if depth == 0 && i >= begin && strings.HasPrefix(text[i:], separator) {
			parts = append(parts, [2]int{begin, i})
			begin = i + len(separator)
		}
	}
	return append(parts, [2]int{begin, len(text)})
}
