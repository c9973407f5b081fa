package redisproc

import (
	"net"
	"sync"
	"testing"
)

// Relay is the network between one client and one master: a TCP relay on an address of its own that can
// refuse, hold and let pass. It carries bytes in order and loses none that it has accepted, unless it
// is cut.
type Relay struct {
	Addr string // where the client connects

	listener net.Listener

	mu     sync.Mutex
	moved  *sync.Cond // anything below has changed
	target string
	away   bool // connections break, and new ones are closed at once
	held   bool // new connections begin held
	wires  map[*cable]bool
}

// cable is one connection through a relay.
type cable struct {
	client, master *net.TCPConn
	held           bool // bytes, and the end of a connection, wait here in both directions
}

// NewRelay leads to a master, until the test ends.
func NewRelay(t testing.TB, target string) *Relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{Addr: listener.Addr().String(), listener: listener, target: target, wires: map[*cable]bool{}}
	r.moved = sync.NewCond(&r.mu)
	var running sync.WaitGroup
	running.Go(func() { r.accept(&running) })
	t.Cleanup(func() {
		listener.Close()
		r.Cut()
		running.Wait()
	})
	return r
}

// Cut breaks the link: whatever is held is lost.
func (r *Relay) Cut() { r.change(func() { r.away = true }) }

// Hold keeps all bytes back until Restore, also those of connections that are yet to come.
func (r *Relay) Hold() {
	r.change(func() {
		r.held = true
		for w := range r.wires {
			w.held = true
		}
	})
}

// HoldPresent is Hold for the connections that stand now; new ones pass.
func (r *Relay) HoldPresent() {
	r.change(func() {
		for w := range r.wires {
			w.held = true
		}
	})
}

// Restore mends the link: what was held is delivered, in order.
func (r *Relay) Restore() {
	r.change(func() {
		r.away, r.held = false, false
		for w := range r.wires {
			w.held = false
		}
	})
}

// Redirect breaks all connections and leads new ones to another master.
func (r *Relay) Redirect(target string) {
	r.change(func() {
		r.target = target
		for w := range r.wires {
			w.held = false
			w.close()
		}
	})
}

func (r *Relay) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	if r.away {
		for w := range r.wires {
			w.close()
		}
	}
	r.moved.Broadcast()
}

func (r *Relay) accept(running *sync.WaitGroup) {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		running.Go(func() { r.serve(client.(*net.TCPConn)) })
	}
}

func (r *Relay) serve(client *net.TCPConn) {
	defer client.Close()
	r.mu.Lock()
	target := r.target
	r.mu.Unlock()
	master, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer master.Close()
	r.mu.Lock()
	w := &cable{client: client, master: master.(*net.TCPConn), held: r.held}
	if r.away || r.target != target {
		r.mu.Unlock()
		return
	}
	r.wires[w] = true
	r.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { r.carry(w, w.client, w.master) })
	both.Go(func() { r.carry(w, w.master, w.client) })
	both.Wait()
	r.mu.Lock()
	delete(r.wires, w)
	r.mu.Unlock()
}

// carry moves one direction of a wire. It reads on while the wire is held, so that a client that gives
// up and closes has still sent what it sent.
func (r *Relay) carry(w *cable, from, to *net.TCPConn) {
	arrived := make(chan []byte, 1024)
	go func() {
		defer close(arrived)
		for {
			b := make([]byte, 16<<10)
			n, err := from.Read(b)
			if n > 0 {
				arrived <- b[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	for b := range arrived {
		r.await(w)
		if _, err := to.Write(b); err != nil {
			w.close()
		}
	}
	r.await(w)
	to.CloseWrite()
}

// await returns when the wire is not held, or is cut.
func (r *Relay) await(w *cable) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w.held && !r.away {
		r.moved.Wait()
	}
}

func (w *cable) close() {
	w.client.Close()
	w.master.Close()
}
