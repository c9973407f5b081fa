package main

import (
	"fmt"
	"image/color"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"
)

func recoveryTable(rows []recoveryRow) table {
	t := table{
		title: "Recovery: masters without persistence are killed and started again one after another, while locks are held",
		note: "Medians of the rounds, counts are sums. To vote: from the start of each new process to its vote, ms. All: from the first kill to the\n" +
			"last vote, ms. Keys: the fewest of a master that votes again. LOCK: of other clients, in µs, in the quiet phase before and during the\n" +
			"restarts; p99 ×: one ÷ the other. Refused: their LOCKs with NOQUORUM or null. Lost: held locks that their holder could not extend at\n" +
			"the end; twice: those that another token was granted.\n" +
			"Wanted: each votes within 1 s with 10000 locks and within 10 s with 1000000, five in turn within 15 s with 10000, p99 × at most 2,\n" +
			"and nothing refused, lost or granted twice.",
		head: []string{"held", "to vote ms", "all ms", "keys", "LOCK/s quiet", "p50", "p99", "max", "restarts: LOCK/s", "p50", "p99", "max", "p99 ×",
			"refused", "errors", "checked", "lost", "twice"},
		joined: true,
	}
	for _, r := range rows {
		fewest := 0.0
		if len(r.Keys) > 0 {
			fewest = slices.Min(r.Keys)
		}
		t.add(r.Held, strings.Join(column(r.VoteMs, number), " "), r.TotalMs, fewest,
			r.QuietPerSec, r.QuietUs.P50, r.QuietUs.P99, r.QuietUs.Max, r.RestartPerSec, r.RestartUs.P50, r.RestartUs.P99, r.RestartUs.Max, times(r.SlowerP99),
			r.Refused, r.Failures.Count, r.Checked, r.Lost, r.Twice)
	}
	return t
}

// recoveryPanels has two panels per number of held locks, over the time of the first round: the votes, and the LOCKs of other clients.
func recoveryPanels(rows []recoveryRow) (all panels) {
	for _, r := range rows {
		if len(r.Rounds) > 0 {
			all = append(all, []*plot.Plot{r.votesPanel()}, []*plot.Plot{r.latencyPanel()})
		}
	}
	return all
}

// votesPanel has a line of the votes, and a dot for each step in which a LOCK was refused.
func (r recoveryRow) votesPanel() *plot.Plot {
	course := r.Rounds[0]
	p := newPanel(fmt.Sprintf("%s locks held: masters that vote while %s", grouped(float64(r.Held)), restartsOf(r.Restarts)), "s", "masters")
	p.Legend.Left = true // below the line
	var line, refused plotter.XYs
	for i, change := range course.Votes {
		if i > 0 {
			line = append(line, plotter.XY{X: change.AtMs / 1e3, Y: float64(course.Votes[i-1].Votes)})
		}
		line = append(line, plotter.XY{X: change.AtMs / 1e3, Y: float64(change.Votes)})
	}
	if n := len(line); n > 0 {
		line = append(line, plotter.XY{X: course.seconds(), Y: line[n-1].Y})
		p.Add(lineOf(line, colorOf(targetRedlockd), 1.5))
	}
	for i, step := range course.Timeline {
		if step.Refused > 0 {
			refused = append(refused, plotter.XY{X: middleOf(i), Y: 2})
		}
	}
	if len(refused) > 0 {
		dots := &plotter.Scatter{XYs: refused, GlyphStyle: draw.GlyphStyle{Color: color.Black, Shape: draw.CircleGlyph{}, Radius: 2.5}}
		p.Add(dots)
		p.Legend.Add("a LOCK of another client was refused", dots)
	}
	var ticks plot.ConstantTicks
	for n := range masterCount + 1 {
		ticks = append(ticks, plot.Tick{Value: float64(n), Label: strconv.Itoa(n)})
	}
	p.Y.Min, p.Y.Max, p.Y.Tick.Marker = 0, masterCount*1.05, ticks
	p.X.Min, p.X.Max, p.X.Tick.Marker = 0, course.seconds(), plain{plot.DefaultTicks{}}
	return p
}

// latencyPanel has two lines, and a mark for each kill.
func (r recoveryRow) latencyPanel() *plot.Plot {
	course := r.Rounds[0]
	percentile := func(name string, color color.Color, us func(latencyStep) float64) curve {
		c := curve{name: name, color: color}
		for i, step := range course.Timeline {
			c.points = append(c.points, plotter.XY{X: middleOf(i), Y: us(step)})
		}
		return c
	}
	p := curves{
		title: "LOCK of other clients, per 100 ms; dashed: a master is killed", x: "s", y: "ms, logarithmic", logY: true, legend: true, bare: true,
		lines: []curve{
			percentile("p99", colorOf(targetRedsync), func(s latencyStep) float64 { return s.P99Us / 1e3 }),
			percentile("p50", colorOf(targetRedlockd), func(s latencyStep) float64 { return s.P50Us / 1e3 }),
		},
	}.panel()
	p.X.Max = course.seconds()
	for i, change := range course.Votes {
		if i > 0 && change.Votes < course.Votes[i-1].Votes {
			addMark(p, change.AtMs/1e3)
		}
	}
	return p
}

// seconds is the length of the time line.
func (r recoveryRound) seconds() float64 {
	return float64(max(len(r.Timeline), 1)) * timelineStep.Seconds()
}

// middleOf is the time of a step, in seconds.
func middleOf(step int) float64 { return (float64(step) + 0.5) * timelineStep.Seconds() }

func restartsOf(n int) string {
	if n == 1 {
		return "one restarts"
	}
	return fmt.Sprintf("%d restart in turn", n)
}
