package main

import (
	"context"
	"os"
	"slices"
	"strings"
)

// The scenarios, by the names that --scenarios takes.
const (
	scenarioUncontended = "uncontended"
	scenarioHotKey      = "hotkey"
	scenarioFaults      = "faults"
	scenarioRecovery    = "recovery"
	scenarioLimit       = "limit"
	scenarioLatency     = "latency"
	scenarioProxies     = "proxies"
	scenarioSeveral     = "several"
	scenarioSlots       = "slots"
	scenarioReaders     = "readers"
	scenarioBeside      = "beside"
	scenarioOverload    = "overload"
	scenarioGrowth      = "growth"
	scenarioDistance    = "distance"
	scenarioConnections = "connections"
	scenarioLibraries   = "libraries"
)

// scenario is one question and how it is answered.
type scenario struct {
	name     string
	meaning  string // one line for --help
	redlockd bool   // it measures redlockd whatever the targets are
	cells    func(o *options) int
	// run fills in its part of the report.
	run func(ctx context.Context, b *bench, r *report) error
}

// scenarioList has the scenarios in the order in which they run and are reported. A new one goes here; where its load
// generator measures something of its own, into serveLoad; its tables and plots into report.writeText and report.plot.
func scenarioList() []scenario {
	return []scenario{
		{
			name:    scenarioUncontended,
			meaning: "callers acquire and release, each on resources of its own",
			cells:   func(o *options) int { return len(o.callers) * len(o.targets) * o.rounds },
			run:     runUncontended,
		},
		{
			name:    scenarioHotKey,
			meaning: "clients compete for one resource, 1 ms hold, 5 ms think",
			cells:   func(o *options) int { return len(o.clients) * len(o.quorumTargets()) * o.hotRounds },
			run:     runHotKey,
		},
		{
			name:    scenarioFaults,
			meaning: "64 callers; after 1 of 4 s some masters are frozen or killed",
			cells:   func(o *options) int { return len(o.faults) * len(o.quorumTargets()) * o.faultRounds },
			run:     runFaults,
		},
		{
			name:     scenarioRecovery,
			meaning:  "masters forget and vote again, one after another, while locks are held and others lock",
			redlockd: true,
			cells:    func(o *options) int { return len(o.recoveryHeld) * o.recoveryRounds },
			run:      runRecovery,
		},
		{
			name:    scenarioLimit,
			meaning: "what the five masters alone can do here: a redis-benchmark on each at once",
			cells:   func(o *options) int { return o.rounds },
			run:     runLimit,
		},
		{
			name:    scenarioLatency,
			meaning: "acquire and release at fixed rates, counted from when it was due",
			cells:   func(o *options) int { return len(o.rates) * len(o.quorumTargets()) * o.latencyRounds },
			run:     runLatency,
		},
		{
			name:     scenarioProxies,
			meaning:  "the hot key with its clients spread over several redlockd",
			redlockd: true,
			cells:    func(o *options) int { return len(o.fleets) * o.hotRounds },
			run:      runProxies,
		},
		{
			name:     scenarioSeveral,
			meaning:  "MLOCK of six resources beside clients that contend for one of them each",
			redlockd: true,
			cells:    func(o *options) int { return len(severalWays) * o.hotRounds },
			run:      runSeveral,
		},
		{
			name:     scenarioSlots,
			meaning:  "64 clients compete for 8 slots of one resource, and for 8 resources",
			redlockd: true,
			cells:    func(o *options) int { return len(slotsWays) * o.hotRounds },
			run:      runSlots,
		},
		{
			name:     scenarioReaders,
			meaning:  "64 callers share one resource as readers, with and without a writer, or have one each",
			redlockd: true,
			cells:    func(o *options) int { return len(readersWays) * o.hotRounds },
			run:      runReaders,
		},
		{
			name:     scenarioBeside,
			meaning:  "one user's LOCK while somebody else floods the same redlockd",
			redlockd: true,
			cells:    func(o *options) int { return len(besideWays) * o.hotRounds },
			run:      runBeside,
		},
		{
			name:     scenarioOverload,
			meaning:  "1, 2, 10 and 100 times as many locks are asked for as the masters can grant",
			redlockd: true,
			cells:    func(o *options) int { return len(overloadWays) * o.hotRounds },
			run:      runOverload,
		},
		{
			name:     scenarioGrowth,
			meaning:  "throughput, CPU and memory against masters, held locks, waiters and depth of pipelines",
			redlockd: true,
			cells:    growthCells,
			run:      runGrowth,
		},
		{
			name:    scenarioDistance,
			meaning: "the masters some milliseconds away",
			cells: func(o *options) int {
				return len(o.distances) * len(distanceCallers) * len(o.quorumTargets()) * o.distanceRounds
			},
			run: runDistance,
		},
		{
			name:     scenarioConnections,
			meaning:  "memory of idle connections, fairness among busy ones",
			redlockd: true,
			cells:    connectionsCells,
			run:      runConnections,
		},
		{
			name:     scenarioLibraries,
			meaning:  "Redlock libraries of Go, Node, Python and Java: redlockd as their only master, against the five masters",
			redlockd: true,
			cells:    libraryCells,
			run:      runLibraries,
		},
	}
}

// scenarioNames lists all; scenarioDefaults are those that run when nobody asks for others.
var (
	scenarioNames    = column(scenarioList(), func(s scenario) string { return s.name })
	scenarioDefaults = strings.Join(scenarioNames[:3], ",")
)

// bench is one run of the program.
type bench struct {
	options
	program  *proxyProgram // nil when nothing needs redlockd
	log      *os.File
	progress *progress

	libraryPrograms map[string][]string // load generators of libraries, with their arguments
	leftOut         []string            // libraries that are not measured, and why
}

// startCluster starts five new masters and what the targets need beside them.
func (b *bench) startCluster(ctx context.Context, targets []string) (*cluster, error) {
	var program *proxyProgram
	if slices.ContainsFunc(targets, usesRedlockd) {
		program = b.program
	}
	c, err := startCluster(ctx, masterCount, program)
	if err != nil {
		return nil, err
	}
	if slices.Contains(targets, targetEtcd) {
		if c.etcd, err = startEtcd(ctx, b.log); err != nil {
			c.close()
			return nil, err
		}
	}
	if slices.Contains(targets, targetFloor) {
		if c.floor, err = startFloor(ctx, c.mastersSeen(), b.log); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}
