package access

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"redlockd/redlock"
)

// Policy limits what clients may ask for some resources. Zero values set no limit.
type Policy struct {
	// Prefix is a pattern as LOCKS takes it (billing:*).
	Prefix string
	// MaxTTL is the longest TTL, by whatever command. A lock that is taken without a TTL gets no longer
	// one either.
	MaxTTL time.Duration
	// MaxWait is the longest WAIT.
	MaxWait time.Duration
	// MaxWaiters bounds the LOCKs that wait for all these resources together, on this server.
	MaxWaiters int
	// MaxHold bounds how long one lock can be extended, as the engine's own.
	MaxHold time.Duration
	// LockDelay is for how long nobody gets the lock when its TTL has ended without a release. TTL and
	// LockDelay together are bounded by the engine's MaxTTL.
	LockDelay time.Duration
	// Fence is "" or "always": every LOCK gets a fence, but that of a reader, and commands of Redis and
	// scripts cannot take these locks, for they have no fence.
	Fence string
}

// FenceAlways is the word of Policy.Fence.
const FenceAlways = "always"

// PoliciesMax bounds the policies: every resource that is named is compared with all of them.
const PoliciesMax = 64

// ValidatePolicies joins one error for each mistake. Their Option says in which policy, and in which of
// its settings: Policies[0].max_ttl.
func ValidatePolicies(policies []Policy) error {
	var errs []error
	if len(policies) > PoliciesMax {
		errs = append(errs, &redlock.OptionError{Option: "Policies", Reason: fmt.Sprintf("there are %d policies, at most %d are possible", len(policies), PoliciesMax)})
	}
	for i := range policies {
		p := &policies[i]
		bad := func(setting, format string, args ...any) {
			errs = append(errs, &redlock.OptionError{Option: fmt.Sprintf("Policies[%d].%s", i, setting), Reason: fmt.Sprintf(format, args...)})
		}
		if p.Prefix == "" || len(p.Prefix) > PatternMax {
			bad("prefix", "the pattern has %d bytes, it must have 1 … %d", len(p.Prefix), PatternMax)
			continue
		}
		if slices.ContainsFunc(policies[:i], func(other Policy) bool { return other.Prefix == p.Prefix }) {
			bad("prefix", "%.128q is that of an earlier policy, and the first one that matches counts: put the limits of both into one", p.Prefix)
		}
		if *p == (Policy{Prefix: p.Prefix}) {
			bad("prefix", "the policy of %.128q limits nothing: give it max_ttl, max_wait, max_waiters, max_hold, lock_delay or fence", p.Prefix)
		}
		for _, d := range []struct {
			setting     string
			value, most time.Duration
		}{
			{"max_ttl", p.MaxTTL, 24 * time.Hour},
			{"max_wait", p.MaxWait, 24 * time.Hour},
			{"max_hold", p.MaxHold, 10 * 365 * 24 * time.Hour},
			{"lock_delay", p.LockDelay, 24 * time.Hour},
		} {
			if d.value != 0 && (d.value < time.Millisecond || d.value > d.most) {
				bad(d.setting, "%v of the policy of %.128q is outside 1ms … %v, and not 0s, which sets no limit", d.value, p.Prefix, d.most)
			}
		}
		if p.MaxWaiters < 0 || p.MaxWaiters > 10_000_000 {
			bad("max_waiters", "%d of the policy of %.128q is outside 0 … 10000000", p.MaxWaiters, p.Prefix)
		}
		if p.Fence != "" && p.Fence != FenceAlways {
			bad("fence", "%.32q of the policy of %.128q is not \"always\"", p.Fence, p.Prefix)
		}
	}
	return errors.Join(errs...)
}

// For returns which of the policies counts for the resource, the first one that matches it or, if it is
// a slot, the resource that it belongs to. -1: none.
func For(policies []Policy, resource string) int {
	if len(policies) == 0 {
		return -1
	}
	whole, _, isSlot := redlock.SlotOf(resource)
	for i := range policies {
		if Match(policies[i].Prefix, resource) || isSlot && Match(policies[i].Prefix, whole) {
			return i
		}
	}
	return -1
}
