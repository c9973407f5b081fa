package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/member"
	"redlockd/redlock/member/survey"
	"redlockd/redlock/quorum"
)

// A bootstrap makes voters of masters that have never voted, without a wait, because an operator says
// that no client can still hold a lock. On masters that are all new it is one step, which founds a
// membership. Where a redlockd has founded one already, in which nobody has ever voted, the bootstrap
// goes on from there: a strict step seats each master that is missing, one after the other, and the last
// one makes voters of all. So a membership that was founded while a master was away, or with a wrong
// address, is no obstacle.
//
// A seat that the settings do not name any more is given to a master that they name: it has never voted,
// so nobody counts on it. A step that nobody could read, or after which too few seats prove that nobody
// has voted, is not made: then the operator has the masters forget the membership.
//
// Why no wait is needed: the record proves that no quorum of its seats has ever voted, under it or a
// record before it (IsNew). If somebody gives votes meanwhile, after the wait, that is a child of the
// same parent, of which one is chosen (testdata/tla/Members.tla, Boot). The operator's word is that there
// was no membership before the first founding.

// BootstrapReport is what a bootstrap found of one master, and did to it. What could not be read is
// zero.
type BootstrapReport struct {
	Addr    string
	Version string // as conn.ServerVersion has it
	RunID   string // names the process
	Shows   string // of the membership: "nothing", "founded, waits", "version 3"; empty: not read
	Keys    int64  // in the database that redlockd uses, without those of the membership; -1: not read
	Problem error  // what is in the way; nil: nothing
	// Missing: the problem is that it cannot be reached, or is not fit to vote. Others can be admitted
	// without it.
	Missing  bool
	Admitted bool // by this bootstrap
}

const (
	// bootstrapTries bounds how often a bootstrap looks at the masters: a step for each seat, and more for
	// what runs beside it.
	bootstrapTries = 2*quorum.MaxMasters + 10
	// bootstrapPause is the longest pause before another try, where somebody else was ahead.
	bootstrapPause = 50 * time.Millisecond
)

// errFounding is a founding that others are just about to make.
var errFounding = errors.New("a redlockd is just about to found the membership: try again")

// Bootstrap is redlock.BootstrapAndReport, with options that are valid.
func Bootstrap(ctx context.Context, opts member.Options, anyway bool) (reports []BootstrapReport, err error) {
	done := "nothing was changed"
	for range bootstrapTries {
		var chosen *member.Record
		if reports, chosen, err = bootstrapOnce(ctx, opts, anyway); chosen != nil && chosen.Voters() > 0 {
			return reports, nil
		}
		if chosen != nil {
			done = "not all is done: repeat this"
		}
		if err != nil && !errors.Is(err, survey.ErrOutrun) && !errors.Is(err, errFounding) || ctx.Err() != nil {
			break
		}
		if err != nil {
			time.Sleep(rand.N(bootstrapPause))
		}
	}
	return reports, fmt.Errorf("bootstrap: %s: %w", done, cmp.Or(err, ctx.Err(), survey.ErrOutrun))
}

// bootstrapOnce looks at the masters, and makes the step that is due. chosen is its record, which has voters
// if it was the last one; nil: there was no step.
func bootstrapOnce(ctx context.Context, o member.Options, anyway bool) (reports []BootstrapReport, chosen *member.Record, err error) {
	s, named := surveyNamed(ctx, o)
	defer s.Close()
	parent, present := s.Prevailing(), 0
	var errs []error
	for i, f := range named {
		r := bootstrapReportOf(f, parent)
		r.Addr = o.Masters[i].Addr
		if !r.Missing {
			present++
		}
		if r.Problem != nil && !(anyway && r.Missing) {
			errs = append(errs, fmt.Errorf("%s: %w", r.Addr, r.Problem))
		}
		reports = append(reports, r)
	}
	if needed := quorum.Of(len(named)); len(errs) == 0 && present < needed {
		errs = append(errs, fmt.Errorf("%d of %d masters can be admitted, %d are needed", present, len(named), needed))
	}
	if len(errs) > 0 {
		return reports, nil, errors.Join(errs...)
	}
	ctx, cancel := context.WithTimeout(ctx, member.StepTimeout)
	defer cancel()
	var next *member.Record
	switch founded := whoShowARecord(s.Survey); {
	case parent != nil:
		next, err = bootstrapStep(o, parent, named, founded)
	case founded != "":
		err = fmt.Errorf("%w; if no redlockd runs, run FLUSHALL on %s, and repeat this: a majority does not know the membership there, in which nobody has ever voted", errFounding, founded)
	case !slices.Equal(s.Reports, named): // a founding goes by places, and those are of a record that nobody shows any more
		err = errFounding
	default:
		next, _ = s.Founding(nil, o) // as many are there as it needs
		next.Admit(named, o)
	}
	if err != nil {
		return reports, nil, err
	}
	if parent != nil {
		s.TeachUntaught(ctx, parent)
	}
	if chosen, err = s.Step(ctx, parent, next.Seal()); err != nil {
		return reports, nil, err
	}
	strangers := func(f *member.Report) bool { return chosen.Lists(f.State.Memory) == nil }
	s.Teach(ctx, slices.DeleteFunc(slices.Clone(s.Reports), strangers), chosen) // one that has just got its seat was asked at another place
	for i, f := range named {
		seat := chosen.Lists(f.State.Memory)
		reports[i].Admitted = f.OK() && seat != nil && seat.State == member.Voter
	}
	return reports, chosen, nil
}

// surveyNamed asks the masters that the options name, and, where some of them show a membership in which
// nobody has voted, the other seats of that as well. named are those of the options, in their order.
func surveyNamed(ctx context.Context, o member.Options) (s *survey.Masters, named []*member.Report) {
	s = survey.Ask(ctx, o.Places(), survey.Patience{Enough: len(o.Masters)}, o)
	named = slices.Clone(s.Reports)
	var lead *member.Record
	for _, r := range s.Settled() {
		if lead == nil || r.NewerThan(lead.ID()) {
			lead = r
		}
	}
	if lead == nil || !lead.IsNew() {
		return s, named
	}
	places := o.PlacesOf(lead)
	where := make([]int, len(o.Masters))
	free := 0
	for i, at := range seatsOf(lead, o, named) {
		m := o.Masters[i]
		if at != nil && at.Memory != named[i].State.Memory && places[at.Number].FullAddr() != m.FullAddr() {
			at = nil // it has another address in the membership, at which a master of the membership may be
		}
		if at != nil {
			where[i] = at.Number
		} else {
			for lead.Seat(free) != nil {
				free++
			}
			where[i] = free
			free++
		}
		places[where[i]] = m
	}
	reached := s.Count((*member.Report).OK)
	s.Close()
	s = survey.Ask(ctx, places, survey.Patience{Enough: reached, Grace: survey.Grace}, o)
	for i := range named {
		named[i] = s.At(where[i])
		// A seat that the settings do not name any more may be the same Redis by another address.
		if twin := s.TwinOf(named[i]); twin != nil && !slices.Contains(where, twin.Place) {
			named[i] = twin
		}
	}
	return s, named
}

// seatsOf are the seats of r for the masters that the options name, each for one of them: that which lists
// what the master remembers, else that which the options mean by it; nil: it has none.
func seatsOf(r *member.Record, o member.Options, named []*member.Report) []*member.Seat {
	seats := make([]*member.Seat, len(named))
	for _, seatOf := range []func(i int) *member.Seat{
		func(i int) *member.Seat { return r.Lists(named[i].State.Memory) },
		func(i int) *member.Seat { return r.SeatOf(o.Masters[i]) },
	} {
		for i := range named {
			if at := seatOf(i); seats[i] == nil && !slices.Contains(seats, at) {
				seats[i] = at
			}
		}
	}
	return seats
}

// whoShowARecord are the masters that have settled on one; "": there are none.
func whoShowARecord(s *member.Survey) string {
	var addrs []string
	for _, f := range s.Reports {
		if f.OK() && !f.State.Fresh {
			addrs = append(addrs, f.Master.Addr)
		}
	}
	return strings.Join(addrs, ", ")
}

// bootstrapStep is the next record on the way from parent, in which nobody has ever voted, to one in
// which all masters vote that were named and are fit. founded are the masters that show a record.
func bootstrapStep(o member.Options, parent *member.Record, named []*member.Report, founded string) (*member.Record, error) {
	others := fmt.Errorf("a redlockd has founded the membership with %s, and the settings name %s. Nobody has ever voted in it: run FLUSHALL on %s, and repeat this",
		member.SeatNames(parent), member.SeatNames(member.Vacated(nil, o)), founded)
	if len(o.Masters) != len(parent.Seats) {
		return nil, others
	}
	child := parent.Child()
	seats := seatsOf(child, o, named)
	for i, m := range o.Masters {
		f := named[i]
		if !f.OK() || parent.Lists(f.State.Memory) != nil {
			continue
		}
		at := cmp.Or(seats[i], child.SeatWhere(func(one *member.Seat) bool { return !slices.Contains(seats, one) }))
		switch {
		case m.Name != "" && at.Name != m.Name:
			return nil, others
		case m.Name == "":
			at.Addr = m.SeatAddr()
		}
		at.Memory, at.State, at.Since = f.State.Memory, member.Learner, child.Version
		if err := member.CheckChild(parent, child.Seal()); err != nil {
			return nil, fmt.Errorf("%w (%w)", others, err)
		}
		if !child.IsNew() { // the next step would be refused
			return nil, fmt.Errorf("%w (too few of its seats are as they were at first)", others)
		}
		return child, nil
	}
	child.Admit(named, o)
	return child, nil
}

// bootstrapReportOf tells what was found, and whether it is new. parent is the record in force; nil: there
// is none.
func bootstrapReportOf(f *member.Report, parent *member.Record) BootstrapReport {
	r := BootstrapReport{Version: f.Version, RunID: f.RunID, Keys: -1, Problem: f.Err, Missing: f.Err != nil}
	if f.Err != nil {
		return r
	}
	r.Keys = f.Keys
	switch {
	case f.Record != nil && f.Record.IsNew():
		r.Shows = "founded, waits"
	case !f.State.Fresh:
		r.Shows = fmt.Sprintf("version %d", f.State.Record.Version)
	case f.Before != nil:
		r.Shows = fmt.Sprintf("version %d before it was restarted", f.Before.Version)
	default:
		r.Shows = "nothing"
	}
	known := f.Known()
	switch {
	case !f.State.Fresh && known == nil:
		r.Problem = errors.New(member.RecordIsGone)
	case f.Record != nil && !f.Record.IsNew(): //mutant:bootstrap-over-a-membership
		r.Problem = fmt.Errorf("it has a membership (%s): it is not new", r.Shows)
	case f.Before != nil && (parent == nil || !known.ID().SameLineage(parent.ID()) || known.NewerThan(parent.ID())):
		r.Problem = fmt.Errorf("it has a membership (%s): it is not new", r.Shows)
	case f.Record != nil && parent != nil && !known.ID().SameLineage(parent.ID()):
		r.Problem = fmt.Errorf("it has another membership than the others (of %s), in which nobody has ever voted: run FLUSHALL on it", member.SeatNames(known))
	case r.Keys > 0: //mutant:bootstrap-over-keys
		r.Problem = fmt.Errorf("it holds %d keys: it is not new", r.Keys)
	}
	return r
}
