package redlock

// The nemesis of the simulation: it breaks things, and repairs them after a while.

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"redlockd/redlock/memmaster"
)

// profile is what a simulation has to suffer: how often each fault comes, relative to the others.
type profile struct {
	name   string
	pause  time.Duration // between two faults, on average
	faults map[string]int
	drift  bool // clocks run at different rates
	bare   bool // every proxy is kept away from two masters most of the time: leases have no vote to spare
}

var profiles = []profile{
	{name: "bad network", pause: 100 * ms, faults: map[string]int{"slow": 3, "hold requests": 3, "hold replies": 3, "partition": 3, "cut": 2, "reroute": 2, "freeze": 2, "scripts": 1}},
	{name: "amnesia", pause: 130 * ms, faults: map[string]int{"betray": 3, "crash": 1, "flush": 1, "hold requests": 3, "hold replies": 3, "reroute": 1, "cut": 1, "freeze": 1}, bare: true},
	{name: "clocks", pause: 200 * ms, faults: map[string]int{"betray by clock": 2, "step": 2, "crash with data": 1, "hold replies": 3, "partition": 3, "freeze": 1}, drift: true, bare: true},
	{name: "proxies die", pause: 120 * ms, faults: map[string]int{"kill": 2, "close": 1, "hold requests": 3, "hold replies": 3, "freeze": 1, "crash": 1, "cut": 1}, drift: true},
	{name: "rolling restart", pause: 600 * ms, faults: map[string]int{"roll": 1, "hold requests": 2, "hold replies": 2}, bare: true},
	{name: "everything", pause: 100 * ms, faults: map[string]int{"slow": 2, "hold requests": 3, "hold replies": 3, "partition": 3, "cut": 2, "reroute": 2, "freeze": 1, "scripts": 1, "betray": 1, "crash": 1, "crash with data": 1, "flush": 1, "kill": 1, "close": 1}, drift: true, bare: true},
}

type nemesis struct {
	w       *world
	rng     *rand.Rand
	names   []string // of faults, as often as they weigh
	repairs []repair // to come, the next first
	down    [5]bool
	cold    [5]bool          // frozen
	ahead   [5]time.Duration // steps of the clocks so far
}

type repair struct {
	at time.Time
	do func()
}

func newNemesis(w *world) *nemesis {
	n := &nemesis{w: w, rng: w.rng(1)}
	for _, name := range sortedKeys(w.profile.faults) {
		for range w.profile.faults[name] {
			n.names = append(n.names, name)
		}
	}
	if w.profile.drift {
		for _, m := range w.masters {
			m.SetClockRate(float64(n.rng.IntN(9001) - 4500))
		}
	}
	return n
}

func sortedKeys[V any](m map[string]V) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// rage breaks things for some time.
func (n *nemesis) rage(length time.Duration) {
	end := time.Now().Add(length)
	next := time.Now().Add(100 * ms)
	for time.Now().Before(end) {
		if len(n.repairs) > 0 && n.repairs[0].at.Before(next) {
			n.mendNext()
			continue
		}
		time.Sleep(time.Until(next))
		n.strike(n.names[n.rng.IntN(len(n.names))])
		if n.w.profile.bare && n.rng.IntN(4) == 0 {
			n.strike("split")
		}
		next = time.Now().Add(n.w.profile.pause/4 + upTo(n.rng, n.w.profile.pause*3/2))
	}
}

// heal repairs everything.
func (n *nemesis) heal() {
	for len(n.repairs) > 0 {
		n.repairs[0].at = time.Now()
		n.mendNext()
	}
	for i, m := range n.w.masters {
		if n.ahead[i] < 0 { // or what was locked before the step back would live for so long
			n.w.ledger.lossy()
			m.StepClock(-n.ahead[i])
		}
	}
	for _, p := range n.w.proxies {
		for _, path := range p.paths {
			path.SetDelay(nil, nil)
		}
	}
	n.w.ledger.note("healed")
}

func (n *nemesis) mendNext() {
	next := n.repairs[0]
	n.repairs = n.repairs[1:]
	time.Sleep(time.Until(next.at))
	next.do()
}

func (n *nemesis) later(d time.Duration, do func()) {
	n.repairs = append(n.repairs, repair{time.Now().Add(d + time.Duration(len(n.repairs))), do})
	slices.SortStableFunc(n.repairs, func(a, b repair) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
}

// duration is how long a fault lasts: mostly short against the timeouts, sometimes long.
func (n *nemesis) duration() time.Duration {
	if n.rng.IntN(4) == 0 {
		return upTo(n.rng, 1500*ms)
	}
	return upTo(n.rng, 150*ms)
}

func (n *nemesis) strike(fault string) {
	w, rng := n.w, n.rng
	i := rng.IntN(len(w.masters))
	p := w.present(rng.IntN(simProxies))
	m, path := w.masters[i], p.paths[i]
	w.mu.Lock()
	w.tallies.faults++
	w.mu.Unlock()
	d := n.duration()
	note := w.ledger.note
	switch fault {
	case "slow":
		delay := 5*ms + upTo(rng, 40*ms)
		note("NEMESIS: path %d-m%d is slow by %v for %v", p.id, i+1, delay, d)
		path.SetDelay(func() time.Duration { return delay }, func() time.Duration { return delay })
		n.later(d, func() { w.setDelay(p.id, i, path) })
	case "hold requests":
		note("NEMESIS: path %d-m%d holds requests for %v", p.id, i+1, d)
		path.HoldRequests()
		n.later(d, n.mendPath(path, p.id, i))
	case "hold replies":
		note("NEMESIS: path %d-m%d holds replies for %v", p.id, i+1, d)
		path.HoldReplies()
		n.later(d, n.mendPath(path, p.id, i))
	case "partition":
		note("NEMESIS: path %d-m%d is cut off for %v", p.id, i+1, d)
		path.Partition()
		n.later(d, n.mendPath(path, p.id, i))
	case "split":
		// Two masters out of five are out of reach: whoever is granted something now has a bare quorum.
		first := rng.IntN(5)
		for _, i := range []int{first, (first + 1 + rng.IntN(4)) % 5} {
			path := p.paths[i]
			note("NEMESIS: path %d-m%d is split off for %v", p.id, i+1, d+300*ms)
			path.Partition()
			n.later(d+300*ms, n.mendPath(path, p.id, i))
		}
	case "reroute":
		// The old path delivers what it holds much later, when the client is long on the new one.
		note("NEMESIS: path %d-m%d holds for %v, and there is a new one", p.id, i+1, d)
		old := p.reroute(i)
		w.setDelay(p.id, i, p.paths[i])
		if rng.IntN(2) == 0 {
			old.HoldRequests()
		} else {
			old.Partition()
		}
		n.later(d+400*ms, old.Heal)
	case "cut":
		note("NEMESIS: connections on path %d-m%d are reset", p.id, i+1)
		path.Cut()
	case "scripts":
		if !n.cold[i] && !n.down[i] {
			note("NEMESIS: SCRIPT FLUSH on m%d", i+1)
			outside(w, m, "SCRIPT", "FLUSH")
		}
	case "freeze":
		if !n.cold[i] && !n.down[i] {
			note("NEMESIS: m%d freezes for %v", i+1, d)
			n.freeze(i, d)
		}
	case "flush":
		if !n.cold[i] && !n.down[i] {
			note("NEMESIS: FLUSHALL on m%d", i+1)
			w.ledger.lossy()
			outside(w, m, "FLUSHALL")
		}
	case "crash", "crash with data":
		if !n.down[i] {
			n.crash(i, fault == "crash with data", d)
		}
	case "roll":
		// One master after the other, all within about one TTL.
		for k := range 2 + rng.IntN(4) {
			n.later(time.Duration(k)*w.maxTTL/5, func() {
				if i := (i + k) % 5; !n.down[i] {
					n.crash(i, false, 5*ms+upTo(rng, 20*ms))
				}
			})
		}
	case "betray":
		// Of a lock that is held, so many masters forget that a quorum of the others is free.
		for _, i := range n.spare(2) {
			if rng.IntN(3) > 0 {
				n.crash(i, false, upTo(rng, 10*ms))
			} else {
				note("NEMESIS: FLUSHALL on m%d", i+1)
				w.ledger.lossy()
				outside(w, w.masters[i], "FLUSHALL")
			}
		}
	case "betray by clock":
		for _, i := range n.spare(2) {
			if n.everybodyKnows(i) {
				n.step(i, w.maxTTL+1200*ms)
			}
		}
	case "step":
		if !n.cold[i] && !n.down[i] && n.everybodyKnows(i) {
			by := time.Duration(1+rng.IntN(2)) * (1200*ms + upTo(rng, time.Second))
			if n.ahead[i] > 0 || n.ahead[i] == 0 && rng.IntN(2) == 0 {
				by = -by
			}
			n.step(i, by)
		}
	case "kill", "close":
		note("NEMESIS: proxy %d: %s", p.id, fault)
		w.tallies.restarts++
		if fault == "kill" {
			p.kill()
		} else {
			go p.end(200 * ms)
		}
		next := w.spawn(p.id)
		w.mu.Lock()
		w.proxies[p.id] = next
		w.mu.Unlock()
	}
}

// spare picks a lease that runs, and of the masters that hold it all but so few that they are no quorum.
func (n *nemesis) spare(few int) []int {
	l := n.w.ledger.running(n.rng)
	if l == nil {
		return nil
	}
	var holders []int
	for _, i := range n.rng.Perm(len(n.w.masters)) {
		if value, _, ok := n.w.masters[i].Get(l.resources[0]); ok && value == l.token && !n.down[i] && !n.cold[i] {
			holders = append(holders, i)
		}
	}
	n.w.ledger.note("NEMESIS: %v of caller %d, held by %d masters, is betrayed", l.resources, l.caller, len(holders))
	return holders[min(few, len(holders)):]
}

func (n *nemesis) step(i int, by time.Duration) {
	n.w.ledger.note("NEMESIS: the clock of m%d steps by %v", i+1, by)
	n.w.ledger.lossy()
	n.w.masters[i].StepClock(by)
	n.ahead[i] += by
}

// mendPath heals a path. What it held is delivered late, or is lost.
func (n *nemesis) mendPath(path *memmaster.Link, proxy, master int) func() {
	return func() {
		if n.rng.IntN(3) == 0 {
			n.w.ledger.note("path %d-m%d heals, and has lost everything", proxy, master+1)
			path.Cut()
		} else {
			n.w.ledger.note("path %d-m%d heals", proxy, master+1)
		}
		path.Heal()
	}
}

func (n *nemesis) freeze(i int, d time.Duration) {
	n.cold[i] = true
	n.w.masters[i].Freeze()
	n.later(d, func() {
		if n.cold[i] {
			n.w.ledger.note("m%d thaws", i+1)
			n.w.masters[i].Thaw()
		}
		n.cold[i] = false
	})
}

func (n *nemesis) crash(i int, withData bool, d time.Duration) {
	n.w.ledger.note("NEMESIS: m%d crashes for %v, with its data: %v", i+1, d, withData)
	n.w.ledger.lossy()
	n.down[i], n.cold[i] = true, false
	n.w.masters[i].Crash(withData)
	n.later(d, func() {
		n.w.ledger.note("m%d is back", i+1)
		n.w.masters[i].Restart()
		n.down[i] = false
	})
}

// everybodyKnows tells whether every proxy has seen the clock of the master's present run. A clock that steps before a proxy has seen it
// cannot be found by that proxy: see TestClockStepBehindARestart.
func (n *nemesis) everybodyKnows(i int) bool {
	run := parseInfo(outside(n.w, n.w.masters[i], "INFO", "server").(string))["run_id"]
	for _, p := range n.w.proxies {
		if p.Masters()[i].RunID != run {
			return false
		}
	}
	return true
}
