package proxy

import (
	"slices"
	"strings"
	"time"

	"redlockd/proxy/keyspace"
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// Drop-in: the Redis commands on string keys by which libraries lock that were written for one
// instance. Package keyspace says what a command does to its keys. It is executed on what a quorum
// holds or, where its arguments tell what the sender expects, on that. What it has changed is
// committed, guarded by what it was executed on. If the guards hold, it was executed on the truth, and
// its reply is the reply. If not, the assumption was wrong or somebody else was faster: then the keys
// are read, and it is executed again.
//
//	SET k v NX PX 1000        assumed: absent         one round
//	DELEX k IFEQ v            assumed: k holds v      one round
//	GET k                     read                    one round
//	DEL k  (allow_unguarded)  read, guarded commit    two rounds
//	WATCH k … MULTI … EXEC    read at WATCH, commit   one round each
//
// A command is executed in order behind those before it from the same client: the lanes of the engine
// keep single rounds in order; a command that may take several blocks its client.

// Bounds of one command.
const (
	// exchangeRounds is how often a command or a transaction is executed when others change its keys meanwhile.
	exchangeRounds = 8
	// queuedMax bounds the commands between MULTI and EXEC. Their bytes together are bounded as those
	// of one command.
	queuedMax = 128
)

const errNoTTL replyError = "ERR a lock without a TTL would be held for ever if its owner dies: give it one (SET key token NX PX ms), or set default_ttl in [compat]"

// cmdKeys executes any command of package keyspace, or queues it behind MULTI.
func cmdKeys(s *session, c *call) {
	command, text := keyspace.Parse(c.cmd.name, copyStrings(make([]string, 0, len(c.args)-1), c.args[1:]))
	refusal := keyspaceError(text)
	keys := command.Keys()
	if refusal == nil && len(keys) > redlock.MaxResources { // one that comes again counts: it is answered again
		refusal = errorf("ERR %d resources are named, at most %d are possible", len(keys), redlock.MaxResources)
	}
	if refusal == nil {
		refusal = s.refuseUnguarded(command, keys)
	}
	switch {
	case refusal != nil:
		s.transaction.refuse(c, refusal)
	case s.transaction.open:
		s.transaction.queue(c, command)
	default:
		x := &exchange{commands: []*keyspace.Command{command}, keys: distinct(keys)}
		x.assumed = command.Assumed(len(x.keys))
		x.begin(c, command.Writes() && command.Denied() == nil)
	}
}

// refuseUnguarded is the policy for commands that could release or extend another's lock. They are
// allowed on watched keys, because EXEC compares what these hold.
func (s *session) refuseUnguarded(command *keyspace.Command, keys []string) error {
	instead := command.Unguarded()
	isWatched := func(key string) bool { _, ok := s.transaction.watched[key]; return ok }
	if instead == "" || s.server.opts.AllowUnguarded || s.transaction.open && all(keys, isWatched) {
		return nil
	}
	return errorf("ERR %s is refused, for it does not compare the token and could change another's lock: %s; or set allow_unguarded in [compat]",
		strings.ToUpper(s.call.cmd.name), instead)
}

// exchange is a command on keys in progress, or a transaction of several. One goroutine at a time works
// on it: the reader, then the engine's that completes its present operation.
type exchange struct {
	slot
	// commands are executed in this order, as one.
	commands []*keyspace.Command
	// keys are those of all commands, and the watched ones; each once.
	keys []string
	// assumed is what keys hold if all is as their client expects; nil: the keys are read first.
	assumed []redlock.State
	// multi is true for a transaction. Its reply is an array, or null if a watched key has changed.
	multi bool
	// watched is what the watched keys held when WATCH came.
	watched map[string]watchedKey
	// states is what the commands were executed on last.
	states []redlock.State
	// reply is that of the last execution. It is given if the commit succeeds.
	reply keyspace.Reply
	// tries counts the commits that found the keys changed.
	tries int
	// waited is true once the exchange has waited until its own failed commit must be undone.
	waited bool
}

// operation is one operation of the engine on behalf of an exchange, which goes on in then.
type operation struct {
	redlock.Op
	then func(redlock.Result) redlock.Flusher
}

// Done implements redlock.Completer.
func (o *operation) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher { return o.then(result) }

// begin takes the slot of the reply and starts. blocks keeps back what the client has sent behind: an
// exchange that may take several rounds must not be overtaken.
func (x *exchange) begin(c *call, blocks bool) {
	switch {
	case !c.s.awaitScripts(c, x.keys):
		return
	case blocks:
		c.takeBlockingSlot(&x.slot)
	default:
		c.takeSlot(&x.slot)
	}
	if x.assumed == nil || x.leaseKnown() {
		x.read()
		return
	}
	x.states = x.assumed
	flush(x.execute(true))
}

// leaseKnown reports whether a lease of this redlockd most likely holds the key of a SET NX GET. Then a
// commit would most likely be denied, and the client asks for the holder's token: reading first saves a
// round.
func (x *exchange) leaseKnown() bool {
	return !x.multi && x.commands[0].AsksHolder() && x.s.server.opts.Engine.Known(nil, x.keys)[0].Found
}

// read asks a quorum what the keys hold, and goes on in haveRead.
func (x *exchange) read() {
	o := &operation{then: x.haveRead}
	x.startRead(&o.Op, x.keys, o)
}

// haveRead goes on with what a quorum holds. EXEC ends here if a watched key is not what WATCH has read.
func (x *exchange) haveRead(result redlock.Result) redlock.Flusher {
	if result.Err != nil {
		return x.fail(result.Err)
	}
	x.states = result.States
	for i, key := range x.keys {
		if w, ok := x.watched[key]; ok && !w.same(&x.states[i]) {
			return x.watchFailed()
		}
	}
	if st := &x.states[0]; x.tries > 0 && !x.multi && x.commands[0].AsksHolder() && st.Hint != "" {
		// The client takes itself for the holder if it is answered its own token. That must not be what
		// the failed commit has set on single masters, and is being undone: see
		// scriptExchange.seesItself.
		own := st.Hint == x.commands[0].Value()
		switch {
		case own && !x.waited:
			x.waited = true
			time.AfterFunc(2*x.s.server.opts.Engine.Options().MasterTimeout, x.read)
			return nil
		case !own && !st.Found:
			x.out = resp.AppendBulkString(x.out, st.Hint)
			return x.complete()
		}
	}
	// A key that only a quorum could hold, because masters are silent, is compared once more before a
	// reply says that it holds a token: without a quorum that says so, the answer is NOQUORUM.
	unsure := slices.ContainsFunc(x.states, func(st redlock.State) bool { return st.Found && !st.Sure })
	return x.execute(unsure)
}

// execute executes the commands on the states and commits what they have changed. unsure: no quorum has
// confirmed the states yet, so they are compared by a commit even if nothing changes.
func (x *exchange) execute(unsure bool) redlock.Flusher {
	space := keyspace.New(x.keys, x.states, time.Now())
	space.KeepEnded, space.DefaultTTL = true, x.account.defaultTTL(x.s.server.opts.DefaultTTL)
	for key := range x.watched {
		space.Guard(key)
	}
	x.reply, x.waited = x.replyOn(space), false
	o := space.Outcome()
	switch {
	case !o.Writes && !unsure || len(o.Changes) == 0: // the latter: keys of other types, which cannot be compared
		return x.answer()
	case o.Endless != nil:
		return x.fail(errNoTTL)
	}
	if err := x.s.mayChange(o.Changes); err != nil {
		return x.fail(err)
	}
	op := &operation{then: x.committed}
	x.startCommit(&op.Op, o.Changes, op)
	return nil
}

// replyOn executes the commands on the space, in order, and returns the reply of the exchange.
func (x *exchange) replyOn(space *keyspace.Space) keyspace.Reply {
	replies := make([]keyspace.Reply, len(x.commands))
	for i, command := range x.commands {
		var err error
		if replies[i], err = space.Do(command); err != nil { // impossible, because the space has all keys of all commands
			replies[i] = keyspace.Reply{Kind: resp.Error, Text: string(replyErrorOf(err))}
		}
	}
	if !x.multi {
		return replies[0]
	}
	return keyspace.Reply{Kind: resp.Array, Elems: replies}
}

// committed goes on when the masters have changed the keys, or have found that they hold something
// else. What was assumed in the first try was wrong then; a reading that was overtaken is repeated.
func (x *exchange) committed(result redlock.Result) redlock.Flusher {
	switch {
	case result.Err != nil:
		return x.fail(result.Err)
	case result.Held:
		return x.answer()
	case x.multi && x.assumed != nil:
		return x.watchFailed()
	case !x.multi && x.commands[0].Denied() != nil:
		x.reply = *x.commands[0].Denied()
		return x.answer()
	}
	if x.tries++; x.tries == exchangeRounds {
		return x.fail(errorf("ERR the key changed %d times between the reading and the change: try again", exchangeRounds))
	}
	x.read()
	return nil
}

// answer sends the reply of the last execution. A quorum has confirmed what that was made of.
func (x *exchange) answer() redlock.Flusher {
	x.out = x.reply.AppendTo(x.out, x.proto)
	return x.complete()
}

// watchFailed answers EXEC when a watched key is not what it was.
func (x *exchange) watchFailed() redlock.Flusher {
	x.out = resp.AppendNullArray(x.out, x.proto)
	return x.complete()
}

// mayChange refuses changes that would take a lock of which nobody would know, or one that must not be
// granted any more: the client may have gone, and the server may be draining, since the command was
// executed.
func (s *session) mayChange(changes []redlock.Change) error {
	if !slices.ContainsFunc(changes, func(ch redlock.Change) bool { return ch.Do == redlock.Set && ch.Was == redlock.WasAbsent }) {
		return nil
	}
	s.conn.mu.Lock()
	gone := s.conn.halfClosed || s.conn.closed.Load()
	s.conn.mu.Unlock()
	switch {
	case gone:
		return errGone
	case s.server.draining.Load():
		return redlock.ErrDraining
	}
	return nil
}

// distinct returns the keys in their order, each once. It returns the same slice if there is at most one.
func distinct(keys []string) []string {
	if len(keys) <= 1 {
		return keys
	}
	once := make([]string, 0, len(keys))
	for _, key := range keys {
		if !slices.Contains(once, key) {
			once = append(once, key)
		}
	}
	return once
}

// all reports whether every key is as asked.
func all(keys []string, is func(string) bool) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return !is(key) })
}
