package redisproc

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

// Wire speaks raw RESP over a connection, so that tests can compare replies byte by byte. What fails
// ends the test.
type Wire struct {
	Conn net.Conn
	In   *bufio.Reader // what arrives on Conn
	t    testing.TB
}

// NewWire takes a connection, and closes it when the test ends.
func NewWire(t testing.TB, conn net.Conn) *Wire {
	t.Cleanup(func() { conn.Close() })
	return &Wire{Conn: conn, In: bufio.NewReader(conn), t: t}
}

// DialWire connects to an address, until the test ends.
func DialWire(t testing.TB, addr string) *Wire {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return NewWire(t, conn)
}

// Frame is a command as clients send it.
func Frame(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

// Send writes a command without waiting for the reply.
func (w *Wire) Send(args ...string) {
	w.t.Helper()
	if _, err := io.WriteString(w.Conn, Frame(args...)); err != nil {
		w.t.Fatalf("send %.200q: %v", args, err)
	}
}

// Reply reads one raw reply of RESP2 or RESP3.
func (w *Wire) Reply() string {
	w.t.Helper()
	// Only a bug makes a reply not come: end the test, with a message, instead of the whole run.
	w.Conn.SetReadDeadline(time.Now().Add(time.Minute))
	var b strings.Builder
	if err := readReply(w.In, &b); err != nil {
		w.t.Fatalf("read a reply: %v (after %q)", err, b.String())
	}
	return b.String()
}

// Do sends a command and returns the raw reply.
func (w *Wire) Do(args ...string) string {
	w.t.Helper()
	w.Send(args...)
	return w.Reply()
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
