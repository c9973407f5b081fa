package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/member"
	"redlockd/redlock/member/survey"
	"redlockd/redlock/quorum"
)

// What a master is in the membership, and what its being there or missing means for the others.

// compare finds what no master can tell by itself: that it is another's twin, or not what these options
// expect. base is the record in force or, where force is nil, the newest one of the fleet; nil: none is
// known. nowhere is why the options lead to no fleet.
func compare(reports []MasterReport, force, base *member.Record, nowhere string, o member.Options) {
	s := shownBy(reports)
	for i := range s.Reports {
		s.Reports[i].Place = quorum.MaxMasters + i // no seat
		if base != nil && i < len(base.Seats) {
			s.Reports[i].Place = base.Seats[i].Number
		}
	}
	wrong := nowhere
	if force != nil {
		wrong = o.OtherDB(force)
	}
	for i := range reports {
		r := &reports[i]
		if twin := s.TwinOf(s.Reports[i]); twin != nil {
			r.add(NoVote, "name five masters that are five processes, each on a machine of its own",
				"is the same Redis as %s (same run_id): one process would vote twice", twin.Master.Addr)
		}
		if nowhere == "" {
			r.compareMembership(s, s.Reports[i], force, base)
		}
		if wrong != "" {
			r.add(NoVote, "", "%s", wrong)
		}
		if r.ClockDiff.Abs()-r.ClockErr > o.ClockSkewMax {
			r.add(Warning, "let NTP keep both clocks, or raise clock_skew_max",
				"its clock is %v from this machine's (± %v), further than clock_skew_max = %v: a server that has just started does not count its votes for about max_ttl, because its clock may have stepped",
				r.ClockDiff.Round(time.Millisecond), r.ClockErr.Round(time.Microsecond), o.ClockSkewMax)
		}
	}
}

// copyNoteShown is for how long a note counts that a learner has of a copy. Another redlockd may have a
// longer heartbeat than this one.
const copyNoteShown = 10 * time.Second

// readMembership reads what the master shows of the membership.
func (r *MasterReport) readMembership(ctx context.Context, o member.Options) {
	f := &r.shown
	err := survey.Look(ctx, f, o)
	refused, _ := errors.AsType[*conn.RefusedError](err)
	switch {
	case refused != nil:
		r.add(NoVote, "", "%s", refused.Reason)
	case err != nil && r.Votes(): // else the reason was found when the commands were tried //mutant:check-takes-an-error-for-a-vote
		r.broken(ctx, err, o, "its membership could not be read")
	}
	if !f.State.Fresh {
		r.MembersVersion = f.State.Record.Version
	}
	r.New = f.State.Fresh && f.Before == nil
}

// compareMembership says what the master is in base, which is the record in force where force is not
// nil.
func (r *MasterReport) compareMembership(s *member.Survey, f *member.Report, force, base *member.Record) {
	if r.Member == "none" {
		if base != nil && f.Foreign(base) {
			why, fix := base.WhyNoVote(nil, f.State)
			r.add(Warning, fix, "%s, and the membership has no seat for it: it has no vote", why)
			return
		}
		r.add(Warning, "take it out of the settings, or run redlockd members add", "the settings name it, and the membership has no seat for it: it has no vote")
		return
	}
	if f.State.Memory == "" {
		return
	}
	r.Member = "forgotten"
	if r.New {
		r.Member = "new"
	}
	if base == nil {
		return
	}
	seat := base.SeatNamed(r.Seat)
	why, fix := base.WhyNoVote(seat, f.State)
	switch {
	case seat.State == member.Leaving:
		r.Member = "leaving"
		r.add(Note, fix, "%s", why)
	case f.Foreign(base):
		r.Member = "foreign"
		r.add(NoVote, fix, "%s", why)
	case force == nil && f.Record != nil:
		r.Member = "alone"
		r.addAlone(s, f.Record)
	case force == nil:
	case force.Lists(f.State.Memory) != nil && !f.State.Fresh:
		r.Member = string(force.Lists(f.State.Memory).State)
		r.New = force.IsNew()
		if f.State.Record != force.ID() || f.State.Child != "" { //mutant:check-counts-who-is-behind
			r.Member = "behind"
			r.add(Note, "", "shows another version of the membership than the one in force: it votes when a redlockd that runs has told it")
		}
		if r.Member == "learner" && !r.New {
			copied := ""
			if n, ok := f.Copying(copyNoteShown); ok {
				copied = fmt.Sprintf(" (%d locks so far, %d %%, from %s)", n.Given, n.Done, strings.ReplaceAll(n.From, ",", ", "))
			}
			if why == "" {
				why = "is a learner: it may have forgotten locks"
			}
			r.add(Note, "", "%s; it votes when a redlockd has given it what the others remember%s, or %s after it was listed",
				why, copied, clock.Text(force.Wait.Round(time.Millisecond)))
		}
	default:
		r.add(Note, "", "%s; it votes when a redlockd has found it and given it what the others remember, or %s later", why, clock.Text(force.Wait))
	}
	if force != nil && !s.Unfinished(force) && slices.Contains(s.Strays(force), f) {
		r.add(Warning, "see who writes to it; a redlockd has it start anew", "shows version %d of the membership, and a majority of the masters does not know it", r.MembersVersion)
	}
}

// addAlone says of a master that shows a record which is not in force what became of the others, and
// whether a founding helps.
func (r *MasterReport) addAlone(s *member.Survey, shows *member.Record) {
	same, reached := 0, 0
	for _, f := range s.Reports {
		if f.State.Memory != "" && shows.SeatOf(f.Master) != nil && !f.Foreign(shows) {
			reached++
			if f.Shows(shows) || f.Record != nil && shows.Lists(f.State.Memory) != nil {
				same++
			}
		}
	}
	severity, fix := Warning, "nothing: a redlockd that runs founds the membership anew"
	heard := make(member.HeardAt)
	heard.Shown(s, shows)
	if left, who := heard.MayComeBack(s, shows, false, shows.Wait); left > 0 {
		fix = fmt.Sprintf("nothing, if %s may come back: a redlockd that runs waits for that, for up to %v, and founds the membership anew then; else redlockd members refound", who, left.Round(time.Second))
	}
	if reached < shows.Quorum() {
		severity, fix = NoVote, "start the masters that cannot be reached; if their machines are lost for good, see redlockd members --help; if that fleet is given up, run FLUSHALL on this master"
	}
	r.add(severity, fix, "its membership is not in force: %d of its %d masters can be reached, %d of them remember it, and %d are needed (%s)",
		reached, len(shows.Seats), same, shows.Quorum(), member.SeatNames(shows))
}

// shownBy is a survey of what the reports have shown. Unlike one of the coordinator it believes masters
// that are refused for another reason.
func shownBy(reports []MasterReport) *member.Survey {
	s := &member.Survey{Began: time.Now()}
	for i := range reports {
		f := reports[i].shown
		f.Place = i
		if f.State.Memory == "" {
			f.Err = errNothingShown
		}
		s.Reports = append(s.Reports, &f)
	}
	return s
}

var errNothingShown = errors.New("it has shown nothing of the membership")
