package main

import (
	"bytes"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// processColors are the parts of a CPU bar.
var processColors = []struct {
	name  string
	color color.Color
	us    func(cpuSplit) float64
}{
	{"client", color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff}, func(c cpuSplit) float64 { return c.ClientUs }},
	{"redlockd", color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}, func(c cpuSplit) float64 { return c.RedlockdUs }},
	{"masters", color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}, func(c cpuSplit) float64 { return c.RedisUs }},
}

const (
	panelWidth  = 7 * vg.Inch
	panelHeight = 2.3 * vg.Inch
	barWidth    = vg.Length(14)
	barRoom     = vg.Length(18) // a bar and the gap to the next
	panelFrame  = vg.Length(55) // title, axis and their numbers
)

// plot draws what was measured into dir.
func (r *report) plot(dir string) error {
	plot.DefaultFont.Variant, plotter.DefaultFont.Variant = "Sans", "Sans"
	drawings := map[string]func() ([][]*plot.Plot, error){}
	targets := map[string]bool{}
	for _, row := range r.Uncontended {
		targets[row.Target] = true
	}
	if len(r.Uncontended) > 0 {
		drawings["throughput.svg"] = func() ([][]*plot.Plot, error) { return throughputPanels(r.Uncontended) }
		drawings["latency.svg"] = func() ([][]*plot.Plot, error) { return latencyPanels(r.Uncontended) }
		drawings["cpu.svg"] = func() ([][]*plot.Plot, error) { return cpuPanels(r.Uncontended) }
	}
	if len(r.HotKey) > 0 {
		drawings["hotkey.svg"] = func() ([][]*plot.Plot, error) { return hotKeyPanels(r.HotKey) }
	}
	if len(r.Faults) > 0 {
		drawings["faults.svg"] = func() ([][]*plot.Plot, error) { return faultPanels(r.Faults) }
	}
	if len(r.Latency) > 0 {
		drawings["rates.svg"] = func() ([][]*plot.Plot, error) { return ratePanels(r.Latency) }
	}
	if r.Growth != nil {
		drawings["growth.svg"] = func() ([][]*plot.Plot, error) { return growthPanels(r.Growth) }
	}
	if len(r.Distance) > 0 {
		drawings["distance.svg"] = func() ([][]*plot.Plot, error) { return distancePanels(r.Distance) }
	}
	if r.Libraries != nil && len(r.Libraries.Rows) > 0 {
		drawings["libraries.svg"] = func() ([][]*plot.Plot, error) { return libraryPanels(r.Libraries.Rows) }
	}
	for name, draw := range drawings {
		panels, err := draw()
		if err == nil {
			err = savePanels(filepath.Join(dir, name), panels, max(panelHeight, vg.Length(len(targets))*barRoom+panelFrame))
		}
		if err != nil {
			return fmt.Errorf("draw %s: %w", name, err)
		}
	}
	return nil
}

// savePanels writes a grid of panels, aligned, as one SVG, white to its edges: a page may be dark.
func savePanels(path string, panels [][]*plot.Plot, height vg.Length) error {
	width, height := panelWidth, vg.Length(len(panels))*height
	canvas := vgsvg.New(width, height)
	canvas.SetColor(color.White)
	canvas.Fill(vg.Rectangle{Max: vg.Point{X: width, Y: height}}.Path())
	tiles := draw.Tiles{Rows: len(panels), Cols: len(panels[0]), PadX: 10, PadY: 10, PadTop: 4, PadBottom: 4, PadLeft: 4, PadRight: 16}
	for i, row := range plot.Align(panels, tiles, draw.New(canvas)) {
		for j, c := range row {
			if panels[i][j] != nil {
				panels[i][j].Draw(c)
			}
		}
	}
	var drawn bytes.Buffer
	if _, err := canvas.WriteTo(&drawn); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.ReplaceAll(drawn.String(), fontDrawn, fontsShown)), 0o644)
}

// The font that the drawing is made for, and what a page may show it in: others as wide where that is not installed.
const (
	fontDrawn  = "font-family:Liberation Sans;"
	fontsShown = "font-family:Liberation Sans,Arial,Helvetica,sans-serif;"
)

// plain writes the numbers of an axis without an exponent and without zeros behind the point, and nothing beyond its ends: room
// would be left for that.
type plain struct{ plot.Ticker }

func (p plain) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	labels := 0
	for _, tick := range p.Ticker.Ticks(low, high) {
		if tick.Value < low || tick.Value > high {
			continue
		}
		if tick.Label != "" {
			tick.Label = numeral(tick.Value)
			labels++
		}
		ticks = append(ticks, tick)
	}
	if _, log := p.Ticker.(plot.LogTicks); log && labels < 3 { // powers of ten alone are too few
		for i, tick := range ticks {
			if digit := numeral(tick.Value)[0]; digit == '2' || digit == '5' {
				ticks[i].Label = numeral(tick.Value)
			}
		}
	}
	return ticks
}

func numeral(v float64) string { return strconv.FormatFloat(v, 'f', -1, 32) }

// bars describes a panel of horizontal bars, one per target, the first on top.
type bars struct {
	title, axis string
	names       []string
	// parts are stacked; each has one value per name.
	parts []barPart
	// low and high, when set, draw a whisker on each bar.
	low, high []float64
	anonymous bool    // no names: the panel to the left has them
	mark      float64 // a line across all bars; 0: none
}

type barPart struct {
	name   string // in the legend; empty for none
	values []float64
	colors []color.Color // per name
}

func (b bars) panel() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = b.title, b.axis
	p.Title.TextStyle.Font.Size, p.X.Label.TextStyle.Font.Size = 11, 9
	p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size = 8, 8
	p.Y.Tick.Length, p.Y.Padding = 0, 8
	n := len(b.names)
	names, sums := make([]string, n), make([]float64, n)
	for i := range n {
		if row := n - 1 - i; !b.anonymous {
			names[row] = b.names[i]
		}
		var below *plotter.BarChart
		for _, part := range b.parts {
			// A chart per bar, since a chart has one colour.
			chart, err := plotter.NewBarChart(plotter.Values{part.values[i]}, barWidth)
			if err != nil {
				return nil, err
			}
			chart.Horizontal, chart.XMin, chart.Color, chart.LineStyle.Width = true, float64(n-1-i), part.colors[i], 0
			if below != nil {
				chart.StackOn(below)
			}
			below = chart
			sums[i] += part.values[i]
			p.Add(chart)
			if i == 0 && part.name != "" {
				p.Legend.Add(part.name, chart)
			}
		}
	}
	if b.low != nil {
		if err := b.addWhiskers(p, sums); err != nil {
			return nil, err
		}
	}
	if err := b.addValues(p, sums); err != nil {
		return nil, err
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(n)-0.4
	p.X.Min = 0
	p.X.Max = max(p.X.Max, slices.Max(sums), b.mark) * 1.15 // room for the numbers
	if b.parts[0].name != "" {
		p.X.Max *= 1.15 // and for the legend
	}
	if p.X.Max == 0 {
		p.X.Max = 1
	}
	p.X.Tick.Marker = plain{plot.DefaultTicks{}}
	p.Legend.TextStyle.Font.Size = 8
	if b.mark > 0 {
		line, err := plotter.NewLine(plotter.XYs{{X: b.mark, Y: p.Y.Min}, {X: b.mark, Y: p.Y.Max}})
		if err != nil {
			return nil, err
		}
		line.Dashes = []vg.Length{3, 3}
		p.Add(line)
	}
	return p, nil
}

func (b bars) addWhiskers(p *plot.Plot, sums []float64) error {
	var whiskers struct {
		plotter.XYs
		plotter.XErrors
	}
	for i := range sums {
		whiskers.XYs = append(whiskers.XYs, plotter.XY{X: sums[i], Y: float64(len(sums) - 1 - i)})
		whiskers.XErrors = append(whiskers.XErrors, struct{ Low, High float64 }{sums[i] - b.low[i], b.high[i] - sums[i]})
	}
	drawn, err := plotter.NewXErrorBars(whiskers)
	if err != nil {
		return err
	}
	p.Add(drawn)
	return nil
}

// addValues writes each bar's length beside it.
func (b bars) addValues(p *plot.Plot, sums []float64) error {
	var at plotter.XYLabels
	for i, sum := range sums {
		end := sum
		if b.high != nil {
			end = max(end, b.high[i])
		}
		at.XYs = append(at.XYs, plotter.XY{X: end, Y: float64(len(sums) - 1 - i)})
		at.Labels = append(at.Labels, number(sum))
	}
	labels, err := plotter.NewLabels(at)
	if err != nil {
		return err
	}
	labels.Offset = vg.Point{X: 5, Y: -3}
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font.Size = 8
	}
	p.Add(labels)
	return nil
}

// colorsOf are the colours of the targets.
func colorsOf(targets []string) []color.Color {
	colors := make([]color.Color, len(targets))
	for i, target := range targets {
		colors[i] = traitsOf[target].color
	}
	return colors
}

// byLoad cuts the rows of a grid into one group per load, the panels of a drawing.
func byLoad[Row any, Load comparable](rows []Row, load func(Row) Load) [][]Row {
	var groups [][]Row
	for i, row := range rows {
		if i == 0 || load(row) != load(rows[i-1]) {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], row)
	}
	return groups
}

// column is one figure of all rows.
func column[Row, Figure any](rows []Row, figure func(Row) Figure) []Figure {
	figures := make([]Figure, len(rows))
	for i, row := range rows {
		figures[i] = figure(row)
	}
	return figures
}

func callersOf(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}
