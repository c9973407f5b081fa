package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"redlockd/redlock/conn"
)

// BootstrapReport is what a bootstrap found of one master, and did to it. What could not be read is zero.
type BootstrapReport struct {
	Addr     string
	Version  string // redis_version
	RunID    string // names the process
	Shows    string // of the membership: "nothing", "founded, waits", "version 3"; empty: not read
	Keys     int64  // in the database that redlockd uses, without those of the membership; -1: not read
	Problem  error  // what is in the way; nil: nothing
	Admitted bool   // by this bootstrap
}

// bootstrap is redlock.BootstrapAndReport, with options that are valid.
func bootstrap(ctx context.Context, opts memberOptions) ([]BootstrapReport, error) {
	masters := make(map[int]conn.Master)
	for i, m := range opts.Masters {
		masters[i] = m
	}
	s := surveyMasters(ctx, masters, patience{enough: len(masters)}, opts)
	defer s.close()
	reports := make([]BootstrapReport, len(opts.Masters))
	var errs []error
	for i, f := range s.found {
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
	parent, first := s.prevailing(), (*record)(nil)
	switch {
	case parent != nil:
		first = parent.child()
		first.wait = first.needed(opts.Drift)
	case slices.ContainsFunc(s.found, func(f *found) bool { return !f.state.fresh }):
		return reports, errors.New("bootstrap: nothing was changed: a redlockd is just about to found the membership: try again")
	default:
		first, _ = s.founding(nil, opts)
		first.wait = first.needed(opts.Drift)
	}
	for i := range first.seats {
		first.seats[i].state = seatVoter
	}
	chosen, err := s.step(ctx, parent, s.found, len(s.found), first.seal())
	if err == nil && chosen.digest != first.digest {
		err = errors.New("a redlockd was founding the membership at the same time: try again")
	}
	if err != nil {
		return reports, fmt.Errorf("bootstrap: %w", err)
	}
	s.teach(ctx, s.found, chosen)
	for i := range reports {
		reports[i].Admitted = true
	}
	return reports, nil
}

// bootstrapReport tells what was found, and whether it is new.
func (f *found) bootstrapReport() BootstrapReport {
	r := BootstrapReport{Addr: f.master.Addr, Version: f.version, RunID: f.runID, Keys: -1, Problem: f.err}
	if f.err != nil {
		return r
	}
	r.Keys = f.keys
	switch record := f.record; {
	case f.state.fresh && record == nil:
		r.Shows = "nothing"
	case record == nil:
		r.Shows = fmt.Sprintf("version %d", f.state.record.version)
		r.Problem = errors.New(recordIsGone)
	case f.state.fresh:
		r.Shows = fmt.Sprintf("version %d before it was restarted", record.version)
	case record.isNew():
		r.Shows = "founded, waits"
	default:
		r.Shows = fmt.Sprintf("version %d", record.version)
	}
	switch {
	case r.Problem != nil:
	case f.record != nil && !(f.record.isNew() && !f.state.fresh): //mutant:bootstrap-over-a-membership
		r.Problem = fmt.Errorf("it has a membership (%s): it is not new", r.Shows)
	case r.Keys > 0: //mutant:bootstrap-over-keys
		r.Problem = fmt.Errorf("it holds %d keys: it is not new", r.Keys)
	}
	return r
}

// isNew tells whether nobody can have been granted anything under this record or one before it, as far as its founder knew.
func (r *record) isNew() bool {
	return r.generation == 1 && r.version == 0 && r.voters() == 0 //mutant:bootstrap-over-a-second-founding
}
