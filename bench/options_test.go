package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Goal: wrong flags are refused with a sentence that names them. Method: a table of command lines.
func TestOptionsRefuse(t *testing.T) {
	for args, want := range map[string]string{
		"--targets abacus":                         `-targets: unknown name "abacus"`,
		"--scenarios warm":                         `-scenarios: unknown name "warm"`,
		"--callers 0":                              `-callers: "0" is no positive number`,
		"--hot-clients 1,x":                        `-hot-clients: "x" is no positive number`,
		"--faults freeze2,burn1":                   `-faults: "burn1" is no fault`,
		"--rounds 0":                               "--rounds 0: want more than 0",
		"--duration 0s":                            "--duration 0s",
		"--no-such-flag":                           "no-such-flag",
		"uncontended":                              `unexpected argument "uncontended"`,
		"--quick --hot-rounds -1":                  "--hot-rounds -1",
		"--limit-commands 1":                       "--limit-commands 1",
		"--growth-masters 1,2":                     "--growth-masters: 2: a number of masters is odd",
		"--growth-held 10,5":                       "--growth-held [10 5]: want them ascending",
		"--growth-depths 2000":                     "--growth-depths: 2000",
		"--distances 5":                            `-distances: "5" is no distance`,
		"--connection-rounds 0":                    "--connection-rounds 0",
		"--scenarios connections --idle 100000000": "--idle, --busy: 100000000 connections need",
		"--distances 1s":                           `-distances: "1s" is no distance`,
		"--growth-rounds 0":                        "--growth-rounds 0",
		"--scenarios growth --growth-waiters 100000000": "open files in one process",
		"--fleets 3":              `-fleets: "3" is no fleet`,
		"--fleets 3x0":            `-fleets: "3x0" is no fleet`,
		"--fleets 99x1":           `-fleets: "99x1" is no fleet`,
		"--libraries abacus":      `-libraries: unknown name "abacus"`,
		"--library-callers 0":     `-library-callers: "0" is no positive number`,
		"--library-rounds 0":      "--library-rounds 0",
		"--rates 500,100":         "--rates [500 100]: want them ascending",
		"--rates 2000000":         "up to 1000000",
		"--latency-duration 1h":   "--latency-duration 1h0m0s",
		"--recovery-restarts 6":   "--recovery-restarts 6: there are 5 masters",
		"--recovery-held 5000000": "--recovery-held 5000000: want up to 2000000",
		"--recovery-quiet 0s":     "--recovery-quiet 0s",
	} {
		_, err := parseOptions(strings.Fields(args), io.Discard)
		wantErr(t, err, want)
	}
}

// Goal: --quick changes only what was not asked for. Method: look at one flag of each kind.
func TestOptionsQuick(t *testing.T) {
	o, err := parseOptions([]string{"--quick", "--rounds", "9", "--targets", "single,redsync"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.rounds != 9 || o.duration != 500*time.Millisecond || o.hotRounds != 1 {
		t.Errorf("got %d rounds of %v, %d of the hot key, want 9 of 500ms, 1", o.rounds, o.duration, o.hotRounds)
	}
	if want := []string{targetRedsync, targetSingle}; !slices.Equal(o.targets, want) {
		t.Errorf("got targets %v, want %v: the order of the report", o.targets, want)
	}
	// 3 numbers of callers × 2 targets × 9 rounds; redsync alone for 2 numbers of clients and 2 faults.
	if got, want := o.cells(), 54+2+2; got != want {
		t.Errorf("got %d cells, want %d", got, want)
	}
}

// Goal: --full is everything, and all is the word for it. Method: compare with the lists.
func TestOptionsFull(t *testing.T) {
	o, err := parseOptions([]string{"--full", "--targets", "redsync", "--quick"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.scenarios, scenarioNames) || !slices.Equal(o.targets, []string{targetRedsync}) || o.rounds != 2 {
		t.Errorf("--full --targets redsync --quick: got scenarios %v, targets %v, %d rounds", o.scenarios, o.targets, o.rounds)
	}
	o, err = parseOptions([]string{"--targets", "all"}, io.Discard)
	if err != nil || !slices.Equal(o.targets, targetNames) || strings.Join(o.scenarios, ",") != scenarioDefaults {
		t.Errorf("--targets all: got %v (%v), scenarios %v", o.targets, err, o.scenarios)
	}
}

// Goal: a program that is not installed is named, with the package that has it, and only if it is needed. Method: a PATH
// that has redis-server alone.
func TestRequirePrograms(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	o, err := parseOptions(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, requirePrograms(o), "apt install redis-server")
	if err := os.WriteFile(filepath.Join(dir, redisServer), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	wantErr(t, requirePrograms(o), "")
	o.scenarios = []string{scenarioLimit}
	wantErr(t, requirePrograms(o), "redis-benchmark is not installed")
	o.scenarios, o.targets = []string{scenarioUncontended}, []string{targetEtcd}
	wantErr(t, requirePrograms(o), "apt install etcd-server")
	o.scenarios = []string{scenarioFaults}
	wantErr(t, requirePrograms(o), "")
}

// Goal: --help names everything there is to choose from. Method: look for it.
func TestOptionsHelp(t *testing.T) {
	var help strings.Builder
	if _, err := parseOptions([]string{"--help"}, &help); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v, want flag.ErrHelp", err)
	}
	for _, want := range append(slices.Concat(targetNames, scenarioNames), "-quick", "-full", "-out", "freeze1", "-redlockd-gomaxprocs") {
		if !strings.Contains(help.String(), want) {
			t.Errorf("--help lacks %q:\n%s", want, help.String())
		}
	}
}
