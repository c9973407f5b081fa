package memmaster

import (
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/redisproc"
)

// BenchmarkPipeline is a lane's batch: 64 acquisitions, then 64 releases as one script call. One
// iteration is one batch.
func BenchmarkPipeline(b *testing.B) {
	m := newMaster(b, Options{})
	c := redis.NewClient(&redis.Options{Dialer: m.Dial, Protocol: 2, PoolSize: 1, PipelinePoolSize: -1, DisableIdentity: true})
	defer c.Close()
	ctx := b.Context()
	const batch = 64
	keys, tokens := make([]string, batch), make([]any, batch)
	for i := range keys {
		keys[i], tokens[i] = "resource-"+strconv.Itoa(i), "0123456789abcdefghij"
	}
	release := c.ScriptLoad(ctx, `local held, gone = redis.call('MGET', unpack(KEYS)), {}
		for i = 1, #KEYS do if held[i] == ARGV[i] then gone[#gone + 1] = KEYS[i] end end
		if #gone > 0 then redis.call('DEL', unpack(gone)) end
		return #gone`).Val()
	b.Run("SET", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p := c.Pipeline()
			for i := range keys {
				p.Do(ctx, "SET", keys[i], tokens[i], "NX", "PX", 30000)
			}
			p.Exec(ctx)
		}
	})
	b.Run("SET+release", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p := c.Pipeline()
			for i := range keys {
				p.Do(ctx, "SET", keys[i], tokens[i], "NX", "PX", 30000)
			}
			released := p.EvalSha(ctx, release, keys, tokens...)
			p.Exec(ctx)
			if n, err := released.Int(); n != batch {
				b.Fatalf("released: got %d, %v, want %d", n, err, batch)
			}
		}
	})
}

// BenchmarkCommands is the master alone: it executes and answers a batch of 64, without a client.
func BenchmarkCommands(b *testing.B) {
	for _, bm := range []struct{ name, command string }{
		{"SET", redisproc.Frame("SET", "resource-1", "0123456789abcdefghij", "NX", "PX", "30000")},
		{"SET+DEL", redisproc.Frame("SET", "resource-1", "0123456789abcdefghij", "NX", "PX", "30000") + redisproc.Frame("DEL", "resource-1")},
		{"GET", redisproc.Frame("GET", "resource-1")},
		{"EVAL", redisproc.Frame("EVAL", "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end", "1", "resource-1", "token")},
	} {
		b.Run(bm.name, func(b *testing.B) {
			m := newMaster(b, Options{})
			p := m.Link().newPipe()
			c := newClient(m, 1, p)
			reader := &p.client
			discard := make([]byte, 1<<16)
			b.ReportAllocs()
			for b.Loop() {
				for range 64 {
					c.in.Added(copy(c.in.Room(), bm.command))
				}
				m.execute(c)
				if n, _ := reader.Read(discard); discard[0] == '-' {
					b.Fatalf("got %q", discard[:n])
				}
			}
		})
	}
}
