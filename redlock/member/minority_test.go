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
