package proxy

// Goal: the kernel notices within half a minute that a client has vanished, whether something was on its way to it or not. Method: what is
// set on an accepted connection.

import (
	"net"
	"syscall"
	"testing"
)

func TestVanishedClientIsNoticed(t *testing.T) {
	srv := serve(t)
	srv.dial().do("PING").is("+PONG")
	conn := srv.Server.client(1)
	conn.mu.Lock()
	raw, err := conn.net.(*net.TCPConn).SyscallConn()
	conn.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		for _, option := range []struct {
			name            string
			level, id, want int
		}{
			{"SO_KEEPALIVE", syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
			{"TCP_KEEPIDLE", syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 15},
			{"TCP_KEEPINTVL", syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 5},
			{"TCP_KEEPCNT", syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 3},
			{"TCP_USER_TIMEOUT", syscall.IPPROTO_TCP, tcpUserTimeout, 30_000},
		} {
			if got, err := syscall.GetsockoptInt(int(fd), option.level, option.id); err != nil || got != option.want {
				t.Errorf("%s: got %d, %v, want %d", option.name, got, err, option.want)
			}
		}
	})
}
