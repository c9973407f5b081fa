package redlock

// Goal: what a master shows of its membership is read as redlockd writes it, and nothing else is. Method: listed values, and a fuzzer.

import (
	"fmt"
	"strings"
	"testing"
)

func TestStateIsReadAsWritten(t *testing.T) {
	r := testRecord()
	memory, ballot, child := memoryOf("a"), "00000012.00000000000000ff", strings.Repeat("c4", digestLen/2)
	for _, tc := range []struct {
		v    string
		want memberState
	}{
		{r.shownBy(memory), memberState{memory: memory, record: r.recordID()}},
		{r.shownBy(memory) + " ? " + ballot + " " + child, memberState{memory: memory, record: r.recordID(), ballot: ballot, child: child}},
		{memory + " -", memberState{memory: memory, fresh: true}},
		{memory + " - ? " + ballot + " " + child, memberState{memory: memory, fresh: true, ballot: ballot, child: child}},
	} {
		got, err := parseState(tc.v)
		if err != nil || got != tc.want {
			t.Errorf("%q: got %+v, %v, want %+v", tc.v, got, err, tc.want)
		}
		settled, _, _ := strings.Cut(tc.v, " ? ")
		if got.String() != tc.v || got.settled() != settled || got.runID() != "a" {
			t.Errorf("%q: got %q, settled %q, run_id %q", tc.v, got, got.settled(), got.runID())
		}
	}
	if s, err := parseState(newMemory(strings.Repeat("f0", 20)) + " -"); err != nil || s.runID() != strings.Repeat("f0", 20) {
		t.Errorf("a new memory: got %v, %v", s, err)
	}
}

func TestStatesAreRefused(t *testing.T) {
	r, memory := testRecord(), memoryOf("a")
	settled := r.shownBy(memory)
	for _, v := range []string{
		"", " ", "-", memory, memory + " ", memory + "  -", memory + " - ", memory + " x", " -",
		"a -", "a: -", ":0000000000000007 -", memory + "0 -", "a b:0000000000000007 -", "ä:0000000000000007 -", strings.Repeat("a", runIDMax+1) + ":0000000000000007 -",
		settled + " ", settled + "0", settled + " ?", settled + " ? ", settled + " ? 00000001.0000000000000000", settled + " ? 1.0000000000000000 " + r.digest,
		settled + " ? 00000001.0000000000000000 " + r.digest + " ", settled + " ? 00000001.000000000000000g " + r.digest, settled + " ? -0000001.0000000000000000 " + r.digest,
		strings.Replace(settled, ".7 ", ".07 ", 1), strings.Replace(settled, ".7 ", ". ", 1), strings.Replace(settled, ".7 ", " ", 1), strings.Replace(settled, " 3-", " 03-", 1),
		strings.Replace(settled, "cdef.", "cdeF.", 1), settled + "\n", settled + strings.Repeat(" ", stateMax),
	} {
		if s, err := parseState(v); err == nil {
			t.Errorf("%q is read as %+v", v, s)
		}
	}
}

func TestBallotsRise(t *testing.T) {
	last := ""
	for i := range 20 {
		b := newBallot(last)
		if b <= last || !isBallot(b) || !strings.HasPrefix(b, fmt.Sprintf("%08d.", i+1)) {
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
		if got := newBallot(tc.previous); !strings.HasPrefix(got, tc.want) || !isBallot(got) {
			t.Errorf("behind %q: got %q, want %s…", tc.previous, got, tc.want)
		}
	}
}

func FuzzParseState(f *testing.F) {
	r := testRecord()
	f.Add(memoryOf("a") + " -")
	f.Add(memoryOf("a") + " - ? 00000001.0000000000000000 " + r.digest)
	f.Add(r.shownBy(memoryOf("a")))
	f.Add(r.shownBy(memoryOf("a")) + " ? 00000001.0000000000000000 " + r.digest)
	f.Fuzz(func(t *testing.T, v string) {
		s, err := parseState(v)
		if err == nil && (s.String() != v || s.runID() == "" || !strings.HasPrefix(v, s.settled())) {
			t.Errorf("%q is written as %q, settled %q", v, s, s.settled())
		}
	})
}
