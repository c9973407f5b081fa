package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// The hot key: all clients want one resource, hold it for hotHold and think for hotThink before they want it again.
// Without the thinking a client that asks again at once slips in before everybody else and hides what a hand-over costs.
const (
	hotHold  = time.Millisecond
	hotThink = 5 * time.Millisecond
)

// hotKeyFigures are the measurements of one hot key cell.
type hotKeyFigures struct {
	AcquisitionsPerSec float64 `json:"acquisitions_per_sec"`
	// HandOverUs is the time that the resource lay unused while somebody wanted it, when it then went to ANOTHER client:
	// from the release's call, or from the first arrival if nobody was waiting then, to the next grant.
	HandOverUs percentiles `json:"hand_over_us"`
	HandOvers  int         `json:"hand_overs"` // to another client
	// AcrossUs are those hand-overs that went to a client of another redlockd.
	AcrossUs percentiles `json:"across_us"`
	Across   int         `json:"across"`
	Grants   int         `json:"grants"`  // all of them, also those after the end
	WaitUs   percentiles `json:"wait_us"` // from the wish to the grant
	// The luckiest and the unluckiest client.
	AcquisitionsMin int `json:"acquisitions_min"`
	AcquisitionsMax int `json:"acquisitions_max"`
	// The luckiest and the unluckiest redlockd: all clients of one together.
	ProxyMin   int           `json:"proxy_min"`
	ProxyMax   int           `json:"proxy_max"`
	GaveUp     int           `json:"gave_up"`    // acquisitions that ended without the lock, after all tries
	Violations int           `json:"violations"` // grants while another client held the resource
	Failures   failures      `json:"failures"`
	CPU        time.Duration `json:"cpu_ns"` // of the load generator
}

// fairness is min/max, 1 when every client got the same.
func (f hotKeyFigures) fairness() float64 {
	return ratio(float64(f.AcquisitionsMin), float64(f.AcquisitionsMax))
}

// hotKeyRound is one cell with the CPU per acquisition.
type hotKeyRound struct {
	hotKeyFigures
	CPUSplit cpuSplit `json:"cpu_per_acquisition"`
}

// perGrant divides what a cell cost by all its grants: those after the end are in the CPU time too.
func (f hotKeyFigures) perGrant(cpu serverCPU) cpuSplit { return cpu.per(f.CPU, float64(f.Grants)) }

// hotKeyRow is one target at one number of clients.
type hotKeyRow struct {
	Target  string `json:"target"`
	Clients int    `json:"clients"`

	AcquisitionsPerSec float64     `json:"acquisitions_per_sec"`
	HandOverUs         percentiles `json:"hand_over_us"`
	WaitUs             percentiles `json:"wait_us"`
	Fairness           float64     `json:"fairness"`
	CPU                cpuSplit    `json:"cpu_per_acquisition"`
	GaveUp             int         `json:"gave_up"`    // of all rounds
	Violations         int         `json:"violations"` // of all rounds
	Failures           failures    `json:"failures"`   // of all rounds
	// HandOverFasterThanRedsync is redsync's mean hand-over time divided by ours, the median of the rounds; 0 without redsync.
	HandOverFasterThanRedsync float64 `json:"hand_over_faster_than_redsync"`

	Rounds []hotKeyRound `json:"rounds"`
}

// runHotKey measures the rounds of this scenario, targets in turn.
func runHotKey(ctx context.Context, b *bench, r *report) error {
	targets := b.quorumTargets()
	c, err := b.startCluster(ctx, targets)
	if err != nil {
		return err
	}
	defer c.close()
	o, p := b.options, b.progress
	rows := grid(o.clients, targets, func(clients int, target string) *hotKeyRow {
		return &hotKeyRow{Target: target, Clients: clients}
	})
	for round := range o.hotRounds {
		p.round(scenarioHotKey)
		for _, row := range inTurn(rows, len(targets), round) {
			p.step("hot key, round %d of %d: %d clients, %s", round+1, o.hotRounds, row.Clients, row.Target)
			cell, err := runHotKeyCell(ctx, c, loadSpec{
				Scenario: scenarioHotKey,
				Target:   row.Target,
				Callers:  row.Clients,
				Warmup:   o.warmup,
				Duration: o.hotDuration,
				Prefix:   fmt.Sprintf("bench:hot:%d:%d:%s:", round, row.Clients, row.Target),
			})
			if err != nil {
				return err
			}
			row.Rounds = append(row.Rounds, cell)
		}
	}
	r.HotKey = summarizeHotKey(rows)
	return nil
}

func runHotKeyCell(ctx context.Context, c *cluster, spec loadSpec) (hotKeyRound, error) {
	var r hotKeyRound
	u, err := c.measured(ctx, spec, &r.hotKeyFigures)
	if err != nil {
		return r, err
	}
	r.CPUSplit = r.perGrant(u.serverCPU)
	return r, nil
}

func summarizeHotKey(rows []*hotKeyRow) []hotKeyRow {
	return summarize(rows, func(row *hotKeyRow) {
		m := medians(row.Rounds)
		row.AcquisitionsPerSec, row.HandOverUs, row.WaitUs, row.CPU = m.AcquisitionsPerSec, m.HandOverUs, m.WaitUs, m.CPUSplit
		row.GaveUp, row.Violations, row.Failures = m.GaveUp, m.Violations, m.Failures
		row.Fairness = medianOf(row.Rounds, func(r hotKeyRound) float64 { return r.fairness() })
		if i := slices.IndexFunc(rows, func(other *hotKeyRow) bool {
			return other.Target == targetRedsync && other.Clients == row.Clients
		}); i >= 0 {
			row.HandOverFasterThanRedsync = medianRatio(rows[i].Rounds, row.Rounds,
				func(r hotKeyRound) float64 { return r.HandOverUs.Mean })
		}
	})
}

// measureHotKey is the load generator's part.
func measureHotKey(p *parent, spec loadSpec, clients []caller) (any, error) {
	proxies := max(len(spec.Fleet), 1)
	fight(clients, proxies, spec.Prefix+"warm", spec.Warmup)
	if err := p.ready(); err != nil {
		return nil, err
	}
	cpu := ownCPU()
	f := fight(clients, proxies, spec.Prefix+"key", spec.Duration)
	f.CPU = ownCPU() - cpu
	p.done()
	return f, nil
}

// fight lets the clients compete for one resource until the duration is over. Who waits then goes on until it has the
// lock, so that the longest waits are not left out of the percentiles; those grants count for nothing else. Client i is one of
// proxy i % proxies.
func fight(clients []caller, proxies int, resource string, duration time.Duration) hotKeyFigures {
	var (
		ctx      = context.Background()
		start    = time.Now()
		end      = start.Add(duration)
		ref      = newReferee(len(clients), proxies, end)
		log      failureLog
		fighting sync.WaitGroup
	)
	for i, c := range clients {
		fighting.Go(func() {
			for time.Now().Before(end) {
				ref.wants(i, time.Now())
				if err := c.acquire(ctx, resource); err != nil {
					ref.goesWithout(errors.Is(err, errGaveUp))
					if !errors.Is(err, errGaveUp) {
						log.add(err)
					}
					continue
				}
				ref.granted(i, time.Now())
				time.Sleep(hotHold)
				ref.releases(i, time.Now())
				if err := c.release(ctx); err != nil {
					log.add(err)
				}
				time.Sleep(hotThink)
			}
		})
	}
	fighting.Wait()
	f := ref.figures(duration)
	f.Failures = log.count()
	return f
}

// referee watches the clients of one resource from inside their process and knows at any time who has it. It counts a
// grant to one client while another still holds as a violation of mutual exclusion: releases are reported before they
// are sent and grants after they came, so an honest lock never overlaps here.
type referee struct {
	mu        sync.Mutex
	proxies   int         // client i is one of proxy i % proxies
	end       time.Time   // grants after it are not counted
	since     []time.Time // per client: when it began to want the resource
	waiting   int
	holders   int
	last      int       // who held it last, -1 at first
	freeSince time.Time // when the resource began to lie unused although wanted; zero while it does not

	acquisitions []int
	handOvers    []uint32 // µs
	across       []uint32 // µs; those to a client of another proxy
	waits        []uint32 // µs
	gaveUp       int
	violations   int
}

func newReferee(clients, proxies int, end time.Time) *referee {
	return &referee{proxies: proxies, end: end, last: -1, since: make([]time.Time, clients), acquisitions: make([]int, clients)}
}

func (r *referee) wants(client int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since[client] = now
	r.waiting++
	if r.holders == 0 && r.freeSince.IsZero() {
		r.freeSince = now
	}
}

// goesWithout says that a client wants no longer, having tried in vain or met an error.
func (r *referee) goesWithout(inVain bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting--
	if r.waiting == 0 {
		r.freeSince = time.Time{}
	}
	if inVain {
		r.gaveUp++
	}
}

func (r *referee) granted(client int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting--
	r.holders++
	r.waits = append(r.waits, uint32(now.Sub(r.since[client]).Microseconds()))
	if r.holders > 1 {
		r.violations++
	}
	if !now.After(r.end) {
		r.acquisitions[client]++
		if r.last >= 0 && r.last != client && !r.freeSince.IsZero() {
			us := uint32(now.Sub(r.freeSince).Microseconds())
			r.handOvers = append(r.handOvers, us)
			if r.last%r.proxies != client%r.proxies {
				r.across = append(r.across, us)
			}
		}
	}
	r.last = client
	r.freeSince = time.Time{}
}

func (r *referee) releases(client int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holders--
	if r.holders == 0 && r.waiting > 0 {
		r.freeSince = now
	}
}

func (r *referee) figures(duration time.Duration) hotKeyFigures {
	r.mu.Lock()
	defer r.mu.Unlock()
	acquired, byProxy := 0, make([]int, r.proxies)
	for client, n := range r.acquisitions {
		acquired += n
		byProxy[client%r.proxies] += n
	}
	return hotKeyFigures{
		AcquisitionsPerSec: float64(acquired) / duration.Seconds(),
		HandOverUs:         percentilesOf(slices.Values(r.handOvers)),
		HandOvers:          len(r.handOvers),
		AcrossUs:           percentilesOf(slices.Values(r.across)),
		Across:             len(r.across),
		Grants:             len(r.waits),
		WaitUs:             percentilesOf(slices.Values(r.waits)),
		AcquisitionsMin:    slices.Min(r.acquisitions),
		AcquisitionsMax:    slices.Max(r.acquisitions),
		ProxyMin:           slices.Min(byProxy),
		ProxyMax:           slices.Max(byProxy),
		GaveUp:             r.gaveUp,
		Violations:         r.violations,
	}
}
