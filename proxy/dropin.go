package proxy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"redlockd/redlock"
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

// dropInCommands are answered as Redis answers them, from a quorum.
var dropInCommands = slices.Concat(setCommands, readCommands, delCommands, expireCommands, transactionCommands)

// effect is one drop-in command, ready to be run.
type effect struct {
	keys []string // that it reads or changes; one may stand there twice
	// writes: it may change something.
	writes bool
	// unguarded, where it changes what another may hold without comparing, is what to use in its place. Such a
	// command is refused unless its keys are watched or AllowUnguarded is set.
	unguarded string
	// guess is what its keys hold if all is as its sender expects; nil: no guess.
	guess []redlock.State
	// lost answers when the guess was wrong; nil: that takes a look.
	lost func(out []byte, proto int) []byte
	// hint: when it has lost and a look finds no value, what a minority holds is answered.
	hint bool
	// run does it, and appends its reply to v.out.
	run func(v *view)
}

// Bounds of one command.
const (
	// dropInRounds is how often a command that compares nothing is tried when others change its key meanwhile.
	dropInRounds = 8
	// queuedMax bounds the commands between MULTI and EXEC.
	queuedMax = 128
)

// dropIn executes an effect, or queues it behind MULTI. refusal says why it is none.
func (s *session) dropIn(c *call, e effect, refusal string) {
	if refusal == "" {
		refusal = s.refuseUnguarded(c, &e)
	}
	if refusal == "" && s.transaction.open {
		refusal = s.transaction.queue(e)
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
	alive := s.awaitScripts(c, e.keys)
	x := &exchange{engine: s.server.opts.Engine, effects: []effect{e}, keys: e.keys}
	if len(e.keys) > 1 {
		x.keys = distinct(e.keys)
	}
	if e.writes && (e.guess == nil || e.lost == nil) {
		c.takePlaceAndHold(&x.slot)
	} else {
		c.takePlace(&x.slot)
	}
	if !alive {
		flush(x.fail(coded(errGone)))
		return
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
	reply   []byte // when the commit succeeds
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
	case !x.multi && x.effects[0].guess != nil:
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
	if f := x.run(true); f != nil {
		f.Flush()
	}
}

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
	x.engine.StartRead(&o.Op, x.keys, o)
}

// stated goes on with what a quorum holds.
func (x *exchange) stated(result redlock.Result) redlock.Flusher {
	if result.Err != nil {
		return x.fail(coded(result.Err))
	}
	x.states = result.States
	for i, key := range x.keys {
		if w, ok := x.watched[key]; ok && !w.same(&x.states[i]) {
			return x.guardFailed()
		}
	}
	if st := &x.states[0]; x.tries > 0 && x.effects[0].hint && !st.Found && st.Hint != "" {
		x.out = appendBulkOrNull(x.out, x.proto, st.Hint, true)
		return x.complete()
	}
	// A key that a quorum only could hold, because masters are silent, is compared once more before anybody is told that it holds a
	// token: without a quorum that says so, the answer is NOQUORUM.
	unsure := slices.ContainsFunc(x.states, func(st redlock.State) bool { return st.Found && !st.Sure })
	return x.run(unsure)
}

// run runs the effects on the states and commits what they have changed. guessed: nobody has checked the states yet.
func (x *exchange) run(guessed bool) redlock.Flusher {
	v := newView(x.keys, x.states, x.proto)
	if x.multi {
		v.out = appendHeader(v.out, '*', len(x.effects))
	}
	for i := range x.effects {
		x.effects[i].run(v)
	}
	changes, real := v.changes()
	if !real && !guessed {
		x.out = append(x.out, v.out...)
		return x.complete()
	}
	if len(changes) == 0 { // keys of other types, which cannot be compared
		x.out = append(x.out, v.out...)
		return x.complete()
	}
	if err := x.s.mayChange(changes); err != nil {
		return x.fail(coded(err))
	}
	x.reply = v.out
	o := &operation{then: x.committed}
	x.engine.StartCommit(&o.Op, changes, o)
	return nil
}

func (x *exchange) committed(result redlock.Result) redlock.Flusher {
	switch {
	case result.Err != nil:
		return x.fail(coded(result.Err))
	case result.Held:
		x.out = append(x.out, x.reply...)
		return x.complete()
	case x.multi && x.allWatched():
		return x.guardFailed()
	case !x.multi && x.effects[0].lost != nil:
		x.out = x.effects[0].lost(x.out, x.proto)
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
	takes := slices.ContainsFunc(changes, func(ch redlock.Change) bool { return ch.Do == redlock.Set && ch.Was == redlock.WasAbsent })
	switch {
	case takes && s.isDead():
		return errGone
	case takes && s.server.draining.Load():
		return redlock.ErrDraining
	}
	return nil
}

// guardFailed answers EXEC when a watched key is not what it was.
func (x *exchange) guardFailed() redlock.Flusher {
	x.out = appendNullArray(x.out, x.proto)
	return x.complete()
}

func (x *exchange) fail(text string) redlock.Flusher {
	x.out = appendError(x.out, text)
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
