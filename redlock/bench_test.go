package redlock

// What the engine costs by itself, without a proxy and without a protocol of clients. From the inside out: the bytes of a batch,
// a batch there and back, and a lock with its unlock through all of it.
//
//	make benchmarks
//
// Masters are in this process, so that a step does not wait for the kernel; with masters=real they are redis-servers.

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"redlockd/redlock/memmaster"
	"redlockd/redlock/quorum"
	"redlockd/redlock/redisproc"
)

// What every operation makes, and what is kept of every lock, fits a size class of the runtime: a byte more would cost a good deal more memory.
func TestSizes(t *testing.T) {
	for _, what := range []struct {
		name      string
		size, fit uintptr
	}{
		{"round", unsafe.Sizeof(round{}), 192},
		{"round and commit, in one piece", unsafe.Sizeof(round{}) + unsafe.Sizeof(commit{}), 352},
		{"lease", unsafe.Sizeof(lease{}), 144},
		{"entry", unsafe.Sizeof(entry{}), 96},
	} {
		if what.size > what.fit {
			t.Errorf("%s: takes %d bytes, want at most %d", what.name, what.size, what.fit)
		}
	}
}

// benchRounds are n rounds of each verb, each on a resource of its own.
func benchRounds(n int, verbs ...verb) []*round {
	var rounds []*round
	for i := range n {
		for _, v := range verbs {
			rounds = append(rounds, newRound(v, "lyxqp5mBW7nQwTkQYLr3F_WfVx0.mwpqrck8", 30*time.Second, "invoices:"+strconv.Itoa(i)))
		}
	}
	return rounds
}

var benchVerbs = []struct {
	name  string
	verbs []verb
}{
	{"SET", []verb{verbSet}},
	{"release", []verb{verbRelease}},
	{"SET+release", []verb{verbSet, verbRelease}},
	{"extend", []verb{verbExtend}},
	{"read", []verb{verbInspect}},
}

// BenchmarkEncode is the commands of a batch, from rounds to bytes.
func BenchmarkEncode(b *testing.B) {
	for _, bm := range benchVerbs {
		for _, n := range []int{1, 64} {
			b.Run("rounds="+bm.name+"/n="+strconv.Itoa(n), func(b *testing.B) {
				batch := unsentBatch()
				batch.rounds = benchRounds(n, bm.verbs...)
				b.ReportAllocs()
				for b.Loop() {
					batch.begin()
					for i := range batch.rounds {
						batch.add(int32(i))
					}
					batch.emit()
					batch.wire.Out = batch.wire.Out[:0]
				}
			})
		}
	}
}

// execGranted executes batches of these rounds, all of which are granted.
func execGranted(b *testing.B, batch *batch, of ...[]*round) {
	for _, rounds := range of {
		batch.rounds = rounds
		if err := batch.exec(); err != nil {
			b.Fatal(err)
		}
		for i, v := range batch.votes {
			if v != quorum.Granted {
				b.Fatalf("round %d of %d: vote %v, want granted", i, len(rounds), v)
			}
		}
	}
}

// BenchmarkBatch is a batch of locks and their releases, to a master in this process and back: encoded, executed, read, voted.
func BenchmarkBatch(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run("rounds=SET+release/n="+strconv.Itoa(n), func(b *testing.B) {
			batch := standing(b, newMemMaster(b))
			sets, releases := benchRounds(n, verbSet), benchRounds(n, verbRelease)
			b.ReportAllocs()
			for b.Loop() {
				execGranted(b, batch, sets, releases)
			}
		})
	}
}

// BenchmarkReaders is what a lock and its release cost a redis-server, in batches of so many of each: readers of one resource, beside writers with a
// resource each. master-µs/pair is the server's CPU time.
func BenchmarkReaders(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		for _, bm := range []struct {
			name   string
			shared bool
		}{{"writers", false}, {"readers", true}} {
			b.Run(bm.name+"/n="+strconv.Itoa(n), func(b *testing.B) {
				server := redisproc.StartForTest(b, 1)[0]
				info := dialServer(b, server.Addr)
				used := func() (us float64) {
					for line := range strings.Lines(info.Info(b.Context(), "cpu").Val()) {
						name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
						if name == "used_cpu_sys" || name == "used_cpu_user" {
							seconds, err := strconv.ParseFloat(value, 64)
							if err != nil {
								b.Fatal(err)
							}
							us += seconds * 1e6
						}
					}
					return us
				}
				batch := standingOn(b, Master{Addr: server.Addr})
				sets, releases := benchRounds(n, verbSet), benchRounds(n, verbRelease)
				for i := range n {
					if bm.shared {
						token := "lyxqp5mBW7nQwTkQYLr3F_WfVx0." + strconv.Itoa(10_000_000+i)
						sets[i] = newRound(verbJoin, token, 30*time.Second, "invoices").asReader(true)
						releases[i] = newRound(verbRelease, token, 30*time.Second, "invoices").asReader(true)
					}
				}
				before := used()
				for b.Loop() {
					execGranted(b, batch, sets, releases)
				}
				b.ReportMetric((used()-before)/float64(b.N*n), "master-µs/pair")
			})
		}
	}
}

// BenchmarkPair is TryLock and Unlock, each caller on a resource of its own.
func BenchmarkPair(b *testing.B) {
	for _, masters := range []string{"memory", "real"} {
		for _, callers := range []int{1, 64, 1024} {
			b.Run("masters="+masters+"/callers="+strconv.Itoa(callers), func(b *testing.B) { benchmarkPair(b, openBench(b, masters), callers) })
		}
	}
}

func benchmarkPair(b *testing.B, c *Client, callers int) {
	pair := func(name string) {
		lease, err := c.TryLock(context.Background(), name, 30*time.Second)
		if err == nil {
			err = lease.Unlock(context.Background())
		}
		if err != nil {
			b.Error(err)
		}
	}
	b.ReportAllocs()
	if callers == 1 {
		for b.Loop() {
			pair("pair")
		}
		return
	}
	var next atomic.Int64
	b.SetParallelism(max(1, callers/runtime.GOMAXPROCS(0)))
	b.ResetTimer() // starting the masters is not part of it; b.Loop leaves that out by itself
	b.RunParallel(func(pb *testing.PB) {
		name := "pair:" + strconv.FormatInt(next.Add(1), 10)
		for pb.Next() {
			pair(name)
		}
	})
}

// BenchmarkDenied is a TryLock of a resource that is held.
func BenchmarkDenied(b *testing.B) {
	c := openBench(b, "memory")
	if _, err := c.TryLock(context.Background(), "held", time.Minute); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.TryLock(context.Background(), "held", time.Minute); !errors.Is(err, ErrHeld) {
			b.Fatalf("got %v, want %v", err, ErrHeld)
		}
	}
}

// openBench is a client over five masters: redis-servers ("real"), or in this process.
func openBench(b *testing.B, masters string) *Client {
	if masters == "real" {
		return openReal(b, redisproc.StartForTest(b, 5), nil)
	}
	var o Options
	for i := range 5 {
		m := newMemMaster(b, memmaster.Options{})
		o.Masters = append(o.Masters, Master{Addr: "m" + strconv.Itoa(i+1), Dialer: m.Dial})
	}
	if err := Bootstrap(context.Background(), o); err != nil {
		b.Fatal(err)
	}
	c, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close(context.Background()) })
	if err := c.Ready(context.Background()); err != nil {
		b.Fatal(err)
	}
	return c
}
