package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// recoveryCheckMax is how many held locks are checked at most, spread evenly over all.
const recoveryCheckMax = 100_000

// heldLocks are locks that are taken at the beginning and still held at the end, each with a token of its own.
type heldLocks struct {
	client *redis.Client
	n      int
	taken  time.Time // when the first LOCK was sent
}

func newHeldLocks(addr string, n int) *heldLocks {
	return &heldLocks{client: redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1, MaxRetries: -1}), n: n}
}

func (h *heldLocks) close() { h.client.Close() }

func heldName(i int) string  { return "bench:held:" + strconv.Itoa(i) }
func heldToken(i int) string { return "holder-" + strconv.Itoa(i) }

// take locks all of them.
func (h *heldLocks) take(ctx context.Context) error {
	h.taken = time.Now()
	return h.each(ctx, 1, func(i int) []any {
		return []any{"LOCK", heldName(i), recoveryMaxTTL.Milliseconds(), "TOKEN", heldToken(i)}
	}, func(i int, reply redis.Cmder) error { return reply.Err() })
}

// check tells how many of them somebody else is granted, and how many their holder cannot extend. The other's LOCK comes first: where it is granted,
// the lock counts as lost too.
func (h *heldLocks) check(ctx context.Context) (checked, lost, twice int, err error) {
	step := (h.n + recoveryCheckMax - 1) / recoveryCheckMax
	err = h.each(ctx, step, func(i int) []any {
		return []any{"LOCK", heldName(i), time.Minute.Milliseconds(), "TOKEN", "intruder-" + strconv.Itoa(i)}
	}, func(i int, reply redis.Cmder) error {
		checked++
		if errors.Is(reply.Err(), redis.Nil) {
			return nil
		}
		twice++
		return reply.Err()
	})
	if err != nil {
		return checked, lost, twice, err
	}
	err = h.each(ctx, step, func(i int) []any {
		return []any{"EXTEND", heldName(i), heldToken(i), recoveryMaxTTL.Milliseconds()}
	}, func(i int, reply redis.Cmder) error {
		if validity, _ := reply.(*redis.Cmd).Int64(); validity <= 0 {
			lost++
		}
		return reply.Err()
	})
	if age := time.Since(h.taken); err == nil && age > recoveryMaxTTL {
		err = fmt.Errorf("the check ended %v after the first LOCK, and the locks ended after %v: hold fewer", age.Round(time.Second), recoveryMaxTTL)
	}
	return checked, lost, twice, err
}

// each sends a command for every step-th lock, in batches, and again for those that NOQUORUM left open: a busy machine lets a quorum of masters be
// late now and then. The tokens make a repetition harmless. answered gets every other reply; its error ends all.
func (h *heldLocks) each(ctx context.Context, step int, command func(i int) []any, answered func(i int, reply redis.Cmder) error) error {
	var numbers []int
	for i := 0; i < h.n; i += step {
		numbers = append(numbers, i)
	}
	for batch := range slices.Chunk(numbers, holdBatch) {
		for sent := 1; ; sent++ {
			replies, _ := h.client.Pipelined(ctx, func(p redis.Pipeliner) error {
				for _, i := range batch {
					p.Do(ctx, command(i)...)
				}
				return nil
			})
			var open []int
			var late error
			for n, i := range batch {
				if err := replies[n].Err(); isNoQuorum(err) {
					open, late = append(open, i), err
				} else if err := answered(i, replies[n]); err != nil {
					return fmt.Errorf("%v %s: %w", command(i)[0], heldName(i), err)
				}
			}
			if len(open) == 0 {
				break
			}
			if sent == holdLateMax {
				return fmt.Errorf("%v %s, sent %d times: %w", command(open[0])[0], heldName(open[0]), sent, late)
			}
			if err := sleep(ctx, holdPause); err != nil {
				return err
			}
			batch = open
		}
	}
	return nil
}

// isNoQuorum says of an error, or of none, that too few masters voted.
func isNoQuorum(err error) bool { return err != nil && strings.Contains(err.Error(), "NOQUORUM ") }
