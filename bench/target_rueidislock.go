package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidislockTarget is rueidislock with its defaults: a lock is two of three keys on one Redis, valid for 5 s and renewed
// in the background.
type rueidislockTarget struct{ locker rueidislock.Locker }

func newRueidislockTarget(master string) (*rueidislockTarget, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{master}},
		KeyMajority:    2,    // its default, and what a release waits for is all three
		NoLoopTracking: true, // its README recommends that from Redis 7.0.5 on
	})
	if err != nil {
		return nil, fmt.Errorf("rueidislock: %w", err)
	}
	return &rueidislockTarget{locker: locker}, nil
}

func (t *rueidislockTarget) newCaller() caller { return &rueidislockCaller{locker: t.locker} }

func (t *rueidislockTarget) close() { t.locker.Close() }

type rueidislockCaller struct {
	locker          rueidislock.Locker
	unlock, forsake context.CancelFunc
}

func (c *rueidislockCaller) acquire(ctx context.Context, resource string) error {
	// It would wait for ever. The end of this context also ends the lock, so release is what cancels it.
	ctx, c.forsake = context.WithTimeout(ctx, lockTTL)
	_, unlock, err := c.locker.WithContext(ctx, resource)
	if err != nil {
		c.forsake()
		if errors.Is(err, context.DeadlineExceeded) {
			return errGaveUp
		}
		return fmt.Errorf("rueidislock: %w", err)
	}
	c.unlock = unlock
	return nil
}

// release returns when the keys are deleted; rueidislock does not say what became of them.
func (c *rueidislockCaller) release(context.Context) error {
	c.unlock()
	c.forsake()
	return nil
}
