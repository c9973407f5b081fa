package coordinator

// Goal: people are told of the gravest thing that a survey shows, once, with what to do. Method: surveys of a membership of three, each with one
// thing that is wrong.

import (
	"errors"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/member"
	"redlockd/redlock/member/copying"
	"redlockd/redlock/member/fleettest"
)

func TestComplaints(t *testing.T) {
	r := votersOf(3)
	other := changed(r, func(r *member.Record) { r.Lineage = "ffffffffffffffff" })
	foreign := func(f *member.Report) { f.Record, f.State.Record = other, other.ID() }
	refused := func(f *member.Report) { f.Err = &conn.RefusedError{Reason: "it may evict locks"} }
	for _, tt := range []struct {
		name    string
		prepare func(m *Coordinator, s *member.Survey)
		want    string // how it begins; "": nothing
	}{
		{"nothing", func(m *Coordinator, s *member.Survey) {}, ""},
		{"refused", func(m *Coordinator, s *member.Survey) { refused(s.Reports[1]) }, "m2 gets no vote: it may evict locks"},
		{"refused, and it has no seat", func(m *Coordinator, s *member.Survey) { refused(s.Reports[1]); s.Reports[1].Place = 9 }, ""},
		{"not reached", func(m *Coordinator, s *member.Survey) { s.Reports[1].Err = fleettest.ErrAway }, ""},
		{"of another fleet", func(m *Coordinator, s *member.Survey) { foreign(s.Reports[1]) }, "m2: it belongs to another fleet, whose masters are m1, m2, m3: if these are the masters that are meant here"},
		{"of another fleet, whose record is gone", func(m *Coordinator, s *member.Survey) { foreign(s.Reports[1]); s.Reports[1].Record = nil }, "m2: it belongs to another fleet"},
		{"the text cannot be read", func(m *Coordinator, s *member.Survey) { s.Reports[1].Unreadable = errors.New("bad text") },
			"m2: the field r of its redlockd:members, the text of the membership, cannot be read: bad text; the next change of the membership writes it anew"},
		{"the text cannot be read of one that is not reached", func(m *Coordinator, s *member.Survey) {
			s.Reports[1].Unreadable, s.Reports[1].Err = errors.New("bad text"), fleettest.ErrAway
		}, ""},
		{"left out just now", func(m *Coordinator, s *member.Survey) { m.left1(s, leftOutShown-1) }, "m3 was left out when m1 was given what the others remember: it is slow: `redlockd check` tries every command there; the next copy tries it again"},
		{"left out long ago", func(m *Coordinator, s *member.Survey) { m.left1(s, leftOutShown) }, ""},
	} {
		m, s := &Coordinator{leftOut: make(map[string]copying.LeftOut)}, shownByAll(r)
		tt.prepare(m, s)
		got := m.complaint(s, r, nil)
		if got != tt.want && (tt.want == "" || !strings.HasPrefix(got, tt.want)) || strings.HasSuffix(tt.name, "is gone") && got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	s := shownByAll(r)
	if got := (&Coordinator{}).complaint(s, r, s.Reports[2:]); !strings.HasPrefix(got, "m3 shows version 7 of the membership, and a majority of the masters does not know it") {
		t.Errorf("a stray: got %q", got)
	}
}

// left1 has the third master left out of a copy, that long ago.
func (m *Coordinator) left1(s *member.Survey, ago time.Duration) {
	m.leftOut["m3"] = copying.LeftOut{Place: &copying.Place{Name: "m3"}, Learner: "m1", Why: errors.New("it is slow"), At: s.Began.Add(-ago)}
}

// A master that others hear and this client does not has just restarted, most likely; after a second it is told.
func TestHeardElsewhereForLong(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		r := s.settle()
		began := time.Now()
		heard := func(is bool) string {
			survey := shownByAll(r)
			survey.Reports[2].Err = fleettest.ErrAway
			for _, f := range survey.Reports[:2] {
				f.Skew = time.Second
				if is {
					f.Fields[member.HeardField(2)] = "946684799900"
					f.Clock = time.UnixMilli(946684800000)
				}
			}
			return s.complaint(survey, r, nil)
		}
		limit := 2 * heardWithin * s.opts.Heartbeat
		if got := heard(true); got != "" {
			s.Errorf("at first: got %q", got)
		}
		time.Sleep(limit)
		if got := heard(true); got != "" {
			s.Errorf("after %v: got %q", time.Since(began), got)
		}
		time.Sleep(time.Nanosecond)
		if got := heard(true); !strings.HasPrefix(got, "m3 is heard by another redlockd and cannot be reached from here") {
			s.Errorf("after %v: got %q", time.Since(began), got)
		}
		if got := heard(false); got != "" {
			s.Errorf("not heard any more: got %q", got)
		}
		if got := heard(true); got != "" {
			s.Errorf("heard again: got %q", got)
		}
	})
}

// The log says what the settings say otherwise, and which seats have no master, when that is new.
func TestSettingsAreCompared(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		r := votersOf(3)
		vacant := changed(r, func(r *member.Record) { r.Seats[1].Memory, r.Seats[1].State = "", member.Vacant })
		longer := changed(r, func(r *member.Record) { r.MaxTTL = 2 * time.Minute })
		leaving := changed(r, func(r *member.Record) {
			r.Seats[1].Memory, r.Seats[1].State = "", member.Vacant
			r.Seats[1].Name, r.Seats[1].Addr = "m9", "m9"
		})
		for _, tt := range []struct {
			name      string
			r, before *member.Record
			want      string
		}{
			{"nothing", r, nil, ""},
			{"nothing new", r, r, ""},
			{"max_ttl", longer, nil, "differ"},
			{"max_ttl, since this step", longer, r, "differ"},
			{"max_ttl, as before", longer, longer, ""},
			{"a seat without a master", vacant, nil, "vacant m2"},
			{"a seat without a master, since this step", vacant, r, "vacant m2"},
			{"a new seat without a master", vacant, changed(r, func(r *member.Record) { r.Seats = append(r.Seats[:1:1], r.Seats[2]) }), "vacant m2"},
			{"a seat without a master, as before", vacant, vacant, ""},
			{"a new seat without a master, that the settings do not name", leaving, r, "differ"},
		} {
			s.log.Reset()
			s.compareFile(tt.r, tt.before)
			got, log := "", s.log.String()
			if strings.Contains(log, "the settings differ from the membership") {
				got = "differ"
			}
			if strings.Contains(log, "the membership has seats without a master") {
				got += "vacant " + strings.Fields(log[strings.Index(log, "seats=")+6:])[0]
			}
			if got != tt.want {
				s.Errorf("%s: got %q, want %q, in the log %s", tt.name, got, tt.want, log)
			}
		}
	})
}
