package member

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Which record a client goes by. One master never decides that: a record counts only as far as others
// stand behind it, and those others are counted at addresses that this client knew before, or, at a
// start, that its settings name.
//
// A record in force stays in force as long as a quorum of the memories that it lists stand at it: what
// follows it is chosen among them, by a step (step.go). A client that missed steps follows when a
// quorum of the seats that it knows stand at a newer record.
//
// A wrong guess costs votes, and no lock: a vote counts only where the master shows the record of the
// round.

// FleetLen is how many digits of a lineage name the fleet. They are drawn when the fleet is founded
// first, and later foundings keep them.
const FleetLen = NonceLen / 2

// fleet names the record's fleet; "": it is no record.
func (id recordID) fleet() string { return id.lineage[:min(FleetLen, len(id.lineage))] }

// Fleet names the record's fleet.
func (r *Record) Fleet() string { return r.ID().fleet() }

// shows tells whether some master shows a record of the fleet.
func (s *Survey) shows(fleet string) bool {
	return slices.ContainsFunc(s.Reports, func(f *Report) bool { return f.shownID().fleet() == fleet })
}

// foreign tells whether the master shows a record of another fleet than r, or has shown it before it
// forgot.
func (f *Report) foreign(r *Record) bool {
	of := f.shownID().fleet()
	return of != "" && of != r.Fleet()
}

// shownID is the record that the master shows; for one that has forgotten, the one that the memory
// before it left; zero: none.
func (f *Report) shownID() recordID {
	switch {
	case !f.ok():
		return recordID{}
	case !f.State.fresh:
		return f.State.Record
	case f.before != nil:
		return f.before.ID()
	}
	return recordID{}
}

// standsAt tells whether the master has settled on the record, or on a child of it, which it could do
// only after the record was chosen.
func (f *Report) standsAt(r *Record) bool {
	if !f.ok() || f.State.fresh {
		return false
	}
	return f.State.Record.Digest == r.Digest || f.isPast(r) //mutant:versions-are-compared-without-digests
}

// isPast tells whether the master has settled on a child of the record, whose text is there.
func (f *Report) isPast(r *Record) bool { return f.record != nil && f.record.Parent == r.Digest }

// Acceptors are the memories that r lists, as far as they stand at it: those choose its child, and some
// may know already which one it is.
func (s *Survey) Acceptors(r *Record) (list []*Report) {
	for _, f := range s.Reports {
		if f.standsAt(r) && r.Lists(f.State.Memory) != nil { //mutant:a-memory-that-is-not-listed-supports
			list = append(list, f)
		}
	}
	return list
}

// inForce tells whether a quorum of the memories that r lists stand at it.
func (s *Survey) inForce(r *Record) bool { return len(s.Acceptors(r)) >= r.Quorum() }

// stay is how many of the memories that r lists stand at it, and not at next: those that have gone on
// speak for next, which may need fewer of them.
func (s *Survey) stay(r, next *Record) (n int) {
	for _, f := range s.Acceptors(r) {
		if !f.standsAt(next) { //mutant:who-has-gone-on-counts-as-staying
			n++
		}
	}
	return n
}

// settled are the records that masters have settled on, as far as their texts are there.
func (s *Survey) settled() (records []*Record) {
	for _, f := range s.Reports {
		if f.ok() && f.record != nil {
			records = append(records, f.record)
		}
	}
	return records
}

// successor returns the newest record that a quorum of own's seats stand at, if it is newer than own;
// nil: there is none. Memories are not compared: a seat whose master has forgotten, and was told of a
// record since, stands at that.
func (s *Survey) successor(own *Record) (newest *Record) {
	for _, r := range s.settled() {
		switch {
		case !r.follows(own):
		case s.count(func(f *Report) bool { return own.Seat(f.Place) != nil && f.standsAt(r) }) < own.Quorum(): //mutant:a-record-of-a-minority-adopted
		case r.Parent == own.Digest && CheckChild(own, r) != nil:
		case newest == nil || r.newerThan(newest.ID()):
			newest = r
		}
	}
	return newest
}

// follows tells whether a client that goes by own may go on to r: to a later version, or to another
// founding of the fleet that is as late.
func (r *Record) follows(own *Record) bool {
	if r.ID().sameLineage(own.ID()) {
		return r.Version > own.Version
	}
	return r.Fleet() == own.Fleet() && r.Generation >= own.Generation
}

// best returns, of the records that match, the one at which most of the memories that it lists stand,
// and how many those are; of two, the newer one. Nil: those are no quorum of its seats. A record that
// names one seat needs one master to be in force, and most others show what is.
func (s *Survey) best(match func(r *Record) bool) (best *Record, most int) {
	for _, r := range s.settled() {
		n := len(s.Acceptors(r))
		if match(r) && (n > most || n == most && best != nil && r.newerThan(best.ID())) { //mutant:the-newest-record-at-a-start
			best, most = r, n
		}
	}
	if best == nil || most < best.Quorum() {
		return nil, 0
	}
	return best, most
}

// Prevailing is the record that a client goes by which starts, and has followed; nil: there is none.
func (s *Survey) Prevailing() *Record {
	r, _ := s.best(func(*Record) bool { return true })
	if r != nil {
		return cmp.Or(s.successor(r), r)
	}
	return nil
}

// belongsElsewhere is why a master cannot be a member that shows a record of another fleet.
const belongsElsewhere = "it belongs to another fleet"

// fleet is what a client without a record is led to by the masters that its settings name: the fleet
// that more than half of those show that have answered. A master that shows nothing counts for the
// fleet that has a seat at its address. The fleet is "" where nobody shows anything. Where masters show
// fleets, and none of them is the one of more than half, wrong says who belongs where.
func (s *Survey) fleet(o Options) (fleet, wrong string) {
	members, answered := make(map[string][]string), 0
	for _, f := range s.Reports {
		if f.ok() {
			answered++
			of := s.fleetOf(f, o)
			members[of] = append(members[of], f.master.Addr)
		}
	}
	if len(members[""]) == answered {
		return "", ""
	}
	for of, addrs := range members {
		if of != "" && 2*len(addrs) > answered { //mutant:a-minority-leads-to-another-fleet
			return of, ""
		}
	}
	return "", "the masters that the settings name lead to no fleet: more than half of those that answer would have to belong to one, and they belong: " + s.whoBelongs(members) +
		": name the masters of one fleet, as `redlockd members` prints them there; if a fleet is gone, run FLUSHALL on what is left of it"
}

// fleetOf names the fleet that a master leads to; "": none.
func (s *Survey) fleetOf(f *Report, o Options) string {
	of := f.shownID().fleet()
	if of != "" {
		return of
	}
	for _, other := range s.Reports {
		r := other.known()
		if !other.ok() || r == nil {
			continue
		}
		for one := range r.seats() {
			if o.MasterAt(one.Name, one.Addr).Addr == f.master.Addr {
				if of != "" && of != r.Fleet() {
					return ""
				}
				of = r.Fleet()
			}
		}
	}
	return of
}

// whoBelongs says which masters belong to which fleet, given their addresses by fleet, with the seats
// of each fleet.
func (s *Survey) whoBelongs(addrs map[string][]string) string {
	var parts []string
	for _, fleet := range slices.Sorted(maps.Keys(addrs)) {
		to := " to none"
		if fleet != "" {
			to = " to fleet " + fleet
		}
		if at := slices.IndexFunc(s.Reports, func(f *Report) bool { return f.ok() && f.known() != nil && f.known().Fleet() == fleet }); at >= 0 {
			to += " (" + seatNames(s.Reports[at].known()) + ")"
		}
		parts = append(parts, strings.Join(addrs[fleet], ", ")+to)
	}
	return strings.Join(parts, "; ")
}

// untaught are the masters that the record lists and that show an older one.
func (s *Survey) untaught(r *Record) (list []*Report) {
	for _, f := range s.Reports {
		if f.lists(r) && (f.State.fresh || f.State.Record != r.ID() && r.newerThan(f.State.Record)) {
			list = append(list, f)
		}
	}
	return list
}

// strays are the masters of the fleet that show what cannot be chosen any more, because r is in force
// and no child of it is under way. They cannot learn r.
func (s *Survey) strays(r *Record) (list []*Report) {
	for _, f := range s.Reports {
		if id := f.State.Record; f.ok() && !f.State.fresh && !f.foreign(r) && id != r.ID() && !r.newerThan(id) {
			list = append(list, f)
		}
	}
	return list
}

// unfinished tells whether somebody has begun a step from r: a memory has accepted a child of it, or
// has settled on one.
func (s *Survey) unfinished(r *Record) bool {
	return slices.ContainsFunc(s.Acceptors(r), func(f *Report) bool { return f.State.Child != "" || f.State.Record.Digest != r.Digest })
}
