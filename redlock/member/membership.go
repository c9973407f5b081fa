package member

import (
	"fmt"
	"strings"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/quorum"
)

// The membership as people see it.

// Membership is what a client knows of the membership record: who the masters are, and what holds for
// them.
type Membership struct {
	// Known: this client has seen a record in force. Without it, nobody votes.
	Known bool
	// Settled: since it has seen that, a quorum of the masters has shown nothing newer, and no change that
	// was begun and is not finished.
	Settled bool
	// Lineage is LineageText of the record, Version counts the steps since the founding.
	Lineage string
	Version int64
	// MaxTTL is the longest TTL that may be asked for, Ceiling the longest that may run: a lock above it has
	// it raised first. RaisedBy says who last did so; "": it is not known, or was not raised.
	MaxTTL, Ceiling time.Duration
	RaisedBy        string
	// Wait is how long a master has no vote that may have forgotten locks, where too few others can tell it
	// what it held.
	Wait time.Duration
	// Behind says whom the ceiling waits for before it rises (Followers.Behind); "": nobody.
	Behind string
	// Lowering: Wait is longer than Ceiling needs, because longer locks may still live, or are about to. It
	// is lowered after WaitLeft. What a founding, and a rise of the ceiling, have on top does not count.
	Lowering bool
	WaitLeft time.Duration
	// Needed is how many votes a lock needs.
	Needed int
	Seats  []SeatInfo
	// Problem is why the membership is not as it should be, and what to do; "": nothing is known against
	// it.
	Problem string
	// Differences are what the options say otherwise; "": nothing.
	Differences string
	// ToDo is what to do about the differences, where the membership is more likely wrong than the options;
	// "": write into the options what Seats says.
	ToDo string
}

// RaisedField is the field of the hash that says, for people, who last had the ceiling raised.
const RaisedField = "raised"

// RaisedBy is what the voters of r say of that.
func RaisedBy(s *Survey, r *Record) string {
	for _, f := range VotersOf(s, r) {
		if by := f.Fields[RaisedField]; by != "" {
			return conn.Sanitize(by)
		}
	}
	return ""
}

// Voters is how many masters have a vote.
func (m Membership) Voters() (n int) {
	for _, s := range m.Seats {
		if s.State == Voter {
			n++
		}
	}
	return n
}

// Standing is what the votes of now come to.
func (m Membership) Standing() quorum.Standing {
	all := quorum.Standing{Seats: len(m.Seats)}
	for _, s := range m.Seats {
		if s.Votes {
			all.Voting++
		}
	}
	return all
}

// WithoutVote says of each seat that does not vote now why; "": all do.
func (m Membership) WithoutVote() string {
	var parts []string
	for _, s := range m.Seats {
		why := ""
		switch {
		case s.Votes:
			continue
		case s.State == Leaving:
			why = "is leaving"
		case s.State == Vacant:
			why = "has no master"
		case !s.Reached:
			why = "cannot be reached"
		case s.State == Learner:
			why = "waits for its vote"
		default:
			why = "is reached, and does not vote"
		}
		parts = append(parts, conn.Sanitize(s.Name)+" "+why)
	}
	return strings.Join(parts, ", ")
}

// Unreached is how many of the voters cannot be reached.
func (m Membership) Unreached() (n int) {
	for _, s := range m.Seats {
		if s.State == Voter && !s.Reached {
			n++
		}
	}
	return n
}

// SeatInfo is a place among the masters.
type SeatInfo struct {
	Name, Addr string
	State      SeatState
	// NeverVoted: nobody counts on the seat, because it has had no vote since the first founding.
	NeverVoted bool
	// Memory names what the master remembers since it last forgot; "": there is no master.
	Memory string
	// Since is the version of the membership at which the memory was listed or lost its vote.
	Since int64
	// Left is how much of the wait is left before the seat votes or is removed; 0: it is not waiting, or
	// about to.
	Left time.Duration
	// Copying is how a learner is given what it has to know, so that it votes before its wait is over;
	// nil: it is not, and nothing says why.
	Copying *Copying
	// Votes: its vote counts now.
	Votes bool
	// Reached tells whether a master answers at the address, whether it votes or not.
	Reached bool
	// Reason is why this client does not count the master's votes; "": it does.
	Reason string
}

// Copying is how a learner is given what it has to know.
type Copying struct {
	// Here: this client copies. Else another one does.
	Here bool
	// From names the seats that remember, with commas between them.
	From string
	// Given is how many locks the learner has got so far; Percent is how much of all keys was looked at.
	Given   int64
	Percent int
	// Problem is why nothing is copied at present; "": it is. The seat votes when its wait is over.
	Problem string
}

// Membership is the record for people.
func (r *Record) Membership(o Options) Membership {
	all := Membership{Known: true, Lineage: r.LineageText(), Version: r.Version, MaxTTL: r.MaxTTL, Ceiling: r.Ceiling, Wait: r.Wait,
		Lowering: r.Wait > r.Needed(o.Drift)+RecheckWithin(r.Wait)+time.Millisecond, Needed: r.Quorum(), Differences: FileDiffers(r, o), ToDo: CorrectsRecord(r, o)}
	for s := range r.EachSeat() {
		all.Seats = append(all.Seats, SeatInfo{Name: s.Name, Addr: o.MasterAt(s.Name, s.Addr).FullAddr(), State: s.State, NeverVoted: r.neverVoted(s), Memory: s.Memory, Since: s.Since})
	}
	return all
}

// LineageText names the founding for people and logs. It shows a digest of the lineage, because the lineage
// is the key of the digests of tokens (TokenDigest): clients must not learn it.
func (r *Record) LineageText() string {
	return fmt.Sprintf("%d-%s", r.Generation, conn.Digest(r.Lineage))
}

// FileDiffers is what the options say otherwise than the record; "": nothing.
func FileDiffers(r *Record, o Options) string {
	var parts []string
	if o.MaxTTL.Truncate(time.Millisecond) != r.MaxTTL {
		parts = append(parts, fmt.Sprintf("max_ttl is %s, the settings say %s", clock.Text(r.MaxTTL), clock.Text(o.MaxTTL)))
	}
	named := make(map[*conn.Master]bool)
	for s := range r.EachSeat() {
		one, at := o.MasterOf(s.Name, s.Addr), o.MasterAt(s.Name, s.Addr).FullAddr()
		named[one] = true
		switch {
		case s.State == Leaving && one == nil:
		case s.State == Leaving:
			parts = append(parts, fmt.Sprintf("%s (%s) is leaving, the settings name it", conn.Sanitize(s.Name), conn.Sanitize(s.Addr)))
		case one == nil && r.neverVoted(s):
			parts = append(parts, fmt.Sprintf("%s (%s) was named at the first start and has never voted, the settings do not name it", conn.Sanitize(s.Name), conn.Sanitize(s.Addr)))
		case one == nil:
			parts = append(parts, fmt.Sprintf("%s (%s) is a member, the settings do not name it", conn.Sanitize(s.Name), conn.Sanitize(s.Addr)))
		case at != one.FullAddr():
			parts = append(parts, fmt.Sprintf("%s is at %s, the settings say %s", conn.Sanitize(s.Name), conn.Sanitize(at), one.FullAddr()))
		}
	}
	for i := range o.Masters {
		if one := &o.Masters[i]; !named[one] {
			parts = append(parts, fmt.Sprintf("%s is no member, the settings name it", one.SeatName()))
		}
	}
	return strings.Join(parts, "; ")
}

// CorrectsRecord says what to do where the record has seats that have never voted and that the options do
// not name; "": it has none. Most likely an address was wrong at the first start, so that the record is
// to be corrected, not the options.
func CorrectsRecord(r *Record, o Options) string {
	var seats, others []string
	for s := range r.EachSeat() {
		if r.neverVoted(s) && o.MasterOf(s.Name, s.Addr) == nil {
			seats = append(seats, conn.Sanitize(s.Name))
		}
	}
	for _, m := range o.Masters {
		if r.SeatOf(m) == nil {
			others = append(others, m.FullAddr())
		}
	}
	switch {
	case len(seats) == 0:
		return ""
	case len(others) == 0:
		return "name " + strings.Join(seats, ", ") + " in the settings again, or run `redlockd members remove " + seats[0] + "`"
	case r.IsNew():
		return "if the settings are right now, run `redlockd bootstrap`: nobody has voted yet"
	}
	return fmt.Sprintf("if the settings are right now, run `redlockd members replace %s %s`", seats[0], others[0])
}

// WhyNoVote says, by what a master shows, why it has no vote under r at the seat, and what to do about
// it; "": what it shows does not tell.
func (r *Record) WhyNoVote(seat *Seat, shown State) (why, fix string) {
	of := shown.Record.Fleet()
	switch {
	case of != "" && of != r.Fleet():
		return "it shows a membership of another fleet", "run FLUSHALL on it if that fleet is gone; else name another master here"
	case seat == nil:
		return "", ""
	case seat.State == Leaving:
		return "its seat is leaving: it has no vote, and is removed after the wait", ""
	case seat.Memory == "":
		return "its seat had no master until now", ""
	case seat.Memory == shown.Memory && seat.State == Learner && seat.Since == 0 && r.Generation > 1:
		return "the fleet was founded anew, because too many had forgotten: all wait, those as well that remember", ""
	case seat.Memory == shown.Memory:
		return "", ""
	case SameProcess(seat.Memory, shown.Memory):
		return "it was flushed: the same run has forgotten its membership", ""
	}
	return "it has another run id than before: it has restarted, or another master stands at its address", ""
}

// WithoutVote is why a master has no vote under r at the seat (nil: it has none), by what it shows; born
// is what its memory was told when it began, and does not count where what it shows is evidence.
func (r *Record) WithoutVote(seat *Seat, shown State, born string) string {
	why, fix := r.WhyNoVote(seat, shown)
	switch {
	case fix != "":
		return why + ": " + fix
	case why == "" || seat.Memory != shown.Memory && seat.Memory != "" && born != "" && born != reasonNew:
		return born
	}
	return why
}
