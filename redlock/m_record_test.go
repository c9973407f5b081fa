package redlock

// Goal: a record is read as it was written, what no redlockd wrote is refused, and a step changes only what it may. Method: one case
// per rule, each with a word of the refusal; steps that are allowed; and a fuzzer for what masters may show.

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// memoryOf names the memory of a process in these tests.
func memoryOf(process string) string { return fmt.Sprintf("%s:%016x", process, 7) }

// testRecord is version 7 of seven seats, of which number 2 is missing: four voters, a learner, a vacant seat and one that is leaving.
func testRecord() *record {
	r := &record{
		generation: 3, lineage: "0123456789abcdef", version: 7, parent: strings.Repeat("5a", digestLen/2),
		maxTTL: 20 * time.Second, wait: time.Minute, ttlSince: 4, roster: 2,
		seats: []seat{
			{number: 0, name: "m0", addr: "10.0.0.1:6379", memory: memoryOf("a"), state: seatVoter},
			{number: 1, name: "m1, ä|;%", addr: "[::1]:6379", memory: memoryOf("b"), state: seatVoter, since: 2},
			{number: 3, name: "m3", addr: "/run/redis.sock", memory: memoryOf("c"), state: seatLearner, since: 5},
			{number: 4, name: "m4", addr: "redis-4:6379", state: seatVacant, since: 6},
			{number: 5, name: "m5", addr: "redis-5:6379", memory: memoryOf("e5"), state: seatVoter},
			{number: 6, name: "m6", addr: "redis-6:6379", memory: memoryOf("e6"), state: seatVoter},
			{number: 14, name: "m14", addr: "redis-14:6379", state: seatLeaving, since: 7},
		},
	}
	return r.seal()
}

func TestRecordIsReadAsWritten(t *testing.T) {
	r := testRecord()
	const want = "2;3-0123456789abcdef;7;5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a;20000;60000;4;2;" +
		"0,m0,10.0.0.1:6379,a:0000000000000007,v,0|1,m1%2C%20%C3%A4%7C%3B%25,%5B::1%5D:6379,b:0000000000000007,v,2|" +
		"3,m3,/run/redis.sock,c:0000000000000007,l,5|4,m4,redis-4:6379,-,-,6|" +
		"5,m5,redis-5:6379,e5:0000000000000007,v,0|6,m6,redis-6:6379,e6:0000000000000007,v,0|14,m14,redis-14:6379,-,x,7"
	// The text is what proxies of different versions agree on: a change of it is a new form.
	if r.text != want {
		t.Fatalf("text:\n got %s\nwant %s", r.text, want)
	}
	if want := "56ebf85738db1110f6b7bb75bb76d7c8"; r.digest != want {
		t.Errorf("digest: got %s, want %s", r.digest, want)
	}
	read, err := parseRecord(r.text)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%+v", *read), fmt.Sprintf("%+v", *r); got != want {
		t.Errorf("read again:\n got %s\nwant %s", got, want)
	}
	if got, want := r.id(), "3-0123456789abcdef.7 "+r.digest; got != want {
		t.Errorf("id: got %q, want %q", got, want)
	}
	if got, want := r.shownBy("x:1"), "x:1 "+r.id(); got != want {
		t.Errorf("shownBy: got %q, want %q", got, want)
	}
}

func TestSeatsOfARecord(t *testing.T) {
	r := testRecord()
	if q, v := r.quorum(), r.voters(); q != 4 || v != 4 {
		t.Errorf("got quorum %d, voters %d, want 4 and 4", q, v)
	}
	if s := r.seat(3); s == nil || s.name != "m3" || s != r.seatNamed("m3") || s != r.lists(memoryOf("c")) {
		t.Errorf("seat 3: got %v, by name %v, by memory %v", s, r.seatNamed("m3"), r.lists(memoryOf("c")))
	}
	if r.seat(2) != nil || r.seatNamed("m2") != nil || r.lists(memoryOf("z")) != nil || r.lists("") != nil {
		t.Error("found a seat that there is not")
	}
	c := r.child()
	c.seats[0].name = "another"
	if r.seats[0].name != "m0" {
		t.Error("a change of the child changed its parent")
	}
}

func TestNewerRecords(t *testing.T) {
	const other = "ffffffffffffffff"
	id := recordID{generation: 3, lineage: "0123456789abcdef", version: 7}
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
		if got := id.newerThan(recordID{generation: tc.generation, lineage: tc.lineage, version: tc.version}); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestRecordsAreRefused(t *testing.T) {
	if err := testRecord().check(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, want string
		change     func(r *record)
	}{
		{"lineage", "no lineage", func(r *record) { r.lineage = "0123456789ABCDEF" }},
		{"parent", "no digest", func(r *record) { r.parent = "5a" }},
		{"no parent", "only version 0", func(r *record) { r.parent = "" }},
		{"a founding with a parent", "only version 0", func(r *record) { r.version = 0 }},
		{"version", "no count", func(r *record) { r.version = countMax + 1 }},
		{"generation", "no count", func(r *record) { r.generation = -1 }},
		{"max_ttl of no time", "whole milliseconds", func(r *record) { r.maxTTL = 0 }},
		{"a wait of years", "whole milliseconds", func(r *record) { r.wait = 2 * recordWaitMax }},
		{"wait below max_ttl", "is shorter than max_ttl = 20s", func(r *record) { r.wait = r.maxTTL - time.Millisecond }},
		{"max_ttl of the future", "after this version", func(r *record) { r.ttlSince = 8 }},
		{"no seats", "0 seats", func(r *record) { r.seats = nil }},
		{"too many seats", "16 seats", func(r *record) {
			r.seats = nil
			for i := range MaxMasters + 1 {
				r.seats = append(r.seats, seat{number: i, name: fmt.Sprint(i), addr: fmt.Sprint(i), state: seatVacant})
			}
		}},
		{"number", "has the number 15", func(r *record) { r.seats[4].number = MaxMasters }},
		{"the same number", "two seats have the number 0", func(r *record) { r.seats[1].number = 0 }},
		{"order", "stands behind", func(r *record) { r.seats[0].number = 2 }},
		{"no name", "a name of 0 bytes", func(r *record) { r.seats[0].name = "" }},
		{"long name", "a name of 256 bytes", func(r *record) { r.seats[0].name = strings.Repeat("n", 256) }},
		{"no address", "an address of 0 bytes", func(r *record) { r.seats[0].addr = "" }},
		{"the same name", "the name m0", func(r *record) { r.seats[2].name = "m0" }},
		{"the same address", "the address redis-4:6379", func(r *record) { r.seats[0].addr = "redis-4:6379" }},
		{"long text", "shorten names", func(r *record) {
			for i := range r.seats {
				r.seats[i].name = strings.Repeat("\x00", 250) + fmt.Sprint(i)
				r.seats[i].addr = r.seats[i].name
			}
		}},
		{"a voter without memory", "is no memory", func(r *record) { r.seats[0].memory = "" }},
		{"a memory without nonce", "is no memory", func(r *record) { r.seats[2].memory = "c" }},
		{"a vacant seat with a memory", "is vacant, and lists", func(r *record) { r.seats[3].memory = memoryOf("d") }},
		{"a leaving seat with a memory", "is leaving, and lists", func(r *record) { r.seats[6].memory = memoryOf("d") }},
		{"state", "unknown state 'V'", func(r *record) { r.seats[0].state = 'V'; r.seats[0].memory = "" }},
		{"a memory twice", "it would vote twice", func(r *record) { r.seats[2].memory = memoryOf("a") }},
		{"since the future", "since version 8", func(r *record) { r.seats[0].since = 8 }},
	} {
		r := testRecord()
		tc.change(r)
		wantRefusal(t, tc.name, r.check(), tc.want)
		if _, err := parseRecord(r.seal().text); err == nil {
			t.Errorf("%s: parseRecord takes %s", tc.name, r.text)
		}
	}
	r := testRecord()
	r.maxTTL += time.Microsecond // a text would lose it
	wantRefusal(t, "microseconds", r.check(), "whole milliseconds")
}

func wantRefusal(t *testing.T, name string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want a refusal with %q", name, err, want)
	}
}

func TestTextsOfNoRecordAreRefused(t *testing.T) {
	text := testRecord().text
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "", "form"},
		{"another form", "3" + text[1:], "reads form 2"},
		{"long", text + strings.Repeat("x", recordMax), "at most 4096"},
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
		{"state of words", strings.Replace(text, ",v,0", ",voter,0", 1), "is no seat"},
		{"half an escape", strings.Replace(text, "m14", "m14%4", 1), "is no seat"},
		{"an escape that is none", strings.Replace(text, "m14", "m%zz14", 1), "is no seat"},
		{"a letter escaped", strings.Replace(text, "m14", "%6D14", 1), "not written as"},
		{"an escape in lower case", strings.Replace(text, "%C3", "%c3", 1), "not written as"},
		{"a space", strings.Replace(text, "m14", "m 14", 1), "not written as"},
		{"a line behind it", text + "\n", "is no seat"},
	} {
		_, err := parseRecord(tc.text)
		wantRefusal(t, tc.name, err, tc.want)
	}
}

// recordStep changes testRecord's child.
type recordStep struct {
	name   string
	want   string // in the refusal; "" where the step is allowed
	change func(c *record)
}

func runSteps(t *testing.T, steps []recordStep) {
	for _, tc := range steps {
		parent := testRecord()
		c := parent.child()
		tc.change(c)
		err := checkChild(parent, c.seal())
		if tc.want != "" {
			wantRefusal(t, tc.name, err, tc.want)
		} else if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// becomes changes a seat in this version.
func becomes(c *record, number int, state seatState, memory string) {
	s := c.seat(number)
	s.state, s.memory, s.since = state, memory, c.version
}

func removed(c *record, i int) {
	c.seats = append(c.seats[:i:i], c.seats[i+1:]...)
	c.roster++
}

func added(c *record, state seatState, memory string) {
	s := seat{number: 2, name: "m2", addr: "redis-2:6379", state: state, memory: memory, since: c.version}
	c.seats = append(c.seats[:2:2], append([]seat{s}, c.seats[2:]...)...)
	c.roster++
}

func TestStepsAreAllowed(t *testing.T) {
	runSteps(t, []recordStep{
		{"nothing", "", func(c *record) {}},
		{"address", "", func(c *record) { c.seat(0).addr = "elsewhere:6379" }},
		{"demote", "", func(c *record) { becomes(c, 0, seatLearner, memoryOf("a")) }},
		{"promote", "", func(c *record) { c.seat(3).state = seatVoter }},
		{"reseat a voter", "", func(c *record) { becomes(c, 0, seatLearner, memoryOf("d")) }},
		{"reseat a learner", "", func(c *record) { becomes(c, 3, seatLearner, memoryOf("d")) }},
		{"reseat a vacant seat", "", func(c *record) { becomes(c, 4, seatLearner, memoryOf("d")) }},
		{"vacate", "", func(c *record) { becomes(c, 0, seatVacant, "") }},
		{"leave as a voter", "", func(c *record) { becomes(c, 0, seatLeaving, "") }},
		{"leave when vacant", "", func(c *record) { becomes(c, 4, seatLeaving, "") }},
		{"remove", "", func(c *record) { removed(c, 6) }},
		{"add vacant", "", func(c *record) { added(c, seatVacant, "") }},
		{"add a learner", "", func(c *record) { added(c, seatLearner, memoryOf("d")) }},
		{"everything at once", "", func(c *record) {
			becomes(c, 0, seatLearner, memoryOf("d"))
			c.seat(0).addr = "elsewhere:6379"
			c.seat(1).state, c.seat(1).since = seatLearner, c.version
			c.seat(3).state = seatVoter
		}},
		{"raise max_ttl", "", func(c *record) { c.maxTTL = 50 * time.Second }},
		{"raise max_ttl and wait", "", func(c *record) { c.maxTTL, c.wait = 90*time.Second, 95*time.Second }},
		{"lower max_ttl", "", func(c *record) { c.maxTTL, c.ttlSince = 2*time.Second, 8 }},
		{"lower the wait", "", func(c *record) { c.wait = 21 * time.Second }},
		{"raise the wait", "", func(c *record) { c.wait += time.Second }},
	})
}

func TestStepsAreRefused(t *testing.T) {
	runSteps(t, []recordStep{
		{"a record that is none", "is no memory", func(c *record) { c.seats[0].memory = "" }},
		{"generation", "only a founding", func(c *record) { c.generation++ }},
		{"lineage", "only a founding", func(c *record) { c.lineage = "ffffffffffffffff" }},
		{"the same version", "it follows version 7", func(c *record) { c.version = 7 }},
		{"a version left out", "it follows version 7", func(c *record) { c.version = 9 }},
		{"another parent", "made from another version 7", func(c *record) { c.parent = strings.Repeat("6b", digestLen/2) }},

		{"max_ttl raised above the wait", "is shorter than max_ttl = 1m30s", func(c *record) { c.maxTTL = 90 * time.Second }},
		{"wait lowered with max_ttl", "locks of the longer max_ttl still live", func(c *record) {
			c.maxTTL, c.wait, c.ttlSince = 2*time.Second, 3*time.Second, 8
		}},
		{"max_ttl lowered without its version", "last lowered at version 4", func(c *record) { c.maxTTL = 2 * time.Second }},
		{"the version of max_ttl without lowering it", "last lowered at version 8", func(c *record) { c.ttlSince = 8 }},
		{"wait lowered while max_ttl is raised", "max_ttl rises from 20s to 30s, and the wait is lowered from 1m0s to 32s", func(c *record) {
			c.maxTTL, c.wait = 30*time.Second, 32*time.Second
		}},

		{"two addresses", "who is at m0 and at m1", func(c *record) { c.seat(0).addr, c.seat(1).addr = "elsewhere:1", "elsewhere:2" }},
		{"two memories", "who is at m0 and at m4", func(c *record) {
			becomes(c, 0, seatLearner, memoryOf("d"))
			becomes(c, 4, seatLearner, memoryOf("e"))
		}},
		{"add one and remove one", "who is at m2 and at m14", func(c *record) { removed(c, 6); added(c, seatVacant, ""); c.roster-- }},
		{"rename", "a seat keeps its name", func(c *record) { c.seat(0).name = "another" }},
		{"add a voter", "is added as voter", func(c *record) { added(c, seatVoter, memoryOf("d")) }},
		{"add a leaving seat", "is added as leaving", func(c *record) { added(c, seatLeaving, "") }},
		{"add with a timer from before", "since version 7", func(c *record) { added(c, seatVacant, ""); c.seat(2).since = 7 }},
		{"add without the roster", "must be 3", func(c *record) { added(c, seatVacant, ""); c.roster-- }},
		{"roster alone", "must be 2", func(c *record) { c.roster++ }},
		{"remove without the roster", "must be 3", func(c *record) { removed(c, 6); c.roster-- }},
		{"remove a voter", "is removed while it is voter", func(c *record) { removed(c, 0) }},
		{"remove a learner", "is removed while it is learner", func(c *record) { removed(c, 2) }},
		{"remove a vacant seat", "is removed while it is vacant", func(c *record) { removed(c, 3) }},
		{"reseat as voter", "list a memory as a learner first", func(c *record) { becomes(c, 0, seatVoter, memoryOf("d")) }},
		{"reseat a learner as voter", "list a memory as a learner first", func(c *record) { becomes(c, 3, seatVoter, memoryOf("d")) }},
		{"seat a vacant seat as voter", "list a memory as a learner first", func(c *record) { becomes(c, 4, seatVoter, memoryOf("d")) }},
		{"reseat a leaving seat", "is leaving and becomes learner", func(c *record) { becomes(c, 14, seatLearner, memoryOf("d")) }},
		{"vacate a leaving seat", "is leaving and becomes vacant", func(c *record) { becomes(c, 14, seatVacant, "") }},

		{"demote without a timer", "must say 8", func(c *record) { c.seat(0).state = seatLearner }},
		{"reseat without a timer", "must say 8", func(c *record) { c.seat(3).memory = memoryOf("d") }},
		{"vacate without a timer", "must say 8", func(c *record) { becomes(c, 0, seatVacant, ""); c.seat(0).since = 0 }},
		{"leave without a timer", "must say 8", func(c *record) { c.seat(4).state = seatLeaving }},
		{"promote with a new timer", "must say 5", func(c *record) { c.seat(3).state, c.seat(3).since = seatVoter, 8 }},
		{"a timer begins anew", "must say 5", func(c *record) { c.seat(3).since = 8 }},
		{"a timer set back", "must say 5", func(c *record) { c.seat(3).since = 1 }},
	})
}

// A step that leaves fewer memories than can choose the next record is refused.
func TestRecordThatNobodyCouldChange(t *testing.T) {
	parent := testRecord().child()
	becomes(parent, 0, seatVacant, "")
	if err := checkChild(testRecord(), parent.seal()); err != nil {
		t.Fatalf("vacate one of five: %v", err)
	}
	child := parent.child()
	becomes(child, 1, seatLeaving, "")
	wantRefusal(t, "and another one", checkChild(parent, child.seal()), "it lists 3 memories, and 4 are needed")
}

func FuzzParseRecord(f *testing.F) {
	f.Add(testRecord().text)
	f.Add("2;0-0000000000000000;0;-;1;1;0;0;0,a,b,-,-,0")
	f.Add("2;0-0000000000000000;0;-;1;1;0;0;0,%00,%25,a:0000000000000000,v,0")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRecord(text)
		if err != nil {
			return
		}
		again := *r
		if again.seal(); again.text != text || again.digest != r.digest {
			t.Errorf("%q is written as %q", text, again.text)
		}
		if strings.Trim(text, " \n") != text || len(text) > recordMax || len(r.seats) > MaxMasters {
			t.Errorf("%q is read", text)
		}
	})
}
