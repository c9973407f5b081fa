package redlock

// Duels of proposers, for traces of the membership: the simulation has too few steps that meet for the rules of a single step to matter.

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/cryptotest"
	"time"

	"redlockd/redlock/member"
	"redlockd/redlock/member/survey"
)

const (
	duelProposers = 4
	duelSteps     = 14 // of each proposer
	duelClients   = 2
)

// traceDuel returns what masters have shown while several proposers took steps at the same time. Their paths hold back what was sent and deliver it late;
// they die at any point, go on from what they find, and tell only some masters what was chosen. Masters forget, sometimes so many at once that the clients which run
// beside the proposers found the membership anew.
func traceDuel(t *testing.T, seed uint64) (membership *trace) {
	cryptotest.SetGlobalRandom(t, seed)
	inVirtualTime(t, 5, func(s *stage) {
		w := &world{stage: s, seed: seed, profile: profile{name: "a duel"}, began: time.Now(), maxTTL: 50 * ms}
		r := traceFrom(w)
		time.Sleep(ms)
		brief := func(o *Options) { o.MasterTimeout, o.Heartbeat = 5*ms, 20*ms }
		s.found(maxTTL(w.maxTTL), brief)
		for range duelClients {
			s.start(maxTTL(w.maxTTL), brief)
		}
		var proposers sync.WaitGroup
		for i := range duelProposers {
			d := &duellist{proxy: s.proxy(), rng: w.rng(uint64(i)), since: map[string]time.Time{}}
			proposers.Go(func() {
				for range duelSteps {
					d.step()
				}
			})
		}
		forgets := w.rng(duelProposers)
		for range 4 {
			time.Sleep(upTo(forgets, 400*ms))
			all := forgets.Perm(len(s.masters))
			s.doOn(all[:1+2*forgets.IntN(2)], "FLUSHALL")
		}
		proposers.Wait()
		membership = r.recordTrace()
	})
	return membership
}

// duellist is a proposer that looks anew before each step.
type duellist struct {
	*proxy
	rng   *rand.Rand
	since map[string]time.Time // when it knew that a wait had begun, by the name of the timer
}

// step looks at the masters, and does what follows, or something that an operator may ask for.
func (d *duellist) step() {
	rng, opts := d.rng, d.options().withDefaults()
	opts.MaxTTL, opts.firstCeiling = 80*ms, 50*ms
	delay := func() time.Duration { return upTo(rng, 5*ms) }
	for place := range d.paths {
		a, b := delay(), delay()
		d.delay(a, b, place)
		if path := d.paths[place]; rng.IntN(4) == 0 {
			time.AfterFunc(upTo(rng, 20*ms), path.HoldRequests)
			time.AfterFunc(20*ms+upTo(rng, 100*ms), path.Heal)
		}
	}
	time.Sleep(upTo(rng, 40*ms))
	masters := map[int]Master{}
	for i, m := range opts.Masters {
		masters[i] = m
	}
	v := survey.Ask(d.s.Context(), masters, survey.Patience{Enough: 3, Grace: 5 * ms}, opts.members())
	defer v.Close()
	ctx, cancel := context.WithTimeout(d.s.Context(), 10*ms+upTo(rng, 60*ms))
	defer cancel()
	parent := v.Prevailing()
	if parent == nil {
		return // too few were reached
	}
	for _, timer := range member.TimersOf(parent, opts.drift()) {
		if timer = parent.Lineage + timer; d.since[timer].IsZero() {
			d.since[timer] = v.Began
		}
	}
	chosen, err := v.Step(ctx, parent, d.child(v.Survey, parent))
	if err != nil || rng.IntN(4) == 0 {
		return
	}
	told := chosen.Among(v.Reports)
	rng.Shuffle(len(told), func(i, j int) { told[i], told[j] = told[j], told[i] })
	v.Teach(ctx, told[:rng.IntN(len(told)+1)], chosen)
}

// child is the next record: what is due by itself, a voter that becomes a learner, or a ceiling that rises or falls.
func (d *duellist) child(v *member.Survey, parent *member.Record) *member.Record {
	opts := d.options().withDefaults()
	drift := opts.drift()
	n := &member.Situation{Record: parent, Survey: v, Drift: drift, Paused: func(int) bool { return false },
		Left:         func(timer string) time.Duration { return parent.Wait - v.Began.Sub(d.since[parent.Lineage+timer]) },
		FirstCeiling: opts.firstCeiling, InUse: parent.Ceiling}
	switch d.rng.IntN(4) { // the ceiling rises, or falls
	case 0:
		n.Wanted = opts.MaxTTL
	case 1:
		n.InUse = 0
	}
	child := n.Next().Child
	if child == nil {
		child = parent.Child()
		if one := &child.Seats[d.rng.IntN(len(child.Seats))]; d.rng.IntN(3) == 0 && one.State == member.Voter && parent.Voters() > parent.Quorum() {
			one.State, one.Since = member.Learner, child.Version
		}
	}
	if child.Seal(); member.CheckChild(parent, child) != nil {
		return parent.Child().Seal()
	}
	return child
}
