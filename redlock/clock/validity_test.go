package clock

// The validity formula, as a table.

import (
	"testing"
	"time"
)

func TestValidity(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		ttl, elapsed time.Duration
		factor       float64
		want         time.Duration
	}{
		{10_000 * ms, 50 * ms, 0.01, 10_000*ms - 50*ms - 100*ms - 2*ms},
		{30_000 * ms, 0, 0.01, 29_698 * ms},
		{2_000 * ms, 0, 0.01, 1_978 * ms},
		{1_000 * ms, 0, 0.01, 983 * ms}, // 5 ms for the rates, a step of 10 ms, 2 ms
		{20 * ms, 1 * ms, 0.01, 6900 * time.Microsecond},
		{20 * ms, 8 * ms, 0.01, -100 * time.Microsecond},
		{20 * ms, 0, 0.5, 3 * ms},
	} {
		if got := ValidityOf(tt.ttl, tt.elapsed, DriftOf(tt.ttl, Drift{tt.factor, 10 * ms})); got != tt.want {
			t.Errorf("ttl %v, elapsed %v, factor %v: got %v, want %v", tt.ttl, tt.elapsed, tt.factor, got, tt.want)
		}
	}
}
