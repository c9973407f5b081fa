//go:build !race

package redlock

// A play is the simulation of one seed, in a process of its own, whose runtime leaves nothing to chance (sim_runtime_test.go): the same play has the
// same history, byte for byte, on a machine that is busy as well.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

const (
	// playVariable tells a process to play, as JSON.
	playVariable = "REDLOCK_SIM_PLAY"
	// playLimit is for one that hangs.
	playLimit = 10 * time.Minute
	// shrinkPlays bounds the search for the shortest play that fails.
	shrinkPlays = 80
)

// simPlay says what is played.
type simPlay struct {
	Seed uint64
	// Faults are the numbers of those that the nemesis inflicts; nil: all.
	Faults []int
	// History is the file that gets the history; empty: none.
	History string
}

// played is what came of a play.
type played struct {
	Profile string
	// Digest is that of the history.
	Digest string
	Faults int // how many the nemesis has drawn
	Counts map[string]int
	Struck map[string]int
	Unfair float64

	failed bool
	output string
}

// command is what a person types to play it again.
func (p simPlay) command() string {
	faults := ""
	if p.Faults != nil {
		faults = fmt.Sprintf(" %s=%s", simFaults, faultsText(p.Faults))
	}
	return fmt.Sprintf("%s=%d%s go test -count=1 -run '^TestSimulation$' ./redlock", simSeed, p.Seed, faults)
}

// run plays in a process of its own.
func (p simPlay) run(t *testing.T) (done played) {
	t.Helper()
	binary, _ := repeatableBinary()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), playLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^TestSimulation$", "-test.timeout", "0")
	if dir := coverFolder(); dir != "" {
		cmd.Args = append(cmd.Args, "-test.gocoverdir", dir)
	}
	cmd.Env = append(append(os.Environ(), repeatableEnvironment...), playVariable+"="+string(text))
	output, err := cmd.CombinedOutput()
	for line := range bytes.Lines(output) {
		if result, ok := bytes.CutPrefix(line, []byte(playedMark)); ok {
			err = errors.Join(err, json.Unmarshal(result, &done))
		}
	}
	if done.Digest == "" && err == nil {
		err = errors.New("it did not end")
	}
	if done.failed = err != nil; done.failed {
		done.output = fmt.Sprintf("%v\n%s", err, output)
	}
	return done
}

// playedMark begins the line in which a process says what came of its play.
const playedMark = "PLAYED "

// playHere is run in the process.
func playHere(t *testing.T, text string) {
	var p simPlay
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatalf("%s=%s: %v", playVariable, text, err)
	}
	var w *world
	defer func() { // also after a panic
		if w == nil {
			return
		}
		story := strings.Join(w.ledger.story, "\n") + "\n"
		sum := sha256.Sum256([]byte(story))
		done := played{Profile: w.profile.name, Digest: hex.EncodeToString(sum[:8]), Faults: w.strikes, Counts: w.tallies.counts(), Struck: w.tallies.struck, Unfair: w.tallies.unfair}
		if p.History != "" {
			if err := os.WriteFile(p.History, []byte(p.header()+story), 0o600); err != nil {
				t.Error(err)
			}
		}
		text, _ := json.Marshal(done)
		fmt.Println(playedMark + string(text))
	}()
	simulate(t, p.Seed, func(started *world) {
		w = started
		w.faults = p.Faults
	})
}

// header is the first line of a history.
func (p simPlay) header() string {
	return fmt.Sprintf("history of seed %d, faults %s, of the test binary %s\n", p.Seed, faultsText(p.Faults), binaryVersion())
}

// binaryVersion tells test binaries apart: a history is one of the code that has made it.
var binaryVersion = sync.OnceValue(func() string {
	path, _ := repeatableBinary()
	file, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer file.Close()
	sum := sha256.New()
	io.Copy(sum, file)
	return hex.EncodeToString(sum.Sum(nil)[:8])
})

// explain reports a play that fails: what a shorter one that fails too has told, and how to play that again.
func (p simPlay) explain(t *testing.T, failed played) {
	t.Helper()
	if os.Getenv(simBriefly) != "" {
		t.Errorf("seed %d, %s, fails: %s", p.Seed, failed.Profile, failed.output)
		return
	}
	shortest, why := p.shrink(t, failed)
	shortest.History = filepath.Join(os.TempDir(), fmt.Sprintf("redlock-history-%d.txt", p.Seed))
	last := shortest.run(t)
	story, err := os.ReadFile(shortest.History)
	lines := strings.Split(string(story), "\n")
	faults := fmt.Sprintf("all %d faults", failed.Faults)
	if shortest.Faults != nil {
		faults = fmt.Sprintf("%d of its %d faults", len(shortest.Faults), failed.Faults)
	}
	t.Errorf("seed %d, %s, fails with %s. Play it again with\n\t%s\nThe end of its history, which %s has in full (%v):\n%s\n%s", p.Seed, failed.Profile, faults, shortest.command(),
		shortest.History, err, strings.Join(lines[max(0, len(lines)-storyLines):], "\n"), why.output)
	if last.Digest != why.Digest {
		t.Errorf("the same play has had another history: %s, and before %s", last.Digest, why.Digest)
	}
}

// shrink leaves out faults, by halves and then by smaller parts, as long as the play fails.
func (p simPlay) shrink(t *testing.T, failed played) (shortest simPlay, why played) {
	shortest, why = p, failed
	faults := p.Faults
	if faults == nil {
		for i := range failed.Faults {
			faults = append(faults, i)
		}
	}
	plays := 0
	for part := (len(faults) + 1) / 2; part > 0 && plays < shrinkPlays; part /= 2 {
		for from := 0; from < len(faults) && plays < shrinkPlays; plays++ {
			fewer := simPlay{Seed: p.Seed, Faults: slices.Delete(slices.Clone(faults), from, min(from+part, len(faults)))}
			if got := fewer.run(t); got.failed {
				shortest, why, faults = fewer, got, fewer.Faults
			} else {
				from += part
			}
		}
	}
	t.Logf("seed %d: %d of %d faults are left after %d shorter plays", p.Seed, len(faults), failed.Faults, plays)
	return shortest, why
}

// TestSimulation plays seeds: see sim_test.go for what, and how to choose.
func TestSimulation(t *testing.T) {
	if text := os.Getenv(playVariable); text != "" {
		playHere(t, text)
		return
	}
	if name := os.Getenv(simReplay); name != "" {
		replay(t, name)
		return
	}
	wanted, err := wantedSeeds(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := repeatableBinary(); err != nil {
		t.Logf("a failure here may not fail again: %v", err)
	}
	t.Log(&wanted)
	plays := playSeeds(t, wanted)
	for _, name := range sortedKeys(plays.profiles) {
		t.Logf("%s: %v", name, plays.profiles[name])
	}
	if !t.Failed() && wanted.profile == "" {
		checkWorth(t, plays.profiles, wanted.drawn)
	}
	writeCover(t, &wanted)
	writeSoak(t, func(s *soak) { s.played(&wanted, plays, t.Failed()) })
}

// simPlays is what seeds have gone through.
type simPlays struct {
	began    time.Time
	profiles map[string]*profileCounts // by the name of the profile
	seeds    int
	failed   []string // a line about each seed that fails
}

// playSeeds plays seeds, several at a time where there are many processors. The first that fails is the last, but a soak plays all, and writes what
// it knows every hundred seeds: hours are not lost with the last of them.
func playSeeds(t *testing.T, wanted simWanted) *simPlays {
	all := &simPlays{began: time.Now(), profiles: map[string]*profileCounts{}}
	soaks := os.Getenv(simReport) != ""
	var mu sync.Mutex
	seeds := make(chan uint64)
	var running sync.WaitGroup
	for range (runtime.GOMAXPROCS(0) + 1) / 2 {
		running.Go(func() {
			for seed := range seeds {
				p := simPlay{Seed: seed, Faults: wanted.faults, History: wanted.history}
				done := p.run(t)
				mu.Lock()
				all.add(p, done)
				if done.failed && (soaks || !t.Failed()) {
					p.explain(t, done)
				}
				if soaks && all.seeds%100 == 0 {
					writeSoak(t, func(s *soak) { s.played(&wanted, all, t.Failed()) })
				}
				mu.Unlock()
			}
		})
	}
	for _, seed := range wanted.seeds() {
		mu.Lock()
		failed := t.Failed()
		mu.Unlock()
		if soaks || !failed {
			seeds <- seed
		}
	}
	close(seeds)
	running.Wait()
	return all
}

func (a *simPlays) add(p simPlay, done played) {
	if a.profiles[done.Profile] == nil {
		a.profiles[done.Profile] = &profileCounts{}
	}
	a.profiles[done.Profile].add(done)
	a.seeds++
	if done.failed {
		what := "it has no message"
		if message := failureMessage.FindStringSubmatch(done.output); message != nil {
			what = message[1]
		}
		a.failed = append(a.failed, fmt.Sprintf("%d, %s: %s", p.Seed, done.Profile, what))
	}
}

// failureMessage finds the first line that a test, or a panic, has told.
var failureMessage = regexp.MustCompile(`(?m)^(?:\s+\w+\.go:\d+: |panic: )(.*)$`)

// TestPlayRepeats: the same play has the same history, byte for byte, whatever else the machine does, and whether it is written or not.
func TestPlayRepeats(t *testing.T) {
	if _, err := repeatableBinary(); err != nil {
		t.Fatalf("no play of the simulation repeats: %v", err)
	}
	dir := t.TempDir()
	for _, seed := range redisproc.Some(1, []uint64{1, 8, 14}) {
		// Two of them write their history, and one does not: it allocates other memory.
		plays := []simPlay{{Seed: seed, History: filepath.Join(dir, fmt.Sprint(seed, "a"))}, {Seed: seed, History: filepath.Join(dir, fmt.Sprint(seed, "b"))}, {Seed: seed}}
		digests := make([]string, len(plays))
		var running sync.WaitGroup
		for i, p := range plays { // at once, so that each gets a part of the processors
			running.Go(func() { digests[i] = p.run(t).Digest })
		}
		running.Wait()
		var histories [2]string
		for i := range histories {
			text, err := os.ReadFile(plays[i].History)
			if err != nil {
				t.Fatal(err)
			}
			histories[i] = string(text)
		}
		if where := firstDifference(histories[0], histories[1]); where != "" {
			t.Errorf("seed %d has two histories: %s", seed, where)
		}
		if digests[0] == "" || digests[0] != digests[2] {
			t.Errorf("seed %d has another history (digest %q) when nobody writes it than when somebody does (%q)", seed, digests[2], digests[0])
		}
	}
}

// In the same binary, on several processors, tests wait for real processes, as those do that kill mutants.
func TestRepeatableBinaryStartsProcesses(t *testing.T) {
	redisproc.Need(t, "redis-server")
	binary, err := repeatableBinary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), playLimit) // where it hangs, its own timeout does, too
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^TestReaderScripts$")
	cmd.Env = append(os.Environ(), onProcessors)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("TestReaderScripts there: %v\n%s", err, output)
	}
}

// firstDifference shows the first lines that differ; empty: none do.
func firstDifference(a, b string) string {
	if a == b {
		return ""
	}
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return fmt.Sprintf("line %d is\n%s\nand\n%s", i+1, as[i], bs[i])
		}
	}
	return fmt.Sprintf("one has %d lines, and the other %d", len(as), len(bs))
}

// replay plays the history of a file again, and compares.
func replay(t *testing.T, name string) {
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%s: %v", simReplay, err)
	}
	header, _, _ := strings.Cut(string(before), "\n")
	var p simPlay
	var faults, binary string
	if _, err := fmt.Sscanf(header, "history of seed %d, faults %s of the test binary %s", &p.Seed, &faults, &binary); err != nil {
		t.Fatalf("%s=%s is no history of the simulation: its first line is %.80q", simReplay, name, header)
	}
	if p.Faults, err = parseFaults(strings.TrimSuffix(faults, ",")); err != nil {
		t.Fatalf("%s=%s: %v", simReplay, name, err)
	}
	if binary != binaryVersion() {
		t.Fatalf("%s=%s is a history of another version, the test binary %s, and this is %s: seed %d has another one here. Check out the commit that has made it, with the same Go", simReplay, name, binary, binaryVersion(), p.Seed)
	}
	p.History = filepath.Join(t.TempDir(), "history")
	done := p.run(t)
	again, err := os.ReadFile(p.History)
	if err != nil {
		t.Fatal(err)
	}
	if where := firstDifference(string(before), string(again)); where != "" {
		t.Errorf("it repeats only to some point: %s", where)
	}
	t.Logf("%s", again)
	if done.failed {
		t.Error(done.output)
	}
}

// profileCounts are what the seeds of a profile have gone through.
type profileCounts struct {
	seeds          int
	counts, struck map[string]int
	unfair         float64 // the most grants of a caller ÷ the fewest, at the end
}

func (c *profileCounts) add(done played) {
	if c.seeds++; c.counts == nil {
		c.counts, c.struck = map[string]int{}, map[string]int{}
	}
	for name, n := range done.Counts {
		c.counts[name] += n
	}
	for name, n := range done.Struck {
		c.struck[name] += n
	}
	c.unfair = max(c.unfair, done.Unfair)
}

func (c *profileCounts) perSeed(names ...string) (n int) {
	for _, name := range names {
		n += c.counts[name]
	}
	return n / c.seeds
}

func (c *profileCounts) String() string {
	grants, asked := c.perSeed("granted", "dropIn", "counted", "shared"), c.perSeed("granted", "denied", "noQuorum")
	return fmt.Sprintf("%d seeds, each %d grants, %d%% of %d LOCKs with a quorum; in all %v, faults %v, luckiest caller ÷ unluckiest %.1f",
		c.seeds, grants, 100-100*c.perSeed("noQuorum")/max(asked, 1), asked, c.counts, c.struck, c.unfair)
}

// eventFloors are how often each kind of event happens in a hundred seeds at least. Most happen about three times as often.
var eventFloors = map[string]int{
	"faults": 3_000, "granted": 20_000, "denied": 30_000, "noQuorum": 5_000, "extended": 25_000, "lost": 80, "released": 13_000, "repeated": 15_000, "elsewhere": 5_000,
	"fences": 4_500, "slots": 8_000, "slotsFull": 4_500, "several": 180, "reserved": 1_200, "ordered": 350, "unordered": 100,
	"transactions": 500, "looked": 3_000, "unblocked": 1_200, "UNBLOCKED": 500,
	"dropIn": 2_000, "dropInLater": 2_000, "rotated": 650, "read": 700, "scripts": 60_000, "scriptsUnknown": 1_000, "counted": 1_000, "shared": 1_900,
	"kept": 4_000, "takenOver": 400, "heldLost": 120, "reads": 2_900, "readsTogether": 1_000, "readsMoved": 120, "readsKeptOut": 1_000, "behindReaders": 240,
	"changed": 100, "refounded": 100, "founded": 100, "moved": 100, "operators": 200, "together": 50, "staleOperators": 100, "stale": 50, "cameBack": 100, "copies": 200, "evictions": 50,
	"late": 1_000, "readsCopied": 100, "hoarded": 5_000, "coveted": 10_000, "marks": 1_500, "forced": 250, "restarts": 120, "probes": 300, "wakes": 400,
	"BUSYWAIT": 4_000, "LEAVING": 100, "ERR ttl": 4_000, "ERR the lock was first": 60, "ERR 2 locks are held": 120, "ERR max number of locks": 1_500,
	"ERR max number of connections": 2_500,
}

// A simulation that grants little, or without a quorum, proves little.
const (
	grantsFloor    = 300 // of a seed, on average of those of a profile: it has some 700
	quorumFloor    = 70  // percent of the LOCKs of a profile, in half of all profiles
	seedsOfProfile = 4   // that a profile needs for its own floors
	seedsOfFault   = 10  // that a profile needs so that each of its faults happens, whatever is drawn
	seedsOfFloors  = 200 // that are needed so that the floors are reached, whatever is drawn: of fewer, half of them is
)

// checkWorth fails a simulation that proves little, because hardly anything was granted or hardly anything broke. drawn: some of its seeds are others each
// time.
func checkWorth(t *testing.T, total map[string]*profileCounts, drawn bool) {
	all := profileCounts{counts: map[string]int{}}
	calm := 0
	for _, p := range profiles {
		c := total[p.name]
		if c == nil || c.seeds < seedsOfProfile {
			return // too few to tell
		}
		all.seeds += c.seeds
		for name, n := range c.counts {
			all.counts[name] += n
		}
		if grants, asked := c.perSeed("granted", "dropIn", "counted", "shared"), c.perSeed("granted", "denied", "noQuorum"); grants < grantsFloor {
			t.Errorf("%s: %d grants a seed, want %d", p.name, grants, grantsFloor)
		} else if 100*c.perSeed("noQuorum") < (100-quorumFloor)*asked {
			calm++
		}
		for fault := range p.faults {
			if c.struck[fault] == 0 && !(c.seeds < seedsOfFault && (drawn || replacedByClocks(fault))) {
				t.Errorf("%s: the fault %q did not happen in %d seeds", p.name, fault, c.seeds)
			}
		}
	}
	if 2*calm < len(profiles) {
		t.Errorf("%d profiles of %d have a quorum for %d %% of their LOCKs, want half of them", calm, len(profiles), quorumFloor)
	}
	seeds := all.seeds
	if drawn && seeds < seedsOfFloors {
		seeds /= 2
	}
	for _, name := range sortedKeys(eventFloors) {
		if got, want := all.counts[name], eventFloors[name]*seeds/100; got < want {
			t.Errorf("%s: %d in %d seeds, want %d", name, got, all.seeds, want)
		}
	}
}
