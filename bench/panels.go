package main

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// throughputPanels has a panel per number of callers.
func throughputPanels(rows []uncontendedRow) (all panels) {
	for _, group := range byLoad(rows, func(r uncontendedRow) int { return r.Callers }) {
		names := column(group, func(r uncontendedRow) string { return r.Target })
		all = append(all, []*plot.Plot{bars{
			title: callersOf(group[0].Callers),
			axis:  "acquire + release pairs/s, median and range of the rounds",
			names: names,
			parts: []barPart{{values: column(group, func(r uncontendedRow) float64 { return r.PairsPerSec }), colors: column(names, colorOf)}},
			low:   column(group, func(r uncontendedRow) float64 { return r.PairsPerSecMin }),
			high:  column(group, func(r uncontendedRow) float64 { return r.PairsPerSecMax }),
		}.panel()})
	}
	return all
}

// cpuPanels has a panel per number of callers, bars stacked by process.
func cpuPanels(rows []uncontendedRow) (all panels) {
	for i, group := range byLoad(rows, func(r uncontendedRow) int { return r.Callers }) {
		b := bars{
			title: callersOf(group[0].Callers),
			axis:  "CPU time per pair, µs, all processes",
			names: column(group, func(r uncontendedRow) string { return r.Target }),
		}
		for _, process := range processColors {
			part := barPart{
				values: column(group, func(r uncontendedRow) float64 { return process.us(r.CPU) }),
				colors: column(group, func(uncontendedRow) color.Color { return process.color }),
			}
			if i == 0 {
				part.name = process.name
			}
			b.parts = append(b.parts, part)
		}
		all = append(all, []*plot.Plot{b.panel()})
	}
	return all
}

// latencyPanels has a panel per number of callers and in it two lines per target: above the lock, below the pair.
func latencyPanels(rows []uncontendedRow) (all panels) {
	for _, group := range byLoad(rows, func(r uncontendedRow) int { return r.Callers }) {
		// The label of the axis is short: on such an axis a long one takes width away from the panel.
		p := newPanel(callersOf(group[0].Callers)+": lock p50–p99 (upper line), pair p50–p99–p99.9 (lower line)",
			"µs, logarithmic", "") // short: on such an axis a long one takes width away from the panel
		p.Y.Tick.Label.Font.Size = 9
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plain{plot.LogTicks{Prec: -1}}
		names := make([]string, len(group))
		for i, r := range group {
			y := len(group) - 1 - i
			names[y] = r.Target
			addLatency(p, float64(y)+0.15, colorOf(r.Target), 3, r.LockUs.P50, r.LockUs.P99)
			addLatency(p, float64(y)-0.15, colorOf(r.Target), 1, r.PairUs.P50, r.PairUs.P99, r.PairUs.P999)
		}
		p.NominalY(names...)
		p.Y.Min, p.Y.Max = -0.6, float64(len(group))-0.4
		if p.X.Min > p.X.Max { // nothing was drawn
			p.X.Min, p.X.Max = 1, 10
		}
		p.X.Min, p.X.Max = p.X.Min*0.8, p.X.Max*1.3
		all = append(all, []*plot.Plot{p})
	}
	return all
}

// addLatency draws some percentiles as dots on one line. A logarithm has no place for 0: nothing measured, nothing drawn.
func addLatency(p *plot.Plot, y float64, c color.Color, width vg.Length, us ...float64) {
	var at plotter.XYs
	for _, x := range us {
		if x > 0 {
			at = append(at, plotter.XY{X: x, Y: y})
		}
	}
	if len(at) > 0 {
		addDottedLine(p, at, c, width)
	}
}

// hotKeyPanels has a row per number of clients, a column per question.
func hotKeyPanels(rows []hotKeyRow) (all panels) {
	for _, group := range byLoad(rows, func(r hotKeyRow) int { return r.Clients }) {
		names := column(group, func(r hotKeyRow) string { return r.Target })
		all = append(all, bars{title: fmt.Sprintf("%d clients, one resource", group[0].Clients), names: names}.sideBySide(column(names, colorOf),
			figure{"hand-over, mean µs", column(group, func(r hotKeyRow) float64 { return r.HandOverUs.Mean })},
			figure{"wait p99, ms", column(group, func(r hotKeyRow) float64 { return r.WaitUs.P99 / 1e3 })},
			figure{"fairness, min/max", column(group, func(r hotKeyRow) float64 { return r.Fairness })}))
	}
	return all
}

// faultPanels has a panel per fault: throughput over time, in percent of the target's own healthy second.
func faultPanels(rows []faultRow) (all panels) {
	for i, group := range byLoad(rows, func(r faultRow) string { return r.Fault }) {
		p := newPanel(faultTitle(group[0].Fault), "s", "% of the healthy second")
		p.Legend.Left = true // below the healthy second, where no line is
		for _, r := range group {
			line := lineOf(timelineOf(r), colorOf(r.Target), 1.5)
			p.Add(line)
			if i == 0 {
				p.Legend.Add(r.Target, line)
			}
		}
		p.X.Min, p.X.Max = 0, faultWindow.Seconds()
		p.Y.Tick.Marker = plain{plot.DefaultTicks{}}
		p.Y.Min, p.Y.Max = 0, max(p.Y.Max, 100)*1.05
		if group[0].Fault != faultNone {
			addMark(p, group[0].FaultAtMs/1e3)
		}
		all = append(all, []*plot.Plot{p})
	}
	return all
}

func faultTitle(name string) string {
	f, err := parseFault(name)
	switch {
	case err != nil:
		return name
	case f.kind == faultNone:
		return "no fault"
	case f.kind == faultFreeze:
		return fmt.Sprintf("%d of %d masters frozen after 1 s", f.masters, masterCount)
	}
	return fmt.Sprintf("%d of %d masters killed after 1 s", f.masters, masterCount)
}

// timelineOf places each step of the time line at its middle.
func timelineOf(r faultRow) plotter.XYs {
	points := make(plotter.XYs, len(r.Timeline))
	for i, rate := range r.Timeline {
		points[i] = plotter.XY{
			X: (float64(i) + 0.5) * timelineStep.Seconds(),
			Y: 100 * ratio(rate, r.HealthyPairsPerSec),
		}
	}
	return points
}
