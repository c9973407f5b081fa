package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/redisproc"
)

// fleet is a number of redlockd over the same masters and of clients of each.
type fleet struct{ proxies, clients int }

func (f fleet) String() string { return strconv.Itoa(f.proxies) + "x" + strconv.Itoa(f.clients) }

// fleetProxiesMax bounds the processes of a fleet.
const fleetProxiesMax = 16

// parseFleet reads 3x16.
func parseFleet(word string) (fleet, error) {
	left, right, _ := strings.Cut(word, "x")
	proxies, errProxies := strconv.Atoi(left)
	clients, errClients := strconv.Atoi(right)
	if errProxies != nil || errClients != nil || proxies < 1 || proxies > fleetProxiesMax || clients < 1 {
		return fleet{}, fmt.Errorf("%q is no fleet: want redlockd × clients of each (3x16), at most %d redlockd", word, fleetProxiesMax)
	}
	return fleet{proxies, clients}, nil
}

// proxiesRound is one cell: the hot key, its clients spread over a fleet.
type proxiesRound struct {
	hotKeyFigures
	CPUSplit cpuSplit `json:"cpu_per_acquisition"`
	// CommandsPerGrant is what all masters together executed per grant, commands inside scripts included, less what they
	// executed while nobody wanted a lock.
	CommandsPerGrant   float64 `json:"commands_per_grant"`
	IdleCommandsPerSec float64 `json:"idle_commands_per_sec"`
}

// proxyFairness is min/max, 1 when the clients of every redlockd got the same.
func (r proxiesRound) proxyFairness() float64 { return ratio(float64(r.ProxyMin), float64(r.ProxyMax)) }

// proxiesRow is one fleet; figures are medians of the rounds.
type proxiesRow struct {
	Fleet string `json:"fleet"`

	AcquisitionsPerSec float64     `json:"acquisitions_per_sec"`
	HandOverUs         percentiles `json:"hand_over_us"`
	AcrossUs           percentiles `json:"across_us"`
	AcrossPercent      float64     `json:"across_percent"` // of the hand-overs
	Fairness           float64     `json:"fairness"`
	ProxyFairness      float64     `json:"proxy_fairness"`
	CommandsPerGrant   float64     `json:"commands_per_grant"`
	CPU                cpuSplit    `json:"cpu_per_acquisition"`
	GaveUp             int         `json:"gave_up"`    // of all rounds
	Violations         int         `json:"violations"` // of all rounds
	Failures           failures    `json:"failures"`   // of all rounds

	Rounds []proxiesRound `json:"rounds"`
}

func runProxies(ctx context.Context, b *bench, r *report) error {
	cells, err := hotRounds(b, scenarioProxies, b.fleets, func(i int) (proxiesRound, error) { return runProxiesCell(ctx, b, b.fleets[i]) })
	for i, rounds := range cells {
		r.Proxies = append(r.Proxies, summarizeProxies(b.fleets[i], rounds))
	}
	return err
}

// idleFor is how long the masters are watched while nobody wants a lock: several heartbeats.
const idleFor = time.Second

func runProxiesCell(ctx context.Context, b *bench, f fleet) (r proxiesRound, err error) {
	c, err := startCluster(ctx, masterCount, b.program)
	if err != nil {
		return r, err
	}
	defer c.close()
	for len(c.proxies) < f.proxies {
		if err := c.addProxy(ctx, b.program, redisproc.Addrs(c.masters)); err != nil {
			return r, err
		}
	}
	counter := newCommandCounter(c)
	defer counter.close()

	idle, err := c.watch(ctx, counter, idleFor)
	if err != nil {
		return r, err
	}
	r.IdleCommandsPerSec = idle.CommandsPerSec
	u, err := between(ctx, c.spec(loadSpec{
		Scenario: scenarioProxies,
		Target:   targetRedlockd,
		Callers:  f.proxies * f.clients,
		Warmup:   b.warmup,
		Duration: b.hotDuration,
		Prefix:   "bench:proxies:",
	}), &r.hotKeyFigures, func() (used, error) { return c.read(ctx, targetRedlockd, counter) })
	if err != nil {
		return r, err
	}
	r.CommandsPerGrant = ratio(float64(u.commands)-r.IdleCommandsPerSec*u.elapsed.Seconds(), float64(r.Grants))
	r.CPUSplit = r.perGrant(u.serverCPU)
	return r, nil
}

// commandCounter asks the masters how many commands they have executed. Its own are not counted.
type commandCounter struct {
	clients []*redis.Client
	asked   int
}

func newCommandCounter(c *cluster) *commandCounter {
	counter := new(commandCounter)
	for _, addr := range redisproc.Addrs(c.masters) {
		counter.clients = append(counter.clients, redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1}))
	}
	return counter
}

// read is the sum over the masters.
func (c *commandCounter) read(ctx context.Context) (int, error) {
	sum := -c.asked // an INFO is in the count of the next one
	for _, client := range c.clients {
		info, err := client.Info(ctx, "stats").Result()
		if err != nil {
			return 0, fmt.Errorf("count the commands of a master: %w", err)
		}
		n, err := strconv.Atoi(fieldOf(info, "total_commands_processed"))
		if err != nil {
			return 0, fmt.Errorf("count the commands of a master: %w", err)
		}
		sum += n
		c.asked++
	}
	return sum, nil
}

func (c *commandCounter) close() {
	for _, client := range c.clients {
		client.Close()
	}
}

func summarizeProxies(f fleet, rounds []proxiesRound) proxiesRow {
	m := medians(rounds)
	return proxiesRow{
		Fleet:              f.String(),
		AcquisitionsPerSec: m.AcquisitionsPerSec, HandOverUs: m.HandOverUs, AcrossUs: m.AcrossUs,
		CommandsPerGrant: m.CommandsPerGrant, CPU: m.CPUSplit,
		GaveUp: m.GaveUp, Violations: m.Violations, Failures: m.Failures,
		AcrossPercent: medianOf(rounds, func(r proxiesRound) float64 { return 100 * ratio(float64(r.Across), float64(r.HandOvers)) }),
		Fairness:      medianOf(rounds, func(r proxiesRound) float64 { return r.fairness() }),
		ProxyFairness: medianOf(rounds, proxiesRound.proxyFairness),
		Rounds:        rounds,
	}
}

func proxiesTable(rows []proxiesRow) table {
	t := table{
		title: "Proxies: the hot key, 1 ms hold, 5 ms think, its clients spread over several redlockd on the same masters",
		note: "Medians of the rounds. Fleet: redlockd × clients of each. Across: hand-overs to a client of another redlockd. Fairness: the fewest\n" +
			"acquisitions ÷ the most, of clients and of redlockd. Commands: executed by all masters per grant, those inside scripts included, less\n" +
			"what they execute when idle. CPU: µs per grant of all processes.",
		head:   []string{"fleet", "locks/s", "hand-over mean µs", "p50", "p99", "across mean µs", "p50", "p99", "share", "fairness: clients", "redlockd", "commands", "CPU", "gave up", "errors", "violations"},
		left:   1,
		joined: true,
	}
	for _, r := range rows {
		t.add(r.Fleet, r.AcquisitionsPerSec, r.HandOverUs.Mean, r.HandOverUs.P50, r.HandOverUs.P99,
			r.AcrossUs.Mean, r.AcrossUs.P50, r.AcrossUs.P99, number(r.AcrossPercent)+" %",
			fmt.Sprintf("%.2f", r.Fairness), fmt.Sprintf("%.2f", r.ProxyFairness), r.CommandsPerGrant, r.CPU.totalUs(),
			r.GaveUp, r.Failures.Count, r.Violations)
	}
	return t
}
