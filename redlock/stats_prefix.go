package redlock

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
	"unicode/utf8"
)

// PrefixStats are times and counts of the locks whose resource begins with one text. A lock of several resources counts
// once, for the first of them by name, unless it was taken by a commit: there each resource is a lock of its own.
type PrefixStats struct {
	// Prefix is one of Options.Prefixes; PrefixOther: the resource matches none of them.
	Prefix string
	// Wait is how long LOCKs took that were granted, from their arrival to the grant. What a client does between two
	// LOCKs of its own is not in it.
	Wait Times
	// Hold is how long locks were held whose end this client has seen: from the first grant to the release, to the end of the
	// validity, or to the moment at which another holder was found. A lock that changes its token goes on.
	Hold Times
	// Rounds are the rounds of acquisition that a grant took, retries of waiters and steps of reservations included.
	Rounds Counts
}

// PrefixOther stands for all resources that match none of Options.Prefixes.
const PrefixOther = "other"

// prefixesMax bounds Options.Prefixes: every grant is compared with them, and each has some 45 series in Prometheus.
const prefixesMax = 16

// prefixMax bounds the bytes of one of them.
const prefixMax = 128

// Counts counts small numbers by their size.
type Counts struct {
	Buckets [CountsBuckets]uint64 // how many were at most BucketMax(i), and above BucketMax(i-1)
	Sum     uint64
}

// CountsBuckets is how many sizes Counts tells apart. The last one has no upper bound.
const CountsBuckets = 10

// BucketMax is the largest number of a bucket: 1 for the first, twice as much for each that follows.
func (Counts) BucketMax(i int) int { return 1 << i }

func (c *Counts) add(n uint32) {
	c.Buckets[min(bits.Len32(max(n, 1)-1), CountsBuckets-1)]++
	c.Sum += uint64(n)
}

// byPrefix counts by the prefix of the resource; the last element is of all others. Client.mu guards it. It is never empty.
type byPrefix []PrefixStats

func newByPrefix(prefixes []string) byPrefix {
	var s byPrefix
	for _, prefix := range append(prefixes[:len(prefixes):len(prefixes)], PrefixOther) {
		s = append(s, PrefixStats{Prefix: prefix})
	}
	return s
}

// of returns what is counted for a resource: by the first prefix that it begins with.
func (s byPrefix) of(resource string) *PrefixStats {
	last := len(s) - 1
	for i := range s[:last] {
		if prefix := s[i].Prefix; strings.HasPrefix(resource, prefix[:len(prefix)-1]) {
			return &s[i]
		}
	}
	return &s[last]
}

// granted counts a grant to an operation that came so long ago.
func (s byPrefix) granted(resource string, waited time.Duration, rounds uint32) {
	p := s.of(resource)
	p.Wait.add(waited)
	p.Rounds.add(rounds)
}

// ended counts the end of a lock. It ended with its validity if that was before now.
func (s byPrefix) ended(l *lease, now time.Time) {
	if l.validUntil.Before(now) {
		now = l.validUntil
	}
	s.of(l.keys[0]).Hold.add(max(0, now.Sub(l.born)))
}

// validatePrefixes returns what is wrong with Options.Prefixes, or nil.
func validatePrefixes(prefixes []string) error {
	fault := func(format string, args ...any) error {
		return &OptionError{Option: "Prefixes", Reason: fmt.Sprintf(format, args...)}
	}
	if len(prefixes) > prefixesMax {
		return fault("there are %d, at most %d are possible, because each has metrics of its own: leave out those that nobody looks at", len(prefixes), prefixesMax)
	}
	for i, prefix := range prefixes {
		text, star := strings.CutSuffix(prefix, "*")
		switch {
		case !star || text == "" || strings.ContainsAny(text, "*?[\\"):
			return fault("%q is not a text with one * at its end: write \"billing:*\" for all resources that begin with billing:", prefix)
		case len(prefix) > prefixMax:
			return fault("%q has %d bytes, at most %d are possible: shorten it", prefix, len(prefix), prefixMax)
		case !utf8.ValidString(prefix):
			return fault("%q is not UTF-8, which labels of metrics have to be", prefix)
		}
		for _, before := range prefixes[:i] {
			if strings.HasPrefix(text, before[:len(before)-1]) {
				return fault("%q is never reached, because %q stands before it and matches the same resources: put the longer one first", prefix, before)
			}
		}
	}
	return nil
}
