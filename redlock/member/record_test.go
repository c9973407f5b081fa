package member

// Goal: a record is read as it was written, what no redlockd wrote is refused, and a step changes only what it may. Method: one case
// per rule, each with a word of the refusal; steps that are allowed; and a fuzzer for what masters may show.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/quorum"
)

// memoryOf names the memory of a process in these tests.
func memoryOf(process string) string { return fmt.Sprintf("%s:%016x", process, 7) }

// testRecord is version 7 of seven seats, of which number 2 is missing: four voters, a learner, a vacant seat and one that is leaving.
func testRecord() *Record {
	r := &Record{
		Generation: 3, Lineage: "0123456789abcdef", Version: 7, Parent: strings.Repeat("5a", DigestLen/2),
		MaxTTL: 20 * time.Second, Ceiling: 20 * time.Second, Wait: time.Minute, TTLSince: 4, Roster: 2,
		Seats: []Seat{
			{Number: 0, Name: "m0", Addr: "10.0.0.1:6379", Memory: memoryOf("a"), State: Voter},
			{Number: 1, Name: "m1, ä|;%", Addr: "[::1]:6379", Memory: memoryOf("b"), State: Voter, Since: 2},
			{Number: 3, Name: "m3", Addr: "/run/redis.sock", Memory: memoryOf("c"), State: Learner, Since: 5},
			{Number: 4, Name: "m4", Addr: "redis-4:6379", State: Vacant, Since: 6},
			{Number: 5, Name: "m5", Addr: "redis-5:6379", Memory: memoryOf("e5"), State: Voter},
			{Number: 6, Name: "m6", Addr: "redis-6:6379", Memory: memoryOf("e6"), State: Voter},
			{Number: 14, Name: "m14", Addr: "redis-14:6379", State: Leaving, Since: 7},
		},
	}
	return r.Seal()
}

func TestRecordIsReadAsWritten(t *testing.T) {
	r := testRecord()
	const want = "2;3-0123456789abcdef;7;5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a;20000;60000;4;2;" +
		"0,m0,10.0.0.1:6379,a:0000000000000007,v,0|1,m1%2C%20%C3%A4%7C%3B%25,%5B::1%5D:6379,b:0000000000000007,v,2|" +
		"3,m3,/run/redis.sock,c:0000000000000007,l,5|4,m4,redis-4:6379,-,-,6|" +
		"5,m5,redis-5:6379,e5:0000000000000007,v,0|6,m6,redis-6:6379,e6:0000000000000007,v,0|14,m14,redis-14:6379,-,x,7"
	// The text is what proxies of different versions agree on: a change of it is a new form.
	if r.Text != want {
		t.Fatalf("text:\n got %s\nwant %s", r.Text, want)
	}
	if want := "56ebf85738db1110f6b7bb75bb76d7c8"; r.Digest != want {
		t.Errorf("digest: got %s, want %s", r.Digest, want)
	}
	read, err := ParseRecord(r.Text)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%+v", *read), fmt.Sprintf("%+v", *r); got != want {
		t.Errorf("read again:\n got %s\nwant %s", got, want)
	}
	if got, want := r.ID().String(), "3-0123456789abcdef.7 "+r.Digest; got != want {
		t.Errorf("id: got %q, want %q", got, want)
	}
	if got, want := r.ShownBy("x:1"), "x:1 "+r.ID().String(); got != want {
		t.Errorf("shownBy: got %q, want %q", got, want)
	}
}

func TestSeatsOfARecord(t *testing.T) {
	r := testRecord()
	if q, v := r.Quorum(), r.Voters(); q != 4 || v != 4 {
		t.Errorf("got quorum %d, voters %d, want 4 and 4", q, v)
	}
	if s := r.Seat(3); s == nil || s.Name != "m3" || s != r.SeatNamed("m3") || s != r.Lists(memoryOf("c")) {
		t.Errorf("seat 3: got %v, by name %v, by memory %v", s, r.SeatNamed("m3"), r.Lists(memoryOf("c")))
	}
	if r.Seat(2) != nil || r.SeatNamed("m2") != nil || r.Lists(memoryOf("z")) != nil || r.Lists("") != nil {
		t.Error("found a seat that there is not")
	}
	c := r.Child()
	c.Seats[0].Name = "another"
	if r.Seats[0].Name != "m0" {
		t.Error("a change of the child changed its parent")
	}
}

func TestNewerRecords(t *testing.T) {
	const other = "ffffffffffffffff"
	id := RecordID{generation: 3, lineage: "0123456789abcdef", Version: 7}
	for _, tc := range []struct {
		name       string
		generation int64
		lineage    string
		version    int64
		want       bool // id is newer
	}{
		{"the same", 3, id.lineage, 7, false},
		{"the version before", 3, id.lineage, 6, true},
		{"the version after", 3, id.lineage, 8, false},
		{"a founding before", 2, other, 99, true},
		{"a founding after", 4, other, 0, false},
		{"another founding of the same generation", 3, other, 0, false},
		{"none", 0, "", 0, true},
	} {
		if got := id.NewerThan(RecordID{generation: tc.generation, lineage: tc.lineage, Version: tc.version}); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestRecordsAreRefused(t *testing.T) {
	if err := testRecord().Check(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, want string
		change     func(r *Record)
	}{
		{"lineage", "no lineage", func(r *Record) { r.Lineage = "0123456789ABCDEF" }},
		{"parent", "no digest", func(r *Record) { r.Parent = "5a" }},
		{"no parent", "only version 0", func(r *Record) { r.Parent = "" }},
		{"a founding with a parent", "only version 0", func(r *Record) { r.Version = 0 }},
		{"version", "no count", func(r *Record) { r.Version = countMax + 1 }},
		{"generation", "no count", func(r *Record) { r.Generation = -1 }},
		{"max_ttl of no time", "whole milliseconds", func(r *Record) { r.MaxTTL = 0 }},
		{"a ceiling of no time", "whole milliseconds", func(r *Record) { r.Ceiling = 0 }},
		{"a ceiling above max_ttl", "the ceiling 21s is above max_ttl = 20s", func(r *Record) { r.Ceiling = 21 * time.Second }},
		{"a wait of years", "whole milliseconds", func(r *Record) { r.Wait = 2 * recordWaitMax }},
		{"wait below the ceiling", "is shorter than the ceiling 20s", func(r *Record) { r.Wait = r.Ceiling - time.Millisecond }},
		{"max_ttl of the future", "after this version", func(r *Record) { r.TTLSince = 8 }},
		{"no seats", "0 seats", func(r *Record) { r.Seats = nil }},
		{"too many seats", "16 seats", func(r *Record) {
			r.Seats = nil
			for i := range quorum.MaxMasters + 1 {
				r.Seats = append(r.Seats, Seat{Number: i, Name: fmt.Sprint(i), Addr: fmt.Sprint(i), State: Vacant})
			}
		}},
		{"negative number", "has the number -1", func(r *Record) { r.Seats[0].Number = -1 }},
		{"long address", "an address of 256 bytes", func(r *Record) { r.Seats[0].Addr = strings.Repeat("a", 256) }},
		{"since before there was a version", "since version -1", func(r *Record) { r.Seats[0].Since = -1 }},
		{"number", "has the number 15", func(r *Record) { r.Seats[4].Number = quorum.MaxMasters }},
		{"the same number", "two seats have the number 0", func(r *Record) { r.Seats[1].Number = 0 }},
		{"order", "stands behind", func(r *Record) { r.Seats[0].Number = 2 }},
		{"no name", "a name of 0 bytes", func(r *Record) { r.Seats[0].Name = "" }},
		{"long name", "a name of 256 bytes", func(r *Record) { r.Seats[0].Name = strings.Repeat("n", 256) }},
		{"no address", "an address of 0 bytes", func(r *Record) { r.Seats[0].Addr = "" }},
		{"the same name", "the name m0", func(r *Record) { r.Seats[2].Name = "m0" }},
		{"the same address", "the address redis-4:6379", func(r *Record) { r.Seats[0].Addr = "redis-4:6379" }},
		{"long text", "shorten names", func(r *Record) {
			for i := range r.Seats {
				r.Seats[i].Name = strings.Repeat("\x00", 250) + fmt.Sprint(i)
				r.Seats[i].Addr = r.Seats[i].Name
			}
		}},
		{"a voter without memory", "is no memory", func(r *Record) { r.Seats[0].Memory = "" }},
		{"a memory without nonce", "is no memory", func(r *Record) { r.Seats[2].Memory = "c" }},
		{"a vacant seat with a memory", "is vacant, and lists", func(r *Record) { r.Seats[3].Memory = memoryOf("d") }},
		{"a leaving seat with a memory", "is leaving, and lists", func(r *Record) { r.Seats[6].Memory = memoryOf("d") }},
		{"a memory twice", "it would vote twice", func(r *Record) { r.Seats[2].Memory = memoryOf("a") }},
		{"since the future", "since version 8", func(r *Record) { r.Seats[0].Since = 8 }},
	} {
		r := testRecord()
		tc.change(r)
		wantRefusal(t, tc.name, r.Check(), tc.want)
		if _, err := ParseRecord(r.Seal().Text); err == nil {
			t.Errorf("%s: parseRecord takes %s", tc.name, r.Text)
		}
	}
	r := testRecord()
	r.Ceiling += time.Microsecond // a text would lose it
	wantRefusal(t, "microseconds", r.Check(), "whole milliseconds")
}

func TestRecordsAtTheirBounds(t *testing.T) {
	full := testRecord()
	full.Generation, full.MaxTTL, full.Ceiling, full.Wait, full.Seats = countMax, recordWaitMax, recordWaitMax-time.Millisecond, recordWaitMax, nil
	for i := range quorum.MaxMasters {
		full.Seats = append(full.Seats, Seat{Number: i, Name: fmt.Sprint(i), Addr: fmt.Sprint(i), State: Vacant})
	}
	full.Seats[0].Name, full.Seats[0].Addr = strings.Repeat("n", seatNameMax), strings.Repeat("a", seatNameMax)
	long := testRecord()
	for i := range long.Seats {
		long.Seats[i].Addr = strings.Repeat("a", seatNameMax-1) + fmt.Sprint(i)
	}
	long.Seats[3].Name, long.Seats[4].Name = strings.Repeat("\x00", 249), strings.Repeat("\x00", 250) // each is three letters
	for i := 0; len(long.print()) < RecordMax; i = (i + 1) % 3 {
		long.Seats[i].Name += "n"
	}
	short := testRecord() // whose wait is no longer than its ceiling
	short.Wait = short.Ceiling
	for _, r := range []*Record{full, long, short} {
		if _, err := ParseRecord(r.Seal().Text); err != nil || r.Check() != nil {
			t.Errorf("got %v, %v, want that it is accepted: %s", r.Check(), err, r.Text)
		}
	}
	if drift := (clock.Drift{Factor: 0.01, StepMax: 10 * time.Millisecond}); full.Quarantine(drift) <= recordWaitMax || testRecord().Quarantine(drift) != time.Minute {
		t.Errorf("quarantine: got %v and %v, want more than max_ttl, and the wait", full.Quarantine(drift), testRecord().Quarantine(drift))
	}
	if c := full.Child(); c.Text != "" || c.Digest != "" {
		t.Errorf("a child has the text %q of its parent", c.Text)
	}
	if !(RecordID{lineage: full.Lineage}).NewerThan(RecordID{}) {
		t.Error("a record of generation 0 is not newer than none")
	}
}

func wantRefusal(t *testing.T, name string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want a refusal with %q", name, err, want)
	}
}

func TestTextsOfNoRecordAreRefused(t *testing.T) {
	text := testRecord().Text
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "", "form"},
		{"another form", "4" + text[1:], "reads the forms 2 and 3"},
		{"a ceiling without max_ttl", "3" + text[1:], "9 fields, not 10"},
		{"the same ceiling and max_ttl, in the other form", strings.Replace("3"+text[1:], ";4;2;", ";4;2;20000;", 1), "not written as"},
		{"long", text + strings.Repeat("x", RecordMax), "at most 4096"},
		{"fields missing", "2;3-0123456789abcdef;7", "3 fields"},
		{"fields too many", strings.Replace(text, ";7;", ";7;7;", 1), "10 fields"},
		{"version of words", strings.Replace(text, ";7;", ";seven;", 1), `version "seven"`},
		{"leading zero", strings.Replace(text, ";7;", ";07;", 1), "is no number"},
		{"negative", strings.Replace(text, ";7;", ";-7;", 1), "is no number"},
		{"overflow", strings.Replace(text, "20000", "1000000000000001", 1), "is no number"},
		{"a time that overflows", strings.Replace(text, "20000", "1000000000000000", 1), "whole milliseconds"},
		{"a number of a seat that overflows", strings.Replace(text, "14,m14", "1000000000000000,m14", 1), "number 15"},
		{"sixteen seats", text + strings.Repeat("|5,a,b,-,-,0", 11), "more than 15"},
		{"a field of a seat missing", strings.Replace(text, ",v,0", ",v", 1), "5 fields"},
		{"a field of a seat too many", strings.Replace(text, ",v,0", ",v,0,0", 1), "7 fields"},
		{"state in capitals", strings.Replace(text, ",v,0", ",V,0", 1), "is no seat"},
		{"state of words", strings.Replace(text, ",v,0", ",voter,0", 1), "is no seat"},
		{"half an escape", strings.Replace(text, "m14", "m14%4", 1), "is no seat"},
		{"an escape that is none", strings.Replace(text, "m14", "m%zz14", 1), "is no seat"},
		{"a letter escaped", strings.Replace(text, "m14", "%6D14", 1), "not written as"},
		{"an escape in lower case", strings.Replace(text, "%C3", "%c3", 1), "not written as"},
		{"a space", strings.Replace(text, "m14", "m 14", 1), "not written as"},
		{"a line behind it", text + "\n", "is no seat"},
	} {
		_, err := ParseRecord(tc.text)
		wantRefusal(t, tc.name, err, tc.want)
	}
}

// recordStep changes testRecord's child.
type recordStep struct {
	name   string
	want   string // in the refusal; "" where the step is allowed
	change func(c *Record)
}

func runSteps(t *testing.T, steps []recordStep) {
	for _, tc := range steps {
		parent := testRecord()
		c := parent.Child()
		tc.change(c)
		err := CheckChild(parent, c.Seal())
		if tc.want != "" {
			wantRefusal(t, tc.name, err, tc.want)
		} else if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// becomes changes a seat in this version.
func becomes(c *Record, number int, state SeatState, memory string) {
	s := c.Seat(number)
	s.State, s.Memory, s.Since = state, memory, c.Version
}

func removed(c *Record, i int) {
	c.Seats = append(c.Seats[:i:i], c.Seats[i+1:]...)
	c.Roster++
}

func added(c *Record, state SeatState, memory string) {
	s := Seat{Number: 2, Name: "m2", Addr: "redis-2:6379", State: state, Memory: memory, Since: c.Version}
	c.Seats = append(c.Seats[:2:2], append([]Seat{s}, c.Seats[2:]...)...)
	c.Roster++
}

func TestStepsAreAllowed(t *testing.T) {
	runSteps(t, []recordStep{
		{"nothing", "", func(c *Record) {}},
		{"address", "", func(c *Record) { c.Seat(0).Addr = "elsewhere:6379" }},
		{"demote", "", func(c *Record) { becomes(c, 0, Learner, memoryOf("a")) }},
		{"promote", "", func(c *Record) { c.Seat(3).State = Voter }},
		{"reseat a voter", "", func(c *Record) { becomes(c, 0, Learner, memoryOf("d")) }},
		{"reseat a learner", "", func(c *Record) { becomes(c, 3, Learner, memoryOf("d")) }},
		{"reseat a vacant seat", "", func(c *Record) { becomes(c, 4, Learner, memoryOf("d")) }},
		{"vacate", "", func(c *Record) { becomes(c, 0, Vacant, "") }},
		{"leave as a voter", "", func(c *Record) { becomes(c, 0, Leaving, "") }},
		{"leave when vacant", "", func(c *Record) { becomes(c, 4, Leaving, "") }},
		{"remove", "", func(c *Record) { removed(c, 6) }},
		{"add vacant", "", func(c *Record) { added(c, Vacant, "") }},
		{"add a learner", "", func(c *Record) { added(c, Learner, memoryOf("d")) }},
		{"everything at once", "", func(c *Record) {
			becomes(c, 0, Learner, memoryOf("d"))
			c.Seat(0).Addr = "elsewhere:6379"
			c.Seat(1).State, c.Seat(1).Since = Learner, c.Version
			c.Seat(3).State = Voter
		}},
		{"raise max_ttl", "", func(c *Record) { c.MaxTTL = 50 * time.Second }},
		{"raise max_ttl and the ceiling", "", func(c *Record) { c.MaxTTL, c.Ceiling = 50*time.Second, 50*time.Second }},
		{"raise max_ttl, the ceiling and the wait", "", func(c *Record) { c.MaxTTL, c.Ceiling, c.Wait = 90*time.Second, 90*time.Second, 95*time.Second }},
		{"lower the ceiling", "", func(c *Record) { c.Ceiling, c.TTLSince = 2*time.Second, 8 }},
		{"lower max_ttl and the ceiling", "", func(c *Record) { c.MaxTTL, c.Ceiling, c.TTLSince = 2*time.Second, 2*time.Second, 8 }},
		{"lower the wait", "", func(c *Record) { c.Wait = 21 * time.Second }},
		{"raise the wait", "", func(c *Record) { c.Wait, c.TTLSince = c.Wait+time.Second, 8 }},
	})
}

func TestStepsAreRefused(t *testing.T) {
	runSteps(t, []recordStep{
		{"a record that is none", "is no memory", func(c *Record) { c.Seats[0].Memory = "" }},
		{"generation", "only a founding", func(c *Record) { c.Generation++ }},
		{"lineage", "only a founding", func(c *Record) { c.Lineage = "ffffffffffffffff" }},
		{"the same version", "it follows version 7", func(c *Record) { c.Version = 7 }},
		{"a version left out", "it follows version 7", func(c *Record) { c.Version = 9 }},
		{"another parent", "made from another version 7", func(c *Record) { c.Parent = strings.Repeat("6b", DigestLen/2) }},

		{"a ceiling raised above the wait", "is shorter than the ceiling 1m30s", func(c *Record) { c.MaxTTL, c.Ceiling = 90*time.Second, 90*time.Second }},
		{"a wait raised without its version", "last lowered at version 4", func(c *Record) { c.Wait += time.Second }},
		{"wait lowered with the ceiling", "locks of the longer one still live", func(c *Record) {
			c.Ceiling, c.Wait, c.TTLSince = 2*time.Second, 3*time.Second, 8
		}},
		{"a ceiling lowered without its version", "last lowered at version 4", func(c *Record) { c.Ceiling = 2 * time.Second }},
		{"the version of a ceiling without lowering it", "last lowered at version 8", func(c *Record) { c.TTLSince = 8 }},
		{"wait lowered while the ceiling is raised", "the ceiling rises from 20s to 30s, and the wait is lowered from 1m0s to 32s", func(c *Record) {
			c.MaxTTL, c.Ceiling, c.Wait = 30*time.Second, 30*time.Second, 32*time.Second
		}},

		{"two addresses", "who is at m0 and at m1", func(c *Record) { c.Seat(0).Addr, c.Seat(1).Addr = "elsewhere:1", "elsewhere:2" }},
		{"two memories", "who is at m0 and at m4", func(c *Record) {
			becomes(c, 0, Learner, memoryOf("d"))
			becomes(c, 4, Learner, memoryOf("e"))
		}},
		{"add one and remove one", "who is at m2 and at m14", func(c *Record) { removed(c, 6); added(c, Vacant, ""); c.Roster-- }},
		{"rename", "a seat keeps its name", func(c *Record) { c.Seat(0).Name = "another" }},
		{"add a voter", "is added as voter", func(c *Record) { added(c, Voter, memoryOf("d")) }},
		{"add a leaving seat", "is added as leaving", func(c *Record) { added(c, Leaving, "") }},
		{"add with a timer from before", "since version 7", func(c *Record) { added(c, Vacant, ""); c.Seat(2).Since = 7 }},
		{"add without the roster", "must be 3", func(c *Record) { added(c, Vacant, ""); c.Roster-- }},
		{"roster alone", "must be 2", func(c *Record) { c.Roster++ }},
		{"remove without the roster", "must be 3", func(c *Record) { removed(c, 6); c.Roster-- }},
		{"remove a voter", "is removed while it is voter", func(c *Record) { removed(c, 0) }},
		{"remove a learner", "is removed while it is learner", func(c *Record) { removed(c, 2) }},
		{"remove a vacant seat", "is removed while it is vacant", func(c *Record) { removed(c, 3) }},
		{"reseat as voter", "list a memory as a learner first", func(c *Record) { becomes(c, 0, Voter, memoryOf("d")) }},
		{"reseat a learner as voter", "list a memory as a learner first", func(c *Record) { becomes(c, 3, Voter, memoryOf("d")) }},
		{"seat a vacant seat as voter", "list a memory as a learner first", func(c *Record) { becomes(c, 4, Voter, memoryOf("d")) }},
		{"reseat a leaving seat", "is leaving and becomes learner", func(c *Record) { becomes(c, 14, Learner, memoryOf("d")) }},
		{"vacate a leaving seat", "is leaving and becomes vacant", func(c *Record) { becomes(c, 14, Vacant, "") }},

		{"demote without a timer", "must say 8", func(c *Record) { c.Seat(0).State = Learner }},
		{"reseat without a timer", "must say 8", func(c *Record) { c.Seat(3).Memory = memoryOf("d") }},
		{"vacate without a timer", "must say 8", func(c *Record) { becomes(c, 0, Vacant, ""); c.Seat(0).Since = 0 }},
		{"leave without a timer", "must say 8", func(c *Record) { c.Seat(4).State = Leaving }},
		{"promote with a new timer", "must say 5", func(c *Record) { c.Seat(3).State, c.Seat(3).Since = Voter, 8 }},
		{"a timer begins anew", "must say 5", func(c *Record) { c.Seat(3).Since = 8 }},
		{"a timer set back", "must say 5", func(c *Record) { c.Seat(3).Since = 1 }},
	})
}

// A step that leaves fewer memories than can choose the next record is refused.
func TestRecordThatNobodyCouldChange(t *testing.T) {
	parent := testRecord().Child()
	becomes(parent, 0, Vacant, "")
	if err := CheckChild(testRecord(), parent.Seal()); err != nil {
		t.Fatalf("vacate one of five: %v", err)
	}
	child := parent.Child()
	becomes(child, 1, Leaving, "")
	wantRefusal(t, "and another one", CheckChild(parent, child.Seal()), "it lists 3 memories, and 4 are needed")
}

func FuzzParseRecord(f *testing.F) {
	f.Add(testRecord().Text)
	f.Add("2;0-0000000000000000;0;-;1;1;0;0;0,a,b,-,-,0")
	f.Add("2;0-0000000000000000;0;-;1;1;0;0;0,%00,%25,a:0000000000000000,v,0")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRecord(text)
		if err != nil {
			return
		}
		again := *r
		if again.Seal(); again.Text != text || again.Digest != r.Digest {
			t.Errorf("%q is written as %q", text, again.Text)
		}
		if strings.Trim(text, " \n") != text || len(text) > RecordMax || len(r.Seats) > quorum.MaxMasters {
			t.Errorf("%q is read", text)
		}
	})
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
		if got := tt.r.IsNew(); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
