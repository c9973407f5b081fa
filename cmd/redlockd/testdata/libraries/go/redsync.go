package main

import (
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

type redsyncLock struct {
	client *redis.Client
	sync   *redsync.Redsync
	mutex  *redsync.Mutex
}

func openRedsync(addr string) (locker, error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	return &redsyncLock{client: client, sync: redsync.New(goredis.NewPool(client))}, nil
}

func (l *redsyncLock) acquire(name string, ttl time.Duration, wait bool) (string, error) {
	// redsync gives up a try after 5 % of the expiry. That is little for a short TTL on a busy machine.
	l.mutex = l.sync.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTimeoutFactor(0.5))
	lock := l.mutex.TryLock
	if wait {
		lock = l.mutex.Lock
	}
	return redsyncAnswer(true, lock())
}

// extend by another TTL than the first takes a mutex that is made for it and given the value of the
// lock.
func (l *redsyncLock) extend(ttl time.Duration) (string, error) {
	return redsyncAnswer(l.sync.NewMutex(l.mutex.Name(), redsync.WithExpiry(ttl), redsync.WithValue(l.mutex.Value())).Extend())
}

func (l *redsyncLock) inspect() (string, error) {
	valid, err := l.mutex.Valid()
	if errors.Is(err, redis.Nil) || errors.As(err, new(*redsync.ErrTaken)) {
		return "lost", nil
	}
	return held(valid), err
}

func (l *redsyncLock) release() (string, error) { return redsyncAnswer(l.mutex.Unlock()) }

func (l *redsyncLock) ping() error { return l.client.Ping(ctx).Err() }

func redsyncAnswer(yes bool, err error) (string, error) {
	if errors.As(err, new(*redsync.ErrTaken)) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return "refused", nil
	}
	return granted(yes), err
}
