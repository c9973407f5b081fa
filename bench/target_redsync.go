package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncTarget is redsync as its README shows it, options untouched: expiry 8 s, 32 tries 50 to 250 ms apart, go-redis
// pools of ten connections per core.
type redsyncTarget struct {
	clients []*redis.Client
	locker  *redsync.Redsync
}

func newRedsyncTarget(masters []string) *redsyncTarget {
	t := new(redsyncTarget)
	var pools []redsyncpool.Pool
	for _, addr := range masters {
		client := redis.NewClient(&redis.Options{Addr: addr})
		t.clients = append(t.clients, client)
		pools = append(pools, goredis.NewPool(client))
	}
	t.locker = redsync.New(pools...)
	return t
}

func (t *redsyncTarget) newCaller() caller { return &redsyncCaller{locker: t.locker} }

func (t *redsyncTarget) close() {
	for _, client := range t.clients {
		client.Close()
	}
}

type redsyncCaller struct {
	locker *redsync.Redsync
	mutex  *redsync.Mutex
}

func (c *redsyncCaller) acquire(ctx context.Context, resource string) error {
	c.mutex = c.locker.NewMutex(resource)
	err := c.mutex.LockContext(ctx)
	var taken *redsync.ErrTaken
	switch {
	case errors.As(err, &taken), errors.Is(err, redsync.ErrFailed):
		return errGaveUp
	case err != nil:
		return fmt.Errorf("redsync lock: %w", err)
	}
	return nil
}

func (c *redsyncCaller) release(ctx context.Context) error {
	released, err := c.mutex.UnlockContext(ctx)
	switch {
	case released:
		return nil
	case err == nil, errors.Is(err, redsync.ErrLockAlreadyExpired):
		return errNotHeld
	}
	return fmt.Errorf("redsync unlock: %w", err)
}
