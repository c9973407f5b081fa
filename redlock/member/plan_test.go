package member

// Goal: what follows from a survey is what the rules say: who is believed, who becomes a learner or a voter, when a wait is over, and
// when the membership may be founded anew. Method: tables. Each case changes one thing of a membership of five voters, all of which
// show it, or of masters that nobody has used.

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/fence"
)

const ms = time.Millisecond

const (
	ourLineage   = "0123456789abcdef"
	laterLineage = "01234567fedcba98" // of the same fleet
	otherLineage = "fedcba9876543210"
)

// processMemory names a memory of the process at a place: the first, the second …
func processMemory(place, nth int) string { return fmt.Sprintf("run%d:%016x", place, nth) }

// votersRecord is version 7 of n voters.
func votersRecord(n int) *Record {
	r := &Record{Generation: 3, Lineage: ourLineage, Version: 7, Parent: strings.Repeat("5a", DigestLen/2),
		MaxTTL: 2 * time.Second, Wait: 3 * time.Second}
	for i := range n {
		r.Seats = append(r.Seats, Seat{Number: i, Name: fmt.Sprint("m", i), Addr: fmt.Sprint("m", i), Memory: processMemory(i, 1), State: Voter})
	}
	return r.Seal()
}

// foundAt is what a master shows that has settled on r; nil: it is fresh.
func foundAt(place int, memory string, r *Record) *Report {
	f := &Report{Place: place, Master: conn.Master{Addr: fmt.Sprint("m", place)}, RunID: State{Memory: memory}.RunID(), Fields: make(map[string]string)}
	f.shown(memory, r)
	return f
}

func (f *Report) shown(memory string, r *Record) {
	f.State, f.Record = State{Memory: memory, Fresh: r == nil}, r
	if r != nil {
		f.State.Record = r.ID()
	}
	f.V = f.State.String()
	f.Fields["v"] = f.V
}

// surveyOf is a survey in which all listed memories show the record.
func surveyOf(r *Record) *Survey {
	s := &Survey{Began: time.Unix(1_800_000_000, 0)}
	for i := range r.Seats {
		f := foundAt(r.Seats[i].Number, r.Seats[i].Memory, r)
		f.Clock, f.Skew, f.Sent, f.Received = s.Began, time.Second, s.Began, s.Began
		s.Reports = append(s.Reports, f)
	}
	return s
}

// Changed is r with a change, sealed.
func (r *Record) Changed(change func(r *Record)) *Record {
	c := *r
	c.Seats = slices.Clone(r.Seats)
	change(&c)
	return c.Seal()
}

// places are the numbers of the seats, as text.
func places(list []*Report) (text string) {
	for _, f := range list {
		text += fmt.Sprint(f.Place)
	}
	return text
}

func stateLetters(r *Record) (text string) {
	for i := range r.Seats {
		text += seatLetters[r.Seats[i].State]
	}
	return text
}

func TestNextRecord(t *testing.T) {
	const none = ""
	gone := errors.New("no answer")
	learner := func(i int) func(r *Record) {
		return func(r *Record) { r.Seats[i].State, r.Seats[i].Since = Learner, 6 }
	}
	leaving := func(r *Record) { r.Seats[4].Memory, r.Seats[4].State, r.Seats[4].Since = "", Leaving, 6 }
	longWait := func(r *Record) {
		r.MaxTTL, r.Wait, r.TTLSince = time.Second, 3*time.Second, 5
	}
	over := func(timers ...string) func(n *Situation) {
		return func(n *Situation) {
			n.Left = func(timer string) time.Duration {
				if slices.ContainsFunc(timers, func(t string) bool { return strings.HasSuffix(timer, t) }) {
					return 0
				}
				return 1
			}
		}
	}
	for _, tc := range []struct {
		name   string
		record func(r *Record)
		find   func(n *Situation) // changes what was found and what is known
		want   string             // states of the seats, and the places whose floors are raised; "": no change
	}{
		{"all is well", nil, nil, none},
		{"a master is silent", nil, func(n *Situation) { n.Survey.Reports[4].Err = gone }, none},
		{"a master was not asked", nil, func(n *Situation) { n.Survey.Reports = n.Survey.Reports[:4] }, none},
		{"another memory", nil, func(n *Situation) { n.Survey.Reports[4].shown(processMemory(4, 2), nil) }, "vvvvl []"},
		{"another memory, of a record before", nil, func(n *Situation) {
			n.Survey.Reports[4].shown(processMemory(4, 2), n.Record.Changed(func(r *Record) { r.Version = 5 }))
		}, "vvvvl []"},
		{"other memories at two seats", nil, func(n *Situation) {
			n.Survey.Reports[1].shown(processMemory(1, 2), nil)
			n.Survey.Reports[4].shown(processMemory(4, 2), nil)
		}, "vlvvv []"}, // one after the other
		{"another memory, of another fleet", nil, func(n *Situation) {
			n.Survey.Reports[4].shown(processMemory(4, 2), n.Record.Changed(func(r *Record) { r.Lineage = otherLineage }))
		}, none},
		{"another memory that is refused", nil, func(n *Situation) {
			n.Survey.Reports[4].shown(processMemory(4, 2), nil)
			n.Survey.Reports[4].Err = &conn.RefusedError{Reason: "a replica"}
		}, none},
		{"another memory of a seat that pauses", nil, func(n *Situation) {
			n.Survey.Reports[4].shown(processMemory(4, 2), nil)
			n.Paused = func(place int) bool { return place == 4 }
		}, none},
		{"the memory of another seat", nil, func(n *Situation) { n.Survey.Reports[4].shown(processMemory(3, 1), n.Record) }, none},
		{"a vacant seat is found", func(r *Record) { r.Seats[4].Memory, r.Seats[4].State = "", Vacant },
			func(n *Situation) { n.Survey.Reports[4].shown(processMemory(4, 2), nil) }, "vvvvl []"},

		{"another memory, while somebody hears the listed one", nil, func(n *Situation) {
			n.Survey.Reports[4].shown("new:0000000000000001", nil)
			n.Patience = time.Second
			for _, f := range n.Survey.Reports {
				f.Fields[HeardField(4)] = fmt.Sprint(n.Survey.Began.UnixMilli())
			}
		}, none},

		{"a learner waits", learner(4), nil, none},
		{"a learner whose clock the fences are just not too far ahead of", learner(4), func(n *Situation) {
			over(":4@6")(n)
			n.Survey.Reports[0].High = fence.Time(n.Survey.Began.Add(fence.AheadMax))
		}, "vvvvv [4]"},
		{"a learner whose clock the fences are too far ahead of", learner(4), func(n *Situation) {
			over(":4@6")(n)
			n.Survey.Reports[0].High = fence.Time(n.Survey.Began.Add(fence.AheadMax)) + 1
		}, none},
		{"a learner whose wait is over", learner(4), over(":4@6"), "vvvvv [4]"},
		{"a learner while the wait of an earlier listing is over", learner(4), over(":4@5"), none},
		{"a learner while another wait is over", learner(4), over(":3@6"), none},
		{"a learner whose wait is over, and that is not reached", learner(4),
			func(n *Situation) { over(":4@6")(n); n.Survey.Reports[4].Err = gone }, none},
		{"a learner whose wait is over, and that shows an older record", learner(4), func(n *Situation) {
			over(":4@6")(n)
			n.Survey.Reports[4].shown(processMemory(4, 1), n.Record.Changed(func(r *Record) { r.Version = 6 }))
		}, none},
		{"a learner whose wait is over, and that has forgotten again", learner(4), func(n *Situation) {
			over(":4@6")(n)
			n.Survey.Reports[4].shown(processMemory(4, 2), nil)
		}, "vvvvl []"},

		{"a leaving seat waits", leaving, nil, none},
		{"a leaving seat with a master", leaving, func(n *Situation) { n.Survey.Reports[4].shown(processMemory(4, 2), nil) }, none},
		{"a leaving seat whose wait is over", leaving, over(":4@6"), "vvvv [0 1 2 3]"},
		{"a leaving seat whose wait is over, while voters are dead that cannot be a quorum alone", leaving, func(n *Situation) {
			over(":4@6")(n)
			n.Survey.Reports[2].Err, n.Survey.Reports[3].Err = gone, gone
		}, "vvvv [0 1]"},
		{"a leaving seat whose wait is over, while voters are dead that can be a quorum alone", leaving, func(n *Situation) {
			over(":4@6")(n)
			n.Survey.Reports[1].Err, n.Survey.Reports[2].Err = gone, gone
			n.Survey.Reports = n.Survey.Reports[:3]
		}, "vvvv [0 1 2 3]"},
		{"two leaving seats whose waits are over", func(r *Record) {
			leaving(r)
			r.Seats[3].Memory, r.Seats[3].State, r.Seats[3].Since = "", Leaving, 6
		}, over(":3@6", ":4@6"), "vvvx [0 1 2]"},
		{"a leaving seat whose wait is over beside a learner that waits", func(r *Record) { leaving(r); learner(2)(r) }, over(":4@6"), "vvlv [0 1 3]"},
		{"a leaving seat and a learner whose waits are over", func(r *Record) { leaving(r); learner(2)(r) }, over(":4@6", ":2@6"), "vvvv [2 0 1 3]"},

		{"max_ttl was lowered", longWait, nil, none},
		{"the wait is what max_ttl needs", func(r *Record) { r.Wait = r.Needed(clock.Drift{}) }, over(":ttl@0"), none},
		{"max_ttl was lowered, and the wait is over", longWait, over(":ttl@5"), "vvvvv [] wait 1.01s"},
	} {
		r := votersRecord(5)
		if tc.record != nil {
			r = r.Changed(tc.record)
		}
		n := &Situation{Record: r, Survey: surveyOf(r), Left: func(string) time.Duration { return 1 }, Paused: func(int) bool { return false }}
		if tc.find != nil {
			tc.find(n)
		}
		d := n.Next()
		got := none
		if d.Child != nil {
			if err := CheckChild(r, d.Child.Seal()); err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			got = fmt.Sprint(stateLetters(d.Child), " ", d.Raise)
			if d.Raise == nil {
				got = stateLetters(d.Child) + " []"
			}
			if d.Child.Wait != r.Wait {
				got += fmt.Sprint(" wait ", d.Child.Wait)
			}
			if len(d.Changes) == 0 {
				t.Errorf("%s: the log is not told what changes", tc.name)
			}
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// The fences that a new voter must know are those of a quorum of voters, or nobody knows them.
func TestFloorOfAMembership(t *testing.T) {
	const skew = time.Second
	wall := time.Unix(1_800_000_000, 0)
	day := fence.HighestBelieved(wall, skew)
	for _, tc := range []struct {
		name   string
		record func(r *Record)
		find   func(s *Survey)
		floor  int64
		cold   bool
	}{
		{"all voters", nil, nil, 5, false},
		{"a quorum of voters", nil, func(s *Survey) { s.Reports[0].Err, s.Reports[4].Err = errAway, errAway }, 4, false},
		{"too few voters are reached", nil, func(s *Survey) { s.Reports[0].Err, s.Reports[1].Err, s.Reports[4].Err = errAway, errAway, errAway },
			fence.Time(wall.Add(2 * skew)), true},
		{"a learner's fences are not those of a voter", func(r *Record) { r.Seats[4].State = Learner }, nil, 4, false},
		{"too few voters", func(r *Record) {
			r.Seats[0].State, r.Seats[1].State, r.Seats[4].State = Learner, Learner, Learner
		}, nil, fence.Time(wall.Add(2 * skew)), true},
		{"another memory", nil, func(s *Survey) { s.Reports[4].shown(processMemory(4, 2), nil) }, 4, false},
		{"more than anybody gives", nil, func(s *Survey) { s.Reports[4].High = day + 1 }, 4, false},
		{"as much as anybody gives", nil, func(s *Survey) { s.Reports[4].High = day }, day, false},
		{"more, by a voter that is needed", nil, func(s *Survey) { s.Reports[0].Err, s.Reports[1].Err, s.Reports[4].High = errAway, errAway, day+1 }, day + 1, false},
		{"more, by a minority", nil, func(s *Survey) { s.Reports[3].High, s.Reports[4].High = day+1, day+1 }, 3, false},
		{"more, by many", nil, func(s *Survey) { s.Reports[2].High, s.Reports[3].High, s.Reports[4].High = day+1, day+2, day+3 }, day + 3, false},
		{"nobody remembers", func(r *Record) {
			for i := range r.Seats {
				r.Seats[i].State = Learner
			}
		}, nil, fence.Time(wall.Add(2 * skew)), true},
	} {
		r := votersRecord(5)
		if tc.record != nil {
			r = r.Changed(tc.record)
		}
		n := &Situation{Record: r, Survey: surveyOf(r), Wall: wall, Skew: skew}
		for i, f := range n.Survey.Reports {
			f.High = int64(i + 1)
		}
		if tc.find != nil {
			tc.find(n.Survey)
		}
		if floor, cold := n.Floor(); floor != tc.floor || cold != tc.cold {
			t.Errorf("%s: got %d, cold %v, want %d, %v", tc.name, floor, cold, tc.floor, tc.cold)
		}
	}
}

func TestTimersOfARecord(t *testing.T) {
	r := votersRecord(5).Changed(func(r *Record) {
		r.Seats[1].State, r.Seats[1].Since = Learner, 4
		r.Seats[2].Memory, r.Seats[2].State, r.Seats[2].Since = "", Leaving, 6
		r.Seats[3].Memory, r.Seats[3].State, r.Seats[3].Since = "", Vacant, 6
		r.Wait, r.TTLSince = time.Minute, 5
	})
	want := []string{"s:3-" + ourLineage + ":1@4", "s:3-" + ourLineage + ":2@6", "s:3-" + ourLineage + ":ttl@5"}
	if got := TimersOf(r, clock.Drift{}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := TimersOf(votersRecord(5).Changed(func(r *Record) { r.Wait = r.Needed(clock.Drift{}) }), clock.Drift{}); got != nil {
		t.Errorf("a wait that max_ttl needs: got %q, want none", got)
	}
	for wait, want := range map[time.Duration]time.Duration{0: time.Second, 4 * time.Second: time.Second, 8 * time.Second: 2 * time.Second, time.Hour: 3 * time.Second} {
		if got := RecheckWithin(wait); got != want {
			t.Errorf("a wait of %v: an address holds for %v, want %v", wait, got, want)
		}
	}
}

// A client goes on to a record when a quorum of the seats that it knows stand at it, whatever that record says of itself.
func TestSuccessor(t *testing.T) {
	own := votersRecord(5)
	after := func(r *Record, change func(r *Record)) *Record {
		c := r.Child()
		change(c)
		return c.Seal()
	}
	demoted := func(place int) func(r *Record) {
		return func(r *Record) { r.Seats[place].State, r.Seats[place].Since = Learner, r.Version }
	}
	next := after(own, demoted(0))
	rivalChild := after(own, demoted(1))
	later := after(next, demoted(2))
	muchLater := after(after(after(later, demoted(3)), demoted(4)), func(r *Record) { r.Seats[3].Addr = "elsewhere" })
	ofOneSeat := own.Changed(func(r *Record) { r.Version, r.Parent, r.Seats = 99, next.Digest, r.Seats[4:] })
	childOfOneSeat := own.Changed(func(r *Record) { r.Version, r.Parent, r.Seats = 8, own.Digest, r.Seats[4:] })
	refounded := own.Changed(func(r *Record) { r.Generation, r.Lineage, r.Version, r.Parent = 4, laterLineage, 0, "" })
	rival := own.Changed(func(r *Record) { r.Lineage, r.Version, r.Parent = laterLineage, 0, "" })
	foreign := own.Changed(func(r *Record) { r.Generation, r.Lineage = 4, otherLineage })
	all := []int{0, 1, 2, 3, 4}
	for _, tc := range []struct {
		name string
		find []func(s *Survey)
		want *Record
	}{
		{"what is known", nil, nil},
		{"the next one", []func(s *Survey){showing(next, all...)}, next},
		{"the next one, of a quorum", []func(s *Survey){showing(next, 2, 3, 4)}, next},
		{"the next one, of a minority", []func(s *Survey){showing(next, 3, 4)}, nil},
		{"the next one, of one, and accepted by the others", []func(s *Survey){showing(next, 4), accepting(next, 0, 1, 2, 3)}, nil},
		{"the next one, of memories that nobody knows", []func(s *Survey){func(s *Survey) {
			for i := range 5 {
				s.Reports[i].shown(processMemory(i, 2), next)
			}
		}}, next},
		{"the next one, of masters that are refused", []func(s *Survey){showing(next, all...), away(0, 1, 2)}, nil},
		{"the one after it is under way", []func(s *Survey){showing(next, 1, 2), showing(later, 3)}, next},
		{"the one after it is known to a quorum", []func(s *Survey){showing(next, 1, 2), showing(later, 0, 3, 4)}, later},
		{"much later, of a quorum", []func(s *Survey){showing(muchLater, 0, 1, 2)}, muchLater},
		{"a record of one seat, which is in force by itself", []func(s *Survey){showing(ofOneSeat, 4)}, nil},
		{"the same, and the others are at the next one", []func(s *Survey){showing(next, 0, 1, 2, 3), showing(ofOneSeat, 4)}, next},
		{"two at one version, of which one is known to a quorum with those after it", []func(s *Survey){showing(next, 0, 1), showing(later, 2), showing(rivalChild, 3, 4)}, next},
		{"two at one version, of two masters each", []func(s *Survey){showing(next, 0, 1), showing(rivalChild, 3, 4)}, nil},
		{"the next one changes more than a step may", []func(s *Survey){showing(childOfOneSeat, all...)}, nil},
		{"founded anew", []func(s *Survey){showing(refounded, 1, 2, 3)}, refounded},
		{"founded anew by a minority", []func(s *Survey){showing(refounded, 1, 2)}, nil},
		{"founded by two at once, and the other has the quorum", []func(s *Survey){showing(rival, 1, 2, 3)}, rival},
		{"founded by two at once, and ours has the quorum", []func(s *Survey){showing(rival, 1, 2)}, nil},
		{"another fleet", []func(s *Survey){showing(foreign, all...)}, nil},
	} {
		s := surveyOf(own)
		for _, find := range tc.find {
			find(s)
		}
		if got := s.Successor(own); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
	s := surveyOf(own)
	if got := s.Successor(next); got != nil {
		t.Errorf("one before: got %v, want none", got)
	}
}

// showing has the masters at these places settle on r, accepting has them accept it, and away has them not reached.
func showing(r *Record, places ...int) func(s *Survey) {
	return func(s *Survey) {
		for _, i := range places {
			s.Reports[i].shown(processMemory(i, 1), r)
		}
	}
}

func accepting(child *Record, places ...int) func(s *Survey) {
	return func(s *Survey) {
		for _, i := range places {
			s.Reports[i].State.Child, s.Reports[i].Child = child.Digest, child
		}
	}
}

func away(places ...int) func(s *Survey) {
	return func(s *Survey) {
		for _, i := range places {
			s.Reports[i].Err = errAway
		}
	}
}

// A client that starts goes by the record at which most masters stand, if those are a quorum of the memories that it lists.
func TestPrevailingRecord(t *testing.T) {
	own := votersRecord(5)
	next := own.Child().Seal()
	ofOneSeat := own.Changed(func(r *Record) { r.Version, r.Seats = 99, r.Seats[4:] })
	for _, tc := range []struct {
		name string
		find []func(s *Survey)
		want *Record
	}{
		{"all show it", nil, own},
		{"too few show it", []func(s *Survey){showing(nil, 0, 1, 2)}, nil},
		{"the next one, and one has forgotten", []func(s *Survey){showing(next, 0, 1, 2, 3), showing(nil, 4)}, next},
		{"the next one is known to a few", []func(s *Survey){showing(next, 0, 1)}, own},
		{"the next one is known to a few, and one has forgotten", []func(s *Survey){showing(next, 0, 1), showing(nil, 4)}, own},
		{"memories that it does not list", []func(s *Survey){func(s *Survey) {
			for i := range 5 {
				s.Reports[i].shown(processMemory(i, 2), own)
			}
		}}, nil},
		{"one shows a newer record of one seat", []func(s *Survey){showing(ofOneSeat, 4)}, own},
		{"the same, and too few of the others are reached", []func(s *Survey){showing(ofOneSeat, 4), away(0, 1)}, nil},
		{"the same, and fewer still", []func(s *Survey){showing(ofOneSeat, 4), away(0, 1), showing(nil, 2)}, ofOneSeat},
	} {
		s := surveyOf(own)
		for _, find := range tc.find {
			find(s)
		}
		if got := s.Prevailing(); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

// A list of masters leads to the fleet of more than half of those that answer, or nowhere.
func TestFleetOfAList(t *testing.T) {
	own := votersRecord(5)
	other := own.Changed(func(r *Record) {
		r.Lineage = otherLineage
		for i := range r.Seats {
			r.Seats[i].Name, r.Seats[i].Addr = fmt.Sprint("s", i), fmt.Sprint("s", i)
		}
	})
	forgot := func(hint *Record, places ...int) func(s *Survey) {
		return func(s *Survey) {
			for _, i := range places {
				s.Reports[i].shown(processMemory(i, 2), nil)
				s.Reports[i].Before = hint
			}
		}
	}
	elsewhere := func(places ...int) func(s *Survey) { // new masters at addresses that no seat has
		return func(s *Survey) {
			for _, i := range places {
				s.Reports[i].shown(processMemory(i, 2), nil)
				s.Reports[i].Master.Addr = fmt.Sprint("new", i)
			}
		}
	}
	ours, theirs := ourLineage[:FleetLen], otherLineage[:FleetLen]
	all := []int{0, 1, 2, 3, 4}
	for _, tc := range []struct {
		name  string
		find  []func(s *Survey)
		want  string
		wrong string
	}{
		{"all are of one fleet", nil, ours, ""},
		{"all are new", []func(s *Survey){forgot(nil, all...)}, "", ""},
		{"one is of another fleet", []func(s *Survey){showing(other, 0)}, ours, ""},
		{"three are of another fleet", []func(s *Survey){showing(other, 0, 1, 2)}, theirs, ""},
		{"two are of another fleet, one is not reached", []func(s *Survey){showing(other, 0, 1), away(2)}, "", "m0, m1 to fleet fedcba98 (s0, s1, s2, s3, s4)"},
		{"one of two is of another fleet", []func(s *Survey){showing(other, 0), away(1, 2, 3)}, "", "m4 to fleet 01234567 (m0, m1, m2, m3, m4)"},
		{"one is reached", []func(s *Survey){away(0, 1, 2, 3)}, ours, ""},
		{"four have forgotten, and one leads to their seats", []func(s *Survey){forgot(nil, 0, 1, 2, 3)}, ours, ""},
		{"all have forgotten, and some know what they were", []func(s *Survey){forgot(nil, 0, 1, 2), forgot(own, 3, 4)}, ours, ""},
		{"all have forgotten, and know what they were", []func(s *Survey){forgot(own, all...)}, ours, ""},
		{"four are new, and one is of another fleet", []func(s *Survey){elsewhere(0, 1, 2, 3)}, "", "new0, new1, new2, new3 to none; m4 to fleet"},
	} {
		s := surveyOf(own)
		for _, find := range tc.find {
			find(s)
		}
		o := Options{}
		for i := range 5 {
			o.Masters = append(o.Masters, conn.Master{Addr: s.Reports[i].Master.Addr})
		}
		got, wrong := s.Fleet(o)
		if got != tc.want || !strings.Contains(wrong, tc.wrong) || (wrong == "") != (tc.wrong == "") {
			t.Errorf("%s: got %q, %q, want %q, %q", tc.name, got, wrong, tc.want, tc.wrong)
		}
	}
}

// Who has to be told of the record in force, and who shows what cannot be chosen any more.
func TestWhoShowsAnotherRecord(t *testing.T) {
	own := votersRecord(5)
	version := func(v int64) *Record { return own.Changed(func(r *Record) { r.Version = v }) }
	founding := func(generation int64, lineage string) *Record {
		return own.Changed(func(r *Record) { r.Generation, r.Lineage, r.Version, r.Parent = generation, lineage, 0, "" })
	}
	for _, tc := range []struct {
		name, memory    string
		shows           *Record
		err             error
		untaught, stray bool
	}{
		{name: "the record in force", shows: own},
		{name: "fresh", shows: nil, untaught: true},
		{name: "a version before", shows: version(6), untaught: true},
		{name: "a version before, of a master that is not reached", shows: version(6), err: errAway},
		{name: "a version before, of another memory", memory: processMemory(2, 2), shows: version(6)},
		{name: "another record of the same version", shows: own.Changed(func(r *Record) { r.Roster = 1 }), stray: true},
		{name: "a version after", shows: version(9), stray: true},
		{name: "a founding before", shows: founding(2, laterLineage), untaught: true},
		{name: "another founding of the same time", shows: founding(3, laterLineage), stray: true},
		{name: "a founding after, of a minority", shows: founding(4, laterLineage), stray: true},
		{name: "another founding, of a master that is refused", shows: founding(3, laterLineage), err: errAway},
		{name: "a founding of another fleet", shows: founding(3, otherLineage)},
	} {
		s := surveyOf(own)
		f := s.Reports[2]
		memory := tc.memory
		if memory == "" {
			memory = f.State.Memory
		}
		f.shown(memory, tc.shows)
		f.Err = tc.err
		if got := places(s.Untaught(own)) != ""; got != tc.untaught {
			t.Errorf("%s: it is to be told: got %v, want %v", tc.name, got, tc.untaught)
		}
		if got := places(s.Strays(own)) != ""; got != tc.stray {
			t.Errorf("%s: it shows what cannot be chosen: got %v, want %v", tc.name, got, tc.stray)
		}
	}
}

func TestUnfinishedStep(t *testing.T) {
	r := votersRecord(5)
	s := surveyOf(r)
	if s.Unfinished(r) {
		t.Error("nobody has accepted anything: got unfinished")
	}
	s.Reports[3].State.Child = strings.Repeat("c4", DigestLen/2)
	if !s.Unfinished(r) {
		t.Error("one has accepted a child: got nothing unfinished")
	}
	s.Reports[3].Err = errAway
	if s.Unfinished(r) {
		t.Error("who has accepted a child is not reached: got unfinished")
	}
}

// When the membership may be founded anew, and how long its masters wait then.
func TestFounding(t *testing.T) {
	o := Options{MaxTTL: 2 * time.Second, FoundingWait: 10 * time.Second, Drift: usualDrift}
	for i := range 5 {
		o.Masters = append(o.Masters, conn.Master{Addr: fmt.Sprint("m", i)})
	}
	plus := func(wait time.Duration) time.Duration { return wait + RecheckWithin(wait) }
	base := votersRecord(5).Changed(func(r *Record) { r.Wait = 8 * time.Second })
	fresh := func(nth int, hint *Record, places ...int) func(s *Survey) {
		return func(s *Survey) {
			for _, i := range places {
				s.Reports[i].shown(processMemory(i, nth), nil)
				s.Reports[i].Before = hint
			}
		}
	}
	elsewhere := func(places ...int) func(s *Survey) {
		return func(s *Survey) {
			for _, i := range places {
				s.Reports[i].shown(fmt.Sprintf("new%d:%016x", i, 1), nil)
			}
		}
	}
	other := base.Changed(func(r *Record) { r.Lineage = otherLineage })
	short := votersRecord(5).Changed(func(r *Record) { r.Wait = r.Needed(usualDrift) })
	raised := base.Changed(func(r *Record) { r.Version, r.Parent, r.MaxTTL = 8, base.Digest, 7900*ms })
	later := base.Changed(func(r *Record) { r.Generation, r.Lineage, r.Version, r.Parent = 4, laterLineage, 0, "" })
	last := later.Changed(func(r *Record) { r.Generation, r.Seats = 5, slices.Delete(r.Seats, 1, 2) })
	all := []int{0, 1, 2, 3, 4}
	for _, tc := range []struct {
		name   string
		base   *Record // nil: none is known
		find   []func(s *Survey)
		states string // of the founding; "": there is none
		wait   time.Duration
		why    string
	}{
		{"all are new", nil, []func(s *Survey){fresh(1, nil, all...)}, "lllll", plus(o.FoundingWait), ""},
		{"a quorum is new, the others are not reached", nil, []func(s *Survey){fresh(1, nil, all...), away(3, 4)}, "lll--", plus(o.FoundingWait), ""},
		{"a minority is reached", nil, []func(s *Survey){fresh(1, nil, all...), away(2, 3, 4)}, "", 0, "2 of 5 masters can be reached"},
		{"one belongs to another fleet", nil, []func(s *Survey){fresh(1, nil, all...), func(s *Survey) {
			s.Reports[4].shown(processMemory(4, 1), other)
			s.Reports[4].Record = nil
		}}, "llll-", plus(o.FoundingWait), ""},
		{"all remember what they were", nil, []func(s *Survey){fresh(2, base, all...)}, "lllll", plus(o.FoundingWait), ""},
		{"a quorum remembers", base, []func(s *Survey){fresh(2, base, 3, 4)}, "", 0, ""},
		{"a quorum remembers, and none of the others is reached", base, []func(s *Survey){away(3, 4)}, "", 0, ""},
		{"a quorum has forgotten in one process", base, []func(s *Survey){fresh(2, nil, 2, 3, 4)}, "lllll", 8 * time.Second, ""},
		{"a quorum has forgotten, two are not reached", base, []func(s *Survey){fresh(2, nil, 2, 3, 4), away(0, 1)}, "--lll", 8 * time.Second, ""},
		{"a quorum has other processes", base, []func(s *Survey){elsewhere(2, 3, 4)}, "lllll", 8 * time.Second, ""},
		{"one of them has another process", base, []func(s *Survey){fresh(2, nil, 2, 3), elsewhere(4)}, "lllll", 8 * time.Second, ""},
		{"the wait is what max_ttl needs", short, []func(s *Survey){fresh(2, nil, 2, 3, 4)}, "lllll", wholeMs(plus(short.Wait)), ""},
		{"one has accepted a child that raises max_ttl, and has the wait that a founding had", base, []func(s *Survey){fresh(2, nil, 2, 3, 4), accepting(raised, 1)},
			"lllll", wholeMs(plus(raised.Needed(usualDrift))), ""},
		{"a minority has forgotten, too few are reached", base, []func(s *Survey){fresh(2, nil, 3, 4), away(0, 1, 2)}, "", 0, "2 of 5 masters can be reached"},
		{"a quorum is of another fleet", base, []func(s *Survey){func(s *Survey) {
			for i := 2; i < 5; i++ {
				s.Reports[i].shown(processMemory(i, 2), other)
			}
		}}, "", 0, "(m2, m3, m4: it belongs to another fleet)"},
		{"the records of a quorum are gone", nil, []func(s *Survey){func(s *Survey) {
			for i := range s.Reports {
				s.Reports[i].shown(processMemory(i, 1), base)
				s.Reports[i].Record = nil
			}
		}}, "", 0, "(m0, m1, m2, m3, m4: it shows a membership whose record is not there"},
		{"a record before had a longer wait", base, []func(s *Survey){fresh(2, base.Changed(func(r *Record) { r.Wait = time.Hour }), 2, 3, 4)},
			"lllll", time.Hour, ""},
		{"one record before had a longer wait", base, []func(s *Survey){fresh(2, nil, 2, 3), fresh(2, base.Changed(func(r *Record) { r.Wait = time.Hour }), 4)},
			"lllll", time.Hour, "m4 alone remembers that waits were 1h0m0s"},
		{"one has accepted a child with a longer wait", base, []func(s *Survey){fresh(2, nil, 2, 3, 4), accepting(base.Changed(func(r *Record) { r.Version, r.Parent, r.Wait = 8, base.Digest, time.Hour }), 1)},
			"lllll", time.Hour, ""},
		{"one has accepted a founding with a longer wait", base, []func(s *Survey){fresh(2, nil, 2, 3, 4), accepting(later.Changed(func(r *Record) { r.Wait = time.Hour }), 1)},
			"lllll", time.Hour, ""},
		{"two foundings before are remembered", base, []func(s *Survey){fresh(2, later, 2), fresh(2, last, 3), fresh(2, later, 4)}, "llll", 8 * time.Second, ""},
		{"a founding before is remembered where it has no seat", base, []func(s *Survey){fresh(2, nil, 2, 3, 4), fresh(2, last, 1)}, "lllll", 8 * time.Second, ""},
		{"the text of a founding before is gone", base, []func(s *Survey){fresh(2, nil, 2, 3, 4), showing(last, 0), func(s *Survey) { s.Reports[0].Record = nil }},
			"lllll", 8 * time.Second, "m1 alone remembers that waits were 8s"},
		{"some were not asked", base, []func(s *Survey){fresh(2, nil, 0, 1, 2), func(s *Survey) { s.Reports = s.Reports[:3] }}, "lll--", 8 * time.Second, ""},
		{"a quarter of the wait is no whole millisecond", base.Changed(func(r *Record) { r.Wait = 8001 * ms }), []func(s *Survey){elsewhere(2, 3, 4)}, "lllll", 8001 * ms, ""},
		{"one was leaving", base.Changed(func(r *Record) { r.Seats[4].Memory, r.Seats[4].State = "", Leaving }), []func(s *Survey){fresh(2, nil, 1, 2, 3)}, "llll", 8 * time.Second, ""},
		{"one shows what nobody else knows", base, []func(s *Survey){fresh(2, nil, 1, 2, 3), func(s *Survey) {
			s.Reports[4].shown(processMemory(4, 1), base.Changed(func(r *Record) { r.Version = 99 }))
		}}, "lllll", 8 * time.Second, ""},
	} {
		s := surveyOf(cmp.Or(tc.base, base))
		for _, find := range tc.find {
			find(s)
		}
		o := o
		if tc.base != nil {
			o.FoundingWait = 0
		}
		base := s.Remains(tc.base)
		f, why := s.Founding(base, o)
		if f == nil {
			if tc.states != "" || !strings.Contains(why, tc.why) || (why == "") != (tc.why == "") {
				t.Errorf("%s: got no founding, %q, want %q, %q", tc.name, why, tc.states, tc.why)
			}
			continue
		}
		if got := stateLetters(f); got != tc.states || f.Wait != tc.wait || why != tc.why {
			t.Errorf("%s: got %s, wait %v, %q, want %q, %v, %q", tc.name, got, f.Wait, why, tc.states, tc.wait, tc.why)
		}
		if err := f.Check(); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		generation := int64(1)
		if base != nil {
			generation = base.Generation + 1
			if f.Fleet() != base.Fleet() || f.Lineage == base.Lineage {
				t.Errorf("%s: lineage %s, want another one of the fleet of %s", tc.name, f.Lineage, base.Lineage)
			}
		}
		for _, a := range s.Reports { // whatever its masters show, or have shown, is older
			if one := f.Seat(a.Place); one != nil && one.State == Learner {
				generation = max(generation, a.ShownID().generation+1)
			}
		}
		if f.Generation != generation || f.Version != 0 {
			t.Errorf("%s: got generation %d, version %d, want %d, 0", tc.name, f.Generation, f.Version, generation)
		}
	}
}

// Each founding takes over the wait of the one before. What it waits for on top of max_ttl is in that already.
func TestFoundingsDoNotAddUp(t *testing.T) {
	r := votersRecord(5).Changed(func(r *Record) { r.Wait = r.Needed(usualDrift) })
	most := r.Wait + RecheckWithin(time.Hour)
	for n := range 20 {
		s := surveyOf(r)
		for i := range s.Reports {
			s.Reports[i].shown(processMemory(i, n+2), nil)
			s.Reports[i].Before = r
		}
		if r, _ = s.Founding(r, Options{Drift: usualDrift}); r == nil || r.Wait > most || r.Wait < most-RecheckWithin(time.Hour) {
			t.Fatalf("founding %d: got %+v, want a wait of %v at most", n+1, r, most)
		}
	}
}

// A founding is of a later generation than all that its masters show or remember, also where the text is gone or names other masters.
func TestGenerationOfAFounding(t *testing.T) {
	base := votersRecord(5)
	later := base.Changed(func(r *Record) { r.Generation, r.Seats[4].Name = 9, "another" })
	for _, text := range []*Record{later, nil} {
		s := surveyOf(base)
		for i := 1; i < 5; i++ {
			s.Reports[i].shown(processMemory(i, 2), nil)
		}
		if s.Reports[4].Before = later; text == nil {
			s.Reports[4].shown(processMemory(4, 2), later)
			s.Reports[4].Record = nil
		}
		if f, why := s.Founding(base, Options{Drift: usualDrift}); f == nil || f.Generation != 10 {
			t.Errorf("got %+v, %s, want generation 10", f, why)
		}
	}
}

// The record that a founding follows, and what a master counts for.
func TestRemains(t *testing.T) {
	own := votersRecord(5)
	version := func(v int64) *Record { return own.Changed(func(r *Record) { r.Version = v }) }
	for _, tc := range []struct {
		name   string
		own    *Record
		change func(f *Report)
		want   int64
	}{
		{"one is ahead", own, func(f *Report) { f.shown(f.State.Memory, version(9)) }, 9},
		{"one was ahead before it forgot", own, func(f *Report) { f.shown(f.State.Memory, nil); f.Before = version(9) }, 9},
		{"one that is not reached is ahead", own, func(f *Report) { f.shown(f.State.Memory, version(9)); f.Err = errAway }, 7},
		{"one is behind", own, func(f *Report) { f.shown(f.State.Memory, version(5)) }, 7},
		{"one has a record without a seat of its own", own, func(f *Report) {
			f.shown(f.State.Memory, own.Changed(func(r *Record) { r.Version, r.Seats[4].Name, r.Seats[4].Addr = 9, "another", "m9" }))
		}, 7},
		{"one has a record with its address", own, func(f *Report) {
			f.shown(f.State.Memory, own.Changed(func(r *Record) { r.Version, r.Seats[4].Name = 9, "another" }))
		}, 9},
		{"one has a record with its name", own, func(f *Report) {
			f.shown(f.State.Memory, own.Changed(func(r *Record) { r.Version, r.Seats[4].Addr = 9, "m9" }))
		}, 9},
		{"nothing was known", nil, func(f *Report) { f.shown(f.State.Memory, version(9)) }, 9},
	} {
		s := surveyOf(own)
		tc.change(s.Reports[4])
		if got := s.Remains(tc.own); got == nil || got.Version != tc.want {
			t.Errorf("%s: got %v, want version %d", tc.name, got, tc.want)
		}
	}
	child := own.Child().Seal()
	f := foundAt(0, processMemory(0, 1), child)
	if !f.standsAt(own) || f.ShownID() != child.ID() {
		t.Error("who has settled on a child stands at its parent, and shows the child")
	}
	f.shown(f.State.Memory, nil)
	f.Before = child
	if f.standsAt(own) || f.ShownID() != child.ID() {
		t.Error("who has forgotten stands nowhere, and shows what the memory before left")
	}
	if f.Before = nil; f.ShownID() != (RecordID{}) {
		t.Errorf("a fresh memory shows %v", f.ShownID())
	}
	f.shown(f.State.Memory, child)
	if f.Err = errAway; f.ShownID() != (RecordID{}) || len((&Survey{Reports: []*Report{f}}).Settled()) != 0 {
		t.Error("who is not reached shows a record")
	}
}

// No founding while some proxy hears a memory that this one does not find at its address.
func TestHeardElsewhere(t *testing.T) {
	const heartbeat = 250 * ms
	heard := func(place int, ago time.Duration) func(s *Survey) {
		return func(s *Survey) {
			for _, f := range s.Reports {
				f.Fields[HeardField(place)] = fmt.Sprint(s.Began.Add(-ago).UnixMilli())
			}
		}
	}
	for _, tc := range []struct {
		name string
		find []func(s *Survey)
		want string
	}{
		{"all are found", []func(s *Survey){heard(4, 0)}, ""},
		{"one is not reached, and was heard just now", []func(s *Survey){func(s *Survey) { s.Reports[4].Err = errAway }, heard(4, 3*heartbeat)}, "m4"},
		{"another process is there, and it was heard just now", []func(s *Survey){func(s *Survey) { s.Reports[4].shown("new:0000000000000001", nil) }, heard(4, 3*heartbeat)}, "m4"},
		{"it was heard long ago", []func(s *Survey){func(s *Survey) { s.Reports[4].Err = errAway }, heard(4, 4*heartbeat)}, ""},
		{"its process has another memory", []func(s *Survey){func(s *Survey) { s.Reports[4].shown(processMemory(4, 2), nil) }, heard(4, 0)}, ""},
		{"one master alone says so", []func(s *Survey){away(4), func(s *Survey) { s.Reports[0].Fields[HeardField(4)] = fmt.Sprint(s.Began.UnixMilli()) }}, ""},
		{"one master alone is left that shows the record, and says so", []func(s *Survey){showing(nil, 1, 2, 3), away(4), heard(4, 0)}, "m4"},
		{"it will be heard, say masters whose clocks were ahead", []func(s *Survey){away(4), heard(4, -time.Hour)}, ""},
		{"they were ahead by less than clocks may differ", []func(s *Survey){away(4), heard(4, -5*heartbeat), func(s *Survey) {
			for _, f := range s.Reports {
				f.Skew = time.Hour
			}
		}}, ""},
		{"nobody says so", []func(s *Survey){func(s *Survey) { s.Reports[4].Err = errAway }}, ""},
		{"nobody is reached", []func(s *Survey){away(0, 1, 2, 3, 4), heard(4, 0)}, ""},
		{"masters say so that show another record", []func(s *Survey){
			showing(votersRecord(5).Changed(func(r *Record) { r.Version = 6 }), 0, 1, 2, 3), away(4), heard(4, 0)}, ""},
	} {
		base := votersRecord(5)
		s := surveyOf(base)
		for _, find := range tc.find {
			find(s)
		}
		if got := s.HeardElsewhere(base, 4*heartbeat); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
	vacant := votersRecord(5).Changed(func(r *Record) { r.Seats[4].Memory, r.Seats[4].State = "", Vacant })
	s := surveyOf(vacant)
	s.Reports[4].Err = errAway
	heard(4, 0)(s)
	if got := s.HeardElsewhere(vacant, 4*heartbeat); got != "" {
		t.Errorf("nobody has the seat that was heard before: got %q, want none", got)
	}
}

// Only surveys that began while a client knew of a wait say how much of it has passed.
func TestElapsed(t *testing.T) {
	r := votersRecord(5)
	s := surveyOf(r)
	w := &wait{since: s.Began, clocks: make(map[string]clockWatch)}
	for _, tt := range []struct{ at, want time.Duration }{{-time.Minute, 0}, {0, 0}, {3 * time.Second, 3 * time.Second}, {-time.Minute, 0}, {5 * time.Second, 5 * time.Second}} {
		one := surveyOf(r)
		one.Began = s.Began.Add(tt.at)
		for _, f := range one.Reports {
			f.Clock = one.Began
		}
		if got := w.elapsed(one, r); got != tt.want {
			t.Errorf("%v behind the begin: %v have passed, want %v", tt.at, got, tt.want)
		}
	}
}

// A wait is over when it has passed on the clock here and on those of a quorum, or when a quorum of the listed memories was told of its beginning so long ago, by their
// own clocks, and all clocks agree.
func TestWhenAWaitIsOver(t *testing.T) {
	r := votersRecord(5).Changed(func(r *Record) { r.Seats[4].State, r.Seats[4].Since = Learner, 6 })
	timer := r.StampField(r.Seat(4))
	o := Options{ClockSkewMax: time.Second, Drift: usualDrift}
	skew := o.ClockSkewMax
	wait := r.Quarantine(o.Drift)
	enough := wait + 2*skew
	stamped := func(field string, ago time.Duration, places ...int) func(s *Survey) {
		return func(s *Survey) {
			for _, i := range places {
				s.Reports[i].Fields[field] = fmt.Sprint(s.Reports[i].Clock.Add(-ago).UnixMilli())
			}
		}
	}
	ahead := func(by time.Duration, places ...int) func(s *Survey) {
		return func(s *Survey) {
			for _, i := range places {
				s.Reports[i].Clock = s.Reports[i].Clock.Add(by)
			}
		}
	}
	for _, tc := range []struct {
		name  string
		known time.Duration // for how long this client has known of it
		find  []func(s *Survey)
		want  time.Duration
	}{
		{"known just now", 0, nil, wait},
		{"a part of it has passed", wait - 1, nil, 1},
		{"it has passed", wait, nil, 0},
		{"it has passed here, and our clock is fast", wait, []func(s *Survey){ahead(-ms, 0, 1, 2, 3, 4)}, ms},
		{"it has passed here, and three clocks are slow", wait, []func(s *Survey){ahead(-ms, 1, 2), ahead(-10*ms, 0)}, ms},
		{"it has passed here, and two clocks are slow", wait, []func(s *Survey){ahead(-time.Hour, 1, 2)}, 0},
		{"it has passed on the masters' clocks", wait - ms, []func(s *Survey){ahead(time.Hour, 0, 1, 2, 3, 4)}, ms},
		{"it has passed here, and too few masters are reached that show the record", wait, []func(s *Survey){away(0, 1, 2)}, wait},
		{"all were told long ago", 0, []func(s *Survey){stamped(timer, enough, 0, 1, 2, 3, 4)}, 0},
		{"a quorum was told long ago", 0, []func(s *Survey){stamped(timer, enough, 0, 3, 4)}, 0},
		{"a minority was told long ago", 0, []func(s *Survey){stamped(timer, enough, 3, 4)}, wait},
		{"they were told a little later", 0, []func(s *Survey){stamped(timer, enough-ms, 0, 1, 2, 3, 4)}, ms},
		{"they were told of another listing", 0, []func(s *Survey){stamped(r.stamp("4", 5), enough, 0, 1, 2, 3, 4)}, wait},
		{"they were told of another founding", 0, []func(s *Survey){stamped(strings.ReplaceAll(timer, ourLineage, laterLineage), enough, 0, 1, 2, 3, 4)}, wait},
		{"one of the quorum shows another record", 0, []func(s *Survey){stamped(timer, enough, 0, 3, 4), func(s *Survey) {
			s.Reports[3].shown(processMemory(3, 1), r.Changed(func(r *Record) { r.Version = 6 }))
		}}, wait},
		{"one of the quorum has another memory", 0, []func(s *Survey){stamped(timer, enough, 0, 3, 4), func(s *Survey) {
			s.Reports[3].shown(processMemory(3, 2), r)
		}}, wait},
		{"a clock within what clocks may differ", 0, []func(s *Survey){ahead(skew, 1), stamped(timer, enough, 0, 3, 4)}, 0},
		{"a clock beyond what clocks may differ, of one that is not needed", 0, []func(s *Survey){ahead(time.Hour, 1), stamped(timer, enough, 0, 3, 4)}, 0},
		{"the same, of one that is needed", 0, []func(s *Survey){ahead(skew+ms, 3), stamped(timer, enough, 0, 3, 4)}, wait},
		{"three clocks differ from the one here", 0, []func(s *Survey){ahead(-time.Hour, 0, 1, 2), stamped(timer, enough, 0, 1, 2, 3, 4)}, wait},
		{"stamps of times to come", 0, []func(s *Survey){stamped(timer, -time.Hour, 0, 1), stamped(timer, enough, 2, 3)}, wait},
		{"two masters make up stamps", 0, []func(s *Survey){func(s *Survey) {
			s.Reports[0].Fields[timer], s.Reports[1].Fields[timer], s.Reports[2].Fields[timer] = "0", "0", "-9223372036854775808"
		}}, wait},
		{"all clocks differ from the one here", 0, []func(s *Survey){ahead(-skew-ms, 0, 1, 2, 3, 4), stamped(timer, enough, 0, 1, 2, 3, 4)}, wait},
		{"a clock that is not reached", 0, []func(s *Survey){ahead(time.Hour, 1), func(s *Survey) { s.Reports[1].Err = errAway }, stamped(timer, enough, 0, 3, 4)}, 0},
	} {
		s := surveyOf(r)
		for _, find := range tc.find {
			find(s)
		}
		w := Waits{}.Under(r, o.Drift, s.Began.Add(-tc.known))[timer]
		for i := range r.Seats {
			w.clocks[r.Seats[i].Memory] = clockWatch{w.since, w.since}
		}
		if got := w.Left(s, r, timer, o); got != tc.want {
			t.Errorf("%s: got %v left, want %v", tc.name, got, tc.want)
		}
	}
	// What the masters' clocks said before this client looked tells no age.
	s := surveyOf(r)
	all := Waits{}.Under(r, o.Drift, s.Began.Add(-wait))
	if got := all[timer].Left(s, r, timer, o); got != wait {
		t.Errorf("first look: got %v left, want %v", got, wait)
	}
	all = all.Under(r, o.Drift, s.Began) // the same wait runs on
	later := surveyOf(r)
	later.Began = later.Began.Add(wait)
	for _, f := range later.Reports {
		f.Clock, f.Sent, f.Received = later.Began, later.Began, later.Began
	}
	if got := all[timer].Left(later, r, timer, o); got != 0 {
		t.Errorf("a wait later: got %v left, want none", got)
	}
}

// usualDrift is what follows from the defaults of redlock.Options.
var usualDrift = clock.Drift{Factor: 0.01, StepMax: 10 * time.Millisecond}

var errAway = errors.New("the master is away")

// A voter whose clock is out of step becomes a learner, as long as a quorum of the others vote: one at a time, and not again and again.
func TestPlanOfAClockOutOfStep(t *testing.T) {
	for _, tt := range []struct {
		what      string
		out       []int
		paused    int // a seat that changed just now; -1: none
		silent    []int
		behind    []int // they show an older record
		learner   int   // a seat that does not vote; -1: none
		want      string
		nobodySay bool
	}{
		{what: "nobody says so", nobodySay: true, out: []int{1}, paused: -1, learner: -1},
		{what: "one", out: []int{1}, paused: -1, learner: -1, want: "m2"},
		{what: "two", out: []int{1, 3}, paused: -1, learner: -1, want: "m2"},
		{what: "beside a learner", out: []int{1}, paused: -1, learner: 4, want: "m2"},
		{what: "a learner", out: []int{4}, paused: -1, learner: 4},
		{what: "two are silent", out: []int{1}, paused: -1, silent: []int{2, 3}, learner: -1},
		{what: "one is silent", out: []int{1}, paused: -1, silent: []int{2}, learner: -1, want: "m2"},
		{what: "one is silent, beside a learner", out: []int{1}, paused: -1, silent: []int{2}, learner: 4},
		{what: "two are behind", out: []int{1}, paused: -1, behind: []int{2, 3}, learner: -1},
		{what: "it is behind itself", out: []int{1}, paused: -1, behind: []int{1}, learner: -1},
		{what: "it is silent itself", out: []int{1}, paused: -1, silent: []int{1}, learner: -1},
		{what: "it was changed just now", out: []int{1}, paused: 1, learner: -1},
	} {
		r := testRecord()
		r.Seats = nil
		for i := range 5 {
			r.Seats = append(r.Seats, Seat{Number: i, Name: fmt.Sprint("m", i+1), Addr: fmt.Sprint("m", i+1), Memory: memoryOf(fmt.Sprint("a", i)), State: Voter})
		}
		if tt.learner >= 0 {
			r.Seats[tt.learner].State = Learner
		}
		r.Seal()
		s := surveyOf(r)
		for _, i := range tt.silent {
			s.Reports[i].Err = errors.New("silent")
		}
		for _, i := range tt.behind {
			s.Reports[i].shown(r.Seats[i].Memory, r.Changed(func(r *Record) { r.Version-- }))
		}
		n := &Situation{Record: r, Survey: s, Left: func(string) time.Duration { return time.Hour }, Paused: func(place int) bool { return place == tt.paused },
			OutOfStep: func(place int) string {
				if slices.Contains(tt.out, place) {
					return "its clock gained"
				}
				return ""
			}}
		if tt.nobodySay {
			n.OutOfStep = nil
		}
		d := n.Next()
		if d.Child == nil {
			if tt.want != "" || d.Demoted != nil {
				t.Errorf("%s: nothing changes, want %s to become a learner", tt.what, tt.want)
			}
			continue
		}
		if err := CheckChild(r, d.Child.Seal()); err != nil {
			t.Errorf("%s: %v", tt.what, err)
		}
		for i := range d.Child.Seats {
			before, after := &r.Seats[i], &d.Child.Seats[i]
			became := before.State == Voter && after.State == Learner
			if became != (after.Name == tt.want) || after.Memory != before.Memory || became && (after.Since != d.Child.Version || d.Demoted.Place != i || d.Why != "its clock gained") {
				t.Errorf("%s: %s: got %+v, was %+v", tt.what, after.Name, after, before)
			}
		}
	}
}
