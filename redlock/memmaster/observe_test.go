package memmaster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
)

// An observer sees each command behind the one before it, with its reply, the connection that it came over, and what the master then holds.
func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		t.Cleanup(m.Close)
		conn, err := m.Dial(context.Background(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var got []string
		m.SetObserver(func(e *Executed) {
			value, ends, ok := e.Get("k")
			got = append(got, fmt.Sprintf("%s %q: k %s %v, ends in %d, h.f %q, z.m %v, same connection %v", e.Args[0], e.Reply, value, ok, max(ends-e.UnixMilli, 0), e.HGet("h", "f"), e.ZScore("z", "m"),
				e.Conn == net.Conn(conn)))
		})
		send := func(command string) {
			if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		send("*5\r\n$3\r\nset\r\n$1\r\nk\r\n$1\r\nv\r\n$2\r\npx\r\n$2\r\n50")
		send("*4\r\n$4\r\nhset\r\n$1\r\nh\r\n$1\r\nf\r\n$1\r\nw")
		send("*4\r\n$4\r\nzadd\r\n$1\r\nz\r\n$1\r\n7\r\n$1\r\nm")
		send("*2\r\n$3\r\ndel\r\n$1\r\nk")
		m.SetObserver(nil)
		send("*2\r\n$3\r\ndel\r\n$1\r\nh")
		want := []string{
			`set "+OK\r\n": k v true, ends in 50, h.f "", z.m 0, same connection true`,
			`hset ":1\r\n": k v true, ends in 50, h.f "w", z.m 0, same connection true`,
			`zadd ":1\r\n": k v true, ends in 50, h.f "w", z.m 7, same connection true`,
			`del ":1\r\n": k  false, ends in 0, h.f "w", z.m 7, same connection true`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%q\nwant\n%q", got, want)
		}
	})
}
