package redlock

import (
	"testing"
	"time"
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
