package main

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// Goal: wrong flags are refused with a sentence that names them. Method: a table of command lines.
func TestOptionsRefuse(t *testing.T) {
	for args, want := range map[string]string{
		"--targets abacus":        `--targets: unknown name "abacus"`,
		"--scenarios warm":        `--scenarios: unknown name "warm"`,
		"--callers 0":             `--callers: "0" is no positive number`,
		"--hot-clients 1,x":       `--hot-clients: "x" is no positive number`,
		"--faults freeze2,burn1":  `--faults: "burn1" is no fault`,
		"--rounds 0":              "--rounds 0",
		"--duration 0s":           "--duration 0s",
		"--no-such-flag":          "no-such-flag",
		"uncontended":             `unexpected argument "uncontended"`,
		"--quick --hot-rounds -1": "--hot-rounds -1",
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

// Goal: --help names everything there is to choose from. Method: look for it.
func TestOptionsHelp(t *testing.T) {
	var help strings.Builder
	if _, err := parseOptions([]string{"--help"}, &help); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v, want flag.ErrHelp", err)
	}
	for _, want := range append(slices.Concat(targetNames, scenarioNames), "-quick", "-out", "freeze1", "-redlockd-gomaxprocs") {
		if !strings.Contains(help.String(), want) {
			t.Errorf("--help lacks %q:\n%s", want, help.String())
		}
	}
}
