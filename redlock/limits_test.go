package redlock

// Goal: limits change while the client runs, all or none, and end nothing. Method: virtual time; operations before and after the change.

import (
	"strings"
	"testing"
	"time"
)

func TestSetOptions(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) {
			o.MaxTTL, o.MaxHold, o.MaxWait, o.MaxWaiters, o.MaxBound = 10*time.Second, time.Minute, time.Minute, 10, 10
		})
		set := func(change func(o *Options)) {
			s.Helper()
			o := p.Options()
			change(&o)
			if err := p.SetOptions(o); err != nil {
				s.Fatal(err)
			}
		}
		h := p.holder()
		p.lock(one("a", 10*time.Second).heldBy(h)).want(s, "a held lock", "held", 0)
		p.lock(one("b", 10*time.Second).heldBy(h)).want(s, "another", "held", 0)
		first, second := p.begin(one("a", time.Second).waits(time.Minute)), p.begin(one("a", time.Second).waits(time.Minute))

		set(func(o *Options) {
			o.MaxWaiters, o.MaxBound, o.MaxWait, o.HandoverTime = 2, 2, 5*time.Second, time.Second
		})
		if o := p.Options(); o.MaxWaiters != 2 || o.MaxBound != 2 || o.MaxWait != 5*time.Second || o.HandoverTime != time.Second || o.MaxHold != time.Minute || o.MaxTTL != 10*time.Second {
			s.Errorf("Options: got %+v", o)
		}
		p.lock(one("a", time.Second).waits(time.Second)).want(s, "a third that waits", "too many waiters", 0)
		p.lock(one("c", time.Second).heldBy(h)).want(s, "a third held lock", "2 locks are held through this server, and it renews 2 at most (max_bound)", 0)
		p.lock(one("c", time.Second).waits(6*time.Second)).want(s, "a longer wait", "outside 0 … 5000 ms (max_wait)", 0)
		set(func(o *Options) { o.MaxBound = 1 })
		time.Sleep(20 * time.Second) // the wait of before and the locks of before go on, beyond the new limits
		if n := p.Stats().Waiters; n != 2 {
			s.Errorf("%d LOCKs wait, want the 2 of before", n)
		}
		p.lock(one("b", time.Second)).want(s, "the lock of before", "no", 0)

		// An option that is wrong by itself, and one that contradicts another: nothing changes.
		for _, change := range []func(o *Options){
			func(o *Options) { o.MaxWaiters, o.MaxBound = 9, -1 },
			func(o *Options) { o.MaxWaiters, o.MaxHold = 9, 9*time.Second },
		} {
			o := p.Options()
			change(&o)
			if err := p.SetOptions(o); err == nil || !strings.Contains(err.Error(), "Max") {
				s.Errorf("got error %v, want one about the option", err)
			}
		}
		set(func(o *Options) { o.MinTTL, o.MaxTTL, o.QueueMax = 5*time.Second, 20*time.Second, 17 }) // not for SetOptions
		if o := p.Options(); o.MaxWaiters != 2 || o.MaxBound != 1 || o.MinTTL == 5*time.Second || o.MaxTTL != 10*time.Second || o.QueueMax == 17 {
			s.Errorf("Options: got %+v, want those of before", o)
		}

		// The process has memory for so many waiters, and for so much that is queued.
		for memory, want := range map[int64][2]int{0: {9000, 64 << 20}, 64 << 20: {8192, 1 << 20}, 1 << 20: {128, 256 << 10}, 1: {1, 256 << 10}, 1 << 50: {9000, 64 << 20}} {
			o := Options{MaxWaiters: 9000, MemoryLimit: memory}.withDefaults()
			if got := [2]int{o.limits().maxWaiters, o.ShareQueueBytes()}; got != want {
				s.Errorf("%d bytes of memory: got %v waiters and bytes of the queue, want %v", memory, got, want)
			}
		}

		free := p.lock(one("d", 10*time.Second).as("T"))
		free.want(s, "LOCK", "held", 0)
		time.Sleep(5 * time.Second)
		set(func(o *Options) { o.MaxHold = 12 * time.Second })
		p.extend("T", 8*time.Second, "d").want(s, "EXTEND beyond the new max_hold", "(max_hold)", 0)
		p.extend("T", 5*time.Second, "d").want(s, "EXTEND within it", "held", 0)
		p.Unblock(&first.Op, ErrNotHeld)
		p.Unblock(&second.Op, ErrNotHeld)
		p.finish(first)
		p.finish(second)
	})
}
