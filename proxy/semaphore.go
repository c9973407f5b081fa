package proxy

import (
	"net/netip"
	"runtime"
	"sync"
)

// semaphore bounds how many sessions compute at one time for long: those that have not authenticated,
// for TLS handshakes, AUTH and HELLO, and those that have sent muchSent at once. All others compute at
// once: Go's scheduler knows no priorities, and would let a LOCK wait for all that forty pipelines have
// sent. It does not even look at the network while there is something to run, and nobody notices
// for up to 20 ms that the LOCK has come; with half of the processors, it looks. Measured beside forty
// pipelines of refused commands: a LOCK takes 0.9 ms, and 5 ms without the bound.
//
// A session that holds a place never waits for anything else: to run a script, it gives the place back.
//
// Waiting sessions are admitted in rotation, one of each group. A flood of connections from one address
// that do not authenticate therefore delays that address alone. Sessions that have held a place before
// (their handshake goes on, or they log in) form a group of their own, so that a flood of new
// connections does not stop what has begun. Within a group the last to come is admitted first: when more
// come than can be served, the first have given up when a place is free.
type semaphore struct {
	size int // sessions that may hold a place

	mu sync.Mutex
	// held is how many places are taken.
	held int
	// waiting has no empty queues. Closing a channel admits its session.
	waiting map[semaphoreGroup][]chan struct{}
	// order has the groups of waiting, in the order in which they are served.
	order []semaphoreGroup
}

// semaphoreGroup identifies the sessions that share one turn of the rotation.
type semaphoreGroup struct {
	origin netip.Prefix
	again  bool  // they have held a place before
	alone  int64 // number of a connection that has authenticated, and is a group of its own
}

// muchSent is how many bytes of commands a session executes only while it holds a place: a hundred
// LOCKs.
const muchSent = 4 << 10

// newSemaphore admits as many sessions as half of the processors.
func newSemaphore() *semaphore {
	return &semaphore{size: max(1, runtime.GOMAXPROCS(0)/2), waiting: make(map[semaphoreGroup][]chan struct{})}
}

// acquire returns when the session holds a place.
func (sem *semaphore) acquire(group semaphoreGroup) {
	sem.mu.Lock()
	if sem.held < sem.size {
		sem.held++
		sem.mu.Unlock()
		return
	}
	queue := sem.waiting[group]
	if len(queue) == 0 {
		sem.order = append(sem.order, group)
	}
	admitted := make(chan struct{})
	sem.waiting[group] = append(queue, admitted)
	sem.mu.Unlock()
	<-admitted
}

// release passes the place on to the next session that waits.
func (sem *semaphore) release() {
	sem.mu.Lock()
	defer sem.mu.Unlock()
	if len(sem.order) == 0 {
		sem.held--
		return
	}
	group := sem.order[0]
	sem.order = sem.order[1:]
	queue := sem.waiting[group]
	last := len(queue) - 1
	close(queue[last])
	queue[last] = nil
	if last > 0 {
		sem.waiting[group] = queue[:last]
		sem.order = append(sem.order, group)
	} else {
		delete(sem.waiting, group)
	}
}
