package member

// Goal: the ceiling rises by a step for who asks for longer locks, over nobody who may still go by the membership of before, and falls when nobody
// asks for so long. Method: tables, as in plan_test.go.

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/clock"
)

func TestStepsOfTheCeiling(t *testing.T) {
	for _, tt := range []struct{ ttl, first, most, want time.Duration }{
		{time.Second, time.Minute, time.Hour, time.Minute},
		{time.Minute, time.Minute, time.Hour, time.Minute},
		{61 * time.Second, time.Minute, time.Hour, 5 * time.Minute},
		{5 * time.Minute, time.Minute, 5 * time.Minute, 5 * time.Minute},
		{6 * time.Minute, time.Minute, 24 * time.Hour, 15 * time.Minute},
		{6 * time.Minute, time.Minute, 7 * time.Minute, 7 * time.Minute},
		{16 * time.Minute, time.Minute, 24 * time.Hour, time.Hour},
		{2 * time.Hour, time.Minute, 24 * time.Hour, 4 * time.Hour},
		{5 * time.Hour, time.Minute, 24 * time.Hour, 24 * time.Hour},
		{time.Second, time.Minute, 10 * time.Second, 10 * time.Second},
		{3 * time.Second, 2 * time.Second, 30 * time.Second, 30 * time.Second},
		{5 * time.Hour, time.Minute, 48 * time.Hour, 24 * time.Hour},
		{30 * time.Hour, time.Minute, 48 * time.Hour, 48 * time.Hour},
		{30 * time.Second, 0, 48 * time.Hour, time.Minute},
	} {
		if got := ceilingFor(tt.ttl, tt.first, tt.most); got != tt.want {
			t.Errorf("%v, of %v to %v: got %v, want %v", tt.ttl, tt.first, tt.most, got, tt.want)
		}
	}
	for ceiling, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, 5 * time.Minute: time.Minute, time.Hour: 15 * time.Minute, 7 * time.Minute: 5 * time.Minute} {
		if got := (Options{}).WithoutCeiling(ceiling); got != want {
			t.Errorf("below a ceiling of %v: got %v, want %v", ceiling, got, want)
		}
	}
	if got := (Options{FirstCeiling: 10 * time.Minute}).WithoutCeiling(12 * time.Minute); got != 10*time.Minute {
		t.Errorf("below a ceiling of 12 minutes, where 10 is the lowest: got %v", got)
	}
}

// For how long the note of a follower counts: no longer than locks of its record may live, nor than half a minute, where its own record says so; and
// beside a record behind that, until it is over, and addresses are looked up.
func TestNotesCountForAWhile(t *testing.T) {
	for wait, want := range map[time.Duration]time.Duration{10 * time.Second: 5 * time.Second, time.Hour: 30 * time.Second} {
		if got := FollowedFor(wait); got != want {
			t.Errorf("a wait of %v: a note counts for %v, want %v", wait, got, want)
		}
		if got := noteLife(&Record{Wait: wait}); got != want+RecheckWithin(wait)+2*time.Second {
			t.Errorf("a wait of %v: the note of before counts for %v", wait, got)
		}
	}
}

// lowRecord has a ceiling of a minute, which may rise to a day.
func lowRecord() *Record {
	r := votersRecord(5)
	r.MaxTTL, r.Ceiling = 24*time.Hour, time.Minute
	r.Wait = r.Needed(usualDrift)
	return r.Seal()
}

func TestCeilingOfTheNextRecord(t *testing.T) {
	needed := func(ttl time.Duration) time.Duration { return wholeMs(clock.QuarantineOf(ttl, usualDrift)) }
	raised := wholeMs(needed(5*time.Minute) + RecheckWithin(needed(5*time.Minute)))
	for _, tt := range []struct {
		name   string
		change func(n *Situation, r *Record)
		// Of the child: the ceiling, the wait, and whether the timer of the wait begins. No ceiling: there is no child.
		ceiling, wait time.Duration
		since         bool
	}{
		{"nothing is asked for", func(*Situation, *Record) {}, 0, 0, false},
		{"no more than may run", func(n *Situation, _ *Record) { n.Wanted = time.Minute }, 0, 0, false},
		{"more: the wait first", func(n *Situation, _ *Record) { n.Wanted = 2 * time.Minute }, time.Minute, raised, true},
		{"the wait first, whoever is behind", func(n *Situation, _ *Record) { n.Wanted, n.Behind = 2*time.Minute, true }, time.Minute, raised, true},
		{"then the ceiling", func(n *Situation, r *Record) { n.Wanted, r.Wait = 2*time.Minute, raised }, 5 * time.Minute, raised, false},
		{"not over who may not know", func(n *Situation, r *Record) { n.Wanted, n.Behind, r.Wait = 2*time.Minute, true, raised }, 0, 0, false},
		{"more than max_ttl, of which all may run", func(n *Situation, r *Record) {
			n.Wanted, r.MaxTTL, r.Ceiling, r.Wait, n.InUse = time.Hour, 5*time.Minute, 5*time.Minute, needed(5*time.Minute), 5*time.Minute
		}, 0, 0, false},
		{"a wait that nobody needs any more", func(_ *Situation, r *Record) { r.Wait = raised }, time.Minute, needed(time.Minute), false},
		{"a ceiling that nobody needs any more", func(_ *Situation, r *Record) { r.Ceiling, r.Wait = time.Hour, needed(time.Hour) }, time.Minute, needed(time.Hour), true},
		{"one of which a part is needed", func(n *Situation, r *Record) {
			r.Ceiling, r.Wait, n.InUse = time.Hour, needed(time.Hour), 3*time.Minute
		}, 5 * time.Minute, needed(time.Hour), true},
		{"one that is in use", func(n *Situation, r *Record) {
			r.Ceiling, r.Wait, n.InUse = time.Hour, needed(time.Hour), 16*time.Minute
		}, 0, 0, false},
		{"less than a ceiling that is no step", func(n *Situation, r *Record) {
			n.Wanted, n.InUse, r.Ceiling, r.Wait = 6*time.Minute, 6*time.Minute, 7*time.Minute, needed(7*time.Minute)
		}, 0, 0, false},
		{"all of a ceiling that is no step", func(n *Situation, r *Record) {
			n.Wanted, n.InUse, r.Ceiling, r.Wait = 7*time.Minute, 7*time.Minute, 7*time.Minute, needed(7*time.Minute)
		}, 0, 0, false},
		{"a ceiling below max_ttl, and an older client", func(n *Situation, r *Record) {
			n.OlderClient, r.Ceiling, r.Wait = true, time.Hour, needed(time.Hour)
		}, time.Minute, needed(time.Hour), true},
		{"not while the wait is longer still", func(n *Situation, r *Record) {
			r.Ceiling, r.Wait = time.Hour, needed(2*time.Hour)
			n.Left = func(string) time.Duration { return time.Minute }
		}, 0, 0, false},
		{"one of an older client", func(n *Situation, r *Record) {
			r.MaxTTL, r.Ceiling, r.Wait, n.OlderClient = time.Hour, time.Hour, needed(time.Hour), true
		}, 0, 0, false},
	} {
		r := lowRecord()
		n := &Situation{Record: r, Left: func(string) time.Duration { return 0 }, Drift: usualDrift, FirstCeiling: time.Minute}
		tt.change(n, r)
		n.Survey = surveyOf(r.Seal())
		d := n.Next()
		switch child := d.Child; {
		case child == nil && tt.ceiling != 0:
			t.Errorf("%s: got no child", tt.name)
		case child == nil:
		case tt.ceiling == 0:
			t.Errorf("%s: got %q", tt.name, d.Changes)
		case child.Ceiling != tt.ceiling || child.Wait != tt.wait || (child.TTLSince == child.Version) != tt.since:
			t.Errorf("%s: got %v, %v, since version %d of %d; want %v, %v, the timer begins: %v", tt.name, child.Ceiling, child.Wait, child.TTLSince, child.Version, tt.ceiling, tt.wait, tt.since)
		default:
			if err := CheckChild(r, child.Seal()); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
	}
}

func TestFollowers(t *testing.T) {
	r := lowRecord()
	before := r.Child().Seal() // any other record
	life := noteLife(r)
	note := func(f *Report, client string, of *Record, age, inUse time.Duration) {
		f.Clock = time.Unix(1_800_000_000, 0)
		f.Fields[followerPrefix+client] = fmt.Sprintf("%d %s", f.Clock.Add(-age).UnixMilli(), FollowerText(of, inUse))
	}
	for _, tt := range []struct {
		name   string
		change func(s *Survey)
		behind bool
		inUse  time.Duration
	}{
		{"nobody", func(*Survey) {}, false, 0},
		{"one that follows", func(s *Survey) { note(s.Reports[1], "a-0", r, 0, time.Hour) }, false, time.Hour},
		{"one of before", func(s *Survey) { note(s.Reports[1], "a-0", before, 0, time.Minute) }, true, time.Minute},
		{"one of before that follows elsewhere", func(s *Survey) {
			note(s.Reports[1], "a-0", before, 0, 0)
			note(s.Reports[2], "a-0", r, 0, 0)
		}, false, 0},
		{"two, of which one follows", func(s *Survey) {
			note(s.Reports[1], "a-0", before, 0, 0)
			note(s.Reports[2], "b-0", r, 0, 0)
		}, true, 0},
		{"one that is gone", func(s *Survey) { note(s.Reports[1], "a-0", before, life+2*time.Second, time.Hour) }, false, 0},
		{"one that may not be gone", func(s *Survey) { note(s.Reports[1], "a-0", before, life, time.Hour) }, true, time.Hour},
		{"this client's own", func(s *Survey) { note(s.Reports[1], "own-0", before, 0, time.Hour) }, false, 0},
		{"this client's, of another name", func(s *Survey) { note(s.Reports[1], "own-1", before, 0, 0) }, true, 0},
		{"what is no note", func(s *Survey) { s.Reports[1].Fields["f:a-0"] = "x" }, true, 0},
		{"of a clock that disagrees", func(s *Survey) {
			note(s.Reports[1], "a-0", before, life+time.Hour, 0)
			s.Reports[1].Clock = s.Reports[1].Clock.Add(time.Hour)
		}, true, 0},
		{"few voters", func(s *Survey) { s.Reports = s.Reports[:2] }, true, 0},
		{"as many voters as are needed", func(s *Survey) { s.Reports = s.Reports[:3] }, false, 0},
		{"a note of a master that shows another record", func(s *Survey) {
			note(s.Reports[4], "a-0", before, 0, time.Hour)
			s.Reports[4].Record = before
			s.Reports[4].State = State{Memory: s.Reports[4].State.Memory, Record: before.ID()}
		}, false, 0},
		{"a learner's note of before", func(s *Survey) {
			s.Reports[4].Record = r
			note(s.Reports[4], "a-0", before, 0, 0)
		}, false, 0},
	} {
		r := r
		if tt.name == "a learner's note of before" {
			learns := r.Child()
			learns.Seats[4].State, learns.Seats[4].Since = Learner, learns.Version
			r = learns.Seal()
			before = lowRecord()
		}
		s := surveyOf(r)
		for _, f := range s.Reports {
			f.Clock, f.Sent, f.Received, f.Skew = s.Began, s.Began, s.Began, time.Second
		}
		tt.change(s)
		var all Followers
		all.Shown(s)
		o := Options{ClockSkewMax: time.Second}
		if got := all.Behind(s, r, "own-0", o); (got != "") != tt.behind {
			t.Errorf("%s: who is behind: got %q, want %v", tt.name, got, tt.behind)
		}
		if got := all.InUse(s, r, "own-0", o); got != tt.inUse {
			t.Errorf("%s: in use: got %v, want %v", tt.name, got, tt.inUse)
		}
	}
	// By the clock of the process: a note that does not change is over, whatever the master's clock says.
	s := surveyOf(r)
	s.Reports[0].Fields["f:a-0"] = "x"
	var all Followers
	all.Shown(s)
	for _, tt := range []struct {
		after  time.Duration
		behind bool
	}{{life - time.Second, true}, {life, false}} {
		later := *s
		later.Began = s.Began.Add(tt.after)
		all.Shown(&later)
		if got := all.Behind(&later, r, "own-0", Options{}); (got != "") != tt.behind {
			t.Errorf("%v later: got %q, want %v", tt.after, got, tt.behind)
		}
	}
	s.Reports[0].Fields["f:a-0"] = "y"
	s.Began = s.Began.Add(life)
	all.Shown(s)
	if all.Behind(s, r, "own-0", Options{}) == "" {
		t.Error("a note that has changed: it is over")
	}
	// Of notes of several ages the youngest tells for how long they count.
	s.Reports[1].Fields["f:a-0"], s.Reports[1].Fields["f:b-0"] = "x", "x"
	later := *s
	later.Began = s.Began.Add(10 * time.Second)
	all.Shown(&later)
	for _, fresh := range []int{1, 2} { // as there, and when one of them has not been seen before
		want := fmt.Sprintf("2 other redlockd may go by the membership of before: they follow in a moment, or were killed, and count for %v at most", life.Round(time.Second))
		if got := all.Behind(&later, r, "own-0", Options{}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		s.Reports[0].Fields["f:a-0"], s.Reports[1].Fields["f:a-0"], s.Reports[1].Fields["f:b-0"] = "z", "x", fmt.Sprint("x", fresh)
		later.Began = later.Began.Add(time.Second)
		all.Shown(&later)
	}
	s.Reports[0].Fields, s.Reports[1].Fields = map[string]string{}, map[string]string{"f:b-0": "x2"}
	later.Began = later.Began.Add(30 * time.Second)
	all.Shown(&later)
	if got, want := all.Behind(&later, r, "own-0", Options{}), fmt.Sprintf("count for %v at most", (life-30*time.Second).Round(time.Second)); !strings.Contains(got, want) {
		t.Errorf("half a minute later: got %q, want %q", got, want)
	}
}

// What a new voter is given: all notes of voters whose clients are not gone, as if they were written now, and where these voters were too few, one that
// nobody has written.
func TestNotesForANewVoter(t *testing.T) {
	r := lowRecord()
	s := surveyOf(r)
	for _, f := range s.Reports {
		f.Clock, f.Sent, f.Received, f.Skew = s.Began, s.Began, s.Began, time.Second
	}
	at := func(age time.Duration) string { return fmt.Sprint(s.Began.Add(-age).UnixMilli()) }
	s.Reports[0].Fields["f:a-0"], s.Reports[0].Fields["s:x"], s.Reports[0].Fields["f:e-0"] = at(0)+" a 5", "3", "x"
	s.Reports[1].Fields["f:b-0"], s.Reports[1].Fields["f:c-0"] = at(time.Second)+" b 0", at(time.Hour)+" c 0"
	var all Followers
	all.Shown(s)
	o, now := Options{ClockSkewMax: time.Second}, time.UnixMilli(77)
	want := map[string]string{"f:a-0": "77 a 5", "f:b-0": "77 b 0", "f:e-0": "77 - 0"}
	if got := all.Notes(s, r, o, now); !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	s.Reports = s.Reports[:3]
	if got := all.Notes(s, r, o, now); !maps.Equal(got, want) {
		t.Errorf("of as many voters as are needed: got %q, want %q", got, want)
	}
	s.Reports = s.Reports[1:]
	want = map[string]string{"f:b-0": "77 b 0", noteOfNobody: "77 - 0"}
	if got := all.Notes(s, r, o, now); len(got) < 2 || got["f:b-0"] != "77 b 0" || got[noteOfNobody] != "77 - 0" {
		t.Errorf("of two voters: got %q, want %q", got, want)
	}
}

func TestOlderClient(t *testing.T) {
	r := lowRecord()
	for _, tt := range []struct {
		name   string
		fields map[string]string
		older  bool
	}{
		{"none", nil, false},
		{"one that follows", map[string]string{"c:a": "1800000000000 1 0 0 x", "f:a-0": "1800000000000 d 0"}, false},
		{"one that does not", map[string]string{"c:a": "1800000000000 1 0 0 x"}, true},
		{"of long ago", map[string]string{"c:a": "1799999930000 1 0 0 x"}, false},
		{"this one", map[string]string{"c:own": "1800000000000 1 0 0 x"}, false},
	} {
		s := surveyOf(r)
		for _, f := range s.Reports {
			f.Clock = time.Unix(1_800_000_000, 0)
		}
		for field, text := range tt.fields {
			s.Reports[0].Fields[field] = text
		}
		if got := OlderClient(s, r, "own-0"); got != tt.older {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.older)
		}
	}
}

// A founding waits for what its base needs where this client has followed that until now, and for max_ttl else.
func TestFoundingAndTheCeiling(t *testing.T) {
	r := lowRecord()
	for _, tt := range []struct {
		name         string
		base         *Record
		foundingWait time.Duration
		want         time.Duration
	}{
		{"it has followed", r, 0, time.Minute},
		{"it has not", r, time.Nanosecond, 24 * time.Hour},
		{"nothing is known", nil, time.Second, 15 * time.Minute},
	} {
		s := surveyOf(r)
		for i, f := range s.Reports {
			f.shown(processMemory(i, 2), nil)
		}
		o := Options{MaxTTL: 15 * time.Minute, FoundingWait: tt.foundingWait, Drift: usualDrift}
		if tt.base == nil {
			for _, f := range s.Reports {
				o.Masters = append(o.Masters, f.Master)
			}
		}
		f, why := s.Founding(tt.base, o)
		if f == nil {
			t.Errorf("%s: %s", tt.name, why)
			continue
		}
		least := clock.QuarantineOf(tt.want, usualDrift)
		if f.Wait < least || f.Wait > least+RecheckWithin(least)+time.Second || f.Ceiling != time.Minute {
			t.Errorf("%s: got a wait of %v and a ceiling of %v, want %v and 1m", tt.name, f.Wait, f.Ceiling, least)
		}
	}
}
