package redlock

// How many cases of the long tests run. Under the race detector everything takes ten times as long: there a few cases run, and ENGINE in the
// Makefile names the tests of which `make test-all` runs all cases without it.

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"redlockd/redlock/redisproc"
)

// fewCases reports whether a few cases of a long test are enough.
func fewCases() bool { return raced || !redisproc.All() }

// some are the first n cases of a long test, or all.
func some[T any](n int, all []T) []T {
	if fewCases() {
		return all[:n]
	}
	return all
}

// withoutRaceDetector leaves a test out under the race detector: it plays minutes of heartbeats, and what it executes others execute there.
func withoutRaceDetector(t *testing.T) {
	if raced {
		redisproc.Skip(t, "runs without the race detector (ENGINE in the Makefile)")
	}
}

// TestListOfTests compares the list ENGINE of the Makefile with the tests. Whatever it names is there, and it has the tests of
// which the race detector sees only some cases: otherwise nobody runs all of them.
func TestListOfTests(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ENGINE = (.*)$`).FindSubmatch(makefile)
	if line == nil {
		t.Fatal("the Makefile has no list ENGINE")
	}
	engine := strings.Split(strings.ReplaceAll(string(line[1]), "$$", "$"), "|")
	tests, raceless := map[string]string{}, map[string]bool{} // what they do, and whether the race detector leaves them out
	files, _ := filepath.Glob("*_test.go")
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
	for _, name := range engine {
		pattern := regexp.MustCompile(name)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(tests)), pattern.MatchString) {
			t.Errorf("the Makefile names tests %s, and there are none", name)
		}
	}
	inList := regexp.MustCompile(strings.Join(engine, "|"))
	parts := 0
	for name, text := range tests {
		release := strings.Contains(text, "redisproc.Release(") || strings.Contains(text, "redisproc.Skip(") || strings.HasSuffix(name, "Model") || name == "TestMain"
		if raceless[name] && !release && !inList.MatchString(name) {
			t.Errorf("%s is not in the list ENGINE of the Makefile, and the race detector leaves it out: nobody runs it", name)
		}
		if !strings.Contains(text, " some(") && !strings.Contains(text, "withoutRaceDetector(t)") || name == "TestListOfTests" {
			continue
		}
		if parts++; !inList.MatchString(name) {
			t.Errorf("%s is not in the list ENGINE of the Makefile, so nobody runs all of it", name)
		}
	}
	if parts < 4 {
		t.Errorf("%d tests call some: this does not find them", parts)
	}
}
