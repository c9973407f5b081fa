package redlock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/member"
	"redlockd/redlock/quorum"
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

// What the masters have said of a resource, taken together.
func TestWhatMastersSayOfAResource(t *testing.T) {
	const ago = 100 * ms // the reading began
	second := time.Second
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		shown := func(ttl time.Duration) time.Duration { return ttl - clock.DriftOf(ttl, p.drift) }
		holds := func(token string, ttl time.Duration) answer { return answer{value: token, ttl: ttl} }
		readers := func(n int32, ttl time.Duration) answer { return answer{ofReaders: true, readers: n, ttl: ttl} }
		none, broken := answer{}, answer{err: errors.New("broken")}
		for name, tt := range map[string]struct {
			votes   string
			answers []answer
			want    ResourceInfo // Held, Unknown, Shared, Readers, Validity, Fence
			token   string
			ttls    []time.Duration // as shown of each master
		}{
			"held on all": {"GGGGG", []answer{holds("t", 10*second), holds("t", 9*second), holds("t", 8*second), holds("t", 7*second), holds("t", 6*second)},
				ResourceInfo{Held: true, Validity: shown(8*second) - ago}, "t", []time.Duration{shown(10 * second), shown(9 * second), shown(8 * second), shown(7 * second), shown(6 * second)}},
			"held on three, two are silent": {"GGGUU", []answer{holds("t", 10*second), holds("t", 9*second), holds("t", 8*second), none, broken},
				ResourceInfo{Held: true, Validity: shown(8*second) - ago}, "t", nil},
			"held on two, two are silent":   {"GGAUU", []answer{holds("t", 10*second), holds("t", 9*second), none, none, broken}, ResourceInfo{Unknown: true}, "", nil},
			"held on one, two are silent":   {"GAAUU", []answer{holds("t", 10*second), none, none, none, broken}, ResourceInfo{Unknown: true}, "", nil},
			"held on one, one is silent":    {"GAAAU", []answer{holds("t", 10*second), none, none, none, broken}, ResourceInfo{}, "", nil},
			"two tokens":                    {"GGGGG", []answer{holds("t", 10*second), holds("u", 9*second), holds("u", 8*second), holds("t", second), holds("u", 5*second)}, ResourceInfo{Held: true, Validity: shown(5*second) - ago}, "u", nil},
			"three tokens":                  {"GGGGG", []answer{holds("t", 10*second), holds("u", 9*second), holds("u", 8*second), holds("t", second), holds("v", 5*second)}, ResourceInfo{}, "", nil},
			"three are silent":              {"AAUUU", []answer{none, none, none, none, broken}, ResourceInfo{Unknown: true}, "", nil},
			"it ends now":                   {"GGGAA", []answer{holds("t", 0), holds("t", 0), holds("t", 0), none, none}, ResourceInfo{Held: true}, "t", []time.Duration{0, 0, 0, 0, 0}},
			"it never ends":                 {"GGGAA", []answer{holds("t", -1), holds("t", -1), holds("t", -1), none, none}, ResourceInfo{}, "", []time.Duration{-1, -1, -1, 0, 0}},
			"readers":                       {"GGGAA", []answer{readers(2, 9*second), readers(3, 8*second), readers(1, 7*second), none, none}, ResourceInfo{Held: true, Shared: true, Readers: 3, Validity: shown(7*second) - ago}, "", nil},
			"readers that end now":          {"GGGAA", []answer{readers(2, ms), readers(3, ms), readers(1, ms), none, none}, ResourceInfo{Held: true, Shared: true, Readers: 3}, "", nil},
			"readers on two, one is silent": {"GGAAU", []answer{readers(2, 9*second), readers(3, 8*second), none, none, none}, ResourceInfo{Unknown: true, Readers: 3}, "", nil},
			"a writer waits":                {"GGGAA", []answer{readers(0, 9*second), readers(0, 8*second), readers(0, 7*second), none, none}, ResourceInfo{}, "", nil},
			"fences":                        {"AAAAA", []answer{{mark: 3}, {mark: 7}, {mark: 5}, none, none}, ResourceInfo{Fence: 7}, "", nil},
		} {
			op := &Op{}
			r := &round{verb: verbInspect, op: op, view: p.fleet.view.Load(), answers: tt.answers, start: time.Now().Add(-ago)}
			r.setKeys("r")
			d := &deferred{now: time.Now()}
			p.inspectionDecided(r, quorum.Yes, votesOf(tt.votes), d)
			got := *d.results[0].result.Info
			want := tt.want
			want.Resource, want.Votes, want.TokenDigest = "r", got.Votes, got.TokenDigest
			if !reflect.DeepEqual(got, want) || tt.token != "" && got.TokenDigest != TokenDigest(p.Client, tt.token) {
				s.Errorf("%s: got %+v, want %+v", name, got, want)
			}
			for i, one := range got.Votes {
				silent := tt.votes[i] == 'U'
				digest := ""
				if tt.answers[i].value != "" {
					digest = TokenDigest(p.Client, tt.answers[i].value)
				}
				if one.Addr != addrOf(i) || (one.Err != nil) != silent || silent && (one.State != MasterUp || tt.answers[i].err != nil && one.Err != tt.answers[i].err) ||
					one.TokenDigest != digest || one.Readers != int(tt.answers[i].readers) || tt.ttls != nil && one.TTL != tt.ttls[i] {
					s.Errorf("%s: of master %d got %+v", name, i+1, one)
				}
			}
		}
	})
}

// A lease of an empty value, which a library may set, holds nothing where the masters have nothing.
func TestLeaseOfAnEmptyValue(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		p.commit(setNX("r", "", time.Minute)).want(s, "SET NX of nothing", "held", 0)
		for _, held := range []bool{true, false} {
			info := &call{began: time.Now()}
			p.StartInspect(&info.Op, "r", info)
			if p.finish(info); info.Info.Held != held || (len(info.Info.Leases) == 1) != held {
				s.Errorf("held %t: got %+v", held, info.Info)
			}
			s.doAll("DEL", "r")
		}
	})
}

// The leases of this client that hold a resource: that with the token that the masters hold, or readers that have not ended, the first first.
func TestLeasesThatHoldAResource(t *testing.T) {
	now := time.Now()
	leaseOf := func(token string, reader bool, age int, validity time.Duration) *lease {
		return &lease{keys: []string{"r"}, token: token, reader: reader, born: now.Add(-time.Duration(age) * time.Second), validUntil: now.Add(validity)}
	}
	all, bound := &leases{entries: map[string]*entry{}}, &holds{}
	on := func(shared bool, token string) (ages []int) {
		for _, info := range all.on(&ResourceInfo{Resource: "r", Shared: shared, TokenDigest: "digest"}, token, bound, now) {
			if info.TokenDigest != "digest" || info.Bound || info.Shared != shared {
				t.Errorf("got %+v", info)
			}
			ages = append(ages, int(now.Sub(info.Since)/time.Second))
		}
		return ages
	}
	want := func(what string, got []int, want ...int) {
		if !slices.Equal(got, want) {
			t.Errorf("%s: got leases of ages %v, want %v", what, got, want)
		}
	}
	want("nobody has been here", on(false, "t"))
	e := &entry{resource: "r"}
	all.entries["r"] = e
	want("nobody holds it here", on(false, "t"))
	e.lease = leaseOf("t", false, 3, time.Second)
	want("its token", on(false, "t"), 3)
	want("another token", on(false, "u"))
	want("the lease is no reader's", on(true, "t"))
	e.lease = nil
	e.readers = map[string]*lease{"a": leaseOf("a", true, 1, 1), "b": leaseOf("b", true, 5, time.Second), "c": leaseOf("c", true, 9, 0), "d": leaseOf("d", true, 3, time.Second)}
	want("readers of which one has ended", on(true, ""), 5, 3, 1)
	for i := range WaitersShown {
		token := fmt.Sprint(i)
		e.readers[token] = leaseOf(token, true, 100+i, time.Second)
	}
	if got := on(true, ""); len(got) != WaitersShown || got[0] != 100+WaitersShown-1 {
		t.Errorf("%d readers: got those of ages %v, want the %d oldest", len(e.readers), got, WaitersShown)
	}
	clear(e.readers)
	for i := range readersSeen + 1 {
		token := fmt.Sprint(i)
		e.readers[token] = leaseOf(token, true, i, 0) // all have ended but one
	}
	seen := 0
	for range 4 * readersSeen { // the order is random
		e.readers["0"].validUntil = now.Add(time.Second)
		seen += len(on(true, ""))
	}
	if seen == 4*readersSeen || seen < 3*readersSeen {
		t.Errorf("of %d readers one runs: found it in %d of %d lists, want it left out in a few, for %d are looked at", readersSeen+1, seen, 4*readersSeen, readersSeen)
	}
}

// Leases looks at no more than leasesPiece leases at a time.
func TestLeasesInPieces(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		for i := range 2*leasesPiece + 9 {
			if _, err := p.TryLock(context.Background(), fmt.Sprint("r", i), time.Minute); err != nil {
				s.Fatal(err)
			}
		}
		asked := 0
		got := p.Leases(func([]string) bool {
			if asked++; asked == 1 {
				p.mu.Lock()
				defer p.mu.Unlock()
				for _, e := range p.leases.entries {
					e.lease = nil
				}
				clear(p.leases.entries)
				p.leases.all = p.leases.all[:0]
			}
			return true
		}, 1000)
		if asked != leasesPiece || len(got) != leasesPiece {
			s.Errorf("all leases ended with the first piece: %d of %d were asked for, %d listed; want %d and %d", asked, 2*leasesPiece+9, len(got), leasesPiece, leasesPiece)
		}
	})
}

// A list keeps what may still be among the first, and each lease once: readers have others beside them, and a lease that was seen twice has not.
func TestListOfLeases(t *testing.T) {
	always := func([]string) bool { return true }
	listed := func(name, token string, shared bool, held, waiters int64) listedLease {
		return listedLease{info: LeaseInfo{Resources: []string{name}, Shared: shared}, held: true, token: token, scores: scores{ByHeld: held, ByWaiters: waiters}}
	}
	names := func(f *leaseList) (list string) {
		for _, l := range f.leases {
			list += l.info.Resources[0] + l.token + " "
		}
		return list
	}
	f := leaseList{limit: 9}
	f.add([]listedLease{listed("b", "1", false, 5, 0), listed("a", "2", true, 5, 0), listed("b", "3", false, 5, 0), listed("a", "1", true, 5, 0), listed("a", "2", true, 5, 0)}, always)
	if f.sort(); names(&f) != "a1 a2 b1 " {
		t.Errorf("got %s, want two readers of a, and b once", names(&f))
	}
	f = leaseList{limit: 5}
	for range 5 {
		f.add([]listedLease{listed("a", "", false, 7, 0), listed("b", "", false, 8, 0)}, always)
	}
	f.add([]listedLease{listed("c", "", false, 3, 3), listed("d", "", false, 1, 0), listed("no", "", false, 9, 0)}, func(resources []string) bool { return resources[0] != "no" })
	if f.shorten(); names(&f) != "a b c d " {
		t.Errorf("got %s, want all four of five: what was seen often leaves room for others", names(&f))
	}
	if len(f.leases) != 4 {
		t.Errorf("got %d leases, want each once", len(f.leases))
	}
	f = leaseList{limit: 2}
	f.add([]listedLease{listed("a", "", false, 7, 0), listed("b", "", false, 8, 0), listed("c", "", false, 6, 9)}, always)
	if len(f.leases) != 3 {
		t.Errorf("got %d leases, want as many as were added: fewer than twice the limit", len(f.leases))
	}
	f.add([]listedLease{listed("d", "", false, 9, 0)}, always)
	if names(&f) != "d c " {
		t.Errorf("got %s, want the one for which most wait and the one held for longest", names(&f))
	}
	f.add([]listedLease{listed("e", "", false, 8, 8)}, always)
	if names(&f) != "d c " {
		t.Errorf("got %s, want none that would not be chosen", names(&f))
	}
	f.add([]listedLease{listed("f", "", false, 9, 0)}, always)
	if names(&f) != "d c f " {
		t.Errorf("got %s, want also one that is as good as one of them", names(&f))
	}
}
