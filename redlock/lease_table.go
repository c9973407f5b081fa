package redlock

import (
	"slices"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/quorum"
)

// leases is what this client knows of resources: the leases it granted, and who waits. It is
// knowledge, not truth: the masters alone decide who holds what. Client.mu guards it.
type leases struct {
	entries map[string]*entry
	// inflight are rounds that are not decided, by each key that they are to leave with a token that
	// somebody knows already: attempts under callers' tokens, extensions, and commits of what lives
	// on. An UNLOCK of the token can be launched behind them.
	inflight map[string][]*round
	// slotted: this client has locked slots. Only then can a resource be one of its slots.
	slotted bool
	// all lists the leases, so that a few can be looked at with every grant and those that ran out
	// be forgotten: no timer, no long sweep, and never more of them than about twice those that
	// run.
	all    []*lease
	cursor int
	// byPrefix counts how long locks were waited for and held.
	byPrefix byPrefix
	// delays are those of leases that have one (Terms.Delay).
	delays map[*lease]time.Duration
	// shares are those in which a lease was counted since the last largestShares.
	shares []*Share
	// remember is for how much longer leases that have run out are kept: as long as a master may be
	// waited for.
	remember time.Duration
	drift    clock.Drift // Client.drift
}

// entry is one resource.
type entry struct {
	resource string
	lease    *lease            // granted through this client last, and not released since; may have run out
	readers  map[string]*lease // likewise those of readers, by token
	queue    waitQueue
}

// leaseOf returns the lease of a token, or nil.
func (e *entry) leaseOf(token string) *lease {
	if e == nil {
		return nil
	}
	if e.lease != nil && e.lease.token == token {
		return e.lease
	}
	return e.readers[token]
}

// hasReaders tells whether a reader's lease runs here.
func (e *entry) hasReaders(now time.Time) bool {
	if e == nil {
		return false
	}
	for _, l := range e.readers {
		if now.Before(l.validUntil) {
			return true
		}
	}
	return false
}

// lease is a lock that was granted through this client, until it is forgotten. Client.mu guards it.
type lease struct {
	keys       []string
	key        [1]string // backs keys when there is one
	token      string
	note       *HolderNote // who holds it; nil: that is not known
	validUntil time.Time   // end of the validity
	born       time.Time   // first grant to this token
	share      *Share      // in which it is counted; nil: in none, or not any more
	attempt    *attempt    // of a LOCK under a caller's token, or a SET NX; nil for all others
	launched   uint32      // of the round that was granted
	index      int32       // in leases.all
	ttlMs      uint32      // that the masters were asked for
	// holders are the masters that may hold the token in the keys. Masters that had not voted when
	// the lease was granted are among them.
	holders quorum.Mask
	lost    bool // the masters have forgotten it
	reader  bool // it is a reader's
}

// newLease is the lease of a round that is granted with these votes. born is the first grant to its
// token, as far as the round tells.
func newLease(r *round, v quorum.Votes, validUntil time.Time) *lease {
	l := &lease{token: r.token, ttlMs: uint32(r.ttlMs), validUntil: validUntil, born: r.start, launched: r.launched, holders: v.MayHold(r.view.Places), reader: r.ofReader()}
	l.keys = append(l.key[:0], r.keys...)
	return l
}

// keysEnd is when the keys of a lease end on a master whose clock runs as ours does, if nobody extends
// them: they outlive the validity by what they were padded with. A delay comes on top.
func (s *leases) keysEnd(l *lease) time.Time {
	return l.validUntil.Add(clock.DriftOf(time.Duration(l.ttlMs)*time.Millisecond, s.drift))
}

// gone is when keysEnd and the delay of a lease are over.
func (s *leases) gone(l *lease) time.Time { return s.keysEnd(l).Add(s.delays[l]) }

// leaseOf returns the lease of these keys that the round was granted, if it is still the one of them;
// or nil.
func (s *leases) leaseOf(r *round, keys []string, token string) *lease {
	if l := s.findLease(keys, token); l != nil && l.launched == r.launched {
		return l
	}
	return nil
}

func newLeases(prefixes []string, drift clock.Drift) leases {
	return leases{drift: drift, entries: make(map[string]*entry), inflight: make(map[string][]*round), byPrefix: newByPrefix(prefixes)}
}

// entry returns the entry of a resource, and makes one where there is none.
func (s *leases) entry(resource string) *entry {
	e := s.entries[resource]
	if e == nil {
		e = &entry{resource: resource}
		s.entries[resource] = e
	}
	return e
}

// tidy forgets a resource of which nothing is known.
func (s *leases) tidy(e *entry) {
	if e.lease == nil && len(e.readers) == 0 && e.queue.head == nil {
		delete(s.entries, e.resource)
	}
}

// findLease returns the lease that holds exactly these resources with this token, or nil.
func (s *leases) findLease(resources []string, token string) *lease {
	if l := s.entries[resources[0]].leaseOf(token); l != nil && sameKeys(l.keys, resources) {
		return l
	}
	return nil
}

// birth is when the lock of these resources was first granted to the token, if the token or a lease
// tells.
func (s *leases) birth(resources []string, token string) (born time.Time, known bool) {
	if born, known = tokenBirth(token); known {
		return born, true
	}
	if l := s.findLease(resources, token); l != nil {
		return l.born, true
	}
	return born, false
}

// beginInflight records a round as in flight under these keys, until endInflight.
func (s *leases) beginInflight(r *round, keys ...string) {
	for _, key := range keys {
		s.inflight[key] = append(s.inflight[key], r)
	}
}

// endInflight takes a round that is decided out of the lists of its keys. Every beginInflight must be
// followed by one, or the lists grow.
func (s *leases) endInflight(r *round, keys ...string) {
	for _, key := range keys {
		list := s.inflight[key]
		i := slices.Index(list, r)
		if list = slices.Delete(list, i, i+1); len(list) == 0 {
			delete(s.inflight, key)
		} else {
			s.inflight[key] = list
		}
	}
}

// superseded tells whether the key was granted to the token by a round that was launched after this
// one, or such a round is in flight.
func (s *leases) superseded(than *round, key, token string) bool {
	if l := s.entries[key].leaseOf(token); l != nil && launchedAfter(l.launched, than.launched) {
		return true
	}
	return slices.ContainsFunc(s.inflight[key], func(r *round) bool { return launchedAfter(r.launched, than.launched) && r.isFor(key, token) })
}

// heldOrDelayed returns the lease of a token if its keys may still be there, also in the delay behind
// its validity: nobody else can have had the resources. Else it returns nil.
func (s *leases) heldOrDelayed(resources []string, token string, now time.Time) *lease {
	lease := s.findLease(resources, token)
	if lease != nil && now.Before(s.free(lease).Add(clock.DriftConstant)) { //mutant:in-its-delay-a-lock-is-not-held
		return lease
	}
	return nil
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
func (s *leases) grant(granted *lease, share *Share, delay time.Duration, now time.Time) {
	s.forgetSome(now, 2)
	for _, key := range granted.keys {
		e := s.entry(key)
		before := e.lease
		if granted.reader {
			e.lease = nil
			if same := e.readers[granted.token]; same != nil {
				before = same
			}
			if e.readers == nil {
				e.readers = make(map[string]*lease)
			}
			e.readers[granted.token] = granted
		} else {
			e.lease = granted
			for _, reader := range e.readers {
				s.end(reader, now) //mutant:readers-outlive-the-next-writer
			}
		}
		if before != nil {
			if before.token == granted.token { //mutant:a-lease-of-other-parts-is-not-inherited
				granted.holders |= before.holders
				s.forget(before)
			} else {
				s.end(before, now) //mutant:a-lease-outlives-the-next
			}
		}
	}
	granted.index = int32(len(s.all))
	s.all = append(s.all, granted)
	if !share.listed {
		share.listed = true
		s.shares = append(s.shares, share)
	}
	if delay > 0 { // few leases have one, so it is no field of theirs
		if s.delays == nil {
			s.delays = make(map[*lease]time.Duration)
		}
		s.delays[granted] = delay
	}
	share.count(granted, s)
}

// free is when the resources of a lease are free, if nobody releases or extends it: the end of its
// validity, or of its delay.
func (s *leases) free(l *lease) time.Time { return l.validUntil.Add(s.delays[l]) }

// release forgets the lease that holds exactly these resources with this token, and returns it, or
// nil. What rounds in flight with the token are granted is no lease. What was locked together can
// be released one by one, and the other way round: so it also forgets the leases of the token that
// have some of the resources.
func (s *leases) release(resources []string, token string, now time.Time) *lease {
	lease := s.findLease(resources, token)
	for _, resource := range resources {
		for _, r := range s.inflight[resource] {
			r.released = r.released || r.isFor(resource, token)
		}
		if s.slotted {
			s.slotReleased(resource, token)
		}
		if l := s.entries[resource].leaseOf(token); l != nil { //mutant:a-lease-of-other-parts-outlives-the-release
			s.end(l, now)
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

// end forgets a lease whose lock has ended, and counts how long it was held.
func (s *leases) end(lease *lease, now time.Time) {
	if lease.validUntil.Before(now) { // it ended with its validity
		now = lease.validUntil
	}
	s.byPrefix.ended(lease.keys[0], now.Sub(lease.born))
	s.forget(lease)
}

// forget takes the lease out of the list and out of its entries, and these away if nothing else is
// known of them.
func (s *leases) forget(lease *lease) {
	lease.uncount()
	delete(s.delays, lease)
	for _, key := range lease.keys {
		switch e := s.entries[key]; {
		case e == nil:
		case e.lease == lease:
			e.lease = nil
			s.tidy(e)
		case e.readers[lease.token] == lease:
			delete(e.readers, lease.token)
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
		if lease := s.all[s.cursor]; s.ranOut(lease, now) {
			s.end(lease, now)
			continue
		}
		s.cursor++
	}
}

// ranOut tells whether a lease may be forgotten. A release that comes before that still finds for which
// masters it is to be kept.
func (s *leases) ranOut(l *lease, now time.Time) bool {
	return now.After(s.gone(l).Add(s.remember))
}

// running counts the leases that have not run out, or only just, and says how long ago the oldest was
// granted whose validity has not ended. It forgets those that ran out. After each piece it calls pause,
// which frees Client.mu for a moment; a lease that moves meanwhile may be counted twice.
func (s *leases) running(now time.Time, pause func()) (n int, longest time.Duration) {
	// Backwards: a lease that is forgotten has the last one take its place, so none is missed.
	for i, looked := len(s.all)-1, 1; i >= 0; i, looked = min(i, len(s.all))-1, looked+1 {
		l := s.all[i]
		if s.ranOut(l, now) {
			s.end(l, now)
		} else if !now.After(s.keysEnd(l)) {
			n++
		}
		if now.Before(l.validUntil) {
			longest = max(longest, now.Sub(l.born))
		}
		if looked%leasesPiece == 0 {
			pause()
		}
	}
	return n, longest
}

// launchedAfter tells whether a round was launched after another one, by their numbers, which begin
// anew at some time.
func launchedAfter(launched, other uint32) bool { return int32(launched-other) > 0 }

// sameKeys compares two sets of resources, which are named once each.
func sameKeys(a, b []string) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(key string) bool { return !slices.Contains(b, key) })
}
