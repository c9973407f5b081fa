package coordinator

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
	"redlockd/redlock/member"
	"redlockd/redlock/member/survey"
	"redlockd/redlock/quorum"
)

// Change is what an operator asks for. Exactly one of the four is set.
type Change struct {
	// Replace has the seat of this name take the master at Addr, in the place of the one that it has.
	Replace string
	// Add adds a seat of this name for the master at Addr.
	Add string
	// Addr belongs to Replace and Add: host:port, or the path of a unix socket; with /number at the end
	// for a database. Where the password is the master's own, Master.NewAddr must have it, too.
	Addr string
	// Remove has the seat of this name lose its vote, and removes it after the wait.
	Remove string
	// SetMaxTTL is the new max_ttl.
	SetMaxTTL time.Duration
}

// ErrMembersChanged is returned where another change of the membership was chosen while this one was
// being made.
var ErrMembersChanged = errors.New("somebody else has changed the membership meanwhile; look at it with redlockd members, and repeat the change if it is still wanted")

// ErrMembersClosed: the client was closed.
var ErrMembersClosed = errors.New("the client is closed")

// Change has the masters choose a record with the change (Client.ChangeMembers).
func (m *Coordinator) Change(ctx context.Context, change Change, dryRun bool) (what string, err error) {
	request := &memberRequest{opts: m.opts, caller: ctx, change: change, dryRun: dryRun, done: make(chan memberReply, 1)}
	select {
	case m.requests <- request:
	case <-ctx.Done():
		return "", ctx.Err()
	case <-m.ending.Done():
		return "", ErrMembersClosed
	}
	select {
	case reply := <-request.done:
		return reply.what, reply.err
	case <-ctx.Done():
		membership, _ := m.Membership()
		return "", fmt.Errorf("%w: %s", ctx.Err(), cmp.Or(membership.Problem, "the masters do not answer in time"))
	case <-m.ending.Done():
		return "", ErrMembersClosed
	}
}

// memberRequest is a change that the coordinator is asked for.
type memberRequest struct {
	opts   member.Options
	caller context.Context // a change that its caller has given up is not made
	change Change
	dryRun bool
	// from is the record on which the change was first decided; nil: it was not yet.
	from *member.Record
	what string
	done chan memberReply
}

type memberReply struct {
	what string
	err  error
}

func (q *memberRequest) reply(what string, err error) { q.done <- memberReply{what, err} }

// refuseRequest reports failure of the request that waits, if there is one.
func (m *Coordinator) refuseRequest(err error) {
	if m.request != nil {
		m.request.reply("", err)
		m.request = nil
	}
}

// decide makes the next record that the operator asks for; nil: there is nothing more to do, and the
// request is answered.
func (q *memberRequest) decide(ctx context.Context, n *member.Situation) *member.Decision {
	child := n.Record.Child()
	what, err := q.apply(ctx, n, child)
	if q.what = what; err == nil && what != "" {
		q.from = cmp.Or(q.from, n.Record)
		// Steps that come by themselves change nothing that the operator has looked at; another operator's may.
		err = cmp.Or(q.disturbed(n.Record), member.CheckChild(n.Record, child.Seal()))
	}
	switch {
	case err != nil:
		q.reply("", err)
	case what == "" || q.dryRun:
		q.reply(what, nil)
	default:
		return &member.Decision{Child: child, Changes: []string{what}, Asked: true}
	}
	return nil
}

// disturbed returns ErrMembersChanged, and what is otherwise, if an operator has changed the record
// since this request was first decided.
func (q *memberRequest) disturbed(now *member.Record) error {
	var changes []string
	change := func(format string, args ...any) { changes = append(changes, fmt.Sprintf(format, args...)) }
	if q.from.MaxTTL != now.MaxTTL {
		change("max_ttl is %s now", clock.Text(now.MaxTTL))
	}
	for s := range now.EachSeat() {
		switch before := q.from.SeatNamed(s.Name); {
		case before == nil:
			change("%s is added", conn.Sanitize(s.Name))
		case s.Addr != before.Addr:
			change("%s is at %s now", conn.Sanitize(s.Name), conn.Sanitize(s.Addr))
		case s.State == member.Leaving && before.State != member.Leaving: //mutant:a-removal-by-another-is-not-told
			change("%s is leaving", conn.Sanitize(s.Name))
		}
	}
	for s := range q.from.EachSeat() {
		if s.State != member.Leaving && now.SeatNamed(s.Name) == nil {
			change("%s is removed", conn.Sanitize(s.Name))
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", strings.Join(changes, ", "), ErrMembersChanged)
}

// apply makes the change in the next record, and says what it is; "": everything is so already.
func (q *memberRequest) apply(ctx context.Context, n *member.Situation, child *member.Record) (what string, err error) {
	switch {
	case q.change.SetMaxTTL != 0:
		return q.setMaxTTL(n, child)
	case q.change.Remove != "":
		return q.remove(n, child)
	}
	return q.seat(ctx, n, child)
}

func (q *memberRequest) setMaxTTL(n *member.Situation, child *member.Record) (what string, err error) {
	ttl, r := q.change.SetMaxTTL, n.Record
	child.MaxTTL = ttl
	switch {
	case ttl == r.MaxTTL:
		return "", nil
	case ttl > r.MaxTTL && n.OlderClient:
		return "", errors.New("a redlockd runs that is too old to read such a membership: upgrade all, and repeat the change")
	case ttl > r.MaxTTL:
		return fmt.Sprintf("max_ttl rises from %s to %s", clock.Text(r.MaxTTL), clock.Text(ttl)), nil
	case ttl >= r.Ceiling:
		return fmt.Sprintf("max_ttl falls from %s to %s", clock.Text(r.MaxTTL), clock.Text(ttl)), nil
	}
	child.Ceiling, child.TTLSince = ttl, child.Version
	return fmt.Sprintf("max_ttl falls from %s to %s, and the wait follows in %v", clock.Text(r.MaxTTL), clock.Text(ttl), r.Wait), nil
}

func (q *memberRequest) remove(n *member.Situation, child *member.Record) (what string, err error) {
	r := n.Record
	s := child.SeatNamed(q.change.Remove)
	switch {
	case s == nil:
		return "", fmt.Errorf("there is no seat %s: the seats are %s; if it has been removed, nothing is left to do", conn.Sanitize(q.change.Remove), member.SeatNames(r))
	case s.State == member.Leaving:
		return "", nil
	case len(r.Seats) == 1:
		return "", fmt.Errorf("%s is the only seat", conn.Sanitize(s.Name))
	}
	s.Memory, s.State, s.Since = "", member.Leaving, child.Version
	return fmt.Sprintf("%s (%s) loses its vote, and is removed in %v", conn.Sanitize(s.Name), conn.Sanitize(s.Addr), r.Wait), n.KeepsQuorum(child, s)
}

// seat seats the master at an address: at a new seat, or in the place of another one.
func (q *memberRequest) seat(ctx context.Context, n *member.Situation, child *member.Record) (what string, err error) {
	r, m, o := n.Record, q.change, q.opts
	at := o.MasterAt(m.Replace+m.Add, m.Addr)
	var s *member.Seat
	switch {
	case m.Replace != "":
		if s = child.SeatNamed(m.Replace); s == nil {
			return "", fmt.Errorf("there is no seat %s: the seats are %s", conn.Sanitize(m.Replace), member.SeatNames(r))
		}
		if s.State == member.Leaving {
			return "", fmt.Errorf("%s is leaving: add a seat of another name", conn.Sanitize(s.Name))
		}
		if member.IsNameOf(m.Addr, s) && !member.IsNameOf(s.Addr, s) { //mutant:a-name-means-two-machines
			// In the membership that stands for the address that the settings of each redlockd name
			// (Master.seatAddr), and those may follow the address that the seat has now.
			return "", fmt.Errorf("%s cannot go back to the address that it is called after, for settings may call another one so by now: "+
				"add a seat of another name at %s, and remove this one", conn.Sanitize(s.Name), m.Addr)
		}
	case r.SeatNamed(m.Add) != nil && r.SeatNamed(m.Add).Addr == m.Addr && r.SeatNamed(m.Add).State != member.Leaving:
		return "", nil
	case r.SeatNamed(m.Add) != nil:
		return "", fmt.Errorf("there is a seat %s already, at %s: replace it, or add one of another name", conn.Sanitize(m.Add), conn.Sanitize(r.SeatNamed(m.Add).Addr))
	default:
		number := 0
		for child.Seat(number) != nil {
			number++
		}
		if number == quorum.MaxMasters {
			return "", fmt.Errorf("there are %d seats, at most %d are possible: remove one first", len(r.Seats), quorum.MaxMasters)
		}
		child.Seats = append(child.Seats, member.Seat{Number: number, Name: m.Add, State: member.Vacant})
		slices.SortFunc(child.Seats, func(a, b member.Seat) int { return a.Number - b.Number })
		s = child.SeatNamed(m.Add)
		child.Roster++
	}
	for other := range r.EachSeat() {
		if other.Name != s.Name && o.MasterAt(other.Name, other.Addr).Addr == at.Addr {
			return "", fmt.Errorf("%s is the address of %s: each vote must come from a master of its own", m.Addr, conn.Sanitize(other.Name))
		}
	}
	o.ReadOnly = q.dryRun //mutant:a-dry-run-names-the-memory
	found := survey.Ask(ctx, map[int]conn.Master{s.Number: at}, survey.Patience{Enough: 1}, o)
	defer found.Close()
	f := found.Reports[0]
	same := s.Memory == f.State.Memory
	switch {
	case conn.IsRefused(f.Err):
		return "", fmt.Errorf("the master at %s cannot be seated: %w; fix that, or name another master", m.Addr, f.Err)
	case f.Err != nil:
		return "", fmt.Errorf("the master at %s cannot be seated: %w; see that a Redis runs there and can be reached from here, or name another address", m.Addr, f.Err)
	case f.OfAnotherFleet(r) != "":
		return "", fmt.Errorf("the master at %s cannot be seated: %s: name another master, or, if that fleet is gone, run FLUSHALL on this one", m.Addr, f.OfAnotherFleet(r))
	case f.State.Record.SameLineage(r.ID()) && f.State.Record.Version > r.Version:
		// It cannot learn what the others have chosen, so it would never vote.
		return "", fmt.Errorf("the master at %s cannot be seated: it shows version %d of the membership, and the masters have version %d: run FLUSHALL on it",
			m.Addr, f.State.Record.Version, r.Version)
	case same && o.MasterAt(s.Name, s.Addr).FullAddr() == at.FullAddr():
		return "", nil
	case f.Keys > 0 && !same:
		return "", fmt.Errorf("the master at %s holds %d keys: give it to nobody else, and run FLUSHALL on it", m.Addr, f.Keys)
	}
	for _, other := range n.Survey.Reports {
		if other.RunID == f.RunID && other.Place != s.Number {
			return "", fmt.Errorf("the master at %s is the same Redis as %s: each vote must come from a master of its own", m.Addr, other.Master.Addr)
		}
	}
	s.Addr = m.Addr
	if same {
		return fmt.Sprintf("%s has the address %s", conn.Sanitize(s.Name), m.Addr), nil
	}
	s.Memory, s.State, s.Since = f.State.Memory, member.Learner, child.Version
	if err := n.KeepsQuorum(child, s); err != nil {
		return "", err
	}
	if !q.dryRun { //mutant:a-dry-run-leaves-a-key
		if err := survey.TryWriting(ctx, f); err != nil {
			return "", fmt.Errorf("the master at %s cannot be seated: %w; fix that, or name another master", m.Addr, conn.AsRefusal(fmt.Errorf("it refuses SET: %w", conn.Shorten(err))))
		}
	}
	fewer := ""
	if before := r.Seat(s.Number); child.Quorum() > r.Quorum() || before != nil && n.Votes(before) {
		fewer = "; until it votes, one master fewer may fail"
	}
	becomes := "is the master at " + m.Addr + ", which votes"
	if m.Add != "" {
		becomes = "(" + m.Addr + ") is added, and votes"
	}
	return fmt.Sprintf("%s %s when it was given what the others remember, or in %v%s", conn.Sanitize(s.Name), becomes, r.Wait, fewer), nil
}
