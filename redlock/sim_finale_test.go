package redlock

// The end of a simulation, when all is repaired and checked: all masters forget at once, and then a majority of them is lost for good, so that the
// membership is founded anew, by the redlockds and by an operator. That is too seldom for a nemesis, and too slow: each time nothing is granted for a
// while. What is held when it happens is granted to nobody else before it ends, and afterwards everything can be locked again.

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"redlockd/redlock/member"
	"redlockd/redlock/member/coordinator"
	"redlockd/redlock/memmaster"
	"redlockd/redlock/quorum"
)

const (
	// finaleLocks are held by each proxy when masters forget, or are lost.
	finaleLocks = 2
	// finaleWatched is for how long it is tried to get what is held.
	finaleWatched = 3 * time.Second
	// finaleWaits is the longest wait that a finale has time for.
	finaleWaits = 10 * time.Second
	// foundWithin is what passes until redlockds have founded the membership anew, or have followed to one that an operator has.
	foundWithin = 10 * time.Second
)

func (w *world) finale() {
	if w.trace != nil {
		return
	}
	rng := w.rng(6000)
	if w.brief() {
		for range 1 + rng.IntN(2) {
			w.forgetAll()
		}
	}
	if w.brief() {
		w.changeTogether()
	}
	for range 2 {
		w.refoundFleet()
		if !w.brief() {
			return // nothing is granted for longer than this lasts
		}
	}
}

// brief tells whether a finale has time for the wait of a founding.
func (w *world) brief() bool { return w.newest().MaxTTL <= finaleWaits/4 }

// keptLock is a lock that is held when masters forget, or are lost.
type keptLock struct {
	*call
	resource string
}

// holdSome has each proxy lock something for as long as possible.
func (w *world) holdSome() (held []keptLock) {
	w.finales++
	for _, p := range w.proxies {
		for range finaleLocks {
			resource := fmt.Sprintf("finale%d.%d", w.finales, len(held)) // of which no key of before is left
			ask := func() *call { return p.lock(one(resource, min(p.MaxTTL(), simStepMax))) }
			c := ask()
			for tries := 0; !c.Held && tries < 5; tries++ { // one of a bare quorum may be slow
				time.Sleep(20 * ms)
				c = ask()
			}
			if !c.Held {
				w.Errorf("LOCK through proxy %d before masters are lost: got %+v, want held", p.id, c.Result)
			}
			held = append(held, keptLock{c, resource})
		}
	}
	return held
}

// excluded tries to get what is held until it ends, or for some time.
func (w *world) excluded(held []keptLock, why string) {
	held = slices.DeleteFunc(held, func(c keptLock) bool { return !c.Held })
	for end := time.Now().Add(finaleWatched); len(held) > 0 && time.Now().Before(end); time.Sleep(20 * ms) {
		rest := held[:0]
		for i, c := range held {
			p := w.proxies[(i+1)%len(w.proxies)]
			again := p.lock(one(c.resource, min(p.MaxTTL(), simStepMax)))
			left := time.Until(c.Until)
			if again.Held && left > 0 {
				w.ledger.violated("when %s, %s was granted through proxy %d, and is held for another %v", why, c.resource, p.id, left)
			}
			if again.Held {
				p.unlock(again.Token, c.resource)
			} else if left > 0 {
				rest = append(rest, c)
			}
		}
		held = rest
	}
}

// grantsAgain expects that all proxies go by another founding soon, and, where the wait is brief, that they grant locks when it is over.
func (w *world) grantsAgain(why, lineage string) {
	for _, p := range w.proxies {
		for end := time.Now().Add(foundWithin); p.Membership().Lineage == lineage; time.Sleep(10 * ms) {
			if time.Now().After(end) {
				w.Errorf("when %s, proxy %d goes by the same membership for %v: %+v", why, p.id, foundWithin, p.Membership())
				return
			}
		}
	}
	if !w.brief() {
		return
	}
	wait := w.proxies[0].fleet.view.Load().wait
	w.allAgree(why, wait+member.RecheckWithin(wait))
}

// allAgree expects that all masters vote for all proxies within some time and repairWithin.
func (w *world) allAgree(why string, within time.Duration) {
	for end := time.Now().Add(within + repairWithin); ; time.Sleep(20 * ms) {
		waits := slices.IndexFunc(w.proxies, func(p *incarnation) bool { return !w.agrees(p) })
		if waits < 0 {
			return
		}
		if time.Now().After(end) {
			w.Errorf("when %s, proxy %d does not count all votes in time: %+v, %+v", why, waits, w.proxies[waits].Masters(), w.proxies[waits].Membership())
			return
		}
	}
}

// forgetAll has all masters forget at once.
func (w *world) forgetAll() {
	w.allVote()
	const why = "all masters had forgotten"
	lineage, held := w.newest().Lineage, w.holdSome()
	w.ledger.note("FLUSHALL on all masters")
	for _, m := range w.masters {
		outside(w, m, "FLUSHALL")
	}
	w.excluded(held, why)
	w.grantsAgain(why, lineage)
	w.count(func(t *tallies) { t.founded++ })
}

// changeTogether has two operators change the members at the same time, each in another way. One of them is cut off in the middle, and goes on with what it
// knew when the other is done.
func (w *world) changeTogether() {
	w.allVote()
	const why = "two operators changed the members"
	rng, seats, held := w.rng(6002), w.newest().Seats, w.holdSome()
	changes := []coordinator.Change{
		{Add: "finale", Addr: addrOf(w.addMachine())},
		{Replace: seats[rng.IntN(len(seats))].Name, Addr: addrOf(w.addMachine())},
	}
	var asked sync.WaitGroup
	var operators []*incarnation
	for i, change := range changes {
		operator := w.spawn(simProxies, w.knows)
		operators = append(operators, operator)
		if i == 0 {
			w.count(func(t *tallies) { t.staleOperators++ })
			stopped, until := upTo(rng, 100*ms), 300*ms+upTo(rng, time.Second)
			for _, path := range operator.paths {
				time.AfterFunc(stopped, path.HoldRequests)
				time.AfterFunc(until, path.Heal)
			}
		}
		w.count(func(t *tallies) {
			if t.operators++; i > 0 {
				t.together++
			}
		})
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(w.Context(), 2*finaleWatched)
			defer cancel()
			what, err := operator.ChangeMembers(ctx, change, false)
			w.ledger.note("operator %d has changed the membership: %+v: %q, %v", i, change, what, err)
			if err == nil && what != "" {
				w.count(func(t *tallies) { t.changed++ })
			}
		})
	}
	w.excluded(held, why)
	asked.Wait()
	for _, operator := range operators {
		operator.end(0)
	}
	w.allAgree(why, finaleWaits)
}

// addMachine adds a master at an address of its own, which all who are there can reach.
func (w *world) addMachine() (at int) {
	at = len(w.behind)
	m := memmaster.New(memmaster.Options{})
	w.Cleanup(m.Close)
	w.masters, w.behind = append(w.masters, m), append(w.behind, len(w.masters))
	for _, p := range w.proxies {
		p.pathsMu.Lock()
		p.paths = append(p.paths[:min(at, len(p.paths))], m.Link())
		p.pathsMu.Unlock()
		w.setDelay(p.id, at, p.paths[at])
	}
	return at
}

// cutOff does something to the path of each proxy to a master.
func (w *world) cutOff(at int, do func(*memmaster.Link)) {
	for _, p := range w.proxies {
		do(p.paths[at])
	}
}

// refoundFleet loses a majority for good. An operator names those that are left, and new ones, as the fleet. He may be interrupted, and repeats the command.
func (w *world) refoundFleet() {
	if w.brief() {
		w.allVote()
	}
	const why = "a majority was lost, and an operator had named another fleet"
	rng, seats := w.rng(6001), w.newest().Seats
	if len(seats) < 3 {
		return
	}
	order, lost := rng.Perm(len(seats)), len(seats)-quorum.Of(len(seats))+1
	bare := rng.IntN(4) > 0 && lost >= quorum.Of(len(seats))
	if bare { // what is held is held by those alone that will be lost
		for _, one := range order[lost:] {
			w.cutOff(numberOf(seats[one].Addr), (*memmaster.Link).Partition)
		}
	}
	lineage, held := w.newest().Lineage, w.holdSome()
	if bare {
		for _, one := range order[lost:] {
			w.cutOff(numberOf(seats[one].Addr), func(l *memmaster.Link) { l.Cut(); l.Heal() })
		}
		time.Sleep(100 * ms)
	}
	var masters []Master
	for k, one := range order {
		if k < lost {
			w.ledger.note("%s is lost for good", seats[one].Addr)
			w.masters[w.behind[numberOf(seats[one].Addr)]].Crash(false)
		} else {
			masters = append(masters, Master{Name: seats[one].Name, Addr: seats[one].Addr})
		}
	}
	for fresh := []int{1, 1, 1, 2, 3}[rng.IntN(5)]; fresh > 0 || len(masters) < 3 || len(masters)%2 == 0; fresh-- {
		masters = append(masters, Master{Addr: addrOf(w.addMachine())})
	}
	operator := w.stage.proxy()
	operator.paths = operator.paths[:0]
	for _, machine := range w.behind {
		operator.paths = append(operator.paths, w.masters[machine].Link())
	}
	o := operator.options()
	w.opts(&o)
	o.Masters = masters
	for i := range o.Masters {
		o.Masters[i].Dialer = operator.dial
	}
	for end := time.Now().Add(refoundWithin); ; {
		patience := upTo(rng, 20*ms)
		if time.Now().Add(time.Second).After(end) {
			patience = time.Second
		}
		ctx, cancel := context.WithTimeout(w.Context(), patience)
		_, err := Refound(ctx, o, false)
		cancel()
		if w.ledger.note("an operator has founded the fleet anew: %v", err); err == nil {
			break
		}
		if time.Now().After(end) {
			w.Errorf("an operator could not found the fleet anew: %v", err)
			return
		}
	}
	w.count(func(t *tallies) { t.refounded++ })
	w.excluded(held, why)
	w.grantsAgain(why, lineage)
}
