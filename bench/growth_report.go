package main

import (
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

func (f *growthFigures) writeText(w io.Writer) {
	for _, part := range []struct {
		axis, title, note string
		points            []growthPoint
	}{
		{"masters", "Growth: against the number of masters", "redlockd, rueidis client, 64 callers.", f.Masters},
		{"depth", "Growth: against the depth of a pipeline", "redlockd, go-redis client, 8 callers that lock so many resources in one pipeline; lock: the whole pipeline.", f.Depth},
		{"held", "Growth: against the number of other locks that are held", "redlockd, rueidis client, 64 callers.", f.Held},
	} {
		t := table{
			title:  part.title,
			note:   part.note + " Medians of the rounds. CPU: µs per pair. MB: resident, of redlockd and of one master.",
			head:   []string{part.axis, "pairs/s", "lock p50", "p99", "CPU", "=client", "+redlockd", "+redis", "redlockd MB", "master MB", "errors"},
			joined: true,
		}
		for _, p := range part.points {
			t.add(p.N, p.PairsPerSec, p.LockUs.P50, p.LockUs.P99, p.CPU, p.RedlockdMB, p.MasterMB, p.Failures.Count)
		}
		t.write(w)
	}
	t := table{
		title: "Growth: against the number of waiters",
		note: "Clients in LOCK … WAIT for locks that nobody gives back. Medians of the rounds. KB: what redlockd grew per waiter, its connection\n" +
			"included. CPU: in percent of one core while nothing but waiting happens. Commands: per second, executed by all masters, and without waiters.",
		head: []string{"waiters", "resources", "redlockd MB", "KB/waiter", "redlockd CPU", "masters CPU", "commands/s", "idle"},
	}
	for _, p := range f.Waiters {
		t.add(p.Waiters, p.Resources, p.RedlockdMB, p.KBPerWaiter, number(p.RedlockdPercent)+" %",
			number(p.MastersPercent)+" %", p.CommandsPerSec, p.IdleCommandsPerSec)
	}
	t.write(w)
	renewedTable(f.Renewed).write(w)
}

func (f *growthFigures) allFailures() (all failures) {
	for _, points := range [][]growthPoint{f.Masters, f.Depth, f.Held} {
		for _, p := range points {
			all.add(p.Failures.Count, p.Failures.Texts...)
		}
	}
	return all
}

// growthPanels has a row per axis: left what is won, right what it costs.
func growthPanels(f *growthFigures) (all panels) {
	ours, cost := colorOf(targetRedlockdPipelined), colorOf(targetRedsync)
	line := func(points []growthPoint, c color.Color, y func(growthPoint) float64) []curve {
		at := column(points, func(p growthPoint) plotter.XY { return plotter.XY{X: float64(p.N), Y: y(p)} })
		return []curve{{color: c, points: at}}
	}
	waiters := func(y func(waiterPoint) float64) []curve {
		one, each := curve{name: "one resource", color: ours}, curve{name: "a resource each", color: cost}
		for _, p := range f.Waiters {
			at := plotter.XY{X: float64(p.Waiters), Y: y(p)}
			if p.Resources == 1 {
				one.points = append(one.points, at)
			} else {
				each.points = append(each.points, at)
			}
		}
		return []curve{one, each}
	}
	pairs := func(p growthPoint) float64 { return p.PairsPerSec }
	cpu := func(p growthPoint) float64 { return p.CPU.totalUs() }
	memory := func(p growthPoint) float64 { return p.RedlockdMB }
	for _, row := range [][2]curves{
		{{x: "masters", y: "pairs/s", lines: line(f.Masters, ours, pairs)}, {x: "masters", y: "CPU µs per pair", lines: line(f.Masters, cost, cpu)}},
		{{x: "commands in a pipeline", y: "pairs/s", logX: true, lines: line(f.Depth, ours, pairs)}, {x: "commands in a pipeline", y: "CPU µs per pair", logX: true, lines: line(f.Depth, cost, cpu)}},
		{{x: "other locks held", y: "pairs/s", logX: true, lines: line(f.Held, ours, pairs)}, {x: "other locks held", y: "redlockd, MB, logarithmic", logX: true, logY: true, lines: line(f.Held, cost, memory)}},
		{{x: "waiters", y: "redlockd, MB, logarithmic", logX: true, logY: true, legend: true, lines: waiters(func(p waiterPoint) float64 { return p.RedlockdMB })},
			{x: "waiters", y: "redlockd, % of a core", logX: true, lines: waiters(func(p waiterPoint) float64 { return p.RedlockdPercent })}},
	} {
		all = append(all, []*plot.Plot{row[0].panel(), row[1].panel()})
	}
	return all
}
