package member

// Goal: people are told of each seat what it is, and what to do about it. Method: tables.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
)

func TestSeatsWithoutAVote(t *testing.T) {
	m := Membership{Seats: []SeatInfo{
		{Name: "m0", State: Voter, Votes: true, Reached: true},
		{Name: "m1", State: Leaving, Reached: true},
		{Name: "m2", State: Vacant, Reached: true},
		{Name: "m3", State: Voter},
		{Name: "m4", State: Learner},
		{Name: "m5", State: Learner, Reached: true},
		{Name: "m6", State: Voter, Reached: true},
	}}
	const want = "m1 is leaving, m2 has no master, m3 cannot be reached, m4 cannot be reached, m5 waits for its vote, m6 is reached, and does not vote"
	if got := m.WithoutVote(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if m.Voters() != 3 || m.Unreached() != 1 || m.Standing().Seats != 7 || m.Standing().Voting != 1 {
		t.Errorf("got %d voters, %d of them not reached, %+v; want 3, 1, and 1 vote of 7", m.Voters(), m.Unreached(), m.Standing())
	}
}

// The wait is being lowered only where it is longer than the ceiling, and what a founding has on top, need.
func TestWaitThatIsLowered(t *testing.T) {
	o := Options{Drift: clock.Drift{Factor: 0.01, StepMax: 10 * ms}, Masters: []conn.Master{{Addr: "m0"}}}
	r := votersRecord(1)
	needed := r.Needed(o.Drift)
	for wait, want := range map[time.Duration]bool{
		needed:                                    false,
		needed + time.Second + ms:                 false,
		needed + time.Second + 2*ms:               true,
		needed + 10*time.Second:                   true,
		needed + 10*time.Second - 7*time.Second:   true,
		needed + RecheckWithin(needed+ms):         false,
		needed + RecheckWithin(needed+2*ms) + 1e9: true,
	} {
		got := r.Changed(func(r *Record) { r.Wait = wait }).Membership(o)
		if got.Lowering != want || got.Wait != wait || !got.Known || got.Version != 7 || got.Needed != 1 || got.Lineage != r.LineageText() {
			t.Errorf("a wait of %v, %v are needed: got %+v; want that it is lowered: %v", wait, needed, got, want)
		}
	}
}

// What the settings say otherwise than the membership, which counts.
func TestSettingsThatDiffer(t *testing.T) {
	o := Options{MaxTTL: 2 * time.Second, Masters: []conn.Master{{Addr: "m0"}, {Addr: "m1"}, {Addr: "m2"}}}
	first := func(r *Record) { // nobody has voted in it
		r.Generation, r.Version, r.Parent = 1, 0, ""
		for i := range r.Seats {
			r.Seats[i].State = Learner
		}
	}
	typo := func(r *Record) {
		r.Seats[1].Name, r.Seats[1].Addr, r.Seats[1].Memory, r.Seats[1].State = "typo", "typo", "", Vacant
	}
	for _, tt := range []struct {
		name           string
		change         func(r *Record)
		settings       func(o *Options)
		want, corrects string
	}{
		{"nothing", nil, nil, "", ""},
		{"less than a millisecond", nil, func(o *Options) { o.MaxTTL += 999 * time.Microsecond }, "", ""},
		{"max_ttl", nil, func(o *Options) { o.MaxTTL = time.Minute }, "max_ttl is 2s, the settings say 1m", ""},
		{"a member more", nil, func(o *Options) { o.Masters = o.Masters[:2] }, "m2 (m2) is a member, the settings do not name it", ""},
		{"a master more", nil, func(o *Options) { o.Masters = append(o.Masters[:3:3], conn.Master{Addr: "m3"}) }, "m3 is no member, the settings name it", ""},
		{"another address", nil, func(o *Options) { o.Masters = append(o.Masters[:2:2], conn.Master{Name: "m2", Addr: "m9"}) }, "", ""}, // its name stands for it
		{"another address on both sides", func(r *Record) { r.Seats[2].Addr = "m8" }, func(o *Options) { o.Masters = append(o.Masters[:2:2], conn.Master{Name: "m2", Addr: "m9"}) }, "m2 is at m8, the settings say m9", ""},
		{"another address in the membership", func(r *Record) { r.Seats[2].Addr = "m9" }, nil, "m2 is at m9, the settings say m2", ""},
		{"it leaves", func(r *Record) { r.Seats[2].Memory, r.Seats[2].State = "", Leaving }, nil, "m2 (m2) is leaving, the settings name it", ""},
		{"it leaves, and is not named", func(r *Record) { r.Seats[2].Memory, r.Seats[2].State = "", Leaving }, func(o *Options) { o.Masters = o.Masters[:2] }, "", ""},
		{"two things", nil, func(o *Options) { o.MaxTTL = time.Minute; o.Masters = o.Masters[:2] }, "max_ttl is 2s, the settings say 1m; m2 (m2) is a member, the settings do not name it", ""},
		{"a wrong address at the first start", func(r *Record) { first(r); typo(r) }, nil, "typo (typo) was named at the first start and has never voted, the settings do not name it; m1 is no member, the settings name it",
			"if the settings are right now, run `redlockd bootstrap`: nobody has voted yet"},
		{"a wrong address, and others vote", func(r *Record) {
			first(r)
			typo(r)
			r.Version, r.Parent = 1, r.Digest
			r.Seats[0].State = Voter
			r.Seats[2].State = Voter
		}, nil,
			"typo (typo) was named at the first start and has never voted, the settings do not name it; m1 is no member, the settings name it", "if the settings are right now, run `redlockd members replace typo m1`"},
		{"a wrong address, and no master in its place", func(r *Record) { first(r); typo(r) }, func(o *Options) { o.Masters = []conn.Master{{Addr: "m0"}, {Addr: "m2"}} },
			"typo (typo) was named at the first start and has never voted, the settings do not name it", "name typo in the settings again, or run `redlockd members remove typo`"},
	} {
		r, o := votersRecord(3), o
		for i := range r.Seats {
			r.Seats[i].Since = 0
		}
		if tt.change != nil {
			r = r.Changed(tt.change)
		}
		if tt.settings != nil {
			tt.settings(&o)
		}
		if got := FileDiffers(r, o); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if got := CorrectsRecord(r, o); got != tt.corrects {
			t.Errorf("%s: what to do: got %q, want %q", tt.name, got, tt.corrects)
		}
	}
}

// Why a master has no vote, by what it shows: the evidence counts, and only without it what its memory was told when it began.
func TestWhyThereIsNoVote(t *testing.T) {
	const born, flush = "its membership is of another run", "it shows a membership of another fleet: run FLUSHALL on it if that fleet is gone; else name another master here"
	r := votersRecord(3)
	shown := func(memory string, r *Record) State {
		s := State{Memory: memory, Fresh: r == nil}
		if r != nil {
			s.Record = r.ID()
		}
		return s
	}
	other := r.Changed(func(r *Record) { r.Lineage = otherLineage })
	for _, tt := range []struct {
		name  string
		r     *Record
		seat  func(s *Seat) // nil: it has no seat
		shown State
		born  string
		want  string
	}{
		{"it votes", r, func(*Seat) {}, shown(processMemory(0, 1), r), born, born},
		{"it votes, and knows nothing of before", r, func(*Seat) {}, shown(processMemory(0, 1), r), "", ""},
		{"of another fleet", r, func(*Seat) {}, shown(processMemory(0, 1), other), born, flush},
		{"of another fleet, without a seat", r, nil, shown(processMemory(9, 1), other), born, flush},
		{"without a seat", r, nil, shown(processMemory(9, 1), r), born, born},
		{"without a seat, and new", r, nil, shown(processMemory(9, 1), nil), "", ""},
		{"its seat leaves", r, func(s *Seat) { s.State, s.Memory = Leaving, "" }, shown(processMemory(0, 1), r), born, "its seat is leaving: it has no vote, and is removed after the wait"},
		{"its seat was vacant", r, func(s *Seat) { s.State, s.Memory = Vacant, "" }, shown(processMemory(0, 1), nil), born, "its seat had no master until now"},
		{"flushed", r, func(*Seat) {}, shown(processMemory(0, 2), nil), "", "it was flushed: the same run has forgotten its membership"},
		{"flushed, and it was told", r, func(*Seat) {}, shown(processMemory(0, 2), nil), born, born},
		{"flushed, and it was told that it is new", r, func(*Seat) {}, shown(processMemory(0, 2), nil), reasonNew, "it was flushed: the same run has forgotten its membership"},
		{"restarted", r, func(*Seat) {}, shown(processMemory(9, 1), nil), "", "it has another run id than before: it has restarted, or another master stands at its address"},
		{"a learner", r, func(s *Seat) { s.State, s.Since = Learner, 5 }, shown(processMemory(0, 1), r), "", ""},
		{"a learner of a founding", r, func(s *Seat) { s.State, s.Since = Learner, 0 }, shown(processMemory(0, 1), r), born, "the fleet was founded anew, because too many had forgotten: all wait, those as well that remember"},
		{"a learner of a founding, flushed since", r, func(s *Seat) { s.State, s.Since = Learner, 0 }, shown(processMemory(0, 2), nil), "", "it was flushed: the same run has forgotten its membership"},
		{"a voter since a founding", r, func(s *Seat) { s.Since = 0 }, shown(processMemory(0, 1), r), "", ""},
		{"a learner of the first founding", r.Changed(func(r *Record) { r.Generation = 1 }), func(s *Seat) { s.State, s.Since = Learner, 0 }, shown(processMemory(0, 1), r), "", ""},
	} {
		var seat *Seat
		if tt.seat != nil {
			seat = &Seat{Name: "m0", Addr: "m0", Memory: processMemory(0, 1), State: Voter, Since: 3}
			tt.seat(seat)
		}
		if got := tt.r.WithoutVote(seat, tt.shown, tt.born); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Who had the ceiling raised is what a voter says, not a learner nor one that shows another record.
func TestWhoRaisedIt(t *testing.T) {
	r := votersRecord(3).Changed(func(r *Record) { r.Seats[0].State = Learner })
	s := surveyOf(r)
	says := func(place int, by string) { s.Reports[place].Fields[RaisedField] = by }
	if got := RaisedBy(s, r); got != "" {
		t.Errorf("nobody says it: got %q", got)
	}
	says(0, "a learner")
	says(2, "bob\n"+strings.Repeat("x", 1000))
	if got := RaisedBy(s, r); !strings.HasPrefix(got, "bob?xx") || len(got) > 300 {
		t.Errorf("got %q, want one short line of what the third one says", got)
	}
	says(1, "alice")
	if got := RaisedBy(s, r); got != "alice" {
		t.Errorf("got %q, want what the first voter says", got)
	}
}

// What a heartbeat is given: the clock is vouched for by 1, and there are so many stamps, and seats that are heard, as it says.
func TestBeatArgs(t *testing.T) {
	for agrees, want := range map[bool]string{
		true:  "[settled 1 2 1 1500 s:a s:b h:4 h:0 h:4]",
		false: "[settled 0 2 1 1500 s:a s:b h:4 h:0 h:4]",
	} {
		if got := fmt.Sprint(BeatArgs("settled", agrees, 1500*ms, []string{"s:a", "s:b"}, []int{4}, []int{0, 4})); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
