package clock

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// DriftConstant is the part of the drift that does not depend on the TTL: it covers the resolution
// of Redis's expiry, which is 1 ms, on both ends.
const DriftConstant = 2 * time.Millisecond

// Noise is the tolerance where a master's TIME is compared with our clocks and no lock's validity has
// allowed for Drift.StepMax.
const Noise = 10 * time.Millisecond

// Drift is how far clocks may part while a lock runs.
type Drift struct {
	Factor  float64       // Options.DriftFactor
	StepMax time.Duration // Options.ClockStepMax, the tolerance of Ring
}

// Rate is by how much the rate of a master's clock may differ from ours before it counts as a gain. The
// remaining quarter of the factor is for two clients that both watch the master, and whose own clocks
// run at different rates.
func (d Drift) Rate() float64 { return d.Factor * 3 / 4 }

// DriftOf is by how much a key that was set for so long may end early, on the clock of a client that
// counts the master's votes.
//
// Invariant: it is no less than what a clock may gain on ours in that time while its votes count, which
// is a difference of the rates and one tolerance (Ring).
func DriftOf(ttl time.Duration, d Drift) time.Duration {
	return time.Duration(float64(ttl)*d.Factor) + d.StepMax + DriftConstant
}

// Padded is for how long the masters are asked to keep the keys of a lock, for a TTL that its holder
// counts: Padded - DriftOf(Padded) >= ttl, by less than a millisecond. So the validity is the TTL less
// the time that the masters took.
//
// Departure from "The Redlock algorithm", step 4 (Distributed Locks with Redis), which takes CLOCK_DRIFT
// off the validity: many libraries do not, and a clock may step by more than a short TTL.
func Padded(ttl time.Duration, d Drift) time.Duration {
	padded := float64(ttl+d.StepMax+DriftConstant) / (1 - d.Factor) //mutant:ttl-not-padded //mutant:steps-not-padded //mutant:the-drift-of-a-ttl-is-a-constant //mutant:the-constant-of-the-drift-is-left-out
	return time.Duration(math.Ceil(padded/float64(time.Millisecond))) * time.Millisecond
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
