package proxy

import (
	"crypto/rand"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"redlockd/proxy/keyspace"
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// Drop-in: the Redis commands on keys by which libraries lock that were written for one instance. Package keyspace says what a command does to its keys. It is executed on what a quorum
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
	// splitReads is how often the keys are read when masters hold different hashes or sets.
	splitReads = 10
	// endingWaitMax bounds how long one command waits for the end of a key.
	endingWaitMax = 100 * time.Millisecond
	// queuedMax bounds the commands between MULTI and EXEC. Their bytes together are bounded as those
	// of one command.
	queuedMax = 128
)

// noTTL refuses a key that would have no TTL when the change is made.
func noTTL(ch *redlock.Change) error {
	instead := ""
	value := ch.Value
	if ch.Do == redlock.Set {
		value = ch.NewValue
	}
	if text, isText := keyspace.Text(value); !isText {
		instead = ". A semaphore is LOCK with SLOTS"
	} else if _, isNumber := resp.ParseInt(text); isNumber {
		instead = ". Numbers that must never fall back are those of LOCK with FENCE"
	}
	return refusedf("ERR a lock without a TTL would be held for ever if its owner dies: give it one (SET key token NX PX ms, or PEXPIRE in the same script), "+
		"or set default_ttl in [compat]%s", instead)
}

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
	allowed := func(key string) bool {
		_, watched := s.transaction.watched[key]
		return watched && s.transaction.open || s.call.cmd.name == "del" && isHelperKey(key) || matchesAny(s.server.live().AllowUnguarded, key)
	}
	if instead == "" || all(keys, allowed) {
		return nil
	}
	return refusedf("ERR %s is refused, for it does not compare the token and could change another's lock: %s; or set allow_unguarded in [compat]",
		strings.ToUpper(s.call.cmd.name), instead)
}

// refuseChanges is why what a command or a script has done may not be committed, or nil: it changes a key without comparing what that holds,
// which could be another's lock. Commands were asked for before (refuseUnguarded); what a helper key holds shows now.
func (s *session) refuseChanges(who string, o *keyspace.Outcome) error {
	for i := range o.Changes {
		ch := &o.Changes[i]
		if slices.Contains(o.Unguarded, ch.Resource) && !s.server.live().mayChangeUnguarded(ch.Resource, ch.Value) {
			return refusedf("ERR the %s changes key %.200q without comparing what it holds, and so could change another's lock: "+
				"compare the token, or set allow_unguarded in [compat]", who, ch.Resource)
		}
	}
	return nil
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
	// changes are what the last commit was to change.
	changes []redlock.Change
	// tries counts the commits that found the keys changed.
	tries int
	// splits counts the readings that found masters with different hashes or sets.
	splits int
	// waited is true once the exchange has waited until its own failed commit must be undone.
	waited bool
	// waitedForEnd is for how long the exchange has waited for the end of a key, see endingWait.
	waitedForEnd time.Duration
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
	if x.multi || !x.commands[0].Writes() || x.commands[0].AsksHolder() {
		x.track(x.keys)
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
	if key, split := splitKey(x.keys, result.States); split {
		if x.splits++; x.splits == splitReads {
			return x.fail(splitError(key))
		}
		time.AfterFunc(splitPause(x.splits), x.read)
		return nil
	}
	x.s.server.live().withoutDelays(x.keys, result.States)
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
			if text, ok := keyspace.Text(st.Hint); ok {
				x.out = resp.AppendBulkString(x.out, text)
				return x.complete()
			}
			return x.fail(replyError(keyspace.ErrWrongType))
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
	space.KeepEnded, space.DefaultTTL, space.Random = true, x.defaultTTL(x.keys), rand.Read
	for key := range x.watched {
		space.Guard(key)
	}
	x.waited = false
	var err error
	if x.reply, err = x.replyOn(space); err != nil { // a value that is too large
		return x.fail(&refusedError{reply: replyError(err.Error())})
	}
	o := space.Outcome()
	if wait := endingWait(&o, x.states, x.waitedForEnd); wait > 0 {
		x.waitedForEnd += wait
		time.AfterFunc(wait, x.read)
		return nil
	}
	switch {
	case !o.Writes && !unsure || len(o.Changes) == 0: // the latter: keys of other types, which cannot be compared
		return x.answer()
	case o.Endless != nil:
		return x.fail(noTTL(o.Endless))
	}
	if refusal := x.s.refuseChanges("command", &o); refusal != nil {
		return x.fail(refusal)
	}
	if o.Collections && o.Writes && !x.s.server.keyTurns.take(&x.slot, x.keys[0], x.read) {
		return nil
	}
	if err = x.s.mayChange(o.Changes); err != nil {
		return x.fail(err)
	}
	x.changes = o.Changes
	op := &operation{then: x.committed}
	x.startCommit(&op.Op, o.Changes, op)
	return nil
}

// replyOn executes the commands on the space, in order, and returns the reply of the exchange. An error
// refuses all of them.
func (x *exchange) replyOn(space *keyspace.Space) (reply keyspace.Reply, err error) {
	replies := make([]keyspace.Reply, len(x.commands))
	for i, command := range x.commands {
		if replies[i], err = space.Do(command); err != nil {
			return reply, err
		}
	}
	if !x.multi {
		return replies[0], nil
	}
	return keyspace.Reply{Kind: resp.Array, Elems: replies}, nil
}

// committed goes on when the masters have changed the keys, or have found that they hold something
// else. What was assumed in the first try was wrong then; a reading that was overtaken is repeated.
func (x *exchange) committed(result redlock.Result) redlock.Flusher {
	switch {
	case result.Err != nil:
		return x.fail(result.Err)
	case result.Held:
		x.tellChanges(x.changes)
		return x.answer()
	case x.multi && x.assumed != nil:
		return x.watchFailed()
	case !x.multi && x.commands[0].Denied() != nil:
		x.reply = *x.commands[0].Denied()
		return x.answer()
	}
	if x.tries++; x.tries >= x.roundsMax(exchangeRounds) {
		return x.fail(errorf("ERR the key changed %d times between the reading and the change: try again", x.tries))
	}
	x.read()
	return nil
}

// endingWait is how long a reply is kept back that tells a TTL of which no time is sure any more; 0: it is not.
// Behind the wait the keys are read again.
//
// The last of a key on the masters is padding for drift: it excludes others, and the holder must not count on
// it. So there is no right number for it. Its length may be told to nobody, for it may be the holder who asks,
// in a script that compares the token or in a plain PTTL behind a GET. 1 ms, which is as good as the truth for
// the holder, would have everybody else spin who sleeps for the TTL: with a short lock for most of its padding.
// Behind the wait the key is gone, or somebody has given it a TTL that is sure, and the answer is good for both.
// The wait is shorter than the drift of a short TTL, 12 ms with the usual settings. It is bounded for other
// settings: who is told 1 ms after endingWaitMax does not spin either.
//
// What is written does not wait: the commit decides then.
func endingWait(o *keyspace.Outcome, states []redlock.State, waited time.Duration) (wait time.Duration) {
	if !o.ReadTTL || o.Writes {
		return 0
	}
	for i := range states {
		wait = max(wait, states[i].Ending)
	}
	return min(wait, endingWaitMax-waited)
}

// answer sends the reply of the last execution. A quorum has confirmed what that was made of.
func (x *exchange) answer() redlock.Flusher {
	x.out = x.reply.AppendTo(x.out, x.proto)
	x.saw(x.keys, x.states, x.changes)
	return x.complete()
}

// watchFailed answers EXEC when a watched key is not what it was.
func (x *exchange) watchFailed() redlock.Flusher {
	x.out = resp.AppendNullArray(x.out, x.proto)
	return x.complete()
}

// splitKey returns a key of which masters hold different hashes or sets, so that nobody can tell who holds
// it. Several clients are changing it then, and those that fail are putting back what it held.
func splitKey(keys []string, states []redlock.State) (key string, split bool) {
	for i := range states {
		if _, isText := keyspace.Text(states[i].Hint); states[i].Split && !isText {
			return keys[i], true
		}
	}
	return "", false
}

// splitPause is the time between two readings of a key on which masters differ. The next one finds most
// likely that what has failed was undone: that takes a round.
func splitPause(readings int) time.Duration {
	return time.Millisecond + mathrand.N(time.Duration(readings)*scriptPause)
}

func splitError(key string) error {
	return errorf("NOQUORUM the masters hold different values of key %.200q, because several clients have changed it at the same time, or one was cut off: "+
		"try again. If nobody changes it, it ends with its TTL", key)
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
