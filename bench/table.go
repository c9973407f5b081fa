package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// table is a table for people: a title, a line or two on how to read it, columns as wide as their widest cell.
type table struct {
	title, note string
	head        []string
	left        int  // the first columns hold words and stand left, the others hold numbers and stand right
	joined      bool // no empty lines between rows
	rows        [][]string
}

// add appends a row. A figure is printed with number, CPU time fills four cells (CPU, =client, +redlockd, +redis), and
// everything else is printed with fmt.
func (t *table) add(cells ...any) {
	var row []string
	for _, cell := range cells {
		switch v := cell.(type) {
		case float64:
			row = append(row, number(v))
		case cpuSplit:
			row = append(row, number(v.totalUs()), number(v.ClientUs), number(v.RedlockdUs), number(v.RedisUs))
		default:
			row = append(row, fmt.Sprint(cell))
		}
	}
	t.rows = append(t.rows, row)
}

// write prints the table, if there is anything in it. A change in the first column is set off by an empty line, unless the table is joined.
func (t table) write(w io.Writer) {
	if len(t.rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n%s\n\n", t.title, t.note)
	width := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	line := func(row []string) {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i < t.left {
				b.WriteString(cell + pad + "  ")
			} else {
				b.WriteString(pad + cell + "  ")
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
	line(t.head)
	for i, row := range t.rows {
		if i > 0 && !t.joined && row[0] != t.rows[i-1][0] {
			fmt.Fprintln(w)
		}
		line(row)
	}
}

// number writes a figure with as many digits as it deserves: three, and no decimals from 100 on.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// times writes a ratio; "–" for one that was not measured.
func times(v float64) string {
	if v == 0 {
		return "–"
	}
	return number(v) + "×"
}
