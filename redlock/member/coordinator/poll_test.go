package coordinator

// Goal: each survey is given the time that its question needs, and what it shows is acted on in the right order: who is behind is told, what others
// have begun is finished, and only then something new is proposed. Method: as for coordinator_test.go.

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/copying"
	"redlockd/redlock/member/fleettest"
	"redlockd/redlock/member/survey"
)

// hang has the masters at these places take connections and answer nothing, until the test ends.
func (s *scene) hang(places ...int) {
	for _, i := range places {
		s.paths[i].Partition()
		s.Cleanup(s.paths[i].Heal)
	}
}

// took is how long a look takes.
func (s *scene) took() time.Duration {
	began := time.Now()
	s.look()
	return time.Since(began)
}

// runID names the process of a master.
func (s *scene) runID(i int) string {
	_, id, _ := strings.Cut(s.Do(i, "INFO", "server").(string), "run_id:")
	id, _, _ = strings.Cut(id, "\r\n")
	return id
}

// settleOn has the masters at these places settle on a record, each with the memory that it has.
func (s *scene) settleOn(r *member.Record, places ...int) {
	s.Helper()
	for _, i := range places {
		memory, _, _ := strings.Cut(s.shows(i, "v"), " ")
		if memory == "" {
			memory = member.NewMemory(s.runID(i))
		}
		s.Do(i, "HSET", lua.MembersKey, "v", r.ShownBy(memory), "r", r.Text)
	}
}

// shows is what a master shows in a field.
func (s *scene) shows(i int, field string) string {
	text, _ := s.Do(i, "HGET", lua.MembersKey, field).(string)
	return text
}

// A master that hangs holds up nobody for long: where all others have answered that are known to, a tenth of a second; where one of those
// hangs, a quarter of the time in which addresses are made sure of; where an operator waits, or nothing is known yet, all are waited for.
func TestPatienceWithAMasterThatHangs(t *testing.T) {
	for _, tt := range []struct {
		name      string
		known     bool // the membership
		answering int
		request   bool
		want      time.Duration
	}{
		{"it is known to hang", true, 2, false, survey.Grace},
		{"nobody is known to answer", true, 0, false, survey.Grace},
		{"it has answered until now", true, 3, false, 750 * time.Millisecond},
		{"an operator waits for what all say", true, 2, true, 750 * time.Millisecond},
	} {
		onScene(t, 5, func(s *scene) {
			s.settle()
			s.opts.Masters = s.opts.Masters[:5] // what the settings name by now decides nothing
			s.host.answering = tt.answering
			if tt.request {
				s.request = asked(Change{SetMaxTTL: 30 * time.Second})
			}
			s.hang(2)
			if got := s.took(); got != tt.want {
				s.Errorf("%s: a look takes %v, want %v", tt.name, got, tt.want)
			}
		}, named(3))
	}
}

// Who starts goes by what more than half of the masters stand at that the settings name, at once. Else it waits for all of them: those that answer
// last may belong to another fleet.
func TestPatienceOfAStart(t *testing.T) {
	for _, tt := range []struct {
		masters, members, late int
		want                   time.Duration
	}{
		{3, 3, 1, 0},
		{5, 3, 2, 0},
		{6, 3, 3, 300 * time.Millisecond}, // half of them
		{5, 2, 3, 300 * time.Millisecond},
		{3, 0, 1, 300 * time.Millisecond},
	} {
		onNewMasters(t, tt.masters, func(s *scene) {
			if tt.members > 0 {
				few := s.opts
				few.Masters = few.Masters[:tt.members]
				s.vote(few)
			}
			for i := tt.masters - tt.late; i < tt.masters; i++ {
				late := func() time.Duration { return 100 * time.Millisecond }
				s.paths[i].SetDelay(late, func() time.Duration { return 0 })
			}
			if got := s.took(); (got == 0) != (tt.want == 0) || got < tt.want {
				s.Errorf("%d masters, of which %d show a membership, and %d are late: the first look takes %v, want %v at least, and no time for 0", tt.masters, tt.members, tt.late, got, tt.want)
			}
			if (s.record != nil) != (tt.want == 0) {
				s.Errorf("%d masters, of which %d show a membership: goes by %v", tt.masters, tt.members, s.record)
			}
		})
	}
}

// The next record is followed as soon as a quorum shows it: until then no vote counts.
func TestSuccessorIsFollowedAtOnce(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		next := fleettest.Demotes(s.settle(), 2)
		s.settleOn(next, 0, 1)
		s.host.answering = 3
		s.hang(2)
		began := time.Now()
		again := s.look()
		if took := time.Since(began); took != 0 || s.record.Digest != next.Digest || s.host.record.Digest != next.Digest || again > time.Microsecond {
			s.Errorf("after %v: goes by version %d, the engine by %d, looks again in %v; want at once", took, s.record.Version, s.host.record.Version, again)
		}
		if all, _ := s.Membership(); all.Settled || all.Seats[2].Left != next.Quarantine(s.opts.Drift) {
			s.Errorf("got %+v; want nothing settled yet, and all of the wait left", all)
		}
	})
}

// The engine is told which process each address has led to, also one that is refused, and of each that has led to none.
func TestAddressesAreConfirmed(t *testing.T) {
	onScene(t, 5, func(s *scene) {
		s.settle()
		s.Do(1, "CONFIG", "SET", "maxmemory", "1000000", "maxmemory-policy", "allkeys-lru")
		s.Masters[2].Crash(true)
		s.host.confirmed, s.host.unreached = nil, nil
		s.look()
		var want []string
		for _, i := range []int{0, 1, 3, 4} {
			want = append(want, s.runID(i))
		}
		slices.Sort(want)
		slices.Sort(s.host.confirmed)
		if !slices.Equal(s.host.confirmed, want) || !slices.Equal(s.host.unreached, []int{2}) {
			s.Errorf("got %q, and not reached: %v; want %q, and m3", s.host.confirmed, s.host.unreached, want)
		}
		if all, _ := s.Membership(); all.Problem != "m2 gets no vote: it may evict locks when its memory is full: maxmemory-policy is allkeys-lru, set noeviction" {
			s.Errorf("people are told: %q", all.Problem)
		}
	})
}

// Settings that lead to two fleets lead to none: nothing is founded, nobody is followed, and a founding that was possible before is not any more.
func TestSettingsThatLeadToNoFleet(t *testing.T) {
	onNewMasters(t, 4, func(s *scene) {
		for _, few := range [][2]int{{0, 2}, {2, 4}} {
			o := s.opts
			o.Masters = o.Masters[few[0]:few[1]]
			s.vote(o)
		}
		s.foundable = time.Now()
		if again := s.look(); s.record != nil || again != s.opts.Heartbeat || !s.foundable.IsZero() || !strings.Contains(s.problem, "lead to no fleet") {
			s.Errorf("got the record %v, %q, foundable %v, looks again in %v", s.record, s.problem, s.foundable, again)
		}
	})
}

// Brand-new masters get a membership of learners, when all are there; the first wait is founding_wait at least.
func TestFirstFounding(t *testing.T) {
	onNewMasters(t, 3, func(s *scene) {
		s.hang(2)
		s.look()
		if s.record != nil || !strings.Contains(s.problem, "not all masters that the settings name are there: start m3") {
			s.Fatalf("got the record %v, %q; want that m3 is waited for", s.record, s.problem)
		}
		s.paths[2].Heal()
		for range 100 {
			again := s.look()
			if s.record != nil {
				break
			}
			time.Sleep(max(again, pollPause))
		}
		if r := s.record; r == nil || r.Generation != 1 || r.Voters() != 0 || len(r.Among(nil)) != 0 || r.Wait < 10*time.Minute {
			s.Errorf("got %+v, %q; want a founding without votes, and a wait of 10m", r, s.problem)
		}
		for i := range s.Masters {
			if !strings.HasSuffix(s.shows(i, "v"), s.record.ID().String()) {
				s.Errorf("m%d shows %q, want the founding", i+1, s.shows(i, "v"))
			}
		}
	}, func(o *member.Options) { o.FoundingWait = 10 * time.Minute })
}

// Who is silent at a first founding is waited for: for founding_wait, or for what max_ttl needs where that is longer.
func TestSilenceAtAFirstFounding(t *testing.T) {
	for _, foundingWait := range []time.Duration{10 * time.Millisecond, 3 * time.Minute} {
		onNewMasters(t, 3, func(s *scene) {
			s.hang(2)
			began := time.Now()
			for s.record == nil && time.Since(began) < 10*time.Minute {
				time.Sleep(max(s.look(), pollPause))
			}
			if took, want := time.Since(began), max(foundingWait, member.Vacated(nil, s.opts).Wait); s.record == nil || took < want || took > want+3*time.Second {
				s.Errorf("founding_wait %v: founded without m3 after %v, want %v", foundingWait, took, want)
			}
		}, func(o *member.Options) { o.FoundingWait = foundingWait })
	}
}

// Somebody chose the next record and has told this client alone: it tells the masters, and looks at them again at once. One that shows an older
// record is told as well, and lanes are asked to look there.
func TestWhoIsBehindIsTold(t *testing.T) {
	for _, behind := range [][]int{{0, 1, 2}, {2}, {0}, {}} {
		onScene(t, 3, func(s *scene) {
			r := s.settle()
			if slices.Equal(behind, []int{0}) { // the quorum needs the one that is behind
				s.Masters[1].Crash(true)
				defer s.Masters[1].Restart()
			}
			next := fleettest.Demotes(r, 1)
			for i := range s.Masters {
				if !slices.Contains(behind, i) && (i != 1 || len(behind) != 1 || behind[0] != 0) {
					s.settleOn(next, i)
				}
			}
			s.adopt(next, nil)
			s.host.rechecks = 0
			again := s.look()
			for _, i := range behind {
				if !strings.HasSuffix(s.shows(i, "v"), next.ID().String()) {
					s.Errorf("%v were behind: m%d shows %q, want version 1", behind, i+1, s.shows(i, "v"))
				}
			}
			if few := len(behind) == 3 || slices.Contains(behind, 0); few && again > time.Microsecond || !few && s.host.rechecks != len(behind) {
				s.Errorf("%v were behind: looks again in %v, lanes were asked %d times to look", behind, again, s.host.rechecks)
			}
		})
	}
}

// A step that another client has begun is finished before anything is taken for settled: it may have been chosen.
func TestStepOfAnotherIsFinishedFirst(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		r := s.settle()
		s.settled = false
		child := fleettest.Demotes(r, 2)
		for i := range 2 {
			s.Do(i, "HSET", lua.MembersKey, "v", r.ShownBy(r.Seats[i].Memory)+" ? 00000001.0000000000000000 "+child.Digest, "a", child.Text)
		}
		s.request = asked(Change{SetMaxTTL: 30 * time.Second})
		request := s.request
		s.look()
		if s.record.Digest != child.Digest || s.settled || s.request != request || len(request.done) > 0 {
			s.Errorf("got version %d, settled %v; want the child that two have accepted, nothing settled, and the operator still waits", s.record.Version, s.settled)
		}
		s.look()
		if s.record.MaxTTL != 30*time.Second || s.record.Version != 2 || s.request != nil {
			s.Errorf("then: got version %d, max_ttl %v; want what the operator asks for", s.record.Version, s.record.MaxTTL)
		}
		if reply := <-request.done; reply.err != nil || reply.what != "max_ttl falls from 1m to 30s, and the wait follows in "+r.Wait.String() {
			s.Errorf("the operator is told %+v", reply)
		}
		if s.look(); !s.settled {
			s.Error("then: not settled")
		}
	})
}

// Also where nobody asks for anything: until it is finished, two masters have no vote.
func TestStepOfAnotherIsFinished(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		r := s.settle()
		child := fleettest.Demotes(r, 2)
		s.Do(0, "HSET", lua.MembersKey, "v", r.ShownBy(r.Seats[0].Memory)+" ? 00000001.0000000000000000 "+child.Digest, "a", child.Text)
		s.look()
		if s.record.Version != 1 || s.record.Voters() != 3 {
			s.Errorf("got version %d with %d voters, want a step that changes nothing: one of three was no quorum", s.record.Version, s.record.Voters())
		}
	})
}

// A step is asked for, and the masters choose what another client has begun: the operator is not told that it was made, and the log does not say so.
func TestAnotherStepIsChosen(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		r := s.settle()
		theirs := fleettest.Demotes(r, 2)
		for i := range 2 {
			s.Do(i, "HSET", lua.MembersKey, "v", r.ShownBy(r.Seats[i].Memory)+" ? 00000001.0000000000000000 "+theirs.Digest, "a", theirs.Text)
		}
		s.request = asked(Change{SetMaxTTL: 30 * time.Second})
		s.log.Reset()
		s.host.rechecks = 0
		s.propose(s.Context(), s.ask(), r, member.Decision{Child: fleettest.Demotes(r, 1), Changes: []string{"ours"}, Asked: true})
		if s.record.Digest != theirs.Digest || len(s.request.done) != 0 || strings.Contains(s.log.String(), "ours") || s.host.rechecks != 1 {
			s.Errorf("got version %d, the operator is told: %v, the log %q, lanes were asked to look %d times", s.record.Version, len(s.request.done) > 0, s.log, s.host.rechecks)
		}
	})
}

// Only a learner that was listed, or has lost its vote, in this step waits before its seat changes again.
func TestWhoPauses(t *testing.T) {
	onScene(t, 6, func(s *scene) {
		s.settle()
		step := func(what string, want string, change func(r *member.Record)) {
			s.pauses = make(map[int]reseatPause)
			s.propose(s.Context(), s.ask(), s.record, member.Decision{Child: changed(s.record.Child(), change)})
			got := ""
			for place := range 7 {
				if _, pauses := s.pauses[place]; pauses {
					got += s.record.Seat(place).Name + " "
				}
			}
			if got != want {
				s.Errorf("%s: %q pause, want %q", what, got, want)
			}
		}
		s.settleOn(s.record, 5) // it has a memory
		memory, _, _ := strings.Cut(s.shows(5, "v"), " ")
		step("a voter loses its vote", "m2 ", func(r *member.Record) { r.Seats[1].State, r.Seats[1].Since = member.Learner, r.Version })
		step("max_ttl is raised", "", func(r *member.Record) { r.MaxTTL += time.Minute })
		step("a seat leaves", "", func(r *member.Record) {
			r.Seats[2].Memory, r.Seats[2].State, r.Seats[2].Since = "", member.Leaving, r.Version
		})
		step("a seat is added", "m6 ", func(r *member.Record) {
			r.Roster++
			r.Seats = append(r.Seats, member.Seat{Number: 5, Name: "m6", Addr: "m6", Memory: memory, State: member.Learner, Since: r.Version})
		})
	}, named(5))
}

// A change that needs nothing is answered, and not asked for again. Its poll goes on with what else is due.
func TestChangeThatIsSoAlready(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		r := s.settle()
		s.forget(1) // it becomes a learner
		s.request = asked(Change{SetMaxTTL: r.MaxTTL})
		request := s.request
		s.look()
		if reply := <-request.done; reply.err != nil || reply.what != "" || s.request != nil {
			s.Errorf("the operator is told %+v, and waits: %v", reply, s.request != nil)
		}
		if s.record.Version != 1 || s.record.Seats[1].State != member.Learner {
			s.Errorf("got version %d, m2 is %s; want it a learner by now", s.record.Version, s.record.Seats[1].State)
		}
		// Its seat gets no other memory for a second.
		if pause := time.Until(s.pauses[1].until); pause != time.Second || len(s.pauses) != 1 {
			s.Errorf("got a pause of %v, want 1s, and none of the others: %v", pause, s.pauses)
		}
		s.forget(1)
		s.look()
		if s.record.Version != 1 {
			s.Errorf("m2 forgets again: got version %d at once, want 1", s.record.Version)
		}
		time.Sleep(time.Second)
		if s.look(); s.record.Version != 2 {
			s.Errorf("a second later: got version %d, want 2", s.record.Version)
		}
		for range 5 {
			s.forget(1)
			time.Sleep(time.Until(s.pauses[1].until))
			s.look()
		}
		if pause := time.Until(s.pauses[1].until); pause != reseatPauseMax {
			s.Errorf("again and again: got a pause of %v, want %v", pause, reseatPauseMax)
		}
	})
}

// A voter whose clock is out of step becomes a learner, and its master says why. It keeps its memory, and its clock may never be right: so the
// pause grows up to the wait. Where no learner is copied to, nobody is demoted.
func TestVoterOutOfStep(t *testing.T) {
	for _, noCopy := range []bool{true, false} {
		onScene(t, 5, func(s *scene) {
			r := s.settle()
			s.host.outOfStep = "its clock gained a minute"
			s.look()
			if got := s.record.Seats[1].State == member.Learner; got == noCopy {
				s.Fatalf("no copies: %v: got m2 demoted: %v", noCopy, got)
			}
			if got := s.shows(1, "why"); !noCopy && got != s.host.outOfStep {
				s.Errorf("m2 says %q, want why", got)
			}
			if noCopy {
				return
			}
			for range 5 {
				s.propose(s.Context(), s.ask(), s.record, member.Decision{Child: changed(s.record.Child(), func(r *member.Record) { r.Seats[1].State, r.Seats[1].Since = member.Learner, r.Version })})
			}
			if got := s.pauses[1].next; got <= reseatPauseMax || got > r.Wait {
				s.Errorf("demoted again and again: got a pause of %v, want more than %v, and %v at most", got, reseatPauseMax, r.Wait)
			}
		}, func(o *member.Options) { o.NoCopy = noCopy })
	}
}

// ask is a survey of the masters of the record.
func (s *scene) ask() *survey.Masters {
	all := survey.Ask(s.Context(), s.opts.PlacesOf(s.record), survey.Patience{Enough: len(s.record.Seats)}, s.opts)
	s.Cleanup(all.Close)
	return all
}

// A master whose membership a majority does not know starts anew: after two surveys, and then not before a pause that grows.
func TestMasterThatShowsWhatNobodyKnows(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		r := s.settle()
		lie := changed(r, func(r *member.Record) { r.Version, r.Parent = 9, r.Digest })
		memory := r.Seats[2].Memory
		var waited []time.Duration
		for range 7 {
			s.Do(2, "HSET", lua.MembersKey, "v", lie.ShownBy(memory), "r", lie.Text)
			began := time.Now()
			for looks := 1; ; looks++ {
				again := s.look()
				now, _, _ := strings.Cut(s.shows(2, "v"), " ")
				if now != memory {
					if looks < 2 || again > time.Microsecond {
						s.Errorf("it has another name after %d surveys, and is looked at again in %v; want two, and at once", looks, again)
					}
					if !strings.HasPrefix(s.shows(2, "why"), "it showed "+lie.ID().String()) {
						s.Errorf("it says %q, want what it showed", s.shows(2, "why"))
					}
					memory = now
					break
				}
				if looks > 2 && !strings.Contains(s.problem, "m3 shows version 9 of the membership, and a majority of the masters does not know it") {
					s.Errorf("survey %d, %v: people are told: %q, %+v", looks, waited, s.problem, s.record)
				}
				time.Sleep(100 * time.Millisecond)
			}
			waited = append(waited, time.Since(began).Truncate(time.Second))
		}
		if want := []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 8 * time.Second, 8 * time.Second}; !slices.EqualFunc(waited, want, func(a, b time.Duration) bool { return (a - b).Abs() <= time.Second }) {
			s.Errorf("it lies again at once each time, and gets another name after %v; want about %v", waited, want)
		}
	})
}

// The masters say who had the ceiling raised, of a step that raises it, and of no other.
func TestWhoRaisedTheCeiling(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		s.settle()
		s.host.wantedBy = "alice asked for 10m"
		s.request = asked(Change{SetMaxTTL: 50 * time.Minute})
		s.look()
		if got := s.shows(0, member.RaisedField); got != "" {
			s.Errorf("max_ttl is lowered: m1 says %q", got)
		}
		s.host.wanted = 10 * time.Minute
		for range 100 {
			time.Sleep(max(s.look(), pollPause))
			if s.record.Ceiling == time.Minute && s.shows(0, member.RaisedField) != "" {
				s.look()
			}
		}
		if s.record.Ceiling != 15*time.Minute {
			s.Fatalf("the ceiling is %v, want 15m: %+v", s.record.Ceiling, s.record)
		}
		for i := range s.Masters {
			if got := s.shows(i, member.RaisedField); got != s.host.wantedBy {
				s.Errorf("m%d says %q, want who asked", i+1, got)
			}
		}
		if all, _ := s.Membership(); all.RaisedBy != s.host.wantedBy {
			s.Errorf("people are told that %q raised it", all.RaisedBy)
		}
		s.record = changed(s.record, func(r *member.Record) { r.Ceiling = time.Minute })
		if all, _ := s.Membership(); all.RaisedBy != "" {
			s.Errorf("at the lowest ceiling people are told that %q raised it", all.RaisedBy)
		}
	}, func(o *member.Options) { o.MaxTTL = time.Hour })
}

// A memory that others hear is not replaced, though this client finds another one at the address: its way there may be wrong.
func TestMemoryThatIsHeardStays(t *testing.T) {
	onScene(t, 5, func(s *scene) {
		s.settle()
		s.Masters[3].Crash(false) // it is another process
		s.Masters[3].Restart()
		for i := range 3 {
			s.Do(i, "HSET", lua.MembersKey, member.HeardField(3), time.Now().UnixMilli())
		}
		time.Sleep(heardWithin*s.opts.Heartbeat - 1)
		if s.look(); s.record.Version != 0 {
			s.Errorf("it was heard just now: got version %d", s.record.Version)
		}
		time.Sleep(time.Nanosecond)
		if s.look(); s.record.Version != 1 || s.record.Seats[3].State != member.Learner {
			s.Errorf("it is not heard any more: got version %d, m4 is %s", s.record.Version, s.record.Seats[3].State)
		}
	})
}

// What masters tell of locks that a minority held is kept by resource, as far as they show the record in force.
func TestMinorityOfMasters(t *testing.T) {
	onScene(t, 5, func(s *scene) {
		s.settle()
		s.forget(3)
		for i, resource := range []string{"r", "r", "other", "r"} {
			s.Do(i, "HSET", lua.MembersKey, member.MinorityField, fmt.Sprintf("%d 0123456789abcdef %q %q\n", time.Now().Add(time.Minute).UnixMilli(), "m9", resource))
		}
		s.look()
		if got := s.Minority("r"); len(got) != 2 || got[0].By != "m1" || got[1].By != "m2" || len(s.Minority("other")) != 1 || s.Minority("none") != nil {
			s.Errorf("got %+v, %+v", got, s.Minority("other"))
		}
		all := shownByAll(s.record)
		for _, f := range all.Reports {
			f.Fields[member.MinorityField] = fmt.Sprintf("%d 0123456789abcdef %q %q\n", time.Now().Add(time.Minute).UnixMilli(), "m9", "r")
		}
		all.Reports[1].State.Record = changed(s.record, func(r *member.Record) { r.Version = 9 }).ID()
		all.Reports[4].Err = fleettest.ErrAway
		if s.takeMinority(all, s.record); len(s.Minority("r")) != 3 || s.Minority("other") != nil {
			s.Errorf("m2 shows another record, and m5 is away: got %+v, %+v, want what the others tell of", s.Minority("r"), s.Minority("other"))
		}
	})
}

// Where nobody says who asks, nothing is written.
func TestNobodyRaisedTheCeiling(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		s.settle()
		s.host.wanted = 10 * time.Minute
		for range 100 {
			time.Sleep(max(s.look(), pollPause))
		}
		if got := s.Do(0, "HGET", lua.MembersKey, member.RaisedField); s.record.Ceiling != 15*time.Minute || got != nil {
			s.Errorf("the ceiling is %v, and m1 says %v", s.record.Ceiling, got)
		}
	}, func(o *member.Options) { o.MaxTTL = time.Hour })
}

// A seat gets no vote that could not be told of the fences of before: nothing is proposed then.
func TestFloorsAreRaisedFirst(t *testing.T) {
	for _, tt := range []struct {
		name   string
		spoil  func(s *scene, n *member.Situation)
		places []int
		want   bool
	}{
		{"none is due", func(s *scene, n *member.Situation) { n.Survey.Reports = nil }, nil, true},
		{"all are told", nil, []int{1, 2}, true},
		{"one is not reached", func(s *scene, n *member.Situation) { n.Survey.Reports[2].Err = fleettest.ErrAway }, []int{1, 2}, false},
		{"one was not asked", func(s *scene, n *member.Situation) { n.Survey.Reports = n.Survey.Reports[:2] }, []int{1, 2}, false},
		{"one shows something else by now", func(s *scene, n *member.Situation) { s.forget(2) }, []int{1, 2}, false},
		{"it is too far ahead of its clock", func(s *scene, n *member.Situation) {
			n.Survey.Reports[0].High = 1 << 52
			n.Survey.Reports[1].High = 1 << 52
			n.Survey.Reports[2].High = 1 << 52
		}, []int{1, 2}, false},
	} {
		onScene(t, 3, func(s *scene) {
			r := s.settle()
			n := &member.Situation{Record: r, Survey: s.ask().Survey, Wall: time.Now(), Skew: time.Second, Drift: s.opts.Drift}
			for _, f := range n.Survey.Reports {
				f.High = 12345
			}
			if tt.spoil != nil {
				tt.spoil(s, n)
			}
			logged := s.log.Len()
			if got := s.raiseFloors(s.Context(), n, tt.places); got != tt.want {
				s.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
			}
			for i := range s.Masters {
				floor, _ := s.Do(i, "GET", lua.FloorKey).(string)
				if raised := slices.Contains(tt.places, i); tt.want && (floor == "12345") != raised {
					s.Errorf("%s: m%d has the floor %q; want it raised: %v", tt.name, i+1, floor, raised)
				}
			}
			if tt.want && s.log.Len() != logged {
				s.Errorf("%s: got the log %s", tt.name, s.log.String()[logged:])
			}
			if far := strings.Contains(tt.name, "clock"); far {
				if all, _ := s.Membership(); !strings.HasPrefix(all.Problem, "m2 gets no vote from here: it must refuse all fences of before") || !strings.HasSuffix(all.Problem, "correct the one that is wrong") {
					s.Errorf("%s: people are told %q", tt.name, all.Problem)
				}
			} else if s.problem != "" {
				s.Errorf("%s: people are told %q", tt.name, s.problem)
			}
		})
	}
}

// Where too few masters remember the fences, the log says so: as a warning, but not of masters that may be new.
func TestFencesThatNobodyRemembers(t *testing.T) {
	for _, tt := range []struct {
		generation, version int64
		want                string
	}{{1, 0, "INFO"}, {1, 1, "WARN"}, {2, 0, "WARN"}} {
		onScene(t, 3, func(s *scene) {
			s.settle()
			n := &member.Situation{Record: s.record, Survey: s.ask().Survey, Wall: time.Now(), Skew: time.Second}
			n.Record = changed(s.record, func(r *member.Record) {
				r.Generation, r.Version = tt.generation, tt.version
				for i := range r.Seats {
					r.Seats[i].State = member.Learner
				}
			})
			s.log.Reset()
			if !s.raiseFloors(s.Context(), n, []int{1}) {
				s.Fatal("m2 was not told")
			}
			if got := s.log.String(); !strings.Contains(got, "level="+tt.want+" msg=\"fences trust clocks once") || strings.Contains(got, "to_do=") != (tt.want == "WARN") {
				s.Errorf("generation %d, version %d: got the log %q, want %s", tt.generation, tt.version, got, tt.want)
			}
		})
	}
}

// What a step has chosen is not always what was proposed. Two that are outrun try again at different times within a heartbeat; who finds too
// few masters does so after one.
func TestStepThatIsNotChosen(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		r := s.settle()
		child := fleettest.Demotes(r, 1)
		stale := s.ask()
		for i := range s.Masters {
			s.Do(i, "HSET", lua.MembersKey, "p", "99999998.ffffffffffffffff")
		}
		times := make(map[time.Duration]bool)
		for range 20 {
			again := s.propose(s.Context(), stale, r, member.Decision{Child: child})
			if again <= 0 || again > s.opts.Heartbeat {
				s.Errorf("outrun: looks again in %v, want within a heartbeat", again)
			}
			times[again] = true
		}
		if all, _ := s.Membership(); len(times) < 10 || strings.Contains(all.Problem, ", in ") || !strings.HasPrefix(s.problem, "the membership cannot be changed at present: prepare: somebody else changes the membership at the same time") {
			s.Errorf("outrun: looks again in %d different times, %q", len(times), s.problem)
		}
		s.hang(0, 1)
		few := s.ask()
		if again := s.propose(s.Context(), few, r, member.Decision{Child: child}); again != s.opts.Heartbeat || s.record != r {
			s.Errorf("too few: looks again in %v, version %d", again, s.record.Version)
		}
	})
}

// When to look again: as soon as something can be due.
func TestPause(t *testing.T) {
	heartbeat := 250 * time.Millisecond
	for _, tt := range []struct {
		name    string
		prepare func(s *scene, n *member.Situation)
		want    time.Duration
	}{
		{"nothing is due: addresses are made sure of twice in the time", nil, 1500 * time.Millisecond},
		{"an operator waits", func(s *scene, n *member.Situation) { s.request = asked(Change{}) }, heartbeat},
		{"another memory at an address", func(s *scene, n *member.Situation) { n.Survey.Reports[1].State.Memory = "other:0000000000000001" }, heartbeat},
		{"another one, that is refused", func(s *scene, n *member.Situation) {
			n.Survey.Reports[1].State.Memory, n.Survey.Reports[1].Err = "other:0000000000000001", fleettest.ErrAway
		}, 1500 * time.Millisecond},
		{"a higher ceiling was wanted just now", func(s *scene, n *member.Situation) { n.Wanted = n.Record.Ceiling + 1 }, heartbeat / 8},
		{"it was wanted two heartbeats ago", func(s *scene, n *member.Situation) {
			n.Wanted, s.ceilingWanted = n.Record.Ceiling+1, time.Now().Add(-2*heartbeat)
		}, heartbeat},
		{"as high as it is", func(s *scene, n *member.Situation) { n.Wanted = n.Record.Ceiling }, 1500 * time.Millisecond},
		{"a seat that leaves, whose master answers", func(s *scene, n *member.Situation) {
			n.Record = changed(n.Record, func(r *member.Record) { r.Seats[1].Memory, r.Seats[1].State = "", member.Leaving })
			s.waits = nil
		}, 1500 * time.Millisecond},
		{"a learner that is copied to", func(s *scene, n *member.Situation) {
			s.recoveries = map[int]*recovery{1: {copy: new(copying.Copy)}}
			s.Cleanup(func() { s.recoveries = nil })
		}, 1500 * time.Millisecond},
		{"a learner that nobody copies to", func(s *scene, n *member.Situation) { s.recoveries = map[int]*recovery{1: {}} }, 2 * heartbeat},
	} {
		onScene(t, 3, func(s *scene) {
			r := s.settle()
			s.ceilingWanted = time.Now()
			n := &member.Situation{Record: r, Survey: shownByAll(r)}
			if tt.prepare != nil {
				tt.prepare(s, n)
			}
			if got := s.pause(n); got != tt.want {
				s.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
			}
		})
	}
	// A wait ends.
	onScene(t, 3, func(s *scene) {
		next := fleettest.Demotes(s.settle(), 1)
		s.settleOn(next, 0, 1, 2)
		s.look()
		s.look()
		whole := next.Quarantine(s.opts.Drift)
		time.Sleep(whole - time.Second)
		if again := s.look(); again != time.Second || s.record.Version != 1 {
			s.Errorf("a second before the wait ends: looks again in %v, version %d", again, s.record.Version)
		}
		n := &member.Situation{Record: next, Survey: s.ask().Survey}
		time.Sleep(100 * time.Millisecond)
		if got := s.pause(n); got != 900*time.Millisecond {
			s.Errorf("a second before the wait ends, a tenth of a second later: looks again in %v, want 900ms", got)
		}
		time.Sleep(900 * time.Millisecond)
		n.Survey.Began = time.Now()
		for _, f := range n.Survey.Reports {
			f.Clock = f.Clock.Add(time.Second)
		}
		if got := s.pause(n); got != heartbeat {
			s.Errorf("it has ended, and the learner does not vote: looks again in %v, want a heartbeat", got)
		}
		if s.look(); s.record.Version != 2 || s.record.Seats[1].State != member.Voter {
			s.Errorf("then: version %d, m2 is %s", s.record.Version, s.record.Seats[1].State)
		}
	})
}

// running has the coordinator run.
func (s *scene) running() {
	done := make(chan struct{})
	go func() { s.Run(); close(done) }()
	s.Cleanup(func() { <-done })
}

// The coordinator looks when its timer is due, when it is woken, and when an operator asks; not again before a pause, and one operator after the other.
func TestRun(t *testing.T) {
	onScene(t, 3, func(s *scene) {
		s.running()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if s.current() == nil {
			s.Fatal("it has not looked at once")
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		looks := func() int { return s.host.confirmations() / 3 }
		before := looks()
		time.Sleep(1400 * time.Millisecond)
		synctest.Wait()
		if got := looks() - before; got != 0 && got != 1 {
			s.Errorf("got %d looks in 1.4 s of rest", got)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := looks() - before; got < 6 || got > 9 { // every 1.5 s
			s.Errorf("got %d looks in 11.4 s of rest, want one each 1.5 s", got)
		}
		before = looks()
		for range 10 {
			s.Wake()
		}
		synctest.Wait()
		if got := looks() - before; got != 1 {
			s.Errorf("woken ten times: got %d looks at once, want 1", got)
		}
		time.Sleep(2 * pollPause)
		synctest.Wait()
		if got := looks() - before; got > 2 {
			s.Errorf("woken ten times: got %d looks, want 2 at most", got)
		}
		what, err := s.Change(s.Context(), Change{SetMaxTTL: 30 * time.Second}, false)
		if err != nil || !strings.HasPrefix(what, "max_ttl falls") || s.current().MaxTTL != 30*time.Second {
			s.Errorf("a change: got %q, %v", what, err)
		}
		if what, err = s.Change(s.Context(), Change{SetMaxTTL: time.Minute}, true); err != nil || what != "max_ttl rises from 30s to 1m" || s.current().MaxTTL != 30*time.Second {
			s.Errorf("a dry run: got %q, %v, max_ttl %v", what, err, s.current().MaxTTL)
		}
	})
}

// No look leaves a connection open, whatever it finds: masters would run out of them.
func TestLooksLeaveNoConnection(t *testing.T) {
	for name, prepare := range map[string]func(s *scene){
		"nothing":       func(s *scene) {},
		"one is behind": func(s *scene) { s.settleOn(fleettest.Demotes(s.record, 1), 0, 1) },
		"it does not know of three steps": func(s *scene) {
			s.settleOn(changed(s.record, func(r *member.Record) { r.Version, r.Parent, r.Seats[1].Addr = 3, r.Digest, "m4" }), 0, 1, 3)
		},
		"all forget": func(s *scene) { s.forget() },
		"two forget, and one shows a later record with another master": func(s *scene) {
			s.forget(1, 2)
			s.settleOn(changed(s.record, func(r *member.Record) { r.Version, r.Parent, r.Seats[1].Addr = 3, r.Digest, "m4" }), 0)
		},
		"one hangs": func(s *scene) { s.hang(2) },
	} {
		onScene(t, 4, func(s *scene) {
			s.settle()
			prepare(s)
			for range 5 {
				time.Sleep(s.look())
				synctest.Wait()
				if n := s.open.Load(); n != 0 {
					s.Errorf("%s: a look leaves %d connections open", name, n)
				}
			}
		}, named(3))
	}
}

// Two have forgotten. The one that remembers shows a later record than this client has seen, with another master in a seat: the founding asks that
// one, and seats it. It is not a member by the record of before.
func TestFoundingAsksTheMastersOfTheLaterRecord(t *testing.T) {
	onScene(t, 4, func(s *scene) {
		r := s.settle()
		s.forget(1, 2)
		s.settleOn(changed(r, func(r *member.Record) { r.Version, r.Parent, r.Seats[1].Addr = 3, r.Digest, "m4" }), 0)
		late := func() time.Duration { return time.Millisecond }
		s.paths[2].SetDelay(late, late)
		got, _ := s.foundAgain()
		memory, _, _ := strings.Cut(s.shows(3, "v"), " ")
		if got.Seats[2].Memory == "" {
			s.Error("m3, which answers a little later, is no member")
		}
		if one := got.Seats[1]; one.Addr != "m4" || one.Memory != memory || memory == "" {
			s.Errorf("got the seat %+v, want the master at m4, with the memory %s", one, memory)
		}
	}, named(3))
}
