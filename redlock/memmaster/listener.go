package memmaster

import (
	"net"
	"sync"
)

// Listener is the net.Listener of a server in this process, to which clients connect over Links. Create
// it with NewListener. Its methods may be called from any goroutine.
type Listener struct {
	mu      sync.Mutex
	changed sync.Cond // its lock is mu
	// backlog are connections that Accept has not returned yet, in the order in which they came.
	backlog []*pipe
	closed  bool
}

// NewListener returns a listener that clients can connect to at once.
func NewListener() *Listener {
	l := new(Listener)
	l.changed.L = &l.mu
	return l
}

// Link returns a new link to the server, without faults.
func (l *Listener) Link() *Link { return &Link{accept: l.accept} }

// accept is what a kernel does before the server accepts the connection.
func (l *Listener) accept(link *Link) (*pipe, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, false
	}
	p := link.newPipe()
	l.backlog = append(l.backlog, p)
	l.changed.Signal()
	return p, true
}

// Accept waits for a client.
func (l *Listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.backlog) == 0 && !l.closed {
		l.changed.Wait()
	}
	if l.closed {
		return nil, net.ErrClosed
	}
	p := l.backlog[0]
	l.backlog = l.backlog[1:]
	return p.serverEnd(), nil
}

// Close refuses what connects from now on, and closes what was not accepted. Connections that were
// accepted stay.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.backlog {
		p.serverEnd().Close()
	}
	l.closed, l.backlog = true, nil
	l.changed.Broadcast()
	return nil
}

// Addr is the same for all listeners.
func (l *Listener) Addr() net.Addr { return pipeAddr{} }
