package memmaster

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// wire speaks raw RESP over any connection, so that tests can compare replies byte by byte.
type wire struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
}

func newWire(t testing.TB, conn net.Conn) *wire {
	t.Cleanup(func() { conn.Close() })
	return &wire{t, conn, bufio.NewReader(conn)}
}

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

// send writes a command without waiting for the reply.
func (w *wire) send(args ...string) {
	w.t.Helper()
	if _, err := io.WriteString(w.conn, frame(args...)); err != nil {
		w.t.Fatalf("send %q: %v", args, err)
	}
}

// frame is a command as clients send it.
func frame(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

// do sends a command and returns the raw reply.
func (w *wire) do(args ...string) string {
	w.t.Helper()
	w.send(args...)
	return w.reply()
}

// expect runs a command, given as words, and compares its raw reply, in which | stands for \r\n.
func (w *wire) expect(command, want string) {
	w.t.Helper()
	w.expectArgs(want, strings.Fields(command)...)
}

func (w *wire) expectArgs(want string, args ...string) {
	w.t.Helper()
	if got := visible(w.do(args...)); got != want {
		w.t.Errorf("%q\n got %s\nwant %s", args, got, want)
	}
}

// expectPush reads a message that is no reply.
func (w *wire) expectPush(want string) {
	w.t.Helper()
	if got := visible(w.reply()); got != want {
		w.t.Errorf("message\n got %s\nwant %s", got, want)
	}
}

// expectClosed reads the end of the connection.
func (w *wire) expectClosed() {
	w.t.Helper()
	if b, err := w.r.ReadByte(); err != io.EOF {
		w.t.Errorf("read after the end: got %q, %v, want EOF", b, err)
	}
}

func visible(reply string) string { return strings.ReplaceAll(reply, "\r\n", "|") }

// reply reads one raw reply of RESP2 or RESP3.
func (w *wire) reply() string {
	w.t.Helper()
	// Only a bug makes a reply not come: end the test, with a message, instead of the whole run.
	w.conn.SetReadDeadline(time.Now().Add(time.Minute))
	var b strings.Builder
	if err := readReply(w.r, &b); err != nil {
		w.t.Fatalf("read a reply: %v (after %q)", err, b.String())
	}
	return b.String()
}

func readReply(r *bufio.Reader, into *strings.Builder) error {
	line, err := r.ReadString('\n')
	into.WriteString(line)
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch line[0] {
	case '$', '=':
		if n >= 0 {
			_, err = io.CopyN(into, r, int64(n)+2)
		}
		return err
	case '%':
		n *= 2
	case '*', '>', '~':
	default:
		return nil
	}
	for range n {
		if err := readReply(r, into); err != nil {
			return err
		}
	}
	return nil
}
