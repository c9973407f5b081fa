package proxy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/sandbox"
)

// A script is a function from what its keys hold to what they are to hold and a reply. It is run in a box (redlock/sandbox, on the
// state of script_state.go) on what its keys are guessed to hold; its writes are committed, guarded by what it has read.
//
//	guess ─ run ─┬─ writes ── commit ─┬─ done ──> the reply that the script has computed
//	             │                    └─ a guard fails ─┐
//	             └─ none: nothing would check the guess ┴─ read a quorum ─ run ─┬─ no writes ──> its reply
//	                                                          ^                └─ commit ─┬─ done ──> its reply
//	                                                          └────────────────────────────┘ scriptRounds times
//
// A guess that is right costs one round, like a native LOCK or UNLOCK.
type scriptExchange struct {
	slot
	server   *Server
	script   *knownScript
	readOnly bool
	declared []string // KEYS, as the script gets them: one may stand there twice
	argv     []string
	keys     []string // declared, each once

	guess   int32           // which of guesses is being tried, or noGuess
	states  []redlock.State // of keys, that the script was run on
	outcome outcome
	tries   int
	session *session // whose order it is part of, see orderBehind

	oneKey  [1]string
	fewArgs [4]string
}

// guesses are numbered: 1 all keys are absent; 2+i they hold argument i; looking: no guess has been right.
const (
	noGuess     int32 = 0
	guessAbsent int32 = 1
	guessHeld   int32 = 2
	looking     int32 = -1

	// guessedArgs is how many arguments are guessed to be the token.
	guessedArgs = 4
	// scriptRounds is how often a script is tried when others change its keys meanwhile.
	scriptRounds = 8
	// scriptPause is the longest pause before such a try, times its number.
	scriptPause = 2 * time.Millisecond
)

// begin runs the script for the first time, on the session's goroutine.
func (x *scriptExchange) begin(s *session, c *call) {
	x.orderBehind(s, c)
	c.takePlace(&x.slot)
	if f := x.first(); f != nil {
		f.Flush()
	}
}

// orderBehind waits until scripts of the same client that are on their way with one of the same keys are done: they may take several
// rounds, and what follows must not overtake them. Others are not waited for: many callers share one connection.
func (x *scriptExchange) orderBehind(s *session, c *call) {
	x.keys = x.declared
	if len(x.declared) > 1 {
		x.keys = distinct(x.declared)
	}
	s.awaitScripts(c, x.keys)
	s.mu.Lock()
	defer s.mu.Unlock()
	x.session = s
	if s.scripted == nil {
		s.scripted = make(map[string]int)
	}
	for _, key := range x.keys {
		s.scripted[key]++
	}
}

// awaitScripts is orderBehind for the command c of the session, before it takes its place.
func (s *session) awaitScripts(c *call, keys []string) {
	s.mu.Lock()
	under := false
	for _, key := range keys {
		under = under || s.scripted[key] > 0
	}
	s.mu.Unlock()
	if !under {
		return
	}
	s.batch.b = c.out
	s.awaitOthers(func() bool {
		for _, key := range keys {
			if s.scripted[key] > 0 {
				return false
			}
		}
		return true
	})
	c.out = s.batch.b
}

// over ends the order that orderBehind has begun.
func (x *scriptExchange) over() {
	s := x.session
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range x.keys {
		if s.scripted[key]--; s.scripted[key] == 0 {
			delete(s.scripted, key)
		}
	}
	s.changed.Signal()
}

// first guesses. Without a right guess it looks.
func (x *scriptExchange) first() redlock.Flusher {
	if len(x.keys) == 0 {
		return x.settled()
	}
	known := x.server.opts.Engine.Known(x.keys)
	for i := range known {
		if known[i].Found {
			// A lease of this redlockd is most likely what the masters hold. Who is not its owner changes nothing, which wants a look.
			x.guess, x.states = noGuess, known
			if x.run(); x.outcome.refused == nil && x.committable() {
				return x.commit()
			}
			return x.look()
		}
	}
	habit := x.script.habit.Load()
	if habit == looking {
		return x.look()
	}
	if habit != noGuess && x.try(habit) {
		return x.commit()
	}
	for guess := guessAbsent; guess < guessHeld+int32(min(len(x.argv), guessedArgs)); guess++ {
		if guess != habit && x.try(guess) {
			return x.commit()
		}
	}
	return x.look()
}

// try runs the script on a guess, and tells whether its outcome can be committed.
func (x *scriptExchange) try(guess int32) bool {
	switch {
	case guess == guessAbsent:
		x.states = absent(len(x.keys))
	case int(guess-guessHeld) < len(x.argv):
		token := x.argv[guess-guessHeld]
		x.states = make([]redlock.State, len(x.keys))
		for i := range x.states {
			x.states[i] = redlock.State{Found: true, Type: "string", Value: token, TTL: time.Second}
		}
	default:
		return false
	}
	x.guess = guess
	x.run()
	return x.outcome.refused == nil && x.committable()
}

// run runs the script on the states.
func (x *scriptExchange) run() {
	held := make([]scriptKey, len(x.declared))
	for i, name := range x.declared {
		held[i].name = name
		for j, key := range x.keys {
			if st := &x.states[j]; key == name && st.Found {
				held[i].held, held[i].value, held[i].ttl = true, st.Value, max(0, st.TTL.Milliseconds())
			}
		}
	}
	x.outcome = runScript(x.server.boxes, x.script.Script, held, x.argv, time.Now(), sandbox.Limits{})
}

// committable: what the script did on a guess can be committed, and the commit then proves the guess.
func (x *scriptExchange) committable() bool {
	o := &x.outcome
	if len(o.writes) == 0 || o.readTTL || o.blind {
		return false
	}
	for i := range o.writes {
		w := &o.writes[i]
		if w.keepTTL || w.kind == writePersist || !x.compared(w) {
			return false
		}
	}
	return true
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

// compared tells whether the script knew whose the key is that it changed: it read the value, or there was none, or the value stays.
func (x *scriptExchange) compared(w *keyWrite) bool {
	st := x.state(w.key)
	if !st.Found || w.kind == writeSet && w.value == st.Value {
		return true
	}
	for i := range x.outcome.reads {
		if r := &x.outcome.reads[i]; r.key == w.key {
			return r.value
		}
	}
	return false
}

// look reads what a quorum holds.
func (x *scriptExchange) look() redlock.Flusher {
	if x.tries == 0 && x.guess != noGuess {
		x.script.habit.Store(looking)
	}
	x.guess = noGuess
	o := &operation{then: x.looked}
	x.server.opts.Engine.StartRead(&o.Op, x.keys, o)
	return nil
}

func (x *scriptExchange) looked(result redlock.Result) redlock.Flusher {
	if result.Err != nil {
		return x.fail(coded(result.Err))
	}
	for i := range result.States {
		if st := &result.States[i]; st.Found && st.Type != "string" {
			return x.fail("WRONGTYPE Operation against a key holding the wrong kind of value")
		}
	}
	x.states = result.States
	x.elsewhere(x.settled)
	return nil
}

// elsewhere goes on on a goroutine of its own: a script may take a while, and the engine's goroutines must not.
func (x *scriptExchange) elsewhere(step func() redlock.Flusher) {
	x.server.goroutines.Go(func() {
		if f := step(); f != nil {
			f.Flush()
		}
	})
}

// settled runs the script on what a quorum holds.
func (x *scriptExchange) settled() redlock.Flusher {
	x.run()
	if x.outcome.refused == nil && len(x.outcome.writes) > 0 && x.tries > 0 && x.contested() {
		return nil
	}
	o := &x.outcome
	switch {
	case o.refused != nil:
		return x.fail(refusalText(o.refused))
	case len(o.writes) == 0:
		return x.answer()
	}
	if refusal := x.refuseWrites(); refusal != "" {
		return x.fail(refusal)
	}
	return x.commit()
}

// contested is for a script whose commit failed although a quorum holds nothing: a minority holds a value, of somebody who tries at
// the same time or has lost masters. If the script takes no for an answer on that value, that is the answer. It returns false
// when the run that it was called after is to be gone on with.
func (x *scriptExchange) contested() bool {
	hinted := false
	states, outcome := x.states, x.outcome
	x.states = append([]redlock.State(nil), states...)
	for i := range x.states {
		if st := &x.states[i]; !st.Found && st.Hint != "" {
			st.Found, st.Type, st.Value, st.TTL = true, "string", st.Hint, time.Second
			hinted = true
		}
	}
	if hinted {
		x.run()
		if o := &x.outcome; o.refused == nil && len(o.writes) == 0 && !o.readTTL {
			if f := x.answer(); f != nil {
				f.Flush()
			}
			return true
		}
	}
	x.states, x.outcome = states, outcome
	return false
}

func refusalText(err error) string {
	var limit *sandbox.LimitError
	if errors.As(err, &limit) {
		return "ERR the script was stopped: " + limit.Error()
	}
	return err.Error()
}

// refuseWrites is the policy for changes of what another may hold, and for locks without a TTL.
func (x *scriptExchange) refuseWrites() string {
	for i := range x.outcome.writes {
		w := &x.outcome.writes[i]
		switch {
		case x.readOnly:
			return "ERR Write commands are not allowed from read-only scripts."
		case w.kind == writePersist:
			return fmt.Sprintf("ERR the script takes the TTL of key %.200q away: a lock here must have one, so that it ends when its holder does", w.key)
		case w.kind == writeSet && w.ttl == 0 && !w.keepTTL && x.server.opts.DefaultTTL == 0:
			return errNoTTL
		case !x.compared(w) && !x.server.opts.AllowUnguarded:
			return fmt.Sprintf("ERR the script changes key %.200q without comparing what it holds, and so could change another's lock: "+
				"compare the token, or set allow_unguarded in [compat]", w.key)
		}
	}
	return ""
}

// commit makes the writes, guarded by what the script was run on.
func (x *scriptExchange) commit() redlock.Flusher {
	if x.readOnly {
		return x.fail("ERR Write commands are not allowed from read-only scripts.")
	}
	changes, refusal := x.changes()
	if refusal != "" {
		return x.fail(refusal)
	}
	o := &operation{then: x.committed}
	x.server.opts.Engine.StartCommit(&o.Op, changes, o)
	return nil
}

// changes are the writes of the outcome, each guarded, and guards of keys that were only read.
func (x *scriptExchange) changes() ([]redlock.Change, string) {
	changes := make([]redlock.Change, 0, len(x.keys))
	for i, key := range x.keys {
		st := &x.states[i]
		ch := redlock.Change{Resource: key, Was: redlock.WasAbsent}
		if st.Found {
			ch.Was, ch.Value = redlock.WasValue, st.Value
		}
		touched := false
		for _, r := range x.outcome.reads {
			touched = touched || r.key == key
		}
		for _, w := range x.outcome.writes {
			if w.key != key {
				continue
			}
			touched = true
			ch.TTL = time.Duration(w.ttl) * time.Millisecond
			switch w.kind {
			case writeDelete:
				ch.Do = redlock.Delete
			case writeExpire:
				ch.Do = redlock.Expire
			case writeSet:
				ch.Do, ch.NewValue = redlock.Set, w.value
				if w.keepTTL && st.Found {
					ch.TTL = st.TTL
				}
				if ch.TTL <= 0 {
					ch.TTL = x.server.opts.DefaultTTL
				}
				if ch.TTL <= 0 {
					return nil, errNoTTL
				}
			}
		}
		if touched {
			changes = append(changes, ch)
		}
	}
	return changes, ""
}

func (x *scriptExchange) committed(result redlock.Result) redlock.Flusher {
	switch {
	case result.Err != nil:
		return x.fail(coded(result.Err))
	case result.Held:
		if x.guess != noGuess {
			x.script.habit.Store(x.guess)
		}
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

// answer gives the reply that the script has computed, and sends what it has published.
func (x *scriptExchange) answer() redlock.Flusher {
	for _, m := range x.outcome.published {
		x.server.opts.Engine.Publish(m.channel, m.payload) // too long a one was refused by the run
	}
	x.server.share(x.script)
	x.out = x.outcome.reply.AppendTo(x.out, x.proto)
	x.over()
	return x.complete()
}

func (x *scriptExchange) fail(text string) redlock.Flusher {
	x.out = appendError(x.out, text)
	x.over()
	return x.complete()
}
