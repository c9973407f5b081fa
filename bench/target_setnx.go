package main

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/redis/rueidis"
)

// setNXTarget sends redlockd what a lock library for one Redis instance sends, through rueidis: the commands of
// concurrent callers share pipelines, so that what is compared with pipelinedTarget is the commands alone.
type setNXTarget struct {
	client rueidis.Client
	script *rueidis.Lua
}

func newSetNXTarget(addr string) (*setNXTarget, error) {
	client, err := newRueidisClient(addr)
	if err != nil {
		return nil, err
	}
	return &setNXTarget{client: client, script: rueidis.NewLuaScript(compareAndDeleteText)}, nil
}

func (t *setNXTarget) newCaller() caller { return &setNXCaller{target: t} }

func (t *setNXTarget) close() { t.client.Close() }

type setNXCaller struct {
	target          *setNXTarget
	resource, token string
}

func (c *setNXCaller) acquire(ctx context.Context, resource string) error {
	c.resource, c.token = resource, rand.Text()
	client := c.target.client
	err := client.Do(ctx, client.B().Set().Key(resource).Value(c.token).Nx().Px(lockTTL).Build()).Error()
	switch {
	case rueidis.IsRedisNil(err):
		return errGaveUp
	case err != nil:
		return fmt.Errorf("SET NX: %w", err)
	}
	return nil
}

func (c *setNXCaller) release(ctx context.Context) error {
	deleted, err := c.target.script.Exec(ctx, c.target.client, []string{c.resource}, []string{c.token}).AsInt64()
	if err != nil {
		return fmt.Errorf("EVALSHA: %w", err)
	}
	if deleted != 1 {
		return errNotHeld
	}
	return nil
}
