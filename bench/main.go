// Command bench measures redlockd against its peers: how many locks, how fast, at what price in CPU, how a contended
// lock changes hands, and what is left of all that when masters fail.
//
//	go run ./bench --help
//
// It starts everything it measures, on loopback, and ends it again, also on Ctrl-C:
//
//	bench ──┬── redis-server ×5      the masters, new for a run, and new for every fault
//	        ├── redlockd             built from this module, its environment set by flags
//	        └── bench load           one per cell: one target, some callers, some seconds (load.go)
//	              ├─ redlockd            go-redis ──┐
//	              ├─ redlockd-pipelined  rueidis  ──┴─→ redlockd ─→ 5 masters
//	              ├─ redsync             5 go-redis pools ────────→ 5 masters
//	              └─ single              go-redis ────────────────→ 1 master
//
// # Caveats
//
// Everything shares the cores of one machine, and the speed of that machine changes while we measure. Absolute figures
// of two runs do not compare: trust the ratios, which are taken within a round, and the CPU time per operation.
// CPU time of other processes comes in ticks of 10 ms, so cells much shorter than a second blur it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
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
	if err := requireRedis(); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return fmt.Errorf("make the directory for the results: %w", err)
	}
	p := newProgress(os.Stderr, o.cells())
	defer p.clear()

	var program *proxyProgram
	if slices.ContainsFunc(o.targets, usesRedlockd) {
		scratch, err := os.MkdirTemp("", "redlockd-bench-")
		if err != nil {
			return fmt.Errorf("make a directory for redlockd: %w", err)
		}
		defer os.RemoveAll(scratch)
		log, err := os.Create(filepath.Join(o.out, logName))
		if err != nil {
			return fmt.Errorf("make redlockd's log: %w", err)
		}
		defer log.Close()
		if program, err = findProxy(ctx, o, scratch, log); err != nil {
			return err
		}
	}
	r := report{Environment: readEnvironment(os.Args[1:], program)}
	if err := r.measure(ctx, o, program, p); err != nil {
		return err
	}
	r.Environment.LoadAfter = loadAverage()
	p.clear()
	r.writeText(os.Stdout)
	if err := r.save(o.out); err != nil {
		return err
	}
	fmt.Printf("written to %s: %s, %s, plots\n", o.out, reportText, reportJSON)
	return nil
}

// measure fills in the report, one scenario after another.
func (r *report) measure(ctx context.Context, o options, program *proxyProgram, p *progress) error {
	if slices.Contains(o.scenarios, scenarioUncontended) || slices.Contains(o.scenarios, scenarioHotKey) {
		c, err := startCluster(ctx, masterCount, program)
		if err != nil {
			return err
		}
		defer c.close()
		if slices.Contains(o.scenarios, scenarioUncontended) {
			if r.Uncontended, err = runUncontended(ctx, o, c, p); err != nil {
				return err
			}
		}
		if slices.Contains(o.scenarios, scenarioHotKey) {
			if r.HotKey, err = runHotKey(ctx, o, c, p); err != nil {
				return err
			}
		}
	}
	if slices.Contains(o.scenarios, scenarioFaults) {
		var err error
		if r.Faults, err = runFaults(ctx, o, program, p); err != nil {
			return err
		}
	}
	return nil
}
