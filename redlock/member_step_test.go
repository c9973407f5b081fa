package redlock

// Goal: a record gets one child, whatever clients propose, however many at once, and wherever a proposer dies; and the next one finishes
// what it has begun. Method: masters in memory. A proposer that dies is one whose calls the test makes by itself, up to the point where
// it dies; and random duels, with delays and lost connections.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/quorum"
)

// proposer has asked all masters, over paths of its own.
type proposer struct {
	*proxy
	survey *member.Survey
	// parent is the record that a quorum shows; nil: none.
	parent *member.Record
}

func (s *stage) proposer() *proposer {
	s.Helper()
	p := &proposer{proxy: s.proxy()}
	p.look()
	s.Cleanup(func() { p.survey.Close() })
	return p
}

// look asks the masters again.
func (p *proposer) look() {
	if p.survey != nil {
		p.survey.Close()
	}
	o := p.options().withDefaults()
	masters := make(map[int]Master)
	for i, m := range o.Masters {
		masters[i] = m
	}
	p.survey = member.SurveyMasters(p.s.Context(), masters, member.Patience{Enough: len(masters)}, o.members())
	p.parent = p.survey.Prevailing()
}

// found are the masters at these places; all, if none are given.
func (p *proposer) found(places ...int) []*member.Report {
	var list []*member.Report
	for _, f := range p.survey.Reports {
		if len(places) == 0 || slices.Contains(places, f.Place) {
			list = append(list, f)
		}
	}
	return list
}

// demotes is the next record, in which a seat loses its vote.
func (p *proposer) demotes(place int) *member.Record {
	child := p.parent.Child()
	s := child.Seat(place)
	s.State, s.Since = member.Learner, child.Version
	return child.Seal()
}

// step is one of the acceptors at these places.
func (p *proposer) step(own *member.Record, places ...int) (*member.Record, error) {
	quorum := quorum.Of(len(p.s.masters))
	parent := p.parent
	if own.Founds() {
		parent = nil
	}
	return p.survey.Step(p.s.Context(), parent, p.found(places...), quorum, own)
}

// prepare and accept are the two halves of a step that is not finished.
func (p *proposer) prepare(ballot string, places ...int) {
	p.s.Helper()
	for _, f := range p.found(places...) {
		if _, err := member.RunOnMembers(p.s.Context(), f.Conn, lua.Prepare, f.State.Settled(), ballot); err != nil {
			p.s.Errorf("prepare %s at %d: %v", ballot, f.Place, err)
		}
	}
}

func (p *proposer) accept(ballot string, child *member.Record, places ...int) (accepted int) {
	for _, f := range p.found(places...) {
		if _, err := member.RunOnMembers(p.s.Context(), f.Conn, lua.Accept, f.State.Settled(), ballot, child.Digest, child.Text); err == nil {
			accepted++
		} else if !errors.Is(err, member.ErrOutrun) {
			p.s.Errorf("accept %s at %d: %v", ballot, f.Place, err)
		}
	}
	return accepted
}

// stateLettersOf tells records apart whose steps demote different seats.
func stateLettersOf(r *member.Record) string {
	if r == nil {
		return "none"
	}
	return fmt.Sprintf("version %d, %s", r.Version, stateLetters(r))
}

// wantChosen compares what a step has chosen.
func (s *stage) wantChosen(what string, got *member.Record, err error, want *member.Record) {
	s.Helper()
	if err != nil || got == nil || want == nil || got.Digest != want.Digest {
		s.Errorf("%s: got %v, %v, want %v", what, stateLettersOf(got), err, stateLettersOf(want))
	}
}

func TestStep(t *testing.T) {
	const first = "00000001.0000000000000000"
	inVirtualTime(t, 5, func(s *stage) {
		s.found()
		p := s.proposer()
		child := p.demotes(1)
		got, err := p.step(child)
		s.wantChosen("a step", got, err, child)
		other := s.proposer()
		if other.parent.Version != 0 {
			s.Errorf("the record in force while nobody is told of the next: got version %d, want 0", other.parent.Version)
		}
		other.survey.Teach(s.Context(), other.found(), child)
		other.look()
		if other.parent == nil || other.parent.Digest != child.Digest {
			s.Errorf("the record in force then: got %v, want the child", other.parent)
		}
		// Told late, it goes on nothing that has happened since.
		if _, err := p.step(p.demotes(2)); !errors.Is(err, member.ErrOutrun) {
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
		{"after it has prepared", func(p *proposer, _ *member.Record) { p.prepare(first) }, nil, false},
		{"after one has accepted", func(p *proposer, child *member.Record) { p.prepare(first); p.accept(first, child, 0) }, nil, false},
		{"after one has accepted, and two are not reached", func(p *proposer, child *member.Record) { p.prepare(first); p.accept(first, child, 0) }, []int{0, 1, 2}, true},
		{"after two have accepted", func(p *proposer, child *member.Record) { p.prepare(first); p.accept(first, child, 0, 1) }, nil, false},
		{"after two have accepted, and one is not reached", func(p *proposer, child *member.Record) { p.prepare(first); p.accept(first, child, 0, 1) }, []int{0, 1, 2, 3}, true},
		{"after one has accepted that is not reached", func(p *proposer, child *member.Record) { p.prepare(first); p.accept(first, child, 0) }, []int{1, 2, 3, 4}, false},
		{"after a quorum has accepted", func(p *proposer, child *member.Record) { p.prepare(first); p.accept(first, child, 0, 1, 2) }, nil, true},
		{"after a quorum has accepted, one of which is reached", func(p *proposer, child *member.Record) { p.prepare(first); p.accept(first, child, 0, 1, 2) }, []int{2, 3, 4}, true},
		{"after all have accepted", func(p *proposer, child *member.Record) { p.prepare(first); p.accept(first, child) }, []int{0, 3, 4}, true},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			s.found()
			p := s.proposer()
			theirs := p.demotes(1)
			tt.dies(p, theirs)
			next := s.proposer()
			own := next.demotes(2)
			want := own
			if tt.theirs {
				want = theirs
			}
			got, err := next.step(own, tt.places...)
			s.wantChosen(tt.name, got, err, want)
			// It was only slow, and goes on.
			p.accept(first, theirs)
			last := s.proposer()
			got, err = last.step(last.demotes(3), tt.places...)
			s.wantChosen(tt.name+", and then goes on", got, err, want)
		})
	}
}

// The child of the highest ballot may have been chosen; that of a lower one cannot.
func TestStepTakesTheChildOfTheHighestBallot(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		const first, second = "00000001.0000000000000000", "00000002.0000000000000000"
		s.found()
		p := s.proposer()
		low, high := p.demotes(1), p.demotes(2)
		p.prepare(first, 0, 1, 2)
		p.accept(first, low, 0)
		p.prepare(second, 1, 2, 3)
		p.accept(second, high, 1, 2, 3)
		for _, places := range [][]int{{0, 1, 4}, {0, 3, 4}, nil} {
			next := s.proposer()
			next.delay(10*ms, 0, 0) // the low one comes last
			got, err := next.step(next.demotes(3), places...)
			s.wantChosen(fmt.Sprint("reached ", places), got, err, high)
		}
	})
}

// A proposer that another one was ahead of chooses nothing, and says so.
func TestStepThatIsOutrun(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.found()
		p := s.proposer()
		p.prepare("00000009.0000000000000000", 2, 3, 4)
		if got, err := p.step(p.demotes(1)); !errors.Is(err, member.ErrOutrun) {
			s.Errorf("got %v, %v, want that others were ahead", got, err)
		}
		p.look()
		child := p.demotes(1)
		got, err := p.step(child)
		s.wantChosen("after it has looked again", got, err, child)
	})
}

func TestMinorityChoosesNothing(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		s.found()
		p, other := s.proposer(), s.proposer()
		if got, err := p.step(p.demotes(1), 0, 1); err == nil || !strings.Contains(err.Error(), "2 of 2 masters agreed, 3 are needed") {
			s.Errorf("two are reached: got %v, %v, want that three are needed", got, err)
		}
		p.look() // or its next ballot may be below its first
		// All prepare, the first one late. By then three have promised more to somebody else.
		p.delay(50*ms, 0, 0)
		ahead := make(chan struct{})
		time.AfterFunc(20*ms, func() {
			defer close(ahead)
			other.prepare("00000009.0000000000000000", 2, 3, 4)
		})
		if got, err := p.step(p.demotes(1)); !errors.Is(err, member.ErrOutrun) {
			s.Errorf("two can accept: got %v, %v, want that others were ahead", got, err)
		}
		<-ahead
	})
}

// A founding that memories have accepted which are no more can never be chosen. It is in nobody's way.
func TestFoundingOfLostMemories(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		const first = "00000001.0000000000000000"
		p := s.proposer()
		lost, _ := p.survey.Founding(nil, p.options().withDefaults().members())
		p.prepare(first, 0, 1, 2)
		p.accept(first, lost, 0)
		next := s.proposer()
		other, _ := next.survey.Founding(nil, next.options().withDefaults().members())
		got, err := next.step(other)
		s.wantChosen("while all memories are there", got, err, lost)
		for i := 1; i < 4; i++ {
			s.do(i, "FLUSHALL")
		}
		next.look()
		own, _ := next.survey.Founding(nil, next.options().withDefaults().members())
		got, err = next.step(own)
		s.wantChosen("when three have forgotten", got, err, own)
	})
}

// A child that no step may make, or that nobody can read, is taken over by nobody, as if its master had not answered.
func TestChildThatNoStepMakes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		forge func(child *member.Record)
	}{
		{"no record", func(child *member.Record) { child.Text = "nonsense" }},
		{"all addresses are changed", func(child *member.Record) {
			for i := range child.Seats {
				child.Seats[i].Addr = "elsewhere" + child.Seats[i].Name
			}
			child.Seal()
		}},
		{"of another parent", func(child *member.Record) { child.Parent = strings.Repeat("5a", member.DigestLen/2); child.Seal() }},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			const first = "00000009.0000000000000000"
			s.found()
			p := s.proposer()
			child := p.demotes(1)
			tt.forge(child)
			p.accept(first, child, 3)
			next := s.proposer()
			own := next.demotes(2)
			got, err := next.step(own, 0, 1, 2, 3)
			s.wantChosen(tt.name, got, err, own)
		})
	}
}

// A master that shows a child as chosen counts for it, and for nothing else. A step that too few choose besides is taken to its end.
func TestStepBesideWhoKnowsTheChild(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		const first = "00000001.0000000000000000"
		s.found()
		p := s.proposer()
		theirs := p.demotes(1)
		p.prepare(first, 1, 2, 3)
		p.accept(first, theirs, 1, 2, 3)
		p.survey.Teach(s.Context(), p.found(1, 2), theirs)
		s.do(3, "FLUSHALL")
		next := s.proposer()
		if got := len(next.survey.Acceptors(next.parent)); got != 4 {
			s.Fatalf("%d masters stand at the parent, want the two that know the child, and two more", got)
		}
		got, err := next.step(next.demotes(2), 0, 1, 2, 4)
		s.wantChosen("two know it, and one that chose it has forgotten", got, err, theirs)
	})
	inVirtualTime(t, 5, func(s *stage) {
		s.found()
		p := s.proposer()
		p.survey.Teach(s.Context(), p.found(1), p.demotes(1)) // nobody has chosen it
		next := s.proposer()
		own := next.demotes(2)
		got, err := next.step(own)
		s.wantChosen("one shows what was not chosen", got, err, own)
	})
}

// What one master shows and nobody can read stops no step: the others choose. Where it is needed, the error names it.
func TestStepGoesOnWithoutWhatCannotBeRead(t *testing.T) {
	const first = "00000001.0000000000000000"
	for _, tt := range []struct {
		name  string
		spoil func(s *stage, p *proposer)
		want  string // in the error where the master is needed
	}{
		{"an accepted child that is no record", func(s *stage, p *proposer) {
			child := p.demotes(1)
			child.Text = "nonsense"
			p.accept(first, child, 3)
		}, "m4: the field a of its redlockd:members"},
		{"an accepted child that is gone", func(s *stage, p *proposer) {
			p.accept(first, p.demotes(1), 3)
			s.do(3, "HDEL", lua.MembersKey, "a")
		}, "m4: the field a of its redlockd:members"},
		{"an accepted child of another digest", func(s *stage, p *proposer) {
			child := p.demotes(1)
			child.Digest = strings.Repeat("c4", member.DigestLen/2)
			p.accept(first, child, 3)
		}, "m4: the field a of its redlockd:members"},
		{"a record that is none", func(s *stage, p *proposer) { s.do(3, "HSET", lua.MembersKey, "r", "nonsense") }, "m4: the field r of its redlockd:members"},
		{"a record that is gone", func(s *stage, p *proposer) { s.do(3, "HDEL", lua.MembersKey, "r") }, "m4: the field r of its redlockd:members"},
		{"a promise that is no ballot", func(s *stage, p *proposer) {
			p.prepare("00000007.0000000000000000", 0, 1, 2)
			s.do(3, "HSET", lua.MembersKey, "p", "zzz")
		}, member.ErrOutrun.Error()},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			s.found()
			tt.spoil(s, s.proposer())
			next := s.proposer()
			own := next.demotes(2)
			if got, err := next.step(own, 2, 3, 4); err == nil || !strings.Contains(err.Error(), tt.want) {
				s.Errorf("%s: two others: got %v, %v, want an error that says %q", tt.name, stateLettersOf(got), err, tt.want)
			}
			next.look()
			if got, err := next.step(own); err != nil || got.Digest != own.Digest {
				s.Fatalf("%s: four others: got %v, %v, want our own", tt.name, stateLettersOf(got), err)
			}
			if next.survey.Teach(s.Context(), next.found(), own); s.membership(3) == nil || s.membership(3).Digest != own.Digest {
				s.Errorf("%s: it does not learn the next record", tt.name)
			}
		})
	}
}

// Several propose at the same time, over slow paths that break, and give up at any point.
func TestStepsThatMeet(t *testing.T) {
	chosen := 0
	for seed := range uint64(40) {
		inVirtualTime(t, 5, func(s *stage) {
			s.found()
			var mu sync.Mutex
			digests := make(map[string]bool)
			var proposers sync.WaitGroup
			for i := range 4 {
				p := s.proposer()
				proposers.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(i)))
					delay := func() time.Duration { return time.Duration(random.Int64N(int64(20 * ms))) }
					for place := range s.masters {
						a, b := delay(), delay()
						p.delay(a, b, place)
					}
					for range 6 {
						ctx, cancel := context.WithTimeout(s.Context(), delay()*6)
						for _, f := range p.survey.Reports {
							if f.Conn != nil && random.IntN(4) == 0 {
								time.AfterFunc(delay()*2, p.paths[f.Place].Cut)
							}
						}
						got, err := p.survey.Step(ctx, p.parent, p.survey.Acceptors(p.parent), 3, p.demotes(i))
						cancel()
						if err == nil {
							mu.Lock()
							digests[got.Digest] = true
							mu.Unlock()
							return
						}
						time.Sleep(delay())
						p.look()
						if p.parent == nil {
							return // too few were reached
						}
					}
				})
			}
			proposers.Wait()
			if len(digests) > 1 {
				s.Errorf("seed %d: %d children were chosen", seed, len(digests))
			}
			chosen += len(digests)
		})
	}
	if chosen < 20 {
		t.Errorf("in 40 runs a child was chosen %d times, want more often: the test is too hostile to say anything", chosen)
	}
}

const (
	laterLineage = "01234567fedcba98" // of the same fleet as 0123456789abcdef
	otherLineage = "fedcba9876543210"
)

// memoryOf names a memory of a process.
func memoryOf(process string) string { return fmt.Sprintf("%s:%016x", process, 7) }

func stateLetters(r *member.Record) (text string) {
	for i := range r.Seats {
		text += string(r.Seats[i].State[:1])
	}
	return text
}
