package main

// The kinds of faults. A new one goes into the list, and is in the report by itself.

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

const (
	familyMemory   = "a master forgets"
	familyMaster   = "a master stands still or is disturbed"
	familyClock    = "a master's clock steps"
	familyOwnClock = "a redlockd's clock"
	familyNetwork  = "the network"
	familyServer   = "redlockd"
	familyMembers  = "the membership changes"
	familyClient   = "clients"
)

var errKilled = errors.New("did not end in time and was killed")

func kill(_ context.Context, m *master) error {
	m.server.Kill()
	return nil
}

var faults = []fault{
	{"master killed, empty when it is back", familyMemory, func(n *nemesis) *strike {
		return n.onMasters(2, n.between(200*time.Millisecond, 6*time.Second), kill, (*master).restart)
	}},
	{"masters restarted faster than anybody looks", familyMemory, func(n *nemesis) *strike {
		return n.onMasters(3, 0, kill, (*master).restart)
	}},
	{"power cut: all masters", familyMemory, func(n *nemesis) *strike {
		free := n.freeMasters()
		if len(free) < len(n.cluster.masters()) {
			return nil
		}
		return n.atMasters(free, n.between(0, time.Second), kill, (*master).restart)
	}},
	{"FLUSHALL", familyMemory, func(n *nemesis) *strike {
		return n.onMasters(masterCount, 0, command("FLUSHALL"), nil)
	}},
	{"master frozen", familyMaster, func(n *nemesis) *strike {
		return n.onMasters(3, n.between(100*time.Millisecond, 5*time.Second),
			func(_ context.Context, m *master) error { return m.server.Freeze() },
			func(m *master) error { return m.server.Thaw() })
	}},
	{"master busy with one command", familyMaster, func(n *nemesis) *strike {
		length := n.between(50*time.Millisecond, 3*time.Second)
		s := n.onMasters(2, 0, command("DEBUG", "SLEEP", length.Seconds()), nil)
		if s != nil {
			s.detail = fmt.Sprintf("%.1f s", length.Seconds())
		}
		return s
	}},
	{"clock of a master steps forward", familyClock, func(n *nemesis) *strike { return n.clock(1) }},
	{"clock of a master steps back", familyClock, func(n *nemesis) *strike { return n.clock(-1) }},
	{"wall clock of a redlockd steps", familyOwnClock, func(n *nemesis) *strike {
		offset := n.between(-wallStepMost, wallStepMost)
		s := n.onRedlockds(2, n.between(time.Second, 8*time.Second), func(r *redlockd) error { return r.clock.step(offset) }, func(r *redlockd) error { return r.clock.step(0) })
		if s != nil {
			s.detail = fmt.Sprintf("%+.2f s", offset.Seconds())
		}
		return s
	}},
	{"clock of a redlockd stands still", familyOwnClock, func(n *nemesis) *strike {
		return n.onRedlockds(2, n.between(50*time.Millisecond, 3*time.Second), func(r *redlockd) error { return r.clock.stand() }, func(r *redlockd) error { return r.clock.goOn() })
	}},
	{"master may evict", familyMaster, func(n *nemesis) *strike {
		return n.onMasters(2, n.between(time.Second, 5*time.Second), command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru"),
			func(m *master) error {
				return command("CONFIG", "SET", "maxmemory-policy", "noeviction")(context.Background(), m)
			})
	}},
	{"CLIENT KILL at a master", familyMaster, func(n *nemesis) *strike {
		return n.onMasters(masterCount, 0, command("CLIENT", "KILL", "TYPE", "normal"), nil)
	}},
	{"SCRIPT FLUSH at a master", familyMaster, func(n *nemesis) *strike {
		return n.onMasters(masterCount, 0, command("SCRIPT", "FLUSH"), nil)
	}},
	{"masters and redlockds apart", familyNetwork, func(n *nemesis) *strike {
		return n.links(n.mastersAndRedlockds(), true, &effect{loss: 1}, n.between(200*time.Millisecond, 6*time.Second), "")
	}},
	{"masters and redlockds apart, one way", familyNetwork, func(n *nemesis) *strike {
		return n.links(n.mastersAndRedlockds(), false, &effect{loss: 1}, n.between(200*time.Millisecond, 6*time.Second), "")
	}},
	{"clients and redlockds apart", familyNetwork, func(n *nemesis) *strike {
		return n.links(n.clientsAndRedlockds(), n.random.IntN(2) == 0, &effect{loss: 1}, n.between(200*time.Millisecond, 5*time.Second), "")
	}},
	{"packets lost", familyNetwork, func(n *nemesis) *strike {
		loss := 0.05 + 0.35*n.random.Float64()
		return n.links(n.anyLinks(), true, &effect{loss: loss}, n.between(time.Second, 6*time.Second), fmt.Sprintf("%.0f %%", 100*loss))
	}},
	{"packets delayed", familyNetwork, func(n *nemesis) *strike {
		delay := n.between(2*time.Millisecond, 80*time.Millisecond)
		return n.links(n.anyLinks(), true, &effect{delay: delay}, n.between(time.Second, 6*time.Second), fmt.Sprintf("%.0f ms", delay.Seconds()*1e3))
	}},
	{"connections reset", familyNetwork, func(n *nemesis) *strike {
		return n.links(n.anyLinks(), true, &effect{reset: true}, n.between(50*time.Millisecond, 500*time.Millisecond), "")
	}},
	{"redlockd killed", familyServer, func(n *nemesis) *strike {
		return n.onRedlockds(2, n.between(0, 3*time.Second), func(r *redlockd) error {
			r.signal(syscall.SIGKILL)
			r.wait(10 * time.Second)
			return nil
		}, (*redlockd).start)
	}},
	{"redlockd drained", familyServer, func(n *nemesis) *strike {
		return n.onRedlockds(1, n.between(0, time.Second), func(r *redlockd) error {
			r.signal(syscall.SIGTERM)
			if r.wait(15 * time.Second) {
				return nil
			}
			r.signal(syscall.SIGKILL)
			r.wait(10 * time.Second)
			return errKilled
		}, (*redlockd).start)
	}},
	{"redlockd frozen", familyServer, func(n *nemesis) *strike {
		return n.onRedlockds(2, n.between(100*time.Millisecond, 6*time.Second),
			func(r *redlockd) error { return r.signal(syscall.SIGSTOP) },
			func(r *redlockd) error { return r.signal(syscall.SIGCONT) })
	}},
	{"client killed", familyClient, func(n *nemesis) *strike {
		return n.onClient(n.between(0, 2*time.Second), func(c *client) error {
			c.kill()
			return nil
		}, (*client).start)
	}},
	{"client frozen", familyClient, func(n *nemesis) *strike {
		return n.onClient(n.between(100*time.Millisecond, 6*time.Second),
			func(c *client) error { return c.signal(syscall.SIGSTOP) },
			func(c *client) error { return c.signal(syscall.SIGCONT) })
	}},
	{"lock ended by FORCE", familyClient, (*nemesis).force},
	{"max_ttl changed", familyMembers, (*nemesis).otherMaxTTL},
	{"master replaced by an empty one", familyMembers, (*nemesis).replaceMaster},
	{"masters added, and as many removed", familyMembers, (*nemesis).addAndRemove},
	{"majority lost for good, refounded by an operator", familyMembers, (*nemesis).refound},
}

type text []byte

func (t *text) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	return len(p), nil
}

// Each clock that is off has one of these.
const firstClock, secondClock = "first clock", "second clock"

// clock steps the clocks of one or two masters by about 10 s, each by its own, and later back to the true time. A redlockd that has just
// started believes the clocks of a majority, so those of two masters at most may be off, or have been within max_ttl.
func (n *nemesis) clock(sign time.Duration) *strike {
	var places []string
	for _, p := range []string{firstClock, secondClock} {
		if !n.busy[p] {
			places = append(places, p)
		}
	}
	free := n.freeMasters()
	if len(places) == 0 || len(free) == 0 {
		return nil
	}
	drawn := some(n, free, len(places))
	steps := map[*master]time.Duration{}
	detail := ""
	for _, m := range drawn {
		steps[m] = sign * n.between(8*time.Second, 12*time.Second)
		detail += fmt.Sprintf(" %+.1f s", steps[m].Seconds())
	}
	s := n.atMasters(drawn, n.between(100*time.Millisecond, 8*time.Second),
		func(_ context.Context, m *master) error { return m.server.SetClock(steps[m]) },
		func(m *master) error { return m.server.SetClock(0) })
	s.detail = detail[1:]
	s.reserved, s.rest = append(places[:len(drawn)], s.reserved...), maxTTL+maxTTL/4
	return s
}

// wallStepMost: two redlockds are then off by less than clock_skew_max, see program_clock.go.
const wallStepMost = 450 * time.Millisecond

// onRedlockds is a fault of processes at some redlockds that are free.
func (n *nemesis) onRedlockds(most int, length time.Duration, do, undo func(*redlockd) error) *strike {
	free := n.freeRedlockds()
	if len(free) == 0 {
		return nil
	}
	drawn := some(n, free, most)
	names := hostNames(drawn, redlockdHost)
	return &strike{parties: names, reserved: names, length: length,
		begin: func(context.Context) error { return atOnce(drawn, do) },
		end:   func() error { return atOnce(drawn, undo) }}
}

// onClient is a fault of one client program.
func (n *nemesis) onClient(length time.Duration, do, undo func(*client) error) *strike {
	free := n.freeClients()
	if len(free) == 0 {
		return nil
	}
	c := free[n.random.IntN(len(free))]
	return &strike{parties: []string{c.host.name}, reserved: []string{c.host.name}, length: length,
		begin: func(context.Context) error { return do(c) },
		end:   func() error { return undo(c) }}
}

// sides are two sets of hosts.
type sides struct{ near, far []*host }

func (n *nemesis) mastersAndRedlockds() sides {
	return sides{hosts(some(n, n.cluster.masters(), masterCount), masterHost), hosts(some(n, n.cluster.redlockds, redlockdCount), redlockdHost)}
}

func (n *nemesis) clientsAndRedlockds() sides {
	return sides{hosts(some(n, n.cluster.clients, len(n.cluster.clients)), clientHost), hosts(some(n, n.cluster.redlockds, redlockdCount), redlockdHost)}
}

func (n *nemesis) anyLinks() sides {
	if n.random.IntN(3) == 0 {
		return n.clientsAndRedlockds()
	}
	return n.mastersAndRedlockds()
}

func hosts[T any](all []T, host func(T) *host) (list []*host) {
	for _, one := range all {
		list = append(list, host(one))
	}
	return list
}

// links puts an effect on all links between two sides: both ways, or one that is drawn.
func (n *nemesis) links(between sides, both bool, e *effect, length time.Duration, detail string) *strike {
	there, back := *e, *e
	there.from, there.to = hostSet(between.near...), hostSet(between.far...)
	back.from, back.to = there.to, there.from
	effects := []*effect{&there, &back}
	if !both {
		way := n.random.IntN(2)
		effects = effects[way : way+1]
		detail = "packets to " + []string{"the latter", "the former"}[way] + " are lost"
	}
	near, far := hostNames(between.near, func(h *host) *host { return h }), hostNames(between.far, func(h *host) *host { return h })
	var undo func()
	return &strike{parties: append(near, far...), length: length, detail: detail,
		begin: func(context.Context) error { undo = n.cluster.network.apply(effects...); return nil },
		end:   func() error { undo(); return nil }}
}
