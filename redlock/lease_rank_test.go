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
			l := listedLease{info: LeaseInfo{Resources: []string{fmt.Sprintf("%03d", i)}}, scores: scores{ByHeld: int64(1 + score)}}
			for reason := ByWaited; reason < reasons; reason++ {
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

// A list by one reason has the leases that have it, in its order, and no others.
func TestLeasesByReason(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		for i := range 600 { // more than two pieces, the last by name first
			if _, err := p.TryLock(context.Background(), fmt.Sprintf("job:%03d", 599-i), time.Minute); err != nil {
				s.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		for i, waiters := range []int{1, 3, 2} {
			for range waiters {
				p.begin(one(fmt.Sprintf("job:%03d", 100+i), time.Minute).waits(time.Minute))
			}
			time.Sleep(time.Second)
		}
		for _, tc := range []struct {
			by    string
			limit int
			want  []string
		}{
			{"held", 3, []string{"job:599", "job:598", "job:597"}},
			{"HELD", 1, []string{"job:599"}},
			{"waited", 10, []string{"job:100", "job:101", "job:102"}},
			{"waiters", 10, []string{"job:101", "job:102", "job:100"}},
			{"waiters", 1, []string{"job:101"}},
			{"lost", 10, nil},
		} {
			by, ok := ReasonOf(tc.by)
			var got []string
			for _, l := range LeasesBy(p.Client, by, func([]string) bool { return true }, tc.limit) {
				got = append(got, l.Resources[0])
			}
			if !ok || !slices.Equal(got, tc.want) {
				s.Errorf("the first %d by %s: got %q, want %q", tc.limit, tc.by, got, tc.want)
			}
		}
		if by, ok := ReasonOf("age"); ok {
			s.Errorf("age: got %q, want that it is none", by)
		}
	})
}

// Each reason has its order, and leases that have it not are not in it. With none they take turns.
func TestRankOfLeases(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	leases := []LeaseInfo{
		{Resources: []string{"waited a little"}, Waiters: 1, Queue: []WaiterInfo{{Waited: time.Second}}},
		{Resources: []string{"waited by two"}, Waiters: 2, Queue: []WaiterInfo{{Waited: 5 * time.Second}}},
		{Resources: []string{"held longest"}, Since: began},
		{Resources: []string{"lost"}, Since: began.Add(2 * time.Second), Lost: true},
		{Resources: []string{"held long"}, Since: began.Add(time.Second)},
		{Resources: []string{"waited longest"}, Since: began.Add(3 * time.Second), Waiters: 1, Queue: []WaiterInfo{{Waited: 2 * time.Second}, {Waited: 9 * time.Second}, {}}},
		{Resources: []string{"waited since now"}, Since: began.Add(4 * time.Second), Waiters: 1, Queue: []WaiterInfo{{}}},
	}
	for _, tt := range []struct {
		by   string
		n    int
		want []string
	}{
		{"held", 9, []string{"held longest", "held long", "lost", "waited longest", "waited since now"}},
		{"held", 2, []string{"held longest", "held long"}},
		{"waited", 9, []string{"waited longest", "waited by two", "waited a little", "waited since now"}},
		{"waiters", 9, []string{"waited by two", "waited a little", "waited longest", "waited since now"}},
		{"Lost", 9, []string{"lost"}},
		{"", 9, []string{"held longest", "waited longest", "waited by two", "lost", "held long", "waited a little", "waited since now"}},
		{"", 5, []string{"held longest", "waited longest", "waited by two", "lost", "held long"}},
		{"", 0, nil},
	} {
		by, ok := ReasonOf(tt.by)
		var got []string
		for _, i := range RankLeases(by, len(leases), tt.n, func(i int) *LeaseInfo { return &leases[i] }) {
			got = append(got, leases[i].Resources[0])
		}
		if !ok || !slices.Equal(got, tt.want) {
			t.Errorf("the first %d by %q (%v): got %q, want %q", tt.n, tt.by, ok, got, tt.want)
		}
	}
	only := leases[:2] // nobody holds these: the reasons take turns all the same, in the order of the list where they have no other
	if got := RankLeases(ByAny, len(only), 2, func(i int) *LeaseInfo { return &only[i] }); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("of two that are only waited for: got %v, want the first first", got)
	}
}

// A lease that one reason has chosen is not chosen by another. The last scores are those with which each reason chose in its last turn.
func TestRankChoosesEachOnce(t *testing.T) {
	chosen, last := rank([]scores{{ByHeld: 5, ByLost: 1}, {ByHeld: 4}}, 2)
	if want := (scores{ByHeld: 4}); !slices.Equal(chosen, []int{0, 1}) || last != want {
		t.Errorf("got %v, and %v as the last, want both once, and %v", chosen, last, want)
	}
}
