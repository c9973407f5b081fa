package proxy

import (
	"sync"
	"time"
)

// keyQueue has those who change one hash, set or sorted set through this server do so one after the
// other, in the order in which they came. Many clients write such a value, and each change is guarded
// by the whole of it: of those that are made at the same time one succeeds at most, and with three of
// them often none, because no quorum of masters takes the same one first. So only different servers
// contend.
//
// A change that has to wait was made for a value that is not there any more, so it begins anew with a
// reading when it comes to the front.
type keyQueue struct {
	mu sync.Mutex
	// waiting has, for each key that is being changed, how those go on that wait behind the one at the
	// front.
	waiting map[string][]func()
}

// queueRounds is how often a change at the front of a queue is tried. All that contend with it are at
// the front at other servers, and go on as it does: each try of three succeeds about every other time.
const queueRounds = 16

// enter puts a command into the queue of a key, until leave. It returns false if others are first: then
// begin is called when it comes to the front.
func (q *keyQueue) enter(key string, begin func()) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting, taken := q.waiting[key]
	if taken {
		q.waiting[key] = append(waiting, begin)
		return false
	}
	if q.waiting == nil {
		q.waiting = make(map[string][]func())
	}
	q.waiting[key] = nil
	return true
}

// leave takes the first one out of the queue of a key. The next one begins.
func (q *keyQueue) leave(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.waiting[key]
	if len(waiting) == 0 {
		delete(q.waiting, key)
		return
	}
	q.waiting[key] = waiting[1:]
	time.AfterFunc(0, waiting[0]) // not from here: one that fails at once would leave from within
}
