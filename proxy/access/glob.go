package access

import (
	"slices"

	"redlockd/redlock"
)

// Glob patterns as Redis has them ("PSUBSCRIBE", "KEYS"), for channels, settings, LOCKS, and for the
// resources that a user may use. A mistake here is one of permission.
//
// Rejected: path.Match of the standard library, whose * does not match a slash.

// PatternMax bounds a pattern that a client sends, as names are bounded: comparing the two takes a time
// of their lengths' product, and so 1 ms at most.
const PatternMax = redlock.MaxResourceLen

// MatchesAny reports whether s matches one of the patterns.
func MatchesAny(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return Match(pattern, s) })
}

// Match reports whether s matches pattern, as Redis's PSUBSCRIBE and CONFIG GET do: * is any run of
// bytes, ? any byte, [abc], [a-z] and [^a] one byte of a set, \ takes the next byte as it is.
// Everything is compared byte by byte, case included. An empty s matches the empty pattern alone, not
// even *.
//
// A * that fails is retried one byte further on, and only the last * is ever retried: what an earlier
// one matched cannot matter to the rest. So the time is bounded by len(pattern) * len(s), whatever a
// client sends.
func Match(pattern, s string) bool {
	if s == "" {
		return pattern == ""
	}
	var p, i, star, retry int // star: the place behind the last *; 0: there was none. retry: where in s it is tried next
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, retry = p, i
			continue
		}
		if p < len(pattern) {
			if ok, width := globByte(pattern[p:], s[i]); ok {
				p += width
				i++
				continue
			}
		}
		if star == 0 {
			return false
		}
		retry++
		p, i = star, retry
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// globByte reports whether b matches the first element of pattern, which is not empty and does not
// begin with *, and how many bytes of pattern that element takes.
func globByte(pattern string, b byte) (ok bool, width int) {
	switch {
	case pattern[0] == '?':
		return true, 1
	case pattern[0] == '[':
		return globSet(pattern, b)
	case pattern[0] == '\\' && len(pattern) > 1:
		return pattern[1] == b, 2
	}
	return pattern[0] == b, 1
}

// globSet is globByte for a set. A set that is not closed ends with the pattern, as in Redis.
func globSet(pattern string, b byte) (ok bool, width int) {
	i := 1
	negated := i < len(pattern) && pattern[i] == '^'
	if negated {
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			ok = ok || pattern[i] == b
		case i+2 < len(pattern) && pattern[i+1] == '-':
			low, high := min(pattern[i], pattern[i+2]), max(pattern[i], pattern[i+2])
			ok = ok || low <= b && b <= high
			i += 2
		default:
			ok = ok || pattern[i] == b
		}
	}
	return ok != negated, min(i+1, len(pattern))
}
