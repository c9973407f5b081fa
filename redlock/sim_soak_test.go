//go:build !race

package redlock

// What `make soak-simulation` has come to is kept in a file of the repository, with the commit that it was played on.

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// soak is what is known of it so far: each of its two tests adds its part.
type soak struct {
	head   []string
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

// played adds what the seeds have gone through.
func (s *soak) played(wanted *simWanted, total map[string]*profileCounts, took time.Duration, failed bool) {
	all, seeds := map[string]int{}, 0
	for _, c := range total {
		seeds += c.seeds
		for name, n := range c.counts {
			all[name] += n
		}
	}
	result := "no seed fails"
	if failed {
		result = "a seed fails, or there was too little of something: not all were played"
	}
	s.head = []string{
		"commit   " + commitText(),
		"date     " + time.Now().UTC().Format(time.DateOnly),
		"go       " + runtime.Version(),
		"seeds    " + strings.TrimPrefix(wanted.String(), "seeds: "),
		fmt.Sprintf("played   %d, in %v", seeds, took.Round(time.Second)),
		"result   " + result,
	}
	s.counts = nil
	for _, name := range sortedKeys(all) {
		s.counts = append(s.counts, fmt.Sprintf("%8d  %s", all[name], name))
	}
}

func (s *soak) String() string {
	parts := []string{"# A soak of the simulation, which `make soak-simulation` writes.", strings.Join(s.head, "\n")}
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
