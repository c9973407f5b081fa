package redlock

// Goal: each round trip is counted in the bucket whose bounds it is between, and without memory of its own. Method: times drawn at random, and those
// at the bounds; proxy/http_test.go compares with a histogram of Prometheus's library.

import (
	"context"
	crand "crypto/rand"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestRoundTripsBuckets(t *testing.T) {
	var none RoundTrips
	bucketOf := func(took time.Duration) int {
		var one RoundTrips
		one.add(took)
		return slices.Index(one.Buckets[:], 1)
	}
	for _, tc := range []struct {
		took   time.Duration
		bucket int
	}{
		{-time.Second, 0}, {0, 0}, {1, 0}, {3 * time.Microsecond, 0}, {4 * time.Microsecond, 1},
		{time.Second, 18 * 4}, {time.Second + 1, 18*4 + 1}, {2 * time.Second, 19 * 4}, {time.Hour, RoundTripsBuckets - 1},
	} {
		if got := bucketOf(tc.took); got != tc.bucket {
			t.Errorf("%v: got bucket %d, want %d", tc.took, got, tc.bucket)
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 10_000 {
		took := time.Duration(math.Exp(random.Float64() * math.Log(float64(50*time.Second))))
		i := bucketOf(took)
		if s := took.Seconds(); s > none.BucketMax(i) || i > 0 && s <= none.BucketMax(i-1) {
			t.Errorf("%v: got bucket %d, which is from %g to %g s", took, i, none.BucketMax(i-1), none.BucketMax(i))
		}
	}
	for range 100 {
		none.add(time.Millisecond)
	}
	if none.Count != 100 || none.Sum != 100*time.Millisecond {
		t.Errorf("got %d and %v, want 100 round trips of a millisecond each", none.Count, none.Sum)
	}
}

// A test of its own: it fails where mutants are counted that it comes across.
func TestCountingRoundTripsTakesNoMemory(t *testing.T) {
	var r RoundTrips
	if allocs := testing.AllocsPerRun(100, func() { r.add(time.Millisecond) }); allocs > 0 {
		t.Errorf("counting allocates %v times, want 0", allocs)
	}
}

// Each batch and each heartbeat counts once.
func TestRoundTripsAreCounted(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		for range 10 {
			time.Sleep(time.Second)
			if _, err := p.TryLock(context.Background(), crand.Text(), time.Minute); err != nil {
				s.Fatal(err)
			}
		}
		masters := p.Masters()
		for i, r := range RoundTripsOf(p.Client) {
			sum := uint64(0)
			for _, n := range r.Buckets {
				sum += n
			}
			if r.Addr != masters[i].Addr || sum != r.Count || r.Count <= masters[i].Batches || masters[i].Batches < 10 {
				s.Errorf("got %d round trips in buckets, %d in all, of %s; want those of %d batches and of heartbeats", sum, r.Count, r.Addr, masters[i].Batches)
			}
		}
	})
}
