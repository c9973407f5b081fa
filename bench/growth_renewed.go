package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Held locks that redlockd renews: what they cost while nothing else happens.
const (
	renewedTTL = 10 * time.Second
	// renewedPerConnection is how many of them each connection holds, and takes at once.
	renewedPerConnection = 100
)

// renewedPoint is a number of held locks; figures are medians of the rounds.
type renewedPoint struct {
	Held int `json:"held"`
	waiterRound
	Rounds []waiterRound `json:"rounds"`
}

func growRenewed(ctx context.Context, b *bench, f *growthFigures) error {
	for _, n := range b.growthRenewed {
		point := renewedPoint{Held: n}
		for round := range b.growthRounds {
			b.progress.step("growth, %d locks renewed, round %d of %d", n, round+1, b.growthRounds)
			cell, err := runRenewed(ctx, b, n)
			if err != nil {
				return fmt.Errorf("%d locks renewed: %w", n, err)
			}
			point.Rounds = append(point.Rounds, cell)
		}
		point.waiterRound = medians(point.Rounds)
		f.Renewed = append(f.Renewed, point)
	}
	return nil
}

// runRenewed watches the servers for the ttl, in which each lock is renewed.
func runRenewed(ctx context.Context, b *bench, n int) (r waiterRound, err error) {
	c, err := startCluster(ctx, masterCount, b.program.with(crowdSettings(n)...))
	if err != nil {
		return r, err
	}
	defer c.close()
	counter := newCommandCounter(c)
	defer counter.close()
	idle, err := c.watch(ctx, counter, b.growthDuration)
	if err != nil {
		return r, err
	}
	before, err := processRSS(c.proxies[0].pid())
	if err != nil {
		return r, err
	}
	for from := 0; from < n; from += renewedPerConnection {
		holder, err := dialBeside(c.proxies[0].addr, "")
		if err != nil {
			return r, err
		}
		defer holder.Close()
		var commands []byte
		to := min(from+renewedPerConnection, n)
		for i := from; i < to; i++ {
			commands = appendCommand(commands, "LOCK", "bench:renewed:"+strconv.Itoa(i), strconv.FormatInt(renewedTTL.Milliseconds(), 10), "HOLD")
		}
		holder.SetDeadline(time.Now().Add(besideTimeout))
		if _, err := holder.Write(commands); err != nil {
			return r, err
		}
		for i := from; i < to; i++ {
			if _, null, err := holder.reply(); err != nil || null {
				return r, fmt.Errorf("lock %d was not granted: null %t, %w", i, null, err)
			}
		}
	}
	if err := sleep(ctx, renewedTTL); err != nil { // renewals are spread over the ttl by then
		return r, err
	}
	if r, err = c.watch(ctx, counter, renewedTTL); err != nil {
		return r, err
	}
	after, err := processRSS(c.proxies[0].pid())
	if err != nil {
		return r, err
	}
	r.RedlockdMB, r.KBPerWaiter = megabytes(after), float64(after-before)/1024/float64(n)
	r.IdleCommandsPerSec = idle.CommandsPerSec
	return r, nil
}

func renewedTable(points []renewedPoint) table {
	t := table{
		title: "Growth: against the number of held locks that redlockd renews",
		note: fmt.Sprintf("LOCK … %d HOLD, %d on each connection. Medians of the rounds. KB: what redlockd grew per lock. CPU: in percent of one core while nothing but\n"+
			"renewing happens; of a master: the mean. Commands: per second, executed by all masters, and without locks.", renewedTTL.Milliseconds(), renewedPerConnection),
		head: []string{"held", "redlockd MB", "KB/lock", "redlockd CPU", "CPU of a master", "commands/s", "idle"},
	}
	for _, p := range points {
		t.add(p.Held, p.RedlockdMB, p.KBPerWaiter, number(p.RedlockdPercent)+" %", number(p.MastersPercent/masterCount)+" %", p.CommandsPerSec, p.IdleCommandsPerSec)
	}
	return t
}
