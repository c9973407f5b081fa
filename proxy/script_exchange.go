package proxy

import (
	"bytes"
	"cmp"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"redlockd/proxy/keyspace"
	"redlockd/redlock"
	"redlockd/redlock/sandbox"
)

// A script is a function from what its keys hold to what they are to hold and a reply. It is run in a box (redlock/sandbox, on the
// state of a keyspace.Space) on what its keys are guessed to hold; its writes are committed, guarded by what it has read.
//
//	guess ─ run ─┬─ writes ── commit ─┬─ done ──> the reply that the script has computed
//	             │                    └─ a guard fails ─┐
//	             └─ none: nothing would check the guess ┴─ read a quorum ─ run ─┬─ no writes ──> its reply
//	                                                          ^                └─ commit ─┬─ done ──> its reply
//	                                                          └────────────────────────────┘ scriptRounds times
//
// A guess that is right costs one round, like a native LOCK or UNLOCK.
//
// Invariant: all that a reply was made of was confirmed by a quorum: by the commit, whose guards are all that the run has read, or,
// where there was nothing to commit, by the reading. What only a minority holds is no reason to say that anything is held.
type scriptExchange struct {
	slot
	script   *knownScript
	declared []string // KEYS, as the script gets them: one may stand there twice
	argv     []string
	keys     []string // declared, each once

	states   []redlock.State // of keys, that the script was run on
	outcome  outcome
	changed  []redlock.Change // by the last commit, where it sets something
	spent    time.Duration    // in runs
	paid     int              // bytes of messages that the user's share has paid for
	guess    int32            // which of guesses is being tried, or noGuess
	tries    int8             // commits that found the keys changed
	readOnly bool
	waited   bool // for what it has left behind
	asked    bool // states are what a quorum holds

	// Room for a script with one key, so that it costs few allocations.
	op       redlock.Op // one at a time
	oneKey   [1]string
	oneState [1]redlock.State
	fewArgs  [2]string
}

// scriptLook and scriptCommit are the exchange as the engine's completer of a reading and of a commit.
type (
	scriptLook   scriptExchange
	scriptCommit scriptExchange
)

// Done implements redlock.Completer.
func (x *scriptLook) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	return (*scriptExchange)(x).looked(result)
}

// Done implements redlock.Completer.
func (x *scriptCommit) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	return (*scriptExchange)(x).committed(result)
}

const (
	// scriptRounds is how often a script is tried when others change its keys meanwhile.
	scriptRounds = 8
	// scriptPause is the longest pause before such a try, times its number.
	scriptPause = 2 * time.Millisecond

	// Bounds of the runs of one call: of all together, on top of the limits of each; and of a run on a guess, which has
	// only a lock script to find out about. A guess that meets its bound is the last one.
	callTime          = 100 * time.Millisecond
	guessInstructions = 20_000
)

// begin runs the script for the first time, on the session's goroutine.
func (x *scriptExchange) begin(s *session, c *call) {
	if x.orderBehind(s, c) {
		c.takeSlot(&x.slot)
		flush(x.first())
	}
}

// orderBehind waits until scripts of the same client that are on their way with one of the same keys are done: they may take several
// rounds, and what follows must not overtake them. Others are not waited for: many callers share one connection. It returns
// false when the client has gone meanwhile: then the call is answered, and is not to be executed, for nobody would know what it has
// done. Else this one is waited for from the moment it takes its place.
func (x *scriptExchange) orderBehind(s *session, c *call) (alive bool) {
	x.keys = x.declared
	if len(x.declared) > 1 {
		x.keys = distinct(x.declared)
	}
	x.scripted = x.keys
	return s.awaitScripts(c, x.keys)
}

// awaitScripts is orderBehind for any command with keys, before it takes its place; it must take one.
func (s *session) awaitScripts(c *call, keys []string) (alive bool) {
	if s.scripts.Load() > 0 { // else none can come but from this goroutine
		free := func() bool {
			for _, key := range keys {
				if _, ok := s.scripted[key]; ok {
					return false
				}
			}
			return true
		}
		s.conn.mu.Lock()
		now := free()
		s.conn.mu.Unlock()
		if !now {
			s.conn.batch.b = c.out
			s.conn.sendAndAwait(free) // fails if the session is dead
			c.out = s.conn.batch.b
		}
	}
	// It may have died since execute looked, and its scripts have ended with it: then there was nothing to wait for.
	if s.conn.closed.Load() {
		flush(c.newSlot().fail(coded(errGone)))
		return false
	}
	return true
}

// beginScriptLocked has commands with these keys wait, endScriptLocked ends that. The caller signals changed.
func (s *session) beginScriptLocked(keys []string) {
	if s.scripted == nil {
		s.scripted = make(map[string]struct{})
	}
	for _, key := range keys {
		s.scripted[key] = struct{}{}
	}
	s.scripts.Add(1)
}

func (s *session) endScriptLocked(keys []string) {
	for _, key := range keys {
		delete(s.scripted, key)
	}
	s.scripts.Add(-1)
}

// run runs the script on the states, for at most so many instructions; 0 means the usual limit.
func (x *scriptExchange) run(instructions int) {
	limits := sandbox.Limits{Instructions: cmp.Or(instructions, runInstructions), Time: min(runTime, callTime-x.spent)}
	if limits.Time <= 0 {
		x.outcome = outcome{refused: fmt.Errorf("ERR the script was stopped: its runs on what its keys hold took more than %v", callTime)}
		return
	}
	script := x.script.Script
	if x.readOnly {
		script = x.script.readOnly
	}
	x.s.server.shares.acquire(x.account, x.s.conn.id)
	defer x.s.server.shares.release()
	if x.s.conn.closed.Load() { // while it waited: nobody reads the reply
		x.outcome = outcome{refused: errors.New(coded(errGone))}
		return
	}
	now := time.Now()
	caller := &scriptCaller{space: keyspace.New(x.keys, x.states, now), now: now, user: x.account.user}
	caller.space.DefaultTTL = x.account.defaultTTL(x.s.server.opts.DefaultTTL)
	x.outcome = runScript(script, x.declared, caller, x.argv, limits)
	x.spent += x.outcome.spent
}

// stopped tells whether the last run met a limit: to try it on something else would cost as much again.
func (x *scriptExchange) stopped() bool {
	_, limited := errors.AsType[*sandbox.LimitError](x.outcome.refused)
	return limited
}

// committable: what the script did on a guess can be committed, and the commit then proves the guess.
func (x *scriptExchange) committable() bool {
	o := &x.outcome
	return o.refused == nil && o.Writes && !o.ReadTTL && !o.Blind && o.Unguarded == nil && o.Endless == nil
}

// state is what a key was taken to hold.
func (x *scriptExchange) state(key string) *redlock.State {
	for i := range x.keys {
		if x.keys[i] == key {
			return &x.states[i]
		}
	}
	panic("a script has changed a key that is none of its own")
}

// look reads what a quorum holds.
func (x *scriptExchange) look() redlock.Flusher {
	x.startRead(&x.op, x.keys, (*scriptLook)(x))
	return nil
}

func (x *scriptExchange) looked(result redlock.Result) redlock.Flusher {
	if result.Err != nil {
		return x.failWith(result.Err)
	}
	for i := range result.States {
		if st := &result.States[i]; st.Found && st.Type != "string" {
			return x.fail(keyspace.ErrWrongType)
		}
	}
	x.states, x.asked = result.States, true
	return x.elsewhere(x.settled)
}

// elsewhere goes on on a goroutine of its own: a script may take a while, and the engine's goroutines must not.
func (x *scriptExchange) elsewhere(step func() redlock.Flusher) redlock.Flusher {
	s := x.s
	started := x.s.server.begin(func() {
		defer func() {
			if p := recover(); p != nil {
				x.s.server.log.Error("panic in a script", "client", s.conn.id, "panic", p, "stack", string(debug.Stack()),
					"to_do", "report this line to the developers of redlockd; other clients are not affected")
				s.conn.close("panic in a script") // whether the reply was given is not known
			}
		}()
		flush(step())
	})
	if !started {
		return x.fail("ERR the server is closed")
	}
	return nil
}

// settled runs the script on what a quorum holds.
func (x *scriptExchange) settled() redlock.Flusher {
	x.run(0)
	o := &x.outcome
	switch {
	case o.refused != nil:
		return x.fail(refusalText(o.refused))
	case !o.Writes && !x.waited && x.seesItself():
		x.waited = true
		time.AfterFunc(2*x.s.server.opts.Engine.Options().MasterTimeout, func() { x.look() })
		return nil
	case !o.Writes && x.sure():
		x.noted()
		if refusal := x.payMessages(); refusal != "" {
			return x.fail(refusal)
		}
		return x.answer()
	case o.Writes && x.tries > 0 && x.contested():
		return x.answer()
	}
	if refusal := x.refuseWrites(); refusal != "" {
		return x.fail(refusal)
	}
	return x.commit() // without writes it compares only, and so makes sure
}

// seesItself tells whether the reply was made of a value that the last commit was to set, and has not. What it did on single masters is
// being undone: beside remains of an earlier lock of the same token it can look like a quorum for a moment. Later than two
// master timeouts no undo is still to be sent, and a look comes behind it on every master. A reply that would be the same if the
// value were somebody else's needs no such care.
func (x *scriptExchange) seesItself() bool {
	states, outcome := x.states, x.outcome
	itself := false
	for i := range states {
		for j := range x.changed {
			ch := &x.changed[j]
			if states[i].Found && ch.Resource == x.keys[i] && ch.Do == redlock.Set && ch.NewValue == states[i].Value && ch.Value != states[i].Value {
				if !itself {
					x.states = slices.Clone(states)
				}
				itself, x.states[i].Value = true, stranger
			}
		}
	}
	if !itself {
		return false
	}
	x.run(0)
	same := x.outcome.refused == nil && !x.outcome.Writes &&
		bytes.Equal(x.outcome.reply.AppendTo(nil, 3), outcome.reply.AppendTo(nil, 3))
	x.states, x.outcome = states, outcome
	return !same
}

// sure tells whether a quorum has confirmed all that the reply was made of.
func (x *scriptExchange) sure() bool {
	for i := range x.outcome.Changes {
		if st := x.state(x.outcome.Changes[i].Resource); st.Found && !st.Sure {
			return false
		}
	}
	return true
}

// contested is for a script whose commit failed although a quorum holds nothing: values of minorities are in the way, of others who
// try at the same time, or what is left of something. If the script takes no for an answer when somebody is in the way, then the
// outcome is changed to that answer.
//
// Invariant: it is never an answer that says "held". No quorum holds anything, so the script is shown a value that nobody has, and an
// answer that it also gives when it has locked is not taken. What a minority does hold is shown only to a script that is after the
// value and has not brought it along.
func (x *scriptExchange) contested() bool {
	states, locked := x.states, x.outcome
	inTheWay := func(value func(*redlock.State) string) (reply []byte, ok bool) {
		x.states = slices.Clone(states)
		for i := range x.states {
			if st := &x.states[i]; !st.Found && st.Hint != "" {
				st.Found, st.Type, st.Value, st.TTL = true, "string", value(st), time.Second
				ok = true
			}
		}
		if !ok {
			return nil, false
		}
		x.run(0)
		o := &x.outcome
		if o.refused != nil || o.Writes || o.ReadTTL {
			return nil, false
		}
		reply = o.reply.AppendTo(nil, x.proto)
		return reply, !bytes.Equal(reply, locked.reply.AppendTo(nil, x.proto))
	}
	brought := false
	reply, ok := inTheWay(func(st *redlock.State) string {
		brought = brought || slices.Contains(x.argv, st.Hint)
		return stranger
	})
	if ok && bytes.Contains(reply, []byte(stranger)) {
		if ok = !brought; ok {
			_, ok = inTheWay(func(st *redlock.State) string { return st.Hint })
		}
	}
	x.states = states
	if !ok {
		x.outcome = locked
	}
	return ok
}

// stranger is a token that nobody has.
var stranger = "somebody-" + cryptorand.Text()

func refusalText(err error) string {
	if limit, ok := errors.AsType[*sandbox.LimitError](err); ok {
		return "ERR the script was stopped: " + limit.Error()
	}
	return err.Error()
}

// refuseWrites is the policy for changes of what another may hold, and for locks without a TTL.
func (x *scriptExchange) refuseWrites() string {
	switch o := &x.outcome; {
	case o.Endless != nil:
		return errNoTTL
	case o.Unguarded != nil && !x.s.server.opts.AllowUnguarded:
		return fmt.Sprintf("ERR the script changes key %.200q without comparing what it holds, and so could change another's lock: "+
			"compare the token, or set allow_unguarded in [compat]", o.Unguarded.Resource)
	}
	return ""
}

// commit makes the writes, guarded by what the script was run on.
func (x *scriptExchange) commit() redlock.Flusher {
	changes := x.outcome.Changes
	if refusal := x.payMessages(); refusal != "" {
		return x.fail(refusal)
	}
	if err := x.s.mayChange(changes); err != nil {
		return x.failWith(err)
	}
	x.changed, x.waited = nil, false
	if slices.ContainsFunc(changes, func(ch redlock.Change) bool { return ch.Do == redlock.Set }) {
		x.changed = changes
	}
	x.startCommit(&x.op, changes, (*scriptCommit)(x))
	return nil
}

// payMessages counts what the script publishes, before anything of it happens. A later round pays only for what is more.
func (x *scriptExchange) payMessages() (refusal string) {
	n := 0
	for _, m := range x.outcome.published {
		n += m.size()
	}
	if n <= x.paid {
		return ""
	}
	if refusal = x.s.server.shares.publish(x.account, n-x.paid, time.Now()); refusal == "" {
		x.paid = n
	}
	return refusal
}

func (x *scriptExchange) committed(result redlock.Result) redlock.Flusher {
	switch {
	case result.Err != nil:
		return x.failWith(result.Err)
	case result.Held:
		x.learn()
		return x.answer()
	}
	x.guess = noGuess
	if x.tries++; x.tries == scriptRounds {
		return x.fail(fmt.Sprintf("ERR the keys of the script changed %d times between a look at them and the change that was to follow: try again", scriptRounds))
	}
	if x.tries <= 2 {
		return x.look()
	}
	time.AfterFunc(rand.N(time.Duration(x.tries)*scriptPause), func() { x.look() })
	return nil
}

// answer sends what the script has published and then gives the reply that it has computed.
func (x *scriptExchange) answer() redlock.Flusher {
	published := x.outcome.published
	if len(published) == 0 {
		return x.reply()
	}
	p := &scriptPublication{x: x, ops: make([]redlock.Op, len(published))}
	p.left.Store(int32(len(published)))
	for i, m := range published {
		x.startPublish(&p.ops[i], m.channel, m.payload, p) // the last one may complete x
	}
	return nil
}

// scriptPublication are the messages of a script on their way. The script is answered behind the last of them, so that who publishes by
// script is slowed down too.
type scriptPublication struct {
	x    *scriptExchange
	ops  []redlock.Op
	left atomic.Int32
}

// Done implements redlock.Completer. The script has changed its keys already: a message that there is no room for is lost, as it may be on
// its way. Too long a one was refused by the run.
func (p *scriptPublication) Done(*redlock.Op, redlock.Result) redlock.Flusher {
	p.x.s.afterPublish(p.x.account)
	if p.left.Add(-1) > 0 {
		return nil
	}
	return p.x.reply()
}

// reply gives the reply that the script has computed.
func (x *scriptExchange) reply() redlock.Flusher {
	x.s.server.share(x.script, x.account, x.s.conn.lastUsed.Load())
	x.out = x.outcome.reply.AppendTo(x.out, x.proto)
	return x.complete()
}
