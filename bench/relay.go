package main

import (
	"fmt"
	"net"
	"sync"
	"time"

	"redlockd/redlock/rawio"
)

// relay passes TCP connections on to a server as if it stood at a distance: every byte arrives half the delay after it was
// sent, in both directions, in its order, and however many others are on their way. Bandwidth is not limited.
type relay struct {
	addr     string
	to       string
	delay    time.Duration // half of the round trip
	listener net.Listener

	mu      sync.Mutex
	conns   map[net.Conn]bool
	closed  bool
	running sync.WaitGroup
}

// relayChunks bounds what is under way in one direction of one connection, in reads of up to relayChunkBytes. Beyond it the
// sender waits, as it would for a full window.
const (
	relayChunks     = 4096
	relayChunkBytes = 16 << 10
)

// newRelay listens on a free port and relays to the server, roundTrip away.
func newRelay(to string, roundTrip time.Duration) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for a relay: %w", err)
	}
	r := &relay{addr: listener.Addr().String(), to: to, delay: roundTrip / 2, listener: listener, conns: map[net.Conn]bool{}}
	r.running.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			r.running.Go(func() { r.serve(near) })
		}
	})
	return r, nil
}

// serve relays one connection until either side ends it. Its making takes no time: connections are not what is measured.
func (r *relay) serve(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer far.Close()
	if !r.keep(near, far) {
		return
	}
	defer r.forget(near, far)
	var both sync.WaitGroup
	near, far = rawio.New(near), rawio.New(far) // the relay stands in for a network: it should cost little
	both.Go(func() { pass(far, near, r.delay) })
	both.Go(func() { pass(near, far, r.delay) })
	both.Wait()
}

// keep notes connections to be closed with the relay; false when it is closed already.
func (r *relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		r.conns[c] = true
	}
	return !r.closed
}

func (r *relay) forget(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		delete(r.conns, c)
	}
}

// close ends all connections and returns when nothing runs any more.
func (r *relay) close() {
	r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.running.Wait()
}

// chunk is what one read brought, and when it may be seen on the other side.
type chunk struct {
	due  time.Time
	data []byte
}

// pass moves bytes from one connection to the other, each after the delay, and closes both at its end: nobody uses
// half-closed connections here.
func pass(to, from net.Conn, delay time.Duration) {
	defer to.Close()
	timer, err := newSharpTimer()
	if err != nil {
		from.Close()
		return
	}
	defer timer.close()
	var (
		underWay = make(chan chunk, relayChunks)
		reading  sync.WaitGroup
	)
	reading.Go(func() {
		defer close(underWay)
		buf := make([]byte, relayChunkBytes)
		for {
			n, err := from.Read(buf)
			if n > 0 {
				underWay <- chunk{time.Now().Add(delay), append([]byte(nil), buf[:n]...)}
			}
			if err != nil {
				return
			}
		}
	})
	for c := range underWay {
		if err = timer.until(c.due); err == nil {
			_, err = to.Write(c.data)
		}
		if err != nil {
			break
		}
	}
	from.Close()
	for range underWay { // the reader may be waiting for room
	}
	reading.Wait()
}
