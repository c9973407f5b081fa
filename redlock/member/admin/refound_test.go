package admin

// Goal: a refounding lists exactly the masters that the operator names, says what is lost, and is refused wherever a majority could still go on, or
// where the masters are not those of one fleet. Method: masters in memory, in virtual time. Stories with clients are in package redlock.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/member/fleettest"
	"redlockd/redlock/member/survey"
)

// voters has the masters at these places vote, in a fleet of their own.
func voters(s *fleettest.Fleet, places ...int) {
	s.Helper()
	if _, err := Bootstrap(s.Context(), s.OptionsOf(places...), false); err != nil {
		s.Fatal(err)
	}
}

func TestRefoundingOfAFleet(t *testing.T) {
	crash := func(places ...int) func(s *fleettest.Fleet) {
		return func(s *fleettest.Fleet) {
			for _, i := range places {
				s.Masters[i].Crash(true)
			}
		}
	}
	for _, tt := range []struct {
		name   string
		before func(s *fleettest.Fleet)
		named  []int
		want   string // the plan: members, and who is lost; or the error
	}{
		{"all remember", crash(), []int{0, 1, 2, 3, 4}, "already"},
		{"three remember, of which two are named again", crash(), []int{3, 4, 5}, "error: 5 of 5 masters of the membership can be reached, which is a majority: m1, m2, m3, m4, m5. Change it with"},
		{"three are lost, and one new master takes part", crash(0, 1, 2), []int{3, 4, 5}, "m4 learner, m5 learner, m6 learner; lost m1, m2, m3"},
		{"three are lost, and nobody takes their place", crash(0, 1, 2), []int{3, 4}, "m4 learner, m5 learner; lost m1, m2, m3"},
		{"three are lost, and are named again", crash(0, 1, 2), []int{0, 1, 2, 3, 4}, "error: 2 of 5 masters can be reached and may be members, 3 are needed: start them, or name others"},
		{"three are lost, one of which is named again", crash(0, 1, 2), []int{2, 3, 4}, "m3 vacant because cannot connect: connection refused, m4 learner, m5 learner; lost m1, m2, m3"},
		{"two are lost", crash(0, 1), []int{2, 3, 4}, "error: 3 of 5 masters of the membership can be reached, which is a majority"},
		{"three have forgotten", func(s *fleettest.Fleet) { s.Do(0, "FLUSHALL"); s.Do(1, "FLUSHALL"); s.Do(2, "FLUSHALL") }, []int{0, 1, 2, 3, 4}, "m1 learner, m2 learner, m3 learner, m4 learner, m5 learner; lost"},
		{"two have forgotten, and two are silent", func(s *fleettest.Fleet) { s.Do(0, "FLUSHALL"); s.Do(1, "FLUSHALL"); crash(2, 3)(s) }, []int{0, 1, 2, 3, 4},
			"m1 learner, m2 learner, m3 vacant because cannot connect: connection refused, m4 vacant because cannot connect: connection refused, m5 learner; lost m3, m4"},
		{"a new master has a key", func(s *fleettest.Fleet) { crash(0, 1, 2)(s); s.Do(5, "SET", "key", "x") }, []int{3, 4, 5}, "error: m6 holds 1 keys, and was no member: name another master, or run FLUSHALL on it"},
		{"a member has a key", func(s *fleettest.Fleet) { crash(0, 1, 2)(s); s.Do(3, "SET", "lock", "x") }, []int{3, 4, 5}, "m4 learner, m5 learner, m6 learner; lost m1, m2, m3"},
		{"one has a key that was a member before", func(s *fleettest.Fleet) {
			s.Do(3, "SET", "lock", "x")
			crash(0, 1, 2, 3)(s)
			s.Masters[3].Restart()
		}, []int{3, 4, 5}, "m4 learner, m5 learner, m6 learner; lost m1, m2, m3"},
		{"two fleets", func(s *fleettest.Fleet) { crash(0, 1, 2)(s); voters(s, 5) }, []int{3, 4, 5}, "error: the masters belong to different fleets: "},
		{"none shows a membership", crash(), []int{5, 6}, "error: 2 of 2 masters can be reached, and none shows a membership: redlockd bootstrap is for new masters, and a server founds one by itself"},
	} {
		for _, dryRun := range []bool{true, false} {
			fleettest.InVirtualTime(t, 7, func(s *fleettest.Fleet) {
				voters(s, 0, 1, 2, 3, 4)
				tt.before(s)
				shown := func() string {
					text := ""
					for i := range s.Masters {
						if c, err := s.Links()[i].Dial(s.Context(), "", ""); err == nil {
							c.Close()
							text += fmt.Sprintln(s.Do(i, "HGETALL", lua.MembersKey), s.Masters[i].Keys())
						}
					}
					return text
				}
				before := shown()
				o := s.OptionsOf(tt.named...)
				plan, err := Refound(s.Context(), o, dryRun)
				got := ""
				switch {
				case err != nil:
					got = "error: " + strings.TrimPrefix(err.Error(), "refound: nothing was changed: ")
				case plan.Already:
					got = "already"
				default:
					var members, lost []string
					for _, one := range plan.Members {
						text := fmt.Sprint(one.Name, " ", one.State)
						if one.Reason != "" {
							text += " because " + one.Reason
						}
						members = append(members, text)
					}
					for _, one := range plan.Lost {
						lost = append(lost, one.Name)
					}
					got = strings.TrimSpace(strings.Join(members, ", ") + "; lost " + strings.Join(lost, ", "))
					if plan.Wait < time.Minute {
						s.Errorf("%s: a wait of %v", tt.name, plan.Wait)
					}
				}
				if got != tt.want && !(strings.HasPrefix(tt.want, "error: ") && strings.HasPrefix(got, tt.want)) {
					s.Errorf("%s, dry run %v: got %s, want %s", tt.name, dryRun, got, tt.want)
				}
				changes := !dryRun && err == nil && !plan.Already
				if after := shown(); (after != before) != changes {
					s.Errorf("%s, dry run %v: the masters show\n%s\nand before\n%s", tt.name, dryRun, after, before)
				}
				if !changes {
					return
				}
				all := survey.Ask(s.Context(), o.Places(), survey.Patience{Enough: len(tt.named)}, o)
				defer all.Close()
				r := all.Prevailing()
				if r == nil || r.Generation != 2 || r.Voters() != 0 || len(r.Seats) != len(tt.named) || r.Roster != 1 {
					s.Errorf("%s: got the record %+v in force", tt.name, r)
				}
				if again, err := Refound(s.Context(), o, false); err != nil || !again.Already {
					s.Errorf("%s: once more: got %+v, %v; want that it is so already", tt.name, again, err)
				}
			})
		}
	}
}
