package redlock

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Which record a client goes by. One master never decides that: a record counts only as far as others stand behind it, and those others are
// counted at addresses that this client knew before, or, at a start, that its settings name.
//
// A record in force stays in force as long as a quorum of the memories that it lists stand at it: what follows it is chosen among them, by
// a step (member_step.go). A client that missed steps follows when a quorum of the seats that it knows stand at a newer record.
//
// A wrong guess costs votes, and no lock: a vote counts only where the master shows the record of the round.

// fleetLen is how many digits of a lineage name the fleet. They are drawn when the fleet is founded first, and later foundings keep them.
const fleetLen = nonceLen / 2

func (id recordID) sameFleet(o recordID) bool {
	return len(id.lineage) == nonceLen && len(o.lineage) == nonceLen && id.lineage[:fleetLen] == o.lineage[:fleetLen]
}

// fleet names the record's fleet.
func (r *record) fleet() string { return r.lineage[:fleetLen] }

// shows tells whether some master shows a record of the fleet.
func (s *survey) shows(fleet string) bool {
	return slices.ContainsFunc(s.found, func(f *found) bool { return strings.HasPrefix(f.shownID().lineage, fleet) })
}

// foreign tells whether the master shows a record of another fleet than r, or has shown it before it forgot.
func (f *found) foreign(r *record) bool {
	shows := f.shownID()
	return shows != recordID{} && !shows.sameFleet(r.recordID())
}

// shownID is the record that the master shows; for one that has forgotten, the one that the memory before it left; zero: none.
func (f *found) shownID() recordID {
	switch {
	case !f.ok():
		return recordID{}
	case !f.state.fresh:
		return f.state.record
	case f.record != nil:
		return f.record.recordID()
	}
	return recordID{}
}

// standsAt tells whether the master has settled on the record, or on a child of it, which it could do only after the record was chosen.
func (f *found) standsAt(r *record) bool {
	if !f.ok() || f.state.fresh {
		return false
	}
	return f.state.record.digest == r.digest || f.record != nil && f.record.parent == r.digest //mutant:versions-are-compared-without-digests
}

// acceptors are the memories that r lists, as far as they stand at it: those choose its child, and some may know already which one it is.
func (s *survey) acceptors(r *record) (list []*found) {
	for _, f := range s.found {
		if f.standsAt(r) && r.lists(f.state.memory) != nil { //mutant:a-memory-that-is-not-listed-supports
			list = append(list, f)
		}
	}
	return list
}

// inForce tells whether a quorum of the memories that r lists stand at it.
func (s *survey) inForce(r *record) bool { return len(s.acceptors(r)) >= r.quorum() }

// settled are the records that masters have settled on, as far as their texts are there.
func (s *survey) settled() (records []*record) {
	for _, f := range s.found {
		if f.ok() && !f.state.fresh && f.record != nil {
			records = append(records, f.record)
		}
	}
	return records
}

// successor returns the newest record that a quorum of own's seats stand at, if it is newer than own; nil: there is none. Memories are not
// compared: a seat whose master has forgotten, and was told of a record since, stands at that.
func (s *survey) successor(own *record) (newest *record) {
	for _, r := range s.settled() {
		switch {
		case !r.follows(own):
		case s.count(func(f *found) bool { return own.seat(f.place) != nil && f.standsAt(r) }) < own.quorum(): //mutant:a-record-of-a-minority-adopted
		case r.parent == own.digest && checkChild(own, r) != nil:
		case newest == nil || r.newerThan(newest.recordID()):
			newest = r
		}
	}
	return newest
}

// follows tells whether a client that goes by own may go on to r: to a later version, or to another founding of the fleet that is as late.
func (r *record) follows(own *record) bool {
	if r.recordID().sameLineage(own.recordID()) {
		return r.version > own.version
	}
	return r.recordID().sameFleet(own.recordID()) && r.generation >= own.generation
}

// best returns, of the records that match, the one at which most of the memories that it lists stand, and how many those are; of two, the newer
// one. Nil: those are no quorum of its seats. A record that names one seat needs one master to be in force, and most others show what is.
func (s *survey) best(match func(r *record) bool) (best *record, most int) {
	for _, r := range s.settled() {
		n := len(s.acceptors(r))
		if match(r) && (n > most || n == most && best != nil && r.newerThan(best.recordID())) { //mutant:the-newest-record-at-a-start
			best, most = r, n
		}
	}
	if best == nil || most < best.quorum() {
		return nil, 0
	}
	return best, most
}

// prevailing is the record that a client goes by which starts, and has followed; nil: there is none.
func (s *survey) prevailing() *record {
	r, _ := s.best(func(*record) bool { return true })
	if r != nil {
		return cmp.Or(s.successor(r), r)
	}
	return nil
}

// belongsElsewhere is why a master cannot be a member that shows a record of another fleet.
const belongsElsewhere = "it belongs to another fleet"

// fleet is what a client without a record is led to by the masters that its settings name: the fleet that more than half of those show that
// have answered. A master that shows nothing counts for the fleet that has a seat at its address. The fleet is "" where nobody shows
// anything. Where masters show fleets, and none of them is the one of more than half, wrong says who belongs where.
func (s *survey) fleet(o memberOptions) (fleet, wrong string) {
	members, answered := make(map[string][]string), 0
	for _, f := range s.found {
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
	var parts []string
	for _, of := range slices.Sorted(maps.Keys(members)) {
		addrs := strings.Join(members[of], ", ")
		switch {
		case of == "":
			parts = append(parts, addrs+" to none")
		default:
			parts = append(parts, fmt.Sprintf("%s to fleet %s%s", addrs, of, s.seatsOfFleet(of)))
		}
	}
	return "", "the masters that the settings name lead to no fleet: more than half of those that answer would have to belong to one, and they belong: " + strings.Join(parts, "; ") +
		": name the masters of one fleet, as `redlockd members` prints them there; if a fleet is gone, run FLUSHALL on what is left of it"
}

// fleetOf names the fleet that a master leads to; "": none.
func (s *survey) fleetOf(f *found, o memberOptions) string {
	if id := f.shownID(); len(id.lineage) == nonceLen {
		return id.lineage[:fleetLen]
	}
	of := ""
	for _, other := range s.found {
		if !other.ok() || other.record == nil {
			continue
		}
		r := other.record
		for i := range r.seats {
			if one := &r.seats[i]; o.masterAt(one.name, one.addr).Addr == f.master.Addr {
				if of != "" && of != r.fleet() {
					return ""
				}
				of = r.fleet()
			}
		}
	}
	return of
}

// seatsOfFleet names the seats of a fleet, for people.
func (s *survey) seatsOfFleet(fleet string) string {
	for _, f := range s.found {
		if f.ok() && f.record != nil && f.record.fleet() == fleet {
			return " (" + seatNames(f.record) + ")"
		}
	}
	return ""
}

// untaught are the masters that the record lists and that show an older one.
func (s *survey) untaught(r *record) (list []*found) {
	for _, f := range s.found {
		if f.lists(r) && (f.state.fresh || f.state.record != r.recordID() && r.newerThan(f.state.record)) {
			list = append(list, f)
		}
	}
	return list
}

// strays are the masters of the fleet that show what cannot be chosen any more, because r is in force and no child of it is under way. They
// cannot learn r.
func (s *survey) strays(r *record) (list []*found) {
	for _, f := range s.found {
		if id := f.state.record; f.ok() && !f.state.fresh && !f.foreign(r) && id != r.recordID() && !r.newerThan(id) {
			list = append(list, f)
		}
	}
	return list
}

// unfinished tells whether somebody has begun a step from r: a memory has accepted a child of it, or has settled on one.
func (s *survey) unfinished(r *record) bool {
	return slices.ContainsFunc(s.acceptors(r), func(f *found) bool { return f.state.child != "" || f.state.record.digest != r.digest })
}
