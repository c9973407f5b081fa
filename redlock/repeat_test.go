package redlock

import (
	"math/rand/v2"
	"testing"
	"time"
)

// However attempts with some tokens come and go, on one resource, on several, in any order, with leases beside them or without:
// those of each kind are known as long as they are under way, are told apart from all others, and leave nothing behind.
func TestRepeatsAreToldApart(t *testing.T) {
	type kind struct {
		keys     []string
		token    string
		underWay int
		left     mask
	}
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		s := newLeases()
		var kinds []*kind
		for _, keys := range [][]string{{"a"}, {"b"}, {"a", "b"}, {"b", "a"}, {"a", "b", "c"}, {"a", "c", "b"}} {
			for _, token := range []string{"1", "2", "3"} {
				kinds = append(kinds, &kind{keys: keys, token: token})
			}
		}
		end := func(k *kind) {
			s.end(s.repeat(k.keys, k.token))
			k.underWay--
		}
		for range 60 {
			k := kinds[random.IntN(len(kinds))]
			switch action := random.IntN(5); {
			case action < 2:
				s.begin(k.keys, k.token)
				if k.underWay++; k.underWay == 1 {
					k.left = mask(random.IntN(1 << 5))
					s.repeat(k.keys, k.token).left = k.left
				}
			case action < 4:
				if k.underWay > 0 {
					end(k)
				}
			default:
				if e := s.entries[k.keys[0]]; e != nil && e.lease != nil {
					s.forget(e.lease)
				} else {
					s.grant(&round{keys: k.keys[:1], token: k.token}, time.Time{})
				}
			}
			for _, k := range kinds {
				switch rep := s.repeat(k.keys, k.token); {
				case (rep == nil) != (k.underWay == 0), rep != nil && (rep.underWay != k.underWay || rep.left != k.left):
					t.Fatalf("seed %d: of %+v is known %+v", seed, k, rep)
				}
			}
		}
		for _, k := range kinds {
			for k.underWay > 0 {
				end(k)
			}
		}
		for len(s.all) > 0 {
			s.forget(s.all[0])
		}
		if len(s.entries)+len(s.repeats) > 0 {
			t.Fatalf("seed %d: at the end %d resources and %d repeats are left", seed, len(s.entries), len(s.repeats))
		}
	}
}
