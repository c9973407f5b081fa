package access

import (
	"strings"
	"testing"
)

// Goal: globs match as Redis's own do. Method: a table, whose answers were compared with KEYS of a
// Redis 7.0.15.
func TestGlobMatch(t *testing.T) {
	for _, tc := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", false}, // as PSUBSCRIBE has it; KEYS makes an exception of "*" alone
		{"**", "", false},
		{"*", "anything", true},
		{"**", "a", true},
		{"a*", "abc", true},
		{"*c", "abc", true},
		{"*b*", "abc", true},
		{"a*b*c", "aXbXbXc", true},
		{"a*b*c", "aXbXbX", false},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"a[bx]c", "abc", true},
		{"a[bx]c", "adc", false},
		{"a[^bx]c", "adc", true},
		{"a[^bx]c", "abc", false},
		{"a[b-d]c", "acc", true},
		{"a[d-b]c", "acc", true}, // a range that stands backwards is turned round
		{"a[b-d]c", "aec", false},
		{`a\*c`, "a*c", true},
		{`a\*c`, "abc", false},
		{`a[\]]c`, "a]c", true},
		{"a[bc", "ab", true}, // a set that is not closed
		{"a[]c", "ac", false},
		{"A*", "abc", false},
		{"lock:*:[0-9]", "lock:x:7", true},
		{"abc**", "abc", true},
		{"**b", "b", true},  // a * after another may be no byte, too
		{"[[a]", "[", true}, // a set has what begins one
		{`\a`, `\a`, false}, // a backslash is no byte of its own, but for the last one
		{`a\`, `a\`, true},
	} {
		if got := Match(tc.pattern, tc.s); got != tc.want {
			t.Errorf("Match(%q, %q): got %v, want %v", tc.pattern, tc.s, got, tc.want)
		}
	}
}

// Goal: no pattern takes exponential time. Method: the classic bad case, which a recursive matcher does
// not finish.
func TestGlobMatchIsBounded(t *testing.T) {
	pattern := strings.Repeat("a*", 40) + "b"
	if Match(pattern, strings.Repeat("a", 4000)) {
		t.Errorf("Match(%q, aaa…): got true, want false", pattern)
	}
}
