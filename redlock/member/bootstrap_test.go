package member

// Goal: a bootstrap ends with votes whatever a redlockd has founded before in which nobody has ever voted, or changes nothing and says what to
// do. Method: masters in memory, and a first founding through other options than the bootstrap has.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"redlockd/redlock/conn"
)

// first founds a membership as a redlockd does by itself, with the masters at these places, in this order. Those that are −1 are addresses
// at which nobody is.
func (s *fleet) first(places ...int) *Record {
	s.Helper()
	o := s.optionsOf(places...)
	survey := SurveyMasters(s.Context(), o.Places(), Patience{Enough: len(places)}, o)
	defer survey.Close()
	f, why := survey.founding(nil, o)
	if f == nil {
		s.Fatalf("no founding: %s", why)
	}
	chosen, err := survey.Step(s.Context(), nil, f)
	if err != nil {
		s.Fatal(err)
	}
	survey.Teach(s.Context(), chosen.Among(survey.Reports), chosen)
	return chosen
}

// optionsOf name the masters at these places, in this order.
func (s *fleet) optionsOf(places ...int) Options {
	links := s.links()
	o := s.options(links)
	o.Masters = nil
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		for i, link := range links {
			if addr == fmt.Sprint("m", i+1) {
				return link.Dial(ctx, network, addr)
			}
		}
		return nil, errors.New("no such host")
	}
	for _, i := range places {
		addr := fmt.Sprint("m", i+1)
		if i < 0 {
			addr = fmt.Sprint("typo", -i)
		}
		o.Masters = append(o.Masters, conn.Master{Addr: addr, Dialer: dial})
	}
	return o
}

// wantAllVote compares what the masters that the options name show.
func (s *fleet) wantAllVote(name string, o Options) {
	s.Helper()
	survey := SurveyMasters(s.Context(), o.Places(), Patience{Enough: len(o.Masters)}, o)
	defer survey.Close()
	r := survey.Prevailing()
	if r == nil {
		s.Fatalf("%s: no membership is in force", name)
	}
	for _, f := range survey.Reports {
		if at := r.Lists(f.State.Memory); at == nil || at.State != Voter || f.State.Record != r.ID() || f.State.Child != "" {
			s.Errorf("%s: %s is no voter that shows the membership: %s", name, f.master.Addr, r.Text)
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
		before  func(s *fleet) // what has happened
		places  []int          // that are named now
	}{
		{"nothing", 3, func(s *fleet) {}, []int{0, 1, 2}},
		{"all were there", 3, func(s *fleet) { s.first(0, 1, 2) }, []int{0, 1, 2}},
		{"one came later", 3, func(s *fleet) { s.masters[2].Crash(true); s.first(0, 1, 2); s.masters[2].Restart() }, []int{0, 1, 2}},
		{"two of five came later", 5, func(s *fleet) {
			s.masters[1].Crash(true)
			s.masters[4].Crash(true)
			s.first(0, 1, 2, 3, 4)
			s.masters[1].Restart()
			s.masters[4].Restart()
		}, []int{0, 1, 2, 3, 4}},
		{"another order", 3, func(s *fleet) { s.masters[0].Crash(true); s.first(2, 0, 1); s.masters[0].Restart() }, []int{0, 1, 2}},
		{"a typo", 3, func(s *fleet) { s.first(0, -1, 2) }, []int{0, 1, 2}},
		{"a typo, in another order", 3, func(s *fleet) { s.first(-1, 2, 0) }, []int{0, 1, 2}},
		{"two typos of five", 5, func(s *fleet) { s.first(-1, 1, 2, -2, 4) }, []int{0, 1, 2, 3, 4}},
		{"another Redis", 4, func(s *fleet) { s.first(0, 1, 3) }, []int{0, 1, 2}},
		{"another Redis, which is off by now", 4, func(s *fleet) { s.first(0, 1, 3); s.masters[3].Crash(true) }, []int{0, 1, 2}},
		{"a replica", 3, func(s *fleet) {
			s.do(2, "REPLICAOF", "elsewhere", "6379")
			s.first(0, 1, 2)
			s.do(2, "REPLICAOF", "NO", "ONE")
		}, []int{0, 1, 2}},
		{"a replica of the first one", 3, func(s *fleet) {
			s.do(2, "REPLICAOF", "elsewhere", "6379")
			r := s.first(0, 1, 2)
			s.do(2, "REPLICAOF", "NO", "ONE")
			s.do(2, "HSET", "redlockd:members", "v", s.do(0, "HGET", "redlockd:members", "v"), "r", r.Text)
		}, []int{0, 1, 2}},
		{"one came later, and was seated", 3, func(s *fleet) {
			s.masters[2].Crash(true)
			s.first(0, 1, 2)
			s.masters[2].Restart()
			s.seat(2)
		}, []int{0, 1, 2}},
		{"a bootstrap was killed before it told all", 3, func(s *fleet) {
			s.first(0, -1, 2)
			o := s.optionsOf(0, 1, 2)
			survey, named := o.surveyNamed(s.Context())
			defer survey.Close()
			parent := survey.Prevailing()
			next, err := o.bootstrapStep(parent, named, "")
			if err == nil {
				next, err = survey.Step(s.Context(), parent, next.Seal())
			}
			if err != nil {
				s.Fatal(err)
			}
			survey.Teach(s.Context(), named[:1], next)
		}, []int{0, 1, 2}},
	} {
		inVirtualTime(t, tt.masters, func(s *fleet) {
			tt.before(s)
			o := s.optionsOf(tt.places...)
			reports, err := Bootstrap(s.Context(), o, false)
			if err != nil {
				s.Fatalf("%s: %v", tt.name, err)
			}
			for i, r := range reports {
				if !r.Admitted || r.Problem != nil || r.Addr != o.Masters[i].Addr {
					s.Errorf("%s: master %d: got %+v, want that it is admitted", tt.name, i+1, r)
				}
			}
			s.wantAllVote(tt.name, o)
		})
	}
}

// seat has a learner take its seat, as a redlockd does that finds it.
func (s *fleet) seat(place int) {
	p := s.proposer()
	child := p.parent.Child()
	one := child.Seat(place)
	one.Memory, one.State, one.Since = p.survey.At(place).State.Memory, Learner, child.Version
	chosen, err := p.survey.Step(s.Context(), p.parent, child.Seal())
	if err != nil {
		s.Fatal(err)
	}
	p.survey.Teach(s.Context(), p.found(), chosen)
}

// What a bootstrap cannot go on with it leaves as it is, and says what to do.
func TestBootstrapSaysWhatToDo(t *testing.T) {
	for _, tt := range []struct {
		name    string
		masters int
		before  func(s *fleet)
		places  []int
		anyway  bool
		want    string
	}{
		{"more masters than at first", 5, func(s *fleet) { s.first(0, 1, -1) }, []int{0, 1, 2, 3, 4}, false,
			"a redlockd has founded the membership with m1, m2, typo1, and the settings name m1, m2, m3, m4, m5. Nobody has ever voted in it: run FLUSHALL on m1, m2, and repeat this"},
		{"fewer masters than at first", 5, func(s *fleet) { s.first(0, 1, 2, 3, 4) }, []int{0, 1, 2}, false, "run FLUSHALL on m1, m2, m3"},
		{"one is away", 3, func(s *fleet) { s.masters[2].Crash(true) }, []int{0, 1, 2}, false, "m3: cannot connect: connection refused"},
		{"two are away, anyway", 3, func(s *fleet) { s.masters[1].Crash(true); s.masters[2].Crash(true) }, []int{0, 1, 2}, true, "1 of 3 masters can be admitted, 2 are needed"},
		{"one has a key, anyway", 3, func(s *fleet) { s.do(2, "SET", "r", "T") }, []int{0, 1, 2}, true, "m3: it holds 1 keys: it is not new"},
		{"too many have forgotten", 3, func(s *fleet) { s.first(0, 1, 2); s.do(1, "FLUSHALL"); s.do(2, "FLUSHALL") }, []int{0, 1, 2}, false,
			"if no redlockd runs, run FLUSHALL on m1, and repeat this"},
		{"two memberships in which nobody has voted", 5, func(s *fleet) { s.first(0, 1, -1); s.first(2, -1, 3) }, []int{0, 1, 3}, false,
			"m4: it has another membership than the others (of m3, typo1, m4), in which nobody has ever voted: run FLUSHALL on it"},
		{"it votes", 3, func(s *fleet) { s.found() }, []int{0, 1, 2}, false, "m1: it has a membership (version 0): it is not new"},
		{"one restarted that was a member", 3, func(s *fleet) {
			s.first(0, 1, 2)
			v := s.do(2, "HGET", "redlockd:members", "v").(string)
			s.do(2, "HSET", "redlockd:members", "v", "another"+v)
			s.do(0, "FLUSHALL")
			s.do(1, "FLUSHALL")
		}, []int{0, 1, 2}, false, "m3: it has a membership (version 0 before it was restarted): it is not new"},
	} {
		inVirtualTime(t, tt.masters, func(s *fleet) {
			tt.before(s)
			shown := func() (text string) {
				for i := range s.masters {
					if !strings.Contains(tt.name, "away") {
						text += fmt.Sprint(s.do(i, "HGET", "redlockd:members", "r"), " ")
					}
				}
				return text
			}
			before := shown()
			_, err := Bootstrap(s.Context(), s.optionsOf(tt.places...), tt.anyway)
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
		before func(s *fleet)
		places []int
		want   string // states of the seats
	}{
		{"one is away", func(s *fleet) { s.masters[2].Crash(true) }, []int{0, 1, 2}, "vv-"},
		{"a typo", func(s *fleet) {}, []int{0, -1, 2}, "v-v"},
		{"a replica", func(s *fleet) { s.do(0, "REPLICAOF", "elsewhere", "6379") }, []int{0, 1, 2}, "-vv"},
		{"one is away, and was founded without", func(s *fleet) { s.masters[2].Crash(true); s.first(0, 1, 2) }, []int{0, 1, 2}, "vv-"},
		{"one is away by now", func(s *fleet) { s.first(0, 1, 2); s.masters[2].Crash(true) }, []int{0, 1, 2}, "vvl"},
		{"two typos, one of which is corrected", func(s *fleet) { s.first(0, -1, 2, 3, -2) }, []int{0, 1, 2, 3, -3}, "vvvv-"},
		{"all are there", func(s *fleet) {}, []int{0, 1, 2}, "vvv"},
	} {
		inVirtualTime(t, 4, func(s *fleet) {
			tt.before(s)
			o := s.optionsOf(tt.places...)
			reports, err := Bootstrap(s.Context(), o, true)
			if err != nil {
				s.Fatalf("%s: %v", tt.name, err)
			}
			survey := SurveyMasters(s.Context(), o.Places(), Patience{Enough: len(o.Masters)}, o)
			defer survey.Close()
			if r := survey.Prevailing(); r == nil || stateLetters(r) != tt.want {
				s.Errorf("%s: got %v, want %s", tt.name, stateLettersOf(r), tt.want)
			}
			for i, r := range reports {
				if letter := tt.want[i : i+1]; r.Admitted != (letter == "v") || r.Missing == r.Admitted {
					s.Errorf("%s: master %d: got %+v, want that it is admitted or missing, as %s says", tt.name, i+1, r, tt.want)
				}
			}
		})
	}
}

// A record proves by itself that no quorum of its seats has ever voted.
func TestIsNew(t *testing.T) {
	first := func(states string) *Record {
		r := votersRecord(len(states)).Changed(func(r *Record) { r.Generation, r.Version, r.Parent, r.TTLSince = 1, 0, "", 0 })
		for i := range states {
			s := r.Seat(i)
			for state, letter := range seatLetters {
				if letter == states[i:i+1] {
					s.State = state
				}
			}
			if !s.State.occupied() {
				s.Memory = ""
			}
		}
		return r.Seal()
	}
	later := func(r *Record, since ...int) *Record { // these seats are as they are since version 1
		return r.Changed(func(r *Record) {
			r.Version, r.Parent = 1, r.Digest
			for _, i := range since {
				r.Seats[i].Since = 1
			}
		})
	}
	for _, tt := range []struct {
		name string
		r    *Record
		want bool
	}{
		{"all wait", first("lll"), true},
		{"one was not there", first("ll-"), true},
		{"all vote", first("vvv"), false},
		{"one votes", first("vll"), false},
		{"one was seated later", later(first("lll"), 2), true},
		{"two of three were seated later, or lost their votes", later(first("lll"), 1, 2), false},
		{"two of five were seated later", later(first("lllll"), 1, 2), true},
		{"three of five were", later(first("lllll"), 1, 2, 3), false},
		{"one of one lost its vote", later(first("l"), 0), false},
		{"two of four were seated later", later(first("llll"), 1, 2), true},
		{"three of four were", later(first("llll"), 1, 2, 3), false},
		{"one leaves", later(first("llx"), 2), true},
		{"a second founding", first("lll").Changed(func(r *Record) { r.Generation = 2 }), false},
		{"a seat was added", later(first("lll"), 2).Changed(func(r *Record) { r.Roster = 1 }), false},
	} {
		if got := tt.r.isNew(); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
