//go:build !race

package redlock

// Goal: the gate notices when mutants do not die any more, or cannot be run. Method: some are drawn, of those that are marked (mutants_test.go) and of
// those that testdata/mutants.txt says are killed. The latter are compiled alone, and each is turned on for the test that killed it; if that passes, for
// all tests of its package and of that test's.

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

const (
	sampleSize   = 160 // of the mutants that are made by rule
	sampleMarked = 40
)

// drawn are n that are drawn of all with SEED, or with a seed of its own, which it prints.
func drawn[T any](t *testing.T, n int, all []T) []T {
	seed := rand.Uint32()
	if text := os.Getenv("SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatalf("SEED: %q is no seed: that is a number from 0 to 4294967295, as a run prints it", text)
		}
		seed = uint32(n)
	}
	n = min(n, len(all))
	t.Logf("SEED=%d: %d of %d mutants. `make test-mutants-sample SEED=%d` plays these again", seed, n, len(all), seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:n]
}

// TestMarkedSample plays mutants that are drawn of the marked ones.
func TestMarkedSample(t *testing.T) {
	redisproc.Long(t)
	playMarked(t, drawn(t, sampleMarked, slices.Clone(mutants)))
}

// TestMutantsSample leaves out mutants that only the simulation kills: it takes too long.
func TestMutantsSample(t *testing.T) {
	redisproc.Long(t)
	type recorded struct {
		file     string
		place    generatedPlace
		index    int // in the place
		outcomes int // of the place
		killer   string
	}
	var all []recorded
	known := readResults(t)
	for _, file := range filesWithGenerated(t) {
		for _, p := range placesInFile(t, file) {
			if known.files[file] == nil || known.files[file].functions[p.name].hash != p.hash { // TestMutantsReport names it
				continue
			}
			outcomes := known.files[file].functions[p.name].outcomes
			for i, outcome := range outcomes {
				if isKilled(outcome) && outcome != "killed" && !strings.HasSuffix(outcome, bySimulation) {
					all = append(all, recorded{file, p, i, len(outcomes), testOf(file, outcome)})
				}
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no mutant of which it says what test kills it: `make mutants-generated NEW=1`", generatedReport)
	}
	sample := drawn(t, sampleSize, all)
	files, rooms := map[string]bool{}, map[string]bool{}
	for _, d := range sample {
		files[d.file] = true
		room, _, _ := strings.Cut(d.killer, " ")
		rooms[room] = true
	}
	begin := time.Now()
	g := &generatedRun{t: t, all: generate(t, slices.Sorted(maps.Keys(files)))}
	of := map[string][]*generated{}
	for _, m := range g.all.mutants {
		of[m.place()] = append(of[m.place()], m)
	}
	var mutants []*generated
	killers := map[*generated]string{}
	for _, d := range sample {
		if list := of[d.file+" "+d.place.name]; len(list) == d.outcomes { // else TestExplanations names it
			mutants = append(mutants, list[d.index])
			killers[list[d.index]] = d.killer
		}
	}
	t.Logf("%v to make the mutants", time.Since(begin).Round(time.Second))
	begin = time.Now()
	g.compile(mutants, rooms)
	t.Logf("%v to compile the tests of %d packages", time.Since(begin).Round(time.Second), len(g.binaries))
	begin = time.Now()
	g.parallel(len(mutants), func(i int) {
		m := mutants[i]
		room, name, _ := strings.Cut(killers[m], " ")
		if _, _, failed := g.fails(m, []*generatedTest{{Name: name, Room: room, binary: g.binaries[room]}}, sampleMost); failed {
			return
		}
		for _, room := range slices.Sorted(maps.Keys(g.binaries)) {
			if !slices.Contains(g.rooms[m.file], room) {
				continue
			}
			output, _, failed := g.fails(m, []*generatedTest{{Name: ".*", Room: room, binary: g.binaries[room]}}, roomMost)
			if failed {
				by := "a test"
				if name := failedTest.FindStringSubmatch(output); name != nil {
					by = name[1]
				}
				t.Logf("%s: %s has not killed it, but %s of %s: `make mutants-generated FILES=%s` renews the report", m.name, name, by, room, m.file)
				return
			}
		}
		t.Errorf("%s survives, and in the report %s kills it: %s. `make mutants-generated MUTANT=%s FILES=%s` plays it for all tests", m.name, name, m.key, m.name, m.file)
	})
	t.Logf("%v to play them", time.Since(begin).Round(time.Second))
}

const (
	sampleMost = 10 * time.Second // a test that kills a mutant
	roomMost   = 5 * time.Minute  // all tests of a package
)
