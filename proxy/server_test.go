package proxy

// Goal: every kind of connection is served alike, accepting survives errors, and a server drains before it ends.
// Method: dialogues over TLS, unix sockets and net.Pipe with a server over masters in this process.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TLS and net.Pipe have no file descriptor to write without blocking; all else must be the same.
func TestOtherConnections(t *testing.T) {
	config := selfSigned(t)
	srv := serve(t, func(o *Options) { o.TLSConfig = config })
	converse := func(t *testing.T, srv *testServer, dial func() *client) {
		a, b := dial(), dial()
		a.do("PING").is("+PONG")
		a.do("LOCK", "r", "10000", "TOKEN", "a").granted(1, 10000)
		b.raw(frameOf("LOCK", "r", "10000", "TOKEN", "b", "WAIT", "60000") + frameOf("PING"))
		srv.waiting(1)
		a.do("UNLOCK", "r", "a").is(":1")
		b.read().granted(1, 10000)
		b.read().is("+PONG")
		large := strings.Repeat("x", 300_000)
		b.do("ECHO", large).is(`"` + large + `"`)
		go b.raw(strings.Repeat(frameOf("LOCK", "s", "10000", "TOKEN", "s")+frameOf("UNLOCK", "s", "s"), 100))
		for range 100 {
			b.read().granted(1, 10000)
			b.read().is(":1")
		}
		a.send("LOCK", "r", "10000", "TOKEN", "a", "WAIT", "60000")
		srv.waiting(1)
		a.conn.Close()
		srv.waiting(0)
	}
	t.Run("TLS", func(t *testing.T) {
		converse(t, srv, srv.dialTLS)

		// The end of the stream is announced, so that nobody can forge it: Go's client does not insist on it, others do.
		counting := &countingConn{Conn: srv.dial().conn}
		c := newClient(t, tls.Client(counting, &tls.Config{InsecureSkipVerify: true}))
		c.do("PING").is("+PONG") // and what else belongs to the handshake
		before := counting.read
		c.do("PING").is("+PONG")
		pong := counting.read - before
		c.do("QUIT").is("+OK")
		c.closed()
		if got := counting.read - before - pong; got <= pong {
			t.Errorf("got %d bytes after QUIT, no more than for a PONG, want the alert close_notify behind the OK", got)
		}
	})
	t.Run("silence instead of a handshake", func(t *testing.T) {
		srv := serve(t, func(o *Options) { o.TLSConfig, o.bounds.handshakeTimeout = config, 100*time.Millisecond })
		srv.dial().closed()
	})
	t.Run("plain text to TLS", func(t *testing.T) {
		c := srv.dial()
		c.t = t
		c.raw("PING\r\n")
		c.conn.SetReadDeadline(time.Now().Add(patience))
		buffer := make([]byte, 100)
		if _, err := c.conn.Read(buffer); err != nil && errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	})
	t.Run("net.Pipe", func(t *testing.T) {
		srv := newTestServer(t)
		l := newPipeListener()
		srv.serveOn(l)
		converse(t, srv, func() *client { return newClient(t, l.dial()) })
	})
	t.Run("unix socket", func(t *testing.T) {
		srv := newTestServer(t)
		path := t.TempDir() + "/s"
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		srv.serveOn(l)
		converse(t, srv, func() *client {
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			return newClient(t, conn)
		})
	})
}

func TestShutdown(t *testing.T) {
	srv := serve(t)
	holder, waiting, idle := srv.dial(), srv.dial(), srv.dial()
	holder.do("LOCK", "r", "10000", "TOKEN", "a").granted(1, 10000)
	idle.do("PING").is("+PONG")
	waiting.raw(frameOf("LOCK", "r", "10000", "WAIT", "60000") + frameOf("PING"))
	srv.waiting(1)

	done := make(chan error, 1)
	go func() { done <- srv.Shutdown(context.Background()) }()
	waiting.read().err("LEAVING ")
	waiting.read().is("+PONG")
	idle.do("LOCK", "s", "1000").err("LEAVING ")
	idle.do("MLOCK", "1", "s", "1000").err("LEAVING ")
	if conn, err := net.Dial("tcp", srv.addr); err == nil {
		conn.Close()
		t.Error("a connection was accepted while draining")
	}
	select {
	case err := <-done:
		t.Fatalf("Shutdown returned %v while a lock was held", err)
	case <-time.After(50 * time.Millisecond):
	}
	holder.do("EXTEND", "r", "a", "20000").matches(`:1\d\d\d\d`)
	holder.do("UNLOCK", "r", "a").is(":1")
	if err := <-done; err != nil {
		t.Errorf("Shutdown: got %v, want nil", err)
	}
	holder.closed()
	idle.closed()
}

func TestShutdownEndsWithItsContext(t *testing.T) {
	srv := serve(t)
	holder := srv.dial()
	holder.do("LOCK", "r", "10000", "TOKEN", "a").granted(1, 10000)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := srv.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: got %v, want the error of the context", err)
	}
	holder.closed()
	if err := srv.Close(); err != nil {
		t.Errorf("Close afterwards: got %v", err)
	}
}

// Nobody waits for the release of a lock when no client is left who could send it.
func TestShutdownWithoutClients(t *testing.T) {
	srv := serve(t)
	holder := srv.dial()
	holder.do("LOCK", "r", "60000", "TOKEN", "a").granted(1, 60000)
	holder.conn.Close()
	eventually(t, "the holder has gone", func() bool { return len(srv.clients()) == 0 })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: got %v, want nil", err)
	}
	if n := srv.opts.Engine.Stats().Leases; n != 1 {
		t.Errorf("got %d leases, want the one that runs on", n)
	}
}

// An accept that fails is tried again, after a pause, and not as often as the processor can.
func TestAcceptErrors(t *testing.T) {
	srv := newTestServer(t)
	l := newPipeListener()
	failing := &failingListener{Listener: l, failures: 3}
	srv.serveOn(failing)
	newClient(t, l.dial()).do("PING").is("+PONG")
	if failing.failures != 0 {
		t.Errorf("%d failures are left, want 0", failing.failures)
	}
}

// A flood of new connections leaves pauses, in which Go looks at the network; few connections need not wait.
func TestNewConnectionsLeavePauses(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		came := time.Now()
		for n := range 10*acceptBurst + 1 {
			srv.dial().conn.Close()
			if got, want := time.Since(came), time.Duration(n/acceptBurst)*acceptPause; got != want {
				t.Fatalf("connection %d is accepted after %v, want %v", n+1, got, want)
			}
		}
	})
}

type failingListener struct {
	net.Listener
	failures int
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, errors.New("accept: too many open files")
	}
	return l.Listener.Accept()
}

// pipeListener accepts the other ends of net.Pipe.
type pipeListener struct {
	dialed atomic.Int32
	conns  chan net.Conn
	done   chan struct{}
	once   sync.Once
}

// pipeEnd is the server's end of a net.Pipe. By its addresses it is a connection within this machine.
type pipeEnd struct {
	net.Conn
	client net.TCPAddr
}

func (e *pipeEnd) RemoteAddr() net.Addr { return &e.client }
func (e *pipeEnd) LocalAddr() net.Addr  { return &net.TCPAddr{IP: e.client.IP, Port: 6380} }

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) dial() net.Conn {
	near, far := net.Pipe()
	l.conns <- &pipeEnd{far, net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 50_000 + int(l.dialed.Add(1))}}
	return near
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, fmt.Errorf("accept: %w", net.ErrClosed)
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
