package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// BootstrapReport is what a bootstrap found of one master, and did to it. What could not be read is zero.
type BootstrapReport struct {
	Addr     string
	Version  string // redis_version
	RunID    string // names the process
	Epoch    string // "none", "admitted", "quarantined", or "another run's"; empty: not read
	Keys     int64  // in the database that redlockd uses, without what a redlockd that waits for the master keeps there; -1: not read
	Problem  error  // what is in the way; nil: nothing
	Admitted bool   // by this bootstrap

	before string // value of the epoch key
}

// Bootstrap is BootstrapAndReport without the reports.
func Bootstrap(ctx context.Context, opts Options) error {
	_, err := BootstrapAndReport(ctx, opts)
	return err
}

// BootstrapAndReport admits a brand-new set of masters at once, which would otherwise look as if all of them
// had just forgotten everything and wait for one quarantine. It does so only if all of them can be reached, are
// different, may have a vote, were never admitted and hold no key; otherwise it changes nothing, and the error
// says what is in the way. Use it only where no client can still hold a lock from before. The reports are in
// the order of the masters; there are none if the options are out of bounds.
//
// A master that a redlockd has found without an epoch, and has quarantined for that, counts as never admitted:
// nothing tells it from one that nobody has looked at yet. Masters that have all forgotten look the same,
// either way. Where a redlockd runs that knew one of them before, the quarantine says so, and the bootstrap
// refuses.
func BootstrapAndReport(ctx context.Context, opts Options) ([]BootstrapReport, error) {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	links := make([]*masterConn, len(opts.Masters))
	reports := make([]BootstrapReport, len(opts.Masters))
	defer func() {
		for _, l := range links {
			if l != nil {
				l.close()
			}
		}
	}()
	each(reports, func(i int, r *BootstrapReport) {
		*r = BootstrapReport{Addr: opts.Masters[i].Addr, Keys: -1}
		var err error
		links[i], err = r.read(ctx, opts.Masters[i], opts)
		r.Problem = concise(err)
	})
	bootstrapTwins(reports)
	if err := bootstrapProblems(reports); err != nil {
		return reports, fmt.Errorf("bootstrap: nothing was changed: %w", err)
	}
	each(reports, func(i int, r *BootstrapReport) {
		r.Problem = concise(survive(func() (err error) {
			r.Admitted, err = links[i].swap(ctx, epochKey, r.before, admittedEpoch(r.RunID))
			return err
		}))
		if r.Problem == nil && !r.Admitted {
			r.Problem = errors.New("a proxy has just given it another epoch: it will be admitted after its quarantine")
		}
	})
	if err := bootstrapProblems(reports); err != nil {
		return reports, fmt.Errorf("bootstrap: %w", err)
	}
	return reports, nil
}

// read connects to the master and fills the report. The error says why the master cannot be admitted at once.
func (r *BootstrapReport) read(ctx context.Context, m Master, opts Options) (*masterConn, error) {
	l, err := dial(ctx, m, opts)
	if err != nil {
		return nil, err
	}
	return l, survive(func() error {
		id, err := l.vet(ctx, identity{})
		if err != nil {
			return connectError(err)
		}
		r.RunID, r.Version = id.runID, id.version
		return r.readMemory(ctx, l)
	})
}

// readMemory returns an error if the master remembers anything.
func (r *BootstrapReport) readMemory(ctx context.Context, l *masterConn) error {
	epoch, own, err := readOwn(ctx, l)
	if err != nil {
		return err
	}
	size, err := l.redis.DBSize(ctx).Result()
	if err != nil {
		return fmt.Errorf("DBSIZE: %w", err)
	}
	// Between the two readings nobody may have changed what is not counted as a key, or the difference would be
	// wrong.
	after, ownAfter, err := readOwn(ctx, l)
	if err != nil {
		return err
	}
	if after != epoch || ownAfter != own {
		return errors.New("a redlockd has just changed its epoch or its configuration: try again")
	}
	r.before, r.Keys, r.Epoch = epoch, size-own, epochWord(epoch, r.RunID)
	switch {
	case !looksNew(epoch, r.RunID) && r.Epoch == "quarantined":
		return fmt.Errorf("it has an epoch (quarantined: %s): it is not new", quarantineReason(epoch))
	case !looksNew(epoch, r.RunID): //mutant:bootstrap-over-an-epoch
		return fmt.Errorf("it has an epoch (%s): it is not new", r.Epoch)
	case r.Keys > 0: //mutant:bootstrap-over-keys
		return fmt.Errorf("it holds %d keys: it is not new", r.Keys)
	}
	return nil
}

// readOwn reads the epoch, and counts the keys that a redlockd keeps on a master before it admits it. What it
// keeps of locks and fences is not among them: a master that has such is not new.
func readOwn(ctx context.Context, l *masterConn) (epoch string, own int64, err error) {
	values, err := l.redis.MGet(ctx, epochKey, configKey, settingsKey, beatKey).Result()
	if err != nil {
		return "", 0, fmt.Errorf("MGET %s: %w", epochKey, err)
	}
	for _, value := range values {
		if value != nil {
			own++
		}
	}
	if len(values) > 0 {
		epoch, _ = values[0].(string)
	}
	return epoch, own, nil
}

// epochWord is BootstrapReport.Epoch of the value of the epoch key.
func epochWord(epoch, runID string) string {
	switch kind := readEpoch(epoch, runID); {
	case epoch == "":
		return "none"
	case kind == epochAdmitted:
		return "admitted"
	case kind == epochQuarantined:
		return "quarantined"
	}
	return "another run's"
}

// bootstrapTwins finds masters that are one process.
func bootstrapTwins(reports []BootstrapReport) {
	seen := make(map[string]string, len(reports))
	for i := range reports {
		r := &reports[i]
		if r.RunID == "" {
			continue
		}
		if other, twice := seen[r.RunID]; twice { //mutant:bootstrap-of-twins
			r.Problem = errors.Join(r.Problem, fmt.Errorf("it is the same Redis as %s", other))
			continue
		}
		seen[r.RunID] = r.Addr
	}
}

// bootstrapProblems joins what is in the way, each with its master.
func bootstrapProblems(reports []BootstrapReport) error {
	var errs []error
	for _, r := range reports {
		if r.Problem != nil {
			errs = append(errs, MasterError{Addr: r.Addr, Err: r.Problem})
		}
	}
	return errors.Join(errs...)
}

// each runs f for all reports at once.
func each(reports []BootstrapReport, f func(int, *BootstrapReport)) {
	var wg sync.WaitGroup
	for i := range reports {
		wg.Go(func() { f(i, &reports[i]) })
	}
	wg.Wait()
}
