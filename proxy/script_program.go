package proxy

import (
	"bytes"
	"cmp"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"redlockd/proxy/keyspace"
	"redlockd/redlock"
	"redlockd/redlock/sandbox"
)

// scriptProgram is a call of a script in progress. It runs in a sandbox (redlock/sandbox), on a
// keyspace.Space.
type scriptProgram struct {
	exchange
	// declared is KEYS as the script gets them: a key may stand there twice.
	declared []string
	argv     []string
	// sha is the name of a script that is not known here.
	sha string

	// changed is what the last commit was to change.
	changed []redlock.Change
	// spent is the time that the runs have taken, of callTime.
	spent time.Duration
	// assumption is the one that states come from, or assumesNothing.
	assumption int32
	// readOnly refuses writes: EVAL_RO.
	readOnly bool

	// Room for a script with one key, so that it costs few allocations.
	oneState [1]redlock.State
	fewArgs  [2]string
}

const (
	// callTime bounds all runs of one call together, on top of the limits of each.
	callTime = 100 * time.Millisecond
	// assumedInstructions bounds a run on an assumption: a lock script takes some hundred. No further
	// assumption is tried behind a run that meets it.
	assumedInstructions = 20_000
)

// run implements program.
func (x *scriptProgram) run() { x.runFor(0) }

// runFor runs the script on the states, for at most so many instructions; 0 means the usual limit.
// Nothing outside of x.outcome has happened when it returns.
func (x *scriptProgram) runFor(instructions int) {
	isForeign := func(st redlock.State) bool { return st.Found && st.Type != "string" } // made on the masters by another client
	if slices.ContainsFunc(x.states, isForeign) {
		x.outcome = outcome{refused: replyError(keyspace.ErrForeign)}
		return
	}
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
	caller := &scriptCaller{space: x.space(now), table: x.s.server.table, now: now, user: x.account.user(), source: x.script.source}
	caller.space.KeysMax = scriptKeysMax
	x.outcome = runScript(script, x.declared, caller, x.argv, limits)
	x.spent += x.outcome.spent
}

// stopped reports whether the last run met a limit. Another run would most likely cost as much again,
// and end the same way.
func (x *scriptProgram) stopped() bool {
	_, limited := errors.AsType[*sandbox.LimitError](x.outcome.refused)
	return limited
}

// committable reports whether what the script did on an assumption can be committed. The commit then
// proves the assumption, as its guards are all that the script has read. A TTL is no guard, so that a
// reply which depends on one must be made of what was read.
func (x *scriptProgram) committable() bool {
	o := &x.outcome
	return o.refused == nil && len(o.Missing) == 0 && o.Writes && !o.ReadTTL && !o.Blind && len(o.Unguarded) == 0 && o.Endless == nil
}

// committed implements program.
func (x *scriptProgram) committed(held bool) bool {
	if held {
		x.rememberAssumption()
	}
	x.assumption, x.changed = assumesNothing, x.outcome.Changes
	return held
}

// recheck implements program. To commit again would fail again as long as the values of others are
// there.
func (x *scriptProgram) recheck() (wait, end bool) {
	if x.outcome.Writes {
		return false, x.contested()
	}
	return !x.waited && x.seesItself(), false
}

// seesItself reports whether the reply depends on a value that this call's own failed commit has set on
// single masters. The engine is undoing that commit. Until it has, the value, beside remains of an
// earlier lock of the same token, can look like a quorum. So the caller waits for two master timeouts
// and reads again: by then every undo has been sent, and the reading comes behind it on every master.
//
// To find out whether the reply depends on the value, the script is run once more with a foreign value
// in its place.
func (x *scriptProgram) seesItself() bool {
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
	x.run()
	same := x.outcome.refused == nil && !x.outcome.Writes && len(x.outcome.Missing) == 0 &&
		bytes.Equal(x.outcome.reply.AppendTo(nil, 3), outcome.reply.AppendTo(nil, 3))
	x.states, x.outcome = states, outcome
	return !same
}

// contested is for a script whose commit failed although a quorum holds nothing. Values of minorities
// are in the way then: of others that try at the same time, or remains. (Of hashes and sets see
// splitKey.) If the script answers without a change when it finds somebody's value, that answer becomes
// the outcome, and contested returns true.
//
// Invariant: it is never an answer that says "held". No quorum holds anything, so the script is shown a
// value that nobody has, and an answer that it also gives when it has locked is not taken. What a
// minority does hold is shown only to a script that is after the value and has not brought it along.
//
// A latch is in nobody's way: it is the answer to this very call, which an earlier try of it may have
// left on single masters, or the commit that has failed.
func (x *scriptProgram) contested() bool {
	states, locked := x.states, x.outcome
	inTheWay := func(value func(*redlock.State) string) (reply []byte, ok bool) {
		x.states = slices.Clone(states)
		for i := range x.states {
			st := &x.states[i]
			if !st.Found && st.Hint != "" && !keyspace.IsEnvelope(st.Hint) && !isLatch(x.keys[i]) {
				st.Found, st.Type, st.Value, st.TTL = true, "string", value(st), time.Second
				ok = true
			}
		}
		if !ok {
			return nil, false
		}
		x.run()
		o := &x.outcome
		if o.refused != nil || o.Writes || o.ReadTTL || len(o.Missing) > 0 {
			return nil, false
		}
		reply = o.reply.AppendTo(nil, x.proto)
		return reply, !bytes.Equal(reply, locked.reply.AppendTo(nil, x.proto))
	}
	// A value of a minority that is among the arguments may be the caller's own, left by an earlier
	// call.
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

// refusalReply is the error reply for a run that was refused or stopped. source is the script's, if it is
// one: a script of a queue is told so, whatever it met first.
func refusalReply(err error, source string) error {
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
	if scriptAsks(source) {
		return refusedf(reasonQueue, "%s: %s", refusal, reasonQueue.asks())
	}
	return refusalOfData(refusal.error)
}

// refusalOfData is the refusal of a run that makes a value too large, or uses what is not here.
func refusalOfData(err error) error {
	large, ok := errors.AsType[*keyspace.TooLargeError](err)
	switch {
	case !ok:
		return refusedf(reasonScript, "%s", err)
	case large.String:
		return refusedf(reasonCache, "%s: %s", err, reasonCache.asks())
	}
	return refusedf(reasonData, "%s: remove what is not needed any more, or use several keys; if it is no lock, %s", err, onlyLocks)
}
