package memmaster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/memmaster"
)

// A master for a test, reached by go-redis, with a fault on the way to it.
func Example() {
	m := memmaster.New(memmaster.Options{})
	defer m.Close()
	link := m.Link()
	c := redis.NewClient(&redis.Options{Dialer: link.Dial, ContextTimeoutEnabled: true, MaxRetries: -1})
	defer c.Close()

	ctx := context.Background()
	fmt.Println(c.SetNX(ctx, "invoices", "token-1", time.Minute).Val())
	fmt.Println(c.SetNX(ctx, "invoices", "token-2", time.Minute).Val())

	link.HoldReplies() // the command is executed, its answer does not come
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := c.Del(short, "invoices").Err()
	fmt.Println(errors.Is(err, os.ErrDeadlineExceeded), m.Keys())
	// Output:
	// true
	// false
	// true []
}
