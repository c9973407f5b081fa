package member

import (
	"cmp"
	"errors"
	"time"

	"redlockd/redlock/conn"
)

// Survey is what the masters have shown.
type Survey struct {
	Began time.Time
	// Reports are in the order of their places.
	Reports []*Report
}

// Report is what one master has shown.
type Report struct {
	Place  int // number of the seat
	Master conn.Master
	// Err is why it cannot be a member at present: it is not reached, is refused, or is used by others.
	Err error
	// Conn is nil where it is not reached.
	Conn *conn.Conn

	RunID   string
	Version string // as conn.ServerVersion has it
	V       string // the field of the hash
	State   State  // parsed
	// Record is the one that it has settled on; nil: it is fresh, or the text is not that.
	Record *Record
	// Before is the one that the memory before a fresh one left; nil: none, or it is not fresh.
	Before *Record
	// Unreadable is why the text of the record that it has settled on cannot be read; nil: it can.
	Unreadable error
	// Child is the one that it has accepted; nil: none, or its text cannot be read.
	Child *Record
	// Fields are the others of the hash: stamps and who was heard.
	Fields map[string]string

	Clock          time.Time     // its TIME
	Skew           time.Duration // Options.ClockSkewMax
	Sent, Received time.Time     // when it was asked for that, and told it, on our clock
	High           int64         // the highest fence that it has accepted
	Keys           int64         // in its database, those of the membership excepted

	// What it had accepted when it was asked to prepare a step: "" and nil for nothing.
	AcceptedBallot string
	Accepted       *Record
	// Taught: it has learned the record that it was told last.
	Taught bool
}

// OK tells whether the master was asked, and is fit to be a member.
func (f *Report) OK() bool { return f != nil && f.Err == nil }

// Shows tells whether it shows this record as settled or with an accepted child, with a memory that the
// record lists.
func (f *Report) Shows(r *Record) bool {
	return f.lists(r) && f.State.Record == r.ID()
}

// lists tells whether the record lists the memory for the seat of this place.
func (f *Report) lists(r *Record) bool {
	if !f.OK() {
		return false
	}
	s := r.Seat(f.Place)
	return s != nil && s.Memory == f.State.Memory
}

// Known is the record that it shows or, where it is fresh, that it has of the memory before; nil: none.
func (f *Report) Known() *Record { return cmp.Or(f.Record, f.Before) }

// At is what was found at a place; nil: it was not asked.
func (s *Survey) At(place int) *Report {
	for _, f := range s.Reports {
		if f.Place == place {
			return f
		}
	}
	return nil
}

// Among are the masters whose memory the record lists.
func (r *Record) Among(all []*Report) (list []*Report) {
	for _, f := range all {
		if f.lists(r) {
			list = append(list, f)
		}
	}
	return list
}

// Count is how many masters match.
func (s *Survey) Count(match func(f *Report) bool) (n int) {
	for _, f := range s.Reports {
		if match(f) {
			n++
		}
	}
	return n
}

// TwinOf is the master before this one that is the same process, which would vote twice; nil: there is
// none.
func (s *Survey) TwinOf(f *Report) *Report {
	for _, other := range s.Reports {
		switch {
		case other == f:
			return nil
		case f.RunID != "" && other.RunID == f.RunID:
			return other
		}
	}
	return nil
}

// Parse takes from the hash what it shows. The state stays empty where the memory has no name.
func (f *Report) Parse() error {
	f.V, f.Record, f.Before, f.Child, f.Unreadable = f.Fields["v"], nil, nil, nil, nil
	state, err := StateOf(f.V, f.RunID)
	if f.State = state; state.Memory == "" {
		return err
	}
	switch r, err := ParseRecord(f.Fields["r"]); {
	case state.Fresh:
		f.Before = r
	case err != nil:
		f.Unreadable = err
	case r.ID() != state.Record: //mutant:a-record-of-another-digest-is-believed
		f.Unreadable = errOtherRecord
	default:
		f.Record = r
	}
	f.Child, _ = RecordOf(f.Fields["a"], state.Child)
	return nil
}

// RecordOf reads the text of the record that has this digest.
func RecordOf(text, digest string) (*Record, error) {
	r, err := ParseRecord(text)
	if err == nil && r.Digest != digest { //mutant:a-child-of-another-digest-is-proposed
		return nil, errOtherRecord
	}
	return r, err
}

// errOtherRecord is a text whose digest is not the one that is shown with it.
var errOtherRecord = errors.New("it is the text of another record: " + whatToDoAboutARecord)

// Amnesia says why a master has forgotten that shows v, which is not of this process. knew tells that
// it has been a voter.
func Amnesia(v string, knew bool) string {
	switch {
	case v == "" && !knew:
		return reasonNew
	case v == "":
		return "its membership is gone: it has restarted without its data, or was flushed"
	}
	return "its membership is of another run: it has restarted or was replaced, and may have lost the latest locks"
}

// reasonNew is why a master has no vote of which nobody knew anything. It may be brand-new: a bootstrap
// may admit it.
const reasonNew = "it has no membership: it is new, has restarted without its data, or was flushed"

// MayStandAt tells whether the master has the memory that r lists for its place, and stands at r, or may
// do so when it is told: it has not gone on to another founding.
func (f *Report) MayStandAt(r *Record) bool {
	return f.lists(r) && (f.standsAt(r) || r.NewerThan(f.State.Record))
}

// Foreign tells whether the master shows a record of another fleet than r, or has shown it before it
// forgot.
func (f *Report) Foreign(r *Record) bool {
	of := f.ShownID().Fleet()
	return of != "" && of != r.Fleet()
}

// ShownID is the record that the master shows; for one that has forgotten, the one that the memory
// before it left; zero: none.
func (f *Report) ShownID() RecordID {
	switch {
	case !f.OK():
		return RecordID{}
	case !f.State.Fresh:
		return f.State.Record
	case f.Before != nil:
		return f.Before.ID()
	}
	return RecordID{}
}

// standsAt tells whether the master has settled on the record, or on a child of it, which it could do
// only after the record was chosen.
func (f *Report) standsAt(r *Record) bool {
	return f.OK() && (f.State.Record.Digest == r.Digest || f.IsPast(r)) //mutant:versions-are-compared-without-digests
}

// IsPast tells whether the master has settled on a child of the record, whose text is there.
func (f *Report) IsPast(r *Record) bool { return f.Record != nil && f.Record.Parent == r.Digest }
