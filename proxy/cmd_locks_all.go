package proxy

import (
	"cmp"
	"slices"
	"time"

	"redlockd/proxy/access"
	"redlockd/proxy/fleet"
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// LOCKS ALL: the leases of every redlockd over the same masters, asked by messages (package fleet). A
// confined user gets no more of them than of those of this server: what others send is filtered here.

// askEvery is the least time between two questions of one redlockd, however often its clients send
// LOCKS ALL.
const askEvery = 250 * time.Millisecond

// askable returns an error if the user's patterns are too long for a question to the fleet.
func askable(u *access.User) error {
	if !u.Confined() {
		return nil
	}
	bytes := 0
	for _, pattern := range u.Resources {
		bytes += len(pattern)
	}
	if bytes > fleet.PatternsMax {
		return errorf("ERR LOCKS ALL: the patterns of user %s have %d bytes, at most %d can be sent to other redlockds: ask each of them with LOCKS", u.Name, bytes, fleet.PatternsMax)
	}
	return nil
}

// fleetListed is one lease in the list.
type fleetListed struct {
	redlockd string
	redlock.LeaseInfo
}

// runAll makes the list of the fleet. One LOCKS ALL runs at a time, and the next one begins askEvery
// later at the earliest. Users take turns: of each one waits for that, in the order in which they came,
// and the user's others wait for this one.
func (l *listing) runAll() {
	srv := l.s.server
	timeout := time.NewTimer(time.Until(l.deadline))
	defer timeout.Stop()
	for _, turn := range []chan struct{}{l.account.asking, srv.asking} {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-timeout.C:
			l.finish(errorf("ERR LOCKS ALL waited %v for other LOCKS ALL: try again", locksTime))
			return
		case <-srv.done:
			l.finish(errGone)
			return
		}
	}
	next := time.NewTimer(askEvery)
	l.finish(l.listAll())
	select {
	case <-next.C:
	case <-srv.done:
	}
}

// listAll appends the list.
func (l *listing) listAll() (refusal error) {
	srv := l.s.server
	l.deadline = time.Now().Add(locksTime)
	own := make(chan error, 1)
	var list []fleetListed
	search := l.search()
	srv.goroutines.Go(func() {
		leases, refusal := srv.findLeases(search)
		for _, lease := range leases {
			list = append(list, fleetListed{srv.fleet.Name(), lease})
		}
		own <- refusal
	})
	ask := fleet.Question{Pattern: []byte(l.pattern), Count: l.limit}
	if l.user.Confined() {
		for _, pattern := range l.user.Resources {
			ask.May = append(ask.May, []byte(pattern))
		}
	}
	answers, missing, full := srv.fleet.Inquire(ask)
	if refusal = <-own; refusal != nil {
		return refusal
	}
	if full {
		return errorf("ERR the answers of the fleet have more than %d bytes: list fewer leases with COUNT, or others with PATTERN", fleet.AnswersMax)
	}
	// What others have sent is compared here, too: they need not be right.
	filter := l.search()
	filter.deadline = time.Now().Add(locksTime)
	answered := array{l.memberFields(srv.fleet.Name(), "leases", len(list), "cut", false, "total", search.matched)}
	for i := range answers {
		n := 0
		for _, lease := range answers[i].Leases {
			if filter.match(lease.Resources) {
				list = append(list, fleetListed{answers[i].Name, lease})
				n++
			}
		}
		answered = append(answered, l.memberFields(answers[i].Name, "leases", n, "cut", answers[i].Cut, "total", max(n, answers[i].Total)))
	}
	if filter.late {
		return errorf("ERR LOCKS ALL took longer than %v: there are too many leases for this pattern", locksTime)
	}
	// Who holds a resource before who waits for it.
	slices.SortStableFunc(list, func(a, b fleetListed) int {
		return cmp.Or(slices.Compare(a.Resources, b.Resources), cmp.Compare(oneIf(a.TokenDigest == ""), oneIf(b.TokenDigest == "")), cmp.Compare(a.redlockd, b.redlockd))
	})
	out := array{}
	for _, m := range missing {
		out = append(out, l.memberFields(m.Name, "silent-ms", floorMs(time.Since(m.Heard))))
	}
	l.out = resp.AppendMap(l.out, l.proto, 3)
	l.out = appendValue(l.out, l.proto, "locks")
	l.out = resp.AppendArray(l.out, len(list))
	for i := 0; i < len(list) && len(l.out) <= locksBytesMax; i++ {
		l.out = appendValue(l.out, l.proto, append(leaseFields(shownTo(l.user, list[i].LeaseInfo)), "redlockd", l.memberName(list[i].redlockd)))
	}
	l.out = appendValue(l.out, l.proto, "answered")
	l.out = appendValue(l.out, l.proto, answered)
	l.out = appendValue(l.out, l.proto, "missing")
	l.out = appendValue(l.out, l.proto, out)
	return nil
}

// memberFields describe a redlockd.
func (l *listing) memberFields(name string, more ...any) fields {
	return append(fields{"name", l.memberName(name)}, more...)
}

// memberName is the name of a redlockd, null for a confined user: it learns how many there are, but not
// which, as with masters.
func (l *listing) memberName(name string) any {
	if l.user.Confined() {
		return nil
	}
	return name
}
