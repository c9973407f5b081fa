package redlock

import (
	"slices"
	"time"
)

// owedMax bounds the releases one master can be owed. Beyond it a key stays until its TTL: nobody is let in too early.
const owedMax = 1 << 20

// owed is what a master that is away has to be told before it gets new work: releases of keys it may hold. Without
// them, a key whose SET was answered by silence stays, and keeps everybody out of that master, until its TTL.
type owed map[debt]time.Time

// debt is one key that may hold one token.
type debt struct{ key, token string }

func (o owed) add(d debt, lapse time.Time) {
	if before, known := o[d]; known && before.IsZero() {
		return // what never lapses still does not
	}
	if len(o) < owedMax {
		o[d] = lapse
	}
}

// oweLocked remembers a release that the master of the lane has not confirmed, where it may hold the key. It needs Client.mu and
// lane.mu.
//
// Invariant: no release is owed that is older than a grant to the same token. Its key belongs to that lease now, also where no vote
// was counted, for another proxy may have counted it for an EXTEND since. So a release that is owed is forgotten with a
// grant (forgiveLocked), and one whose answer is missed is not owed when there has been one; the masters that it was for
// are holders of the lease then, and its own release reaches them. Tokens that are made here serve for one attempt only.
func (c *Client) oweLocked(l *lane, r *round) {
	if r.verb != verbRelease || !r.debtor.has(l.index) {
		return
	}
	holder := mask(0).with(l.index)
	if rep := c.leases.repeat(r.keys, r.token); rep != nil {
		rep.left |= holder // the last attempt under way sees to it
		return
	}
	for _, key := range r.keys {
		if e := c.leases.entries[key]; e != nil && e.lease != nil && e.lease.token == r.token && after(e.lease.launched, r.launched) {
			e.lease.inherited |= holder
			continue
		}
		l.owed.add(debt{key, r.token}, r.lapse)
	}
	l.owing.Store(int32(len(l.owed)))
}

// leaseLocked makes the round the lease of its resources, counted in the share.
func (c *Client) leaseLocked(r *round, share *Share, now time.Time) {
	c.leases.grant(r, share, len(c.lanes), now)
	c.forgiveLocked(r)
}

// forgiveLocked forgets what masters are owed of the token that was just granted.
func (c *Client) forgiveLocked(lease *round) {
	for i, l := range c.lanes {
		if l.owing.Load() == 0 {
			continue
		}
		l.mu.Lock()
		for _, key := range lease.keys {
			if _, ok := l.owed[debt{key, lease.token}]; ok {
				delete(l.owed, debt{key, lease.token})
				lease.inherited |= mask(0).with(i)
			}
		}
		l.owing.Store(int32(len(l.owed)))
		l.mu.Unlock()
	}
}

// payingLocked tells whether some master is being told a release of the token right now: it may arrive after a grant, so there must be
// none.
func (c *Client) payingLocked(keys []string, token string) bool {
	for _, l := range c.lanes {
		if l.owing.Load() == 0 {
			continue
		}
		l.mu.Lock()
		paying := slices.ContainsFunc(l.paying, func(d debt) bool { return d.token == token && slices.Contains(keys, d.key) })
		l.mu.Unlock()
		if paying {
			return true
		}
	}
	return false
}

// take returns up to n debts, and forgets those that have lapsed. They stay owed until paid is called.
func (o owed) take(n int, now time.Time) []debt {
	var some []debt
	for d, lapse := range o {
		if !lapse.IsZero() && now.After(lapse) {
			delete(o, d)
			continue
		}
		if some = append(some, d); len(some) == n {
			break
		}
	}
	return some
}

func (o owed) paid(some []debt) {
	for _, d := range some {
		delete(o, d)
	}
}
