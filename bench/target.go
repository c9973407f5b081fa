package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// lockTTL is the TTL of every lock but redsync's, which keeps its own default: long against a cell, so that a lock which
// somebody forgot is still there to be counted when the cell is over.
const lockTTL = 30 * time.Second

// waitMax is how long a redlockd client of the hot key waits: LOCK … WAIT.
const waitMax = 10 * time.Second

// errGaveUp says that the lock stayed with others for as long as this target tries. Anything else that is not a grant
// is a failure of the machinery.
var errGaveUp = errors.New("gave up: held by another all the time")

// errNotHeld says that a release found no lock of ours: it was lost under its holder.
var errNotHeld = errors.New("release: the lock was no longer ours")

// target is one way to lock, seen from an application's process: a client library and the servers behind it.
type target interface {
	// newCaller makes one user of the target. Callers run in parallel and share the target's connections as the users
	// of one process do.
	newCaller() caller
	close()
}

// caller holds at most one lock. It belongs to one goroutine.
type caller interface {
	// acquire returns nil with the lock on resource held; errGaveUp, or what went wrong.
	acquire(ctx context.Context, resource string) error
	// release gives back what acquire got; errNotHeld, or what went wrong.
	release(ctx context.Context) error
}

// The targets, by the names that --targets takes and the report prints.
const (
	targetRedlockd          = "redlockd"
	targetRedlockdPipelined = "redlockd-pipelined"
	targetRedsync           = "redsync"
	targetSingle            = "single"
)

// targetNames lists the targets in the order of the report. A new target goes here, into targetMeaning, targetColor and
// newTarget, and says in usesRedlockd, mastersUsed and locksOverQuorum what it is made of.
var targetNames = []string{targetRedlockd, targetRedlockdPipelined, targetRedsync, targetSingle}

// targetMeaning is one line per target for --help and for the report.
var targetMeaning = map[string]string{
	targetRedlockd:          "redlockd, plain go-redis client: one command per round trip, a connection per caller",
	targetRedlockdPipelined: "redlockd, rueidis client: concurrent callers share pipelines",
	targetRedsync:           "redsync over five go-redis pools, with the defaults of both",
	targetSingle:            "go-redis with its defaults on ONE master, no quorum: SET NX PX and compare-and-delete",
}

// usesRedlockd tells whether a target runs through the proxy, whose CPU is then part of its price.
func usesRedlockd(name string) bool { return name == targetRedlockd || name == targetRedlockdPipelined }

// mastersUsed is how many of n masters a target sends to.
func mastersUsed(name string, n int) int {
	if name == targetSingle {
		return 1
	}
	return n
}

// locksOverQuorum tells whether a target can outlive a master and waits for a busy lock by itself: the hot key and the
// faults ask for both.
func locksOverQuorum(name string) bool { return name != targetSingle }

// newTarget makes the client of a target. Most dial only when they are used: the warm-up is for that.
func newTarget(spec loadSpec) (target, error) {
	wait := spec.Scenario == scenarioHotKey
	switch spec.Target {
	case targetRedlockd:
		return newRedlockdTarget(spec.Redlockd, spec.Callers, wait), nil
	case targetRedlockdPipelined:
		return newPipelinedTarget(spec.Redlockd, wait)
	case targetRedsync:
		return newRedsyncTarget(spec.Masters), nil
	case targetSingle:
		return newSingleTarget(spec.Masters[0]), nil
	}
	return nil, fmt.Errorf("unknown target %q", spec.Target)
}
