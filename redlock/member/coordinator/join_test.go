package coordinator

// Goal: a client finds the record in force, however much it has missed, and never goes by one that fewer stand at than at another. Method: masters
// that show records of which the test decides.

import (
	"strings"
	"testing"

	"redlockd/redlock/member"
)

// of is a record of the fleet of r whose seats are at these places, each with the memory that its master has. All its masters settle on it that
// are named in stand.
func (s *scene) of(r *member.Record, version int64, places, stand []int, change ...func(r *member.Record)) *member.Record {
	s.Helper()
	next := changed(r, func(next *member.Record) {
		next.Version, next.Parent, next.Seats = version, r.Digest, nil
		for _, i := range places {
			if s.shows(i, "v") == "" {
				s.settleOn(r, i) // it has a memory
			}
			memory, _, _ := strings.Cut(s.shows(i, "v"), " ")
			name := "m" + string(rune('1'+i))
			next.Seats = append(next.Seats, member.Seat{Number: i, Name: name, Addr: name, Memory: memory, State: member.Voter})
		}
		for _, c := range change {
			c(next)
		}
	})
	s.settleOn(next, stand...)
	return next
}

var (
	laterFounding = func(r *member.Record) {
		r.Generation, r.Lineage, r.Version, r.Parent = r.Generation+1, r.Lineage[:member.FleetLen]+"fedcba98", 0, ""
	}
	anotherFleet = func(r *member.Record) { r.Lineage, r.Version, r.Parent = "ffffffffffffffff", 0, "" }
)

// A client was away while the others went on to other masters. It follows where more stand at the later record than at its own.
func TestWhoWasAwayFollows(t *testing.T) {
	for _, tt := range []struct {
		name    string
		own     []int // the masters of its record
		gone    []int // they do not answer any more
		forgot  []int
		named   []int // in its settings; nil: those of its record
		later   []int // the masters of the later record, all of which stand at it
		silent  []int // of them, that do not answer
		change  func(r *member.Record)
		follows bool
	}{
		{"one master leads to it", []int{0, 1, 2}, []int{0, 1}, nil, nil, []int{2, 3, 4}, nil, nil, true},
		{"one master leads to it, and the settings name it in another database", []int{0, 1, 2}, []int{0, 1}, nil, nil, []int{2, 3, 4}, nil, nil, true},
		{"the settings lead to it", []int{0, 1, 2}, []int{0, 1, 2}, nil, []int{3, 4, 5}, []int{3, 4, 5}, nil, nil, true},
		{"the settings lead to it, and all of its own have forgotten", []int{0, 1, 2}, nil, []int{0, 1, 2}, []int{3, 4, 5}, []int{3, 4, 5}, nil, nil, true},
		{"it has one master", []int{0}, []int{0}, nil, []int{1}, []int{1}, nil, nil, true},
		{"nobody leads to it", []int{0, 1, 2}, []int{0, 1, 2}, nil, nil, []int{3, 4, 5}, nil, nil, false},
		{"a later founding, at which more stand", []int{0, 1, 2, 3, 4}, []int{3, 4}, nil, nil, []int{2, 5, 6}, nil, laterFounding, true},
		{"a later founding, at which as many stand", []int{0, 1, 2, 3, 4}, []int{3, 4}, nil, nil, []int{2, 5, 6}, []int{6}, laterFounding, false},
		{"another fleet", []int{0, 1, 2}, []int{1}, nil, nil, []int{2, 3, 4}, nil, anotherFleet, false},
	} {
		onNewMasters(t, 7, func(s *scene) {
			o := s.opts
			o.Masters = nil
			for _, i := range tt.own {
				o.Masters = append(o.Masters, s.opts.Masters[i])
			}
			all := s.opts.Masters
			s.opts.Masters = o.Masters
			s.vote(s.opts)
			own := s.settle()
			changes := []func(r *member.Record){}
			if tt.change != nil {
				changes = append(changes, tt.change)
			}
			later := s.of(own, 3, tt.later, tt.later, changes...)
			if tt.named != nil {
				s.opts.Masters = nil
				for _, i := range tt.named {
					s.opts.Masters = append(s.opts.Masters, all[i])
				}
			}
			if strings.Contains(tt.name, "database") { // which stopped nobody who has a record
				s.opts.Masters[2].DB = 1
			}
			s.forget(append([]int{-1}, tt.forgot...)...)
			for _, i := range append(tt.gone, tt.silent...) {
				s.Masters[i].Crash(true)
			}
			s.look()
			if got := s.record.Digest == later.Digest; got != tt.follows || !got && s.record.Digest != own.Digest {
				s.Errorf("%s: goes by version %d of %s, %q; want that it follows: %v", tt.name, s.record.Version, s.record.LineageText(), s.problem, tt.follows)
			}
		})
	}
}

// A client keeps to its fleet as long as one master shows that. Where all have forgotten it and belong to another one, the client follows.
func TestFleetIsLeft(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		onScene(t, 3, func(s *scene) {
			own := s.settle()
			if !keeps {
				s.forget()
			} else {
				s.forget(1, 2)
			}
			places := []int{1, 2}
			other := s.of(own, 0, places, places, anotherFleet)
			s.look()
			s.look()
			if got := s.record.Digest == other.Digest; got == keeps {
				s.Errorf("one shows the fleet: %v: goes by version %d of %s", keeps, s.record.Version, s.record.LineageText())
			}
		})
	}
}

// Who starts and finds no record at which more than half of the masters stand that the settings name asks the masters of each record that it finds:
// the one counts at which most stand, of the fleet to which more than half of the named lead.
func TestStartAmongRecords(t *testing.T) {
	for _, named := range []int{4, 5} {
		onNewMasters(t, 9, func(s *scene) {
			first := votersOf(3)
			s.opts.Masters = s.opts.Masters[:named]
			s.of(first, 8, []int{0, 1, 5}, []int{0, 1, 5})
			want := s.of(first, 9, []int{2, 6, 7, 8}, []int{2, 6, 7, 8})
			if named > 4 {
				s.of(first, 5, []int{4}, []int{4}, anotherFleet) // of which one master is enough
			}
			s.Masters[3].Crash(true)
			s.look()
			if s.record == nil || s.record.Digest != want.Digest {
				s.Errorf("%d masters are named: goes by %+v, %q; want version 9", named, s.record, s.problem)
			}
		})
	}
	// More than half belong to one fleet, and another one has more masters behind it.
	onNewMasters(t, 9, func(s *scene) {
		first := votersOf(3)
		s.opts.Masters = s.opts.Masters[:4]
		want := s.of(first, 8, []int{0, 1, 4}, []int{0, 1, 4})
		s.of(first, 9, []int{2, 5}, []int{2}) // no quorum
		s.of(first, 9, []int{3, 6, 7, 8}, []int{3, 6, 7, 8}, anotherFleet)
		s.look()
		if s.record == nil || s.record.Digest != want.Digest {
			s.Errorf("goes by %+v, %q; want version 8 of the fleet to which three of four lead", s.record, s.problem)
		}
	})
}

// Settings that name one master in another database than the membership must not join it, also where others lead there.
func TestStartWithAnotherDatabase(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		s.opts.Masters[2].DB = 1
		if again := s.look(); s.record != nil || again != s.opts.Heartbeat || !strings.HasPrefix(s.problem, "the membership has m3 (m3) in database 0, and the settings say db = 1") {
			s.Errorf("goes by %+v, %q", s.record, s.problem)
		}
	})
}
