package main

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// Goal: idle and busy connections are measured on a real redlockd. Method: 50 of each.
func TestConnections(t *testing.T) {
	b := builtBench(t)
	b.idle, b.busy, b.connectionRounds, b.connectionDuration = []int{50}, []int{50}, 1, 200*time.Millisecond
	var r report
	if err := runConnections(t.Context(), b, &r); err != nil {
		t.Fatal(err)
	}
	idle, busy := r.Connections.Idle[0], r.Connections.Busy[0]
	if idle.EmptyMB < 1 || idle.RedlockdMB < idle.EmptyMB {
		t.Errorf("got %+v, want memory, and more with the connections", idle)
	}
	if busy.Failures.Count > 0 || busy.PairsMax == 0 || busy.PairsMin > busy.PairsMax || busy.Fairness > 1 {
		t.Errorf("got %+v, want pairs and no failure", busy)
	}
}

// Goal: the unluckiest caller is found. Method: one caller ten times as slow as the other, virtual time.
func TestDriveCountsByCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := drive([]caller{pausingCaller(100 * time.Millisecond), pausingCaller(10 * time.Millisecond)}, "p:", time.Second)
		if len(run.pairs) != 2 || run.pairs[0] != 10 || run.pairs[1] != 100 {
			t.Errorf("got %v pairs by caller, want [10 100]", run.pairs)
		}
	})
}

// Goal: neither long pairs nor somebody who waits in vain beyond the end change the rate of the others. Method: 10 callers that need 300 ms
// for a pair and one that fails after 5 s, for 1 s, virtual time.
func TestThroughput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		callers := []caller{failingCaller(5 * time.Second)}
		for range 10 {
			callers = append(callers, pausingCaller(300*time.Millisecond))
		}
		run := drive(callers, "p:", time.Second)
		if got := throughput(run.samples, time.Second); len(run.samples) != 40 || math.Abs(got-33.3) > 0.1 {
			t.Errorf("got %d pairs and %v pairs/s, want 40, and 33.3: the last ten lie inside by a third", len(run.samples), got)
		}
	})
}

// failingCaller fails after so long.
type failingCaller time.Duration

func (c failingCaller) acquire(context.Context, string) error {
	time.Sleep(time.Duration(c))
	return errGaveUp
}

func (c failingCaller) release(context.Context) error { return nil }

// pausingCaller takes so long for every lock.
type pausingCaller time.Duration

func (c pausingCaller) acquire(context.Context, string) error {
	time.Sleep(time.Duration(c))
	return nil
}

func (c pausingCaller) release(context.Context) error { return nil }
