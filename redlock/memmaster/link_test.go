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
func TestLinkTo(t *testing.T) {
	var server net.Conn
	link := LinkTo(func(end net.Conn) { server = end })
	client, err := link.Dial(context.Background(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		way[0].Write([]byte("hello\n"))
		if line, err := bufio.NewReader(way[1]).ReadString('\n'); line != "hello\n" || err != nil {
			t.Errorf("read: got %q, %v, want hello", line, err)
		}
	}
	link.Cut()
	for _, end := range []net.Conn{client, server} {
		if _, err := end.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read after Cut: got %v, want a reset", err)
		}
	}
}
