package redisproc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
)

// place is a loopback address that is kept for one process, also while that is down: a server that
// restarts must find its port free, and who connects meanwhile must be refused.
//
// A socket that is bound and does not listen keeps it. The port is below the range from which Linux
// takes the ports of outgoing connections and of listeners on port 0. The socket is bound as the only
// one of the port, so two places are never the same, also in other processes. Only then it gets
// SO_REUSEADDR, with which the kernel lets the process that the place is for bind the same port and
// listen; every server sets that.
type place struct {
	addr  string
	leave func() // once or more often
}

func keepPlace() (*place, error) {
	const low, high = 10000, 32768
	var err error
	for range 1000 {
		port := low + rand.IntN(high-low)
		var fd int
		if fd, err = bindAlone(port); err == nil {
			return &place{addr: fmt.Sprintf("127.0.0.1:%d", port), leave: sync.OnceFunc(func() { syscall.Close(fd) })}, nil
		}
	}
	return nil, fmt.Errorf("find a free port: %w", err)
}

func bindAlone(port int) (fd int, err error) {
	if fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0); err != nil {
		return 0, err
	}
	if err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte(net.IPv4(127, 0, 0, 1).To4())}); err == nil {
		err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	}
	if err != nil {
		syscall.Close(fd)
		return 0, err
	}
	return fd, nil
}

// KeepAddr keeps an address until the test ends: one program after another can listen there, and while
// none does, connections are refused.
func KeepAddr(t testing.TB) string {
	t.Helper()
	p, err := keepPlace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.leave)
	return p.addr
}
