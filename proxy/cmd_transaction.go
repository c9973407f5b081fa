package proxy

import (
	"fmt"
	"strings"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/sandbox"
)

// transaction is what a session has watched and queued. It belongs to the reader goroutine; an operation that completes writes
// to it while it holds the session back.
type transaction struct {
	open    bool // behind MULTI
	aborted bool // a command was refused since: EXEC does nothing
	queued  []effect
	bytes   int // of queued
	watched map[string]watchedKey
}

// watchedKey is what a key held when it was watched.
type watchedKey struct {
	state redlock.State
	read  time.Time
}

// at is the state with the time that has passed since.
func (w watchedKey) at(now time.Time) redlock.State {
	st := w.state
	if st.Found && st.TTL >= 0 {
		st.TTL = max(time.Millisecond, st.TTL-now.Sub(w.read))
	}
	return st
}

func (w watchedKey) same(st *redlock.State) bool {
	return w.state.Found == st.Found && w.state.Type == st.Type && w.state.Value == st.Value
}

// queue puts an effect behind MULTI.
func (t *transaction) queue(e effect, bytesMax int) (refusal string) {
	if len(t.queued) >= queuedMax {
		return fmt.Sprintf("ERR at most %d commands can be queued", queuedMax)
	}
	bytes := t.bytes
	for _, arg := range e.args {
		bytes += len(arg)
	}
	if bytes > bytesMax {
		return fmt.Sprintf("ERR the queued commands have %d bytes, the limit is %d (command_max)", bytes, bytesMax)
	}
	t.queued, t.bytes = append(t.queued, e), bytes
	return ""
}

// notQueued is the error for a command that cannot stand between MULTI and EXEC, or nothing. Redis would queue any.
func (s *session) notQueued(cmd *command) string {
	if !s.transaction.open {
		return ""
	}
	if cmd.parent == nil {
		switch cmd.name {
		case "multi", "exec", "discard", "watch", "unwatch", "reset", "quit":
			return ""
		}
		if cmd.flags&flagInMulti != 0 {
			return ""
		}
	}
	return fmt.Sprintf("ERR %s cannot be queued: a transaction here is one change of locks, made of commands on keys", strings.ToUpper(strings.ReplaceAll(cmd.fullName(), "|", " ")))
}

// watch is a WATCH on its way.
type watch struct {
	slot
	op   redlock.Op
	keys []string
}

// cmdWATCH reads the keys: what a quorum holds then is what EXEC compares. Commands behind it wait for that.
func cmdWATCH(s *session, c *call) {
	if s.transaction.open {
		c.fail("ERR WATCH inside MULTI is not allowed")
		return
	}
	w := &watch{}
	for _, key := range distinct(copyStrings(nil, c.args[1:])) {
		if _, ok := s.transaction.watched[key]; !ok { // watched twice: what it held first counts
			w.keys = append(w.keys, key)
		}
	}
	switch {
	case len(w.keys) == 0:
		c.ok()
		return
	case len(s.transaction.watched)+len(w.keys) > redlock.MaxResources:
		c.fail(fmt.Sprintf("ERR at most %d keys can be watched", redlock.MaxResources))
		return
	}
	if !s.awaitScripts(c, w.keys) {
		return
	}
	c.takePlaceAndHold(&w.slot)
	w.startRead(&w.op, w.keys, w)
}

// Done implements redlock.Completer.
func (w *watch) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	if result.Err != nil {
		return w.failWith(result.Err)
	}
	t := &w.s.transaction
	if t.watched == nil {
		t.watched = make(map[string]watchedKey)
	}
	for i, key := range w.keys {
		t.watched[key] = watchedKey{result.States[i], time.Now()}
	}
	w.out = append(w.out, "+OK\r\n"...)
	return w.complete()
}

func cmdUNWATCH(s *session, c *call) {
	if s.transaction.open { // queued, it would do nothing: EXEC forgets them too
		s.dropIn(c, effect{run: func(*keyspace, []string) (sandbox.Reply, error) { return statusOK, nil }}, "")
		return
	}
	s.transaction.watched = nil
	c.ok()
}

func cmdMULTI(s *session, c *call) {
	if s.transaction.open {
		c.fail("ERR MULTI calls can not be nested")
		return
	}
	s.transaction.open = true
	c.ok()
}

func cmdDISCARD(s *session, c *call) {
	if !s.transaction.open {
		c.fail("ERR DISCARD without MULTI")
		return
	}
	s.transaction = transaction{}
	c.ok()
}

func cmdEXEC(s *session, c *call) {
	t := s.transaction
	if !t.open {
		c.fail("ERR EXEC without MULTI")
		return
	}
	s.transaction = transaction{}
	for key := range t.watched {
		if !s.user.may(key) { // it was watched as another user
			c.fail(s.user.refuse("resource", key))
			return
		}
	}
	x := &exchange{engine: s.server.opts.Engine, effects: t.queued, multi: true, watched: t.watched}
	for key := range t.watched {
		x.keys = append(x.keys, key)
	}
	for i := range t.queued {
		x.keys = append(x.keys, t.queued[i].keys...)
	}
	x.keys = distinct(x.keys)
	switch {
	case t.aborted:
		c.fail("EXECABORT Transaction discarded because of previous errors.")
		return
	case len(x.keys) > redlock.MaxResources:
		c.fail(fmt.Sprintf("ERR the transaction has %d keys, at most %d are possible", len(x.keys), redlock.MaxResources))
		return
	case len(x.keys) == 0:
		c.out = x.replyOn(newKeyspace(nil, nil, time.Now())).AppendTo(c.out, c.proto)
		return
	}
	if !s.awaitScripts(c, x.keys) {
		return
	}
	c.takePlaceAndHold(&x.slot)
	x.start()
}
