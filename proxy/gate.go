package proxy

import (
	"net"
	"net/netip"
	"runtime"
	"sync"
)

// gate is what newcomers pass before they compute. A session that is in it does not wait for anything.
//
// Those who have to wait are let in by turns, one of each address, so that whoever comes a thousand times from one address is in the way
// of that address alone. Of one address, those who have been in before (their handshake goes on, or they log in) have turns of their own,
// so that a flood of first messages does not stop what has begun. Of these again the last one comes first: where more come than can be
// served, the first have given up when their turn comes.
type gate struct {
	size int // sessions that may be inside

	mu      sync.Mutex
	inside  int
	waiting map[queueKey][]chan struct{} // not empty; a channel is closed when its session is inside
	turns   []queueKey                   // of waiting, in the order in which they are let in
}

// queueKey names those who share turns.
type queueKey struct {
	origin netip.Prefix
	again  bool // they have been in before
}

// newGate is for half of the processors. A handshake takes as long as a thousand locks, and the scheduler of Go knows no priorities.
func newGate() *gate {
	return &gate{size: max(1, runtime.GOMAXPROCS(0)/2), waiting: make(map[queueKey][]chan struct{})}
}

// enter returns when the session is inside.
func (g *gate) enter(key queueKey) {
	g.mu.Lock()
	if g.inside < g.size {
		g.inside++
		g.mu.Unlock()
		return
	}
	queue := g.waiting[key]
	if len(queue) == 0 {
		g.turns = append(g.turns, key)
	}
	turn := make(chan struct{})
	g.waiting[key] = append(queue, turn)
	g.mu.Unlock()
	<-turn
}

// leave gives the place to the next one.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.turns) == 0 {
		g.inside--
		return
	}
	key := g.turns[0]
	g.turns = g.turns[1:]
	queue := g.waiting[key]
	last := len(queue) - 1
	close(queue[last])
	queue[last] = nil
	if last > 0 {
		g.waiting[key] = queue[:last]
		g.turns = append(g.turns, key)
	} else {
		delete(g.waiting, key)
	}
}

// originOf is what counts as one place that clients come from: an address, and of IPv6 the network that one customer gets. Those
// without an address (unix sockets) are one.
func originOf(addr net.Addr) netip.Prefix {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	origin, _ := ip.Prefix(bits)
	return origin
}
