package memmaster

import (
	"io"
	"net"
	"strings"
	"testing"

	"redlockd/redlock/redisproc"
)

// wire is a raw connection to a master.
type wire struct {
	*redisproc.Wire
	t testing.TB
}

func newWire(t testing.TB, conn net.Conn) *wire { return &wire{redisproc.NewWire(t, conn), t} }

// dial opens a raw connection to a master.
func dial(t testing.TB, m *Master) *wire {
	t.Helper()
	conn, err := m.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	return newWire(t, conn)
}

// newMaster starts a master that ends with the test.
func newMaster(t testing.TB, o Options) *Master {
	m := New(o)
	t.Cleanup(m.Close)
	return m
}

// expect runs a command, given as words, and compares its raw reply, in which | stands for \r\n.
func (w *wire) expect(command, want string) {
	w.t.Helper()
	w.expectArgs(want, strings.Fields(command)...)
}

func (w *wire) expectArgs(want string, args ...string) {
	w.t.Helper()
	if got := visible(w.Do(args...)); got != want {
		w.t.Errorf("%q\n got %s\nwant %s", args, got, want)
	}
}

// expectPush reads a message that is no reply.
func (w *wire) expectPush(want string) {
	w.t.Helper()
	if got := visible(w.Reply()); got != want {
		w.t.Errorf("message\n got %s\nwant %s", got, want)
	}
}

// expectClosed reads the end of the connection.
func (w *wire) expectClosed() {
	w.t.Helper()
	if b, err := w.In.ReadByte(); err != io.EOF {
		w.t.Errorf("read after the end: got %q, %v, want EOF", b, err)
	}
}

func visible(reply string) string { return strings.ReplaceAll(reply, "\r\n", "|") }
