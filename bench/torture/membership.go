package main

// The operators of the torture: what they do to the membership, from a host that no fault reaches.
//
// A master that is removed, replaced or given up for lost never answers again at its address: its host gets a new process, empty and with
// another port. A redlockd that was frozen or cut off may have the old address in its membership, and would take an empty master there for
// one that has restarted.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"
)

const (
	// membership is reserved by what changes it.
	membership = "membership"
	// insistFor is for how long an operator repeats a command that is refused, as where too few masters would vote: some quarantines.
	insistFor = 40 * time.Second
)

// seat is one of the membership. Its name stays when another master takes it.
type seat struct {
	name   string
	master *master
}

// masters are the members of now.
func (c *cluster) masters() (all []*master) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.seats {
		all = append(all, s.master)
	}
	return all
}

func (c *cluster) spareMasters() []*master {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spares)
}

func (c *cluster) allMasters() []*master { return append(c.masters(), c.spareMasters()...) }

// newName is one that no seat has had.
func (c *cluster) newName() string {
	c.named++
	return fmt.Sprint("seat", c.named)
}

// members runs `redlockd members`, and waits until a change is done.
func (c *cluster) members(ctx context.Context, args ...string) ([]byte, error) {
	return c.operate(ctx, append([]string{"members"}, args...)...)
}

// operate runs redlockd as operators do, and returns what it says.
func (c *cluster) operate(ctx context.Context, args ...string) ([]byte, error) {
	process, err := c.redlockdCommand(args...)
	if err != nil {
		return nil, err
	}
	return c.runCommand(ctx, process)
}

func (c *cluster) runCommand(ctx context.Context, process *exec.Cmd) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var said, failed text
	process.Stdout, process.Stderr = &said, &failed
	if err := c.operator.do(process.Start); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { process.Process.Kill() })
	defer stop()
	if err := process.Wait(); err != nil {
		return nil, fmt.Errorf("redlockd %v: %w: %s", process.Args[1:], err, clip(string(failed), 300))
	}
	return said, nil
}

// insist repeats what is refused now, and may not be later.
func insist(ctx context.Context, do func() error) error {
	for deadline := time.Now().Add(insistFor); ; time.Sleep(time.Second) {
		if err := do(); err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
	}
}

// lookAtSeats learns who is a member.
func (c *cluster) lookAtSeats(ctx context.Context) error {
	said, err := c.members(ctx, "--json")
	if err != nil {
		return err
	}
	var table struct{ Seats []struct{ Seat, Addr string } }
	if err := json.Unmarshal(said, &table); err != nil || len(table.Seats) == 0 {
		return fmt.Errorf("redlockd members --json said %s: %w", said, err)
	}
	spares := c.allMasters()
	var seats []seat
	var strays []string
	for _, s := range table.Seats {
		i := slices.IndexFunc(spares, func(m *master) bool { return m.addr == s.Addr })
		if i < 0 {
			strays = append(strays, s.Seat)
			continue
		}
		seats = append(seats, seat{s.Seat, spares[i]})
		spares = slices.Delete(spares, i, i+1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seats, c.spares, c.strays = seats, spares, strays
	if len(seats)%2 == 1 && len(strays) == 0 { // settings with an even number are refused
		c.listed = slices.Clone(seats)
	}
	return nil
}

// seatOn is the name of the seat of the host's master; empty: it has none.
func (c *cluster) seatOn(h *host) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.seats {
		if s.master.host == h {
			return s.name
		}
	}
	return ""
}

// renew has the host of a spare run a new master in the place of the one that it has, and returns it.
func (c *cluster) renew(h *host) (*master, error) {
	spares := c.spareMasters()
	i := slices.IndexFunc(spares, func(m *master) bool { return m.host == h })
	if i < 0 {
		return nil, fmt.Errorf("%s is a member", h.name)
	}
	fresh, err := startMaster(h, c.shim)
	if err != nil {
		return nil, err
	}
	old := spares[i]
	c.mu.Lock()
	c.spares[slices.Index(c.spares, old)] = fresh
	c.mu.Unlock()
	old.close()
	return fresh, nil
}

// replace has a spare take the seat of another master, or the seat of a given name.
func (c *cluster) replace(ctx context.Context, name string, spare *host) error {
	if err := c.lookAtSeats(ctx); err != nil {
		return err
	}
	if c.seatOn(spare) != "" {
		return nil // an earlier try has done it
	}
	fresh, err := c.renew(spare)
	if err != nil {
		return err
	}
	if _, err := c.members(ctx, "replace", name, fresh.addr); err != nil {
		return err
	}
	return c.lookAtSeats(ctx)
}

// add gives a spare a further seat.
func (c *cluster) add(ctx context.Context, spare *host) error {
	if err := c.lookAtSeats(ctx); err != nil {
		return err
	}
	if c.seatOn(spare) != "" {
		return nil
	}
	fresh, err := c.renew(spare)
	if err != nil {
		return err
	}
	c.mu.Lock()
	name := c.newName()
	c.mu.Unlock()
	if _, err := c.members(ctx, "add", name, fresh.addr); err != nil {
		return err
	}
	return c.lookAtSeats(ctx)
}

// remove takes the seat of a host's master away.
func (c *cluster) remove(ctx context.Context, h *host) error {
	if err := c.lookAtSeats(ctx); err != nil {
		return err
	}
	name := c.seatOn(h)
	if name == "" {
		return nil
	}
	if _, err := c.members(ctx, "remove", name); err != nil {
		return err
	}
	return c.lookAtSeats(ctx)
}

// settle brings the fleet back to as many seats as it had, wherever a change has stopped. It touches the masters on these hosts alone.
func (c *cluster) settle(ctx context.Context, mine []*host) error {
	return insist(ctx, func() error {
		for {
			if err := c.lookAtSeats(ctx); err != nil {
				return err
			}
			c.mu.Lock()
			count, strays := len(c.seats)+len(c.strays), c.strays
			c.mu.Unlock()
			var member, spare *host
			for _, h := range mine {
				if c.seatOn(h) != "" {
					member = h
				} else {
					spare = h
				}
			}
			var err error
			switch {
			case len(strays) > 0 && spare != nil:
				err = c.replace(ctx, strays[0], spare)
			case count > masterCount && member != nil:
				err = c.remove(ctx, member)
			case count < masterCount && spare != nil:
				err = c.add(ctx, spare)
			case count == masterCount:
				return nil
			default:
				return fmt.Errorf("the membership has %d seats, and no master is free to change that", count)
			}
			if err != nil {
				return err
			}
		}
	})
}

// otherMaxTTL is a fault of the membership.
func (n *nemesis) otherMaxTTL() *strike {
	if n.busy[membership] {
		return nil
	}
	to := maxTTLLow
	if n.random.IntN(2) == 0 {
		to = maxTTL
	}
	return &strike{parties: hostNames(n.cluster.redlockds, redlockdHost), reserved: []string{membership}, detail: to.String(),
		begin: func(ctx context.Context) error {
			_, err := n.cluster.members(ctx, "set", "max_ttl", to.String())
			return err
		}}
}

// change is a strike that changes the membership, with these masters and all spares.
func (n *nemesis) change(parties []*master, do func(context.Context, []*host) error) *strike {
	spares := hosts(n.cluster.spareMasters(), masterHost)
	mine := append(hosts(parties, masterHost), spares...)
	s := &strike{parties: hostNames(mine, func(h *host) *host { return h })}
	s.reserved = append([]string{membership}, s.parties...)
	s.begin = func(ctx context.Context) error {
		if len(spares) != spareCount { // the last change has not been settled
			return nil
		}
		return do(ctx, spares)
	}
	s.end = func() error { return n.cluster.settle(context.Background(), mine) }
	return s
}

// replaceMaster has a spare take the place of a member.
func (n *nemesis) replaceMaster() *strike {
	free := n.freeMasters()
	if n.busy[membership] || len(free) == 0 {
		return nil
	}
	old := free[n.random.IntN(len(free))]
	return n.change([]*master{old}, func(ctx context.Context, spares []*host) error {
		return insist(ctx, func() error {
			if name := n.cluster.seatOn(old.host); name != "" {
				return n.cluster.replace(ctx, name, spares[0])
			}
			return n.cluster.lookAtSeats(ctx)
		})
	})
}

// addAndRemove adds one or two masters, and later removes as many others.
func (n *nemesis) addAndRemove() *strike {
	free := n.freeMasters()
	if n.busy[membership] || len(free) == 0 {
		return nil
	}
	old, pause := some(n, free, spareCount), n.between(0, 3*time.Second)
	return n.change(old, func(ctx context.Context, spares []*host) error {
		for i := range old {
			if err := insist(ctx, func() error { return n.cluster.add(ctx, spares[i]) }); err != nil {
				return err
			}
		}
		time.Sleep(pause)
		for _, m := range old {
			if err := insist(ctx, func() error { return n.cluster.remove(ctx, m.host) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// refound loses a majority for good, and an operator founds the fleet anew with those that are left and an empty one, and then adds others. The
// clocks of all must be true: for a while there are three seats, of whose clocks one at most may be off.
func (n *nemesis) refound() *strike {
	free := n.freeMasters()
	if n.busy[membership] || n.busy[firstClock] || n.busy[secondClock] || len(free) != masterCount || len(n.cluster.masters()) != masterCount {
		return nil
	}
	n.random.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	lost, silent := free[:masterCount/2+1], n.between(0, 2*time.Second)
	s := n.change(free, func(ctx context.Context, spares []*host) error {
		for _, m := range lost {
			m.server.Kill()
		}
		time.Sleep(silent)
		err := n.cluster.refound(ctx, lost, spares[0])
		if err != nil {
			n.history.report(monotonic(), "", "an operator could not refound the fleet: %v", err)
		}
		return err
	})
	s.reserved = append(s.reserved, firstClock, secondClock)
	s.detail = fmt.Sprint("lost ", hostNames(lost, masterHost))
	return s
}

// refound names the members that are not lost, and a new master on the spare's host, as the fleet.
func (c *cluster) refound(ctx context.Context, lost []*master, spare *host) error {
	fresh, err := c.renew(spare)
	if err != nil {
		return err
	}
	c.mu.Lock()
	var fleet []seat
	for _, s := range c.seats {
		if !slices.Contains(lost, s.master) {
			fleet = append(fleet, s)
		}
	}
	fleet = append(fleet, seat{fresh.addr, fresh}) // the redlockds that run know no other name of it
	c.mu.Unlock()
	ctx = context.WithoutCancel(ctx) // what is lost must not come back, so this is done to its end
	err = insist(ctx, func() error {
		process, err := c.redlockdOver(fleet, "refound.toml", "members", "refound", "--yes")
		if err != nil {
			return err
		}
		_, err = c.runCommand(ctx, process)
		return err
	})
	if err != nil {
		return errors.Join(err, atOnce(lost, (*master).restart)) // empty, at its address: the other way out of it
	}
	c.mu.Lock()
	c.seats, c.listed = fleet, slices.Clone(fleet)
	c.spares = append(slices.DeleteFunc(c.spares, func(m *master) bool { return m == fresh }), lost...)
	c.mu.Unlock()
	for _, m := range lost {
		if _, err := c.renew(m.host); err != nil {
			return err
		}
	}
	return nil
}
