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

// coverFolder is where each play writes what it has executed; empty: nothing is measured.
func coverFolder() string {
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
	return []string{"-cover", "-covermode=set", "-coverpkg=" + strings.Join(strings.Fields(string(engine)), ",")}, os.Mkdir(coverFolder(), 0o700)
}

// writeCover writes what all seeds together have entered to the file of REDLOCK_SIM_COVER, if there is one.
func writeCover(t *testing.T, wanted *simWanted) {
	t.Helper()
	if coverFolder() == "" {
		return
	}
	report, err := coverReport(coverFolder())
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

// coverReport is about all that processes have written to the folder.
func coverReport(dir string) (string, error) {
	all := filepath.Join(dir, "all")
	if output, err := exec.Command("go", "tool", "covdata", "textfmt", "-i", dir, "-o", all).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go tool covdata: %w\n%s", err, output)
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
