package redlock

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/clock"
)

// Goal: a duration is counted in the smallest bucket whose bound it does not exceed, and never lost.
func TestTimes(t *testing.T) {
	for _, c := range []struct {
		d      time.Duration
		bucket int
	}{
		{-1, 0},
		{0, 0},
		{64 * time.Microsecond, 0},
		{64*time.Microsecond + 1, 1},
		{128 * time.Microsecond, 1},
		{128*time.Microsecond + 1, 2},
		{time.Second, 14},
		{Times{}.BucketMax(TimesBuckets - 2), TimesBuckets - 2},
		{Times{}.BucketMax(TimesBuckets-2) + 1, TimesBuckets - 1},
		{1 << 62, TimesBuckets - 1},
	} {
		var times Times
		times.add(c.d)
		if times.Buckets[c.bucket] != 1 || times.Sum != c.d {
			t.Errorf("%v: got %v, want it in bucket %d", c.d, times, c.bucket)
		}
	}
}

// Goal: the longest hold counts from the first grant, also if the lock is extended, and ends with the validity; the longest wait is that of the LOCK
// that came first, whatever it waits for.
func TestLongest(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		want := func(when string, hold, wait time.Duration) {
			s.Helper()
			synctest.Wait()
			const rounds = 100 * ms
			if got := p.Stats().LongestHold; got < hold || got > hold+rounds {
				s.Errorf("%s: the longest hold is %v, want %v", when, got, hold)
			}
			if got := LongestWait(p.Client); got < wait || got > wait+rounds {
				s.Errorf("%s: the longest wait is %v, want %v", when, got, wait)
			}
		}
		want("with no lock", 0, 0)
		old := p.lock(one("a", time.Minute))
		p.lock(one("b", time.Minute).as("caller"))
		time.Sleep(10 * time.Second)
		p.extend(old.Token, time.Minute, "a")
		p.lock(one("c", time.Minute))
		p.startLock(one("b", time.Minute).waits(10 * time.Second))
		time.Sleep(5 * time.Second)
		p.startLock(one("a", time.Minute).waits(time.Hour))
		want("after 15 s", 15*time.Second, 5*time.Second)
		time.Sleep(10 * time.Second)
		want("after the first wait", 25*time.Second, 10*time.Second)
		time.Sleep(20 * time.Second)
		p.unlock(old.Token, "a")
		want("when the oldest is released, and the waiter has the lock", 45*time.Second, 0)
		p.unlock("caller", "b")
		want("when b is released", 35*time.Second, 0)
	})
}

// Goal: a reading of a million leases keeps nobody from locking: the mutex is free after each piece, and what ends and comes meanwhile
// spoils nothing.
func TestRunningPauses(t *testing.T) {
	const pieces = 8
	now := time.Now()
	s, share := newLeases(nil, clock.Drift{}), &Share{}
	grant := func(name string) {
		l := &lease{token: "t", ttlMs: 1000, born: now, validUntil: now.Add(time.Minute)}
		l.keys = append(l.key[:0], name)
		s.grant(l, share, 0, now)
	}
	for i := range pieces * leasesPiece {
		grant(fmt.Sprint("r", i))
	}
	for i := range pieces * leasesPiece / 2 {
		s.all[2*i+1].validUntil = now.Add(-time.Hour)
	}
	s.all[2].born = now.Add(-24 * time.Hour)
	began := len(s.all)
	pauses := 0
	n, longest := s.running(now, func() {
		if pauses++; pauses == 1 {
			grant("new")
			s.release([]string{"r4"}, "t", now)
		}
	})
	if n < began/2 || n > began/2+2 || longest != 24*time.Hour {
		t.Errorf("got %d leases, the oldest of %v, want %d, or two more, of a day", n, longest, began/2)
	}
	if pauses != pieces {
		t.Errorf("the mutex was free %d times within %d leases", pauses, began)
	}
	for _, l := range s.all {
		if l.validUntil.Before(now) {
			t.Fatalf("%s ran out an hour ago, and is still there", l.keys[0])
		}
	}
}

// That no lock is granted is told after five seconds, and not before.
func TestFailing(t *testing.T) {
	for d, want := range map[time.Duration]bool{0: false, 1: false, 5*time.Second - 1: false, 5 * time.Second: true, time.Hour: true} {
		if got := (&Stats{NoQuorumFor: d}).Failing(); got != want {
			t.Errorf("no quorum for %v: failing %t, want %t", d, got, want)
		}
	}
}

// A lease is in its delay when its validity has ended.
func TestDelayLeft(t *testing.T) {
	for _, tt := range []struct{ validity, free, want time.Duration }{
		{time.Minute, time.Hour, 0}, {1, time.Hour, 0}, {0, time.Hour, time.Hour}, {0, 1, 1}, {-1, time.Minute, time.Minute}, {0, 0, 0},
	} {
		if got := (&LeaseInfo{Validity: tt.validity, Free: tt.free}).DelayLeft(); got != tt.want {
			t.Errorf("a validity of %v, free in %v: got %v, want %v", tt.validity, tt.free, got, tt.want)
		}
	}
}
