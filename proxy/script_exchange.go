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

// scriptExchange is one call of a script. A script is a function from what its keys hold to what they are to
// hold and a reply. It runs in a sandbox (redlock/sandbox, on the state of a keyspace.Space) on what its keys
// are assumed to hold; its changes are committed, guarded by what it has read.
//
//	assume ─ run ─┬─ changes ── commit ─┬─ done ──> the reply that the script has computed
//	              │                     └─ a guard fails ────┐
//	              └─ none: nothing would check the assumption ┴─ read a quorum ─ run ─┬─ no changes ──> its reply
//	                                                                    ^             └─ commit ─┬─ done ──> its reply
//	                                                                    └────────────────────────┘ scriptRounds times
//
// A key that the script names and has not declared (Redisson makes such names) is taken to be absent, so that
// the run finds them all. Then the keys are read, with these, and the script is run again. Such a key is not
// ordered against what the same client has sent before for that key and is not answered yet.
//
// An assumption that is right (script_assume.go) costs one round, like a native LOCK or UNLOCK.
//
// Invariant: all that a reply was made of was confirmed by a quorum: by the commit, whose guards are all that
// the run has read, or, where there was nothing to commit, by the reading. What only a minority holds is no
// reason to say that anything is held.
//
// One goroutine at a time works on an exchange, so its fields need no mutex: first the reader of the
// connection (begin), then the engine's that completes an operation (haveRead, committed), then one of
// its own for the next run (continueOnGoroutine). Each hands over as its last step.
//
// Rejected: to run scripts on the masters, as EVAL there. A script that ran on a minority alone, or on
// masters that hold different things, could not be taken back.
type scriptExchange struct {
	slot
	script *knownScript
	// declared is KEYS as the script gets them: a key may stand there twice.
	declared []string
	argv     []string
	// keys has each key of declared once, and behind these those that runs have found missing.
	keys []string

	// states is what the script was run on, for each of keys.
	states  []redlock.State
	outcome outcome
	// changed is what the last commit was to change, if it was to set something.
	changed []redlock.Change
	// spent is the time that the runs have taken, of callTime.
	spent time.Duration
	// chargedBytes is how many bytes of messages the user's share was charged for.
	chargedBytes int
	// assumption is the one that states come from, or assumesNothing.
	assumption int32
	// tries counts commits that found the keys changed.
	tries int8
	// splits counts readings that found masters with different hashes or sets.
	splits int8
	// readOnly refuses writes: EVAL_RO.
	readOnly bool
	// waited is true once the exchange has waited for the undoing of its own commit.
	waited bool
	// waitedForEnd is for how long the exchange has waited for the end of a key, see endingWait.
	waitedForEnd time.Duration
	// fromQuorum is true once states are what a quorum holds.
	fromQuorum bool

	// Room for a script with one key, so that it costs few allocations. There is one operation at a time.
	op       redlock.Op
	oneKey   [1]string
	oneState [1]redlock.State
	fewArgs  [2]string
}

// scriptRead and scriptCommit are the exchange as the engine's completer of a reading and of a commit. A type
// for each takes no allocation, where a closure would.
type (
	scriptRead   scriptExchange
	scriptCommit scriptExchange
)

// Done implements redlock.Completer.
func (x *scriptRead) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	return (*scriptExchange)(x).haveRead(result)
}

// Done implements redlock.Completer.
func (x *scriptCommit) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	return (*scriptExchange)(x).committed(result)
}

const (
	// scriptRounds is how often a script is tried if others change its keys meanwhile; then the call
	// fails. Eight is far more than honest contention needs: of several callers that change the same
	// keys, one always succeeds.
	scriptRounds = 8
	// scriptPause is the longest pause before such a try, times its number.
	scriptPause = 2 * time.Millisecond

	// callTime bounds all runs of one call together, on top of the limits of each.
	callTime = 100 * time.Millisecond
	// assumedInstructions bounds a run on an assumption: a lock script takes some hundred. No further
	// assumption is tried behind a run that meets it.
	assumedInstructions = 20_000
)

// begin runs the script for the first time, on the reader goroutine.
func (x *scriptExchange) begin(s *session, c *call) {
	if x.orderBehind(s, c) {
		c.takeSlot(&x.slot)
		x.track(x.keys)
		flush(x.runAssumed())
	}
}

// orderBehind waits for scripts of the same client that have one of these keys and are not answered yet. They
// may take several rounds, and what the client sent behind them must not overtake them. Scripts on other keys
// are not waited for, as many callers share one connection. From the moment this call takes its slot, later
// ones wait for it.
//
// It returns false if the client has gone meanwhile. The call is answered then, and must not be executed:
// nobody would know what it did.
func (x *scriptExchange) orderBehind(s *session, c *call) (alive bool) {
	x.keys = x.declared
	if len(x.declared) > 1 {
		x.keys = distinct(x.declared)
	}
	x.scripted = x.keys
	return s.awaitScripts(c, x.keys)
}

// awaitScripts is orderBehind for any command with keys. The caller must take a slot next, unless the result is
// false: what is written to it now stands behind the replies that were waited for.
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
			s.conn.sendAndAwait(free) // fails if the connection is closed
			c.out = s.conn.batch.b
		}
	}
	// It may have closed since executeUnread looked, and its scripts have ended with it: then there was nothing
	// to wait for.
	if s.conn.closed.Load() {
		flush(c.newSlot().fail(errGone))
		return false
	}
	return true
}

// beginScriptLocked has commands with these keys wait from now on.
func (s *session) beginScriptLocked(keys []string) {
	if s.scripted == nil {
		s.scripted = make(map[string]struct{})
	}
	for _, key := range keys {
		s.scripted[key] = struct{}{}
	}
	s.scripts.Add(1)
}

// endScriptLocked ends what beginScriptLocked has begun. The caller wakes those that wait.
func (s *session) endScriptLocked(keys []string) {
	for _, key := range keys {
		delete(s.scripted, key)
	}
	s.scripts.Add(-1)
}

// run runs the script on the states, for at most so many instructions; 0 means the usual limit. Nothing outside
// of x.outcome has happened when it returns.
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
	x.s.server.shares.acquireRun(x.account, x.s.conn.id)
	defer x.s.server.shares.releaseRun()
	if x.s.conn.closed.Load() { // while it waited: nobody reads the reply
		x.outcome = outcome{refused: errGone}
		return
	}
	now := time.Now()
	caller := &scriptCaller{space: keyspace.New(x.keys, x.states, now), now: now, user: x.account.user()}
	caller.space.KeysMax = scriptKeysMax
	caller.space.DefaultTTL, caller.space.Random = x.defaultTTL(x.keys), cryptorand.Read
	x.outcome = runScript(script, x.declared, caller, x.argv, limits)
	x.spent += x.outcome.spent
}

// stopped reports whether the last run met a limit. Another run would most likely cost as much again,
// and end the same way.
func (x *scriptExchange) stopped() bool {
	_, limited := errors.AsType[*sandbox.LimitError](x.outcome.refused)
	return limited
}

// committable reports whether what the script did on an assumption can be committed. The commit then proves the
// assumption, as its guards are all that the script has read. A TTL is no guard, so that a reply which depends
// on one must be made of what was read.
func (x *scriptExchange) committable() bool {
	o := &x.outcome
	return o.refused == nil && len(o.Missing) == 0 && o.Writes && !o.ReadTTL && !o.Blind && len(o.Unguarded) == 0 && o.Endless == nil
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

// read asks a quorum what the keys hold, those that the last run has missed among them, and goes on in
// haveRead. It returns no Flusher: nothing is to be sent yet.
func (x *scriptExchange) read() redlock.Flusher {
	x.keys = append(slices.Clip(x.keys), x.outcome.Missing...)
	if x.reads != nil {
		x.track(x.outcome.Missing)
	}
	x.outcome.Missing = nil
	x.startRead(&x.op, x.keys, (*scriptRead)(x))
	return nil
}

// haveRead goes on with what a quorum holds. Called on a goroutine of the engine. A key that was made by
// another client on the masters themselves, and is no string, ends the call.
func (x *scriptExchange) haveRead(result redlock.Result) redlock.Flusher {
	if result.Err != nil {
		return x.fail(result.Err)
	}
	for i := range result.States {
		if st := &result.States[i]; st.Found && st.Type != "string" {
			return x.fail(replyError(keyspace.ErrForeign))
		}
	}
	if key, split := splitKey(x.keys, result.States); split {
		if x.splits++; x.splits == splitReads {
			return x.fail(splitError(key))
		}
		time.AfterFunc(splitPause(int(x.splits)), func() { x.read() })
		return nil
	}
	x.s.server.live().withoutDelays(x.keys, result.States)
	x.states, x.fromQuorum = result.States, true
	return x.continueOnGoroutine(x.runOnQuorum)
}

// continueOnGoroutine continues with step on a goroutine of its own. The engine's goroutines must not
// run scripts: all its lanes would wait.
func (x *scriptExchange) continueOnGoroutine(step func() redlock.Flusher) redlock.Flusher {
	s := x.s
	started := x.s.server.begin(func() { // Close waits for it
		defer func() {
			if p := recover(); p != nil {
				x.s.server.log.Error("panic in a script", "client", s.conn.id, "panic", p, "stack", string(debug.Stack()),
					"to_do", "report this line to the developers of redlockd; other clients are not affected")
				s.conn.close("panic in a script") // whether the reply was given is not known
				if x.turn != "" {
					s.server.keyTurns.pass(x.turn) // the slot may never be complete
				}
			}
		}()
		flush(step())
	})
	if !started {
		return x.fail(errorf("ERR the server is closed"))
	}
	return nil
}

// runOnQuorum runs the script on what a quorum holds, and commits what it changes. Without changes its
// reply is the reply, if the reading has confirmed all that it was made of.
func (x *scriptExchange) runOnQuorum() redlock.Flusher {
	x.run(0)
	o := &x.outcome
	wait := endingWait(&o.Outcome, x.states, x.waitedForEnd)
	switch {
	case o.refused != nil:
		return x.fail(refusalReply(o.refused))
	case len(o.Missing) > 0: // scriptKeysMax bounds how often this can be
		return x.read()
	case wait > 0:
		x.waitedForEnd += wait
		time.AfterFunc(wait, func() { x.read() })
		return nil
	case !o.Writes && !x.waited && x.seesItself():
		// Waiting once is enough: no undo is still to come then, and what is there stays.
		x.waited = true
		time.AfterFunc(2*x.s.server.opts.Engine.Options().MasterTimeout, func() { x.read() })
		return nil
	case !o.Writes && x.sure():
		if refusal := x.payMessages(); refusal != nil {
			return x.fail(refusal)
		}
		return x.answer()
	case o.Writes && x.tries > 0 && x.contested():
		// To commit again would fail again as long as the values of others are there.
		return x.answer()
	}
	if refusal := x.refuseWrites(); refusal != nil {
		return x.fail(refusal)
	}
	return x.commit() // without writes it compares only, and so makes sure
}

// seesItself reports whether the reply depends on a value that this call's own failed commit has set on
// single masters. The engine is undoing that commit. Until it has, the value, beside remains of an
// earlier lock of the same token, can look like a quorum. So the caller waits for two master timeouts
// and reads again: by then every undo has been sent, and the reading comes behind it on every master.
//
// To find out whether the reply depends on the value, the script is run once more with a foreign value
// in its place.
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
				itself, x.states[i].Value = true, foreignValue
			}
		}
	}
	if !itself {
		return false
	}
	x.run(0)
	same := x.outcome.refused == nil && !x.outcome.Writes && len(x.outcome.Missing) == 0 &&
		bytes.Equal(x.outcome.reply.AppendTo(nil, 3), outcome.reply.AppendTo(nil, 3))
	x.states, x.outcome = states, outcome
	return !same
}

// sure reports whether a quorum has confirmed all that the reply was made of. Otherwise a commit
// without changes must do so.
func (x *scriptExchange) sure() bool {
	for i := range x.outcome.Changes {
		if st := x.state(x.outcome.Changes[i].Resource); st.Found && !st.Sure {
			return false
		}
	}
	return true
}

// contested is for a script whose commit failed although a quorum holds nothing. Values of minorities are in
// the way then: of others that try at the same time, or remains. (Of hashes and sets see splitKey.) If the script answers without a change when it
// finds somebody's value, that answer becomes the outcome, and contested returns true.
//
// Invariant: it is never an answer that says "held". No quorum holds anything, so the script is shown a value
// that nobody has, and an answer that it also gives when it has locked is not taken. What a minority does hold
// is shown only to a script that is after the value and has not brought it along.
func (x *scriptExchange) contested() bool {
	states, locked := x.states, x.outcome
	inTheWay := func(value func(*redlock.State) string) (reply []byte, ok bool) {
		x.states = slices.Clone(states)
		for i := range x.states {
			st := &x.states[i]
			if _, isText := keyspace.Text(st.Hint); isText && !st.Found && st.Hint != "" {
				st.Found, st.Type, st.Value, st.TTL = true, "string", value(st), time.Second
				ok = true
			}
		}
		if !ok {
			return nil, false
		}
		x.run(0)
		o := &x.outcome
		if o.refused != nil || o.Writes || o.ReadTTL || len(o.Missing) > 0 {
			return nil, false
		}
		reply = o.reply.AppendTo(nil, x.proto)
		return reply, !bytes.Equal(reply, locked.reply.AppendTo(nil, x.proto))
	}
	// A value of a minority that is among the arguments may be the caller's own, left by an earlier call.
	brought := false
	reply, ok := inTheWay(func(st *redlock.State) string {
		brought = brought || slices.Contains(x.argv, st.Hint)
		return foreignValue
	})
	if ok && bytes.Contains(reply, []byte(foreignValue)) {
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

// foreignValue is a value that no key has, and no caller can know.
var foreignValue = "somebody-" + cryptorand.Text()

// refusalReply is the error reply for a run that was refused or stopped.
func refusalReply(err error) error {
	if limit, ok := errors.AsType[*sandbox.LimitError](err); ok {
		return errorf("ERR the script was stopped: %v", limit)
	}
	refusal, ok := errors.AsType[*scriptRefusal](err)
	if !ok {
		return err
	}
	switch inner := refusal.error.(type) {
	case *refusedError, replyError: // the latter: what the user may not touch
		return inner
	}
	return &refusedError{reply: replyError(refusal.Error())}
}

// refuseWrites is why the changes may not be made, or "". A lock needs a TTL, or it would stay when its holder
// dies. And a script that changes a key without comparing what it holds releases or extends another's lock,
// which only the settings can allow.
func (x *scriptExchange) refuseWrites() error {
	if x.outcome.Endless != nil {
		return noTTL(x.outcome.Endless)
	}
	return x.s.refuseChanges("script", &x.outcome.Outcome)
}

// commit makes the changes, guarded by what the script was run on, and goes on in committed. Messages are paid
// for before anything has happened, so that a refusal means that nothing was changed.
func (x *scriptExchange) commit() redlock.Flusher {
	changes := x.outcome.Changes
	if x.outcome.Collections && x.outcome.Writes && !x.s.server.keyTurns.take(&x.slot, x.keys[0], func() { x.read() }) {
		return nil
	}
	if refusal := x.payMessages(); refusal != nil {
		return x.fail(refusal)
	}
	if err := x.s.mayChange(changes); err != nil {
		return x.fail(err)
	}
	x.changed, x.waited = nil, false
	if slices.ContainsFunc(changes, func(ch redlock.Change) bool { return ch.Do == redlock.Set }) {
		x.changed = changes
	}
	x.startCommit(&x.op, changes, (*scriptCommit)(x))
	return nil
}

// payMessages has the user's share pay for what the script publishes, or returns the refusal. A later round of
// the same call pays only for what is more.
func (x *scriptExchange) payMessages() (refusal error) {
	n := 0
	for _, m := range x.outcome.published {
		n += m.size()
	}
	if n <= x.chargedBytes {
		return nil
	}
	if refusal = x.s.server.shares.chargeMessages(x.account, n-x.chargedBytes, time.Now()); refusal == nil {
		x.chargedBytes = n
	}
	return refusal
}

// committed ends the call if the guards held. Otherwise it reads the keys and tries again, at random moments
// from the third time on, so that callers who are in each other's way do not stay so.
func (x *scriptExchange) committed(result redlock.Result) redlock.Flusher {
	switch {
	case result.Err != nil:
		return x.fail(result.Err)
	case result.Held:
		x.tellChanges(x.outcome.Changes)
		x.rememberAssumption()
		return x.answer()
	}
	x.assumption = assumesNothing
	if x.tries++; int(x.tries) >= x.roundsMax(scriptRounds) {
		return x.fail(errorf("ERR the keys of the script changed %d times between the reading and the change: try again", x.tries))
	}
	if x.tries <= 2 {
		return x.read()
	}
	time.AfterFunc(rand.N(time.Duration(x.tries)*scriptPause), func() { x.read() })
	return nil
}

// answer sends what the script has published, and then gives the reply that it has computed. From here on the
// call cannot fail.
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

// scriptPublication sends the messages of a script. The script is answered behind the last of them, so that a
// client that publishes by script is slowed down like one that sends PUBLISH.
type scriptPublication struct {
	x    *scriptExchange
	ops  []redlock.Op
	left atomic.Int32
}

// Done implements redlock.Completer. The script has changed its keys already, so a message that finds no room
// is lost, as it may be in Redis. The run has refused those that are too long.
func (p *scriptPublication) Done(*redlock.Op, redlock.Result) redlock.Flusher {
	p.x.s.afterPublish(p.x.account)
	if p.left.Add(-1) > 0 {
		return nil
	}
	return p.x.reply()
}

// reply gives the reply that the script has computed, in the protocol of the client. The script was of use, so
// it is stored on the masters if that is due.
func (x *scriptExchange) reply() redlock.Flusher {
	x.s.server.share(x.script, x.account, x.s.conn.lastUsed.Load())
	x.out = x.outcome.reply.AppendTo(x.out, x.proto)
	x.saw(x.keys, x.states, x.outcome.Changes)
	return x.complete()
}
