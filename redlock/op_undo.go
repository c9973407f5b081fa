package redlock

import (
	"sync/atomic"

	"redlockd/redlock/clock"
	"redlockd/redlock/quorum"
)

// A caller that chose its token may repeat its LOCK through any client of the masters, because a
// reply was lost or took too long, while an earlier attempt is still being decided or taken back
// elsewhere. On the masters nothing but the end of a key's life tells the attempts apart. So a
// failed attempt under a caller's token is taken back like this:
//
//   - Nothing is kept for masters that are away, and nothing is sent where the vote is unknown:
//     what is left there ends with its TTL.
//   - The undo goes only to masters whose vote says that this very attempt set the key. The batch
//     reads the master's clock before and after (clockMark), so the lane knows within endSlack when
//     the key must end.
//   - The undo deletes a key only if it holds the token and ends then.
//   - An operation that finds its token on a master and counts on it (a repeated LOCK, EXTEND, a commit
//     that keeps the value) moves the end of the key by at least endMove, and LOCK and EXTEND never
//     bring it nearer. So the undo of another attempt leaves the key alone.
//
// Invariant: endMove (lua/moved.lua, 8 ms) is more than endSlack and the 2 ms by which a script can
// misread the end of a key, for old masters read their clock anew for PTTL and TIME.
// testdata/tla/Lock.tla is the model of this, with the mutants that break it.
//
// What is left is a caller that does what it is asked not to do: it sends UNLOCK and locks again
// with the same token through another client within endSlack of a failed attempt, and asks for the
// same TTL. Through the same client that is safe too (superseded).
//
// A token that redlockd made serves one attempt, and nobody knows it before it is granted: releases
// of it need no such care, and are kept for masters that are away (master_pending.go).
const (
	endSlackMs = 5
)

// What lua.Undo does with a key.
const (
	undoDelete  = 1
	undoPutBack = 2
)

// attempt is what is known of keys that a round has set under a caller's token.
type attempt struct {
	round *round
	// setAt is for each master the time of its clock at which it set the keys for this attempt, as
	// setKey tells it. 0: it did not set them, or nobody knows. The master's lane writes it before
	// it votes.
	setAt  []int64
	few    [5]int64    // backs setAt where there are few masters
	failed atomic.Bool // it was not granted, or its caller is gone: what it has set is taken back
	// granted is when it was, on clock.Own. 0: it was not, or not yet.
	granted atomic.Int64
}

// newAttempt makes the record for a round that is not launched yet. Up to five masters it is one
// allocation.
func newAttempt(r *round, masters int) *attempt {
	a := &attempt{round: r}
	if a.setAt = a.few[:min(masters, len(a.few))]; masters > len(a.few) {
		a.setAt = make([]int64, masters)
	}
	return a
}

// attempts tells whether the round sets keys under a caller's token.
func (r *round) attempts() bool { return r.attempt != nil && r.verb != verbUndo }

// setOn are the masters among these that have set the keys for this very attempt, as far as is
// known. Their votes must be in.
func (a *attempt) setOn(among quorum.Mask) (m quorum.Mask) {
	for i := range a.setAt {
		if among.Has(i) && a.setAt[i] != 0 { //mutant:an-attempt-that-failed-is-not-taken-back
			m = m.With(i)
		}
	}
	return m
}

// takeBackLocked undoes a failed attempt under a caller's token on those masters among these that
// have set the keys for it. Nobody waits for it. It may be repeated.
func (c *Client) takeBackLocked(a *attempt, among quorum.Mask, d *deferred) {
	if a == nil {
		return // a commit that sets nothing
	}
	for i, key := range a.round.keys {
		// If the caller has sent UNLOCK and LOCK behind this attempt, the key of the second LOCK
		// may end where that of the first would.
		if c.leases.superseded(a.round, key, a.round.valueOf(i)) { //mutant:undone-behind-unlock-and-lock
			return
		}
	}
	if targets := a.setOn(among); targets != 0 {
		c.rounds.launch(&round{verb: verbUndo, keys: a.round.keys, token: a.round.token, start: d.now, attempt: a}, targets, d)
	}
}

// undoAttemptLocked takes back what votes say that the attempt has set. lateAttempt does so with
// votes that are still to come: it counts a vote before it looks whether the attempt has failed, so
// each vote is seen by one of the two.
func (c *Client) undoAttemptLocked(a *attempt, d *deferred) {
	a.failed.Store(true)
	c.takeBackLocked(a, quorum.Votes(a.round.votes.Load()).Voted(a.round.view.Places), d)
}

// lateAttempt takes back what votes that came after the decision say that a failed LOCK has set. Of one
// that was granted it looks at the lease.
func (c *Client) lateAttempt(r *round, word quorum.Votes, d *deferred) {
	switch {
	case r.attempt == nil:
	case r.attempt.failed.Load(): //mutant:late-votes-are-not-taken-back
		c.mu.Lock()
		defer c.mu.Unlock()
		c.takeBackLocked(r.attempt, word.Voted(r.view.Places), d)
	default:
		c.audits.lookAtAttempt(r, d)
	}
}

// undo says what takes the change back that a master has made at this time of its clock: arguments
// of lua.Undo. Only a value that is new is taken back; what was deleted, extended or compared stays as
// it is, for no key ends at 0.
func (ch *Change) undo(at int64, d clock.Drift) (value string, latest, what int64, before string) {
	if !ch.setsNew() { //mutant:a-failed-rotation-is-not-turned-back
		return "", 0, 0, ""
	}
	if what = undoDelete; ch.rotates() {
		what, before = undoPutBack, ch.Value // its owner may still count on it
	}
	return ch.NewValue, at + ch.askedMs(d), what, before
}
