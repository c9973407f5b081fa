package redlock

import (
	"slices"
	"time"
)

// StartInspect asks all masters what they know of a resource. The answer is Result.Info; a quorum
// is not needed, for it says who did not answer.
func (c *Client) StartInspect(op *Op, resource string, to Completer) {
	d := deferred{now: time.Now()}
	defer c.runDeferred(&d)
	op.to = to
	if err := checkResources([]string{resource}); err != nil {
		d.deliver(op, Result{Err: err})
		return
	}
	r := &round{verb: verbInspect, op: op, answers: make([]answer, len(c.lanes))}
	r.setKeys(resource)
	c.startReading(r, &d)
}

// startReading launches a round that only reads, when there is room.
func (c *Client) startReading(r *round, d *deferred) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.waitsForRoom() {
		c.beginReadingLocked(r, d)
		return
	}
	err := c.enqueueLocked(r.op, c.shareOf(r.op), stringsBytes(r.keys), 1, func(d *deferred) { c.beginReadingLocked(r, d) })
	if err != nil {
		d.deliver(r.op, Result{Err: err})
	}
}

// beginReadingLocked launches a reading for which there is room. T1 is now: what it waited for room
// is no age of the answers.
func (c *Client) beginReadingLocked(r *round, d *deferred) {
	r.start = d.now
	c.launchLocked(r, allMasters(len(c.lanes)), d)
}

// inspectionDecided reports what every master said. A resource counts as held if a quorum holds the
// same token, and as unknown if the masters without an answer could complete one.
func (c *Client) inspectionDecided(r *round, _ outcome, v votes, d *deferred) {
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
		info.Validity = max(0, nth(ttls, len(ttls)-quorum)-d.now.Sub(r.start))
	}
	info.Unknown = !info.Held && most+silent >= quorum
	for i := range r.answers {
		info.Fence = max(info.Fence, r.answers[i].mark)
	}
	c.mu.Lock()
	if e := c.leases.entries[r.keys[0]]; e != nil {
		info.Waiters = e.queue.length
	}
	c.mu.Unlock()
	d.deliver(r.op, Result{Info: info})
}

// nth returns the element at index i of the durations in ascending order. It reorders them.
func nth(durations []time.Duration, i int) time.Duration {
	slices.Sort(durations)
	return durations[i]
}

// leasesPiece is how many leases Leases looks at before it frees the client's mutex: every grant
// and release needs that.
const leasesPiece = 256

// Leases lists, in order of name, at most limit leases that were granted through this client and
// still run, and resources that somebody waits for here, if match is true for their resources.
// Locks go on meanwhile, so what changes during the call is listed as it was before or as it is
// after.
func (c *Client) Leases(match func(resources []string) bool, limit int) []LeaseInfo {
	now := time.Now()
	var found, piece []listedLease
	looked := 0
	// pauseLocked frees the mutex after each piece. match may take long, and nobody is to wait for
	// it.
	pauseLocked := func() {
		if looked++; looked%leasesPiece != 0 {
			return
		}
		c.mu.Unlock()
		found = appendMatching(found, piece, match, limit)
		piece = piece[:0]
		c.mu.Lock()
	}
	c.mu.Lock()
	// Backwards: a lease that is forgotten has the last one take its place, so one may be seen
	// twice, and none is missed.
	for i := len(c.leases.all); ; {
		if i = min(i, len(c.leases.all)); i == 0 {
			break
		}
		i--
		if lease := c.leases.all[i]; now.Before(lease.validUntil) {
			info := LeaseInfo{Resources: slices.Clone(lease.keys), Validity: lease.validUntil.Sub(now), Lost: lease.lost}
			for _, key := range lease.keys {
				info.Waiters += c.leases.entries[key].queue.length
			}
			piece = append(piece, listedLease{info, true, lease.token})
		}
		pauseLocked()
	}
	for _, e := range c.leases.entries {
		held := e.lease != nil && now.Before(e.lease.validUntil)
		if !held && e.queue.length > 0 {
			piece = append(piece, listedLease{info: LeaseInfo{Resources: []string{e.resource}, Waiters: e.queue.length}})
		}
		pauseLocked()
	}
	c.mu.Unlock()
	found = firstOf(appendMatching(found, piece, match, limit), limit)
	list := make([]LeaseInfo, len(found))
	for i := range list {
		list[i] = found[i].info
		if found[i].held {
			list[i].TokenDigest = TokenDigest(found[i].token)
		}
	}
	return list
}

// listedLease is a lease in a list, with its token in place of the digest; or a resource that is
// only waited for.
type listedLease struct {
	info  LeaseInfo
	held  bool
	token string
}

// appendMatching appends the leases that match. It keeps twice the limit at most.
func appendMatching(found, piece []listedLease, match func(resources []string) bool, limit int) []listedLease {
	for _, l := range piece {
		if match(l.info.Resources) {
			found = append(found, l)
		}
		if len(found) >= 2*limit {
			found = firstOf(found, limit)
		}
	}
	return found
}

// firstOf keeps the first of the leases in order of name, each once.
func firstOf(found []listedLease, limit int) []listedLease {
	slices.SortStableFunc(found, func(a, b listedLease) int { return slices.Compare(a.info.Resources, b.info.Resources) })
	found = slices.CompactFunc(found, func(a, b listedLease) bool { return slices.Equal(a.info.Resources, b.info.Resources) })
	return found[:min(limit, len(found))]
}
