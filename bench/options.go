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

	recoveryHeld     []int
	recoveryRestarts int
	recoveryClients  int
	recoveryRounds   int
	recoveryQuiet    time.Duration

	limitCommands int

	fleets []fleet // proxies

	growthMasters  []int
	growthHeld     []int
	growthWaiters  []int
	growthRenewed  []int
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

	"recovery-rounds": "1",
	"recovery-quiet":  "2s",

	"limit-commands": "50000",

	"rates":            "1000,5000",
	"latency-rounds":   "1",
	"latency-duration": "1s",

	"fleets": "1x12,3x4",

	"growth-masters":  "1,5",
	"growth-held":     "1000,10000",
	"growth-waiters":  "100,1000",
	"growth-renewed":  "1000",
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

// Bounds of the growth: what a machine of a developer can bear, and what redlockd executes of one
// connection at a time.
const (
	growthMastersMax = 21
	growthHeldMax    = 5_000_000
	growthDepthMax   = 1024
)

// everything is the word for all scenarios, or all targets.
const everything = "all"

const usageHead = `Measures redlockd against its peers, on real redis-server processes that it starts and ends itself.

usage: go run -C bench . [flags]

scenarios:
`

const usageTail = `
The report goes to standard output and, with report.json, README's tables (summary.md), SVG plots and the servers' log, to the
--out directory.
A run with the defaults takes a few minutes, with --quick one to two, with --full about forty.

flags:
`

// parseOptions reads the command line. It answers --help on out itself and then returns flag.ErrHelp.
func parseOptions(args []string, out io.Writer) (options, error) {
	var (
		o     options
		flags = flag.NewFlagSet("bench", flag.ContinueOnError)
		quick = flags.Bool("quick", false, "a short run: fewer, shorter and smaller cells; other flags still win")
		full  = flags.Bool("full", false, "all scenarios and all targets; other flags still win")
	)
	listVar(flags, &o.scenarios, namesOf(scenarioNames), "scenarios", scenarioDefaults, "what to measure, comma-separated, or all")
	listVar(flags, &o.targets, namesOf(targetNames), "targets", strings.Join(targetDefaults, ","), "whom to measure, comma-separated, or all")
	listVar(flags, &o.callers, listOf(parseCount), "callers", "1,64,1024", "uncontended: numbers of callers")
	listVar(flags, &o.clients, listOf(parseCount), "hot-clients", "16,64", "hotkey: numbers of clients")
	listVar(flags, &o.rates, listOf(parseCount), "rates", "1000,2000,5000,10000,20000,40000", "latency: pairs/s that are asked for, ascending")
	listVar(flags, &o.fleets, listOf(parseFleet), "fleets", "1x12,3x4,1x48,3x16", "proxies: numbers of redlockd × clients of each")
	listVar(flags, &o.growthMasters, listOf(parseCount), "growth-masters", "1,3,5,9,15", "growth: numbers of masters, odd")
	listVar(flags, &o.growthHeld, listOf(parseCount), "growth-held", "1000,10000,100000,1000000", "growth: numbers of other locks that are held, ascending")
	listVar(flags, &o.growthWaiters, listOf(parseCount), "growth-waiters", "100,1000,10000", "growth: numbers of clients that wait")
	listVar(flags, &o.growthRenewed, listOf(parseCount), "growth-renewed", "1000,10000", "growth: numbers of held locks that redlockd renews")
	listVar(flags, &o.growthDepths, listOf(parseCount), "growth-depths", "1,4,16,64,256", "growth: LOCKs sent at once on a connection")
	listVar(flags, &o.distances, listOf(parseDistance), "distances", "1ms,5ms,20ms", "distance: round trips to the masters")
	listVar(flags, &o.idle, listOf(parseCount), "idle", "1000,10000", "connections: numbers that are idle")
	listVar(flags, &o.busy, listOf(parseCount), "busy", "1000", "connections: numbers that are busy")
	listVar(flags, &o.libraries, namesOf(libraryNames), "libraries", everything, "libraries: which, comma-separated, or all: "+strings.Join(libraryNames, ","))
	listVar(flags, &o.libraryCallers, listOf(parseCount), "library-callers", "1,64", "libraries: numbers of callers")
	listVar(flags, &o.recoveryHeld, listOf(parseCount), "recovery-held", "10000", "recovery: numbers of locks that are held; 1000000 with --recovery-restarts 1 is the one for scale")
	listVar(flags, &o.faults, listOf(parseFault), "faults", "none,freeze1,freeze2,kill1,kill2", "faults: which, and of how many masters; none is the control")
	flags.SetOutput(io.Discard)
	flags.DurationVar(&o.warmup, "warmup", 300*time.Millisecond, "unmeasured run before each cell")
	flags.IntVar(&o.rounds, "rounds", 5, "uncontended: rounds; each measures every target once, the report shows medians")
	flags.DurationVar(&o.duration, "duration", time.Second, "uncontended: length of a cell")
	flags.IntVar(&o.hotRounds, "hot-rounds", 3, "hotkey, proxies, several, slots, readers, beside, overload: rounds")
	flags.DurationVar(&o.hotDuration, "hot-duration", 3*time.Second, "hotkey, proxies, several, slots, readers: length of a cell")
	flags.IntVar(&o.faultRounds, "fault-rounds", 2, "faults: rounds")
	flags.IntVar(&o.recoveryRestarts, "recovery-restarts", masterCount, "recovery: masters that are restarted, one after another")
	flags.IntVar(&o.recoveryClients, "recovery-clients", 16, "recovery: other clients, each of which locks every 10 ms")
	flags.IntVar(&o.recoveryRounds, "recovery-rounds", 3, "recovery: rounds")
	flags.DurationVar(&o.recoveryQuiet, "recovery-quiet", 5*time.Second, "recovery: length of the quiet phase before the first restart")
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
	flags.StringVar(&o.redlockd, "redlockd", "", "`program` to measure; empty: build the redlockd beside this bench")
	flags.StringVar(&o.gomaxprocs, "redlockd-gomaxprocs", "", "GOMAXPROCS of the redlockd process; empty: not set")
	flags.StringVar(&o.gogc, "redlockd-gogc", "", "GOGC of the redlockd process; empty: not set")
	flags.StringVar(&o.out, "out", "local", "`directory` for the results, made if missing; README shows those in bench/results")

	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usageHead)
		for _, s := range scenarioList() {
			fmt.Fprintf(out, "  %-20s %s\n", s.name, s.meaning)
		}
		fmt.Fprint(out, "\ntargets:\n")
		for _, name := range targetNames {
			fmt.Fprintf(out, "  %-20s %s\n", name, traitsOf[name].meaning)
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
	o.librariesByName = given["libraries"] || given["scenarios"] && !slices.Equal(o.scenarios, scenarioNames)
	flags.VisitAll(func(f *flag.Flag) {
		var value any
		if getter, ok := f.Value.(flag.Getter); ok {
			value = getter.Get()
		}
		n, isNumber := value.(int)
		d, isDuration := value.(time.Duration)
		if (isNumber && n <= 0 || isDuration && d <= 0) && err == nil {
			err = fmt.Errorf("--%s %v: want more than 0", f.Name, value)
		}
	})
	if err != nil {
		return o, err
	}
	return o, o.validate()
}

func (o *options) validate() error {
	if !slices.IsSorted(o.rates) || o.rates[len(o.rates)-1] > rateMax {
		return fmt.Errorf("--rates %v: want them ascending, up to %d", o.rates, rateMax)
	}
	if o.latencyDuration > time.Minute {
		return fmt.Errorf("--latency-duration %v: want up to 1m", o.latencyDuration)
	}
	if slices.Contains(o.scenarios, scenarioConnections) {
		if err := requireFiles(max(slices.Max(o.idle), slices.Max(o.busy))); err != nil {
			return fmt.Errorf("--idle, --busy: %w", err)
		}
	}
	if err := o.validateGrowth(); err != nil {
		return err
	}
	if err := o.validateRecovery(); err != nil {
		return err
	}
	if o.limitCommands < 1000 || o.limitCommands > 100_000_000 {
		return fmt.Errorf("--limit-commands %d: want 1000 to 100000000", o.limitCommands)
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

func (o *options) validateRecovery() error {
	if o.recoveryRestarts > masterCount {
		return fmt.Errorf("--recovery-restarts %d: there are %d masters", o.recoveryRestarts, masterCount)
	}
	most := slices.Max(o.recoveryHeld)
	if most > recoveryHeldMax {
		return fmt.Errorf("--recovery-held %d: want up to %d", most, recoveryHeldMax)
	}
	if slices.Contains(o.scenarios, scenarioRecovery) {
		if err := requireMemory(most); err != nil {
			return fmt.Errorf("--recovery-held: %w", err)
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

// needs tells whether etcd or the floor is measured: only the scenario uncontended does.
func (o *options) needs(target string) bool {
	return slices.Contains(o.scenarios, scenarioUncontended) && slices.Contains(o.targets, target)
}

// listVar defines a flag with several values. Its default must be a good one.
func listVar[T any](flags *flag.FlagSet, values *[]T, parse func(list string) ([]T, error), name, value, usage string) {
	set := func(list string) (err error) {
		*values, err = parse(list)
		return err
	}
	if err := set(value); err != nil {
		panic(err)
	}
	flags.Func(name, fmt.Sprintf("%s (default %s)", usage, value), set)
}

// listOf reads a comma-separated list of what one reads.
func listOf[T any](one func(word string) (T, error)) func(list string) ([]T, error) {
	return func(list string) (all []T, err error) {
		for word := range strings.SplitSeq(list, ",") {
			v, err := one(strings.TrimSpace(word))
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	}
}

// namesOf reads a comma-separated list of known names, or all; the order is that of known, since the report has one.
func namesOf(known []string) func(list string) ([]string, error) {
	names := listOf(func(name string) (string, error) {
		if name != everything && !slices.Contains(known, name) {
			return "", fmt.Errorf("unknown name %q, want some of %s", name, strings.Join(known, ","))
		}
		return name, nil
	})
	return func(list string) ([]string, error) {
		wanted, err := names(list)
		return keep(known, func(name string) bool { return slices.Contains(wanted, name) || slices.Contains(wanted, everything) }), err
	}
}

// distanceMax is below redlockd's default master_timeout: beyond it no lock is granted at all.
const distanceMax = 40 * time.Millisecond

// parseDistance reads a round trip.
func parseDistance(word string) (time.Duration, error) {
	d, err := time.ParseDuration(word)
	if err != nil || d <= 0 || d > distanceMax {
		return 0, fmt.Errorf("%q is no distance: want a round trip above 0, up to %v", word, distanceMax)
	}
	return d, nil
}

// parseCount reads a positive number.
func parseCount(word string) (int, error) {
	n, err := strconv.Atoi(word)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is no positive number", word)
	}
	return n, nil
}
