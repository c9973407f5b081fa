package coordinator

// Goal: an operator gets exactly the change that was asked for, is told what it is, and never undoes what another operator has done meanwhile.
// Method: tables over a membership of three voters, all of which show it.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/member"
	"redlockd/redlock/member/fleettest"
	"redlockd/redlock/member/survey"
	"redlockd/redlock/quorum"
)

// votersOf is version 7 of n voters, m1, m2 …
func votersOf(n int) *member.Record {
	r := &member.Record{Generation: 3, Lineage: "0123456789abcdef", Version: 7, Parent: strings.Repeat("5a", member.DigestLen/2),
		MaxTTL: time.Minute, Ceiling: time.Minute}
	for i := range n {
		name := fmt.Sprint("m", i+1)
		r.Seats = append(r.Seats, member.Seat{Number: i, Name: name, Addr: name, Memory: fmt.Sprintf("run%d:%016x", i+1, 1), State: member.Voter})
	}
	r.Wait = r.Needed(fleettest.Drift)
	return r.Seal()
}

// changed is r with a change, sealed.
func changed(r *member.Record, change func(r *member.Record)) *member.Record {
	c := *r
	c.Seats = slices.Clone(r.Seats)
	change(&c)
	return c.Seal()
}

// shownByAll is a survey in which all listed memories show the record.
func shownByAll(r *member.Record) *member.Survey {
	s := &member.Survey{Began: time.Now()}
	for seat := range r.EachSeat() {
		f := &member.Report{Place: seat.Number, Master: conn.Master{Addr: seat.Addr}, Fields: map[string]string{}, Record: r, Clock: s.Began, Sent: s.Began, Received: s.Began}
		f.State = member.State{Memory: seat.Memory, Record: r.ID()}
		f.RunID, f.V = f.State.RunID(), f.State.String()
		s.Reports = append(s.Reports, f)
	}
	return s
}

// asked is a request for a change, and decided what became of it.
func asked(change Change) *memberRequest {
	return &memberRequest{caller: context.Background(), change: change, done: make(chan memberReply, 1)}
}

func (q *memberRequest) decided(r *member.Record, more ...func(n *member.Situation)) (child *member.Record, what string, err error) {
	n := &member.Situation{Record: r, Survey: shownByAll(r)}
	for _, change := range more {
		change(n)
	}
	if d := q.decide(context.Background(), n); d != nil {
		if !d.Asked || len(d.Changes) != 1 || d.Changes[0] != q.what {
			err = fmt.Errorf("the decision is %+v, want what was asked for", d)
		}
		return d.Child, q.what, err
	}
	reply := <-q.done
	return nil, reply.what, reply.err
}

// A longer max_ttl holds at once, under the ceiling that is. A shorter one lowers the ceiling with it where that would be above it, and the wait
// follows then: what was granted before still runs.
func TestMaxTTLIsChanged(t *testing.T) {
	long := changed(votersOf(3), func(r *member.Record) {
		r.MaxTTL, r.Ceiling, r.TTLSince = time.Hour, 5*time.Minute, 4
		r.Wait = r.Needed(fleettest.Drift)
	})
	older := func(n *member.Situation) { n.OlderClient = true }
	for _, tt := range []struct {
		name    string
		ttl     time.Duration
		more    []func(n *member.Situation)
		ceiling time.Duration
		since   int64
		want    string // what it is, or the error
		refused bool
	}{
		{"what it is", time.Hour, nil, 0, 0, "", false},
		{"what it is, beside an older redlockd", time.Hour, []func(n *member.Situation){older}, 0, 0, "", false},
		{"longer", 2 * time.Hour, nil, 5 * time.Minute, 4, "max_ttl rises from 1h to 2h", false},
		{"longer, beside a redlockd that reads no such record", 2 * time.Hour, []func(n *member.Situation){older}, 0, 0, "too old to read such a membership: upgrade all", true},
		{"shorter, above the ceiling", 15 * time.Minute, nil, 5 * time.Minute, 4, "max_ttl falls from 1h to 15m", false},
		{"shorter, beside an older redlockd", 15 * time.Minute, []func(n *member.Situation){older}, 5 * time.Minute, 4, "max_ttl falls from 1h to 15m", false},
		{"as long as the ceiling", 5 * time.Minute, nil, 5 * time.Minute, 4, "max_ttl falls from 1h to 5m", false},
		{"shorter than the ceiling", time.Minute, nil, time.Minute, 8, fmt.Sprintf("max_ttl falls from 1h to 1m, and the wait follows in %v", long.Wait), false},
		{"longer than a record can say", 100 * time.Hour, nil, 0, 0, "100h0m0s is no time", true},
	} {
		child, what, err := asked(Change{SetMaxTTL: tt.ttl}).decided(long, tt.more...)
		switch {
		case tt.refused:
			if child != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got %q, %v; want it refused: %s", tt.name, what, err, tt.want)
			}
		case err != nil || what != tt.want || (child != nil) != (tt.want != ""):
			t.Errorf("%s: got %q, %v, a record: %v; want %q", tt.name, what, err, child != nil, tt.want)
		case child != nil && (child.MaxTTL != tt.ttl || child.Ceiling != tt.ceiling || child.TTLSince != tt.since || child.Wait != long.Wait):
			t.Errorf("%s: got max_ttl %v, ceiling %v since %d, wait %v", tt.name, child.MaxTTL, child.Ceiling, child.TTLSince, child.Wait)
		}
	}
}

// A dry run says what the change is, and makes none; one that could not be made is refused in a dry run as well.
func TestDryRunDecidesNothing(t *testing.T) {
	for _, tt := range []struct {
		change Change
		what   string
		err    string
	}{
		{Change{SetMaxTTL: 30 * time.Second}, "max_ttl falls from 1m to 30s", ""},
		{Change{Remove: "m3"}, "m3 (m3) loses its vote, and is removed in", ""},
		{Change{Remove: "m9"}, "", "there is no seat m9: the seats are m1, m2, m3"},
		{Change{SetMaxTTL: 100 * time.Hour}, "", "100h0m0s is no time"},
	} {
		q := asked(tt.change)
		q.dryRun = true
		child, what, err := q.decided(votersOf(3))
		if child != nil || !strings.HasPrefix(what, tt.what) || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: got %q, %v, a record: %v; want %q, %q, none", tt.change, what, err, child != nil, tt.what, tt.err)
		}
	}
}

// A seat that leaves loses its vote and its memory at once, so that nobody counts it, and is asked for no second time.
func TestSeatIsAskedToLeave(t *testing.T) {
	r := votersOf(3)
	child, what, err := asked(Change{Remove: "m2"}).decided(r)
	if err != nil || what != fmt.Sprintf("m2 (m2) loses its vote, and is removed in %v", r.Wait) {
		t.Fatalf("got %q, %v", what, err)
	}
	if s := child.SeatNamed("m2"); s.State != member.Leaving || s.Memory != "" || s.Since != 8 {
		t.Errorf("got the seat %+v, want it to leave since version 8, without a memory", *s)
	}
	if again, what, err := asked(Change{Remove: "m2"}).decided(child); again != nil || what != "" || err != nil {
		t.Errorf("while it leaves: got %q, %v, want that nothing is to be done", what, err)
	}
	if _, _, err := asked(Change{Remove: "m1"}).decided(votersOf(1)); err == nil || err.Error() != "m1 is the only seat" {
		t.Errorf("the only one: got %v", err)
	}
}

// Seats that cannot be given to the master that is named, whatever it shows: it is not asked.
func TestSeatIsRefused(t *testing.T) {
	full := votersOf(quorum.MaxMasters)
	three := changed(votersOf(3), func(r *member.Record) {
		r.Seats[1].Addr = "m9"
		r.Seats[2].Memory, r.Seats[2].State, r.Seats[2].Since = "", member.Leaving, 7
	})
	for _, tt := range []struct {
		r      *member.Record
		change Change
		want   string // "": there is nothing to do
	}{
		{three, Change{Replace: "m4", Addr: "m4"}, "there is no seat m4: the seats are m1, m2, m3"},
		{three, Change{Replace: "m3", Addr: "m4"}, "m3 is leaving: add a seat of another name"},
		{three, Change{Replace: "m2", Addr: "m2"}, "m2 cannot go back to the address that it is called after, for settings may call another one so by now: add a seat of another name at m2"},
		{three, Change{Add: "m1", Addr: "m1"}, ""},
		{three, Change{Add: "m2", Addr: "m9"}, ""},
		{three, Change{Add: "m1", Addr: "m4"}, "there is a seat m1 already, at m1: replace it, or add one of another name"},
		{three, Change{Add: "m3", Addr: "m3"}, "there is a seat m3 already, at m3"},
		{three, Change{Add: "m4", Addr: "m1"}, "m1 is the address of m1: each vote must come from a master of its own"},
		{three, Change{Replace: "m1", Addr: "m9"}, "m9 is the address of m2: each vote must come from a master of its own"},
		{full, Change{Add: "new", Addr: "new"}, fmt.Sprintf("there are %d seats, at most %[1]d are possible: remove one first", quorum.MaxMasters)},
	} {
		q := asked(tt.change)
		for s := range tt.r.EachSeat() {
			q.opts.Masters = append(q.opts.Masters, conn.Master{Addr: s.Name})
		}
		child, what, err := q.decided(tt.r)
		if child != nil || what != "" || (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%+v: got %q, %v, a record: %v; want %q", tt.change, what, err, child != nil, tt.want)
		}
	}
}

// The operator has looked at one membership. Where another operator has changed it before this change could be made, it is given up, and says
// what is otherwise. Steps that come by themselves are no reason: a master that restarts, a vote that begins, a removal that is finished, a founding.
func TestChangeOfAnotherOperatorIsTold(t *testing.T) {
	r := changed(votersOf(5), func(r *member.Record) { r.Seats[4].Memory, r.Seats[4].State, r.Seats[4].Since = "", member.Leaving, 7 })
	for _, tt := range []struct {
		name   string
		change func(r *member.Record)
		want   string // "": the change is made
	}{
		{"nothing", func(r *member.Record) {}, ""},
		{"a step that comes by itself", func(r *member.Record) { r.Seats[0].State, r.Seats[0].Since = member.Learner, 8 }, ""},
		{"a removal is finished", func(r *member.Record) { r.Seats = r.Seats[:4]; r.Roster++ }, ""},
		{"the wait is lowered", func(r *member.Record) { r.Wait += time.Second }, ""},
		{"max_ttl", func(r *member.Record) { r.MaxTTL = 40 * time.Second; r.Ceiling = r.MaxTTL }, "max_ttl is 40s now"},
		{"a seat more", func(r *member.Record) {
			r.Seats = append(r.Seats, member.Seat{Number: 5, Name: "new", Addr: "m9", Memory: "run9:0000000000000001", State: member.Learner, Since: 8})
		}, "new is added"},
		{"another address", func(r *member.Record) { r.Seats[1].Addr = "m9" }, "m2 is at m9 now"},
		{"a seat that leaves", func(r *member.Record) { r.Seats[1].Memory, r.Seats[1].State, r.Seats[1].Since = "", member.Leaving, 8 }, "m2 is leaving"},
		{"a seat that has left", func(r *member.Record) { r.Seats = slices.Delete(r.Seats, 1, 2) }, "m2 is removed"},
		{"two things", func(r *member.Record) { r.Seats[1].Addr = "m9"; r.Seats = r.Seats[:4]; r.MaxTTL = 50 * time.Second }, "max_ttl is 50s now, m2 is at m9 now"},
	} {
		for _, founded := range []bool{false, true} {
			q := asked(Change{SetMaxTTL: 30 * time.Second})
			if child, _, err := q.decided(r); child == nil {
				t.Fatal(err)
			}
			now := changed(r, func(r *member.Record) {
				r.Version, r.Parent = 8, r.Digest
				if founded {
					r.Generation, r.Lineage, r.Version = r.Generation+1, "01234567fedcba98", 3
				}
				tt.change(r)
				for i := range r.Seats {
					r.Seats[i].Since = min(r.Seats[i].Since, r.Version)
				}
			})
			child, _, err := q.decided(now)
			switch {
			case tt.want == "" && child == nil:
				t.Errorf("%s, founded anew: %v: got %v, want the change made", tt.name, founded, err)
			case tt.want != "" && (child != nil || err == nil || err.Error() != tt.want+": "+ErrMembersChanged.Error()):
				t.Errorf("%s, founded anew: %v: got %v, a record: %v; want %s", tt.name, founded, err, child != nil, tt.want)
			}
		}
	}
}

// What is so already is no change, also where another operator has made it meanwhile. What the masters cannot be asked to choose is refused, also where it could be when
// it was first decided.
func TestChangeIsDecidedAgain(t *testing.T) {
	r := votersOf(3)
	next := func(change func(r *member.Record)) *member.Record {
		return changed(r, func(r *member.Record) { r.Version, r.Parent = 8, r.Digest; change(r) })
	}
	vacant := func(r *member.Record) { r.Seats[0].Memory, r.Seats[0].State, r.Seats[0].Since = "", member.Vacant, 8 }
	down := func(n *member.Situation) { n.Survey.Reports[0].Err = fleettest.ErrAway }
	for _, tt := range []struct {
		name   string
		change Change
		again  *member.Record
		more   []func(n *member.Situation)
		want   string
	}{
		{"another operator has done the same", Change{SetMaxTTL: 30 * time.Second}, next(func(r *member.Record) { r.MaxTTL = 30 * time.Second }), nil, "done"},
		{"a seat has lost its master", Change{Remove: "m3"}, next(vacant), nil, "m1 waits for its vote; without m3, 1 would vote and 2 are needed"},
		{"a master is not reached any more", Change{Remove: "m3"}, r, []func(n *member.Situation){down}, "2 of 3 masters vote now, m1 is not reached; without m3, 1 would vote and 2 are needed"},
	} {
		q := asked(tt.change)
		if child, _, err := q.decided(r); child == nil {
			t.Fatal(err)
		}
		child, what, err := q.decided(tt.again, tt.more...)
		if got := fmt.Sprint(map[bool]any{true: "done", false: err}[err == nil]); child != nil || what != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, %v, a record: %v; want %s", tt.name, what, err, child != nil, tt.want)
		}
	}
}

// change decides a change as it would be decided now.
func (s *scene) change(change Change, dryRun bool) (child *member.Record, what string, err error) {
	s.Helper()
	r := s.current()
	all := survey.Ask(s.Context(), s.opts.PlacesOf(r), survey.Patience{Enough: len(r.Seats)}, s.opts)
	defer all.Close()
	q := asked(change)
	q.opts, q.dryRun = s.opts, dryRun
	return q.decided(r, func(n *member.Situation) { n.Survey = all.Survey })
}

// A seat gets the master at an address only where that is fit for it: a Redis of its own, which nobody else uses, and which can learn what the
// others have chosen. What it had is written nowhere by a dry run.
func TestMasterIsSeated(t *testing.T) {
	fewer := "; until it votes, one master fewer may fail"
	replace, add := Change{Replace: "m2", Addr: "m4"}, Change{Add: "new", Addr: "m4"}
	elsewhere := func(version int64, change func(r *member.Record)) func(s *scene) {
		return func(s *scene) { // m4 shows another record
			r := changed(s.record, func(r *member.Record) {
				if r.Version = version; version > 0 {
					r.Parent = r.Digest
				}
				change(r)
			})
			s.settleOn(r, 3)
		}
	}
	same := func(*member.Record) {}
	for _, tt := range []struct {
		name    string
		prepare func(s *scene)
		change  Change
		want    string // what it is, or the error; "": nothing is to be done
		refused bool
		seats   string // of the record then
	}{
		{"in the place of another", nil, replace, "m2 is the master at m4, which votes when it was given what the others remember, or in WAIT" + fewer, false, "0 m1 m1 voter, 1 m2 m4 learner since 1, 2 m3 m3 voter"},
		{"at a new seat", nil, add, "new (m4) is added, and votes when it was given what the others remember, or in WAIT" + fewer, false, "0 m1 m1 voter, 1 m2 m2 voter, 2 m3 m3 voter, 3 new m4 learner since 1"},
		{"in the place of a dead one", func(s *scene) { s.Masters[1].Crash(false) }, replace, "m2 is the master at m4, which votes when it was given what the others remember, or in WAIT", false, "0 m1 m1 voter, 1 m2 m4 learner since 1, 2 m3 m3 voter"},
		{"the same as before", nil, Change{Replace: "m2", Addr: "m2"}, "", false, ""},
		{"the same at another address", func(s *scene) { s.Do(1, "SET", "lock", "x") }, Change{Replace: "m2", Addr: "alias2"}, "m2 has the address alias2", false, "0 m1 m1 voter, 1 m2 alias2 voter, 2 m3 m3 voter"},
		{"a new seat for one that has a seat", nil, Change{Add: "new", Addr: "alias2"}, "the master at alias2 is the same Redis as m2: each vote must come from a master of its own", true, ""},
		{"a new seat for one with locks", func(s *scene) { s.Do(1, "SET", "lock", "x") }, Change{Add: "new", Addr: "alias2"}, "the master at alias2 holds 1 keys", true, ""},
		{"in the place of another one, that has a seat", nil, Change{Replace: "m2", Addr: "alias3"}, "the master at alias3 is the same Redis as m3: each vote must come from a master of its own", true, ""},
		{"it was flushed", func(s *scene) { s.forget(1) }, Change{Replace: "m2", Addr: "m2"}, "m2 is the master at m2, which votes when it was given what the others remember, or in WAIT", false, "0 m1 m1 voter, 1 m2 m2 learner since 1, 2 m3 m3 voter"},
		{"it holds a key", func(s *scene) { s.Do(3, "SET", "key", "x") }, replace, "the master at m4 holds 1 keys: give it to nobody else, and run FLUSHALL on it", true, ""},
		{"it is not reached", func(s *scene) { s.Masters[3].Crash(false) }, replace, "the master at m4 cannot be seated: ", true, ""},
		{"nobody is called so", nil, Change{Replace: "m2", Addr: "m9"}, "the master at m9 cannot be seated: no such host; see that a Redis runs there and can be reached from here, or name another address", true, ""},
		{"it may evict", func(s *scene) { s.Do(3, "CONFIG", "SET", "maxmemory", "1000000", "maxmemory-policy", "allkeys-lru") }, replace,
			"the master at m4 cannot be seated: refused: it may evict locks when its memory is full: maxmemory-policy is allkeys-lru, set noeviction; fix that, or name another master", true, ""},
		{"of another fleet", elsewhere(0, func(r *member.Record) { r.Lineage = "fedcba9876543210" }), replace, "the master at m4 cannot be seated: it belongs to another fleet", true, ""},
		{"it shows a later version", elsewhere(1, same), replace, "the master at m4 cannot be seated: it shows version 1 of the membership, and the masters have version 0: run FLUSHALL on it", true, ""},
		{"it shows this version", elsewhere(0, same), replace, "m2 is the master at m4, which votes when it was given what the others remember, or in WAIT" + fewer, false, "0 m1 m1 voter, 1 m2 m4 learner since 1, 2 m3 m3 voter"},
		{"it shows a later version of another founding", elsewhere(1, func(r *member.Record) { r.Lineage = r.Lineage[:member.FleetLen] + "fedcba98" }), replace,
			"m2 is the master at m4, which votes when it was given what the others remember, or in WAIT" + fewer, false, "0 m1 m1 voter, 1 m2 m4 learner since 1, 2 m3 m3 voter"},
		{"its memory is full", func(s *scene) { s.Masters[3].SetFull(true) }, replace, "FULL", true, ""},
		{"the seat has another address by now", func(s *scene) {
			s.record = changed(s.record, func(r *member.Record) { r.Seats[1].Addr, r.Version, r.Parent = "alias2", 1, r.Digest })
			s.settleOn(s.record, 0, 1, 2)
		}, replace, "m2 is the master at m4, which votes when it was given what the others remember, or in WAIT" + fewer, false, "0 m1 m1 voter, 1 m2 m4 learner since 2, 2 m3 m3 voter"},
		{"a quorum needs the vote", func(s *scene) { s.Masters[0].Crash(false) }, replace, "2 of 3 masters vote now, m1 is not reached; without m2, 1 would vote and 2 are needed", true, ""},
	} {
		for _, dryRun := range []bool{true, false} {
			onScene(t, 4, func(s *scene) {
				r := s.settle()
				if tt.prepare != nil {
					tt.prepare(s)
				}
				before := fmt.Sprint(s.Masters[3].Keys())
				child, what, err := s.change(tt.change, dryRun)
				want := strings.Replace(tt.want, "WAIT", r.Wait.String(), 1)
				if n := s.open.Load(); n != 0 {
					s.Errorf("%s: it leaves %d connections open", tt.name, n)
				}
				switch {
				case want == "FULL": // a survey only reads, and so does a dry run
					if got := fmt.Sprint(err); dryRun != (err == nil) || !dryRun && (child != nil || !strings.HasPrefix(got, "the master at m4 cannot be seated: refused: its memory is full (OOM)") || !strings.HasSuffix(got, "; fix that, or name another master")) {
						s.Errorf("%s, dry run %v: got %q, %v", tt.name, dryRun, what, err)
					}
				case tt.refused:
					if child != nil || what != "" || err == nil || !strings.HasPrefix(err.Error(), want) {
						s.Errorf("%s, dry run %v: got %q, %v, want it refused: %s", tt.name, dryRun, what, err, want)
					}
				case err != nil || dryRun && what != want || !dryRun && child != nil && what != want || (child != nil) != (tt.seats != "" && !dryRun):
					s.Errorf("%s, dry run %v: got %q, %v, a record: %v; want %q", tt.name, dryRun, what, err, child != nil, want)
				case child != nil:
					var seats []string
					for one := range child.EachSeat() {
						text := fmt.Sprintf("%d %s %s %s", one.Number, one.Name, one.Addr, one.State)
						if one.Since > 0 {
							text += fmt.Sprint(" since ", one.Since)
						}
						seats = append(seats, text)
					}
					if got := strings.Join(seats, ", "); got != tt.seats || child.Roster != r.Roster+int64(len(child.Seats)-len(r.Seats)) {
						s.Errorf("%s: got the seats %s, roster %d; want %s", tt.name, got, child.Roster, tt.seats)
					}
				}
				if after := fmt.Sprint(s.Masters[3].Keys()); dryRun && after != before {
					s.Errorf("%s: a dry run leaves %v on m4, before it were %v", tt.name, after, before)
				}
			}, named(3))
		}
	}
}

// A new seat takes the lowest number that no seat has, and stands in the order of the numbers. Where the quorum does not grow with it, no master
// fewer may fail.
func TestNewSeatTakesAHole(t *testing.T) {
	for hole := range 4 {
		onScene(t, 6, func(s *scene) {
			r := s.settle()
			s.record = changed(r, func(r *member.Record) {
				r.Seats = slices.Delete(r.Seats, hole, hole+1)
				r.Version, r.Parent, r.Roster = 1, r.Digest, 1
			})
			for _, f := range s.record.Seats {
				s.settleOn(s.record, f.Number)
			}
			child, what, err := s.change(Change{Add: "new", Addr: "m6"}, false)
			if err != nil {
				s.Fatal(err)
			}
			if got := child.Seats[hole]; got.Name != "new" || got.Number != hole || len(child.Seats) != 5 || strings.Contains(what, "fewer") {
				s.Errorf("seat %d is free: got the seats %+v, %q; want the new one there", hole, child.Seats, what)
			}
		}, named(5))
	}
}
