package redlock

import (
	"cmp"
	"slices"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/quorum"
)

// StartInspect asks all masters what they know of a resource. The answer is Result.Info; a quorum
// is not needed, for it says who did not answer.
func (c *Client) StartInspect(op *Op, resource string, to Completer) {
	op.keys, op.verb = []string{resource}, verbInspect
	c.start(op, to, checkResources(op.keys, 1), (*Client).beginReadingLocked)
}

// beginReadingLocked launches a reading for which there is room. T1 is now: what it waited for room is
// no age of the answers.
func (c *Client) beginReadingLocked(op *Op, d *deferred) {
	r := &round{verb: op.verb, start: d.now, op: op}
	if op.watches && op.verb == verbRead {
		r.flags.Store(flagWatches)
		r.token = op.token
	}
	r.setKeys(op.keys...)
	op.keys = r.keys // the caller's slice may change from here on
	c.settling.firstLocked(r.keys, d)
	c.rounds.launch(r, quorum.All, d)
}

// inspectionDecided reports what every master said. A resource counts as held if a quorum holds the
// same token, and as unknown if the masters without an answer could complete one.
func (c *Client) inspectionDecided(r *round, _ quorum.Outcome, v quorum.Votes, d *deferred) {
	info := &ResourceInfo{Resource: r.keys[0]}
	remaining := make(map[string][]time.Duration)
	var readers []time.Duration
	silent, most, holder := 0, 0, ""
	for _, l := range r.view.masters {
		i := l.index
		a := r.answers[i]
		one := ResourceVote{Addr: l.master.Addr}
		switch v.Of(i) {
		case quorum.Abstained, quorum.Unknown:
			silent++
			why := l.reason(r.start)
			one.State = why.State
			if one.Err = a.err; one.Err == nil {
				one.Err = why.Err
			}
		case quorum.Granted:
			if one.TTL, one.Readers = a.ttl, int(a.readers); a.ttl >= 0 {
				one.TTL = max(0, a.ttl-clock.DriftOf(a.ttl, c.drift)).Truncate(time.Millisecond) //mutant:the-pad-of-a-key-is-shown
			}
			switch {
			case a.readers > 0:
				readers = append(readers, one.TTL)
				info.Readers = max(info.Readers, one.Readers)
			case !a.ofReaders:
				one.TokenDigest = TokenDigest(c, a.value)
				if a.ttl >= 0 {
					remaining[a.value] = append(remaining[a.value], one.TTL)
				}
			}
		}
		info.Votes = append(info.Votes, one)
	}
	quorum := r.view.Quorum()
	for token, ttls := range remaining {
		most = max(most, len(ttls))
		if len(ttls) < quorum {
			continue
		}
		// As long as the quorum lasts: until the first of the quorum longest-lived keys ends.
		info.Held, info.TokenDigest, holder = true, TokenDigest(c, token), token
		info.Validity = max(0, nth(ttls, len(ttls)-quorum)-d.now.Sub(r.start))
	}
	if most = max(most, len(readers)); len(readers) >= quorum {
		info.Held, info.Shared = true, true
		info.Validity = max(0, nth(readers, len(readers)-quorum)-d.now.Sub(r.start))
	}
	info.Unknown = !info.Held && most+silent >= quorum
	for i := range r.answers {
		info.Fence = max(info.Fence, r.answers[i].mark)
	}
	for _, one := range Minority(c, r.keys[0]) {
		for i, vote := range info.Votes {
			digest := ""
			if vote.TokenDigest != "" {
				digest = conn.Digest(r.answers[r.view.masters[i].index].value)
			}
			if one.Of(digest, vote.Readers) {
				info.Minority = append(info.Minority, one)
				break
			}
		}
	}
	c.mu.Lock()
	if e, _ := c.leases.queueFor(r.keys[0]); e != nil {
		info.Waiters, info.Queue = e.queue.length, e.queue.appendTo(nil, c.own.At(d.now))
	}
	if info.Held { // a library's value may be "", and then that of nobody is the same
		info.Leases = c.leases.on(info, holder, &c.holds, d.now)
	}
	c.mu.Unlock()
	d.deliver(r.op, Result{Info: info})
}

// readersSeen bounds how many readers of one resource Inspect looks at.
const readersSeen = 256

// on are the leases that were granted here and hold the resource, as far as the masters confirm that: that
// of the token, or of readers.
func (s *leases) on(info *ResourceInfo, token string, holds *holds, now time.Time) (list []LeaseInfo) {
	e := s.entries[info.Resource]
	switch {
	case e == nil:
	case !info.Shared:
		if e.lease != nil && e.lease.token == token {
			list = append(list, s.info(e.lease, holds, now))
		}
	default:
		seen := 0
		for _, l := range e.readers {
			if seen++; seen > readersSeen {
				break
			}
			if now.Before(l.validUntil) {
				list = append(list, s.info(l, holds, now))
			}
		}
		slices.SortFunc(list, func(a, b LeaseInfo) int { return a.Since.Compare(b.Since) })
		list = list[:min(len(list), WaitersShown)]
	}
	for i := range list {
		list[i].TokenDigest = info.TokenDigest
	}
	return list
}

// info describes a lease, but for its waiters and its token, whose digest takes long.
func (s *leases) info(l *lease, holds *holds, now time.Time) LeaseInfo {
	return LeaseInfo{Resources: slices.Clone(l.keys), Validity: max(0, l.validUntil.Sub(now)), Since: l.born, Bound: holds.ofKey(l.keys[0], l.token) != nil, Shared: l.reader,
		Lost: l.lost, Note: l.note, Delay: s.delays[l], Free: max(0, s.free(l).Sub(now))}
}

// appendTo appends the first of those who wait, as long as there are fewer than WaitersShown. now is on
// clock.Own.
func (q *waitQueue) appendTo(list []WaiterInfo, now time.Duration) []WaiterInfo {
	for w := q.head; w != nil && len(list) < WaitersShown; w = w.next {
		list = append(list, WaiterInfo{Note: w.op.Note, Waited: max(0, now-w.op.arrived), Shared: w.op.isReader()})
	}
	return list
}

// nth returns the element at index i of the durations in ascending order. It reorders them.
func nth(durations []time.Duration, i int) time.Duration {
	slices.Sort(durations)
	return durations[i]
}

// leasesPiece is how many leases Leases looks at before it frees the client's mutex: every grant
// and release needs that.
const leasesPiece = 256

// Leases lists, in order of name, leases that were granted through this client and still run, and
// resources that somebody waits for here, if match is true for their resources. Of more than limit it
// lists those that RankLeases says. Locks go on meanwhile, so what changes during the call is listed as
// it was before or as it is after.
func (c *Client) Leases(match func(resources []string) bool, limit int) []LeaseInfo {
	return LeasesBy(c, ByAny, match, limit)
}

// LeasesBy is Client.Leases of the leases that have a reason, in its order. It looks at all leases, and
// keeps twice limit of them at most.
func LeasesBy(c *Client, by Reason, match func(resources []string) bool, limit int) []LeaseInfo {
	now := time.Now()
	found := leaseList{limit: limit}
	var piece []listedLease
	looked := 0
	add := func(l listedLease, queues ...string) {
		waiters, waited := c.waitersOfLocked(queues, now)
		l.scores = scoresOf(l.info.Since, l.info.Lost, waiters, waited).only(by)
		piece = append(piece, l)
	}
	// pauseLocked frees the mutex after each piece. match may take long, and nobody is to wait for
	// it.
	pauseLocked := func() {
		if looked++; looked%leasesPiece != 0 {
			return
		}
		c.mu.Unlock()
		found.add(piece, match)
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
		if lease := c.leases.all[i]; now.Before(c.leases.free(lease)) {
			add(listedLease{info: c.leases.info(lease, &c.holds, now), held: true, token: lease.token}, lease.keys...)
		}
		pauseLocked()
	}
	for _, e := range c.leases.entries {
		held := e.lease != nil && now.Before(c.leases.free(e.lease)) || e.hasReaders(now)
		if !held && e.queue.length > 0 {
			add(listedLease{info: LeaseInfo{Resources: []string{shownQueue(e.resource)}}, queue: e.resource}, e.resource)
		}
		pauseLocked()
	}
	c.mu.Unlock()
	found.add(piece, match)
	found.shorten()
	found.sort()
	if by != ByAny {
		slices.SortStableFunc(found.leases, func(a, b listedLease) int { return cmp.Compare(b.scores[by], a.scores[by]) })
	}
	list := make([]LeaseInfo, len(found.leases))
	for i, l := range found.leases {
		list[i] = l.info
		if l.held {
			list[i].TokenDigest = TokenDigest(c, l.token)
		}
	}
	c.addWaiters(list, found.leases, now)
	return list
}

// waitersOfLocked is how many wait in these queues, and for how long the first of them has.
func (c *Client) waitersOfLocked(queues []string, now time.Time) (waiters int, waited time.Duration) {
	for _, name := range queues {
		if e := c.leases.entries[name]; e != nil && e.queue.head != nil {
			waiters += e.queue.length
			waited = max(waited, c.own.At(now)-e.queue.head.op.arrived)
		}
	}
	return waiters, waited
}

// Minority is what masters tell of a resource that fewer than a quorum of them held when one of them came
// back. It may have ended since, or somebody else may hold the lock: ResourceInfo tells.
func Minority(c *Client, resource string) []MinorityLock {
	return c.fleet.coordinator.Minority(resource)
}

// TokenDigest is what people are shown of a token: 16 hex digits that tell tokens apart and give none
// away. All clients of a fleet make the same of the same token. Nobody else can tell which token has a
// digest, not even of one that is easily guessed (a host and a process): its key is on the masters alone.
//
// What redlockds tell one another of tokens, and keep at the masters, is conn.Digest, which needs no key.
func TokenDigest(c *Client, token string) string {
	return conn.KeyedDigest(c.fleet.view.Load().digestKey, token)
}

// Failing is Stats.Failing alone, which looks at no leases.
func Failing(c *Client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Stats{NoQuorumFor: c.outcomes.noQuorumFor(c.own.At(time.Now()))}
	return s.Failing()
}

// LongestWait is for how long that LOCK waits that came first; 0: none waits. Beside a million leases it
// takes 0.1 s, in which locks go on.
func LongestWait(c *Client) (longest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, looked, found := c.own.At(time.Now()), 0, 0
	for _, e := range c.leases.entries {
		if found >= c.waiting.count {
			break
		}
		if w := e.queue.head; w != nil {
			longest = max(longest, now-w.op.arrived)
			found += e.queue.length
		}
		if looked++; looked%leasesPiece == 0 {
			c.mu.Unlock()
			c.mu.Lock()
		}
	}
	return longest
}

// addWaiters adds to each of the leases who waits for it. It frees the client's mutex now and then, as
// Leases does.
func (c *Client) addWaiters(list []LeaseInfo, found []listedLease, now time.Time) {
	const piece = leasesPiece / WaitersShown // leases, each of which has up to so many waiters
	for begin := 0; begin < len(list); begin += piece {
		c.mu.Lock()
		for i := begin; i < min(begin+piece, len(list)); i++ {
			queues := list[i].Resources
			if !found[i].held {
				queues = []string{found[i].queue}
			}
			for _, name := range queues {
				if e := c.leases.entries[name]; e != nil {
					list[i].Waiters += e.queue.length
					list[i].Queue = e.queue.appendTo(list[i].Queue, c.own.At(now))
				}
			}
		}
		c.mu.Unlock()
	}
}

// listedLease is a lease in a list, with its token in place of the digest; or a resource that is
// only waited for, in the queue of this name.
type listedLease struct {
	info   LeaseInfo
	held   bool
	token  string
	queue  string
	scores scores
}

// reader is the token of a reader, which has others beside it, else "".
func (l *listedLease) reader() string {
	if l.info.Shared {
		return l.token
	}
	return ""
}

// leaseList is the leases to list of those that were added so far, and up to as many others.
type leaseList struct {
	limit  int
	leases []listedLease
	// least are scores of which a lease needs one to be listed still.
	least scores
}

// add adds the leases that match.
func (f *leaseList) add(piece []listedLease, match func(resources []string) bool) {
	for _, l := range piece {
		if !match(l.info.Resources) {
			continue
		}
		for reason, score := range l.scores {
			if score > 0 && score >= f.least[reason] { // of equal ones, the first by name are listed
				f.leases = append(f.leases, l)
				break
			}
		}
		if len(f.leases) >= 2*f.limit {
			f.shorten()
		}
	}
}

// sort sorts the leases by name, and drops those that were seen twice.
func (f *leaseList) sort() {
	slices.SortStableFunc(f.leases, func(a, b listedLease) int {
		return cmp.Or(slices.Compare(a.info.Resources, b.info.Resources), cmp.Compare(a.reader(), b.reader()))
	})
	f.leases = slices.CompactFunc(f.leases, func(a, b listedLease) bool {
		return slices.Equal(a.info.Resources, b.info.Resources) && a.reader() == b.reader()
	})
}

// shorten drops the leases beyond the limit.
func (f *leaseList) shorten() {
	f.sort()
	if len(f.leases) <= f.limit {
		return
	}
	all := make([]scores, len(f.leases))
	for i := range all {
		all[i] = f.leases[i].scores
	}
	chosen, least := rank(all, f.limit)
	leases := make([]listedLease, len(chosen), 2*f.limit)
	for i, at := range chosen {
		leases[i] = f.leases[at]
	}
	f.leases, f.least = leases, least
}
