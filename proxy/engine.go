package proxy

import (
	"slices"
	"time"

	"redlockd/redlock"
)

// Operations enter the engine here and nowhere else. Those of clients count on the account of the user
// who sent the command: when a command of several rounds starts its last one, the session may be
// another user's. The slot must have been enqueued.
//
// To add an operation of the engine: wrap its StartX here. If it gives a key a TTL, ask permitted
// first, which also finds the policies of the resources. Where it is known to have changed a key, call
// notifyChanged before complete, for the clients that track the key.

// charged makes an operation count in the share of the user: its locks, its waiters, its part of what
// the masters can do at one time. A nil share is the one of all clients without a user. LOCKS shows by
// the note whose it is.
func (sl *slot) charged(op *redlock.Op) *redlock.Op {
	op.Share, op.Flow, op.Note = sl.account.share, &sl.s.flow, sl.note()
	return op
}

// note says who sent the command. All commands of a client share one, so that a lock costs no memory
// for it. Only if the client has logged in as another user meanwhile, one is made for this operation.
func (sl *slot) note() *redlock.HolderNote {
	s, user := sl.s, usernameOf(sl.account.user())
	if n := s.caller.Load(); n != nil && n.User == user {
		return n
	}
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	n := &redlock.HolderNote{Client: s.name[:min(len(s.name), noteNameMax)], Addr: s.conn.addr, User: user}
	if user == s.username() {
		s.caller.Store(n)
	}
	return n
}

// operation is a command that is one operation of the engine, for commands that are not sent often: its
// result is answered in then.
type operation struct {
	slot
	op redlock.Op
	// then appends the reply to the result, which is no error.
	then func(*operation, redlock.Result)
}

// Done implements redlock.Completer.
func (o *operation) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	if result.Err != nil {
		return o.fail(result.Err)
	}
	o.then(o, result)
	return o.complete()
}

// completer is a function as a redlock.Completer.
type completer func(redlock.Result) redlock.Flusher

// Done implements redlock.Completer.
func (f completer) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher { return f(result) }

// startLock starts a LOCK or MLOCK. As with all of these, op belongs to the engine until to.Done is
// called.
func (sl *slot) startLock(op *redlock.Op, req redlock.LockRequest, to redlock.Completer) {
	if sl.permitted(op, sl.s.server.live().lockedBy(&req), req.TTL, req.Wait, to) {
		sl.s.server.opts.Engine.StartLock(sl.charged(op), req, to)
	}
}

// startUnlock asks nothing first: a user may always release what its token holds.
func (sl *slot) startUnlock(op *redlock.Op, keys []string, token string, to redlock.Completer) {
	sl.s.server.opts.Engine.StartUnlock(sl.charged(op), keys, token, to)
}

// startForce asks nothing first: the handler has looked whether the user may.
func (sl *slot) startForce(op *redlock.Op, resource string, to redlock.Completer) {
	sl.s.server.opts.Engine.StartForce(sl.charged(op), resource, to)
}

func (sl *slot) startExtend(op *redlock.Op, keys []string, token string, ttl time.Duration, to redlock.Completer) {
	if sl.permitted(op, keys, ttl, 0, to) {
		sl.s.server.opts.Engine.StartExtend(sl.charged(op), keys, token, ttl, to)
	}
}

// startCommit asks the user's limits once, for the longest TTL of all changes: they are made together
// or not at all. For keys that are timed by a command, the engine refuses less than min_ttl. What else
// would live for less gets that time: it excludes others for longer than the client asks for, which is
// safe. Symfony has a script set a key for 1 ms only to see that it can, and a change of a key that
// ends soon keeps its end. A latch gets what is allowed, see latchPrefix.
func (sl *slot) startCommit(op *redlock.Op, changes []redlock.Change, timed []string, to redlock.Completer) {
	longest, least := time.Duration(0), sl.s.server.opts.Engine.MinTTL() // longest: the TTL that the commit gives to any key
	for i := range changes {
		if ch := &changes[i]; ch.Do == redlock.Set || ch.Do == redlock.Expire {
			if ch.TTL > 0 && !slices.Contains(timed, ch.Resource) {
				ch.TTL = max(ch.TTL, least)
			}
			if ch.Do == redlock.Set && isLatch(ch.Resource) && helperValue(ch.NewValue) {
				ch.TTL = sl.shortened(min(ch.TTL, sl.s.server.opts.Engine.MaxTTL()), []string{ch.Resource})
			}
			longest = max(longest, ch.TTL)
		}
	}
	err := sl.account.checkTTL(longest)
	if err == nil {
		op.Terms, err = sl.s.server.live().termsOfCommit(changes)
	}
	if !refusedBy(err, op, to) {
		sl.s.server.opts.Engine.StartCommit(sl.charged(op), changes, to)
	}
}

// defaultTTL is the TTL of a lock of these keys that is taken without one. 0: such a lock is refused.
func (sl *slot) defaultTTL(keys []string) time.Duration {
	return sl.shortened(sl.s.server.live().DefaultTTL, keys)
}

// shortened is the ttl, and not more than the user and the policies of the keys allow.
func (sl *slot) shortened(ttl time.Duration, keys []string) time.Duration {
	ttl = sl.s.server.live().shortened(ttl, keys)
	if u := sl.account.user(); u != nil && u.MaxTTL != 0 {
		ttl = min(ttl, u.MaxTTL)
	}
	return ttl
}

func (sl *slot) startHold(op *redlock.Op, req redlock.LockRequest, to redlock.Completer) {
	if sl.permitted(op, req.Resources, req.TTL, 0, to) {
		sl.s.server.opts.Engine.StartHold(sl.charged(op), req, to)
	}
}

func (sl *slot) startKeepAlive(op *redlock.Op, h *redlock.Holder, to redlock.Completer) {
	sl.s.server.opts.Engine.StartKeepAlive(sl.charged(op), h, to)
}

// startRead reads what a quorum holds under the keys.
func (sl *slot) startRead(op *redlock.Op, keys []string, to redlock.Completer) {
	op.Tracked = sl.reads != nil
	sl.s.server.opts.Engine.StartRead(sl.charged(op), keys, to)
}

// startWatch reads keys that are watched, for the second time if before is what it was told the first time.
func (sl *slot) startWatch(op *redlock.Op, keys []string, before []redlock.State, to redlock.Completer) {
	redlock.StartWatch(sl.s.server.opts.Engine, sl.charged(op), keys, before, to)
}

func (sl *slot) startInspect(op *redlock.Op, resource string, to redlock.Completer) {
	sl.s.server.opts.Engine.StartInspect(sl.charged(op), resource, to)
}

// startFetchScript looks on the masters for a script that another redlockd may have stored there.
func (sl *slot) startFetchScript(op *redlock.Op, sha string, to redlock.Completer) {
	sl.s.server.opts.Engine.StartFetchScript(sl.charged(op), sha, to)
}

// startPublish does not wait for the masters, see Client.StartPublish.
func (sl *slot) startPublish(op *redlock.Op, channel, payload string, to redlock.Completer) {
	sl.s.server.opts.Engine.StartPublish(sl.charged(op), channel, payload, to)
}

// publish sends a message of redlockds to all of them, on nobody's account. Nobody waits for it.
func (srv *Server) publish(channel, payload string) {
	srv.opts.Engine.StartPublish(new(redlock.Op), channel, payload, sent{})
}

// send is publish to one redlockd alone.
func (srv *Server) send(mailbox, channel, payload string) {
	srv.opts.Engine.StartSend(new(redlock.Op), mailbox, channel, payload, sent{})
}

// sent is the Completer of a message: one that is refused under overload is lost, as any other may be.
type sent struct{}

func (sent) Done(*redlock.Op, redlock.Result) redlock.Flusher { return nil }

// permitted reports whether the user, and the policies of the resources, allow this TTL and this wait.
// It gives the operation the terms of the policies.
func (sl *slot) permitted(op *redlock.Op, resources []string, ttl, wait time.Duration, to redlock.Completer) bool {
	err := sl.account.checkTTL(ttl)
	if err == nil {
		op.Terms, err = sl.s.server.live().termsFor(resources, ttl, wait)
	}
	return !refusedBy(err, op, to)
}

// refusedBy completes the operation with the error, if there is one, as the engine would, on the
// caller's goroutine: Done must not count on another.
func refusedBy(err error, op *redlock.Op, to redlock.Completer) bool {
	if err != nil {
		flush(to.Done(op, redlock.Result{Err: err}))
	}
	return err != nil
}
