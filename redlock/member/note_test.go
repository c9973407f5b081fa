package member

import (
	"fmt"
	"testing"
	"time"
)

// A note that cannot be read is none.
func TestNotesOfCopies(t *testing.T) {
	for _, text := range []string{"", "x", "0000000000000001 1 2 3", "0000000000000001 1 2 101 m1", "000000000000000 1 2 3 m1", "0000000000000001 -1 2 3 m1", "0000000000000001 1 2x 3 m1"} {
		if n, ok := parseCopyNote(text); ok {
			t.Errorf("%q: got %+v, want it refused", text, n)
		}
	}
}

// A copy is told of until it is whole, and while it goes on: what was said long ago, or cannot be, is no copy.
func TestCopyThatIsToldOf(t *testing.T) {
	f := surveyOf(votersRecord(3)).Reports[0]
	for _, tc := range []struct {
		done int
		ago  time.Duration
		want bool
	}{{0, 0, true}, {99, 999 * ms, true}, {100, 999 * ms, true}, {101, 0, false}, {50, time.Second, false}} {
		f.Fields["copy"] = fmt.Sprintf("%s %d %s", ourLineage, f.Clock.Add(-tc.ago).UnixMilli(), CopyNote{Given: 7, Done: tc.done, From: "m1"}.Text())
		if n, ok := f.Copying(time.Second); ok != tc.want || ok && (n.Done != tc.done || n.Given != 7 || n.From != "m1" || n.By != ourLineage) {
			t.Errorf("%d %%, said %v ago: got %+v, %v, want %v", tc.done, tc.ago, n, ok, tc.want)
		}
	}
}
