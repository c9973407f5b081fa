package redlock

import "time"

// driftConstant is the part of the drift that does not depend on the TTL: it covers the resolution of Redis's expiry,
// which is 1 ms, on both ends.
const driftConstant = 2 * time.Millisecond

// driftOf is how far the masters' clocks and ours may run apart while a TTL runs, as "Safety arguments" (Distributed
// Locks with Redis) asks for.
func driftOf(ttl time.Duration, factor float64) time.Duration {
	return time.Duration(float64(ttl)*factor) + driftConstant
}

// validityOf implements step 4 of "The Redlock algorithm": MIN_VALIDITY = TTL - (T2 - T1) - CLOCK_DRIFT, with T2 - T1 given
// as elapsed. Nothing is held when it is not positive.
func validityOf(ttl, elapsed, drift time.Duration) time.Duration {
	return ttl - elapsed - drift
}
