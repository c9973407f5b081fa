package redlock

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// What follows from a survey: which record is in force, which memories have to be told of it, what the next record is, and whether the
// membership has to be founded anew. It is pure: no clock, no I/O.

// fleetLen is how many digits of a lineage name the fleet, and stay the same over foundings. They come from the names of the masters that it
// began with, so that two clients that found it at the same time found the same fleet.
const fleetLen = nonceLen / 2

func fleetOf(masters []Master) string {
	var names []string
	for _, m := range masters {
		names = append(names, m.name())
	}
	slices.Sort(names)
	return recordDigest(strings.Join(names, "\n"))[:fleetLen]
}

func (id recordID) sameFleet(o recordID) bool {
	return len(id.lineage) == nonceLen && len(o.lineage) == nonceLen && id.lineage[:fleetLen] == o.lineage[:fleetLen]
}

// foreign tells whether the master shows a record of another fleet than r.
func (f *found) foreign(r *record) bool {
	return f.ok() && !f.state.fresh && !f.state.record.sameFleet(r.recordID())
}

// support is how many memories that the record lists show it, or have accepted it.
func (s *survey) support(r *record) int {
	return s.count(func(f *found) bool {
		return f.ok() && r.lists(f.state.memory) != nil && (f.state.record == r.recordID() || f.state.child == r.digest) //mutant:a-memory-that-is-not-listed-supports
	})
}

// newest returns the newest record that a quorum supports, if it is newer than own (nil: none is known), or nil. One of another founding is
// newer where own has no such support: two foundings cannot have it, at the same addresses. What fewer show may be somebody's
// invention, and counts only where no record has a quorum (told). A wrong guess costs votes, and nothing else: votes count only where the
// master shows the same record.
func (s *survey) newest(own *record) (newest *record) {
	newest = s.supported(own)
	if newest == nil && (own == nil || s.support(own) < own.quorum()) { //mutant:a-record-that-few-were-told-of-is-lost
		return s.told(own)
	}
	return newest
}

// supported is newest without those that fewer show. It is right also before all have answered.
func (s *survey) supported(own *record) (newest *record) {
	for _, f := range s.found {
		r := f.record
		other := own != nil && r != nil && !r.recordID().sameLineage(own.recordID())
		switch {
		case !f.ok() || f.state.fresh || r == nil || s.support(r) < r.quorum(): //mutant:a-record-of-a-minority-adopted
		case other && (!r.recordID().sameFleet(own.recordID()) || s.support(own) >= own.quorum()):
		case own != nil && !other && r.version <= own.version:
		case newest == nil || r.newerThan(newest.recordID()):
			newest = r
		}
	}
	return newest
}

// told returns the newest record that a memory which it lists has settled on, if a quorum of the memories that it lists is there; nil: there is
// none. A memory settles on what was chosen, and on nothing else. It may be that only few were told of it, and that a memory which chose it, and
// which it does not list any more, has forgotten: then no record has a quorum. What so many have not accepted that it cannot have been chosen is
// somebody's invention.
func (s *survey) told(own *record) (newest *record) {
	for _, f := range s.found {
		r := f.record
		switch {
		case r != nil && s.against(r) > len(r.seats)-r.quorum():
		case r == nil || !f.shows(r) || s.count(func(f *found) bool { return f.lists(r) }) < r.quorum():
		case own != nil && (!r.recordID().sameLineage(own.recordID()) || r.version <= own.version):
		case newest == nil || r.newerThan(newest.recordID()):
			newest = r
		}
	}
	return newest
}

// against is how many of those that could have chosen the record, as far as it lists them, have not accepted it: memories that were listed before,
// and of a founding all.
func (s *survey) against(r *record) int {
	return s.count(func(f *found) bool {
		if !f.lists(r) || f.state.child == r.digest {
			return false
		}
		return !f.shows(r) && (r.founds() || r.seat(f.place).since < r.version) //mutant:what-was-not-chosen-is-taken-for-chosen
	})
}

// ahead returns what is wrong where a master shows a newer record than the one in force, which no quorum supports; "": nothing.
func (s *survey) ahead(own *record) string {
	for _, f := range s.found {
		if f.ok() && !f.state.fresh && own != nil && f.state.record.sameLineage(own.recordID()) && f.state.record.version > own.version {
			return fmt.Sprintf("%s shows version %d of the membership, and a majority of the masters does not know it: see who writes to it; FLUSHALL on it has it start anew",
				f.master.Addr, f.state.record.version)
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

// astray are the masters that show a record of another founding, of as high a generation, where a quorum shows r. They cannot learn r, and no
// other quorum can go by what they show.
func (s *survey) astray(r *record) (list []*found) {
	for _, f := range s.found {
		if id := f.state.record; f.ok() && !f.state.fresh && !f.foreign(r) && id.generation >= r.generation && id.lineage != r.lineage {
			list = append(list, f)
		}
	}
	return list
}

// unfinished tells whether some memory has accepted a child of the record: somebody has begun a step, and may have died.
func (s *survey) unfinished(r *record) bool {
	return s.count(func(f *found) bool { return f.shows(r) && f.state.child != "" }) > 0
}

// decision is what the next record changes.
type decision struct {
	child *record
	// changes are for the log, one for each seat.
	changes []string
	// asked tells that an operator asks for it.
	asked bool
	// raise are the places that must know the fences of before when the child is chosen.
	raise []int
	// problem says which seat does not vote although its wait is over; "": none.
	problem string
}

func (d *decision) change(format string, args ...any) {
	d.changes = append(d.changes, fmt.Sprintf(format, args...))
}

// situation is what a decision depends on besides the survey.
type situation struct {
	record *record
	survey *survey
	// left is how much of a wait is left, by the name of its timer: stampField or ttlStampField.
	left func(timer string) time.Duration
	// patience is for how long a memory counts as heard that some client has heard.
	patience time.Duration
	// paused tells whether a seat has to wait before another memory is listed there.
	paused func(place int) bool
	// wall is what this machine's clock says.
	wall time.Time
	// skew is Options.ClockSkewMax.
	skew time.Duration
}

// timersOf are the waits that run under a record.
func timersOf(r *record) (timers []string) {
	for i := range r.seats {
		if s := &r.seats[i]; s.state == seatLearner || s.state == seatLeaving {
			timers = append(timers, r.stampField(s))
		}
	}
	if r.wait > r.plainWait {
		timers = append(timers, r.ttlStampField())
	}
	return timers
}

// next decides what the next record is, as far as no operator asks for anything. No change: the child is nil.
//
// Neither silence of a master nor its clock is a reason for a change: both may be faults of this machine, and a change is for everybody. The
// reasons are another memory at the address, and a wait that is over.
func (n *situation) next() decision {
	r := n.record
	d := decision{child: r.child()}
	child := d.child
	removed := false
	child.seats = slices.DeleteFunc(child.seats, func(s seat) bool {
		gone := s.state == seatLeaving && n.left(r.stampField(&s)) <= 0 //mutant:a-seat-is-removed-before-the-wait
		if gone {
			d.change("%s is removed", shown(s.name))
			removed = true
		}
		return gone
	})
	if removed {
		child.roster++
	}
	for i := range child.seats {
		s := &child.seats[i]
		f := n.survey.at(s.number)
		switch {
		case s.state == seatLeaving || f == nil || !f.ok():
		case f.state.memory != s.memory:
			if f.foreign(r) || n.paused(s.number) || r.lists(f.state.memory) != nil || n.survey.heard(r, s, n.patience) {
				continue
			}
			d.change("%s has another memory, and becomes a learner", shown(s.name))
			s.memory, s.state, s.since = f.state.memory, seatLearner, child.version
		case s.state == seatLearner && f.shows(r) && n.left(r.stampField(s)) <= 0: //mutant:a-learner-votes-before-the-wait
			if floor, _ := n.floor(); floor > fenceTime(f.clock.Add(fenceAheadMax)) { // others must not wait for it //mutant:one-clock-that-is-behind-keeps-all-from-voting
				d.problem = n.tooFarBehind(f)
				continue
			}
			d.change("%s votes", shown(s.name))
			s.state = seatVoter
			d.raise = append(d.raise, s.number)
		}
	}
	if child.wait > child.plainWait && n.left(r.ttlStampField()) <= 0 { //mutant:the-wait-is-lowered-at-once
		d.change("the wait is %v", child.plainWait)
		child.wait = child.plainWait
	}
	if removed { // a smaller quorum must not miss what the larger one knew //mutant:a-smaller-quorum-knows-no-fences
		told := 0
		var silent []int
		for i := range child.seats {
			switch s := &child.seats[i]; {
			case s.state != seatVoter:
			case n.survey.at(s.number) == nil || !n.survey.at(s.number).shows(r): //mutant:a-dead-voter-keeps-a-seat-that-leaves
				silent = append(silent, s.number)
			default:
				told++
				if !slices.Contains(d.raise, s.number) {
					d.raise = append(d.raise, s.number)
				}
			}
		}
		if told+child.quorum() <= len(child.seats) { // the others alone could be a quorum //mutant:a-quorum-that-was-not-told-of-fences
			d.raise = append(d.raise, silent...) // the removal waits for them
		}
	}
	if len(d.changes) == 0 {
		d.child = nil
	}
	return d
}

// floor is the highest fence that the voters of the record have accepted, which a seat must know before it votes. Of any quorum of them at least
// one knows each fence that was given. So a voter that shows more than a proxy believes is left out where the others are a quorum. cold: fewer than a quorum of them are reached, so nobody knows, and the floor is taken from this machine's clock.
func (n *situation) floor() (floor int64, cold bool) {
	voters, believed, highest := 0, 0, int64(0)
	for _, f := range n.survey.found {
		if !f.shows(n.record) || n.record.seat(f.place).state != seatVoter {
			continue
		}
		voters++
		highest = max(highest, f.high)
		if f.high <= highestBelieved(n.wall, n.skew) {
			believed++
			floor = max(floor, f.high)
		}
	}
	if believed < n.record.quorum() { //mutant:one-voter-moves-all-floors
		floor = highest
	}
	if cold = voters < n.record.quorum(); cold {
		floor = max(floor, fenceTime(n.wall.Add(2*n.skew))) //mutant:cold-floor-too-low
	}
	return floor, cold //mutant:floor-not-relearned
}

// tooFarBehind says of a master that the floor of its fences would be too far ahead of its clock.
func (n *situation) tooFarBehind(f *found) string {
	return fmt.Sprintf("%s gets no vote from here: it must refuse all fences of before, and these are more than %v ahead of its clock. "+
		"The clock of this machine less that of %[1]s is %[3]v: correct the one that is wrong", f.master.Addr, fenceAheadMax, n.wall.Sub(f.clock).Round(time.Minute))
}

// recheckWithin is within what time each proxy makes sure that the address of a master still means the memory that it counts votes of. It needs
// a new connection to each master twice in that time. A founding waits for it; a master that takes no connection for so long loses its vote.
func recheckWithin(wait time.Duration) time.Duration {
	return min(max(time.Second, wait/4), 3*time.Second)
}

// A founding begins a lineage where no quorum of the listed memories is left: brand-new masters, or a majority that has forgotten. No
// protocol among memories can tell one that is dead from one that is elsewhere. So a founding trusts addresses: when the address of a seat
// shows another memory to one proxy, then no later than recheckWithin afterwards nobody counts votes of the old one. A process that shows
// a new memory has proved that its old one is gone, and there is nothing to wait for.
//
// What remains: addresses that mean one Redis for some proxies and another for others, for longer than that. Where those and the
// masters that one side cannot reach are a majority of the seats, the other side may found a fleet of its own.

// founding decides whether the survey allows one, and returns its record. base is the record that this client has seen in force; nil: it
// has not seen any, so its options name the seats. FoundingWait of the options is 0 where base was in force until now.
//
// Nil: there is nothing to found, and why is ""; or it is not possible yet, and why says what is missing.
func (s *survey) founding(base *record, opts Options) (f *record, why string) {
	if base == nil {
		base = s.remains()
	}
	f = vacated(base, opts)
	listed, dead, reached := 0, 0, 0
	others := make(map[string][]string) // names, by what keeps them from being members
	for i := range f.seats {
		one := &f.seats[i]
		a := s.at(one.number)
		if a == nil || !a.ok() {
			if a != nil && isRefused(a.err) {
				others[concise(a.err).Error()] = append(others[concise(a.err).Error()], shown(one.name))
			}
			continue
		}
		if base != nil && a.foreign(base) || base == nil && !a.state.fresh {
			reason := belongsElsewhere
			if a.record == nil {
				reason = recordIsGone
			}
			others[reason] = append(others[reason], shown(one.name))
			continue
		}
		reached++
		f.generation = max(f.generation, a.state.record.generation)
		if a.record != nil { // also that of a memory before
			f.generation = max(f.generation, a.record.generation)
			f.wait = max(f.wait, a.record.wait) //mutant:a-founding-forgets-a-longer-wait
		}
		if a.child != nil && !a.child.founds() { // it may have been chosen
			f.wait = max(f.wait, a.child.wait)
		}
		if base != nil {
			switch before := base.seat(one.number).memory; {
			case before == a.state.memory:
				listed++
			case before != "" && sameProcess(before, a.state.memory):
				dead++
			}
		}
		one.memory, one.state = a.state.memory, seatLearner
	}
	f.generation++
	quorum := f.quorum()
	switch {
	case reached < quorum: //mutant:a-minority-founds
		why = fmt.Sprintf("%d of %d masters can be reached and may be members, %d are needed", reached, len(f.seats), quorum)
		var reasons []string
		for _, reason := range slices.Sorted(maps.Keys(others)) {
			reasons = append(reasons, strings.Join(others[reason], ", ")+": "+reason)
		}
		if len(reasons) > 0 {
			why += " (" + strings.Join(reasons, "; ") + ")"
		}
		return nil, why
	case base != nil && listed >= base.quorum(): //mutant:founded-over-a-quorum-that-remembers
		return nil, ""
	case s.ahead(base) != "":
		return nil, s.ahead(base)
	}
	if dead < quorum { //mutant:a-founding-trusts-addresses-at-once
		f.wait += recheckWithin(f.wait)
	}
	f.wait = wholeMs(f.wait)
	return f.seal(), ""
}

// vacated is the record of a founding before anything is known of the masters: the seats of base, or those that the options name where base is
// nil, without memories.
func vacated(base *record, opts Options) *record {
	f := &record{maxTTL: opts.MaxTTL.Truncate(time.Millisecond), lineage: nonce()}
	f.plainWait = wholeMs(quarantineOf(opts.MaxTTL, opts.drift()))
	f.wait = max(f.plainWait, wholeMs(opts.FoundingWait)) //mutant:a-founding-forgets-founding_wait
	if base == nil {
		f.lineage = fleetOf(opts.Masters) + f.lineage[fleetLen:]
		for i, m := range opts.Masters {
			f.seats = append(f.seats, seat{number: i, name: m.name(), addr: m.seatAddr(), state: seatVacant})
		}
		return f
	}
	f.generation, f.roster = base.generation, base.roster
	f.lineage = base.lineage[:fleetLen] + f.lineage[fleetLen:]
	f.maxTTL, f.plainWait, f.wait = base.maxTTL, base.plainWait, max(f.wait, base.wait)
	for i := range base.seats {
		if b := base.seats[i]; b.state != seatLeaving {
			b.memory, b.state, b.since = "", seatVacant, 0
			f.seats = append(f.seats, b)
		}
	}
	return f
}

// belongsElsewhere is why a master cannot be a member that shows a record of another fleet.
const belongsElsewhere = "it belongs to another fleet"

// recordIsGone is why a master cannot be a member that shows a record whose text is not there, where nobody knows that record.
const recordIsGone = "it shows a membership whose record is not there: see who writes to it; FLUSHALL on it has it start anew"

// foundedSince tells whether some master shows, or has of the memory before, a record of a later founding of the same fleet.
func (s *survey) foundedSince(own *record) bool {
	return s.count(func(f *found) bool {
		return f.ok() && f.record != nil && f.record.generation > own.generation && f.record.recordID().sameFleet(own.recordID())
	}) > 0
}

// remains is the newest record that some master shows, or has of the memory before; nil: there is none.
func (s *survey) remains() (newest *record) {
	for _, f := range s.found {
		if f.ok() && f.record != nil && f.record.seatNamed(f.master.name()) != nil && (newest == nil || f.record.newerThan(newest.recordID())) {
			newest = f.record
		}
	}
	return newest
}

func wholeMs(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// sameProcess tells whether two memories are of one process: then the older one is gone.
func sameProcess(a, b string) bool {
	return memberState{memory: a}.runID() == memberState{memory: b}.runID()
}

// heard tells whether some client has heard the memory that r lists for a seat lately, although the survey has not found it: the address means
// another master there. This protects no lock; it keeps a client whose names mean other masters from taking votes for everybody. A client that
// goes by another record may hear a memory which that one lists; it says so only on masters that show its record.
func (s *survey) heard(r *record, one *seat, within time.Duration) bool {
	a := s.at(one.number)
	if !one.state.occupied() || a != nil && a.ok() && (a.state.memory == one.memory || sameProcess(a.state.memory, one.memory)) {
		return false
	}
	return s.count(func(f *found) bool {
		at, ok := f.stamp(heardField(one.number))
		if f.ok() && f.state.record != r.recordID() { //mutant:a-proxy-that-is-behind-vetoes
			return false
		}
		return f.ok() && ok && f.clock.Sub(at) < within //mutant:a-memory-that-is-heard-is-replaced
	}) > 0
}

// heardElsewhere returns the name of a seat whose listed memory is heard by others; "": there is none.
func (s *survey) heardElsewhere(base *record, within time.Duration) string {
	for i := range base.seats {
		if s.heard(base, &base.seats[i], within) { //mutant:a-founding-over-who-is-heard
			return base.seats[i].name
		}
	}
	return ""
}

// jitter spreads what several proxies would do at the same moment.
func jitter(d time.Duration) time.Duration { return rand.N(d) + 1 }
