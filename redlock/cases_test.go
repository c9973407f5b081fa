package redlock

// How many cases of the long tests run is told by redisproc.Some and its like: under the race detector a few, and ENGINE and ENGINE_PROXY in the Makefile name
// the tests of which `make test-all` runs all cases without it.

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestListOfTests compares the lists of the Makefile with the tests. What they name is there, and they have the tests of
// which the race detector sees only some cases: otherwise nobody runs all of them.
func TestListOfTests(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	inGate := regexp.MustCompile(`(?m)^test-mutants-sample:.*\n\t.* -run '(.*?)'`).FindSubmatch(makefile)
	if inGate == nil || !regexp.MustCompile(`\$\(MAKE\) .* test-mutants-sample `).Match(makefile) {
		t.Fatal("test-all of the Makefile does not run test-mutants-sample")
	}
	sample := regexp.MustCompile(strings.ReplaceAll(string(inGate[1]), "$$", "$"))
	for list, folder := range map[string]string{"ENGINE": ".", "ENGINE_PROXY": "../proxy"} {
		line := regexp.MustCompile(`(?m)^` + list + ` = (.*)$`).FindSubmatch(makefile)
		if line == nil {
			t.Fatal("the Makefile has no list ", list)
		}
		checkListOfTests(t, list, strings.Split(strings.ReplaceAll(string(line[1]), "$$", "$"), "|"), sample, folder)
	}
}

// checkListOfTests compares a list with the tests of a folder. Those that sample names run without the race detector, too.
func checkListOfTests(t *testing.T, list string, names []string, sample *regexp.Regexp, folder string) {
	tests, raceless := map[string]string{}, map[string]bool{} // what they do, and whether the race detector leaves them out
	files, _ := filepath.Glob(filepath.Join(folder, "*_test.go"))
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, function := range regexp.MustCompile(`(?ms)^func (Test\w+)\(.*?^}`).FindAllSubmatch(text, -1) {
			tests[string(function[1])] = string(function[0])
			raceless[string(function[1])] = strings.HasPrefix(string(text), "//go:build !race\n")
		}
	}
	for _, name := range names {
		pattern := regexp.MustCompile(name)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(tests)), pattern.MatchString) {
			t.Errorf("%s in the Makefile names tests %s, and there are none", list, name)
		}
	}
	inList := regexp.MustCompile(strings.Join(names, "|"))
	parts := 0
	for name, text := range tests {
		release := strings.Contains(text, "redisproc.Release(") || strings.Contains(text, "redisproc.Skip(") || strings.HasSuffix(name, "Model") || name == "TestMain"
		if raceless[name] && !release && !inList.MatchString(name) && !sample.MatchString(name) {
			t.Errorf("%s is not in the list %s of the Makefile, and the race detector leaves it out: nobody runs it", name, list)
		}
		if !regexp.MustCompile(`redisproc\.(Some|SomeRaced|SomeOf|NotRaced)\b`).MatchString(text) {
			continue
		}
		if parts++; !inList.MatchString(name) {
			t.Errorf("%s is not in the list %s of the Makefile, so nobody runs all of it", name, list)
		}
	}
	if parts < 4 {
		t.Errorf("%d tests of %s run some of their cases: this does not find them", parts, folder)
	}
}
