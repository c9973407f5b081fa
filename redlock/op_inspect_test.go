package redlock

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// Goal: Leases looks at a few leases at a time, so that locks are granted and released meanwhile; what does not change is listed all
// the same, once and in order. Method: match itself releases locks and takes others while the list is being made.
func TestLeasesWhileLocksChange(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		const n = 3 * leasesPiece
		lock := func(name string) *Lease {
			lease, err := p.TryLock(context.Background(), name, time.Minute)
			if err != nil {
				s.Fatal(err)
			}
			return lease
		}
		var want []string
		leases := make([]*Lease, n)
		for i := range leases {
			leases[i] = lock(fmt.Sprintf("lock:%04d", i))
			if i%3 > 0 {
				want = append(want, fmt.Sprintf("lock:%04d", i))
			}
		}
		seen := 0
		got := p.Leases(func(resources []string) bool {
			// Every third lock goes, and one more comes for each.
			if i := 3 * seen; i < n {
				if err := leases[i].Unlock(context.Background()); err != nil {
					s.Error(err)
				}
				lock(fmt.Sprintf("new:%04d", seen))
			}
			seen++
			return resources[0][0] == 'l'
		}, n)
		var names []string
		for _, info := range got {
			names = append(names, info.Resources[0])
		}
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
			s.Errorf("got %q, want names in order, each once", names)
		}
		for _, name := range want {
			if !slices.Contains(names, name) {
				s.Errorf("%s is not listed, and was held all the time", name)
			}
		}
		if got := p.Leases(func([]string) bool { return true }, 5); len(got) != 5 || got[0].Resources[0] != want[0] || got[4].Resources[0] != want[4] {
			s.Errorf("the first five: got %v, want %q", got, want[:5])
		}
	})
}
