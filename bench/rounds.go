package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Rounds. A shared machine changes its speed from minute to minute, by more than what separates two of the targets. So
// every round measures all of them, one right after another, and what is compared is compared within a round.

// hotRounds measures all ways in each of the rounds of the hot key, and returns the cells of each way.
func hotRounds[Way, Cell any](b *bench, scenario string, ways []Way, measure func(i int) (Cell, error)) ([][]Cell, error) {
	cells := make([][]Cell, len(ways))
	for round := range b.hotRounds {
		b.progress.round(scenario)
		for i, way := range ways {
			b.progress.step("%s, round %d of %d: %v", scenario, round+1, b.hotRounds, way)
			cell, err := measure(i)
			if err != nil {
				return nil, err
			}
			cells[i] = append(cells[i], cell)
		}
	}
	return cells, nil
}

// grid makes one row for each pair of load and target, loads outside.
func grid[Load, Row any](loads []Load, targets []string, row func(Load, string) *Row) []*Row {
	var rows []*Row
	for _, load := range loads {
		for _, target := range targets {
			rows = append(rows, row(load, target))
		}
	}
	return rows
}

// inTurn orders the rows of a grid for one round: in each group of targets the next target begins, so that none always
// runs behind the same other.
func inTurn[Row any](rows []*Row, group, round int) []*Row {
	ordered := make([]*Row, 0, len(rows))
	for loads := range slices.Chunk(rows, max(group, 1)) {
		first := round % len(loads)
		ordered = append(ordered, loads[first:]...)
		ordered = append(ordered, loads[:first]...)
	}
	return ordered
}

// summarize completes each row from its rounds.
func summarize[Row any](rows []*Row, complete func(*Row)) []Row {
	return column(rows, func(row *Row) Row {
		complete(row)
		return *row
	})
}

// medianRatio is the median over the rounds of a's figure divided by b's in the same round; 0 when they share none.
func medianRatio[T any](a, b []T, figure func(T) float64) float64 {
	return median(ratios(a, b, figure))
}

// lowestRatio is the worst of these rounds.
func lowestRatio[T any](a, b []T, figure func(T) float64) float64 {
	if all := ratios(a, b, figure); len(all) > 0 {
		return slices.Min(all)
	}
	return 0
}

// ratios leaves out the rounds in which one of the two measured nothing: a target that got stuck is neither infinitely quick nor cheap.
func ratios[T any](a, b []T, figure func(T) float64) []float64 {
	var all []float64
	for i := range min(len(a), len(b)) {
		if dividend, divisor := figure(a[i]), figure(b[i]); dividend != 0 && divisor != 0 {
			all = append(all, dividend/divisor)
		}
	}
	return all
}

// keep lists the elements that pass.
func keep[T any](all []T, pass func(T) bool) []T {
	var kept []T
	for _, e := range all {
		if pass(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

// serverCPU is the CPU time that the servers of a target spent during a cell.
type serverCPU struct{ redlockd, masters time.Duration }

// per divides the CPU time of a cell, with what the client used, by the number of operations.
func (s serverCPU) per(client time.Duration, operations float64) cpuSplit {
	us := func(used time.Duration) float64 { return ratio(float64(used)/float64(time.Microsecond), operations) }
	return cpuSplit{ClientUs: us(client), RedlockdUs: us(s.redlockd), RedisUs: us(s.masters)}
}

// used is what the servers of a target have used since they started, and from one reading to another what they used in between.
type used struct {
	serverCPU
	commands int       // executed by all the masters; 0 when nobody counts them
	at       time.Time // when it was read
	elapsed  time.Duration
}

// read asks the servers; counter may be nil.
func (c *cluster) read(ctx context.Context, target string, counter *commandCounter) (u used, err error) {
	if u.serverCPU, err = c.cpu(target); err != nil {
		return u, err
	}
	u.at = time.Now()
	if counter != nil {
		u.commands, err = counter.read(ctx)
	}
	return u, err
}

func (u used) since(before used) used {
	return used{
		serverCPU: serverCPU{redlockd: u.redlockd - before.redlockd, masters: u.masters - before.masters},
		commands:  u.commands - before.commands,
		elapsed:   u.at.Sub(before.at),
	}
}

// measured runs one load generator to its end, reads its figures, and tells what the servers used meanwhile.
func (c *cluster) measured(ctx context.Context, spec loadSpec, figures any) (used, error) {
	return between(ctx, c.spec(spec), figures, func() (used, error) { return c.read(ctx, spec.Target, nil) })
}

// between runs one load generator to its end, reads its figures, and reads what the servers have used just before it starts and just
// after no caller is in a call any more.
func between(ctx context.Context, spec loadSpec, figures any, read func() (used, error)) (u used, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s, %d callers, %s: %w", spec.Scenario, spec.Callers, spec.Target, err)
		}
	}()
	g, err := startGenerator(ctx, spec)
	if err != nil {
		return u, err
	}
	defer g.close()
	before, err := read()
	if err != nil {
		return u, err
	}
	if err := g.say(sayGo); err != nil {
		return u, err
	}
	if err := g.await(ctx, sayDone, spec.Duration+childGrace); err != nil {
		return u, err
	}
	after, err := read()
	if err != nil {
		return u, err
	}
	return after.since(before), g.figures(ctx, figures)
}
