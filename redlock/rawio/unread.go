package rawio

import (
	"crypto/tls"
	"net"
	"syscall"
)

// Unread tells whether bytes have arrived on the connection that nobody has read yet. It is false where
// that cannot be told. Any goroutine may call it, also while another one reads.
func Unread(c net.Conn) bool {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	switch c.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		return false
	}
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return false
	}
	some := false
	raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		some = err == nil && n > 0
	})
	return some
}
