package proxy

import (
	"slices"
	"sync/atomic"

	"redlockd/redlock"
)

// order says what of one connection waits for what. Many callers share one connection, and one of them
// waits for a lock that another is to release: a LOCK with WAIT holds up only what must stay behind it.
// What need not is executed at once. Replies keep the order of the commands all the same (slot.go).
//
//	behind                          stay                                   because
//	LOCK with WAIT, until granted   whatever may take a lock, but a LOCK   its validity would run while its reply waits;
//	                                with WAIT of the same resource         that one is granted later
//	                                what names its key and its token       an UNLOCK must not come before its LOCK
//	what stays behind another       the same
//	a script, a change that reads   what names one of its keys             it may take several rounds
//	first, EXEC, until answered
//
// A command whose key is that of a LOCK with WAIT, but not its token, is another caller's and goes ahead:
// services use one token for all their locks, and all callers contend for one key. A token that the LOCK
// makes itself can be named by nobody before its reply. Reads go ahead of LOCKs with WAIT. What names no
// token, as DEL, stays.
//
// Commands that are one round each need no entry here, for the engine keeps these in order. Commands
// about the connection itself stop the reader, see goesAhead.
//
// Invariant: of two entries of which the later one must stay behind the earlier (turn.behind), the later
// one starts after the earlier one has been answered or, if it is one round, has been started.
type order struct {
	// turns are what has begun and must not be overtaken, and what is postponed, in the order of the
	// commands. Guarded by the connection's mu.
	turns []*turn
	// starting: a goroutine starts a command that was postponed. It looks for the next one when it has.
	starting bool
	// length is that of turns. Only the reader adds to them, so a 0 that it reads stays 0.
	length atomic.Int32
	// waiting counts the turns that others may have to wait long for: LOCKs with WAIT, and what is
	// postponed.
	waiting atomic.Int32
	// acquiring counts the turns that may take a lock, at most acquiresMax.
	acquiring atomic.Int32
	// blocked: a command blocks; nothing behind it is executed, and none of it has a turn.
	blocked atomic.Bool
}

// turn is one command in the order of its connection.
type turn struct {
	// keys are what the command names.
	keys []string
	// words are the tokens and values that it names. Without any it may be about every one.
	words []string
	// acquires: it may take a lock.
	acquires bool
	// waits: it is a LOCK with WAIT.
	waits bool
	// queues: it is one that the engine grants in the order in which those of its resource came.
	queues bool
	// reads: it changes nothing.
	reads bool
	// rounds: it may take several, so it must not be overtaken until it is answered.
	rounds bool

	// Set and guarded by order.

	// starts is what starts it when it is postponed; nil: it has been started.
	starts starter
	// op is what a LOCK with WAIT waits for, so that its wait can be ended; nil: it does not wait yet.
	op *redlock.Op
}

// starter starts a command whose turn has come. It is called on the reader goroutine or, if the command
// was postponed, on one that has completed another: then it must not block. fail answers in its place.
type starter interface {
	start(postponed bool)
	fail(error) redlock.Flusher
}

// acquiresMax is how many commands of one connection may wait to take a lock. One caller has one, so
// they are as many callers.
const acquiresMax = 1000

// behind reports whether a command must stay behind an earlier one.
func (t *turn) behind(earlier *turn) bool {
	running := earlier.starts == nil
	switch {
	case t.acquires && earlier.acquires && !t.queuesBehind(earlier):
		return true
	case !meet(t.keys, earlier.keys):
		return false
	case running && earlier.rounds:
		return true
	case t.reads && earlier.waits:
		return false
	}
	return len(t.words) == 0 || len(earlier.words) == 0 || meet(t.words, earlier.words)
}

// queuesBehind reports whether both wait for the same resource in the engine: that is granted to the
// earlier one first, so that it keeps no reply of the later one back.
func (t *turn) queuesBehind(earlier *turn) bool {
	return t.queues && earlier.queues && earlier.starts == nil && slices.Equal(t.keys, earlier.keys)
}

// meet reports whether there is something in both.
func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return s != "" && slices.Contains(b, s) })
}

// isBehind reports whether t, at this place, must stay behind one of those before it.
func (o *order) isBehind(t *turn, place int) bool {
	return slices.ContainsFunc(o.turns[:place], t.behind)
}

// addLocked adds a command behind all others, if one of these keeps it back or it must not be overtaken
// itself. It reports whether the command starts now.
func (o *order) addLocked(t *turn, starts starter) (added *turn, now bool) {
	now = !o.isBehind(t, len(o.turns))
	if now && !t.waits && !t.rounds {
		return nil, true
	}
	added = new(turn) // t itself is on the stack
	*added = *t
	if !now {
		added.starts = starts
	}
	o.turns = append(o.turns, added)
	o.countLocked()
	return added, now
}

// postponeLocked has a command that has been started stay behind those before it that may take a lock, as
// it does so too. It reports whether there are such.
func (o *order) postponeLocked(t *turn, starts starter) bool {
	if t == nil || t.acquires {
		return false
	}
	t.acquires = true
	if t.starts = starts; !o.isBehind(t, slices.Index(o.turns, t)) {
		t.starts = nil
		return false
	}
	o.countLocked()
	return true
}

// removeLocked removes a command that keeps nobody back any more.
func (o *order) removeLocked(t *turn) {
	if i := slices.Index(o.turns, t); i >= 0 {
		o.turns = slices.Delete(o.turns, i, i+1)
		o.countLocked()
	}
}

func (o *order) countLocked() {
	var waiting, acquiring int64
	for _, t := range o.turns {
		waiting += oneIf(t.waits || t.starts != nil)
		acquiring += oneIf(t.acquires)
	}
	o.waiting.Store(int32(waiting))
	o.acquiring.Store(int32(acquiring))
	o.length.Store(int32(len(o.turns)))
}

// waitsLocked are the operations of the LOCKs that wait.
func (o *order) waitsLocked() (ops []*redlock.Op) {
	for _, t := range o.turns {
		if t.op != nil {
			ops = append(ops, t.op)
		}
	}
	return ops
}

// nextLocked is the first postponed command that need not stay behind any other; nil: there is none.
func (o *order) nextLocked() *turn {
	for i, t := range o.turns {
		if t.starts != nil && !o.isBehind(t, i) {
			return t
		}
	}
	return nil
}

// empty reports whether nothing that was sent before can keep a command back.
func (o *order) empty() bool { return o.length.Load() == 0 }

// waits reports whether a command of the client waits, or has others wait.
func (o *order) waits() bool { return o.blocked.Load() || o.waiting.Load() > 0 }
