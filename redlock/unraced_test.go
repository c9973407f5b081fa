//go:build !race

package redlock

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const simSeedsDefault = 60

// some are all cases of a long test: see raced_test.go.
func some[T any](_ int, all []T) []T { return all }

// TestListsOfTests compares the lists of the Makefile with the tests. Whatever ENGINE and RELEASE name is there, and ENGINE has the tests of
// which the race detector sees only some cases: otherwise nobody runs all of them.
func TestListsOfTests(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	list := func(name string) (names []string) {
		line := regexp.MustCompile(`(?m)^` + name + ` = (.*)$`).FindSubmatch(makefile)
		if line == nil {
			t.Fatalf("the Makefile has no list %s", name)
		}
		return strings.Split(strings.ReplaceAll(string(line[1]), "$$", "$"), "|")
	}
	tests := map[string]string{} // and what they do
	for _, pattern := range []string{"*_test.go", "../cmd/redlockd/*_test.go"} {
		files, _ := filepath.Glob(pattern)
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, function := range regexp.MustCompile(`(?ms)^func (Test\w+)\(.*?^}`).FindAllSubmatch(text, -1) {
				tests[string(function[1])] = string(function[0])
			}
		}
	}
	for _, name := range append(list("ENGINE"), list("RELEASE")...) {
		pattern := regexp.MustCompile(name)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(tests)), pattern.MatchString) {
			t.Errorf("the Makefile names tests %s, and there are none", name)
		}
	}
	engine := regexp.MustCompile(strings.Join(list("ENGINE"), "|"))
	parts := 0
	for name, text := range tests {
		if !strings.Contains(text, " some(") || name == "TestListsOfTests" {
			continue
		}
		if parts++; !engine.MatchString(name) {
			t.Errorf("%s is not in the list ENGINE of the Makefile, so nobody runs all of its cases", name)
		}
	}
	if parts < 4 {
		t.Errorf("%d tests call some: this does not find them", parts)
	}
}
