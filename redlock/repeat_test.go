package redlock

import (
	"math/rand/v2"
	"testing"
	"time"
)

// However attempts with some tokens come and go, on one resource, on several, in any order, with leases beside them or without:
// those of each kind are known as long as they are under way and no UNLOCK has overtaken them, are told apart from all others, and leave
// nothing behind.
func TestRepeatsAreToldApart(t *testing.T) {
	type kind struct {
		keys      []string
		token     string
		rounds    []*round // under way
		overtaken []*round // likewise, by an UNLOCK
		left      mask
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
			last := len(k.rounds) - 1
			_, rep := s.attempt(k.keys, k.token, k.rounds[last])
			if rep.released {
				t.Fatalf("seed %d: an attempt of %+v is not known", seed, k)
			}
			s.end(rep)
			k.rounds = k.rounds[:last]
		}
		for range 60 {
			k := kinds[random.IntN(len(kinds))]
			switch action := random.IntN(12); {
			case action < 4:
				s.begin(k.keys, k.token)
				s.launched++
				k.rounds = append(k.rounds, &round{launched: s.launched})
				if len(k.rounds) == 1 {
					k.left = mask(random.IntN(1 << 5))
					s.repeat(k.keys, k.token).left = k.left
				}
			case action < 8:
				if len(k.rounds) > 0 {
					end(k)
				}
			case action < 9:
				s.release(k.keys, k.token)
				k.overtaken, k.rounds = append(k.overtaken, k.rounds...), nil
			case action < 10:
				for _, r := range k.overtaken {
					_, rep := s.attempt(k.keys, k.token, r)
					if !rep.released {
						t.Fatalf("seed %d: an attempt of %+v that an UNLOCK has overtaken is taken for a later one", seed, k)
					}
					s.end(rep)
				}
				k.overtaken = nil
			default:
				if e := s.entries[k.keys[0]]; e != nil && e.lease != nil {
					s.forget(e.lease)
				} else {
					s.grant(&round{keys: k.keys[:1], token: k.token}, &Share{}, 5, time.Time{})
				}
			}
			for _, k := range kinds {
				switch rep := s.repeat(k.keys, k.token); {
				case (rep == nil) != (len(k.rounds) == 0), rep != nil && (int(rep.underWay) != len(k.rounds) || rep.left != k.left):
					t.Fatalf("seed %d: of %+v is known %+v", seed, k, rep)
				}
			}
		}
		for _, k := range kinds {
			for len(k.rounds) > 0 {
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
