package proxy

import (
	"testing"
)

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
