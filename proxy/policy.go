package proxy

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock"
)

// Policies are limits of resources for all users, beside those of single users (account.go). The first
// one whose pattern matches a resource counts for it. A lock of several resources keeps to the policies
// of all. What applies to a resource applies to its slots.
//
// Checked here, where an operation enters the engine: max_ttl, max_wait and fence. Kept by the engine,
// which gets them as redlock.Terms: max_waiters, max_hold and lock_delay.
//
// A policy counts for what clients ask for from the moment it is in force. A lock that is held already
// keeps what it has until it is taken, extended or taken over the next time; one that HOLD renews keeps
// the policies under which it was taken.

// policy is a Policy in force. It does not change.
type policy struct {
	access.Policy
	// terms are what the engine keeps of it. Policies of one pattern share Waiters, over reloads.
	terms *redlock.Terms
	// refused counts refusals, since the first policy of this pattern.
	refused *policyRefusals
}

// policyRefusals counts what a policy has refused, by its limit.
type policyRefusals struct{ ttls, waits, waiters, holds, fences atomic.Uint64 }

// newPolicies makes the policies in force of valid ones. before are those in force until now.
func newPolicies(all []access.Policy, before []*policy) []*policy {
	var made []*policy
	for _, p := range all {
		one := &policy{Policy: p, refused: new(policyRefusals)}
		waiters := &redlock.Share{MaxWaiters: p.MaxWaiters}
		if i := slices.IndexFunc(before, func(b *policy) bool { return b.Prefix == p.Prefix }); i >= 0 {
			one.refused, waiters = before[i].refused, before[i].terms.Waiters[0]
		}
		one.terms = &redlock.Terms{Name: one.name(), Delay: p.LockDelay, MaxHold: p.MaxHold, Waiters: []*redlock.Share{waiters}}
		made = append(made, one)
	}
	return made
}

// name is how errors name the policy.
func (p *policy) name() string { return "policy " + clipped(p.Prefix, 128) }

// waiters count the LOCKs that wait under the policy.
func (p *policy) waiters() *redlock.Share { return p.terms.Waiters[0] }

// policyOf returns the policy of the resource, or nil.
func (o *liveOptions) policyOf(resource string) *policy {
	if i := access.For(o.Policies, resource); i >= 0 {
		return o.policies[i]
	}
	return nil
}

// lockedBy are the resources that a LOCK may lock: those that it names, or their slots.
func (o *liveOptions) lockedBy(req *redlock.LockRequest) []string {
	if req.Slots == 0 || len(o.policies) == 0 {
		return req.Resources
	}
	slots := make([]string, req.Slots)
	for i := range slots {
		slots[i] = redlock.SlotName(req.Resources[0], i)
	}
	return slots
}

// termsFor returns the terms under which the resources may be locked for this ttl, after this wait;
// nil: there are none. Or it returns the refusal by one of their policies.
func (o *liveOptions) termsFor(resources []string, ttl, wait time.Duration) (terms *redlock.Terms, refusal error) {
	for _, resource := range resources {
		p := o.policyOf(resource)
		if p == nil {
			continue
		}
		if refusal = p.checkTTL(o.Engine, ttl); refusal != nil {
			return nil, refusal
		}
		if p.MaxWait != 0 && wait > p.MaxWait {
			p.refused.waits.Add(1)
			return nil, errorf("ERR WAIT of %d ms is above the most, %d ms (max_wait of %s): wait for less, or raise it in [[policy]]",
				wait.Milliseconds(), p.MaxWait.Milliseconds(), p.name())
		}
		terms = terms.Strictest(p.terms)
	}
	return terms, nil
}

// checkTTL refuses a TTL above that of the policy, or one that leaves no room for its delay.
func (p *policy) checkTTL(engine *redlock.Client, ttl time.Duration) error {
	most, limit := p.MaxTTL, "max_ttl"
	if p.LockDelay > 0 {
		if rest := engine.MaxTTL() - p.LockDelay; most == 0 || rest < most {
			most, limit = rest, "max_ttl less the lock_delay"
		}
	}
	if most == 0 || ttl <= most {
		return nil
	}
	p.refused.ttls.Add(1)
	return refusedf(reasonTTLTooLong, "ERR ttl of %d ms is above the most, %d ms (%s of %s): ask for a shorter ttl, or change the limit in [[policy]]",
		ttl.Milliseconds(), most.Milliseconds(), limit, p.name())
}

// termsOfCommit is termsFor for changes, whose delays it sets. A change that locks a resource, or hands
// it to another value, is refused where a fence is needed; one that extends or releases it is not.
func (o *liveOptions) termsOfCommit(changes []redlock.Change) (terms *redlock.Terms, refusal error) {
	for i := range changes {
		ch := &changes[i]
		p := o.policyOf(ch.Resource)
		if ch.Delay = 0; p == nil || ch.Do != redlock.Set && ch.Do != redlock.Expire {
			continue
		}
		if refusal = p.checkTTL(o.Engine, ch.TTL); refusal != nil {
			return nil, refusal
		}
		if p.Fence == access.FenceAlways && ch.Do == redlock.Set && (ch.Was == redlock.WasAbsent || ch.Value != ch.NewValue) {
			p.refused.fences.Add(1)
			return nil, refusedf(reasonNoFence, "ERR this command takes a lock without a fence, and fence = \"always\" of %s wants one: take the lock with LOCK, or change it in [[policy]]", p.name())
		}
		ch.Delay = p.LockDelay
		terms = terms.Strictest(p.terms)
	}
	return terms, nil
}

// fencedBy returns the policy by which a LOCK gets a fence without asking for one, or nil.
func (o *liveOptions) fencedBy(req *redlock.LockRequest) *policy {
	if len(o.policies) == 0 || req.Shared {
		return nil
	}
	for _, resource := range o.lockedBy(req) {
		if p := o.policyOf(resource); p != nil && p.Fence == access.FenceAlways {
			return p
		}
	}
	return nil
}

// refuseJustToken refuses a LOCK whose reply has no place for the fence that the policy gives it.
func (p *policy) refuseJustToken() error {
	p.refused.fences.Add(1)
	return refusedf(reasonNoFence, "ERR JUSTTOKEN has no place for the fence that fence = \"always\" of %s gives this lock: leave JUSTTOKEN out, or change it in [[policy]]", p.name())
}

// shortened is the ttl, and not more than the policies of the keys allow.
func (o *liveOptions) shortened(ttl time.Duration, keys []string) time.Duration {
	for i := 0; i < len(keys) && len(o.policies) > 0; i++ {
		if p := o.policyOf(keys[i]); p != nil && p.MaxTTL != 0 {
			ttl = min(ttl, p.MaxTTL)
		}
		if p := o.policyOf(keys[i]); p != nil && p.LockDelay != 0 {
			ttl = min(ttl, o.Engine.MaxTTL()-p.LockDelay)
		}
	}
	return ttl
}

// delayOf is the delay of the resource by its policy.
func (o *liveOptions) delayOf(resource string) time.Duration {
	if p := o.policyOf(resource); p != nil {
		return p.LockDelay
	}
	return 0
}

// endMoves is by how much the engine may make the life of a key longer than its holder has asked for,
// so that attempts can be told apart.
const endMoves = 20 * time.Millisecond

// withoutDelays takes the delays out of what a reading says of keys, for the ttl that a client reads
// must not be longer than the one it asked for. A key that is in its delay still holds its value, and
// is about to end, as it is within the drift: see State.Ending.
func (o *liveOptions) withoutDelays(keys []string, states []redlock.State) {
	for i := 0; i < len(states) && len(o.policies) > 0; i++ {
		st, p := &states[i], o.policyOf(keys[i])
		if p == nil || !st.Found || st.TTL < 0 {
			continue
		}
		longest := st.TTL + st.Spread - p.LockDelay
		if st.TTL -= p.LockDelay; p.LockDelay > 0 && st.TTL < time.Millisecond {
			st.TTL, st.Ending = time.Millisecond, max(st.Ending, st.TTL+p.LockDelay)
		}
		if over := longest - p.MaxTTL; p.MaxTTL > 0 && over > 0 && over <= endMoves {
			st.TTL, longest = min(st.TTL, p.MaxTTL), p.MaxTTL
		}
		st.Spread = max(0, longest-st.TTL)
	}
}

// refuseByPolicy is the error for a limit of a policy that the engine has found reached; nil: it is
// none of a policy.
func (o *liveOptions) refuseByPolicy(err error) error {
	if len(o.policies) == 0 {
		return nil
	}
	if limit, ok := errors.AsType[*redlock.ShareError](err); ok {
		for _, p := range o.policies {
			if limit.Share == p.waiters() {
				p.refused.waiters.Add(1)
				return errorf("BUSYWAIT max number of waiters of %s reached (max_waiters = %d): try again later, or raise it in [[policy]]", p.name(), limit.Max)
			}
		}
	}
	if request, ok := errors.AsType[*redlock.RequestError](err); ok && request.Terms != "" {
		for _, p := range o.policies {
			if request.Terms == p.terms.Name {
				p.refused.holds.Add(1)
			}
		}
	}
	return nil
}
