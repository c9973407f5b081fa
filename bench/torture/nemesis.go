package main

// The nemesis starts one fault after another by its seed, each for a while, so that some overlap. What it does stays within what redlockd's
// README assumes: clocks of at most two masters are off at once, and nobody deletes a lock's key by hand. All else may come together: masters
// that forget cost time and nothing else.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// strike is one fault that happens.
type strike struct {
	kind    string
	parties []string // the hosts that the timeline shows it at
	detail  string
	length  time.Duration
	begin   func(context.Context) error
	end     func() error // nil: nothing is to be undone
	// reserved are the hosts that no other fault of processes may touch meanwhile, and for rest after its end.
	reserved []string
	rest     time.Duration

	began, ended int64
	failed       error
}

func (s *strike) String() string {
	text := s.kind + ": " + strings.Join(s.parties, " ")
	if s.detail != "" {
		text += ", " + s.detail
	}
	return text
}

type nemesis struct {
	cluster *cluster
	history *history
	random  *rand.Rand // of the scheduling goroutine
	options options
	deck    []int // kinds that are still to come, until all have come and it is filled again

	mu      sync.Mutex
	busy    map[string]bool
	strikes []*strike
	running sync.WaitGroup
}

func newNemesis(c *cluster, h *history, o options) *nemesis {
	return &nemesis{cluster: c, history: h, random: rand.New(rand.NewPCG(o.seed, 0x6e656d)), options: o, busy: map[string]bool{}}
}

// run starts faults until the context ends, and returns when all are undone.
func (n *nemesis) run(ctx context.Context) {
	defer n.running.Wait()
	for {
		gap := n.options.every/4 + time.Duration(n.random.Int64N(int64(n.options.every)*3/2))
		select {
		case <-ctx.Done():
			return
		case <-time.After(gap):
		}
		if s := n.next(); s != nil {
			n.running.Go(func() { n.strike(ctx, s) })
		}
	}
}

// next is the first fault of the deck whose hosts are free. Every kind comes once before one comes again.
func (n *nemesis) next() *strike {
	if len(n.deck) == 0 {
		n.deck = n.random.Perm(len(n.options.faults))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, kind := range n.deck {
		if s := n.options.faults[kind].strike(n); s != nil {
			s.kind = n.options.faults[kind].name
			n.deck = slices.Delete(n.deck, i, i+1)
			for _, name := range s.reserved {
				n.busy[name] = true
			}
			n.strikes = append(n.strikes, s)
			return s
		}
	}
	return nil
}

// strike does a fault and undoes it, early if the context ends.
func (n *nemesis) strike(ctx context.Context, s *strike) {
	began := monotonic()
	err := s.begin(ctx)
	if s.length > 0 && err == nil {
		select {
		case <-ctx.Done():
		case <-time.After(s.length):
		}
	}
	if s.end != nil {
		if undone := s.end(); err == nil {
			err = undone
		}
	}
	n.mu.Lock()
	s.began, s.ended, s.failed = began, monotonic(), err
	n.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(s.rest):
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range s.reserved {
		delete(n.busy, name)
	}
}

// between draws a duration.
func (n *nemesis) between(least, most time.Duration) time.Duration {
	return least + time.Duration(n.random.Int64N(int64(most-least)))
}

// some draws at least one and at most so many, few more often than many.
func some[T any](n *nemesis, all []T, most int) []T {
	count := 1
	for count < min(most, len(all)) && n.random.IntN(2) == 0 {
		count++
	}
	var drawn []T
	for _, i := range n.random.Perm(len(all))[:count] {
		drawn = append(drawn, all[i])
	}
	return drawn
}

// freeMasters are those that no fault of processes has. The mutex is held.
func (n *nemesis) freeMasters() (free []*master) {
	for _, m := range n.cluster.masters() {
		if !n.busy[m.host.name] {
			free = append(free, m)
		}
	}
	return free
}

func (n *nemesis) freeRedlockds() (free []*redlockd) {
	for _, r := range n.cluster.redlockds {
		if !n.busy[r.host.name] {
			free = append(free, r)
		}
	}
	return free
}

func (n *nemesis) freeClients() (free []*client) {
	for _, c := range n.cluster.clients {
		if !n.busy[c.host.name] {
			free = append(free, c)
		}
	}
	return free
}

// fault is a kind of faults. strike draws its hosts and times; nil: those it needs are not free now. The mutex of the nemesis is held.
type fault struct {
	name   string
	family string // for the colour
	strike func(*nemesis) *strike
}

func hostNames[T any](all []T, host func(T) *host) (names []string) {
	for _, one := range all {
		names = append(names, host(one).name)
	}
	slices.Sort(names)
	return names
}

func masterHost(m *master) *host     { return m.host }
func redlockdHost(r *redlockd) *host { return r.host }
func clientHost(c *client) *host     { return c.host }

// onMasters is a fault of processes at some masters that are free: do at each, then undo.
func (n *nemesis) onMasters(most int, length time.Duration, do func(context.Context, *master) error, undo func(*master) error) *strike {
	free := n.freeMasters()
	if len(free) == 0 {
		return nil
	}
	return n.atMasters(some(n, free, most), length, do, undo)
}

func (n *nemesis) atMasters(masters []*master, length time.Duration, do func(context.Context, *master) error, undo func(*master) error) *strike {
	names := hostNames(masters, masterHost)
	s := &strike{parties: names, reserved: names, length: length, begin: func(ctx context.Context) error {
		return atOnce(masters, func(m *master) error { return do(ctx, m) })
	}}
	if undo != nil {
		s.end = func() error { return atOnce(masters, undo) }
	}
	return s
}

// atOnce does something at all, at the same time, and returns an error of one of them.
func atOnce[T any](all []T, do func(T) error) error {
	errs := make(chan error, len(all))
	for _, one := range all {
		go func() { errs <- do(one) }()
	}
	var failed error
	for range all {
		if err := <-errs; err != nil {
			failed = err
		}
	}
	return failed
}

// command is what masters are told.
func command(args ...any) func(context.Context, *master) error {
	return func(ctx context.Context, m *master) error {
		if err := m.command(context.WithoutCancel(ctx), args...); err != nil {
			return fmt.Errorf("%v at %s: %w", args, m.host.name, err)
		}
		return nil
	}
}
