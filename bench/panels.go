package main

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// throughputPanels has a panel per number of callers.
func throughputPanels(rows []uncontendedRow) ([][]*plot.Plot, error) {
	var panels [][]*plot.Plot
	for _, group := range byLoad(rows, func(r uncontendedRow) int { return r.Callers }) {
		names := column(group, func(r uncontendedRow) string { return r.Target })
		panel, err := bars{
			title: callersOf(group[0].Callers),
			axis:  "acquire + release pairs/s, median and range of the rounds",
			names: names,
			parts: []barPart{{values: column(group, func(r uncontendedRow) float64 { return r.PairsPerSec }), colors: colorsOf(names)}},
			low:   column(group, func(r uncontendedRow) float64 { return r.PairsPerSecMin }),
			high:  column(group, func(r uncontendedRow) float64 { return r.PairsPerSecMax }),
		}.panel()
		if err != nil {
			return nil, err
		}
		panels = append(panels, []*plot.Plot{panel})
	}
	return panels, nil
}

// cpuPanels has a panel per number of callers, bars stacked by process.
func cpuPanels(rows []uncontendedRow) ([][]*plot.Plot, error) {
	var panels [][]*plot.Plot
	for i, group := range byLoad(rows, func(r uncontendedRow) int { return r.Callers }) {
		b := bars{
			title: callersOf(group[0].Callers),
			axis:  "CPU time per pair, µs, all processes",
			names: column(group, func(r uncontendedRow) string { return r.Target }),
		}
		for _, process := range processColors {
			var part barPart
			if i == 0 {
				part.name = process.name
			}
			for _, r := range group {
				part.values = append(part.values, process.us(r.CPU))
				part.colors = append(part.colors, process.color)
			}
			b.parts = append(b.parts, part)
		}
		panel, err := b.panel()
		if err != nil {
			return nil, err
		}
		panels = append(panels, []*plot.Plot{panel})
	}
	return panels, nil
}

// latencyPanels has a panel per number of callers and in it two lines per target: above the lock, below the pair.
func latencyPanels(rows []uncontendedRow) ([][]*plot.Plot, error) {
	var panels [][]*plot.Plot
	for _, group := range byLoad(rows, func(r uncontendedRow) int { return r.Callers }) {
		p := plot.New()
		p.Title.Text = callersOf(group[0].Callers) + ": lock p50–p99 (upper line), pair p50–p99–p99.9 (lower line)"
		p.X.Label.Text = "µs, logarithmic" // short: on such an axis a long one takes width away from the panel
		p.Title.TextStyle.Font.Size, p.X.Label.TextStyle.Font.Size = 11, 9
		p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size = 8, 9
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plain{plot.LogTicks{Prec: -1}}
		names := make([]string, len(group))
		for i, r := range group {
			y := len(group) - 1 - i
			names[y] = r.Target
			if err := addLatency(p, float64(y)+0.15, traitsOf[r.Target].color, 3, r.LockUs.P50, r.LockUs.P99); err != nil {
				return nil, err
			}
			if err := addLatency(p, float64(y)-0.15, traitsOf[r.Target].color, 1, r.PairUs.P50, r.PairUs.P99, r.PairUs.P999); err != nil {
				return nil, err
			}
		}
		p.NominalY(names...)
		p.Y.Min, p.Y.Max = -0.6, float64(len(group))-0.4
		if p.X.Min > p.X.Max { // nothing was drawn
			p.X.Min, p.X.Max = 1, 10
		}
		p.X.Min, p.X.Max = p.X.Min*0.8, p.X.Max*1.3
		panels = append(panels, []*plot.Plot{p})
	}
	return panels, nil
}

// addLatency draws some percentiles as dots on one line. A logarithm has no place for 0: nothing measured, nothing drawn.
func addLatency(p *plot.Plot, y float64, c color.Color, width vg.Length, us ...float64) error {
	var at plotter.XYs
	for _, x := range us {
		if x > 0 {
			at = append(at, plotter.XY{X: x, Y: y})
		}
	}
	if len(at) == 0 {
		return nil
	}
	line, dots, err := plotter.NewLinePoints(at)
	if err != nil {
		return err
	}
	line.Color, line.Width = c, width
	dots.Color, dots.Shape, dots.Radius = c, draw.CircleGlyph{}, 2.5
	p.Add(line, dots)
	return nil
}

// hotKeyPanels has a row per number of clients, a column per question.
func hotKeyPanels(rows []hotKeyRow) ([][]*plot.Plot, error) {
	questions := []struct {
		axis   string
		figure func(hotKeyRow) float64
	}{
		{"hand-over, mean µs", func(r hotKeyRow) float64 { return r.HandOverUs.Mean }},
		{"wait p99, ms", func(r hotKeyRow) float64 { return r.WaitUs.P99 / 1e3 }},
		{"fairness, min/max", func(r hotKeyRow) float64 { return r.Fairness }},
	}
	var panels [][]*plot.Plot
	for _, group := range byLoad(rows, func(r hotKeyRow) int { return r.Clients }) {
		names := column(group, func(r hotKeyRow) string { return r.Target })
		var row []*plot.Plot
		for i, question := range questions {
			b := bars{
				axis:      question.axis,
				names:     names,
				parts:     []barPart{{values: column(group, question.figure), colors: colorsOf(names)}},
				anonymous: i > 0,
			}
			if i == 0 {
				b.title = fmt.Sprintf("%d clients, one resource", group[0].Clients)
			}
			panel, err := b.panel()
			if err != nil {
				return nil, err
			}
			row = append(row, panel)
		}
		panels = append(panels, row)
	}
	return panels, nil
}

// faultPanels has a panel per fault: throughput over time, in percent of the target's own healthy second.
func faultPanels(rows []faultRow) ([][]*plot.Plot, error) {
	var panels [][]*plot.Plot
	for i, group := range byLoad(rows, func(r faultRow) string { return r.Fault }) {
		p := plot.New()
		p.Title.Text, p.X.Label.Text, p.Y.Label.Text = faultTitle(group[0].Fault), "s", "% of the healthy second"
		p.Title.TextStyle.Font.Size, p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = 11, 9, 9
		p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size = 8, 8
		p.Legend.Left, p.Legend.TextStyle.Font.Size = true, 8 // below the healthy second, where no line is
		for _, r := range group {
			line, err := plotter.NewLine(timelineOf(r))
			if err != nil {
				return nil, err
			}
			line.Color, line.Width = traitsOf[r.Target].color, 1.5
			p.Add(line)
			if i == 0 {
				p.Legend.Add(r.Target, line)
			}
		}
		p.X.Min, p.X.Max = 0, faultWindow.Seconds()
		p.Y.Tick.Marker = plain{plot.DefaultTicks{}}
		p.Y.Min, p.Y.Max = 0, max(p.Y.Max, 100)*1.05
		if group[0].Fault != faultNone {
			at := group[0].FaultAtMs / 1e3
			moment, err := plotter.NewLine(plotter.XYs{{X: at, Y: 0}, {X: at, Y: p.Y.Max}})
			if err != nil {
				return nil, err
			}
			moment.Dashes = []vg.Length{3, 3}
			p.Add(moment)
		}
		panels = append(panels, []*plot.Plot{p})
	}
	return panels, nil
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
