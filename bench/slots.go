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

// Slots: 64 clients compete for 8 slots of one resource with LOCK … SLOTS, and for 8 resources, 8 clients each. What does the semaphore cost
// beside plain locks?
const (
	slotsCount   = 8
	slotsClients = 64
	slotsHold    = time.Millisecond
	slotsThink   = 5 * time.Millisecond
	slotsWait    = 20 * time.Second
)

// slotsWay is one row: slots or plain locks, of clients spread over so many redlockd.
type slotsWay struct {
	name    string
	slots   bool
	proxies int
}

func (w slotsWay) String() string { return w.name }

var slotsWays = []slotsWay{
	{"8 resources, 1 redlockd", false, 1},
	{"8 slots, 1 redlockd", true, 1},
	{"8 resources, 2 redlockd", false, 2},
	{"8 slots, 2 redlockd", true, 2},
}

// slotsRound is one cell.
type slotsRound struct {
	PerSec     float64     `json:"locks_per_sec"`
	WaitUs     percentiles `json:"wait_us"`
	Least      int         `json:"acquisitions_min"` // of the unluckiest client
	Most       int         `json:"acquisitions_max"` // of the luckiest
	GaveUp     int         `json:"gave_up"`
	Violations int         `json:"violations"` // grants while another client held the slot or the resource
	Failures   failures    `json:"failures"`
}

// slotsRow is one way; figures are medians of the rounds, counts are sums.
type slotsRow struct {
	Way string `json:"way"`
	slotsRound
	Rounds []slotsRound `json:"rounds"`
}

func runSlots(ctx context.Context, b *bench, r *report) error {
	cells, err := hotRounds(b, scenarioSlots, slotsWays, func(i int) (slotsRound, error) { return runSlotsCell(ctx, b, slotsWays[i]) })
	for i, rounds := range cells {
		r.Slots = append(r.Slots, slotsRow{slotsWays[i].name, medians(rounds), rounds})
	}
	return err
}

// runSlotsCell measures one way. No CPU is measured, so the clients are in this process.
func runSlotsCell(ctx context.Context, b *bench, way slotsWay) (r slotsRound, err error) {
	c, err := startCluster(ctx, masterCount, b.program)
	if err != nil {
		return r, err
	}
	defer c.close()
	for len(c.proxies) < way.proxies {
		if err := c.addProxy(ctx, b.program, redisproc.Addrs(c.masters)); err != nil {
			return r, err
		}
	}
	var (
		clients    lockClients
		running    sync.WaitGroup
		holders    sync.Map // by resource: *atomic.Int32, how many hold it
		violations atomic.Int32
		grants     [slotsClients]int
		mu         sync.Mutex
		waits      []uint32
	)
	began := time.Now()
	for n := range slotsClients {
		running.Go(func() {
			conn := clients.dial(c.proxies[n%way.proxies].addr, slotsWait)
			defer conn.Close()
			// A redlockd has clients of every resource.
			resource := "bench:slots:" + strconv.Itoa(n/way.proxies%slotsCount)
			lock, want := []any{"LOCK", resource, lockTTL.Milliseconds(), "WAIT", slotsWait.Milliseconds()}, 2
			if way.slots {
				lock[1], want = "bench:slots", 3
				lock = append(lock, "SLOTS", slotsCount)
			}
			for time.Since(began) < b.hotDuration && ctx.Err() == nil {
				reply, took := conn.lock(ctx, want, lock...)
				if reply == nil {
					continue
				}
				held := resource
				if way.slots {
					held, _ = reply[2].(string)
				}
				count, _ := holders.LoadOrStore(held, new(atomic.Int32))
				if count.(*atomic.Int32).Add(1) > 1 {
					violations.Add(1)
				}
				grants[n]++
				mu.Lock()
				waits = append(waits, uint32(took.Microseconds()))
				mu.Unlock()
				time.Sleep(slotsHold)
				count.(*atomic.Int32).Add(-1)
				conn.unlock(ctx, "UNLOCK", held, reply[0])
				time.Sleep(slotsThink)
			}
		})
	}
	running.Wait()
	r = slotsRound{
		PerSec: float64(len(waits)) / time.Since(began).Seconds(),
		WaitUs: percentilesOf(slices.Values(waits)),
		Least:  slices.Min(grants[:]), Most: slices.Max(grants[:]),
		GaveUp: int(clients.gaveUp.Load()), Violations: int(violations.Load()), Failures: clients.log.count(),
	}
	return r, ctx.Err()
}

func slotsTable(rows []slotsRow) table {
	t := table{
		title: fmt.Sprintf("Slots: %d clients compete for %d slots of one resource (LOCK … SLOTS %d), or for %d resources, %d ms hold, %d ms think",
			slotsClients, slotsCount, slotsCount, slotsCount, slotsHold.Milliseconds(), slotsThink.Milliseconds()),
		note:   "Medians of the rounds. Fairness: the fewest acquisitions of a client ÷ the most.",
		head:   []string{"clients compete for", "locks/s", "wait mean µs", "p50", "p99", "max", "fairness", "gave up", "errors", "violations"},
		left:   1,
		joined: true,
	}
	for _, r := range rows {
		t.add(r.Way, r.PerSec, r.WaitUs.Mean, r.WaitUs.P50, r.WaitUs.P99, r.WaitUs.Max,
			fmt.Sprintf("%.2f", ratio(float64(r.Least), float64(r.Most))), r.GaveUp, r.Failures.Count, r.Violations)
	}
	return t
}
