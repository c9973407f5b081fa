package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/member"
	"redlockd/redlock/member/survey"
)

// A refounding is for the loss of a majority for good, when no quorum of the record's seats comes back,
// so that nobody can choose a child of it, and no redlockd founds anew. An operator names the masters
// that are to be the fleet from then on. It is a founding (member.Survey.Founding) with other seats: of the
// same fleet, so that clients which reach one master that was a member before follow by themselves.
//
// Why no two locks are valid at once: fewer than a quorum of the old seats are reached, and the
// operator's word is that the others are gone. So no vote of theirs counts from then on, and no client
// gathers a quorum under the old record, nor chooses a child of it. A memory that both records list
// leaves the old one for good when it accepts the founding. What was granted before is over when the
// new members vote: they are learners until the longest wait that anybody may have to wait for has
// passed, with RecheckWithin for addresses that mean other masters since.
//
// With the seats of before it is the founding that a redlockd would make by itself, when it has waited
// for those that are silent (member/silence.go): then a majority may be reached, but none that remembers.
//
// What remains is that word: machines that are given up, and that answer again with what they remember,
// can be a quorum of the old record. And masters that have missed how the others went on to further
// machines show neither that record nor its seats.

// Refounding is what a refounding does.
type Refounding struct {
	// Already: the membership has these masters, and a quorum of them is reached. Any redlockd whose
	// settings name them goes on with it.
	Already bool
	// Members are the seats from then on. A learner votes after the wait. A vacant seat waits for its
	// master, and Reason is why.
	Members []member.SeatInfo
	// Lost are the seats of before whose masters are given up, with what they remember.
	Lost []member.SeatInfo
	// Wait is for how long no lock is granted. It begins when a redlockd sees the new membership.
	Wait time.Duration
}

// Refound is redlock.Refound, with options that are valid.
func Refound(ctx context.Context, opts member.Options, dryRun bool) (*Refounding, error) {
	reads := opts
	reads.ReadOnly = true //mutant:what-is-not-refounded-is-written-to
	s, _, _, plan, err := refounding(ctx, reads)
	s.Close()
	if err != nil || plan.Already || dryRun { //mutant:a-dry-run-refounds
		return plan, err
	}
	s, base, f, plan, err := refounding(ctx, opts)
	if err != nil {
		s.Close()
		return nil, err
	}
	defer s.Close()
	if plan.Already {
		return plan, nil
	}
	ctx, cancel := context.WithTimeout(ctx, member.StepTimeout)
	defer cancel()
	chosen, err := s.Step(ctx, nil, f)
	if err != nil {
		return nil, fmt.Errorf("refound: the same command again finishes what this one has begun: %w", err)
	}
	s.Teach(ctx, chosen.Among(s.Reports), chosen)
	switch taught := s.Count(func(f *member.Report) bool { return f.Taught }); {
	case taught < chosen.Quorum(): //mutant:refounded-and-nobody-is-told
		return nil, fmt.Errorf("refound: it is chosen, and %d of %d masters were told: repeat the command", taught, len(chosen.Seats))
	case !names(opts, chosen):
		return nil, fmt.Errorf("refound: the masters have finished another one that was begun before, with %s: `redlockd members replace` changes that", member.SeatNames(chosen))
	}
	return refoundingTo(opts, chosen, base, s.Survey), nil
}

// refounding asks the masters, and returns the founding to propose over base; a nil one where there is
// nothing to do. The caller closes the survey.
func refounding(ctx context.Context, o member.Options) (s *survey.Masters, base, f *member.Record, plan *Refounding, err error) {
	s = survey.Ask(ctx, o.Places(), survey.Patience{Enough: len(o.Masters)}, o)
	refuse := func(format string, args ...any) (*survey.Masters, *member.Record, *member.Record, *Refounding, error) {
		return s, nil, nil, nil, fmt.Errorf("refound: nothing was changed: "+format, args...)
	}
	of := make(map[string][]string) // the fleets, and who shows them
	for _, m := range s.Reports {
		if fleet := m.ShownID().Fleet(); fleet != "" {
			of[fleet] = append(of[fleet], m.Master.Addr)
		}
		if m.OK() && m.State.Fresh && m.Before == nil && m.Child == nil && m.Keys > 0 { //mutant:a-master-with-keys-is-refounded
			return refuse("%s holds %d keys, and was no member: name another master, or run FLUSHALL on it", m.Master.Addr, m.Keys)
		}
	}
	if len(of) > 1 { //mutant:two-fleets-are-refounded-as-one
		return refuse("the masters belong to different fleets: %s; name the masters of one, or run FLUSHALL on what is left of one that is gone", s.WhoBelongs(of))
	}
	next := s.Newest(nil)
	if next == nil {
		return refuse("%d of %d masters can be reached, and none shows a membership: redlockd bootstrap is for new masters, and a server founds one by itself",
			s.Count((*member.Report).OK), len(o.Masters))
	}
	var before *member.Record
	var reached []string
	stand := 0
	for base != next { // who was a member may know of a newer record, of further seats
		base, reached, stand = next, nil, 0
		before = member.Vacated(base, o)
		reads := o
		reads.ReadOnly = true
		members := survey.Ask(ctx, o.PlacesOf(before), survey.Patience{Enough: len(before.Seats)}, reads)
		members.Close()
		for _, m := range members.Reports {
			if m.OK() && !m.Foreign(base) {
				reached = append(reached, conn.Sanitize(before.Seat(m.Place).Name))
			}
			if m.MayStandAt(base) {
				stand++
			}
		}
		next = members.Newest(base) //mutant:refounded-over-what-a-member-shows
	}
	switch majority := len(reached) >= before.Quorum(); {
	case majority && names(o, base) && stand >= base.Quorum():
		return s, base, nil, &Refounding{Already: true}, nil
	case majority && names(o, base): // a redlockd would found the same, when it has waited for those that are silent //mutant:refound-does-not-end-a-silence
	case majority: //mutant:refounded-over-a-quorum-of-seats
		return refuse("%d of %d masters of the membership can be reached, which is a majority: %s. Change it with `redlockd members replace` and `remove`; "+
			"if so many have forgotten that no lock is granted, name %s: that founds it anew at once",
			len(reached), len(before.Seats), strings.Join(reached, ", "), member.SeatNames(before))
	}
	asked := *base
	asked.Roster, asked.Seats = base.Roster+1, member.Vacated(nil, o).Seats
	for i := range asked.Seats {
		one := &asked.Seats[i]
		if b := base.SeatNamed(one.Name); b != nil && o.MasterAt(b.Name, b.Addr).FullAddr() == o.Masters[i].FullAddr() {
			one.Addr = b.Addr
		} else if b != nil { // for every client, whatever its settings say of the name
			one.Addr = o.Masters[i].FullAddr() //mutant:a-refounded-name-means-two-machines
			if o.Masters[i].Name == "" {       // settings may call another address so by now
				one.Name = fmt.Sprintf("%s-%d", one.Name, base.Generation+1) //mutant:a-refounded-seat-returns-to-its-name
			}
		}
	}
	f, why := s.Founding(asked.Seal(), o)
	if f == nil {
		return refuse("%s: start them, or name others", why)
	}
	return s, base, f, refoundingTo(o, f, base, s.Survey), nil //mutant:a-refounding-does-not-wait
}

// names tells whether the seats of the record are the masters that the options name.
func names(o member.Options, r *member.Record) bool {
	r = member.Vacated(r, o)
	return len(r.Seats) == len(o.Masters) && !slices.ContainsFunc(o.Masters, func(m conn.Master) bool {
		s := r.SeatOf(m)
		return s == nil || o.MasterAt(s.Name, s.Addr).FullAddr() != m.FullAddr()
	})
}

// refoundingTo tells people what becomes of base with the founding f.
func refoundingTo(o member.Options, f, base *member.Record, s *member.Survey) *Refounding {
	plan := &Refounding{Members: f.Membership(o).Seats, Wait: f.Wait}
	isMember := make(map[string]bool) // by address
	for i := range plan.Members {
		one := &plan.Members[i]
		isMember[one.Addr] = one.State == member.Learner
		if a := s.At(f.Seats[i].Number); one.State == member.Vacant && a != nil && a.Err != nil {
			one.Reason = a.Err.Error()
		}
	}
	for _, one := range base.Membership(o).Seats {
		if one.State != member.Leaving && f.Lists(one.Memory) == nil && !isMember[one.Addr] {
			plan.Lost = append(plan.Lost, one)
		}
	}
	return plan
}
