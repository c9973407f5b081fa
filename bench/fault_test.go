package main

import (
	"slices"
	"testing"
	"time"
)

func TestParseFault(t *testing.T) {
	for _, test := range []struct {
		text    string
		want    fault
		wantErr string
	}{
		{"none", fault{kind: faultNone}, ""},
		{"freeze2", fault{kind: faultFreeze, masters: 2}, ""},
		{"kill5", fault{kind: faultKill, masters: 5}, ""},
		{"kill6", fault{}, "is no fault"},
		{"freeze", fault{}, "is no fault"},
		{"freeze0", fault{}, "is no fault"},
		{"", fault{}, "is no fault"},
	} {
		got, err := parseFault(test.text)
		wantErr(t, err, test.wantErr)
		if got != test.want {
			t.Errorf("%q: got %+v, want %+v", test.text, got, test.want)
		}
		if err == nil && got.String() != test.text {
			t.Errorf("%q: prints as %q", test.text, got)
		}
	}
}

// Goal: a run is split at the fault, and a silence is measured to the end of the window. Method: samples by hand, a fault
// at 1 s of 2 s, times in ms.
func TestAnalyzeFault(t *testing.T) {
	ms := func(end, pair uint32) sample { return sample{endUs: end * 1000, pairUs: pair * 1000} }
	got := analyzeFault([]sample{
		ms(1700, 200), ms(500, 1), ms(250, 1), ms(900, 2), ms(50, 1), // not in order: they come caller by caller
		ms(1100, 100),
		ms(3500, 2400), // stuck until after the window
	}, time.Second, 2*time.Second)

	if got.HealthyPairsPerSec != 4 || got.FaultyPairsPerSec != 2 || got.keptPercent() != 50 {
		t.Errorf("got %v, then %v pairs/s, %v %%, want 4, 2, 50", got.HealthyPairsPerSec, got.FaultyPairsPerSec, got.keptPercent())
	}
	if got.PairBeforeUs.Max < 2000 || got.PairBeforeUs.Max > 2010 {
		t.Errorf("got a longest pair before the fault of %v µs, want 2000", got.PairBeforeUs.Max)
	}
	if got.PairAfterUs.Max < 2.4e6 || got.PairAfterUs.Max > 2.41e6 {
		t.Errorf("got a longest pair after the fault of %v µs, want that of the stuck one, 2400000", got.PairAfterUs.Max)
	}
	if got.LongestPauseMs != 600 {
		t.Errorf("got a longest pause of %v ms, want 600", got.LongestPauseMs)
	}
	want := make([]float64, 20)
	for _, step := range []int{0, 2, 5, 9, 11, 17} {
		want[step] = 10
	}
	if !slices.Equal(got.Timeline, want) {
		t.Errorf("time line:\n got %v\nwant %v", got.Timeline, want)
	}

	silent := analyzeFault([]sample{ms(500, 1)}, time.Second, 2*time.Second)
	if silent.LongestPauseMs != 1000 || silent.keptPercent() != 0 {
		t.Errorf("nothing after the fault: got a pause of %v ms and %v %% kept, want 1000 and 0", silent.LongestPauseMs, silent.keptPercent())
	}
}

func TestCountLocks(t *testing.T) {
	got := countLocks([]string{"bench:1", "redlockd:epoch", "redlockd:marks", "redlock", "invoices"})
	if want := 3; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}
