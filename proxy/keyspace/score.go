package keyspace

import (
	"strings"

	"redlockd/redlock/resp"
)

// Scores and ranges of scores, as Redis reads them.

const (
	errNotFloat = "ERR value is not a valid float"
	errRange    = "ERR min or max is not a float"
)

// parseScore reads the score of ZADD. It refuses spaces, and a number too large or too near to 0 for a
// float; but infinity may be named.
func parseScore(text string) (score float64, ok bool) {
	score, exact, ok := resp.ParseFloat(text)
	return score, ok && exact
}

// scoreRange is a range of scores.
type scoreRange struct {
	min, max float64
	// minOpen and maxOpen leave out members that have the score of that end.
	minOpen, maxOpen bool
}

func (r *scoreRange) contains(score float64) bool {
	return (score > r.min || score == r.min && !r.minOpen) && (score < r.max || score == r.max && !r.maxOpen)
}

// parseRange reads the ends of a range of scores.
func parseRange(min, max string) (r scoreRange, ok bool) {
	var ok1, ok2 bool
	r.min, r.minOpen, ok1 = parseEnd(min)
	r.max, r.maxOpen, ok2 = parseEnd(max)
	return r, ok1 && ok2
}

// parseEnd reads one end of a range. A ( in front of it makes it open. Redis takes an empty one for 0
// and lets spaces stand before it.
func parseEnd(text string) (score float64, open, ok bool) {
	text, _, _ = strings.Cut(text, "\x00") // C's string ends there
	text, open = strings.CutPrefix(text, "(")
	if text == "" {
		return 0, open, true
	}
	score, _, ok = resp.ParseFloat(strings.TrimLeft(text, " \t\n\v\f\r"))
	return score, open, ok
}
