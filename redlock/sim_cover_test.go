//go:build !race

package redlock

// What the simulation never enters: no seed says anything about that. `make cover-simulation` writes it to a file of the repository.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// coverProfiles is the folder of one profile per seed; empty: nothing is measured.
func coverProfiles() string {
	if os.Getenv(simCover) == "" {
		return ""
	}
	return filepath.Join(repeatableDir, "cover")
}

// coverBuild are the arguments of `go test -c` for a binary that measures the engine: what it is made of, but for what is there for tests.
func coverBuild() ([]string, error) {
	engine, err := exec.Command("go", "list", "-deps", "-f", "{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}", ".").Output()
	if err != nil {
		return nil, fmt.Errorf("go list -deps: %w", err)
	}
	return []string{"-cover", "-covermode=set", "-coverpkg=" + strings.Join(strings.Fields(string(engine)), ",")}, os.Mkdir(coverProfiles(), 0o700)
}

// writeCover writes what all seeds together have entered to the file of REDLOCK_SIM_COVER, if there is one.
func writeCover(t *testing.T, wanted *simWanted) {
	t.Helper()
	if coverProfiles() == "" {
		return
	}
	report, err := coverReport(coverProfiles())
	if err == nil {
		report = "# What seeds of the simulation have entered of the engine, which `make cover-simulation` writes.\n\ncommit   " + commitText() +
			"\nseeds    " + strings.TrimPrefix(wanted.String(), "seeds: ") + "\n\n" + report
		err = os.WriteFile(os.Getenv(simCover), []byte(report), 0o644)
	}
	if err != nil {
		t.Errorf("%s=%s: %v", simCover, os.Getenv(simCover), err)
	}
}

// coveredFunction is a line of `go tool cover -func`: a place, a name, and the part of its statements that was executed.
var coveredFunction = regexp.MustCompile(`^redlockd/redlock/([^:]+):\d+:\s+(\S+)\s+([\d.]+)%$`)

// coverReport merges the profiles, in which each line is a block and whether it was executed.
func coverReport(dir string) (string, error) {
	profiles, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(profiles) == 0 {
		return "", fmt.Errorf("no profile is in %s: %w", dir, err)
	}
	entered := map[string]bool{}
	for _, name := range profiles {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(string(text)) {
			if block, count, ok := strings.Cut(strings.TrimSpace(line), " "); ok && block != "mode:" {
				n, executed, _ := strings.Cut(count, " ")
				entered[block+" "+n] = entered[block+" "+n] || executed != "0"
			}
		}
	}
	merged := []string{"mode: set"}
	for _, block := range sortedKeys(entered) {
		merged = append(merged, fmt.Sprint(block, map[bool]string{true: " 1", false: " 0"}[entered[block]]))
	}
	all := filepath.Join(dir, "all")
	if err := os.WriteFile(all, []byte(strings.Join(merged, "\n")+"\n"), 0o600); err != nil {
		return "", err
	}
	output, err := exec.Command("go", "tool", "cover", "-func", all).Output()
	if err != nil {
		return "", fmt.Errorf("go tool cover -func: %w", err)
	}
	var never []string
	total := ""
	for line := range strings.Lines(string(output)) {
		line = strings.TrimSpace(line)
		if f := coveredFunction.FindStringSubmatch(line); f != nil && f[3] == "0.0" {
			never = append(never, f[1]+" "+f[2])
		} else if strings.HasPrefix(line, "total:") {
			total = strings.Fields(line)[2]
		}
	}
	slices.Sort(never)
	return fmt.Sprintf("statements executed   %s\n\n## Functions that no seed has entered\n%s\n", total, strings.Join(never, "\n")), nil
}
