//go:build !race

package redlock

// Goal: in the files of generatedFiles, no rule can be broken without a test that fails, whether somebody thought of it or not. Method: mutants are made
// by rule (mutation_generated_test.go). Each test runs once alone, to see which mutants it comes across, and how long it takes. Then each
// mutant is turned on in turn, for those tests, the fastest first, until one fails, and then for seeds of the simulation. testdata/mutants.txt is what came of it: `make
// mutants-generated` renews it. What survives is code that does nothing, or lacks a test, or is explained below.

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/redisproc"
)

// generatedFiles are the files whose mutants are made by rule.
var generatedFiles = []string{
	"quorum/*.go", "fence/*.go", "op_undo.go", "op_change.go", "op_commit.go", "hold*.go", "master_guard.go", "master_clock.go", "master_clamp.go", "clock/*.go",
	"member/*.go", "member/survey/*.go", "member/copying/*.go", "member/coordinator/*.go", "member/admin/*.go", "lua/*.lua",
}

const generatedReport = "testdata/mutants.txt"

// TestGeneratedMutants renews the report, for the files that FILES names (as "hold.go lua/undo.lua"), or for all. AGAIN=1 runs only the mutants that
// survive in the report, or have not run, and MUTANT=hold.go:12 only those whose names begin so, which the report does not show: both for all tests, however long.
func TestGeneratedMutants(t *testing.T) {
	redisproc.Release(t)
	redisproc.Need(t, "redis-server", "redis-cli") // for tests that kill mutants
	files := filesWithGenerated(t)
	wanted := files
	if names := strings.Fields(os.Getenv("FILES")); len(names) > 0 {
		wanted = names
	}
	for _, name := range wanted {
		if !slices.Contains(files, name) {
			t.Fatalf("FILES: mutants are not made of %q, but of: %s", name, strings.Join(files, " "))
		}
	}
	mutants, sources := generate(t, files)
	of := slices.DeleteFunc(slices.Clone(mutants), func(m *generated) bool { return !slices.Contains(wanted, m.file) })
	only, again := os.Getenv("MUTANT"), os.Getenv("AGAIN") != ""
	left := reportedSurvivors()
	run := slices.DeleteFunc(slices.Clone(of), func(m *generated) bool {
		return !strings.HasPrefix(m.name, only) || again && (!left[m.file][m.key] || equivalent[m.file][m.key] != "")
	})
	if len(run) == 0 && !again {
		if len(wanted) > 1 {
			t.Fatalf("MUTANT: no mutant's name begins with %q; with FILES=hold.go all of that file are listed", only)
		}
		var names []string
		for _, m := range of {
			names = append(names, m.name)
		}
		t.Fatalf("MUTANT: no mutant's name begins with %q, but there are:\n%s", only, strings.Join(names, "\n"))
	}
	g := &generatedRun{t: t, killers: map[string][]*generatedTest{}, outcome: map[*generated]string{}, unfinished: map[*generated]string{}, most: testsMost}
	if again || only != "" {
		g.most = time.Hour
	}
	for _, m := range of {
		if g.most > testsMost && !left[m.file][m.key] {
			g.outcome[m] = "an earlier run"
		}
	}
	g.compile(sources, mutants)
	g.measure()
	for _, file := range wanted {
		another := func(m *generated) bool { return m.file != file }
		report := func() {
			if only == "" {
				g.report(file, slices.DeleteFunc(slices.Clone(of), another))
			}
		}
		g.runAll(slices.DeleteFunc(slices.Clone(run), another), report)
		report()
	}
	for _, key := range slices.Sorted(maps.Keys(g.tests)) {
		test := g.tests[key]
		t.Logf("test %s: %v, meets %d, first to kill %d", key, test.Took.Round(time.Millisecond), len(test.meets), test.kills)
	}
}

func (g *generatedRun) hasRun(m *generated) bool {
	_, ok := g.outcome[m]
	return ok
}

// filesWithGenerated are the files of generatedFiles.
func filesWithGenerated(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range generatedFiles {
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

// TestExplanations finds the mutant of every explanation.
func TestExplanations(t *testing.T) {
	mutants, _ := generate(t, filesWithGenerated(t))
	keys := map[string]map[string]bool{}
	for _, m := range mutants {
		if keys[m.file] == nil {
			keys[m.file] = map[string]bool{}
		}
		keys[m.file][m.key] = true
	}
	for file, reasons := range equivalent {
		for key := range reasons {
			if !keys[file][key] {
				t.Errorf("%s: an explanation is about %q, and there is no such mutant", file, key)
			}
		}
	}
}

// generatedTest is a test that may kill mutants.
type generatedTest struct {
	Name  string
	Room  string
	Hash  string
	Took  time.Duration
	Meets []string // mutants, and scripts by their SHA1

	file   string
	meets  map[string]bool
	binary string
	kills  int
}

type generatedRun struct {
	t        *testing.T
	binaries map[string]string // by room
	mu       sync.Mutex
	tests    map[string]*generatedTest
	killers  map[string][]*generatedTest // by file and function: what has killed mutants there, the latest first
	outcome  map[*generated]string       // what has killed it; "" if it survives

	most       time.Duration         // of a processor, for a mutant
	unfinished map[*generated]string // of those that survive: how many tests there was time for, or that there is none
	lastTime   map[string]string     // the test that killed it in an earlier run, by file and key
}

const (
	generatedSlots = 4               // processes at a time: many tests wait for most of their time
	testMost       = time.Minute     // a test that takes longer kills nothing here
	testsMost      = 6 * time.Second // of a processor, for a mutant: the report says where that was not enough for all tests
	explainedMost  = time.Second     // of a processor, for one that is explained
	generatedSeeds = 11              // of the simulation, one of each profile, for a mutant that no other test has killed
)

// bySimulation names the simulation as what kills a mutant.
const bySimulation = "TestSimulation"

// compile builds the tests of all rooms with all mutants.
func (g *generatedRun) compile(sources map[string]string, mutants []*generated) {
	rooms := append([]string{"lua", "memmaster"}, mutantRooms...)
	addSwitch(sources, generatedSwitch, rooms)
	replace := func(file, old, new string) {
		text, err := os.ReadFile(file)
		if err != nil {
			g.t.Fatal(err)
		}
		if strings.Count(string(text), old) != 1 {
			g.t.Fatalf("%s does not have %q once", file, old)
		}
		sources[file] = strings.Replace(string(text), old, new, 1)
	}
	replace("lua/lua.go", "files.ReadFile(", "readFile(")
	replace("memmaster/script.go", "\treply, _ := script.Run(", "\tisMutant(script.SHA)\n\treply, _ := script.Run(")
	var scripts strings.Builder
	for _, m := range mutants {
		if filepath.Ext(m.file) == ".lua" {
			fmt.Fprintf(&scripts, "\t%q: {%q, %d, %d, %q},\n", m.name, filepath.Base(m.file), m.edits[0].from, m.edits[0].to, m.edits[0].text)
		}
	}
	sources["lua/mutant_scripts.go"] = fmt.Sprintf(generatedScripts, scripts.String())
	g.binaries = compileMutants(g.t, sources, slices.DeleteFunc(slices.Clone(mutantRooms), func(room string) bool {
		tests, _ := filepath.Glob(filepath.Join(room, "*_test.go"))
		return len(tests) == 0 // those of the engine test it
	})...)
}

const generatedScripts = `package lua

var mutatedScripts = map[string]struct {
	file     string
	from, to int
	text     string
}{
%s}

func readFile(name string) ([]byte, error) {
	text, err := files.ReadFile(name)
	if m := mutatedScripts[mutantOn]; m.file == name {
		return []byte(string(text[:m.from]) + m.text + string(text[m.to:])), err
	}
	return text, err
}
`

// measure runs each test alone. A table in the cache of the user has what it found, and spares the time where neither the code nor the test has changed.
func (g *generatedRun) measure() {
	known := map[string]*generatedTest{}
	readCached("redlockd-generated-mutants.json", &known)
	code, texts := hashOfCode(g.t), textsOfTests(g.t)
	dir := g.t.TempDir()
	var all []*generatedTest
	for room, binary := range g.binaries {
		for name := range strings.FieldsSeq(run(g.t, binary, "-test.list", "^(Test|Example|Fuzz)")) {
			if name == bySimulation || name == "TestWalk" || name == "TestPlayRepeats" { // the first and the last run the simulation
				continue
			}
			all = append(all, &generatedTest{Name: name, Room: room, Hash: hashOf(code + texts[room+" "+name].text), file: texts[room+" "+name].file, binary: binary})
		}
	}
	g.parallel(len(all), func(i int) {
		test := all[i]
		if old := known[test.Room+" "+test.Name]; old != nil && old.Hash == test.Hash {
			test.Took, test.Meets = old.Took, old.Meets
			return
		}
		file := filepath.Join(dir, fmt.Sprint(i))
		begin := time.Now()
		output, _, err := g.execute("none", []*generatedTest{test}, testMost, "REDLOCK_MUTANTS_TO_FILE="+file)
		test.Took = time.Since(begin)
		if err != nil {
			test.Hash = ""
			g.t.Logf("%s kills nothing: without a mutant it fails, or takes longer than %v:\n%s", test.Name, testMost, output)
			return
		}
		if text, err := os.ReadFile(file); err == nil {
			test.Meets = strings.Split(strings.TrimSpace(string(text)), "\n")
		}
	})
	var sum time.Duration
	table := map[string]*generatedTest{}
	for _, test := range all {
		table[test.Room+" "+test.Name] = test
		if len(test.Meets) > 0 {
			sum += test.Took
			test.meets = map[string]bool{}
			for _, name := range test.Meets {
				test.meets[name] = true
			}
		}
	}
	g.tests = table
	writeCached("redlockd-generated-mutants.json", table)
	g.t.Logf("%d tests; those that come across mutants take %v", len(g.tests), sum.Round(time.Second))
}

func readCached(name string, value any) {
	if dir, err := os.UserCacheDir(); err == nil {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			json.Unmarshal(text, value)
		}
	}
}

func writeCached(name string, value any) {
	if dir, err := os.UserCacheDir(); err == nil {
		if text, err := json.Marshal(value); err == nil {
			os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
	}
}

// hashOfCode is that of all files but tests.
func hashOfCode(t *testing.T) string {
	var all strings.Builder
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err == nil && (ext == ".lua" || ext == ".go" && !strings.HasSuffix(path, "_test.go")) {
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hashOf(all.String())
}

func hashOf(text string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(text))) }

// textsOfTests are the functions, by room and name.
func textsOfTests(t *testing.T) map[string]struct{ file, text string } {
	texts := map[string]struct{ file, text string }{}
	for _, file := range filesOf(t, "*_test.go") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range regexp.MustCompile(`(?ms)^func (\w+)\(.*?^}`).FindAllSubmatch(text, -1) {
			texts[filepath.Dir(file)+" "+string(f[1])] = struct{ file, text string }{file, string(f[0])}
		}
	}
	return texts
}

// parallel calls do for 0 to n-1.
func (g *generatedRun) parallel(n int, do func(int)) {
	var wait sync.WaitGroup
	next := make(chan int)
	for range generatedSlots {
		wait.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
}

// execute runs tests of one binary with a mutant. The limits of memory and of the processor end one that never stops to allocate, or stops at all.
func (g *generatedRun) execute(mutant string, tests []*generatedTest, limit time.Duration, env ...string) (output string, used time.Duration, err error) {
	var names []string
	for _, test := range tests {
		names = append(names, test.Name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `ulimit -v 8000000; ulimit -t 120; exec "$@"`, "sh", tests[0].binary,
		"-test.run", "^("+strings.Join(names, "|")+")$", "-test.failfast", "-test.timeout", limit.String())
	cmd.Dir = tests[0].Room
	cmd.Env = append(os.Environ(), "REDLOCK_TESTS=", "REDLOCK_MUTANT="+mutant)
	cmd.Env = append(cmd.Env, env...)
	text, err := cmd.CombinedOutput()
	return string(text), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// runAll runs the mutants, and reports after each, so that the report keeps what an interrupted run has done. What kills them is in the cache of the user as well: it comes first the next time.
func (g *generatedRun) runAll(mutants []*generated, report func()) {
	g.lastTime = map[string]string{}
	readCached("redlockd-generated-killers.json", &g.lastTime)
	g.parallel(len(mutants), func(i int) {
		m := mutants[i]
		begin := time.Now()
		killer := g.kill(m)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.outcome[m] = killer
		if killer != "" {
			g.lastTime[m.file+" "+m.key] = killer
			writeCached("redlockd-generated-killers.json", g.lastTime)
		}
		report()
		if testing.Verbose() {
			g.t.Logf("%s: %s: %s (%v)", m.name, m.key, cmp.Or(killer, "survives"+g.unfinished[m]), time.Since(begin).Round(time.Millisecond))
		}
	})
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// kill runs the tests that come across a mutant, and returns the one that fails. One process has tests of about as long as all before them together,
// so that a mutant that dies at once costs little, and one that survives few processes. The tests of a rule that is marked in the line come first, then
// those that have killed others of the same function, then those of the file's own tests, and of files whose names begin like its own. Several mutants in one process were not worth it: nineteen of twenty die.
func (g *generatedRun) kill(m *generated) string {
	place := m.file
	if function, _, found := strings.Cut(m.key, ": "); found && filepath.Ext(m.file) != ".lua" {
		place += " " + function
	}
	g.mu.Lock()
	first, last, ofRule := slices.Clone(g.killers[place]), g.lastTime[m.file+" "+m.key], killersMarked(g.t, m)
	var tests []*generatedTest
	for _, test := range g.tests {
		if test.mayKill(m) {
			tests = append(tests, test)
		}
	}
	g.mu.Unlock()
	rank := func(test *generatedTest) int {
		if test.Name == last || slices.Contains(ofRule, test.Name) {
			return -1
		}
		if i := slices.Index(first, test); i >= 0 {
			return i
		}
		if strings.TrimSuffix(test.file, "_test.go") == strings.TrimSuffix(m.file, ".go") {
			return len(first)
		}
		if word, _, _ := strings.Cut(m.file, "_"); strings.HasPrefix(test.file, word+"_") {
			return len(first) + 1
		}
		return len(first) + 2
	}
	slices.SortFunc(tests, func(a, b *generatedTest) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a.Took, b.Took)) })
	if last == bySimulation && g.simulated(m) {
		return last
	}
	all, most := len(tests), g.most
	if equivalent[m.file][m.key] != "" {
		most = min(most, explainedMost)
	}
	if all == 0 {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.unfinished[m] = " (no test comes across it)"
	}
	var before, spent time.Duration
	for len(tests) > 0 {
		if spent >= most {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.unfinished[m] = fmt.Sprintf(" (%d of %d tests)", all-len(tests), all)
			break
		}
		var group, rest []*generatedTest
		var took time.Duration
		full := false
		for _, test := range tests {
			if full = full || len(group) > 0 && took+test.Took > max(before, 100*time.Millisecond); full || len(group) > 0 && test.binary != group[0].binary {
				rest = append(rest, test)
				continue
			}
			group = append(group, test)
			took += test.Took
		}
		output, used, err := g.execute(m.name, group, 10*time.Second+5*took)
		if err != nil {
			killer := group[0]
			if failed := failedTest.FindStringSubmatch(output); failed != nil {
				killer = cmp.Or(g.tests[killer.Room+" "+failed[1]], killer)
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			killer.kills++
			list := slices.DeleteFunc(g.killers[place], func(test *generatedTest) bool { return test == killer })
			g.killers[place] = slices.Insert(list, 0, killer)
			return killer.Name
		}
		before, spent = before+took, spent+used
		tests = rest
	}
	if g.most > testsMost && last != bySimulation && equivalent[m.file][m.key] == "" && g.simulated(m) {
		return bySimulation
	}
	return ""
}

// killersMarked are the tests of the rules that are marked in the line of the mutant.
func killersMarked(t *testing.T, m *generated) (tests []string) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		t.Fatal(err)
	}
	line, err := strconv.Atoi(strings.Split(m.name, ":")[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, mark := range mutantMark.FindAllStringSubmatch(strings.Split(string(text), "\n")[line-1], -1) {
		for _, rule := range mutants {
			if rule.name == mark[1] {
				tests = append(tests, strings.Split(rule.killers, "|")...)
			}
		}
	}
	return tests
}

// simulated tells whether the simulation fails with a mutant.
func (g *generatedRun) simulated(m *generated) bool {
	play := &generatedTest{Name: bySimulation, Room: ".", binary: g.binaries["."]}
	output, _, err := g.execute(m.name, []*generatedTest{play}, mutantLimit, fmt.Sprint(simSeeds, "=", generatedSeeds), simFirst+"=1", simSeed+"=", simBriefly+"=1")
	return err != nil && foundIn.MatchString(output)
}

// mayKill tells whether a test comes across a mutant. Of a script it is known whether masters have run it.
func (test *generatedTest) mayKill(m *generated) bool {
	if filepath.Ext(m.file) != ".lua" {
		return test.meets[m.name]
	}
	for _, sha := range scriptsWith(strings.TrimSuffix(filepath.Base(m.file), ".lua")) {
		if test.meets[sha] {
			return true
		}
	}
	return false
}

// scriptsWith are the SHA1s of the scripts that have a part.
func scriptsWith(part string) (shas []string) {
	for _, s := range append(slices.Clone(lua.Loaded), lua.Mint, lua.Prepare, lua.Accept, lua.Learn, lua.AdmitFloor) {
		if includes(s.Name, part) {
			shas = append(shas, s.SHA)
		}
	}
	return shas
}

func includes(script, part string) bool {
	if script == part {
		return true
	}
	text, _ := os.ReadFile("lua/" + script + ".lua")
	for _, m := range regexp.MustCompile(`--include (\w+)`).FindAllStringSubmatch(string(text), -1) {
		if includes(m[1], part) {
			return true
		}
	}
	return false
}

// reportedSections are those of the report, by file.
func reportedSections() map[string]string {
	sections := map[string]string{}
	text, _ := os.ReadFile(generatedReport)
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		file, _, _ := strings.Cut(section, ":")
		sections[file] = strings.TrimRight(section, "\n") + "\n"
	}
	return sections
}

// reportedSurvivors are the keys of mutants that survive in the report, by file.
func reportedSurvivors() map[string]map[string]bool {
	left := map[string]map[string]bool{}
	for file, section := range reportedSections() {
		left[file] = map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^(?:survives   |explained  |not run    )(.*?)(?: \((?:\d+ of \d+ tests|no test comes across it)\))?$`).FindAllStringSubmatch(section, -1) {
			left[file][m[1]] = true
		}
	}
	return left
}

// report writes the section of a file whose mutants have run. Those of other files stay.
func (g *generatedRun) report(file string, mutants []*generated) {
	var lines strings.Builder
	killed, explained, left, notYet := 0, 0, 0, 0
	for _, m := range mutants {
		reason := equivalent[file][m.key]
		switch {
		case g.outcome[m] != "":
			killed++
			if reason != "" {
				g.t.Errorf("%s: %q is explained, but %s kills it", file, m.key, g.outcome[m])
			}
		case reason != "":
			explained++
			fmt.Fprintf(&lines, "explained  %s\n           %s\n", m.key, reason)
		case !g.hasRun(m):
			notYet++
			fmt.Fprintf(&lines, "not run    %s\n", m.key)
		default:
			left++
			fmt.Fprintf(&lines, "survives   %s%s\n", m.key, g.unfinished[m])
		}
	}
	sections := reportedSections()
	sections[file] = fmt.Sprintf("%s: %d mutants, %d killed, %d explained, %d survive, %d not run\n%s", file, len(mutants), killed, explained, left, notYet, lines.String())
	var body, notRun string
	for _, file := range filesWithGenerated(g.t) {
		if sections[file] != "" {
			body += "\n## " + sections[file]
		} else {
			notRun += " " + file
		}
	}
	if notRun != "" {
		notRun = "Files that have not run:" + notRun + ".\n"
	}
	if err := os.WriteFile(generatedReport, []byte(generatedHead+notRun+body), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

const generatedHead = `Mutants that were made by rule (mutation_generated_test.go). "make mutants-generated" writes this file.
A line is a mutant that no test kills: function, rule, and the text that it changes. Where it names a number of tests, there was time for no more
(testsMost): AGAIN=1 runs them all, and the simulation.
`
