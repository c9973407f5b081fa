package member

import (
	"fmt"
	"strings"
	"time"

	"redlockd/redlock/conn"
)

// CopyNote is who copies to a learner, and how far that is.
type CopyNote struct {
	By    string
	at    string // by the learner's clock, in milliseconds
	Given int64
	Done  int // percent
	From  string
}

// Text is what the learner is told, behind By and its clock.
func (n CopyNote) Text() string { return fmt.Sprintf("%d %d %s", n.Given, n.Done, n.From) }

// Copying is who copies to the learner, if that was said within so long; false: nobody does.
func (f *Report) Copying(within time.Duration) (n CopyNote, ok bool) {
	n, ok = parseCopyNote(f.Fields["copy"])
	return n, ok && f.saidWithin(n.at, within)
}

// parseCopyNote reads the field copy.
func parseCopyNote(text string) (n CopyNote, ok bool) {
	parts := strings.SplitN(text, " ", 5)
	if len(parts) < 5 || !IsHex(parts[0], NonceLen) {
		return n, false
	}
	var counts [3]int64
	for i := range counts {
		if counts[i], ok = parseCount(parts[i+1]); !ok {
			return n, false
		}
	}
	n = CopyNote{By: parts[0], at: parts[1], Given: counts[1], Done: int(counts[2]), From: conn.Sanitize(parts[4])}
	return n, counts[2] <= 100
}
