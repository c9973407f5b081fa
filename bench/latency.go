package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"gonum.org/v1/plot"
)

// Latency at a fixed rate. Pairs are due at times that were set beforehand, and their latency counts from when they were
// due, not from when a caller got round to them: a target that stalls is charged for everything that was due meanwhile.
// (A loop that waits for each answer before it asks again asks less just when it hurts, and hides the stall: "coordinated
// omission".)
const (
	// latencyCallers is how many pairs can be under way at once.
	latencyCallers = 512
	// latencyDrain is what pairs that are still due at the end get to begin. Those that do not begin are unsent.
	latencyDrain = time.Second
	// latencyKept is the share of the asked rate at which a target is said to keep up.
	latencyKept = 0.95
)

// latencyRound is one cell.
type latencyRound struct {
	PairsPerSec float64     `json:"pairs_per_sec"` // that ended in time
	LockUs      percentiles `json:"lock_us"`       // since it was due
	PairUs      percentiles `json:"pair_us"`       // since it was due
	LateUs      percentiles `json:"late_us"`       // from due to begun: the part of both that was spent waiting for a caller
	Unsent      int         `json:"unsent"`        // due, but not begun when the cell was over
	Failures    failures    `json:"failures"`
}

// latencyRow is one target at one rate; figures are medians of the rounds.
type latencyRow struct {
	Target string `json:"target"`
	Rate   int    `json:"rate"` // pairs/s asked for

	latencyRound
	// Rounds are those that were measured: none after a lower rate was too much already.
	Rounds []latencyRound `json:"rounds"`
}

// keptUp tells whether the target did what was asked in so long. A pair that failed was at least tried: that is another
// complaint.
func (r latencyRound) keptUp(rate int, duration time.Duration) bool {
	tried := r.PairsPerSec + float64(r.Failures.Count)/duration.Seconds()
	return r.Unsent == 0 && tried >= latencyKept*float64(rate)
}

func runLatency(ctx context.Context, b *bench, r *report) error {
	targets := b.quorumTargets()
	c, err := b.startCluster(ctx, targets)
	if err != nil {
		return err
	}
	defer c.close()
	rows := grid(b.rates, targets, func(rate int, target string) *latencyRow {
		return &latencyRow{Target: target, Rate: rate}
	})
	for round := range b.latencyRounds {
		b.progress.round(scenarioLatency)
		tooMuch := map[string]bool{} // for which targets
		for _, row := range inTurn(rows, len(targets), round) {
			b.progress.step("latency, round %d of %d: %d pairs/s, %s", round+1, b.latencyRounds, row.Rate, row.Target)
			if tooMuch[row.Target] {
				continue
			}
			var cell latencyRound
			_, err := c.measured(ctx, loadSpec{
				Scenario: scenarioLatency,
				Target:   row.Target,
				Callers:  latencyCallers,
				Rate:     row.Rate,
				Warmup:   b.warmup,
				Duration: b.latencyDuration,
				Prefix:   fmt.Sprintf("bench:latency:%d:%d:%s:", round, row.Rate, row.Target),
			}, &cell)
			if err != nil {
				return err
			}
			row.Rounds = append(row.Rounds, cell)
			tooMuch[row.Target] = !cell.keptUp(row.Rate, b.latencyDuration)
		}
	}
	r.Latency = summarizeLatency(rows)
	return nil
}

func summarizeLatency(rows []*latencyRow) []latencyRow {
	return summarize(rows, func(row *latencyRow) { row.latencyRound = medians(row.Rounds) })
}

// measureLatency is the load generator's part.
func measureLatency(p *parent, spec loadSpec, callers []caller) (any, error) {
	timer, err := newSharpTimer()
	if err != nil {
		return nil, err
	}
	defer timer.close()
	if _, err := driveAtRate(callers, timer, spec.Prefix+"warm:", spec.Rate, spec.Warmup); err != nil {
		return nil, err
	}
	if err := p.ready(); err != nil {
		return nil, err
	}
	figures, err := driveAtRate(callers, timer, spec.Prefix, spec.Rate, spec.Duration)
	p.done()
	return figures, err
}

// waker sleeps: a sharpTimer, or virtual time in tests.
type waker interface{ until(t time.Time) error }

// driveAtRate has the callers acquire and release rate times per second, each time another resource.
func driveAtRate(callers []caller, timer waker, prefix string, rate int, duration time.Duration) (figures latencyRound, err error) {
	var (
		n     = int(duration.Seconds() * float64(rate))
		due   = make(chan int, n) // numbers of pairs; it has room for all, so that their times do not wait for callers
		start = time.Now()
		dueAt = func(i int) time.Time {
			return start.Add(time.Duration(float64(i) / float64(rate) * float64(time.Second)))
		}
		over     = start.Add(duration + latencyDrain)
		run      = make([][]rateSample, len(callers))
		unsent   = make([]int, len(callers))
		failures failureLog
		running  sync.WaitGroup
	)
	for i, c := range callers {
		running.Go(func() {
			for number := range due {
				began := time.Now()
				if began.After(over) {
					unsent[i]++
					continue
				}
				late := began.Sub(dueAt(number))
				lock, pair, err := onePair(c, prefix+strconv.Itoa(number), began)
				if err != nil {
					failures.add(err)
					continue
				}
				run[i] = append(run[i], rateSample{
					sample: sample{
						endUs:  uint32((began.Sub(start) + pair).Microseconds()),
						lockUs: uint32((late + lock).Microseconds()),
						pairUs: uint32((late + pair).Microseconds()),
					},
					lateUs: uint32(late.Microseconds()),
				})
			}
		})
	}
	for number := range n {
		if err = timer.until(dueAt(number)); err != nil {
			break
		}
		due <- number
	}
	close(due)
	running.Wait()
	figures = latencyOf(run, duration)
	for _, left := range unsent {
		figures.Unsent += left
	}
	figures.Failures = failures.count()
	return figures, err
}

// rateSample is one pair; its latencies count from when it was due.
type rateSample struct {
	sample
	lateUs uint32
}

func latencyOf(run [][]rateSample, duration time.Duration) latencyRound {
	var all []rateSample
	inTime := 0
	for _, mine := range run {
		all = append(all, mine...)
		for _, s := range mine {
			if time.Duration(s.endUs)*time.Microsecond <= duration+latencyDrain/10 { // the last ones may still be on their way
				inTime++
			}
		}
	}
	return latencyRound{
		PairsPerSec: float64(inTime) / duration.Seconds(),
		LockUs:      percentilesOf(eachOf(all, func(s rateSample) uint32 { return s.lockUs })),
		PairUs:      percentilesOf(eachOf(all, func(s rateSample) uint32 { return s.pairUs })),
		LateUs:      percentilesOf(eachOf(all, func(s rateSample) uint32 { return s.lateUs })),
	}
}

func latencyTable(rows []latencyRow) table {
	t := table{
		title: "Latency at a fixed rate: LOCK + UNLOCK due at set times, counted from when they were due",
		note: "Medians of the rounds, latencies in µs. Late: the part spent waiting for one of the 512 callers. Unsent: pairs that were never begun.\n" +
			"A target that tried less than 95 % of a rate, or left some unsent, is not tried at higher ones.",
		head: []string{"asked/s", "target", "pairs/s", "lock p50", "p99", "p99.9", "max", "pair p50", "p99", "p99.9", "max", "late p99", "unsent", "errors"},
		left: 2,
	}
	for _, r := range rows {
		if len(r.Rounds) == 0 {
			t.add(r.Rate, r.Target, "–", "", "", "", "", "", "", "", "", "", "", "")
			continue
		}
		t.add(r.Rate, r.Target, r.PairsPerSec, r.LockUs.P50, r.LockUs.P99, r.LockUs.P999, r.LockUs.Max,
			r.PairUs.P50, r.PairUs.P99, r.PairUs.P999, r.PairUs.Max, r.LateUs.P99, r.Unsent, r.Failures.Count)
	}
	return t
}

// ratePanels has one panel per percentile, a line per target.
func ratePanels(rows []latencyRow) (all panels) {
	if len(rows) == 0 {
		return nil
	}
	for i, percentile := range []struct {
		name string
		us   func(percentiles) float64
	}{
		{"p50", func(p percentiles) float64 { return p.P50 }},
		{"p99", func(p percentiles) float64 { return p.P99 }},
		{"p99.9", func(p percentiles) float64 { return p.P999 }},
	} {
		all = append(all, []*plot.Plot{curves{
			title: "LOCK + UNLOCK " + percentile.name, x: "pairs/s asked for, logarithmic", y: "µs, logarithmic",
			logX: true, logY: true, legend: i == 0,
			lines: linesByTarget(rows, func(r latencyRow) (string, float64, float64) {
				return r.Target, float64(r.Rate), percentile.us(r.PairUs)
			}),
		}.panel()})
	}
	return all
}
