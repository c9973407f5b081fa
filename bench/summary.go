package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// summaryColumns are the targets that README's table shows, by the names it has for them.
var summaryColumns = []struct{ target, title string }{
	{targetRedlockd, "redlockd, go-redis client"},
	{targetRedlockdPipelined, "redlockd, pipelining client"},
	{targetRedlockdSetNX, "redlockd, SET NX and a script, pipelining"},
	{targetRedsync, "redsync, five masters"},
	{targetSingle, "go-redis, one master, no quorum"},
}

// summary is what README shows of a report: two tables in Markdown, to be copied. What was not measured is left empty.
func (r *report) summary() string {
	var b strings.Builder
	targets := markdown{head: []string{""}}
	for _, c := range summaryColumns {
		targets.head = append(targets.head, c.title)
	}
	row := func(title string, cell func(target string) string) {
		cells := []string{title}
		for _, c := range summaryColumns {
			cells = append(cells, cell(c.target))
		}
		targets.add(cells)
	}
	for _, group := range byLoad(r.Uncontended, func(r uncontendedRow) int { return r.Callers }) {
		row("pairs/s, "+callersOf(group[0].Callers), func(target string) string {
			return cellOf(group, func(r uncontendedRow) bool { return r.Target == target }, func(r uncontendedRow) string { return grouped(r.PairsPerSec) })
		})
	}
	row("CPU of everything, µs per pair, 64 callers", func(target string) string {
		return cellOf(r.Uncontended, func(r uncontendedRow) bool { return r.Target == target && r.Callers == 64 },
			func(r uncontendedRow) string { return number(r.CPU.totalUs()) })
	})
	hot := func(figure func(hotKeyRow) string) func(string) string {
		return func(target string) string {
			return cellOf(r.HotKey, func(r hotKeyRow) bool { return r.Target == target && r.Clients == 16 }, figure)
		}
	}
	row("hot resource, 16 clients: hand-over to another client, mean", hot(func(r hotKeyRow) string { return spanOf(r.HandOverUs.Mean / 1e3) }))
	row("the same: fewest ÷ most locks of a client", hot(func(r hotKeyRow) string { return fmt.Sprintf("%.2f", r.Fairness) }))
	for _, f := range []struct{ name, title string }{
		{"freeze2", "2 of 5 masters frozen: throughput kept, longest pause"}, {"kill2", "2 of 5 masters killed"},
	} {
		row(f.title, func(target string) string {
			return cellOf(r.Faults, func(r faultRow) bool { return r.Target == target && r.Fault == f.name },
				func(r faultRow) string { return number(r.KeptPercent) + " %, " + spanOf(r.LongestPauseMs) })
		})
	}
	b.WriteString(targets.String())
	if r.Libraries != nil {
		b.WriteString("\n" + r.Libraries.summary())
	}
	return b.String()
}

// summary has a row per library and number of callers.
func (f *librariesFigures) summary() string {
	t := markdown{head: []string{"library", "callers", "pairs/s over redlockd", "over five masters", "ratio", "acquire p50", "acquire p99", "CPU of everything"}}
	for i, r := range f.Rows {
		if r.Over != ways[0].name || i+1 == len(f.Rows) {
			continue
		}
		direct := f.Rows[i+1]
		t.add([]string{r.Library, strconv.Itoa(r.Callers), grouped(r.PairsPerSec), grouped(direct.PairsPerSec), times(r.ToDirect.PairsPerSec),
			times(r.ToDirect.LockP50), times(r.ToDirectP99), times(ratio(1, r.ToDirect.CPULess))})
	}
	return t.String()
}

// cellOf is the figure of the one row that is meant; empty: it was not measured.
func cellOf[Row any](rows []Row, is func(Row) bool, figure func(Row) string) string {
	if i := slices.IndexFunc(rows, is); i >= 0 {
		return figure(rows[i])
	}
	return ""
}

// markdown is a table for a page.
type markdown struct {
	head []string
	rows [][]string
}

func (m *markdown) add(row []string) { m.rows = append(m.rows, row) }

func (m markdown) String() string {
	var b strings.Builder
	for i, row := range slices.Concat([][]string{m.head}, m.rows) {
		for _, cell := range row {
			b.WriteString(strings.TrimRight("| "+cell, " ") + " ")
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return b.String()
}

// grouped writes a whole number with a space between thousands.
func grouped(v float64) string {
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return digits
}

// spanOf writes milliseconds in the unit that they deserve.
func spanOf(ms float64) string {
	switch d := time.Duration(ms * float64(time.Millisecond)); {
	case d >= time.Second:
		return number(ms/1e3) + " s"
	case d >= 10*time.Millisecond:
		return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
	}
	return number(ms) + " ms"
}
