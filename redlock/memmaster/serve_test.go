// Goal: over real sockets too, faults reach the client and Close ends everything. Method: loopback.
package memmaster

import (
	"io"
	"net"
	"strings"
	"testing"

	"redlockd/redlock/redisproc"
)

// serve answers a loopback listener. At the end of the test Serve must return without an error.
func serve(t *testing.T, m *Master) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- m.Serve(ln) }()
	t.Cleanup(func() {
		m.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: got %v, want nil after Close", err)
		}
	})
	return ln.Addr().String()
}

func dialSocket(t *testing.T, addr string) *wire { return &wire{redisproc.DialWire(t, addr), t} }

func TestServe(t *testing.T) {
	m := newMaster(t, Options{})
	addr := serve(t, m)
	c := dialSocket(t, addr)
	c.expect("set a 1", "+OK|")

	m.Crash(true)
	c.expectClosed()
	dialSocket(t, addr).expectClosed() // the kernel accepts, as the listener is not ours to close
	m.Restart()
	c = dialSocket(t, addr)
	c.expect("get a", "$1|1|")

	// Half-closed: what was sent is answered.
	c.Send("get", "a")
	c.Conn.(*net.TCPConn).CloseWrite()
	c.expectPush("$1|1|")
	c.expectClosed()
}

func TestCloseWhileAPeerDoesNotRead(t *testing.T) {
	m := newMaster(t, Options{})
	c := dialSocket(t, serve(t, m))
	c.expectArgs("+OK|", "set", "big", strings.Repeat("x", 1<<20))
	io.WriteString(c.Conn, strings.Repeat("GET big\r\n", 100)) // more than all buffers hold
	dial(t, m).expect("ping", "+PONG|")
	m.Close()
	serve(t, m) // returns at once
}
