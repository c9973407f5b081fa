package main

import (
	"context"
	"errors"
	"fmt"
	"image/color"
	"time"

	"github.com/redis/go-redis/v9"
)

// lockTTL is the TTL of every lock but those of redsync and rueidislock, which keep their own defaults: long against a cell, so that a lock which
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
	targetRedlockd           = "redlockd"
	targetRedlockdPipelined  = "redlockd-pipelined"
	targetRedlockdSetNX      = "redlockd-setnx"
	targetRedlockdSetNXPlain = "redlockd-setnx-plain"
	targetRedsync            = "redsync"
	targetSingle             = "single"
	targetRueidislock        = "rueidislock"
	targetBSM                = "bsm"
	targetEtcd               = "etcd"
	targetRedlockdUnix       = "redlockd-unix"
	targetFloor              = "floor"
)

// targetNames lists the targets in the order of the report. A new target goes here, into traitsOf, and into newTarget.
var targetNames = []string{
	targetRedlockd, targetRedlockdPipelined, targetRedlockdSetNX, targetRedlockdSetNXPlain,
	targetRedsync, targetSingle, targetRueidislock, targetBSM, targetEtcd, targetRedlockdUnix, targetFloor,
}

// targetDefaults are measured when nobody asks for others: redlockd, and the two peers it is held against.
var targetDefaults = targetNames[:6]

// traits say what a target is made of.
type traits struct {
	meaning string // one line for --help
	// redlockd: it runs through the proxy, whose CPU is then part of its price.
	redlockd bool
	// masters it sends to; 0: all.
	masters int
	// quorum: it can outlive a master and waits for a busy lock by itself; the hot key and the faults ask for both.
	quorum bool
	// native is the target that does the same with LOCK and UNLOCK; empty: there is none.
	native string
	// color in the plots, told apart also by colour-blind eyes (the palette of Okabe and Ito).
	color color.Color
}

var traitsOf = map[string]traits{
	targetRedlockd: {
		meaning:  "redlockd, plain go-redis client: one command per round trip, a connection per caller",
		redlockd: true, quorum: true, color: color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
	},
	targetRedlockdPipelined: {
		meaning:  "redlockd, rueidis client: concurrent callers share pipelines",
		redlockd: true, quorum: true, color: color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff},
	},
	targetRedlockdSetNX: {
		meaning:  "redlockd as a drop-in, rueidis client: SET NX PX and EVALSHA of a compare-and-delete",
		redlockd: true, native: targetRedlockdPipelined, color: color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
	},
	targetRedlockdSetNXPlain: {
		meaning:  "the same commands, plain go-redis client: one command per round trip",
		redlockd: true, native: targetRedlockd, color: color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff},
	},
	targetRedsync: {
		meaning: "redsync over five go-redis pools, with the defaults of both",
		quorum:  true, color: color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
	},
	targetSingle: {
		meaning: "go-redis with its defaults on ONE master, no quorum: SET NX PX and compare-and-delete",
		masters: 1, color: color.RGBA{R: 0x99, G: 0x99, B: 0x99, A: 0xff},
	},
	targetRueidislock: {
		meaning: "rueidislock on ONE master, 2 of 3 keys, as its README shows it",
		masters: 1, color: color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff},
	},
	targetBSM: {
		meaning: "bsm/redislock over go-redis with its defaults on ONE master",
		masters: 1, color: color.RGBA{R: 0xf0, G: 0xe4, B: 0x42, A: 0xff},
	},
	targetEtcd: {
		meaning: "etcd, ONE node that syncs its log, concurrency.Mutex with a session per caller; its CPU counts as the masters'",
		color:   color.Black,
	},
	targetRedlockdUnix: {
		meaning:  "redlockd, plain go-redis client that reaches it through a unix socket",
		redlockd: true, color: color.RGBA{R: 0x00, G: 0x3b, B: 0x5c, A: 0xff},
	},
	targetFloor: {
		meaning: "no lock: a hundred lines of C pass on the bytes that redlockd sends, for the least that its hops can take; its CPU counts as redlockd's",
		color:   color.RGBA{R: 0x66, G: 0x33, B: 0x00, A: 0xff},
	},
}

func usesRedlockd(name string) bool    { return traitsOf[name].redlockd }
func locksOverQuorum(name string) bool { return traitsOf[name].quorum }
func colorOf(name string) color.Color  { return traitsOf[name].color }

// mastersUsed is how many of n masters a target sends to.
func mastersUsed(name string, n int) int {
	if used := traitsOf[name].masters; used > 0 {
		return used
	}
	return n
}

// newTarget makes the client of a target. Most dial only when they are used: the warm-up is for that.
func newTarget(spec loadSpec) (target, error) {
	if spec.Scenario == scenarioProxies {
		return newFleetTarget(spec), nil
	}
	if spec.Depth > 0 {
		return newBatchTarget(spec), nil
	}
	wait := spec.Scenario == scenarioHotKey
	switch spec.Target {
	case targetRedlockd:
		return newRedlockdTarget(spec.Redlockd, spec.Callers, wait, ""), nil
	case targetRedlockdPipelined:
		return newPipelinedTarget(spec.Redlockd, wait)
	case targetRedlockdSetNX:
		return newSetNXTarget(spec.Redlockd)
	case targetRedlockdSetNXPlain:
		// A connection per caller and no second sending, as for LOCK.
		return newSingleTarget(&redis.Options{Addr: spec.Redlockd, PoolSize: spec.Callers, MaxRetries: -1}), nil
	case targetRedsync:
		return newRedsyncTarget(spec.Masters), nil
	case targetSingle:
		// The client's options stay untouched, as for redsync: a pool of ten connections per core. A connection per caller
		// makes it no faster.
		return newSingleTarget(&redis.Options{Addr: spec.Masters[0]}), nil
	case targetRueidislock:
		return newRueidislockTarget(spec.Masters[0])
	case targetBSM:
		return newBSMTarget(spec.Masters[0]), nil
	case targetEtcd:
		return newEtcdTarget(spec.Etcd)
	case targetRedlockdUnix:
		return newRedlockdTarget(socketOf(spec.Redlockd), spec.Callers, false, ""), nil
	case targetFloor:
		return newRedlockdTarget(spec.Floor, spec.Callers, false, ""), nil
	}
	return nil, fmt.Errorf("unknown target %q", spec.Target)
}
