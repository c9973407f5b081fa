package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Bootstrap admits a brand-new set of masters at once, which would otherwise look as if all of them had just forgotten everything and
// wait for one quarantine. It does so only if all of them can be reached, are different, may have a vote, have no epoch
// and hold no key; otherwise it changes nothing, and the error says what is in the way. Use it only where no client can
// still hold a lock from before.
func Bootstrap(ctx context.Context, opts Options) error {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return err
	}
	links := make([]*link, len(opts.Masters))
	ids := make([]identity, len(opts.Masters))
	defer func() {
		for _, l := range links {
			if l != nil {
				l.close()
			}
		}
	}()
	err := eachMaster(opts.Masters, func(i int, m Master) (err error) {
		if links[i], err = dial(ctx, m, opts); err != nil {
			return err
		}
		if ids[i], err = links[i].vet(ctx, identity{}); err != nil {
			return connectError(err)
		}
		return links[i].virgin(ctx)
	})
	if err != nil {
		return fmt.Errorf("bootstrap: nothing was changed: %w", err)
	}
	seen := make(map[string]string, len(ids))
	for i, id := range ids {
		if other, twice := seen[id.runID]; twice {
			return fmt.Errorf("bootstrap: nothing was changed: %s and %s are the same Redis", other, opts.Masters[i].Addr)
		}
		seen[id.runID] = opts.Masters[i].Addr
	}
	err = eachMaster(opts.Masters, func(i int, m Master) error {
		swapped, err := links[i].swap(ctx, epochKey, "", admittedEpoch(ids[i].runID))
		if err == nil && !swapped {
			err = errors.New("a proxy has just given it an epoch: it will be admitted after its quarantine")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	return nil
}

// virgin returns an error if the master remembers anything.
func (l *link) virgin(ctx context.Context) error {
	epoch, err := l.conn.Get(ctx, epochKey).Result()
	switch {
	case err != nil && err != redis.Nil:
		return err
	case epoch != "":
		return fmt.Errorf("it has an epoch (%s): it is not new", strings.SplitN(epoch, ":", 2)[0])
	}
	size, err := l.conn.DBSize(ctx).Result()
	if err == nil && size > 0 {
		err = fmt.Errorf("it holds %d keys: it is not new", size)
	}
	return err
}

// eachMaster runs f for all masters at once and joins the errors, each with its master.
func eachMaster(masters []Master, f func(int, Master) error) error {
	errs := make([]error, len(masters))
	var wg sync.WaitGroup
	for i, m := range masters {
		wg.Go(func() {
			if err := f(i, m); err != nil {
				errs[i] = MasterError{m.Addr, err}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
