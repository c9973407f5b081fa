package member

import (
	"testing"
	"time"
)

// A stamp tells an age, unless it lies in the future, or is none.
func TestStampAge(t *testing.T) {
	now, skew := time.UnixMilli(1_800_000_000_000), time.Second
	for _, tt := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"1800000000000", 0, true},
		{"1799999999999", ms, true},
		{"0", 1_800_000_000 * time.Second, true},
		{"1800000000001", 0, true},
		{"1800000001000", 0, true},
		{"1800000001001", 0, false},
		{"1800003600000", 0, false},
		{"9223372036854775807", 0, false},
		{"99999999999999999999999", 0, false},
		{"-1", 0, false},
		{"-9223372036854775808", 0, false},
		{"1.8e12", 0, false},
		{"now", 0, false},
		{"", 0, false},
	} {
		if got, ok := StampAge(tt.text, now, skew); got != tt.want || ok != tt.ok {
			t.Errorf("%q: got %v, %v, want %v, %v", tt.text, got, ok, tt.want, tt.ok)
		}
	}
}
