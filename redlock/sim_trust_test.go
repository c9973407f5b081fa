package redlock

// What the nemesis of the simulation does to find out whom proxies believe: one master shows what nobody has chosen, the settings of a proxy name a master
// of another fleet, clocks of machines run at wrong rates or step together, and operators change the members while masters are dead.
//
// Each of these has a bound, which is what guarantees.md takes for granted: one master lies at a time, the others are reached then, and have not forgotten
// anything lately; and of clocks that step together some proxy has read each one before, and can reach all masters when they do.

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/fence"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/coordinator"
	"redlockd/redlock/quorum"
)

// simBallots are those of a lie: one that is soon outbid, and the highest.
var simBallots = []string{"00000009.0000000000000000", "99999999.ffffffffffffffff"}

// everyoneIsHonest tells whether all members vote, and all show the same record, and no settings name a master of another fleet.
func (n *nemesis) everyoneIsHonest() bool {
	w := n.w
	now, shown := w.newest(), ""
	if !now.Known || now.Voters() != len(now.Seats) || n.foreign >= 0 || time.Now().Before(n.lieEnds) || time.Now().Before(n.slewEnds) ||
		slices.ContainsFunc(w.proxies, func(p *incarnation) bool { return strings.ContainsRune(p.states(), 'o') }) {
		return false
	}
	for _, seat := range now.Seats {
		i := w.behind[numberOf(seat.Addr)]
		if n.down[i] || n.cold[i] {
			return false
		}
		v, _ := outside(w, w.masters[i], "HGET", lua.MembersKey, "v").(string)
		memory, shows, _ := strings.Cut(v, " ")
		if memory != seat.Memory || shown != "" && shows != shown {
			return false
		}
		shown = shows
	}
	return true
}

// nobodyBelievesIt checks that no proxy goes by a lie. Where members come and go by themselves nobody lies.
func (n *nemesis) nobodyBelievesIt() {
	for _, p := range n.w.proxies {
		now := p.Membership()
		for at, seat := range now.Seats {
			if len(now.Seats) != 5 || seat.Addr != addrOf(at) || now.Version >= simLieVersion {
				n.w.Errorf("proxy %d goes by version %d of %s with the seats %+v: want the five masters", p.id, now.Version, now.Lineage, now.Seats)
				return
			}
		}
	}
}

// simLieVersion is a version that no simulation reaches by itself.
const simLieVersion = 5000

// lie has a master show what nobody has chosen.
func (n *nemesis) lie(i int, d time.Duration) {
	w, rng := n.w, n.rng
	if !n.everyoneIsHonest() {
		return
	}
	n.nobodyBelievesIt()
	m, r, memory := w.masters[i], w.membership(i), w.memory(i)
	show := func(fieldsAndValues ...any) {
		outside(w, m, append([]any{"HSET", lua.MembersKey}, fieldsAndValues...)...)
	}
	if len(r.Seats) == 1 { // an earlier lie, which somebody believes
		return
	}
	other := (i + 1 + rng.IntN(len(r.Seats)-1)) % len(r.Seats)
	alone := func(r *member.Record) { r.Seats = r.Seats[i : i+1] }
	next := func(r *member.Record) { r.Version, r.Parent = r.Version+1, r.Digest }
	ahead := func(r *member.Record) { r.Version, r.Parent = simLieVersion+r.Version, r.Digest }
	founding := func(r *member.Record) {
		r.Generation, r.Lineage, r.Version, r.Parent = r.Generation+int64(rng.IntN(3)), r.Fleet()+member.Nonce()[member.FleetLen:], 0, ""
	}
	elsewhere := func(r *member.Record) {
		for k := range simSpares {
			r.Seats[(other+k)%len(r.Seats)].Addr = addrOf(5 + k)
		}
	}
	forgeries := []struct {
		what  string
		forge []func(r *member.Record)
	}{
		{"the next record, of itself alone", []func(r *member.Record){next, alone}},
		{"the next record, with other addresses", []func(r *member.Record){next, elsewhere}},
		{"the next record, in which another has no vote", []func(r *member.Record){next, func(r *member.Record) { r.Seats[other].State, r.Seats[other].Since = member.Learner, r.Version }}},
		{"a later record, of itself alone", []func(r *member.Record){ahead, alone}},
		{"a later record, of all", []func(r *member.Record){ahead}},
		{"a later record, with other addresses", []func(r *member.Record){ahead, elsewhere}},
		{"a founding, of itself alone", []func(r *member.Record){founding, alone}},
		{"a founding, of all", []func(r *member.Record){founding}},
	}
	f := forgeries[rng.IntN(len(forgeries))]
	forged := changed(r, func(r *member.Record) {
		for _, change := range f.forge {
			change(r)
		}
	})
	again := func(do func()) { // proxies repair some of it with each heartbeat
		for t := time.Duration(0); t < d; t += 50 * ms {
			n.later(t, do)
		}
	}
	n.lieEnds = time.Now().Add(d)
	switch kind := rng.IntN(7); kind {
	case 0, 1:
		n.note("m%d lies: %s", i+1, f.what)
		show("v", forged.ShownBy(memory), "r", forged.Text)
	case 2, 3:
		n.note("m%d lies: it has accepted %s", i+1, f.what)
		ballot := simBallots[rng.IntN(len(simBallots))]
		show("v", r.ShownBy(memory)+" ? "+ballot+" "+forged.Digest, "a", forged.Text, "p", ballot)
	case 4:
		// Another one forgets, and the wait until it votes is said to be over.
		n.note("m%d lies about times, and FLUSHALL on m%d", i+1, other+1)
		outside(w, w.masters[other], "FLUSHALL")
		long, later := "1", fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())
		again(func() {
			text, _ := outside(w, m, "HGET", lua.MembersKey, "r").(string)
			r, err := member.ParseRecord(text)
			if err != nil {
				return // it has none yet
			}
			times := []any{"gained", later}
			for k := range r.Seats {
				times = append(times, r.StampField(&r.Seats[k]), long, member.HeardField(r.Seats[k].Number), later)
			}
			show(times...)
		})
	case 5:
		n.note("m%d lies about fences", i+1)
		by := time.Duration(1+rng.IntN(20)) * time.Hour
		outside(w, m, "SET", lua.FloorKey, fence.Time(time.Now().Add(by)))
	case 6:
		what := []string{"v", "r", "a", lua.FloorKey}[rng.IntN(4)]
		n.note("m%d shows what nobody can read, in %s, for %v", i+1, what, d)
		switch what {
		case lua.FloorKey:
			outside(w, m, "SET", lua.FloorKey, fence.Time(time.Now().Add(48*time.Hour)))
		case "v":
			show("v", memory+" what is that")
		case "r":
			show("r", "what is that")
		case "a":
			show("v", r.ShownBy(memory)+" ? "+simBallots[0]+" "+forged.Digest, "a", "what is that")
		}
		n.later(d, func() { // as the message says
			w.ledger.note("somebody deletes the membership of m%d, and its fences", i+1)
			outside(w, m, "DEL", lua.FloorKey, lua.MarksKey, lua.MembersKey)
		})
	}
}

// foreignName restarts a proxy with settings in which one name leads to a master of another fleet. Nothing is broken until it goes by a membership.
func (n *nemesis) foreignName(p *incarnation) {
	w, rng := n.w, n.rng
	other, now := n.outsider(), w.newest()
	if other < 0 || n.foreign >= 0 || !now.Known || n.down[w.behind[other]] || n.cold[w.behind[other]] ||
		slices.ContainsFunc(w.seats(), func(at int) bool { return n.down[w.behind[at]] || n.cold[w.behind[at]] }) {
		return
	}
	i := w.behind[other]
	runID := conn.ParseInfo(outside(w, w.masters[i], "INFO", "server").(string))["run_id"]
	fleet := (&member.Record{Generation: 1, Lineage: member.Nonce(), MaxTTL: w.maxTTL, Ceiling: w.maxTTL, Wait: 2 * w.maxTTL,
		Seats: []member.Seat{{Name: "theirs", Addr: addrOf(other), Memory: member.NewMemory(runID), State: member.Voter}}}).Seal()
	outside(w, w.masters[i], "DEL", lua.MembersKey)
	outside(w, w.masters[i], "HSET", lua.MembersKey, "v", fleet.ShownBy(fleet.Seats[0].Memory), "r", fleet.Text)
	n.note("proxy %d starts with settings that name m%d of another fleet, %s", p.id, other+1, fleet.Lineage)
	n.foreign = other
	w.tallies.restarts++
	p.kill()
	next := w.spawn(p.id, w.knows, func(o *Options) {
		o.Masters[rng.IntN(len(o.Masters))] = Master{Name: "theirs", Addr: addrOf(other)}
	})
	w.replace(next)
	for end := time.Now().Add(2 * time.Second); !next.Membership().Known && time.Now().Before(end); {
		time.Sleep(5 * ms)
	}
	if got := next.Membership(); got.Known && got.Lineage == fleet.LineageText() {
		w.Errorf("proxy %d, of whose settings one name leads to another fleet, goes by that: %+v", p.id, got)
	}
	n.later(upTo(rng, time.Second), func() {
		if n.foreign = -1; !n.down[i] && !n.cold[i] {
			outside(w, w.masters[i], "FLUSHALL")
		}
	})
}

// ownRate has the clocks of a proxy's machine run at a wrong rate, as its masters show. Where they run fast, it takes held locks for lost too early.
func (n *nemesis) ownRate(p *incarnation, d time.Duration) {
	const step = 20 * ms
	by := step * 8 / 100
	if n.rng.IntN(2) == 0 {
		by = -by
	}
	n.note("the clocks of proxy %d lose %v every %v for %v", p.id, by, step, d)
	for t := step; t < d; t += step {
		n.later(t, func() {
			n.w.ledger.lossy()
			p.opts.clockFaults.StoodStill.Add(int64(by))
		})
	}
}

// stepAll steps the clocks of all masters together, with or without those of the proxies' machines. Proxies that start later have their clocks right,
// as they are then.
func (n *nemesis) stepAll(withProxies bool) {
	w := n.w
	if len(n.repairs) > 0 {
		return
	}
	for i := range w.masters {
		if n.down[i] || n.cold[i] || !n.everybodyKnows(i) {
			return
		}
	}
	by := 100*ms + upTo(n.rng, 3*time.Second)
	if !withProxies && by <= w.proxies[0].opts.ClockSkewMax {
		return // for who starts then, that looks like a pause of those that run: guarantees.md
	}
	n.note("all clocks step by %v, those of proxies: %v", by, withProxies)
	for i := range w.masters {
		n.step(i, by)
	}
	if withProxies {
		w.walls += by
		for _, p := range w.proxies {
			p.opts.clockFaults.Ahead.Add(int64(by))
		}
	}
	time.Sleep(3 * w.sizes.heartbeat) // all that watch have seen it
}

// changeBesideDead has an operator change the members while as many are dead as may be, or fewer. Nothing else is about to change.
func (n *nemesis) changeBesideDead(p *incarnation, d time.Duration) {
	w, rng := n.w, n.rng
	if w.changing.Load() > 0 || !n.everyoneIsHonest() {
		return
	}
	seats := w.newest().Seats
	spare := len(seats) - quorum.Of(len(seats))
	if spare < 1 {
		return
	}
	dead := rng.Perm(len(seats))[:1+rng.IntN(min(2, spare))]
	for _, k := range dead {
		n.crash(w.behind[numberOf(seats[k].Addr)], false, d+upTo(rng, 2*time.Second))
	}
	one := seats[rng.IntN(len(seats))].Name
	if rng.IntN(3) > 0 {
		one = seats[dead[0]].Name
	}
	change := coordinator.Change{Remove: one}
	if other := n.outsider(); len(seats) <= 3 || other >= 0 && rng.IntN(2) == 0 && addrOf(other) != one {
		change = coordinator.Change{Replace: one, Addr: addrOf(max(other, 0))}
	}
	n.ask(p.proxy, fmt.Sprintf("proxy %d beside %d dead masters", p.id, len(dead)), 3*time.Second, change)
}

// someoneIsDead tells whether a member is down.
func (n *nemesis) someoneIsDead() bool {
	return slices.ContainsFunc(n.w.seats(), func(at int) bool { return n.down[n.w.behind[at]] })
}
