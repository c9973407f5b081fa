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
// follows it is chosen among them, by a step (survey/step.go). A client that missed steps follows when a
// quorum of the seats that it knows stand at a newer record.
//
// A wrong guess costs votes, and no lock: a vote counts only where the master shows the record of the
// round.

// Showing is how many masters show a record of the fleet.
func (s *Survey) Showing(fleet string) int {
	return s.Count(func(f *Report) bool { return f.ShownID().Fleet() == fleet })
}

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

// InForce tells whether a quorum of the memories that r lists stand at it.
func (s *Survey) InForce(r *Record) bool { return len(s.Acceptors(r)) >= r.Quorum() }

// Stay is how many of the memories that r lists stand at it, and not at next: those that have gone on
// speak for next, which may need fewer of them.
func (s *Survey) Stay(r, next *Record) (n int) {
	for _, f := range s.Acceptors(r) {
		if !f.standsAt(next) { //mutant:who-has-gone-on-counts-as-staying
			n++
		}
	}
	return n
}

// Settled are the records that masters have settled on, as far as their texts are there.
func (s *Survey) Settled() (records []*Record) {
	for _, f := range s.Reports {
		if f.OK() && f.Record != nil {
			records = append(records, f.Record)
		}
	}
	return records
}

// Successor returns the newest record that a quorum of own's seats stand at, if it is newer than own;
// nil: there is none. Memories are not compared: a seat whose master has forgotten, and was told of a
// record since, stands at that.
func (s *Survey) Successor(own *Record) (newest *Record) {
	for _, r := range s.Settled() {
		switch {
		case !r.Follows(own):
		case s.Count(func(f *Report) bool { return own.Seat(f.Place) != nil && f.standsAt(r) }) < own.Quorum(): //mutant:a-record-of-a-minority-adopted
		case r.Parent == own.Digest && CheckChild(own, r) != nil:
		case newest == nil || r.NewerThan(newest.ID()):
			newest = r
		}
	}
	return newest
}

// Follows tells whether a client that goes by own may go on to r: to a later version, or to another
// founding of the fleet that is as late.
func (r *Record) Follows(own *Record) bool {
	if r.ID().SameLineage(own.ID()) {
		return r.Version > own.Version
	}
	return r.Fleet() == own.Fleet() && r.Generation >= own.Generation
}

// Best returns, of the records that match, the one at which most of the memories that it lists stand,
// and how many those are; of two, the newer one. Nil: those are no quorum of its seats. A record that
// names one seat needs one master to be in force, and most others show what is.
func (s *Survey) Best(match func(r *Record) bool) (best *Record, most int) {
	for _, r := range s.Settled() {
		n := len(s.Acceptors(r))
		if match(r) && (n > most || n == most && best != nil && r.NewerThan(best.ID())) { //mutant:the-newest-record-at-a-start
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
	r, _ := s.Best(func(*Record) bool { return true })
	if r != nil {
		return cmp.Or(s.Successor(r), r)
	}
	return nil
}

// BelongsElsewhere is why a master cannot be a member that shows a record of another fleet.
const BelongsElsewhere = "it belongs to another fleet"

// Fleet is what a client without a record is led to by the masters that its settings name: the fleet to
// which more than half of those belong that answer, or have a seat. A master that shows nothing, or is
// silent, belongs to the fleet that has a seat at its address, and a silent one to the fleet that has
// replaced it there. Any other that is silent may belong to any, so one master alone leads to no fleet
// beside such. The fleet is "" where nobody shows anything. Where masters show fleets, and lead to none,
// wrong says who belongs where.
func (s *Survey) Fleet(o Options) (fleet, wrong string) {
	members := make(map[string][]string)
	var silent []string
	for _, f := range s.Reports {
		if of := s.fleetOf(f, o); of == "" && !f.OK() {
			silent = append(silent, f.Master.Addr)
		} else {
			members[of] = append(members[of], f.Master.Addr)
		}
	}
	known := len(s.Reports) - len(silent)
	if len(members[""]) == known {
		return "", ""
	}
	for of, addrs := range members {
		if of != "" && 2*len(addrs) > known && (len(addrs) > 1 || len(silent) == 0) { //mutant:a-minority-leads-to-another-fleet
			return of, ""
		}
	}
	wrong = "the masters that the settings name lead to no fleet: more than half of those that answer, and more than one where others are silent, would have to belong to one, and they belong: " + s.WhoBelongs(members)
	if len(silent) > 0 {
		wrong += "; without an answer: " + strings.Join(silent, ", ")
	}
	return "", wrong + ": name the masters of one fleet, as `redlockd members` prints them there; if a fleet is gone, run FLUSHALL on what is left of it"
}

// fleetOf names the fleet that a master leads to; "": none.
func (s *Survey) fleetOf(f *Report, o Options) string {
	of := f.ShownID().Fleet()
	if of != "" {
		return of
	}
	for _, other := range s.Reports {
		r := other.Known()
		if !other.OK() || r == nil {
			continue
		}
		for one := range r.EachSeat() {
			// A seat without a name of its own is called by the address that it had first.
			if o.MasterAt(one.Name, one.Addr).Addr == f.Master.Addr || !f.OK() && one.Name == f.Master.Addr {
				if of != "" && of != r.Fleet() {
					return ""
				}
				of = r.Fleet()
			}
		}
	}
	return of
}

// WhoBelongs says which masters belong to which fleet, given their addresses by fleet, with the seats
// of each fleet.
func (s *Survey) WhoBelongs(addrs map[string][]string) string {
	var parts []string
	for _, fleet := range slices.Sorted(maps.Keys(addrs)) {
		to := " to none"
		if fleet != "" {
			to = " to fleet " + fleet
		}
		if at := slices.IndexFunc(s.Reports, func(f *Report) bool { return f.Known() != nil && f.Known().Fleet() == fleet }); at >= 0 {
			to += " (" + SeatNames(s.Reports[at].Known()) + ")"
		}
		parts = append(parts, strings.Join(addrs[fleet], ", ")+to)
	}
	return strings.Join(parts, "; ")
}

// Untaught are the masters that the record lists and that show an older one.
func (s *Survey) Untaught(r *Record) (list []*Report) {
	for _, f := range s.Reports {
		if f.lists(r) && r.NewerThan(f.State.Record) {
			list = append(list, f)
		}
	}
	return list
}

// Strays are the masters of the fleet that show what cannot be chosen any more, because r is in force
// and no child of it is under way. They cannot learn r.
func (s *Survey) Strays(r *Record) (list []*Report) {
	for _, f := range s.Reports {
		if id := f.State.Record; f.OK() && !f.Foreign(r) && id != r.ID() && !r.NewerThan(id) {
			list = append(list, f)
		}
	}
	return list
}

// Unfinished tells whether somebody has begun a step from r: a memory has accepted a child of it, or
// has settled on one.
func (s *Survey) Unfinished(r *Record) bool {
	return slices.ContainsFunc(s.Acceptors(r), func(f *Report) bool { return f.State.Child != "" || f.State.Record.Digest != r.Digest })
}

// OfAnotherFleet says which other fleet than that of r the master belongs to, also if that is idle; "":
// to none.
func (f *Report) OfAnotherFleet(r *Record) string {
	switch {
	case f.Before != nil && f.Before.Fleet() != r.Fleet(): //mutant:a-master-that-belonged-to-another-fleet-is-seated
		return "before it restarted it belonged to another fleet, whose masters are " + SeatNames(f.Before)
	case f.Foreign(r) && f.Record == nil:
		return BelongsElsewhere
	case f.Foreign(r): //mutant:a-master-of-another-fleet-is-seated
		return BelongsElsewhere + ", whose masters are " + SeatNames(f.Record)
	}
	return ""
}

// Newest is the newest record that a master shows, or has of the memory before; own, if there is no
// newer one.
func (s *Survey) Newest(own *Record) *Record {
	for _, f := range s.Reports {
		if r := f.Known(); f.OK() && r != nil && (own == nil || r.NewerThan(own.ID())) {
			own = r
		}
	}
	return own
}
