package redlock

// The nemesis of the simulation: it breaks things, and repairs them after a while.

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/memmaster"
	"redlockd/redlock/quorum"
)

// profile is what a simulation has to suffer: how often each fault comes, relative to the others.
type profile struct {
	name   string
	pause  time.Duration // between two faults, on average
	faults map[string]int
	drift  bool // clocks run at different rates
	bare   bool // every proxy is kept away from two masters most of the time: leases have no vote to spare
	// members: there are spare masters, and the membership changes (sim_members_test.go).
	members bool
	// long: max_ttl is so long that no wait ends within a simulation. Masters vote again because they are copied to.
	long bool
}

var profiles = []profile{
	{name: "bad network", pause: 100 * ms, faults: map[string]int{"slow": 3, "hold requests": 3, "hold replies": 3, "partition": 3, "cut": 2, "reroute": 2, "freeze": 2, "scripts": 1, "lose requests": 2, "lose replies": 2, "stall": 1, "reload": 1}},
	{name: "amnesia", pause: 220 * ms, faults: map[string]int{"betray": 3, "crash": 1, "flush": 1, "hold requests": 3, "hold replies": 3, "reroute": 1, "cut": 1, "freeze": 1, "lose replies": 1}, bare: true},
	{name: "clocks and memory", pause: 200 * ms, faults: map[string]int{"betray by clock": 2, "step": 2, "step all": 3, "own rate": 1, "slew": 1, "pause": 1, "suspend": 1, "crash with data": 1, "hold replies": 3, "partition": 3, "freeze": 1, "evict": 4}, drift: true, bare: true},
	{name: "proxies die", pause: 120 * ms, faults: map[string]int{"kill": 2, "close": 1, "stall": 2, "reload": 2, "hold requests": 3, "hold replies": 3, "freeze": 1, "crash": 1, "cut": 1, "step all with proxies": 2}, drift: true},
	{name: "rolling restart", pause: 600 * ms, faults: map[string]int{"roll": 1, "hold requests": 2, "hold replies": 2}, bare: true},
	{name: "members change", pause: 130 * ms, faults: map[string]int{"change": 4, "change beside dead": 4, "operator": 2, "operators": 3, "stale": 5, "refound": 2, "foreign name": 1, "kill": 1, "close": 1, "isolate": 1, "hold requests": 2, "hold replies": 2, "partition": 2, "freeze": 1, "cut": 1, "reroute": 1}, members: true},
	{name: "names move", pause: 170 * ms, faults: map[string]int{"move": 4, "hold replies": 2, "hold requests": 2, "partition": 2, "crash": 1, "kill": 1, "freeze": 1, "isolate": 1, "cut": 1}, members: true, bare: true},
	// Without partitions: a client with names of its own that is cut off from others' masters may found a fleet of its own (member/founding.go).
	{name: "names differ", pause: 170 * ms, faults: map[string]int{"rename": 3, "move": 2, "change": 2, "slow": 2, "cut": 2, "kill": 1, "crash": 1}, members: true},
	// The masters that do not lie are reached.
	{name: "one lies", pause: 150 * ms, faults: map[string]int{"lie": 6, "foreign name": 1, "own rate": 1, "kill": 1, "close": 1, "isolate": 1, "slow": 2, "cut": 2, "reroute": 1, "lose requests": 1, "lose replies": 1, "scripts": 1}, members: true},
	{name: "masters come back", pause: 130 * ms, faults: map[string]int{"come back": 6, "hold requests": 3, "hold replies": 3, "cut": 2, "freeze": 1, "slow": 2, "kill": 1, "lose replies": 1, "reroute": 1}, bare: true, long: true},
	{name: "everything", pause: 100 * ms, faults: map[string]int{"slow": 2, "hold requests": 3, "hold replies": 3, "partition": 3, "cut": 2, "reroute": 2, "freeze": 1, "scripts": 1, "betray": 1, "crash": 1, "crash with data": 1, "flush": 1, "kill": 1, "close": 1, "slew": 1, "pause": 1, "suspend": 1,
		"move": 1, "change": 2, "operator": 1, "operators": 2, "stale": 3, "isolate": 1, "evict": 3, "lose requests": 1, "lose replies": 1}, drift: true, bare: true, members: true},
}

const (
	// lossLasts is for how long a connection that loses all stays open: longer than anybody waits for it.
	lossLasts = 2 * time.Second
	// evictAfter is more than a heartbeat.
	evictAfter = 500 * ms
)

// clockFaults are in every profile, also where its faults do not name them; but where max_ttl is long: so long has a master no vote whose clock was
// wrong. Traces have none: in the model each clock goes on as it began.
var clockFaults = []string{"step", "slew", "own rate"}

type nemesis struct {
	w       *world
	rng     *rand.Rand
	names   []string // of faults, as often as they weigh
	repairs []repair // to come, the next first
	down    []bool
	cold    []bool            // frozen
	evicts  []bool            // allowed to evict keys
	ahead   []time.Duration   // steps of the clocks so far
	stepped []time.Time       // when the last of them was
	left    []*memmaster.Link // paths that were exchanged for new ones
	renamed *renaming         // a name that means another master to one proxy; nil: there is none
	lost    bool              // a majority was lost for good, and came back empty
	foreign int               // the address of a master of another fleet; -1: there is none
	lieEnds time.Time         // when the last lie is told no more
	// slewEnds is when the last clock has a right rate again.
	slewEnds time.Time
	notes    int // of what it has done
	watches  []watch
}

// note tells the story what the nemesis does.
func (n *nemesis) note(format string, args ...any) {
	n.notes++
	n.w.ledger.note(fmt.Sprintf("NEMESIS, fault %d: ", n.w.strikes-1)+format, args...)
}

type repair struct {
	at time.Time
	do func()
}

func newNemesis(w *world) *nemesis {
	masters := len(w.masters)
	n := &nemesis{w: w, rng: w.rng(1), foreign: -1, down: make([]bool, masters), cold: make([]bool, masters), evicts: make([]bool, masters), ahead: make([]time.Duration, masters), stepped: make([]time.Time, masters)}
	for _, name := range sortedKeys(w.profile.faults) {
		for range w.profile.faults[name] {
			n.names = append(n.names, name)
		}
	}
	for _, name := range clockFaults {
		if w.profile.faults[name] == 0 && !w.profile.long && w.trace == nil {
			n.names = append(n.names, name)
		}
	}
	n.names = w.clocks.faults(&w.profile, n.names)
	if w.sizes.rates != rightRates {
		for _, m := range w.masters {
			m.SetClockRate(w.sizes.rates.rate(n.rng))
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
	pace := n.w.rng(2)
	for time.Now().Before(end) {
		if len(n.repairs) > 0 && n.repairs[0].at.Before(next) {
			n.mendNext()
			continue
		}
		time.Sleep(time.Until(next))
		n.strike(n.names[pace.IntN(len(n.names))])
		if (n.w.profile.bare || n.w.clocks.on) && pace.IntN(4) == 0 {
			n.strike("split")
		}
		pause := n.w.profile.pause * n.w.calm
		next = time.Now().Add(pause/4 + upTo(pace, pause*3/2))
	}
}

// heal repairs everything.
func (n *nemesis) heal() {
	for len(n.repairs) > 0 {
		n.repairs[0].at = time.Now()
		n.mendNext()
	}
	for i, m := range n.w.masters {
		if n.ahead[i] < 0 && !n.w.clocks.on { // or what was locked before the step back would live for so long
			for end := time.Now().Add(2 * time.Second); !n.everybodyKnows(i) && time.Now().Before(end); {
				time.Sleep(n.w.sizes.heartbeat)
			}
			n.w.ledger.lossy()
			m.StepClock(-n.ahead[i])
		}
	}
	n.nameAsOthers()
	paths := n.left // over which there may still be connections
	for _, p := range n.w.proxies {
		paths = append(paths, p.paths...)
	}
	for _, path := range paths {
		path.SetDelay(nil, nil)
	}
	n.w.ledger.note("healed")
	n.w.changes.Wait()
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

// strike inflicts a fault. One that does nothing, because its master is down, say, is not counted by its name. Each fault draws from a source of its
// own, so that it is the same when others are left out.
func (n *nemesis) strike(fault string) {
	number := n.w.strikes
	n.w.strikes++
	if n.w.faults != nil && !slices.Contains(n.w.faults, number) {
		return
	}
	n.rng = n.w.rng(10_000 + uint64(number))
	before := n.notes
	n.inflict(fault)
	n.w.count(func(t *tallies) {
		t.faults++
		if n.notes > before {
			t.struck[fault]++
		}
	})
}

// flush has a master forget what it holds.
func (n *nemesis) flush(i int) {
	n.note("FLUSHALL on m%d", i+1)
	n.w.ledger.lossy()
	outside(n.w, n.w.masters[i], "FLUSHALL")
}

// quorumOf tells whether a quorum of the masters votes, remembers, and matches.
func (n *nemesis) quorumOf(matches func(machine int) bool) bool {
	w, count := n.w, 0
	for _, seat := range w.newest().Seats {
		if k := w.behind[numberOf(seat.Addr)]; seat.State == member.Voter && !n.down[k] && !n.cold[k] && matches(k) {
			if shows, _ := outside(w, w.masters[k], "HGET", lua.MembersKey, "v").(string); strings.HasPrefix(shows, seat.Memory+" ") {
				count++
			}
		}
	}
	return count >= quorum.Of(len(w.seats()))
}

func (n *nemesis) inflict(fault string) {
	w, rng := n.w, n.rng
	seats := w.seats()
	at := seats[rng.IntN(len(seats))]
	i := w.behind[at]
	p := w.present(rng.IntN(simProxies))
	m, path := w.masters[i], p.paths[at]
	d := n.duration()
	note := n.note
	if slices.Contains(clockFaults, fault) && time.Now().Before(n.lieEnds) {
		return // one master is wrong at a time
	}
	if n.spared(fault, at, i, p) {
		return
	}
	switch fault {
	case "slow":
		delay := 5*ms + upTo(rng, 40*ms)
		note("path %d-m%d is slow by %v for %v", p.id, at+1, delay, d)
		path.SetDelay(func() time.Duration { return delay }, func() time.Duration { return delay })
		n.later(d, func() { w.setDelay(p.id, at, path) })
	case "hold requests":
		note("path %d-m%d holds requests for %v", p.id, at+1, d)
		path.HoldRequests()
		n.later(d, n.mendPath(path, p.id, at))
	case "hold replies":
		note("path %d-m%d holds replies for %v", p.id, at+1, d)
		path.HoldReplies()
		n.later(d, n.mendPath(path, p.id, at))
	case "partition":
		note("path %d-m%d is cut off for %v", p.id, at+1, d)
		path.Partition()
		n.later(d, n.mendPath(path, p.id, at))
	case "split":
		// Two masters out of five are out of reach: what is granted now has a bare quorum.
		for _, k := range rng.Perm(len(seats))[:len(seats)-quorum.Of(len(seats))] {
			path := p.paths[seats[k]]
			note("path %d-m%d is split off for %v", p.id, seats[k]+1, d+300*ms)
			path.Partition()
			n.later(d+300*ms, n.mendPath(path, p.id, seats[k]))
		}
	case "reroute":
		// The old path delivers what it holds much later, when the client is long on the new one.
		note("path %d-m%d holds for %v, and there is a new one", p.id, at+1, d)
		old := p.exchangePath(at, m.Link())
		n.left = append(n.left, old)
		w.setDelay(p.id, at, p.paths[at])
		if rng.IntN(2) == 0 {
			old.HoldRequests()
		} else {
			old.Partition()
		}
		n.later(d+400*ms, old.Heal)
	case "lose requests", "lose replies":
		// The connection stays open, and nothing comes over it any more in one direction, as where a firewall has forgotten it. New ones are fine.
		note("path %d-m%d loses: %s; there is a new one", p.id, at+1, fault)
		old := p.exchangePath(at, m.Link())
		n.left = append(n.left, old)
		w.setDelay(p.id, at, p.paths[at])
		if fault == "lose requests" {
			old.HoldRequests()
		} else {
			old.HoldReplies()
		}
		n.later(lossLasts, func() {
			old.Cut()
			old.Heal()
		})
	case "cut":
		note("connections on path %d-m%d are reset", p.id, at+1)
		path.Cut()
	case "scripts":
		if !n.cold[i] && !n.down[i] {
			note("SCRIPT FLUSH on m%d", i+1)
			outside(w, m, "SCRIPT", "FLUSH")
		}
	case "freeze":
		if !n.cold[i] && !n.down[i] {
			note("m%d freezes for %v", i+1, d)
			n.freeze(i, d)
		}
	case "flush":
		if !n.cold[i] && !n.down[i] {
			n.flush(i)
		}
	case "evict":
		if !n.cold[i] && !n.down[i] && !n.evicts[i] && (!w.clocks.long() || n.remember(i)) {
			n.evict(i, d)
		}
	case "crash", "crash with data":
		if !n.down[i] {
			n.crash(i, fault == "crash with data", d)
		}
	case "come back":
		// A master forgets while a quorum of the others remembers, often a second one while the first is copied to.
		if n.down[i] || n.cold[i] || !n.remember(i) {
			return
		}
		w.count(func(t *tallies) { t.cameBack++ })
		if rng.IntN(3) > 0 {
			n.crash(i, false, upTo(rng, 60*ms))
		} else {
			n.flush(i)
		}
	case "roll":
		// One master after the other, all within about one TTL.
		note("masters restart one after the other, from m%d on", at+1)
		for k := range 2 + rng.IntN(4) {
			n.later(time.Duration(k)*w.maxTTL/5, func() {
				if i := w.behind[(at+k)%len(w.behind)]; !n.down[i] {
					n.crash(i, false, 5*ms+upTo(rng, 20*ms))
				}
			})
		}
	case "betray":
		// Of a lock that is held, so many masters forget that a quorum of the others is free.
		for _, i := range n.spare() {
			if rng.IntN(3) > 0 {
				n.crash(i, false, upTo(rng, 10*ms))
			} else {
				n.flush(i)
			}
		}
	case "betray by clock":
		for _, i := range n.spare() {
			if n.everybodyKnows(i) && len(seats) > 1 { // a gain of all masters looks like a pause to who starts then: guarantees.md
				n.step(i, w.maxTTL+1200*ms)
			}
		}
	case "step":
		if !n.cold[i] && !n.down[i] && n.everybodyKnows(i) {
			by := time.Duration(1+rng.IntN(2)) * (1200*ms + upTo(rng, time.Second))
			if n.ahead[i] > 0 || n.ahead[i] == 0 && rng.IntN(2) == 0 {
				by = -by
			}
			if by < 0 || len(seats) > 1 { // as above
				n.step(i, by)
			}
		}
	case "slew":
		// As fast as a daemon for NTP corrects a clock, or faster; up to three clocks at the same time.
		n.slewEnds = later(n.slewEnds, time.Now().Add(d))
		rate := []float64{20_000, 83_000, 100_000, 250_000, -83_000, -100_000}[rng.IntN(6)]
		most := len(seats)
		if rate > 0 {
			most-- // as above
		}
		for _, k := range rng.Perm(len(seats))[:min(most, 1+rng.IntN(3))] {
			i := w.behind[seats[k]]
			note("the clock of m%d runs fast by %v ppm for %v", i+1, rate, d)
			w.ledger.lossy()
			w.masters[i].SetClockRate(rate)
			for t := 20 * ms; t < d; t += 20 * ms {
				n.later(t, w.ledger.lossy)
			}
			n.later(d, func() {
				w.ledger.lossy()
				w.masters[i].SetClockRate(0)
			})
		}
	case "own rate":
		n.ownRate(p, d+300*ms)
	case "step all", "step all with proxies":
		n.stepAll(fault == "step all with proxies" || rng.IntN(2) == 0)
	case "pause":
		by := 5*ms + upTo(rng, 50*ms)
		note("the clock of proxy %d stands still for %v", p.id, by)
		p.opts.clockFaults.StoodStill.Add(int64(by))
	case "suspend":
		by := 5*ms + upTo(rng, 2*time.Second)
		note("the machine of proxy %d was suspended for %v", p.id, by)
		p.opts.clockFaults.Suspended.Add(int64(by))
		p.opts.clockFaults.StoodStill.Add(int64(by))
	case "kill", "close":
		note("proxy %d: %s", p.id, fault)
		w.tallies.restarts++
		if fault == "kill" {
			p.kill()
		} else {
			go p.end(200 * ms)
		}
		w.replace(w.spawn(p.id, w.knows))
	case "step one", "step many", "stand still", "newcomer", "full", "full and step":
		if !time.Now().Before(n.lieEnds) {
			n.strikeClocks(fault, i, p, d)
		}
	case "reload", "stall":
		n.strikeServer(fault, p, d)
	default:
		n.strikeMembers(fault, at, i, p, d)
	}
}

// spare picks a lease that runs, and of the masters that hold it all but so few that they are no quorum.
func (n *nemesis) spare() []int {
	l := n.w.ledger.running(n.rng)
	if l == nil {
		return nil
	}
	var holders []int
	for _, i := range n.rng.Perm(len(n.w.masters)) {
		if !n.down[i] && !n.cold[i] && n.w.holds(i, l) {
			holders = append(holders, i)
		}
	}
	n.note("%v of caller %d, held by %d masters, is betrayed", l.resources, l.caller, len(holders))
	return holders[min(quorum.Of(len(n.w.seats()))-1, len(holders)):]
}

func (n *nemesis) step(i int, by time.Duration) {
	n.note("the clock of m%d steps by %v", i+1, by)
	n.w.ledger.lossy()
	n.w.masters[i].StepClock(by)
	n.ahead[i] += by
	n.stepped[i] = time.Now()
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

// evict has the memory of a master be full, which may evict then. It begins with that when every proxy has had a heartbeat since: what a master evicts
// before is a caveat of doc.go. Healed before that, it has evicted nothing. While a network keeps a proxy from looking, it waits.
func (n *nemesis) evict(i int, d time.Duration) {
	w, m := n.w, n.w.masters[i]
	set := func(maxmemory, policy string) {
		w.ledger.lossy()
		outside(w, m, "CONFIG", "SET", "maxmemory", maxmemory, "maxmemory-policy", policy)
	}
	n.note("m%d may evict keys, and does so in %v for %v", i+1, evictAfter, d)
	n.evicts[i] = true
	told := time.Now()
	set("1", "volatile-lru")
	for t := time.Duration(0); t < d; t += 30 * ms {
		n.later(evictAfter+t, func() {
			if time.Since(told) >= evictAfter && !n.countsAnywhere(i) && m.Evict(func(string) bool { return n.rng.IntN(2) == 0 }) {
				w.ledger.lossy()
				w.count(func(t *tallies) { t.evictions++ })
			}
		})
	}
	n.later(evictAfter+d, func() {
		n.evicts[i] = false
		if n.down[i] {
			return // it comes back with its own settings
		}
		if n.cold[i] {
			n.cold[i] = false
			m.Thaw()
		}
		w.ledger.note("m%d evicts no more", i+1)
		set("0", "noeviction")
	})
}

// countsAnywhere tells whether some proxy counts the votes of a master.
func (n *nemesis) countsAnywhere(i int) bool {
	return slices.ContainsFunc(n.w.proxies, func(p *incarnation) bool {
		return slices.ContainsFunc(p.fleet.view.Load().masters, func(l *lane) bool { return n.w.behind[numberOf(l.master.Addr)] == i && l.status().State == MasterUp })
	})
}

func (n *nemesis) crash(i int, withData bool, d time.Duration) {
	n.note("m%d crashes for %v, with its data: %v", i+1, d, withData)
	n.w.ledger.lossy()
	n.down[i], n.cold[i] = true, false
	n.w.masters[i].Crash(withData)
	n.later(d, func() {
		n.w.ledger.note("m%d is back", i+1)
		n.w.masters[i].Restart()
		n.down[i] = false
	})
}

// everybodyKnows tells whether every proxy has read the clock of the master's present run, behind its last step. A clock that steps before a proxy has
// seen it cannot be found by that proxy: see TestClockStepBehindARestart. Nor can one that steps back and forward again between two readings.
func (n *nemesis) everybodyKnows(i int) bool {
	run := conn.ParseInfo(outside(n.w, n.w.masters[i], "INFO", "server").(string))["run_id"]
	for _, p := range n.w.proxies {
		read := func(l *lane) bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.guard.clock.asked > p.own.At(n.stepped[i])
		}
		if !slices.ContainsFunc(p.fleet.view.Load().masters, func(l *lane) bool { return l.status().RunID == run && read(l) }) {
			return false
		}
	}
	return true
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
