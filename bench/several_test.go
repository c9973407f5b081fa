package main

import (
	"testing"
	"time"
)

// Goal: those who want several resources get them beside those who contend for one, at either redlockd, and never two at once. Method: the
// scenario's cells on real masters, two seconds each.
func TestSeveralCell(t *testing.T) {
	b := builtBench(t)
	b.hotDuration = 2 * time.Second
	for i, way := range severalWays {
		r, err := runSeveralCell(t.Context(), b, i)
		if err != nil {
			t.Fatal(err)
		}
		if r.Violations != 0 || r.Failures.Count != 0 || r.GaveUp != 0 {
			t.Errorf("%s: got %d violations, failures %v, %d that gave up, want none", way, r.Violations, r.Failures, r.GaveUp)
		}
		if r.SinglePerSec == 0 || r.AllPerSec == 0 || r.WaitUs.P50 == 0 {
			t.Errorf("%s: got %+v, want grants of one and of all", way, r)
		}
	}
}
