// Goal: a script cannot have Go allocate what it does not pay for. Method: in the source of this package
// each function is listed that allocates texts, slices, maps or structs without builder, table.reserve
// or push. For each of them the list says who pays. What runs while a script is compiled is left out:
// its memory is bounded by the length of the script (TestCompileIsBounded).
//
// Not seen: numbers and headers of strings as values (memory.go), closures of Go, and what functions of
// other packages allocate of which no result is text or a slice.
package sandbox

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// paid says who pays for what a function allocates on its own.
var paid = map[string]string{
	"builder.double": "it charges",
	"builder.byte":   "grow has charged", "builder.rune": "grow has charged", "builder.text": "grow has charged", "builder.mapped": "grow has charged",
	"builder.repeat": "grow has charged", "builder.number": "grow has charged", "builder.format": "grow has charged; fmt works in a buffer that it keeps",
	"machine.newString": "it charges", "machine.growStack": "it charges, above what a kept machine has",
	"machine.push": "growStack has charged", "machine.pushAll": "growStack has charged",
	"table.reserve": "it charges", "table.set": "reserve has charged, and it charges for the index", "table.append": "reserve has charged",
	"machine.table": "it charges", "machine.value": "table has charged", "machine.tableReply": "it charges", "machine.command": "it charges",
	"machine.globalTable": "it charges", "variable.declare": "it charges", "proto.begin": "it charges", "tableSort": "it charges",
	"machine.callLua": "it charges for slots; frames are bounded by callsDepth", "machine.callNative": "calls are bounded by callsDepth",
	"compiler.closure": "it charges", "compiler.constructor": "reserve has charged",
	"stringGmatch": "it charges", "call.formatOne": "it charges specBytes",
	"machine.concat": "it has room for them on the stack of Go", "appendNumber": "its callers have room for it on the stack of Go",
	"machine.raise": "errorBytes: its args are short", "machine.throw": "errorBytes",
	"machine.check": "once, at the end of the run", "machine.checkBytes": "once, at the end of the run", "machine.checkTime": "once, at the end of the run",
	"machine.missingGlobal": "once, at the end of the run", "redisSetresp": "once, at the end of the run",
	"machine.describe": "once, after the run, at most errorTextMax", "oneLine": "once, after the run, at most errorTextMax",
	"unavailableError.Error": "once, at the end of the run", "call.badType": "errorBytes: its texts are short", "cjsonDecode": "it stays on the stack of Go",
	"table.fill": "KEYS and ARGV, which the client has sent",
	"library":    "not in a run", "table.setString": "globalTable charges", "table.freeze": "globalTable charges", "SHA": "redisSha1hex charges",
}

// makesNothing are functions of other packages whose texts are parts of their arguments, or that write
// to the slice that they get.
var makesNothing = []string{"strings.Cut", "strings.CutPrefix", "strings.Trim", "strings.TrimLeft", "strings.TrimPrefix"}

// beforeRun are functions and files that do their work before a script runs. Only the functions in them
// that get a frame or a call run with a script.
var beforeRun = []string{"init", "newGlobals", "mathLibrary", "redisLibrary", "compile.go", "compile_expr.go", "script.go"}

func TestAllMemoryIsCharged(t *testing.T) {
	fset := token.NewFileSet()
	files, info := checkedSource(t, fset)
	found := map[string][]string{}
	for _, file := range files {
		compiles := slices.Contains(beforeRun, filepath.Base(fset.Position(file.Pos()).Filename))
		for _, d := range file.Decls {
			name, runs := "var", false
			if f, ok := d.(*ast.FuncDecl); ok {
				name = nameOf(f)
				runs = name == "SHA" || !compiles && !slices.Contains(beforeRun, name)
			}
			visitRuntime(d, runs, info, func(n ast.Node) {
				if what := allocates(n, info); what != "" {
					found[name] = append(found[name], fmt.Sprintf("%v: %s", fset.Position(n.Pos()), what))
				}
			})
		}
	}
	for name, places := range found {
		if paid[name] == "" {
			t.Errorf("%s allocates, and the list says not who pays:\n\t%s", name, strings.Join(places, "\n\t"))
		}
	}
	for name := range paid {
		if found[name] == nil {
			t.Errorf("the list has %s, which allocates nothing on its own", name)
		}
	}
}

// checkedSource has the files of this package, without tests, and the types in them.
func checkedSource(t *testing.T, fset *token.FileSet) (files []*ast.File, info *types.Info) {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	names, _ := filepath.Glob("*.go")
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	if _, err := config.Check("redlockd/redlock/sandbox", fset, files, info); err != nil {
		t.Fatal(err)
	}
	return files, info
}

// nameOf is a function as the list has it, with its receiver.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	return receiver.(*ast.Ident).Name + "." + f.Name.Name
}

// visitRuntime visits what runs with a script: all of a declaration, or the functions in it that get a
// frame or a call.
func visitRuntime(d ast.Node, all bool, info *types.Info, visit func(ast.Node)) {
	ast.Inspect(d, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncLit); ok && !all {
			if params := f.Type.Params.List; len(params) > 0 && slices.Contains([]string{"*frame", "*call"}, types.ExprString(params[0].Type)) {
				visitRuntime(f.Body, true, info, visit)
				return false
			}
		}
		if all && n != nil {
			visit(n)
		}
		return true
	})
}

// allocates says what Go allocates for a node of the syntax tree, or "".
func allocates(n ast.Node, info *types.Info) string {
	isText := func(t types.Type) bool {
		if t == nil {
			return false
		}
		switch u := t.Underlying().(type) {
		case *types.Basic:
			return u.Info()&types.IsString != 0
		case *types.Slice:
			return true
		}
		return false
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if tv := info.Types[n]; n.Op == token.ADD && tv.Value == nil && isText(tv.Type) {
			return "joins strings"
		}
	case *ast.AssignStmt:
		if n.Tok == token.ADD_ASSIGN && isText(info.Types[n.Lhs[0]].Type) {
			return "joins strings"
		}
		for _, left := range n.Lhs {
			if at, ok := left.(*ast.IndexExpr); ok {
				if _, isMap := info.Types[at.X].Type.Underlying().(*types.Map); isMap {
					return "adds to a map"
				}
			}
		}
	case *ast.UnaryExpr:
		if _, ok := n.X.(*ast.CompositeLit); ok && n.Op == token.AND {
			return "makes a struct"
		}
	case *ast.CompositeLit:
		switch info.Types[n].Type.Underlying().(type) {
		case *types.Slice, *types.Map:
			return "makes a slice or map"
		}
	case *ast.CallExpr:
		called := info.Types[n.Fun]
		if called.IsBuiltin() {
			if name := types.ExprString(n.Fun); name == "append" || name == "make" || name == "new" {
				return name
			}
			return ""
		}
		if called.IsType() {
			if from := info.Types[n.Args[0]]; from.Value == nil && isText(called.Type) && !types.Identical(from.Type.Underlying(), called.Type.Underlying()) {
				return "converts to " + called.Type.String()
			}
			return ""
		}
		selector, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return ""
		}
		f, ok := info.Uses[selector.Sel].(*types.Func)
		if !ok || f.Pkg() == nil || f.Pkg().Path() == "redlockd/redlock/sandbox" {
			return ""
		}
		name := f.Pkg().Name() + "." + f.Name()
		results := f.Signature().Results()
		isBuilder := f.Signature().Recv() != nil && strings.HasSuffix(f.Signature().Recv().Type().String(), "strings.Builder")
		if isBuilder && (strings.HasPrefix(f.Name(), "Write") || f.Name() == "Grow") || f.Pkg().Name() == "fmt" {
			return name
		}
		for i := range results.Len() {
			if isText(results.At(i).Type()) && !isBuilder && !slices.Contains(makesNothing, name) {
				return name
			}
		}
	}
	return ""
}

// TestCompileIsBounded: what compiling takes is in proportion to the length of a script. Most are long
// parentheses, for each of which the parser's stack grows.
func TestCompileIsBounded(t *testing.T) {
	const perByte = 1500
	for _, unit := range []string{"local a = 1 ", "a()", "f(1,1,1)", "x=1 ", ";", "do end ", "return {1,{},1}, ", "f'' ", "'a'..", "1+", "{", "(", "--\n", "#!", "\"\\0\"",
		"if a then elseif a then end ", "function f() end ", "f(function(...) return ... end) ",
		"local function f(a, b, ...) local c, d, e, g, h, i, j return a end ", "a.b.c.d:e()", "a=b,", "t[1]=2 "} {
		source := strings.Repeat(unit, SourceMax/len(unit))
		for _, source := range []string{source, "return " + source, "return " + source + "1", strings.Repeat("("+unit, 100)} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = Compile(source)
			runtime.ReadMemStats(&after)
			if took := int(after.TotalAlloc - before.TotalAlloc); took > perByte*len(source)+64<<10 {
				t.Errorf("%.40q…: compiling %d bytes took %d, which is %d for each, want at most %d", source, len(source), took, took/len(source), perByte)
			}
		}
	}
}
