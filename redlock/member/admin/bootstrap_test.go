package admin

// Goal: a bootstrap ends with votes whatever a redlockd has founded before in which nobody has ever voted, or changes nothing and says what to
// do. Method: masters in memory, and a first founding through other options than the bootstrap has.

import (
	"fmt"
	"strings"
	"testing"

	"redlockd/redlock/member"
	"redlockd/redlock/member/fleettest"
	"redlockd/redlock/member/survey"
)

// first founds a membership as a redlockd does by itself, with the masters at these places, in this order. Those that are −1 are addresses
// at which nobody is.
func first(s *fleettest.Fleet, places ...int) *member.Record {
	s.Helper()
	o := s.OptionsOf(places...)
	all := survey.Ask(s.Context(), o.Places(), survey.Patience{Enough: len(places)}, o)
	defer all.Close()
	f, why := all.Founding(nil, o)
	if f == nil {
		s.Fatalf("no founding: %s", why)
	}
	chosen, err := all.Step(s.Context(), nil, f)
	if err != nil {
		s.Fatal(err)
	}
	all.Teach(s.Context(), chosen.Among(all.Reports), chosen)
	return chosen
}

// admitAll has all masters vote.
func admitAll(s *fleettest.Fleet) {
	s.Helper()
	if _, err := Bootstrap(s.Context(), s.Options(s.Links()), false); err != nil {
		s.Fatal(err)
	}
}

// wantAllVote compares what the masters that the options name show.
func wantAllVote(s *fleettest.Fleet, name string, o member.Options) {
	s.Helper()
	all := survey.Ask(s.Context(), o.Places(), survey.Patience{Enough: len(o.Masters)}, o)
	defer all.Close()
	r := all.Prevailing()
	if r == nil {
		s.Fatalf("%s: no membership is in force", name)
	}
	for _, f := range all.Reports {
		if at := r.Lists(f.State.Memory); at == nil || at.State != member.Voter || f.State.Record != r.ID() || f.State.Child != "" {
			s.Errorf("%s: %s is no voter that shows the membership: %s", name, f.Master.Addr, r.Text)
		}
	}
	if r.Voters() != len(o.Masters) || r.Wait != r.Needed(o.Drift) {
		s.Errorf("%s: %d of %d vote, with a wait of %v: %s", name, r.Voters(), len(o.Masters), r.Wait, r.Text)
	}
}

func TestBootstrapGoesOnWithAFirstFounding(t *testing.T) {
	for _, tt := range []struct {
		name    string
		masters int
		before  func(s *fleettest.Fleet) // what has happened
		places  []int                    // that are named now
	}{
		{"nothing", 3, func(s *fleettest.Fleet) {}, []int{0, 1, 2}},
		{"all were there", 3, func(s *fleettest.Fleet) { first(s, 0, 1, 2) }, []int{0, 1, 2}},
		{"one came later", 3, func(s *fleettest.Fleet) { s.Masters[2].Crash(true); first(s, 0, 1, 2); s.Masters[2].Restart() }, []int{0, 1, 2}},
		{"two of five came later", 5, func(s *fleettest.Fleet) {
			s.Masters[1].Crash(true)
			s.Masters[4].Crash(true)
			first(s, 0, 1, 2, 3, 4)
			s.Masters[1].Restart()
			s.Masters[4].Restart()
		}, []int{0, 1, 2, 3, 4}},
		{"another order", 3, func(s *fleettest.Fleet) { s.Masters[0].Crash(true); first(s, 2, 0, 1); s.Masters[0].Restart() }, []int{0, 1, 2}},
		{"a typo", 3, func(s *fleettest.Fleet) { first(s, 0, -1, 2) }, []int{0, 1, 2}},
		{"a typo, in another order", 3, func(s *fleettest.Fleet) { first(s, -1, 2, 0) }, []int{0, 1, 2}},
		{"two typos of five", 5, func(s *fleettest.Fleet) { first(s, -1, 1, 2, -2, 4) }, []int{0, 1, 2, 3, 4}},
		{"another Redis", 4, func(s *fleettest.Fleet) { first(s, 0, 1, 3) }, []int{0, 1, 2}},
		{"another Redis, which is off by now", 4, func(s *fleettest.Fleet) { first(s, 0, 1, 3); s.Masters[3].Crash(true) }, []int{0, 1, 2}},
		{"a replica", 3, func(s *fleettest.Fleet) {
			s.Do(2, "REPLICAOF", "elsewhere", "6379")
			first(s, 0, 1, 2)
			s.Do(2, "REPLICAOF", "NO", "ONE")
		}, []int{0, 1, 2}},
		{"a replica of the first one", 3, func(s *fleettest.Fleet) {
			s.Do(2, "REPLICAOF", "elsewhere", "6379")
			r := first(s, 0, 1, 2)
			s.Do(2, "REPLICAOF", "NO", "ONE")
			s.Do(2, "HSET", "redlockd:members", "v", s.Do(0, "HGET", "redlockd:members", "v"), "r", r.Text)
		}, []int{0, 1, 2}},
		{"one came later, and was seated", 3, func(s *fleettest.Fleet) {
			s.Masters[2].Crash(true)
			first(s, 0, 1, 2)
			s.Masters[2].Restart()
			seat(s, 2)
		}, []int{0, 1, 2}},
		{"a bootstrap was killed before it told all", 3, func(s *fleettest.Fleet) {
			first(s, 0, -1, 2)
			o := s.OptionsOf(0, 1, 2)
			all, named := surveyNamed(s.Context(), o)
			defer all.Close()
			parent := all.Prevailing()
			next, err := bootstrapStep(o, parent, named, "")
			if err == nil {
				next, err = all.Step(s.Context(), parent, next.Seal())
			}
			if err != nil {
				s.Fatal(err)
			}
			all.Teach(s.Context(), named[:1], next)
		}, []int{0, 1, 2}},
	} {
		fleettest.InVirtualTime(t, tt.masters, func(s *fleettest.Fleet) {
			tt.before(s)
			o := s.OptionsOf(tt.places...)
			reports, err := Bootstrap(s.Context(), o, false)
			if err != nil {
				s.Fatalf("%s: %v", tt.name, err)
			}
			for i, r := range reports {
				if !r.Admitted || r.Problem != nil || r.Addr != o.Masters[i].Addr {
					s.Errorf("%s: master %d: got %+v, want that it is admitted", tt.name, i+1, r)
				}
			}
			wantAllVote(s, tt.name, o)
		})
	}
}

// seat has a learner take its seat, as a redlockd does that finds it.
func seat(s *fleettest.Fleet, place int) {
	o := s.Options(s.Links())
	all := survey.Ask(s.Context(), o.Places(), survey.Patience{Enough: len(o.Masters)}, o)
	defer all.Close()
	parent := all.Prevailing()
	child := parent.Child()
	one := child.Seat(place)
	one.Memory, one.State, one.Since = all.At(place).State.Memory, member.Learner, child.Version
	chosen, err := all.Step(s.Context(), parent, child.Seal())
	if err != nil {
		s.Fatal(err)
	}
	all.Teach(s.Context(), all.Reports, chosen)
}

// What a bootstrap cannot go on with it leaves as it is, and says what to do.
func TestBootstrapSaysWhatToDo(t *testing.T) {
	for _, tt := range []struct {
		name    string
		masters int
		before  func(s *fleettest.Fleet)
		places  []int
		anyway  bool
		want    string
	}{
		{"more masters than at first", 5, func(s *fleettest.Fleet) { first(s, 0, 1, -1) }, []int{0, 1, 2, 3, 4}, false,
			"a redlockd has founded the membership with m1, m2, typo1, and the settings name m1, m2, m3, m4, m5. Nobody has ever voted in it: run FLUSHALL on m1, m2, and repeat this"},
		{"fewer masters than at first", 5, func(s *fleettest.Fleet) { first(s, 0, 1, 2, 3, 4) }, []int{0, 1, 2}, false, "run FLUSHALL on m1, m2, m3"},
		{"one is away", 3, func(s *fleettest.Fleet) { s.Masters[2].Crash(true) }, []int{0, 1, 2}, false, "m3: cannot connect: connection refused"},
		{"two are away, anyway", 3, func(s *fleettest.Fleet) { s.Masters[1].Crash(true); s.Masters[2].Crash(true) }, []int{0, 1, 2}, true, "1 of 3 masters can be admitted, 2 are needed"},
		{"one has a key, anyway", 3, func(s *fleettest.Fleet) { s.Do(2, "SET", "r", "T") }, []int{0, 1, 2}, true, "m3: it holds 1 keys: it is not new"},
		{"too many have forgotten", 3, func(s *fleettest.Fleet) { first(s, 0, 1, 2); s.Do(1, "FLUSHALL"); s.Do(2, "FLUSHALL") }, []int{0, 1, 2}, false,
			"if no redlockd runs, run FLUSHALL on m1, and repeat this"},
		{"two memberships in which nobody has voted", 5, func(s *fleettest.Fleet) { first(s, 0, 1, -1); first(s, 2, -1, 3) }, []int{0, 1, 3}, false,
			"m4: it has another membership than the others (of m3, typo1, m4), in which nobody has ever voted: run FLUSHALL on it"},
		{"it votes", 3, func(s *fleettest.Fleet) { admitAll(s) }, []int{0, 1, 2}, false, "m1: it has a membership (version 0): it is not new"},
		{"one restarted that was a member", 3, func(s *fleettest.Fleet) {
			first(s, 0, 1, 2)
			v := s.Do(2, "HGET", "redlockd:members", "v").(string)
			s.Do(2, "HSET", "redlockd:members", "v", "another"+v)
			s.Do(0, "FLUSHALL")
			s.Do(1, "FLUSHALL")
		}, []int{0, 1, 2}, false, "m3: it has a membership (version 0 before it was restarted): it is not new"},
	} {
		fleettest.InVirtualTime(t, tt.masters, func(s *fleettest.Fleet) {
			tt.before(s)
			shown := func() (text string) {
				for i := range s.Masters {
					if !strings.Contains(tt.name, "away") {
						text += fmt.Sprint(s.Do(i, "HGET", "redlockd:members", "r"), " ")
					}
				}
				return text
			}
			before := shown()
			_, err := Bootstrap(s.Context(), s.OptionsOf(tt.places...), tt.anyway)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "bootstrap: nothing was changed: ") {
				s.Errorf("%s: got %v, want that nothing was changed, and %q", tt.name, err, tt.want)
			}
			if after := shown(); after != before {
				s.Errorf("%s: got %s, want what was before, %s", tt.name, after, before)
			}
		})
	}
}

// Where an operator says so, a majority is admitted, and the seats of the others wait for their masters.
func TestBootstrapAnyway(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(s *fleettest.Fleet)
		places []int
		want   string // states of the seats
	}{
		{"one is away", func(s *fleettest.Fleet) { s.Masters[2].Crash(true) }, []int{0, 1, 2}, "vv-"},
		{"a typo", func(s *fleettest.Fleet) {}, []int{0, -1, 2}, "v-v"},
		{"a replica", func(s *fleettest.Fleet) { s.Do(0, "REPLICAOF", "elsewhere", "6379") }, []int{0, 1, 2}, "-vv"},
		{"one is away, and was founded without", func(s *fleettest.Fleet) { s.Masters[2].Crash(true); first(s, 0, 1, 2) }, []int{0, 1, 2}, "vv-"},
		{"one is away by now", func(s *fleettest.Fleet) { first(s, 0, 1, 2); s.Masters[2].Crash(true) }, []int{0, 1, 2}, "vvl"},
		{"two typos, one of which is corrected", func(s *fleettest.Fleet) { first(s, 0, -1, 2, 3, -2) }, []int{0, 1, 2, 3, -3}, "vvvv-"},
		{"all are there", func(s *fleettest.Fleet) {}, []int{0, 1, 2}, "vvv"},
	} {
		fleettest.InVirtualTime(t, 4, func(s *fleettest.Fleet) {
			tt.before(s)
			o := s.OptionsOf(tt.places...)
			reports, err := Bootstrap(s.Context(), o, true)
			if err != nil {
				s.Fatalf("%s: %v", tt.name, err)
			}
			all := survey.Ask(s.Context(), o.Places(), survey.Patience{Enough: len(o.Masters)}, o)
			defer all.Close()
			letters := ""
			for _, one := range all.Prevailing().Seats {
				letters += map[member.SeatState]string{member.Voter: "v", member.Learner: "l", member.Vacant: "-"}[one.State]
			}
			if letters != tt.want {
				s.Errorf("%s: got %s, want %s", tt.name, letters, tt.want)
			}
			for i, r := range reports {
				if letter := tt.want[i : i+1]; r.Admitted != (letter == "v") || r.Missing == r.Admitted {
					s.Errorf("%s: master %d: got %+v, want that it is admitted or missing, as %s says", tt.name, i+1, r, tt.want)
				}
			}
		})
	}
}
