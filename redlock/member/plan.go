package member

import (
	"fmt"
	"slices"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/fence"
)

// What the record in force, and a survey, say of the next record. It is pure: no clock, no I/O.

// Decision is what the next record changes.
type Decision struct {
	Child *Record
	// Changes are for the log, one for each seat.
	Changes []string
	// Asked tells that an operator asks for it.
	Asked bool
	// Raise are the places that must know the fences of before when the child is chosen.
	Raise []int
	// Demoted is the voter that becomes a learner, and why says why, for people; nil: none does.
	Demoted *Report
	Why     string
	// Problem says which seat does not vote although its wait is over; "": none.
	Problem string
}

func (d *Decision) change(format string, args ...any) {
	d.Changes = append(d.Changes, fmt.Sprintf(format, args...))
}

// Situation is what a decision depends on besides the survey.
type Situation struct {
	Record *Record
	Survey *Survey
	// Left is how much of a wait is left, by the name of its timer: StampField or TTLStampField.
	Left func(timer string) time.Duration
	// Recovered tells whether the learner of a seat was given what it has to know, and how; nil: none was.
	Recovered func(s *Seat) (how string, is bool)
	// OutOfStep is Host.OutOfStep; nil: no clock is.
	OutOfStep func(place int) string
	// Patience is for how long a memory counts as heard that some client has heard.
	Patience time.Duration
	// Paused tells whether a seat has to wait before another memory is listed there.
	Paused func(place int) bool
	// Wall is what this machine's clock says.
	Wall time.Time
	// Skew is Options.ClockSkewMax.
	Skew  time.Duration
	Drift clock.Drift
	// FirstCeiling is the lowest that there is.
	FirstCeiling time.Duration
	// Wanted is the longest TTL that operations here wait for to be allowed; 0: none does.
	Wanted time.Duration
	// Behind: somebody may still follow a record before this one (Followers.Behind).
	Behind bool
	// OlderClient is what the function says.
	OlderClient bool
	// InUse is the longest TTL that was asked for during one wait, as far as is known.
	InUse time.Duration
}

// Next decides what the next record is, as far as no operator asks for anything. No change: the child
// is nil.
//
// Silence of a master is no reason for a change: it may be a fault of this machine, and a change is for
// everybody. The reasons are another memory at the address, a wait that is over, and a clock that others
// show to be out of step (OutOfStep).
func (n *Situation) Next() Decision {
	r := n.Record
	d := Decision{Child: r.Child()}
	child := d.Child
	removed := false
	child.Seats = slices.DeleteFunc(child.Seats, func(s Seat) bool {
		gone := !removed && s.State == Leaving && n.Left(r.StampField(&s)) <= 0 //mutant:a-seat-is-removed-before-the-wait
		if gone {
			d.change("%s is removed", conn.Sanitize(s.Name))
			removed = true
		}
		return gone
	})
	if removed {
		child.Roster++
	}
	moved := removed // a step moves one seat at most (CheckChild)
	for s := range child.EachSeat() {
		f := n.Survey.At(s.Number)
		switch {
		case s.State == Leaving || !f.OK():
		case f.State.Memory != s.Memory:
			if moved || f.Foreign(r) || n.Paused(s.Number) || r.Lists(f.State.Memory) != nil || n.Survey.heard(r, s, n.Patience) {
				continue
			}
			moved = true
			d.change("%s has another memory, and becomes a learner", conn.Sanitize(s.Name))
			s.Memory, s.State, s.Since = f.State.Memory, Learner, child.Version
		case s.State == Voter && f.Shows(r):
			if why := n.demotes(s); why != "" && d.Demoted == nil {
				d.Demoted, d.Why = f, why
				d.change("%s becomes a learner, and votes when it was given what the others remember: %s", conn.Sanitize(s.Name), why)
				s.State, s.Since = Learner, child.Version
			}
		case s.State == Learner && f.Shows(r):
			why := n.promotes(s)
			if why == "" {
				continue
			}
			if floor, _ := n.Floor(); floor > fence.Time(f.Clock.Add(fence.AheadMax)) { // others must not wait for it //mutant:one-clock-that-is-behind-keeps-all-from-voting
				d.Problem = n.TooFarBehind(f)
				continue
			}
			d.change("%s votes: %s", conn.Sanitize(s.Name), why)
			s.State = Voter
			d.Raise = append(d.Raise, s.Number)
		}
	}
	n.planTimes(&d)
	if removed { // a smaller quorum must not miss what the larger one knew //mutant:a-smaller-quorum-knows-no-fences
		told := 0
		var silent []int
		for s := range child.EachSeat() {
			switch {
			case s.State != Voter:
			case !n.Survey.At(s.Number).Shows(r): //mutant:a-dead-voter-keeps-a-seat-that-leaves
				silent = append(silent, s.Number)
			default:
				told++
				if !slices.Contains(d.Raise, s.Number) {
					d.Raise = append(d.Raise, s.Number)
				}
			}
		}
		if told+child.Quorum() <= len(child.Seats) { // the others alone could be a quorum //mutant:a-quorum-that-was-not-told-of-fences
			d.Raise = append(d.Raise, silent...) // the removal waits for them
		}
	}
	if len(d.Changes) == 0 {
		d.Child = nil
	}
	return d
}

// promotes says why a learner votes now; "": it does not.
func (n *Situation) promotes(s *Seat) string {
	if n.Recovered != nil {
		if how, is := n.Recovered(s); is {
			return how
		}
	}
	if n.Left(n.Record.StampField(s)) <= 0 { //mutant:a-learner-votes-before-the-wait
		return "its wait is over"
	}
	return ""
}

// demotes says why a voter becomes a learner; "": it does not. It may have ended keys early, and those
// who know that do not count it. Others learn it by this step, at most one at a time for the whole fleet,
// and only while a quorum of the others vote.
func (n *Situation) demotes(s *Seat) string {
	others := n.Survey.Count(func(f *Report) bool {
		return f.Place != s.Number && f.Shows(n.Record) && n.Record.Seat(f.Place).State == Voter
	})
	if n.OutOfStep == nil || n.Paused(s.Number) || others < n.Record.Quorum() { //mutant:a-vote-is-taken-that-a-quorum-needs //mutant:a-clock-that-is-never-right-keeps-everybody-copying
		return ""
	}
	return n.OutOfStep(s.Number)
}

// Floor is the highest fence that the voters of the record have accepted, which a seat must know before
// it votes. Of any quorum of them at least one knows each fence that was given. So a voter that shows
// more than a proxy believes is left out where the others are a quorum. cold: fewer than a quorum of
// them are reached, so nobody knows, and the floor is taken from this machine's clock.
func (n *Situation) Floor() (floor int64, cold bool) {
	voters, believed, highest := 0, 0, int64(0)
	for _, f := range n.Survey.Reports {
		if !f.Shows(n.Record) || n.Record.Seat(f.Place).State != Voter {
			continue
		}
		voters++
		highest = max(highest, f.High)
		if f.High <= fence.HighestBelieved(n.Wall, n.Skew) {
			believed++
			floor = max(floor, f.High)
		}
	}
	if believed < n.Record.Quorum() { //mutant:one-voter-moves-all-floors
		floor = highest
	}
	if cold = voters < n.Record.Quorum(); cold {
		floor = max(floor, fence.Time(n.Wall.Add(2*n.Skew))) //mutant:cold-floor-too-low
	}
	return floor, cold //mutant:floor-not-relearned
}

// TooFarBehind says of a master that the floor of its fences would be too far ahead of its clock.
func (n *Situation) TooFarBehind(f *Report) string {
	return fmt.Sprintf("%s gets no vote from here: it must refuse all fences of before, and these are more than %v ahead of its clock. "+
		"The clock of this machine less that of %[1]s is %[3]v: correct the one that is wrong", f.Master.Addr, fence.AheadMax, n.Wall.Sub(f.Clock).Round(time.Minute))
}

// RecheckWithin is within what time each proxy makes sure that the address of a master still means the
// memory that it counts votes of. It needs a new connection to each master twice in that time. A
// founding waits for it; a master that takes no connection for so long loses its vote.
func RecheckWithin(wait time.Duration) time.Duration {
	return min(max(time.Second, wait/4), 3*time.Second)
}

// SameProcess tells whether two memories are of one process: then the older one is gone.
func SameProcess(a, b string) bool {
	return State{Memory: a}.RunID() == State{Memory: b}.RunID()
}

// heard tells whether some client has heard the memory that r lists for a seat lately, although the
// survey has not found it: the address means another master there. This protects no lock; it keeps a
// client whose names mean other masters from taking votes for everybody. A client that goes by another
// record may hear a memory which that one lists; it says so only on masters that show its record.
func (s *Survey) heard(r *Record, one *Seat, within time.Duration) bool {
	a := s.At(one.Number)
	if !one.State.occupied() || a.OK() && SameProcess(a.State.Memory, one.Memory) {
		return false
	}
	says := s.Count(func(f *Report) bool {
		if f.State.Record != r.ID() { //mutant:a-proxy-that-is-behind-vetoes
			return false
		}
		return f.OK() && f.saidWithin(f.Fields[HeardField(one.Number)], within) //mutant:a-memory-that-is-heard-is-replaced
	})
	return says > 0 && says >= min(r.Quorum(), s.Count(func(f *Report) bool { return f.OK() && f.State.Record == r.ID() })) //mutant:one-master-says-who-is-heard
}

// HeardElsewhere returns the name of a seat whose listed memory is heard by others; "": there is none.
func (s *Survey) HeardElsewhere(base *Record, within time.Duration) string {
	for one := range base.EachSeat() {
		if s.heard(base, one, within) { //mutant:a-founding-over-who-is-heard
			return one.Name
		}
	}
	return ""
}

// Votes tells whether the master of a seat votes now, as the survey has found it.
func (n *Situation) Votes(s *Seat) bool {
	f := n.Survey.At(s.Number)
	return s.State == Voter && //mutant:a-learner-is-counted-on
		f.Shows(n.Record) && f.State.Child == ""
}

// KeepsQuorum refuses a child under which fewer masters would vote at once than it needs. Voters that
// are not reached are no help: with them counted, the removal of a living master could leave no quorum
// to grant a lock, or to choose another record. s is the seat that is changed.
func (n *Situation) KeepsQuorum(child *Record, s *Seat) error {
	r := n.Record
	now, after, others := 0, 0, ""
	for one := range r.EachSeat() {
		switch f := n.Survey.At(one.Number); {
		case n.Votes(one): //mutant:a-dead-voter-is-counted-on
			now++
			if child.Seat(one.Number).State == Voter { //mutant:the-vote-that-is-given-up-is-counted-on
				after++
			}
		case one.Number == s.Number:
		case one.State == Leaving:
			others += ", " + conn.Sanitize(one.Name) + " is leaving"
		case f == nil || f.Err != nil && !conn.IsRefused(f.Err):
			others += ", " + conn.Sanitize(one.Name) + " is not reached"
		case f.Err != nil:
			others += fmt.Sprintf(", %s is %v", conn.Sanitize(one.Name), f.Err)
		default:
			others += ", " + conn.Sanitize(one.Name) + " waits for its vote"
		}
	}
	needed := child.Quorum() //mutant:a-new-seat-does-not-count
	before := r.Seat(s.Number)
	if after >= needed || before != nil && r.neverVoted(before) { // such a seat gives up nothing
		return nil
	}
	with := ""
	switch {
	case before == nil:
		with = "with " + conn.Sanitize(s.Name) + ", which does not vote at once, "
	case n.Votes(before):
		with = "without " + conn.Sanitize(s.Name) + ", "
	}
	todo := "add a seat first"
	switch {
	case others != "":
		todo = "bring back a master that does not vote, wait for its vote, or replace it first"
	case len(r.Seats) == 1:
		todo = "one master cannot be replaced, and gets no second one, while locks are granted; stop every redlockd, name empty masters in the configuration, and start"
	}
	return fmt.Errorf("%d of %d masters vote now%s; %s%d would vote and %d are needed: %s", now, len(r.Seats), others, with, after, needed, todo)
}

// HeardOnlyElsewhere says why the listed memory of a seat, which others hear, was not found here: the
// way there is broken, or its address means another master.
func (s *Survey) HeardOnlyElsewhere(r *Record, name string) string {
	if f := s.At(r.SeatNamed(name).Number); f == nil || f.Err != nil {
		why := ""
		if f != nil {
			why = " (" + conn.Shorten(f.Err).Error() + ")"
		}
		return conn.Sanitize(name) + " is heard by another redlockd and cannot be reached from here" + why + ": see the network between, and what its address means here"
	}
	return conn.Sanitize(name) + " is heard by another redlockd and shows another memory here: see what its address means on both machines"
}
