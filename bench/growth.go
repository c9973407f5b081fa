package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Growth: how redlockd's figures follow the number of masters, of live locks, of waiters, and of commands in a pipeline.
const (
	// growthCallers share rueidis's pipelines, as redlockd-pipelined does.
	growthCallers = 64
	// batchCallers have a connection each and send pipelines of their own.
	batchCallers = 8
	// heldTTL outlasts the filling and the measuring.
	heldTTL = 30 * time.Minute
	// waiterTTL is both what waiters ask for and the TTL of the lock in their way.
	waiterTTL = time.Minute
)

// What held locks take: measured with 1 000 000, and rounded up. One in redlockd 0.8 kB, in each of five masters 0.2 kB, and in the
// client that takes them its name.
const (
	heldBytes    = 2 << 10
	heldBytesMin = 256 << 20
)

// requireMemory refuses to hold more locks than the machine has free memory for.
func requireMemory(held int) error {
	free, _, _ := strings.Cut(fieldOf(readFile("/proc/meminfo"), "MemAvailable"), " ")
	kb, err := strconv.ParseInt(free, 10, 64)
	if err != nil {
		return nil // a system that does not tell
	}
	if need := int64(held)*heldBytes + heldBytesMin; need > kb<<10 {
		return fmt.Errorf("%d held locks need %d MB in all processes, %d MB are free: free some, or ask for fewer", held, need>>20, kb>>10)
	}
	return nil
}

// growthFigures are all points, each measured on its own, medians of its rounds.
type growthFigures struct {
	Masters []growthPoint  `json:"masters"` // against how many there are
	Held    []growthPoint  `json:"held"`    // against how many other locks are held
	Depth   []growthPoint  `json:"depth"`   // against LOCKs sent at once on each of batchCallers connections
	Waiters []waiterPoint  `json:"waiters"`
	Renewed []renewedPoint `json:"renewed"`
}

// growthRound is one cell.
type growthRound struct {
	PairsPerSec float64     `json:"pairs_per_sec"`
	LockUs      percentiles `json:"lock_us"` // of a whole pipeline, against depth
	CPU         cpuSplit    `json:"cpu_per_pair"`
	RedlockdMB  float64     `json:"redlockd_mb"` // resident, afterwards
	MasterMB    float64     `json:"master_mb"`   // of one master, resident, afterwards
	Failures    failures    `json:"failures"`
}

// growthPoint is one number of masters, of held locks, or of commands in a pipeline.
type growthPoint struct {
	N int `json:"n"`
	growthRound
	Rounds []growthRound `json:"rounds"`
}

// waiterRound is one cell: a crowd that waits for locks which nobody gives back.
type waiterRound struct {
	RedlockdMB         float64 `json:"redlockd_mb"`          // resident, with the crowd waiting
	KBPerWaiter        float64 `json:"kb_per_waiter"`        // with its connection
	RedlockdPercent    float64 `json:"redlockd_cpu_percent"` // of one core, while nothing but waiting happens
	MastersPercent     float64 `json:"masters_cpu_percent"`
	CommandsPerSec     float64 `json:"commands_per_sec"` // of all masters
	IdleCommandsPerSec float64 `json:"idle_commands_per_sec"`
}

// waiterPoint is a number of waiters on as many resources, or on one.
type waiterPoint struct {
	Waiters   int `json:"waiters"`
	Resources int `json:"resources"`
	waiterRound
	Rounds []waiterRound `json:"rounds"`
}

// growthCells is how many measurements the scenario has.
func growthCells(o *options) int {
	return o.growthRounds * (len(o.growthMasters) + len(o.growthHeld) + len(o.growthDepths) + 2*len(o.growthWaiters) + len(o.growthRenewed))
}

func runGrowth(ctx context.Context, b *bench, r *report) error {
	f := new(growthFigures)
	for _, part := range []func(context.Context, *bench, *growthFigures) error{growMasters, growDepth, growHeld, growWaiters, growRenewed} {
		b.progress.round(scenarioGrowth)
		if err := part(ctx, b, f); err != nil {
			return err
		}
	}
	r.Growth = f
	return nil
}

func growMasters(ctx context.Context, b *bench, f *growthFigures) error {
	for _, n := range b.growthMasters {
		c, err := startCluster(ctx, n, b.program)
		if err != nil {
			return err
		}
		point, err := b.growthCell(ctx, c, n, loadSpec{Callers: growthCallers}, fmt.Sprintf("%d masters", n))
		c.close()
		if err != nil {
			return err
		}
		f.Masters = append(f.Masters, point)
	}
	return nil
}

func growDepth(ctx context.Context, b *bench, f *growthFigures) error {
	c, err := startCluster(ctx, masterCount, b.program)
	if err != nil {
		return err
	}
	defer c.close()
	for _, depth := range b.growthDepths {
		point, err := b.growthCell(ctx, c, depth, loadSpec{Callers: batchCallers, Depth: depth}, fmt.Sprintf("%d commands in a pipeline", depth))
		if err != nil {
			return err
		}
		f.Depth = append(f.Depth, point)
	}
	return nil
}

// growHeld fills one redlockd with more and more locks.
func growHeld(ctx context.Context, b *bench, f *growthFigures) error {
	c, err := startCluster(ctx, masterCount, b.program.with(leaveAtOnce, "REDLOCKD_LOCKS_MAX_TTL="+heldTTL.String()))
	if err != nil {
		return err
	}
	defer c.close()
	held := 0
	for _, n := range b.growthHeld {
		if err := hold(ctx, c.proxies[0].addr, "bench:held:", held, n, heldTTL); err != nil {
			return err
		}
		held = n
		point, err := b.growthCell(ctx, c, n, loadSpec{Callers: growthCallers}, fmt.Sprintf("%d locks held", n))
		if err != nil {
			return err
		}
		f.Held = append(f.Held, point)
	}
	return nil
}

// growthCell measures the rounds of one point.
func (b *bench) growthCell(ctx context.Context, c *cluster, n int, spec loadSpec, what string) (growthPoint, error) {
	spec.Scenario, spec.Target, spec.Warmup, spec.Duration = scenarioUncontended, targetRedlockdPipelined, b.warmup, b.growthDuration
	point := growthPoint{N: n}
	for round := range b.growthRounds {
		b.progress.step("growth, %s, round %d of %d", what, round+1, b.growthRounds)
		spec.Prefix = fmt.Sprintf("bench:growth:%d:%d:", n, round)
		var figures loadFigures
		u, err := c.measured(ctx, spec, &figures)
		if err != nil {
			return point, err
		}
		redlockd, err := processRSS(c.proxies[0].pid())
		if err != nil {
			return point, err
		}
		master, err := processRSS(c.masters[0].Pid())
		if err != nil {
			return point, err
		}
		depth := max(spec.Depth, 1)
		point.Rounds = append(point.Rounds, growthRound{
			PairsPerSec: figures.PairsPerSec * float64(depth),
			LockUs:      figures.LockUs,
			CPU:         u.per(figures.CPU, float64(figures.Pairs*depth)),
			RedlockdMB:  megabytes(redlockd),
			MasterMB:    megabytes(master),
			Failures:    figures.Failures,
		})
	}
	point.growthRound = medians(point.Rounds)
	return point, nil
}

func growWaiters(ctx context.Context, b *bench, f *growthFigures) error {
	for _, n := range b.growthWaiters {
		for _, resources := range []int{1, n} {
			point := waiterPoint{Waiters: n, Resources: resources}
			for round := range b.growthRounds {
				b.progress.step("growth, %d waiters on %d resources, round %d of %d", n, resources, round+1, b.growthRounds)
				cell, err := runWaiters(ctx, b, n, resources)
				if err != nil {
					return fmt.Errorf("%d waiters on %d resources: %w", n, resources, err)
				}
				point.Rounds = append(point.Rounds, cell)
			}
			point.waiterRound = medians(point.Rounds)
			f.Waiters = append(f.Waiters, point)
		}
	}
	return nil
}

// runWaiters measures a crowd that waits, in front of a redlockd of its own: memory once used is not given back.
func runWaiters(ctx context.Context, b *bench, waiters, resources int) (r waiterRound, err error) {
	c, err := startCluster(ctx, masterCount, b.program.with(crowdSettings(waiters)...))
	if err != nil {
		return r, err
	}
	defer c.close()
	counter := newCommandCounter(c)
	defer counter.close()
	addr, pid := c.proxies[0].addr, c.proxies[0].pid()
	idle, err := c.watch(ctx, counter, b.growthDuration)
	if err != nil {
		return r, err
	}
	r.IdleCommandsPerSec = idle.CommandsPerSec
	before, err := processRSS(pid)
	if err != nil {
		return r, err
	}
	if err := hold(ctx, addr, "bench:waited:", 0, resources, waiterTTL); err != nil {
		return r, err
	}
	waiting, err := dialCrowd(ctx, addr, waiters)
	if err != nil {
		return r, err
	}
	defer waiting.close()
	err = waiting.wait(ctx, addr, func(i int) string {
		return fmt.Sprintf("LOCK bench:waited:%d %d WAIT %d", i%resources, waiterTTL.Milliseconds(), waiterTTL.Milliseconds())
	})
	if err != nil {
		return r, err
	}
	// Each head has asked once, at the beginning, and asks again after a random pause of 2 s to 8 s. Neither is to be taken for the whole.
	if err := sleep(ctx, crowdSettles); err != nil {
		return r, err
	}
	busy, err := c.watch(ctx, counter, b.growthDuration)
	if err != nil {
		return r, err
	}
	after, err := processRSS(pid)
	if err != nil {
		return r, err
	}
	r.RedlockdMB = megabytes(after)
	r.KBPerWaiter = float64(after-before) / 1024 / float64(waiters)
	r.RedlockdPercent, r.MastersPercent, r.CommandsPerSec = busy.RedlockdPercent, busy.MastersPercent, busy.CommandsPerSec
	return r, nil
}

// crowdSettles is how long it takes many clients that begin to wait to come to rest.
const crowdSettles = 10 * time.Second

// watch tells what the servers do during d.
func (c *cluster) watch(ctx context.Context, counter *commandCounter, d time.Duration) (r waiterRound, err error) {
	before, err := c.read(ctx, targetRedlockd, counter)
	if err != nil {
		return r, err
	}
	if err := sleep(ctx, d); err != nil {
		return r, err
	}
	after, err := c.read(ctx, targetRedlockd, counter)
	if err != nil {
		return r, err
	}
	u := after.since(before)
	watched := u.elapsed.Seconds()
	r.RedlockdPercent = 100 * u.redlockd.Seconds() / watched
	r.MastersPercent = 100 * u.masters.Seconds() / watched
	r.CommandsPerSec = float64(u.commands) / watched
	return r, nil
}

// leaveAtOnce keeps a redlockd from waiting, when it is ended, for locks that nobody will release.
const leaveAtOnce = "REDLOCKD_SERVER_DRAIN_TIMEOUT=50ms"

// crowdSettings let a redlockd take n connections and the few of the bench.
func crowdSettings(n int) []string {
	return []string{leaveAtOnce, fmt.Sprintf("REDLOCKD_SERVER_MAX_CLIENTS=%d", n+crowdReserve)}
}

func megabytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
