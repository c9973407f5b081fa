package main

import (
	"testing"
	"time"
)

// Goal: readers get their locks, alone and beside a writer, and no reader and the writer hold the resource together. Method: the scenario's
// cells on real masters, one second each.
func TestReadersCell(t *testing.T) {
	b := builtBench(t)
	b.hotDuration = time.Second
	for _, way := range readersWays {
		r, err := runReadersCell(t.Context(), b, way)
		if err != nil {
			t.Fatal(err)
		}
		if r.Violations != 0 || r.Failures.Count != 0 || r.GaveUp != 0 {
			t.Errorf("%s: got %d violations, failures %v, %d that gave up, want none", way.name, r.Violations, r.Failures, r.GaveUp)
		}
		if r.PerSec == 0 || r.Least == 0 || (r.Writes > 0) != way.writer {
			t.Errorf("%s: got %+v, want grants of every caller, and of a writer where one comes", way.name, r)
		}
		t.Logf("%s: %+v", way.name, r)
	}
}
