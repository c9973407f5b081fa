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

// decision is what the next record changes.
type decision struct {
	Child *Record
	// changes are for the log, one for each seat.
	changes []string
	// asked tells that an operator asks for it.
	asked bool
	// raise are the places that must know the fences of before when the child is chosen.
	raise []int
	// demoted is the voter that becomes a learner, and why says why, for people; nil: none does.
	demoted *Report
	why     string
	// problem says which seat does not vote although its wait is over; "": none.
	problem string
}

func (d *decision) change(format string, args ...any) {
	d.changes = append(d.changes, fmt.Sprintf(format, args...))
}

// Situation is what a decision depends on besides the survey.
type Situation struct {
	Record *Record
	Survey *Survey
	// Left is how much of a wait is left, by the name of its timer: StampField or ttlStampField.
	Left func(timer string) time.Duration
	// recovered tells whether the learner of a seat was given what it has to know, and how; nil: none was.
	recovered func(s *Seat) (how string, is bool)
	// outOfStep is Host.OutOfStep; nil: no clock is.
	outOfStep func(place int) string
	// patience is for how long a memory counts as heard that some client has heard.
	patience time.Duration
	// Paused tells whether a seat has to wait before another memory is listed there.
	Paused func(place int) bool
	// wall is what this machine's clock says.
	wall time.Time
	// skew is Options.ClockSkewMax.
	skew  time.Duration
	Drift clock.Drift
}

// Next decides what the next record is, as far as no operator asks for anything. No change: the child
// is nil.
//
// Silence of a master is no reason for a change: it may be a fault of this machine, and a change is for
// everybody. The reasons are another memory at the address, a wait that is over, and a clock that others
// show to be out of step (outOfStep).
func (n *Situation) Next() decision {
	r := n.Record
	d := decision{Child: r.Child()}
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
	for s := range child.seats() {
		f := n.Survey.At(s.Number)
		switch {
		case s.State == Leaving || !f.ok():
		case f.State.Memory != s.Memory:
			if moved || f.foreign(r) || n.Paused(s.Number) || r.Lists(f.State.Memory) != nil || n.Survey.heard(r, s, n.patience) {
				continue
			}
			moved = true
			d.change("%s has another memory, and becomes a learner", conn.Sanitize(s.Name))
			s.Memory, s.State, s.Since = f.State.Memory, Learner, child.Version
		case s.State == Voter && f.shows(r):
			if why := n.demotes(s); why != "" && d.demoted == nil {
				d.demoted, d.why = f, why
				d.change("%s becomes a learner, and votes when it was given what the others remember: %s", conn.Sanitize(s.Name), why)
				s.State, s.Since = Learner, child.Version
			}
		case s.State == Learner && f.shows(r):
			why := n.promotes(s)
			if why == "" {
				continue
			}
			if floor, _ := n.floor(); floor > fence.Time(f.clock.Add(fence.AheadMax)) { // others must not wait for it //mutant:one-clock-that-is-behind-keeps-all-from-voting
				d.problem = n.tooFarBehind(f)
				continue
			}
			d.change("%s votes: %s", conn.Sanitize(s.Name), why)
			s.State = Voter
			d.raise = append(d.raise, s.Number)
		}
	}
	if needed := r.Needed(n.Drift); r.Wait > needed && n.Left(r.ttlStampField()) <= 0 { //mutant:the-wait-is-lowered-at-once
		d.change("the wait is %v", needed)
		child.Wait = needed
	}
	if removed { // a smaller quorum must not miss what the larger one knew //mutant:a-smaller-quorum-knows-no-fences
		told := 0
		var silent []int
		for s := range child.seats() {
			switch {
			case s.State != Voter:
			case !n.Survey.At(s.Number).shows(r): //mutant:a-dead-voter-keeps-a-seat-that-leaves
				silent = append(silent, s.Number)
			default:
				told++
				if !slices.Contains(d.raise, s.Number) {
					d.raise = append(d.raise, s.Number)
				}
			}
		}
		if told+child.Quorum() <= len(child.Seats) { // the others alone could be a quorum //mutant:a-quorum-that-was-not-told-of-fences
			d.raise = append(d.raise, silent...) // the removal waits for them
		}
	}
	if len(d.changes) == 0 {
		d.Child = nil
	}
	return d
}

// promotes says why a learner votes now; "": it does not.
func (n *Situation) promotes(s *Seat) string {
	if n.recovered != nil {
		if how, is := n.recovered(s); is {
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
	others := n.Survey.count(func(f *Report) bool {
		return f.Place != s.Number && f.shows(n.Record) && n.Record.Seat(f.Place).State == Voter
	})
	if n.outOfStep == nil || n.Paused(s.Number) || others < n.Record.Quorum() { //mutant:a-vote-is-taken-that-a-quorum-needs //mutant:a-clock-that-is-never-right-keeps-everybody-copying
		return ""
	}
	return n.outOfStep(s.Number)
}

// floor is the highest fence that the voters of the record have accepted, which a seat must know before
// it votes. Of any quorum of them at least one knows each fence that was given. So a voter that shows
// more than a proxy believes is left out where the others are a quorum. cold: fewer than a quorum of
// them are reached, so nobody knows, and the floor is taken from this machine's clock.
func (n *Situation) floor() (floor int64, cold bool) {
	voters, believed, highest := 0, 0, int64(0)
	for _, f := range n.Survey.Reports {
		if !f.shows(n.Record) || n.Record.Seat(f.Place).State != Voter {
			continue
		}
		voters++
		highest = max(highest, f.high)
		if f.high <= fence.HighestBelieved(n.wall, n.skew) {
			believed++
			floor = max(floor, f.high)
		}
	}
	if believed < n.Record.Quorum() { //mutant:one-voter-moves-all-floors
		floor = highest
	}
	if cold = voters < n.Record.Quorum(); cold {
		floor = max(floor, fence.Time(n.wall.Add(2*n.skew))) //mutant:cold-floor-too-low
	}
	return floor, cold //mutant:floor-not-relearned
}

// tooFarBehind says of a master that the floor of its fences would be too far ahead of its clock.
func (n *Situation) tooFarBehind(f *Report) string {
	return fmt.Sprintf("%s gets no vote from here: it must refuse all fences of before, and these are more than %v ahead of its clock. "+
		"The clock of this machine less that of %[1]s is %[3]v: correct the one that is wrong", f.master.Addr, fence.AheadMax, n.wall.Sub(f.clock).Round(time.Minute))
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
	if !one.State.occupied() || a.ok() && SameProcess(a.State.Memory, one.Memory) {
		return false
	}
	says := s.count(func(f *Report) bool {
		if f.State.Record != r.ID() { //mutant:a-proxy-that-is-behind-vetoes
			return false
		}
		return f.ok() && f.saidWithin(f.fields[HeardField(one.Number)], within) //mutant:a-memory-that-is-heard-is-replaced
	})
	return says > 0 && says >= min(r.Quorum(), s.count(func(f *Report) bool { return f.ok() && f.State.Record == r.ID() })) //mutant:one-master-says-who-is-heard
}

// heardElsewhere returns the name of a seat whose listed memory is heard by others; "": there is none.
func (s *Survey) heardElsewhere(base *Record, within time.Duration) string {
	for one := range base.seats() {
		if s.heard(base, one, within) { //mutant:a-founding-over-who-is-heard
			return one.Name
		}
	}
	return ""
}
