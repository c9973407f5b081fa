package proxy

import (
	"cmp"
	"slices"
	"time"

	"redlockd/proxy/access"
	"redlockd/proxy/fleet"
	"redlockd/proxy/status"
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// LOCKS ALL, and the list of the status page: the leases of every redlockd over the same masters, asked
// by messages (package fleet). A confined user gets no more of them than of those of this server: what
// others send is filtered here.

// askEvery is the least time between two questions of one redlockd, however often its clients send
// LOCKS ALL, and however many pages are open.
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

// fleetList is what the redlockds over the same masters have granted, as a user may see it.
type fleetList struct {
	leases   []status.Lease // by name, who holds a resource before who waits for it; or in the order that was asked for
	answered []fleetMember  // this server is the first
	missing  []fleet.Member
}

// fleetMember is a redlockd that has answered.
type fleetMember struct {
	name   string
	leases int  // that are listed
	total  int  // that it has
	cut    bool // it has more than fit into its answer
}

// listFleet asks all redlockds. One question is under way at a time, and the next one begins askEvery
// later at the earliest. Users take turns: of each one waits for that, in the order in which they came,
// and the user's others wait for this one. It returns after two seconds at most.
func (srv *Server) listFleet(a *account, user *access.User, q leaseSearch) (list fleetList, refusal error) {
	timeout := time.NewTimer(locksTime)
	defer timeout.Stop()
	var pause time.Duration // after which the next one may ask
	for _, turn := range []chan struct{}{a.asking, srv.asking} {
		select {
		case turn <- struct{}{}:
			defer func() { time.AfterFunc(pause, func() { <-turn }) }()
		case <-timeout.C:
			return list, errorf("ERR LOCKS ALL waited %v for other LOCKS ALL: try again", locksTime)
		case <-srv.done:
			return list, errGone
		}
	}
	began := time.Now()
	defer func() { pause = askEvery - time.Since(began) }()
	q.deadline = began.Add(locksTime)
	filter := q // what others have sent is compared here, too: they need not be right
	own := make(chan error, 1)
	if !srv.begin(func() {
		leases, refusal := srv.findLeases(&q)
		for _, lease := range leases {
			list.leases = append(list.leases, status.Lease{Redlockd: srv.fleet.Name(), LeaseInfo: lease})
		}
		own <- refusal
	}) {
		return list, errGone
	}
	ask := fleet.Question{By: q.by.String(), Pattern: []byte(q.pattern), Count: min(q.limit, fleet.CountMax)}
	if user.Confined() {
		for _, pattern := range user.Resources {
			ask.May = append(ask.May, []byte(pattern))
		}
	}
	answers, missing, full := srv.fleet.Inquire(ask)
	if refusal = <-own; refusal != nil {
		return list, refusal
	}
	if full {
		return list, errorf("ERR the answers of the fleet have more than %d bytes: list fewer leases with COUNT, or others with PATTERN", fleet.AnswersMax)
	}
	filter.deadline = time.Now().Add(locksTime)
	list.missing = missing
	list.answered = []fleetMember{{srv.fleet.Name(), len(list.leases), q.matched, false}}
	for i := range answers {
		n := 0
		theirs := answers[i].Leases
		// One that does not know BY has sent others, too.
		for _, at := range redlock.RankLeases(q.by, len(theirs), len(theirs), func(at int) *redlock.LeaseInfo { return &theirs[at] }) {
			if filter.match(theirs[at].Resources) {
				list.leases = append(list.leases, status.Lease{Redlockd: answers[i].Name, LeaseInfo: theirs[at]})
				n++
			}
		}
		list.answered = append(list.answered, fleetMember{answers[i].Name, n, max(n, answers[i].Total), answers[i].Cut})
	}
	if filter.late {
		return list, errorf("ERR LOCKS ALL took longer than %v: there are too many leases for this pattern", locksTime)
	}
	slices.SortStableFunc(list.leases, func(a, b status.Lease) int {
		return cmp.Or(slices.Compare(a.Resources, b.Resources), cmp.Compare(oneIf(a.TokenDigest == ""), oneIf(b.TokenDigest == "")), cmp.Compare(a.Redlockd, b.Redlockd))
	})
	if q.by != redlock.ByAny {
		byName := list.leases
		list.leases = nil
		for _, at := range redlock.RankLeases(q.by, len(byName), len(byName), func(at int) *redlock.LeaseInfo { return &byName[at].LeaseInfo }) {
			list.leases = append(list.leases, byName[at])
		}
	}
	for i := range list.leases {
		list.leases[i].LeaseInfo = shownTo(user, list.leases[i].LeaseInfo)
	}
	return list, nil
}

// runAll makes the list of the fleet.
func (l *listing) runAll() {
	list, refusal := l.s.server.listFleet(l.account, l.user, *l.search())
	if refusal != nil {
		l.finish(refusal)
		return
	}
	answered, out := array{}, array{}
	for _, m := range list.answered {
		answered = append(answered, l.memberFields(m.name, "leases", m.leases, "cut", m.cut, "total", m.total))
	}
	for _, m := range list.missing {
		out = append(out, l.memberFields(m.Name, "silent-ms", floorMs(time.Since(m.Heard))))
	}
	l.out = resp.AppendMap(l.out, l.proto, 3)
	l.out = appendValue(l.out, l.proto, "locks")
	l.appendLeases(len(list.leases), func(i int) fields {
		return append(l.s.server.leaseFields(l.user, list.leases[i].LeaseInfo), "redlockd", l.memberName(list.leases[i].Redlockd))
	})
	l.out = appendValue(l.out, l.proto, "answered")
	l.out = appendValue(l.out, l.proto, answered)
	l.out = appendValue(l.out, l.proto, "missing")
	l.out = appendValue(l.out, l.proto, out)
	l.finish(nil)
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
