package serve

import (
	"errors"
	"io"
	"net"
	"time"

	"redlockd/cmd/redlockd/config"
)

// healthPause bounds how often the server says that it is alive. A health check asks every few seconds.
const healthPause = 10 * time.Millisecond

// serveHealth answers `redlockd ping --inside` until the function that it returns is called, also while the server starts and drains. Every process of the
// network namespace can connect. So the server reads nothing there, and writes one line, once the engine and the front have answered (alive). It serves one
// connection after the other; the kernel bounds how many wait.
//
// Of two servers in one container, or on one machine without containers, the first has the socket.
func (s *server) serveHealth() (end func()) {
	name := config.HealthSocket()
	if name == "" {
		return func() {}
	}
	l, err := net.Listen("unix", name)
	if err != nil {
		s.log.Debug("ping --inside does not ask this server", "err", err)
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				s.alive()
				io.WriteString(conn, config.Alive) // the buffer of a new socket has room
				conn.Close()
			}
			time.Sleep(healthPause) // also where no file can be opened
		}
	}()
	return func() {
		l.Close()
		<-ended
	}
}

// alive returns when the engine and the server have answered, for which they take all locks that a command takes.
func (s *server) alive() {
	s.engine.Stats()
	s.front.Clients()
}
