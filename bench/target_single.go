package main

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// singleTarget is the lock on one Redis that most applications have: SET NX PX, and a script that deletes what is still
// ours. On one master it is the price of a lock without a quorum; on redlockd it is what an application pays that changed
// nothing but the address.
type singleTarget struct{ client *redis.Client }

func newSingleTarget(options *redis.Options) *singleTarget {
	return &singleTarget{client: redis.NewClient(options)}
}

func (t *singleTarget) newCaller() caller { return &singleCaller{client: t.client} }

func (t *singleTarget) close() { t.client.Close() }

type singleCaller struct {
	client   *redis.Client
	resource [1]string
	token    string
}

// compareAndDeleteText is the script of the Redis documentation.
const compareAndDeleteText = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

// compareAndDelete runs by EVALSHA.
var compareAndDelete = redis.NewScript(compareAndDeleteText)

func (c *singleCaller) acquire(ctx context.Context, resource string) error {
	c.resource[0], c.token = resource, rand.Text()
	granted, err := c.client.SetNX(ctx, resource, c.token, lockTTL).Result()
	if err != nil {
		return fmt.Errorf("SET NX: %w", err)
	}
	if !granted {
		return errGaveUp
	}
	return nil
}

func (c *singleCaller) release(ctx context.Context) error {
	deleted, err := compareAndDelete.Run(ctx, c.client, c.resource[:], c.token).Int()
	if err != nil {
		return fmt.Errorf("EVALSHA: %w", err)
	}
	if deleted != 1 {
		return errNotHeld
	}
	return nil
}
