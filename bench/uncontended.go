package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// uncontendedRound is one cell: some callers, each acquiring and releasing resources that nobody else wants.
type uncontendedRound struct {
	PairsPerSec float64     `json:"pairs_per_sec"`
	LockUs      percentiles `json:"lock_us"`
	PairUs      percentiles `json:"pair_us"`
	CPU         cpuSplit    `json:"cpu_per_pair"`
	Failures    failures    `json:"failures"`
}

// uncontendedRow is one target at one number of callers; figures are medians of the rounds.
type uncontendedRow struct {
	Target  string `json:"target"`
	Callers int    `json:"callers"`

	uncontendedRound
	PairsPerSecMin float64 `json:"pairs_per_sec_min"`
	PairsPerSecMax float64 `json:"pairs_per_sec_max"`

	ToRedsync comparison `json:"to_redsync"`
	ToSingle  comparison `json:"to_single"`
	ToNative  comparison `json:"to_native"` // to the target that does the same with LOCK and UNLOCK

	Rounds []uncontendedRound `json:"rounds"`
}

// comparison is a target against a peer in the same round, the median of the rounds. All 0 when the peer was not
// measured.
type comparison struct {
	PairsPerSec float64 `json:"pairs_per_sec"` // ours / the peer's: how much more
	LockP50     float64 `json:"lock_p50"`      // ours / the peer's: below 1 is faster
	CPULess     float64 `json:"cpu_less"`      // the peer's / ours: how much less per pair
}

// runUncontended measures the rounds of this scenario, targets in turn.
func runUncontended(ctx context.Context, b *bench, r *report) error {
	c, err := b.startCluster(ctx, b.targets)
	if err != nil {
		return err
	}
	defer c.close()
	o, p := b.options, b.progress
	rows := grid(o.callers, o.targets, func(callers int, target string) *uncontendedRow {
		return &uncontendedRow{Target: target, Callers: callers}
	})
	for round := range o.rounds {
		p.round(scenarioUncontended)
		for _, row := range inTurn(rows, len(o.targets), round) {
			p.step("uncontended, round %d of %d: %d callers, %s", round+1, o.rounds, row.Callers, row.Target)
			cell, err := runUncontendedCell(ctx, c, loadSpec{
				Scenario: scenarioUncontended,
				Target:   row.Target,
				Callers:  row.Callers,
				Warmup:   o.warmup,
				Duration: o.duration,
				Prefix:   fmt.Sprintf("bench:%d:%d:%s:", round, row.Callers, row.Target),
			})
			if err != nil {
				return err
			}
			row.Rounds = append(row.Rounds, cell)
		}
	}
	r.Uncontended = summarizeUncontended(rows)
	return nil
}

func runUncontendedCell(ctx context.Context, c *cluster, spec loadSpec) (uncontendedRound, error) {
	var f loadFigures
	u, err := c.measured(ctx, spec, &f)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		// A target that got stuck is a finding, and no reason to lose those of the others.
		return stuckRound(err), nil
	}
	if err != nil {
		return uncontendedRound{}, err
	}
	return roundOf(f, u.serverCPU), nil
}

// roundOf is a cell's outcome from what client and servers measured.
func roundOf(f loadFigures, cpu serverCPU) uncontendedRound {
	return uncontendedRound{
		PairsPerSec: f.PairsPerSec,
		LockUs:      f.LockUs,
		PairUs:      f.PairUs,
		CPU:         cpu.per(f.CPU, float64(f.Pairs)),
		Failures:    f.Failures,
	}
}

// stuckRound is the outcome of a cell that did not end.
func stuckRound(err error) (stuck uncontendedRound) {
	stuck.Failures.add(1, err.Error())
	return stuck
}

// compare holds rounds against those of a peer.
func compare(ours, theirs []uncontendedRound) comparison {
	return comparison{
		PairsPerSec: medianRatio(ours, theirs, func(r uncontendedRound) float64 { return r.PairsPerSec }),
		LockP50:     medianRatio(ours, theirs, func(r uncontendedRound) float64 { return r.LockUs.P50 }),
		CPULess:     medianRatio(theirs, ours, func(r uncontendedRound) float64 { return r.CPU.totalUs() }),
	}
}

func summarizeUncontended(rows []*uncontendedRow) []uncontendedRow {
	peer := func(row *uncontendedRow, target string) comparison {
		i := slices.IndexFunc(rows, func(other *uncontendedRow) bool {
			return other.Target == target && other.Callers == row.Callers
		})
		if i < 0 {
			return comparison{}
		}
		return compare(row.Rounds, rows[i].Rounds)
	}
	return summarize(rows, func(row *uncontendedRow) {
		row.uncontendedRound = medians(row.Rounds)
		row.PairsPerSecMin, row.PairsPerSecMax = rangeOf(row.Rounds, func(r uncontendedRound) float64 { return r.PairsPerSec })
		row.ToRedsync = peer(row, targetRedsync)
		row.ToSingle = peer(row, targetSingle)
		row.ToNative = peer(row, traitsOf[row.Target].native)
	})
}
