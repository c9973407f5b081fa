package redisproc

// Goal: the address of a server is its own from its start to its end, so that no test fails by a port that somebody else has. Method: the
// kernel itself, and a redis-server that is killed and restarted while others look for addresses.

import (
	"errors"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestKeepAddr(t *testing.T) {
	addr := KeepAddr(t)
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // one program after another
		if conn, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("while nobody listens: got %v, %v, want it refused", conn, err)
		}
		if fd, err := bindAlone(port); err != syscall.EADDRINUSE {
			t.Fatalf("another place at the same address: got %d, %v, want %v", fd, err, syscall.EADDRINUSE)
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := net.Listen("tcp", addr); !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatalf("a second listener: got %v, %v, want %v", second, err, syscall.EADDRINUSE)
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		accepted.Close() // first, so that TIME_WAIT is on the side of the listener
		conn.Close()
		l.Close()
	}
}

func TestServerKeepsItsAddress(t *testing.T) {
	s := StartForTest(t, 1)[0]
	first := s.Pid()
	s.Kill()
	if _, err := net.Dial("tcp", s.Addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("while it is down: got %v, want it refused", err)
	}
	for range 100 {
		if addr := KeepAddr(t); addr == s.Addr {
			t.Fatalf("%s was given to another, too", addr)
		}
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if ready, err := answers(s.Addr, s.Pid()); !ready || err != nil || s.Pid() == first {
		t.Errorf("restarted: ready %v, %v, process %d, before %d", ready, err, s.Pid(), first)
	}
}

func TestSetClock(t *testing.T) {
	Need(t, "redis-server", "redis-cli", "gcc")
	shim, err := BuildClockShim(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := StartClocked(shim)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, port, _ := net.SplitHostPort(s.Addr)
	for _, offset := range []time.Duration{time.Hour, -time.Hour} {
		if err := s.SetClock(offset); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("redis-cli", "-p", port, "TIME").Output()
		if err != nil {
			t.Fatal(err)
		}
		seconds, _, _ := strings.Cut(string(out), "\n")
		unix, _ := strconv.ParseInt(seconds, 10, 64)
		if off := time.Until(time.Unix(unix, 0)) - offset; off.Abs() > time.Minute {
			t.Errorf("the clock moved by %v: the server's time is %s, off by %v", offset, seconds, off)
		}
	}
}
