package proxy

import (
	"slices"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// LOCKINFO asks the masters about one resource. LOCKS asks nobody: it lists what this server knows of
// its own grants, so it shows neither locks that were taken through another redlockd nor what the
// masters hold now.
//
// Neither shows a token, because a token is the right to release the lock. Both show a digest of it: a
// client that has a token can compare.

const (
	// locksDefault is how many leases LOCKS lists without COUNT.
	locksDefault = 100
	// locksMax bounds COUNT.
	locksMax = 10_000
	// locksBytesMax bounds the bytes of the reply: one lease can have 64 names of 1 KB.
	locksBytesMax = 4 << 20
)

// locksTime bounds how long one LOCKS looks for leases, the wait for others included. Comparing one
// name with one pattern takes 1 ms at worst, and there may be 100 000 leases.
const locksTime = time.Second

// infoCall is a LOCKINFO in progress. It does not block the client: the answer is true for one moment anyway.
type infoCall struct {
	slot
	op redlock.Op
}

// cmdLOCKINFO is LOCKINFO resource. It asks all masters and answers also without a quorum, because who
// is silent is a part of the answer.
func cmdLOCKINFO(s *session, c *call) {
	i := new(infoCall)
	c.takeSlot(&i.slot)
	i.startInspect(&i.op, string(c.args[1]), i)
}

// Done implements redlock.Completer. held is null if too few masters answered to know; fence is null if
// there is none.
func (i *infoCall) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	if result.Err != nil {
		return i.fail(result.Err)
	}
	info := result.Info
	votes := make(array, len(info.Votes))
	for n, vote := range info.Votes {
		votes[n] = voteFields(vote, i.account.user.confined())
	}
	var held, fence any // nil is null in the reply
	if !info.Unknown {
		held = info.Held
	}
	if info.Fence > 0 {
		fence = info.Fence
	}
	i.out = appendValue(i.out, i.proto, fields{
		"resource", info.Resource,
		"held", held,
		"validity-ms", floorMs(info.Validity),
		"token-digest", orNull(info.TokenDigest),
		"votes", votes,
		"waiters", info.Waiters,
		"fence", fence,
	})
	return i.complete()
}

// voteFields are what one master says: a digest if it has a key, its TTL (-1: none), and why it says
// nothing. A confined user gets neither the name of the master nor the reason, but its state.
func voteFields(vote redlock.ResourceVote, confined bool) fields {
	var master, ttl, reason any
	switch {
	case vote.TokenDigest == "":
	case vote.TTL < 0:
		ttl = -1
	default:
		ttl = floorMs(vote.TTL)
	}
	if !confined {
		master = vote.Addr
	}
	switch {
	case vote.Err == nil:
	case !confined:
		reason = vote.Err.Error()
	case vote.State == redlock.MasterUp:
		reason = "late or failing"
	default:
		reason = string(vote.State)
	}
	return fields{"master", master, "token-digest", orNull(vote.TokenDigest), "ttl-ms", ttl, "error", reason}
}

// listing is a LOCKS in progress. It runs on a goroutine of its own, so that the reader notices when
// the client leaves.
type listing struct {
	slot
	// user is the one who asks: only resources that it may use are listed.
	user *User
	// pattern is a glob that one name of a lease must match; "": any does.
	pattern string
	// limit is how many leases are listed at most.
	limit int
	// deadline is when the search gives up, see locksTime.
	deadline time.Time
}

// cmdLOCKS is LOCKS [PATTERN glob] [COUNT n]. It blocks the client's commands behind it, so that one
// client has one list made at a time.
func cmdLOCKS(s *session, c *call) {
	pattern, limit, refusal := parseLocks(c.args[1:])
	if refusal != nil {
		c.fail(refusal)
		return
	}
	l := &listing{user: s.user, pattern: pattern, limit: limit, deadline: time.Now().Add(locksTime)}
	c.takeBlockingSlot(&l.slot)
	if !s.server.begin(l.run) {
		flush(l.fail(errGone))
	}
}

// run makes the list. One LOCKS runs at a time, so all of them together compute on one processor at
// most; the others wait until their deadline.
func (l *listing) run() {
	srv := l.s.server
	timeout := time.NewTimer(time.Until(l.deadline))
	defer timeout.Stop()
	select {
	case srv.listing <- struct{}{}:
		defer func() { <-srv.listing }()
	case <-timeout.C:
		flush(l.fail(errorf("ERR LOCKS waited %v for other LOCKS: try again", locksTime)))
		return
	case <-srv.done:
		flush(l.fail(errGone))
		return
	}
	leases, refusal := l.leases()
	if refusal == nil {
		l.appendLeases(leases)
		if len(l.out) > locksBytesMax {
			l.out, refusal = nil, errorf("ERR the list has more than %d bytes: list fewer leases with COUNT, or others with PATTERN", locksBytesMax)
		}
	}
	if refusal != nil {
		flush(l.fail(refusal))
		return
	}
	flush(l.complete())
}

// leases finds what to list. It ends early, with an error, at the deadline, and without one when the
// client has left: then nobody reads the reply. A lease of several names is listed only if the user may
// use all of them.
//
// The engine calls match without its mutex, one piece of the leases after the other, so locks are
// granted meanwhile.
func (l *listing) leases() (leases []redlock.LeaseInfo, refusal error) {
	// After the deadline match answers at once, so that the engine comes to its end: it knows no other
	// way to stop.
	compared, late := 0, false
	match := func(resources []string) bool {
		if late || l.s.conn.closed.Load() {
			return false
		}
		for _, resource := range resources {
			// A name and a pattern of 1 KB may take 1 ms, so the clock is read now and then within a
			// list of names too.
			if compared++; compared%16 == 0 && time.Now().After(l.deadline) {
				late = true
				return false
			}
			if !l.user.may(resource) {
				return false
			}
		}
		return l.pattern == "" || slices.ContainsFunc(resources, func(resource string) bool { return globMatch(l.pattern, resource) })
	}
	leases = l.s.server.opts.Engine.Leases(match, l.limit)
	if late {
		return nil, errorf("ERR LOCKS took longer than %v: there are too many leases for this pattern", locksTime)
	}
	return leases, nil
}

// appendLeases appends the reply. It stops beyond locksBytesMax: the caller then answers with an error
// in its place.
func (l *listing) appendLeases(leases []redlock.LeaseInfo) {
	l.out = resp.AppendArray(l.out, len(leases))
	for i := 0; i < len(leases) && len(l.out) <= locksBytesMax; i++ {
		lease := &leases[i]
		resources := make(array, len(lease.Resources))
		for n, resource := range lease.Resources {
			resources[n] = resource
		}
		l.out = appendValue(l.out, l.proto, fields{
			"resources", resources,
			"token-digest", orNull(lease.TokenDigest),
			"validity-ms", floorMs(lease.Validity),
			"lost", lease.Lost,
			"waiters", lease.Waiters,
		})
	}
}

// parseLocks reads [PATTERN glob] [COUNT n], in any order, each once. Without PATTERN, pattern is "",
// which a client cannot give.
func parseLocks(args [][]byte) (pattern string, limit int, refusal error) {
	for ; len(args) > 0; args = args[2:] {
		option := args[0]
		isPattern := equalFold(option, "PATTERN")
		switch {
		case !isPattern && !equalFold(option, "COUNT"):
			return "", 0, replyError("ERR syntax error: '" + clipped(option, 128) + "' is no option of LOCKS; PATTERN glob and COUNT n are")
		case isPattern && pattern != "" || !isPattern && limit != 0:
			return "", 0, optionTwice(option)
		case len(args) == 1:
			return "", 0, optionBare(option)
		case isPattern && len(args[1]) == 0:
			return "", 0, replyError("ERR the pattern is empty: leave it out to list all")
		case isPattern:
			if refusal = patternRefusal(args[1]); refusal != nil {
				return "", 0, refusal
			}
			pattern = string(args[1])
		default:
			n, ok := resp.ParseInt(args[1])
			if !ok || n < 1 || n > locksMax {
				return "", 0, errorf("ERR COUNT '%s' is not an integer from 1 to %d", clipped(args[1], 32), locksMax)
			}
			limit = int(n)
		}
	}
	if limit == 0 {
		limit = locksDefault
	}
	return pattern, limit, nil
}
