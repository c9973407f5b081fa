package proxy

// Goal: replies are in order and sent together; a command that waits holds back those behind it, and nothing else does.
// Method: dialogues over TCP and net.Pipe with a server over masters in this process; conditions are awaited, no time is
// asserted.

import (
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitingLOCKHoldsBackWhatIsBehind(t *testing.T) {
	srv := serve(t)
	a, b := srv.dial(), srv.dial()
	a.do("LOCK", "r", "10000", "TOKEN", "a").granted(1, 10000)

	b.raw(frameOf("PING") + frameOf("LOCK", "r", "10000", "TOKEN", "b", "WAIT", "60000") + frameOf("PING") + frameOf("LOCK", "behind", "10000"))
	b.read().is("+PONG") // what was before it is answered
	srv.waiting(1)
	b.send("ECHO", "sent while it waits")
	b.silent(50 * time.Millisecond)
	a.do("LOCK", "behind", "10000", "TOKEN", "a").granted(1, 10000) // what is behind it is not executed
	a.do("UNLOCK", "behind", "a").is(":1")

	a.do("UNLOCK", "r", "a").is(":1")
	b.read().granted(1, 10000)
	b.read().is("+PONG")
	b.read().granted(1, 10000)
	b.read().is(`"sent while it waits"`)
}

// What waits is unblocked when it knows of a holder: before its first answer it would be told how many masters have voted so far.
func TestCLIENTUNBLOCK(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		a, b := srv.dial(), srv.dial()
		a.do("LOCK", "r", "10000", "TOKEN", "a").granted(1, 10000)
		id := b.do("CLIENT", "ID").matches(`:(\d+)`)[0]

		a.do("CLIENT", "UNBLOCK", id).is(":0") // it does not wait
		b.send("LOCK", "r", "10000", "WAIT", "60000")
		synctest.Wait()
		a.do("CLIENT", "UNBLOCK", id).is(":1")
		b.read().is("*nil")

		b.raw(frameOf("LOCK", "r", "10000", "WAIT", "60000") + frameOf("PING"))
		synctest.Wait()
		a.do("CLIENT", "UNBLOCK", id, "ERROR").is(":1")
		b.read().is("-UNBLOCKED client unblocked via CLIENT UNBLOCK")
		b.read().is("+PONG")
	})
}

// Whatever is answered at once, and whatever later and in whatever order, replies are in the order of the commands.
func TestRepliesInOrder(t *testing.T) {
	srv := newTestServer(t)
	srv.table = newCommandTable([]command{
		{name: "now", arity: 2, handler: func(_ *session, c *call) error {
			c.out = append(append(append(c.out, '+'), c.args[1]...), "\r\n"...)
			return nil
		}},
		{name: "slot", arity: 2, handler: func(_ *session, c *call) error {
			sl := c.newSlot()
			sl.out = append(append(append(sl.out, '+'), c.args[1]...), "\r\n"...)
			flush(sl.complete())
			return nil
		}},
		{name: "later", arity: 2, handler: func(_ *session, c *call) error {
			sl := c.newSlot()
			sl.out = append(append(append(sl.out, '+'), c.args[1]...), "\r\n"...)
			time.AfterFunc(time.Duration(rand.IntN(500))*time.Microsecond, func() { flush(sl.complete()) })
			return nil
		}},
	})
	srv.serveClients()
	c := srv.dial()
	for range 300 {
		var b strings.Builder
		n := 1 + rand.IntN(30)
		for i := range n {
			b.WriteString(frameOf([]string{"now", "slot", "later"}[rand.IntN(3)], strconv.Itoa(i)))
		}
		c.raw(b.String())
		for i := range n {
			c.read().is("+" + strconv.Itoa(i))
		}
	}
}

// The replies to commands that came together leave together, also when a command was answered in between.
func TestManyRepliesOneWrite(t *testing.T) {
	srv := newTestServer(t)
	srv.table = newCommandTable([]command{
		{name: "now", arity: 1, handler: func(_ *session, c *call) error { return c.ok() }},
		{name: "slot", arity: 1, handler: func(_ *session, c *call) error {
			sl := c.newSlot()
			sl.out = append(sl.out, "+OK\r\n"...)
			flush(sl.complete())
			return nil
		}},
	})
	l := newPipeListener()
	srv.serveOn(l)
	near, far := net.Pipe()
	counting := &countingConn{Conn: far}
	l.conns <- counting
	c := newClient(t, near)
	for range 10 {
		go c.raw(strings.Repeat("now\r\nslot\r\n", 40)) // less than one read
		for range 80 {
			c.read().is("+OK")
		}
		eventually(t, "the writer has ended", func() bool {
			conn := srv.client(1)
			conn.mu.Lock()
			defer conn.mu.Unlock()
			return !conn.writing
		})
	}
	c.conn.Close()
	srv.Close()
	if counting.writes != 10 {
		t.Errorf("800 replies, 80 at a time, took %d writes, want 10", counting.writes)
	}
}

// A client that is killed between two of its commands: the second was read already, and is not executed. Nobody would know of its lock.
func TestNothingIsExecutedForTheDead(t *testing.T) {
	srv := newTestServer(t)
	executing, killed := make(chan struct{}), make(chan struct{})
	var second atomic.Int32
	srv.table = newCommandTable([]command{
		{name: "first", arity: 1, handler: func(_ *session, c *call) error {
			close(executing)
			<-killed
			return c.ok()
		}},
		{name: "second", arity: 1, handler: func(_ *session, c *call) error {
			second.Add(1)
			return c.ok()
		}},
	})
	srv.serveClients()
	c := srv.dial()
	c.raw("first\r\nsecond\r\nsecond\r\n")
	<-executing
	srv.client(1).close("killed")
	close(killed)
	eventually(t, "the session is gone", func() bool { return len(srv.clients()) == 0 })
	if n := second.Load(); n != 0 {
		t.Errorf("%d commands of a client that was killed were executed, want none", n)
	}
}

type countingConn struct {
	net.Conn
	writes int
	read   int // bytes
}

func (c *countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read += n
	return n, err
}

func (c *countingConn) Write(b []byte) (int, error) {
	c.writes++
	return c.Conn.Write(b)
}

func TestBadFrameAfterGoodCommands(t *testing.T) {
	c := serve(t).dial()
	c.raw(frameOf("PING") + frameOf("LOCK", "r", "10000", "TOKEN", "x") + frameOf("UNLOCK", "r", "x") + "*1\r\n$-2\r\n" + frameOf("PING"))
	c.read().is("+PONG")
	c.read().granted(1, 10000)
	c.read().is(":1")
	c.read().is("-ERR Protocol error: invalid bulk length")
	c.closed()
}

func TestCLIENTREPLY(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	c.raw(frameOf("CLIENT", "REPLY", "OFF") + frameOf("PING") + frameOf("LOCK", "r", "10000", "TOKEN", "x") + frameOf("NOSUCH") + frameOf("CLIENT", "REPLY", "ON"))
	c.read().is("+OK")
	c.raw(frameOf("CLIENT", "REPLY", "SKIP") + frameOf("PING") + frameOf("ECHO", "a"))
	c.read().is(`"a"`)
	c.raw(frameOf("CLIENT", "REPLY", "SKIP") + frameOf("LOCK", "s", "10000", "TOKEN", "x") + frameOf("LOCKINFO", "r"))
	c.read().matches(`\["resource" "r" "held" :1 .*\]`)
	c.do("UNLOCK", "s", "x").is(":1") // granted, though nobody was told
}
