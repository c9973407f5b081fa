package proxy

// What a command costs in session and output, client included; and what an idle connection holds.
//
//	make benchmarks
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
	"time"

	"redlockd/proxy/access"
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
			srv.table = newCommandTable([]command{{name: "set", arity: 6, handler: func(_ *session, c *call) error { return c.ok() }}})
			srv.serveClients()
			converse(b, srv, depth, frameOf("SET", "invoice:4711", "0123456789abcdef0123", "NX", "PX", "30000"), len("+OK\r\n"))
		})
	}
}

// A command that is answered later, by the goroutine that executed it.
func BenchmarkSlot(b *testing.B) {
	for _, depth := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("pipeline=%d", depth), func(b *testing.B) {
			srv := newTestServer(b)
			srv.table = newCommandTable([]command{{name: "later", arity: 1, handler: func(_ *session, c *call) error {
				sl := c.newSlot()
				sl.out = append(sl.out, "+OK\r\n"...)
				flush(sl.complete())
				return nil
			}}})
			srv.serveClients()
			converse(b, srv, depth, frameOf("later"), len("+OK\r\n"))
		})
	}
}

func BenchmarkLOCKandUNLOCK(b *testing.B) {
	onResources(b, nil, len("*2\r\n$20\r\n0123456789abcdef0123\r\n:29999\r\n:1\r\n"), func(resource string) string {
		return frameOf("LOCK", resource, "30000", "TOKEN", token) + frameOf("UNLOCK", resource, token)
	})
}

// BenchmarkPolicyOf is what policies cost a command for each resource that it names: one that no policy matches is compared with all.
func BenchmarkPolicyOf(b *testing.B) {
	for _, n := range []int{0, 1, access.PoliciesMax} {
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			live := newLiveOptions(Options{Policies: somePolicies(n)}, nil)
			resources := []string{"invoice:4711"}
			b.ReportAllocs()
			for b.Loop() {
				if _, refusal := live.termsFor(resources, time.Second, 0); refusal != nil {
					b.Fatal(refusal)
				}
			}
		})
	}
}

// somePolicies are n policies, of which the last one is for invoices.
func somePolicies(n int) (all []access.Policy) {
	for i := 1; i < n; i++ {
		all = append(all, access.Policy{Prefix: fmt.Sprintf("billing:%d:*", i), MaxTTL: time.Second})
	}
	if n > 0 {
		all = append(all, access.Policy{Prefix: "invoice:*", MaxTTL: time.Minute, MaxHold: time.Hour, MaxWaiters: 9})
	}
	return all
}

// BenchmarkSETandEVALSHA is LOCK and UNLOCK as a library for one Redis writes them.
func BenchmarkSETandEVALSHA(b *testing.B) {
	onResources(b, []string{releaseScript}, len("+OK\r\n:1\r\n"), func(resource string) string {
		return frameOf("SET", resource, token, "NX", "PX", "30000") + frameOf("EVALSHA", sandbox.SHA(releaseScript), "1", resource, token)
	})
}

// BenchmarkEVALSHAtwice is a library that acquires by script too.
func BenchmarkEVALSHAtwice(b *testing.B) {
	onResources(b, []string{acquireScript, releaseScript}, len("+OK\r\n:1\r\n"), func(resource string) string {
		return frameOf("EVALSHA", sandbox.SHA(acquireScript), "1", resource, token, "30000") + frameOf("EVALSHA", sandbox.SHA(releaseScript), "1", resource, token)
	})
}

// BenchmarkSETofHeldLocks is the answer no.
func BenchmarkSETofHeldLocks(b *testing.B) {
	for _, depth := range []int{1, 64} {
		b.Run(fmt.Sprintf("pipeline=%d", depth), func(b *testing.B) {
			srv := serve(b)
			srv.dial().do("SET", "invoice:4711", token, "NX", "PX", "60000").is("+OK")
			converse(b, srv, depth, frameOf("SET", "invoice:4711", "another-token-of-20-b", "NX", "PX", "30000"), len("$-1\r\n"))
		})
	}
}

// onResources sends the commands that commandsFor a resource gives, and that leave it free, with one resource and with 64 at a time.
func onResources(b *testing.B, scripts []string, size int, commandsFor func(resource string) string) {
	for _, depth := range []int{1, 64} {
		b.Run(fmt.Sprintf("pipeline=%d", depth), func(b *testing.B) {
			srv := serve(b)
			for _, script := range scripts {
				srv.dial().do("SCRIPT", "LOAD", script)
			}
			var commands strings.Builder
			for i := range depth {
				commands.WriteString(commandsFor(fmt.Sprintf("invoice:%d", i)))
			}
			talk(b, srv, depth, commands.String(), depth*size)
		})
	}
}

// converse sends b.N times the command, depth at a time, and reads replies of this size.
func converse(b *testing.B, srv *testServer, depth int, command string, size int) {
	talk(b, srv, depth, strings.Repeat(command, depth), depth*size)
}

// talk sends the commands of n operations in one write and reads all the replies to them, b.N operations in all.
func talk(b *testing.B, srv *testServer, n int, text string, size int) {
	conn, err := net.Dial("tcp", srv.addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute)) // replies of another size would keep it for ever
	commands, replies := []byte(text), make([]byte, size)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += n {
		if _, err := conn.Write(commands); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, replies); err != nil {
			b.Fatalf("%v, after %q", err, replies)
		}
		if replies[0] == '-' || replies[size-1] != '\n' {
			b.Fatalf("got %q", replies)
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
		eventually(b, "all are gone", func() bool { return len(srv.clients()) == 0 })
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
