package member

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
)

// A founding begins a lineage where no quorum of the listed memories is left: brand-new masters, or a
// majority that has forgotten. No protocol among memories can tell one that is dead from one that is
// elsewhere. So a founding trusts addresses: when the address of a seat shows another memory to one
// proxy, then no later than RecheckWithin afterwards nobody counts votes of the old one. It waits for that
// on top of the longest max_ttl that it knows of, which the wait of a founding before has on top, too: so
// foundings do not add up. (Silence.tla and Found.tla.)
//
// What remains: addresses that mean one Redis for some proxies and another for others, for longer than
// that. Where those and the masters that one side cannot reach are a majority of the seats, the other
// side may found a fleet of its own.

// Founding decides whether the survey allows one, and returns its record. base is the last record that
// is known of the fleet; nil: nothing is known of any, so the options name the seats. FoundingWait of
// the options is 0 where this client followed base until now: else locks of up to max_ttl may live.
//
// Nil: there is nothing to found, and why is ""; or it is not possible yet, and why says what is
// missing. Else why names the master whose word alone makes the wait so long: nobody can tell whether
// it lies.
func (s *Survey) Founding(base *Record, opts Options) (f *Record, why string) {
	f = Vacated(base, opts)
	reached, longest := 0, f.Wait                                   // the longest wait, and the longest that a max_ttl needs
	needed := max(f.Needed(opts.Drift), wholeMs(opts.FoundingWait)) //mutant:a-founding-forgets-founding_wait
	mayLive := func(ttl time.Duration) {
		if opts.FoundingWait > 0 {
			needed = max(needed, wholeMs(clock.QuarantineOf(ttl, opts.Drift))) //mutant:a-founding-trusts-a-ceiling-of-long-ago
		}
	}
	mayLive(f.MaxTTL)
	know := func(r *Record) {
		longest = max(longest, r.Wait)             //mutant:a-founding-forgets-a-longer-wait
		needed = max(needed, r.Needed(opts.Drift)) //mutant:a-founding-forgets-a-longer-max_ttl
		mayLive(r.MaxTTL)
	}
	others := make(map[string][]string) // names, by what keeps them from being members
	for one := range f.EachSeat() {
		a := s.At(one.Number)
		if !a.OK() {
			if a != nil && conn.IsRefused(a.Err) {
				others[conn.Shorten(a.Err).Error()] = append(others[conn.Shorten(a.Err).Error()], conn.Sanitize(one.Name))
			}
			continue
		}
		if base != nil && a.Foreign(base) || base == nil && !a.State.Fresh {
			reason := BelongsElsewhere
			if a.Known() == nil {
				reason = RecordIsGone
			}
			others[reason] = append(others[reason], conn.Sanitize(one.Name))
			continue
		}
		reached++
		f.Generation = max(f.Generation, a.State.Record.generation) //mutant:a-founding-whose-text-is-gone-is-forgotten
		if r := a.Known(); r != nil {
			f.Generation = max(f.Generation, r.Generation) //mutant:a-founding-before-is-forgotten
			know(r)
		}
		if a.Child != nil { // it may have been chosen //mutant:a-founding-forgets-the-wait-of-a-child
			know(a.Child)
		}
		one.Memory, one.State = a.State.Memory, Learner
	}
	f.Generation++
	quorum := f.Quorum()
	switch {
	case reached < quorum: //mutant:a-minority-founds
		why = fmt.Sprintf("%d of %d masters can be reached and may be members, %d are needed", reached, len(f.Seats), quorum)
		var reasons []string
		for _, reason := range slices.Sorted(maps.Keys(others)) {
			reasons = append(reasons, strings.Join(others[reason], ", ")+": "+reason)
		}
		if len(reasons) > 0 {
			why += " (" + strings.Join(reasons, "; ") + ")"
		}
		if len(others[BelongsElsewhere]) > 0 {
			why += ": run FLUSHALL on those of another fleet if that is gone, or name other masters"
		}
		return nil, why
	case base != nil && s.InForce(base): //mutant:founded-over-a-quorum-that-remembers
		return nil, ""
	}
	var whose []string // who remembers so long a wait
	for _, a := range s.Reports {
		if a.OK() && a.Known() != nil && a.Known().Wait == longest {
			whose = append(whose, conn.Sanitize(a.Master.SeatName()))
		}
	}
	if len(whose) == 1 && longest > needed {
		why = fmt.Sprintf("%s alone remembers that waits were %v", whose[0], longest)
	}
	needed += RecheckWithin(max(longest, needed)) //mutant:a-founding-trusts-addresses-at-once
	f.Wait = wholeMs(max(longest, needed))
	return f.Seal(), why
}

// Vacated is the record of a founding before anything is known of the masters: the seats of base, or
// those that the options name where base is nil, without memories.
func Vacated(base *Record, opts Options) *Record {
	f := &Record{MaxTTL: opts.MaxTTL.Truncate(time.Millisecond), Lineage: Nonce()}
	f.Ceiling = min(f.MaxTTL, opts.LowestCeiling())
	f.Wait = f.Needed(opts.Drift)
	if base == nil {
		for i, m := range opts.Masters {
			f.Seats = append(f.Seats, Seat{Number: i, Name: m.SeatName(), Addr: m.SeatAddr(), State: Vacant})
		}
		return f
	}
	f.Generation, f.Roster = base.Generation, base.Roster
	f.Lineage = base.Lineage[:FleetLen] + f.Lineage[FleetLen:]
	f.MaxTTL, f.Ceiling, f.Wait = base.MaxTTL, base.Ceiling, base.Wait
	for s := range base.EachSeat() {
		if s.State != Leaving {
			f.Seats = append(f.Seats, Seat{Number: s.Number, Name: s.Name, Addr: s.Addr, State: Vacant})
		}
	}
	return f
}

// RecordIsGone is why a master cannot be a member that shows a record whose text is not there, where
// nobody knows that record.
const RecordIsGone = "it shows a membership whose record is not there: see who writes to it; FLUSHALL on it has it start anew"

// Remains is the newest record of own's fleet that some master shows, or has of the memory before; own,
// if there is no newer one. Where own is nil, the record is of any fleet: the masters lead to one only
// (Survey.Fleet). One master's word counts here: what it can do is to name other seats, and to make the
// founding wait for longer.
func (s *Survey) Remains(own *Record) (newest *Record) {
	newest = own
	for _, f := range s.Reports {
		r := f.Known()
		if f.OK() && r != nil && r.SeatOf(f.Master) != nil && (newest == nil || r.Follows(newest)) { //mutant:the-seats-of-an-older-founding
			newest = r
		}
	}
	return newest
}

// Admit makes voters of those that were found.
func (r *Record) Admit(found []*Report, o Options) {
	for _, f := range found {
		if s := r.Lists(f.State.Memory); f.OK() && s != nil {
			s.State = Voter
		}
	}
	r.Wait = r.Needed(o.Drift)
}
