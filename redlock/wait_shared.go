package redlock

import (
	"slices"
	"time"
)

// Readers in a queue, and writers that wait for readers. A queue is first come, first served for both; but readers that stand behind each other
// do not keep each other out:
//
//   - While the resource is not known to be held, and nobody but readers waits, a reader asks as soon as it comes.
//   - When the head is a reader and is let in, the readers that stand behind it, up to the first writer, ask too.
//   - A reader that is denied stays where it stands. Only the head observes, and asks again.
//   - UNLOCK of a reader is followed by a hand-over when no other reader has a lease here.
//
// A writer at the head that was denied by readers says so to the masters with each observation, and observes more often (op_shared.go).

// readerLock is the kind of lock that is a reader's.
type readerLock struct{ plainLock }

func (readerLock) aim(_ *Client, r *round) {
	r.setKeys(r.op.keys...)
	r.verb = verbJoin
	r.asReader(true)
}

// asks tells whether the queue keeps no reader waiting, as far as is known.
func (readerLock) asks(q *waitQueue) bool { return !q.denied && q.writers == 0 } //mutant:readers-come-one-by-one

func (readerLock) granted(c *Client, op *Op, _ *lease, d *deferred) string {
	if op.waiter != nil {
		c.readersFollowLocked(&op.waiter.entry.queue, d)
	}
	return ""
}

// observation only reads: readers keep nobody out who comes later.
func (readerLock) observation(w *waiter, r *round) { r.setKeys(w.entry.resource) }

// isReader tells whether a LOCK is a reader's.
func (op *Op) isReader() bool { return op.writers == 0 }

// readersFollowLocked has the readers ask that stand at the front of a queue from which one was let in. The first of them, the head, asks already.
// Behind one that asks, all do.
func (c *Client) readersFollowLocked(q *waitQueue, d *deferred) {
	if c.draining || q.head == nil || !q.head.op.isReader() {
		return
	}
	for w := q.head.next; w != nil && w.op.isReader() && w.attempt == nil; w = w.next { //mutant:readers-pass-a-writer
		w.endPause()
		c.attemptLocked(w.op, d)
	}
}

// meetsReaders takes note of whether readers are among what the masters have said to an observation. If so, the next observation of a writer
// tells them that it waits.
func (w *waiter) meetsReaders(answers []answer) {
	w.behindReaders = slices.ContainsFunc(answers, func(a answer) bool { return a.ofReaders }) //mutant:a-writer-does-not-say-that-it-waits
}

// untilReaders bounds a pause that readers, or the intent of a writer, are the cause of.
func (w *waiter) untilReaders(delay time.Duration) time.Duration {
	switch {
	case !w.behindReaders:
		return delay
	case w.op.isReader():
		return min(delay, intentLife)
	}
	return min(delay, announceEvery)
}
