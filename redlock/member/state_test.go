package member

// Goal: what a master shows of its membership is read as redlockd writes it, and nothing else is. Method: listed values, and a fuzzer.

import (
	"fmt"
	"strings"
	"testing"
)

func TestStateIsReadAsWritten(t *testing.T) {
	r := testRecord()
	memory, ballot, child := memoryOf("a"), "00000012.00000000000000ff", strings.Repeat("c4", DigestLen/2)
	for _, tc := range []struct {
		v    string
		want State
	}{
		{r.ShownBy(memory), State{Memory: memory, Record: r.ID()}},
		{r.ShownBy(memory) + " ? " + ballot + " " + child, State{Memory: memory, Record: r.ID(), Ballot: ballot, Child: child}},
		{memory + " -", State{Memory: memory, Fresh: true}},
		{memory + " - ? " + ballot + " " + child, State{Memory: memory, Fresh: true, Ballot: ballot, Child: child}},
	} {
		got, ok := ParseState(tc.v)
		if !ok || got != tc.want {
			t.Errorf("%q: got %+v, %v, want %+v", tc.v, got, ok, tc.want)
		}
		settled, _, _ := strings.Cut(tc.v, " ? ")
		if got.String() != tc.v || got.Settled() != settled || got.RunID() != "a" {
			t.Errorf("%q: got %q, settled %q, run_id %q", tc.v, got, got.Settled(), got.RunID())
		}
	}
	if s, ok := ParseState(NewMemory(strings.Repeat("f0", 20)) + " -"); !ok || s.RunID() != strings.Repeat("f0", 20) {
		t.Errorf("a new memory: got %v, %v", s, ok)
	}
}

func TestStatesAreRefused(t *testing.T) {
	r, memory := testRecord(), memoryOf("a")
	settled := r.ShownBy(memory)
	for _, v := range []string{
		"", " ", "-", memory, memory + " ", memory + "  -", memory + " - ", memory + " x", " -",
		"a -", "a: -", ":0000000000000007 -", memory + "0 -", "a b:0000000000000007 -", "ä:0000000000000007 -", strings.Repeat("a", runIDMax+1) + ":0000000000000007 -",
		settled + " ", settled + "0", settled + " ?", settled + " ? ", settled + " ? 00000001.0000000000000000", settled + " ? 1.0000000000000000 " + r.Digest,
		settled + " ? 00000001.0000000000000000 " + r.Digest + " ", settled + " ? 00000001.000000000000000g " + r.Digest, settled + " ? -0000001.0000000000000000 " + r.Digest,
		strings.Replace(settled, ".7 ", ".07 ", 1), strings.Replace(settled, ".7 ", ". ", 1), strings.Replace(settled, ".7 ", " ", 1), strings.Replace(settled, " 3-", " 03-", 1),
		strings.Replace(settled, "cdef.", "cdeF.", 1), settled + "\n", settled + strings.Repeat(" ", StateMax),
	} {
		if s, ok := ParseState(v); ok {
			t.Errorf("%q is read as %+v", v, s)
		}
	}
}

func TestStateOf(t *testing.T) {
	mine, another := memoryOf("a"), memoryOf("b")
	for _, tc := range []struct {
		v, runID string
		want     string // the memory
		refused  bool
	}{
		{mine + " -", "a", mine, false},
		{another + " -", "a", "", false},
		{memoryOf("ab") + " -", "a", "", false}, // another process whose name has this one's in it
		{mine + " - ? of the future", "a", "", true},
		{another + " - ? of the future", "c", "", false},
		{mine + " - ? of the future", "", "", false},
		{mine + " -", "", "", false},
		{"", "a", "", false},
	} {
		s, err := StateOf(tc.v, tc.runID)
		if s.Memory != tc.want || (err != nil) != tc.refused {
			t.Errorf("%q on the process %q: got %+v, %v, want the memory %q, refused: %v", tc.v, tc.runID, s, err, tc.want, tc.refused)
		}
	}
	if s, ok := ParseState(strings.Repeat("a", runIDMax) + ":" + Nonce() + " -"); !ok || s.Memory == NewMemory(strings.Repeat("a", runIDMax)) {
		t.Errorf("a long run_id: got %+v, %v; a nonce is another each time", s, ok)
	}
}

func TestSettledOn(t *testing.T) {
	r := testRecord()
	s := State{Memory: r.Seats[0].Memory, Record: r.ID()}
	other, accepted := s, s
	other.Record.Version++
	accepted.Child = r.Digest
	for i, tc := range []struct {
		s    State
		seat int
		want bool
	}{{s, 0, true}, {s, 1, false}, {other, 0, false}, {accepted, 0, false}} {
		if got := tc.s.SettledOn(r, &r.Seats[tc.seat]); got != tc.want {
			t.Errorf("case %d: got %v, want %v", i, got, tc.want)
		}
	}
}

func TestBallotsRise(t *testing.T) {
	last := ""
	for i := range 20 {
		b := NewBallot(last)
		if b <= last || !IsBallot(b) || !strings.HasPrefix(b, fmt.Sprintf("%08d.", i+1)) {
			t.Fatalf("behind %q: got %q", last, b)
		}
		last = b
	}
	for _, tc := range []struct{ previous, want string }{
		{"00000099.ffffffffffffffff", "00000100."},
		{"99999998.ffffffffffffffff", "99999999."},
		{"99999999.ffffffffffffffff", "99999999."}, // there is none above it
		{"zzz", "00000001."},
		{"+0000007.ffffffffffffffff", "00000001."},
	} {
		if got := NewBallot(tc.previous); !strings.HasPrefix(got, tc.want) || !IsBallot(got) {
			t.Errorf("behind %q: got %q, want %s…", tc.previous, got, tc.want)
		}
	}
}

func FuzzParseState(f *testing.F) {
	r := testRecord()
	f.Add(memoryOf("a") + " -")
	f.Add(memoryOf("a") + " - ? 00000001.0000000000000000 " + r.Digest)
	f.Add(r.ShownBy(memoryOf("a")))
	f.Add(r.ShownBy(memoryOf("a")) + " ? 00000001.0000000000000000 " + r.Digest)
	f.Fuzz(func(t *testing.T, v string) {
		s, ok := ParseState(v)
		if ok && (s.String() != v || s.RunID() == "" || !strings.HasPrefix(v, s.Settled())) {
			t.Errorf("%q is written as %q, settled %q", v, s, s.Settled())
		}
	})
}
