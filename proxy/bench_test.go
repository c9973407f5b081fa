package proxy

// What a command costs in guard, session and output, client included; and what an idle connection holds.
//
//	go test ./proxy -run '^$' -bench . -benchmem
//
// The client sends many commands in one write and reads many replies in one read. PING is what the connection costs by
// itself; with LOCK and UNLOCK there is the engine, and five masters in this process, which cost more than all else.

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"redlockd/redlock/sandbox"
)

func BenchmarkPING(b *testing.B) {
	for _, depth := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("pipeline=%d", depth), func(b *testing.B) {
			srv := serve(b)
			converse(b, srv, depth, frameOf("PING"), len("+PONG\r\n"))
		})
	}
}

// ECHO with the arguments of a LOCK: what six arguments cost.
func BenchmarkCommandOfSixArguments(b *testing.B) {
	for _, depth := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("pipeline=%d", depth), func(b *testing.B) {
			srv := newTestServer(b)
			srv.table = newCommandTable([]command{{name: "set", arity: 6, handler: func(_ *session, c *call) { c.ok() }}})
			srv.serveTCP()
			converse(b, srv, depth, frameOf("SET", "invoice:4711", "0123456789abcdef0123", "NX", "PX", "30000"), len("+OK\r\n"))
		})
	}
}

// A command that is answered later, by the goroutine that executed it.
func BenchmarkSlot(b *testing.B) {
	for _, depth := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("pipeline=%d", depth), func(b *testing.B) {
			srv := newTestServer(b)
			srv.table = newCommandTable([]command{{name: "later", arity: 1, handler: func(_ *session, c *call) {
				sl := c.later()
				sl.out = append(sl.out, "+OK\r\n"...)
				sl.completeNow()
			}}})
			srv.serveTCP()
			converse(b, srv, depth, frameOf("later"), len("+OK\r\n"))
		})
	}
}

func BenchmarkLOCKandUNLOCK(b *testing.B) {
	for _, depth := range []int{1, 64} {
		b.Run(fmt.Sprintf("pipeline=%d", depth), func(b *testing.B) {
			srv := serve(b)
			c := srv.dial()
			var pairs strings.Builder
			for i := range depth {
				resource := fmt.Sprintf("invoice:%d", i)
				pairs.WriteString(frameOf("LOCK", resource, "30000", "TOKEN", "0123456789abcdef0123") + frameOf("UNLOCK", resource, "0123456789abcdef0123"))
			}
			b.ReportAllocs()
			for i := 0; i < b.N; i += depth {
				c.raw(pairs.String())
				for range depth {
					c.read().granted(1, 30000)
					c.read().is(":1")
				}
			}
		})
	}
}

// BenchmarkSETandEVALSHA is LOCK and UNLOCK as a library for one Redis writes them.
func BenchmarkSETandEVALSHA(b *testing.B) {
	for _, depth := range []int{1, 64} {
		b.Run(fmt.Sprintf("pipeline=%d", depth), func(b *testing.B) {
			srv := serve(b)
			c := srv.dial()
			c.do("SCRIPT", "LOAD", releaseScript)
			sha := sandbox.SHA(releaseScript)
			var pairs strings.Builder
			for i := range depth {
				resource := fmt.Sprintf("invoice:%d", i)
				pairs.WriteString(frameOf("SET", resource, token, "NX", "PX", "30000") + frameOf("EVALSHA", sha, "1", resource, token))
			}
			b.ReportAllocs()
			for i := 0; i < b.N; i += depth {
				c.raw(pairs.String())
				for range depth {
					c.read().is("+OK")
					c.read().is(":1")
				}
			}
		})
	}
}

// converse sends b.N times the command, depth at a time, and reads replies of this size.
func converse(b *testing.B, srv *testServer, depth int, command string, size int) {
	conn, err := net.Dial("tcp", srv.addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	commands, replies := []byte(strings.Repeat(command, depth)), make([]byte, depth*size)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += depth {
		if _, err := conn.Write(commands); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, replies); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGuard is the guard and redcon alone.
func BenchmarkGuard(b *testing.B) {
	frame := []byte(frameOf("SET", "invoice:4711", "0123456789abcdef0123", "NX", "PX", "30000"))
	var g guard
	var args [][]byte
	b.ReportAllocs()
	for b.Loop() {
		size, err := g.next(frame, &testLimits)
		if err != nil {
			b.Fatal(err)
		}
		if args, err = split(frame[:size], args); err != nil || len(args) != 6 {
			b.Fatal(args, err)
		}
	}
}

// BenchmarkIdleConnections reports what an idle connection holds in this process, its client's end (less than 1 kB) included and the
// kernel's buffers not: after a PING, and after a LOCK and UNLOCK, which take a deeper stack. It wants 20 000 files; with fewer
// allowed it makes fewer connections.
func BenchmarkIdleConnections(b *testing.B) {
	b.Run("after=PING", func(b *testing.B) { idleConnections(b, frameOf("PING"), 1) })
	b.Run("after=LOCK", func(b *testing.B) {
		idleConnections(b, frameOf("LOCK", "r", "30000", "TOKEN", "x")+frameOf("UNLOCK", "r", "x"), 5)
	})
}

func idleConnections(b *testing.B, command string, lines int) {
	connections := 10_000
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		connections = min(connections, int(files.Cur)/2-100)
	}
	srv := serve(b)
	for b.Loop() {
		before := memoryInUse()
		conns := make([]net.Conn, connections)
		reply := make([]byte, 1000)
		for i := range conns {
			conn, err := net.Dial("tcp", srv.addr)
			if err != nil {
				b.Fatal(err)
			}
			conns[i] = conn
			io.WriteString(conn, command)
			for n, seen := 0, 0; seen < lines; seen = bytes.Count(reply[:n], []byte("\n")) {
				m, err := conn.Read(reply[n:])
				if err != nil {
					b.Fatal(err)
				}
				n += m
			}
		}
		b.ReportMetric(float64(memoryInUse()-before)/float64(connections), "B/connection")
		for _, conn := range conns {
			conn.Close()
		}
		eventually(b, "all are gone", func() bool { return srv.clients() == 0 })
	}
}

// memoryInUse is heap and stacks after a collection.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
