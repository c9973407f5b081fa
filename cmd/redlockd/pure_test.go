package main

// Goal: what these packages compute depends on what they are given alone: the commands of the keyspace on arguments, keys and now; what is
// decided about the membership on what masters have shown. Method: read the source for all by which something else could come in.

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pureImports are the packages that a pure one may import, and the names that it may use of those that can do more than compute; nil
// allows all.
var pureImports = map[string]map[string][]string{
	"proxy/keyspace": {
		"cmp": nil, "encoding/binary": nil, "fmt": {"Sprintf"}, "math": nil, "slices": nil, "strconv": nil, "strings": nil,
		"time":                  {"Time", "Duration", "Millisecond", "UnixMilli"},
		"redlockd/redlock":      {"State", "Change", "Set", "Delete", "Expire", "Keep", "WasAbsent", "WasValue", "MaxTokenLen", "MaxValueLen", "VersionMark", "VersionLen", "NextVersion"},
		"redlockd/redlock/resp": {"ParseInt", "ParseFloat", "Value", "Status", "Error", "Int", "Bulk", "Array", "Map", "Set", "Pairs", "NewDouble"},
	},
	"redlock/member": {
		"cmp": nil, "crypto/rand": {"Read"}, "crypto/sha256": nil, "encoding/hex": nil, "errors": nil, "fmt": nil, "iter": nil, "maps": nil, "slices": nil, "strconv": nil, "strings": nil,
		"log/slog":                {"Logger"}, // of the options, for those who ask masters
		"time":                    {"Time", "Duration", "Hour", "Minute", "Second", "Millisecond", "Microsecond", "Unix", "UnixMilli"},
		"redlockd/redlock/clock":  {"Drift", "Interval", "Vouched", "Text", "QuarantineOf"},
		"redlockd/redlock/conn":   {"Conn", "Digest", "IsRefused", "JoinAddr", "Master", "ProtocolError", "RefusedError", "Sanitize", "Shorten", "SplitAddr", "Wire"},
		"redlockd/redlock/fence":  {"Time", "AheadMax", "HighestBelieved"},
		"redlockd/redlock/lua":    {"MembersKey"},
		"redlockd/redlock/quorum": nil,
	},
}

func TestPure(t *testing.T) {
	for dir, imports := range pureImports {
		files := token.NewFileSet()
		names, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(names) < 5 {
			t.Fatal(dir, names, err)
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
				some, ok := imports[path]
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
}
