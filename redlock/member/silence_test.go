package member

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Since when a memory is silent: since it was last heard, by this client or by others, or listed anew, or since it is first asked about.
func TestSilenceOfAMemory(t *testing.T) {
	const wait = 20 * time.Second
	base := votersRecord(3).Changed(func(r *Record) { r.Wait = wait })
	another := base.Changed(func(r *Record) { r.Seats[0].Memory = processMemory(0, 7) })
	for _, tc := range []struct {
		name string
		have func(h HeardAt, s *Survey) // what happened before; m0 and m1 are silent now, m2 remembers
		left time.Duration              // 0: lost
		who  string
	}{
		{"never heard", func(HeardAt, *Survey) {}, wait, "m0 (since 11:00:00 UTC), m1 (since 11:00:00 UTC)"},
		{"both heard a wait ago", func(h HeardAt, s *Survey) {
			h.note(base.Seats[0].Memory, s.Began.Add(-wait))
			h.note(base.Seats[1].Memory, s.Began.Add(-wait))
		}, 0, ""},
		{"one of them lately", func(h HeardAt, s *Survey) {
			h.note(base.Seats[0].Memory, s.Began.Add(-wait))
			h.note(base.Seats[1].Memory, s.Began.Add(-5*time.Second))
		}, 15 * time.Second, "m1 (since 10:59:55 UTC)"},
		{"one after the other: until both are given up", func(h HeardAt, s *Survey) {
			h.note(base.Seats[0].Memory, s.Began.Add(-3*time.Second))
			h.note(base.Seats[1].Memory, s.Began.Add(-5*time.Second))
		}, 17 * time.Second, "m0 (since 10:59:57 UTC), m1 (since 10:59:55 UTC)"},
		{"what was heard earlier is of no account", func(h HeardAt, s *Survey) {
			for _, one := range base.Seats[:2] {
				h.note(one.Memory, s.Began.Add(-5*time.Second))
				h.note(one.Memory, s.Began.Add(-wait))
			}
		}, 15 * time.Second, "m0 (since 10:59:55 UTC), m1 (since 10:59:55 UTC)"},
		{"others have heard one since", func(h HeardAt, s *Survey) {
			h.note(base.Seats[0].Memory, s.Began.Add(-wait))
			h.note(base.Seats[1].Memory, s.Began.Add(-wait))
			s.Reports[2].Fields[HeardField(0)] = fmt.Sprint(s.Reports[2].Clock.Add(-4 * time.Second).UnixMilli())
		}, 16 * time.Second, "m0 (since 10:59:56 UTC)"},
		{"it was listed since", func(h HeardAt, s *Survey) {
			h.note(base.Seats[0].Memory, s.Began.Add(-wait))
			h.note(base.Seats[1].Memory, s.Began.Add(-wait))
			h.Listed(base, another, s.Began.Add(-6*time.Second))
		}, 14 * time.Second, "m0 (since 10:59:54 UTC)"},
		{"for days", func(h HeardAt, s *Survey) {
			h.note(base.Seats[0].Memory, s.Began.Add(-2*recordWaitMax))
			h.note(base.Seats[1].Memory, s.Began.Add(-2*recordWaitMax))
		}, 0, ""},
	} {
		s := surveyOf(base)
		s.Began = time.Date(2026, 11, 28, 11, 0, 0, 0, time.UTC)
		h := make(HeardAt)
		away(0, 1)(s)
		tc.have(h, s)
		h.Shown(s, base)
		left, who := h.MayComeBack(s, base, false, wait)
		if left != tc.left || left > 0 && who != tc.who {
			t.Errorf("%s: got %v, %s, want %v, %s", tc.name, left, who, tc.left, tc.who)
		}
	}
}

// What nothing lists is forgotten at last: each restart of a master makes a memory.
func TestHeardIsForgotten(t *testing.T) {
	base, h := votersRecord(3), make(HeardAt)
	s := surveyOf(base)
	for i := range 1000 {
		h.note(fmt.Sprint("memory ", i), s.Began.Add(-2*recordWaitMax))
	}
	h.Shown(s, base)
	var names []string
	for memory := range h {
		names = append(names, memory)
	}
	if len(h) != 3 {
		t.Errorf("got %d memories, want the three that the record lists: %.200s", len(h), strings.Join(names, ", "))
	}
}

// What is not listed yet stays for as long as any wait may be: the next record may list it, and its silence began when it was last heard. A seat without a master is
// silent from the start.
func TestHeardIsKept(t *testing.T) {
	base := votersRecord(3).Changed(func(r *Record) { r.Seats[2].Memory, r.Seats[2].State = "", Vacant })
	s, h := surveyOf(base), make(HeardAt)
	away(0, 1, 2)(s)
	h.note("at its end", s.Began.Add(-recordWaitMax))
	h.note("past it", s.Began.Add(-recordWaitMax-1))
	h.Shown(s, nil)
	if len(h) != 1 || h["at its end"].IsZero() {
		t.Errorf("got %v, want what was heard %v ago", h, recordWaitMax)
	}
	h.Listed(base, nil, s.Began)
	s = surveyOf(base)
	s.Reports[0].Fields[HeardField(2)] = fmt.Sprint(s.Began.UnixMilli()) // of the master that had the seat
	s.Reports = s.Reports[:2]
	if h.Shown(s, base); len(h) != 3 {
		t.Errorf("got %v, want the two memories that are listed, and the other one", h)
	}
}

// A founding waits until the record cannot have a quorum again: for as many of the silent as that takes, those first whose time is over first.
func TestWhoMayComeBack(t *testing.T) {
	const wait = 20 * time.Second
	base := votersRecord(5).Changed(func(r *Record) { r.Wait = wait })
	for _, tc := range []struct {
		shows string
		left  time.Duration
	}{
		{"m1 m2 m3 silent", 19 * time.Second},
		{"m1 m2 m3 silent; m0 forgot", 18 * time.Second},
		{"m1 m2 m3 silent; m0 forgot, at own", 18 * time.Second}, // it is told of the record, and has no vote under it
		{"m1 m2 m3 silent; m0 m4 forgot", 17 * time.Second},
		{"m1 m2 silent; m0 m3 m4 forgot", 0},
		{"m1 unasked; m2 m3 silent; m0 m4 forgot", 17 * time.Second},
	} {
		c := sceneOf(t, []string{tc.shows}, base, "", nil)
		c.show(tc.shows)
		h := make(HeardAt)
		for i := range 4 {
			h.note(base.Seats[i].Memory, c.Survey.Began.Add(-time.Duration(i)*time.Second)) // m1 has 19 s left, m2 18, m3 17
		}
		if left, who := h.MayComeBack(c.Survey, base, false, wait); left != tc.left {
			t.Errorf("%s: waits %v for %s, want %v", tc.shows, left, who, tc.left)
		}
	}
}

func TestTextOfSilence(t *testing.T) {
	for _, tc := range []struct {
		base *Record
		want string
	}{{nil, "no membership yet, and not all masters that the settings name are there: start m1"}, {votersRecord(3), "some are silent that may: m1. If they are lost for good, `redlockd members refound`"}} {
		if got := SilenceText(tc.base, "m1"); !strings.Contains(got, tc.want) {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

// A master that shows another memory, or another record, each time it is asked fills nobody's memory. What the record lists stays.
func TestHeardIsBounded(t *testing.T) {
	base, h := votersRecord(3), make(HeardAt)
	s := surveyOf(base)
	for i := range heardMax - 3 {
		h[processMemory(1, 2*i+10_000)] = s.Began
	}
	if h.Shown(s, base); len(h) != heardMax {
		t.Errorf("%d memories are kept of %d for which there is room", len(h), heardMax)
	}
	away(0)(s)
	for i := range 8 {
		r := base.Changed(func(r *Record) { r.Seats[1].Memory = processMemory(1, 2*i+10) })
		s.Reports[2] = foundAt(2, processMemory(2, 2*i+11), r)
		s.Reports[2].Fields = map[string]string{HeardField(1): fmt.Sprint(s.Reports[2].Clock.UnixMilli())}
		s.Began = s.Began.Add(time.Millisecond)
		h.Shown(s, base)
	}
	if len(h) > heardMax {
		t.Errorf("%d memories are kept, want %d at most", len(h), heardMax)
	}
	for one := range base.EachSeat() {
		if h[one.Memory].IsZero() {
			t.Errorf("the memory of %s, which the record lists, was never heard", one.Name)
		}
	}
}

// Who may stand at a record again, when it is told: the memory that is listed, unless it has gone on to another founding.
func TestWhoMayStandAtARecord(t *testing.T) {
	r := votersRecord(3)
	changed := func(change func(r *Record)) *Record { return r.Changed(change) }
	memory := processMemory(0, 1)
	for _, tc := range []struct {
		name   string
		memory string
		shows  *Record
		want   bool
	}{
		{"it shows it", memory, r, true},
		{"it is fresh", memory, nil, true},
		{"it shows an older version", memory, changed(func(r *Record) { r.Version-- }), true},
		{"it shows its child", memory, r.Child().Seal(), true},
		{"it shows a later version of others", memory, changed(func(r *Record) { r.Version += 2 }), false},
		{"it shows another founding", memory, changed(func(r *Record) { r.Lineage, r.Generation = laterLineage, r.Generation+1 }), false},
		{"it shows an earlier founding", memory, changed(func(r *Record) { r.Lineage, r.Generation = laterLineage, r.Generation-1 }), true},
		{"another memory", processMemory(0, 2), r, false},
	} {
		if got := foundAt(0, tc.memory, tc.shows).MayStandAt(r); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
	f := foundAt(0, memory, r)
	if f.Err = errAway; f.MayStandAt(r) {
		t.Error("who is not reached says nothing")
	}
}
