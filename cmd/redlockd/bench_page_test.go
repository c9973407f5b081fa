package main

// Goal: what README.md and bench/README.md say of measurements can be looked up, and is not of long ago. Method: each commit that
// they name is asked of git; each file, target, flag and scenario that bench/README.md names must exist.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"redlockd/redlock/redisproc"
)

// commitsMax is how many commits a table of faults may be behind what is there.
const commitsMax = 500

func TestFiguresAreFresh(t *testing.T) {
	if _, err := os.Stat("../../.git"); err != nil {
		redisproc.Skip(t, fmt.Sprintf("nothing tells how old the figures are: this tree is no clone, so it has no history (%v)", err))
	}
	redisproc.Need(t, "git")
	// What is cut off a history may have the commits that are named.
	if all, err := git("rev-list", "--count", "HEAD"); err == nil {
		if n, err := strconv.Atoi(all); err == nil && n <= commitsMax {
			redisproc.Skip(t, fmt.Sprintf("nothing tells how old the figures are: this clone has %d commits, and they may be %d old: run git fetch --unshallow", n, commitsMax))
		}
	}
	// Go runs a test anew when a file has changed that it read before.
	if head, err := git("rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"); err == nil {
		os.ReadFile(head)
	}
	for page, least := range map[string]int{"README.md": 1, "bench/README.md": 3, "bench/results/torture/report.md": 1} {
		named := regexp.MustCompile(`[Cc]ommit ([0-9a-f]{7,40})\b( of [0-9-]+)?(, with changes)?`).FindAllStringSubmatch(readPage(t, page), -1)
		if len(named) < least {
			t.Errorf("%s names %d commits that its tables of faults were measured on, want %d", page, len(named), least)
		}
		for _, commit := range named {
			checkCommit(t, page, commit[1])
			if commit[3] != "" {
				t.Errorf("%s: commit %s with changes is nothing that others can look up: measure it on a commit", page, commit[1])
			}
		}
	}
}

func checkCommit(t *testing.T, page, commit string) {
	t.Helper()
	if out, err := git("cat-file", "-e", commit+"^{commit}"); err != nil {
		t.Errorf("%s: commit %s: there is none: name the one it was measured on (git says %q)", page, commit, out)
		return
	}
	out, err := git("rev-list", "--count", commit+"..HEAD")
	behind, number := strconv.Atoi(out)
	if err != nil || number != nil {
		t.Errorf("%s: commit %s: git rev-list said %q, %v", page, commit, out, err)
	} else if behind > commitsMax {
		t.Errorf("%s: commit %s is %d commits old, at most %d: measure anew (make scenarios, make torture TORTURE=1h OUT=results/torture)", page, commit, behind, commitsMax)
	}
}

// git runs it at the top of this repository.
func git(args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", "../.."}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func TestBenchNamesExist(t *testing.T) {
	page, makefile := readPage(t, "bench/README.md"), readPage(t, "Makefile")
	var sources, faults string
	for _, pattern := range []string{"../../bench/*.go", "../../bench/torture/*.go", "../../bench/peers/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") && !strings.Contains(file, "peers") {
				continue
			}
			sources += readPage(t, strings.TrimPrefix(file, "../../"))
		}
	}
	faults = readPage(t, "bench/torture/faults.go")
	quoted := func(name string) bool { return strings.Contains(sources, strconv.Quote(name)) }
	looked := map[string]int{}
	want := func(kind, name string, exists bool) {
		looked[kind]++
		if !exists {
			t.Errorf("bench/README.md names the %s %s, and there is none", kind, name)
		}
	}
	targets := strings.Fields(regexp.MustCompile(`(?m)^\.PHONY: (.*)$`).FindStringSubmatch(makefile)[1])
	for _, m := range regexp.MustCompile("`make ([a-z-]+)([^`]*)`").FindAllStringSubmatch(page, -1) {
		want("target", m[1], slices.Contains(targets, m[1]))
	}
	for _, m := range regexp.MustCompile(`\b([A-Z]{2,})=([a-z0-9]+)`).FindAllStringSubmatch(page, -1) {
		want("variable of make", m[1], strings.Contains(makefile, "$("+m[1]+")"))
		want("value of "+m[1], m[2], m[1] != "PLANTED" || quoted(m[2]))
	}
	for _, m := range regexp.MustCompile(`--([a-z][a-z-]+)`).FindAllStringSubmatch(page, -1) {
		want("flag", "--"+m[1], m[1] == "help" || quoted(m[1]))
	}
	for _, m := range regexp.MustCompile(`--scenarios ([a-z,]+)`).FindAllStringSubmatch(page, -1) {
		for name := range strings.SplitSeq(m[1], ",") {
			want("scenario", name, quoted(name))
		}
	}
	for _, m := range regexp.MustCompile(`--only ([a-z,]+)`).FindAllStringSubmatch(page, -1) {
		for word := range strings.SplitSeq(m[1], ",") {
			want("fault", word, regexp.MustCompile(`\{"[^"]*`+word+`[^"]*", family`).MatchString(faults))
		}
	}
	for _, m := range regexp.MustCompile("`([a-z][\\w./-]*)`").FindAllStringSubmatch(page, -1) {
		name := m[1]
		if strings.ContainsAny(name, "./") {
			want("file", name, slices.ContainsFunc([]string{"", "bench", "bench/results"}, func(dir string) bool {
				_, err := os.Stat(filepath.Join("../..", dir, name))
				return err == nil
			}))
		} else if _, err := os.Stat(filepath.Join("../../bench", name)); err != nil {
			want("word", name, quoted(name) || name == "ttl")
		}
	}
	for _, kind := range []string{"target", "variable of make", "flag", "scenario", "fault", "file", "word"} {
		if looked[kind] == 0 {
			t.Errorf("bench/README.md names no %s: the test looks in the wrong way", kind)
		}
	}
	// What it quotes of the torture is in its report.
	verdict := regexp.MustCompile(`\*\*(violations = [^*]*)\*\*`).FindStringSubmatch(readPage(t, "bench/results/torture/report.md"))
	if verdict == nil || !strings.Contains(strings.Join(strings.Fields(page), " "), verdict[1]) {
		t.Errorf("bench/README.md does not quote the verdict of results/torture/report.md: %v", verdict)
	}
}
