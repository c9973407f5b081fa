package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/redlock/resp"
)

// pingTimeout is below the 3 s that health checks often have.
const pingTimeout = 2 * time.Second

var Ping = cli.Command{Name: "ping", Summary: "ask a redlockd that runs for a sign of life: the health check of a container", Audience: cli.ForClient, Run: runPing,
	Flags: []cli.Flag{timeoutFlag(pingTimeout)},
	Help: `Usage: redlockd ping [flags]

Asks a redlockd that runs for a sign of life (PING), and prints how long that took. It needs no shell and no other program, so it can
be the health check of a container. Without --server it asks the redlockd of the same settings, on this machine.

It does not ask whether a lock can be granted, because a restart of redlockd brings no master back. /readyz and redlockd check
answer that. A server that wants a login, or has as many clients as it may, is alive, too.

Exit codes: 0 it has answered; 1 it has not, or has refused the password; 2 the command line or the configuration is wrong.
`}

// runPing asks a server for a sign of life.
func runPing(c *cli.Call) error {
	to, timeout, err := servers(c, pingTimeout)
	if err != nil {
		return err
	}
	began := time.Now()
	addr, answer, err := pingOnce(to, timeout)
	if err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	fmt.Fprintf(c.Stdout, "%s: %s in %s\n", addr, answer, cli.InMs(time.Since(began)))
	return nil
}

// pingOnce connects and asks. Both together take no longer than timeout.
func pingOnce(to []*config.Endpoint, timeout time.Duration) (addr, answer string, err error) {
	deadline := time.Now().Add(timeout)
	c, err := connectFirst(context.Background(), to, timeout)
	addr = to[len(to)-1].Addr
	if err == nil {
		addr = c.Addr()
		defer c.Close()
		c.Timeout = max(time.Until(deadline), time.Millisecond)
		var v resp.Value
		v, err = c.Do("PING")
		answer = v.Text
	}
	switch refusal, _ := errors.AsType[ServerError](err); {
	case strings.HasPrefix(string(refusal), "NOAUTH "):
		return addr, "alive, and wants a login", nil
	case strings.HasPrefix(string(refusal), "ERR max number of clients reached"):
		return addr, "alive, and has no room for one more client (max_clients)", nil
	}
	return addr, answer, err
}
