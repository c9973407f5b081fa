package main

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// rueidislockPatience bounds an acquisition. Where a key takes longer than its 20 ms, it gives the lock back and waits to be
// told of a change, which on a resource that nobody else wants never comes.
const rueidislockPatience = time.Second

type rueidislockCaller struct {
	locker          rueidislock.Locker
	unlock, forsake context.CancelFunc
}

func (c *rueidislockCaller) acquire(ctx context.Context, resource string) error {
	// It would wait for ever. The end of this context also ends the lock: once that is held, only release cancels it.
	ctx, c.forsake = context.WithCancel(ctx)
	patience := time.AfterFunc(rueidislockPatience, c.forsake)
	_, unlock, err := c.locker.WithContext(ctx, resource)
	patience.Stop()
	if err != nil {
		c.forsake()
		if errors.Is(err, context.Canceled) {
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
