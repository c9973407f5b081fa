package coordinator

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"redlockd/redlock/member/copying"
)

// A source is taken off the list of those that were left out when a copy has read all of it, and not before.
func TestLeftOut(t *testing.T) {
	m1, m2 := &copying.Place{Name: "m1"}, &copying.Place{Name: "m2"}
	out := func(p *copying.Place) []copying.LeftOut { return []copying.LeftOut{{Place: p}} }
	m := &Coordinator{leftOut: make(map[string]copying.LeftOut)}
	for _, tc := range []struct {
		name string
		copy *copying.Copy
		want string
	}{
		{"one is left out", &copying.Copy{Sources: []*copying.Place{m2}, LeftOut: out(m1)}, "m1"},
		{"the learner fails before anything is read", &copying.Copy{Sources: []*copying.Place{m1, m2}, Err: errors.New("it is not reached")}, "m1"},
		{"too few are left", &copying.Copy{Sources: []*copying.Place{m1}, LeftOut: out(m2), Err: errors.New("m1: it has forgotten")}, "m1 m2"},
		{"both are read", &copying.Copy{Sources: []*copying.Place{m1, m2}}, ""},
	} {
		m.takeLeftOut(tc.copy)
		if got := strings.Join(slices.Sorted(maps.Keys(m.leftOut)), " "); got != tc.want {
			t.Errorf("%s: %q are left out, want %q", tc.name, got, tc.want)
		}
	}
}
