package memmaster

import (
	"bufio"
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
)

// A server of any kind is reached over a Link as a master is.
func TestListener(t *testing.T) {
	l := NewListener()
	dial := func(link *Link) (net.Conn, error) { return link.Dial(context.Background(), "", "") }
	link := l.Link()
	client, err := dial(link)
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		way[0].Write([]byte("hello\n"))
		if line, err := bufio.NewReader(way[1]).ReadString('\n'); line != "hello\n" || err != nil {
			t.Errorf("read: got %q, %v, want hello", line, err)
		}
	}
	waiting, _ := dial(l.Link())
	l.Close()
	if _, err := waiting.Read(make([]byte, 1)); err == nil {
		t.Error("a connection that was not accepted is open after Close")
	}
	if _, err := dial(link); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Dial after Close: got %v, want it refused", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: got %v, want it closed", err)
	}
	link.Cut()
	for _, end := range []net.Conn{client, server} {
		if _, err := end.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read after Cut: got %v, want a reset", err)
		}
	}
}
