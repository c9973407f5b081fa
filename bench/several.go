package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"redlockd/redlock/redisproc"
)

// Several: some clients want six resources together, with MLOCK … WAIT, while many others lock one of these each and want it again as soon as
// they have released it. Is the MLOCK granted, and after which time?
const (
	severalResources = 6
	severalSingle    = 24 // clients that lock one
	severalTogether  = 2  // clients that lock all
	severalHold      = time.Millisecond
	severalWait      = 20 * time.Second
)

// severalWays say at which redlockd those are who want all; the others are at the first.
var severalWays = []string{"at the same redlockd", "at another redlockd"}

// severalRound is one cell.
type severalRound struct {
	SinglePerSec float64     `json:"single_per_sec"`
	AllPerSec    float64     `json:"all_per_sec"`
	WaitUs       percentiles `json:"wait_us"`    // of MLOCKs that were granted
	GaveUp       int         `json:"gave_up"`    // MLOCKs whose wait ended with null
	Violations   int         `json:"violations"` // grants while another client held the resource
	Failures     failures    `json:"failures"`
}

// severalRow is one way; figures are medians of the rounds, counts are sums.
type severalRow struct {
	Way string `json:"way"`
	severalRound
	Rounds []severalRound `json:"rounds"`
}

func runSeveral(ctx context.Context, b *bench, r *report) error {
	cells, err := hotRounds(b, scenarioSeveral, severalWays, func(i int) (severalRound, error) { return runSeveralCell(ctx, b, i) })
	for i, rounds := range cells {
		r.Several = append(r.Several, severalRow{severalWays[i], medians(rounds), rounds})
	}
	return err
}

// runSeveralCell measures with those who want all at the redlockd of that index. No CPU is measured, so the clients are in this process.
func runSeveralCell(ctx context.Context, b *bench, index int) (r severalRound, err error) {
	c, err := startCluster(ctx, masterCount, b.program)
	if err != nil {
		return r, err
	}
	defer c.close()
	if err := c.addProxy(ctx, b.program, redisproc.Addrs(c.masters)); err != nil {
		return r, err
	}
	var (
		clients    lockClients
		running    sync.WaitGroup
		resources  []any
		holders    [severalResources]atomic.Int32
		violations atomic.Int32
		single     atomic.Int32
		mu         sync.Mutex
		waits      []uint32
	)
	for i := range severalResources {
		resources = append(resources, "bench:several:"+strconv.Itoa(i))
	}
	began := time.Now()
	over := func() bool { return time.Since(began) >= b.hotDuration || ctx.Err() != nil }
	// client locks, holds and releases until the time is over. Its name in the table of holders is not 0.
	client := func(addr string, name int32, wanted []int, granted func(wait time.Duration)) {
		conn := clients.dial(addr, severalWait)
		defer conn.Close()
		lock, unlock := []any{"MLOCK", len(wanted)}, []any{"MUNLOCK", len(wanted)}
		for _, i := range wanted {
			lock, unlock = append(lock, resources[i]), append(unlock, resources[i])
		}
		lock = append(lock, lockTTL.Milliseconds(), "WAIT", severalWait.Milliseconds())
		unlock = append(unlock, nil)
		for !over() {
			reply, took := conn.lock(ctx, 2, lock...)
			if reply == nil {
				continue
			}
			for _, i := range wanted {
				if !holders[i].CompareAndSwap(0, name) {
					violations.Add(1)
				}
			}
			granted(took)
			time.Sleep(severalHold)
			for _, i := range wanted {
				holders[i].CompareAndSwap(name, 0)
			}
			unlock[len(unlock)-1] = reply[0]
			conn.unlock(ctx, unlock...)
		}
	}
	all := make([]int, severalResources)
	for i := range all {
		all[i] = i
	}
	for n := range severalSingle {
		running.Go(func() {
			client(c.proxies[0].addr, int32(n+1), all[n%severalResources:][:1], func(time.Duration) { single.Add(1) })
		})
	}
	for n := range severalTogether {
		running.Go(func() {
			client(c.proxies[index].addr, int32(severalSingle+n+1), all, func(wait time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				waits = append(waits, uint32(wait.Microseconds()))
			})
		})
	}
	running.Wait()
	elapsed := time.Since(began).Seconds()
	r = severalRound{
		SinglePerSec: float64(single.Load()) / elapsed,
		AllPerSec:    float64(len(waits)) / elapsed,
		WaitUs:       percentilesOf(slices.Values(waits)),
		GaveUp:       int(clients.gaveUp.Load()), Violations: int(violations.Load()), Failures: clients.log.count(),
	}
	return r, ctx.Err()
}

func severalTable(rows []severalRow) table {
	t := table{
		title: fmt.Sprintf("Several: %d clients want %d resources together (MLOCK … WAIT %.0fs), %d others lock one of these each, 1 ms hold, no think",
			severalTogether, severalResources, severalWait.Seconds(), severalSingle),
		note:   "Medians of the rounds. Wait: of an MLOCK that was granted, in µs. Gave up: MLOCKs whose wait ended with null.",
		head:   []string{"those who want all are", "single locks/s", "MLOCKs/s", "wait p50 µs", "p99", "max", "gave up", "errors", "violations"},
		left:   1,
		joined: true,
	}
	for _, r := range rows {
		t.add(r.Way, r.SinglePerSec, r.AllPerSec, r.WaitUs.P50, r.WaitUs.P99, r.WaitUs.Max, r.GaveUp, r.Failures.Count, r.Violations)
	}
	return t
}
