package redlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/member"
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

// Goal: all clients of a fleet make the same digest of a token, also after a restart, so that people can compare; nobody can make it who has
// only the token, or one of another fleet.
func TestDigestsOfTokens(t *testing.T) {
	const token = "host17:4711" // easily guessed
	digests := map[string]bool{conn.Digest(token): true}
	for range 2 {
		inVirtualTime(t, 3, func(s *stage) {
			p, other := s.open(), s.open()
			digest := TokenDigest(p.Client, token)
			if len(digest) != conn.DigestLen || digests[digest] {
				s.Errorf("got %q, want 16 digits that no other fleet has, nor one without a key: %v", digest, digests)
			}
			digests[digest] = true
			p.lock(one("r", time.Minute).as(token)).want(s, "LOCK", "held", 0)
			p.Close(s.Context())
			for what, p := range map[string]*proxy{"another client": other, "one that starts later": s.open()} {
				if got := TokenDigest(p.Client, token); got != digest {
					s.Errorf("%s makes the digest %s, want %s", what, got, digest)
				}
				info, err := p.Inspect(s.Context(), "r")
				if err != nil || info.TokenDigest != digest || info.Votes[0].TokenDigest != digest {
					s.Errorf("%s shows %+v, %v; want the digest %s", what, info, err, digest)
				}
			}
			if r := s.membership(0); strings.Contains(other.Membership().Lineage, r.Lineage[:member.FleetLen]) || strings.Contains(other.Membership().Lineage, r.Lineage[member.FleetLen:]) {
				s.Errorf("the lineage %s is shown: %s", r.Lineage, other.Membership().Lineage)
			}
		})
	}
}
