package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress tells a human which cell is being measured: one line that is rewritten on a terminal, plain lines elsewhere.
type progress struct {
	out      io.Writer
	terminal bool
	start    time.Time
	done     int // cells begun
	cells    int
	rounds   []roundLoad
}

func newProgress(out *os.File, cells int) *progress {
	info, err := out.Stat()
	return &progress{
		out:      out,
		terminal: err == nil && info.Mode()&os.ModeCharDevice != 0,
		start:    time.Now(),
		cells:    cells,
	}
}

// step announces the next cell.
func (p *progress) step(format string, args ...any) {
	p.done++
	line := fmt.Sprintf("[%d/%d %4.0fs] ", p.done, p.cells, time.Since(p.start).Seconds()) + fmt.Sprintf(format, args...)
	if p.terminal {
		fmt.Fprintf(p.out, "\r%s\x1b[K", line)
		return
	}
	fmt.Fprintln(p.out, line)
}

// round notes how busy the machine is at the beginning of a round.
func (p *progress) round(scenario string) {
	p.rounds = append(p.rounds, roundLoad{Scenario: scenario, Load: loadAverage()})
}

// clear takes the line away before other text is printed.
func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
