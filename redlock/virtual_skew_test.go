package redlock

// Goal: a fence costs a LOCK no second round trip where clocks differ as they do under NTP. Method: virtual time, masters and
// proxies whose clocks are up to 5 ms off, callers that lock now here, now there; the rounds are counted.

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redlockd/redlock/fence"
	"redlockd/redlock/redisproc"
)

func TestFenceTakesOneRound(t *testing.T) {
	const (
		skew   = 5 * ms
		oneWay = 200 * time.Microsecond
		spare  = 2
	)
	grants := redisproc.SomeOf[int64](300, 3000)
	for _, tt := range []struct {
		name               string
		callers, resources int
		think, hold        time.Duration // at most, evenly spread; a hold is at least 1 ms
		second             int64         // rounds in 1000 grants, at most, and some to spare
	}{
		{"a resource of many", 24, 1000, 100 * ms, 20 * ms, 1},
		{"few resources, long holds", 9, 9, 100 * ms, 300 * ms, 1},
		// The resource comes back to a proxy sooner than the clocks differ. Some rounds are spent on finding out by how much.
		{"few resources, short holds", 9, 3, 20 * ms, 5 * ms, 50},
		{"one resource, short holds", 9, 1, 20 * ms, 5 * ms, 50},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			for i, m := range s.masters {
				m.StepClock(time.Duration(i-2) * skew / 2)
			}
			var proxies []*proxy
			for i := range 3 {
				p := s.open()
				p.fences.Ahead = fence.Time(time.Now().Add(time.Duration(i)*skew)) - fence.Time(time.Now())
				p.delay(oneWay, oneWay, 0, 1, 2, 3, 4)
				proxies = append(proxies, p)
			}
			var granted, calls atomic.Int64
			var callers sync.WaitGroup
			for n := range tt.callers {
				callers.Go(func() {
					random := rand.New(rand.NewPCG(1, uint64(n)))
					upTo := func(d time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(d)))) }
					for granted.Load() < grants {
						upTo(tt.think)
						p := proxies[random.IntN(len(proxies))]
						req := LockRequest{Resources: []string{fmt.Sprint("r", random.IntN(tt.resources))}, TTL: 2 * time.Second, Fence: true}
						calls.Add(1)
						lease, err := p.Acquire(s.Context(), req)
						if err == ErrHeld {
							continue
						} else if err != nil {
							s.Error(err)
							return
						}
						granted.Add(1)
						time.Sleep(ms)
						upTo(tt.hold - ms)
						lease.Unlock(s.Context())
					}
				})
			}
			callers.Wait()
			// Without a wait, a LOCK is one round, and one more for every fence that was too low.
			second := -calls.Load()
			for _, p := range proxies {
				second += int64(p.Stats().Attempts)
			}
			s.Logf("%s: %d LOCKs, %d granted, %d second rounds", tt.name, calls.Load(), granted.Load(), second)
			if second < 0 || second > grants*tt.second/1000+spare {
				s.Errorf("%s: got %d second rounds in %d grants, want at most %d", tt.name, second, grants, grants*tt.second/1000+spare)
			}
		})
	}
}
