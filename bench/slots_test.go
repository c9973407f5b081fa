package main

import (
	"testing"
	"time"
)

// Goal: clients get slots as they get locks, through one redlockd and through two, and never two the same one. Method: the scenario's cells on
// real masters, one second each.
func TestSlotsCell(t *testing.T) {
	b := builtBench(t)
	b.hotDuration = time.Second
	for _, way := range slotsWays {
		r, err := runSlotsCell(t.Context(), b, way)
		if err != nil {
			t.Fatal(err)
		}
		if r.Violations != 0 || r.Failures.Count != 0 || r.GaveUp != 0 {
			t.Errorf("%s: got %d violations, failures %v, %d that gave up, want none", way.name, r.Violations, r.Failures, r.GaveUp)
		}
		if r.PerSec == 0 || r.Least == 0 {
			t.Errorf("%s: got %+v, want grants of every client", way.name, r)
		}
		t.Logf("%s: %+v", way.name, r)
	}
}
