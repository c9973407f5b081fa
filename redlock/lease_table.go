package redlock

import (
	"slices"
	"time"
)

// leases is what this client knows of resources: the leases it granted, and who waits. It is
// knowledge, not truth: the masters alone decide who holds what. Client.mu guards it.
type leases struct {
	entries map[string]*entry
	// inflight are rounds that are not decided, by the key that they are to leave with a token that
	// somebody knows already: attempts under callers' tokens, extensions, and commits of what lives
	// on. An UNLOCK of the token can be launched behind them.
	inflight map[string][]*round
	// launched numbers the rounds in the order in which the lanes get them: see after.
	launched uint32
	// all lists the leases, so that a few can be looked at with every grant and those that ran out
	// be forgotten: no timer, no long sweep, and never more of them than about twice those that
	// run.
	all    []*lease
	cursor int
	// remember is for how much longer leases that have run out are kept: as long as a master may be
	// waited for.
	remember time.Duration
}

// entry is one resource.
type entry struct {
	resource string
	lease    *lease // granted through this client last, and not released since; may have run out
	queue    waitQueue
}

// lease is a lock that was granted through this client, until it is forgotten. Client.mu guards it.
type lease struct {
	keys       []string
	key        [1]string // backs keys when there is one
	token      string
	ttl        time.Duration // that the masters were asked for
	validUntil time.Time     // end of the validity
	born       time.Time     // first grant to this token
	share      *Share        // in which it is counted; nil: in none, or not any more
	attempt    *attempt      // of a LOCK under a caller's token; nil for all others
	launched   uint32        // of the round that was granted
	index      int32         // in leases.all
	// holders are the masters that may hold the token in the keys. Masters that had not voted when
	// the lease was granted are among them.
	holders mask
	lost    bool // the masters do not have it any more
}

// newLease is the lease of a round that is granted with these votes. born is the first grant to its
// token, as far as the round tells.
func newLease(r *round, v votes, masters int, validUntil time.Time) *lease {
	l := &lease{token: r.token, ttl: r.ttl(), validUntil: validUntil, born: r.start, launched: r.launched, holders: v.mayHold(masters)}
	l.keys = append(l.key[:0], r.keys...)
	return l
}

// leaseOf returns the lease that the round was granted, if it is still the one of its keys; or nil.
func (s *leases) leaseOf(r *round) *lease {
	if l := s.findLease(r.keys, r.token); l != nil && l.launched == r.launched {
		return l
	}
	return nil
}

func newLeases() leases {
	return leases{entries: make(map[string]*entry), inflight: make(map[string][]*round)}
}

// entry returns the entry of a resource, and makes one where there is none.
func (s *leases) entry(resource string) *entry {
	if e := s.entries[resource]; e != nil {
		return e
	}
	return s.addEntry(resource)
}

// addEntry makes the entry of a resource that has none.
func (s *leases) addEntry(resource string) *entry {
	e := &entry{resource: resource}
	s.entries[resource] = e
	return e
}

// tidy forgets a resource of which nothing is known.
func (s *leases) tidy(e *entry) {
	if e.lease == nil && e.queue.head == nil {
		delete(s.entries, e.resource)
	}
}

// findLease returns the lease that holds exactly these resources with this token, or nil.
func (s *leases) findLease(resources []string, token string) *lease {
	e := s.entries[resources[0]]
	if e == nil || e.lease == nil || e.lease.token != token || !sameKeys(e.lease.keys, resources) {
		return nil
	}
	return e.lease
}

// beginInflight records a round as in flight, until endInflight.
func (s *leases) beginInflight(r *round, key string) {
	list := s.inflight[key]
	r.inflightIndex = int32(len(list))
	s.inflight[key] = append(list, r)
}

// endInflight takes a round that is decided out of the list of its key. Every beginInflight must be
// followed by one, or the list grows.
func (s *leases) endInflight(r *round, key string) {
	list := s.inflight[key]
	i, last := int(r.inflightIndex), len(list)-1
	if i > last || list[i] != r { // it is in flight for several keys, and the index is that under another one
		i = slices.Index(list, r)
	}
	if moved := list[last]; moved != r {
		moved.inflightIndex, list[i] = int32(i), moved
	}
	list[last] = nil
	if last == 0 {
		delete(s.inflight, key)
	} else {
		s.inflight[key] = list[:last]
	}
}

// superseded tells whether the key was granted to the token by a round that was launched after this
// one, or such a round is in flight.
func (s *leases) superseded(than *round, key, token string) bool {
	if e := s.entries[key]; e != nil && e.lease != nil && e.lease.token == token && after(e.lease.launched, than.launched) {
		return true
	}
	return slices.ContainsFunc(s.inflight[key], func(r *round) bool { return after(r.launched, than.launched) && r.isFor(key, token) })
}

// held tells whether findLease finds a lease whose keys may still be there.
func (s *leases) held(resources []string, token string, now time.Time) bool {
	lease := s.findLease(resources, token)
	return lease != nil && now.Before(lease.validUntil.Add(driftConstant))
}

// hasWaiters tells whether somebody waits for one of the resources, after an attempt said that it
// is held.
func (s *leases) hasWaiters(resources []string) bool {
	for _, resource := range resources {
		if e := s.entries[resource]; e != nil && e.queue.head != nil && e.queue.denied {
			return true
		}
	}
	return false
}

// grant records a lease, in the place of what was known of its resources before. Masters that may
// hold them under the same token by that may hold them still, also where that was a lease of more
// or of fewer resources. It is counted in the share.
func (s *leases) grant(granted *lease, share *Share, now time.Time) {
	s.forgetSome(now, 2)
	for _, key := range granted.keys {
		e := s.entry(key)
		before := e.lease
		e.lease = granted
		if before != nil {
			if before.token == granted.token { //mutant:a-lease-of-other-parts-is-not-inherited
				granted.holders |= before.holders
			}
			s.forget(before)
		}
	}
	granted.index = int32(len(s.all))
	s.all = append(s.all, granted)
	share.count(granted)
}

// release forgets the lease that holds exactly these resources with this token, and returns it, or
// nil. What rounds in flight with the token are granted is no lease. What was locked together can
// be released one by one, and the other way round: so it also forgets the leases of the token that
// have some of the resources.
func (s *leases) release(resources []string, token string) *lease {
	lease := s.findLease(resources, token)
	for _, resource := range resources {
		for _, r := range s.inflight[resource] {
			r.released = r.released || r.isFor(resource, token)
		}
		if e := s.entries[resource]; e != nil && e.lease != nil && e.lease.token == token { //mutant:a-lease-of-other-parts-outlives-the-release
			s.forget(e.lease)
		}
	}
	return lease
}

// isFor tells whether the round, which has the key, is to leave it with this token.
func (r *round) isFor(key, token string) bool {
	i := slices.Index(r.keys, key)
	return i >= 0 && r.valueOf(i) == token && (r.commit == nil || r.commit.changes[i].lives())
}

// valueOf is the token, or the value of a drop-in client, that the round is to leave a key with.
func (r *round) valueOf(i int) string {
	if r.commit == nil {
		return r.token
	}
	return r.commit.changes[i].becomes()
}

// forget takes the lease out of the list and out of its entries, and these away if nothing else is
// known of them.
func (s *leases) forget(lease *lease) {
	lease.uncount()
	for _, key := range lease.keys {
		if e := s.entries[key]; e != nil && e.lease == lease {
			e.lease = nil
			s.tidy(e)
		}
	}
	last := len(s.all) - 1
	s.all[lease.index] = s.all[last]
	s.all[lease.index].index = lease.index
	s.all[last] = nil
	s.all = s.all[:last]
}

// forgetSome looks at n leases, the next ones in turn, and forgets those that have run out.
func (s *leases) forgetSome(now time.Time, n int) {
	for range min(n, len(s.all)) {
		if s.cursor >= len(s.all) {
			s.cursor = 0
		}
		lease := s.all[s.cursor]
		// Keys can outlive the validity by the drift. A release that comes then still finds for
		// which masters it is to be kept.
		if now.After(lease.validUntil.Add(lease.ttl/2 + driftConstant + s.remember)) {
			s.forget(lease)
			continue
		}
		s.cursor++
	}
}

// running counts the leases that have not run out, or only just.
func (s *leases) running(now time.Time) (n int) {
	for _, lease := range s.all {
		if !now.After(lease.validUntil.Add(lease.ttl/2 + driftConstant)) {
			n++
		}
	}
	return n
}

// after tells whether a round was launched after another one, by their numbers, which begin anew at
// some time.
func after(launched, other uint32) bool { return int32(launched-other) > 0 }

// sameKeys compares two sets of resources, which are named once each.
func sameKeys(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) == 1 || slices.Equal(a, b) {
		return a[0] == b[0]
	}
	for _, key := range a {
		if !slices.Contains(b, key) {
			return false
		}
	}
	return true
}
