package proxy

import (
	"maps"
	"slices"
	"strings"
	"time"

	"redlockd/proxy/keyspace"
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// transaction is what a session has watched and queued. It is owned by the reader goroutine. A WATCH that completes writes to it from
// another goroutine, while it holds the reader back.
type transaction struct {
	// open is true between MULTI and EXEC.
	open bool
	// aborted is true if a command was refused since MULTI. Then EXEC does nothing.
	aborted bool
	queued  []*keyspace.Command
	// bytes is the size of queued.
	bytes   int
	watched map[string]watchedKey
}

// watchedKey is what a key held when it was watched.
type watchedKey struct {
	state redlock.State
	read  time.Time
}

// at is the state less the time that has passed since the key was watched.
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

// queue appends a command to those between MULTI and EXEC.
func (t *transaction) queue(command *keyspace.Command, bytesMax int) (refusal error) {
	if len(t.queued) >= queuedMax {
		return errorf("ERR at most %d commands can be queued", queuedMax)
	}
	bytes := t.bytes + command.Size()
	if bytes > bytesMax {
		return errorf("ERR the queued commands have %d bytes, the limit is %d (command_max)", bytes, bytesMax)
	}
	t.queued, t.bytes = append(t.queued, command), bytes
	return nil
}

// notQueued is the error for a command that cannot stand between MULTI and EXEC, or nothing. Redis would queue any.
func (s *session) notQueued(cmd *command) error {
	if !s.transaction.open {
		return nil
	}
	if cmd.parent == nil {
		switch cmd.name {
		case "multi", "exec", "discard", "watch", "unwatch", "reset", "quit":
			return nil
		}
		if cmd.flags&flagInMulti != 0 {
			return nil
		}
	}
	return errorf("ERR %s cannot be queued: a transaction here is one change of locks, made of commands on keys", strings.ToUpper(strings.ReplaceAll(cmd.fullName(), "|", " ")))
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
		c.failf("ERR WATCH inside MULTI is not allowed")
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
		c.failf("ERR at most %d keys can be watched", redlock.MaxResources)
		return
	}
	if !s.awaitScripts(c, w.keys) {
		return
	}
	c.takeBlockingSlot(&w.slot)
	w.startRead(&w.op, w.keys, w)
}

// Done implements redlock.Completer.
func (w *watch) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	if result.Err != nil {
		return w.fail(result.Err)
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
		if refusal := s.transaction.queue(keyspace.Always(keyspace.OK), s.server.opts.CommandMax); refusal != nil {
			s.transaction.aborted = true
			c.fail(refusal)
			return
		}
		c.out = resp.AppendStatus(c.out, "QUEUED")
		return
	}
	s.transaction.watched = nil
	c.ok()
}

func cmdMULTI(s *session, c *call) {
	if s.transaction.open {
		c.failf("ERR MULTI calls can not be nested")
		return
	}
	s.transaction.open = true
	c.ok()
}

func cmdDISCARD(s *session, c *call) {
	if !s.transaction.open {
		c.failf("ERR DISCARD without MULTI")
		return
	}
	s.transaction = transaction{}
	c.ok()
}

func cmdEXEC(s *session, c *call) {
	t := s.transaction
	if !t.open {
		c.failf("ERR EXEC without MULTI")
		return
	}
	s.transaction = transaction{}
	for key := range t.watched {
		if !s.user.may(key) { // it was watched as another user
			c.fail(s.user.refuse("resource", key))
			return
		}
	}
	if t.aborted {
		c.failf("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	x := &exchange{commands: t.queued, multi: true, watched: t.watched, keys: slices.Collect(maps.Keys(t.watched))}
	for _, command := range t.queued {
		x.keys = append(x.keys, command.Keys()...)
	}
	x.keys = distinct(x.keys)
	switch {
	case len(x.keys) > redlock.MaxResources:
		c.failf("ERR the transaction has %d keys, at most %d are possible", len(x.keys), redlock.MaxResources)
		return
	case len(x.keys) == 0:
		c.out = x.replyOn(keyspace.New(nil, nil, time.Now())).AppendTo(c.out, c.proto)
		return
	}
	if len(x.keys) == len(t.watched) { // no queued command has a key that is not watched
		now := time.Now()
		for _, key := range x.keys {
			x.assumed = append(x.assumed, t.watched[key].at(now))
		}
	}
	x.begin(c, true)
}
