//go:build !race

package redlock

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"redlockd/redlock/redisproc"
)

// recordProfiles are those in which there is more than one step of the membership. RecordTrace has them all, with clocks that step and names that differ.
var recordProfiles = []string{"members change", "names move", "names differ", "everything", "clocks and memory", "amnesia"}

// TestRecordTraceModel checks what some seeds and duels have recorded of the membership, and traces by hand.
func TestRecordTraceModel(t *testing.T) {
	redisproc.Long(t)
	needTLC(t)
	if inRepeatable(t) {
		return
	}
	seeds, duels := tracedSeeds(recordProfiles, seedsToTrace(t, 1, 60)), 10
	if os.Getenv(modelSize) == "large" { // also with a mutant
		duels = 50
	}
	var traces []*trace
	steps, foundings := 0, 0
	for duel := range duels {
		traces = append(traces, traceDuel(t, uint64(duel)))
		foundings += strings.Count(traces[duel].head, "parent |-> 0,") - 1
	}
	for group := range slices.Chunk(seeds, 2*seedsAtOnce) {
		for _, seed := range group {
			traces = append(traces, traceSeed(t, seed).recordTrace())
		}
		for _, trace := range traces {
			steps += strings.Count(trace.head, "[gen |->")
		}
		checkAll(t, recordTraces, traces)
		traces = nil
	}
	t.Logf("%d records in %d seeds and %d duels, %d of them foundings in duels", steps, len(seeds), duels, foundings)
	if steps < 10*len(seeds)+5*duels || foundings < duels {
		t.Error("these are too few to prove anything")
	}
}

// tracedRecordMutants are mutants of the code whose traces of the membership the model must refuse.
var tracedRecordMutants = []string{"an-accepted-child-is-not-told", "an-accepted-child-is-ignored", "the-child-of-a-lower-ballot-is-taken", "a-minority-chooses",
	"promises-outlive-their-record", "another-memory-learns", "learn-goes-back", "a-promise-is-lowered", "a-promise-is-broken",
	"a-ballot-for-another-parent-is-promised", "a-child-of-another-parent-is-accepted", "a-learner-votes-before-the-wait", "the-wait-is-lowered-at-once", "half-the-wait",
	"stamps-of-another-listing"}

// recordTraces checks what masters showed of the membership.
var recordTraces = traceModel{
	modules:   []string{"RecordTrace", "Replay"},
	constants: func(*testing.T) string { return "" },
	byHand:    recordTracesByHand,
	head:      "process |-> <<1, 2, 3, 4, 3, 3>>, copied |-> {6}, records |-> <<\n" + strings.Join(recordsByHand, ",\n") + ">>",
}

// recordsByHand are records of three seats, with a wait of 300 ms.
var recordsByHand = []string{
	handRecord(1, 0, 0, 300, "1l0 2l0 3l0"),  // 1: a founding,
	handRecord(1, 1, 1, 300, "1v0 2v0 3v0"),  // 2: whose learners vote
	handRecord(1, 2, 2, 300, "1v0 2v0 5l2"),  // 3: the third has forgotten,
	handRecord(1, 3, 3, 300, "1v0 2v0 5v2"),  // 4: and votes again
	handRecord(1, 2, 2, 300, "1v0 2v0 5v2"),  // 5: or at once
	handRecord(1, 2, 2, 300, "1v0 2v0 3x2"),  // 6: or the third leaves,
	handRecord(1, 3, 6, 300, "1v0 2v0"),      // 7: and is gone
	handRecord(1, 2, 2, 300, "1v0 2v0"),      // 8: or at once
	handRecord(1, 2, 2, 100, "1v0 2v0 3v0"),  // 9: or max_ttl and the wait go down
	handRecord(1, 2, 2, 300, "1v0 2l2 3v0"),  // 10: or the second is demoted
	handRecord(2, 0, 0, 300, "1l0 2l0 5l0"),  // 11: or all is founded anew over two that remember
	handRecord(1, 3, 3, 300, "1v0 2v0 5v3"),  // 12: or the timer of the third begins when it is over
	handRecord(1, 2, 2, 300, "1v0 2v0 6l2"),  // 13: or the third has forgotten once more,
	handRecord(1, 3, 13, 300, "1v0 2v0 6v2"), // 14: and is copied to, and votes
	handRecord(1, 0, 0, 300, "6v0"),          // 15: another fleet
}

// handRecord is a record whose seats are given as memory, state and version of the listing.
func handRecord(generation, version, parent, wait int, seats string) string {
	var list []string
	for i, s := range strings.Fields(seats) {
		memory := string(s[0])
		if s[1] == 'x' {
			memory = "0"
		}
		list = append(list, fmt.Sprintf(`[n |-> %d, name |-> %d, memory |-> %s, st |-> "%c", since |-> %c]`, i, i+1, memory, s[1], s[2]))
	}
	roster, lowered := 0, 0
	if version > 1 && len(list) < 3 {
		roster = 1
	}
	if wait < 300 {
		lowered = version
	}
	return fmt.Sprintf("[gen |-> %d, lineage |-> %d, v |-> %d, parent |-> %d, maxTTL |-> %d, wait |-> %d, ttlSince |-> %d, roster |-> %d, seats |-> <<%s>>]",
		generation, generation, version, parent, wait, wait, lowered, roster, strings.Join(list, ", "))
}

// shows is an event: at that time, in ms, a master shows its memory, record, ballot and child that it has accepted, and ballot that it has promised.
// Each master has one process.
func shows(at, master, memory, record, ballot, child, promised int) string {
	process := master
	if memory == 0 {
		process = 0
	}
	return fmt.Sprintf("<<%d,%d,%d,%d,%d,%d,%d,%d>>", at*1000, master, memory, record, ballot, child, promised, process)
}

// inProcess are events of masters whose processes have that number.
func inProcess(process int, events ...string) (others []string) {
	for _, e := range events {
		others = append(others, fmt.Sprintf("%s,%d>>", e[:strings.LastIndex(e, ",")], process))
	}
	return others
}

// Parts of a step, for masters whose memories have their numbers.
func promise(at, ballot, from int, masters ...int) (events []string) {
	for _, m := range masters {
		events = append(events, shows(at, m, m, from, 0, 0, ballot))
	}
	return events
}

func accept(at, ballot, from, to int, masters ...int) (events []string) {
	for _, m := range masters {
		events = append(events, shows(at, m, m, from, ballot, to, ballot))
	}
	return events
}

func told(at, of int, masters ...int) (events []string) {
	for _, m := range masters {
		events = append(events, shows(at, m, m, of, 0, 0, 0))
	}
	return events
}

// steps has the first two masters take a step with a ballot, and all masters told of it.
func steps(at, ballot, from, to int, masters ...int) []string {
	return slices.Concat(promise(at, ballot, from, masters[:2]...), accept(at+1, ballot, from, to, masters[:2]...), told(at+2, to, masters...))
}

// founded are the events by which four new masters get their names, and the first three of them are founded as learners.
func founded(parts ...[]string) (events []string) {
	for m := 1; m <= 4; m++ {
		events = append(events, shows(m, m, m, 0, 0, 0, 0))
	}
	return slices.Concat(events, steps(10, 1, 0, 1, 1, 2, 3), slices.Concat(parts...))
}

// threeVote is founded, and then all three vote.
func threeVote(parts ...[]string) []string {
	return founded(steps(311, 2, 1, 2, 1, 2, 3), slices.Concat(parts...))
}

// thirdForgets has the third master forget, and get a memory with the number 5.
func thirdForgets(at int) []string {
	return []string{shows(at, 3, 0, 0, 0, 0, 0), shows(at, 3, 5, 0, 0, 0, 0)}
}

var recordTracesByHand = []handTrace{
	{"a master forgets, and votes again behind the wait", true, threeVote(thirdForgets(400), steps(500, 3, 2, 3, 1, 2), []string{shows(503, 3, 5, 3, 0, 0, 0)}, steps(801, 4, 3, 4, 1, 2))},
	{"a master forgets, is copied to, and votes at once", true, threeVote(thirdForgets(400), []string{shows(401, 3, 0, 0, 0, 0, 0), shows(401, 3, 6, 0, 0, 0, 0)},
		steps(500, 3, 2, 13, 1, 2), []string{shows(503, 3, 6, 13, 0, 0, 0)}, steps(520, 4, 13, 14, 1, 2))},
	{"a seat is removed behind the wait", true, threeVote(steps(500, 3, 2, 6, 1, 2), steps(801, 4, 6, 7, 1, 2))},
	{"a proposer takes over what was accepted", true, threeVote(promise(400, 3, 2, 1, 2), accept(401, 3, 2, 10, 1), []string{shows(402, 1, 1, 2, 3, 10, 4)},
		promise(402, 4, 2, 3), accept(403, 4, 2, 10, 1, 3), told(404, 10, 1, 2, 3))},

	{"a master restarts with its data, which it forgets then", true, threeVote(inProcess(9, told(400, 2, 3)...), thirdForgets(401))},
	{"a name leads to a master of another fleet", true, threeVote(thirdForgets(400), []string{shows(401, 4, 0, 0, 0, 0, 0)}, inProcess(3, shows(402, 4, 6, 15, 0, 0, 0)))},

	{"a memory promises in another process", false, threeVote(inProcess(9, told(400, 2, 3)...), inProcess(9, promise(401, 3, 2, 3)...))},
	{"a master of another fleet takes part", false, threeVote(thirdForgets(400), []string{shows(401, 4, 0, 0, 0, 0, 0)}, inProcess(3, shows(402, 4, 6, 15, 0, 0, 0)),
		inProcess(3, shows(403, 4, 6, 15, 0, 0, 7)))},
	{"learners vote too early", false, founded(promise(300, 2, 1, 1, 2), accept(310, 2, 1, 2, 1))},
	{"reseated as a voter", false, threeVote(thirdForgets(400), promise(500, 3, 2, 1, 2), accept(501, 3, 2, 5, 1))},
	{"a learner that has waited votes with another listing", false, threeVote(thirdForgets(400), steps(500, 3, 2, 3, 1, 2), promise(801, 4, 3, 1, 2), accept(802, 4, 3, 12, 1))},
	{"a seat is removed at once", false, threeVote(promise(500, 3, 2, 1, 2), accept(501, 3, 2, 8, 1))},
	{"a seat that leaves is removed too early", false, threeVote(steps(500, 3, 2, 6, 1, 2), promise(800, 4, 6, 1, 2), accept(800, 4, 6, 7, 1))},
	{"the wait is lowered with max_ttl", false, threeVote(promise(500, 3, 2, 1, 2), accept(501, 3, 2, 9, 1))},
	{"founded over a quorum that remembers", false, threeVote(thirdForgets(400), promise(500, 3, 2, 1, 2), accept(501, 3, 2, 11, 1))},
	{"what one has accepted is told", false, threeVote(promise(500, 3, 2, 1, 2), accept(501, 3, 2, 10, 1), told(502, 10, 1))},
	{"what two have accepted with two ballots is told", false, threeVote(promise(500, 3, 2, 1, 2), accept(501, 3, 2, 10, 1), promise(502, 4, 2, 3),
		[]string{shows(502, 2, 2, 2, 0, 0, 4)}, accept(503, 4, 2, 10, 2), told(504, 10, 1))},
	{"another child than the accepted one", false, threeVote(promise(500, 3, 2, 1, 2), accept(501, 3, 2, 10, 1), []string{shows(502, 1, 1, 2, 3, 10, 4), shows(502, 2, 2, 2, 0, 0, 4)},
		accept(503, 4, 2, 6, 2))},
	{"too few have promised", false, threeVote(promise(500, 3, 2, 1), accept(501, 3, 2, 10, 1))},
	{"a promise for another parent", false, founded(promise(100, 2, 1, 1), steps(311, 3, 1, 2, 2, 3), promise(400, 2, 2, 2), accept(401, 2, 2, 10, 2))},
	{"two children with one ballot", false, threeVote(promise(500, 3, 2, 1, 2), accept(501, 3, 2, 10, 1), accept(501, 3, 2, 6, 2))},
	{"a promise is broken", false, threeVote(promise(500, 3, 2, 1, 2), promise(501, 4, 2, 1), accept(502, 3, 2, 10, 1))},
	{"a promise is lowered", false, threeVote(promise(500, 4, 2, 1), promise(501, 3, 2, 1))},
	{"a promise outlives its record", false, threeVote(promise(500, 3, 2, 1, 2), accept(501, 3, 2, 10, 1, 2), []string{shows(502, 1, 1, 10, 0, 0, 3)})},
	{"a promise outlives its memory", false, threeVote(promise(500, 3, 2, 3), []string{shows(501, 3, 5, 0, 0, 0, 3)})},
	{"a memory comes back", false, threeVote(thirdForgets(400), told(401, 2, 3))},
	{"a memory goes back to its parent", false, threeVote(told(500, 1, 1))},
	{"a memory that is not listed is told", false, threeVote(told(500, 2, 4))},
	{"a memory that is not listed accepts", false, threeVote(promise(500, 3, 0, 4), promise(500, 3, 2, 1, 2), accept(501, 3, 0, 10, 4))},
}
