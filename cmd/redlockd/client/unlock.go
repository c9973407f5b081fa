package client

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"redlockd/cmd/redlockd/cli"
)

const unlockForm = "redlockd unlock --force [flags] resource [reason]"

var Unlock = cli.Command{Name: "unlock", Summary: "release a lock that another client holds, without its token", Audience: cli.ForClient, Form: unlockForm, Run: runUnlock,
	Flags: []cli.Flag{{Name: "force", Usage: "needed, because this ends a lock that somebody else holds"}, timeoutFlag(clientTimeout)},
	Help: `Usage: ` + unlockForm + `

Releases a lock without its token. The holder can be a writer, readers, a lock library, one slot (jobs#0). It asks a redlockd that
runs (UNLOCK resource FORCE reason), which logs and audits it with the reason; on a terminal the reason is asked for if it is left out.
The user who logs in must be an administrator (admin in [auth]).

Each redlockd that the masters reach stops renewing the lock, and tells its holder. The holder's program does not stop by that: it may
work on until its validity is over, beside the next holder. So stop it first if you can. A resource that checks fences refuses it
once it has been told the fence that is printed here, or that of the next holder.

Exit codes: 0 released; 1 not released, or not known (the message says which); 2 the command line or the configuration is wrong.
`}

// runUnlock releases a lock by force.
func runUnlock(c *cli.Call) error {
	switch {
	case !c.On("force"):
		return c.Misused("--force is missing: unlock is for locks of others, and their holders may work on; with a token, send UNLOCK resource token")
	case len(c.Args) == 0 || c.Args[0] == "":
		return c.Misused("no resource is named: %s", unlockForm)
	case len(c.Args) > 2:
		return c.Misused("unexpected %q behind the reason: write the reason in quotes", c.Args[2])
	case len(c.Args) == 1 && !cli.IsTerminal(os.Stdin):
		return c.Misused("no reason is given: %s", unlockForm)
	}
	resource, reason := c.Args[0], strings.Join(c.Args[1:], "")
	if reason == "" {
		fmt.Fprintf(c.Stderr, "Why is %q to be released? ", resource)
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		if reason = strings.TrimSpace(line); reason == "" {
			return cli.Usage(errors.New("no reason is given: nothing was released"))
		}
	}
	return withServer(c, func(server *Connection) error { return force(c, server, resource, reason) })
}

// force sends the command, and says what it has done.
func force(c *cli.Call, server *Connection, resource, reason string) error {
	v, err := server.Do("UNLOCK", resource, "FORCE", reason)
	if err != nil {
		return err
	}
	n := func(name string) int64 { return Field(v, name).Int }
	if n("released") == 0 {
		return fmt.Errorf("nobody holds %q: %d of %d masters of %s have said so", resource, n("masters"), n("of"), server.to.Addr)
	}
	fmt.Fprintf(c.Stdout, "%s is released on %d of %d masters. Its fence is %d: a resource that is told of it refuses the old holder.\n",
		resource, n("masters"), n("of"), n("fence"))
	if n("another") > 0 {
		fmt.Fprintf(c.Stdout, "%d masters hold another token now: the next holder's, or a new one of the old holder's. See redlockd locks.\n", n("another"))
	}
	if n("renewed") > 0 {
		fmt.Fprintf(c.Stdout, "%d masters still hold the token, because its holder was renewing the lock. They are too few, and it ends there with its TTL.\n", n("renewed"))
	}
	if n("readers") > 0 {
		fmt.Fprintf(c.Stdout, "%d readers still hold it: repeat the command.\n", n("readers"))
	}
	return nil
}
