package coordinator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/copying"
	"redlockd/redlock/member/fleettest"
)

// A source is taken off the list of those that were left out when a copy has read all of it, and not before.
func TestLeftOut(t *testing.T) {
	m1, m2 := &copying.Place{Name: "m1"}, &copying.Place{Name: "m2"}
	out := func(p *copying.Place) []copying.LeftOut { return []copying.LeftOut{{Place: p}} }
	m := &Coordinator{leftOut: make(map[string]copying.LeftOut)}
	for _, tc := range []struct {
		name string
		copy *copying.Copy
		want string
	}{
		{"one is left out", &copying.Copy{Sources: []*copying.Place{m2}, LeftOut: out(m1)}, "m1"},
		{"the learner fails before anything is read", &copying.Copy{Sources: []*copying.Place{m1, m2}, Err: errors.New("it is not reached")}, "m1"},
		{"too few are left", &copying.Copy{Sources: []*copying.Place{m1}, LeftOut: out(m2), Err: errors.New("m1: it has forgotten")}, "m1 m2"},
		{"both are read", &copying.Copy{Sources: []*copying.Place{m1, m2}}, ""},
	} {
		m.takeLeftOut(tc.copy)
		if got := strings.Join(slices.Sorted(maps.Keys(m.leftOut)), " "); got != tc.want {
			t.Errorf("%s: %q are left out, want %q", tc.name, got, tc.want)
		}
	}
}

// What is known of a copy belongs to one memory of a learner: another memory begins anew, and a voter needs none.
func TestRecoveryBelongsToAMemory(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		s.opts.NoCopy = false
		learner := fleettest.Demotes(votersOf(3), 1)
		look := func(r *member.Record) *recovery {
			survey := shownByAll(r)
			survey.Reports = survey.Reports[:1]
			s.recover(survey, r)
			for place := range s.recoveries {
				if place != 1 {
					s.Errorf("a voter is copied to: %d", place)
				}
			}
			return s.recoveries[1]
		}
		first := look(learner)
		if first == nil || first.memory != learner.Seats[1].Memory || first.problem != "it is not reached, or was not told of the membership" {
			s.Fatalf("got %+v, want that the learner is not reached", first)
		}
		if again := look(learner); again != first {
			s.Error("the same memory: it begins anew")
		}
		other := look(changed(learner, func(r *member.Record) { r.Seats[1].Memory = "run2:0000000000000002" }))
		if other == first || other == nil || other.memory != "run2:0000000000000002" {
			s.Errorf("another memory: got %+v", other)
		}
		if voter := look(votersOf(3)); voter != nil {
			s.Errorf("a voter: got %+v, want none", voter)
		}
		s.opts.NoCopy = true
		if none := look(learner); none != nil {
			s.Errorf("nobody is to be copied to: got %+v", none)
		}
		how, is := s.recovered(shownByAll(learner), learner, &learner.Seats[1])
		if is {
			s.Errorf("nobody has copied to it, and it was given what the others remember: %s", how)
		}
	})
}

// What people see of the copy to a learner.
func TestCopyForPeople(t *testing.T) {
	m := &Coordinator{recoveries: map[int]*recovery{
		1: {problem: "too few"},
		2: {noted: &member.CopyNote{From: "m1,m3", Given: 7, Done: 40}, problem: "old"},
		3: {},
	}}
	for place, want := range []string{"", "{Here:false From: Given:0 Percent:0 Problem:too few}", "{Here:false From:m1,m3 Given:7 Percent:40 Problem:}", ""} {
		got := ""
		if c := m.copyingOf(place); c != nil {
			got = fmt.Sprintf("%+v", *c)
		}
		if got != want {
			t.Errorf("seat %d: got %s, want %s", place, got, want)
		}
	}
}

// onLearner runs a test with three masters, of which m2 is a learner under r, and with a coordinator that may copy to it. A round trip to m2 takes
// 2 ms, so that a copy is not over in the poll that begins it.
func onLearner(t *testing.T, test func(s *scene, r *member.Record)) {
	t.Helper()
	onScene(t, 3, func(s *scene) {
		way := func() time.Duration { return time.Millisecond }
		s.paths[1].SetDelay(way, way)
		r := fleettest.Demotes(s.settle(), 1)
		s.settleOn(r, 0, 1, 2)
		s.host.sources = map[int]copying.Source{0: {Good: true, Read: true}, 1: {Read: true}, 2: {Good: true, Read: true}}
		s.look() // follows r
		time.Sleep(copying.NoteLife(s.opts))
		test(s, r)
	}, func(o *member.Options) { o.NoCopy = false })
}

// begins polls until a copy runs.
func (s *scene) begins() *copying.Copy {
	s.Helper()
	for range 100 {
		s.look()
		if one := s.recoveries[1]; one != nil && one.copy != nil && !one.copy.Over() {
			return one.copy
		}
		time.Sleep(s.opts.Heartbeat)
	}
	s.Fatalf("no copy begins: %+v", s.copyingOf(1))
	return nil
}

// ends waits until a copy is over.
func (s *scene) ends(c *copying.Copy) {
	s.Helper()
	for began := time.Now(); !c.Over(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			s.Fatal("the copy does not end")
		}
	}
}

// votes tells whether the learner has become a voter.
func (s *scene) votes() bool { return s.record.Seat(1).State == member.Voter }

// A learner votes when a copy to it has ended well, and the masters that it was made from still count then. Until they are reached again it waits for
// them, as long as others would wait for a copy; then, or where one of them does not count any more, it is copied to anew.
func TestCopyMakesAVoter(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after func(s *scene) // has happened when the copy has ended
		wait  time.Duration  // after the end; less than 0: so much before the sources are waited for no longer
		votes bool
		again bool // there is no copy any more
	}{
		{"nothing", func(s *scene) {}, 0, true, false},
		{"a source is away", func(s *scene) { s.paths[2].Partition() }, 0, false, false},
		{"a source is away for as long as it may be", func(s *scene) { s.paths[2].Partition() }, -time.Nanosecond, false, false},
		{"a source is away for longer", func(s *scene) { s.paths[2].Partition() }, time.Nanosecond, false, true},
		{"the votes of a source do not count any more", func(s *scene) { s.host.sources[2] = copying.Source{Read: true} }, 0, false, true},
		{"a source may have evicted keys", func(s *scene) { s.host.sources[2] = copying.Source{Good: true, Read: true, Refused: true} }, 0, false, true},
	} {
		onLearner(t, func(s *scene, r *member.Record) {
			c := s.begins()
			// While it runs, whatever happens to the sources is for the end.
			s.host.sources[2] = copying.Source{Read: true}
			s.look()
			if one := s.recoveries[1]; one.copy != c || s.votes() {
				s.Errorf("%s: before the end: got %+v, votes: %v; want the copy that was begun", tt.name, one, s.votes())
			}
			s.host.sources[2] = copying.Source{Good: true, Read: true}
			seat := r.Seat(1)
			if _, is := s.recovered(shownByAll(r), r, seat); is {
				s.Errorf("%s: it counts before its end", tt.name)
			}
			s.ends(c)
			if c.Err != nil {
				s.Fatal(c.Err)
			}
			other := *seat
			other.Memory = "run2:0000000000000002"
			if _, is := s.recovered(shownByAll(r), r, &other); is {
				s.Errorf("%s: it counts for a memory that it was not made for", tt.name)
			}
			tt.after(s)
			defer s.paths[2].Heal()
			if tt.wait != 0 {
				time.Sleep(time.Until(c.Began.Add(c.Took + copying.NoteLife(s.opts)).Add(tt.wait)))
			}
			s.look()
			if got := s.votes(); got != tt.votes {
				s.Errorf("%s: votes: %v, want %v", tt.name, got, tt.votes)
			}
			if tt.votes {
				return
			}
			if again := s.recoveries[1].copy != c; again != tt.again {
				s.Errorf("%s: got %+v, want that it is copied to anew: %v", tt.name, s.copyingOf(1), tt.again)
			}
			s.paths[2].Heal()
			s.host.sources[2] = copying.Source{Good: true, Read: true}
			if again := s.look(); !tt.again && !s.votes() {
				s.Errorf("%s: all is well again: it does not vote, and looks again in %v", tt.name, again)
			}
			if tt.again {
				if next := s.begins(); next == c || s.votes() {
					s.Errorf("%s: all is well again: got the same copy, votes: %v", tt.name, s.votes())
				}
			}
		})
	}
}

// A copy that fails makes no voter. It is tried again after twice as long each time, from a heartbeat to 10 s; the log has each reason once.
func TestCopyThatFailsIsTriedAgain(t *testing.T) {
	onLearner(t, func(s *scene, r *member.Record) {
		fails := func(beat int64) { s.host.sources[2] = copying.Source{Good: true, Read: true, Beat: beat} }
		fails(100)
		lines := func() int { return strings.Count(s.log.String(), "a master cannot be given what the others remember") }
		for i, want := range []time.Duration{250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000} {
			s.ends(s.begins())
			if _, is := s.recovered(shownByAll(r), r, r.Seat(1)); is {
				s.Errorf("try %d: it has failed, and makes a voter", i+1)
			}
			began := time.Now()
			s.look()
			one := s.recoveries[1]
			if pause := one.next.Sub(began); one.copy != nil || pause != want*time.Millisecond || one.problem != "m3: its beat went back from 100 to 0: its memory is of an earlier time" || s.votes() {
				s.Errorf("try %d: got a pause of %v, %+v, votes: %v; want %v, and why", i+1, pause, s.copyingOf(1), s.votes(), want*time.Millisecond)
			}
			if lines() != 1 {
				s.Errorf("try %d: got the log %s, want one line of the reason", i+1, s.log)
			}
			time.Sleep(time.Until(one.next.Add(-time.Nanosecond)))
			if s.look(); one.copy != nil {
				s.Errorf("try %d: it is tried again before the pause is over", i+1)
			}
		}
		fails(200)
		s.ends(s.begins())
		if s.look(); lines() != 2 || !strings.Contains(s.log.String(), "from 200 to 0") {
			s.Errorf("another reason: got the log %s", s.log)
		}
	})
}

// Another redlockd was faster: that is no problem. People see its copy, and where it stops, this one copies, a heartbeat later at the earliest.
func TestCopyOfAnotherIsLeftToIt(t *testing.T) {
	onLearner(t, func(s *scene, r *member.Record) {
		c := s.begins()
		note := func() {
			s.Do(1, "HSET", lua.MembersKey, "copy", fmt.Sprintf("%016x %d 7 40 m1,m3", 1, time.Now().UnixMilli()))
		}
		note()
		if s.ends(c); !errors.Is(c.Err, copying.ErrCopied) {
			s.Fatalf("got %v, want that another one copies", c.Err)
		}
		s.Do(1, "HDEL", lua.MembersKey, "copy")
		for range 2 {
			if s.look(); s.recoveries[1].copy != nil || s.copyingOf(1) != nil || strings.Contains(s.log.String(), "level=WARN") {
				s.Errorf("got %+v, and the log %s; want no copy, and nothing against it", s.copyingOf(1), s.log)
			}
		}
		note()
		time.Sleep(s.opts.Heartbeat)
		s.look()
		if got := s.copyingOf(1); got == nil || got.Here || got.Given != 7 || got.Percent != 40 {
			s.Errorf("got %+v, want the copy of the other one", got)
		}
		if s.begins() == c {
			s.Error("the other one has stopped: no copy begins anew")
		}
	})
}

// The copy to a memory that is gone ends at once.
func TestCopyToAMemoryThatIsGoneEnds(t *testing.T) {
	onLearner(t, func(s *scene, r *member.Record) {
		c := s.begins()
		began := time.Now()
		s.recover(shownByAll(r), changed(r, func(r *member.Record) { r.Seats[1].Memory = "run2:0000000000000002" }))
		s.ends(c)
		if took := time.Since(began); c.Err == nil || took > time.Millisecond {
			s.Errorf("it ends after %v: %v", took, c.Err)
		}
	})
}
