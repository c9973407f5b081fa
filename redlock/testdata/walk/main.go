// walk runs each operation of package redlock alone on masters in memory, and writes into a directory
// what coverage counted meanwhile, a few times for each: what the watch does beside an operation is not
// in all of them. Build it with go build -cover -covermode=atomic.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime/coverage"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/memmaster"
)

const repetitions = 25

type owner struct{}

func (owner) LockLost([]string) redlock.Flusher { return nil }
func (owner) Idle() time.Duration               { return 0 }

type call chan redlock.Result

func (c call) Done(_ *redlock.Op, r redlock.Result) redlock.Flusher { c <- r; return nil }

var client *redlock.Client

// lock is a LOCK that may wait, and finds its resource free.
func lock(resource string, change func(r *redlock.LockRequest)) {
	r := redlock.LockRequest{Resources: []string{resource}, TTL: time.Minute, Wait: 10 * time.Second}
	change(&r)
	done := make(call, 1)
	client.StartLock(new(redlock.Op), r, done)
	done.await("LOCK")
}

func (c call) await(what string) {
	if got := <-c; !got.Held {
		log.Fatalf("%s: %+v", what, got)
	}
}

func locks(change func(r *redlock.LockRequest)) func(string) {
	return func(resource string) { lock(resource, change) }
}

func nothing(string) {}

func mine(r *redlock.LockRequest) { r.Token = "mine" }

var operations = []struct {
	name         string
	prepare, run func(resource string)
}{
	{"LOCK", nothing, locks(func(*redlock.LockRequest) {})},
	{"UNLOCK", locks(mine), func(resource string) {
		done := make(call, 1)
		client.StartUnlock(new(redlock.Op), []string{resource}, "mine", done)
		done.await("UNLOCK")
	}},
	{"EXTEND", locks(mine), func(resource string) {
		done := make(call, 1)
		client.StartExtend(new(redlock.Op), []string{resource}, "mine", time.Minute, done)
		done.await("EXTEND")
	}},
	{"FENCE", nothing, locks(func(r *redlock.LockRequest) { r.Fence = true })},
	{"SHARED", nothing, locks(func(r *redlock.LockRequest) { r.Shared = true })},
	{"SLOTS", nothing, locks(func(r *redlock.LockRequest) { r.Slots = 3 })},
	{"HOLD", nothing, locks(func(r *redlock.LockRequest) { r.Holder, r.Release = redlock.NewHolder(owner{}), true })},
	{"MLOCK", nothing, locks(func(r *redlock.LockRequest) {
		r.Resources = append(r.Resources, r.Resources[0]+"2", r.Resources[0]+"3")
	})},
}

func main() {
	dir := os.Args[1]
	for _, operation := range operations {
		for n := range repetitions {
			into := filepath.Join(dir, operation.name, fmt.Sprint(n))
			if err := os.MkdirAll(into, 0o755); err != nil {
				log.Fatal(err)
			}
			count(into, operation.prepare, operation.run)
		}
	}
}

// count runs an operation, once before to have connections and scripts ready, and once while coverage
// counts.
func count(into string, prepare, run func(resource string)) {
	options := redlock.Options{}
	for i := range 5 {
		m := memmaster.New(memmaster.Options{})
		defer m.Close()
		options.Masters = append(options.Masters, redlock.Master{Addr: fmt.Sprint("m", i+1), Dialer: m.Link().Dial})
	}
	if err := redlock.Bootstrap(context.Background(), options); err != nil {
		log.Fatal(err)
	}
	var err error
	if client, err = redlock.Open(options); err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	prepare("warm")
	run("warm")
	prepare("invoices")
	time.Sleep(5 * time.Millisecond)
	if err := coverage.ClearCounters(); err != nil {
		log.Fatal(err)
	}
	run("invoices")
	time.Sleep(5 * time.Millisecond) // for the votes that nobody waits for
	if err := coverage.WriteCountersDir(into); err != nil {
		log.Fatal(err)
	}
	if err := coverage.WriteMetaDir(into); err != nil {
		log.Fatal(err)
	}
}
