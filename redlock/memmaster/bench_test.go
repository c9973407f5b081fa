package memmaster

import (
	"testing"

	"redlockd/redlock/redisproc"
)

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
