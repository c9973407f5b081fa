package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// batchTarget is a go-redis client in front of redlockd that sends depth LOCKs as one explicit pipeline, then as many
// UNLOCKs. A caller of it holds depth locks, the resources that acquire is given with a number appended.
type batchTarget struct {
	client *redis.Client
	depth  int
}

func newBatchTarget(spec loadSpec) *batchTarget {
	return &batchTarget{
		client: redis.NewClient(&redis.Options{Addr: spec.Redlockd, PoolSize: spec.Callers, MaxRetries: -1}),
		depth:  spec.Depth,
	}
}

func (t *batchTarget) newCaller() caller {
	return &batchCaller{batchTarget: t, token: rand.Text(), resources: make([]string, t.depth)}
}

func (t *batchTarget) close() { t.client.Close() }

type batchCaller struct {
	*batchTarget
	token     string
	resources []string
}

func (c *batchCaller) acquire(ctx context.Context, resource string) error {
	for i := range c.resources {
		c.resources[i] = resource + ":" + strconv.Itoa(i)
	}
	_, err := c.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, resource := range c.resources {
			p.Do(ctx, "LOCK", resource, lockTTLms, "TOKEN", c.token)
		}
		return nil
	})
	if err != nil { // also a null: nobody else wants these
		return fmt.Errorf("LOCK: %w", err)
	}
	return nil
}

func (c *batchCaller) release(ctx context.Context) error {
	replies, err := c.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, resource := range c.resources {
			p.Do(ctx, "UNLOCK", resource, c.token)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("UNLOCK: %w", err)
	}
	for _, reply := range replies {
		if n, err := reply.(*redis.Cmd).Int(); err != nil || n != 1 {
			return errNotHeld
		}
	}
	return nil
}
