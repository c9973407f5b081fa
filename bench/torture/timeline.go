package main

// The picture of a run: a row for each host with its faults, the grants per second beneath, and the outages across.

import (
	"fmt"
	"html"
	"slices"
	"time"
)

const (
	timelineLeft   = 84
	timelineWidth  = 1200
	timelineRow    = 16
	timelineTop    = 46
	timelineGrants = 110 // height
	timelinePoints = 600 // of the curve at most
)

var familyColors = []struct{ family, color string }{
	{familyMemory, "#d55e00"}, {familyMaster, "#e69f00"}, {familyClock, "#cc79a7"}, {familyNetwork, "#0072b2"}, {familyServer, "#009e73"}, {familyMembers, "#56b4e9"}, {familyClient, "#666666"}, {familyOwnClock, "#8c564b"},
}

func (r *report) timeline() []byte {
	var out text
	p := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	var rows []string
	for _, h := range r.cluster.network.hosts[:masterCount+spareCount+redlockdCount+len(r.cluster.clients)] {
		rows = append(rows, h.name)
	}
	end := max(r.faultsEnded, r.began+1)
	x := func(t int64) float64 {
		return timelineLeft + float64(min(max(t, r.began), end)-r.began)/float64(end-r.began)*(timelineWidth-timelineLeft-16)
	}
	bottom := timelineTop + len(rows)*timelineRow
	base := bottom + 14 + timelineGrants
	height := base + 40
	p(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="Liberation Sans,Arial,Helvetica,sans-serif" font-size="10">`, timelineWidth, height)
	p(`<rect width="100%%" height="100%%" fill="#fff"/><style>path{stroke-width:%d;opacity:.75}`, timelineRow-5)
	for i, f := range familyColors {
		p(`.f%d{stroke:%s}`, i, f.color)
	}
	p(`</style><text x="8" y="16" font-size="13">%s</text>`, html.EscapeString(r.verdict()))
	legend := timelineLeft
	for i, f := range familyColors {
		p(`<path class="f%d" d="M%d 32h12"/><text x="%d" y="36">%s</text>`, i, legend, legend+16, f.family)
		legend += 40 + 11*len(f.family)/2
	}
	for _, o := range r.outages {
		p(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#d00" opacity=".18"><title>no grant for %.1f s</title></rect>`,
			x(o.from), timelineTop, max(x(o.to)-x(o.from), .5), base-timelineTop, float64(o.to-o.from)/1e9)
	}
	for i, name := range rows {
		y := timelineTop + i*timelineRow
		p(`<text x="8" y="%d">%s</text><path d="M%d %dH%d" style="stroke:#ddd;stroke-width:1"/>`, y+12, name, timelineLeft, y+timelineRow, timelineWidth-16)
	}
	for _, s := range r.nemesis.strikes {
		path := ""
		for _, party := range s.parties {
			y := timelineTop + slices.Index(rows, party)*timelineRow + timelineRow/2
			path += fmt.Sprintf("M%.1f %dh%.1f", x(s.began), y, max(x(s.ended)-x(s.began), 1))
		}
		p(`<path class="f%d" d="%s"><title>%s, %s</title></path>`, familyIndex(s.kind), path, r.at(s.began), html.EscapeString(s.String()))
	}
	r.drawGrants(p, x, end, base)
	for _, t := range ticks(time.Duration(end - r.began)) {
		at := x(r.began + int64(t))
		p(`<path d="M%.1f %dv4" style="stroke:#000;stroke-width:1"/><text x="%.1f" y="%d" text-anchor="middle">%v</text>`, at, base, at, base+16, shortDuration(t))
	}
	p(`<rect x="%d" y="%d" width="12" height="9" fill="#d00" opacity=".18"/><text x="%d" y="%d">no grant for more than 1 s</text></svg>`, timelineLeft, base+24, timelineLeft+16, base+32)
	return out
}

func familyIndex(kind string) int {
	for _, f := range faults {
		for i, c := range familyColors {
			if f.name == kind && f.family == c.family {
				return i
			}
		}
	}
	return 0
}

// drawGrants is the curve of grants per second.
func (r *report) drawGrants(p func(string, ...any), x func(int64) float64, end int64, base int) {
	step := max(int64(time.Second), (end-r.began)/timelinePoints)
	rates := make([]float64, (end-r.began)/step+1)
	for _, at := range r.granted {
		if at >= r.began && at < end {
			rates[(at-r.began)/step] += 1e9 / float64(step)
		}
	}
	highest := max(slices.Max(rates), 1)
	line := ""
	for i, rate := range rates {
		line += fmt.Sprintf("%.1f,%.0f ", x(r.began+int64(i)*step+step/2), float64(base)-rate/highest*timelineGrants)
	}
	p(`<polyline points="%s" fill="none" stroke="#000"/>`, line)
	p(`<text x="8" y="%d">grants/s</text><text x="%d" y="%d" text-anchor="end">%.0f</text><text x="%d" y="%d" text-anchor="end">0</text>`,
		base-timelineGrants/2, timelineLeft-4, base-timelineGrants+4, highest, timelineLeft-4, base)
	p(`<path d="M%d %dH%d" style="stroke:#000;stroke-width:1"/>`, timelineLeft, base, timelineWidth-16)
}

// ticks are some even moments of a run.
func ticks(length time.Duration) (all []time.Duration) {
	step := time.Hour
	for _, s := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute} {
		if length/s <= 12 {
			step = s
			break
		}
	}
	for t := time.Duration(0); t <= length; t += step {
		all = append(all, t)
	}
	return all
}

func shortDuration(d time.Duration) string {
	if d >= time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
