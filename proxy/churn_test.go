package proxy

// Goal: clients that come, wait, hold, vanish in the middle of a command or of a wait, many at once, never hold one resource
// together, and leave nothing behind.
// Method: seeded random clients over TCP against masters in this process; run it with -race. A holder checks that it is
// alone for as long as its validity says so.

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestClientsComeAndGo(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	srv := serve(t)
	var holders [8]atomic.Int64
	var clients sync.WaitGroup
	var granted atomic.Int64
	for i := range 24 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
			for range 15 {
				comeAndGo(t, srv, random, int64(i+1), &holders, &granted)
			}
		})
	}
	clients.Wait()
	t.Logf("%d locks were granted, %d grants were taken back", granted.Load(), srv.counters[countRepliesLost].Load())
	eventually(t, "all clients are gone, and nobody waits", func() bool {
		return len(srv.clients()) == 0 && srv.opts.Engine.Stats().Waiters == 0
	})
	c := srv.dial()
	for i := range holders {
		c.do("LOCK", fmt.Sprint("r", i), "10000", "WAIT", "30000").granted(1, 9898)
	}
	c.conn.Close()
	srv.Close()
	eventually(t, "no goroutine is left", func() bool {
		stacks := make([]byte, 1<<20)
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "proxy.(*session)")
	})
}

// comeAndGo is the life of one connection.
func comeAndGo(t *testing.T, srv *testServer, random *rand.Rand, me int64, holders *[8]atomic.Int64, granted *atomic.Int64) {
	conn, err := net.Dial("tcp", srv.addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	c := newClient(t, conn)
	for range 1 + random.IntN(4) {
		n := random.IntN(len(holders))
		resource := fmt.Sprint("r", n)
		lock := frameOf("LOCK", resource, "200", "WAIT", "100") + frameOf("PING")
		if random.IntN(2) == 0 {
			lock = frameOf("LOCK", resource, "200") + frameOf("PING")
		}
		switch random.IntN(8) {
		case 0: // half a command
			io.WriteString(conn, lock[:random.IntN(len(lock))])
			return
		case 1: // does not wait for the answer
			io.WriteString(conn, lock)
			return
		case 2: // does not wait long for the answer
			io.WriteString(conn, lock)
			time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
			conn.(*net.TCPConn).SetLinger(random.IntN(2) - 1)
			return
		case 3: // garbage behind
			io.WriteString(conn, lock+"*1\r\n$-1\r\n")
			io.Copy(io.Discard, conn)
			return
		}
		sent := time.Now()
		io.WriteString(conn, lock)
		conn.SetReadDeadline(sent.Add(patience))
		text, err := readReply(c.r)
		pong, err2 := readReply(c.r)
		if err != nil || err2 != nil || pong != "+PONG" {
			t.Errorf("got %s, %v and %s, %v", text, err, pong, err2)
			return
		}
		token, rest, ok := strings.Cut(strings.TrimPrefix(text, `["`), `" :`)
		if !ok {
			continue // null
		}
		ms, _ := strconv.Atoi(strings.TrimSuffix(rest, "]"))
		// The validity began when the lock was granted, which is no earlier than this.
		until := sent.Add(time.Duration(ms) * time.Millisecond)
		granted.Add(1)
		other := holders[n].Swap(me)
		if time.Now().Before(until) {
			if other != 0 {
				t.Errorf("%s is granted to %d while %d holds it", resource, me, other)
			}
			time.Sleep(time.Duration(random.IntN(500)) * time.Microsecond)
			if now := holders[n].Load(); now != me && time.Now().Before(until) {
				t.Errorf("%s is held by %d while %d holds it", resource, now, me)
			}
		}
		holders[n].CompareAndSwap(me, 0)
		io.WriteString(conn, frameOf("UNLOCK", resource, token))
		if text, err := readReply(c.r); text != ":1" && text != ":0" {
			t.Errorf("UNLOCK: got %s, %v", text, err)
		}
	}
}
