package member

// The stage for tests with masters: in this process, in virtual time, and a proposer over links of its own.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/memmaster"
)

// fleet is a set of masters.
type fleet struct {
	testing.TB
	masters []*memmaster.Master
}

// inVirtualTime runs a test with n new masters.
func inVirtualTime(t *testing.T, n int, test func(s *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &fleet{TB: t}
		for range n {
			m := memmaster.New(memmaster.Options{})
			t.Cleanup(m.Close)
			s.masters = append(s.masters, m)
		}
		test(s)
	})
}

func (s *fleet) links() (paths []*memmaster.Link) {
	for _, m := range s.masters {
		paths = append(paths, m.Link())
	}
	return paths
}

// options are those of a client that reaches the masters over these links.
func (s *fleet) options(paths []*memmaster.Link) Options {
	o := Options{ConnectTimeout: time.Second, Heartbeat: 250 * ms, MaxTTL: time.Minute, FoundingWait: 10 * ms, ClockSkewMax: time.Second, Drift: usualDrift}
	for i, path := range paths {
		o.Masters = append(o.Masters, conn.Master{Addr: fmt.Sprint("m", i+1), Dialer: path.Dial})
	}
	return o
}

// found has all masters vote.
func (s *fleet) found() {
	s.Helper()
	if _, err := Bootstrap(s.Context(), s.options(s.links()), false); err != nil {
		s.Fatal(err)
	}
}

// do sends a command to a master from outside.
func (s *fleet) do(i int, args ...any) any {
	s.Helper()
	client := redis.NewClient(&redis.Options{Dialer: s.masters[i].Dial, Protocol: 2, DisableIdentity: true, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
	defer client.Close()
	reply, err := client.Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		s.Fatalf("%v: %v", args, err)
	}
	return reply
}

// proposer has asked all masters.
type proposer struct {
	s      *fleet
	opts   Options
	paths  []*memmaster.Link
	survey *Survey
	// parent is the record that a quorum shows; nil: none.
	parent *Record
}

func (s *fleet) proposer() *proposer {
	s.Helper()
	p := &proposer{s: s, paths: s.links()}
	p.opts = s.options(p.paths)
	p.look()
	s.Cleanup(func() { p.survey.Close() })
	return p
}

// look asks the masters again.
func (p *proposer) look() {
	if p.survey != nil {
		p.survey.Close()
	}
	p.survey = SurveyMasters(p.s.Context(), p.opts.Places(), Patience{Enough: len(p.paths)}, p.opts)
	p.parent = p.survey.Prevailing()
}

// delay has what the proposer sends to these masters, and what they reply, take so long.
func (p *proposer) delay(request, reply time.Duration, masters ...int) {
	for _, i := range masters {
		p.paths[i].SetDelay(func() time.Duration { return request }, func() time.Duration { return reply })
	}
}

// found are the masters at these places; all, if none are given.
func (p *proposer) found(places ...int) []*Report {
	var list []*Report
	for _, f := range p.survey.Reports {
		if len(places) == 0 || slices.Contains(places, f.Place) {
			list = append(list, f)
		}
	}
	return list
}

// demotes is the next record, in which a seat loses its vote.
func (p *proposer) demotes(place int) *Record {
	child := p.parent.Child()
	s := child.Seat(place)
	s.State, s.Since = Learner, child.Version
	return child.Seal()
}

// step is one of a proposer that reaches the masters at these places; all, if none are given.
func (p *proposer) step(own *Record, places ...int) (*Record, error) {
	parent := p.parent
	if own.founds() {
		parent = nil
	}
	reached := p.found(places...)
	for _, f := range p.survey.Reports {
		if before := f.err; !slices.Contains(reached, f) {
			f.err = errAway
			defer func() { f.err = before }()
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

func (p *proposer) accept(ballot string, child *Record, places ...int) (accepted int) {
	for _, f := range p.found(places...) {
		if _, err := runOnMembers(p.s.Context(), f.Conn, lua.Accept, f.State.Settled(), ballot, child.Digest, child.Text); err == nil {
			accepted++
		} else if !errors.Is(err, errOutrun) {
			p.s.Errorf("accept %s at %d: %v", ballot, f.Place, err)
		}
	}
	return accepted
}
