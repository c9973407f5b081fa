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
	// waiting has no empty queues.
	waiting map[semaphoreGroup][]*placeWait
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
	return &semaphore{size: max(1, runtime.GOMAXPROCS(0)/2), waiting: make(map[semaphoreGroup][]*placeWait)}
}

// placeWait is the wait of one session for a place. semaphore.mu guards it until done is closed.
type placeWait struct {
	done chan struct{}
	over bool
	has  bool // it got the place
}

func (w *placeWait) end(has bool) {
	w.over, w.has = true, has
	close(w.done)
}

// enter takes a place, and returns nil, or has the session wait for one.
func (sem *semaphore) enter(group semaphoreGroup) *placeWait {
	sem.mu.Lock()
	defer sem.mu.Unlock()
	if sem.held < sem.size {
		sem.held++
		return nil
	}
	queue := sem.waiting[group]
	if len(queue) == 0 {
		sem.order = append(sem.order, group)
	}
	w := &placeWait{done: make(chan struct{})}
	sem.waiting[group] = append(queue, w)
	return w
}

// cancel ends a wait without a place, unless it has ended: what the session keeps is free sooner. It leaves
// the queue when its turn comes.
func (sem *semaphore) cancel(w *placeWait) {
	sem.mu.Lock()
	defer sem.mu.Unlock()
	if !w.over {
		w.end(false)
	}
}

// release passes the place on to the next session that waits.
func (sem *semaphore) release() {
	sem.mu.Lock()
	defer sem.mu.Unlock()
	for len(sem.order) > 0 {
		group := sem.order[0]
		sem.order = sem.order[1:]
		w, more := sem.pop(group)
		if more {
			sem.order = append(sem.order, group)
		}
		if w != nil {
			w.end(true)
			return
		}
	}
	sem.held--
}

// pop takes the last wait of a group that is not over out of its queue; nil: there is none. more: the queue
// is not empty.
func (sem *semaphore) pop(group semaphoreGroup) (w *placeWait, more bool) {
	queue := sem.waiting[group]
	for w == nil && len(queue) > 0 {
		last := len(queue) - 1
		if !queue[last].over {
			w = queue[last]
		}
		queue[last] = nil
		queue = queue[:last]
	}
	if len(queue) == 0 {
		delete(sem.waiting, group)
		return w, false
	}
	sem.waiting[group] = queue
	return w, true
}
