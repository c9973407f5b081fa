package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are the flags, checked.
type options struct {
	scenarios []string
	targets   []string
	warmup    time.Duration // before each cell, not measured

	callers  []int // uncontended
	rounds   int
	duration time.Duration

	clients     []int // hot key
	hotRounds   int
	hotDuration time.Duration

	faults      []fault
	faultRounds int

	limitCommands int

	fleets []fleet // proxies

	growthMasters  []int
	growthHeld     []int
	growthWaiters  []int
	growthDepths   []int
	growthRounds   int
	growthDuration time.Duration

	distances        []time.Duration // a round trip
	distanceRounds   int
	distanceDuration time.Duration

	idle, busy         []int // connections
	connectionRounds   int
	connectionDuration time.Duration

	rates           []int // latency: pairs/s
	latencyRounds   int
	latencyDuration time.Duration

	libraries       []string
	librariesByName bool // asked for by name: one that is not installed is an error
	libraryCallers  []int
	libraryRounds   int
	libraryDuration time.Duration

	redlockd   string // a program to measure; empty: build it
	gomaxprocs string // of redlockd; empty: Go's default
	gogc       string // of redlockd; empty: Go's default
	out        string
}

// quickValues are what --quick puts in the place of the defaults, for flags that were not given.
var quickValues = map[string]string{
	"rounds":       "2",
	"duration":     "500ms",
	"hot-rounds":   "1",
	"hot-duration": "1500ms",
	"fault-rounds": "1",
	"faults":       "freeze2,kill2",

	"limit-commands": "50000",

	"rates":            "1000,5000",
	"latency-rounds":   "1",
	"latency-duration": "1s",

	"fleets": "1x12,3x4",

	"growth-masters":  "1,5",
	"growth-held":     "1000,10000",
	"growth-waiters":  "100,1000",
	"growth-depths":   "1,64",
	"growth-rounds":   "1",
	"growth-duration": "500ms",

	"distances":         "1ms,20ms",
	"distance-rounds":   "1",
	"distance-duration": "500ms",

	"idle":                "1000",
	"busy":                "200",
	"connection-rounds":   "1",
	"connection-duration": "1s",

	"library-rounds":   "1",
	"library-duration": "500ms",
}

// fullValues are what --full puts in the place of the defaults.
var fullValues = map[string]string{"scenarios": everything, "targets": everything}

// rateMax bounds what a latency cell asks for: every pair has a place in a list from the beginning.
const rateMax = 1_000_000

// Bounds of the growth: what a machine of a developer can bear, and redlockd's pipeline_max.
const (
	growthMastersMax = 21
	growthHeldMax    = 5_000_000
	growthDepthMax   = 1024
)

// everything is the word for all scenarios, or all targets.
const everything = "all"

const usageHead = `Measures redlockd against its peers, on real redis-server processes that it starts and ends itself.

usage: go run ./bench [flags]

scenarios:
`

const usageTail = `
The report goes to standard output and, with report.json, README's tables (summary.md), SVG plots and the servers' log, to the
--out directory.
A run with the defaults takes a few minutes, with --quick one to two, with --full about twenty.

flags:
`

// parseOptions reads the command line. It answers --help on out itself and then returns flag.ErrHelp.
func parseOptions(args []string, out io.Writer) (options, error) {
	var (
		o     options
		flags = flag.NewFlagSet("bench", flag.ContinueOnError)
		quick = flags.Bool("quick", false, "a short run: fewer, shorter and smaller cells; other flags still win")
		full  = flags.Bool("full", false, "all scenarios and all targets; other flags still win")

		scenarios = flags.String("scenarios", scenarioDefaults, "what to measure, comma-separated, or all")
		targets   = flags.String("targets", strings.Join(targetDefaults, ","), "whom to measure, comma-separated, or all")
		callers   = flags.String("callers", "1,64,1024", "uncontended: numbers of callers")
		clients   = flags.String("hot-clients", "16,64", "hotkey: numbers of clients")
		rates     = flags.String("rates", "1000,2000,5000,10000,20000,40000", "latency: pairs/s that are asked for, ascending")
		fleets    = flags.String("fleets", "1x12,3x4,1x48,3x16", "proxies: numbers of redlockd × clients of each")
		masters   = flags.String("growth-masters", "1,3,5,7,9", "growth: numbers of masters, odd")
		held      = flags.String("growth-held", "1000,10000,100000,1000000", "growth: numbers of other locks that are held, ascending")
		waiters   = flags.String("growth-waiters", "100,1000,10000", "growth: numbers of clients that wait")
		depths    = flags.String("growth-depths", "1,4,16,64,256", "growth: LOCKs sent at once on a connection")
		distances = flags.String("distances", "1ms,5ms,20ms", "distance: round trips to the masters")
		idle      = flags.String("idle", "1000,10000", "connections: numbers that are idle")
		busy      = flags.String("busy", "1000", "connections: numbers that are busy")
		ofOthers  = flags.String("libraries", everything, "libraries: which, comma-separated, or all: "+strings.Join(libraryNames, ","))
		users     = flags.String("library-callers", "1,64", "libraries: numbers of callers")
		faults    = flags.String("faults", "none,freeze1,freeze2,kill1,kill2", "faults: which, and of how many masters; none is the control")
	)
	flags.SetOutput(io.Discard)
	flags.DurationVar(&o.warmup, "warmup", 300*time.Millisecond, "unmeasured run before each cell")
	flags.IntVar(&o.rounds, "rounds", 5, "uncontended: rounds; each measures every target once, the report shows medians")
	flags.DurationVar(&o.duration, "duration", time.Second, "uncontended: length of a cell")
	flags.IntVar(&o.hotRounds, "hot-rounds", 3, "hotkey, proxies: rounds")
	flags.DurationVar(&o.hotDuration, "hot-duration", 3*time.Second, "hotkey, proxies: length of a cell")
	flags.IntVar(&o.faultRounds, "fault-rounds", 2, "faults: rounds")
	flags.IntVar(&o.limitCommands, "limit-commands", 200_000, "limit: commands of each kind to each master")
	flags.IntVar(&o.latencyRounds, "latency-rounds", 3, "latency: rounds")
	flags.DurationVar(&o.latencyDuration, "latency-duration", 3*time.Second, "latency: length of a cell")
	flags.IntVar(&o.growthRounds, "growth-rounds", 3, "growth: rounds of each point")
	flags.DurationVar(&o.growthDuration, "growth-duration", time.Second, "growth: length of a cell")
	flags.IntVar(&o.distanceRounds, "distance-rounds", 3, "distance: rounds")
	flags.DurationVar(&o.distanceDuration, "distance-duration", time.Second, "distance: length of a cell")
	flags.IntVar(&o.connectionRounds, "connection-rounds", 3, "connections: rounds")
	flags.DurationVar(&o.connectionDuration, "connection-duration", 3*time.Second, "connections: length of a cell with busy ones")
	flags.IntVar(&o.libraryRounds, "library-rounds", 5, "libraries: rounds")
	flags.DurationVar(&o.libraryDuration, "library-duration", time.Second, "libraries: length of a cell")
	flags.StringVar(&o.redlockd, "redlockd", "", "`program` to measure; empty: build ./cmd/redlockd of this module")
	flags.StringVar(&o.gomaxprocs, "redlockd-gomaxprocs", "", "GOMAXPROCS of the redlockd process; empty: not set")
	flags.StringVar(&o.gogc, "redlockd-gogc", "", "GOGC of the redlockd process; empty: not set")
	flags.StringVar(&o.out, "out", "bench/local", "`directory` for the results, made if missing; README shows those in bench/results")

	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usageHead)
		for _, s := range scenarioList() {
			fmt.Fprintf(out, "  %-19s %s\n", s.name, s.meaning)
		}
		fmt.Fprint(out, "\ntargets:\n")
		for _, name := range targetNames {
			fmt.Fprintf(out, "  %-19s %s\n", name, traitsOf[name].meaning)
		}
		fmt.Fprint(out, usageTail)
		flags.SetOutput(out)
		flags.PrintDefaults()
		return o, err
	}
	if err != nil {
		return o, fmt.Errorf("%w (see --help)", err)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q (see --help)", flags.Arg(0))
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	preset := func(values map[string]string) {
		for name, value := range values {
			if !given[name] {
				flags.Set(name, value)
			}
		}
	}
	if *full {
		preset(fullValues)
	}
	if *quick {
		preset(quickValues)
	}

	var errs [16]error
	o.scenarios, errs[0] = parseNames("scenarios", *scenarios, scenarioNames)
	o.targets, errs[1] = parseNames("targets", *targets, targetNames)
	o.callers, errs[2] = parseCounts("callers", *callers)
	o.clients, errs[3] = parseCounts("hot-clients", *clients)
	o.rates, errs[5] = parseCounts("rates", *rates)
	o.fleets, errs[6] = parseFleets("fleets", *fleets)
	o.growthMasters, errs[7] = parseCounts("growth-masters", *masters)
	o.growthHeld, errs[8] = parseCounts("growth-held", *held)
	o.growthWaiters, errs[9] = parseCounts("growth-waiters", *waiters)
	o.growthDepths, errs[10] = parseCounts("growth-depths", *depths)
	o.distances, errs[11] = parseDistances("distances", *distances)
	o.idle, errs[12] = parseCounts("idle", *idle)
	o.busy, errs[13] = parseCounts("busy", *busy)
	o.libraries, errs[14] = parseNames("libraries", *ofOthers, libraryNames)
	o.libraryCallers, errs[15] = parseCounts("library-callers", *users)
	o.librariesByName = given["libraries"] || given["scenarios"] && !strings.Contains(*scenarios, everything)
	for _, word := range strings.Split(*faults, ",") {
		f, err := parseFault(strings.TrimSpace(word))
		if err != nil {
			errs[4] = fmt.Errorf("--faults: %w", err)
			break
		}
		o.faults = append(o.faults, f)
	}
	for _, err := range errs {
		if err != nil {
			return o, err
		}
	}
	return o, o.validate()
}

func (o *options) validate() error {
	if o.rounds < 1 || o.hotRounds < 1 || o.faultRounds < 1 {
		return fmt.Errorf("--rounds %d, --hot-rounds %d, --fault-rounds %d: each must be at least 1", o.rounds, o.hotRounds, o.faultRounds)
	}
	if !slices.IsSorted(o.rates) || o.rates[len(o.rates)-1] > rateMax {
		return fmt.Errorf("--rates %v: want them ascending, up to %d", o.rates, rateMax)
	}
	if o.latencyRounds < 1 || o.latencyDuration <= 0 || o.latencyDuration > time.Minute {
		return fmt.Errorf("--latency-rounds %d, --latency-duration %v: want at least 1 round, and up to 1m", o.latencyRounds, o.latencyDuration)
	}
	if o.distanceRounds < 1 || o.distanceDuration <= 0 {
		return fmt.Errorf("--distance-rounds %d, --distance-duration %v: want at least 1 round, and time", o.distanceRounds, o.distanceDuration)
	}
	if o.connectionRounds < 1 || o.connectionDuration <= 0 {
		return fmt.Errorf("--connection-rounds %d, --connection-duration %v: want at least 1 round, and time", o.connectionRounds, o.connectionDuration)
	}
	if o.libraryRounds < 1 || o.libraryDuration <= 0 {
		return fmt.Errorf("--library-rounds %d, --library-duration %v: want at least 1 round, and time", o.libraryRounds, o.libraryDuration)
	}
	if slices.Contains(o.scenarios, scenarioConnections) {
		if err := requireFiles(max(slices.Max(o.idle), slices.Max(o.busy))); err != nil {
			return fmt.Errorf("--idle, --busy: %w", err)
		}
	}
	if err := o.validateGrowth(); err != nil {
		return err
	}
	if o.limitCommands < 1000 || o.limitCommands > 100_000_000 {
		return fmt.Errorf("--limit-commands %d: want 1000 to 100000000", o.limitCommands)
	}
	if o.warmup <= 0 || o.duration <= 0 || o.hotDuration <= 0 {
		return fmt.Errorf("--warmup %v, --duration %v, --hot-duration %v: each must be above 0", o.warmup, o.duration, o.hotDuration)
	}
	return nil
}

func (o *options) validateGrowth() error {
	for _, n := range o.growthMasters {
		if n%2 == 0 || n > growthMastersMax {
			return fmt.Errorf("--growth-masters: %d: a number of masters is odd and at most %d here", n, growthMastersMax)
		}
	}
	if most := slices.Max(o.growthHeld); !slices.IsSorted(o.growthHeld) || most > growthHeldMax {
		return fmt.Errorf("--growth-held %v: want them ascending, up to %d", o.growthHeld, growthHeldMax)
	}
	if most := slices.Max(o.growthDepths); most > growthDepthMax {
		return fmt.Errorf("--growth-depths: %d: redlockd runs at most %d commands of a connection at once", most, growthDepthMax)
	}
	if o.growthRounds < 1 || o.growthDuration <= 0 {
		return fmt.Errorf("--growth-rounds %d, --growth-duration %v: want at least 1 round, and time", o.growthRounds, o.growthDuration)
	}
	if slices.Contains(o.scenarios, scenarioGrowth) {
		if err := requireFiles(slices.Max(o.growthWaiters)); err != nil {
			return fmt.Errorf("--growth-waiters: %w", err)
		}
		if err := requireMemory(slices.Max(o.growthHeld)); err != nil {
			return fmt.Errorf("--growth-held: %w", err)
		}
	}
	return nil
}

// chosen are the scenarios to run, in their order.
func (o *options) chosen() []scenario {
	return keep(scenarioList(), func(s scenario) bool { return slices.Contains(o.scenarios, s.name) })
}

// quorumTargets are those of the targets that the hot key and the faults are for.
func (o *options) quorumTargets() []string { return keep(o.targets, locksOverQuorum) }

// cells is how many measurements a run has.
func (o *options) cells() int {
	n := 0
	for _, s := range o.chosen() {
		n += s.cells(o)
	}
	return n
}

// needsRedlockd tells whether anything in a run uses redlockd.
func (o *options) needsRedlockd() bool {
	return slices.ContainsFunc(o.targets, usesRedlockd) ||
		slices.ContainsFunc(o.chosen(), func(s scenario) bool { return s.redlockd })
}

// needsPeers tells whether the targets that need modules of their own are measured.
func (o *options) needsPeers() bool {
	return slices.Contains(o.scenarios, scenarioUncontended) && slices.ContainsFunc(o.targets, isPeer)
}

func (o *options) needsEtcd() bool { return o.needsPeers() && slices.Contains(o.targets, targetEtcd) }

// parseNames reads a comma-separated list of known names; the order is that of known, since the report has one.
func parseNames(flagName, list string, known []string) ([]string, error) {
	wanted := map[string]bool{}
	for _, name := range strings.Split(list, ",") {
		name = strings.TrimSpace(name)
		if name == everything {
			return known, nil
		}
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("--%s: unknown name %q, want some of %s", flagName, name, strings.Join(known, ","))
		}
		wanted[name] = true
	}
	return keep(known, func(name string) bool { return wanted[name] }), nil
}

// distanceMax is below redlockd's default master_timeout: beyond it no lock is granted at all.
const distanceMax = 40 * time.Millisecond

// parseDistances reads a comma-separated list of round trips.
func parseDistances(flagName, list string) ([]time.Duration, error) {
	var distances []time.Duration
	for _, word := range strings.Split(list, ",") {
		d, err := time.ParseDuration(strings.TrimSpace(word))
		if err != nil || d <= 0 || d > distanceMax {
			return nil, fmt.Errorf("--%s: %q is no distance: want a round trip above 0, up to %v", flagName, word, distanceMax)
		}
		distances = append(distances, d)
	}
	return distances, nil
}

// parseCounts reads a comma-separated list of positive numbers.
func parseCounts(flagName, list string) ([]int, error) {
	var counts []int
	for _, word := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--%s: %q is no positive number", flagName, word)
		}
		counts = append(counts, n)
	}
	return counts, nil
}
