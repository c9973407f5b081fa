// Goal: a client's end behaves as a TCP connection: deadlines, close, bounds. Method: virtual time.
package memmaster

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestConnDeadlines(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		conn, err := m.Dial(t.Context(), "tcp", "ignored")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var b [10]byte
		begin := time.Now()
		conn.SetDeadline(begin.Add(time.Second))
		_, err = conn.Read(b[:])
		if netErr, ok := errors.AsType[net.Error](err); !ok || !netErr.Timeout() {
			t.Errorf("read: got %v, want a time out", err)
		}
		if got := time.Since(begin); got != time.Second {
			t.Errorf("read: got after %v, want 1s", got)
		}
		if _, err = conn.Write([]byte("PING\r\n")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write after the deadline: got %v, want a time out", err)
		}
		conn.SetDeadline(time.Time{})
		if _, err = conn.Write([]byte("PING\r\n")); err != nil {
			t.Errorf("write: got %v", err)
		}
		if n, err := conn.Read(b[:]); string(b[:n]) != "+PONG\r\n" || err != nil {
			t.Errorf("read: got %q, %v, want PONG", b[:n], err)
		}

		// A read that waits already heeds a deadline that is set now.
		go func() {
			time.Sleep(time.Minute)
			conn.SetReadDeadline(time.Now())
		}()
		begin = time.Now()
		if _, err = conn.Read(b[:]); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("read: got %v after %v, want a time out after 1m", err, time.Since(begin))
		}
	})
}

func TestConnClose(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		conn, err := m.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Second)
			conn.Close()
		}()
		var b [10]byte
		if _, err := conn.Read(b[:]); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read while Close comes: got %v, want ErrClosed", err)
		}
		if _, err := conn.Write(b[:]); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write after Close: got %v, want ErrClosed", err)
		}
		synctest.Wait()
		m.mu.Lock()
		clients, pipes := len(m.clients), len(m.link.pipes)
		m.mu.Unlock()
		if clients != 0 || pipes != 0 {
			t.Errorf("left on the master: %d clients, %d pipes, want none", clients, pipes)
		}
	})
}

func TestWriteToFrozenMasterBlocksAtTheBound(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		c := dial(t, m)
		m.Freeze()
		c.Conn.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := io.WriteString(c.Conn, strings.Repeat("PING\r\n", streamBytesMax/3))
		// The master's goroutine took one read before it stopped because the master is frozen.
		if most := streamBytesMax + 32<<10; !errors.Is(err, os.ErrDeadlineExceeded) || n < streamBytesMax || n > most {
			t.Errorf("write: got %d bytes, %v, want %d to %d and a time out", n, err, streamBytesMax, most)
		}
		m.Thaw()
		for range n / len("PING\r\n") {
			if got := c.Reply(); got != "+PONG\r\n" {
				t.Fatalf("reply: got %q, want PONG", got)
			}
		}
		c.Conn.Close()
	})
}

func TestClientThatDoesNotReadIsNotRead(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		c := dial(t, m)
		c.expectArgs("+OK|", "SET", "big", strings.Repeat("x", streamBytesMax/2))
		done := make(chan struct{})
		go func() {
			for range 10 * streamBytesMax / 4096 {
				if _, err := io.WriteString(c.Conn, strings.Repeat("GET big\r\n", 455)); err != nil {
					break
				}
			}
			close(done)
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Errorf("a client that reads nothing could write all it liked")
		default:
		}
		link := m.link
		link.mu.Lock()
		unread := link.pipes[0].streams[replies].sizeLocked()
		link.mu.Unlock()
		if most := 2 * streamBytesMax; unread > most {
			t.Errorf("replies kept for a client that reads nothing: got %d bytes, want at most %d", unread, most)
		}
		c.Conn.Close()
		<-done
	})
}

func TestDialHonoursItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, m *Master) {
		link := m.Link()
		link.Partition()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := link.Dial(ctx, "", ""); !timedOut(err) || time.Since(begin) != time.Second {
			t.Errorf("dial over a partitioned link: got %v after %v, want a time out after 1s", err, time.Since(begin))
		}
		go func() {
			time.Sleep(time.Minute)
			link.Heal()
		}()
		conn, err := link.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatalf("dial over a link that heals: got %v", err)
		}
		conn.Close()
		if _, err := link.Dial(ctx, "", ""); !timedOut(err) {
			t.Errorf("dial with a context that has ended: got %v, want a time out", err)
		}
	})
}
