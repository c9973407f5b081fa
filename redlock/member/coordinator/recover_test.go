package coordinator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"redlockd/redlock/member"
	"redlockd/redlock/member/copying"
	"redlockd/redlock/member/fleettest"
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

// What is known of a copy belongs to one memory of a learner: another memory begins anew, and a voter needs none.
func TestRecoveryBelongsToAMemory(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		s.opts.NoCopy = false
		learner := fleettest.Demotes(votersOf(3), 1)
		look := func(r *member.Record) *recovery {
			survey := shownByAll(r)
			survey.Reports = survey.Reports[:1]
			s.recover(survey, r)
			for place := range s.recoveries {
				if place != 1 {
					s.Errorf("a voter is copied to: %d", place)
				}
			}
			return s.recoveries[1]
		}
		first := look(learner)
		if first == nil || first.memory != learner.Seats[1].Memory || first.problem != "it is not reached, or was not told of the membership" {
			s.Fatalf("got %+v, want that the learner is not reached", first)
		}
		if again := look(learner); again != first {
			s.Error("the same memory: it begins anew")
		}
		other := look(changed(learner, func(r *member.Record) { r.Seats[1].Memory = "run2:0000000000000002" }))
		if other == first || other == nil || other.memory != "run2:0000000000000002" {
			s.Errorf("another memory: got %+v", other)
		}
		if voter := look(votersOf(3)); voter != nil {
			s.Errorf("a voter: got %+v, want none", voter)
		}
		s.opts.NoCopy = true
		if none := look(learner); none != nil {
			s.Errorf("nobody is to be copied to: got %+v", none)
		}
		how, is := s.recovered(shownByAll(learner), learner, &learner.Seats[1])
		if is {
			s.Errorf("nobody has copied to it, and it was given what the others remember: %s", how)
		}
	})
}

// What people see of the copy to a learner.
func TestCopyForPeople(t *testing.T) {
	m := &Coordinator{recoveries: map[int]*recovery{
		1: {problem: "too few"},
		2: {noted: &member.CopyNote{From: "m1,m3", Given: 7, Done: 40}, problem: "old"},
		3: {},
	}}
	for place, want := range []string{"", "{Here:false From: Given:0 Percent:0 Problem:too few}", "{Here:false From:m1,m3 Given:7 Percent:40 Problem:}", ""} {
		got := ""
		if c := m.copyingOf(place); c != nil {
			got = fmt.Sprintf("%+v", *c)
		}
		if got != want {
			t.Errorf("seat %d: got %s, want %s", place, got, want)
		}
	}
}
