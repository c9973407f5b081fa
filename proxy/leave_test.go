package proxy

// Goal: however a client leaves, what it waited for goes to the next in line, and no lock is left to nobody.
// Method: dialogues over TCP with a server over masters in this process; conditions are awaited, no time is asserted.
// What must be released has a TTL beyond all patience, so that it does not end by itself.

import (
	"net"
	"slices"
	"strings"
	"testing"
)

// The line moves on when one of those who stand in it leaves, however it leaves.
func TestClientLeavesWhileItWaits(t *testing.T) {
	for _, leave := range []struct {
		name string
		how  func(srv *testServer, c *client, id string)
	}{
		{"closes", func(_ *testServer, c *client, _ string) { c.conn.Close() }},
		{"resets", func(_ *testServer, c *client, _ string) {
			c.conn.(*net.TCPConn).SetLinger(0)
			c.conn.Close()
		}},
		{"half-closes", func(_ *testServer, c *client, _ string) { c.conn.(*net.TCPConn).CloseWrite() }},
		{"closes with commands behind", func(_ *testServer, c *client, _ string) {
			c.raw(strings.Repeat(frameOf("PING"), 1000))
			c.conn.Close()
		}},
		{"is killed", func(srv *testServer, c *client, id string) {
			srv.dial().do("CLIENT", "KILL", "ID", id).is(":1")
		}},
	} {
		t.Run(leave.name, func(t *testing.T) {
			srv := serve(t)
			a, b, c := srv.dial(), srv.dial(), srv.dial()
			a.do("LOCK", "r", "60000", "TOKEN", "a").granted(1, 60000)
			id := b.do("CLIENT", "ID").matches(`:(\d+)`)[0]
			b.send("LOCK", "r", "60000", "TOKEN", "b", "WAIT", "60000")
			srv.waiting(1)
			c.send("LOCK", "r", "60000", "TOKEN", "c", "WAIT", "60000")
			srv.waiting(2)

			leave.how(srv, b, id)
			srv.waiting(1)
			a.do("UNLOCK", "r", "a").is(":1")
			c.read().granted(1, 60000)
			c.do("UNLOCK", "r", "c").is(":1")
			a.do("LOCK", "r", "60000", "TOKEN", "a").granted(1, 60000)
		})
	}
}

// A client that closes right after LOCK cannot learn that it holds the lock, so it must not.
func TestClientClosesRightAfterLOCK(t *testing.T) {
	srv := serve(t)
	srv.freeze()
	a := srv.dial()
	a.raw(frameOf("LOCK", "r", "60000"))
	eventually(t, "the lock is asked for", func() bool { return srv.opts.Engine.Stats().Attempts == 1 })
	a.conn.Close()
	eventually(t, "its connection is gone", srv.clientGone)
	srv.thaw()
	b := srv.dial()
	b.do("LOCK", "r", "10000", "WAIT", "30000").granted(1, 10000)
}

// It is found out first what its keys hold, then a script or a transaction takes its lock. Not for a client that has gone meanwhile or has
// ended its stream, for it may have given its token back on another connection; nor while the server drains.
func TestClientLeavesBeforeItsSecondRound(t *testing.T) {
	commands := map[string]string{
		"script":      frameOf(take("k", token)...),
		"transaction": frameOf("MULTI") + frameOf("SET", "k", token, "NX", "PX", "20000") + frameOf("EXEC"),
	}
	for _, end := range []struct {
		name   string
		how    func(srv *testServer, c *client)
		answer string // what the client is told, if it is there
	}{
		{"half-closes", func(srv *testServer, c *client) {
			c.conn.(*net.TCPConn).CloseWrite()
			eventually(t, "its stream has ended", srv.clientGone)
		}, "UNBLOCKED the client ended its stream"},
		{"is killed", func(srv *testServer, _ *client) { srv.clients()[0].close("killed") }, ""},
		{"draining", func(srv *testServer, _ *client) { srv.draining.Store(true) }, "LEAVING "},
	} {
		for name, command := range commands {
			t.Run(end.name+", "+name, func(t *testing.T) {
				srv := serve(t)
				srv.open()
				srv.freeze()
				c := srv.dial()
				c.raw(command)
				eventually(t, "it is asked what the keys hold", func() bool {
					return slices.ContainsFunc(srv.clients(), func(conn *connection) bool { return conn.inFlight.Load() == 1 })
				})
				end.how(srv, c)
				srv.thaw()
				if end.answer != "" {
					if name == "transaction" {
						c.read().is("+OK")
						c.read().is("+QUEUED")
					}
					c.read().err(end.answer)
				}
				// Each way to the masters keeps the order: with the first answer the look is over, with the second what it has led to.
				other := srv.dial()
				other.do("EXISTS", "x").is(":0")
				other.do("EXISTS", "x").is(":0")
				if keys := srv.keysOf("k"); len(keys) != 0 {
					t.Errorf("locked for nobody: %q", keys)
				}
			})
		}
	}
}

// The token is the client's own, and it comes back with it on another connection: what it is granted there must stand.
func TestClientReturnsWithItsToken(t *testing.T) {
	srv := serve(t)
	srv.freeze()
	a, b := srv.dial(), srv.dial()
	a.send("LOCK", "r", "60000", "TOKEN", "mine")
	eventually(t, "the lock is asked for", func() bool { return srv.opts.Engine.Stats().Attempts == 1 })
	a.conn.Close()
	eventually(t, "its connection is gone", srv.clientGone)
	b.send("LOCK", "r", "60000", "TOKEN", "mine")
	eventually(t, "the lock is asked for again", func() bool { return srv.opts.Engine.Stats().Attempts == 2 })
	srv.thaw()
	b.read().granted(1, 60000)
	eventually(t, "the first connection is closed", func() bool { return len(srv.clients()) == 1 })
	srv.dial().do("LOCK", "r", "10000", "WAIT", "100").is("*nil")
	b.do("UNLOCK", "r", "mine").is(":1")
}

// clientGone reports whether the end of some client's stream has been read.
func (srv *testServer) clientGone() bool {
	clients := srv.clients()
	return len(clients) == 0 || slices.ContainsFunc(clients, func(conn *connection) bool {
		conn.mu.Lock()
		defer conn.mu.Unlock()
		return conn.halfClosed
	})
}

// printf … | nc: what was sent is answered, except that no lock is granted to a stream that has ended.
func TestHalfClose(t *testing.T) {
	srv := serve(t)
	holder := srv.dial()
	holder.do("LOCK", "r", "60000", "TOKEN", "a").granted(1, 60000)
	holder.do("LOCK", "other", "60000", "TOKEN", token).granted(1, 60000)

	c := srv.dial()
	c.raw(frameOf("PING") + frameOf("LOCK", "r", "10000", "WAIT", "60000") + frameOf("ECHO", "behind") + frameOf("UNLOCK", "r", "x") +
		frameOf("EVAL", releaseScript, "1", "other", token) + frameOf("EVAL", acquireScript, "1", "free", token, "10000") +
		frameOf("LOCK", "r", "10000", "WAIT", "60000") + "PING\r\n*1\r\n$4\r\nPI")
	c.read().is("+PONG")
	srv.waiting(1)
	c.conn.(*net.TCPConn).CloseWrite()
	c.read().err("UNBLOCKED the client ended its stream")
	c.read().is(`"behind"`)
	c.read().is(":0")
	c.read().is(":1")
	c.read().err("UNBLOCKED the client ended its stream")
	c.read().err("UNBLOCKED the client ended its stream")
	c.read().is("+PONG")
	c.closed()
	eventually(t, "nothing is left", func() bool { return len(srv.clients()) == 1 && srv.opts.Engine.Stats().Waiters == 0 })
}

// A lock whose grant waits behind replies that the client does not read is released when the client is closed for it.
func TestGrantThatIsNotReadIsReleased(t *testing.T) {
	for _, command := range []string{"LOCK r 60000", "LOCK r 60000 JUSTTOKEN"} {
		inVirtualTime(t, func(t *testing.T) {
			srv := serve(t) // over net.Pipe, which holds nothing that its reader does not take
			c := srv.dial()
			c.raw(frameOf("PING") + frameOf(strings.Fields(command)...))
			eventually(t, "the lock is granted", func() bool { return srv.opts.Engine.Stats().Granted == 1 })
			eventually(t, "the client is closed", func() bool { return len(srv.clients()) == 0 })
			eventually(t, "the lock is released", func() bool { return srv.counters[countRepliesLost].Load() == 1 })
			srv.dial().do("LOCK", "r", "10000", "WAIT", "10000").granted(1, 10000)
		})
	}
}
