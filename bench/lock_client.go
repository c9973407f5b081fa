package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// lockClients counts what goes wrong for the clients of a cell that lock and release in this process.
type lockClients struct {
	log    failureLog
	gaveUp atomic.Int32 // LOCKs whose wait ended with null
}

// lockClient is one of them, over one connection. One goroutine uses it, and closes it.
type lockClient struct {
	*redis.Client
	of *lockClients
}

// dial makes a client whose LOCKs wait for no longer than this.
func (all *lockClients) dial(addr string, wait time.Duration) lockClient {
	return lockClient{redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1, MaxRetries: -1, ReadTimeout: wait + 3*time.Second}), all}
}

// lock returns what a LOCK or MLOCK was answered, so many elements, and after which time; nil if it was not granted.
func (c lockClient) lock(ctx context.Context, elements int, command ...any) (reply []any, took time.Duration) {
	asked := time.Now()
	reply, err := c.Do(ctx, command...).Slice()
	switch {
	case errors.Is(err, redis.Nil):
		c.of.gaveUp.Add(1)
		return nil, 0
	case err != nil || len(reply) != elements:
		c.of.log.add(fmt.Errorf("%v: %d elements, %w", command[0], len(reply), err))
		return nil, 0
	}
	return reply, time.Since(asked)
}

func (c lockClient) unlock(ctx context.Context, command ...any) {
	if err := c.Do(ctx, command...).Err(); err != nil {
		c.of.log.add(fmt.Errorf("%v: %w", command[0], err))
	}
}
