package member

// Goal: what follows from a survey is what the rules say: who is believed, who becomes a learner or a voter, when a wait is over, and
// when the membership may be founded anew. Method: tables. Each case changes one thing of a membership of five voters, all of which
// show it, or of masters that nobody has used.

import (
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
		MaxTTL: 2 * time.Second, Ceiling: 2 * time.Second, Wait: 3 * time.Second}
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
	for _, line := range tableOf(t, "next.txt", 3) {
		c := sceneOf(t, line, votersRecord(5), line[0], nil)
		c.show(line[1])
		r, d, got := c.own, c.Next(), "-"
		if d.Child != nil {
			if err := CheckChild(r, d.Child.Seal()); err != nil {
				t.Errorf("%s: %v", c.line, err)
			}
			got = fmt.Sprint(stateLetters(d.Child), " ", d.Raise)
			if d.Child.Wait != r.Wait {
				got += fmt.Sprint(" wait ", d.Child.Wait)
			}
			if len(d.Changes) == 0 {
				t.Errorf("%s: the log is not told what changes", c.line)
			}
		}
		if got != line[2] {
			t.Errorf("%s: got %s", c.line, got)
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
func TestAdoptedRecord(t *testing.T) {
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
	later := after(next, demoted(2))
	records := map[string]*Record{
		"next": next, "later": later, "rival": after(own, demoted(1)),
		"much later":        after(after(after(later, demoted(3)), demoted(4)), func(r *Record) { r.Seats[3].Addr = "elsewhere" }),
		"of one seat":       own.Changed(func(r *Record) { r.Version, r.Parent, r.Seats = 99, next.Digest, r.Seats[4:] }),
		"child of one seat": own.Changed(func(r *Record) { r.Version, r.Parent, r.Seats = 8, own.Digest, r.Seats[4:] }),
		"founded anew":      own.Changed(func(r *Record) { r.Generation, r.Lineage, r.Version, r.Parent = 4, laterLineage, 0, "" }),
		"founded at once":   own.Changed(func(r *Record) { r.Lineage, r.Version, r.Parent = laterLineage, 0, "" }),
		"another fleet":     own.Changed(func(r *Record) { r.Generation, r.Lineage = 4, otherLineage }),
	}
	for _, line := range tableOf(t, "adopt.txt", 3) {
		c := sceneOf(t, line, own, "", records)
		c.show(line[0])
		name := func(r *Record) string {
			for name, one := range records {
				if one == r {
					return name
				}
			}
			return map[bool]string{true: "-", false: "own"}[r == nil]
		}
		if got := name(c.Survey.Successor(c.own)); got != line[1] {
			t.Errorf("%s: who goes by own: got %s", c.line, got)
		}
		if got := name(c.Survey.Prevailing()); got != line[2] {
			t.Errorf("%s: who begins: got %s", c.line, got)
		}
	}
	if got := surveyOf(own).Successor(next); got != nil {
		t.Errorf("one before: got %v, want none", got)
	}
}

// Masters that have come in since say nothing to a client that does not know their seats: with them counted, two clients could each have a quorum, of other masters.
func TestStrangersLeadNobody(t *testing.T) {
	own := votersRecord(3)
	wider := votersRecord(5).Changed(func(r *Record) { r.Version = 9 })
	s := surveyOf(wider)
	showing(own, 1, 2)(s)
	if got := s.Successor(own); got != nil {
		t.Errorf("one of three seats, and two that nobody knew: got version %d, want none", got.Version)
	}
	if showing(wider, 1)(s); s.Successor(own) == nil {
		t.Error("two of three seats: got none, want their record")
	}
}

// The record at which most stand leads, and of two the newer one, in whatever order the masters answer.
func TestBestRecord(t *testing.T) {
	own := votersRecord(5)
	next := own.Child().Seal()
	for _, tc := range []struct {
		shows   string
		version int64 // of those that match, at most
		want    *Record
		most    int
	}{
		{"all is well", 99, own, 5},
		{"all at next; m0 forgot, at own", 99, next, 4},
		{"all at next; m4 forgot, at own", 99, next, 4},
		{"m0 m1 at next", 99, own, 5},
		{"m2 m3 m4 silent", 99, nil, 0},
		{"all at next; m4 forgot, at own", 7, own, 4},
		{"all at next", 7, nil, 0},
	} {
		c := sceneOf(t, []string{tc.shows}, own, "", map[string]*Record{"next": next})
		c.show(tc.shows)
		got, most := c.Survey.Best(func(r *Record) bool { return r.Version <= tc.version })
		if (got == nil) != (tc.want == nil) || got != nil && got.Digest != tc.want.Digest || most != tc.most {
			t.Errorf("%s, up to version %d: got %v, at which %d stand, want %v and %d", tc.shows, tc.version, got, most, tc.want, tc.most)
		}
	}
}

// A master is seated only if it belongs to no other fleet, nor did before it forgot; the newest record is that of a master that is reached.
func TestWhoBelongsToAnotherFleet(t *testing.T) {
	own := votersRecord(5)
	other := own.Changed(func(r *Record) { r.Lineage = otherLineage })
	for _, tc := range []struct{ shows, want string }{
		{"m4 is well", ""},
		{"m4 fresh", ""},
		{"m4 forgot, was at own", ""},
		{"m4 forgot, was at version 9", ""},
		{"m4 forgot, was at another fleet", "before it restarted it belonged to another fleet, whose masters are m0, m1, m2, m3, m4"},
		{"m4 at another fleet", BelongsElsewhere + ", whose masters are m0, m1, m2, m3, m4"},
		{"m4 at another fleet; m4 has lost the text", BelongsElsewhere},
	} {
		c := sceneOf(t, []string{tc.shows}, own, "", map[string]*Record{"another fleet": other})
		c.show(tc.shows)
		if got := c.Survey.At(4).OfAnotherFleet(own); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.shows, got, tc.want)
		}
	}
	for shows, want := range map[string]int64{"all is well": 7, "m4 at version 9": 9, "m4 at version 9; m4 silent": 7, "m4 forgot, was at version 9": 9, "m4 at version 5": 7} {
		c := sceneOf(t, []string{shows}, own, "", nil)
		c.show(shows)
		if got := c.Survey.Newest(own); got.Version != want {
			t.Errorf("%s: the newest is version %d, want %d", shows, got.Version, want)
		}
	}
}

// Who has gone on to a record does not stay at the one before, and who is not reached says nothing.
func TestWhoStaysAtARecord(t *testing.T) {
	own := votersRecord(5)
	next := own.Child().Seal()
	for _, tc := range []struct {
		shows string
		stay  int
	}{
		{"all is well", 5},
		{"m0 m1 at next", 3},
		{"m0 m1 at next; m2 silent", 2},
		{"m4 at of one seat", 4},
		{"all at next", 0},
	} {
		c := sceneOf(t, []string{tc.shows}, own, "", map[string]*Record{"next": next, "of one seat": own.Changed(func(r *Record) { r.Version, r.Seats = 99, r.Seats[4:] })})
		c.show(tc.shows)
		if got := c.Survey.Stay(c.own, next); got != tc.stay {
			t.Errorf("%s: %d stay, want %d", tc.shows, got, tc.stay)
		}
	}
}

// showing has the masters at these places settle on r, and away has them not reached.
func showing(r *Record, places ...int) func(s *Survey) {
	return func(s *Survey) {
		for _, i := range places {
			s.Reports[i].shown(processMemory(i, 1), r)
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

// A list of masters leads to the fleet to which more than half of those belong that answer, or have a seat, or nowhere. One alone speaks for none.
func TestFleetOfAList(t *testing.T) {
	own := votersRecord(5)
	other := own.Changed(func(r *Record) {
		r.Lineage = otherLineage
		for i := range r.Seats {
			r.Seats[i].Name, r.Seats[i].Addr = fmt.Sprint("s", i), fmt.Sprint("s", i)
		}
	})
	rival := own.Changed(func(r *Record) { r.Lineage = otherLineage }) // of masters at the same addresses
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
	replaced := func(r *Record, places ...int) func(s *Survey) { // seats that are called as the masters were that they had first
		return func(s *Survey) {
			now := r.Changed(func(r *Record) {
				for _, i := range places {
					r.Seats[i].Name, r.Seats[i].Addr = fmt.Sprint("old", i), fmt.Sprint("new", i)
					s.Reports[i].Master.Addr = fmt.Sprint("old", i)
				}
			})
			showing(now, 4)(s)
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
		{"two are of another fleet, and one is silent that has a seat", []func(s *Survey){showing(other, 0, 1), away(2)}, ours, ""},
		{"two are of another fleet, and one is silent that has none", []func(s *Survey){showing(other, 0, 1), elsewhere(2), away(2)}, "",
			"m0, m1 to fleet fedcba98 (s0, s1, s2, s3, s4); without an answer: new2: name"},
		{"one of two is of another fleet, and the others have seats", []func(s *Survey){showing(other, 0), away(1, 2, 3)}, ours, ""},
		{"one is of another fleet, and the others are silent", []func(s *Survey){showing(other, 0), away(1, 2, 3, 4)}, "", "; without an answer: m1, m2, m3, m4: name"},
		{"two of five are of one fleet, and the others are silent that have no seat", []func(s *Survey){elsewhere(0, 1, 2), away(0, 1, 2)}, ours, ""},
		{"one of five is of a fleet, and the others are silent that have no seat", []func(s *Survey){elsewhere(0, 1, 2, 3), away(0, 1, 2, 3)}, "", "without an answer: new0, new1, new2, new3"},
		{"one is reached, and the others were replaced", []func(s *Survey){replaced(own, 0, 1, 2, 3), away(0, 1, 2, 3)}, ours, ""},
		{"one is reached, and new masters are where the replaced ones were", []func(s *Survey){replaced(own, 0, 1, 2, 3), forgot(nil, 0, 1, 2, 3)}, "", "m4 to fleet"},
		{"nobody answers", []func(s *Survey){away(all...)}, "", ""},
		{"one is reached", []func(s *Survey){away(0, 1, 2, 3)}, ours, ""},
		{"four have forgotten, and one leads to their seats", []func(s *Survey){forgot(nil, 0, 1, 2, 3)}, ours, ""},
		{"four have forgotten, and the one that led to their seats is not reached", []func(s *Survey){forgot(nil, 0, 1, 2, 3), away(4)}, "", ""},
		{"three have forgotten whose addresses are of seats of two fleets", []func(s *Survey){forgot(nil, 0, 1, 2), showing(rival, 4)}, "", "m0, m1, m2 to none; m3 to fleet"},
		{"all have forgotten, and some know what they were", []func(s *Survey){forgot(nil, 0, 1, 2), forgot(own, 3, 4)}, ours, ""},
		{"all have forgotten, and know what they were", []func(s *Survey){forgot(own, all...)}, ours, ""},
		{"four are new, and one is of another fleet", []func(s *Survey){elsewhere(0, 1, 2, 3)}, "", "new0, new1, new2, new3 to none; m4 to fleet 01234567 (m0, m1, m2, m3, m4): name the masters"},
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
	if showing(r.Child().Seal(), 3)(s); !s.Unfinished(r) {
		t.Error("one has settled on a child, which the others do not know yet: got nothing unfinished")
	}
	showing(r, 3)(s)
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
	o := Options{MaxTTL: 2 * time.Second, Drift: usualDrift}
	for i := range 5 {
		o.Masters = append(o.Masters, conn.Master{Addr: fmt.Sprint("m", i)})
	}
	own := votersRecord(5).Changed(func(r *Record) { r.Wait = 8 * time.Second })
	later := own.Changed(func(r *Record) { r.Generation, r.Lineage, r.Version, r.Parent = 4, laterLineage, 0, "" })
	long := func(r *Record) { r.Wait = time.Hour }
	records := map[string]*Record{
		"later": later, "last": later.Changed(func(r *Record) { r.Generation, r.Seats = 5, slices.Delete(r.Seats, 1, 2) }),
		"raised": own.Changed(func(r *Record) { r.Version, r.Parent, r.MaxTTL, r.Ceiling = 8, own.Digest, 7900*ms, 7900*ms }),
		"higher": own.Changed(func(r *Record) { r.Version, r.Parent, r.MaxTTL = 8, own.Digest, 20*time.Second }),
		"before": own.Changed(func(r *Record) { r.Version, r.MaxTTL = 6, 20*time.Second }),
		"longer": own.Changed(long), "later with longer": later.Changed(long),
		"child with longer": own.Changed(func(r *Record) { r.Version, r.Parent, r.Wait = 8, own.Digest, time.Hour }),
	}
	for _, line := range tableOf(t, "founding.txt", 5) {
		known, clauses, _ := strings.Cut(line[0], "; ")
		c := sceneOf(t, line, own, clauses, records)
		c.show(line[1])
		base, o := c.own, o
		if known == "-" {
			base, o.FoundingWait = nil, 10*time.Second
		}
		base = c.Survey.Remains(base)
		f, why := c.Survey.Founding(base, o)
		if f == nil {
			if line[2] != "-" || !strings.Contains(why, line[4]) || (why == "") != (line[4] == "") {
				t.Errorf("%s: got no founding: %s", c.line, why)
			}
			continue
		}
		if stateLetters(f) != line[2] || f.Wait.String() != line[3] || why != line[4] {
			t.Errorf("%s: got %s, wait %v, %q", c.line, stateLetters(f), f.Wait, why)
		}
		if err := f.Check(); err != nil {
			t.Errorf("%s: %v", c.line, err)
		}
		generation := int64(1)
		if base != nil {
			generation = base.Generation + 1
			if f.Fleet() != base.Fleet() || f.Lineage == base.Lineage {
				t.Errorf("%s: lineage %s, want another one of the fleet of %s", c.line, f.Lineage, base.Lineage)
			}
		}
		for _, a := range c.Survey.Reports { // whatever its masters show, or have shown, is older
			if one := f.Seat(a.Place); one != nil && one.State == Learner {
				generation = max(generation, a.ShownID().generation+1)
			}
		}
		if f.Generation != generation || f.Version != 0 {
			t.Errorf("%s: got generation %d, version %d, want %d, 0", c.line, f.Generation, f.Version, generation)
		}
	}
}

// The settings may have times that no record can: a founding has whole milliseconds. It waits at once for as long as its max_ttl needs.
func TestFoundingOfOddTimes(t *testing.T) {
	f := Vacated(nil, Options{Masters: []conn.Master{{Addr: "m0"}}, MaxTTL: 2*time.Second + 300*time.Microsecond, Drift: usualDrift})
	if err := f.Seal().Check(); err != nil || f.MaxTTL != 2*time.Second || f.Wait != f.Needed(usualDrift) {
		t.Errorf("got max_ttl %v, a wait of %v, %v, want 2s and %v", f.MaxTTL, f.Wait, err, f.Needed(usualDrift))
	}
}

// A bootstrap admits the masters that it was shown, and nobody at the place of one that has another memory now or is not fit. Nothing has been locked before, so that
// the wait is as short as max_ttl needs.
func TestWhoIsAdmitted(t *testing.T) {
	r := votersRecord(5).Changed(func(r *Record) {
		r.Wait = time.Hour
		for i := range r.Seats {
			r.Seats[i].State = Learner
		}
	})
	s := surveyOf(r)
	s.Reports[3].shown(processMemory(3, 2), nil)
	away(4)(s)
	r.Admit(s.Reports[1:], Options{Drift: usualDrift})
	if got := stateLetters(r); got != "lvvll" || r.Wait != r.Needed(usualDrift) {
		t.Errorf("got %s, wait %v, want lvvll, %v", got, r.Wait, r.Needed(usualDrift))
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

// What an operator changes leaves enough masters that vote at once, or is refused with who is missing. A voter that has accepted a child does not vote: it may be part of
// the quorum of that. A seat that has never voted gives nothing up.
func TestWhatKeepsAQuorum(t *testing.T) {
	first := func(r *Record) { r.Generation = 1 }
	leaves := func(place int) func(child *Record) {
		return func(child *Record) {
			s := child.Seat(place)
			s.Memory, s.State, s.Since = "", Leaving, child.Version
		}
	}
	never := func(places ...int) func(r *Record) {
		return func(r *Record) {
			for _, i := range places {
				r.Seats[i].State = Learner
			}
		}
	}
	added := Seat{Number: 9, Name: "m9", Addr: "m9", Memory: processMemory(9, 1), State: Learner}
	add := func(child *Record) { child.Seats = append(child.Seats, added) }
	for _, tc := range []struct {
		name   string
		record []func(r *Record)
		shows  string
		change func(child *Record)
		seat   Seat
		want   string // a part of the refusal
	}{
		{name: "all vote", shows: "all is well", change: leaves(4), seat: Seat{Number: 4}},
		{name: "three vote, and one of them would not", shows: "m0 m1 silent", change: leaves(4), seat: Seat{Number: 4, Name: "m4"},
			want: "3 of 5 masters vote now, m0 is not reached, m1 is not reached; without m4, 2 would vote and 3 are needed: bring back"},
		{name: "one that does not vote leaves", shows: "m4 silent; m0 m1 silent", change: leaves(4), seat: Seat{Number: 4, Name: "m4"},
			want: "2 of 5 masters vote now, m0 is not reached, m1 is not reached; 2 would vote"},
		{name: "one was not asked", shows: "m0 unasked; m1 refused", change: leaves(4), seat: Seat{Number: 4, Name: "m4"}, want: "m0 is not reached, m1 is refused: a replica; without m4"},
		{name: "two have accepted a child", shows: "m0 m1 accepted version 8", change: leaves(4), seat: Seat{Number: 4, Name: "m4"},
			want: "3 of 5 masters vote now, m0 waits for its vote, m1 waits for its vote; without m4, 2 would vote"},
		{name: "a sixth, while three vote", shows: "m0 m1 silent", change: add, seat: added, want: "with m9, which does not vote at once, 3 would vote and 4 are needed"},
		{name: "a sixth, while four vote", shows: "m0 silent", change: add, seat: added},
		{name: "one that has never voted leaves, while the others are too few anyway", record: []func(r *Record){first, never(3, 4)}, shows: "m0 silent", change: leaves(4), seat: Seat{Number: 4}},
		{name: "the same, where it may have voted", record: []func(r *Record){never(3, 4)}, shows: "m0 silent", change: leaves(4), seat: Seat{Number: 4, Name: "m4"}, want: "2 would vote"},
		{name: "a voter leaves, and others have never voted", record: []func(r *Record){first, never(3, 4)}, shows: "all is well", change: leaves(0), seat: Seat{Number: 0, Name: "m0"},
			want: "3 of 5 masters vote now, m3 waits for its vote, m4 waits for its vote; without m0, 2 would vote"},
	} {
		r := votersRecord(5)
		for _, change := range tc.record {
			r = r.Changed(change)
		}
		c := sceneOf(t, []string{tc.name}, r, "", nil)
		c.show(tc.shows)
		child := r.Child()
		tc.change(child)
		err := c.KeepsQuorum(child.Seal(), &tc.seat)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}

// What others hear and this client does not find: it is told what to look at.
func TestHeardOnlyElsewhere(t *testing.T) {
	for shows, want := range map[string]string{
		"m4 unasked":            "m4 is heard by another redlockd and cannot be reached from here: see the network between",
		"m4 silent":             "cannot be reached from here (" + errAway.Error() + "): see the network between",
		"m4 is another process": "shows another memory here: see what its address means on both machines",
	} {
		c := sceneOf(t, []string{shows}, votersRecord(5), "", nil)
		c.show(shows)
		if got := c.Survey.HeardOnlyElsewhere(c.own, "m4"); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", shows, got, want)
		}
	}
}

// What a master shows counts only for the process that shows it, and only in the form that is known here.
func TestReportIsRead(t *testing.T) {
	r := votersRecord(3)
	child := r.Child().Seal()
	const ballot = "00000001.0000000000000000"
	mine, gone := processMemory(0, 1), processMemory(0, 2)
	for _, tc := range []struct {
		name                  string
		v, r, a               string
		record, before, child *Record
		memory                string
		unreadable, refused   bool
	}{
		{name: "a record", v: r.ShownBy(mine), r: r.Text, record: r, memory: mine},
		{name: "a record, and a child that it has accepted", v: r.ShownBy(mine) + " ? " + ballot + " " + child.Digest, r: r.Text, a: child.Text, record: r, child: child, memory: mine},
		{name: "the text of another child", v: r.ShownBy(mine) + " ? " + ballot + " " + child.Digest, r: r.Text, a: r.Text, record: r, memory: mine},
		{name: "the text of another record", v: r.ShownBy(mine), r: child.Text, unreadable: true, memory: mine},
		{name: "no text", v: r.ShownBy(mine), unreadable: true, memory: mine},
		{name: "fresh", v: gone + " -", r: r.Text, before: r, memory: gone},
		{name: "of another process", v: r.ShownBy("another:0000000000000001"), r: r.Text, a: child.Text},
		{name: "nothing", r: r.Text},
		{name: "of this process, by a newer redlockd", v: r.ShownBy(mine) + " !", r: r.Text, refused: true},
	} {
		f := &Report{RunID: "run0", Fields: map[string]string{"v": tc.v, "r": tc.r, "a": tc.a}}
		err := f.Parse()
		same := func(got, want *Record) bool {
			return (got == nil) == (want == nil) && (got == nil || got.Digest == want.Digest)
		}
		if (err != nil) != tc.refused || (f.Unreadable != nil) != tc.unreadable || f.State.Memory != tc.memory || !same(f.Record, tc.record) || !same(f.Before, tc.before) || !same(f.Child, tc.child) {
			t.Errorf("%s: got %+v, %v", tc.name, f, err)
		}
	}
}

// Two that are one process would vote twice; of those that are not reached nobody knows which process they are.
func TestTwins(t *testing.T) {
	s := surveyOf(votersRecord(3))
	if s.Reports[2].RunID = s.Reports[0].RunID; s.TwinOf(s.Reports[2]) != s.Reports[0] || s.TwinOf(s.Reports[0]) != nil || s.TwinOf(s.Reports[1]) != nil {
		t.Error("the third is the first once more, and no other is")
	}
	s.Reports[0].RunID, s.Reports[2].RunID = "", ""
	if twin := s.TwinOf(s.Reports[2]); twin != nil {
		t.Errorf("two that are not reached: got %s, want no twin", twin.Master.Addr)
	}
}

// Why a master has forgotten is said as far as it is known. A bootstrap admits one of which nothing is known, and no other.
func TestAmnesia(t *testing.T) {
	v := votersRecord(3).ShownBy(processMemory(0, 1))
	for _, tc := range []struct {
		v    string
		knew bool
		want string
	}{
		{"", false, reasonNew},
		{"", true, "its membership is gone"},
		{v, false, "its membership is of another run"},
		{v, true, "its membership is of another run"},
	} {
		if got := Amnesia(tc.v, tc.knew); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%q, it was a voter: %v: got %q, want %q", tc.v, tc.knew, got, tc.want)
		}
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
		n := &Situation{Record: r, Survey: s, Left: func(string) time.Duration { return time.Hour }, FirstCeiling: time.Minute, Paused: func(place int) bool { return place == tt.paused },
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
