//go:build !race

package redlock

// What `make soak-simulation` has come to is kept in a file of the repository, with the commit that it was played on.

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// soak is what is known of it so far: each of its two tests adds its part.
type soak struct {
	head   []string
	failed []string
	counts []string
	hunted []string
}

var thisSoak soak

// writeSoak adds to the report, and writes it to the file of REDLOCK_SIM_REPORT, if there is one.
func writeSoak(t *testing.T, add func(s *soak)) {
	t.Helper()
	name := os.Getenv(simReport)
	if name == "" {
		return
	}
	add(&thisSoak)
	if err := os.WriteFile(name, []byte(thisSoak.String()), 0o644); err != nil {
		t.Errorf("%s=%s: %v", simReport, name, err)
	}
}

// played says what the seeds have gone through so far.
func (s *soak) played(wanted *simWanted, plays *simPlays, failed bool) {
	all := map[string]int{}
	for _, c := range plays.profiles {
		for name, n := range c.counts {
			all[name] += n
		}
	}
	result := "no seed fails"
	if len(plays.failed) > 0 {
		result = fmt.Sprintf("seeds that fail: %d", len(plays.failed))
	} else if failed {
		result += ", and there was too little of something"
	}
	s.head = []string{
		"commit   " + commitText(),
		"date     " + time.Now().UTC().Format(time.DateOnly),
		"go       " + runtime.Version(),
		"seeds    " + strings.TrimPrefix(wanted.String(), "seeds: "),
		fmt.Sprintf("played   %d, in %v", plays.seeds, time.Since(plays.began).Round(time.Second)),
		"result   " + result,
	}
	s.failed = plays.failed
	s.counts = nil
	for _, name := range sortedKeys(all) {
		s.counts = append(s.counts, fmt.Sprintf("%8d  %s", all[name], name))
	}
}

func (s *soak) String() string {
	parts := []string{"# A soak of the simulation, which `make soak-simulation` writes.", strings.Join(s.head, "\n")}
	if len(s.failed) > 0 {
		parts = append(parts, "## Seeds that fail\n"+strings.Join(s.failed, "\n"))
	}
	if len(s.counts) > 0 {
		parts = append(parts, "## How often each event has happened\n"+strings.Join(s.counts, "\n"))
	}
	if len(s.hunted) > 0 {
		parts = append(parts, "## Marked bugs, and the first seed that has found each\n"+strings.Join(s.hunted, "\n"))
	}
	return strings.Join(parts, "\n\n") + "\n"
}

// commitText names the commit of the working tree, and says whether it has changes, other than these reports.
func commitText() string {
	commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		return "unknown: git says " + err.Error()
	}
	text := strings.TrimSpace(string(commit))
	changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--", ":(top)", ":(exclude)testdata/soak.txt", ":(exclude)testdata/cover.txt").Output()
	if err != nil || len(changed) > 0 {
		text += ", with changes"
	}
	return text
}

// A soak goes on behind a seed that fails, and its report names each of them, with the first that it told.
func TestSoakReport(t *testing.T) {
	plays := &simPlays{began: time.Now(), profiles: map[string]*profileCounts{}}
	plays.add(simPlay{Seed: 7}, played{Profile: "calm", Counts: map[string]int{"grant": 3}})
	plays.add(simPlay{Seed: 8}, played{Profile: "calm", Counts: map[string]int{"grant": 4}, failed: true, output: "exit status 1\n--- FAIL: TestSimulation (1.0s)\n    sim_ledger_test.go:9: two hold a\n    sim_test.go:5: and more\n"})
	plays.add(simPlay{Seed: 9}, played{failed: true, output: "signal: killed\n"})
	var s soak
	s.played(&simWanted{first: 7, count: 3}, plays, true)
	report := s.String()
	for _, want := range []string{"played   3, in ", "result   seeds that fail: 2\n", "## Seeds that fail\n8, calm: two hold a\n9, : it has no message\n", "       7  grant\n"} {
		if !strings.Contains(report, want) {
			t.Errorf("no %q in\n%s", want, report)
		}
	}
}

// TestSoakSimulation plays seeds with each marked bug that the simulation must find, and says in which it has found it: `make soak-simulation`, behind
// the seeds without one.
func TestSoakSimulation(t *testing.T) {
	seeds, _ := strconv.Atoi(os.Getenv(simHunts))
	if seeds == 0 {
		redisproc.Skip(t, "`make soak-simulation` runs it")
	}
	binary := buildMutants(t, ".")["."]
	found, lines := 0, []string(nil)
	for _, name := range hunted {
		output, err := runMutant(".", binary, name, "^TestSimulation$", seeds, 0)
		what := fmt.Sprintf("%s: not in %d seeds", name, seeds)
		if where := foundIn.FindString(output); err != nil && where != "" {
			found++
			what = name + ": " + where
		}
		lines = append(lines, what)
		t.Log(what)
	}
	lines = append(lines, fmt.Sprintf("%d of %d marked bugs are found within %d seeds", found, len(hunted), seeds))
	t.Log(lines[len(lines)-1])
	writeSoak(t, func(s *soak) { s.hunted = lines })
}

var foundIn = regexp.MustCompile(`seed \d+, [a-z ]+`)
