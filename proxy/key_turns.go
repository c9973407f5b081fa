package proxy

import (
	"sync"
	"time"
)

// keyTurns have those who change one hash, set or sorted set through this server do so one after the
// other. Many clients write such a value, and each change is guarded by the whole of it: of those that
// are made at the same time one succeeds at most, and with three of them often none, because no quorum of
// masters takes the same one first. So only different servers are in each other's way.
//
// A change that has to wait was made for a value that is not there any more, so it begins anew with a
// reading when its turn comes. Turns are taken in the order in which they were asked for.
type keyTurns struct {
	mu sync.Mutex
	// waiting has, for each key that is being changed, those that wait for their turn.
	waiting map[string][]keyTurn
}

// turnRounds is how often a change that has the turn is tried. All who are in its way have the turn at
// other servers, and mean to go on as it does: each try of three succeeds about every other time.
const turnRounds = 16

// roundsMax is how often a command tries a change: as often as others do, or more if it has a turn.
func (sl *slot) roundsMax() int {
	if sl.turn != "" {
		return turnRounds
	}
	return exchangeRounds
}

// keyTurn is a command that waits for its turn, and goes on in begin.
type keyTurn struct {
	slot  *slot
	begin func()
}

// take gives the turn with a key to a command, until its slot is complete. It returns false if others are
// first: then begin is called later.
func (t *keyTurns) take(sl *slot, key string, begin func()) (now bool) {
	if sl.turn != "" {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting, taken := t.waiting[key]
	if taken {
		t.waiting[key] = append(waiting, keyTurn{sl, begin})
		return false
	}
	if t.waiting == nil {
		t.waiting = make(map[string][]keyTurn)
	}
	t.waiting[key] = nil
	sl.turn = key
	return true
}

// pass ends a turn and gives the next one.
func (t *keyTurns) pass(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting := t.waiting[key]
	if len(waiting) == 0 {
		delete(t.waiting, key)
		return
	}
	t.waiting[key] = waiting[1:]
	waiting[0].slot.turn = key
	time.AfterFunc(0, waiting[0].begin) // not from here: one that fails at once would pass the turn on from within
}
