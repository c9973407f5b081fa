package redlock

// Goal: a list that has room for a few leases has those held for longest, those waited for for longest and by most, and those that are lost,
// wherever they stand by name. Method: leases of which the last by name are the ones to list; and lists drawn at random, shortened piece by
// piece and all at once.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestLeasesHasTheLongestHeld(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		lock := func(format string, args ...any) {
			if _, err := p.TryLock(context.Background(), fmt.Sprintf(format, args...), time.Minute); err != nil {
				s.Fatal(err)
			}
		}
		wait := func(resource string) { p.begin(one(resource, time.Minute).waits(time.Minute)) }
		lock("z:held for longest")
		time.Sleep(time.Second)
		lock("y:waited for")
		wait("y:waited for")
		time.Sleep(time.Second)
		lock("x:waited for by most")
		for range 3 {
			wait("x:waited for by most")
		}
		for i := range 3000 {
			lock("job:%04d", i)
		}
		for limit, want := range map[int][]string{
			1: {"z:held for longest"},
			2: {"y:waited for", "z:held for longest"},
			3: {"x:waited for by most", "y:waited for", "z:held for longest"},
			5: {"job:0000", "job:0001", "x:waited for by most", "y:waited for", "z:held for longest"},
		} {
			var got []string
			for _, l := range p.Leases(func([]string) bool { return true }, limit) {
				got = append(got, l.Resources[0])
			}
			if !slices.Equal(got, want) {
				s.Errorf("the %d to list of 3003: got %q, want %q", limit, got, want)
			}
		}
	})
}

// A list that is shortened piece by piece has the same leases as one that is shortened once, and never many more than its limit.
func TestLeasesAreRankedInPieces(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		limit, count := 1+random.IntN(20), random.IntN(400)
		pieces, whole := leaseList{limit: limit}, leaseList{limit: limit}
		for i, score := range random.Perm(count) {
			l := listedLease{info: LeaseInfo{Resources: []string{fmt.Sprintf("%03d", i)}}, scores: scores{int64(1 + score)}}
			for reason := 1; reason < reasons; reason++ {
				if random.IntN(10) == 0 {
					l.scores[reason] = 1 + random.Int64()
				}
			}
			pieces.add([]listedLease{l}, func([]string) bool { return true })
			if n := len(pieces.leases); n > 2*limit {
				t.Fatalf("%d leases are kept, want %d at most", n, 2*limit)
			}
			whole.leases = append(whole.leases, l)
		}
		names := func(f *leaseList) (names []string) {
			f.shorten()
			f.sort()
			for _, l := range f.leases {
				names = append(names, l.info.Resources[0])
			}
			return names
		}
		if got, want := names(&pieces), names(&whole); !slices.Equal(got, want) || len(got) != min(limit, count) {
			t.Fatalf("%d of %d: got %q piece by piece, %q at once", limit, count, got, want)
		}
	}
}
