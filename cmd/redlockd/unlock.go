package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
)

const unlockForm = "redlockd unlock --force [flags] resource [reason]"

const unlockHelp = `Usage: ` + unlockForm + `

Releases a lock without its token. The holder can be a writer, readers, a lock library, one slot (jobs#0). It asks a redlockd that
runs (UNLOCK resource FORCE reason), which logs and audits it with the reason; on a terminal the reason is asked for if it is left out.
The user who logs in must be an administrator (admin in [auth]).

Each redlockd that the masters reach stops renewing the lock, and tells its holder. The holder's program does not stop by that: it may
work on until its validity is over, beside the next holder. So stop it first if you can. A resource that checks fences refuses it
once it has been told the fence that is printed here, or that of the next holder.

Exit codes: 0 released; 1 nobody held it, or it is not known whether it is released (the message says which), or the server refuses or
does not answer; 2 the command line or the configuration is wrong.
`

func unlockFlags() *flagSet {
	return newFlagSet("unlock",
		flagHelp{name: "force", usage: "needed, because this ends a lock that somebody else holds"},
		timeoutFlag(clientTimeout))
}

// unlock releases a lock by force.
func unlock(p process, args []string) int {
	var resource, reason string
	flags := unlockFlags()
	flags.flagsBehind = true
	flags.operands = func(operands []string) error {
		switch {
		case !flags.on("force"):
			return errors.New("--force is missing: unlock is for locks of others, and their holders may work on; with a token, send UNLOCK resource token")
		case len(operands) == 0 || operands[0] == "":
			return errors.New("no resource is named: " + unlockForm)
		case len(operands) > 2:
			return fmt.Errorf("unexpected %q behind the reason: write the reason in quotes", operands[2])
		case len(operands) == 2:
			reason = operands[1]
		case !isTerminal(os.Stdin):
			return errors.New("no reason is given: " + unlockForm)
		}
		resource = operands[0]
		return nil
	}
	to, timeout, code := p.configureClient(flags, args, clientTimeout)
	if to == nil {
		return code
	}
	if reason == "" {
		fmt.Fprintf(p.stderr, "Why is %q to be released? ", resource)
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		if reason = strings.TrimSpace(line); reason == "" {
			return p.usageError(errors.New("no reason is given: nothing was released"))
		}
	}
	return p.withServer("unlock", to, timeout, func(c *client) error { return p.force(c, resource, reason) })
}

// force sends the command, and says what it has done.
func (p process) force(c *client, resource, reason string) error {
	v, err := c.do("UNLOCK", resource, "FORCE", reason)
	if err != nil {
		return err
	}
	n := func(name string) int64 { return field(v, name).Int }
	if n("released") == 0 {
		return fmt.Errorf("nobody holds %q: %d of %d masters of %s have said so", resource, n("masters"), n("of"), c.addr)
	}
	fmt.Fprintf(p.stdout, "%s is released on %d of %d masters. Its fence is %d: a resource that is told of it refuses the old holder.\n",
		resource, n("masters"), n("of"), n("fence"))
	if n("another") > 0 {
		fmt.Fprintf(p.stdout, "%d masters hold another token now: the next holder's, or a new one of the old holder's. See redlockd locks.\n", n("another"))
	}
	if n("renewed") > 0 {
		fmt.Fprintf(p.stdout, "%d masters still hold the token, because its holder was renewing the lock. They are too few, and it ends there with its TTL.\n", n("renewed"))
	}
	if n("readers") > 0 {
		fmt.Fprintf(p.stdout, "%d readers still hold it: repeat the command.\n", n("readers"))
	}
	return nil
}
