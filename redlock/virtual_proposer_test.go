package redlock

// A proposer that dies: its calls are made by the test, up to the point where it dies. Steps by themselves are tested in package member.

import (
	"slices"

	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/fleettest"
	"redlockd/redlock/member/survey"
)

// proposer has asked all masters, over paths of its own.
type proposer struct {
	*proxy
	survey *survey.Masters
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
	o := p.options().withDefaults().members()
	p.survey = survey.Ask(p.s.Context(), o.Places(), survey.Patience{Enough: len(o.Masters)}, o)
	p.parent = p.survey.Prevailing()
}

// found are the masters at these places; all, if none are given.
func (p *proposer) found(places ...int) []*member.Report {
	return fleettest.ReportsAt(p.survey.Survey, places...)
}

// demotes is the next record, in which a seat loses its vote.
func (p *proposer) demotes(place int) *member.Record { return fleettest.Demotes(p.parent, place) }

// prepare and accept are the two halves of a step that is not finished.
func (p *proposer) prepare(ballot string, places ...int) { p.run(lua.Prepare, places, ballot) }

func (p *proposer) accept(ballot string, child *member.Record, places ...int) {
	p.run(lua.Accept, places, ballot, child.Digest, child.Text)
}

func (p *proposer) run(script lua.Script, places []int, args ...any) {
	p.s.Helper()
	for _, f := range p.found(places...) {
		words := append([]any{"EVAL", script.Text, 1, lua.MembersKey, f.State.Settled()}, args...)
		if reply := p.s.do(f.Place, words...).([]any); reply[0] != int64(1) {
			p.s.Errorf("%s at %d: got %v", script.Name, f.Place, reply)
		}
	}
}

const (
	laterLineage = "01234567fedcba98" // of the same fleet as 0123456789abcdef
	otherLineage = "fedcba9876543210"
)

// changed is the record with a change, sealed.
func changed(r *member.Record, change func(r *member.Record)) *member.Record {
	c := *r
	c.Seats = slices.Clone(r.Seats)
	change(&c)
	return c.Seal()
}
