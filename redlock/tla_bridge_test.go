package redlock

// Goal: a reader goes from an action of a model to the code that implements it, and finds it there. Method: directly above each action stands a line
//
//	\* code: Client.askLocked, copying.Copy.settle, lua/acquire.lua; trace: Trace
//
// It names functions of this module (in the package redlock without the package), and scripts. What happens to the code instead of in it has `\* code: none: ` and
// what that is. Behind `trace: ` stand the modules by which recorded events must be steps of the action: sim_trace_check_test.go. The tests read text alone.

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// traceModules are the modules that traces are checked with. They repeat the actions of others.
var traceModules = []string{"Trace", "RecordTrace", "SharedTrace", "SlotsTrace"}

// tlaAction is an action of a model.
type tlaAction struct {
	name  string
	line  int    // of its definition, from 1
	above string // the line above
}

// tlaCode is what the line above an action says.
type tlaCode struct {
	functions []string
	none      string // what happens in place of them
	traces    []string
}

var (
	tlaDefinition = regexp.MustCompile(`^([A-Za-z]\w*)(\([^)]*\))? ==`)
	tlaWord       = regexp.MustCompile(`[A-Za-z]\w*`)
	tlaComment    = regexp.MustCompile(`\(\*.*?\*\)|\\\*.*`)
	tlaChanges    = regexp.MustCompile(`\w'|\bUNCHANGED\b`)
)

// tlaActions are the actions of a module: the definitions that Next lists and that change something. A definition that only lists others, as Next does, stands for
// these.
func tlaActions(text string) (actions []tlaAction) {
	lines := strings.Split(text, "\n")
	at, body := map[string]int{}, map[string]string{}
	last := ""
	for i, line := range lines {
		if found := tlaDefinition.FindStringSubmatch(line); found != nil {
			last = found[1]
			at[last] = i
			line = line[len(found[0]):]
		} else if strings.HasPrefix(line, "----") || strings.HasPrefix(line, "VARIABLES") || strings.HasPrefix(line, "CONSTANTS") {
			last = ""
		}
		if last != "" {
			body[last] += tlaComment.ReplaceAllString(line, "") + "\n"
		}
	}
	changes := map[string]bool{}
	for again := true; again; {
		again = false
		for name, text := range body {
			if !changes[name] && (tlaChanges.MatchString(text) || slices.ContainsFunc(tlaWord.FindAllString(text, -1), func(word string) bool { return changes[word] })) {
				changes[name], again = true, true
			}
		}
	}
	seen := map[string]bool{}
	var list func(name string)
	list = func(name string) {
		for _, word := range tlaWord.FindAllString(body[name], -1) {
			switch {
			case !changes[word] || seen[word]:
			case strings.HasPrefix(strings.TrimSpace(body[word]), `\/`):
				seen[word] = true
				list(word)
			default:
				seen[word] = true
				actions = append(actions, tlaAction{word, at[word] + 1, lines[max(0, at[word]-1)]})
			}
		}
	}
	list("Next")
	return actions
}

// tlaCodeOf reads the line above an action. An error says what to write there.
func tlaCodeOf(line string) (code tlaCode, err error) {
	text, is := strings.CutPrefix(line, `\* code: `)
	if !is {
		return code, fmt.Errorf(`the line above it is %q: write "\* code: " there and the functions that implement it, or "\* code: none: " and what happens`, line)
	}
	if none, is := strings.CutPrefix(text, "none: "); is {
		return tlaCode{none: none}, nil
	}
	text, traces, traced := strings.Cut(text, "; trace: ")
	code.functions = strings.Split(text, ", ")
	if traced {
		code.traces = strings.Split(traces, ", ")
	}
	return code, nil
}

// modelsInFiles are the modules of testdata/tla that have a Next.
func modelsInFiles(t *testing.T) map[string][]tlaAction {
	t.Helper()
	files, err := filepath.Glob("testdata/tla/*.tla")
	if err != nil {
		t.Fatal(err)
	}
	models := map[string][]tlaAction{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if actions := tlaActions(string(text)); len(actions) > 0 {
			models[strings.TrimSuffix(filepath.Base(file), ".tla")] = actions
		}
	}
	return models
}

// functionsOfTheModule are the names of all functions of the product, as the models write them.
func functionsOfTheModule(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bench" || len(d.Name()) > 2 && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		in := file.Name.Name + "."
		if in == "redlock." {
			in = ""
		}
		for _, decl := range file.Decls {
			if f, is := decl.(*ast.FuncDecl); is {
				names[in+receiverOf(f)+f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// receiverOf is the type of a method's receiver, with a point behind it.
func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	for {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.IndexExpr:
			of = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return ""
		}
	}
}

// Each action of a model says which code implements it, and that is there.
func TestModelsNameTheirCode(t *testing.T) {
	functions, models := functionsOfTheModule(t), modelsInFiles(t)
	all := 0
	for _, module := range slices.Sorted(maps.Keys(models)) {
		for _, action := range models[module] {
			where := fmt.Sprintf("testdata/tla/%s.tla:%d: action %s", module, action.line, action.name)
			code, err := tlaCodeOf(action.above)
			if err != nil {
				t.Errorf("%s: %v", where, err)
				continue
			}
			all++
			for _, name := range code.functions {
				there := functions[name]
				if strings.HasPrefix(name, "lua/") {
					_, err := os.Stat(name)
					there = err == nil
				}
				if !there {
					t.Errorf("%s names %s, which is not there: if it has another name now, write that; if it is gone, see whether the code still does what the action says, and name what does it",
						where, name)
				}
			}
			for _, trace := range code.traces {
				if !slices.Contains(traceModules, trace) {
					t.Errorf("%s names the trace %s: there are %s", where, trace, strings.Join(traceModules, ", "))
				}
			}
			if code.none != "" && untraced[module+"."+action.name] != "" {
				t.Errorf("%s is no code, so it needs no trace: take it out of untraced", where)
			}
		}
	}
	if all < 150 {
		t.Errorf("%d actions were found in %d models: the test does not read them any more", all, len(models))
	}
}

// An action that no trace constrains is in the list of these, with the reason. The list may only shrink.
func TestActionsHaveTraces(t *testing.T) {
	models, seen := modelsInFiles(t), map[string]bool{}
	for module, actions := range models {
		for _, action := range actions {
			name := module + "." + action.name
			code, err := tlaCodeOf(action.above)
			if err != nil || code.none != "" {
				continue // TestModelsNameTheirCode
			}
			seen[name] = true
			switch why := untraced[name]; {
			case len(code.traces) == 0 && why == "":
				t.Errorf(`%s has no trace: record its events (sim_trace_test.go) and write "; trace: " and the module behind its code, or say in untraced why there is none`, name)
			case len(code.traces) > 0 && why != "":
				t.Errorf("%s has a trace: take it out of untraced", name)
			}
		}
	}
	for name := range untraced {
		if !seen[name] {
			t.Errorf("untraced has %s, which is no action of a model any more: take it out", name)
		}
	}
	if len(untraced) != untracedMost {
		t.Errorf("%d actions have no trace, want %d: where they are fewer, lower untracedMost; where they are more, record what has come", len(untraced), untracedMost)
	}
}

// What the test finds wrong, it finds: in a module by hand.
func TestModelsWithoutTheirCode(t *testing.T) {
	text := `
VARIABLES x

(* A helper. *)
Low == x < 3
Set(v) == x' = v
\* code: Client.Lock, lua/acquire.lua; trace: Trace
Up == Low /\ Set(x + 1)
(* No line. *)
Down ==
  /\ x > 0 \* Up is not here
  /\ Set(x - 1)
\* code: none: time passes
Tick == UNCHANGED x
Step ==
  \/ Down
  \/ Tick

Next == Up \/ Step
`
	var got []string
	for _, action := range tlaActions(text) {
		code, err := tlaCodeOf(action.above)
		got = append(got, fmt.Sprintf("%s %d %q %q %q %t", action.name, action.line, code.functions, code.none, code.traces, err != nil))
	}
	want := []string{
		`Up 8 ["Client.Lock" "lua/acquire.lua"] "" ["Trace"] false`,
		`Down 10 [] "" [] true`,
		`Tick 14 [] "time passes" [] false`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if functions := functionsOfTheModule(t); !functions["Client.StartLock"] || !functions["copying.Copy.least"] || !functions["turns.served"] || functions["Client.startLock"] {
		t.Error("the functions of the module are not read as they are named")
	}
}

// Why an action has no trace.
const (
	noClocks  = "worlds that are traced have clocks that do not step: what a proxy reads of a master's clock is not recorded (TestSimulation has such worlds, and virtual_clock_test.go)"
	noReading = "a reading changes nothing on a master, and is not recorded"
	noBelief  = "what a proxy goes by is seen only in what it does under that: decisions are recorded with the record that they are under"
	noDropin  = "worlds that are traced have no drop-in clients"
	noWaiters = "which announcements a waiter counts on is not recorded; a waiter that is told late breaks no lock"
	noBounds  = "until when a master may execute a command is not recorded (master_late_test.go has what a late one may not do)"
	noRefusal = "it sends nothing: what the masters execute after it is what counts"
)

// untraced are the actions that no recorded event has to be a step of.
var untraced = map[string]string{
	"Adopt.Adopt": noBelief,
	"Adopt.Join":  noBelief,
	"Adopt.Start": noBelief,

	"Ceiling.Adopt": noBelief,
	"Ceiling.Note":  "notes of followers are not recorded",
	"Ceiling.Tell":  "notes of followers are not recorded",

	"Change.Begin": noBelief,

	"Clock.Back":    noClocks,
	"Clock.Clamp":   noClocks,
	"Clock.Count":   noClocks,
	"Clock.Front":   noClocks,
	"Clock.Lock":    noClocks,
	"Clock.Read":    noClocks,
	"Clock.Restart": noClocks,
	"Clock.Told":    noClocks,

	"ClockCopy.Begin":    noClocks,
	"ClockCopy.Demote":   noClocks,
	"ClockCopy.GiveUp":   noClocks,
	"ClockCopy.Look":     noClocks,
	"ClockCopy.Promote":  noClocks,
	"ClockCopy.ReadKey":  noClocks,
	"ClockCopy.Restart":  noClocks,
	"ClockCopy.TakeBack": noClocks,
	"ClockCopy.Told":     noClocks,
	"ClockCopy.Vote":     noClocks,
	"ClockCopy.Write":    noClocks,

	"Copy.Again":  noReading,
	"Copy.Begin":  noReading,
	"Copy.Change": noDropin,
	"Copy.Name":   noReading,
	"Copy.Read":   noReading,

	"Found.Begin": noBelief,
	"Found.Vote":  "when a proxy last reached the process behind an address is not recorded",

	"Hold.Ask": "that a KEEPALIVE was sent is not recorded, only what was answered",

	"Late.Answered":  noBounds,
	"Late.Ask":       noBounds,
	"Late.ComesLate": noBounds,
	"Late.GivenUp":   noBounds,
	"Late.InOrder":   noBounds,

	"Lock.Force": "worlds that are traced release nothing by force",

	"Members.Adopt": noBelief,
	"Members.Begin": noBelief,

	"Shared.Fail": noRefusal,
	"Shared.Quit": noRefusal,

	"Silence.Start": noBelief,
	"Silence.Tick":  "whom a proxy has heard is not recorded; a founding that came too early is refused (Found.Found)",

	"Slots.Begin": "a round may ask for any slot; which votes count for it is seen when it is decided (Slots.Grant)",
	"Slots.Fail":  noRefusal,

	"Turns.HandsOver": noWaiters,
	"Turns.Window":    noWaiters,

	"Versions.Begin":  noDropin,
	"Versions.Decide": noDropin,
	"Versions.Help":   noDropin,
	"Versions.Make":   noDropin,
	"Versions.Repair": noDropin,
	"Versions.Undo":   noDropin,

	"Wake.Announce":  noWaiters,
	"Wake.Answer":    noWaiters,
	"Wake.Break":     noWaiters,
	"Wake.Decide":    noWaiters,
	"Wake.Launch":    noWaiters,
	"Wake.OwnChange": noWaiters,
	"Wake.OwnRemove": noWaiters,
	"Wake.Subscribe": noWaiters,
}

// untracedMost is how many they are.
const untracedMost = 64
