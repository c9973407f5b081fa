package main

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// curves describes a panel of lines with dots.
type curves struct {
	title, x, y string
	logX, logY  bool // a point at 0 has no place on a logarithmic axis and is left out
	legend      bool
	bare        bool // lines without dots: the points are many
	lines       []curve
}

type curve struct {
	name   string
	color  color.Color
	points plotter.XYs
}

// linesByTarget makes a line per target, in the order in which targets appear.
func linesByTarget[Row any](rows []Row, point func(Row) (target string, x, y float64)) []curve {
	var lines []curve
	for _, row := range rows {
		target, x, y := point(row)
		i := slices.IndexFunc(lines, func(c curve) bool { return c.name == target })
		if i < 0 {
			i = len(lines)
			lines = append(lines, curve{name: target, color: colorOf(target)})
		}
		lines[i].points = append(lines[i].points, plotter.XY{X: x, Y: y})
	}
	return lines
}

func (c curves) panel() *plot.Plot {
	p := newPanel(c.title, c.x, c.y)
	p.Legend.Top, p.Legend.Left = true, true
	drawn := 0
	for _, one := range c.lines {
		points := keep(one.points, func(at plotter.XY) bool { return (!c.logX || at.X > 0) && (!c.logY || at.Y > 0) })
		if len(points) == 0 {
			continue
		}
		line := lineOf(points, one.color, 1.5)
		if c.bare {
			p.Add(line)
		} else {
			line = addDottedLine(p, points, one.color, 1.5)
		}
		drawn++
		if c.legend {
			p.Legend.Add(one.name, line)
		}
	}
	if drawn == 0 {
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 1, 10, 1, 10
	}
	scale(&p.X, c.logX)
	scale(&p.Y, c.logY)
	return p
}

// scale gives an axis room and its marks; one that is not logarithmic begins at 0.
func scale(axis *plot.Axis, log bool) {
	if !log {
		axis.Min, axis.Max, axis.Tick.Marker = 0, max(axis.Max*1.1, 1e-9), plain{plot.DefaultTicks{}}
		return
	}
	axis.Scale, axis.Tick.Marker = plot.LogScale{}, plain{plot.LogTicks{Prec: -1}}
	axis.Min, axis.Max = axis.Min*0.8, axis.Max*1.3
}
