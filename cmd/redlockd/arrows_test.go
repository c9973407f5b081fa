package main

// Goal: calls go down, cmd → proxy → redlock, in cmd from main to its rooms and from these to cli and
// config, and every third-party module has its owners; what only the bench needs is no part of
// redlockd's module. Method: read the imports of every Go file, those of the bench too, and go.mod.

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// importers lists, for each package of ours, which of ours may import it besides itself and its tests.
var importers = map[string][]string{
	"redlockd/cmd/redlockd/config":  {"cmd/redlockd/cli", "cmd/redlockd/serve", "cmd/redlockd/masters", "cmd/redlockd/client", "cmd/redlockd/run"},
	"redlockd/proxy":                {"cmd/redlockd/config", "cmd/redlockd/cli", "cmd/redlockd/serve", "cmd/redlockd/masters"},
	"redlockd/proxy/access":         {"proxy", "proxy/fleet", "proxy/status"},
	"redlockd/proxy/fleet":          {"proxy"},
	"redlockd/proxy/keyspace":       {"proxy"},
	"redlockd/proxy/status":         {"proxy"},
	"redlockd/redlock":              {"cmd/redlockd/config", "proxy", "proxy/access", "proxy/fleet", "proxy/keyspace", "proxy/status", "cmd/redlockd/serve", "cmd/redlockd/masters", "cmd/redlockd/run"}, // those of proxy: types alone, see TestPure
	"redlockd/redlock/rawio":        {"redlock", "proxy", "bench", "redlock/conn"},
	"redlockd/redlock/loglimit":     {"redlock", "proxy", "redlock/member/coordinator"},
	"redlockd/redlock/resp":         {"redlock/memmaster", "redlock/sandbox", "proxy", "proxy/keyspace", "cmd/redlockd/client", "redlock/conn", "bench"}, // cmd and bench: as a client
	"redlockd/redlock/sandbox":      {"proxy", "redlock/memmaster"},
	"redlockd/redlock/memmaster":    {"cmd/redlockd/serve", "redlock/member/fleettest"},     // the embedded masters; everywhere else it is a test double
	"redlockd/redlock/redisproc":    {"bench", "bench/torture", "redlock/member/fleettest"}, // everywhere else it serves tests
	"redlockd/cmd/redlockd/serve":   {"cmd/redlockd"},
	"redlockd/cmd/redlockd/masters": {"cmd/redlockd"},
	"redlockd/cmd/redlockd/client":  {"cmd/redlockd", "cmd/redlockd/run"}, // run: its connection
	"redlockd/cmd/redlockd/run":     {"cmd/redlockd"},
	"redlockd/cmd/redlockd/cli":     {"cmd/redlockd", "cmd/redlockd/serve", "cmd/redlockd/masters", "cmd/redlockd/client", "cmd/redlockd/run"},
	"redlockd/redlock/clock":        {"redlock", "cmd/redlockd/run", "redlock/member", "redlock/member/copying", "redlock/member/coordinator", "redlock/member/admin", "redlock/member/fleettest"},
	"redlockd/redlock/conn":         {"redlock", "redlock/fence", "redlock/member", "redlock/member/survey", "redlock/member/copying", "redlock/member/coordinator", "redlock/member/admin", "redlock/member/fleettest"},
	"redlockd/redlock/fence":        {"redlock", "redlock/member", "redlock/member/survey"},
	// The membership: what is decided is pure, and those that ask masters stand on it.
	"redlockd/redlock/member":             {"redlock", "redlock/member/survey", "redlock/member/copying", "redlock/member/coordinator", "redlock/member/admin", "redlock/member/fleettest"},
	"redlockd/redlock/member/survey":      {"redlock", "redlock/member/copying", "redlock/member/coordinator", "redlock/member/admin"},
	"redlockd/redlock/member/copying":     {"redlock", "redlock/member/coordinator"},
	"redlockd/redlock/member/coordinator": {"redlock"},
	"redlockd/redlock/member/admin":       {"redlock"},
	"redlockd/redlock/member/fleettest":   nil, // it serves tests
	"redlockd/redlock/quorum":             {"redlock", "redlock/clock", "redlock/member", "redlock/member/copying", "redlock/member/coordinator", "redlock/member/admin"},
	"redlockd/redlock/lua":                {"redlock", "redlock/conn", "redlock/fence", "redlock/member", "redlock/member/survey", "redlock/member/copying", "redlock/member/coordinator", "redlock/member/admin"},
}

// owners lists which directories may import a third-party module. A module that is new needs an owner here.
var owners = map[string][]string{
	"github.com/tidwall/redcon":             {"redlock/resp"},
	"github.com/redis/go-redis/":            {"redlock", "redlock/conn", "redlock/fence", "redlock/member", "redlock/member/survey", "redlock/member/copying", "redlock/member/admin", "redlock/member/fleettest", "bench", "bench/torture"},
	"github.com/BurntSushi/toml":            {"cmd/redlockd/config"},
	"github.com/KimMachineGun/automemlimit": {"cmd/redlockd/serve"},
	"github.com/prometheus/":                {"proxy", "proxy/status"},
	"github.com/a-h/templ":                  {"proxy/status"},
	"golang.org/x/sys":                      {"bench", "bench/torture", "cmd/redlockd/cli", "cmd/redlockd/serve", "cmd/redlockd/client", "redlock/clock"},
	"github.com/yuin/gopher-lua":            {"redlock/sandbox"},
	"github.com/go-redsync/redsync/":        {"bench"},
	"github.com/redis/rueidis":              {"bench"},
	"github.com/HdrHistogram/hdrhistogram":  {"bench"},
	"gonum.org/v1/plot":                     {"bench"},
	"github.com/bsm/redislock":              {"bench", "bench/torture"},
	"go.etcd.io/etcd/client/":               {"bench"},
	"go.uber.org/zap":                       {"bench"},
	"github.com/anishathalye/porcupine":     {"bench/torture"}, // and tests
	"helm.sh/helm/":                         nil,               // tests only, as those below: see testsBelow
	"k8s.io/":                               nil,
	"sigs.k8s.io/":                          nil,
	"github.com/santhosh-tekuri/":           nil,
}

// testsBelow lists what tests may import beyond that: masters to try things on, and the client libraries as users have
// them.
var testsBelow = map[string][]string{
	"redlockd/redlock/memmaster":        {"redlock", "redlock/member/survey", "redlock/member/coordinator", "proxy", "cmd/redlockd"},
	"redlockd/redlock/member/fleettest": {"redlock", "redlock/member/survey", "redlock/member/copying", "redlock/member/coordinator", "redlock/member/admin"},
	"redlockd/redlock/resp":             {"redlock"},
	"redlockd/redlock/sandbox":          {"redlock"}, // parses the Lua that mutants are made of
	"redlockd/proxy":                    {"redlock"}, // from outside its package: the simulation's servers
	"redlockd/redlock/redisproc":        {"redlock", "redlock/member/admin", "redlock/memmaster", "redlock/sandbox", "proxy", "proxy/keyspace", "proxy/status", "cmd/redlockd", "cmd/redlockd/config", "bench/peers"},
	"redlockd/redlock":                  {"redlock/memmaster", "cmd/redlockd", "bench/peers"},
	"redlockd/cmd/redlockd/config":      {"cmd/redlockd"},
	"golang.org/x/sys":                  {"cmd/redlockd", "redlock/sandbox"},
	"github.com/redis/go-redis/":        {"proxy", "redlock/memmaster", "redlock/sandbox", "cmd/redlockd", "bench/peers"},
	"github.com/redis/rueidis":          {"proxy"},

	// The chart, in a module of its own.
	"helm.sh/helm/":               {"docker/helm/test"},
	"k8s.io/":                     {"docker/helm/test"},
	"sigs.k8s.io/":                {"docker/helm/test"},
	"github.com/santhosh-tekuri/": {"docker/helm/test"},
	"github.com/BurntSushi/toml":  {"docker/helm/test"},

	"github.com/anishathalye/porcupine": {"redlock", "cmd/redlockd"},
	"github.com/go-redsync/redsync/":    {"proxy", "bench/peers"}, // beside redlockd, and what others do in the same faults
}

// shunned lists packages of the standard library that only tests and the bench may import. Their templates call methods by names that are
// known at run time alone, so in a program that executes one, the linker keeps every exported method: redlockd is half as large again.
// That templ imports html/template costs nothing, because nobody calls what it has for that.
var shunned = []string{"html/template", "text/template"}

func TestArrows(t *testing.T) {
	const top = "../.."
	files := 0
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		files++
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(top, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if !allowed(filepath.ToSlash(dir), name, strings.HasSuffix(path, "_test.go")) {
				t.Errorf("%s imports %s: the arrows do not allow that", strings.TrimPrefix(path, top+"/"), name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Errorf("%d files were read: this does not look at the module", files)
	}
}

// TestSkips: a test that is left out is named at the end of the gate, with the reason, so no test skips itself but by redisproc.
func TestSkips(t *testing.T) {
	skip := regexp.MustCompile(`\b[tb]\.Skip(f|Now)?\(`)
	for _, root := range []string{".", "../../proxy", "../../redlock", "../../bench"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || filepath.Base(path) == "arrows_test.go" {
				return err
			}
			text, err := os.ReadFile(path)
			if n := len(skip.FindAll(text, -1)); n > 0 && !(n == 1 && strings.HasSuffix(path, "redisproc/need.go")) {
				t.Errorf("%s skips by itself: redisproc.Skip(t, reason) writes down what is left out", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestBenchKeepsItsModules: the bench and the tests of the chart are modules of their own, so that plots, the clients of peers and Helm
// do not burden those who import redlock.
func TestBenchKeepsItsModules(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for module, dirs := range owners {
		if slices.Equal(dirs, []string{"bench"}) && testsBelow[module] == nil && strings.Contains(string(text), module) {
			t.Errorf("go.mod requires %s, which only the bench imports: it belongs into bench/go.mod", module)
		}
		if dirs == nil && slices.Equal(testsBelow[module], []string{"docker/helm/test"}) && strings.Contains(string(text), module) {
			t.Errorf("go.mod requires %s, which only the tests of the chart import: it belongs into docker/helm/test/go.mod", module)
		}
	}
}

// allowed reports whether a file in dir may import the package.
func allowed(dir, name string, test bool) bool {
	if name == "redlockd/"+dir {
		return test // a test from outside its package
	}
	if ours := name == "redlockd" || strings.HasPrefix(name, "redlockd/"); ours {
		return slices.Contains(importers[name], dir) || test && slices.Contains(testsBelow[name], dir)
	}
	if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") { // the standard library
		return test || !slices.Contains(shunned, name) || strings.HasPrefix(dir, "bench")
	}
	for module, dirs := range owners {
		if strings.HasPrefix(name, module) {
			return slices.Contains(dirs, dir) || test && slices.Contains(testsBelow[module], dir)
		}
	}
	return false
}
