package proxy

import (
	"maps"
	"slices"
	"time"

	"redlockd/proxy/keyspace"
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// Transactions, as in "Transactions" of Redis's documentation: WATCH, GET, MULTI, changes, EXEC is how
// libraries compare and change without a script. Here EXEC is one commit, guarded by what the watched
// keys held when WATCH came.
//
// Departures from Redis:
//
//   - A key that was absent and is absent again counts as unchanged: nothing on the masters tells. So
//     does one whose value was replaced by the same one, with the same end.
//   - A key of which it is not known whether it was changed counts as changed, as one that is held by
//     readers, and one of which too many masters did not answer.
//   - Only commands on keys can be queued, because EXEC is one commit on the masters. Others are
//     refused, and so is EXEC then.
//   - An unguarded command (DEL) is allowed on watched keys: the commit compares what they hold.

// cmdWATCH reads the keys, those that are held twice (redlock/op_watch.go): EXEC compares what a quorum
// holds now. Commands behind it wait, so that an EXEC in the same packet knows it.
func cmdWATCH(s *session, c *call) error {
	if s.transaction.open {
		return errorf("ERR WATCH inside MULTI is not allowed")
	}
	watched := func(key string) bool { _, ok := s.transaction.watched[key]; return ok } // then what it held first counts
	keys := slices.DeleteFunc(distinct(copyStrings(nil, c.args[1:])), watched)
	switch {
	case len(keys) == 0:
		return c.ok()
	case len(s.transaction.watched)+len(keys) > redlock.MaxResources:
		return errorf("ERR at most %d keys can be watched", redlock.MaxResources)
	}
	w := &watchCall{keys: keys}
	c.takeTurnBlocking(&w.slot, turn{keys: keys, reads: true}, true, w)
	return nil
}

// watchCall is a WATCH in progress.
type watchCall struct {
	slot
	op   redlock.Op
	keys []string
	// first is the answer to the first reading; nil: there was none yet.
	first []redlock.State
}

// start implements starter.
func (w *watchCall) start(bool) { w.startWatch(&w.op, w.keys, nil, w) }

// Done implements redlock.Completer. At the end it writes to the reader's transaction: the slot still
// blocks the reader, and complete unblocks it under conn.mu, so the reader sees the result.
func (w *watchCall) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	states := result.States
	switch {
	case result.Err != nil:
		return w.fail(result.Err)
	case w.first == nil && slices.ContainsFunc(states, func(st redlock.State) bool { return st.Found }):
		w.first = states
		time.AfterFunc(redlock.WatchPause, func() { w.startWatch(&w.op, w.keys, states, w) })
		return nil
	}
	w.s.server.live().withoutDelays(w.keys, states)
	conn, t := w.s.conn, &w.s.transaction
	conn.mu.Lock() // the reader may be counting (countInLocked)
	if t.watched == nil {
		t.watched = make(map[string]watchedKey)
	}
	for i, key := range w.keys {
		t.watched[key] = watchedKey{states[i], time.Now()}
	}
	conn.sessionMemory = w.s.memory() // the reader counts nothing before the next command
	conn.mu.Unlock()
	w.out = resp.AppendOK(w.out)
	return w.complete()
}

// cmdUNWATCH forgets all watched keys. Redis cannot forget single ones either.
func cmdUNWATCH(s *session, c *call) error {
	if s.transaction.open { // EXEC forgets the watched keys, so that a queued UNWATCH has nothing to do
		return s.transaction.queue(c, keyspace.Always(keyspace.OK))
	}
	s.transaction.watched = nil
	return c.ok()
}

// cmdMULTI opens the transaction. Nothing is sent to the masters before EXEC.
func cmdMULTI(s *session, c *call) error {
	if s.transaction.open {
		return errorf("ERR MULTI calls can not be nested")
	}
	s.transaction.open = true
	return c.ok()
}

// cmdDISCARD forgets the queued commands and, as in Redis, the watched keys.
func cmdDISCARD(s *session, c *call) error {
	if !s.transaction.open {
		return errorf("ERR DISCARD without MULTI")
	}
	s.transaction = transaction{}
	return c.ok()
}

// cmdEXEC commits the queued commands as one exchange. If they name watched keys alone, what WATCH has
// read is assumed to be true still, and nothing is read again: then a guard that fails is a watched key
// that has changed. The transaction is over in any case, also if EXEC fails.
func cmdEXEC(s *session, c *call) error {
	t := s.transaction
	if !t.open {
		return errorf("ERR EXEC without MULTI")
	}
	s.transaction = transaction{}
	for key := range t.watched {
		if !s.user().May(key) { // the client has logged in as another user since WATCH
			return noPermission(s.user(), "resource", key)
		}
	}
	if t.aborted {
		return errorf("EXECABORT Transaction discarded because of previous errors.")
	}
	x := &execProgram{commands: t.queued, watched: t.watched}
	x.keeps = t.memory()
	x.program, x.keys = x, slices.Collect(maps.Keys(t.watched))
	for _, command := range t.queued {
		x.keys = append(x.keys, command.Keys()...)
	}
	if x.keys = distinct(x.keys); len(x.keys) > redlock.MaxResources {
		return errorf("ERR the transaction has %d keys, at most %d are possible", len(x.keys), redlock.MaxResources)
	}
	x.enter(c, turn{rounds: true}, true)
	return nil
}

// execProgram is an EXEC in progress: its commands are executed in order, as one.
type execProgram struct {
	exchange
	commands []*keyspace.Command
	// watched is what the watched keys held when WATCH came.
	watched map[string]watchedKey
}

// assume implements program.
func (x *execProgram) assume() bool {
	if len(x.keys) != len(x.watched) { // not all keys are watched
		return false
	}
	now := time.Now()
	for _, key := range x.keys {
		x.states = append(x.states, x.watched[key].at(now))
	}
	x.run()
	return true
}

// run implements program. It compares what a quorum holds with what WATCH has read; the commit compares
// also when it ends.
func (x *execProgram) run() {
	space := x.space(time.Now())
	space.Unseen = true
	for i, key := range x.keys {
		if w, ok := x.watched[key]; ok {
			st := &x.states[i]
			if !w.same(st) || st.Found && st.Type != "string" {
				x.outcome = outcome{refused: errWatchFailed}
				return
			}
			st.Seen = w.state.Seen
			space.Guard(key)
		}
	}
	var err error
	replies := make([]keyspace.Reply, len(x.commands))
	for i := 0; i < len(replies) && err == nil; i++ {
		replies[i], err = space.Do(x.commands[i])
	}
	x.ran(space, keyspace.Reply{Kind: resp.Array, Elems: replies}, err)
}

// recheck implements program.
func (x *execProgram) recheck() (wait, end bool) { return false, false }

// committed implements program. Where a guard fails, a watched key may have changed, and no reading tells
// whether it was that one.
func (x *execProgram) committed(held bool) bool {
	if !held && len(x.watched) > 0 {
		x.outcome.refused, held = errWatchFailed, true
	}
	return held
}
