package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Readers: 64 callers lock one resource with LOCK … SHARED and release it at once, beside 64 callers with a resource each. What does a reader
// cost beside a plain lock, and how long does a writer wait that comes every 100 ms?
const (
	readersCallers     = 64
	readersWriterEvery = 100 * time.Millisecond
	readersWriterHold  = time.Millisecond
	readersWait        = 20 * time.Second
)

// readersWay is one row.
type readersWay struct {
	name   string
	shared bool // all callers lock one resource
	writer bool // and a writer comes
}

func (w readersWay) String() string { return w.name }

// readersWays begins with the one that the others are compared with.
var readersWays = []readersWay{
	{"64 resources, LOCK", false, false},
	{"1 resource, SHARED", true, false},
	{"1 resource, SHARED, and a writer", true, true},
}

// readersRound is one cell.
type readersRound struct {
	PerSec     float64     `json:"pairs_per_sec"` // of the callers; the writer's are not among them
	LockUs     percentiles `json:"lock_us"`
	CPU        cpuSplit    `json:"cpu_per_pair"`
	WriterUs   percentiles `json:"writer_wait_us"` // of the writer, from its LOCK … WAIT to the grant
	Writes     int         `json:"writes"`
	Least      int         `json:"pairs_min"` // of the unluckiest caller
	Most       int         `json:"pairs_max"` // of the luckiest
	GaveUp     int         `json:"gave_up"`
	Violations int         `json:"violations"` // grants to a writer beside readers, or to readers beside the writer
	Failures   failures    `json:"failures"`
}

// readersRow is one way; figures are medians of the rounds, counts are sums.
type readersRow struct {
	Way string `json:"way"`
	readersRound
	ToPlain float64        `json:"to_plain"` // pairs/s ÷ those of the first way in the same round, the median
	Rounds  []readersRound `json:"rounds"`
}

func runReaders(ctx context.Context, b *bench, r *report) error {
	cells, err := hotRounds(b, scenarioReaders, readersWays, func(i int) (readersRound, error) { return runReadersCell(ctx, b, readersWays[i]) })
	for i, rounds := range cells {
		r.Readers = append(r.Readers, summarizeReaders(readersWays[i], rounds, cells[0]))
	}
	return err
}

func summarizeReaders(way readersWay, rounds, plain []readersRound) readersRow {
	return readersRow{way.name, medians(rounds), medianRatio(rounds, plain, func(r readersRound) float64 { return r.PerSec }), rounds}
}

// runReadersCell measures one way. The clients are in this process, whose CPU is the client's.
func runReadersCell(ctx context.Context, b *bench, way readersWay) (r readersRound, err error) {
	c, err := startCluster(ctx, masterCount, b.program)
	if err != nil {
		return r, err
	}
	defer c.close()
	var (
		clients     lockClients
		running     sync.WaitGroup
		writing     atomic.Bool
		reading     atomic.Int32
		violations  atomic.Int32
		pairs       [readersCallers]int
		waits       [readersCallers][]uint32
		writerWaits []uint32
	)
	servers, err := c.cpu(targetRedlockd)
	if err != nil {
		return r, err
	}
	own, began := ownCPU(), time.Now()
	over := func() bool { return time.Since(began) >= b.hotDuration || ctx.Err() != nil }
	// client locks and releases until the time is over. held runs while it has the lock.
	client := func(resource string, mode []any, pause func(), held func(wait time.Duration)) {
		conn := clients.dial(c.proxies[0].addr, readersWait)
		defer conn.Close()
		lock := append([]any{"LOCK", resource, lockTTL.Milliseconds()}, mode...)
		for !over() {
			pause()
			if reply, took := conn.lock(ctx, 2, lock...); reply != nil {
				held(took)
				conn.unlock(ctx, "UNLOCK", resource, reply[0])
			}
		}
	}
	for n := range readersCallers {
		running.Go(func() {
			resource, mode := "bench:readers:"+strconv.Itoa(n), []any(nil)
			if way.shared {
				resource, mode = "bench:readers", []any{"SHARED"}
			}
			if way.writer {
				mode = append(mode, "WAIT", readersWait.Milliseconds())
			}
			client(resource, mode, func() {}, func(wait time.Duration) {
				reading.Add(1)
				if way.writer && writing.Load() {
					violations.Add(1)
				}
				pairs[n]++
				waits[n] = append(waits[n], uint32(wait.Microseconds()))
				reading.Add(-1)
			})
		})
	}
	if way.writer {
		running.Go(func() {
			tick := time.NewTicker(readersWriterEvery)
			defer tick.Stop()
			client("bench:readers", []any{"WAIT", readersWait.Milliseconds()}, func() { <-tick.C }, func(wait time.Duration) {
				writing.Store(true)
				if reading.Load() > 0 {
					violations.Add(1)
				}
				writerWaits = append(writerWaits, uint32(wait.Microseconds()))
				time.Sleep(readersWriterHold)
				writing.Store(false)
			})
		})
	}
	running.Wait()
	elapsed, own := time.Since(began), ownCPU()-own
	after, err := c.cpu(targetRedlockd)
	if err != nil {
		return r, err
	}
	all := slices.Concat(waits[:]...)
	r = readersRound{
		PerSec:   float64(len(all)) / elapsed.Seconds(),
		LockUs:   percentilesOf(slices.Values(all)),
		CPU:      serverCPU{redlockd: after.redlockd - servers.redlockd, masters: after.masters - servers.masters}.per(own, float64(len(all))),
		WriterUs: percentilesOf(slices.Values(writerWaits)),
		Writes:   len(writerWaits),
		Least:    slices.Min(pairs[:]), Most: slices.Max(pairs[:]),
		GaveUp: int(clients.gaveUp.Load()), Violations: int(violations.Load()), Failures: clients.log.count(),
	}
	return r, ctx.Err()
}

func readersTable(rows []readersRow) table {
	t := table{
		title: fmt.Sprintf("Readers: %d callers LOCK … SHARED and UNLOCK one resource, or LOCK and UNLOCK one each; a writer comes every %d ms with WAIT, %d ms hold",
			readersCallers, readersWriterEvery.Milliseconds(), readersWriterHold.Milliseconds()),
		note: "Medians of the rounds. Pairs and LOCK are the callers'; where a writer comes, they WAIT. ÷ first: in the same round. " +
			"CPU µs: per pair of the callers.",
		head: []string{"callers lock", "pairs/s", "÷ first", "LOCK p50 µs", "p99", "max", "CPU client", "redlockd", "masters",
			"writer waits p50 µs", "max", "writes", "gave up", "errors", "violations"},
		left:   1,
		joined: true,
	}
	for _, r := range rows {
		t.add(r.Way, r.PerSec, fmt.Sprintf("%.2f", r.ToPlain), r.LockUs.P50, r.LockUs.P99, r.LockUs.Max, r.CPU.ClientUs, r.CPU.RedlockdUs, r.CPU.RedisUs,
			r.WriterUs.P50, r.WriterUs.Max, r.Writes, r.GaveUp, r.Failures.Count, r.Violations)
	}
	return t
}
