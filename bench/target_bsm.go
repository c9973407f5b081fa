package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

func newBSMTarget(master string) *bsmTarget {
	client := redis.NewClient(&redis.Options{Addr: master})
	return &bsmTarget{client: client, locker: redislock.New(client)}
}

// bsmTarget is bsm/redislock as its README shows it.
type bsmTarget struct {
	client *redis.Client
	locker *redislock.Client
}

func (t *bsmTarget) newCaller() caller { return &bsmCaller{locker: t.locker} }

func (t *bsmTarget) close() { t.client.Close() }

type bsmCaller struct {
	locker *redislock.Client
	lock   *redislock.Lock
}

func (c *bsmCaller) acquire(ctx context.Context, resource string) (err error) {
	c.lock, err = c.locker.Obtain(ctx, resource, lockTTL, nil)
	switch {
	case errors.Is(err, redislock.ErrNotObtained):
		return errGaveUp
	case err != nil:
		return fmt.Errorf("redislock: %w", err)
	}
	return nil
}

func (c *bsmCaller) release(ctx context.Context) error {
	err := c.lock.Release(ctx)
	switch {
	case errors.Is(err, redislock.ErrLockNotHeld):
		return errNotHeld
	case err != nil:
		return fmt.Errorf("redislock: %w", err)
	}
	return nil
}
