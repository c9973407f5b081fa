package redlock

import (
	"slices"
	"time"
)

// StartInspect asks all masters what they know of a resource. The answer is Result.Info; a quorum is not needed, for it
// says who did not answer.
func (c *Client) StartInspect(op *Op, resource string, to Completer) {
	t := turn{now: time.Now()}
	defer c.finish(&t)
	op.to = to
	if err := checkResources([]string{resource}); err != nil {
		t.tell(op, Result{Err: err})
		return
	}
	n := len(c.lanes)
	r := &round{verb: verbRead, start: t.now, op: op, answers: make([]answer, n)}
	r.setKeys(resource)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.launchLocked(r, allMasters(n), &t)
}

func (c *Client) readingDecided(r *round, t *turn) {
	v := votes(r.votes.Load())
	info := &ResourceInfo{Resource: r.keys[0]}
	remaining := make(map[string][]time.Duration)
	silent, most := 0, 0
	for i, l := range c.lanes {
		a := r.answers[i]
		one := ResourceVote{Addr: l.master.Addr}
		switch v.of(i) {
		case voteAbstained, voteUnknown:
			silent++
			why := l.reason(r.start)
			one.State = why.State
			if one.Err = a.err; one.Err == nil {
				one.Err = why.Err
			}
		case voteGranted:
			one.TokenDigest, one.TTL = TokenDigest(a.value), a.ttl
			if a.ttl >= 0 {
				remaining[a.value] = append(remaining[a.value], a.ttl)
			}
		}
		info.Votes = append(info.Votes, one)
	}
	quorum := quorumOf(len(c.lanes))
	for token, ttls := range remaining {
		most = max(most, len(ttls))
		if len(ttls) < quorum {
			continue
		}
		// As long as the quorum lasts: until the first of the quorum longest-lived keys ends.
		info.Held, info.TokenDigest = true, TokenDigest(token)
		info.Validity = max(0, nth(ttls, len(ttls)-quorum)-t.now.Sub(r.start))
	}
	info.Unknown = !info.Held && most+silent >= quorum
	for i := range r.answers {
		info.Fence = max(info.Fence, r.answers[i].mark)
	}
	c.mu.Lock()
	if e := c.leases.entries[r.keys[0]]; e != nil {
		info.Waiters = e.line.length
	}
	c.mu.Unlock()
	t.tell(r.op, Result{Info: info})
}

// nth returns the element at index i of the durations in ascending order. It reorders them.
func nth(durations []time.Duration, i int) time.Duration {
	slices.Sort(durations)
	return durations[i]
}

// Leases lists, in order of name, at most limit leases that were granted through this client and still run, and resources
// that somebody waits for here, if match is true for their resources.
func (c *Client) Leases(match func(resources []string) bool, limit int) []LeaseInfo {
	// match may take long, and digests of tokens do: nobody waits for them.
	listed := slices.DeleteFunc(c.listLeases(time.Now()), func(l listedLease) bool { return !match(l.info.Resources) })
	slices.SortFunc(listed, func(a, b listedLease) int { return slices.Compare(a.info.Resources, b.info.Resources) })
	list := make([]LeaseInfo, min(limit, len(listed)))
	for i := range list {
		list[i] = listed[i].info
		if listed[i].held {
			list[i].TokenDigest = TokenDigest(listed[i].token)
		}
	}
	return list
}

// listedLease is a lease in a list, with its token in place of the digest; or a resource that is only waited for.
type listedLease struct {
	info  LeaseInfo
	held  bool
	token string
}

// listLeases is all that Leases can list, in no order.
func (c *Client) listLeases(now time.Time) []listedLease {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]listedLease, 0, len(c.leases.all))
	for _, lease := range c.leases.all {
		if now.Before(lease.validUntil) {
			info := LeaseInfo{Resources: slices.Clone(lease.keys), Validity: lease.validUntil.Sub(now), Lost: lease.lost}
			for _, key := range lease.keys {
				info.Waiters += c.leases.entries[key].line.length
			}
			list = append(list, listedLease{info, true, lease.token})
		}
	}
	for _, e := range c.leases.entries {
		held := e.lease != nil && now.Before(e.lease.validUntil)
		if !held && e.line.length > 0 {
			list = append(list, listedLease{info: LeaseInfo{Resources: []string{e.resource}, Waiters: e.line.length}})
		}
	}
	return list
}
