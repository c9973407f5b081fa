package redlock

// Shared by the tests of this package: real masters, and a client over them.

import (
	"context"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

// openReal opens a client over the servers, waits until a quorum is up, and closes it with the test.
func openReal(t testing.TB, servers []*redisproc.Server, change func(*Options)) *Client {
	t.Helper()
	var opts Options
	for _, s := range servers {
		opts.Masters = append(opts.Masters, Master{Addr: s.Addr})
	}
	if change != nil {
		change(&opts)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // only a hang takes so long
	defer cancel()
	unhurried := opts // it admits all masters or none: one that is slow is none the less new
	unhurried.ConnectTimeout = time.Minute
	// The second client of a test finds masters that are admitted already.
	if err := Bootstrap(ctx, unhurried); err != nil && !strings.Contains(err.Error(), "it is not new") {
		t.Fatal(err)
	}
	c, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		c.Close(ctx)
	})
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}
