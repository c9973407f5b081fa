package proxy

import (
	"time"

	"redlockd/redlock"
)

// Operations of clients enter the engine here and nowhere else. They count on the account of the user
// who sent the command: when a command of several rounds starts its last one, the session may be
// another user's. The slot must have been enqueued.
//
// To add an operation of the engine: wrap its StartX here. If it gives a key a TTL, ask permitted first.

// charged makes an operation count in the share of the user: its locks, its waiters, its part of what
// the masters can do at one time. A nil share is the one of all clients without a user.
func (sl *slot) charged(op *redlock.Op) *redlock.Op {
	op.Share = sl.account.share
	return op
}

// startLock starts a LOCK or MLOCK. As with all of these, op belongs to the engine until to.Done is called.
func (sl *slot) startLock(op *redlock.Op, req redlock.LockRequest, to redlock.Completer) {
	if sl.permitted(op, req.TTL, to) {
		sl.s.server.opts.Engine.StartLock(sl.charged(op), req, to)
	}
}

// startUnlock asks nothing first: a user may always release what its token holds.
func (sl *slot) startUnlock(op *redlock.Op, keys []string, token string, to redlock.Completer) {
	sl.s.server.opts.Engine.StartUnlock(sl.charged(op), keys, token, to)
}

func (sl *slot) startExtend(op *redlock.Op, keys []string, token string, ttl time.Duration, to redlock.Completer) {
	if sl.permitted(op, ttl, to) {
		sl.s.server.opts.Engine.StartExtend(sl.charged(op), keys, token, ttl, to)
	}
}

// startCommit asks for permission once, for the longest TTL of all changes: they are made together or
// not at all.
func (sl *slot) startCommit(op *redlock.Op, changes []redlock.Change, to redlock.Completer) {
	longest := time.Duration(0) // the TTL that the commit gives to any key
	for i := range changes {
		if ch := &changes[i]; ch.Do == redlock.Set || ch.Do == redlock.Expire {
			longest = max(longest, ch.TTL)
		}
	}
	if sl.permitted(op, longest, to) {
		sl.s.server.opts.Engine.StartCommit(sl.charged(op), changes, to)
	}
}

// startRead reads what a quorum holds under the keys.
func (sl *slot) startRead(op *redlock.Op, keys []string, to redlock.Completer) {
	sl.s.server.opts.Engine.StartRead(sl.charged(op), keys, to)
}

func (sl *slot) startInspect(op *redlock.Op, resource string, to redlock.Completer) {
	sl.s.server.opts.Engine.StartInspect(sl.charged(op), resource, to)
}

// startShared looks on the masters for a script that another redlockd may have stored there.
func (sl *slot) startShared(op *redlock.Op, sha string, to redlock.Completer) {
	sl.s.server.opts.Engine.StartFetchScript(sl.charged(op), sha, to)
}

// startPublish does not wait for the masters, see Client.StartPublish.
func (sl *slot) startPublish(op *redlock.Op, channel, payload string, to redlock.Completer) {
	sl.s.server.opts.Engine.StartPublish(sl.charged(op), channel, payload, to)
}

// permitted reports whether the user may ask for this TTL. If not, it completes the operation with the
// error, as the engine would, on the caller's goroutine: Done must not count on another.
func (sl *slot) permitted(op *redlock.Op, ttl time.Duration, to redlock.Completer) bool {
	err := sl.account.checkTTL(ttl)
	if err != nil {
		flush(to.Done(op, redlock.Result{Err: err}))
	}
	return err == nil
}
