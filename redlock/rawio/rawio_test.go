package rawio

// Goal: a connection made by New does what an ordinary one does, to the words of its errors.

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pair returns both ends of a connection.
func pair(t *testing.T, network string) (net.Conn, net.Conn) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	near, err := net.Dial(network, listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	return near, far
}

func TestBytesArriveInBothDirections(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		near, far := pair(t, network)
		c := New(near)
		if c == near {
			t.Fatalf("%s: the ordinary connection came back", network)
		}
		// More than the kernel takes at once, and than one call moves.
		sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
		echoed := make(chan error, 1)
		go func() {
			_, err := io.CopyN(far, far, int64(len(sent)))
			echoed <- err
		}()
		wrote := make(chan error, 1)
		go func() {
			n, err := c.Write(sent)
			if err == nil && n != len(sent) {
				err = io.ErrShortWrite
			}
			wrote <- err
		}()
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatalf("%s: %v", network, err)
		}
		if err := errors.Join(<-wrote, <-echoed); err != nil {
			t.Errorf("%s: %v", network, err)
		}
		if !bytes.Equal(got, sent) {
			t.Errorf("%s: other bytes came back", network)
		}
		far.Close()
		if n, err := c.Read(got); n != 0 || err != io.EOF {
			t.Errorf("%s: at the end: %d, %v", network, n, err)
		}
	}
}

func TestReadOfNothingDoesNotWait(t *testing.T) {
	near, _ := pair(t, "tcp")
	if n, err := New(near).Read(nil); n != 0 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}

func TestDeadlineAndCloseEndAWait(t *testing.T) {
	for name, end := range map[string]func(net.Conn){
		"deadline": func(c net.Conn) { c.SetDeadline(time.Now()) },
		"close":    func(c net.Conn) { c.Close() },
	} {
		want := map[string]error{"deadline": os.ErrDeadlineExceeded, "close": net.ErrClosed}[name]
		near, _ := pair(t, "tcp")
		c := New(near)
		failed := make(chan error, 2)
		go func() {
			_, err := c.Read(make([]byte, 1))
			failed <- err
		}()
		go func() {
			_, err := c.Write(make([]byte, 64<<20)) // nobody reads it
			failed <- err
		}()
		select {
		case err := <-failed:
			t.Fatalf("%s: ended by itself: %v", name, err)
		case <-time.After(20 * time.Millisecond):
		}
		end(c)
		for range 2 {
			if err := <-failed; !errors.Is(err, want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestErrorsAreWordedAsUsual(t *testing.T) {
	for name, spoil := range map[string]func(near, far net.Conn){
		"reset": func(near, far net.Conn) {
			far.(*net.TCPConn).SetLinger(0)
			far.Close()
		},
		"deadline": func(near, far net.Conn) { near.SetDeadline(time.Unix(1, 0)) },
		"closed":   func(near, far net.Conn) { near.Close() },
	} {
		for op, do := range map[string]func(net.Conn) error{
			"read": func(c net.Conn) error { _, err := c.Read(make([]byte, 1)); return err },
			"write": func(c net.Conn) (err error) {
				for range 5000 { // the reset may be still on its way
					if _, err = c.Write([]byte("x")); err != nil {
						break
					}
					time.Sleep(time.Millisecond)
				}
				return err
			},
		} {
			var texts [2]string
			for i, wrap := range []func(net.Conn) net.Conn{New, func(c net.Conn) net.Conn { return c }} {
				near, far := pair(t, "tcp")
				c := wrap(near)
				spoil(near, far)
				err := do(c)
				if err == nil {
					t.Fatalf("%s, %s: no error", name, op)
				}
				texts[i] = strings.NewReplacer(near.LocalAddr().String(), "near", near.RemoteAddr().String(), "far").Replace(err.Error())
			}
			if texts[0] != texts[1] {
				t.Errorf("%s, %s: %q, usually %q", name, op, texts[0], texts[1])
			}
		}
	}
}

func TestOthersStayAsTheyAre(t *testing.T) {
	c, _ := net.Pipe()
	if New(c) != c {
		t.Error("a pipe was wrapped")
	}
}

func TestReadAndWriteOfADescriptor(t *testing.T) {
	near, far := pair(t, "tcp")
	raw, err := near.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 3*callMax)
	read := func() (n int, err error) {
		raw.Control(func(fd uintptr) { n, err = Read(fd, b) })
		return n, err
	}
	if n, err := read(); n != 0 || err != syscall.EAGAIN {
		t.Errorf("nothing there: %d, %v", n, err)
	}
	raw.Control(func(fd uintptr) {
		if n, err := Write(fd, b); n < 1 || n > callMax || err != nil {
			t.Errorf("one call wrote %d bytes: %v", n, err)
		}
	})
	far.Close()
	deadline := time.Now().Add(time.Minute)
	for {
		n, err := read()
		if n == 0 && err == nil || errors.Is(err, syscall.ECONNRESET) {
			return // the end, which is a reset where bytes of ours were not read
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %d, %v after the other side has closed", n, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// REDLOCK_RAWIO=off makes everything the ordinary way. It is read before main, so the tests run again
// in a process that has it.
func TestTurnedOff(t *testing.T) {
	if off {
		near, _ := pair(t, "tcp")
		if New(near) != near {
			t.Error("the connection was wrapped")
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run", "TestTurnedOff|TestReadAndWriteOfADescriptor|TestUnread", "-test.v")
	cmd.Env = append(os.Environ(), variable+"=off")
	out, err := cmd.CombinedOutput()
	if passed := strings.Count(string(out), "--- PASS: "); err != nil || passed != 3 {
		t.Errorf("with %s=off: got %v and %d tests that passed, want 3\n%s", variable, err, passed, out)
	}
}
