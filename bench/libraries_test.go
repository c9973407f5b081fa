package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// Goal: every library locks and unlocks both ways without an error, and redlockd is what it talks to when it should. Method: the
// whole scenario on real servers, 100 ms each; a library that is not installed is left out.
func TestEveryLibrary(t *testing.T) {
	b := builtBench(t)
	b.scenarios, b.libraries = []string{scenarioLibraries}, libraryNames
	b.libraryCallers, b.libraryRounds, b.libraryDuration = []int{4}, 1, b.duration
	if err := b.findLibraries(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, why := range b.leftOut {
		t.Log(why)
	}
	var r report
	if err := runLibraries(t.Context(), b, &r); err != nil {
		t.Fatal(err)
	}
	if want := len(b.libraries) * len(ways); len(r.Libraries.Rows) != want || len(b.libraries) == 0 {
		t.Errorf("got %d rows, want %d", len(r.Libraries.Rows), want)
	}
	for _, row := range r.Libraries.Rows {
		failed := slices.ContainsFunc(row.Failures.Texts, func(text string) bool {
			return !strings.Contains(text, "no answer within") // a master that a busy machine keeps waiting is no fault of ours
		})
		if row.PairsPerSec == 0 || row.LockUs.P50 == 0 || row.PairUs.P50 < row.LockUs.P50 || row.CPU.ClientUs == 0 || failed {
			t.Errorf("%s over %s: got %+v, want pairs, a lock and a longer pair, CPU time, no failure", row.Library, row.Over, row)
		}
		if over := row.Over == ways[0].name; over != (row.ToDirect.PairsPerSec > 0) || over != (row.CPU.RedlockdUs > 0) {
			t.Errorf("%s over %s: got %v µs of redlockd, ratio %v", row.Library, row.Over, row.CPU.RedlockdUs, row.ToDirect.PairsPerSec)
		}
	}
}

// Goal: what is not installed is refused when it was asked for by name, with how to get it, and left out with a line otherwise.
// Method: a module where nothing is installed.
func TestLibrariesNotInstalled(t *testing.T) {
	empty := t.TempDir()
	for args, byName := range map[string]bool{
		"--full":                                  false,
		"--scenarios all":                         false,
		"--scenarios libraries":                   true,
		"--scenarios libraries --libraries all":   true,
		"--full --libraries redsync,node-redlock": true,
	} {
		o, err := parseOptions(strings.Fields(args), t.Output())
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{options: o}
		err = b.findLibrariesIn(empty)
		if byName {
			wantErr(t, err, "node-redlock is not installed: it comes with make bench-libraries, which needs node and npm")
			continue
		}
		wantErr(t, err, "")
		if !slices.Equal(b.libraries, []string{targetRedsync}) || len(b.leftOut) != len(libraries)-1 || !strings.Contains(b.leftOut[1], "pottery is not installed") {
			t.Errorf("%s: got %v, left out %q, want redsync alone", args, b.libraries, b.leftOut)
		}
	}
}

// Goal: Ctrl-C leaves no load generator of another language behind. Method: each with a minute of work, its context cancelled.
func TestLibraryGeneratorEndsWithItsContext(t *testing.T) {
	b := builtBench(t)
	b.scenarios, b.libraries = []string{scenarioLibraries}, libraryNames
	if err := b.findLibraries(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := startCluster(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, name := range b.libraries {
		ctx, cancel := context.WithCancel(t.Context())
		spec := c.spec(loadSpec{Scenario: scenarioLibraries, Target: name, Callers: 2, Warmup: time.Millisecond, Duration: time.Minute, Prefix: "bench:test:"})
		if program := b.libraryPrograms[name]; len(program) > 0 {
			spec.program, spec.arguments = program[0], program[1:]
		}
		g, err := startGenerator(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		defer g.close()
		if err := g.say(sayGo); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := g.await(t.Context(), sayDone, time.Minute); err == nil {
			t.Errorf("%s: it said it was done, want an error", name)
		}
		g.close()
		if g.process.ProcessState == nil {
			t.Errorf("%s: the process still runs, want it ended", name)
		}
	}
}
