// Command bench measures redlockd against its peers: how many locks, how fast, at what price in CPU, how a contended
// lock changes hands, and what is left of all that when masters fail.
//
//	go run -C bench . --help
//
// It is a module of its own, so that plots, histograms and the clients of the peers are no part of redlockd's module graph.
// It starts everything it measures, on loopback, and ends it again, also on Ctrl-C:
//
//	bench ──┬── redis-server ×5      the masters, new for a scenario, and new for every fault
//	        ├── redlockd             built from this module, its environment set by flags
//	        ├── etcd                 only when it is a target
//	        └── bench load           one per cell: one target, some callers, some seconds (load.go)
//	              ├─ redlockd…            go-redis ──┐
//	              ├─ redlockd-pipelined…  rueidis  ──┴─→ redlockd ─→ 5 masters
//	              ├─ redsync              5 go-redis pools ────────→ 5 masters
//	              ├─ single, peers        their clients ───────────→ 1 master
//	              ├─ etcd                 its client ──────────────→ etcd
//	              └─ node, python, java   their libraries ─────────→ redlockd, or 5 masters
//
// It touches no server that it did not start: all run on free ports of loopback, and a port that somebody else took
// meanwhile is noticed before anything is written to its server.
//
// # Caveats
//
// Everything shares the cores of one machine, and the speed of that machine changes while we measure. Absolute figures
// of two runs do not compare: trust the ratios, which are taken within a round, and the CPU time per operation.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	logging.Disable() // go-redis logs what it also returns, and a dead master makes it a flood
	if len(os.Args) == 2 && os.Args[1] == loadCommand {
		os.Exit(loadMain())
	}
	o, err := parseOptions(os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = run(ctx, o)
		if ctx.Err() != nil {
			err = errors.New("interrupted, no report written")
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures the scenarios and writes the report. All it started has ended when it returns.
func run(ctx context.Context, o options) error {
	if err := requirePrograms(o); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return fmt.Errorf("make the directory for the results: %w", err)
	}
	log, err := os.Create(filepath.Join(o.out, logName))
	if err != nil {
		return fmt.Errorf("make the log of the servers: %w", err)
	}
	defer log.Close()
	scratch, err := os.MkdirTemp("", "redlockd-bench-")
	if err != nil {
		return fmt.Errorf("make a directory for programs: %w", err)
	}
	defer os.RemoveAll(scratch)

	b := &bench{options: o, log: log}
	if err := b.findLibraries(ctx); err != nil {
		return err
	}
	b.progress = newProgress(os.Stderr, b.cells())
	defer b.progress.clear()
	if o.needsRedlockd() {
		if b.program, err = findProxy(ctx, o, scratch, log); err != nil {
			return err
		}
	}
	for _, why := range b.leftOut {
		fmt.Fprintln(os.Stderr, "bench: left out:", why)
	}
	r := report{Environment: readEnvironment(os.Args[1:], b.program, o.needs(targetEtcd))}
	// A scenario that cannot go on ends the run. What was measured before is worth its forty minutes.
	var failed error
	for _, s := range o.chosen() {
		if err := s.run(ctx, b, &r); err != nil {
			failed = fmt.Errorf("scenario %s: %w; the report has what was measured before", s.name, err)
			break
		}
	}
	if ctx.Err() != nil {
		return failed
	}
	r.Environment.LoadAfter = loadAverage()
	r.Environment.Rounds = b.progress.rounds
	b.progress.clear()
	r.writeText(os.Stdout)
	if err := r.save(o.out); err != nil {
		return err
	}
	fmt.Printf("written to %s: %s, %s, %s, plots\n", o.out, reportText, reportPage, reportJSON)
	return failed
}
