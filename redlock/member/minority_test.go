package member

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/conn"
)

// What a learner tells of is bounded, and what another client makes of that, too.
func TestMinorityIsBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	all := map[string]MinorityLock{
		"a":                                    {Digest: ReadersDigest, On: "m1", Ends: now.Add(time.Second)},
		strings.Repeat("x", minorityNameMax+1): {On: "m1", Ends: now.Add(time.Second)},
	}
	for i := range 2 * minorityMax {
		all[fmt.Sprint("r ", i, "\n\x00\"")] = MinorityLock{Digest: conn.Digest("v"), On: "a b,c\nd", Ends: now.Add(5 * time.Second)}
	}
	f := foundAt(0, processMemory(0, 1), votersRecord(3))
	f.Clock, f.Fields = now.Add(time.Hour), map[string]string{MinorityField: MinorityText(all, time.Hour)}
	list := f.Minority()
	if len(list) != minorityMax {
		t.Fatalf("got %d locks, want %d", len(list), minorityMax)
	}
	want := MinorityLock{Resource: "a", Digest: "-", On: "m1", By: list[0].By, Ends: now.Add(time.Hour + time.Second)}
	if got := list[0]; !got.Ends.Equal(want.Ends) || got.Resource != want.Resource || got.Digest != want.Digest || got.On != want.On {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := list[1]; got.Resource != "r 0\n\x00\"" || strings.ContainsAny(got.On, "\n") || !got.Of(conn.Digest("v"), 0) || got.Of("-", 0) {
		t.Errorf("got %+v, want the name as it is, and masters that can be shown", got)
	}
	f.Clock = now.Add(time.Hour + 2*time.Second)
	if got := len(f.Minority()); got != minorityMax-1 {
		t.Errorf("one has ended: got %d", got)
	}
	for _, text := range []string{"x", "1 2 3", "\n\n\n", "99999999999999999999999 a \"b\" \"c\"", "1 a \"b", strings.Repeat("9999999999999 a \"b\" \"c\"\n", 100_000), "9999999999999 a b c\n9999999999999 a \"b\" \"c\"\n"} {
		f.Fields[MinorityField] = text
		if got := f.Minority(); len(got) > 1 {
			t.Errorf("%.40q: got %d locks", text, len(got))
		}
	}
}

// What a master holds now is what it was given, or something else by now.
func TestMinorityOfWhatIsHeld(t *testing.T) {
	lock, readers := MinorityLock{Digest: conn.Digest("v")}, MinorityLock{Digest: ReadersDigest}
	for _, tc := range []struct {
		one     MinorityLock
		digest  string
		readers int
		want    bool
	}{
		{lock, conn.Digest("v"), 0, true},
		{lock, conn.Digest("w"), 0, false},
		{lock, "", 1, false},
		{readers, "", 0, false},
		{readers, "", 1, true},
		{readers, "", 2, true},
		{readers, conn.Digest("v"), 0, false},
	} {
		if got := tc.one.Of(tc.digest, tc.readers); got != tc.want {
			t.Errorf("%s beside the digest %q and %d readers: got %v, want %v", tc.one.Digest, tc.digest, tc.readers, got, tc.want)
		}
	}
}

// The longest name is told, and a text as long as the longest possible.
func TestMinorityAtItsBounds(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	longest := strings.Repeat("\x00", minorityNameMax)
	f := foundAt(0, processMemory(0, 1), votersRecord(3))
	f.Clock = now
	read := func(text string) []MinorityLock {
		f.Fields = map[string]string{MinorityField: text}
		return f.Minority()
	}
	one := MinorityText(map[string]MinorityLock{longest: {Digest: "d", On: "m1", Ends: now.Add(time.Second)}}, 0)
	if got := read(one); len(got) != 1 || got[0].Resource != longest {
		t.Errorf("a name of %d bytes: got %d locks", minorityNameMax, len(got))
	}
	if got := read(one + strings.Repeat("x\n", (minorityMax*(4*minorityNameMax+1024)-len(one))/2)); len(got) != 1 {
		t.Errorf("a text as long as may be: got %d locks", len(got))
	}
	if got := MinorityText(map[string]MinorityLock{longest + "x": {Digest: "d", On: "m1", Ends: now.Add(time.Second)}}, 0); got != "" {
		t.Errorf("a name of a byte more: it is told, in %d bytes", len(got))
	}
	if got := read(strings.Repeat("1800000001000 d \"m1\" \"r\"\n", minorityMax+1)); len(got) != minorityMax {
		t.Errorf("a lock more than may be: got %d locks, want %d", len(got), minorityMax)
	}
	for _, line := range []string{"1800000001000 d \"m1\"", "x d \"m1\" \"r\"", "1800000000000 d \"m1\" \"ended\""} {
		if got := read(line + "\n" + one); len(got) != 1 {
			t.Errorf("%s: got %d locks, want the line behind it alone", line, len(got))
		}
	}
}
