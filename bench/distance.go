package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"gonum.org/v1/plot"
)

// Distance: the masters stand some milliseconds away from the process that sends to them: redlockd or, for redsync, the
// client. A lock then costs a round trip, and anything above it is our doing.

// distanceRound is one cell.
type distanceRound struct {
	PairsPerSec float64     `json:"pairs_per_sec"`
	LockUs      percentiles `json:"lock_us"`
	RoundTripUs float64     `json:"round_trip_us"` // the median of PINGs through a relay just before
	Failures    failures    `json:"failures"`
}

// above is how much longer a LOCK takes than a round trip, in percent.
func (r distanceRound) above() float64 { return 100 * (ratio(r.LockUs.P50, r.RoundTripUs) - 1) }

// distanceRow is one target at one distance with some callers; figures are medians of the rounds.
type distanceRow struct {
	Target     string  `json:"target"`
	DistanceMs float64 `json:"distance_ms"` // a round trip
	Callers    int     `json:"callers"`

	distanceRound
	AbovePercent float64 `json:"above_percent"`

	Rounds []distanceRound `json:"rounds"`
}

// distanceCallers are the numbers of callers.
var distanceCallers = []int{1, 64}

func runDistance(ctx context.Context, b *bench, r *report) error {
	targets := b.quorumTargets()
	var rows []*distanceRow
	for _, distance := range b.distances {
		some, err := runOneDistance(ctx, b, targets, distance)
		if err != nil {
			return fmt.Errorf("%v away: %w", distance, err)
		}
		rows = append(rows, some...)
	}
	r.Distance = summarizeDistance(rows)
	return nil
}

// runOneDistance measures one distance, on new masters.
func runOneDistance(ctx context.Context, b *bench, targets []string, distance time.Duration) ([]*distanceRow, error) {
	c, err := startCluster(ctx, masterCount, nil)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.moveAway(distance); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(targets, usesRedlockd) {
		if err := b.program.vouch(ctx, c.mastersSeen()); err != nil {
			return nil, err
		}
		if err := c.addProxy(ctx, b.program, c.mastersSeen()); err != nil {
			return nil, err
		}
	}
	rows := grid(distanceCallers, targets, func(callers int, target string) *distanceRow {
		return &distanceRow{Target: target, Callers: callers, DistanceMs: float64(distance.Microseconds()) / 1e3}
	})
	for round := range b.distanceRounds {
		b.progress.round(scenarioDistance)
		for _, row := range inTurn(rows, len(targets), round) {
			b.progress.step("distance, round %d of %d: %v, %d callers, %s", round+1, b.distanceRounds, distance, row.Callers, row.Target)
			roundTrip, err := c.relays[0].roundTrip()
			if err != nil {
				return nil, err
			}
			cell, err := runUncontendedCell(ctx, c, loadSpec{
				Scenario: scenarioUncontended,
				Target:   row.Target,
				Callers:  row.Callers,
				Warmup:   b.warmup,
				Duration: b.distanceDuration,
				Prefix:   fmt.Sprintf("bench:distance:%d:%d:%s:", round, row.Callers, row.Target),
			})
			if err != nil {
				return nil, err
			}
			row.Rounds = append(row.Rounds, distanceRound{
				PairsPerSec: cell.PairsPerSec,
				LockUs:      cell.LockUs,
				RoundTripUs: roundTrip,
				Failures:    cell.Failures,
			})
		}
	}
	return rows, nil
}

// roundTrip is the median of some PINGs through the relay, in microseconds.
func (r *relay) roundTrip() (float64, error) {
	const pings = 21
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		return 0, fmt.Errorf("measure a round trip: %w", err)
	}
	defer conn.Close()
	var us []float64
	for range pings {
		began := time.Now()
		if err := ask(conn, "PING\r\n", "+PONG\r\n"); err != nil {
			return 0, fmt.Errorf("measure a round trip: %w", err)
		}
		us = append(us, float64(time.Since(began).Nanoseconds())/1e3)
	}
	return median(us), nil
}

func summarizeDistance(rows []*distanceRow) []distanceRow {
	return summarize(rows, func(row *distanceRow) {
		row.distanceRound = medians(row.Rounds)
		row.AbovePercent = medianOf(row.Rounds, distanceRound.above)
	})
}

func distanceTable(rows []distanceRow) table {
	t := table{
		title: "Distance: every master a round trip away from redlockd, or from the client of a target without it",
		note: "Medians of the rounds, latencies in µs. Round trip: the median of PINGs through the same relay just before. Above: what a LOCK takes\n" +
			"beyond one round trip.",
		head: []string{"ms away", "callers", "target", "round trip", "lock p50", "p99", "above", "pairs/s", "errors"},
		left: 3,
	}
	for _, r := range rows {
		t.add(r.DistanceMs, r.Callers, r.Target, r.RoundTripUs, r.LockUs.P50, r.LockUs.P99,
			fmt.Sprintf("%+.0f %%", r.AbovePercent), r.PairsPerSec, r.Failures.Count)
	}
	return t
}

// distancePanels has a panel per number of callers: what a LOCK takes beyond the round trip.
func distancePanels(rows []distanceRow) (all panels) {
	for i, callers := range distanceCallers {
		some := keep(rows, func(r distanceRow) bool { return r.Callers == callers })
		if len(some) == 0 {
			continue
		}
		all = append(all, []*plot.Plot{curves{
			title: callersOf(callers), x: "round trip, ms", y: "LOCK p50, ms", legend: i == 0,
			lines: linesByTarget(some, func(r distanceRow) (string, float64, float64) {
				return r.Target, r.RoundTripUs / 1e3, r.LockUs.P50 / 1e3
			}),
		}.panel()})
	}
	return all
}
