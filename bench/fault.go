package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The faults. 64 callers work for faultWindow; one second in, some masters are frozen (SIGSTOP: sockets stay open and
// silent) or killed (SIGKILL: sockets close), and stay so to the end. Then the callers stop, the masters come back, and
// after a settling time whatever is left on a master is an orphan.
const (
	faultCallers = 64
	faultAt      = time.Second
	faultWindow  = 4 * time.Second

	// faultGrace is what callers stuck in a call get after the window until the masters come back and free them.
	// redsync's calls hang for 3 s each, go-redis's read timeout, and an unlock follows a lock.
	faultGrace = time.Second

	// settleMin is waited for in any case, since a thawed master first has to execute what reached its sockets; until
	// settleMax an orphan may still be cleaned up. Both are far below the TTLs.
	settleMin = time.Second
	settleMax = 5 * time.Second

	timelineStep = 100 * time.Millisecond
)

// fault is what happens to how many masters.
type fault struct {
	kind    string // faultNone, faultFreeze, faultKill
	masters int
}

const (
	faultNone   = "none" // the control: what an undisturbed run shows
	faultFreeze = "freeze"
	faultKill   = "kill"
)

func (f fault) String() string {
	if f.kind == faultNone {
		return f.kind
	}
	return f.kind + strconv.Itoa(f.masters)
}

// parseFault reads none, freezeN or killN with N from 1 to 5.
func parseFault(s string) (fault, error) {
	if s == faultNone {
		return fault{kind: faultNone}, nil
	}
	for _, kind := range []string{faultFreeze, faultKill} {
		if digits, ok := strings.CutPrefix(s, kind); ok {
			if n, err := strconv.Atoi(digits); err == nil && n >= 1 && n <= masterCount {
				return fault{kind: kind, masters: n}, nil
			}
		}
	}
	return fault{}, fmt.Errorf("%q is no fault: want none, or freeze or kill with a number of masters from 1 to %d (freeze2)", s, masterCount)
}

// strike does the fault to the last masters.
func (c *cluster) strike(f fault) error {
	for _, m := range c.masters[len(c.masters)-f.masters:] {
		switch f.kind {
		case faultFreeze:
			if err := m.Freeze(); err != nil {
				return err
			}
		case faultKill:
			m.Kill()
		}
	}
	return nil
}

// heal takes the fault back.
func (c *cluster) heal(f fault) error {
	for _, m := range c.masters[len(c.masters)-f.masters:] {
		var err error
		switch f.kind {
		case faultFreeze:
			err = m.Thaw()
		case faultKill:
			err = m.Restart()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settle waits until no lock is left on any master, or settleMax is over, and tells what is left.
func (c *cluster) settle(ctx context.Context) ([]int, error) {
	healed := time.Now()
	for {
		if err := sleep(ctx, settleMin/4); err != nil {
			return nil, err
		}
		if time.Since(healed) < settleMin {
			continue
		}
		left, err := c.keysLeft(ctx)
		if err != nil {
			return nil, err
		}
		if slices.Max(left) == 0 || time.Since(healed) >= settleMax {
			return left, nil
		}
	}
}

// sleep returns early, with the reason, when ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// faultFigures are the measurements of one fault cell.
type faultFigures struct {
	HealthyPairsPerSec float64     `json:"healthy_pairs_per_sec"` // before the fault
	FaultyPairsPerSec  float64     `json:"faulty_pairs_per_sec"`  // from the fault to the end of the window
	PairBeforeUs       percentiles `json:"pair_before_us"`        // pairs that ended before the fault
	PairAfterUs        percentiles `json:"pair_after_us"`         // all others, also those that outlasted the window
	// LongestPauseMs is the longest time from the fault to the end of the window in which no caller finished a pair.
	LongestPauseMs float64   `json:"longest_pause_ms"`
	Timeline       []float64 `json:"timeline_pairs_per_sec"` // per timelineStep
	FaultAtMs      float64   `json:"fault_at_ms"`            // when the fault came, on the time line
	Failures       failures  `json:"failures"`
}

// faultRound is one cell, with what was found on the masters afterwards.
type faultRound struct {
	faultFigures
	Orphans []int `json:"orphans"` // per master, after healing and settling
}

// keptPercent is the throughput under the fault in percent of the healthy second.
func (f faultFigures) keptPercent() float64 {
	return 100 * ratio(f.FaultyPairsPerSec, f.HealthyPairsPerSec)
}

// faultRow is one target under one fault; figures are medians of the rounds.
type faultRow struct {
	Target string `json:"target"`
	Fault  string `json:"fault"`

	HealthyPairsPerSec float64   `json:"healthy_pairs_per_sec"`
	FaultyPairsPerSec  float64   `json:"faulty_pairs_per_sec"`
	KeptPercent        float64   `json:"kept_percent"`
	PairP99BeforeUs    float64   `json:"pair_p99_before_us"`
	PairP99AfterUs     float64   `json:"pair_p99_after_us"`
	PairMaxAfterUs     float64   `json:"pair_max_after_us"`
	LongestPauseMs     float64   `json:"longest_pause_ms"`
	Orphans            []int     `json:"orphans"` // per master, the most of any round
	Timeline           []float64 `json:"timeline_pairs_per_sec"`
	FaultAtMs          float64   `json:"fault_at_ms"`
	Failures           failures  `json:"failures"` // of all rounds

	Rounds []faultRound `json:"rounds"`
}

// runFaults measures the rounds of this scenario, targets in turn. Every cell has its own new cluster: a master that was
// killed is in quarantine for a minute and more, and orphans of one target must not be counted for another.
func runFaults(ctx context.Context, b *bench, r *report) error {
	targets, o, p := b.quorumTargets(), b.options, b.progress
	rows := grid(o.faults, targets, func(f fault, target string) *faultRow {
		return &faultRow{Target: target, Fault: f.String()}
	})
	for round := range o.faultRounds {
		p.round(scenarioFaults)
		for _, row := range inTurn(rows, len(targets), round) {
			p.step("faults, round %d of %d: %s, %s", round+1, o.faultRounds, row.Fault, row.Target)
			f, err := parseFault(row.Fault)
			if err != nil {
				return err
			}
			cell, err := runFaultCell(ctx, b.program, f, loadSpec{
				Scenario: scenarioFaults,
				Target:   row.Target,
				Callers:  faultCallers,
				Warmup:   o.warmup,
				Duration: faultWindow,
				Prefix:   "bench:fault:",
			})
			if err != nil {
				return fmt.Errorf("fault %s, %s: %w", row.Fault, row.Target, err)
			}
			row.Rounds = append(row.Rounds, cell)
		}
	}
	r.Faults = summarizeFaults(rows)
	return nil
}

func runFaultCell(ctx context.Context, program *proxyProgram, f fault, spec loadSpec) (r faultRound, err error) {
	if !usesRedlockd(spec.Target) {
		program = nil
	}
	c, err := startCluster(ctx, masterCount, program)
	if err != nil {
		return r, err
	}
	defer c.close()
	g, err := startGenerator(ctx, c.spec(spec))
	if err != nil {
		return r, err
	}
	defer g.close()

	if err := g.say(sayGo); err != nil {
		return r, err
	}
	start := time.Now()
	if err := sleep(ctx, faultAt); err != nil {
		return r, err
	}
	// The mark comes first: what the fault does must not be counted to the time before it.
	if err := g.say(sayMark); err != nil {
		return r, err
	}
	if err := c.strike(f); err != nil {
		return r, err
	}
	err = g.await(ctx, sayDone, time.Until(start.Add(faultWindow+faultGrace)))
	stuck := errors.Is(err, context.DeadlineExceeded)
	if err != nil && !stuck {
		return r, err
	}
	if err := c.heal(f); err != nil {
		return r, err
	}
	if stuck {
		if err := g.await(ctx, sayDone, childGrace); err != nil {
			return r, err
		}
	}
	if err := g.figures(ctx, &r.faultFigures); err != nil {
		return r, err
	}
	r.Orphans, err = c.settle(ctx)
	return r, err
}

func summarizeFaults(rows []*faultRow) []faultRow {
	return summarize(rows, func(row *faultRow) {
		m := medians(row.Rounds)
		row.HealthyPairsPerSec, row.FaultyPairsPerSec = m.HealthyPairsPerSec, m.FaultyPairsPerSec
		row.PairP99BeforeUs, row.PairP99AfterUs, row.PairMaxAfterUs = m.PairBeforeUs.P99, m.PairAfterUs.P99, m.PairAfterUs.Max
		row.LongestPauseMs, row.Timeline, row.FaultAtMs, row.Failures = m.LongestPauseMs, m.Timeline, m.FaultAtMs, m.Failures
		row.KeptPercent = medianOf(row.Rounds, func(r faultRound) float64 { return r.keptPercent() })
		row.Orphans = make([]int, masterCount)
		for _, r := range row.Rounds {
			for i, n := range r.Orphans {
				row.Orphans[i] = max(row.Orphans[i], n)
			}
		}
	})
}

// measureFault is the load generator's part.
func measureFault(p *parent, spec loadSpec, callers []caller) (any, error) {
	drive(callers, spec.Prefix+"warm:", spec.Warmup)
	if err := p.ready(); err != nil {
		return nil, err
	}
	run := drive(callers, spec.Prefix, spec.Duration)
	p.done()
	marked := p.markedAt.Load()
	if marked == 0 {
		return nil, errors.New("load generator: the fault was never announced")
	}
	figures := analyzeFault(run.samples, time.Unix(0, marked).Sub(run.start), spec.Duration)
	figures.Failures = run.failures.count()
	return figures, nil
}

// analyzeFault splits the samples of a run at the fault. Rates count the pairs that ended inside the window.
func analyzeFault(samples []sample, at, window time.Duration) faultFigures {
	f := faultFigures{
		FaultAtMs: float64(at.Microseconds()) / 1e3,
		Timeline:  make([]float64, window/timelineStep),
	}
	slices.SortFunc(samples, func(a, b sample) int { return int(a.endUs) - int(b.endUs) })
	var (
		faultUs, windowUs = uint32(at.Microseconds()), uint32(window.Microseconds())
		split, _          = slices.BinarySearchFunc(samples, faultUs, func(s sample, t uint32) int { return int(s.endUs) - int(t) })
		inWindow, _       = slices.BinarySearchFunc(samples, windowUs, func(s sample, t uint32) int { return int(s.endUs) - int(t) })
	)
	pair := func(s sample) uint32 { return s.pairUs }
	f.PairBeforeUs = percentilesOf(eachOf(samples[:split], pair))
	f.PairAfterUs = percentilesOf(eachOf(samples[split:], pair))
	f.HealthyPairsPerSec = ratio(float64(split), at.Seconds())
	f.FaultyPairsPerSec = ratio(float64(inWindow-split), (window - at).Seconds())

	previous, pause := faultUs, uint32(0)
	for _, s := range samples[split:inWindow] {
		pause = max(pause, s.endUs-previous)
		previous = s.endUs
	}
	f.LongestPauseMs = float64(max(pause, windowUs-previous)) / 1e3

	for _, s := range samples[:inWindow] {
		if step := int(time.Duration(s.endUs) * time.Microsecond / timelineStep); step < len(f.Timeline) {
			f.Timeline[step] += float64(time.Second / timelineStep)
		}
	}
	return f
}
