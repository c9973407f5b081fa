//go:build !race

package redlock

// Goal: what one operation asks of a reader does not grow. Method: a program with the counters of coverage runs each operation alone on masters
// in memory; the functions of the engine and its rooms that it executed are counted, and the files that they stand in. `make walk` prints the
// numbers, `make walk OPERATION=LOCK` also the names.

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rooms are the packages that count: the engine, and what was moved out of it.
var rooms = []string{"", "clock", "conn", "fence", "member", "member/survey", "member/copying", "member/coordinator", "quorum"}

// budgets are the most functions and files that each operation may execute. testdata/walk has the operations.
var budgets = []struct {
	operation        string
	functions, files int
}{
	{"LOCK", 114, 27},
	{"UNLOCK", 93, 27},
	{"EXTEND", 110, 25}, // with a vote behind the decision
	{"FENCE", 126, 31},
	{"SHARED", 126, 30},
	{"SLOTS", 132, 30},
	{"HOLD", 127, 28},
	{"MLOCK", 127, 31},
}

// walksMost is how often all is executed 25 times. What is counted each time is what the operation executes; on a busy machine a loop beside it may be in
// all 25 of one process, and is not in those of the next.
const walksMost = 4

func TestWalk(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	tool(t, "go", "build", "-cover", "-covermode=atomic", "-coverpkg=redlockd/redlock/...", "-o", program, "./testdata/walk")
	walks := 0
	walk := func() {
		walks++
		tool(t, program, filepath.Join(dir, fmt.Sprint("walk", walks)))
	}
	walk()
	for _, b := range budgets {
		functions, files := walked(t, dir, b.operation)
		for walks < walksMost && (len(functions) > b.functions || len(files) > b.files) {
			walk()
			functions, files = walked(t, dir, b.operation)
		}
		t.Logf("%-6s %3d functions in %2d files", b.operation, len(functions), len(files))
		if os.Getenv("REDLOCK_WALK") == b.operation {
			for _, file := range slices.Sorted(maps.Keys(files)) {
				t.Logf("  %-24s %s", file, strings.Join(files[file], " "))
			}
		}
		if len(functions) == 0 || len(functions) > b.functions || len(files) > b.files {
			t.Errorf("%s executes %d functions in %d files, and may execute %d in %d: `make walk OPERATION=%s` names them",
				b.operation, len(functions), len(files), b.functions, b.files, b.operation)
		}
	}
}

// walked is what was executed each time, and by file.
func walked(t *testing.T, dir, operation string) (functions []string, files map[string][]string) {
	t.Helper()
	times, _ := filepath.Glob(filepath.Join(dir, "walk*", operation, "*"))
	each := t.TempDir()
	profile := filepath.Join(each, "profile")
	tool(t, "go", "tool", "covdata", "intersect", "-i="+strings.Join(times, ","), "-o="+each)
	tool(t, "go", "tool", "covdata", "textfmt", "-i="+each, "-o="+profile)
	functions, files = executed(t, profile), map[string][]string{}
	for _, f := range functions {
		file, name, _ := strings.Cut(f, ": ")
		files[file] = append(files[file], name)
	}
	return functions, files
}

// tool runs a program.
func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// executed lists the functions of the rooms of which a profile says that a part was executed, as "file: name".
func executed(t *testing.T, profile string) (all []string) {
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]map[int]bool{} // of each file, the lines at which an executed block begins
	for line := range bytes.Lines(text) {
		file, rest, ok := strings.Cut(strings.TrimSpace(string(line)), ":")
		if !ok || file == "mode" || strings.HasSuffix(rest, " 0") {
			continue
		}
		room, name := path.Split(strings.TrimPrefix(file, "redlockd/redlock/"))
		if !slices.Contains(rooms, strings.TrimSuffix(room, "/")) || strings.HasSuffix(name, "_test.go") {
			continue
		}
		at, err := strconv.Atoi(rest[:strings.IndexByte(rest, '.')])
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if lines[room+name] == nil {
			lines[room+name] = map[int]bool{}
		}
		lines[room+name][at] = true
	}
	for name, executed := range lines {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			for at := fset.Position(f.Body.Lbrace).Line; at <= fset.Position(f.End()).Line; at++ {
				if executed[at] {
					all = append(all, name+": "+f.Name.Name)
					break
				}
			}
		}
	}
	slices.Sort(all)
	return all
}
