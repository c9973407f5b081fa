package proxy

// Goal: a client that sends too much, too little or nonsense, or does not read, costs the server a bounded amount of memory and
// time, and other clients nothing.
// Method: such clients, over TCP and net.Pipe, against a server over masters in this process.

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Abuse: each is refused with a word, closed, and costs the server nothing.
func TestTooMuch(t *testing.T) {
	srv := serve(t)
	for _, test := range []struct{ name, input, want string }{
		{"100 000 arguments", "*100000\r\n" + strings.Repeat("$1\r\nx\r\n", 100_000), "ERR Protocol error: invalid multibulk length: 100000 arguments, the limit is 1024"},
		{"1 MB resource", frameOf("LOCK", strings.Repeat("x", 1<<20), "1000"), "ERR Protocol error: invalid bulk length: 1048576 bytes in one argument, the limit is 524288"},
		{"endless line", strings.Repeat("x", 1<<20), "ERR Protocol error: too big inline request: the limit is 4096 bytes"},
		{"HTTP", "POST / HTTP/1.1\r\nHost: localhost\r\n\r\nLOCK r 1000\r\n", "ERR Protocol error: this looks like HTTP"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := srv.dial()
			c.t = t
			c.conn.(*net.TCPConn).SetWriteBuffer(32 << 10) // so that the server must read on for all to be sent
			began := time.Now()
			if _, err := io.WriteString(c.conn, test.input); err != nil && time.Since(began) < lingerTime {
				t.Errorf("the server does not read on: %v", err)
			}
			c.read().err(test.want)
			c.closed()
		})
	}
	srv.dial().do("LOCKS").is("[]")
}

func TestPanicInACommand(t *testing.T) {
	var log testLog
	srv := newTestServer(t, log.keep)
	srv.table = newCommandTable(slices.Concat(commandRows, []command{
		{name: "boom", arity: -1, handler: func(_ *session, c *call) error {
			c.out = append(c.out, "+half a rep"...)
			panic("boom")
		}},
		{name: "boomlater", arity: -1, handler: func(_ *session, c *call) error {
			c.newSlot()
			panic("boom")
		}},
	}))
	srv.serveClients()
	c := srv.dial()
	c.raw(frameOf("PING") + frameOf("boom") + frameOf("PING"))
	c.read().is("+PONG")
	c.read().is("-ERR internal error")
	c.read().is("+PONG")
	c.send("boomlater")
	c.closed()
	srv.dial().do("PING").is("+PONG")
	srv.Close()
	for _, want := range []string{"panic in a command", "command=boom ", "command=boomlater", "abuse_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
}

// A client that sends and never reads fills its output to the bound and no further, and is closed.
func TestClientThatDoesNotRead(t *testing.T) {
	var log testLog
	srv := serve(t, log.keep, func(o *Options) { o.bounds.outputMax, o.bounds.writeTimeout = 64<<10, 200*time.Millisecond })
	c := srv.dial()
	c.do("PING").is("+PONG")
	most := srv.flood(c, strings.Repeat(frameOf("ECHO", strings.Repeat("x", 10_000)), 100))
	if limit := 64<<10 + batchMax + 10_100; most > limit {
		t.Errorf("%d bytes waited for the client, want at most %d", most, limit)
	}
	srv.Close()
	if !strings.Contains(log.String(), "client does not read its replies") {
		t.Errorf("the log does not say so:\n%s", log.String())
	}
}

// flood has a client send without reading until it is closed, and returns the most bytes that waited for a client meanwhile.
func (srv *testServer) flood(c *client, commands string) (most int) {
	srv.t.Helper()
	others := len(srv.clients()) - 1
	go c.sendWithoutEnd(commands)
	eventually(srv.t, "it is closed", func() bool {
		clients := srv.clients()
		for _, conn := range clients {
			conn.mu.Lock()
			most = max(most, conn.unsentLocked())
			conn.mu.Unlock()
		}
		return len(clients) == others
	})
	return most
}

// sendWithoutEnd sends the commands again and again until the connection is closed.
func (c *client) sendWithoutEnd(commands string) {
	for err := error(nil); err == nil; {
		_, err = io.WriteString(c.conn, commands)
	}
}

// Replies that come later are bounded like those that are known at once, however short the commands are that were sent together.
func TestClientThatDoesNotReadWhatComesLater(t *testing.T) {
	const reply = 100_000
	srv := serve(t, func(o *Options) { o.bounds.outputMax, o.bounds.writeTimeout = 64<<10, 200*time.Millisecond })
	c := srv.dial()
	c.do("LOCK", "r", "60000", "TOKEN", "x").granted(1, 60_000)
	for _, command := range []string{
		frameOf("EVAL", "return string.rep('x', 100000)", "0"),
		// Behind a command that waits for masters.
		frameOf("EXTEND", "r", "x", "60000") + frameOf("COMMAND", "DOCS"),
	} {
		c := srv.dial()
		c.do("PING").is("+PONG")
		most := srv.flood(c, strings.Repeat(command, 1000))
		if limit := 64<<10 + batchMax + 2*reply; most > limit {
			t.Errorf("%.60q: %d bytes waited for the client, want at most %d", command, most, limit)
		}
	}
	c.do("EVAL", "return string.rep('x', 200000)", "1", "k").err("ERR the script's reply takes 200064 bytes, at most 131072 are possible")
	c.do("EVAL", "if redis.call('set', KEYS[1], 'x', 'nx', 'px', 1000) then return {string.rep('x', 70000), string.rep('x', 70000)} end", "1", "k").err("ERR the script's reply takes 140192 bytes")
	c.do("GET", "k").is("$nil")
}

// A slow reader is no dead reader.
func TestSlowReaderGetsEverything(t *testing.T) {
	srv := serve(t, func(o *Options) { o.bounds.outputMax, o.bounds.writeTimeout = 16<<10, time.Minute })
	c := srv.dial()
	large := strings.Repeat("x", 200_000)
	go c.raw(strings.Repeat(frameOf("ECHO", large)+frameOf("LOCK", "r", "60000", "TOKEN", "x")+frameOf("UNLOCK", "r", "x"), 20))
	for range 20 {
		time.Sleep(10 * time.Millisecond)
		c.read().is(`"` + large + `"`)
		c.read().granted(1, 60000)
		c.read().is(":1")
	}
}

// Nor is one that takes longer for one write than writeTimeout, as long as it takes something.
func TestVerySlowReader(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, func(o *Options) { o.bounds.writeTimeout = time.Second })
		c := srv.dial()
		large := strings.Repeat("x", 30_000)
		c.send("ECHO", large)
		got := make([]byte, len("$30000\r\n")+len(large)+2)
		for n := 0; n < len(got); n += 1000 {
			time.Sleep(900 * time.Millisecond)
			if _, err := io.ReadFull(c.conn, got[n:min(n+1000, len(got))]); err != nil {
				t.Fatalf("after %d bytes: %v", n, err)
			}
		}
		if !strings.Contains(string(got), large) {
			t.Error("the reply is damaged")
		}
	})
}

func TestHalfACommandAndSilence(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, func(o *Options) { o.bounds.commandTimeout = time.Second })
		idle, half, waiting := srv.dial(), srv.dial(), srv.dial()
		idle.do("LOCK", "r", "10000", "TOKEN", "x").granted(1, 10000)
		lock := frameOf("LOCK", "r", "10000", "WAIT", "60000")
		waiting.raw(lock[:10])
		eventually(t, "half a command has come", func() bool {
			return slices.ContainsFunc(srv.clients(), func(conn *connection) bool { return conn.incompleteSince.Load() != 0 })
		})
		waiting.raw(lock[10:] + frameOf("QUIT") + "*1\r\n$4\r\nPI") // it waits, and what is behind is not looked at
		srv.waiting(1)
		began := time.Now()
		half.raw("*2\r\n$4\r\nECHO\r\n$1000\r\nxxx")
		half.closed()
		if took := time.Since(began); took < time.Second || took > time.Second*5/4 {
			t.Errorf("the client was closed after %v, want after command_timeout, 1s, and a quarter of it at most", took)
		}
		time.Sleep(time.Second) // long enough for runTimeouts to look
		idle.do("UNLOCK", "r", "x").is(":1")
		waiting.read().granted(1, 10000)
		waiting.read().is("+OK")
	})
}

// What clients send of commands that never get whole is bounded for all of them together, over TCP and TLS, at the cost of the user who sends most of it, who is
// told. Others' commands come in pieces all the while. What ends is free again.
func TestHalfCommandsOfAllClients(t *testing.T) {
	config := selfSigned(t)
	for name, tlsConfig := range map[string]*tls.Config{"TCP": nil, "TLS": config} {
		t.Run(name, func(t *testing.T) {
			const total = 2 << 20
			srv := serve(t, threeUsers, func(o *Options) { o.OutputTotal, o.TLSConfig = total, tlsConfig })
			dial := func(user string) *client {
				if tlsConfig == nil {
					return srv.dialAs(user)
				}
				c := srv.dialTLS()
				c.do("AUTH", user, user[:1]).is("+OK")
				return c
			}
			large := frameOf("ECHO", strings.Repeat("x", 99_000))
			modest := dial("modest")
			modest.raw(large[:90_000])
			greedy := make(map[*client]bool)
			sum := func() (n int64) { return srv.live().accounts[1].output.Load() }
			for i := range 300 {
				c := dial("greedy")
				c.conn.Write([]byte(large[:15_000+i%2*30_000])) // it may be closed meanwhile
				greedy[c] = true
			}
			eventually(t, "some are closed, and the rest fits", func() bool {
				return srv.counters[countEvicted].Load() > 100 && srv.output.Load() <= total && sum() > total/2
			})
			modest.raw(large[90_000:])
			modest.read().matches(`"x+"`)
			modest.do("ECHO", strings.Repeat("y", 14_000)).matches(`"y+"`)
			told := 0
			for c := range greedy {
				c.conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
				if text, _ := readReply(c.r); strings.Contains(text, "ERR Protocol error: too much is kept of handshakes, commands in part, transactions and subscriptions, and most for this one: all clients can take 2097152 bytes (output_total)") {
					told++
				}
			}
			if closed := srv.counters[countEvicted].Load(); tlsConfig == nil && told < int(closed/2) {
				t.Errorf("%d clients are closed, %d told why", closed, told)
			}
			for _, conn := range srv.clients() {
				conn.close("the test ends")
			}
			eventually(t, "all is free again", func() bool { return srv.output.Load() == 0 })
		})
	}
}

// What counts of half a command is the memory that waits for its rest, before it comes; of a short one, nothing.
func TestHalfACommandCounts(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	half := frameOf("ECHO", strings.Repeat("x", 100_000))
	for _, step := range []struct{ sent, want int }{{smallMax, 0}, {8 << 10, chunkSize}, {chunkSize - roomMin/2, 2 * chunkSize}, {60_000, 4 * chunkSize}} {
		c.raw(half[:step.sent])
		eventually(t, fmt.Sprintf("%d bytes count for half a command of %d", step.want, step.sent), func() bool {
			return srv.counters[countBytesIn].Load() >= uint64(step.sent) && srv.output.Load() == int64(step.want)
		})
		c.conn.Close()
		srv.counters[countBytesIn].Store(0)
		c = srv.dial()
	}
	eventually(t, "nothing counts when they have left", func() bool { return srv.output.Load() == 0 })
}

// A transaction, subscriptions and names count while the session keeps them, and a handshake while it is under way.
func TestWhatASessionKeepsCounts(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	value := strings.Repeat("x", 10_000)
	counts := func(what string, least int) {
		t.Helper()
		eventually(t, what, func() bool { n := int(srv.output.Load()); return n >= least && n < least+2000 })
	}
	c.do("SET", "k", value, "NX", "PX", "60000").is("+OK")
	c.do("WATCH", "k").is("+OK")
	counts("what a watched key held counts", 10_000)
	c.do("MULTI").is("+OK")
	c.do("SET", "k", value, "PX", "60000").is("+QUEUED")
	counts("and a command that is queued", 20_000)
	c.do("DISCARD").is("+OK")
	counts("what is over does not count", 0)
	c.do("SUBSCRIBE", strings.Repeat("c", 5000)).matches(`\["subscribe" .*`)
	counts("a subscription counts", 5000)
	c.conn.Close()
	counts("nothing counts when the client has left", 0)

	config := selfSigned(t)
	srv = serve(t, func(o *Options) { o.TLSConfig = config })
	c = srv.dial()
	c.raw("\x16\x03\x01\x3f\xff\x01\x00\x40\x00" + value)
	counts("half a handshake counts as often as it is kept", handshakeCopies*(10_009))
	srv.dialTLS().do("PING").is("+PONG")
	counts("one that is done does not", handshakeCopies*(10_009))
	c.conn.Close()
	counts("nothing counts when it has left", 0)
}

func TestIdleTimeout(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, func(o *Options) { o.IdleTimeout = time.Second })
		idle, busy := srv.dial(), srv.dial()
		waiting := srv.dial()
		busy.do("LOCK", "r", "10000", "TOKEN", "x").granted(1, 10000)
		waiting.send("LOCK", "r", "10000", "TOKEN", "y", "WAIT", "60000")
		eventually(t, "the idle client is closed", func() bool {
			time.Sleep(900 * time.Millisecond)
			busy.do("PING").is("+PONG")
			return srv.client(1) == nil
		})
		idle.closed()
		busy.do("UNLOCK", "r", "x").is(":1")
		waiting.read().granted(1, 10000) // a client that waits is not idle
		time.Sleep(900 * time.Millisecond)
		waiting.do("PING").is("+PONG") // and begins to be when it has its reply
		waiting.closed()
	})
}

// A client that is refused learns why, however busy the machine is.
func TestRefusedClientIsTold(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, func(o *Options) { o.MaxClients = 1 })
		srv.dial().do("PING").is("+PONG")
		late := srv.dial()
		time.Sleep(500 * time.Millisecond)
		late.read().is("-ERR max number of clients reached")
		late.closed()
		// One that never reads keeps nobody else out for long.
		srv.dial()
		srv.dial().read().is("-ERR max number of clients reached")
	})
}

// At pipelineMax commands in flight no other is executed until one is answered.
func TestPipelineMax(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) { // on a busy machine the masters would be frozen for too long
		srv := serve(t, func(o *Options) { o.bounds.pipelineMax = 4 })
		c := srv.dial()
		id, _ := strconv.ParseInt(c.do("CLIENT", "ID").text[1:], 10, 64)
		srv.freeze()
		go c.raw(strings.Repeat(frameOf("LOCK", "r", "10000", "TOKEN", "x")+frameOf("UNLOCK", "r", "x"), 100))
		eventually(t, "four are in flight", func() bool { return srv.client(id).inFlight.Load() == 4 })
		time.Sleep(20 * time.Millisecond)
		if got := srv.client(id).inFlight.Load(); got != 4 {
			t.Errorf("got %d commands in flight, want at most 4", got)
		}
		srv.thaw()
		for range 100 {
			c.read().granted(1, 10000)
			c.read().is(":1")
		}
	})
}
