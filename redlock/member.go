package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/quorum"
)

// Membership is what a client knows of the membership record: who the masters are, and what holds for them.
type Membership struct {
	// Known: this client has seen a record in force. Without it, nobody votes.
	Known bool
	// Settled: since it has seen that, a quorum of the masters has shown nothing newer, and no change that was begun and is not finished.
	Settled bool
	// Lineage names the founding, Version counts the steps since.
	Lineage string
	Version int64
	// MaxTTL is the longest TTL in force; Wait is how long a master has no vote that may have forgotten locks, where too few others can tell it what it held.
	MaxTTL, Wait time.Duration
	// Lowering: Wait is longer than MaxTTL needs, because longer locks may still live. It is lowered after WaitLeft.
	Lowering bool
	WaitLeft time.Duration
	// Needed is how many votes a lock needs.
	Needed int
	Seats  []Seat
	// Problem is why the membership is not as it should be, and what to do; "": nothing is known against it.
	Problem string
	// Differences are what the options say otherwise; "": nothing.
	Differences string
}

// Voters is how many masters have a vote.
func (m Membership) Voters() (n int) {
	for _, s := range m.Seats {
		if s.State == SeatVoter {
			n++
		}
	}
	return n
}

// Unreached is how many of the voters cannot be reached.
func (m Membership) Unreached() (n int) {
	for _, s := range m.Seats {
		if s.State == SeatVoter && !s.Reached {
			n++
		}
	}
	return n
}

// SeatState says whether a seat has a vote.
type SeatState string

// The states of a seat.
const (
	SeatVoter   SeatState = "voter"
	SeatLearner SeatState = "learner" // gets every command, and votes when it was given what the others remember, or after the wait
	SeatVacant  SeatState = "vacant"  // no master has been found at the address
	SeatLeaving SeatState = "leaving" // is removed after the wait
)

// Seat is a place among the masters.
type Seat struct {
	Name, Addr string
	State      SeatState
	// Memory names what the master remembers since it last forgot; "": there is no master.
	Memory string
	// Since is the version of the membership at which the memory was listed or lost its vote.
	Since int64
	// Left is how much of the wait is left before the seat votes or is removed; 0: it is not waiting, or about to.
	Left time.Duration
	// Copying is how a learner is given what it has to know, so that it votes before its wait is over; nil: it is not, and nothing says why.
	Copying *Copying
	// Reached tells whether a master answers at the address, whether it votes or not.
	Reached bool
	// Reason is why this client does not count the master's votes; "": it does.
	Reason string
}

// membership is what is known here of the membership, and the places of its seats.
func (m *coordinator) membership() (all Membership, places []int) {
	m.mu.Lock()
	r, settled, problem := m.record, m.settled, m.problem
	if !m.problemEnds.IsZero() {
		problem += fmt.Sprintf(", in %v", max(0, time.Until(m.problemEnds)).Round(time.Millisecond))
	}
	m.mu.Unlock()
	if r == nil {
		return Membership{MaxTTL: m.opts.MaxTTL, Problem: problem}, nil
	}
	all = r.membership(m.opts)
	all.Settled, all.Problem, all.WaitLeft = settled, problem, m.leftOf(r, r.ttlStampField())
	for i := range r.seats {
		s, shown := &r.seats[i], &all.Seats[i]
		shown.Left = m.leftOf(r, r.stampField(s))
		if s.state == seatLearner {
			shown.Copying = m.copyingOf(s.number)
		}
		places = append(places, s.number)
	}
	return all, places
}

// membership is the record for people.
func (r *record) membership(o memberOptions) Membership {
	all := Membership{Known: true, Lineage: fmt.Sprintf("%d-%s", r.generation, r.lineage), Version: r.version, MaxTTL: r.maxTTL, Wait: r.wait,
		Lowering: r.wait > r.needed(o.Drift), Needed: r.quorum(), Differences: fileDiffers(r, o)}
	for i := range r.seats {
		s := &r.seats[i]
		all.Seats = append(all.Seats, Seat{Name: s.name, Addr: o.masterAt(s.name, s.addr).FullAddr(), State: SeatState(s.state.String()), Memory: s.memory, Since: s.since})
	}
	return all
}

// MemberChange is what an operator asks for. Exactly one of the four is set.
type MemberChange struct {
	// Replace has the seat of this name take the master at Addr, in the place of the one that it has.
	Replace string
	// Add adds a seat of this name for the master at Addr.
	Add string
	// Addr belongs to Replace and Add: host:port, or the path of a unix socket; with /number at the end for a database. Where the password
	// is the master's own, Master.NewAddr must have it, too.
	Addr string
	// Remove has the seat of this name lose its vote, and removes it after the wait.
	Remove string
	// SetMaxTTL is the new max_ttl.
	SetMaxTTL time.Duration
}

// ErrMembersChanged is returned where another change of the membership was chosen while this one was being made.
var ErrMembersChanged = errors.New("somebody else has changed the membership meanwhile; look at it with redlockd members, and repeat the change if it is still wanted")

// errMembersClosed: the client was closed.
var errMembersClosed = errors.New("the client is closed")

// change has the masters choose a record with the change (Client.ChangeMembers).
func (m *coordinator) change(ctx context.Context, change MemberChange, dryRun bool) (what string, err error) {
	request := &memberRequest{opts: m.opts, caller: ctx, change: change, dryRun: dryRun, done: make(chan memberReply, 1)}
	select {
	case m.requests <- request:
	case <-ctx.Done():
		return "", ctx.Err()
	case <-m.ending.Done():
		return "", errMembersClosed
	}
	select {
	case reply := <-request.done:
		return reply.what, reply.err
	case <-ctx.Done():
		membership, _ := m.membership()
		return "", fmt.Errorf("%w: %s", ctx.Err(), cmp.Or(membership.Problem, "the masters do not answer in time"))
	case <-m.ending.Done():
		return "", errMembersClosed
	}
}

// memberRequest is a change that the coordinator is asked for.
type memberRequest struct {
	opts   memberOptions
	caller context.Context // a change that its caller has given up is not made
	change MemberChange
	dryRun bool
	// from is the record on which the change was first decided; nil: it was not yet.
	from *record
	what string
	done chan memberReply
}

type memberReply struct {
	what string
	err  error
}

func (q *memberRequest) reply(what string, err error) { q.done <- memberReply{what, err} }

// chosen reports success.
func (q *memberRequest) chosen(*record) { q.reply(q.what, nil) }

// refuseRequest reports failure of the request that waits, if there is one.
func (m *coordinator) refuseRequest(err error) {
	if m.request != nil {
		m.request.reply("", err)
		m.request = nil
	}
}

// decide makes the next record that the operator asks for. done: there is nothing more to do, and the request is answered.
func (q *memberRequest) decide(ctx context.Context, n *situation) (d decision, done bool) {
	d, err := q.apply(ctx, n)
	if err == nil && d.child != nil {
		err = checkChild(n.record, d.child.seal())
	}
	if err == nil && d.child != nil {
		if q.from != nil && q.from.digest != n.record.digest && n.record.version > q.from.version {
			// Steps that come by themselves change nothing that the operator has looked at; another operator's may.
			err = q.disturbed(n.record)
		}
		if q.from == nil {
			q.from = n.record
		}
	}
	switch {
	case err != nil:
		q.reply("", err)
	case d.child == nil:
		q.reply("", nil)
	case q.dryRun:
		q.reply(q.what, nil)
	default:
		return d, false
	}
	return decision{}, true
}

// disturbed returns ErrMembersChanged, and what is otherwise, if an operator has changed the record since this request was first decided.
func (q *memberRequest) disturbed(now *record) error {
	var changes []string
	change := func(format string, args ...any) { changes = append(changes, fmt.Sprintf(format, args...)) }
	if q.from.maxTTL != now.maxTTL {
		change("max_ttl is %s now", clock.Text(now.maxTTL))
	}
	for i := range now.seats {
		s := &now.seats[i]
		switch before := q.from.seatNamed(s.name); {
		case before == nil:
			change("%s is added", conn.Sanitize(s.name))
		case s.addr != before.addr:
			change("%s is at %s now", conn.Sanitize(s.name), conn.Sanitize(s.addr))
		case s.state == seatLeaving && before.state != seatLeaving: //mutant:a-removal-by-another-is-not-told
			change("%s is leaving", conn.Sanitize(s.name))
		}
	}
	for i := range q.from.seats {
		if s := &q.from.seats[i]; s.state != seatLeaving && now.seatNamed(s.name) == nil {
			change("%s is removed", conn.Sanitize(s.name))
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", strings.Join(changes, ", "), ErrMembersChanged)
}

// apply makes the record with the change; its child is nil if everything is so already.
func (q *memberRequest) apply(ctx context.Context, n *situation) (d decision, err error) {
	r, m := n.record, q.change
	d.child = r.child()
	switch {
	case m.SetMaxTTL != 0:
		err = q.setMaxTTL(r, d.child)
	case m.Remove != "":
		err = q.remove(n, d.child)
	default:
		err = q.seat(ctx, n, d.child)
	}
	if err != nil {
		return decision{}, err
	}
	if q.what == "" {
		return decision{}, nil
	}
	d.changes = []string{q.what}
	return d, nil
}

func (q *memberRequest) setMaxTTL(r, child *record) error {
	ttl := q.change.SetMaxTTL
	if ttl == r.maxTTL {
		q.what = ""
		return nil
	}
	child.maxTTL = ttl
	if ttl > r.maxTTL {
		child.wait = max(r.wait, child.needed(q.opts.Drift))
		q.what = fmt.Sprintf("max_ttl rises from %s to %s", clock.Text(r.maxTTL), clock.Text(ttl))
		return nil
	}
	child.ttlSince = child.version
	q.what = fmt.Sprintf("max_ttl falls from %s to %s, and the wait follows in %v", clock.Text(r.maxTTL), clock.Text(ttl), r.wait)
	return nil
}

func (q *memberRequest) remove(n *situation, child *record) error {
	r := n.record
	s := child.seatNamed(q.change.Remove)
	switch {
	case s == nil:
		return fmt.Errorf("there is no seat %s: the seats are %s; if it has been removed, nothing is left to do", conn.Sanitize(q.change.Remove), seatNames(r))
	case s.state == seatLeaving:
		q.what = ""
		return nil
	case len(r.seats) == 1:
		return fmt.Errorf("%s is the only seat", conn.Sanitize(s.name))
	}
	s.memory, s.state, s.since = "", seatLeaving, child.version
	q.what = fmt.Sprintf("%s (%s) loses its vote, and is removed in %v", conn.Sanitize(s.name), conn.Sanitize(s.addr), r.wait)
	return n.keepsQuorum(child, s)
}

// votes tells whether the master of a seat votes now, as the survey has found it.
func (n *situation) votes(s *seat) bool {
	f := n.survey.at(s.number)
	return s.state == seatVoter && //mutant:a-learner-is-counted-on
		(f != nil && f.shows(n.record) && f.state.child == "")
}

// keepsQuorum refuses a child under which fewer masters would vote at once than it needs. Voters that are not reached are no help: with them
// counted, the removal of a living master could leave no quorum to grant a lock, or to choose another record. s is the seat that is changed.
func (n *situation) keepsQuorum(child *record, s *seat) error {
	r := n.record
	now, after, others := 0, 0, ""
	for i := range r.seats {
		one := &r.seats[i]
		switch f := n.survey.at(one.number); {
		case n.votes(one): //mutant:a-dead-voter-is-counted-on
			now++
			if child.seat(one.number).state == seatVoter { //mutant:the-vote-that-is-given-up-is-counted-on
				after++
			}
		case one.number == s.number:
		case one.state == seatLeaving:
			others += ", " + conn.Sanitize(one.name) + " is leaving"
		case f == nil || f.err != nil && !conn.IsRefused(f.err):
			others += ", " + conn.Sanitize(one.name) + " is not reached"
		case f.err != nil:
			others += fmt.Sprintf(", %s is %v", conn.Sanitize(one.name), f.err)
		default:
			others += ", " + conn.Sanitize(one.name) + " waits for its vote"
		}
	}
	needed := child.quorum() //mutant:a-new-seat-does-not-count
	if after >= needed {
		return nil
	}
	with := ""
	switch before := r.seat(s.number); {
	case before == nil:
		with = "with " + conn.Sanitize(s.name) + ", which does not vote at once, "
	case n.votes(before):
		with = "without " + conn.Sanitize(s.name) + ", "
	}
	todo := "add a seat first"
	switch {
	case others != "":
		todo = "bring back a master that does not vote, wait for its vote, or replace it first"
	case len(r.seats) == 1:
		todo = "one master cannot be replaced, and gets no second one, while locks are granted; stop every redlockd, name empty masters in the configuration, and start"
	}
	return fmt.Errorf("%d of %d masters vote now%s; %s%d would vote and %d are needed: %s", now, len(r.seats), others, with, after, needed, todo)
}

// seat seats the master at an address: at a new seat, or in the place of another one.
func (q *memberRequest) seat(ctx context.Context, n *situation, child *record) error {
	r, m, o := n.record, q.change, q.opts
	at := o.masterAt(m.Replace+m.Add, m.Addr)
	var s *seat
	switch {
	case m.Replace != "":
		if s = child.seatNamed(m.Replace); s == nil {
			return fmt.Errorf("there is no seat %s: the seats are %s", conn.Sanitize(m.Replace), seatNames(r))
		}
		if s.state == seatLeaving {
			return fmt.Errorf("%s is leaving: add a seat of another name", conn.Sanitize(s.name))
		}
		if isNameOf(m.Addr, s) && !isNameOf(s.addr, s) { //mutant:a-name-means-two-machines
			// In the membership that stands for the address that the settings of each redlockd name (Master.seatAddr), and those may follow the
			// address that the seat has now.
			return fmt.Errorf("%s cannot go back to the address that it is called after, for settings may call another one so by now: "+
				"add a seat of another name at %s, and remove this one", conn.Sanitize(s.name), m.Addr)
		}
	case r.seatNamed(m.Add) != nil && r.seatNamed(m.Add).addr == m.Addr && r.seatNamed(m.Add).state != seatLeaving:
		q.what = ""
		return nil
	case r.seatNamed(m.Add) != nil:
		return fmt.Errorf("there is a seat %s already, at %s: replace it, or add one of another name", conn.Sanitize(m.Add), conn.Sanitize(r.seatNamed(m.Add).addr))
	default:
		number := 0
		for child.seat(number) != nil {
			number++
		}
		if number == quorum.MaxMasters {
			return fmt.Errorf("there are %d seats, at most %d are possible: remove one first", len(r.seats), quorum.MaxMasters)
		}
		child.seats = append(child.seats, seat{number: number, name: m.Add, state: seatVacant})
		slices.SortFunc(child.seats, func(a, b seat) int { return a.number - b.number })
		s = child.seatNamed(m.Add)
		child.roster++
	}
	for i := range r.seats {
		if other := &r.seats[i]; other.name != s.name && o.masterAt(other.name, other.addr).Addr == at.Addr {
			return fmt.Errorf("%s is the address of %s: each vote must come from a master of its own", m.Addr, conn.Sanitize(other.name))
		}
	}
	o.readOnly = q.dryRun //mutant:a-dry-run-names-the-memory
	found := surveyMasters(ctx, map[int]conn.Master{s.number: at}, patience{enough: 1}, o)
	defer found.close()
	f := found.found[0]
	same := m.Replace != "" && s.memory == f.state.memory && f.ok()
	switch {
	case f.err != nil && conn.IsRefused(f.err):
		return fmt.Errorf("the master at %s cannot be seated: %w; mend that, or name another master", m.Addr, f.err)
	case f.err != nil:
		return fmt.Errorf("the master at %s cannot be seated: %w; see that a Redis runs there and can be reached from here, or name another address", m.Addr, f.err)
	case f.ofAnotherFleet(r) != "":
		return fmt.Errorf("the master at %s cannot be seated: %s: name another master, or, if that fleet is gone, run FLUSHALL on this one", m.Addr, f.ofAnotherFleet(r))
	case !f.state.fresh && f.state.record.sameLineage(r.recordID()) && f.state.record.version > r.version:
		// It cannot learn what the others have chosen, so it would never vote.
		return fmt.Errorf("the master at %s cannot be seated: it shows version %d of the membership, and the masters have version %d: run FLUSHALL on it",
			m.Addr, f.state.record.version, r.version)
	case same && o.masterAt(s.name, s.addr).FullAddr() == at.FullAddr():
		q.what = ""
		return nil
	case f.keys > 0 && !same:
		return fmt.Errorf("the master at %s holds %d keys: give it to nobody else, and run FLUSHALL on it", m.Addr, f.keys)
	}
	for _, other := range n.survey.found {
		if other.runID == f.runID && other.place != s.number {
			return fmt.Errorf("the master at %s is the same Redis as %s: each vote must come from a master of its own", m.Addr, other.master.Addr)
		}
	}
	s.addr = m.Addr
	if same {
		q.what = fmt.Sprintf("%s has the address %s", conn.Sanitize(s.name), m.Addr)
		return nil
	}
	s.memory, s.state, s.since = f.state.memory, seatLearner, child.version
	if err := n.keepsQuorum(child, s); err != nil {
		return err
	}
	if !q.dryRun { //mutant:a-dry-run-leaves-a-key
		if err := f.tryWriting(ctx); err != nil {
			return fmt.Errorf("the master at %s cannot be seated: it refuses SET: %w; mend that, or name another master", m.Addr, conn.Shorten(err))
		}
	}
	fewer := ""
	if before := r.seat(s.number); before == nil && child.quorum() > r.quorum() || before != nil && n.votes(before) {
		fewer = "; until it votes, one master fewer may fail"
	}
	if m.Add != "" {
		q.what = fmt.Sprintf("%s (%s) is added, and votes when it was given what the others remember, or in %v%s", conn.Sanitize(s.name), m.Addr, r.wait, fewer)
	} else {
		q.what = fmt.Sprintf("%s is the master at %s, which votes when it was given what the others remember, or in %v%s", conn.Sanitize(s.name), m.Addr, r.wait, fewer)
	}
	return nil
}

// ofAnotherFleet says which other fleet than that of r the master belongs to, also if that is idle; "": to none.
func (f *found) ofAnotherFleet(r *record) string {
	switch {
	case f.record != nil && !f.record.recordID().sameFleet(r.recordID()) && f.state.fresh: //mutant:a-master-that-belonged-to-another-fleet-is-seated
		return "before it restarted it belonged to another fleet, whose masters are " + seatNames(f.record)
	case f.foreign(r) && f.record == nil:
		return belongsElsewhere
	case f.foreign(r): //mutant:a-master-of-another-fleet-is-seated
		return belongsElsewhere + ", whose masters are " + seatNames(f.record)
	}
	return ""
}

// tryWriting tries whether the master takes a key. A survey only reads, and a master whose memory is full would be a member that grants
// nothing. The key goes with it, because a master that holds one cannot be seated.
func (f *found) tryWriting(ctx context.Context) error {
	key := lua.ReservedPrefix + "probe:" + nonce()
	pipe := f.conn.Redis.Pipeline()
	set := pipe.Set(ctx, key, "0", probeKeyTTL)
	pipe.Unlink(ctx, key) //mutant:the-probe-of-a-new-master-stays
	pipe.Exec(ctx)
	return set.Err()
}

func seatNames(r *record) string {
	text := ""
	for i := range r.seats {
		if i > 0 {
			text += ", "
		}
		text += conn.Sanitize(r.seats[i].name)
	}
	return text
}
