package proxy

import (
	"strings"
	"time"

	"redlockd/proxy/keyspace"
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// What a session has between WATCH, MULTI and EXEC. The commands are in cmd_transaction.go.

// queuedMax bounds the commands between MULTI and EXEC. Their bytes together are bounded as those
// of one command.
const queuedMax = 128

// transaction is what a session has watched and queued. It is owned by the reader goroutine. A WATCH
// that completes writes to it from another goroutine, while its slot blocks the reader.
type transaction struct {
	// open is true between MULTI and EXEC.
	open bool
	// aborted is true if a command was refused since MULTI. Then EXEC does nothing.
	aborted bool
	// queued are the commands that EXEC executes, at most queuedMax.
	queued []*keyspace.Command
	// bytes is the size of queued.
	bytes int
	// watched has the keys of all WATCHes since the last EXEC, at most redlock.MaxResources.
	watched map[string]watchedKey
}

// queuedCost and watchedCost are what a queued command and a watched key take beside their bytes, about.
const (
	queuedCost  = 256
	watchedCost = 256
)

// memory is about what the transaction takes.
func (t *transaction) memory() int {
	n := t.bytes + queuedCost*len(t.queued)
	for key, watched := range t.watched {
		n += len(key) + len(watched.state.Value) + watchedCost
	}
	return n
}

// watchedKey is what a key held when it was watched. state.Seen tells whether it was changed since.
type watchedKey struct {
	state redlock.State
	// read is when the state was read.
	read time.Time
}

// at is the state at a later moment, if nobody has changed the key: its TTL is shorter. A TTL that has
// run out is left at 1 ms, because only the masters can tell that the key is gone; the guard asks them.
func (w watchedKey) at(now time.Time) redlock.State {
	st := w.state
	if st.Found && st.TTL >= 0 {
		if st.TTL -= now.Sub(w.read); st.TTL < time.Millisecond {
			st.TTL, st.Ending = time.Millisecond, max(time.Millisecond, st.Ending)
		}
	}
	return st
}

// same reports whether a later reading found the same value.
func (w watchedKey) same(st *redlock.State) bool {
	return w.state.Found == st.Found && w.state.Type == st.Type && w.state.Value == st.Value
}

// queue has EXEC execute a command, and answers QUEUED. At a bound the command is refused, and the
// transaction with it.
func (t *transaction) queue(c *call, command *keyspace.Command) error {
	bytes, bytesMax := t.bytes+command.Size(), c.s.server.bounds.command.Command
	switch {
	case len(t.queued) >= queuedMax:
		return t.refuse(errorf("ERR at most %d commands can be queued", queuedMax))
	case bytes > bytesMax:
		return t.refuse(errorf("ERR the queued commands have %d bytes, the limit is %d", bytes, bytesMax))
	}
	t.queued, t.bytes = append(t.queued, command), bytes
	c.out = resp.AppendStatus(c.out, "QUEUED")
	return nil
}

// refuse is for an error by which EXEC must fail, because the client sent the commands to have all or
// none executed. It returns the error.
func (t *transaction) refuse(err error) error {
	t.aborted = t.open
	return err
}

// notQueued is the error for a command that cannot stand between MULTI and EXEC; nil for others. Redis
// would queue any.
func (s *session) notQueued(cmd *command) error {
	if !s.transaction.open || cmd.flags&flagInMulti != 0 {
		return nil
	}
	name := strings.ToUpper(strings.ReplaceAll(cmd.fullName(), "|", " "))
	if cmd.flags&flagNative != 0 {
		several := ""
		if cmd.name == "lock" {
			several = "; MLOCK takes several locks as one"
		}
		return refusedf(reasonTransaction, "ERR %s cannot be queued: a transaction here is one change of locks, made of commands on keys. Send %s by itself, before MULTI or after EXEC%s", name, name, several)
	}
	return refusedf(reasonTransaction, "ERR %s cannot be queued: a transaction here is one change of locks, made of commands on keys", name)
}
