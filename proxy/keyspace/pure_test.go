package keyspace

// Goal: what a command does to its keys depends on its arguments, on what the keys hold and on now
// alone. Method: read the source of the package for all by which something else could come in.

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pureImports are the packages that this one may import, and the names that it may use of those that
// can do more than compute; nil allows all.
var pureImports = map[string][]string{
	"cmp": nil, "encoding/binary": nil, "fmt": {"Sprintf"}, "math": nil, "slices": nil, "strconv": nil, "strings": nil,
	"time":                  {"Time", "Duration", "Millisecond", "UnixMilli"},
	"redlockd/redlock":      {"State", "Change", "Set", "Delete", "Expire", "Keep", "WasAbsent", "WasValue", "MaxTokenLen", "MaxValueLen", "VersionMark", "VersionLen", "NextVersion"},
	"redlockd/redlock/resp": {"ParseInt", "ParseFloat", "Value", "Status", "Error", "Int", "Bulk", "Array", "Map", "Set", "Pairs", "NewDouble"},
}

func TestPure(t *testing.T) {
	files := token.NewFileSet()
	names, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil || len(names) < 5 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		allowed := map[string][]string{} // by the package's last name
		for _, spec := range file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			some, ok := pureImports[path]
			if !ok || spec.Name != nil {
				t.Errorf("%s imports %s", files.Position(spec.Pos()), path)
			}
			allowed[path[strings.LastIndex(path, "/")+1:]] = some
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", files.Position(n.Pos()))
			case *ast.SelectorExpr:
				id, ok := n.X.(*ast.Ident)
				if ok && id.Obj == nil && allowed[id.Name] != nil && !slices.Contains(allowed[id.Name], n.Sel.Name) {
					t.Errorf("%s uses %s.%s", files.Position(n.Pos()), id.Name, n.Sel.Name)
				}
			}
			return true
		})
	}
}
