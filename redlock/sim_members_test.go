package redlock

// What the nemesis of the simulation does to the membership: names of masters move to other machines and back, members come and go, operators
// and proxies die in the middle of a change, and proxies start with settings of before.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/member"
	"redlockd/redlock/member/coordinator"
	"redlockd/redlock/quorum"
)

const (
	// simSpares masters have addresses that are no members at first, and simNameless have none: a name may move to them.
	simSpares   = 3
	simNameless = 2
)

// newest is the newest membership that a proxy knows.
func (w *world) newest() (newest member.Membership) {
	for id := range simProxies {
		m := w.present(id).Membership()
		if m.Known && (!newest.Known || m.Lineage > newest.Lineage || m.Lineage == newest.Lineage && m.Version > newest.Version) {
			newest = m
		}
	}
	return newest
}

// seats are the addresses of the members. One that is no machine's here is a failure, with what each proxy goes by.
func (w *world) seats() (all []int) {
	if w.profile.members {
		newest := w.newest()
		for _, s := range newest.Seats {
			if at := numberOf(s.Addr); at >= 0 && at < len(w.behind) {
				all = append(all, at)
				continue
			}
			w.Errorf("%s has the address %q in the membership %+v", s.Name, s.Addr, newest)
			for id := range simProxies {
				w.Logf("proxy %d goes by %+v", id, w.present(id).Membership())
			}
		}
	}
	if all == nil {
		for at := range w.named {
			all = append(all, at)
		}
	}
	return all
}

// knows are settings that say what the membership says, except where its number of masters is even: then one is missing.
func (w *world) knows(o *Options) {
	now := w.newest()
	if !w.profile.members || !now.Known {
		return
	}
	var masters []Master
	for _, s := range now.Seats {
		masters = append(masters, Master{Name: s.Name, Addr: s.Addr})
	}
	o.Masters = masters[:len(masters)-1+len(masters)%2]
	o.MaxTTL = now.MaxTTL
	if r := w.refounded.Load(); r != nil && r.lineage == now.Lineage { // nobody has followed yet
		o.Masters = slices.Clone(r.masters)
	}
}

// refounded is what an operator has named as the fleet, and which founding it took the place of.
type refounded struct {
	lineage string
	masters []Master
}

// replace has a proxy take the place of the one before.
func (w *world) replace(next *incarnation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.proxies[next.id] = next
}

// agrees tells whether all masters vote for the proxy, and it goes by the newest membership, to which no step is left.
func (w *world) agrees(p *incarnation) bool {
	now, newest := p.Membership(), w.newest()
	return strings.Trim(p.states(), "u") == "" && now.Lineage == newest.Lineage && now.Version == newest.Version && now.Voters() == len(now.Seats) && !now.Lowering
}

// renaming is a name that means another master to one proxy.
type renaming struct {
	of          *incarnation
	at, machine int
}

// nameless picks a master that stands behind no address; -1: there is none.
func (n *nemesis) nameless() int {
	for _, i := range n.rng.Perm(len(n.w.masters)) {
		if !slices.Contains(n.w.behind, i) && (n.renamed == nil || n.renamed.machine != i) {
			return i
		}
	}
	return -1
}

// nameAsOthers ends a renaming.
func (n *nemesis) nameAsOthers() {
	if r := n.renamed; r != nil {
		n.w.ledger.note("m%d means to proxy %d what it means to others", r.at+1, r.of.id)
		n.renamed = nil
		n.pointTo(r.of, r.at, n.w.behind[r.at])
	}
}

// pointTo has an address mean another master to a proxy. Connections that stand may stay.
func (n *nemesis) pointTo(p *incarnation, at, machine int) {
	old := p.exchangePath(at, n.w.masters[machine].Link())
	n.w.setDelay(p.id, at, p.paths[at])
	switch n.rng.IntN(4) {
	case 0:
		old.Cut()
	case 1: // what is on its way arrives late
		old.Partition()
		n.later(upTo(n.rng, 2*time.Second), old.Heal)
	}
}

func (n *nemesis) strikeMembers(fault string, at, i int, p *incarnation, d time.Duration) {
	w, rng := n.w, n.rng
	note := n.note
	w.ledger.alwaysLossy()
	switch fault {
	case "move":
		// For all at the same time: that is what a founding relies on.
		to := n.nameless()
		if to < 0 || n.renamed != nil && n.renamed.at == at {
			return
		}
		note("m%d means machine %d instead of %d", at+1, to+1, w.behind[at]+1)
		w.count(func(t *tallies) { t.moved++ })
		w.behind[at] = to
		for _, p := range w.spawned {
			n.pointTo(p, at, to)
		}
	case "rename":
		to := n.nameless()
		if to < 0 || n.renamed != nil {
			return
		}
		note("m%d means machine %d to proxy %d for %v, and %d to others", at+1, to+1, p.id, 10*d, w.behind[at]+1)
		w.count(func(t *tallies) { t.moved++ })
		r := &renaming{of: p, at: at, machine: to}
		n.renamed = r
		n.pointTo(p, at, to)
		n.later(10*d, func() {
			if n.renamed == r {
				n.nameAsOthers()
			}
		})
	case "lie":
		n.lie(i, d+200*ms)
	case "foreign name":
		n.foreignName(p)
	case "change beside dead":
		n.changeBesideDead(p, d)
	case "change":
		n.change(p.proxy, fmt.Sprint("proxy ", p.id), 3*time.Second)
	case "operator":
		// A program that makes one change, and is killed.
		life := upTo(rng, 200*ms)
		w.count(func(t *tallies) { t.operators++ })
		operator := w.spawn(simProxies, w.knows)
		n.change(operator.proxy, "an operator", time.Minute)
		n.later(life, func() {
			note("the operator is killed")
			operator.kill()
		})
	case "operators":
		n.operators()
	case "stale":
		note("proxy %d starts with settings of before", p.id)
		w.count(func(t *tallies) { t.stale++ })
		w.tallies.restarts++
		p.kill()
		w.replace(w.spawn(p.id, w.knows, func(o *Options) {
			o.MaxTTL = n.otherMaxTTL()
			if other := n.outsider(); other >= 0 && !n.mayForgetAll() && !n.lost {
				o.Masters[rng.IntN(len(o.Masters))] = Master{Name: "elsewhere", Addr: addrOf(other)}
			}
		}))
	case "refound":
		n.refound(d)
	case "isolate":
		// While others go on, perhaps over several records.
		d += 300*ms + upTo(rng, 2*time.Second)
		note("proxy %d is cut off from everybody for %v", p.id, d)
		for at, path := range p.paths {
			path.Partition()
			n.later(d, n.mendPath(path, p.id, at))
		}
	}
}

// operators has several change the members at the same time. The first is cut off in the middle, and goes on with what it knew when the others are done.
func (n *nemesis) operators() {
	w, rng := n.w, n.rng
	for k := range 2 + rng.IntN(2) {
		w.count(func(t *tallies) { t.operators++ })
		operator := w.spawn(simProxies, w.knows)
		n.change(operator.proxy, fmt.Sprint("operator ", k), time.Minute)
		life := upTo(rng, 400*ms)
		if k == 0 {
			w.count(func(t *tallies) { t.staleOperators++ })
			stopped := upTo(rng, 30*ms)
			life = 300*ms + upTo(rng, time.Second)
			for at, path := range slices.Clone(operator.paths) {
				n.later(stopped, path.HoldRequests)
				n.later(life, n.mendPath(path, operator.id, at))
			}
			life += upTo(rng, 400*ms)
		}
		n.later(life, func() {
			w.ledger.note("operator %d is killed", k)
			operator.kill()
		})
	}
}

// refoundWithin is for how long an operator tries to name the masters that are to be the fleet.
const refoundWithin = 3 * time.Second

// refound loses as many members for good as leave no quorum, and has an operator name those that are left, and others, as the fleet. He keeps
// his word: what is lost comes back when he has ended, and has forgotten everything.
func (n *nemesis) refound(d time.Duration) {
	w := n.w
	before := w.newest()
	seats := before.Seats
	if len(seats) < 3 || n.someoneIsDead() || w.changing.Load() > 0 || n.renamed != nil {
		return
	}
	operator := &incarnation{proxy: w.stage.proxy(), id: simProxies}
	for at, machine := range w.behind {
		operator.exchangePath(at, w.masters[machine].Link())
	}
	o := operator.options()
	w.opts(&o)
	o.Masters = nil
	var lost []int // machines
	for k, one := range n.rng.Perm(len(seats)) {
		switch at := numberOf(seats[one].Addr); {
		case k <= len(seats)-quorum.Of(len(seats)):
			lost = append(lost, w.behind[at])
		case seats[one].State != member.Leaving:
			o.Masters = append(o.Masters, Master{Name: seats[one].Name, Addr: seats[one].Addr, Dialer: operator.dial})
		}
	}
	for _, at := range n.rng.Perm(len(w.behind)) {
		// Settings may call another one so, whose seat has been removed since: an operator is told to use names that no master has had.
		isName := slices.ContainsFunc(w.spawned, func(p *incarnation) bool {
			return slices.ContainsFunc(p.opts.Masters, func(m Master) bool { return m.Name == addrOf(at) && m.Addr != m.Name })
		})
		if i := w.behind[at]; len(o.Masters) < 5 && !isName && !slices.Contains(w.seats(), at) && at != n.foreign && !n.down[i] && !n.cold[i] {
			outside(w, w.masters[i], "FLUSHALL") // it is as good as new
			o.Masters = append(o.Masters, Master{Addr: addrOf(at), Dialer: operator.dial})
		}
	}
	if o.Masters = o.Masters[:max(0, len(o.Masters)-1+len(o.Masters)%2)]; len(o.Masters) < 3 { // an even number is refused
		return
	}
	for _, i := range lost {
		n.note("m%d is lost for good", i+1)
		n.down[i], n.cold[i] = true, false
		w.masters[i].Crash(false)
	}
	n.lost = true
	var names []string
	for _, m := range o.Masters {
		names = append(names, m.Addr)
	}
	n.note("an operator names %s as the fleet", strings.Join(names, ", "))
	ended := make(chan struct{})
	w.changing.Add(1)
	w.changes.Go(func() {
		defer w.changing.Add(-1)
		defer close(ended)
		for end := time.Now().Add(refoundWithin); time.Now().Before(end); time.Sleep(50 * ms) {
			_, err := Refound(w.Context(), o, false)
			if w.ledger.note("an operator has founded the fleet anew: %v", err); err == nil {
				w.count(func(t *tallies) { t.refounded++ })
				w.refounded.Store(&refounded{before.Lineage, o.Masters})
				return
			}
		}
	})
	n.later(time.Second+d, func() {
		<-ended
		for _, i := range lost {
			w.ledger.note("m%d is found again", i+1)
			w.masters[i].Restart()
			n.down[i] = false
		}
	})
}

// mayForgetAll tells whether so many masters may forget at the same time, without an operator's doing, that the membership is founded anew. Then settings tell which masters
// there are, and those must name the same seats everywhere, or there are two fleets.
func (n *nemesis) mayForgetAll() bool { return n.w.profile.faults["crash"] > 0 }

func (n *nemesis) otherMaxTTL() time.Duration {
	return n.w.maxTTL * time.Duration(2+n.rng.IntN(3)) / 3
}

// outsider picks an address that is no member's, as far as a proxy knows; -1: there is none.
func (n *nemesis) outsider() int {
	seats := n.w.seats()
	for _, at := range n.rng.Perm(len(n.w.behind)) {
		if !slices.Contains(seats, at) && at != n.foreign {
			return at
		}
	}
	return -1
}

// change has a client change the membership.
func (n *nemesis) change(p *proxy, who string, patience time.Duration) {
	w, rng := n.w, n.rng
	seats := w.newest().Seats
	if len(seats) == 0 || w.profile.faults["change beside dead"] > 0 && n.someoneIsDead() {
		return
	}
	var change coordinator.Change
	one, other := seats[rng.IntN(len(seats))].Name, n.outsider()
	switch kind := rng.IntN(6); {
	case kind < 3 && other >= 0 && addrOf(other) != one: // by its own name it would be what each proxy's settings call so
		change = coordinator.Change{Replace: one, Addr: addrOf(other)}
	case kind == 3 && other >= 0 && len(seats) < 7 && !n.mayForgetAll():
		change = coordinator.Change{Add: fmt.Sprint("new", w.tallies.faults), Addr: addrOf(other)}
	case kind == 4 && len(seats) > 3 && !n.mayForgetAll():
		change = coordinator.Change{Remove: one}
	default:
		change = coordinator.Change{SetMaxTTL: n.otherMaxTTL()}
	}
	n.ask(p, who, patience, change)
}

// ask has a client make a change.
func (n *nemesis) ask(p *proxy, who string, patience time.Duration, change coordinator.Change) {
	w := n.w
	if change.Addr != "" {
		if i := w.behind[numberOf(change.Addr)]; !n.down[i] && !n.cold[i] && !slices.Contains(w.seats(), numberOf(change.Addr)) {
			outside(w, w.masters[i], "FLUSHALL") // it is as good as new
		}
	}
	n.note("%s changes the membership: %+v", who, change)
	if w.changing.Add(1) > 1 {
		w.count(func(t *tallies) { t.together++ })
	}
	w.changes.Go(func() {
		defer w.changing.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		what, err := p.ChangeMembers(ctx, change, false)
		w.ledger.note("%s has changed the membership: %q, %v", who, what, err)
		if err == nil && what != "" {
			w.count(func(t *tallies) { t.changed++ })
		}
	})
}
