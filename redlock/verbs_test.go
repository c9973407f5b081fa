package redlock

import "testing"

// Every verb has a row, and the row what a round of it needs.
func TestVerbs(t *testing.T) {
	for v := range verbCount {
		row := &verbs[v]
		switch {
		case (row.write == nil) != row.bare || (row.read == nil) != row.bare:
			t.Errorf("verb %d: it has no command, or nothing reads its reply", v)
		case (row.outcome == nil) != (row.decided == nil):
			t.Errorf("verb %d: a rule of outcomes and what a decision does belong together", v)
		case row.answered != nil && row.outcome != nil:
			t.Errorf("verb %d: two things decide", v)
		case row.late != nil && row.outcome == nil:
			t.Errorf("verb %d: without a decision no vote is late", v)
		case row.release && (row.uncounted != nil || !row.neverShed):
			t.Errorf("verb %d: a release counts whatever the master has forgotten, and is never shed", v)
		}
	}
}
