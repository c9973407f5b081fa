package redlock

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// mutantConstants are the constants of a TLA+ module that break a rule, each with what it does behind it.
var mutantConstants = regexp.MustCompile(`(?m)^ {2}(M[A-Z]\w+),? *\\\*`)

// brokenRules are the constants of a module that break a rule. Max… is a bound of a run.
func brokenRules(module []byte) map[string]bool {
	mutants := map[string]bool{}
	for _, name := range mutantConstants.FindAllSubmatch(module, -1) {
		if !strings.HasPrefix(string(name[1]), "Ma") {
			mutants[string(name[1])] = true
		}
	}
	return mutants
}

// modelRow is a row of tla_test.go: a run of TLC, by its text.
type modelRow struct{ module, name, mutant, violated string }

// modelRows reads the rows of tla_test.go, and says which modules they are of.
func modelRows(t *testing.T) (rows []modelRow, modules map[string]bool) {
	file, err := parser.ParseFile(token.NewFileSet(), "tla_test.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	modules = map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if name, ok := call.Fun.(*ast.Ident); !ok || name.Name != "checkTLA" {
			return true
		}
		module := fieldsOf(call.Args[1])["module"]
		modules[module] = true
		for _, row := range call.Args[2].(*ast.CompositeLit).Elts {
			fields := fieldsOf(row)
			rows = append(rows, modelRow{module, fields["name"], fields["mutant"], fields["violated"]})
		}
		return true
	})
	return rows, modules
}

// fieldsOf are the fields of a struct in a literal that are texts.
func fieldsOf(literal ast.Expr) map[string]string {
	fields := map[string]string{}
	for _, element := range literal.(*ast.CompositeLit).Elts {
		pair := element.(*ast.KeyValueExpr)
		if value, ok := pair.Value.(*ast.BasicLit); ok && value.Kind == token.STRING {
			fields[pair.Key.(*ast.Ident).Name], _ = strconv.Unquote(value.Value)
		}
	}
	return fields
}

// Goal: each rule that a model states is needed there.
// Method: by their text. Each constant of a module that breaks a rule is TRUE in a row, which names what TLC must find violated. A rule whose
// breach violates nothing belongs into the code's comments, not into a model.
func TestEachRuleOfAModelIsNeeded(t *testing.T) {
	rows, modules := modelRows(t)
	names := map[modelRow]bool{}
	broken := map[string]map[string]bool{}
	for _, row := range rows {
		if row.mutant == "" {
			continue
		}
		if row.violated == "" {
			t.Errorf("%s, %s: nothing is violated with %s. Extend the model until something is, or delete the constant and the rule", row.module, row.name, row.mutant)
		}
		if broken[row.module] == nil {
			broken[row.module] = map[string]bool{}
		}
		broken[row.module][row.mutant] = true
		key := modelRow{module: row.module, name: row.name}
		if names[key] {
			t.Errorf("%s has two rows %q", row.module, row.name)
		}
		names[key] = true
	}
	files, _ := filepath.Glob("testdata/tla/*.tla")
	count := 0
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		module := strings.TrimSuffix(filepath.Base(path), ".tla")
		mutants := brokenRules(text)
		for name := range mutants {
			if !broken[module][name] {
				t.Errorf("%s declares %s, and no row of tla_test.go has it: nothing says that the rule is needed", path, name)
			}
			if uses := regexp.MustCompile(`\b`+name+`\b`).FindAll(text, -1); len(uses) < 2 {
				t.Errorf("%s declares %s, and no action looks at it", path, name)
			}
		}
		for name := range broken[module] {
			if !mutants[name] {
				t.Errorf("%s has no constant %s, which a row of tla_test.go names", path, name)
			}
		}
		count += len(mutants)
		delete(modules, module)
	}
	for module := range modules {
		t.Errorf("tla_test.go has rows of %s, and there is no testdata/tla/%s.tla", module, module)
	}
	if count < 150 {
		t.Errorf("%d constants break rules: this does not find them", count)
	}
}

// Goal: `make model` has all large runs.
// Method: by the text of the Makefile, each test whose rows say large is among those that it names.
func TestLargeRunsAreNamed(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`REDLOCK_MODEL=large go test .*-run '(.*)Model\$\$'`).FindSubmatch(makefile)
	if line == nil {
		t.Fatal("the Makefile has no run with REDLOCK_MODEL=large")
	}
	named := regexp.MustCompile(string(line[1]) + "Model$")
	text, err := os.ReadFile("tla_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, function := range regexp.MustCompile(`(?ms)^func (Test\w+Model)\(.*?^}`).FindAllSubmatch(text, -1) {
		if strings.Contains(string(function[0]), "large: true") && !named.Match(function[1]) {
			t.Errorf("%s has large runs, and `make model` does not name it: nobody runs them", function[1])
		}
	}
}
