package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"redlockd/redlock"
)

// A probe makes some thirty round trips and may have to resolve a name, so it gets this many times what the server allows
// itself for a connection.
const probeTimeoutFactor = 3

func checkFlags() *flagSet {
	return newFlagSet("check", flagHelp{"json", "", "print the findings as JSON"})
}

// check probes the masters and explains.
func check(p process, args []string) int {
	flags := checkFlags()
	if err := flags.parse(args); errors.Is(err, flag.ErrHelp) {
		return help(p, []string{"check"})
	} else if err != nil {
		return p.usageError(err)
	}
	c, err := load(flags.given, p.environ)
	if err != nil {
		return p.usageError(err)
	}
	if flags.on("print-config") {
		c.print(p.stdout)
		return exitOK
	}
	for _, warning := range c.warnings {
		fmt.Fprintf(p.stderr, "redlockd: warning: %s\n", warning)
	}
	if len(c.engine.Masters) == 0 {
		return p.usageError(errors.New("nothing to check: no masters are configured (a server would start five inside its own process); name them with --masters or --config"))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	reports := redlock.ProbeAll(ctx, c.engine, probeTimeoutFactor*c.engine.ConnectTimeout)
	v := verdictOf(reports, c.engine.MasterTimeout)
	if flags.on("json") {
		err = v.printJSON(p.stdout)
	} else {
		err = v.print(p.stdout, colorful(p))
	}
	if err != nil {
		return p.failed(err)
	}
	if !v.Quorum {
		return exitFailed
	}
	return exitOK
}

// judgeRoundTrip compares the way to a master with the time that the server will give it.
func judgeRoundTrip(r *redlock.MasterReport, timeout time.Duration) {
	problem := redlock.Problem{Fix: "raise master.timeout, or run redlockd nearer to its masters"}
	switch {
	case r.RTT >= timeout:
		problem.Severity = redlock.NoVote
		problem.Reason = fmt.Sprintf("its round trip of %v is not below master.timeout = %s: its votes come too late", inMs(r.RTT), formatDuration(timeout))
	case r.RTT > timeout/4:
		problem.Severity = redlock.Warning
		problem.Reason = fmt.Sprintf("its round trip of %v takes more than a quarter of master.timeout = %s: under load its votes come too late", inMs(r.RTT), formatDuration(timeout))
	default:
		return
	}
	r.Problems = append(r.Problems, problem)
}
