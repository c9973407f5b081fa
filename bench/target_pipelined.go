package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// pipelinedTarget is a rueidis client in front of redlockd: it puts the commands of concurrent callers into common
// pipelines by itself.
type pipelinedTarget struct {
	client rueidis.Client
	wait   bool
}

// newPipelinedTarget connects: rueidis does so when it is made.
func newPipelinedTarget(addr string, wait bool) (*pipelinedTarget, error) {
	client, err := newRueidisClient(addr)
	if err != nil {
		return nil, err
	}
	return &pipelinedTarget{client: client, wait: wait}, nil
}

func newRueidisClient(redlockd string) (rueidis.Client, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{redlockd},
		ForceSingleClient: true, // redlockd is neither cluster nor sentinel: no need to ask
		DisableCache:      true, // client-side caching needs CLIENT TRACKING, and locks must not be read from a cache
		// As its documentation advises for throughput: all callers on one connection, and commands of the same moment in one write.
		// With the defaults, four connections and a write as soon as there is a command, 64 callers make a quarter less.
		PipelineMultiplex: -1,
		MaxFlushDelay:     20 * time.Microsecond,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to redlockd: %w", err)
	}
	return client, nil
}

func (t *pipelinedTarget) newCaller() caller { return &pipelinedCaller{client: t.client, wait: t.wait} }

func (t *pipelinedTarget) close() { t.client.Close() }

type pipelinedCaller struct {
	client          rueidis.Client
	wait            bool
	resource, token string
}

// The durations of LOCK as its arguments.
var (
	lockTTLms = strconv.FormatInt(lockTTL.Milliseconds(), 10)
	waitMaxMs = strconv.FormatInt(waitMax.Milliseconds(), 10)
)

func (c *pipelinedCaller) acquire(ctx context.Context, resource string) error {
	command := c.client.B().Arbitrary("LOCK").Keys(resource).Args(lockTTLms)
	var result rueidis.RedisResult
	if c.wait {
		// A waiting LOCK in a shared pipeline would hold up everybody behind it: Blocking takes a connection of its own
		// from a pool of 1024.
		result = c.client.Do(ctx, command.Args("WAIT", waitMaxMs).Blocking())
	} else {
		result = c.client.Do(ctx, command.Build())
	}
	reply, err := result.ToArray()
	switch {
	case rueidis.IsRedisNil(err):
		return errGaveUp
	case err != nil:
		return fmt.Errorf("LOCK: %w", err)
	case len(reply) != 2:
		return fmt.Errorf("LOCK: got %d elements, want token and validity", len(reply))
	}
	if c.token, err = reply[0].ToString(); err != nil {
		return fmt.Errorf("LOCK: the token: %w", err)
	}
	c.resource = resource
	return nil
}

func (c *pipelinedCaller) release(ctx context.Context) error {
	command := c.client.B().Arbitrary("UNLOCK").Keys(c.resource).Args(c.token).Build()
	released, err := c.client.Do(ctx, command).AsInt64()
	if err != nil {
		return fmt.Errorf("UNLOCK: %w", err)
	}
	if released != 1 {
		return errNotHeld
	}
	return nil
}
