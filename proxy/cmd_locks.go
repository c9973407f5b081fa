package proxy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"redlockd/proxy/access"
	"redlockd/proxy/fleet"
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// LOCKINFO asks the masters about one resource. LOCKS asks nobody: it lists what this server knows of
// its own grants, so it shows neither locks that were taken through another redlockd nor what the
// masters hold now.
//
// Neither shows a token, because a token is the right to release the lock. Both show a digest of it: a
// client that has a token can compare. Both show who holds a lock and who waits for it, as far as that
// is a client of this server: confined users see holder.go's part of that.

const (
	// locksDefault is how many leases LOCKS lists without COUNT.
	locksDefault = 100
	// locksMax bounds COUNT.
	locksMax = 10_000
	// locksBytesMax bounds the bytes of the reply: one lease can have 64 names of 1 KB.
	locksBytesMax = 4 << 20
	// locksFit bounds the bytes of the leases that LOCKS BY lists. Who answered has room behind them.
	locksFit = locksBytesMax - 64<<10
)

// locksTime bounds how long one LOCKS looks for leases, the wait for others included. Comparing one
// name with one pattern takes 1 ms at worst, and there may be 100 000 leases.
const locksTime = time.Second

// cmdLOCKINFO is LOCKINFO resource. It asks all masters and answers also without a quorum, because who
// is silent is a part of the answer. It does not block the client: the answer is true for one moment
// anyway.
func cmdLOCKINFO(_ *session, c *call) error {
	i := &operation{then: (*operation).lockInfo}
	c.takeSlot(&i.slot)
	i.startInspect(&i.op, string(c.args[1]), i)
	return nil
}

// lockInfo answers LOCKINFO. held is null if too few masters answered to know; fence is null if
// there is none.
func (i *operation) lockInfo(result redlock.Result) {
	info := result.Info
	votes := make(array, len(info.Votes))
	for n, vote := range info.Votes {
		votes[n] = voteFields(vote, i.account.user().SeesMasters())
	}
	holders := make(array, 0, len(info.Leases))
	for _, lease := range info.Leases {
		if holder := holderFields(shownTo(i.account.user(), lease)); holder != nil {
			holders = append(holders, holder)
		}
	}
	var held, fence any // nil is null in the reply
	if !info.Unknown {
		held = info.Held
	}
	if info.Fence > 0 {
		fence = info.Fence
	}
	validity, delay := i.withoutDelay(info)
	i.out = appendValue(i.out, i.proto, fields{
		"resource", info.Resource,
		"held", held,
		"validity-ms", floorMs(validity),
		"token-digest", orNull(info.TokenDigest),
		"votes", votes,
		"fence", fence,
		"mode", modeOf(info.Held, info.Shared),
		"readers", info.Readers,
		"holders", holders,
		"waiters", info.Waiters,
		"queue", queueFields(queueShownTo(i.account.user(), info.Queue)),
		"delay-ms", floorMs(delay),
		"minority", minorityText(info.Minority, i.account.user().SeesMasters()),
	})
}

// minorityText says of a lock that masters were given it when they came back, although too few had it to
// be sure that it is one; null if they were not.
func minorityText(list []redlock.MinorityLock, seesMasters bool) any {
	var parts []string
	for _, m := range list {
		if seesMasters {
			parts = append(parts, fmt.Sprintf("%s was given it when it came back, and only %s had it", m.By, m.On))
		}
	}
	switch {
	case len(list) == 0:
		return nil
	case len(parts) == 0:
		parts = append(parts, "a master was given it when it came back, and fewer than a quorum had it")
	}
	return strings.Join(parts, "; ") + ": it may be of no holder; it ends by itself, or with UNLOCK resource FORCE reason"
}

// withoutDelay is what is left of the validity of a lock, and, if that is nothing, of its delay. The
// masters know of no delay: it is that of the lease, if the lock was granted here, or that of the
// resource's policy here.
func (i *operation) withoutDelay(info *redlock.ResourceInfo) (validity, delay time.Duration) {
	lockDelay := i.s.server.live().delayOf(info.Resource)
	if len(info.Leases) > 0 {
		lockDelay = info.Leases[0].Delay
	}
	if info.Validity > lockDelay {
		return info.Validity - lockDelay, 0
	}
	return 0, info.Validity
}

// modeOf says how a resource is held: null if it is not.
func modeOf(held, shared bool) any {
	switch {
	case !held:
		return nil
	case shared:
		return "shared"
	}
	return "exclusive"
}

// voteFields are what one master says: a digest if it has a token, how many readers it has, the key's
// TTL (-1: none), and why it says nothing. A user who does not see the masters gets neither the name
// nor the reason, but the state.
func voteFields(vote redlock.ResourceVote, seesMasters bool) fields {
	var master, ttl, reason any
	switch {
	case vote.TokenDigest == "" && vote.Readers == 0:
	case vote.TTL < 0:
		ttl = -1
	default:
		ttl = floorMs(vote.TTL)
	}
	if seesMasters {
		master = vote.Addr
	}
	switch {
	case vote.Err == nil:
	case seesMasters:
		reason = vote.Err.Error()
	case vote.State == redlock.MasterUp:
		reason = "late or failing"
	default:
		reason = string(vote.State)
	}
	return fields{"master", master, "token-digest", orNull(vote.TokenDigest), "ttl-ms", ttl, "error", reason, "readers", vote.Readers}
}

// listing is a LOCKS in progress. It runs on a goroutine of its own, so that the reader notices when
// the client leaves.
type listing struct {
	slot
	// user is the one who asks: only resources that it may use are listed.
	user *access.User
	locksOptions
	// deadline is when the search gives up, see locksTime.
	deadline time.Time
}

// locksOptions are the options of LOCKS.
type locksOptions struct {
	// by is which leases are listed first, and in which order. With redlock.ByAny they are in order of name.
	by redlock.Reason
	// pattern is a glob that one name of a lease must match; "": any does.
	pattern string
	// limit is how many leases are listed at most, with all: of each redlockd.
	limit int
	// all: those of every redlockd of the fleet.
	all bool
}

// cmdLOCKS is LOCKS [ALL] [BY reason] [PATTERN glob] [COUNT n]. It blocks the client's commands behind it, so that
// one client has one list made at a time.
func cmdLOCKS(s *session, c *call) error {
	options, refusal := parseLocks(c)
	if refusal == nil && options.all {
		refusal = askable(s.user())
	}
	if refusal != nil {
		return refusal
	}
	l := &listing{user: s.user(), locksOptions: options, deadline: time.Now().Add(locksTime)}
	c.takeBlockingSlot(&l.slot)
	run := l.run
	if l.all {
		run = l.runAll
	}
	if !s.server.begin(run) {
		flush(l.fail(errGone))
	}
	return nil
}

// run makes the list of this server.
func (l *listing) run() {
	refusal := l.s.server.listInTurn(l.search(), func(leases []redlock.LeaseInfo) {
		l.appendLeases(len(leases), func(i int) fields { return l.s.server.leaseFields(l.user, shownTo(l.user, leases[i])) })
		l.finish(nil)
	})
	if refusal != nil {
		l.finish(refusal)
	}
}

// appendLeases appends an array of n leases. With BY, these are the first ones that fit into locksFit. In
// order of name, it stops beyond locksBytesMax: finish then answers with an error in its place.
func (l *listing) appendLeases(n int, lease func(i int) fields) {
	var list []byte
	listed := 0
	for ; listed < n && len(list) <= locksBytesMax; listed++ {
		before := len(list)
		list = appendValue(list, l.proto, lease(listed))
		if l.by != redlock.ByAny && len(list) > locksFit {
			list = list[:before]
			break
		}
	}
	l.out = append(resp.AppendArray(l.out, listed), list...)
}

// finish answers with the list that was appended, or with the error.
func (l *listing) finish(refusal error) {
	if refusal == nil && len(l.out) > locksBytesMax {
		refusal = errorf("ERR the list has more than %d bytes: list fewer leases with COUNT, or others with PATTERN", locksBytesMax)
	}
	if refusal != nil {
		l.out = l.out[:0]
		flush(l.fail(refusal))
		return
	}
	flush(l.complete())
}

// search is what the engine has to look for.
func (l *listing) search() *leaseSearch {
	return &leaseSearch{by: l.by, pattern: l.pattern, limit: l.limit, deadline: l.deadline, may: l.user.May, gone: l.s.conn.closed.Load}
}

// leaseSearch finds leases to list.
type leaseSearch struct {
	by       redlock.Reason
	pattern  string
	limit    int
	deadline time.Time
	// may reports whether the one who asks may use a resource.
	may func(resource string) bool
	// gone reports whether nobody waits for the list any more; nil: somebody does.
	gone func() bool

	compared int
	matched  int // leases that match, also beyond limit
	late     bool
}

// findLeases finds what to list, in turn.
func (srv *Server) findLeases(q *leaseSearch) (leases []redlock.LeaseInfo, refusal error) {
	refusal = srv.listInTurn(q, func(found []redlock.LeaseInfo) { leases = found })
	return leases, refusal
}

// leasesForFleet finds what another redlockd asks for.
func (srv *Server) leasesForFleet(q *fleet.Question, deadline time.Time) (leases []redlock.LeaseInfo, total int, err error) {
	search := &leaseSearch{by: q.Reason(), pattern: string(q.Pattern), limit: q.Count, deadline: deadline, may: q.Permits}
	leases, err = srv.findLeases(search)
	return leases, search.matched, err
}

// listInTurn finds what to list, and has list make the list, which has megabytes. One list is made at a
// time, so all of them together compute on one processor at most, and only one is not counted in
// OutputTotal; the others wait until their deadline.
//
// It ends early, with an error, at the deadline, and without one when the client has left: then nobody
// reads the reply. The engine calls match without its mutex, one piece of the leases after the other,
// so locks are granted meanwhile.
func (srv *Server) listInTurn(q *leaseSearch, list func([]redlock.LeaseInfo)) (refusal error) {
	timeout := time.NewTimer(time.Until(q.deadline))
	defer timeout.Stop()
	select {
	case srv.listing <- struct{}{}:
		defer func() { <-srv.listing }()
	case <-timeout.C:
		return errorf("ERR LOCKS waited %v for other LOCKS: try again", locksTime)
	case <-srv.done:
		return errGone
	}
	leases := redlock.LeasesBy(srv.opts.Engine, q.by, q.match, q.limit)
	if q.late {
		return errorf("ERR LOCKS took longer than %v: there are too many leases for this pattern", locksTime)
	}
	list(leases)
	return nil
}

// match reports whether a lease is to be listed. One of several names is listed only if the user may
// use all of them. After the deadline it answers at once, so that the engine comes to its end: it knows
// no other way to stop.
func (q *leaseSearch) match(resources []string) bool {
	if q.late || q.gone != nil && q.gone() {
		return false
	}
	for _, resource := range resources {
		// A name and a pattern of 1 KB may take 1 ms, so the clock is read now and then within a list of
		// names too.
		if q.compared++; q.compared%16 == 0 && time.Now().After(q.deadline) {
			q.late = true
			return false
		}
		if !q.may(resource) {
			return false
		}
	}
	if q.pattern != "" && !slices.ContainsFunc(resources, func(resource string) bool { return access.Match(q.pattern, resource) }) {
		return false
	}
	q.matched++
	return true
}

// leaseFields are a lease as LOCKS answers it to the user.
func (srv *Server) leaseFields(u *access.User, lease redlock.LeaseInfo) fields {
	var minority any // of who is only waited for
	if lease.TokenDigest == "" && len(lease.Resources) == 1 {
		minority = minorityText(redlock.Minority(srv.opts.Engine, lease.Resources[0]), u.SeesMasters())
	}
	return fields{
		"resources", bulks(lease.Resources),
		"token-digest", orNull(lease.TokenDigest),
		"validity-ms", floorMs(lease.Validity),
		"bound", lease.Bound,
		"lost", lease.Lost,
		"mode", modeOf(lease.TokenDigest != "", lease.Shared),
		"holder", holderFields(lease),
		"waiters", lease.Waiters,
		"queue", queueFields(lease.Queue),
		"delay-ms", floorMs(lease.DelayLeft()),
		"minority", minority,
	}
}

// parseLocks reads [ALL] [BY reason] [PATTERN glob] [COUNT n].
func parseLocks(c *call) (o locksOptions, refusal error) {
	o.limit = locksDefault
	refusal = parseOptions(c.cmd.name, c.cmd.arguments, c.args[1:], func(option string, value []byte) error {
		switch option {
		case "ALL":
			o.all = true
		case "BY":
			var known bool
			if o.by, known = redlock.ReasonOf(string(value)); !known || len(value) == 0 {
				return replyError("ERR BY '" + clipped(value, 32) + "' is no order of LOCKS; HELD, WAITED, WAITERS and LOST are")
			}
		case "PATTERN":
			if o.pattern = string(value); o.pattern == "" {
				return replyError("ERR the pattern is empty: leave it out to list all")
			}
			return patternRefusal(value)
		case "COUNT":
			n, ok := resp.ParseInt(value)
			if o.limit = int(n); !ok || n < 1 || n > locksMax {
				return errorf("ERR COUNT '%s' is not an integer from 1 to %d", clipped(value, 32), locksMax)
			}
		}
		return nil
	})
	if refusal == nil && o.all && o.limit > fleet.CountMax {
		refusal = errorf("ERR COUNT %d is above the most with ALL, %d leases of each redlockd", o.limit, fleet.CountMax)
	}
	return o, refusal
}
