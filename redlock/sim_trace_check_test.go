//go:build !race

package redlock

// Goal: what the engine does is what testdata/tla/Lock.tla allows. Method: the simulation runs without readers and drop-in clients, and records what masters executed and
// what callers were told (sim_trace_test.go); TLC checks that each event is an action of the model.

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/redisproc"
)

// traceSeeds is the environment variable that says how many seeds TestTraceModel and TestRecordTraceModel record.
const traceSeeds = "REDLOCK_TRACE_SEEDS"

// tracedProfiles are those whose faults the model of locks has: masters that forget, networks that are slow or broken, proxies that die, clocks that drift,
// changes of the membership. The clocks do not step, and a name means the same master to all proxies.
var tracedProfiles = []string{"bad network", "amnesia", "proxies die", "rolling restart", "members change", "names move", "masters come back"}

// tracedSeeds are the first seeds of these profiles.
func tracedSeeds(profiles []string, count int) (seeds []uint64) {
	for seed := uint64(1); len(seeds) < count; seed++ {
		if slices.Contains(profiles, profileOf(seed).name) {
			seeds = append(seeds, seed)
		}
	}
	return seeds
}

// seedsToTrace is how many seeds to record: few in each `make test-all`, 1 with a mutant, or as many as is asked for.
func seedsToTrace(t *testing.T, few, large int) int {
	t.Helper()
	n, err := seedsOf(os.Getenv(traceSeeds), os.Getenv(modelSize), os.Getenv("REDLOCK_MUTANT") != "", few, large)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func seedsOf(asked, size string, mutant bool, few, large int) (int, error) {
	switch {
	case size != "" && size != "large":
		return 0, fmt.Errorf(`%s=%q: want "large", or nothing for the small models`, modelSize, size)
	case asked != "":
		n, err := strconv.Atoi(asked)
		if err != nil || n < 1 {
			return 0, fmt.Errorf("%s=%q: want how many seeds to record, 1 or more", traceSeeds, asked)
		}
		return n, nil
	case mutant:
		return 1, nil
	case size == "large":
		return large, nil
	}
	return few, nil
}

// What asks for traces that there cannot be is refused in a sentence.
func TestSeedsToTrace(t *testing.T) {
	for _, c := range []struct {
		asked, size string
		mutant      bool
		want        int
		err         string
	}{
		{"", "", false, 2, ""},
		{"", "large", false, 60, ""},
		{"", "large", true, 1, ""},
		{"4", "large", true, 4, ""},
		{"0", "", false, 0, `REDLOCK_TRACE_SEEDS="0": want how many seeds to record, 1 or more`},
		{"all", "", false, 0, `REDLOCK_TRACE_SEEDS="all": want how many seeds to record, 1 or more`},
		{"", "huge", false, 0, `REDLOCK_MODEL="huge": want "large", or nothing for the small models`},
	} {
		got, err := seedsOf(c.asked, c.size, c.mutant, 2, 60)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%+v: got %d, %v", c, got, err)
		}
	}
}

// TestTraceModel checks what some seeds have recorded of locks, and traces by hand, of which the model must refuse those that are wrong. It must also refuse
// nearly all that is changed in the traces (sim_trace_change_test.go).
func TestTraceModel(t *testing.T) {
	redisproc.Long(t)
	needTLC(t)
	if inRepeatable(t) {
		return
	}
	var traces, slots []*trace
	for _, seed := range tracedSeeds(tracedProfiles, seedsToTrace(t, 1, 60)) {
		recorded := traceSeed(t, seed)
		traces, slots = append(traces, recorded.lockTraces()...), append(slots, recorded.slotsTrace())
	}
	changes := 0
	if os.Getenv("REDLOCK_MUTANT") == "" {
		for _, seed := range tracedSeeds(tracedProfiles, mildSeeds) {
			recorded := traceSeed(t, seed, mild)
			traces, slots = append(traces, recorded.lockTraces()...), append(slots, recorded.slotsTrace())
		}
		if changes = changesOfKind; os.Getenv("REDLOCK_TESTS") == "release" {
			changes *= 10
		}
		changeTraces(traces, changes, rand.New(rand.NewPCG(1, 1)))
	}
	kinds := map[traceKind]int{}
	for _, trace := range traces {
		for _, step := range trace.steps {
			kinds[step.kind]++
		}
	}
	for group := range slices.Chunk(traces, seedsAtOnce*len(tracedKeys)) {
		checkAll(t, lockTraces, group)
	}
	for group := range slices.Chunk(slots, seedsAtOnce*len(tracedKeys)) {
		checkAll(t, slotsTraces, group)
	}
	if changes > 0 {
		checkChanges(t, traces, changes)
	}
	t.Logf("%d traces, events: %v", len(traces), kinds)
	if kinds[traceGrant] < 5*len(traces) || len(traces) > 50 && (kinds[traceTakeover] == 0 || kinds[traceUndo] == 0) {
		t.Errorf("%v in %d traces: too few to prove anything", kinds, len(traces))
	}
}

const (
	// seedsAtOnce bounds what one TLC has to read.
	seedsAtOnce = 5
	// mildSeeds are recorded besides the others.
	mildSeeds = 10
	// changesOfKind are how many changes of a kind are made.
	changesOfKind = 12
)

// mild has a world be in order for most of the time, so that locks are granted.
func mild(w *world) { w.profile.pause *= 15 }

// traceModel is a module that traces are checked with.
type traceModel struct {
	modules   []string // the first one reads the traces
	constants func(t *testing.T) string
	byHand    []handTrace
	head      string // of the traces by hand
}

// handTrace is a short trace that the model must accept, or refuse for its last event.
type handTrace struct {
	name   string
	right  bool
	events []string
}

// lockTraces checks what happened to one key.
var lockTraces = traceModel{
	modules: []string{"Trace", "Replay", "Lock"},
	constants: func(t *testing.T) string {
		return fmt.Sprintf(`  Own <- OwnTokens
  Callers <- CallersTokens
  Nobody = 0
  Proxies = {1, 2, 3}
  Forcers = {}
  TTLs = {1}
  Slack = %d
  Move = %d
  MaxForgets = 0
  Again = TRUE
%s`, endSlackMs+1, lua.EndMoveMs, falseMutants(t, "Lock"))
	},
	byHand: tracesByHand,
	head:   "longest |-> 300, records |-> <<[quorum |-> 3, maxTTL |-> 300, masters |-> 1..5], [quorum |-> 3, maxTTL |-> 300, masters |-> 1..5]>>",
}

// checkAll demands that the model accepts these traces, and of those by hand the right ones.
func checkAll(t *testing.T, model traceModel, traces []*trace) {
	recorded := len(traces)
	for _, h := range model.byHand {
		traces = append(traces, &trace{name: h.name, head: model.head, events: h.events})
	}
	explained := false
	for i, accepted := range checkTraces(t, model, traces) {
		switch right := i < recorded || model.byHand[i-recorded].right; {
		case right && accepted != len(traces[i].events) && !explained:
			explained = true
			t.Error(whyRefused(t, model, traces[i]))
		case right && accepted != len(traces[i].events):
			t.Errorf("%s: the model refuses it, too", traces[i].name)
		case !right && accepted != len(traces[i].events)-1:
			t.Errorf("%s: the model accepts %d events, want all but the last", traces[i].name, accepted)
		}
	}
}

// tracesByHand are short traces: five masters get their votes, and then this happens.
var tracesByHand = []handTrace{
	{"a lock, its release, and the next one", true, byHand(granted(1, 1, 1286500), `<<"O",1200000,1>>`, `<<"R",1200500,1,1>>`, `<<"R",1201000,2,1>>`, `<<"R",1201000,3,1>>`, grantedAt(1210, 2, 2, 1496500))},
	{"the next one behind the end of the first", true, byHand(granted(1, 1, 1286500), grantedAt(1310, 2, 2, 1596500))},
	{"an undo of what nobody counts on", true, byHand(voted(1000, 1, 1001, 1300)[:1], `<<"U",1010000,1,1,1001>>`)},
	{"an undo of what its caller has given up", true, byHand(granted(1, 1001, 1286500), `<<"O",1200000,1001>>`, `<<"R",1201000,2,1001>>`, `<<"U",1202000,1,1,1001>>`)},
	{"a LOCK with the token of a lock that was lost", true, byHand(granted(1, 1001, 1286500), `<<"L",1200000,1001>>`, grantedAt(1310, 2, 1001, 1596500))},
	{"a LOCK that is repeated through another proxy", true, byHand(granted(1, 1001, 1286500), grantedAt(1002, 2, 1001, 1288500, 1308))},
	{"fences grow", true, byHand(fenced(granted(1, 1, 1286500), 2), fenced(grantedAt(1310, 2, 2, 1596500), 3))},
	{"a master that has forgotten knows of the fence when it votes again", true, byHand(fenced(granted(1, 1, 1286500), 2), `<<"F",1100000,3>>`, `<<"M",1386000,3,2>>`, `<<"A",1386500,3,1>>`)},

	{"a takeover", true, byHand(granted(1, 1, 1286500), takenOver(3), `<<"O",1101000,1>>`, `<<"G",1101000,2,2,1386500,0>>`)},
	{"a takeover that has failed", true, byHand(granted(1, 1, 1286500), takenOver(2), `<<"B",1101000,1,2,1,2>>`, `<<"B",1101000,2,2,1,2>>`, `<<"O",1102000,1>>`, `<<"R",1103000,1,1>>`)},
	{"what a takeover has left is released", true, byHand(granted(1, 1, 1286500), takenOver(3), lateVote, `<<"R",1102000,4,1>>`)},
	{"what a takeover may leave is released", false, byHand(granted(1, 1, 1286500), takenOver(2), lateVote, `<<"R",1102000,4,1>>`)},
	{"a takeover too few", false, byHand(granted(1, 1, 1286500), takenOver(2), `<<"O",1101000,1>>`, `<<"G",1101000,2,2,1386500,0>>`)},
	{"both tokens of a takeover are believed in", false, byHand(granted(1, 1, 1286500), takenOver(3), `<<"G",1101000,2,2,1386500,0>>`)},
	{"a takeover that has failed is released", false, byHand(granted(1, 1, 1286500), takenOver(2), `<<"R",1101000,1,2>>`)},
	{"a takeover that has failed releases what was before", false, byHand(granted(1, 1, 1286500), takenOver(2), `<<"R",1101000,3,1>>`)},
	{"a takeover brings the end nearer", false, byHand(granted(1, 1, 1286500), `<<"T",1100000,1,2,2,1100,100,1200,1,0,1>>`)},
	{"a vote too few", false, byHand(voted(1000, 1, 1, 1300)[1:], decided(1, 1, 1000, 2, 3))},
	{"the vote of a master that has not voted", false, byHand(voted(1000, 1, 1, 1300)[1:], decided(1, 1, 1000, 1, 2, 3))},
	{"a vote from before the round", false, byHand(voted(1000, 1, 1, 1300), decided(1, 1, 1001, 1, 2, 3))},
	{"a lease that is longer than a key", false, byHand(granted(1, 1, 1286501))},
	{"a grant that nobody has decided", false, byHand(voted(1000, 1, 1, 1300), `<<"G",1001000,1,1,1286500,0>>`)},
	{"votes for another proxy", false, byHand(voted(1000, 1, 1, 1300), decided(2, 1, 1000, 1, 2, 3))},
	{"a decision of another proxy", false, byHand(voted(1000, 1, 1, 1300), decided(1, 1, 1000, 1, 2, 3), `<<"G",1001000,2,1,1286500,0>>`)},
	{"the vote of a master that has forgotten", false, byHand(`<<"F",990000,3>>`, voted(1000, 1, 1, 1300), decided(1, 1, 1000, 1, 2, 3))},
	{"a vote that comes back too early", false, byHand(granted(1, 1, 1286500), `<<"F",1100000,3>>`, `<<"A",1110000,3,1>>`)},
	{"a vote that comes back behind a copy", true, byHand(granted(1, 1, 1286500), `<<"F",1100000,3>>`, `<<"C",1105000,3,1,1308,0>>`, `<<"A",1110000,3,1>>`)},
	{"a vote that comes back behind a copy of a value that nobody owns", true, byHand(granted(1, 1, 1286500), `<<"F",1100000,3>>`, `<<"C",1105000,3,2,1308,1>>`, `<<"A",1110000,3,1>>`)},
	{"a vote that comes back behind a copy of another token", false, byHand(granted(1, 1, 1286500), `<<"F",1100000,3>>`, `<<"C",1105000,3,2,1308,0>>`, `<<"A",1110000,3,1>>`)},
	{"a vote that comes back when the lease is over", true, byHand(granted(1, 1, 1286500), `<<"F",1100000,3>>`, `<<"A",1286500,3,1>>`)},
	{"a vote that comes back without the fence", false, byHand(fenced(granted(1, 1, 1286500), 2), `<<"F",1100000,3>>`, `<<"M",1386000,3,1>>`, `<<"A",1386500,3,1>>`)},
	{"a copy to a voter", false, byHand(granted(1, 1, 1286500), `<<"C",1105000,4,1,1308,0>>`)},
	{"a copy that clears a voter", false, byHand(granted(1, 1, 1286500), `<<"D",1105000,3,1>>`)},
	{"a release of what is held", false, byHand(granted(1, 1, 1286500), `<<"R",1200000,1,1>>`)},
	{"a key of another is overwritten", false, byHand(granted(1, 1, 1286500), voted(1210, 2, 2, 1510)[:1])},
	{"a key that ends too late", false, byHand(voted(1000, 1, 1, 1301)[:1])},
	{"a repeated LOCK that does not move the end far enough", false, byHand(granted(1, 1001, 1286500), voted(1002, 2, 1001, 1307)[:1])},
	{"an undo of what somebody counts on", false, byHand(voted(1000, 1, 1001, 1300)[:1], voted(1005, 2, 1001, 1308)[:1], `<<"U",1010000,1,1,1001>>`)},
	{"an undo of what was granted", false, byHand(granted(1, 1001, 1286500), `<<"U",1202000,1,1,1001>>`)},
	{"an undo of what another attempt has set", false, byHand(voted(1000, 1, 1001, 1300)[:1], `<<"U",1010000,1,2,1001>>`)},
	{"a release of what was lost and not given up", false, byHand(granted(1, 1001, 1286500), `<<"L",1200000,1001>>`, `<<"R",1201000,1,1001>>`)},
	{"a grant behind UNLOCK", false, byHand(granted(1, 1, 1286500)[:4], `<<"O",1001000,1>>`, `<<"G",1001000,1,1,1286500,0>>`)},
	{"a vote of a master that has accepted a child", false, byHand(`<<"A",990000,3,0>>`, voted(1000, 1, 1, 1300), decided(1, 1, 1000, 1, 2, 3))},
	{"votes under two records", false, byHand(`<<"A",990000,3,2>>`, voted(1000, 1, 1, 1300), decided(1, 1, 1000, 1, 2, 3))},
	{"a vote whose batch has not ended as it began", false, byHand(voted(1000, 1, 1, 1300)[:2], `<<"V",1000000,3,1,1,1000,300,1300,0,0>>`, decided(1, 1, 1000, 1, 2, 3))},
	{"a fence that is not above the mark", false, byHand(fenced(granted(1, 1, 1286500), 2), fenced(voted(1310, 2, 2, 1610)[:1], 2))},
	{"a mark that goes down", false, byHand(fenced(granted(1, 1, 1286500), 2), `<<"M",1100000,3,1>>`)},
	{"votes with another fence", false, byHand(fenced(voted(1000, 1, 1, 1300), 2), decided(1, 1, 1000, 1, 2, 3))},
	{"a grant with another fence", false, byHand(fenced(granted(1, 1, 1286500)[:4], 2), `<<"G",1001000,1,1,1286500,3>>`)},
	{"an event from before", false, byHand(voted(1000, 1, 1, 1300), `<<"O",999999,1>>`)},
	{"a change that nobody knows the reason of", false, byHand(`<<"X",1000000>>`)},
}

// lateVote is that of the fourth master for the token of granted, behind takenOver.
const lateVote = `<<"V",1101500,4,1,1,1101,300,1401,1,0>>`

// byHand is a trace in which five masters have had their votes from the beginning. Its parts are events and lists of them.
func byHand(parts ...any) (events []string) {
	for m := range 5 {
		events = append(events, fmt.Sprintf(`<<"A",1000,%d,1>>`, m+1))
	}
	for _, part := range parts {
		if event, ok := part.(string); ok {
			events = append(events, event)
		} else {
			events = append(events, part.([]string)...)
		}
	}
	return events
}

// takenOver are the events by which so many masters have token 2 in the place of 1, through proxy 2. Three of them decide.
func takenOver(masters int) (events []string) {
	for m := range masters {
		events = append(events, fmt.Sprintf(`<<"T",1100000,%d,2,2,1100,300,1400,1,0,1>>`, m+1))
	}
	if masters >= 3 {
		events = append(events, decided(2, 2, 1100, 1, 2, 3))
	}
	return events
}

// voted are the votes of three masters for 300 ms, at a time in ms. The keys end at another.
func voted(at, proxy, token, ends int) (events []string) {
	for m := range 3 {
		events = append(events, fmt.Sprintf(`<<"V",%d,%d,%d,%d,%d,300,%d,1,0>>`, at*1000, m+1, proxy, token, at, ends))
	}
	return events
}

// decided is the decision of a round that has begun at a time in ms, by the votes of these masters.
func decided(proxy, token, began int, by ...int) string {
	return fmt.Sprintf(`<<"K",%d,%d,%d,%d,1,0,{%s}>>`, began*1000+1000, proxy, token, began*1000, joined(by))
}

// grantedAt are the events of a lock of 300 ms from then on, in ms: three masters vote, and it is granted until a time. The keys end with the TTL, unless ends
// says when.
func grantedAt(at, proxy, token, until int, ends ...int) []string {
	return append(voted(at, proxy, token, append(ends, at+300)[0]), decided(proxy, token, at, 1, 2, 3), fmt.Sprintf(`<<"G",%d,%d,%d,%d,0>>`, at*1000+1000, proxy, token, until))
}

func granted(proxy, token, until int, ends ...int) []string {
	return grantedAt(1000, proxy, token, until, ends...)
}

// fenced are events of a lock, with a fence.
func fenced(events []string, fence int) (others []string) {
	for _, e := range events {
		e = strings.Replace(e, ",1,0,{", fmt.Sprintf(",1,%d,{", fence), 1)
		if strings.HasSuffix(e, ",0>>") {
			e = fmt.Sprintf("%s,%d>>", strings.TrimSuffix(e, ",0>>"), fence)
		}
		others = append(others, e)
	}
	return others
}

// tracedMutants are mutants of the code whose traces the model must refuse, whether or not two callers come to hold a lock by them.
var tracedMutants = []string{"quorum-off-by-one", "the-undo-does-not-look-at-the-end", "votes-counted-in-quarantine", "a-learner-votes", "a-native-lock-is-not-padded",
	"elapsed-left-out", "ends-are-not-moved-far-enough", "lock-shortens", "extend-shortens", "the-record-is-not-compared", "fence-not-above-the-mark"}

// TestTraceMutantsModel runs the mutants one by one; -run 'TestTraceMutantsModel$/^name$' runs one.
func TestTraceMutantsModel(t *testing.T) {
	if os.Getenv(modelSize) != "large" {
		redisproc.Skip(t, "`make model` runs it; TestMutants has some")
	}
	needTLC(t)
	t.Setenv(traceSeeds, "4") // the first with changes of the members is the fourth
	binary := buildMutants(t, ".")["."]
	for _, name := range tracedMutants {
		t.Run(name, func(t *testing.T) { wantRefused(t, binary, name, "TestTraceModel") })
	}
	for _, name := range tracedRecordMutants {
		t.Run(name, func(t *testing.T) { wantRefused(t, binary, name, "TestRecordTraceModel") })
	}
}

// wantRefused runs a mutant until its traces are checked.
func wantRefused(t *testing.T, binary, name, test string) {
	t.Helper()
	needTLC(t)
	output, err := runMutant(".", binary, name, "^"+test+"$", 0, 3*mutantLimit)
	why := modelRefuses.FindString(output)
	if err == nil || why == "" {
		t.Errorf("mutant %q: %v, and the model refuses none of its traces", name, err)
	}
	t.Log(why)
}

var modelRefuses = regexp.MustCompile(`[^\n]*the model refuses event[^\n]*`)

// traceSeed runs the simulation and returns what was recorded.
func traceSeed(t *testing.T, seed uint64, prepare ...func(*world)) (recorder *traceRecorder) {
	debug.FreeOSMemory() // nothing collects garbage while the world goes on: inRepeatable
	profile := profileOf(seed)
	simulateSizes(t, seed, plainSizes(seed, &profile), append([]func(*world){func(w *world) {
		recorder = traceFrom(w)
		w.trace = recorder
	}}, prepare...)...)
	return recorder
}

// lockTraces are the traces of the resources, one by one.
func (r *traceRecorder) lockTraces() (locks []*trace) {
	for _, key := range tracedKeys {
		locks = append(locks, r.traceOf(key))
	}
	return locks
}

// checkTraces tells for each trace how many events the model accepts: all, all but the last, or -1 for fewer.
func checkTraces(t *testing.T, model traceModel, traces []*trace) (accepted []int) {
	t.Helper()
	report, took := runTraces(t, model, traces, false)
	events := 0
	for i, trace := range traces {
		n := len(trace.events)
		for n >= len(trace.events)-1 && !strings.Contains(report, fmt.Sprintf(`<<"accepted", %d, 0, %d>>`, i+1, n)) {
			n--
		}
		if n < len(trace.events)-1 {
			n = -1
		}
		accepted = append(accepted, n)
		events += len(trace.events)
		for j := range trace.changes {
			c := &trace.changes[j]
			c.accepted = strings.Contains(report, fmt.Sprintf(`<<"accepted", %d, %d, %d>>`, i+1, j+1, len(trace.events)-c.drop+len(c.with)))
		}
	}
	t.Logf("%s: %d traces, %d events, %s states, %s of a processor", model.modules[0], len(traces), events, lastMatch(tlcStates, report), took.Round(100*time.Millisecond))
	return accepted
}

var tlcAccepted = regexp.MustCompile(`<<"accepted", 1, 0, (\d+)>>`)

// whyRefused shows which event of a trace the model refuses, and the events before it.
func whyRefused(t *testing.T, model traceModel, refused *trace) string {
	t.Helper()
	report, _ := runTraces(t, model, []*trace{refused}, true)
	most := 0
	for _, found := range tlcAccepted.FindAllStringSubmatch(report, -1) {
		n, _ := strconv.Atoi(found[1])
		most = max(most, n)
	}
	const shown = 40 // events on either side
	what := ""
	if most < len(refused.steps) {
		what = refused.steps[most].what
	}
	return fmt.Sprintf("%s: the model refuses event %d of %d, %s %s, behind\n%s\nand before\n%s\nof\n%s", refused.name, most+1, len(refused.events), refused.events[most], what,
		strings.Join(refused.events[max(0, most-shown):most], "\n"), strings.Join(refused.events[most+1:min(most+1+shown, len(refused.events))], "\n"), refused.head)
}

// runTraces has TLC look at traces, and returns what it says. Verbose: it tells each event that the model accepts.
func runTraces(t *testing.T, model traceModel, traces []*trace, verbose bool) (report string, took time.Duration) {
	t.Helper()
	dir := t.TempDir()
	cfg := fmt.Sprintf(`SPECIFICATION TSpec
CHECK_DEADLOCK FALSE
CONSTANTS
  Masters = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
  Verbose = %s
%s`, strings.ToUpper(strconv.FormatBool(verbose)), model.constants(t))
	files := map[string]string{"Traces.tla": tracesTLA(traces), "run.cfg": cfg}
	for _, module := range model.modules {
		text, err := os.ReadFile(filepath.Join("testdata/tla", module+".tla"))
		if err != nil {
			t.Fatal(err)
		}
		files[module+".tla"] = string(text)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx2g", "-Djava.io.tmpdir="+dir, "-cp", tlcPath(t),
		"tlc2.TLC", "-workers", "1", "-config", "run.cfg", model.modules[0]+".tla")
	cmd.Dir = dir
	output, err := os.Create(filepath.Join(dir, "output")) // a pipe would not be read: the runtime of this binary waits for the process, and for nothing else
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	err = cmd.Run()
	text, _ := os.ReadFile(output.Name())
	if report = string(text); err != nil || !strings.Contains(report, "No error has been found") {
		t.Fatalf("%v\n%s", err, report)
	}
	return report, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// falseMutants are the constants of a module that break its rules, all FALSE.
func falseMutants(t *testing.T, module string) string {
	t.Helper()
	var b strings.Builder
	for _, name := range mutantsOf(t, module) {
		fmt.Fprintf(&b, "  %s = FALSE\n", name)
	}
	return b.String()
}

func mutantsOf(t *testing.T, module string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/tla", module+".tla"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`(?m)^ {2}(M[A-Z]\w+),? *\\\*`).FindAllStringSubmatch(string(text), -1) {
		names = append(names, name[1])
	}
	return names
}
