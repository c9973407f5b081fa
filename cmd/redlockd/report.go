package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"redlockd/redlock"
)

// The colours of a terminal.
const (
	plain  = ""
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	reset  = "\x1b[0m"
)

// colorful reports whether the output goes to a terminal that wants colours (no-color.org).
func colorful(p process) bool {
	if slices.ContainsFunc(p.environ, func(pair string) bool {
		name, text, _ := strings.Cut(pair, "=")
		return name == "NO_COLOR" && text != "" || name == "TERM" && text == "dumb"
	}) {
		return false
	}
	f, ok := p.stdout.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// cell is one field of the table.
type cell struct{ text, color string }

// print writes the table of the masters, what is wrong with each, and the verdict.
func (v *verdict) print(w io.Writer, colors bool) error {
	var b strings.Builder
	rows := [][]cell{{{"MASTER", plain}, {"VOTE", plain}, {"ROUND TRIP", plain}, {"REDIS", plain}, {"ROLE", plain}, {"CLOCK", plain}, {"MAXMEMORY-POLICY", plain}, {"PERSISTENCE", plain}}}
	for _, m := range v.Masters {
		rows = append(rows, m.row())
	}
	writeTable(&b, rows, colors)
	list := func(title string, problems []problemFinding, leaveOut func(problemFinding) bool) {
		for _, p := range problems {
			if leaveOut(p) {
				continue
			}
			if title != "" {
				fmt.Fprintf(&b, "\n%s\n", title)
				title = ""
			}
			fmt.Fprintf(&b, "  %s: %s\n", paint(string(p.Severity), colorOf(p.Severity), colors), p.Reason)
			if p.Fix != "" {
				fmt.Fprintf(&b, "    to mend it: %s\n", p.Fix)
			}
		}
	}
	for _, m := range v.Masters {
		list(m.Addr, m.Problems, v.ofAll)
	}
	list("all masters", v.Masters[0].Problems, func(p problemFinding) bool { return !v.ofAll(p) })
	color := green
	if !v.Quorum {
		color = red
	}
	fmt.Fprintf(&b, "\n%s\n", paint(v.sentence(), color, colors))
	if v.Quorum {
		fmt.Fprintln(&b, v.restartSentence())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ofAll tells whether every one of several masters has the problem: then it is told once.
func (v *verdict) ofAll(p problemFinding) bool {
	for _, m := range v.Masters {
		if !slices.Contains(m.Problems, p) {
			return false
		}
	}
	return len(v.Masters) > 1
}

func (m *masterFinding) row() []cell {
	vote := cell{"yes", green}
	switch {
	case !m.Votes:
		vote = cell{"no", red}
	case m.Epoch != "admitted":
		vote = cell{"not yet", yellow}
	}
	row := []cell{{m.Addr, plain}, vote}
	if m.RTTMs == nil {
		row = append(row, cell{"-", plain})
	} else {
		row = append(row, cell{fmt.Sprintf("%.2f ms", *m.RTTMs), plain})
	}
	role := m.Role
	if m.ClusterNode {
		role += " (cluster)"
	}
	row = append(row, cell{cmp.Or(m.Version, "-"), plain}, cell{cmp.Or(role, "-"), plain})
	if m.ClockDiffMs == nil {
		row = append(row, cell{"-", plain})
	} else {
		row = append(row, cell{fmt.Sprintf("%+.1f ± %.1f ms", *m.ClockDiffMs, *m.ClockErrMs), plain})
	}
	return append(row, cell{cmp.Or(m.MaxMemoryPolicy, "-"), plain}, cell{m.persistence(), plain})
}

func (m *masterFinding) persistence() string {
	var kinds []string
	if m.AOF {
		kinds = append(kinds, strings.TrimSpace("aof "+m.AppendFsync))
	}
	if m.Save != "" {
		kinds = append(kinds, "snapshots")
	}
	switch {
	case len(kinds) > 0:
		return strings.Join(kinds, ", ")
	case m.Role == "":
		return "-"
	default:
		return "none"
	}
}

// writeTable aligns the columns. Colours take no room.
func writeTable(b *strings.Builder, rows [][]cell, colors bool) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, c := range row {
			line.WriteString(paint(c.text, c.color, colors))
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

func colorOf(s redlock.Severity) string {
	switch s {
	case redlock.NoVote:
		return red
	case redlock.Warning:
		return yellow
	default:
		return plain
	}
}

func paint(text, color string, colors bool) string {
	if !colors || color == plain {
		return text
	}
	return color + text + reset
}
