package clock

import (
	"fmt"
	"strings"
	"time"
)

// DriftConstant is the part of the drift that does not depend on the TTL: it covers the resolution
// of Redis's expiry, which is 1 ms, on both ends.
const DriftConstant = 2 * time.Millisecond

// Noise is by how much two readings of a clock may differ for no reason that matters, where only a
// master's TIME counts: what it is told to be late by, and whether it went back.
const Noise = 10 * time.Millisecond

// Drift is how far clocks may part while a lock runs.
type Drift struct {
	Factor  float64       // Options.DriftFactor
	StepMax time.Duration // Options.ClockStepMax, the tolerance of Ring
}

// Rate is by how much the rate of a master's clock may differ from ours before it counts as a gain.
// The other half of the factor is for steps.
func (d Drift) Rate() float64 { return d.Factor * 3 / 4 }

// DriftOf is how far the masters' clocks and ours may run apart while a TTL runs, as "Safety
// arguments" (Distributed Locks with Redis) asks for.
//
// Invariant: it is no less than what a clock may gain on ours in that time while its votes count, which
// is a difference of the rates and one tolerance (Ring). Of a long TTL half of the factor is more than
// a tolerance; of a short one it is not (with the defaults, below 2 s), so a tolerance is added.
func DriftOf(ttl time.Duration, d Drift) time.Duration {
	return max(time.Duration(float64(ttl)*d.Factor), time.Duration(float64(ttl)*d.Rate())+d.StepMax) + DriftConstant //mutant:steps-not-counted-in-short-ttls
}

// ValidityOf implements step 4 of "The Redlock algorithm": MIN_VALIDITY = TTL - (T2 - T1) -
// CLOCK_DRIFT, with T2 - T1 given as elapsed. Nothing is held when it is not positive.
func ValidityOf(ttl, elapsed, drift time.Duration) time.Duration { //mutant:elapsed-left-out
	return ttl - elapsed - drift //mutant:drift-left-out
}

// QuarantineOf is how long a master that may have forgotten locks has no vote: a bit more than the
// longest a lock can live on any clock that runs within the drift.
//
// Source: "Performance, crash-recovery and fsync" (Distributed Locks with Redis): after a crash an
// instance must be made "unavailable for at least a bit more than the max TTL we use".
func QuarantineOf(maxTTL time.Duration, d Drift) time.Duration {
	return maxTTL + 2*(DriftOf(maxTTL, d)-DriftConstant) + 10*time.Millisecond //mutant:half-the-wait
}

// Text prints a value, and 1m where Duration.String prints 1m0s.
func Text(v any) string {
	text := fmt.Sprint(v)
	if _, ok := v.(time.Duration); ok && strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
		if strings.HasSuffix(text, "h0m") {
			text = strings.TrimSuffix(text, "0m")
		}
	}
	return text
}
