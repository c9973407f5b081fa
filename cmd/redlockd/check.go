package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"redlockd/cmd/redlockd/config"
	"redlockd/redlock"
)

// A probe makes some thirty round trips and may have to resolve a name, so it gets this many times what the server allows
// itself for a connection.
const probeTimeoutFactor = 3

func checkFlags() *flagSet {
	return newFlagSet("check", flagHelp{name: "json", arg: "", usage: "print the findings as JSON"})
}

// check probes the masters and explains.
func check(p process, args []string) int {
	flags := checkFlags()
	c, code := p.configureMasters(flags, args)
	if c == nil {
		return code
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	reports := redlock.ProbeAll(ctx, c.Engine, probeTimeoutFactor*c.Engine.ConnectTimeout)
	v := verdictOf(reports, c.Engine.MasterTimeout)
	var err error
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
		problem.Reason = fmt.Sprintf("its round trip of %v is not below master.timeout = %s: its votes come too late", inMs(r.RTT), config.FormatDuration(timeout))
	case r.RTT > timeout/4:
		problem.Severity = redlock.Warning
		problem.Reason = fmt.Sprintf("its round trip of %v takes more than a quarter of master.timeout = %s: under load its votes come too late", inMs(r.RTT), config.FormatDuration(timeout))
	default:
		return
	}
	r.Problems = append(r.Problems, problem)
}
