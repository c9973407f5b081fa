package survey

// The stage for tests with masters: in this process, in virtual time, and a proposer over links of its own.

import (
	"errors"
	"slices"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/fleettest"
	"redlockd/redlock/memmaster"
)

// found has all masters vote.
func found(s *fleettest.Fleet) {
	s.Helper()
	o := s.Options(s.Links())
	all := Ask(s.Context(), o.Places(), Patience{Enough: len(o.Masters)}, o)
	defer all.Close()
	first, _ := all.Founding(nil, o)
	first.Admit(all.Reports, o)
	chosen, err := all.Step(s.Context(), nil, first.Seal())
	if err != nil {
		s.Fatal(err)
	}
	all.Teach(s.Context(), all.Reports, chosen)
}

// proposer has asked all masters.
type proposer struct {
	s      *fleettest.Fleet
	opts   member.Options
	paths  []*memmaster.Link
	survey *Masters
	// parent is the record that a quorum shows; nil: none.
	parent *member.Record
}

func newProposer(s *fleettest.Fleet) *proposer {
	s.Helper()
	p := &proposer{s: s, paths: s.Links()}
	p.opts = s.Options(p.paths)
	p.look()
	s.Cleanup(func() { p.survey.Close() })
	return p
}

// look asks the masters again.
func (p *proposer) look() {
	if p.survey != nil {
		p.survey.Close()
	}
	p.survey = Ask(p.s.Context(), p.opts.Places(), Patience{Enough: len(p.paths)}, p.opts)
	p.parent = p.survey.Prevailing()
}

// delay has what the proposer sends to these masters, and what they reply, take so long.
func (p *proposer) delay(request, reply time.Duration, masters ...int) {
	for _, i := range masters {
		p.paths[i].SetDelay(func() time.Duration { return request }, func() time.Duration { return reply })
	}
}

// found are the masters at these places; all, if none are given.
func (p *proposer) found(places ...int) []*member.Report {
	return fleettest.ReportsAt(p.survey.Survey, places...)
}

// demotes is the next record, in which a seat loses its vote.
func (p *proposer) demotes(place int) *member.Record { return fleettest.Demotes(p.parent, place) }

// step is one of a proposer that reaches the masters at these places; all, if none are given.
func (p *proposer) step(own *member.Record, places ...int) (*member.Record, error) {
	parent := p.parent
	if own.Version == 0 {
		parent = nil
	}
	reached := p.found(places...)
	for _, f := range p.survey.Reports {
		if before := f.Err; !slices.Contains(reached, f) {
			f.Err = fleettest.ErrAway
			defer func() { f.Err = before }()
		}
	}
	return p.survey.Step(p.s.Context(), parent, own)
}

// prepare and accept are the two halves of a step that is not finished.
func (p *proposer) prepare(ballot string, places ...int) {
	p.s.Helper()
	for _, f := range p.found(places...) {
		if _, err := runOnMembers(p.s.Context(), f.Conn, lua.Prepare, f.State.Settled(), ballot); err != nil {
			p.s.Errorf("prepare %s at %d: %v", ballot, f.Place, err)
		}
	}
}

func (p *proposer) accept(ballot string, child *member.Record, places ...int) (accepted int) {
	for _, f := range p.found(places...) {
		if _, err := runOnMembers(p.s.Context(), f.Conn, lua.Accept, f.State.Settled(), ballot, child.Digest, child.Text); err == nil {
			accepted++
		} else if !errors.Is(err, ErrOutrun) {
			p.s.Errorf("accept %s at %d: %v", ballot, f.Place, err)
		}
	}
	return accepted
}
