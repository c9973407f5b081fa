package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidisLock renews its lock itself until it is released; the context of the lock ends when it is
// lost.
type rueidisLock struct {
	option  rueidislock.LockerOption
	lockers map[time.Duration]rueidislock.Locker // the TTL belongs to the locker
	last    rueidislock.Locker
	held    context.Context
	cancel  context.CancelFunc
}

func openRueidislock(addr string) (locker, error) {
	l := &rueidisLock{lockers: map[time.Duration]rueidislock.Locker{}, option: rueidislock.LockerOption{
		// With client-side caching, which is its default: CLIENT TRACKING wakes those that wait. They do not
		// poll.
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
		// Its default, 20 ms for a key, is little on a busy machine.
		TryNextAfter: 500 * time.Millisecond,
	}}
	_, err := l.locker(time.Minute)
	return l, err
}

func (l *rueidisLock) locker(ttl time.Duration) (rueidislock.Locker, error) {
	if l.lockers[ttl] == nil {
		option := l.option
		option.KeyValidity = ttl
		locker, err := rueidislock.NewLocker(option)
		if err != nil {
			return nil, err
		}
		l.lockers[ttl] = locker
	}
	l.last = l.lockers[ttl]
	return l.last, nil
}

func (l *rueidisLock) acquire(name string, ttl time.Duration, wait bool) (string, error) {
	locker, err := l.locker(ttl)
	if err != nil {
		return "", err
	}
	lock := locker.TryWithContext
	if wait {
		lock = locker.WithContext
	}
	held, cancel, err := lock(ctx, name)
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return "refused", nil
	}
	if err == nil {
		l.held, l.cancel = held, cancel
	}
	return "ok", err
}

func (l *rueidisLock) extend(time.Duration) (string, error) { return "unsupported", nil }

func (l *rueidisLock) inspect() (string, error) { return held(l.held.Err() == nil), nil }

func (l *rueidisLock) release() (string, error) {
	l.cancel()
	return "silent", nil
}

func (l *rueidisLock) ping() error {
	client := l.last.Client()
	return client.Do(ctx, client.B().Ping().Build()).Error()
}
