package proxy

import (
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"redlockd/proxy/access"
	"redlockd/proxy/keyspace"
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// exchange executes a program on keys: a command (dropin.go), a transaction (cmd_transaction.go) or a
// script (script_program.go). A program is a function from what its keys hold to what they are to hold
// and a reply. It runs on what a quorum holds or, where its arguments say what the client expects, on
// that. What it has changed is committed, guarded by what it has read.
//
//	assume ─ run ─┬─ changes ── commit ─┬─ done ──> the reply that the program has computed
//	              │                     └─ a guard fails ────┐
//	              └─ none: nothing would check the assumption ┴─ read a quorum ─ run ─┬─ no changes ──> its reply
//	                                                                    ^             └─ commit ─┬─ done ──> its reply
//	                                                                    └────────────────────────┘ exchangeRounds times
//
//	SET k v NX PX 1000        assumed: absent         one round
//	DELEX k IFEQ v            assumed: k holds v      one round
//	GET k                     read                    one round
//	DEL k  (allow_unguarded)  read, guarded commit    two rounds
//	WATCH k … MULTI … EXEC    read at WATCH, commit   one round, two if k is held, and one
//	EVAL, EVALSHA             several assumptions     one round or two, see script_assume.go
//
// A key that a script names and has not declared (Redisson makes such names) is taken to be absent, so
// that the run finds them all. Then the keys are read, with these, and the script is run again. Such a
// key is not ordered against what the same client has sent before for that key and is not answered yet.
//
// Invariant: all that a reply was made of was confirmed by a quorum: by the commit, whose guards are
// all that the run has read, or, where there was nothing to commit, by the reading. What only a
// minority holds is no reason to say that anything is held.
//
// One goroutine at a time works on an exchange, so its fields need no mutex: first the reader of the
// connection (begin), then the engine's that completes an operation (haveRead, haveCommitted), then,
// for a script, one of its own for the next run (onGoroutine). Each hands over as its last step.
//
// Rejected: to run scripts on the masters, as EVAL there. A script that ran on a minority alone, or on
// masters that hold different things, could not be taken back.
type exchange struct {
	slot
	program program
	// script is the one that the program runs; nil: it is none.
	script *knownScript
	// keys has each key once: those of the program, and behind these the ones that runs have found
	// missing.
	keys []string

	// states is what the program was run on, for each of keys.
	states []redlock.State
	// fromQuorum is true once states are what a quorum holds.
	fromQuorum bool
	// outcome is that of the last run. Its reply is given if the commit succeeds.
	outcome outcome
	// tries counts the commits that found the keys changed.
	tries int
	// splits counts the readings that found masters with different hashes or sets.
	splits int
	// waited is true once the exchange has waited for the undoing of its own failed commit.
	waited bool
	// waitedForEnd is for how long the exchange has waited for the end of a key, see endingWait.
	waitedForEnd time.Duration
	// quorumBy is until when the exchange waits for a quorum, see waitsForQuorum. Zero: it has found one each time.
	quorumBy time.Time
	// chargedBytes is how many bytes of messages the user's share was charged for.
	chargedBytes int

	// op is the present operation: there is one at a time.
	op redlock.Op
	// committing: it is a commit, and no reading.
	committing bool
	// oneKey has room for keys if there is one.
	oneKey [1]string
}

// program is what an exchange executes. Its methods may read and write the exchange, of which they are
// a part.
type program interface {
	starter
	// assume sets states to what the client expects, runs on that, and returns true if the outcome is
	// to be committed; false if the keys must be read.
	assume() bool
	// run executes the program on states. The result is in outcome, and nothing else has happened.
	run()
	// recheck is called behind a run after a commit of this exchange has failed. What the commit has
	// set on single masters may not be undone yet, and may look like the lock of somebody: wait says
	// that the keys are to be read again when it is. end says that outcome is the answer, without another
	// commit.
	recheck() (wait, end bool)
	// committed is called with the result of a commit. It reports whether outcome is the answer then;
	// else the keys are read, and the program is run again.
	committed(held bool) (end bool)
}

// outcome is what a program did to its keys. Nothing of it has happened yet.
type outcome struct {
	keyspace.Outcome
	// reply is what the client gets if the commit finds the keys as the program saw them.
	reply keyspace.Reply
	// published has what is to be published behind the commit.
	published []message

	// spent is how much of its limit of time the run of a script took.
	spent time.Duration

	// refused says why the program must not be executed, or which limit it met. Then nothing else of
	// the outcome counts. Its text is an error reply.
	refused error
}

// Bounds of one exchange.
const (
	// exchangeRounds is how often a program is tried if others change its keys meanwhile; then the
	// exchange fails. Eight is far more than honest contention needs: of several callers that change
	// the same keys, one always succeeds.
	exchangeRounds = 8
	// exchangePause is the longest pause before such a try, times its number.
	exchangePause = 2 * time.Millisecond
	// splitReads is how often the keys are read when masters hold different hashes or sets.
	splitReads = 12
	// splitPause is the longest pause before a reading of the second half of them.
	splitPause = 100 * time.Millisecond
	// quorumWaitMax bounds how long a script waits for a quorum, and quorumPause is the time between two
	// readings then. Clients wait for a second and more.
	quorumWaitMax = 500 * time.Millisecond
	quorumPause   = 20 * time.Millisecond
	// endingWaitMax bounds how long one exchange waits for the end of a key.
	endingWaitMax = 100 * time.Millisecond
)

// Done implements redlock.Completer, for a reading and for a commit.
func (x *exchange) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	if x.committing {
		return x.haveCommitted(result)
	}
	return x.haveRead(result)
}

// enter takes the turn of the exchange among the commands of its client. tracks: a client that tracks
// keeps what the reply says of the keys.
func (x *exchange) enter(c *call, t turn, tracks bool) {
	t.keys = x.keys
	if x.s = c.s; tracks {
		x.track(x.keys)
	}
	c.takeTurnBlocking(&x.slot, t, t.rounds && x.script == nil, x.program)
}

// start implements starter.
func (x *exchange) start(bool) { flush(x.begin()) }

// begin runs the program for the first time.
func (x *exchange) begin() redlock.Flusher {
	switch {
	case len(x.keys) == 0: // there is nothing to assume
		return x.runOnQuorum()
	case x.program.assume():
		return x.decide()
	}
	return x.readAfter(0)
}

// read asks a quorum what the keys hold, those that the last run has missed among them, and goes on in
// haveRead.
func (x *exchange) read() {
	x.keys = append(slices.Clip(x.keys), x.outcome.Missing...)
	if x.reads != nil {
		x.track(x.outcome.Missing)
	}
	x.outcome.Missing = nil
	x.committing = false
	x.startRead(&x.op, x.keys, x)
}

// readAfter is read after a pause. Nothing is to be sent yet.
func (x *exchange) readAfter(pause time.Duration) redlock.Flusher {
	if pause > 0 {
		time.AfterFunc(pause, x.read)
	} else {
		x.read()
	}
	return nil
}

// haveRead goes on with what a quorum holds. Called on a goroutine of the engine.
func (x *exchange) haveRead(result redlock.Result) redlock.Flusher {
	if result.Err != nil {
		if x.waitsForQuorum(result.Err) {
			return x.readAfter(quorumPause)
		}
		return x.fail(x.unchanged(result.Err))
	}
	if key, split := splitKey(x.keys, result.States); split {
		if x.splits++; x.splits == splitReads {
			return x.fail(x.unchanged(errorf("NOQUORUM the masters hold different values of key %.200q, because several clients have changed it at the same time, or one was cut off: "+
				"try again. If nobody changes it, it ends with its TTL", key)))
		}
		// The next reading finds most likely that what has failed was undone: that takes a round.
		// If the redlockd that has changed the key is gone, this one makes up for that (op_undo.go).
		pause := time.Millisecond + mathrand.N(time.Duration(x.splits)*exchangePause)
		if x.splits > splitReads/2 {
			pause += min(x.s.server.opts.Engine.Options().MasterTimeout, splitPause)
		}
		return x.readAfter(pause)
	}
	x.s.server.live().withoutDelays(x.keys, result.States)
	x.states, x.fromQuorum = result.States, true
	if x.script != nil {
		return x.onGoroutine(x.runOnQuorum)
	}
	return x.runOnQuorum()
}

// onGoroutine continues with step on a goroutine of its own. The engine's goroutines must not run
// scripts: all its lanes would wait.
func (x *exchange) onGoroutine(step func() redlock.Flusher) redlock.Flusher {
	s := x.s
	started := s.server.begin(func() { // Close waits for it
		defer func() {
			if p := recover(); p != nil {
				s.server.log.Error("panic in a script", "client", s.conn.id, "panic", p, "stack", string(debug.Stack()),
					"to_do", "report this line to the developers of redlockd; other clients are not affected")
				s.conn.close("panic in a script") // whether the reply was given is not known
				if x.queuedKey != "" {
					s.server.keyQueue.leave(x.queuedKey) // the slot may never be complete
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

// runOnQuorum runs the program on what a quorum holds.
func (x *exchange) runOnQuorum() redlock.Flusher {
	x.program.run()
	return x.decide()
}

// decide commits what the program has changed. Without changes its reply is the reply, if the reading
// has confirmed all that it was made of.
func (x *exchange) decide() redlock.Flusher {
	o := &x.outcome
	wait := endingWait(&o.Outcome, x.states, x.waitedForEnd)
	switch {
	case o.refused != nil:
		return x.end()
	case len(o.Missing) > 0: // scriptKeysMax bounds how often this can be
		return x.readAfter(0)
	case wait > 0:
		x.waitedForEnd += wait
		return x.readAfter(wait)
	}
	var undone, ends bool
	if x.tries > 0 {
		undone, ends = x.program.recheck()
	}
	switch {
	case undone && !x.waited:
		// Waiting once is enough: no undo is still to come then, and what is there stays.
		x.waited = true
		return x.readAfter(2 * x.s.server.opts.Engine.Options().MasterTimeout)
	case ends:
		return x.end()
	case !o.Writes && x.sure() || len(o.Changes) == 0: // the latter: keys of other types, which cannot be compared
		if refusal := x.payMessages(); refusal != nil {
			return x.fail(refusal)
		}
		return x.end()
	}
	if refusal := x.refuseChanges(); refusal != nil {
		return x.fail(refusal)
	}
	if o.Endless != nil {
		return x.fail(noTTL(o.Endless, o.Blind))
	}
	return x.commit() // without writes it compares only, and so makes sure
}

// sure reports whether a quorum has confirmed all that the reply was made of. Otherwise a commit
// without changes must do so.
func (x *exchange) sure() bool {
	for i := range x.outcome.Changes {
		if st := x.state(x.outcome.Changes[i].Resource); st.Found && (!st.Sure || st.Seen != nil) {
			return false
		}
	}
	return x.fromQuorum
}

// state is what a key was taken to hold.
func (x *exchange) state(key string) *redlock.State { return &x.states[slices.Index(x.keys, key)] }

// refuseChanges is why the changes may not be committed, or nil: one of them is of a key without
// comparing what that holds, which could be another's lock.
func (x *exchange) refuseChanges() error {
	for _, u := range x.outcome.Unguarded {
		switch {
		case x.s.server.live().mayChangeUnguarded(u.Key, x.state(u.Key).Value):
		case x.script != nil:
			return refusedf(reasonUnguarded, "ERR the script changes key %.200q without comparing what it holds, and so could change another's lock: "+
				"compare the token, or set allow_unguarded in [compat]", u.Key)
		default:
			return &refusedError{u.Command, reasonUnguarded, replyError(fmt.Sprintf("ERR %s is refused, for it does not compare the token and could change another's lock: %s; or set allow_unguarded in [compat]",
				strings.ToUpper(u.Command), u.Instead))}
		}
	}
	return nil
}

// word is the one for a command or a transaction, or the one for a script.
func (x *exchange) word(command, script string) string {
	if x.script != nil {
		return script
	}
	return command
}

// commit makes the changes, guarded by what the program was run on, and goes on in haveCommitted.
// Messages are paid for before anything has happened, so that a refusal means that nothing was changed.
func (x *exchange) commit() redlock.Flusher {
	o := &x.outcome
	if slices.ContainsFunc(o.Changes, takesLock) && x.postpone(reread{x}) {
		if x.queuedKey != "" { // others go first meanwhile
			x.s.server.keyQueue.leave(x.queuedKey)
			x.queuedKey = ""
		}
		return nil
	}
	if o.Collections && o.Writes && x.queuedKey == "" {
		key := x.keys[0]
		begin := func() {
			x.queuedKey = key
			x.read()
		}
		if !x.s.server.keyQueue.enter(key, begin) {
			return nil
		}
		x.queuedKey = key
	}
	if refusal := x.payMessages(); refusal != nil {
		return x.fail(refusal)
	}
	if err := x.s.mayChange(o.Changes); err != nil {
		return x.fail(err)
	}
	x.waited, x.committing = false, true
	timed := o.Timed
	if x.script != nil {
		timed = nil
	}
	x.startCommit(&x.op, o.Changes, timed, x)
	return nil
}

// roundsMax is how often the program is tried: more often if it is at the front of a queue.
func (x *exchange) roundsMax() int {
	if x.queuedKey != "" {
		return queueRounds
	}
	return exchangeRounds
}

// haveCommitted ends the exchange if the guards held. Otherwise it reads the keys and tries again, at
// random moments from the third time on, so that callers who are in each other's way do not stay so.
func (x *exchange) haveCommitted(result redlock.Result) redlock.Flusher {
	if result.Err != nil {
		return x.fail(x.unchanged(result.Err))
	}
	if result.Held {
		x.notifyChanges(x.outcome.Changes)
	}
	if x.program.committed(result.Held) {
		return x.end()
	}
	if x.tries++; x.tries >= x.roundsMax() {
		return x.fail(errorf("ERR the %s changed %d times between the reading and the change: try again", x.word("key", "keys of the script"), x.tries))
	}
	if x.tries <= 2 {
		return x.readAfter(0)
	}
	return x.readAfter(mathrand.N(time.Duration(x.tries) * exchangePause))
}

// DoneLate implements redlock.LateCompleter: the client was told NOQUORUM, and the release that it asked
// for is made. Those who wait for its messages get them now.
func (x *exchange) DoneLate() {
	x.notifyChanges(x.outcome.Changes)
	for _, m := range x.outcome.published {
		x.s.server.publish(m.channel, m.payload)
	}
}

// waitsForQuorum reports whether a script waits for masters that are away, before it fails. Few libraries
// send a release once more that has failed, so that the lock would stay until its TTL.
func (x *exchange) waitsForQuorum(err error) bool {
	if x.script == nil || !errors.Is(err, redlock.ErrNoQuorum) {
		return false
	}
	now := time.Now()
	if x.quorumBy.IsZero() {
		x.quorumBy = now.Add(quorumWaitMax)
	}
	return now.Before(x.quorumBy) && !x.s.conn.closed.Load()
}

// unchanged is the error of a script that could not be executed, if nothing of it has been done: its
// client may send it once more, and some do so by themselves.
func (x *exchange) unchanged(err error) error {
	few, ok := errors.AsType[*redlock.NoQuorumError](err)
	_, tooLong := errors.AsType[*redlock.CeilingError](err)
	if x.script == nil || x.tries > 0 || x.committing && !(ok && few.Unchanged || tooLong) {
		return err
	}
	if ok || tooLong || strings.HasPrefix(err.Error(), "NOQUORUM ") {
		return errorf("TRYAGAIN nothing was changed: %s", strings.TrimPrefix(err.Error(), "NOQUORUM "))
	}
	return err
}

// end refuses the program, or sends what it has published and then gives the reply that it has
// computed.
func (x *exchange) end() redlock.Flusher {
	published := x.outcome.published
	switch err := x.outcome.refused; {
	case err == errWatchFailed:
		x.out = resp.AppendNullArray(x.out, x.proto)
		return x.complete()
	case err != nil:
		source := ""
		if x.script != nil {
			source = x.script.source
		}
		return x.fail(refusalReply(err, source))
	case len(published) == 0:
		return x.reply()
	}
	p := &scriptPublication{x: x, ops: make([]redlock.Op, len(published))}
	p.left.Store(int32(len(published)))
	for i, m := range published {
		x.startPublish(&p.ops[i], m.channel, m.payload, p) // the last one may complete x
	}
	return nil
}

// reply gives the reply that the program has computed, in the protocol of the client. A script was of
// use, so it is stored on the masters if that is due.
func (x *exchange) reply() redlock.Flusher {
	if x.script != nil {
		x.s.server.share(x.script, x.account, x.s.conn.lastUsed.Load())
	}
	x.out = x.outcome.reply.AppendTo(x.out, x.proto)
	x.saw(x.keys, x.states, x.outcome.Changes)
	return x.complete()
}

// space is what the next run is to see of the keys.
func (x *exchange) space(now time.Time) *keyspace.Space {
	space := keyspace.New(x.keys, x.states, now)
	space.DefaultTTL, space.Random, space.KeepEnded = x.defaultTTL(x.keys), rand.Read, x.script == nil
	if !access.SeesTokens(x.account.user()) {
		space.ShowDigests(x.shown)
	}
	return space
}

// shown is what a user who may not lock sees of a token: its digest, as LOCKS shows it. What libraries
// keep in helper keys is no token.
func (x *exchange) shown(key, text string) string {
	if isHelperKey(key) && helperValue(text) {
		return text
	}
	return redlock.TokenDigest(x.s.server.opts.Engine, text)
}

// ran is the end of a run of commands. err: one of them makes a value too large.
func (x *exchange) ran(space *keyspace.Space, reply keyspace.Reply, err error) {
	if err != nil {
		x.outcome = outcome{refused: refusalOfData(err)}
		return
	}
	x.outcome = outcome{Outcome: space.Outcome(), reply: reply}
}

// endingWait is how long a reply is kept back that shows a TTL of which no time is sure any more; 0: it
// is not. After the wait the keys are read again.
//
// The last of a key on the masters is padding for drift: it excludes others, and the holder must not
// count on it. So there is no right number for it. Its length may be shown to nobody, for it may be the
// holder who asks, in a script that compares the token or in a plain PTTL behind a GET. If
// redlockd showed 1 ms, clients that sleep for the TTL would retry in a busy loop, with a short lock
// for most of its padding. After the wait the key is gone, or somebody has given it a TTL that is sure,
// and the answer is good for both. The wait is bounded, for the padding may last half a second and more: a
// client that reads 1 ms after endingWaitMax does not retry in a busy loop either.
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

// splitKey returns a key of which masters hold different hashes or sets, so that nobody knows who
// holds it. Several clients are changing it then, and those that fail are putting back what it held.
func splitKey(keys []string, states []redlock.State) (key string, split bool) {
	for i := range states {
		if states[i].Split && keyspace.IsEnvelope(states[i].Hint) {
			return keys[i], true
		}
	}
	return "", false
}

// mayChange refuses changes that would take a lock of which nobody would know, or one that must not be
// granted any more: the client may have gone, and the server may be draining, since the command was
// executed.
func (s *session) mayChange(changes []redlock.Change) error {
	if !slices.ContainsFunc(changes, takesLock) {
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

// takesLock reports whether a change makes a key.
func takesLock(ch redlock.Change) bool { return ch.Do == redlock.Set && ch.Was == redlock.WasAbsent }

// reread starts an exchange again that was postponed when it was to commit: its keys may hold something
// else by now.
type reread struct{ *exchange }

func (x reread) start(bool) { x.read() }

// noTTL refuses a key that would have no TTL when the change is made. blind: what the key had held was
// not asked for, as by NX.
func noTTL(ch *redlock.Change, blind bool) error {
	value := ch.Value
	if ch.Do == redlock.Set {
		value = ch.NewValue
	}
	text, isText := keyspace.Text(value)
	_, isNumber := resp.ParseInt(text)
	const fences = "numbers that must never fall back are those of LOCK with FENCE"
	switch {
	case isText && keyspace.IsEnvelope(value):
		return refusedf(reasonCounter, "ERR this asks for a counter without a TTL, and "+onlyLocks+
			"; or give it a TTL in the same script or transaction, or set default_ttl in [compat]; "+fences)
	case isText && blind:
		return refusedf(reasonCache, "ERR a value that is set without NX and without a TTL asks for a cache entry, and "+onlyLocks+
			"; a lock is SET key token NX PX ms; or set default_ttl in [compat]")
	}
	instead := ""
	switch {
	case !isText:
		instead = ". A semaphore is LOCK with SLOTS; what has no end is data: keep it at a Redis of its own"
	case isNumber:
		instead = ". N" + fences[1:]
	}
	return refusedf(reasonNoTTL, "ERR a lock without a TTL would be held for ever if its owner dies: give it one (SET key token NX PX ms, or PEXPIRE in the same script), "+
		"or set default_ttl in [compat]%s", instead)
}

// share stores the script on the masters for the other redlockds, unless that was done a short while
// ago. The user's share pays for it, and the caller does not wait for it.
func (srv *Server) share(script *knownScript, a *account, now int64) {
	if srv.scripts.storeDue(script, &a.stored, now) {
		srv.opts.Engine.StoreScript(a.share, script.SHA, script.source, storedTTL)
	}
}

// errWatchFailed stands for the null by which EXEC says that a watched key is not what it was.
var errWatchFailed = errors.New("a watched key has changed")
