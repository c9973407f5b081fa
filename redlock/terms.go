package redlock

import (
	"slices"
	"time"
)

// Terms bound what one operation is granted more strictly than Options do. A server makes them of its rules for some resources and names
// them in Op.Terms. They must not change while an operation or a lock has them, but for the limits of Waiters (SetLimits).
type Terms struct {
	// Name says in errors whose MaxHold it is.
	Name string
	// Delay is for how long, at least, nobody gets the lock when its TTL has ended without a release. The masters are asked for the TTL and the
	// Delay, and the caller is told the validity of the TTL alone. So the delay needs no state: every renewal includes it, a release
	// ends it with the lock, and a master that forgets the lock forgets the delay. The token holds the lock until the Delay is over: it can
	// still extend or release it. TTL and Delay together are bounded by MaxTTL. The masters' clocks count it, so it may be shorter by the drift.
	// A StartCommit goes by Change.Delay instead. Zero: none.
	Delay time.Duration
	// MaxHold is as Options.MaxHold, where it is shorter. Zero: Options.MaxHold counts.
	MaxHold time.Duration
	// Waiters count the LOCKs that wait, beside Op.Share, and MaxWaiters of each bounds them. They count nothing else.
	Waiters []*Share
}

// delay is Op.Terms.Delay.
func (op *Op) delay() time.Duration {
	if op.Terms == nil {
		return 0
	}
	return op.Terms.Delay
}

// maxHoldOf is how long what the operation extends may be held in all, and the name of the Terms that say so.
func (c *Client) maxHoldOf(op *Op) (most time.Duration, name string) {
	most = c.limits.Load().maxHold
	if t := op.Terms; t != nil && t.MaxHold > 0 && t.MaxHold < most {
		return t.MaxHold, t.Name
	}
	return most, ""
}

// granted is the TTL that the operation is granted with a round: what the masters were asked for, less the Delay. Its validity is within that
// of the whole, because the drift grows by less than the TTL.
func (op *Op) granted(r *round) time.Duration {
	return time.Duration(r.ttlMs)*time.Millisecond - op.delay() //mutant:the-delay-is-told-as-validity
}

// waitable returns an error if one more LOCK under these terms must not wait. It needs Client.mu.
func (t *Terms) waitable() error {
	for _, s := range t.Waiters {
		if err := s.waitable(); err != nil {
			return err
		}
	}
	return nil
}

// countWaiter counts a LOCK that begins (1) or ends (-1) its wait.
func (c *Client) countWaiter(op *Op, n int) {
	c.waiting += n
	c.shareOf(op).waiters += n
	if op.Terms != nil {
		for _, s := range op.Terms.Waiters {
			s.waiters += n
		}
	}
}

// Strictest returns the terms that keep both. Nil has none.
func (t *Terms) Strictest(other *Terms) *Terms {
	switch {
	case t == nil || t == other:
		return other
	case other == nil:
		return t
	}
	both := &Terms{Name: t.Name, Delay: max(t.Delay, other.Delay), MaxHold: t.MaxHold, Waiters: slices.Clone(t.Waiters)}
	if other.MaxHold > 0 && (t.MaxHold == 0 || other.MaxHold < t.MaxHold) {
		both.Name, both.MaxHold = other.Name, other.MaxHold
	}
	for _, s := range other.Waiters {
		if !slices.Contains(both.Waiters, s) {
			both.Waiters = append(both.Waiters, s)
		}
	}
	return both
}
