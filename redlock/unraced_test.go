//go:build !race

package redlock

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const simSeedsDefault = 60

// some are all cases of a long test: see raced_test.go.
func some[T any](_ int, all []T) []T { return all }

// TestLongTestsAreRunInFull finds the tests that call some in LONG, the list of what `make test` runs without the race detector.
func TestLongTestsAreRunInFull(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^LONG = (.*)$`).FindSubmatch(makefile)
	if line == nil {
		t.Fatal("the Makefile has no LONG")
	}
	long := regexp.MustCompile(strings.ReplaceAll(string(line[1]), "$$", "$"))
	files, _ := filepath.Glob("*_test.go")
	found := 0
	for _, name := range files {
		if name == "unraced_test.go" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, function := range regexp.MustCompile(`(?ms)^func (\w+)\(.*?^}`).FindAllSubmatch(text, -1) {
			if strings.Contains(string(function[0]), " some(") {
				if found++; !long.Match(function[1]) {
					t.Errorf("%s: %s is not in LONG, so nobody runs all of its cases", name, function[1])
				}
			}
		}
	}
	if found < 4 {
		t.Errorf("%d tests call some: this does not find them", found)
	}
}
