package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// redlockdTarget is a plain go-redis client in front of redlockd.
type redlockdTarget struct {
	client *redis.Client
	wait   bool
}

// newRedlockdTarget has a connection for every caller: a LOCK that waits keeps its connection as BLPOP does.
// addr is host:port, or the path of a unix socket. Without wait a held lock is answered at once. login is a user whose password is "secret"; empty: nobody has to log in.
func newRedlockdTarget(addr string, callers int, wait bool, login string) *redlockdTarget {
	options := &redis.Options{
		Addr:       addr,
		PoolSize:   callers,
		MaxRetries: -1, // a LOCK without TOKEN that is sent again finds its first sending in the way
	}
	if login != "" {
		options.Username, options.Password = login, "secret"
	}
	if wait {
		options.ReadTimeout = waitMax + 3*time.Second // go-redis's default on top of what LOCK may wait
	}
	return &redlockdTarget{client: redis.NewClient(options), wait: wait}
}

func (t *redlockdTarget) newCaller() caller {
	c := &redlockdCaller{client: t.client, lock: []any{"LOCK", "", lockTTL.Milliseconds()}, unlock: []any{"UNLOCK", "", ""}}
	if t.wait {
		c.lock = append(c.lock, "WAIT", waitMax.Milliseconds())
	}
	return c
}

func (t *redlockdTarget) close() { t.client.Close() }

type redlockdCaller struct {
	client       *redis.Client
	lock, unlock []any // the commands; resource and token are filled in
}

func (c *redlockdCaller) acquire(ctx context.Context, resource string) error {
	c.lock[1] = resource
	reply, err := c.client.Do(ctx, c.lock...).Slice()
	switch {
	case errors.Is(err, redis.Nil):
		return errGaveUp
	case err != nil:
		return fmt.Errorf("LOCK: %w", err)
	case len(reply) != 2:
		return fmt.Errorf("LOCK: got %d elements, want token and validity", len(reply))
	}
	c.unlock[1], c.unlock[2] = resource, reply[0]
	return nil
}

func (c *redlockdCaller) release(ctx context.Context) error {
	released, err := c.client.Do(ctx, c.unlock...).Int()
	if err != nil {
		return fmt.Errorf("UNLOCK: %w", err)
	}
	if released != 1 {
		return errNotHeld
	}
	return nil
}
