package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The files of the --out directory, beside the plots.
const (
	reportText = "report.txt"
	reportJSON = "report.json"
	reportPage = "summary.md"  // what README shows
	logName    = "servers.log" // of redlockd and etcd
)

// report is everything that a run found out. Its JSON is the whole of it, the text shows what fits into a line.
type report struct {
	Environment environment      `json:"environment"`
	Uncontended []uncontendedRow `json:"uncontended,omitempty"`
	HotKey      []hotKeyRow      `json:"hot_key,omitempty"`
	Faults      []faultRow       `json:"faults,omitempty"`
	Recovery    []recoveryRow    `json:"recovery,omitempty"`
	Limit       *limitFigures    `json:"limit,omitempty"`
	Latency     []latencyRow     `json:"latency,omitempty"`
	Proxies     []proxiesRow     `json:"proxies,omitempty"`
	Several     []severalRow     `json:"several,omitempty"`
	Slots       []slotsRow       `json:"slots,omitempty"`
	Readers     []readersRow     `json:"readers,omitempty"`
	Beside      []besideRow      `json:"beside,omitempty"`
	Overload    []overloadRow    `json:"overload,omitempty"`
	Growth      *growthFigures   `json:"growth,omitempty"`
	Distance    []distanceRow    `json:"distance,omitempty"`

	Connections *connectionsFigures `json:"connections,omitempty"`
	Libraries   *librariesFigures   `json:"libraries,omitempty"`
}

// save writes the report in all its forms into dir.
func (r *report) save(dir string) error {
	var text strings.Builder
	r.writeText(&text)
	if err := os.WriteFile(filepath.Join(dir, reportText), []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, reportPage), []byte(r.summary()), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	encoded, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, reportJSON), append(encoded, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return r.plot(dir)
}

// writeText prints the tables.
func (r *report) writeText(w io.Writer) {
	r.Environment.writeText(w)
	uncontendedTable(r.Uncontended).write(w)
	ratioTable(r.Uncontended).write(w)
	hotKeyTable(r.HotKey).write(w)
	faultTable(r.Faults).write(w)
	recoveryTable(r.Recovery).write(w)
	if r.Limit != nil {
		limitTable(r.Limit, r.Uncontended).write(w)
	}
	latencyTable(r.Latency).write(w)
	proxiesTable(r.Proxies).write(w)
	severalTable(r.Several).write(w)
	slotsTable(r.Slots).write(w)
	readersTable(r.Readers).write(w)
	besideTable(r.Beside).write(w)
	overloadTable(r.Overload).write(w)
	if r.Growth != nil {
		r.Growth.writeText(w)
	}
	distanceTable(r.Distance).write(w)
	if r.Connections != nil {
		idleTable(r.Connections.Idle).write(w)
		busyTable(r.Connections.Busy).write(w)
	}
	if r.Libraries != nil {
		librariesTable(r.Libraries).write(w)
		r.Libraries.writeNotes(w)
	}
	r.writeFailures(w)
}

func (e *environment) writeText(w io.Writer) {
	redlockd := e.Redlockd
	if redlockd == "" {
		redlockd = "not measured"
	}
	fmt.Fprintf(w, "date      %s\n", e.Date.Format("2006-01-02 15:04:05 MST"))
	fmt.Fprintf(w, "flags     %s\n", strings.Join(e.Flags, " "))
	fmt.Fprintf(w, "machine   %d × %s, Linux %s, shared by clients, redlockd and masters\n", e.CPUs, e.CPUModel, e.Kernel)
	fmt.Fprintf(w, "load      %s before, %s after; at the beginning of each round:\n", e.LoadBefore, e.LoadAfter)
	for i, round := range e.Rounds {
		if i == 0 || round.Scenario != e.Rounds[i-1].Scenario {
			if i > 0 {
				fmt.Fprintln(w)
			}
			fmt.Fprintf(w, "          %s", round.Scenario)
		}
		fmt.Fprintf(w, " %s", firstWord(round.Load))
	}
	if len(e.Rounds) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "redlockd  %s %s\n", redlockd, strings.Join(e.Settings, " "))
	fmt.Fprintf(w, "redis     %s\n", e.Redis)
	if e.Etcd != "" {
		fmt.Fprintf(w, "etcd      %s\n", e.Etcd)
	}
	fmt.Fprintf(w, "clients   %s", e.Go)
	for _, name := range slices.Sorted(maps.Keys(e.Modules)) {
		fmt.Fprintf(w, ", %s %s", name, e.Modules[name])
	}
	fmt.Fprintln(w)
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

func uncontendedTable(rows []uncontendedRow) table {
	t := table{
		title: "Uncontended: acquire + release on resources that nobody else wants",
		note: "Medians of the rounds. CPU: µs per pair of all processes together = client + redlockd + masters. Latencies in µs;\n" +
			"with 1024 callers they are mostly waiting for a turn.",
		head: []string{"callers", "target", "pairs/s", "(min–max)", "lock p50", "p99", "pair p50", "p99", "p99.9", "CPU", "=client", "+redlockd", "+redis", "errors"},
		left: 2,
	}
	for _, r := range rows {
		t.add(r.Callers, r.Target, r.PairsPerSec, number(r.PairsPerSecMin)+"–"+number(r.PairsPerSecMax),
			r.LockUs.P50, r.LockUs.P99, r.PairUs.P50, r.PairUs.P99, r.PairUs.P999, r.CPU, r.Failures.Count)
	}
	return t
}

func ratioTable(rows []uncontendedRow) table {
	t := table{
		title: "Uncontended, against the peers",
		note: "Each round's ratio, then the median. pairs/s: ours ÷ theirs. lock p50: ours ÷ theirs. CPU: theirs ÷ ours, how much less per pair.\n" +
			"Native: the same client with LOCK and UNLOCK, for the targets that send what a drop-in library sends.",
		head: []string{"callers", "target", "redsync: pairs/s", "lock p50", "CPU less", "single: pairs/s", "lock p50", "CPU less",
			"native: pairs/s", "lock p50", "CPU less"},
		left: 2,
	}
	for _, r := range rows {
		if r.ToRedsync == (comparison{}) && r.ToSingle == (comparison{}) && r.ToNative == (comparison{}) {
			continue // no peer was measured
		}
		t.add(r.Callers, r.Target, times(r.ToRedsync.PairsPerSec), times(r.ToRedsync.LockP50), times(r.ToRedsync.CPULess),
			times(r.ToSingle.PairsPerSec), times(r.ToSingle.LockP50), times(r.ToSingle.CPULess),
			times(r.ToNative.PairsPerSec), times(r.ToNative.LockP50), times(r.ToNative.CPULess))
	}
	return t
}

func hotKeyTable(rows []hotKeyRow) table {
	t := table{
		title: "Hot key: all clients want one resource, 1 ms hold, 5 ms think",
		note: "Medians of the rounds. Hand-over: the time the wanted resource lay unused before ANOTHER client got it. Fairness: the fewest\n" +
			"acquisitions of a client ÷ the most. CPU: µs per acquisition. Violations: two holders at once, seen inside the clients' process.",
		head: []string{"clients", "target", "locks/s", "hand-over mean µs", "p50", "p99", "vs redsync", "wait p50 ms", "p99", "fairness", "CPU", "=client", "+redlockd", "+redis", "gave up", "errors", "violations"},
		left: 2,
	}
	for _, r := range rows {
		t.add(r.Clients, r.Target, r.AcquisitionsPerSec, r.HandOverUs.Mean, r.HandOverUs.P50, r.HandOverUs.P99,
			times(r.HandOverFasterThanRedsync), r.WaitUs.P50/1e3, r.WaitUs.P99/1e3, fmt.Sprintf("%.2f", r.Fairness), r.CPU, r.GaveUp, r.Failures.Count, r.Violations)
	}
	return t
}

func faultTable(rows []faultRow) table {
	t := table{
		title: "Faults: 64 callers, the fault after 1 s of 4 s, healed after the callers stopped",
		note: "Medians of the rounds. Kept: pairs/s under the fault in percent of the healthy second. Pause: the longest time in which no caller\n" +
			"finished a pair. Orphans: locks left on each master after everybody released and the masters were back for 1 to 5 s, the worst round.",
		head: []string{"fault", "target", "healthy pairs/s", "faulty", "kept", "pair p99 before ms", "after", "max after", "pause ms", "errors", "orphans"},
		left: 2,
	}
	for _, r := range rows {
		t.add(r.Fault, r.Target, r.HealthyPairsPerSec, r.FaultyPairsPerSec, number(r.KeptPercent)+" %",
			r.PairP99BeforeUs/1e3, r.PairP99AfterUs/1e3, r.PairMaxAfterUs/1e3, r.LongestPauseMs,
			r.Failures.Count, strings.Trim(fmt.Sprint(r.Orphans), "[]"))
	}
	return t
}

// writeFailures prints what the errors were: a number alone explains nothing.
func (r *report) writeFailures(w io.Writer) {
	say := func(where string, f failures) {
		for _, text := range f.Texts {
			fmt.Fprintf(w, "%s: %s\n", where, text)
		}
	}
	fmt.Fprintln(w)
	for _, row := range r.Uncontended {
		say(fmt.Sprintf("error, uncontended, %d callers, %s", row.Callers, row.Target), row.Failures)
	}
	for _, row := range r.HotKey {
		say(fmt.Sprintf("error, hot key, %d clients, %s", row.Clients, row.Target), row.Failures)
	}
	for _, row := range r.Faults {
		say(fmt.Sprintf("error, fault %s, %s", row.Fault, row.Target), row.Failures)
	}
	for _, row := range r.Recovery {
		say(fmt.Sprintf("error, recovery, %d locks held", row.Held), row.Failures)
	}
	for _, row := range r.Latency {
		say(fmt.Sprintf("error, latency at %d pairs/s, %s", row.Rate, row.Target), row.Failures)
	}
	for _, row := range r.Proxies {
		say("error, proxies "+row.Fleet, row.Failures)
	}
	for _, row := range r.Several {
		say("error, several, "+row.Way, row.Failures)
	}
	for _, row := range r.Slots {
		say("error, slots, "+row.Way, row.Failures)
	}
	for _, row := range r.Readers {
		say("error, readers, "+row.Way, row.Failures)
	}
	for _, row := range r.Beside {
		say("error, beside a flood of "+row.Way, row.Failures)
	}
	if r.Growth != nil {
		say("error, growth", r.Growth.allFailures())
	}
	for _, row := range r.Distance {
		say(fmt.Sprintf("error, %v ms away, %d callers, %s", row.DistanceMs, row.Callers, row.Target), row.Failures)
	}
	if r.Connections != nil {
		for _, p := range r.Connections.Busy {
			say(fmt.Sprintf("error, %d busy connections", p.Callers), p.Failures)
		}
	}
	if r.Libraries != nil {
		for _, row := range r.Libraries.Rows {
			say(fmt.Sprintf("error, libraries, %d callers, %s over %s", row.Callers, row.Library, row.Over), row.Failures)
		}
	}
}
