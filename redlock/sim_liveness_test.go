package redlock

// How soon the simulation recovers once everything is repaired: everything can be locked, the first waiter is granted a lock
// that is released, and nobody starves.

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"redlockd/redlock/member"
	"redlockd/redlock/quorum"
	"redlockd/redlock/resp"
)

const (
	// repairWithin is what passes at most until all masters vote, and all proxies go by the newest membership.
	repairWithin = 10 * time.Second
	// liveWithin is what passes at most behind the longest wait of a membership until each proxy grants locks.
	liveWithin = time.Second
	// headRounds are the attempts that a waiter alone makes at most behind the release.
	headRounds = 1
	// simWaitMost bounds the waits of a membership that a simulation sees out. Where they are longer, a quorum remembers (clocksAxis.long).
	simWaitMost = 3 * time.Minute
	// starveFactor is how many times as often as the unluckiest caller the luckiest one may be granted a lock that all want all the time, where all proxies
	// are as near to the masters as each other. Those of one proxy take turns. For one that is farther away: TestClientThatIsFartherAwayIsNotStarved.
	starveFactor = 3
)

// probe has every proxy lock a resource that nobody else wants, from now on. What it returns checks when that was granted.
func (w *world) probe() (check func()) {
	var running sync.WaitGroup
	for _, p := range w.proxies {
		c := &call{began: time.Now()}
		resource := fmt.Sprint("probe", p.id)
		ask := func() { p.StartLock(&c.Op, one(resource, w.maxTTL/3).waits(time.Minute), c) }
		ask()
		running.Go(func() {
			lineage := p.Membership().Lineage
			var longest time.Duration // the wait of a membership, which a founding may have lengthened
			// again tells whether the LOCK ended for want of room, or its WAIT while the masters' wait ran.
			again := func() bool {
				return errors.Is(c.Err, ErrTooManyWaiters) || errors.Is(c.Err, ErrNoQuorum) && time.Since(c.began) <= min(longest, simWaitMost)
			}
			for !c.done.Load() || again() {
				longest = max(longest, p.fleet.view.Load().wait)
				if c.done.Load() {
					c = &call{began: c.began}
					ask()
				}
				time.Sleep(10 * ms)
			}
			w.count(func(t *tallies) { t.probes++ })
			longest = max(longest, p.fleet.view.Load().wait)
			most := longest + liveWithin
			if p.Membership().Lineage != lineage {
				most += member.RecheckWithin(longest) // the patience of a founding
			}
			if !c.Held || c.took > most {
				w.Errorf("LOCK %s through proxy %d when all was repaired: got %+v after %v, want it within %v (the wait is %v)", resource, p.id, c.Result, c.took, most, longest)
			}
		})
	}
	return running.Wait
}

// checkHead has a lock released that one proxy holds and a caller of another one waits for. A message of before that ends the waiter's pause
// just then may cost it an attempt: a second release decides.
func (w *world) checkHead() {
	for i, holder := range w.proxies {
		p := w.proxies[(i+1)%len(w.proxies)]
		if rounds, _ := w.release(holder, p); rounds <= headRounds {
			continue
		}
		if rounds, took := w.release(holder, p); rounds > headRounds {
			w.Errorf("a waiter through proxy %d, when the lock was released through proxy %d: granted with %d rounds, %v later, want it with %d", p.id, holder.id, rounds, took, headRounds)
		}
	}
}

// checkSettles has a lock of Redisson released while a quorum of masters stands still: another owner gets it long before it would end.
func (w *world) checkSettles() {
	for i, p := range w.proxies {
		w.allVote()
		q := w.proxies[(i+1)%len(w.proxies)]
		ttl := min(longest(p), longest(q)).Truncate(ms) // the members may have another max_ttl now
		lock := func(owner string) *redissonLock {
			c := &caller{w: w, id: 900 + i, rng: w.rng(4000 + uint64(i)), calm: true}
			return &redissonLock{caller: c, scripts: rLock, key: "settles", owner: owner, ttl: ttl}
		}
		ask := func(r *redissonLock, p *incarnation) bool {
			v, known := r.run(p, "lock", r.scripts.lock, []string{r.key}, inText(r.ttl), r.owner)
			return known && v.Kind == resp.Nil
		}
		a, b := lock(fmt.Sprint("owner a", i)), lock(fmt.Sprint("owner b", i)) // a latch is of one unlock
		defer a.hangUp()
		defer b.hangUp()
		if !ask(a, p) {
			w.Errorf("proxy %d does not grant a lock of Redisson's behind all faults", p.id)
			continue
		}
		stopped := a.rng.Perm(len(w.masters))[:quorum.Of(len(w.masters))]
		for _, m := range stopped {
			w.masters[m].Freeze()
		}
		var leaves sync.WaitGroup
		leaves.Go(func() { a.leave(p, a.latch()) })
		time.Sleep(5 * p.opts.MasterTimeout)
		for _, m := range stopped {
			w.masters[m].Thaw()
		}
		// What is not released stays for longer: masters keep keys for half a second more than their TTL.
		thawed, within := time.Now(), 400*ms
		for !ask(b, q) && time.Since(thawed) <= within {
			time.Sleep(5 * ms)
		}
		if took := time.Since(thawed); took > within {
			w.Errorf("proxy %d: a lock of Redisson's that was released through proxy %d while masters stood still: not granted for %v, want it within %v", q.id, p.id, took, within)
		}
		b.leave(q, b.latch())
		leaves.Wait()
	}
	w.allVote()
}

// allVote returns when every proxy counts the vote of every master, and has connected anew to each since: a master that the next fault keeps
// from connections does not lose its vote by that for what was before.
func (w *world) allVote() {
	for _, p := range w.proxies {
		called := p.fleet.own.At(time.Now())
		w.until("all masters vote, and new connections reach them", func() bool {
			return strings.Trim(p.states(), "u") == "" &&
				!slices.ContainsFunc(p.fleet.view.Load().masters, func(l *lane) bool { return time.Duration(l.guard.confirmed.Load()) < called })
		})
	}
}

// release returns how many rounds p made for a waiter from the release of what it waits for, and how long it took.
func (w *world) release(holder, p *incarnation) (rounds uint64, took time.Duration) {
	resource := simResources[1]
	held := holder.lock(one(resource, longest(p)))
	time.Sleep(70 * ms) // until its slowest SET has come: the waiter would take that for a release (setDelay)
	waiter := p.begin(one(resource, longest(p)).waits(longest(p)))
	time.Sleep(20 * ms)
	before, released := p.Stats().Attempts, time.Now()
	holder.unlock(held.Token, resource)
	p.finish(waiter)
	rounds, took = p.Stats().Attempts-before, waiter.began.Add(waiter.took).Sub(released)
	if !waiter.Held {
		w.Errorf("a waiter through proxy %d, when the lock was released through proxy %d: got %+v", p.id, holder.id, waiter.Result)
	}
	p.unlock(waiter.Token, resource)
	return rounds, took
}

// checkWakes has a library hold a resource on some masters, and a waiter wait for it while masters and connections come and go. When it is free on a
// quorum of those that go on, the waiter is granted it at once.
func (w *world) checkWakes() {
	w.prompt.Store(true) // beside masters that are down, one slow answer is waited for
	defer w.prompt.Store(false)
	rng := w.rng(4000)
	for i, kind := range []struct {
		request LockRequest
		keys    []string // that are held; the last one is released
	}{
		{one("wake", 0), []string{"wake"}},
		{one("wake", 0).sharing(), []string{"wake"}},
		{several(0, "wake", "wake2", "wake3"), []string{"wake2"}},
		{one("wake", 0).of(2), []string{"wake#0", "wake#1"}},
	} {
		p := w.proxies[i%len(w.proxies)]
		m := &trouble{stage: w.stage, rng: rng, proxies: []*proxy{p.proxy}, down: map[int]bool{}, patience: time.Minute}
		if w.sizes.rates != rightRates {
			// Where clocks drift nearly as much as is allowed, a second without a reading shows as a gain that passes so slowly that a wait ends it first.
			m.patience = min(max(m.patience, p.fleet.view.Load().wait), 10*time.Minute)
		}
		longer := 2 * (m.patience - time.Minute)
		for _, master := range p.Masters() {
			m.members = append(m.members, w.behind[numberOf(master.Addr)])
		}
		holders, majority := m.drawn(), quorum.Of(len(m.members))
		holders = holders[:majority+rng.IntN(len(holders)-majority+1)]
		for _, key := range kind.keys {
			w.doOn(holders, "SET", key, "a library", "PX", (time.Minute + longer).Milliseconds())
		}
		m.note("on %v of %v", holders, m.members)
		kind.request.TTL = longest(p)
		c := p.startLock(kind.request.waits(20*time.Second + longer))
		for range rng.IntN(5) {
			m.change()
		}
		m.settle()
		time.Sleep(upTo(rng, time.Second))
		m.settle() // a master that a new connection has not reached for long has lost its vote since
		if c.done.Load() {
			w.Fatalf("proxy %d, %+v: %s: got %+v before it is released", p.id, kind.request, m.story, c.Result)
		}
		free := len(m.members) - len(m.down)
		for _, at := range m.members {
			if !m.down[at] && slices.Contains(holders, at) {
				free--
			}
		}
		began, version, within := time.Now(), p.Membership().Version, wakeWithin
		for _, at := range m.drawn() {
			if free < majority && !m.down[at] && slices.Contains(holders, at) {
				w.do(at, "DEL", kind.keys[len(kind.keys)-1])
				free++
				m.note("released on m%d", at+1)
			}
		}
		p.finish(c)
		w.count(func(t *tallies) { t.wakes++ })
		if p.Membership().Version != version { // while it changes, no vote counts
			within += member.StepTimeout
		}
		if took := c.began.Add(c.took).Sub(began); !c.Held || took > within+5*ms {
			w.Errorf("proxy %d, %+v: %s: got %+v %v after it was free on a quorum, want held within %v", p.id, kind.request, m.story, c.Result, took, within)
		}
		for at := range m.down {
			w.thaw(at)
		}
		m.down = nil
		m.settle()
		for _, key := range kind.keys {
			w.doOn(holders, "DEL", key)
		}
		p.unlock(c.Token, cmp.Or(c.Slot, kind.request.Resources[0]))
		for _, resource := range kind.request.Resources[1:] {
			p.unlock(c.Token, resource)
		}
	}
}

// drawn are the members in any order.
func (t *trouble) drawn() []int {
	all := slices.Clone(t.members)
	t.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// subscribed tells whether all masters send invalidations.
func (i *incarnation) subscribed() bool {
	return !slices.ContainsFunc(i.fleet.view.Load().masters, func(l *lane) bool { return l.invalidationsID.Load() == 0 })
}

// checkStarvation has callers of all proxies lock one resource over and over, for so many turns of theirs that one more or less does not matter.
func (w *world) checkStarvation() {
	const each, turns, patience = 3, 24, 5 * time.Second
	turn := w.proxies[0].opts.HandoverTime
	length, hold := max(2*time.Second, turns*turn), max(ms, turn/30)
	resource := simResources[2]
	for _, p := range w.proxies {
		for at, path := range p.paths {
			rng := w.rng(3000 + uint64(p.id*10+at))
			delay := func() time.Duration { return 100*time.Microsecond + upTo(rng, 200*time.Microsecond) }
			path.SetDelay(delay, delay)
			defer path.SetDelay(nil, nil)
		}
	}
	for _, m := range w.masters { // connections over paths of before have other delays
		m.Cut()
	}
	w.until("all subscriptions", func() bool {
		return !slices.ContainsFunc(w.proxies, func(p *incarnation) bool { return !w.agrees(p) || !p.subscribed() })
	})
	grants := make([]int, each*len(w.proxies))
	var running sync.WaitGroup
	end := time.Now().Add(length)
	for i := range grants {
		p := w.proxies[i%len(w.proxies)]
		running.Go(func() {
			for time.Now().Before(end) {
				c := p.startLock(one(resource, longest(p)).waits(patience))
				for !c.done.Load() {
					time.Sleep(200 * time.Microsecond)
				}
				if !c.Held {
					w.Errorf("LOCK … WAIT %v beside %d others through proxy %d: got %+v", patience, len(grants)-1, p.id, c.Result)
					return
				}
				grants[i]++
				time.Sleep(hold)
				u := &call{}
				p.StartUnlock(&u.Op, []string{resource}, c.Token, u)
				for !u.done.Load() {
					time.Sleep(100 * time.Microsecond)
				}
			}
		})
	}
	running.Wait()
	for i, n := range grants {
		if first := grants[i%len(w.proxies)]; max(n, first) > min(n, first)+1 {
			w.Errorf("callers of proxy %d that take turns were granted one resource %d and %d times", i%len(w.proxies), first, n)
		}
	}
	least, most := slices.Min(grants), slices.Max(grants)
	w.count(func(t *tallies) { t.unfair = max(t.unfair, float64(most)/float64(max(least, 1))) })
	if most > starveFactor*least {
		w.Errorf("callers that want one resource all the time were granted it %v times, want none more than %d times as often as another", grants, starveFactor)
	}
}
