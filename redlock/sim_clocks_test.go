package redlock

// What half of the seeds have besides the faults of their profile: clocks that step by up to 20 s, clients whose clock stands still, clients that start
// beside them, masters whose memory is full, and max_ttl from some hundred milliseconds to a day.
//
// It keeps to what guarantees.md takes for granted: while a lock is held, some redlockd watches. A clock steps only while a proxy is connected to the
// master and counts its votes, and that proxy goes on for watchedFor: it is neither killed, nor cut off from the master, nor paused before.

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/quorum"
)

const (
	// watchedFor is for how long the one that watches goes on after a step.
	watchedFor = 1500 * ms
	// simStepMin and simStepMax bound the steps of clocks.
	simStepMin, simStepMax = 100 * ms, 20 * time.Second
	// simSkewMax is clock_skew_max where max_ttl is long: a wait does not make clocks good again that are further apart.
	simSkewMax = 10 * time.Minute
	// simDay is a resource that is locked for as long as max_ttl allows.
	simDay = "day"
)

// stepFaults are the faults of this file.
var stepFaults = []string{"step one", "step one", "step one", "step many", "stand still", "newcomer", "newcomer", "full", "full and step", "full and step"}

// clocksAxis is what a seed draws of all this.
type clocksAxis struct {
	on bool
	// maxTTL is max_ttl; 0: as the callers' locks need.
	maxTTL time.Duration
}

func clocksOf(p *profile, rng *rand.Rand) (c clocksAxis) {
	if c.on = rng.IntN(2) == 0; c.on && !p.members {
		c.maxTTL = []time.Duration{0, 2 * time.Second, 8 * time.Second, 5 * time.Minute, 24 * time.Hour}[rng.IntN(5)]
	}
	return c
}

// long tells whether no wait ends within a simulation: then a master votes again because it is copied to, and so a quorum must remember.
func (c clocksAxis) long() bool { return c.maxTTL > 2*time.Second }

// options are those of the proxies.
func (c clocksAxis) options(o *Options) {
	if c.maxTTL > 0 {
		o.MaxTTL, o.MaxHold = c.maxTTL, max(o.MaxHold, 2*c.maxTTL)
	}
	if c.long() {
		o.ClockSkewMax = simSkewMax
	}
}

// faults are the names of the faults: those of the profile, of which some are replaced, and those of this file.
func (c clocksAxis) faults(p *profile, names []string) []string {
	if !c.on {
		return names
	}
	if c.long() {
		names = slices.DeleteFunc(names, func(name string) bool {
			return strings.HasPrefix(name, "step all") || name == "betray by clock" || name == "slew" || name == "step"
		})
		for i, name := range names {
			if slices.Contains([]string{"betray", "crash", "crash with data", "flush", "roll"}, name) {
				names[i] = "come back"
			}
		}
	}
	for range (len(names) + 19) / 20 {
		for _, fault := range stepFaults {
			if p.faults["lie"] > 0 && strings.HasPrefix(fault, "full") || c.long() && fault == "step many" {
				continue // one master is wrong at a time; what a majority has gained does not pass within a simulation
			}
			names = append(names, fault)
		}
	}
	return names
}

// replacedByClocks tells whether seeds with a long max_ttl have other faults in the place of this one.
func replacedByClocks(fault string) bool {
	return strings.HasPrefix(fault, "step") || slices.Contains([]string{"betray", "betray by clock", "crash", "crash with data", "flush", "roll", "slew"}, fault)
}

// watch is a proxy that watches some clocks, for some time.
type watch struct {
	by       *incarnation
	machines []int
	until    time.Time
}

// spared tells whether a fault would end what a proxy watches. Where no wait ends within a simulation, the last proxy that counts a quorum is spared, too.
func (n *nemesis) spared(fault string, at, machine int, p *incarnation) bool {
	now := time.Now()
	if n.w.clocks.long() && slices.Contains([]string{"kill", "close", "stand still", "pause", "suspend", "own rate"}, fault) && !n.quorumCounts(p, -1) {
		return true
	}
	n.watches = slices.DeleteFunc(n.watches, func(w watch) bool { return now.After(w.until) })
	return slices.ContainsFunc(n.watches, func(w watch) bool {
		switch fault {
		case "step one", "step many", "newcomer", "full", "full and step", "scripts", "slow":
			return false
		case "kill", "close", "stale", "foreign name", "isolate", "split", "stand still", "pause", "suspend", "own rate", "reload", "stall":
			return w.by == p
		case "move", "rename", "roll", "betray", "betray by clock", "change", "change beside dead", "operator", "operators", "refound", "lie":
			return true
		}
		return w.by == p || slices.Contains(w.machines, machine)
	})
}

// watcher picks a proxy that counts the votes of these machines, has read their clocks lately, and is not about to be cut off from them; nil: there is none.
func (n *nemesis) watcher(machines ...int) *incarnation {
	for _, id := range n.rng.Perm(simProxies) {
		p := n.w.present(id)
		if n.w.sees(p) && !slices.ContainsFunc(machines, func(machine int) bool { return !n.counts(p, machine) }) {
			return p
		}
	}
	return nil
}

// counts tells whether a proxy counts the votes of a machine, and has read its clock lately.
func (n *nemesis) counts(p *incarnation, machine int) bool {
	if n.down[machine] || n.cold[machine] || n.evicts[machine] {
		return false
	}
	run := conn.ParseInfo(outside(n.w, n.w.masters[machine], "INFO", "server").(string))["run_id"]
	return slices.ContainsFunc(p.fleet.view.Load().masters, func(l *lane) bool {
		status := l.status()
		l.mu.Lock()
		defer l.mu.Unlock()
		return status.RunID == run && status.State == MasterUp && l.guard.clock.asked > p.own.At(time.Now())-2*n.w.sizes.heartbeat && l.guard.clock.asked > p.own.At(n.stepped[machine])
	})
}

// sees tells whether a proxy goes on, and its clock did.
func (w *world) sees(p *incarnation) bool {
	return !p.dead.Load() && !w.blind(p) && len(p.states()) > 0
}

// blind tells whether the clock of a proxy stands still, or may have while a lock ran that it still holds: how long that is valid it cannot know.
func (w *world) blind(p *incarnation) bool {
	return time.Since(w.began) < time.Duration(p.blind.Load())
}

// watched steps clocks by the same, if somebody watches them.
func (n *nemesis) watched(by time.Duration, machines ...int) *incarnation {
	p := n.watcher(machines...)
	if p == nil || n.w.clocks.long() && !n.remember(machines[0]) {
		return nil
	}
	if len(machines) >= len(p.fleet.view.Load().masters) { // that looks like a pause of the proxy: guarantees.md
		return nil
	}
	n.watches = append(n.watches, watch{p, machines, time.Now().Add(watchedFor)})
	n.note("proxy %d watches:", p.id)
	for _, machine := range machines {
		n.step(machine, by)
	}
	return p
}

// stepOf is by how much a clock steps: back, if it is ahead, so that none runs away.
func (n *nemesis) stepOf(machine int) time.Duration {
	by := simStepMin + upTo(n.rng, []time.Duration{time.Second, 5 * time.Second, simStepMax - simStepMin}[n.rng.IntN(3)])
	if n.ahead[machine] > 0 || n.ahead[machine] == 0 && n.rng.IntN(3) == 0 {
		by = -by
	}
	return by
}

// bare picks a master without which a lease that runs has no quorum, and how far its clock has to step to end it there; 0: there is none.
func (n *nemesis) bare() (machine int, by time.Duration) {
	var l *ledgerLease
	for range 8 { // preferably one that runs long
		if r := n.w.ledger.running(n.rng); l == nil || r != nil && r.until.After(l.until) {
			l = r
		}
	}
	if l == nil {
		return 0, 0
	}
	var holders []int
	for i := range n.w.masters {
		if !n.down[i] && !n.cold[i] && n.w.holds(i, l) {
			holders = append(holders, i)
		}
	}
	by = time.Until(l.until) + simStepMin + upTo(n.rng, time.Second)
	if len(holders) == 0 || len(holders) > quorum.Of(len(n.w.seats())) || by > simStepMax {
		return 0, 0
	}
	return holders[n.rng.IntN(len(holders))], by
}

// remember tells whether a quorum of masters other than this one votes and remembers, some proxy counts all these votes, none of them is about to evict
// keys, and no clock of theirs was touched lately.
func (n *nemesis) remember(machine int) bool { return n.quorumCounts(nil, machine) }

// quorumCounts tells whether remember is true by a proxy other than that one.
func (n *nemesis) quorumCounts(without *incarnation, machine int) bool {
	for id := range simProxies {
		p := n.w.present(id)
		if p != without && n.w.sees(p) && n.quorumOf(func(k int) bool { return k != machine && n.counts(p, k) && time.Since(n.stepped[k]) >= 3*time.Second }) {
			return true
		}
	}
	return false
}

func (n *nemesis) strikeClocks(fault string, machine int, p *incarnation, d time.Duration) {
	w, rng := n.w, n.rng
	switch fault {
	case "step one":
		by := n.stepOf(machine)
		if bare, ends := n.bare(); ends > 0 && rng.IntN(2) == 0 {
			machine, by = bare, ends
		}
		n.watched(by, machine)
	case "step many":
		var machines []int
		for _, at := range w.seats()[:quorum.Of(len(w.seats()))] {
			machines = append(machines, w.behind[at])
		}
		n.watched(n.stepOf(machines[0]), machines...)
	case "stand still":
		by, f := simStepMin+upTo(rng, 5*time.Second-simStepMin), p.opts.clockFaults
		if f.StandsAt.Load() != 0 {
			return
		}
		n.note("the clock of proxy %d stands still for %v", p.id, by)
		p.blind.Store(int64(time.Since(w.began) + 2*by + w.maxTTL))
		w.ledger.lossy()
		f.StandsAt.Store(int64(p.fleet.own.At(time.Now())))
		n.later(by, func() { // it goes on where it stands, also if all is repaired earlier, or the machine was suspended meanwhile
			w.ledger.lossy()
			f.StoodStill.Store(int64(time.Since(p.fleet.own.Zero)) - f.StandsAt.Load())
			f.StandsAt.Store(0)
		})
	case "newcomer":
		n.newcomer(p)
	case "full":
		n.fill(machine, d)
	case "full and step":
		// A clock steps while its master takes no notes, another proxy starts, and perhaps a third master forgets.
		by := n.stepOf(machine)
		if bare, ends := n.bare(); ends > 0 {
			machine, by = bare, ends
		}
		if n.evicts[machine] || n.down[machine] || n.cold[machine] {
			return
		}
		watcher := n.watched(by, machine)
		if watcher == nil {
			return
		}
		n.fill(machine, d)
		n.later(upTo(rng, 200*ms), func() {
			if next := w.present((watcher.id + 1) % simProxies); !n.spared("kill", 0, machine, next) {
				n.newcomer(next)
			}
		})
		other := w.behind[w.seats()[rng.IntN(len(w.seats()))]]
		n.later(upTo(rng, 600*ms), func() {
			if other != machine && !n.down[other] && !n.cold[other] && n.remember(other) {
				n.crash(other, false, 10*ms)
			}
		})
	}
}

// newcomer has another proxy start in the place of one.
func (n *nemesis) newcomer(p *incarnation) {
	w := n.w
	if p.dead.Load() || n.spared("kill", 0, 0, p) {
		return
	}
	n.note("proxy %d is killed, and another one starts", p.id)
	w.tallies.restarts++
	p.kill()
	w.replace(w.spawn(p.id, w.knows))
}

// fill has the memory of a master be full for a while.
func (n *nemesis) fill(machine int, d time.Duration) {
	w, m := n.w, n.w.masters[machine]
	if n.down[machine] || n.cold[machine] || n.evicts[machine] {
		return
	}
	n.note("the memory of m%d is full for %v", machine+1, d)
	w.ledger.lossy()
	m.SetFull(true)
	n.later(d, func() {
		w.ledger.note("the memory of m%d is full no more", machine+1)
		w.ledger.lossy()
		m.SetFull(false)
	})
}

// dayTurn locks for as long as max_ttl allows, and works briefly.
func (c *caller) dayTurn() {
	w, rng := c.w, c.rng
	p := w.present(rng.IntN(simProxies))
	most := p.MaxTTL()
	if rng.IntN(4) > 0 {
		most = min(most, simStepMax/2) // so that a step can end it
	}
	ttl := min(50*ms+upTo(rng, most), most)
	lease := c.lock(p, LockRequest{Resources: []string{simDay}, TTL: ttl, Wait: upTo(rng, 200*ms)})
	if lease == nil {
		return
	}
	c.sleep(min(ttl*9/10, 4*time.Second))
	c.unlock(c.anyProxy(p), lease)
}

// longest is the longest TTL that is waited for when all is over.
func longest(p *incarnation) time.Duration { return min(p.MaxTTL(), time.Minute) }

// keepsLong tells whether what is locked may outlive the simulation.
func (w *world) keepsLong() bool { return w.clocks.on || w.longLocks() }

// forgetLong removes, once all is over, what has so long a TTL, or was locked before a clock went back, that it outlives the simulation.
func (w *world) forgetLong() {
	if !w.keepsLong() {
		return
	}
	for _, m := range w.masters {
		for _, key := range locksOn(m) {
			outside(w, m, "DEL", key)
		}
	}
}
