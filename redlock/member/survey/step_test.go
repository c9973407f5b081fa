package survey

// Goal: a record gets one child, whatever clients propose, and wherever a proposer dies; and the next one finishes what it has begun.
// Method: masters in memory. A proposer that dies is one whose calls the test makes by itself, up to the point where it dies. Many at
// once, with delays and lost connections, are the duels of package redlock (sim_trace_duel_test.go).

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/fleettest"
)

const firstBallot, secondBallot = "00000001.0000000000000000", "00000002.0000000000000000"

// stateLettersOf tells records apart whose steps demote different seats.
func stateLettersOf(r *member.Record) string {
	if r == nil {
		return "none"
	}
	letters := ""
	for _, one := range r.Seats {
		letters += string(one.State[0])
	}
	return fmt.Sprintf("version %d, %s", r.Version, letters)
}

// wantChosen compares what a step has chosen.
func wantChosen(s *fleettest.Fleet, what string, got *member.Record, err error, want *member.Record) {
	s.Helper()
	if err != nil || got == nil || want == nil || got.Digest != want.Digest {
		s.Errorf("%s: got %v, %v, want %v", what, stateLettersOf(got), err, stateLettersOf(want))
	}
}

func TestStep(t *testing.T) {
	fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
		found(s)
		p := newProposer(s)
		child := p.demotes(1)
		got, err := p.step(child)
		wantChosen(s, "a step", got, err, child)
		other := newProposer(s)
		if other.parent.Version != 0 {
			s.Errorf("the record in force while nobody is told of the next: got version %d, want 0", other.parent.Version)
		}
		other.survey.Teach(s.Context(), other.found(), child)
		other.look()
		if other.parent == nil || other.parent.Digest != child.Digest {
			s.Errorf("the record in force then: got %v, want the child", other.parent)
		}
		// Told late, it goes on nothing that has happened since.
		if _, err := p.step(p.demotes(2)); !errors.Is(err, ErrOutrun) {
			s.Errorf("a step from a record of before: got %v, want that others were ahead", err)
		}
	})
	for _, tt := range []struct {
		name string
		// dies is what the first proposer has done.
		dies   func(p *proposer, child *member.Record)
		places []int // that the second one reaches; nil: all
		theirs bool  // the child of the first is chosen
	}{
		{"after it has prepared", func(p *proposer, _ *member.Record) { p.prepare(firstBallot) }, nil, false},
		{"after one has accepted", func(p *proposer, child *member.Record) { p.prepare(firstBallot); p.accept(firstBallot, child, 0) }, nil, false},
		{"after one has accepted, and two are not reached", func(p *proposer, child *member.Record) { p.prepare(firstBallot); p.accept(firstBallot, child, 0) }, []int{0, 1, 2}, true},
		{"after two have accepted", func(p *proposer, child *member.Record) { p.prepare(firstBallot); p.accept(firstBallot, child, 0, 1) }, nil, false},
		{"after two have accepted, and one is not reached", func(p *proposer, child *member.Record) { p.prepare(firstBallot); p.accept(firstBallot, child, 0, 1) }, []int{0, 1, 2, 3}, true},
		{"after one has accepted that is not reached", func(p *proposer, child *member.Record) { p.prepare(firstBallot); p.accept(firstBallot, child, 0) }, []int{1, 2, 3, 4}, false},
		{"after a quorum has accepted", func(p *proposer, child *member.Record) { p.prepare(firstBallot); p.accept(firstBallot, child, 0, 1, 2) }, nil, true},
		{"after a quorum has accepted, one of which is reached", func(p *proposer, child *member.Record) { p.prepare(firstBallot); p.accept(firstBallot, child, 0, 1, 2) }, []int{2, 3, 4}, true},
		{"after all have accepted", func(p *proposer, child *member.Record) { p.prepare(firstBallot); p.accept(firstBallot, child) }, []int{0, 3, 4}, true},
	} {
		fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
			found(s)
			p := newProposer(s)
			theirs := p.demotes(1)
			tt.dies(p, theirs)
			next := newProposer(s)
			own := next.demotes(2)
			want := own
			if tt.theirs {
				want = theirs
			}
			got, err := next.step(own, tt.places...)
			wantChosen(s, tt.name, got, err, want)
			// It was only slow, and goes on.
			p.accept(firstBallot, theirs)
			last := newProposer(s)
			got, err = last.step(last.demotes(3), tt.places...)
			wantChosen(s, tt.name+", and then goes on", got, err, want)
		})
	}
}

// The child of the highest ballot may have been chosen; that of a lower one cannot.
func TestStepTakesTheChildOfTheHighestBallot(t *testing.T) {
	for slow := range 2 { // which of the two comes last
		fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
			found(s)
			p := newProposer(s)
			low, high := p.demotes(1), p.demotes(2)
			p.prepare(firstBallot, 0, 1, 2)
			p.accept(firstBallot, low, 0)
			p.prepare(secondBallot, 1, 2, 3)
			p.accept(secondBallot, high, 1, 2, 3)
			for _, places := range [][]int{{0, 1, 4}, {0, 3, 4}, nil} {
				next := newProposer(s)
				next.delay(10*time.Millisecond, 0, slow)
				got, err := next.step(next.demotes(3), places...)
				wantChosen(s, fmt.Sprintf("reached %v, m%d answers last", places, slow+1), got, err, high)
			}
		})
	}
}

// A proposer that another one was ahead of chooses nothing, and says so.
func TestStepThatIsOutrun(t *testing.T) {
	fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
		found(s)
		p := newProposer(s)
		p.prepare("00000009.0000000000000000", 2, 3, 4)
		if got, err := p.step(p.demotes(1)); !errors.Is(err, ErrOutrun) {
			s.Errorf("got %v, %v, want that others were ahead", got, err)
		}
		p.look()
		child := p.demotes(1)
		got, err := p.step(child)
		wantChosen(s, "after it has looked again", got, err, child)
	})
}

func TestMinorityChoosesNothing(t *testing.T) {
	fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
		found(s)
		p, other := newProposer(s), newProposer(s)
		if got, err := p.step(p.demotes(1), 0, 1); err == nil || !strings.Contains(err.Error(), "2 of 2 masters agreed, 3 are needed") {
			s.Errorf("two are reached: got %v, %v, want that three are needed", got, err)
		}
		p.look() // or its next ballot may be below its first
		// All prepare, the first one late. By then three have promised more to somebody else.
		p.delay(50*time.Millisecond, 0, 0)
		ahead := make(chan struct{})
		time.AfterFunc(20*time.Millisecond, func() {
			defer close(ahead)
			other.prepare("00000009.0000000000000000", 2, 3, 4)
		})
		if got, err := p.step(p.demotes(1)); !errors.Is(err, ErrOutrun) {
			s.Errorf("two can accept: got %v, %v, want that others were ahead", got, err)
		}
		<-ahead
	})
}

// A founding that memories have accepted which are no more can never be chosen. It is in nobody's way.
func TestFoundingOfLostMemories(t *testing.T) {
	fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
		p := newProposer(s)
		lost, _ := p.survey.Founding(nil, p.opts)
		p.prepare(firstBallot, 0, 1, 2)
		p.accept(firstBallot, lost, 0, 1, 2)
		next := newProposer(s)
		other, _ := next.survey.Founding(nil, next.opts)
		got, err := next.step(other)
		wantChosen(s, "while all memories are there", got, err, lost)
		for i := 1; i < 4; i++ {
			s.Do(i, "FLUSHALL")
		}
		next.look()
		own, _ := next.survey.Founding(nil, next.opts)
		got, err = next.step(own)
		wantChosen(s, "when three have forgotten", got, err, own)
	})
}

// A step is chosen by the memories that are listed before it, not by those that it lists: with a newcomer counted, two quorums need not have a memory in common, and
// a record would have two children.
func TestStepIsChosenByThoseOfBefore(t *testing.T) {
	fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
		found(s)
		s.Do(4, "FLUSHALL")
		p := newProposer(s)
		child := p.demotes(4)
		child.Seat(4).Memory = p.found(4)[0].State.Memory
		child.Seal()
		if got, err := p.step(child, 2, 3, 4); err == nil || !strings.Contains(err.Error(), "2 of 2 masters agreed, 3 are needed") {
			s.Errorf("two of before, and the memory that comes in: got %v, %v, want that three are needed", stateLettersOf(got), err)
		}
		p.look()
		got, err := p.step(child, 0, 1, 2)
		wantChosen(s, "three of before", got, err, child)
	})
}

// A seat without a memory has accepted nothing: it does not count among those that may have chosen a child.
func TestVacantSeatHasChosenNothing(t *testing.T) {
	fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
		found(s)
		p := newProposer(s)
		vacant := p.demotes(4)
		vacant.Seat(4).Memory, vacant.Seat(4).State = "", member.Vacant
		got, err := p.step(vacant.Seal())
		wantChosen(s, "a step that vacates a seat", got, err, vacant)
		p.survey.Teach(s.Context(), p.found(), vacant)
		p.look()
		p.accept(firstBallot, p.demotes(1), 0)
		next := newProposer(s)
		own := next.demotes(2)
		got, err = next.step(own, 0, 1, 2)
		wantChosen(s, "one of four has accepted a child, and one is not reached", got, err, own)
	})
}

// A founding needs no record of before: a master that has lost the text chooses it, too.
func TestFoundingWithoutTheRecordOfBefore(t *testing.T) {
	for _, has := range []string{"the text", "lost the text"} {
		fleettest.InVirtualTime(t, 3, func(s *fleettest.Fleet) {
			found(s)
			p := newProposer(s)
			s.Do(0, "FLUSHALL")
			s.Do(1, "FLUSHALL")
			if has != "the text" {
				s.Do(2, "HDEL", lua.MembersKey, "r")
			}
			before := p.parent
			p.look()
			own, _ := p.survey.Founding(before, p.opts)
			got, err := p.step(own, 1, 2)
			wantChosen(s, "one has forgotten, and one has "+has, got, err, own)
		})
	}
}

// Masters that learn the record in force are counted, and show it from then on. One that has forgotten since the survey is not told.
func TestTeachUntaught(t *testing.T) {
	fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
		found(s)
		p := newProposer(s)
		child := p.demotes(1)
		p.step(child)
		p.survey.Teach(s.Context(), p.found(0, 1), child)
		p.look()
		s.Do(4, "FLUSHALL")
		if n := p.survey.TeachUntaught(s.Context(), child); n != 2 {
			s.Errorf("got %d that have learned it, want 2", n)
		}
		for i, want := range []bool{true, true, true, true, false} {
			if got := p.found(i)[0].Shows(child); got != want {
				s.Errorf("m%d shows it: got %v, want %v", i+1, got, want)
			}
		}
	})
}

// A founding that is taken over is chosen by a quorum of the memories that it lists, whatever the own one lists.
func TestFoundingOfOthersIsChosenByItsOwn(t *testing.T) {
	for _, tt := range []struct {
		name    string
		forget  []int // that have another memory since
		seats   int   // of the own founding
		outbid  []int // that promise, and do not accept
		refused bool
	}{
		{"two of its five have forgotten, and three accept", []int{3, 4}, 5, nil, false},
		{"two of its five have forgotten, and of those that accept one is its own", []int{3, 4}, 5, []int{1, 2}, true},
		{"three of its five are known here, and accept", nil, 3, nil, false},
		{"three of its five are known here, and two accept", nil, 3, []int{2}, true},
	} {
		fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
			p := newProposer(s)
			theirs, _ := p.survey.Founding(nil, p.opts)
			p.prepare(firstBallot, 0, 1, 2)
			p.accept(firstBallot, theirs, 0)
			for _, i := range tt.forget {
				s.Do(i, "FLUSHALL")
			}
			next := newProposer(s)
			own, _ := next.survey.Founding(nil, next.opts)
			own.Seats = own.Seats[:tt.seats]
			own.Seal()
			next.delay(10*time.Millisecond, 10*time.Millisecond, 0, 1, 2, 3, 4)
			time.AfterFunc(15*time.Millisecond, func() { // behind the promises, and before the record comes
				for _, i := range tt.outbid {
					s.Do(i, "HSET", lua.MembersKey, "p", "00000099.0000000000000000")
				}
			})
			got, err := next.survey.Step(s.Context(), nil, own)
			if !tt.refused {
				wantChosen(s, tt.name, got, err, theirs)
			} else if !errors.Is(err, ErrOutrun) {
				s.Errorf("%s: got %v, %v, want that others were ahead", tt.name, got, err)
			}
		})
	}
}

// A founding that few have accepted is left alone where it cannot have been chosen: it may wait for less than is needed by now.
func TestFoundingThatFewHaveAccepted(t *testing.T) {
	for _, tt := range []struct {
		name   string
		places []int // that are reached
		taken  bool
	}{
		{"all are reached", []int{0, 1, 2, 3, 4}, false},
		{"four are reached", []int{0, 1, 2, 3}, false},
		{"three are reached, and the others may have accepted it", []int{0, 1, 2}, true},
		{"who has accepted it is not reached", []int{1, 2, 3, 4}, false},
	} {
		fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
			p := newProposer(s)
			few, _ := p.survey.Founding(nil, p.opts)
			p.prepare(firstBallot, 0, 1, 2)
			p.accept(firstBallot, few, 0)
			next := newProposer(s)
			own, _ := next.survey.Founding(nil, next.opts)
			want := own
			if tt.taken {
				want = few
			}
			got, err := next.step(own, tt.places...)
			wantChosen(s, tt.name, got, err, want)
		})
	}
}

// A proposer takes over the accepted founding of the highest ballot, in whatever order masters answer.
func TestFoundingOfTheHighestBallot(t *testing.T) {
	for slow := range 2 {
		fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
			p := newProposer(s)
			low, _ := p.survey.Founding(nil, p.opts)
			high, _ := p.survey.Founding(nil, p.opts)
			p.prepare(firstBallot, 0, 1, 2)
			p.accept(firstBallot, low, 0)
			p.prepare(secondBallot, 1, 2, 3)
			p.accept(secondBallot, high, 1, 2, 3)
			next := newProposer(s)
			next.delay(10*time.Millisecond, 0, slow)
			own, _ := next.survey.Founding(nil, next.opts)
			got, err := next.step(own)
			wantChosen(s, fmt.Sprintf("m%d answers last", slow+1), got, err, high)
		})
	}
}

// A child that no step may make, or that nobody can read, is taken over by nobody, as if its master had not answered.
func TestChildThatNoStepMakes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		places []int // that are reached
		forge  func(child *member.Record)
	}{
		{"no record", []int{0, 1, 2, 3}, func(child *member.Record) { child.Text = "nonsense" }},
		{"all addresses are changed", []int{0, 1, 3}, func(child *member.Record) {
			for i := range child.Seats {
				child.Seats[i].Addr = "elsewhere" + child.Seats[i].Name
			}
			child.Seal()
		}},
		{"of another parent", []int{0, 1, 3}, func(child *member.Record) { child.Parent = strings.Repeat("5a", member.DigestLen/2); child.Seal() }},
	} {
		fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
			found(s)
			p := newProposer(s)
			child := p.demotes(1)
			tt.forge(child)
			p.accept("00000009.0000000000000000", child, 3)
			next := newProposer(s)
			own := next.demotes(2)
			got, err := next.step(own, tt.places...)
			wantChosen(s, tt.name, got, err, own)
		})
	}
}

// A master that shows a child as chosen counts for it, and for nothing else. A step that too few choose besides is taken to its end.
func TestStepBesideWhoKnowsTheChild(t *testing.T) {
	fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
		found(s)
		p := newProposer(s)
		theirs := p.demotes(1)
		p.prepare(firstBallot, 1, 2, 3)
		p.accept(firstBallot, theirs, 1, 2, 3)
		p.survey.Teach(s.Context(), p.found(1, 2), theirs)
		s.Do(3, "FLUSHALL")
		next := newProposer(s)
		if got := len(next.survey.Acceptors(next.parent)); got != 4 {
			s.Fatalf("%d masters stand at the parent, want the two that know the child, and two more", got)
		}
		got, err := next.step(next.demotes(2), 0, 1, 2, 4)
		wantChosen(s, "two know it, and one that chose it has forgotten", got, err, theirs)
	})
	fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
		found(s)
		p := newProposer(s)
		p.survey.Teach(s.Context(), p.found(1), p.demotes(1)) // nobody has chosen it
		next := newProposer(s)
		own := next.demotes(2)
		got, err := next.step(own)
		wantChosen(s, "one shows what was not chosen", got, err, own)
	})
	fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
		found(s)
		p := newProposer(s)
		p.survey.Teach(s.Context(), p.found(1), p.demotes(1)) // nobody has chosen it
		next := newProposer(s)
		next.delay(10*time.Millisecond, 10*time.Millisecond, 0, 1, 2, 3, 4)
		time.AfterFunc(15*time.Millisecond, func() { // behind the promises, and before the child comes
			for _, outbid := range []int{3, 4} {
				s.Do(outbid, "HSET", lua.MembersKey, "p", "00000099.0000000000000000")
			}
		})
		if got, err := next.step(next.demotes(2)); !errors.Is(err, ErrOutrun) {
			s.Errorf("one shows what was not chosen, and two accept: got %v, %v, want that others were ahead", got, err)
		}
	})
}

// What one master shows and nobody can read stops no step: the others choose. Where it is needed, the error names it.
func TestStepGoesOnWithoutWhatCannotBeRead(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(s *fleettest.Fleet, p *proposer)
		want  string // in the error where the master is needed
	}{
		{"an accepted child that is no record", func(s *fleettest.Fleet, p *proposer) {
			child := p.demotes(1)
			child.Text = "nonsense"
			p.accept(firstBallot, child, 3)
		}, "m4: the field a of its redlockd:members"},
		{"an accepted child that is gone", func(s *fleettest.Fleet, p *proposer) {
			p.accept(firstBallot, p.demotes(1), 3)
			s.Do(3, "HDEL", lua.MembersKey, "a")
		}, "m4: the field a of its redlockd:members"},
		{"an accepted child of another digest", func(s *fleettest.Fleet, p *proposer) {
			child := p.demotes(1)
			child.Digest = strings.Repeat("c4", member.DigestLen/2)
			p.accept(firstBallot, child, 3)
		}, "m4: the field a of its redlockd:members"},
		{"a record that is none", func(s *fleettest.Fleet, p *proposer) { s.Do(3, "HSET", lua.MembersKey, "r", "nonsense") }, "m4: the field r of its redlockd:members"},
		{"a record that is gone", func(s *fleettest.Fleet, p *proposer) { s.Do(3, "HDEL", lua.MembersKey, "r") }, "m4: the field r of its redlockd:members"},
		{"a promise that is no ballot", func(s *fleettest.Fleet, p *proposer) {
			p.prepare("00000007.0000000000000000", 0, 1, 2)
			s.Do(3, "HSET", lua.MembersKey, "p", "zzz")
		}, ErrOutrun.Error()},
	} {
		fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
			found(s)
			tt.spoil(s, newProposer(s))
			next := newProposer(s)
			own := next.demotes(2)
			if got, err := next.step(own, 2, 3, 4); err == nil || !strings.Contains(err.Error(), tt.want) {
				s.Errorf("%s: two others: got %v, %v, want an error that says %q", tt.name, stateLettersOf(got), err, tt.want)
			}
			next.look()
			if got, err := next.step(own); err != nil || got.Digest != own.Digest {
				s.Fatalf("%s: four others: got %v, %v, want our own", tt.name, stateLettersOf(got), err)
			}
			if next.survey.Teach(s.Context(), next.found(), own); s.Do(3, "HGET", lua.MembersKey, "r") != own.Text {
				s.Errorf("%s: it does not learn the next record", tt.name)
			}
		})
	}
}

// A connection that breaks while the master says who it is costs the survey that master alone.
func TestSurveyWithoutAMaster(t *testing.T) {
	fleettest.InVirtualTime(t, 3, func(s *fleettest.Fleet) {
		found(s)
		p := newProposer(s)
		p.delay(100*time.Millisecond, 100*time.Millisecond, 1)
		time.AfterFunc(500*time.Millisecond, p.paths[1].Cut) // the third round trip, after those that connect and log in
		p.look()
		if err := p.found(1)[0].Err; !errors.Is(err, syscall.ECONNRESET) || p.parent == nil {
			s.Errorf("got %v, and the record %v of the others, want a reset, and a record", err, p.parent)
		}
	})
}

// The steps of a survey, as far as they need no masters.

// askEach returns as soon as enough have agreed, or after the grace, or when it is clear that they will not.
func TestAskEach(t *testing.T) {
	late, slow := errors.New("late"), errors.New("slow")
	waits := map[error]time.Duration{late: time.Second / 2, slow: time.Minute}
	for _, tt := range []struct {
		name    string
		answers []error // in this order. late, slow: it agrees after a wait
		quorum  int
		grace   time.Duration
		agreed  int // −1: an error
		took    time.Duration
		want    string // how the error begins
	}{
		{"all agree", []error{nil, nil, nil}, 2, time.Second, 3, 0, ""},
		{"a quorum is enough", []error{nil, nil, slow}, 2, 0, 2, 0, ""},
		{"some time for the others", []error{nil, nil, slow}, 2, time.Second, 2, time.Second, ""},
		{"no more time when another one agrees", []error{nil, nil, late, slow}, 2, time.Second, 3, time.Second, ""},
		{"a quorum comes late", []error{nil, slow, slow}, 2, 0, 2, time.Minute, ""},
		{"too few", []error{nil, fleettest.ErrAway, errors.New("full")}, 2, 0, -1, 0, "1 of 3 masters agreed, 2 are needed: m1: the master is away; m2: full"},
		{"too few, for others were ahead", []error{nil, ErrOutrun, fleettest.ErrAway}, 2, 0, -1, 0, ErrOutrun.Error()},
		{"enough, although others were ahead", []error{nil, ErrOutrun, nil}, 2, 0, 2, 0, ""},
		{"fewer than a quorum are asked", []error{nil}, 2, 0, -1, 0, "1 of 1 masters agreed, 2 are needed"},
	} {
		synctest.Test(t, func(t *testing.T) {
			sv := &Masters{}
			var list []*member.Report
			for i := range tt.answers {
				list = append(list, &member.Report{Place: i, Master: conn.Master{Addr: fmt.Sprint("m", i)}})
			}
			began := time.Now()
			agreed, err := sv.askEach(list, tt.quorum, tt.grace, func(f *member.Report) error {
				wait, agrees := waits[tt.answers[f.Place]]
				if time.Sleep(time.Duration(f.Place) + wait); agrees {
					return nil
				}
				return tt.answers[f.Place]
			})
			took := time.Since(began).Truncate(time.Millisecond)
			sv.asking.Wait()
			switch {
			case tt.agreed < 0:
				if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
					t.Errorf("%s: got %d, %v, want %q", tt.name, len(agreed), err, tt.want)
				}
			case err != nil || len(agreed) < tt.agreed:
				t.Errorf("%s: got %d, %v, want %d", tt.name, len(agreed), err, tt.agreed)
			}
			if took != tt.took {
				t.Errorf("%s: took %v, want %v", tt.name, took, tt.took)
			}
		})
	}
}

// A master that shows something else by now has not raised its floor of fences, nor has one whose clock is far behind that.
func TestRaiseFloor(t *testing.T) {
	fleettest.InVirtualTime(t, 5, func(s *fleettest.Fleet) {
		found(s)
		f := newProposer(s).found(3)[0]
		const now = 1000
		for _, tt := range []struct{ floor, want int64 }{{now, now}, {now - 1, now}, {now + 1, now + 1}} {
			if err := RaiseFloor(s.Context(), f, tt.floor, nil); err != nil || s.Do(3, "GET", lua.FloorKey) != fmt.Sprint(tt.want) {
				s.Errorf("raised to %d: got %v and %v, want %d", tt.floor, err, s.Do(3, "GET", lua.FloorKey), tt.want)
			}
		}
		if err := RaiseFloor(s.Context(), f, 1<<52, nil); err != ErrFloorAhead {
			s.Errorf("a floor that no clock reaches: got %v, want %v", err, ErrFloorAhead)
		}
		s.Do(3, "FLUSHALL")
		if err := RaiseFloor(s.Context(), f, now+2, nil); err != ErrOutrun {
			s.Errorf("it has forgotten meanwhile: got %v, want %v", err, ErrOutrun)
		}
		f.Conn.Socket.Close()
		if err := RaiseFloor(s.Context(), f, now+2, nil); err == nil || err == ErrOutrun || err == ErrFloorAhead {
			s.Errorf("without a connection: got %v, want the reason", err)
		}
	})
}
