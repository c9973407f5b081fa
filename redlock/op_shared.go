package redlock

import (
	"slices"
	"time"

	"redlockd/redlock/lua"
	"redlockd/redlock/quorum"
)

// Readers and writers. A LOCK that is SHARED is a reader: any number of readers hold a resource at one
// time, and no writer beside them. A LOCK as ever is a writer. Only a reader and a writer, or two
// writers, are in each other's way, and any two quorums have a master in common: so each is decided on
// each master alone, and the rule of the majority is that of any lock.
//
// The state is one key, that of the resource. A writer's key is a string, its token, so that nothing
// changes for who only writes: SET NX is denied by a key of any type, also where a library sends it.
// The readers' key is a sorted set:
//
//	member         score
//	r:<token>      when this reader's lock ends
//	writer         when the intent ends: until then no reader is let in who is not in the set
//	redlockd:end   when the key ends: the highest score of all
//
// Scores are milliseconds on an axis of the set's own. The key ends at the score of redlockd:end, so
// its PTTL tells where on the axis now is. A clock that is set moves the end of the key, and all ends
// with it. lua.Clamp, which shortens the key, bounds each of them.
//
// A sorted set without redlockd:end, or that never ends, is a stranger's, as is any other type. It
// keeps readers and writers out, and is not changed. Readers are told of it; a writer is denied, as if
// another held it, for that is all that SET NX says.
//
// A writer that waits, and has seen readers, leaves an intent with its next observation (lua.Announce),
// within announceEvery. From when a quorum has it, no new reader is granted. The writer waits until the
// readers that are there release, or their TTLs end: those that extend their locks may keep it waiting
// until MaxHold. An intent has no name, for it grants nothing. It ends by itself within intentLife when
// nobody renews it. Writers that come one after the other hand the resource over for HandoverTime.
//
// A writer that waits no more takes the intent away (lua.Withdraw), unless another one waits in the
// same queue. Without that a resource that is free would deny readers, and libraries, until the intent
// ends. The intent may be that of a writer of another client: the change of the key wakes that one, and
// it sets the intent again.
//
// Renewing an intent changes the key, which wakes the waiting writers of all other clients. Each of
// them asks, is denied, and would renew the intent again. So a master leaves an intent as it is while
// at least intentFresh of it is left: writers wake each other at most four times a second, however many
// wait.
//
// HOLD puts a reader's new token in the place of the old one in the set (lua.Commit, and lua.Undo where
// it fails). No intent keeps that out.
//
// Invariant: the key of a reader lives on every master that counts at least until the validity of its
// lease is over, whatever other readers do: nobody brings the end of another's member nearer, and the
// key ends with the last member. testdata/tla/Shared.tla is the model.

// readerPrefix is in front of a reader's token in the set.
const readerPrefix = "r:"

const (
	// intentLife is for how long a writer that waits keeps new readers out, unless it says so again.
	// Readers that wait ask again as often.
	intentLife = time.Second
	// announceEvery is how often a writer that waits says so again.
	announceEvery = intentLife / 2
	// intentFresh is how much of an intent must be left for it not to be renewed. A writer finds or leaves
	// at least so much, and announces itself again after announceEvery: then a quarter of a second is left
	// for slow masters.
	intentFresh = intentLife - announceEvery/2
)

// withdrawLocked is for a queue of which writers have announced themselves, and that a waiter has left.
func (ws *waiting) withdrawLocked(e *entry, d *deferred) {
	if q := &e.queue; q.writers == 0 {
		q.announced = false
		r := &round{verb: verbWithdraw, start: d.now}
		r.setKeys(e.resource)
		ws.rounds.launch(r, quorum.All, d) //mutant:an-intent-outlives-the-waiter
	}
}

func writeJoin(b *batch, r *round) {
	b.script(lua.Join, 0, 1, 4)
	b.resources(r)
	b.joiner(r)
}

// joiner adds the arguments of lua.Join for one reader.
func (b *batch) joiner(r *round) {
	b.wire.Bulk(r.token)
	b.wire.Number(r.ttlMs)
	b.wire.Number(b.lane.fleet.view.Load().longestMs)
	if r.verb == verbRefill {
		b.wire.Bulk("1") //mutant:a-refill-is-kept-out
	} else {
		b.wire.Bulk("0")
	}
}

// Readers in a queue, and writers that wait for readers. A queue is first come, first served for both;
// but readers that stand behind each other do not keep each other out:
//
//   - While the resource is not known to be held, and nobody but readers waits, a reader asks as soon
//     as it comes.
//   - When the head is a reader and is let in, the readers that stand behind it, up to the first
//     writer, ask too.
//   - A reader that is denied stays where it stands. Only the head observes, and asks again.
//   - UNLOCK of a reader is followed by a hand-over when no other reader has a lease here.
//
// A writer at the head that was denied by readers says so to the masters with each observation, and
// observes more often (op_shared.go).

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
		c.waiting.readersFollowLocked(&op.waiter.entry.queue, d)
	}
	return ""
}

// observation only reads: readers keep nobody out who comes later.
func (readerLock) observation(w *waiter, r *round) { r.setKeys(w.entry.resource) }

// isReader tells whether a LOCK is a reader's.
func (op *Op) isReader() bool { return op.writers == 0 }

// readersFollowLocked has the readers ask that stand at the front of a queue from which one was let in.
// The first of them, the head, asks already. Behind one that asks, all do.
func (ws *waiting) readersFollowLocked(q *waitQueue, d *deferred) {
	if q.head == nil || !q.head.op.isReader() {
		return
	}
	for w := q.head.next; w != nil && w.op.isReader() && w.attempt == nil; w = w.next { //mutant:readers-pass-a-writer
		ws.attemptLocked(w.op, d)
	}
}

// meetsReaders takes note of whether readers are among what the masters have said to an observation. If
// so, the next observation of a writer tells them that it waits.
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
