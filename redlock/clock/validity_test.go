package clock

// What the masters are asked for, and how much of it may be missing, as tables.

import (
	"testing"
	"time"
)

func TestPadded(t *testing.T) {
	for _, tt := range []struct {
		ttl  time.Duration
		d    Drift
		want time.Duration
	}{
		{30_000 * ms, Drift{0.01, 500 * ms}, 30_811 * ms},
		{1_000 * ms, Drift{0.01, 500 * ms}, 1_518 * ms},
		{20 * ms, Drift{0.01, 500 * ms}, 528 * ms},
		{20 * ms, Drift{0.01, 10 * ms}, 33 * ms},
		{20 * ms, Drift{0.5, 10 * ms}, 64 * ms},
		{1500 * time.Microsecond, Drift{0.01, 10 * ms}, 14 * ms},
	} {
		if got := Padded(tt.ttl, tt.d); got != tt.want {
			t.Errorf("%v, %+v: got %v, want %v", tt.ttl, tt.d, got, tt.want)
		}
	}
}

// Who counts the TTL is within what is left on the fastest clock that counts, and what is read back is not a millisecond more.
func TestPaddedCoversTheDrift(t *testing.T) {
	for _, factor := range []float64{0.0001, 0.01, 0.1, 0.5} {
		for _, ttl := range []time.Duration{10 * ms, 11 * ms, 999 * ms, time.Second, time.Minute, time.Hour, 24 * time.Hour} {
			for _, stepMax := range []time.Duration{ms, 10 * ms, 500 * ms, 10 * time.Second} {
				d := Drift{Factor: factor, StepMax: stepMax}
				padded := Padded(ttl, d)
				if left := padded - DriftOf(padded, d); left < ttl || left >= ttl+ms {
					t.Errorf("ttl %v, %+v: padded to %v, of which %v are sure; want %v and less than 1 ms more", ttl, d, padded, left, ttl)
				}
				if gain := Allowed(padded, d.Rate()) + stepMax; padded-gain < ttl {
					t.Errorf("ttl %v, %+v: padded to %v, and a clock may gain %v on it", ttl, d, padded, gain)
				}
			}
		}
	}
}

// A lock lives for max_ttl on the holder's clock, which may be slower than all, and longer on a master's, which may be slower than that: twice the
// drift. A quarter of the drift is for two clients that both watch a master.
func TestQuarantineOf(t *testing.T) {
	for _, tt := range []struct {
		maxTTL time.Duration
		d      Drift
		want   time.Duration
	}{
		{time.Minute, Drift{0.01, 500 * ms}, time.Minute + 2*(600+500)*ms + 10*ms},
		{24 * time.Hour, Drift{0.01, 10 * ms}, 24*time.Hour + 2*(864_000+10)*ms + 10*ms},
	} {
		if got := QuarantineOf(tt.maxTTL, tt.d); got != tt.want {
			t.Errorf("%v, %+v: got %v, want %v", tt.maxTTL, tt.d, got, tt.want)
		}
		if got := Allowed(time.Hour, tt.d.Rate()); got != 27*time.Second {
			t.Errorf("%+v: a clock may gain %v in an hour, want three quarters of the drift", tt.d, got)
		}
	}
}
