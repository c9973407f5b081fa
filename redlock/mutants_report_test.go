//go:build !race

package redlock

// Goal: testdata/mutants.txt is never old, and no file's score gets worse. Method: it has a hash of each function and script, and what came of each of its
// mutants. TestMutantsReport compares the hashes with the code.

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	generatedReport = "testdata/mutants.txt"
	generatedFormat = "Mutants that were made by rule, format 2.\n"
	generatedHead   = generatedFormat + `"make mutants-generated" writes this file, and mutants_report_test.go reads it. "function" is a function, a variable or a script: its name, a hash
of its text, and what came of its mutants in their order: the test that kills it, "survives", "unmet" (no test comes across it) or "not-run".
What survives is listed below with its rule and the text that it changes. Where a number of tests stands there was time for no more (testsMost): AGAIN=all
runs them all, and the simulation. "at least" is the best score so far in percent, or 95.
`
	scoreWanted = 95 // percent of the mutants of a file that are killed or explained
)

// What came of a mutant, if no test has killed it.
const (
	survives = "survives" // or survives:38/45, of so many tests
	unmet    = "unmet"
	notRun   = "not-run"
)

// isKilled reports whether a test has killed a mutant. Where "killed" stands it is not known which.
func isKilled(outcome string) bool {
	return outcome != unmet && outcome != notRun && !isSurvivor(outcome)
}

func isSurvivor(outcome string) bool { return strings.HasPrefix(outcome, survives) }

// generatedResults are what the report says.
type generatedResults struct {
	notRun []string // files, or file:function: the list only gets shorter
	files  map[string]*fileResults
}

type fileResults struct {
	text                                         string // of the report
	mutants, killed, explained, survive, notRuns int
	least                                        int // its score must not fall below
	functions                                    map[string]functionResults
}

type functionResults struct {
	hash     string
	outcomes []string
}

// never reports whether a function may be without results.
func (r *generatedResults) never(file, function string) bool {
	return slices.Contains(r.notRun, file) || slices.Contains(r.notRun, file+":"+function)
}

// of returns what came of the mutants of a function, if it is as it was then, and has as many.
func (r *generatedResults) of(file string, p generatedPlace, mutants int) (outcomes []string, fresh bool) {
	if f := r.files[file]; f != nil && f.functions[p.name].hash == p.hash && len(f.functions[p.name].outcomes) == mutants {
		return f.functions[p.name].outcomes, true
	}
	return nil, false
}

// changed are the functions of a file that have changed since their mutants ran, are new, or gone.
func (r *generatedResults) changed(file string, places []generatedPlace) (names []string) {
	there, f := map[string]bool{}, r.files[file]
	for _, p := range places {
		there[p.name] = true
		if r.never(file, p.name) {
			continue
		}
		if f == nil || f.functions[p.name].hash != p.hash || slices.Contains(f.functions[p.name].outcomes, notRun) {
			names = append(names, p.name)
		}
	}
	if f != nil {
		for name := range f.functions {
			if !there[name] {
				names = append(names, name+" (gone)")
			}
		}
	}
	slices.Sort(names)
	return names
}

func (f *fileResults) score() int {
	if ran := f.mutants - f.notRuns; ran > 0 {
		return (f.killed + f.explained) * 100 / ran
	}
	return 100
}

var (
	resultsHead     = regexp.MustCompile(`^(\S+): (\d+) mutants, (\d+) killed, (\d+) explained, (\d+) survive, (\d+) not run; at least (\d+) %\n`)
	resultsFunction = regexp.MustCompile(`(?m)^function   (.+) ([0-9a-f]{8})((?: \S+)*)$`)
	resultsNotRun   = regexp.MustCompile(`(?m)^Not run yet: (.*)\.$`)
)

func readResults(t *testing.T) *generatedResults {
	t.Helper()
	text, err := os.ReadFile(generatedReport)
	if err != nil {
		t.Fatal(err)
	}
	r, err := parseResults(string(text))
	if err != nil {
		t.Fatalf("%s: %v", generatedReport, err)
	}
	return r
}

func parseResults(text string) (*generatedResults, error) {
	if !strings.HasPrefix(text, generatedFormat) {
		first, _, _ := strings.Cut(text, "\n")
		return nil, fmt.Errorf("begins with %q, and what reads it here wants %q: take the file and the tests of one commit", first, strings.TrimSpace(generatedFormat))
	}
	head, rest, _ := strings.Cut(text, "\n## ")
	r := &generatedResults{files: map[string]*fileResults{}}
	if list := resultsNotRun.FindStringSubmatch(head); list != nil {
		r.notRun = strings.Fields(list[1])
	}
	for section := range strings.SplitSeq(rest, "\n## ") {
		if section == "" {
			continue
		}
		section = strings.TrimRight(section, "\n") + "\n"
		m := resultsHead.FindStringSubmatch(section)
		if m == nil {
			first, _, _ := strings.Cut(section, "\n")
			return nil, fmt.Errorf("%q is no heading of a file", first)
		}
		f := &fileResults{text: section, functions: map[string]functionResults{}}
		for i, number := range []*int{&f.mutants, &f.killed, &f.explained, &f.survive, &f.notRuns, &f.least} {
			*number, _ = strconv.Atoi(m[i+2])
		}
		for _, m := range resultsFunction.FindAllStringSubmatch(section, -1) {
			is := functionResults{hash: m[2]}
			for outcome := range strings.FieldsSeq(m[3]) {
				outcome, count, several := strings.Cut(outcome, "*")
				n, err := strconv.Atoi(count)
				if several && err != nil {
					return nil, fmt.Errorf("%s: %q is no number of mutants", m[1], count)
				}
				is.outcomes = append(is.outcomes, slices.Repeat([]string{outcome}, max(n, 1))...)
			}
			f.functions[m[1]] = is
		}
		r.files[m[1]] = f
	}
	return r, nil
}

// line is how the report says what came of the mutants of a function.
func (f functionResults) line(name string) string {
	line := "function   " + name + " " + f.hash
	for i := 0; i < len(f.outcomes); {
		n := 1
		for i+n < len(f.outcomes) && f.outcomes[i+n] == f.outcomes[i] {
			n++
		}
		line += " " + f.outcomes[i]
		if n > 1 {
			line += fmt.Sprintf("*%d", n)
		}
		i += n
	}
	return line + "\n"
}

// report puts what is known of the mutants of a file into the results. Of a function that has changed, and whose mutants have not run since, the line
// stays as it is.
func (r *generatedResults) report(file string, places []generatedPlace, mutants []*generated, outcome map[*generated]string) {
	before := r.files[file]
	f := &fileResults{functions: map[string]functionResults{}}
	var lines strings.Builder
	for _, p := range places {
		is := functionResults{hash: p.hash}
		var left strings.Builder
		ran := 0
		for _, m := range mutants {
			if m.function != p.name {
				continue
			}
			result := outcome[m]
			if result == "" {
				result = notRun
			}
			is.outcomes = append(is.outcomes, result)
			reason := equivalent[file][m.key]
			f.mutants++
			switch {
			case result == notRun:
				f.notRuns++
				continue
			case isKilled(result):
				f.killed++
			case reason != "":
				f.explained++
				fmt.Fprintf(&left, "explained  %s\n           %s\n", m.key, reason)
			case result == unmet:
				f.survive++
				fmt.Fprintf(&left, "survives   %s (no test comes across it)\n", m.key)
			default:
				f.survive++
				tests := ""
				if _, of, some := strings.Cut(result, ":"); some {
					tests = " (" + strings.Replace(of, "/", " of ", 1) + " tests)"
				}
				fmt.Fprintf(&left, "survives   %s%s\n", m.key, tests)
			}
			ran++
		}
		if ran == 0 && len(is.outcomes) > 0 {
			if r.never(file, p.name) {
				r.notRun = append(r.notRun, file+":"+p.name)
				continue
			}
			if before != nil && before.functions[p.name].hash != "" {
				is = before.functions[p.name]
			}
		}
		r.notRun = slices.DeleteFunc(r.notRun, func(name string) bool { return name == file+":"+p.name })
		f.functions[p.name] = is
		lines.WriteString(is.line(p.name) + left.String())
	}
	best := min(f.score(), scoreWanted)
	switch {
	case before != nil && f.notRuns == 0:
		f.least = max(before.least, best)
	case before != nil:
		f.least = before.least
	case slices.Contains(r.notRun, file):
		if f.notRuns == 0 {
			f.least = best
		}
	default:
		f.least = scoreWanted
	}
	r.notRun = slices.DeleteFunc(r.notRun, func(name string) bool { return name == file })
	f.text = fmt.Sprintf("%s: %d mutants, %d killed, %d explained, %d survive, %d not run; at least %d %%\n%s",
		file, f.mutants, f.killed, f.explained, f.survive, f.notRuns, f.least, lines.String())
	r.files[file] = f
}

// String is the report, with the files in this order.
func (r *generatedResults) String(files []string) string {
	var text strings.Builder
	text.WriteString(generatedHead)
	slices.Sort(r.notRun)
	if list := slices.Compact(r.notRun); len(list) > 0 {
		fmt.Fprintf(&text, "Not run yet: %s.\n", strings.Join(list, " "))
	}
	for _, file := range files {
		if f := r.files[file]; f != nil {
			text.WriteString("\n## " + f.text)
		}
	}
	return text.String()
}

// TestMutantsReport names what has changed since its mutants ran, and each file whose score has become worse.
func TestMutantsReport(t *testing.T) {
	r := readResults(t)
	files := filesWithGenerated(t)
	var below []string
	for _, file := range files {
		f := r.files[file]
		if f == nil {
			if !slices.Contains(r.notRun, file) {
				t.Errorf("%s: its mutants have not run: `make mutants-generated CHANGED=1` runs them", file)
			}
			continue
		}
		if changed := r.changed(file, placesInFile(t, file)); len(changed) > 0 {
			t.Errorf("%s has changed since its mutants ran: %s. `make mutants-generated CHANGED=1` runs these alone", file, strings.Join(changed, ", "))
		}
		if f.score() < f.least && f.notRuns == 0 {
			t.Errorf("%s: %d %% of its mutants are killed or explained, and it was %d %%: kill the survivors that %s lists", file, f.score(), f.least, generatedReport)
		}
		if f.score() < scoreWanted {
			below = append(below, fmt.Sprintf("%s %d", file, f.score()))
		}
	}
	for _, file := range slices.Sorted(maps.Keys(r.files)) {
		if !slices.Contains(files, file) {
			t.Errorf("%s has results of %s, of which no mutants are made: delete its section", generatedReport, file)
		}
	}
	for _, name := range r.notRun {
		if file, _, _ := strings.Cut(name, ":"); !slices.Contains(files, file) {
			t.Errorf("%s says that %s has not run, and no mutants are made of it: delete the name", generatedReport, name)
		}
	}
	t.Logf("%d files, %d of them or of their functions have not run: %s", len(files), len(r.notRun), strings.Join(r.notRun, " "))
	t.Logf("%d files are below %d %%: %s", len(below), scoreWanted, strings.Join(below, ", "))
}

// TestMutantsResults writes results and reads them, and refuses those of another format.
func TestMutantsResults(t *testing.T) {
	r := &generatedResults{notRun: []string{"a.go", "c.go"}, files: map[string]*fileResults{}}
	places := []generatedPlace{{name: "T.one", hash: "01234567"}, {name: "two", hash: "89abcdef"}}
	var mutants []*generated
	outcome := map[*generated]string{}
	for i, result := range []string{"TestA", "TestA", survives + ":1/2", "member/TestB", unmet, survives} {
		m := &generated{file: "a.go", function: places[i/4].name, key: fmt.Sprint("key ", i)}
		mutants = append(mutants, m)
		outcome[m] = result
	}
	r.report("a.go", places, mutants, outcome)
	text := r.String([]string{"a.go"})
	want := generatedHead + `Not run yet: c.go.

## a.go: 6 mutants, 3 killed, 0 explained, 3 survive, 0 not run; at least 50 %
function   T.one 01234567 TestA*2 survives:1/2 member/TestB
survives   key 2 (1 of 2 tests)
function   two 89abcdef unmet survives
survives   key 4 (no test comes across it)
survives   key 5
`
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	again, err := parseResults(text)
	if err != nil {
		t.Fatal(err)
	}
	if got, fresh := again.of("a.go", places[0], 4); !fresh || !slices.Equal(got, []string{"TestA", "TestA", "survives:1/2", "member/TestB"}) {
		t.Errorf("read: %v, %v", got, fresh)
	}
	if _, fresh := again.of("a.go", generatedPlace{name: "two", hash: "00000000"}, 2); fresh {
		t.Error("what has changed is fresh")
	}
	if _, fresh := again.of("a.go", places[1], 3); fresh {
		t.Error("what has another number of mutants is fresh")
	}
	outcome[mutants[0]] = survives
	again.report("a.go", places, mutants, outcome)
	if f := again.files["a.go"]; f.score() != 33 || f.least != 50 {
		t.Errorf("score %d of at least %d, want 33 of 50", f.score(), f.least)
	}
	_, err = parseResults("Mutants that were made by rule, format 1.\n")
	if err == nil || !strings.Contains(err.Error(), "format 1") || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("another format: %v", err)
	}
}

// filesWithGenerated are the files of which mutants are made by rule.
func filesWithGenerated(t *testing.T) (files []string) {
	t.Helper()
	for _, group := range generatedGroups {
		files = append(files, group.list(t)...)
	}
	return files
}

// list are the files of a group.
func (group generatedGroup) list(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range group.files {
		names, err := filepath.Glob(pattern)
		if err != nil || names == nil {
			t.Fatal("no such files: ", pattern)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, "_test.go") {
				files = append(files, name)
			}
		}
	}
	return files
}
