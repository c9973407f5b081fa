package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/redisproc"
)

// The limit: what five masters can do on this machine at most, with clients that cost next to nothing. A redis-benchmark
// on each of them sends limitDepth commands at a time on limitConnections connections, first SET NX PX, then the
// compare-and-delete that a release is. No lock over five masters that sends one command per lock and master can do more
// pairs than that; one that folds several releases into one script can.
const (
	limitConnections = 64
	limitDepth       = 64
	// limitKeys is how many keys there are. Commands draw theirs at random, so some SETs find a key and some
	// compare-and-deletes find none: that costs a master about the same.
	limitKeys = 1_000_000
)

// limitRound is one round; times and CPU of all masters together.
type limitRound struct {
	SetsPerSec    float64 `json:"sets_per_sec"` // on every one of the masters
	DeletesPerSec float64 `json:"deletes_per_sec"`
	PairsPerSec   float64 `json:"pairs_per_sec"` // one SET and one compare-and-delete on every master
	RedisUs       float64 `json:"redis_us_per_pair"`
}

// limitFigures are medians of the rounds.
type limitFigures struct {
	limitRound
	Rounds []limitRound `json:"rounds"`
}

func runLimit(ctx context.Context, b *bench, r *report) error {
	c, err := startCluster(ctx, masterCount, nil)
	if err != nil {
		return err
	}
	defer c.close()
	for _, addr := range redisproc.Addrs(c.masters) {
		client := redis.NewClient(&redis.Options{Addr: addr})
		err := compareAndDelete.Load(ctx, client).Err()
		client.Close()
		if err != nil {
			return fmt.Errorf("load the script on master %s: %w", addr, err)
		}
	}
	f := new(limitFigures)
	for round := range b.rounds {
		b.progress.round(scenarioLimit)
		b.progress.step("limit, round %d of %d", round+1, b.rounds)
		one, err := runLimitRound(ctx, c, b.limitCommands)
		if err != nil {
			return err
		}
		f.Rounds = append(f.Rounds, one)
	}
	f.limitRound = medians(f.Rounds)
	r.Limit = f
	return nil
}

func runLimitRound(ctx context.Context, c *cluster, commands int) (limitRound, error) {
	const key, token = "bench:limit:__rand_int__", "0123456789abcdef0123"
	before, err := processCPU(c.pids()...)
	if err != nil {
		return limitRound{}, err
	}
	setting, err := benchmarkAll(ctx, c, commands, "SET", key, token, "NX", "PX", lockTTLms)
	if err != nil {
		return limitRound{}, err
	}
	deleting, err := benchmarkAll(ctx, c, commands, "EVALSHA", compareAndDelete.Hash(), "1", key, token)
	if err != nil {
		return limitRound{}, err
	}
	after, err := processCPU(c.pids()...)
	if err != nil {
		return limitRound{}, err
	}
	n := float64(commands)
	return limitRound{
		SetsPerSec:    n / setting.Seconds(),
		DeletesPerSec: n / deleting.Seconds(),
		PairsPerSec:   n / (setting + deleting).Seconds(),
		RedisUs:       float64((after - before).Microseconds()) / n,
	}, nil
}

// benchmarkAll runs one redis-benchmark per master at once and returns when the last has ended.
func benchmarkAll(ctx context.Context, c *cluster, commands int, command ...string) (time.Duration, error) {
	type outcome struct {
		out []byte
		err error
	}
	var (
		outcomes = make(chan outcome, len(c.masters))
		start    = time.Now()
	)
	for _, m := range c.masters {
		host, port, _ := strings.Cut(m.Addr, ":")
		args := append([]string{"-h", host, "-p", port, "-q", "-c", strconv.Itoa(limitConnections), "-P", strconv.Itoa(limitDepth),
			"-n", strconv.Itoa(commands), "-r", strconv.Itoa(limitKeys)}, command...)
		process := exec.CommandContext(ctx, redisBenchmark, args...)
		process.SysProcAttr = childAttributes()
		go func() {
			out, err := process.CombinedOutput()
			outcomes <- outcome{out, err}
		}()
	}
	var failed error
	for range c.masters { // all of them, also after a failure: none may be left running
		o := <-outcomes
		if o.err != nil {
			failed = fmt.Errorf("redis-benchmark: %w: %s", o.err, strings.TrimSpace(string(o.out)))
		}
	}
	return time.Since(start), failed
}

func limitTable(f *limitFigures, uncontended []uncontendedRow) table {
	t := table{
		title: "Limit: five redis-benchmark at once, one per master, 64 commands at a time on 64 connections",
		note: "Medians of the rounds, per second and on every one of the five masters. Pair: one SET NX PX and one compare-and-delete by EVALSHA on\n" +
			"each. CPU: µs of the five masters per pair. Reached: the most that a target over all masters did uncontended, in percent of the limit.",
		head: []string{"SET/s", "EVALSHA/s", "pairs/s", "CPU", "reached by", "pairs/s", "reached"},
	}
	name, most := "–", 0.0
	for _, row := range uncontended {
		if locksOverQuorum(row.Target) && row.PairsPerSec > most {
			name, most = row.Target, row.PairsPerSec
		}
	}
	t.add(f.SetsPerSec, f.DeletesPerSec, f.PairsPerSec, f.RedisUs, name, most, number(100*ratio(most, f.PairsPerSec))+" %")
	return t
}
