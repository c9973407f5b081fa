package redlock

// The cost of the engine alone: no proxy, no client protocol; masters are real processes, so that ns/op is the whole way and
// allocs/op ours.

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

func BenchmarkPair(b *testing.B) {
	for _, callers := range []int{1, 64, 1024} {
		b.Run("callers="+strconv.Itoa(callers), func(b *testing.B) {
			c := openReal(b, realMasters(b, 5), nil)
			var next atomic.Int64
			b.ReportAllocs()
			b.SetParallelism((callers + 1) / 2)
			if callers == 1 {
				b.SetParallelism(1)
			}
			b.RunParallel(func(pb *testing.PB) {
				ctx := context.Background()
				name := "pair:" + strconv.FormatInt(next.Add(1), 10)
				for pb.Next() {
					lease, err := c.TryLock(ctx, name, 30*time.Second)
					if err != nil {
						b.Fatal(err)
					}
					if err := lease.Unlock(ctx); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
