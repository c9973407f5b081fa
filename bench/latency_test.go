package main

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Goal: a stall is charged to every pair that was due meanwhile. Method: one caller of a target that stands still for the
// first 500 ms of 1 s and then answers at once, 100 pairs/s, virtual time, the schedule by hand.
func TestLatencyCountsFromWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stall := &stallingCaller{until: time.Now().Add(500 * time.Millisecond)}
		got, err := driveAtRate([]caller{stall}, sleeper{}, "p:", 100, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		// 50 of 100 pairs were due during the stall, 500 to 10 ms before its end.
		if got.LockUs.Max < 499_000 || got.LockUs.Max > 501_000 || got.LockUs.Mean < 126_000 || got.LockUs.Mean > 129_000 || got.LateUs.Max < 485_000 {
			t.Errorf("got lock max %v µs, mean %v, late max %v, want 500 ms, 127.5 ms, 490 ms", got.LockUs.Max, got.LockUs.Mean, got.LateUs.Max)
		}
		if got.PairsPerSec != 100 || got.Unsent != 0 || !got.keptUp(100, time.Second) {
			t.Errorf("got %v pairs/s, %d unsent, want 100 and none", got.PairsPerSec, got.Unsent)
		}
	})
}

// Goal: a target that is too slow is not waited for for ever, and found out. Method: 100 ms per pair, 100 pairs/s, one
// caller, virtual time.
func TestLatencyUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, err := driveAtRate([]caller{pausingCaller(100 * time.Millisecond)}, sleeper{}, "p:", 100, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		// It begins a pair every 100 ms until 1 s + latencyDrain.
		if got.Unsent < 78 || got.Unsent > 81 || got.keptUp(100, time.Second) {
			t.Errorf("got %d unsent, kept up %v, want 80 and false", got.Unsent, got.keptUp(100, time.Second))
		}
	})
}

// Goal: failures are no reason to spare a target higher rates. Method: 890 pairs and 110 failures of 1000.
func TestLatencyFailuresAreNotSlowness(t *testing.T) {
	r := latencyRound{PairsPerSec: 890, Failures: failures{Count: 110}}
	if !r.keptUp(1000, time.Second) || r.keptUp(1000, time.Minute) {
		t.Error("110 failures: got too slow, or 110 in a minute: got fast enough")
	}
}

// Goal: the timer is not early, and its end frees who sleeps. Method: the real kernel.
func TestSharpTimer(t *testing.T) {
	timer, err := newSharpTimer()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(3 * time.Millisecond)
	if err := timer.until(at); err != nil || time.Now().Before(at) {
		t.Errorf("woke %v too early (%v)", time.Until(at), err)
	}
	if err := timer.until(at); err != nil {
		t.Errorf("a time that is over: %v", err)
	}
	var freed atomic.Bool
	done := make(chan error)
	go func() {
		err := timer.until(time.Now().Add(time.Hour))
		freed.Store(true)
		done <- err
	}()
	time.Sleep(5 * time.Millisecond)
	if freed.Load() {
		t.Error("an hour was over at once")
	}
	timer.close()
	if err := <-done; err == nil {
		t.Error("closed: got no error")
	}
}

type stallingCaller struct{ until time.Time }

func (c *stallingCaller) acquire(context.Context, string) error {
	time.Sleep(time.Until(c.until))
	return nil
}

func (c *stallingCaller) release(context.Context) error { return nil }

// sleeper is the clock of the tests.
type sleeper struct{}

func (sleeper) until(t time.Time) error {
	time.Sleep(time.Until(t))
	return nil
}
