package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

type bsmLock struct {
	client *redis.Client
	lock   *redislock.Lock
}

func openRedislock(addr string) (locker, error) {
	return &bsmLock{client: redis.NewClient(&redis.Options{Addr: addr})}, nil
}

func (l *bsmLock) acquire(name string, ttl time.Duration, wait bool) (string, error) {
	options := &redislock.Options{Metadata: "some metadata"} // stored behind the token, in the value
	ctx, cancel := context.WithTimeout(ctx, waitMax)
	defer cancel()
	if wait {
		options.RetryStrategy = redislock.LinearBackoff(50 * time.Millisecond)
	}
	lock, err := redislock.Obtain(ctx, l.client, name, ttl, options)
	if err == nil {
		l.lock = lock
	}
	return bsmAnswer(err)
}

func (l *bsmLock) extend(ttl time.Duration) (string, error) {
	return bsmAnswer(l.lock.Refresh(ctx, ttl, nil))
}

func (l *bsmLock) inspect() (string, error) {
	ttl, err := l.lock.TTL(ctx)
	return held(ttl > 0), err
}

func (l *bsmLock) release() (string, error) { return bsmAnswer(l.lock.Release(ctx)) }

func (l *bsmLock) ping() error { return l.client.Ping(ctx).Err() }

func bsmAnswer(err error) (string, error) {
	if errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, redislock.ErrLockNotHeld) {
		return "refused", nil
	}
	return "ok", err
}
