package member

import "testing"

// A note that cannot be read is none.
func TestNotesOfCopies(t *testing.T) {
	for _, text := range []string{"", "x", "0000000000000001 1 2 3", "0000000000000001 1 2 101 m1", "000000000000000 1 2 3 m1", "0000000000000001 -1 2 3 m1", "0000000000000001 1 2x 3 m1"} {
		if n, ok := parseCopyNote(text); ok {
			t.Errorf("%q: got %+v, want it refused", text, n)
		}
	}
}
