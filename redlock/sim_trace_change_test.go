//go:build !race

package redlock

// Goal: a trace says so much that a wrong one is refused. Method: recorded traces are changed on purpose, at positions that a seed draws, so that what they tell
// cannot have happened; the model must refuse nearly all changes of each kind. TLC follows a trace and all its changes in one run (Replay.tla).

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// changeWindow bounds how many events a change moves over.
const changeWindow = 400

// traceChanges are the kinds of changes. Each changes a trace where event i is what it looks for: what it returns stands in the place of the events from one up
// to another. from = to: there is nothing to change.
//
// Only what makes a difference is changed: votes that a decision counts, and which no other vote of the round can stand for; decisions of tokens that are not
// given up; and of two events the later one, where it needs the earlier one (dependsOn).
var traceChanges = map[string]func(t *tracedSteps, i int, rng *rand.Rand) (from, to int, with []traceEvent){
	"a vote does not count": func(t *tracedSteps, i int, rng *rand.Rand) (int, int, []traceEvent) {
		return t.instead(t.counted(i, rng), func(e *traceEvent) { e.counts = false })
	},
	"a memory is forgotten": func(t *tracedSteps, i int, rng *rand.Rand) (int, int, []traceEvent) {
		v := t.counted(i, rng)
		if v < 0 {
			return 0, 0, nil
		}
		m := t.steps[v].master
		at := max(t.before(v, func(e *traceEvent) bool { return e.kind == traceAdmit && e.master == m })+1, v-rng.IntN(20))
		return at, at + 1, []traceEvent{{kind: traceForget, at: t.steps[at].at, master: m}, t.steps[at]}
	},
	"neighbours are swapped": func(t *tracedSteps, i int, _ *rand.Rand) (int, int, []traceEvent) {
		return t.move(t.dependsOn(i), i)
	},
	"another proxy": func(t *tracedSteps, i int, rng *rand.Rand) (int, int, []traceEvent) {
		at := t.counted(i, rng)
		if at >= 0 && t.steps[i].number < callersFrom && rng.IntN(2) == 0 { // with a token of its own nobody else has asked
			at = i
		}
		return t.instead(at, func(e *traceEvent) { e.proxy = e.proxy%simProxies + 1 })
	},
	"the vote of a quarantined master is counted": func(t *tracedSteps, i int, rng *rand.Rand) (int, int, []traceEvent) {
		v := t.counted(i, rng)
		if v < 0 {
			return 0, 0, nil
		}
		if rng.IntN(2) == 0 { // it gets its vote after it has voted
			m := t.steps[v].master
			return t.move(t.before(v, func(e *traceEvent) bool { return e.kind == traceAdmit && e.master == m }), v)
		}
		k := &t.steps[i]
		for n := t.since(i, k.start); n < i; n++ {
			e := &t.steps[n]
			if t.isVote(n, k, e.master) && !slices.Contains(k.by, e.master) && (!e.counts || t.under(n) != k.record) && t.vote(i, e.master) == n {
				return t.instead(i, func(k *traceEvent) { k.by = append(slices.Clone(k.by[1:]), e.master) })
			}
		}
		return 0, 0, nil
	},
	"a lower fence": func(t *tracedSteps, i int, _ *rand.Rand) (int, int, []traceEvent) {
		g := &t.steps[i]
		last := t.before(i, func(e *traceEvent) bool { return e.kind == traceGrant && e.fence > 0 })
		k := t.before(i, func(e *traceEvent) bool { return e.kind == traceDecision && e.proxy == g.proxy && e.number == g.number })
		if g.kind != traceGrant || last < 0 || k < 0 || t.steps[last].number == g.number || t.steps[last].fence >= g.fence {
			return 0, 0, nil
		}
		// The whole round has the fence of the grant before.
		from := t.since(k, t.steps[k].start)
		with := slices.Clone(t.steps[from : i+1])
		for n := range with {
			if e := &with[n]; e.number == g.number && e.proxy == g.proxy && e.fence == g.fence {
				e.fence = t.steps[last].fence
			}
		}
		return from, i + 1, with
	},
	"a vote behind the decision": func(t *tracedSteps, i int, rng *rand.Rand) (int, int, []traceEvent) {
		return t.move(t.counted(i, rng), i)
	},
	"a release is dropped": func(t *tracedSteps, i int, _ *rand.Rand) (int, int, []traceEvent) {
		e := &t.steps[i]
		for n := i + 1; n < min(len(t.steps), i+changeWindow); n++ {
			if t.previous(n) == i && t.steps[n].kind == traceVote && e.deletes() && t.steps[n].number != e.number && t.livesUntil(i, n) {
				return i, i + 1, nil
			}
		}
		return 0, 0, nil
	},
	commuted: func(t *tracedSteps, i int, _ *rand.Rand) (int, int, []traceEvent) {
		if e := &t.steps[i]; i == 0 || e.kind != traceVote || t.steps[i-1].master == e.master || !t.isVote(i-1, e, t.steps[i-1].master) ||
			e.at-t.steps[i-1].at > time.Millisecond { // the key of the later one might not have been free at the time of the earlier one
			return 0, 0, nil
		}
		return t.move(i-1, i)
	},
}

// commuted is a change that makes no difference: the model must accept it, or it would refuse for the wrong reasons.
const commuted = "the votes of two masters are swapped"

func (e *traceEvent) deletes() bool { return e.kind == traceRelease || e.kind == traceUndo }

// tracedSteps are the events of a trace.
type tracedSteps struct{ steps []traceEvent }

// before is the last event before i of which is holds, within the window; -1: none.
func (t *tracedSteps) before(i int, is func(*traceEvent) bool) int {
	for n := i - 1; n >= max(0, i-changeWindow); n-- {
		if is(&t.steps[n]) {
			return n
		}
	}
	return -1
}

// since is the first event from a time on, of those before i.
func (t *tracedSteps) since(i int, at time.Duration) int {
	for i > 0 && t.steps[i-1].at >= at {
		i--
	}
	return i
}

// previous is the last event before i that has changed the key on the same master; -1: there is none.
func (t *tracedSteps) previous(i int) int {
	m := t.steps[i].master
	if m == 0 {
		return -1
	}
	return t.before(i, func(e *traceEvent) bool { return e.master == m && e.kind != traceAdmit && e.kind != traceMark })
}

// isVote tells whether event n is a vote of this master that decision k may count.
func (t *tracedSteps) isVote(n int, k *traceEvent, master int) bool {
	e := &t.steps[n]
	return (e.kind == traceVote || e.kind == traceTakeover) && e.master == master && e.proxy == k.proxy && e.number == k.number
}

// vote is the only vote of this master for the round of decision i; -1: there is none, or several.
func (t *tracedSteps) vote(i, master int) (vote int) {
	vote = -1
	for n := t.since(i, t.steps[i].start); n < i; n++ {
		if t.isVote(n, &t.steps[i], master) {
			if vote >= 0 {
				return -1
			}
			vote = n
		}
	}
	return vote
}

// counted is one of the votes that decision i counts; -1: i is no such decision.
func (t *tracedSteps) counted(i int, rng *rand.Rand) int {
	k := &t.steps[i]
	if k.kind != traceDecision {
		return -1
	}
	over := t.before(i, func(e *traceEvent) bool {
		return e.number == k.number && (e.kind == traceGiveUp || e.kind == traceGone)
	})
	if over >= 0 && t.steps[over].kind == traceGiveUp {
		return -1
	}
	return t.vote(i, k.by[rng.IntN(len(k.by))])
}

// under is the record under which the master of event i has a vote then; 0: it has none.
func (t *tracedSteps) under(i int) int {
	for n := i - 1; n >= 0; n-- {
		if e := &t.steps[n]; e.master == t.steps[i].master && (e.kind == traceAdmit || e.kind == traceForget) {
			return e.record
		}
	}
	return 0
}

// livesUntil tells whether the key that event i has deleted would be there at event n, of the same master.
func (t *tracedSteps) livesUntil(i, n int) bool {
	set := t.previous(i)
	return set >= 0 && t.steps[set].number == t.steps[i].number && t.steps[set].ends > t.steps[n].clock
}

// dependsOn is the event before i without which i cannot be; -1: there is none, or it is not known.
func (t *tracedSteps) dependsOn(i int) int {
	e := &t.steps[i]
	switch e.kind {
	case traceDecision: // the last of its votes
		for n := i - 1; n >= t.since(i, e.start); n-- {
			if m := t.steps[n].master; slices.Contains(e.by, m) && t.isVote(n, e, m) {
				if t.counted(i, rand.New(rand.NewPCG(0, 0))) >= 0 && t.vote(i, m) == n {
					return n
				}
				return -1
			}
		}
	case traceGrant: // the only decision that it can be told of
		decision := func(x *traceEvent) bool {
			return x.number == e.number && (x.kind == traceDecision || x.kind == traceGone)
		}
		if k := t.before(i, decision); k >= 0 && t.steps[k].kind == traceDecision {
			if other := t.before(k, decision); other < 0 || t.steps[other].kind == traceGone {
				return k
			}
		}
	case traceGiveUp: // the last grant
		if g := t.before(i, func(x *traceEvent) bool { return x.number == e.number && (x.kind == traceGrant || x.kind == traceGone) }); g >= 0 && t.steps[g].kind == traceGrant {
			return g
		}
	case traceRelease, traceUndo, traceVote:
		n := t.previous(i)
		if n < 0 {
			return -1
		}
		x := &t.steps[n]
		if e.kind == traceVote && x.deletes() && x.number != e.number && t.livesUntil(n, i) { // the key is free by the release
			return n
		}
		if earlier := t.previous(n); e.deletes() && x.kind == traceVote && (earlier < 0 || t.steps[earlier].number != e.number) { // what is deleted was set
			return n
		}
	}
	return -1
}

// instead changes event i.
func (t *tracedSteps) instead(i int, change func(*traceEvent)) (from, to int, with []traceEvent) {
	if i < 0 {
		return 0, 0, nil
	}
	e := t.steps[i]
	change(&e)
	return i, i + 1, []traceEvent{e}
}

// move puts event i behind event to. The times stay where they are.
func (t *tracedSteps) move(i, to int) (int, int, []traceEvent) {
	if i < 0 || i >= to {
		return 0, 0, nil
	}
	with := append(slices.Clone(t.steps[i+1:to+1]), t.steps[i])
	for n := range with {
		with[n].at = t.steps[i+n].at
	}
	return i, to + 1, with
}

// changeTraces gives each kind of change so many places in these traces.
func changeTraces(traces []*trace, each int, rng *rand.Rand) {
	for _, kind := range slices.Sorted(maps.Keys(traceChanges)) {
		seen := map[string]bool{}
		for tries := 0; len(seen) < each && tries < 20_000*each; tries++ {
			t := traces[rng.IntN(len(traces))]
			from, to, with := traceChanges[kind](&tracedSteps{t.steps}, rng.IntN(len(t.steps)), rng)
			c := traceChange{kind: kind, at: from, drop: to - from, with: inTLA(with)}
			if id := t.name + c.tla(); from < to && !seen[id] {
				seen[id] = true
				t.changes = append(t.changes, c)
			}
		}
	}
}

// checkChanges demands that of each kind nearly all changes were refused, or, where they make no difference, accepted.
func checkChanges(t *testing.T, traces []*trace, each int) {
	for _, kind := range slices.Sorted(maps.Keys(traceChanges)) {
		all, accepted, refused := 0, []string{}, []string{}
		for _, trace := range traces {
			for _, c := range trace.changes {
				switch {
				case c.kind != kind:
					continue
				case c.accepted:
					accepted = append(accepted, trace.name+", "+c.tla())
				default:
					refused = append(refused, trace.name+", "+c.tla())
				}
				all++
			}
		}
		t.Logf("%s: %d of %d changed traces are refused", kind, len(refused), all)
		wrong := accepted
		if kind == commuted {
			wrong = refused
		}
		if all < each || 10*len(wrong) > all {
			t.Errorf("%s: want %d changed traces, and no more than a tenth of them like these:\n%s", kind, each, strings.Join(wrong, "\n"))
		}
	}
}
