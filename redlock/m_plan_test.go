package redlock

// Goal: what follows from a survey is what the rules say: who is believed, who becomes a learner or a voter, when a wait is over, and
// when the membership may be founded anew. Method: tables. Each case changes one thing of a membership of five voters, all of which
// show it, or of masters that nobody has used.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/fence"
)

const (
	ourLineage   = "0123456789abcdef"
	laterLineage = "01234567fedcba98" // of the same fleet
	otherLineage = "fedcba9876543210"
)

// processMemory names a memory of the process at a place: the first, the second …
func processMemory(place, nth int) string { return fmt.Sprintf("run%d:%016x", place, nth) }

// votersRecord is version 7 of n voters.
func votersRecord(n int) *record {
	r := &record{generation: 3, lineage: ourLineage, version: 7, parent: strings.Repeat("5a", digestLen/2),
		maxTTL: 2 * time.Second, wait: 3 * time.Second}
	for i := range n {
		r.seats = append(r.seats, seat{number: i, name: fmt.Sprint("m", i), addr: fmt.Sprint("m", i), memory: processMemory(i, 1), state: seatVoter})
	}
	return r.seal()
}

// foundAt is what a master shows that has settled on r; nil: it is fresh.
func foundAt(place int, memory string, r *record) *found {
	f := &found{place: place, master: conn.Master{Addr: fmt.Sprint("m", place)}, runID: memberState{memory: memory}.runID(), fields: make(map[string]string)}
	f.shown(memory, r)
	return f
}

func (f *found) shown(memory string, r *record) {
	f.state, f.record = memberState{memory: memory, fresh: r == nil}, r
	if r != nil {
		f.state.record = r.recordID()
	}
	f.v = f.state.String()
	f.fields["v"] = f.v
}

// surveyOf is a survey in which all listed memories show the record.
func surveyOf(r *record) *survey {
	s := &survey{began: time.Unix(1_800_000_000, 0)}
	for i := range r.seats {
		f := foundAt(r.seats[i].number, r.seats[i].memory, r)
		f.clock, f.sent, f.received = s.began, s.began, s.began
		s.found = append(s.found, f)
	}
	return s
}

// places are the numbers of the seats, as text.
func places(list []*found) (text string) {
	for _, f := range list {
		text += fmt.Sprint(f.place)
	}
	return text
}

func stateLetters(r *record) (text string) {
	for i := range r.seats {
		text += string(rune(r.seats[i].state))
	}
	return text
}

func TestNextRecord(t *testing.T) {
	const none = ""
	gone := errors.New("no answer")
	learner := func(i int) func(r *record) {
		return func(r *record) { r.seats[i].state, r.seats[i].since = seatLearner, 6 }
	}
	leaving := func(r *record) { r.seats[4].memory, r.seats[4].state, r.seats[4].since = "", seatLeaving, 6 }
	longWait := func(r *record) {
		r.maxTTL, r.wait, r.ttlSince = time.Second, 3*time.Second, 5
	}
	over := func(timers ...string) func(n *situation) {
		return func(n *situation) {
			n.left = func(timer string) time.Duration {
				if slices.ContainsFunc(timers, func(t string) bool { return strings.HasSuffix(timer, t) }) {
					return 0
				}
				return 1
			}
		}
	}
	for _, tc := range []struct {
		name   string
		record func(r *record)
		find   func(n *situation) // changes what was found and what is known
		want   string             // states of the seats, and the places whose floors are raised; "": no change
	}{
		{"all is well", nil, nil, none},
		{"a master is silent", nil, func(n *situation) { n.survey.found[4].err = gone }, none},
		{"a master was not asked", nil, func(n *situation) { n.survey.found = n.survey.found[:4] }, none},
		{"another memory", nil, func(n *situation) { n.survey.found[4].shown(processMemory(4, 2), nil) }, "vvvvl []"},
		{"another memory, of a record before", nil, func(n *situation) {
			n.survey.found[4].shown(processMemory(4, 2), n.record.changed(func(r *record) { r.version = 5 }))
		}, "vvvvl []"},
		{"other memories at two seats", nil, func(n *situation) {
			n.survey.found[1].shown(processMemory(1, 2), nil)
			n.survey.found[4].shown(processMemory(4, 2), nil)
		}, "vlvvv []"}, // one after the other
		{"another memory, of another fleet", nil, func(n *situation) {
			n.survey.found[4].shown(processMemory(4, 2), n.record.changed(func(r *record) { r.lineage = otherLineage }))
		}, none},
		{"another memory that is refused", nil, func(n *situation) {
			n.survey.found[4].shown(processMemory(4, 2), nil)
			n.survey.found[4].err = &conn.RefusedError{Reason: "a replica"}
		}, none},
		{"another memory of a seat that pauses", nil, func(n *situation) {
			n.survey.found[4].shown(processMemory(4, 2), nil)
			n.paused = func(place int) bool { return place == 4 }
		}, none},
		{"the memory of another seat", nil, func(n *situation) { n.survey.found[4].shown(processMemory(3, 1), n.record) }, none},
		{"a vacant seat is found", func(r *record) { r.seats[4].memory, r.seats[4].state = "", seatVacant },
			func(n *situation) { n.survey.found[4].shown(processMemory(4, 2), nil) }, "vvvvl []"},

		{"a learner waits", learner(4), nil, none},
		{"a learner whose wait is over", learner(4), over(":4@6"), "vvvvv [4]"},
		{"a learner while the wait of an earlier listing is over", learner(4), over(":4@5"), none},
		{"a learner while another wait is over", learner(4), over(":3@6"), none},
		{"a learner whose wait is over, and that is not reached", learner(4),
			func(n *situation) { over(":4@6")(n); n.survey.found[4].err = gone }, none},
		{"a learner whose wait is over, and that shows an older record", learner(4), func(n *situation) {
			over(":4@6")(n)
			n.survey.found[4].shown(processMemory(4, 1), n.record.changed(func(r *record) { r.version = 6 }))
		}, none},
		{"a learner whose wait is over, and that has forgotten again", learner(4), func(n *situation) {
			over(":4@6")(n)
			n.survey.found[4].shown(processMemory(4, 2), nil)
		}, "vvvvl []"},

		{"a leaving seat waits", leaving, nil, none},
		{"a leaving seat with a master", leaving, func(n *situation) { n.survey.found[4].shown(processMemory(4, 2), nil) }, none},
		{"a leaving seat whose wait is over", leaving, over(":4@6"), "vvvv [0 1 2 3]"},
		{"a leaving seat whose wait is over, while voters are dead that cannot be a quorum alone", leaving, func(n *situation) {
			over(":4@6")(n)
			n.survey.found[2].err, n.survey.found[3].err = gone, gone
		}, "vvvv [0 1]"},
		{"a leaving seat whose wait is over, while voters are dead that can be a quorum alone", leaving, func(n *situation) {
			over(":4@6")(n)
			n.survey.found[1].err, n.survey.found[2].err = gone, gone
			n.survey.found = n.survey.found[:3]
		}, "vvvv [0 1 2 3]"},
		{"a leaving seat and a learner whose waits are over", func(r *record) { leaving(r); learner(2)(r) }, over(":4@6", ":2@6"), "vvvv [2 0 1 3]"},

		{"max_ttl was lowered", longWait, nil, none},
		{"max_ttl was lowered, and the wait is over", longWait, over(":ttl@5"), "vvvvv [] wait 1.01s"},
	} {
		r := votersRecord(5)
		if tc.record != nil {
			r = r.changed(tc.record)
		}
		n := &situation{record: r, survey: surveyOf(r), left: func(string) time.Duration { return 1 }, paused: func(int) bool { return false }}
		if tc.find != nil {
			tc.find(n)
		}
		d := n.next()
		got := none
		if d.child != nil {
			if err := checkChild(r, d.child.seal()); err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			got = fmt.Sprint(stateLetters(d.child), " ", d.raise)
			if d.raise == nil {
				got = stateLetters(d.child) + " []"
			}
			if d.child.wait != r.wait {
				got += fmt.Sprint(" wait ", d.child.wait)
			}
			if len(d.changes) == 0 {
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
		record func(r *record)
		find   func(s *survey)
		floor  int64
		cold   bool
	}{
		{"all voters", nil, nil, 5, false},
		{"a quorum of voters", nil, func(s *survey) { s.found[0].err, s.found[4].err = errAway, errAway }, 4, false},
		{"too few voters are reached", nil, func(s *survey) { s.found[0].err, s.found[1].err, s.found[4].err = errAway, errAway, errAway },
			fence.Time(wall.Add(2 * skew)), true},
		{"a learner's fences are not those of a voter", func(r *record) { r.seats[4].state = seatLearner }, nil, 4, false},
		{"too few voters", func(r *record) {
			r.seats[0].state, r.seats[1].state, r.seats[4].state = seatLearner, seatLearner, seatLearner
		}, nil, fence.Time(wall.Add(2 * skew)), true},
		{"another memory", nil, func(s *survey) { s.found[4].shown(processMemory(4, 2), nil) }, 4, false},
		{"more than anybody gives", nil, func(s *survey) { s.found[4].high = day + 1 }, 4, false},
		{"as much as anybody gives", nil, func(s *survey) { s.found[4].high = day }, day, false},
		{"more, by a voter that is needed", nil, func(s *survey) { s.found[0].err, s.found[1].err, s.found[4].high = errAway, errAway, day+1 }, day + 1, false},
		{"more, by many", nil, func(s *survey) { s.found[2].high, s.found[3].high, s.found[4].high = day+1, day+2, day+3 }, day + 3, false},
		{"nobody remembers", func(r *record) {
			for i := range r.seats {
				r.seats[i].state = seatLearner
			}
		}, nil, fence.Time(wall.Add(2 * skew)), true},
	} {
		r := votersRecord(5)
		if tc.record != nil {
			r = r.changed(tc.record)
		}
		n := &situation{record: r, survey: surveyOf(r), wall: wall, skew: skew}
		for i, f := range n.survey.found {
			f.high = int64(i + 1)
		}
		if tc.find != nil {
			tc.find(n.survey)
		}
		if floor, cold := n.floor(); floor != tc.floor || cold != tc.cold {
			t.Errorf("%s: got %d, cold %v, want %d, %v", tc.name, floor, cold, tc.floor, tc.cold)
		}
	}
}

func TestTimersOfARecord(t *testing.T) {
	r := votersRecord(5).changed(func(r *record) {
		r.seats[1].state, r.seats[1].since = seatLearner, 4
		r.seats[2].memory, r.seats[2].state, r.seats[2].since = "", seatLeaving, 6
		r.seats[3].memory, r.seats[3].state, r.seats[3].since = "", seatVacant, 6
		r.wait, r.ttlSince = time.Minute, 5
	})
	want := []string{"s:3-" + ourLineage + ":1@4", "s:3-" + ourLineage + ":2@6", "s:3-" + ourLineage + ":ttl@5"}
	if got := timersOf(r, clock.Drift{}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A client goes on to a record when a quorum of the seats that it knows stand at it, whatever that record says of itself.
func TestSuccessor(t *testing.T) {
	own := votersRecord(5)
	after := func(r *record, change func(r *record)) *record {
		c := r.child()
		change(c)
		return c.seal()
	}
	demoted := func(place int) func(r *record) {
		return func(r *record) { r.seats[place].state, r.seats[place].since = seatLearner, r.version }
	}
	next := after(own, demoted(0))
	rivalChild := after(own, demoted(1))
	later := after(next, demoted(2))
	muchLater := after(after(after(later, demoted(3)), demoted(4)), func(r *record) { r.seats[3].addr = "elsewhere" })
	ofOneSeat := own.changed(func(r *record) { r.version, r.parent, r.seats = 99, next.digest, r.seats[4:] })
	childOfOneSeat := own.changed(func(r *record) { r.version, r.parent, r.seats = 8, own.digest, r.seats[4:] })
	refounded := own.changed(func(r *record) { r.generation, r.lineage, r.version, r.parent = 4, laterLineage, 0, "" })
	rival := own.changed(func(r *record) { r.lineage, r.version, r.parent = laterLineage, 0, "" })
	foreign := own.changed(func(r *record) { r.generation, r.lineage = 4, otherLineage })
	all := []int{0, 1, 2, 3, 4}
	for _, tc := range []struct {
		name string
		find []func(s *survey)
		want *record
	}{
		{"what is known", nil, nil},
		{"the next one", []func(s *survey){showing(next, all...)}, next},
		{"the next one, of a quorum", []func(s *survey){showing(next, 2, 3, 4)}, next},
		{"the next one, of a minority", []func(s *survey){showing(next, 3, 4)}, nil},
		{"the next one, of one, and accepted by the others", []func(s *survey){showing(next, 4), accepting(next, 0, 1, 2, 3)}, nil},
		{"the next one, of memories that nobody knows", []func(s *survey){func(s *survey) {
			for i := range 5 {
				s.found[i].shown(processMemory(i, 2), next)
			}
		}}, next},
		{"the next one, of masters that are refused", []func(s *survey){showing(next, all...), away(0, 1, 2)}, nil},
		{"the one after it is under way", []func(s *survey){showing(next, 1, 2), showing(later, 3)}, next},
		{"the one after it is known to a quorum", []func(s *survey){showing(next, 1, 2), showing(later, 0, 3, 4)}, later},
		{"much later, of a quorum", []func(s *survey){showing(muchLater, 0, 1, 2)}, muchLater},
		{"a record of one seat, which is in force by itself", []func(s *survey){showing(ofOneSeat, 4)}, nil},
		{"the same, and the others are at the next one", []func(s *survey){showing(next, 0, 1, 2, 3), showing(ofOneSeat, 4)}, next},
		{"two at one version, of which one is known to a quorum with those after it", []func(s *survey){showing(next, 0, 1), showing(later, 2), showing(rivalChild, 3, 4)}, next},
		{"two at one version, of two masters each", []func(s *survey){showing(next, 0, 1), showing(rivalChild, 3, 4)}, nil},
		{"the next one changes more than a step may", []func(s *survey){showing(childOfOneSeat, all...)}, nil},
		{"founded anew", []func(s *survey){showing(refounded, 1, 2, 3)}, refounded},
		{"founded anew by a minority", []func(s *survey){showing(refounded, 1, 2)}, nil},
		{"founded by two at once, and the other has the quorum", []func(s *survey){showing(rival, 1, 2, 3)}, rival},
		{"founded by two at once, and ours has the quorum", []func(s *survey){showing(rival, 1, 2)}, nil},
		{"another fleet", []func(s *survey){showing(foreign, all...)}, nil},
	} {
		s := surveyOf(own)
		for _, find := range tc.find {
			find(s)
		}
		if got := s.successor(own); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
	s := surveyOf(own)
	if got := s.successor(next); got != nil {
		t.Errorf("one before: got %v, want none", got)
	}
}

// showing has the masters at these places settle on r, accepting has them accept it, and away has them not reached.
func showing(r *record, places ...int) func(s *survey) {
	return func(s *survey) {
		for _, i := range places {
			s.found[i].shown(processMemory(i, 1), r)
		}
	}
}

func accepting(child *record, places ...int) func(s *survey) {
	return func(s *survey) {
		for _, i := range places {
			s.found[i].state.child, s.found[i].child = child.digest, child
		}
	}
}

func away(places ...int) func(s *survey) {
	return func(s *survey) {
		for _, i := range places {
			s.found[i].err = errAway
		}
	}
}

// A client that starts goes by the record at which most masters stand, if those are a quorum of the memories that it lists.
func TestPrevailingRecord(t *testing.T) {
	own := votersRecord(5)
	next := own.child().seal()
	ofOneSeat := own.changed(func(r *record) { r.version, r.seats = 99, r.seats[4:] })
	for _, tc := range []struct {
		name string
		find []func(s *survey)
		want *record
	}{
		{"all show it", nil, own},
		{"too few show it", []func(s *survey){showing(nil, 0, 1, 2)}, nil},
		{"the next one, and one has forgotten", []func(s *survey){showing(next, 0, 1, 2, 3), showing(nil, 4)}, next},
		{"the next one is known to a few", []func(s *survey){showing(next, 0, 1)}, own},
		{"the next one is known to a few, and one has forgotten", []func(s *survey){showing(next, 0, 1), showing(nil, 4)}, own},
		{"memories that it does not list", []func(s *survey){func(s *survey) {
			for i := range 5 {
				s.found[i].shown(processMemory(i, 2), own)
			}
		}}, nil},
		{"one shows a newer record of one seat", []func(s *survey){showing(ofOneSeat, 4)}, own},
		{"the same, and too few of the others are reached", []func(s *survey){showing(ofOneSeat, 4), away(0, 1)}, nil},
		{"the same, and fewer still", []func(s *survey){showing(ofOneSeat, 4), away(0, 1), showing(nil, 2)}, ofOneSeat},
	} {
		s := surveyOf(own)
		for _, find := range tc.find {
			find(s)
		}
		if got := s.prevailing(); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

// A list of masters leads to the fleet of more than half of those that answer, or nowhere.
func TestFleetOfAList(t *testing.T) {
	own := votersRecord(5)
	other := own.changed(func(r *record) {
		r.lineage = otherLineage
		for i := range r.seats {
			r.seats[i].name, r.seats[i].addr = fmt.Sprint("s", i), fmt.Sprint("s", i)
		}
	})
	forgot := func(hint *record, places ...int) func(s *survey) {
		return func(s *survey) {
			for _, i := range places {
				s.found[i].shown(processMemory(i, 2), nil)
				s.found[i].record = hint
			}
		}
	}
	elsewhere := func(places ...int) func(s *survey) { // new masters at addresses that no seat has
		return func(s *survey) {
			for _, i := range places {
				s.found[i].shown(processMemory(i, 2), nil)
				s.found[i].master.Addr = fmt.Sprint("new", i)
			}
		}
	}
	ours, theirs := ourLineage[:fleetLen], otherLineage[:fleetLen]
	all := []int{0, 1, 2, 3, 4}
	for _, tc := range []struct {
		name  string
		find  []func(s *survey)
		want  string
		wrong string
	}{
		{"all are of one fleet", nil, ours, ""},
		{"all are new", []func(s *survey){forgot(nil, all...)}, "", ""},
		{"one is of another fleet", []func(s *survey){showing(other, 0)}, ours, ""},
		{"three are of another fleet", []func(s *survey){showing(other, 0, 1, 2)}, theirs, ""},
		{"two are of another fleet, one is not reached", []func(s *survey){showing(other, 0, 1), away(2)}, "", "m0, m1 to fleet fedcba98 (s0, s1, s2, s3, s4)"},
		{"one of two is of another fleet", []func(s *survey){showing(other, 0), away(1, 2, 3)}, "", "m4 to fleet 01234567 (m0, m1, m2, m3, m4)"},
		{"one is reached", []func(s *survey){away(0, 1, 2, 3)}, ours, ""},
		{"four have forgotten, and one leads to their seats", []func(s *survey){forgot(nil, 0, 1, 2, 3)}, ours, ""},
		{"all have forgotten, and some know what they were", []func(s *survey){forgot(nil, 0, 1, 2), forgot(own, 3, 4)}, ours, ""},
		{"all have forgotten, and know what they were", []func(s *survey){forgot(own, all...)}, ours, ""},
		{"four are new, and one is of another fleet", []func(s *survey){elsewhere(0, 1, 2, 3)}, "", "new0, new1, new2, new3 to none; m4 to fleet"},
	} {
		s := surveyOf(own)
		for _, find := range tc.find {
			find(s)
		}
		o := memberOptions{}
		for i := range 5 {
			o.Masters = append(o.Masters, conn.Master{Addr: s.found[i].master.Addr})
		}
		got, wrong := s.fleet(o)
		if got != tc.want || !strings.Contains(wrong, tc.wrong) || (wrong == "") != (tc.wrong == "") {
			t.Errorf("%s: got %q, %q, want %q, %q", tc.name, got, wrong, tc.want, tc.wrong)
		}
	}
}

// Who has to be told of the record in force, and who shows what cannot be chosen any more.
func TestWhoShowsAnotherRecord(t *testing.T) {
	own := votersRecord(5)
	version := func(v int64) *record { return own.changed(func(r *record) { r.version = v }) }
	founding := func(generation int64, lineage string) *record {
		return own.changed(func(r *record) { r.generation, r.lineage, r.version, r.parent = generation, lineage, 0, "" })
	}
	for _, tc := range []struct {
		name, memory    string
		shows           *record
		err             error
		untaught, stray bool
	}{
		{name: "the record in force", shows: own},
		{name: "fresh", shows: nil, untaught: true},
		{name: "a version before", shows: version(6), untaught: true},
		{name: "a version before, of a master that is not reached", shows: version(6), err: errAway},
		{name: "a version before, of another memory", memory: processMemory(2, 2), shows: version(6)},
		{name: "another record of the same version", shows: own.changed(func(r *record) { r.roster = 1 }), stray: true},
		{name: "a version after", shows: version(9), stray: true},
		{name: "a founding before", shows: founding(2, laterLineage), untaught: true},
		{name: "another founding of the same time", shows: founding(3, laterLineage), stray: true},
		{name: "a founding after, of a minority", shows: founding(4, laterLineage), stray: true},
		{name: "another founding, of a master that is refused", shows: founding(3, laterLineage), err: errAway},
		{name: "a founding of another fleet", shows: founding(3, otherLineage)},
	} {
		s := surveyOf(own)
		f := s.found[2]
		memory := tc.memory
		if memory == "" {
			memory = f.state.memory
		}
		f.shown(memory, tc.shows)
		f.err = tc.err
		if got := places(s.untaught(own)) != ""; got != tc.untaught {
			t.Errorf("%s: it is to be told: got %v, want %v", tc.name, got, tc.untaught)
		}
		if got := places(s.strays(own)) != ""; got != tc.stray {
			t.Errorf("%s: it shows what cannot be chosen: got %v, want %v", tc.name, got, tc.stray)
		}
	}
}

func TestUnfinishedStep(t *testing.T) {
	r := votersRecord(5)
	s := surveyOf(r)
	if s.unfinished(r) {
		t.Error("nobody has accepted anything: got unfinished")
	}
	s.found[3].state.child = strings.Repeat("c4", digestLen/2)
	if !s.unfinished(r) {
		t.Error("one has accepted a child: got nothing unfinished")
	}
	s.found[3].err = errAway
	if s.unfinished(r) {
		t.Error("who has accepted a child is not reached: got unfinished")
	}
}

// When the membership may be founded anew, and how long its masters wait then.
func TestFounding(t *testing.T) {
	o := memberOptions{MaxTTL: 2 * time.Second, FoundingWait: 10 * time.Second, Drift: usualDrift}
	for i := range 5 {
		o.Masters = append(o.Masters, conn.Master{Addr: fmt.Sprint("m", i)})
	}
	plus := func(wait time.Duration) time.Duration { return wait + recheckWithin(wait) }
	base := votersRecord(5).changed(func(r *record) { r.wait = 8 * time.Second })
	fresh := func(nth int, hint *record, places ...int) func(s *survey) {
		return func(s *survey) {
			for _, i := range places {
				s.found[i].shown(processMemory(i, nth), nil)
				s.found[i].record = hint
			}
		}
	}
	elsewhere := func(places ...int) func(s *survey) {
		return func(s *survey) {
			for _, i := range places {
				s.found[i].shown(fmt.Sprintf("new%d:%016x", i, 1), nil)
			}
		}
	}
	other := base.changed(func(r *record) { r.lineage = otherLineage })
	all := []int{0, 1, 2, 3, 4}
	for _, tc := range []struct {
		name   string
		base   *record // nil: none is known
		find   []func(s *survey)
		states string // of the founding; "": there is none
		wait   time.Duration
		why    string
	}{
		{"all are new", nil, []func(s *survey){fresh(1, nil, all...)}, "lllll", plus(o.FoundingWait), ""},
		{"a quorum is new, the others are not reached", nil, []func(s *survey){fresh(1, nil, all...), away(3, 4)}, "lll--", plus(o.FoundingWait), ""},
		{"a minority is reached", nil, []func(s *survey){fresh(1, nil, all...), away(2, 3, 4)}, "", 0, "2 of 5 masters can be reached"},
		{"one belongs to another fleet", nil, []func(s *survey){fresh(1, nil, all...), func(s *survey) {
			s.found[4].shown(processMemory(4, 1), other)
			s.found[4].record = nil
		}}, "llll-", plus(o.FoundingWait), ""},
		{"all remember what they were", nil, []func(s *survey){fresh(2, base, all...)}, "lllll", o.FoundingWait, ""},
		{"a quorum remembers", base, []func(s *survey){fresh(2, base, 3, 4)}, "", 0, ""},
		{"a quorum remembers, and none of the others is reached", base, []func(s *survey){away(3, 4)}, "", 0, ""},
		{"a quorum has forgotten in one process", base, []func(s *survey){fresh(2, nil, 2, 3, 4)}, "lllll", 8 * time.Second, ""},
		{"a quorum has forgotten, two are not reached", base, []func(s *survey){fresh(2, nil, 2, 3, 4), away(0, 1)}, "--lll", 8 * time.Second, ""},
		{"a quorum has other processes", base, []func(s *survey){elsewhere(2, 3, 4)}, "lllll", plus(8 * time.Second), ""},
		{"one of them has another process", base, []func(s *survey){fresh(2, nil, 2, 3), elsewhere(4)}, "lllll", plus(8 * time.Second), ""},
		{"a minority has forgotten, too few are reached", base, []func(s *survey){fresh(2, nil, 3, 4), away(0, 1, 2)}, "", 0, "2 of 5 masters can be reached"},
		{"a quorum is of another fleet", base, []func(s *survey){func(s *survey) {
			for i := 2; i < 5; i++ {
				s.found[i].shown(processMemory(i, 2), other)
			}
		}}, "", 0, "(m2, m3, m4: it belongs to another fleet)"},
		{"the records of a quorum are gone", nil, []func(s *survey){func(s *survey) {
			for i := range s.found {
				s.found[i].shown(processMemory(i, 1), base)
				s.found[i].record = nil
			}
		}}, "", 0, "(m0, m1, m2, m3, m4: it shows a membership whose record is not there"},
		{"a record before had a longer wait", base, []func(s *survey){fresh(2, base.changed(func(r *record) { r.wait = time.Hour }), 2, 3, 4)},
			"lllll", time.Hour, ""},
		{"one record before had a longer wait", base, []func(s *survey){fresh(2, nil, 2, 3), fresh(2, base.changed(func(r *record) { r.wait = time.Hour }), 4)},
			"lllll", time.Hour, "m4 alone remembers that waits were 1h0m0s"},
		{"one shows what nobody else knows", base, []func(s *survey){fresh(2, nil, 1, 2, 3), func(s *survey) {
			s.found[4].shown(processMemory(4, 1), base.changed(func(r *record) { r.version = 99 }))
		}}, "lllll", 8 * time.Second, ""},
	} {
		s := surveyOf(base)
		for _, find := range tc.find {
			find(s)
		}
		o := o
		if tc.base != nil {
			o.FoundingWait = 0
		}
		base := s.remains(tc.base)
		f, why := s.founding(base, o)
		if f == nil {
			if tc.states != "" || !strings.Contains(why, tc.why) || (why == "") != (tc.why == "") {
				t.Errorf("%s: got no founding, %q, want %q, %q", tc.name, why, tc.states, tc.why)
			}
			continue
		}
		if got := stateLetters(f); got != tc.states || f.wait != tc.wait || why != tc.why {
			t.Errorf("%s: got %s, wait %v, %q, want %q, %v, %q", tc.name, got, f.wait, why, tc.states, tc.wait, tc.why)
		}
		if err := f.check(); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		generation := int64(1)
		if base != nil {
			generation = base.generation + 1
			if !f.recordID().sameFleet(base.recordID()) || f.lineage == base.lineage {
				t.Errorf("%s: lineage %s, want another one of the fleet of %s", tc.name, f.lineage, base.lineage)
			}
		}
		if f.generation != generation || f.version != 0 {
			t.Errorf("%s: got generation %d, version %d, want %d, 0", tc.name, f.generation, f.version, generation)
		}
	}
}

// No founding while some proxy hears a memory that this one does not find at its address.
func TestHeardElsewhere(t *testing.T) {
	const heartbeat = 250 * ms
	heard := func(place int, ago time.Duration) func(s *survey) {
		return func(s *survey) {
			for _, f := range s.found {
				f.fields[heardField(place)] = fmt.Sprint(s.began.Add(-ago).UnixMilli())
			}
		}
	}
	for _, tc := range []struct {
		name string
		find []func(s *survey)
		want string
	}{
		{"all are found", []func(s *survey){heard(4, 0)}, ""},
		{"one is not reached, and was heard just now", []func(s *survey){func(s *survey) { s.found[4].err = errAway }, heard(4, 3*heartbeat)}, "m4"},
		{"another process is there, and it was heard just now", []func(s *survey){func(s *survey) { s.found[4].shown("new:0000000000000001", nil) }, heard(4, 3*heartbeat)}, "m4"},
		{"it was heard long ago", []func(s *survey){func(s *survey) { s.found[4].err = errAway }, heard(4, 4*heartbeat)}, ""},
		{"its process has another memory", []func(s *survey){func(s *survey) { s.found[4].shown(processMemory(4, 2), nil) }, heard(4, 0)}, ""},
		{"one master alone says so", []func(s *survey){away(4), func(s *survey) { s.found[0].fields[heardField(4)] = fmt.Sprint(s.began.UnixMilli()) }}, ""},
		{"one master alone is left that shows the record, and says so", []func(s *survey){showing(nil, 1, 2, 3), away(4), heard(4, 0)}, "m4"},
		{"it will be heard, say masters whose clocks were ahead", []func(s *survey){away(4), heard(4, -time.Hour)}, ""},
		{"nobody says so", []func(s *survey){func(s *survey) { s.found[4].err = errAway }}, ""},
	} {
		base := votersRecord(5)
		s := surveyOf(base)
		for _, find := range tc.find {
			find(s)
		}
		if got := s.heardElsewhere(base, 4*heartbeat); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// A wait is over when it has passed on the clock here and on those of a quorum, or when a quorum of the listed memories was told of its beginning so long ago, by their
// own clocks, and all clocks agree.
func TestWhenAWaitIsOver(t *testing.T) {
	r := votersRecord(5).changed(func(r *record) { r.seats[4].state, r.seats[4].since = seatLearner, 6 })
	timer := r.stampField(r.seat(4))
	o := memberOptions{ClockSkewMax: time.Second, Drift: usualDrift}
	skew := o.ClockSkewMax
	wait := max(r.wait, clock.QuarantineOf(r.maxTTL, o.Drift))
	enough := wait + 2*skew
	stamped := func(field string, ago time.Duration, places ...int) func(s *survey) {
		return func(s *survey) {
			for _, i := range places {
				s.found[i].fields[field] = fmt.Sprint(s.found[i].clock.Add(-ago).UnixMilli())
			}
		}
	}
	ahead := func(by time.Duration, places ...int) func(s *survey) {
		return func(s *survey) {
			for _, i := range places {
				s.found[i].clock = s.found[i].clock.Add(by)
			}
		}
	}
	for _, tc := range []struct {
		name  string
		known time.Duration // for how long this client has known of it; negative: it does not
		find  []func(s *survey)
		want  time.Duration
	}{
		{"not known", -1, []func(s *survey){stamped(timer, enough, 0, 1, 2, 3, 4)}, wait},
		{"known just now", 0, nil, wait},
		{"a part of it has passed", wait - 1, nil, 1},
		{"it has passed", wait, nil, 0},
		{"it has passed here, and our clock is fast", wait, []func(s *survey){ahead(-ms, 0, 1, 2, 3, 4)}, ms},
		{"it has passed here, and three clocks are slow", wait, []func(s *survey){ahead(-ms, 1, 2), ahead(-10*ms, 0)}, ms},
		{"it has passed here, and two clocks are slow", wait, []func(s *survey){ahead(-time.Hour, 1, 2)}, 0},
		{"it has passed on the masters' clocks", wait - ms, []func(s *survey){ahead(time.Hour, 0, 1, 2, 3, 4)}, ms},
		{"it has passed here, and too few masters are reached that show the record", wait, []func(s *survey){away(0, 1, 2)}, wait},
		{"all were told long ago", 0, []func(s *survey){stamped(timer, enough, 0, 1, 2, 3, 4)}, 0},
		{"a quorum was told long ago", 0, []func(s *survey){stamped(timer, enough, 0, 3, 4)}, 0},
		{"a minority was told long ago", 0, []func(s *survey){stamped(timer, enough, 3, 4)}, wait},
		{"they were told a little later", 0, []func(s *survey){stamped(timer, enough-ms, 0, 1, 2, 3, 4)}, ms},
		{"they were told of another listing", 0, []func(s *survey){stamped(r.stamp("4", 5), enough, 0, 1, 2, 3, 4)}, wait},
		{"they were told of another founding", 0, []func(s *survey){stamped(strings.ReplaceAll(timer, ourLineage, laterLineage), enough, 0, 1, 2, 3, 4)}, wait},
		{"one of the quorum shows another record", 0, []func(s *survey){stamped(timer, enough, 0, 3, 4), func(s *survey) {
			s.found[3].shown(processMemory(3, 1), r.changed(func(r *record) { r.version = 6 }))
		}}, wait},
		{"one of the quorum has another memory", 0, []func(s *survey){stamped(timer, enough, 0, 3, 4), func(s *survey) {
			s.found[3].shown(processMemory(3, 2), r)
		}}, wait},
		{"a clock within what clocks may differ", 0, []func(s *survey){ahead(skew, 1), stamped(timer, enough, 0, 3, 4)}, 0},
		{"a clock beyond what clocks may differ, of one that is not needed", 0, []func(s *survey){ahead(time.Hour, 1), stamped(timer, enough, 0, 3, 4)}, 0},
		{"the same, of one that is needed", 0, []func(s *survey){ahead(skew+ms, 3), stamped(timer, enough, 0, 3, 4)}, wait},
		{"three clocks differ from the one here", 0, []func(s *survey){ahead(-time.Hour, 0, 1, 2), stamped(timer, enough, 0, 1, 2, 3, 4)}, wait},
		{"stamps of times to come", 0, []func(s *survey){stamped(timer, -time.Hour, 0, 1), stamped(timer, enough, 2, 3)}, wait},
		{"all clocks differ from the one here", 0, []func(s *survey){ahead(-skew-ms, 0, 1, 2, 3, 4), stamped(timer, enough, 0, 1, 2, 3, 4)}, wait},
		{"a clock that is not reached", 0, []func(s *survey){ahead(time.Hour, 1), func(s *survey) { s.found[1].err = errAway }, stamped(timer, enough, 0, 3, 4)}, 0},
	} {
		s := surveyOf(r)
		for _, find := range tc.find {
			find(s)
		}
		m := newCoordinator(nil, o, &clock.Own{}, t.Context(), new(sync.WaitGroup))
		m.record = r
		if tc.known >= 0 {
			w := &watch{since: s.began.Add(-tc.known), clocks: make(map[string]clockWatch)}
			for i := range r.seats {
				w.clocks[r.seats[i].memory] = clockWatch{w.since, w.since}
			}
			m.watches[timer] = w
		}
		if got := m.left(s, timer); got != tc.want {
			t.Errorf("%s: got %v left, want %v", tc.name, got, tc.want)
		}
	}
}

// usualDrift is what follows from the defaults of redlock.Options.
var usualDrift = clock.Drift{Factor: 0.01, StepMax: 10 * time.Millisecond}

var errAway = errors.New("the master is away")
