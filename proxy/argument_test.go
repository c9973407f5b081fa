package proxy

import (
	"math"
	"strconv"
	"testing"
)

// Goal: integers are read as Redis reads them. Method: a table, and strconv as the judge of everything that it writes.
func TestParseInteger(t *testing.T) {
	for _, n := range []int64{0, 1, -1, 9, 10, -10, 1234567890123, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1} {
		text := strconv.FormatInt(n, 10)
		if got, ok := parseInteger([]byte(text)); !ok || got != n {
			t.Errorf("parseInteger(%q): got %d %v, want %d", text, got, ok, n)
		}
	}
	for _, text := range []string{
		"", "-", "+1", " 1", "1 ", "01", "-01", "-0", "00", "1.0", "1e3", "0x1", "x", "1\n", "٣",
		"9223372036854775808", "-9223372036854775809", "18446744073709551617", "99999999999999999999",
	} {
		if got, ok := parseInteger([]byte(text)); ok {
			t.Errorf("parseInteger(%q): got %d, want a refusal", text, got)
		}
	}
}

func TestEqualFold(t *testing.T) {
	for _, tc := range []struct {
		arg, keyword string
		want         bool
	}{
		{"WAIT", "WAIT", true},
		{"wAiT", "WAIT", true},
		{"WAI", "WAIT", false},
		{"WAITS", "WAIT", false},
		{"", "WAIT", false},
	} {
		if got := equalFold([]byte(tc.arg), tc.keyword); got != tc.want {
			t.Errorf("equalFold(%q, %q): got %v, want %v", tc.arg, tc.keyword, got, tc.want)
		}
	}
}
