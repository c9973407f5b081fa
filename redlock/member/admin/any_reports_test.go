package admin

// Goal: whatever masters show, no step, founding or bootstrap panics; a child is chosen only by a quorum of the memories that its parent
// lists; and a bootstrap changes nothing where somebody may have voted. Method: masters in memory, whose memberships are written from outside,
// at random. A seed makes each case.

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/fleettest"
	"redlockd/redlock/member/survey"
)

// anyReports makes masters show what a seed says.
type anyReports struct {
	*fleettest.Fleet
	*rand.Rand
	records []*member.Record
	away    [5]bool
	calm    bool // most masters show the same, and all have the memory that is listed
}

// anyRecord is a record of these masters: of one of two fleets, of any generation, version and states.
func (a *anyReports) anyRecord() *member.Record {
	r := &member.Record{Generation: 1 + a.Int63n(2), Lineage: []string{"0123456789abcdef", "01234567fedcba98", "fedcba9876543210"}[a.Intn(3)], MaxTTL: time.Minute, Ceiling: time.Minute, Wait: 70 * time.Second}
	if a.Intn(2) == 0 {
		r.Version, r.Parent = 1+a.Int63n(3), strings.Repeat("5a", member.DigestLen/2)
	}
	never := a.Intn(3) == 0 // a first founding
	for i := range len(a.Masters) + a.Intn(3) - 1 {
		s := member.Seat{Number: i, Name: fmt.Sprint("m", i+1), Addr: fmt.Sprint("m", i+1), State: []member.SeatState{member.Voter, member.Voter, member.Learner, member.Vacant, member.Leaving}[a.Intn(5)], Since: a.Int63n(r.Version + 1)}
		if never {
			r.Generation, s.State, s.Since = 1, []member.SeatState{member.Learner, member.Learner, member.Vacant}[a.Intn(3)], 0
		}
		if s.State == member.Voter || s.State == member.Learner {
			s.Memory = a.memory(i)
		}
		r.Seats = append(r.Seats, s)
	}
	if len(r.Seats) == 0 {
		return a.anyRecord()
	}
	return r.Seal()
}

// memory is one of the two that a master may show.
func (a *anyReports) memory(place int) string {
	runID := "away"
	if place < len(a.Masters) {
		info := a.Do(place, "INFO", "server").(string)
		_, info, _ = strings.Cut(info, "run_id:")
		runID, _, _ = strings.Cut(info, "\r\n")
	}
	nth := 1
	if !a.calm {
		nth += a.Intn(4) / 3
	}
	return fmt.Sprintf("%s:%016x", runID, nth)
}

// anyChild is a child of the record that changes some states.
func (a *anyReports) anyChild(r *member.Record) *member.Record {
	child := r.Child()
	for s := range child.EachSeat() {
		if s.State == member.Voter && a.Intn(2) == 0 {
			s.State, s.Since = member.Learner, child.Version
		} else if s.State == member.Learner && a.Intn(2) == 0 {
			s.State = member.Voter
		}
	}
	return child.Seal()
}

func (a *anyReports) one() *member.Record { return a.records[a.Intn(len(a.records))] }

// show has a master show something.
func (a *anyReports) show(place int) {
	memory := a.memory(place)
	v, r := memory+" -", a.one()
	if a.Intn(4) > 0 {
		v = r.ShownBy(memory)
	}
	fields := []any{"HSET", lua.MembersKey, "beat", 1}
	switch a.Intn(8) {
	case 0: // the text is gone
	case 1: // it is of another record
		fields = append(fields, "r", a.one().Text)
	default:
		fields = append(fields, "r", r.Text)
	}
	if a.Intn(3) == 0 {
		child := a.one()
		if a.Intn(2) == 0 {
			child = a.anyChild(r)
		}
		v += fmt.Sprintf(" ? %08d.%016x %s", a.Intn(9), a.Intn(9), child.Digest)
		if a.Intn(4) > 0 {
			fields = append(fields, "a", child.Text)
		}
		if a.Intn(2) == 0 {
			fields = append(fields, "p", fmt.Sprintf("%08d.%016x", a.Intn(9), a.Intn(9)))
		}
	}
	odd := a.Intn(10)
	if a.calm {
		odd = a.Intn(40)
	}
	switch odd {
	case 0, 1: // new
		return
	case 2: // a run before
		v = "before" + v
	case 3:
		defer a.Do(place, "REPLICAOF", "elsewhere", "6379")
	case 4:
		a.Do(place, "SET", "r", "T")
	case 5:
		defer a.Masters[place].Crash(true)
		a.away[place] = true
	}
	a.Do(place, append(fields, "v", v)...)
}

// shown is what the masters show that are there.
func (a *anyReports) shown(place int, field string) string {
	if a.away[place] {
		return ""
	}
	text, _ := a.Do(place, "HGET", lua.MembersKey, field).(string)
	return text
}

// accepted is how many of the memories that a record lists have accepted a child, or have settled on it.
func (a *anyReports) accepted(lists, child *member.Record) (n int) {
	for i := range a.Masters {
		if state, ok := member.ParseState(a.shown(i, "v")); ok && lists.Lists(state.Memory) != nil && (state.Child == child.Digest || state.Record.Digest == child.Digest) {
			n++
		}
	}
	return n
}

const anyReportsSeeds = 1000

func TestAnyReports(t *testing.T) {
	chosen, founded, bootstrapped := 0, 0, 0
	for seed := range int64(anyReportsSeeds) {
		random := rand.New(rand.NewSource(seed))
		fleettest.InVirtualTime(t, 1+random.Intn(5), func(s *fleettest.Fleet) {
			a := &anyReports{Fleet: s, Rand: random, calm: random.Intn(2) == 0}
			for range 3 {
				r := a.anyRecord()
				a.records = append(a.records, r, a.anyChild(r))
			}
			if a.calm {
				a.records = a.records[:2]
			}
			for i := range s.Masters {
				a.show(i)
			}
			var places []int
			for i := range s.Masters {
				places = append(places, i)
			}
			random.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
			o := s.OptionsOf(places...)
			look := func() *survey.Masters {
				return survey.Ask(s.Context(), s.Options(s.Links()).Places(), survey.Patience{Enough: len(places)}, o)
			}
			switch random.Intn(3) {
			case 0:
				all, parent := look(), a.one()
				defer all.Close()
				got, err := all.Step(s.Context(), parent, a.anyChild(parent))
				if err != nil {
					return
				}
				chosen++
				if n := a.accepted(parent, got); n < parent.Quorum() {
					s.Errorf("seed %d: %d of %d that the parent lists have chosen a child", seed, n, len(parent.Seats))
				}
			case 1:
				all := look()
				defer all.Close()
				base := a.one()
				if random.Intn(3) == 0 {
					base = nil
				}
				f, why := all.Founding(all.Remains(base), s.Options(s.Links()))
				if f == nil {
					return
				}
				if err := f.Check(); err != nil {
					s.Errorf("seed %d: a founding (%s): %v", seed, why, err)
				}
				if got, err := all.Step(s.Context(), nil, f); err == nil {
					founded++
					if n := a.accepted(got, got); n < got.Quorum() {
						s.Errorf("seed %d: %d of %d have chosen a founding", seed, n, len(got.Seats))
					}
				}
			default:
				old := slices.ContainsFunc(places, func(i int) bool {
					r, err := member.ParseRecord(a.shown(i, "r"))
					return err == nil && !r.IsNew() && strings.Contains(a.shown(i, "v"), r.ID().String())
				})
				before := ""
				for i := range places {
					before += a.shown(i, "r")
				}
				_, err := Bootstrap(s.Context(), o, random.Intn(2) == 0)
				after := ""
				for i := range places {
					after += a.shown(i, "r")
				}
				switch {
				case err == nil && old:
					s.Errorf("seed %d: a bootstrap over what is not new: %s, now %s", seed, before, after)
				case err == nil:
					bootstrapped++
				case strings.Contains(err.Error(), "nothing was changed") && after != before:
					s.Errorf("seed %d: %v: got %s, before %s", seed, err, after, before)
				}
			}
		})
	}
	t.Logf("%d seeds: %d children and %d foundings were chosen, %d bootstraps done", anyReportsSeeds, chosen, founded, bootstrapped)
	if chosen < 10 || founded < 10 || bootstrapped < 10 {
		t.Error("want some of each")
	}
}
