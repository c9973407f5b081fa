package proxy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/resp"
	"redlockd/redlock/sandbox"
)

// Drop-in: commands of Redis on string keys, by which libraries lock that were written for one instance. Each is an effect on
// what its keys hold. It is run here, on what a quorum holds or, where one can guess, on a guess; what it has changed is made a
// commit that is guarded by what it was run on. If the guards hold, it was run on the truth, and its reply is the reply. If
// not, the guess was wrong or somebody else was faster: then the keys are read, and it is run again.
//
//	SET k v NX PX 1000        guess: absent           one round
//	DELEX k IFEQ v            guess: k holds v        one round
//	GET k                     read                    one round
//	DEL k  (allow_unguarded)  read, guarded commit    two rounds
//	WATCH k … MULTI … EXEC    read at WATCH, commit   one round each
//
// A command is executed in order behind those before it from the same client: a single round is kept in order by the lanes of
// the engine, one that may take several holds back what follows.

// effect is one drop-in command, ready to be run.
type effect struct {
	run  keyCommand
	args []string
	keys []string // that it reads or changes, among args; one may stand there twice
	// writes: it may change something.
	writes bool
	// hint: it is a SET NX GET. When it has lost and a look finds no value, what a minority holds is answered.
	hint bool
	// unguarded, where it changes what another may hold without comparing, is what to use in its place. Such a
	// command is refused unless its keys are watched or AllowUnguarded is set.
	unguarded string
	// guess is what its keys hold if all is as its sender expects; nil: no guess.
	guess []redlock.State
	// lost answers when the guess was wrong; nil: that takes a look.
	lost *sandbox.Reply
}

var lostZero, lostNull = integer(0), sandbox.Reply{}

// effect is the command of the call. Its keys stand behind its name, one or all that follows.
func (c *call) effect(run keyCommand) effect {
	args := make([]string, 1, len(c.args))
	args[0] = c.cmd.name
	args = copyStrings(args, c.args[1:])
	e := effect{run: run, args: args, keys: args[1:], writes: c.cmd.flags&flagWrite != 0}
	if c.cmd.keys.last == 1 {
		e.keys = args[1:2]
	}
	return e
}

// Bounds of one command.
const (
	// dropInRounds is how often a command that compares nothing is tried when others change its key meanwhile.
	dropInRounds = 8
	// queuedMax bounds the commands between MULTI and EXEC; of their bytes together there may be as many as of one command.
	queuedMax = 128
)

// dropIn executes an effect, or queues it behind MULTI. refusal says why it is none.
func (s *session) dropIn(c *call, e effect, refusal string) {
	if refusal == "" && len(e.keys) > redlock.MaxResources { // one that comes again counts: it is answered again
		refusal = fmt.Sprintf("ERR %d resources are named, at most %d are possible", len(e.keys), redlock.MaxResources)
	}
	if refusal == "" {
		refusal = s.refuseUnguarded(c, &e)
	}
	if refusal == "" && s.transaction.open {
		refusal = s.transaction.queue(e, s.server.opts.CommandMax)
	}
	switch {
	case refusal != "":
		s.transaction.aborted = s.transaction.open
		c.fail(refusal)
		return
	case s.transaction.open:
		c.out = append(c.out, "+QUEUED\r\n"...)
		return
	}
	if !s.awaitScripts(c, e.keys) {
		return
	}
	x := &exchange{engine: s.server.opts.Engine, effects: []effect{e}, keys: e.keys}
	if len(e.keys) > 1 {
		x.keys = distinct(e.keys)
	}
	if e.writes && (e.guess == nil || e.lost == nil) {
		c.takePlaceAndHold(&x.slot)
	} else {
		c.takePlace(&x.slot)
	}
	x.start()
}

// refuseUnguarded is the policy for commands that could release or prolong another's lock.
func (s *session) refuseUnguarded(c *call, e *effect) string {
	if e.unguarded == "" || s.server.opts.AllowUnguarded {
		return ""
	}
	watched := s.transaction.open
	for _, key := range e.keys {
		if _, ok := s.transaction.watched[key]; !ok {
			watched = false
		}
	}
	if watched {
		return ""
	}
	return fmt.Sprintf("ERR %s is refused, for it does not compare the token and could change another's lock: %s; or set allow_unguarded in [compat]",
		strings.ToUpper(c.cmd.name), e.unguarded)
}

// exchange is a drop-in command on its way, or a transaction of some.
type exchange struct {
	slot
	engine  *redlock.Client
	effects []effect
	keys    []string // of them all, each once
	multi   bool     // the reply is an array
	watched map[string]watchedKey
	states  []redlock.State // of keys
	tries   int
	waited  bool          // for what it has left behind
	reply   sandbox.Reply // when the commit succeeds
}

// operation is one operation of the engine on behalf of an exchange.
type operation struct {
	redlock.Op
	then func(redlock.Result) redlock.Flusher
}

// Done implements redlock.Completer.
func (o *operation) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher { return o.then(result) }

// start begins with what is guessed or watched, if that is all the keys. The slot has its place.
func (x *exchange) start() {
	switch {
	case !x.multi && x.effects[0].guess != nil && !x.known():
		x.states = x.effects[0].guess
	case x.multi && x.allWatched():
		now := time.Now()
		for _, key := range x.keys {
			x.states = append(x.states, x.watched[key].at(now))
		}
	default:
		x.read()
		return
	}
	flush(x.run(true))
}

// known: a lease of this redlockd is most likely what the masters hold, and who is to be told so has no use for an attempt.
func (x *exchange) known() bool { return x.effects[0].hint && x.engine.Known(nil, x.keys)[0].Found }

func (x *exchange) allWatched() bool {
	for _, key := range x.keys {
		if _, ok := x.watched[key]; !ok {
			return false
		}
	}
	return true
}

func (x *exchange) read() {
	o := &operation{then: x.stated}
	x.startRead(&o.Op, x.keys, o)
}

// stated goes on with what a quorum holds.
func (x *exchange) stated(result redlock.Result) redlock.Flusher {
	if result.Err != nil {
		return x.failWith(result.Err)
	}
	x.states = result.States
	for i, key := range x.keys {
		if w, ok := x.watched[key]; ok && !w.same(&x.states[i]) {
			return x.guardFailed()
		}
	}
	if st := &x.states[0]; x.tries > 0 && !x.multi && x.effects[0].hint && st.Hint != "" {
		// Whoever gets its own value takes itself for the holder. It must not be what the commit that failed has set on single masters, and
		// is being undone: see scriptExchange.seesItself.
		own := st.Hint == x.effects[0].args[2]
		switch {
		case own && !x.waited:
			x.waited = true
			time.AfterFunc(2*x.engine.Options().MasterTimeout, x.read)
			return nil
		case !own && !st.Found:
			x.out = bulk(st.Hint).AppendTo(x.out, x.proto)
			return x.complete()
		}
	}
	// A key that a quorum only could hold, because masters are silent, is compared once more before anybody is told that it holds a
	// token: without a quorum that says so, the answer is NOQUORUM.
	unsure := slices.ContainsFunc(x.states, func(st redlock.State) bool { return st.Found && !st.Sure })
	return x.run(unsure)
}

// run runs the effects on the states and commits what they have changed. guessed: nobody has checked the states yet.
func (x *exchange) run(guessed bool) redlock.Flusher {
	ks := newKeyspace(x.keys, x.states, time.Now())
	ks.client, ks.lifetime = true, x.account.defaultTTL(x.s.server.opts.DefaultTTL).Milliseconds()
	reply := x.replyOn(ks)
	changes, real := ks.changes()
	if !real && !guessed || len(changes) == 0 { // the latter: keys of other types, which cannot be compared
		x.out = reply.AppendTo(x.out, x.proto)
		return x.complete()
	}
	if err := x.s.mayChange(changes); err != nil {
		return x.failWith(err)
	}
	x.reply, x.waited = reply, false
	o := &operation{then: x.committed}
	x.startCommit(&o.Op, changes, o)
	return nil
}

// replyOn executes the effects.
func (x *exchange) replyOn(ks *keyspace) sandbox.Reply {
	if !x.multi {
		return x.effects[0].replyOn(ks)
	}
	all := sandbox.Reply{Kind: sandbox.Array, Elems: make([]sandbox.Reply, len(x.effects))}
	for i := range x.effects {
		all.Elems[i] = x.effects[i].replyOn(ks)
	}
	return all
}

func (e *effect) replyOn(ks *keyspace) sandbox.Reply {
	reply, err := e.run(ks, e.args)
	if err != nil {
		return failure(err.Error())
	}
	return reply
}

func (x *exchange) committed(result redlock.Result) redlock.Flusher {
	switch {
	case result.Err != nil:
		return x.failWith(result.Err)
	case result.Held:
		x.out = x.reply.AppendTo(x.out, x.proto)
		return x.complete()
	case x.multi && x.allWatched():
		return x.guardFailed()
	case !x.multi && x.effects[0].lost != nil:
		x.out = x.effects[0].lost.AppendTo(x.out, x.proto)
		return x.complete()
	}
	if x.tries++; x.tries == dropInRounds {
		return x.fail(fmt.Sprintf("ERR the key changed %d times between a look at it and the change that was to follow: try again", dropInRounds))
	}
	x.read()
	return nil
}

// mayChange refuses changes that take a lock of which nobody would know, or one that is not to be granted any more: the client may
// have gone, and the server may be draining, since the command was executed.
func (s *session) mayChange(changes []redlock.Change) error {
	if !slices.ContainsFunc(changes, func(ch redlock.Change) bool { return ch.Do == redlock.Set && ch.Was == redlock.WasAbsent }) {
		return nil
	}
	s.mu.Lock()
	gone := s.gone || s.dead.Load()
	s.mu.Unlock()
	switch {
	case gone:
		return errGone
	case s.server.draining.Load():
		return redlock.ErrDraining
	}
	return nil
}

// guardFailed answers EXEC when a watched key is not what it was.
func (x *exchange) guardFailed() redlock.Flusher {
	x.out = resp.AppendNullArray(x.out, x.proto)
	return x.complete()
}

// distinct returns the keys, each once.
func distinct(keys []string) []string {
	var once []string
	for _, key := range keys {
		if !slices.Contains(once, key) {
			once = append(once, key)
		}
	}
	return once
}

// absent and holding are guesses.
func absent(keys int) []redlock.State {
	states := make([]redlock.State, keys)
	for i := range states {
		states[i].Type = "none"
	}
	return states
}

func holding(value string) []redlock.State {
	return []redlock.State{{Found: true, Type: "string", Value: value, TTL: time.Millisecond}}
}
