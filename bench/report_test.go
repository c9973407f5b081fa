package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot"
)

// sampleReport is a small run.
func sampleReport() report {
	us := percentiles{P50: 100, P99: 200, P999: 300, Mean: 110, Max: 400}
	cpu := cpuSplit{ClientUs: 10, RedlockdUs: 5, RedisUs: 2.5}
	failed := failures{Count: 2, Texts: []string{"connection refused"}}
	r := report{Environment: environment{
		Date: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Flags: []string{"--quick"}, CPUs: 2, CPUModel: "abacus",
		Modules: map[string]string{"redsync": "v4"},
		Rounds:  []roundLoad{{Scenario: scenarioUncontended, Load: "1.25 1.00 0.90"}, {Scenario: scenarioUncontended, Load: "2.50 1.00 0.90"}},
	}}
	for _, callers := range []int{1, 64} {
		var rows []*uncontendedRow
		for _, target := range targetNames {
			rows = append(rows, &uncontendedRow{Target: target, Callers: callers, Rounds: []uncontendedRound{
				{PairsPerSec: 4000, LockUs: us, PairUs: us, CPU: cpu},
				{PairsPerSec: 8000, LockUs: us, PairUs: us, CPU: cpu, Failures: failed},
			}})
		}
		r.Uncontended = append(r.Uncontended, summarizeUncontended(rows)...)
	}
	figures := hotKeyFigures{AcquisitionsPerSec: 700, HandOverUs: us, HandOvers: 2000, WaitUs: us, AcquisitionsMin: 40, AcquisitionsMax: 50, Violations: 3}
	r.HotKey = summarizeHotKey([]*hotKeyRow{
		{Target: targetRedlockd, Clients: 16, Rounds: []hotKeyRound{{hotKeyFigures: figures, CPUSplit: cpu}}},
		{Target: targetRedsync, Clients: 16, Rounds: []hotKeyRound{{hotKeyFigures: figures, CPUSplit: cpu}}},
	})
	fault := faultFigures{HealthyPairsPerSec: 5000, FaultyPairsPerSec: 4900, PairBeforeUs: us, PairAfterUs: us,
		LongestPauseMs: 12, FaultAtMs: 1001, Timeline: make([]float64, faultWindow/timelineStep)}
	r.Faults = summarizeFaults([]*faultRow{
		{Target: targetRedlockd, Fault: "freeze2", Rounds: []faultRound{
			{faultFigures: fault, Orphans: []int{0, 0, 0, 0, 7}},
			{faultFigures: fault, Orphans: []int{1, 0, 0, 0, 0}},
		}},
	})
	recovery := recoveryRound{
		recoveryFigures: recoveryFigures{VoteMs: []float64{512, 640}, Keys: []float64{10_016, 10_009}, TotalMs: 1199, QuietPerSec: 1600, RestartPerSec: 1580,
			QuietUs: us, RestartUs: percentiles{P50: 120, P99: 350, P999: 500, Mean: 130, Max: 777}, Refused: 1, Failures: failed, Checked: 10_000, Lost: 4, Twice: 3},
		Votes:    []voteChange{{0, 5}, {200, 4}, {712, 5}, {713, 4}, {1399, 5}},
		Timeline: slices.Repeat([]latencyStep{{P50Us: 100, P99Us: 200}, {Refused: 1}}, 10),
	}
	r.Recovery = summarizeRecovery([]*recoveryRow{{Held: 10_000, Restarts: 2, Rounds: []recoveryRound{recovery, recovery}}})
	limit := limitRound{SetsPerSec: 160_000, DeletesPerSec: 150_000, PairsPerSec: 77_000, RedisUs: 20}
	r.Limit = &limitFigures{limitRound: limit, Rounds: []limitRound{limit}}
	r.Latency = summarizeLatency([]*latencyRow{
		{Target: targetRedlockd, Rate: 1000, Rounds: []latencyRound{{PairsPerSec: 999, LockUs: us, PairUs: us, LateUs: us, Unsent: 12, Failures: failed}}},
		{Target: targetRedlockd, Rate: 5000},
	})
	r.Proxies = []proxiesRow{summarizeProxies(fleet{3, 4}, []proxiesRound{{hotKeyFigures: figures, CommandsPerGrant: 21.5}})}
	r.Slots = []slotsRow{{Way: slotsWays[1].name, slotsRound: slotsRound{PerSec: 5900, WaitUs: us, Least: 9, Most: 10, Failures: failed}}}
	readers := readersRound{PerSec: 15_000, LockUs: us, CPU: cpu, WriterUs: us, Writes: 29, Least: 9, Most: 10, Failures: failed}
	r.Readers = []readersRow{summarizeReaders(readersWays[2], []readersRound{readers}, []readersRound{{PerSec: 17_000}})}
	r.Several = []severalRow{{Way: severalWays[1], severalRound: severalRound{SinglePerSec: 2900, AllPerSec: 6.5, WaitUs: us, GaveUp: 3, Failures: failed}}}
	cell := growthRound{PairsPerSec: 31234, LockUs: us, CPU: cpu, RedlockdMB: 55.5, MasterMB: 9, Failures: failed}
	point := growthPoint{N: 7, Rounds: []growthRound{cell, cell}}
	point.growthRound = medians(point.Rounds)
	crowd := waiterPoint{Waiters: 100, Resources: 1, Rounds: []waiterRound{{RedlockdMB: 30, KBPerWaiter: 12.25, RedlockdPercent: 3}}}
	crowd.waiterRound = medians(crowd.Rounds)
	beside := besideRound{QuietUs: us, BesideUs: percentiles{P50: 450, P99: 999, Max: 1234}, Ratio50: 4.5, Ratio99: 6.7, FloodAlone: 25_432, FloodBeside: 20_000, FloodKept: 0.79,
		RedlockdUs: 19, Locks: 300, NoQuorum: 7, Failures: failed}
	r.Beside = []besideRow{{Way: besideWays[1].String(), besideRound: beside, Rounds: []besideRound{beside}}}
	over := overloadRound{AskedPerSec: 281_000, PairsPerSec: 31_408, ToBest: 0.93, PairUs: us, Refused: 11, Unsent: 17, UserUs: us, QuietUs: us, RecoveryMs: 427}
	r.Overload = []overloadRow{{Times: 10, overloadRound: over, Rounds: []overloadRound{over}}}
	r.Growth = &growthFigures{Masters: []growthPoint{point}, Held: []growthPoint{point}, Depth: []growthPoint{point}, Waiters: []waiterPoint{crowd},
		Renewed: []renewedPoint{{Held: 10_000, waiterRound: waiterRound{RedlockdMB: 67, KBPerWaiter: 4.61, MastersPercent: 10}}}}
	r.Distance = summarizeDistance([]*distanceRow{{Target: targetRedlockd, Callers: 1, DistanceMs: 5,
		Rounds: []distanceRound{{PairsPerSec: 90, LockUs: percentiles{P50: 5600}, RoundTripUs: 5000, Failures: failed}}}})
	r.Connections = &connectionsFigures{
		Idle: []idlePoint{{Connections: 10_000, Rounds: []idleRound{{EmptyMB: 12, RedlockdMB: 88, KBPerConnection: 7.77}}}},
		Busy: []busyPoint{{Callers: 1000, Rounds: []busyRound{{PairsPerSec: 27_000, PairUs: us, PairsMin: 20, PairsMax: 40, Failures: failed}}}},
	}
	r.Connections.summarize()
	slower := uncontendedRound{PairsPerSec: 1600, LockUs: us, PairUs: us, CPU: cpu, Failures: failed}
	r.Libraries = &librariesFigures{
		Rows: summarizeLibraries([]*libraryRow{
			{Library: "pottery", Over: ways[0].name, Callers: 64, Rounds: []uncontendedRound{{PairsPerSec: 4000, LockUs: us, CPU: cpu}, {PairsPerSec: 2000, LockUs: us, CPU: cpu}}},
			{Library: "pottery", Over: ways[1].name, Callers: 64, Rounds: []uncontendedRound{slower, slower}},
		}),
		Versions: map[string]string{"pottery": "3.0.1"},
		LeftOut:  []string{"node-redlock is not installed"},
	}
	return r
}

// Goal: the JSON holds the whole report. Method: write it, read it, compare.
func TestReportJSONRoundTrip(t *testing.T) {
	want := sampleReport()
	encoded, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(encoded, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Goal: a report can be read, and drawn, whatever was measured. Method: save a whole one and one with zeros, look for the
// facts that must not get lost.
func TestReportSave(t *testing.T) {
	r := sampleReport()
	dir := t.TempDir()
	if err := r.save(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, reportText))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"--quick", "2 × abacus", "redsync v4", "redlockd-pipelined",
		"4000–8000", "17.5", "1.00×", "0.80", "98.0 %", "1 0 0 0 7",
		"error, latency at 1000 pairs/s, redlockd: connection refused",
		"3x4", "21.5", "31234", "55.5", "12.2", "error, growth: connection refused",
		"7.77", "27000", "error, 1000 busy connections: connection refused",
		"+12 %", "error, 5 ms away, 1 callers, redlockd: connection refused",
		"512 640    1199  10009", "777  1.75×        2       4    20000     8      6", "error, recovery, 10000 locks held: connection refused",
		"LOCK of 1 KB names, of another user", "4.5", "79 %", "error, beside a flood of LOCK of 1 KB names, of another user: connection refused",
		"281000", "0.93", "427", "4.61", "2.00 %",
		"  uncontended 1.25 2.50", "160000", "7.79 %",
		"error, uncontended, 64 callers, single: connection refused",
		"2000–4000  1.88×   1.25×", "pottery 3.0.1", "left out: node-redlock is not installed",
		"error, libraries, 64 callers, pottery over 5 masters: connection refused",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("report.txt lacks %q:\n%s", want, text)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, reportPage))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| | redlockd, go-redis client | redlockd, pipelining client | redlockd, SET NX and a script, pipelining | redsync, five masters | go-redis, one master, no quorum |\n|---|---|---|---|---|---|\n",
		"| pairs/s, 64 callers | 6 000 | 6 000 | 6 000 | 6 000 | 6 000 |",
		"| hot resource, 16 clients: hand-over to another client, mean | 0.11 ms | | | 0.11 ms | |",
		"| 2 of 5 masters frozen: throughput kept, longest pause | 98.0 %, 12 ms | | | | |",
		"| pottery | 64 | 3 000 | 1 600 | 1.88× | 1.00× | 1.00× | 1.00× |",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("%s lacks %q:\n%s", reportPage, want, page)
		}
	}
	for _, name := range []string{"throughput.svg", "latency.svg", "cpu.svg", "hotkey.svg", "faults.svg", "recovery.svg", "rates.svg", "growth.svg", "distance.svg", "libraries.svg"} {
		drawn, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(drawn), "</svg>") {
			t.Errorf("%s: got %d bytes (%v), want a whole SVG", name, len(drawn), err)
		}
		if len(drawn) > 100<<10 || !strings.Contains(string(drawn), fontsShown) || strings.Contains(string(drawn), fontDrawn) {
			t.Errorf("%s: %d bytes, want at most 100 kB, and fonts that every page has", name, len(drawn))
		}
	}

	zeros := report{Uncontended: []uncontendedRow{{Target: targetRedsync, Callers: 1}}, HotKey: []hotKeyRow{{Target: targetRedsync, Clients: 1}},
		Faults: []faultRow{{Target: targetRedsync, Fault: "kill1"}}, Recovery: []recoveryRow{{Held: 1, Rounds: make([]recoveryRound, 1)}, {Held: 2}}, Latency: []latencyRow{{Target: targetRedsync, Rate: 1}}, Growth: new(growthFigures), Connections: new(connectionsFigures),
		Distance: []distanceRow{{Target: targetRedsync, Callers: 1}}, Libraries: &librariesFigures{Rows: []libraryRow{{Library: targetRedsync, Over: ways[0].name, Callers: 1}}}}
	if err := zeros.save(t.TempDir()); err != nil {
		t.Errorf("a report of zeros: %v", err)
	}
}

// Goal: columns line up, also with letters that take several bytes. Method: one table, whole.
func TestTable(t *testing.T) {
	tab := table{title: "Title", note: "How to read it.", head: []string{"n", "name", "µs"}, left: 2}
	tab.add(1, "ab", 12345.6)
	tab.add(1, "ä", times(0))
	tab.add(64, "c", times(0.5))
	var got strings.Builder
	tab.write(&got)
	table{title: "Nothing in it", head: tab.head}.write(&got) // is not printed
	want := `
Title
How to read it.

n   name     µs
1   ab    12346
1   ä         –

64  c     0.50×
`
	if got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.123: "0.12", 9.876: "9.88", 12.34: "12.3", 123.4: "123", 50_000: "50000"} {
		if got := number(v); got != want {
			t.Errorf("number(%v): got %s, want %s", v, got, want)
		}
	}
}

// wantErr checks for an error that says the text, or for none if text is empty.
func wantErr(t *testing.T, err error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("got error %q, want none", err)
	case text != "" && (err == nil || !strings.Contains(err.Error(), text)):
		t.Errorf("got error %v, want one with %q", err, text)
	}
}

// Goal: an axis is written in plain numbers, enough of them, and none beyond its ends. Method: ranges that plot writes otherwise.
func TestAxis(t *testing.T) {
	for _, tt := range []struct {
		axis      plot.Ticker
		low, high float64
		want      string
	}{
		{plot.DefaultTicks{}, 0, 75_000, "0 25000 50000 75000"},
		{plot.DefaultTicks{}, 0, 1.1, "0 0.5 1"},
		{plot.LogTicks{Prec: -1}, 800, 1_300_000, "1000 10000 100000 1000000"},
		{plot.LogTicks{Prec: -1}, 18, 230, "20 50 100 200"},
	} {
		var got []string
		for _, tick := range (plain{tt.axis}).Ticks(tt.low, tt.high) {
			if tick.Value < tt.low || tick.Value > tt.high {
				t.Errorf("%v to %v: a mark at %v", tt.low, tt.high, tick.Value)
			}
			if tick.Label != "" {
				got = append(got, tick.Label)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%v to %v: got %v, want %v", tt.low, tt.high, got, tt.want)
		}
	}
}
