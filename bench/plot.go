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
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
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
	targets := map[string]bool{}
	for _, row := range r.Uncontended {
		targets[row.Target] = true
	}
	heightOf := func(bars int) vg.Length { return max(panelHeight, vg.Length(bars)*barRoom+panelFrame) }
	var growth, libraries panels
	if r.Growth != nil {
		growth = growthPanels(r.Growth)
	}
	if r.Libraries != nil {
		libraries = libraryPanels(r.Libraries.Rows)
	}
	for name, p := range map[string]panels{
		"throughput.svg": throughputPanels(r.Uncontended),
		"latency.svg":    latencyPanels(r.Uncontended),
		"cpu.svg":        cpuPanels(r.Uncontended),
		"hotkey.svg":     hotKeyPanels(r.HotKey),
		"faults.svg":     faultPanels(r.Faults),
		"recovery.svg":   recoveryPanels(r.Recovery),
		"rates.svg":      ratePanels(r.Latency),
		besideSVG:        besidePanels(r.Beside),
		"growth.svg":     growth,
		"distance.svg":   distancePanels(r.Distance),
		"libraries.svg":  libraries,
	} {
		height := heightOf(len(targets))
		if name == besideSVG {
			height = heightOf(len(floods))
		}
		if err := p.save(filepath.Join(dir, name), height); err != nil {
			return fmt.Errorf("draw %s: %w", name, err)
		}
	}
	return nil
}

// panels are a drawing: plots in rows and columns.
//
// Their plotters are put together by hand, since the functions that make them fail for NaN and infinity alone: the report has none, its
// JSON is written before.
type panels [][]*plot.Plot

// save writes the panels, aligned, as one SVG, white to its edges: a page may be dark. Without any there is no file.
func (p panels) save(path string, height vg.Length) error {
	if len(p) == 0 {
		return nil
	}
	width, height := panelWidth, vg.Length(len(p))*height
	canvas := vgsvg.New(width, height)
	canvas.SetColor(color.White)
	canvas.Fill(vg.Rectangle{Max: vg.Point{X: width, Y: height}}.Path())
	tiles := draw.Tiles{Rows: len(p), Cols: len(p[0]), PadX: 10, PadY: 10, PadTop: 4, PadBottom: 4, PadLeft: 4, PadRight: 16}
	for i, row := range plot.Align(p, tiles, draw.New(canvas)) {
		for j, c := range row {
			p[i][j].Draw(c)
		}
	}
	var drawn bytes.Buffer
	if _, err := canvas.WriteTo(&drawn); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.ReplaceAll(drawn.String(), fontDrawn, fontsShown)), 0o644)
}

// newPanel is an empty plot in our sizes.
func newPanel(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Size, p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = 11, 9, 9
	p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size, p.Legend.TextStyle.Font.Size = 8, 8, 8
	return p
}

// lineOf joins points.
func lineOf(points plotter.XYs, c color.Color, width vg.Length) *plotter.Line {
	return &plotter.Line{XYs: points, LineStyle: draw.LineStyle{Color: c, Width: width}}
}

// addDottedLine joins points and marks each of them.
func addDottedLine(p *plot.Plot, points plotter.XYs, c color.Color, width vg.Length) *plotter.Line {
	line := lineOf(points, c, width)
	p.Add(line, &plotter.Scatter{XYs: points, GlyphStyle: draw.GlyphStyle{Color: c, Shape: draw.CircleGlyph{}, Radius: 2.5}})
	return line
}

// addMark draws a dashed line over the whole height.
func addMark(p *plot.Plot, x float64) {
	line := lineOf(plotter.XYs{{X: x, Y: p.Y.Min}, {X: x, Y: p.Y.Max}}, color.Black, 1)
	line.Dashes = []vg.Length{3, 3}
	p.Add(line)
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

func (b bars) panel() *plot.Plot {
	p := newPanel(b.title, b.axis, "")
	p.Y.Tick.Length, p.Y.Padding = 0, 8
	n := len(b.names)
	var (
		names    = make([]string, n)
		whiskers = &plotter.XErrorBars{LineStyle: plotter.DefaultLineStyle, CapWidth: plotter.DefaultCapWidth}
		label    = text.Style{Font: font.From(plotter.DefaultFont, 8), Handler: plot.DefaultTextHandler}
		lengths  = &plotter.Labels{Offset: vg.Point{X: 5, Y: -3}, TextStyle: slices.Repeat([]text.Style{label}, n)}
	)
	for i, name := range b.names {
		row := n - 1 - i
		if !b.anonymous {
			names[row] = name
		}
		var below *plotter.BarChart
		sum := 0.0
		for _, part := range b.parts {
			// A chart per bar, since a chart has one colour.
			chart := &plotter.BarChart{Values: plotter.Values{part.values[i]}, Width: barWidth, Color: part.colors[i], Horizontal: true, XMin: float64(row)}
			if below != nil {
				chart.StackOn(below)
			}
			below = chart
			sum += part.values[i]
			p.Add(chart)
			if i == 0 && part.name != "" {
				p.Legend.Add(part.name, chart)
			}
		}
		end := sum
		if b.high != nil {
			end = max(end, b.high[i])
			whiskers.XYs = append(whiskers.XYs, plotter.XY{X: sum, Y: float64(row)})
			whiskers.XErrors = append(whiskers.XErrors, struct{ Low, High float64 }{sum - b.low[i], b.high[i] - sum})
		}
		lengths.XYs = append(lengths.XYs, plotter.XY{X: end, Y: float64(row)})
		lengths.Labels = append(lengths.Labels, number(sum))
	}
	if b.high != nil {
		p.Add(whiskers)
	}
	p.Add(lengths)
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(n)-0.4
	p.X.Min = 0
	p.X.Max = max(p.X.Max, b.mark) * 1.15 // room for the numbers
	if b.parts[0].name != "" {
		p.X.Max *= 1.15 // and for the legend
	}
	if p.X.Max == 0 {
		p.X.Max = 1
	}
	p.X.Tick.Marker = plain{plot.DefaultTicks{}}
	if b.mark > 0 {
		addMark(p, b.mark)
	}
	return p
}

// figure is what one of several panels of the same names shows.
type figure struct {
	axis   string
	values []float64 // per name
}

// sideBySide makes a row of panels, one per figure; the first has the title and the names.
func (b bars) sideBySide(colors []color.Color, figures ...figure) []*plot.Plot {
	var row []*plot.Plot
	for i, f := range figures {
		one := b
		one.axis, one.parts, one.anonymous = f.axis, []barPart{{values: f.values, colors: colors}}, i > 0
		if one.anonymous {
			one.title = ""
		}
		row = append(row, one.panel())
	}
	return row
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
