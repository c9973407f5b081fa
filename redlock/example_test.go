package redlock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/memmaster"
)

// fiveMasters stands for five real ones: redlock.Master{Addr: "10.0.0.1:6379"} and so on.
func fiveMasters() (opts redlock.Options, end func()) {
	opts.MasterTimeout, opts.ConnectTimeout = 10*time.Second, time.Minute // a slow test machine is no hung master
	var all []*memmaster.Master
	for i := range 5 {
		m := memmaster.New(memmaster.Options{})
		all = append(all, m)
		opts.Masters = append(opts.Masters, redlock.Master{Addr: fmt.Sprintf("master-%d", i+1), Dialer: m.Dial})
	}
	return opts, func() {
		for _, m := range all {
			m.Close()
		}
	}
}

// open opens a client over brand-new masters.
func open() (client *redlock.Client, end func()) {
	opts, endMasters := fiveMasters()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := redlock.Bootstrap(ctx, opts); err != nil {
		log.Fatal(err)
	}
	client, err := redlock.Open(opts)
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Ready(ctx); err != nil {
		log.Fatal(err)
	}
	return client, func() {
		client.Close(context.Background())
		endMasters()
	}
}

func Example() {
	client, end := open()
	defer end()
	ctx := context.Background()

	lease, err := client.Lock(ctx, "invoices", time.Minute) // waits as long as ctx allows
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("locked for more than 30 s:", lease.Validity() > 30*time.Second)

	if _, err := client.TryLock(ctx, "invoices", 30*time.Second); errors.Is(err, redlock.ErrHeld) {
		fmt.Println("nobody else gets it")
	}
	if err := lease.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// locked for more than 30 s: true
	// nobody else gets it
}

// A cron job runs on every host, and only one of them does the work. KeepAlive holds the lock for as long as that takes, and ends the work's
// context if the lock is lost.
func ExampleLease_KeepAlive() {
	client, end := open()
	defer end()
	ctx := context.Background()
	report := func(ctx context.Context) error { return ctx.Err() } // stops when ctx is done

	lease, err := client.TryLock(ctx, "nightly-report", 30*time.Second)
	if errors.Is(err, redlock.ErrHeld) {
		return // another host does it
	} else if err != nil {
		log.Fatal(err)
	}
	held := lease.KeepAlive(ctx)
	if err := report(held); err != nil {
		log.Fatal("not finished: ", cmp.Or(context.Cause(held), err))
	}
	lease.Unlock(ctx)
	fmt.Println("done")
	// Output: done
}

// A leader leads for as long as its lock is kept; who is not the leader waits to become it.
func Example_leader() {
	client, end := open()
	defer end()
	ctx, stop := context.WithCancel(context.Background())

	lead := func(leading context.Context) {
		fmt.Println("leading")
		stop() // the program ends
		<-leading.Done()
	}
	for ctx.Err() == nil {
		lease, leading, err := client.Hold(ctx, "leader", 30*time.Second)
		if err != nil {
			log.Print(err) // no quorum, or the wait was too long: try again
			continue
		}
		lead(leading)
		lease.Unlock(context.WithoutCancel(ctx)) // the next one need not wait for the TTL
	}
	// Output: leading
}

// Work in short steps can extend its lease between them, and stop when that fails.
func ExampleLease_Extend() {
	client, end := open()
	defer end()
	ctx := context.Background()

	lease, err := client.Lock(ctx, "migration", 30*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	for step := range 3 {
		if err := lease.Extend(ctx, 30*time.Second); err != nil {
			log.Fatal("stop: the lock is lost or in doubt: ", err)
		}
		fmt.Println("step", step)
	}
	lease.Unlock(ctx)
	// Output:
	// step 0
	// step 1
	// step 2
}

// A fence lets the resource refuse a writer that has paused and lost its lock.
func ExampleClient_Acquire_fence() {
	client, end := open()
	defer end()
	ctx := context.Background()

	highest := int64(0) // the resource remembers
	write := func(fence int64) string {
		if fence < highest {
			return "refused"
		}
		highest = fence
		return "written"
	}
	var fences []int64
	for range 2 {
		lease, err := client.Acquire(ctx, redlock.LockRequest{Resources: []string{"account"}, TTL: 30 * time.Second, Fence: true})
		if err != nil {
			log.Fatal(err)
		}
		fences = append(fences, lease.Fence)
		lease.Unlock(ctx)
	}
	fmt.Println("the second holder:", write(fences[1]))
	fmt.Println("the first, waking up late:", write(fences[0]))
	// Output:
	// the second holder: written
	// the first, waking up late: refused
}

// At most two report at the same time, whichever process they are in.
func ExampleClient_Acquire_slots() {
	client, end := open()
	defer end()
	ctx := context.Background()

	request := redlock.LockRequest{Resources: []string{"reports"}, Slots: 2, TTL: 30 * time.Second}
	for range 3 {
		switch lease, err := client.Acquire(ctx, request); {
		case errors.Is(err, redlock.ErrHeld):
			fmt.Println("two report already")
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println("one of", redlock.SlotName("reports", 0), "and", redlock.SlotName("reports", 1))
			defer lease.Unlock(ctx)
		}
	}
	// Output:
	// one of reports#0 and reports#1
	// one of reports#0 and reports#1
	// two report already
}

// Several resources are one lock: all or nothing, and never a deadlock.
func ExampleClient_Acquire() {
	client, end := open()
	defer end()
	ctx := context.Background()

	lease, err := client.Acquire(ctx, redlock.LockRequest{
		Resources: []string{"account:1", "account:2"},
		TTL:       30 * time.Second,
		Wait:      10 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)
	_, err = client.TryLock(ctx, "account:2", time.Second)
	fmt.Println(err)
	// Output: the resource is held by another token
}
