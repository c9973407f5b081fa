package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// The load generator. It runs in a child process of the bench, one per cell, for two reasons: getrusage then tells the
// client's CPU and nothing else, and no cell inherits another's heap, connections or goroutines.
//
// Parent and child talk in lines, so that the parent reads the servers' CPU at the edges of what the child measures:
//
//	parent            child
//	spec (JSON)   →
//	              ←   ready     connected and warmed up
//	go            →             the clock runs
//	mark          →             only in the fault scenario: the fault comes now
//	              ←   done      no caller is in a call any more
//	              ←   figures (JSON)
//
// The end of the parent's side of the pipe ends the child.
const (
	loadCommand = "load" // hidden subcommand
	sayReady    = "ready"
	sayGo       = "go"
	sayMark     = "mark"
	sayDone     = "done"
)

// loadSpec says what a load generator is to do.
type loadSpec struct {
	Scenario string        `json:"scenario"`
	Target   string        `json:"target"`
	Redlockd string        `json:"redlockd"` // host:port, empty when the target does not use it
	Fleet    []string      `json:"fleet"`    // all redlockd over the masters, of which Redlockd is the first
	Masters  []string      `json:"masters"`  // or what a library takes for them
	Etcd     string        `json:"etcd"`     // host:port, empty when it is not among the targets
	Floor    string        `json:"floor"`    // as Etcd
	Callers  int           `json:"callers"`
	Depth    int           `json:"depth"` // of explicit pipelines; 0: the target as it is
	Rate     int           `json:"rate"`  // pairs/s, of the latency scenario
	Warmup   time.Duration `json:"warmup_ns"`
	Duration time.Duration `json:"duration_ns"`
	Prefix   string        `json:"prefix"` // of every resource: no two cells share a resource
	Flood    int           `json:"flood"`  // index in floods, of the scenario beside
	Login    string        `json:"login"`  // of the flood; empty: there are no users

	program   string   // that is the load generator; empty: this one
	arguments []string // of the program; none: loadCommand
}

// loadFigures are the measurements of an uncontended cell.
type loadFigures struct {
	Pairs       int           `json:"pairs"`         // all, also those that outlasted the time
	PairsPerSec float64       `json:"pairs_per_sec"` // within the time, see throughput
	LockUs      percentiles   `json:"lock_us"`
	PairUs      percentiles   `json:"pair_us"`
	CPU         time.Duration `json:"cpu_ns"` // of this process, between go and done
	Failures    failures      `json:"failures"`
	// The unluckiest and the luckiest caller.
	CallerPairsMin int `json:"caller_pairs_min"`
	CallerPairsMax int `json:"caller_pairs_max"`
}

// loadMain is the child process. Its exit status is its return value.
func loadMain() int {
	if err := serveLoad(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serveLoad(in io.Reader, out io.Writer) error {
	p := &parent{in: bufio.NewScanner(in), out: out}
	var spec loadSpec
	if !p.in.Scan() {
		return fmt.Errorf("load generator: no spec: %w", io.ErrUnexpectedEOF)
	}
	if err := json.Unmarshal(p.in.Bytes(), &spec); err != nil {
		return fmt.Errorf("load generator: read the spec: %w", err)
	}
	switch spec.Scenario {
	case scenarioBeside:
		return serveFlood(p, spec)
	case scenarioOverload:
		return serveOverload(p, spec)
	}
	t, err := newTarget(spec)
	if err != nil {
		return err
	}
	defer t.close()
	callers := make([]caller, spec.Callers)
	for i := range callers {
		callers[i] = t.newCaller()
	}
	measure := map[string]func(*parent, loadSpec, []caller) (any, error){
		scenarioUncontended: measureUncontended,
		scenarioHotKey:      measureHotKey,
		scenarioFaults:      measureFault,
		scenarioLatency:     measureLatency,
		scenarioProxies:     measureHotKey,
		scenarioLibraries:   measureUncontended,
	}[spec.Scenario]
	if measure == nil {
		return fmt.Errorf("unknown scenario %q", spec.Scenario)
	}
	figures, err := measure(p, spec, callers)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(figures)
}

// parent is the child's view of the process that started it.
type parent struct {
	in  *bufio.Scanner
	out io.Writer
	// markedAt is when the parent said mark, in nanoseconds since the Unix epoch; 0 before that.
	markedAt atomic.Int64
}

// ready says that the warm-up is over and returns when the parent gives the start. From then on its words are listened
// to in the background, and its end is ours.
func (p *parent) ready() error {
	fmt.Fprintln(p.out, sayReady)
	if !p.in.Scan() || p.in.Text() != sayGo {
		return fmt.Errorf("load generator: got %q, want %q", p.in.Text(), sayGo)
	}
	go func() {
		for p.in.Scan() {
			if p.in.Text() == sayMark {
				p.markedAt.Store(time.Now().UnixNano())
			}
		}
		os.Exit(1)
	}()
	return nil
}

func (p *parent) done() { fmt.Fprintln(p.out, sayDone) }

func measureUncontended(p *parent, spec loadSpec, callers []caller) (any, error) {
	drive(callers, spec.Prefix+"warm:", spec.Warmup)
	if err := p.ready(); err != nil {
		return nil, err
	}
	cpu := ownCPU()
	run := drive(callers, spec.Prefix, spec.Duration)
	cpu = ownCPU() - cpu
	p.done()
	return loadFigures{
		Pairs:       len(run.samples),
		PairsPerSec: throughput(run.samples, spec.Duration),
		LockUs:      percentilesOf(eachOf(run.samples, func(s sample) uint32 { return s.lockUs })),
		PairUs:      percentilesOf(eachOf(run.samples, func(s sample) uint32 { return s.pairUs })),
		CPU:         cpu,
		Failures:    run.failures.count(),

		CallerPairsMin: slices.Min(run.pairs),
		CallerPairsMax: slices.Max(run.pairs),
	}, nil
}

// throughput is the number of pairs per second of the window. A pair that outlasts it counts for the part of its time that lies inside:
// left out, it would be a loss for those whose pairs are long; and up to its end, everybody's time would run while one caller waits.
func throughput(samples []sample, window time.Duration) float64 {
	pairs, windowUs := 0.0, float64(window.Microseconds())
	for _, s := range samples {
		if over := float64(s.endUs) - windowUs; over > 0 {
			pairs -= over / float64(s.pairUs)
		}
		pairs++
	}
	return pairs / window.Seconds()
}

// sample is one pair. Samples are kept raw and read into histograms only after the measurement: that costs the client
// twelve bytes per pair and no lock.
type sample struct {
	endUs  uint32 // when the release returned, since the start of the run
	lockUs uint32 // what acquire took
	pairUs uint32 // what acquire and release took
}

// eachOf lists one figure of all samples.
func eachOf[T any](all []T, figure func(T) uint32) func(yield func(uint32) bool) {
	return func(yield func(uint32) bool) {
		for _, s := range all {
			if !yield(figure(s)) {
				return
			}
		}
	}
}

// driven is what drive measured.
type driven struct {
	start    time.Time
	samples  []sample // caller by caller
	pairs    []int    // how many of them each caller has
	failures *failureLog
}

// drive lets all callers acquire and release, each on resources of its own and a new one for every pair, until the
// duration is over; pairs that run then are finished and counted.
func drive(callers []caller, prefix string, duration time.Duration) driven {
	var (
		run      = driven{failures: new(failureLog)}
		samples  = make([][]sample, len(callers))
		starting = make(chan struct{})
		running  sync.WaitGroup
	)
	for i, c := range callers {
		running.Go(func() {
			prefix := prefix + strconv.Itoa(i) + ":"
			mine := make([]sample, 0, 1024)
			<-starting
			for n := 0; ; n++ {
				began := time.Now()
				if began.Sub(run.start) >= duration {
					break
				}
				lock, pair, err := onePair(c, prefix+strconv.Itoa(n), began)
				if err != nil {
					run.failures.add(err)
					continue
				}
				mine = append(mine, sample{
					endUs:  uint32((began.Sub(run.start) + pair).Microseconds()),
					lockUs: uint32(lock.Microseconds()),
					pairUs: uint32(pair.Microseconds()),
				})
			}
			samples[i] = mine
		})
	}
	run.start = time.Now()
	close(starting)
	running.Wait()
	for _, mine := range samples {
		run.samples = append(run.samples, mine...)
		run.pairs = append(run.pairs, len(mine))
	}
	return run
}

// onePair acquires and releases, and tells what the first and both took since began.
func onePair(c caller, resource string, began time.Time) (lock, pair time.Duration, err error) {
	ctx := context.Background() // the clients' own timeouts are part of what is measured
	if err := c.acquire(ctx, resource); err != nil {
		return 0, 0, err
	}
	lock = time.Since(began)
	if err := c.release(ctx); err != nil {
		return 0, 0, err
	}
	return lock, time.Since(began), nil
}

// failures counts what went wrong, with the first few different texts.
type failures struct {
	Count int      `json:"count"`
	Texts []string `json:"texts,omitempty"`
}

// failureTextsMax bounds the texts kept: ports and counters in them make every one different.
const failureTextsMax = 3

func (f *failures) add(count int, texts ...string) {
	f.Count += count
	for _, text := range texts {
		if len(f.Texts) < failureTextsMax && !slices.Contains(f.Texts, text) {
			f.Texts = append(f.Texts, text)
		}
	}
}

// failurePause keeps a caller whose calls fail at once from spinning, and with it from taking the CPU of the others.
const failurePause = time.Millisecond

// failureLog collects failures of many callers. The zero value is ready.
type failureLog struct {
	mu  sync.Mutex
	all failures
}

// add notes an error and pauses its caller.
func (l *failureLog) add(err error) {
	l.mu.Lock()
	l.all.add(1, err.Error())
	l.mu.Unlock()
	time.Sleep(failurePause)
}

func (l *failureLog) count() failures {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}
