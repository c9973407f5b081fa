//go:build !race

package redlock

// Goal: in the files of generatedGroups, no rule can be broken without a test that fails, whether somebody thought of it or not. Method: mutants are made
// by rule (mutation_generated_test.go). Each test runs once alone, to see which mutants it comes across, and how long it takes. Then each
// mutant is turned on in turn, for those tests, the fastest first, until one fails, and then for seeds of the simulation. testdata/mutants.txt is what came
// of it (mutants_report_test.go): `make mutants-generated` renews it. What survives is code that does nothing, or lacks a test, or is explained in
// mutants_explained_test.go.

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
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

// generatedGroup is files whose mutants are made by rule, as patterns, and the packages whose tests kill them, as folders. What a test of one group
// comes across in another has no mutants in it.
type generatedGroup struct{ files, rooms []string }

var generatedGroups = []generatedGroup{
	{
		files: []string{
			"*.go", "quorum/*.go", "fence/*.go", "clock/*.go", "conn/*.go",
			"member/*.go", "member/survey/*.go", "member/copying/*.go", "member/coordinator/*.go", "member/admin/*.go", "lua/*.lua",
		},
		rooms: mutantRooms,
	},
	{
		files: []string{"../proxy/exchange.go", "../proxy/script_*.go", "../proxy/slot.go", "../proxy/session.go", "../proxy/policy.go", "../proxy/keyspace/*.go", "../proxy/access/*.go"},
		rooms: []string{"../proxy", "../proxy/keyspace", "../proxy/access"},
	},
	{
		files: []string{"../cmd/redlockd/masters/*.go"},
		rooms: []string{"../cmd/redlockd/masters"},
	},
}

// TestGeneratedMutants renews the report, for the files that FILES names (as "hold.go lua/undo.lua"), or for all. CHANGED=1 runs only the mutants of
// functions that have changed since their run, or are new; NEW=1 also those of the list "Not run yet". AGAIN=1 runs those that survive in the report,
// or have not run: a test that kills them may have come since. AGAIN=all runs them, and MUTANT=hold.go:12 those whose names begin so, which the report
// does not show, for all tests, however long, and the simulation.
func TestGeneratedMutants(t *testing.T) {
	redisproc.Release(t)
	redisproc.Need(t, "redis-server", "redis-cli") // for tests that kill mutants
	wanted := wantedFiles(t)
	known := readResults(t)
	only, again, fresh, changed := os.Getenv("MUTANT"), os.Getenv("AGAIN") != "", os.Getenv("NEW") != "", os.Getenv("CHANGED") != ""
	g := &generatedRun{t: t, killers: map[string][]*generatedTest{}, outcome: map[*generated]string{}, lastTime: map[*generated]string{}, places: map[string][]generatedPlace{}, most: testsMost}
	if os.Getenv("AGAIN") == "all" || only != "" {
		g.most = time.Hour
	}
	for _, file := range wanted {
		g.places[file] = placesInFile(t, file)
	}
	if changed && !fresh { // the mutants of others need not be made
		wanted = slices.DeleteFunc(wanted, func(file string) bool { return len(known.changed(file, g.places[file])) == 0 })
	}
	g.all = generate(t, wanted)
	of := map[string][]*generated{} // by file and function
	for _, m := range g.all.mutants {
		of[m.place()] = append(of[m.place()], m)
	}
	var run []*generated
	for _, file := range wanted {
		for _, p := range g.places[file] {
			mutants := of[file+" "+p.name]
			outcomes, isFresh := known.of(file, p, len(mutants))
			for i, m := range mutants {
				is := notRun
				if isFresh {
					is = outcomes[i]
					g.lastTime[m] = is
				}
				var runs bool
				switch {
				case only != "":
					runs = strings.HasPrefix(m.name, only)
				case again:
					runs = is == notRun || !isKilled(is) && equivalent[m.file][m.key] == ""
				case fresh:
					runs = is == notRun
				case changed:
					runs = is == notRun && !known.never(file, p.name)
				default:
					runs = true
				}
				if runs {
					run = append(run, m)
				}
				if isFresh { // until it has run once more
					g.outcome[m] = is
				}
			}
		}
	}
	if len(run) == 0 && only != "" {
		if len(wanted) > 1 {
			t.Fatalf("MUTANT: no mutant's name begins with %q; with FILES=hold.go all of that file are listed", only)
		}
		var names []string
		for _, m := range g.all.mutants {
			names = append(names, m.name)
		}
		t.Fatalf("MUTANT: no mutant's name begins with %q, but there are:\n%s", only, strings.Join(names, "\n"))
	}
	t.Logf("%d of %d mutants run, in %d files", len(run), len(g.all.mutants), len(wanted))
	g.known = known
	if len(run) > 0 {
		files := map[string]bool{}
		for _, m := range run {
			files[m.file] = true
		}
		g.compile(slices.DeleteFunc(slices.Clone(g.all.mutants), func(m *generated) bool { return !files[m.file] }), nil)
		g.measure()
		g.runAll(run, only == "")
	}
	if only == "" {
		g.report(wanted)
	}
	for _, key := range slices.Sorted(maps.Keys(g.tests)) {
		if test := g.tests[key]; test.kills > 0 {
			t.Logf("test %s: %v, first to kill %d", key, test.Took.Round(time.Millisecond), test.kills)
		}
	}
}

// wantedFiles are those that FILES names, or all.
func wantedFiles(t *testing.T) []string {
	files := filesWithGenerated(t)
	wanted := strings.Fields(os.Getenv("FILES"))
	for _, name := range wanted {
		if !slices.Contains(files, name) {
			t.Fatalf("FILES: mutants are not made of %q, but of: %s", name, strings.Join(files, " "))
		}
	}
	if len(wanted) > 0 {
		return wanted
	}
	return files
}

// TestExplanations finds the mutant of every explanation, and as many mutants of each function as the report has.
func TestExplanations(t *testing.T) {
	all := generate(t, filesWithGenerated(t))
	keys, count := map[string]map[string]bool{}, map[string]int{}
	for _, m := range all.mutants {
		if keys[m.file] == nil {
			keys[m.file] = map[string]bool{}
		}
		keys[m.file][m.key] = true
		count[m.place()]++
	}
	for file, reasons := range equivalent {
		for key := range reasons {
			if !keys[file][key] {
				t.Errorf("%s: an explanation is about %q, and there is no such mutant", file, key)
			}
		}
	}
	for file, f := range readResults(t).files {
		for _, p := range placesInFile(t, file) {
			if is := f.functions[p.name]; is.hash == p.hash && len(is.outcomes) != count[file+" "+p.name] {
				t.Errorf("%s: %s has %d mutants, and in the report %d: `make mutants-generated NEW=1 FILES=%s` runs them anew", file, p.name, count[file+" "+p.name], len(is.outcomes), file)
			}
		}
	}
}

// generatedTest is a test that may kill mutants. A table of them in the cache of the user spares the time to measure them again.
type generatedTest struct {
	Name, Room string
	Hash       string // of its text
	Took       time.Duration
	Files      map[string]bool                // of which the mutants were there when it was measured
	Meets      map[string]map[string][]uint32 // by file and function: the mutants that it comes across, as hashes of their keys
	Scripts    []string                       // that masters in memory have executed for it

	file   string
	binary string
	kills  int
}

type generatedRun struct {
	t        *testing.T
	all      *generation
	known    *generatedResults
	places   map[string][]generatedPlace // by file
	binaries map[string]string           // by room
	mutated  map[string]bool             // the files that have their mutants in the binaries
	rooms    map[string][]string         // whose tests kill the mutants of a file
	mu       sync.Mutex
	tests    map[string]*generatedTest
	killers  map[string][]*generatedTest // by file and function, and by file: what has killed mutants there, the latest first
	outcome  map[*generated]string       // as in the report
	lastTime map[*generated]string       // that of an earlier run
	most     time.Duration               // of a processor, for a mutant
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

// compile builds the tests of the rooms of each group with these mutants: of all that come across them, or of those that are wanted.
func (g *generatedRun) compile(mutants []*generated, wanted map[string]bool) {
	g.binaries, g.mutated, g.rooms = map[string]string{}, map[string]bool{}, map[string][]string{}
	for _, m := range mutants {
		g.mutated[m.file] = true
	}
	for _, group := range generatedGroups {
		files := group.list(g.t)
		for _, file := range files {
			g.rooms[file] = group.rooms
		}
		of := slices.DeleteFunc(slices.Clone(mutants), func(m *generated) bool { return !slices.Contains(files, m.file) })
		if len(of) == 0 {
			continue
		}
		sources := g.all.sources(of)
		switched := map[string]bool{}
		for file := range sources {
			switched[filepath.Dir(file)] = true
		}
		if slices.Contains(files, "lua/acquire.lua") {
			switched["lua"], switched["memmaster"] = true, true
			g.scripts(sources, of)
		}
		addSwitch(sources, generatedSwitch, slices.Collect(maps.Keys(switched)))
		maps.Copy(g.binaries, compileMutants(g.t, sources, slices.DeleteFunc(slices.Clone(group.rooms), func(room string) bool {
			tests, _ := filepath.Glob(filepath.Join(room, "*_test.go"))
			return len(tests) == 0 || wanted != nil && !wanted[room] || !dependsOn(g.t, room, switched)
		})...))
	}
}

// dependsOn reports whether the tests of a room run code of one of the folders.
func dependsOn(t *testing.T, room string, folders map[string]bool) bool {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir := range strings.Lines(run(t, "go", "list", "-test", "-deps", "-f", "{{.Dir}}", "./"+room)) {
		if folder, err := filepath.Rel(here, strings.TrimSpace(dir)); err == nil && folders[folder] {
			return true
		}
	}
	return false
}

// scripts adds the mutants of scripts to the packages that load and execute them.
func (g *generatedRun) scripts(sources map[string]string, mutants []*generated) {
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

// measured is the table in the cache of the user: the tests by room and name, and the hashes of functions when all tests were measured for them.
type measured struct {
	Tests  map[string]*generatedTest
	Places map[string]string
}

const measuredFile = "redlockd-mutants-tests.json"

// measure runs tests alone: those that are new or have changed, and where a function has changed those that came across it before. To miss one that comes
// across it now is a mutant that survives, and no other harm.
func (g *generatedRun) measure() {
	var table measured
	readCached(measuredFile, &table)
	if table.Tests == nil {
		table = measured{map[string]*generatedTest{}, map[string]string{}}
	}
	byName, changed := map[string]*generated{}, map[string]bool{}
	for _, m := range g.all.mutants {
		byName[m.name] = m
	}
	for file := range g.mutated {
		for _, p := range g.places[file] {
			if filepath.Ext(file) != ".lua" && table.Places[file+" "+p.name] != p.hash {
				changed[file+" "+p.name] = true
			}
		}
	}
	dir := g.t.TempDir()
	g.tests = map[string]*generatedTest{}
	var again []*generatedTest
	for room, binary := range g.binaries {
		texts := textsOfTests(g.t, room)
		for name := range strings.FieldsSeq(run(g.t, binary, "-test.list", "^(Test|Example|Fuzz)")) {
			if slices.Contains([]string{bySimulation, "TestWalk", "TestPlayRepeats", "TestRepeatableBinaryStartsProcesses"}, name) { // they run the simulation, or others
				continue
			}
			key := room + " " + name
			test, hash := table.Tests[key], hashOf(texts[name].text)
			if test == nil || test.Hash != hash {
				test = &generatedTest{Name: name, Room: room, Files: map[string]bool{}, Meets: map[string]map[string][]uint32{}}
			}
			test.file, test.binary = texts[name].file, binary
			g.tests[key] = test
			for file := range g.mutated {
				if test.Hash == "" || slices.Contains(g.rooms[file], room) && (!test.Files[measuredAs(file)] || test.mayMeet(file, g.places[file], changed, table.Places)) {
					again = append(again, test)
					break
				}
			}
			test.Hash = hash
		}
	}
	g.t.Logf("%d of %d tests are measured", len(again), len(g.tests))
	g.parallel(len(again), func(i int) {
		test := again[i]
		file := filepath.Join(dir, fmt.Sprint(i))
		begin := time.Now()
		output, _, _, err := g.execute("none", []*generatedTest{test}, testMost, "REDLOCK_MUTANTS_TO_FILE="+file)
		test.Took = time.Since(begin)
		if err != nil {
			test.Hash = ""
			g.t.Logf("%s kills nothing: without a mutant it fails, or takes longer than %v:\n%s", test.Name, testMost, output)
			return
		}
		test.Scripts = nil
		test.Files[allScripts] = true
		for file := range g.mutated {
			test.Files[measuredAs(file)] = true
			delete(test.Meets, file)
		}
		text, _ := os.ReadFile(file)
		for name := range strings.SplitSeq(string(text), "\n") {
			if m := byName[name]; m != nil {
				if test.Meets[m.file] == nil {
					test.Meets[m.file] = map[string][]uint32{}
				}
				test.Meets[m.file][m.function] = append(test.Meets[m.file][m.function], m.id())
			} else if script := scriptOf(name); script != "" {
				test.Scripts = append(test.Scripts, script)
			}
		}
	})
	maps.Copy(table.Tests, g.tests)
	for file := range g.mutated {
		for _, p := range g.places[file] {
			table.Places[file+" "+p.name] = p.hash
		}
	}
	writeCached(measuredFile, table)
}

// measuredAs is the name of a file in generatedTest.Files. Which scripts a test executes is always found out.
func measuredAs(file string) string {
	if filepath.Ext(file) == ".lua" {
		return allScripts
	}
	return file
}

const allScripts = "lua/*.lua"

// mayMeet reports whether a test has come across one of the functions that have changed, or, for one that is new, across another of the file.
func (test *generatedTest) mayMeet(file string, places []generatedPlace, changed map[string]bool, known map[string]string) bool {
	return slices.ContainsFunc(places, func(p generatedPlace) bool {
		if !changed[file+" "+p.name] {
			return false
		}
		if known[file+" "+p.name] == "" {
			return len(test.Meets[file]) > 0
		}
		return len(test.Meets[file][p.name]) > 0
	})
}

// id stands for a mutant in the table of tests.
func (m *generated) id() uint32 { return crc32.ChecksumIEEE([]byte(m.key)) }

func (m *generated) place() string { return m.file + " " + m.function }

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

// textsOfTests are the functions of the tests of a room, by name.
func textsOfTests(t *testing.T, room string) map[string]struct{ file, text string } {
	texts := map[string]struct{ file, text string }{}
	files, _ := filepath.Glob(filepath.Join(room, "*_test.go"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range regexp.MustCompile(`(?ms)^func (\w+)\(.*?^}`).FindAllSubmatch(text, -1) {
			texts[string(f[1])] = struct{ file, text string }{file, string(f[0])}
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

// execute runs tests of one binary with a mutant. The limits of memory and of the processor end one that never stops to allocate, or stops at all. late
// says that the clock has ended it.
func (g *generatedRun) execute(mutant string, tests []*generatedTest, limit time.Duration, env ...string) (output string, used time.Duration, late bool, err error) {
	var names []string
	for _, test := range tests {
		names = append(names, test.Name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `ulimit -v 8000000; ulimit -t 120; exec "$@"`, "sh", tests[0].binary,
		"-test.run", "^("+strings.Join(names, "|")+")$", "-test.failfast", "-test.timeout", limit.String())
	cmd.Dir = tests[0].Room
	cmd.Env = append(os.Environ(), "REDLOCK_TESTS=", "REDLOCK_SKIPPED=", "GOGC=400", "REDLOCK_MUTANT="+mutant) // the collector is a fifth of the time
	cmd.Env = append(cmd.Env, env...)
	text, err := cmd.CombinedOutput()
	output = string(text)
	late = err != nil && (ctx.Err() != nil || strings.Contains(output, "panic: test timed out after"))
	return output, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), late, err
}

// fails runs tests that take so long with a mutant, and reports whether one fails. On a busy machine tests are late, and fail or are ended by the clock for
// that alone. So a failure after more than twice the time counts only if the same tests, straight after, pass without the mutant: in half the time, if the
// clock has ended them. If they do not, both run again with twice the time; after three times nothing is known.
func (g *generatedRun) fails(m *generated, tests []*generatedTest, took time.Duration) (output string, used time.Duration, failed bool) {
	limit := 10*time.Second + 5*took
	for range 3 {
		begin := time.Now()
		output, used, late, err := g.execute(m.name, tests, limit)
		if err == nil || time.Since(begin) < time.Second+2*took {
			return output, used, err != nil
		}
		control := limit
		if late {
			control /= 2
		}
		if _, _, _, err := g.execute("none", tests, control); err == nil {
			return output, used, true
		}
		limit *= 2
	}
	g.t.Logf("%s: the machine is too busy for %s", m.name, tests[0].Name)
	return "", 0, false
}

// runAll runs the mutants, and reports from time to time, so that the report keeps what an interrupted run has done.
func (g *generatedRun) runAll(mutants []*generated, report bool) {
	for of, names := range g.killersBefore(mutants) {
		for _, name := range names {
			if test := g.tests[name]; test != nil {
				g.killers[of] = append(g.killers[of], test)
			}
		}
	}
	unreported := map[string]bool{}
	last := time.Now()
	g.parallel(len(mutants), func(i int) {
		m := mutants[i]
		begin := time.Now()
		outcome := g.kill(m)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.outcome[m] = outcome
		if testing.Verbose() {
			g.t.Logf("%s: %s: %s (%v)", m.name, m.key, outcome, time.Since(begin).Round(time.Millisecond))
		}
		if reason := equivalent[m.file][m.key]; reason != "" && isKilled(outcome) {
			g.t.Errorf("%s: %q is explained, but %s kills it", m.file, m.key, outcome)
		}
		unreported[m.file] = true
		if report && time.Since(last) > 10*time.Second {
			g.report(slices.Collect(maps.Keys(unreported)))
			clear(unreported)
			last = time.Now()
		}
	})
}

// killersBefore are the tests that have killed mutants of a function, or of a file, in the report, as room and name.
func (g *generatedRun) killersBefore(mutants []*generated) map[string][]string {
	killers := map[string][]string{}
	add := func(of, file string, outcomes []string) {
		for _, outcome := range outcomes {
			if name := testOf(file, outcome); isKilled(outcome) && !slices.Contains(killers[of], name) {
				killers[of] = append(killers[of], name)
			}
		}
	}
	for _, m := range mutants {
		f := g.known.files[m.file]
		if f == nil || killers[m.file] != nil {
			continue
		}
		for function, is := range f.functions {
			add(m.file+" "+function, m.file, is.outcomes)
			add(m.file, m.file, is.outcomes)
		}
	}
	return killers
}

// testOf is the room and the name of a test that the report says kills a mutant of the file: that of its own package has no room there.
func testOf(file, outcome string) string {
	if i := strings.LastIndex(outcome, "/"); i >= 0 {
		return outcome[:i] + " " + outcome[i+1:]
	}
	return filepath.Dir(file) + " " + outcome
}

func (test *generatedTest) outcome(m *generated) string {
	if test.Room == filepath.Dir(m.file) {
		return test.Name
	}
	return test.Room + "/" + test.Name
}

// report writes what has come of the mutants of the files. The rest of the report stays as it is now.
func (g *generatedRun) report(files []string) {
	r := readResults(g.t)
	for _, file := range files {
		r.report(file, g.places[file], slices.DeleteFunc(slices.Clone(g.all.mutants), func(m *generated) bool { return m.file != file }), g.outcome)
	}
	if err := os.WriteFile(generatedReport, []byte(r.String(filesWithGenerated(g.t))), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// kill runs the tests that come across a mutant, and returns what came of it. One process has tests of about as long as all before them together,
// so that a mutant that dies at once costs little, and one that survives few processes. What killed it in an earlier run and the fast tests of a rule that is
// marked in the line come first, then those that have killed others of the same function, then of the same file, then the file's own tests, and those of files
// whose names begin like its own. Several mutants in one process were not worth it: nineteen of twenty die.
func (g *generatedRun) kill(m *generated) string {
	g.mu.Lock()
	first, last, ofRule := append(slices.Clone(g.killers[m.place()]), g.killers[m.file]...), testOf(m.file, g.lastTime[m]), killersMarked(g.t, m)
	var tests []*generatedTest
	for _, test := range g.tests {
		if test.Hash != "" && test.mayKill(m) {
			tests = append(tests, test)
		}
	}
	g.mu.Unlock()
	rank := func(test *generatedTest) int {
		switch {
		case test.Room+" "+test.Name == last:
			return -1
		case test.Took > testsMost/3: // or it leaves no time for others
			return len(first) + 3
		case slices.Contains(ofRule, test.Name):
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
	bySeeds := &generatedTest{Name: bySimulation, Room: ".", binary: g.binaries["."]}
	wasBySeeds := last == ". "+bySimulation
	if wasBySeeds && g.simulated(m) {
		return bySeeds.outcome(m)
	}
	all, most := len(tests), g.most
	if equivalent[m.file][m.key] != "" {
		most = min(most, explainedMost)
	}
	outcome := survives
	if all == 0 {
		outcome = unmet
	}
	var before, spent time.Duration
	for len(tests) > 0 {
		if spent >= most {
			outcome = fmt.Sprintf("%s:%d/%d", survives, all-len(tests), all)
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
		output, used, failed := g.fails(m, group, took)
		if failed {
			killer := group[0]
			if name := failedTest.FindStringSubmatch(output); name != nil {
				killer = cmp.Or(g.tests[killer.Room+" "+name[1]], killer)
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			killer.kills++
			for _, of := range []string{m.place(), m.file} {
				list := slices.DeleteFunc(g.killers[of], func(test *generatedTest) bool { return test == killer })
				g.killers[of] = slices.Insert(list, 0, killer)
			}
			return killer.outcome(m)
		}
		before, spent = before+took, spent+used
		tests = rest
	}
	if g.most > testsMost && !wasBySeeds && equivalent[m.file][m.key] == "" && g.simulated(m) {
		return bySeeds.outcome(m)
	}
	return outcome
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
	binary := g.binaries["."]
	if binary == "" || !slices.Contains(g.rooms[m.file], ".") {
		return false
	}
	play := &generatedTest{Name: bySimulation, Room: ".", binary: binary}
	output, _, _, err := g.execute(m.name, []*generatedTest{play}, mutantLimit, fmt.Sprint(simSeeds, "=", generatedSeeds), simFirst+"=1", simSeed+"=", simBriefly+"=1")
	return err != nil && foundIn.MatchString(output)
}

// mayKill tells whether a test comes across a mutant. Of a script it is known whether masters have run it.
func (test *generatedTest) mayKill(m *generated) bool {
	if filepath.Ext(m.file) != ".lua" {
		return slices.Contains(test.Meets[m.file][m.function], m.id())
	}
	return slices.ContainsFunc(test.Scripts, func(script string) bool { return includes(script, m.function) })
}

// scriptOf is the name of the script with a SHA1.
func scriptOf(sha string) string {
	for _, s := range append(slices.Clone(lua.Loaded), lua.Mint, lua.Prepare, lua.Accept, lua.Learn, lua.AdmitFloor) {
		if s.SHA == sha {
			return s.Name
		}
	}
	return ""
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
