package main

// Goal: packages do not grow together again. Method: which file of a package uses a name of which other one, from the types; the largest
// circle of files, each of which leads to each other, has a budget, and so have the methods of the engine's client, and the lines of the product. The
// budgets are what there is today: lower them with what you take away.

import (
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// generated ends the names of files that templ writes. They count for nothing: nobody reads them, and the page that they are made from
// shows what all files of its room have.
const generated = "_templ.go"

func TestCircles(t *testing.T) {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "redlockd/redlock", "redlockd/proxy").Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	for _, tc := range []struct {
		dir     string
		files   int // in the largest circle
		central string
		methods int
	}{
		{"redlock", 42, "Client", 119},
		{"redlock/member", 3, "Record", 33},
		{"redlock/member/survey", 1, "Masters", 30},
		{"redlock/member/copying", 2, "Copy", 30},
		{"redlock/member/coordinator", 4, "Coordinator", 33},
		{"redlock/member/admin", 1, "MasterReport", 15},
		{"redlock/conn", 1, "Wire", 6},
		{"redlock/clock", 1, "Own", 9},
		{"proxy", 21, "connection", 55},
		{"proxy/fleet", 3, "Fleet", 13},
		{"proxy/status", 5, "Status", 13},
		{"proxy/access", 2, "User", 11},
	} {
		fset := token.NewFileSet()
		lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
		list, err := exec.Command("go", "list", "-f", `{{join .GoFiles "\n"}}`, "redlockd/"+tc.dir).Output()
		if err != nil {
			t.Fatal(err)
		}
		var files []*ast.File
		for name := range strings.Lines(string(list)) {
			file, err := parser.ParseFile(fset, filepath.Join("../..", tc.dir, strings.TrimSpace(name)), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
		config := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
		pkg, err := config.Check("redlockd/"+tc.dir, fset, files, info)
		if err != nil {
			t.Fatal(err)
		}
		uses := map[string]map[string]bool{}
		for id, o := range info.Uses {
			from, to := fset.Position(id.Pos()).Filename, fset.Position(o.Pos()).Filename
			if strings.HasSuffix(from, generated) || strings.HasSuffix(to, generated) {
				continue
			}
			if o.Pkg() == pkg && from != to && (o.Parent() == pkg.Scope() || o.Parent() == nil) { // no parent: a field, or a method
				if uses[from] == nil {
					uses[from] = map[string]bool{}
				}
				uses[from][to] = true
			}
		}
		if n := largestCircle(uses); n > tc.files {
			t.Errorf("%d files of %s are one circle, and its budget is %d: move what belongs to another room, or cut an arrow", n, tc.dir, tc.files)
		} else {
			t.Logf("%s: %d files, %d of them in the largest circle", tc.dir, len(files), n)
		}
		central := types.NewPointer(pkg.Scope().Lookup(tc.central).Type())
		if n := types.NewMethodSet(central).Len(); n > tc.methods {
			t.Errorf("%s.%s has %d methods, and its budget is %d", tc.dir, tc.central, n, tc.methods)
		}
	}
}

// largestCircle is how many files the largest set has in which each leads to each other (Tarjan).
func largestCircle(uses map[string]map[string]bool) (most int) {
	index, low, on := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(v string)
	visit = func(v string) {
		index[v] = len(index) + 1
		low[v] = index[v]
		stack, on[v] = append(stack, v), true
		for w := range uses[v] {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if on[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		for size := 1; ; size++ {
			w := stack[len(stack)-1]
			stack, on[w] = stack[:len(stack)-1], false
			if w == v {
				most = max(most, size)
				return
			}
		}
	}
	for v := range uses {
		if index[v] == 0 {
			visit(v)
		}
	}
	return most
}

// TestLines: what users run does not grow in silence. redisproc and fleettest are for tests.
func TestLines(t *testing.T) {
	const budget = 63_200
	lines := 0
	for _, root := range []string{"../../cmd", "../../proxy", "../../redlock"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "testdata" || d.Name() == "redisproc" || d.Name() == "fleettest") {
				return filepath.SkipDir
			}
			if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, generated) || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".lua") {
				return nil
			}
			text, err := os.ReadFile(path)
			lines += bytes.Count(text, []byte("\n"))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if t.Logf("%d lines", lines); lines > budget {
		t.Errorf("the product has %d lines, and its budget is %d: take something away, or say in the commit why it is worth more", lines, budget)
	}
}

// Goal: the program stays small. What it links decides that: one package that calls methods by name, which the linker cannot see, makes
// it half as large again (shunned). 22.9 MB with symbols, 16.0 MB as it is shipped.
func TestSizeOfTheProgram(t *testing.T) {
	info, err := os.Stat(binary(t))
	if err != nil {
		t.Fatal(err)
	}
	if most := int64(28 << 20); info.Size() > most {
		t.Errorf("the program has %d bytes, and may have %d: `go build -ldflags=-dumpdep` shows by <ReflectMethod> who calls methods by name", info.Size(), most)
	}
}
