package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Goal: medians and ratios over rounds. Method: small tables.
func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 9, 2}, 3},
	} {
		if got := median(slices.Clone(test.values)); got != test.want {
			t.Errorf("median of %v: got %v, want %v", test.values, got, test.want)
		}
	}
}

func TestMedianRatioComparesWithinARound(t *testing.T) {
	identity := func(v float64) float64 { return v }
	// The machine became ten times faster in the last round, for both; 0 is a round that measured nothing.
	got := medianRatio([]float64{20, 30, 400, 1}, []float64{10, 10, 100, 0}, identity)
	if want := 3.0; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := medianRatio(nil, []float64{1}, identity); got != 0 {
		t.Errorf("without rounds: got %v, want 0", got)
	}
}

// Goal: percentiles are those of the values, to three digits. Method: 1 to 1000 µs, and values beyond the histogram.
func TestPercentiles(t *testing.T) {
	var values []uint32
	for v := range uint32(1000) {
		values = append(values, v+1)
	}
	got := percentilesOf(slices.Values(values))
	if want := (percentiles{P50: 500, P99: 990, P999: 999, Mean: 500.5, Max: 1000}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := percentilesOf(slices.Values([]uint32(nil))); got != (percentiles{}) {
		t.Errorf("of nothing: got %+v, want zeros", got)
	}
	got = percentilesOf(slices.Values([]uint32{latencyMaxUs * 2}))
	if got.P50 < latencyMaxUs || got.P50 > latencyMaxUs*1.001 {
		t.Errorf("of two minutes: got p50 %v, want the limit %v", got.P50, latencyMaxUs)
	}
}

// Goal: in every round every row is measured once, and another target begins. Method: two loads, three targets.
func TestInTurn(t *testing.T) {
	type row struct {
		load   int
		target string
	}
	rows := grid([]int{1, 2}, []string{"a", "b", "c"}, func(load int, target string) *row { return &row{load, target} })
	for round, want := range []string{"1a 1b 1c 2a 2b 2c", "1b 1c 1a 2b 2c 2a", "1c 1a 1b 2c 2a 2b", "1a 1b 1c 2a 2b 2c"} {
		var got []string
		for _, r := range inTurn(rows, 3, round) {
			got = append(got, string(rune('0'+r.load))+r.target)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("round %d: got %s, want %s", round, got, want)
		}
	}
}

func TestSummaryComparesWithPeers(t *testing.T) {
	round := func(pairs, p50, cpu float64) uncontendedRound {
		return uncontendedRound{PairsPerSec: pairs, LockUs: percentiles{P50: p50}, CPU: cpuSplit{ClientUs: cpu / 2, RedisUs: cpu / 2}}
	}
	rows := summarizeUncontended([]*uncontendedRow{
		{Target: targetRedlockd, Callers: 64, Rounds: []uncontendedRound{round(100, 10, 20), round(300, 20, 40), round(200, 30, 20)}},
		{Target: targetRedsync, Callers: 64, Rounds: []uncontendedRound{round(10, 40, 200), round(20, 40, 200), round(20, 40, 200)}},
		{Target: targetSingle, Callers: 1, Rounds: []uncontendedRound{round(1, 1, 1)}}, // another load: no peer
	})
	got := rows[0]
	if got.PairsPerSec != 200 || got.PairsPerSecMin != 100 || got.PairsPerSecMax != 300 {
		t.Errorf("got %v (%v–%v) pairs/s, want 200 (100–300)", got.PairsPerSec, got.PairsPerSecMin, got.PairsPerSecMax)
	}
	if want := (comparison{PairsPerSec: 10, LockP50: 0.5, CPULess: 10}); got.ToRedsync != want {
		t.Errorf("to redsync: got %+v, want %+v", got.ToRedsync, want)
	}
	if want := (comparison{}); got.ToSingle != want {
		t.Errorf("to single: got %+v, want nothing: it was not measured at this load", got.ToSingle)
	}
}

// Goal: every kind of field is summed up by its rule, in embedded structs too. Method: three rounds, of which the last met an error only.
func TestMedians(t *testing.T) {
	type inner struct{ Rate float64 }
	type round struct {
		inner
		Us       percentiles
		Unsent   int
		Timeline []float64
		Failures failures
		Name     string
	}
	got := medians([]round{
		{inner{10}, percentiles{P50: 1, Max: 8}, 2, []float64{1, 5}, failures{}, "a"},
		{inner{40}, percentiles{P50: 3, Max: 4}, 0, []float64{3, 7}, failures{Count: 1, Texts: []string{"x"}}, "b"},
		{inner{20}, percentiles{}, 5, []float64{2, 0}, failures{Count: 4, Texts: []string{"x", "y"}}, "c"},
	})
	want := round{inner{20}, percentiles{P50: 2, Max: 6}, 7, []float64{2, 5}, failures{Count: 5, Texts: []string{"x", "y"}}, ""}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := medians[round](nil); !reflect.DeepEqual(got, round{}) {
		t.Errorf("of no round: got %+v, want nothing", got)
	}
}

// Goal: a target that gets stuck looks neither quicker nor cheaper for it. Method: one stuck round of two, of one target and then of both.
func TestStuckRoundsFlatterNobody(t *testing.T) {
	round := uncontendedRound{PairsPerSec: 100, LockUs: percentiles{P50: 10}, PairUs: percentiles{P50: 20}, CPU: cpuSplit{ClientUs: 5}}
	stuck := stuckRound(errGaveUp)
	rows := summarizeUncontended([]*uncontendedRow{
		{Target: targetRedlockd, Callers: 64, Rounds: []uncontendedRound{round, round}},
		{Target: targetRedsync, Callers: 64, Rounds: []uncontendedRound{round, stuck}},
	})
	if got := rows[1]; got.LockUs.P50 != 10 || got.PairUs.P50 != 20 || got.CPU.ClientUs != 5 || got.PairsPerSec != 50 || got.Failures.Count != 1 {
		t.Errorf("got lock %v µs, pair %v µs, CPU %v µs, %v pairs/s, %d failures, want 10, 20, 5, 50, 1",
			got.LockUs.P50, got.PairUs.P50, got.CPU.ClientUs, got.PairsPerSec, got.Failures.Count)
	}
	for _, row := range rows {
		if want := (comparison{PairsPerSec: 1, LockP50: 1, CPULess: 1}); row.ToRedsync != want {
			t.Errorf("%s to redsync: got %+v, want %+v", row.Target, row.ToRedsync, want)
		}
	}
}

// Goal: failures of many callers are counted, few texts kept, each once. Method: more texts than are kept.
func TestFailures(t *testing.T) {
	var f failures
	f.add(1, "a")
	f.add(5, "a", "b")
	f.add(2, "c", "d")
	if f.Count != 8 || !slices.Equal(f.Texts, []string{"a", "b", "c"}) {
		t.Errorf("got %+v, want 8 with a, b, c", f)
	}
}
