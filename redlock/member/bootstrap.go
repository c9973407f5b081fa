package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// BootstrapReport is what a bootstrap found of one master, and did to it. What could not be read is
// zero.
type BootstrapReport struct {
	Addr     string
	Version  string // as conn.ServerVersion has it
	RunID    string // names the process
	Shows    string // of the membership: "nothing", "founded, waits", "version 3"; empty: not read
	Keys     int64  // in the database that redlockd uses, without those of the membership; -1: not read
	Problem  error  // what is in the way; nil: nothing
	Admitted bool   // by this bootstrap
}

// Bootstrap is redlock.BootstrapAndReport, with options that are valid.
func Bootstrap(ctx context.Context, opts Options) ([]BootstrapReport, error) {
	s := SurveyMasters(ctx, opts.Places(), Patience{Enough: len(opts.Masters)}, opts)
	defer s.Close()
	reports := make([]BootstrapReport, len(opts.Masters))
	var errs []error
	for i, f := range s.Reports {
		reports[i] = f.bootstrapReport()
		if err := reports[i].Problem; err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.master.Addr, err))
		}
	}
	if len(errs) > 0 {
		return reports, fmt.Errorf("bootstrap: nothing was changed: %w", errors.Join(errs...))
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	parent, first := s.Prevailing(), (*Record)(nil)
	switch {
	case parent != nil:
		first = parent.Child()
		first.Wait = first.Needed(opts.Drift)
	case slices.ContainsFunc(s.Reports, func(f *Report) bool { return !f.State.fresh }):
		return reports, errors.New("bootstrap: nothing was changed: a redlockd is just about to found the membership: try again")
	default:
		first, _ = s.founding(nil, opts)
		first.Wait = first.Needed(opts.Drift)
	}
	for s := range first.seats() {
		s.State = Voter
	}
	chosen, err := s.Step(ctx, parent, s.Reports, len(s.Reports), first.Seal())
	if err == nil && chosen.Digest != first.Digest {
		err = errors.New("a redlockd was founding the membership at the same time: try again")
	}
	if err != nil {
		return reports, fmt.Errorf("bootstrap: %w", err)
	}
	s.Teach(ctx, s.Reports, chosen)
	for i := range reports {
		reports[i].Admitted = true
	}
	return reports, nil
}

// bootstrapReport tells what was found, and whether it is new.
func (f *Report) bootstrapReport() BootstrapReport {
	r := BootstrapReport{Addr: f.master.Addr, Version: f.version, RunID: f.runID, Keys: -1, Problem: f.err}
	if f.err != nil {
		return r
	}
	r.Keys = f.keys
	switch record := f.record; {
	case f.State.fresh && record == nil:
		r.Shows = "nothing"
	case record == nil:
		r.Shows = fmt.Sprintf("version %d", f.State.Record.version)
		r.Problem = errors.New(recordIsGone)
	case f.State.fresh:
		r.Shows = fmt.Sprintf("version %d before it was restarted", record.Version)
	case record.isNew():
		r.Shows = "founded, waits"
	default:
		r.Shows = fmt.Sprintf("version %d", record.Version)
	}
	switch {
	case r.Problem != nil:
	case f.record != nil && !(f.record.isNew() && !f.State.fresh): //mutant:bootstrap-over-a-membership
		r.Problem = fmt.Errorf("it has a membership (%s): it is not new", r.Shows)
	case r.Keys > 0: //mutant:bootstrap-over-keys
		r.Problem = fmt.Errorf("it holds %d keys: it is not new", r.Keys)
	}
	return r
}

// isNew tells whether nobody can have been granted anything under this record or one before it, as far
// as its founder knew.
func (r *Record) isNew() bool {
	return r.Generation == 1 && r.Version == 0 && r.Voters() == 0 //mutant:bootstrap-over-a-second-founding
}
