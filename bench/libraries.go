package main

import (
	"context"
	"errors"
	"fmt"
	"image/color"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Libraries: what a service gains that keeps its Redlock library and its code, and gives it one address, redlockd's, in the
// place of the five masters. Each library is used as its README shows it, with its own defaults.

// library is a Redlock library of somebody else.
type library struct {
	name     string
	language string // as build.sh names it; empty: the load generator is in this program
	script   string // the load generator, in the directory of those of the bench
	// command runs the script with what build.sh has installed for the language.
	command func(installed, script string) []string
}

// The names that --libraries takes. A new one goes here, and needs a load generator beside those in the directory libraries,
// or a target in newTarget.
var libraries = []library{
	{name: targetRedsync},
	{name: "node-redlock", language: "node", script: "load-node-redlock.js", command: func(installed, script string) []string {
		return []string{filepath.Join(installed, "node"), script, installed}
	}},
	{name: "pottery", language: "python", script: "load-pottery.py", command: func(installed, script string) []string {
		return []string{filepath.Join(installed, "current/bin/python"), script}
	}},
	// Over redlockd it is an RLock, which counts in a hash; over the masters the same library's RedissonRedLock.
	{name: "redisson", language: "java", script: "LoadRedisson.java", command: func(installed, script string) []string {
		return []string{"java", "-cp", filepath.Join(installed, "lib/*"), script}
	}},
}

var libraryNames = column(libraries, func(l library) string { return l.name })

// Where other people's packages are installed, and the programs that load them, in this module.
const (
	librariesBuild   = "cmd/redlockd/testdata/libraries/build"
	librariesScripts = "bench/libraries"
)

// generatorOf is the program that loads a library and its arguments; none for what this program has in itself. An error says
// what is missing.
func (l library) generatorOf(module string) (program []string, err error) {
	if l.language == "" {
		return nil, nil
	}
	installed := filepath.Join(module, librariesBuild, l.language)
	program = l.command(installed, filepath.Join(module, librariesScripts, l.script))
	_, err = os.Stat(filepath.Join(installed, "stamp")) // written when everything is installed
	if err == nil {
		program[0], err = exec.LookPath(program[0])
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not installed: it comes with make bench-libraries, which needs %s", l.name, l.needs())
	}
	return program, nil
}

func (l library) needs() string {
	switch l.language {
	case "python":
		return "python3 with venv (on Debian: apt install python3-venv)"
	case "java":
		return "java and mvn (on Debian: apt install default-jdk-headless maven)"
	}
	return "node and npm (on Debian: apt install nodejs npm)"
}

// findLibraries finds the load generators of the libraries that are to be measured.
func (b *bench) findLibraries(ctx context.Context) error {
	if !slices.Contains(b.scenarios, scenarioLibraries) {
		return nil
	}
	module, err := productDir(ctx)
	if err != nil {
		return fmt.Errorf("find the programs of the scenario libraries (run the bench in its directory): %w", err)
	}
	return b.findLibrariesIn(module)
}

// findLibrariesIn refuses what is missing when it was asked for by name, and otherwise leaves it out, with a line for the report.
func (b *bench) findLibrariesIn(module string) error {
	b.libraryPrograms = map[string][]string{}
	for _, l := range libraries {
		if !slices.Contains(b.libraries, l.name) {
			continue
		}
		program, err := l.generatorOf(module)
		if err != nil && b.librariesByName {
			return err
		}
		if err != nil {
			b.leftOut = append(b.leftOut, err.Error())
			b.libraries = slices.DeleteFunc(slices.Clone(b.libraries), func(name string) bool { return name == l.name })
			continue
		}
		b.libraryPrograms[l.name] = program
	}
	return nil
}

// way is what a library gets as its masters.
type way struct {
	name string
	like string // the target whose servers work for it
}

var ways = []way{{name: "redlockd", like: targetRedlockd}, {name: "5 masters", like: targetRedsync}}

// libraryFigures are what a load generator of a library says.
type libraryFigures struct {
	loadFigures
	Versions map[string]string `json:"versions"`
}

// libraryRow is one library with some callers one way; figures are medians of the rounds.
type libraryRow struct {
	Library string `json:"library"`
	Over    string `json:"over"` // a way
	Callers int    `json:"callers"`

	uncontendedRound
	PairsPerSecMin float64 `json:"pairs_per_sec_min"`
	PairsPerSecMax float64 `json:"pairs_per_sec_max"`

	// To the masters directly, for the rows over redlockd.
	ToDirect      comparison `json:"to_direct"`
	ToDirectWorst float64    `json:"to_direct_pairs_per_sec_worst"` // the round with the lowest ratio
	ToDirectP99   float64    `json:"to_direct_lock_p99"`            // ours / theirs

	Rounds []uncontendedRound `json:"rounds"`
}

// librariesFigures are the scenario's part of the report.
type librariesFigures struct {
	Rows     []libraryRow      `json:"rows"`
	Versions map[string]string `json:"versions,omitempty"`
	LeftOut  []string          `json:"left_out,omitempty"`
}

func libraryCells(o *options) int {
	return len(o.libraryCallers) * len(o.libraries) * len(ways) * o.libraryRounds
}

func runLibraries(ctx context.Context, b *bench, r *report) error {
	c, err := startCluster(ctx, masterCount, b.program)
	if err != nil {
		return err
	}
	defer c.close()
	figures := &librariesFigures{Versions: map[string]string{}, LeftOut: b.leftOut}
	var rows []*libraryRow
	for _, callers := range b.libraryCallers {
		for _, name := range b.libraries {
			for _, w := range ways {
				rows = append(rows, &libraryRow{Library: name, Over: w.name, Callers: callers})
			}
		}
	}
	for round := range b.libraryRounds {
		b.progress.round(scenarioLibraries)
		// The two ways of a library run one right after the other, and take turns in being the first.
		for _, row := range inTurn(rows, len(ways), round) {
			b.progress.step("libraries, round %d of %d: %s, %s over %s", round+1, b.libraryRounds, callersOf(row.Callers), row.Library, row.Over)
			cell, err := runLibraryCell(ctx, b, c, row, round, figures.Versions)
			if err != nil {
				return err
			}
			row.Rounds = append(row.Rounds, cell)
		}
	}
	figures.Rows = summarizeLibraries(rows)
	r.Libraries = figures
	return nil
}

func runLibraryCell(ctx context.Context, b *bench, c *cluster, row *libraryRow, round int, versions map[string]string) (uncontendedRound, error) {
	w := ways[slices.IndexFunc(ways, func(w way) bool { return w.name == row.Over })]
	spec := c.spec(loadSpec{
		Scenario: scenarioLibraries,
		Target:   row.Library,
		Callers:  row.Callers,
		Warmup:   b.warmup,
		Duration: b.libraryDuration,
		Prefix:   fmt.Sprintf("bench:libraries:%d:%d:%s:%s:", round, row.Callers, row.Library, w.like),
	})
	if usesRedlockd(w.like) {
		spec.Masters = []string{spec.Redlockd}
	}
	if program := b.libraryPrograms[row.Library]; len(program) > 0 {
		spec.program, spec.arguments = program[0], program[1:]
	}
	var f libraryFigures
	u, err := between(ctx, spec, &f, func() (used, error) { return c.read(ctx, w.like, nil) })
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return stuckRound(err), nil
	}
	if err != nil {
		return uncontendedRound{}, err
	}
	if f.Pairs == 0 && f.Failures.Count == 0 {
		return uncontendedRound{}, fmt.Errorf("%s, %s over %s: neither a lock nor a failure", callersOf(row.Callers), row.Library, row.Over)
	}
	for name, version := range f.Versions {
		versions[name] = version
	}
	return roundOf(f.loadFigures, u.serverCPU), nil
}

func summarizeLibraries(rows []*libraryRow) []libraryRow {
	pairs := func(r uncontendedRound) float64 { return r.PairsPerSec }
	out := make([]libraryRow, 0, len(rows))
	for i, row := range rows {
		row.uncontendedRound = medians(row.Rounds)
		row.PairsPerSecMin, row.PairsPerSecMax = rangeOf(row.Rounds, pairs)
		if row.Over == ways[0].name {
			direct := rows[i+1].Rounds
			row.ToDirect = compare(row.Rounds, direct)
			row.ToDirectP99 = medianRatio(row.Rounds, direct, func(r uncontendedRound) float64 { return r.LockUs.P99 })
			row.ToDirectWorst = lowestRatio(row.Rounds, direct, pairs)
		}
		out = append(out, *row)
	}
	return out
}

func librariesTable(f *librariesFigures) table {
	t := table{
		title: "Libraries: a Redlock library's own lock and unlock, given redlockd's address as its only master, and given the five masters",
		note: "Medians of the rounds, latencies in µs, CPU in µs per pair of all processes. ×: over redlockd ÷ over the masters, each round's ratio,\n" +
			"then the median; the lowest ratio of a round beside it. CPU less: over the masters ÷ over redlockd. Every library as its README shows it;\n" +
			"redisson is an RLock over redlockd and a RedissonRedLock over the masters.",
		head: []string{"callers", "library", "over", "pairs/s", "(min–max)", "×", "lowest", "lock p50", "×", "p99", "×", "pair p50", "p99",
			"CPU", "=client", "+redlockd", "+redis", "less", "errors"},
		left: 3,
	}
	for _, r := range f.Rows {
		t.add(r.Callers, r.Library, r.Over, r.PairsPerSec, number(r.PairsPerSecMin)+"–"+number(r.PairsPerSecMax),
			times(r.ToDirect.PairsPerSec), times(r.ToDirectWorst), r.LockUs.P50, times(r.ToDirect.LockP50), r.LockUs.P99, times(r.ToDirectP99),
			r.PairUs.P50, r.PairUs.P99, r.CPU, times(r.ToDirect.CPULess), r.Failures.Count)
	}
	return t
}

// libraryPanels has a row per number of callers, a column per question: over redlockd against over the masters.
func libraryPanels(rows []libraryRow) (all panels) {
	rows = keep(rows, func(r libraryRow) bool { return r.Over == ways[0].name })
	for _, group := range byLoad(rows, func(r libraryRow) int { return r.Callers }) {
		names := column(group, func(r libraryRow) string { return r.Library })
		colors := slices.Repeat([]color.Color{colorOf(targetRedlockd)}, len(names))
		all = append(all, bars{title: callersOf(group[0].Callers), names: names, mark: 1}.sideBySide(colors,
			figure{"pairs/s ×, more is better", column(group, func(r libraryRow) float64 { return r.ToDirect.PairsPerSec })},
			figure{"acquire p50 ×, less is better", column(group, func(r libraryRow) float64 { return r.ToDirect.LockP50 })},
			figure{"acquire p99 ×, less is better", column(group, func(r libraryRow) float64 { return r.ToDirectP99 })}))
	}
	return all
}

// writeNotes says what was measured, and what was not.
func (f *librariesFigures) writeNotes(w io.Writer) {
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(f.Versions)) {
		versions = append(versions, name+" "+f.Versions[name])
	}
	if len(versions) > 0 {
		fmt.Fprintf(w, "\n%s; redsync as above\n", strings.Join(versions, ", "))
	}
	for _, why := range f.LeftOut {
		fmt.Fprintf(w, "left out: %s\n", why)
	}
}
