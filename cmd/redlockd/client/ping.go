package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/redlock/resp"
)

// pingTimeout is below the 3 s that health checks often have.
const pingTimeout = 2 * time.Second

var Ping = cli.Command{Name: "ping", Summary: "ask a redlockd that runs for a sign of life: the health check of a container", Audience: cli.ForClient, Run: runPing,
	Flags:      []cli.Flag{timeoutFlag(pingTimeout), {Name: inside, Usage: "ask the redlockd in the same container, whatever its settings: no address, login or certificate is needed"}},
	NoSettings: inside,
	Help: `Usage: redlockd ping [flags]

Asks a redlockd that runs for a sign of life (PING), and prints how long that took. It needs no shell and no other program, so it can
be the health check of a container. Without --server it asks the redlockd of the same settings, on this machine.
With --inside it reads no settings and connects to no port: on Linux every redlockd says that it is alive on an abstract unix
socket, to processes with the same mount namespace: those in its container. Of several servers there, the first has the socket.

It does not ask whether a lock can be granted, because a restart of redlockd brings no master back. /readyz and redlockd check
answer that. A server that wants a login, or has as many clients as it may, is alive, too.

Exit codes: 0 it has answered; 1 it has not, or has refused the password; 2 the command line or the configuration is wrong.
`}

// inside is the switch that asks without settings: a health check must not fail because somebody has broken the file of a server that runs.
const inside = "inside"

// runPing asks a server for a sign of life.
func runPing(c *cli.Call) error {
	if c.On(inside) {
		return pingInside(c)
	}
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

// pingInside waits for what a server in the same mount namespace says.
func pingInside(c *cli.Call) error {
	timeout, err := timeoutOf(c, pingTimeout)
	if err != nil {
		return cli.Usage(err)
	}
	name := config.HealthSocket()
	if name == "" {
		return cli.Usage(errors.New("--inside: only Linux has sockets without a file: leave it out"))
	}
	began := time.Now()
	conn, err := net.DialTimeout("unix", name, timeout)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return errors.New("ping: no redlockd runs in this container, or on this machine outside of containers")
	}
	if err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	defer conn.Close()
	conn.SetDeadline(began.Add(timeout))
	answer := make([]byte, len(config.Alive))
	if n, err := io.ReadFull(conn, answer); string(answer) != config.Alive {
		return fmt.Errorf("ping: the redlockd in this container does not answer: %q (%v)", answer[:n], err)
	}
	fmt.Fprintf(c.Stdout, "%s in %s\n", strings.TrimSpace(config.Alive), cli.InMs(time.Since(began)))
	return nil
}
