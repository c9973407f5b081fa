package main

import (
	"context"
	"fmt"
	"time"
)

// Connections: what many clients cost that do nothing, and whether many that do something all get their share.

// connectionsFigures are all points.
type connectionsFigures struct {
	Idle []idlePoint `json:"idle"`
	Busy []busyPoint `json:"busy"`
}

// idleRound is one cell: a redlockd of its own with connections that have sent one PING.
type idleRound struct {
	EmptyMB         float64 `json:"empty_mb"`    // resident before
	RedlockdMB      float64 `json:"redlockd_mb"` // resident with all connections
	KBPerConnection float64 `json:"kb_per_connection"`
	RedlockdPercent float64 `json:"redlockd_cpu_percent"` // of one core
}

// idlePoint is one number of idle connections; figures are medians of the rounds.
type idlePoint struct {
	Connections int `json:"connections"`
	idleRound
	Rounds []idleRound `json:"rounds"`
}

// busyRound is one cell: callers with a connection each, every one with resources of its own.
type busyRound struct {
	PairsPerSec float64     `json:"pairs_per_sec"`
	PairUs      percentiles `json:"pair_us"`
	PairsMin    float64     `json:"pairs_min"` // of the unluckiest caller
	PairsMax    float64     `json:"pairs_max"`
	Failures    failures    `json:"failures"`
}

// fairness is min/max, 1 when every caller got the same.
func (r busyRound) fairness() float64 { return ratio(r.PairsMin, r.PairsMax) }

// busyPoint is one number of callers; figures are medians of the rounds.
type busyPoint struct {
	Callers int `json:"callers"`
	busyRound
	Fairness float64     `json:"fairness"`
	Rounds   []busyRound `json:"rounds"`
}

// idleSettle is how long connections are left alone before the memory is read: a server may give back what it needed to
// accept them.
const idleSettle = time.Second

func connectionsCells(o *options) int {
	return o.connectionRounds * (len(o.idle) + len(o.busy))
}

func runConnections(ctx context.Context, b *bench, r *report) error {
	f := new(connectionsFigures)
	for _, n := range b.idle {
		f.Idle = append(f.Idle, idlePoint{Connections: n})
	}
	for _, n := range b.busy {
		f.Busy = append(f.Busy, busyPoint{Callers: n})
	}
	for round := range b.connectionRounds {
		b.progress.round(scenarioConnections)
		for i, n := range b.idle {
			b.progress.step("connections, round %d of %d: %d idle", round+1, b.connectionRounds, n)
			cell, err := runIdle(ctx, b, n)
			if err != nil {
				return fmt.Errorf("%d idle: %w", n, err)
			}
			f.Idle[i].Rounds = append(f.Idle[i].Rounds, cell)
		}
		for i, n := range b.busy {
			b.progress.step("connections, round %d of %d: %d busy", round+1, b.connectionRounds, n)
			cell, err := runBusy(ctx, b, n)
			if err != nil {
				return fmt.Errorf("%d busy: %w", n, err)
			}
			f.Busy[i].Rounds = append(f.Busy[i].Rounds, cell)
		}
	}
	f.summarize()
	r.Connections = f
	return nil
}

func runIdle(ctx context.Context, b *bench, n int) (r idleRound, err error) {
	c, err := startCluster(ctx, masterCount, b.program.with(crowdSettings(n)...))
	if err != nil {
		return r, err
	}
	defer c.close()
	pid := c.proxies[0].pid()
	before, err := processRSS(pid)
	if err != nil {
		return r, err
	}
	idle, err := dialCrowd(ctx, c.proxies[0].addr, n)
	if err != nil {
		return r, err
	}
	defer idle.close()
	if err := sleep(ctx, idleSettle); err != nil {
		return r, err
	}
	counter := newCommandCounter(c)
	defer counter.close()
	watched, err := c.watch(ctx, counter, idleSettle)
	if err != nil {
		return r, err
	}
	after, err := processRSS(pid)
	if err != nil {
		return r, err
	}
	return idleRound{
		EmptyMB:         megabytes(before),
		RedlockdMB:      megabytes(after),
		KBPerConnection: float64(after-before) / 1024 / float64(n),
		RedlockdPercent: watched.RedlockdPercent,
	}, nil
}

func runBusy(ctx context.Context, b *bench, n int) (r busyRound, err error) {
	c, err := startCluster(ctx, masterCount, b.program.with(crowdSettings(n)...))
	if err != nil {
		return r, err
	}
	defer c.close()
	var figures loadFigures
	_, err = c.measured(ctx, loadSpec{
		Scenario: scenarioUncontended,
		Target:   targetRedlockd,
		Callers:  n,
		Warmup:   b.warmup,
		Duration: b.connectionDuration,
		Prefix:   "bench:busy:",
	}, &figures)
	if err != nil {
		return r, err
	}
	return busyRound{
		PairsPerSec: figures.PairsPerSec,
		PairUs:      figures.PairUs,
		PairsMin:    float64(figures.CallerPairsMin),
		PairsMax:    float64(figures.CallerPairsMax),
		Failures:    figures.Failures,
	}, nil
}

func (f *connectionsFigures) summarize() {
	for i, p := range f.Idle {
		f.Idle[i].idleRound = medians(p.Rounds)
	}
	for i, p := range f.Busy {
		f.Busy[i].busyRound = medians(p.Rounds)
		f.Busy[i].Fairness = medianOf(p.Rounds, busyRound.fairness)
	}
}

func idleTable(points []idlePoint) table {
	t := table{
		title: "Connections that are idle: each sent one PING, a second ago and more",
		note:  "Medians of the rounds. MB: resident memory of redlockd, without and with them. CPU: of redlockd, in percent of one core.",
		head:  []string{"connections", "empty MB", "MB", "KB/connection", "CPU"}, joined: true,
	}
	for _, p := range points {
		t.add(p.Connections, p.EmptyMB, p.RedlockdMB, p.KBPerConnection, number(p.RedlockdPercent)+" %")
	}
	return t
}

func busyTable(points []busyPoint) table {
	t := table{
		title: "Connections that are busy: plain go-redis callers with a connection each, resources of their own",
		note:  "Medians of the rounds. Latencies in ms. Fewest, most: pairs of the unluckiest and the luckiest caller; fairness: one ÷ the other.",
		head:  []string{"callers", "pairs/s", "pair p50 ms", "p99", "p99.9", "max", "fewest", "most", "fairness", "errors"}, joined: true,
	}
	for _, p := range points {
		t.add(p.Callers, p.PairsPerSec, p.PairUs.P50/1e3, p.PairUs.P99/1e3, p.PairUs.P999/1e3, p.PairUs.Max/1e3, p.PairsMin, p.PairsMax,
			fmt.Sprintf("%.2f", p.Fairness), p.Failures.Count)
	}
	return t
}
