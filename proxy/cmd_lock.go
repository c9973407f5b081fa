package proxy

import (
	"bytes"
	"cmp"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// LOCK, UNLOCK and EXTEND, and the way of all commands that are one operation of the engine: parse,
// take a slot, start the operation; Done gets the result on a goroutine of the engine, appends the
// reply to the slot and completes it.
//
// MLOCK, MUNLOCK and MEXTEND are these for several resources as one lock with one token, all or none.
// They have the number of resources before them, as the keys of EVAL. The engine sorts the resources,
// so that two MLOCKs of the same ones in another order cannot wait for each other.
//
// Limits of resources, tokens and times are checked by the engine, once for all who call it. A handler
// refuses only what the engine could not see.

// resources divides the arguments of LOCK and its kin, or of MLOCK and its kin. These have least to
// most arguments behind the resources, or any number above least when most is -1. If not, they are
// refused. What is too much for the others is refused by their arity, or as an option.
func (c *call) resources(least, most int) (resources, rest [][]byte, refusal error) {
	if c.cmd.keys.numkeys == 0 {
		return c.args[1:2], c.args[2:], nil
	}
	n, ok := resp.ParseInt(c.args[1])
	if !ok || n < 1 || n > redlock.MaxResources {
		return nil, nil, errorf("ERR numkeys '%s' is not an integer from 1 to %d", clipped(c.args[1], 32), redlock.MaxResources)
	}
	args := c.args[2:]
	if extra := len(args) - int(n); extra < least || most >= 0 && extra > most {
		return nil, nil, errorf("ERR syntax error: numkeys says %d, which does not fit the %d arguments behind it: %s", n, len(args), c.cmd.form)
	}
	return args[:n], args[n:], nil
}

// lockCall is a LOCK, UNLOCK, EXTEND or HOLD in progress, or one of their kin for several resources:
// its slot and its operation are one allocation. If the reply of an UNLOCK or EXTEND is lost, nothing
// is undone: the client wanted the release, or knew of the lock before.
type lockCall struct {
	slot
	verb *lockVerb
	op   redlock.Op
	keys []string
	// one is memory for keys when there is one.
	one [1]string
	// token is the one that the command names, or empty: the words of its turn.
	token [1]string
	// ttl is that of EXTEND.
	ttl time.Duration
	// request is that of a HOLD, and of a LOCK that may have to wait since this time, on the clock of
	// server.now.
	request *redlock.LockRequest
	since   int64
	// fenced: FENCE was asked for, by the client or by a policy. Without it no fence is shown, even if
	// the engine made one.
	fenced bool
	// releases: LOCK has made the token, so the lock is released when the reply is lost, see replyLost.
	releases bool
}

// lockVerb is what these commands differ in. An error never means "granted".
type lockVerb struct {
	// start starts the operation.
	start func(l *lockCall)
	// done and not are the words of the audit.
	done, not string
	// extends: clients that track the resources are notified of an extension, not of a change.
	extends bool
	// reply appends the reply of one that is done.
	reply func(l *lockCall, result redlock.Result)
	// denied appends that of one that is not, because the token does not hold the resource or another
	// one does.
	denied func(out []byte, proto int) []byte
}

var (
	verbLock = lockVerb{done: "granted", not: "denied", start: (*lockCall).startInTurn, reply: (*lockCall).replyGranted, denied: resp.AppendNullArray}
	// A HOLD whose client has gone before the reply is not undone: the client may still work, by the
	// validity that it got with the old token. The lock ends with its TTL.
	verbHold = lockVerb{done: "taken over", not: "not held", reply: (*lockCall).replyGranted, denied: resp.AppendNullArray,
		start: func(l *lockCall) { l.startHold(&l.op, *l.request, l) }}
	// With JUSTTOKEN.
	verbLockToken, verbHoldToken = verbLock.justToken(), verbHold.justToken()
	// NOQUORUM says of an UNLOCK that it is not known; the engine delivers the release when the masters
	// are back.
	verbUnlock = lockVerb{done: "released", not: "not held", denied: appendZero,
		start: func(l *lockCall) { l.startUnlock(&l.op, l.keys, l.token[0], l) },
		reply: func(l *lockCall, _ redlock.Result) { l.out = append(l.out, ":1\r\n"...) }}
	// EXTEND answers 0 also when less than a millisecond is left, because 1 would be more than there
	// is.
	verbExtend = lockVerb{done: "extended", not: "not held", extends: true, denied: appendZero,
		start: func(l *lockCall) { l.startExtend(&l.op, l.keys, l.token[0], l.ttl, l) },
		reply: func(l *lockCall, result redlock.Result) { l.appendValidity(result.Validity) }}
)

func appendZero(out []byte, _ int) []byte { return append(out, ":0\r\n"...) }

// justToken is the verb with replies for JUSTTOKEN. The null is that of a string: RESP2 has another one
// for arrays, and Lettuce makes [] or [null] of that where it expects a string.
func (v lockVerb) justToken() lockVerb {
	v.reply, v.denied = (*lockCall).replyToken, resp.AppendNull
	return v
}

// newLockCall copies the resources.
func newLockCall(verb *lockVerb, resources [][]byte) *lockCall {
	l := &lockCall{verb: verb}
	l.keys = copyStrings(l.one[:0], resources)
	return l
}

// start implements starter.
func (l *lockCall) start(bool) { l.verb.start(l) }

// cmdLOCK is LOCK and MLOCK. What comes behind one with WAIT, order.go says.
func cmdLOCK(s *session, c *call) error {
	var req redlock.LockRequest
	verb := &verbLock
	resources, rest, refusal := c.resources(1, -1)
	if refusal == nil {
		req.TTL, refusal = parseTime("ttl", rest[0])
	}
	if refusal == nil {
		var justToken bool
		if justToken, refusal = s.parseLock(&req, "lock", rest[1:]); justToken {
			verb = &verbLockToken
		}
	}
	if refusal == nil {
		refusal = s.refusedSlots(c, req.Slots, resources)
	}
	if refusal == nil && req.Shared && c.cmd.name != "lock" {
		refusal = replyError("ERR SHARED is an option of LOCK alone: readers take their resources one after the other, in the order of their names")
	}
	if refusal != nil {
		return refusal
	}
	l := newLockCall(verb, resources)
	l.releases, req.Resources = req.Token == "", l.keys
	if p := s.server.live().fencedBy(&req); p != nil {
		if verb == &verbLockToken {
			return p.refuseJustToken()
		}
		req.Fence = true
	}
	l.fenced = req.Fence
	if req.Wait == 0 && s.conn.order.empty() && !s.conn.closed.Load() {
		c.takeSlot(&l.slot)
		l.startLock(&l.op, req, l)
		return nil
	}
	request := req // req itself stays on the stack
	l.request, l.since = &request, s.server.now()
	l.token[0] = req.Token
	t := turn{keys: withSlots(l.keys, req.Slots), words: l.token[:], acquires: true, waits: req.Wait > 0}
	t.queues = t.waits && len(t.keys) == 1 && !req.Shared
	c.takeTurn(&l.slot, t, l)
	return nil
}

// startInTurn starts a LOCK that may have been postponed. Its wait began when it came: if nothing is left
// of it, this is a LOCK that does not wait.
func (l *lockCall) startInTurn() {
	req := *l.request
	if req.Wait > 0 {
		req.Waited = time.Duration(l.s.server.now() - l.since)
	}
	l.startLock(&l.op, req, l)
	if l.request.Wait > 0 {
		l.setWaitingOp(&l.op)
	}
}

// Done implements redlock.Completer.
func (l *lockCall) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	if result.Slot != "" { // the one of the resource's slots that was granted, or was to be
		l.keys = []string{result.Slot}
	}
	l.auditLock(result, l.verb.done, l.verb.not, l.keys, cmp.Or(l.token[0], result.Token))
	switch {
	case result.Err != nil:
		return l.fail(result.Err)
	case !result.Held:
		l.out = l.verb.denied(l.out, l.proto)
	default:
		l.notifyChanged(l.keys, l.verb.extends)
		l.verb.reply(l, result)
	}
	return l.complete()
}

// replyGranted appends the token, the validity and, if asked for, the slot and the fence.
func (l *lockCall) replyGranted(result redlock.Result) {
	if l.releases {
		l.undo = l
	}
	n := 2 + oneIf(l.fenced) + oneIf(result.Slot != "")
	l.out = resp.AppendArray(l.out, int(n))
	l.out = resp.AppendBulkString(l.out, result.Token)
	l.appendValidity(result.Validity)
	if result.Slot != "" {
		l.out = resp.AppendBulkString(l.out, result.Slot)
	}
	if l.fenced {
		l.out = resp.AppendInt(l.out, result.Fence)
	}
}

// replyToken appends the token alone, for JUSTTOKEN.
func (l *lockCall) replyToken(result redlock.Result) {
	if l.releases {
		l.undo = l
	}
	l.out = resp.AppendBulkString(l.out, result.Token)
}

// appendValidity appends the validity of a lock, which runs on while the reply has to wait for others
// before it.
func (l *lockCall) appendValidity(validity time.Duration) {
	l.validity = len(l.out) + 1
	l.out = resp.AppendInt(l.out, floorMs(validity))
}

// replyLost implements undoer: it releases a lock whose owner cannot learn of it, because nobody else
// knows the token.
//
// A lock under a token of the client's own must not be released here. The client may be back already,
// on another connection or through another server, with the same token, and hold the lock by it: the
// release would let a second client in. Such a lock ends with its TTL.
func (l *lockCall) replyLost() {
	l.s.server.counters[countRepliesLost].Add(1)
	l.s.server.opts.Engine.Abandon(&l.op)
}

// parseLock reads the options of LOCK or HOLD, by the row of that name. Bounds of WAIT and token are
// the engine's, which names them in its errors; here is refused only what the engine would take for
// "not given", an empty token and a WAIT of 0, tokens that nobody chooses, and JUSTTOKEN where its reply
// would lack what was asked for.
func (s *session) parseLock(req *redlock.LockRequest, name string, options [][]byte) (justToken bool, refusal error) {
	arguments := s.server.table.byName[name].arguments
	refusal = parseOptions(name, arguments, options, func(option string, value []byte) (refusal error) {
		switch option {
		case "TOKEN":
			if req.Token = string(value); len(value) == 0 {
				return errorf("ERR the token is empty: 1 to %d bytes are needed", redlock.MaxTokenLen)
			} else if isForce(value) {
				return replyError("ERR the token is FORCE, which is a word of UNLOCK: choose another")
			} else if word := switchOf(arguments, value); word != "" {
				return errorf("ERR TOKEN lacks its value: %s behind it is an option, and as a token it would let in all who leave theirs out", word)
			}
		case "WAIT":
			if req.Wait, refusal = parseTime("WAIT", value); refusal == nil && req.Wait <= 0 {
				return errorf("ERR WAIT of %d ms is below the least, 1 ms; leave it out to not wait", req.Wait.Milliseconds())
			}
		case "FENCE":
			req.Fence = true
		case "SHARED":
			req.Shared = true
		case "SLOTS":
			req.Slots, refusal = parseSlots(value)
		case "HOLD":
			req.Holder, refusal = s.holder()
		case "RELEASE":
			req.Release = true
		case "NOTE":
			req.Note, refusal = s.note(value)
		case "JUSTTOKEN":
			justToken = true
		}
		return refusal
	})
	switch {
	case refusal != nil || !justToken:
		return justToken, refusal
	case req.Fence:
		return true, replyError("ERR JUSTTOKEN and FENCE do not go together: the reply would lack the fence")
	case req.Slots > 0:
		return true, replyError("ERR JUSTTOKEN and SLOTS do not go together: the reply would lack the name of the slot, without which UNLOCK cannot release it")
	}
	return true, nil
}

// switchOf returns the option without a value that an argument is, or "".
func switchOf(arguments []argDoc, arg []byte) string {
	for i := range arguments {
		if arguments[i].kind == "pure-token" && equalFold(arg, arguments[i].token) {
			return arguments[i].token
		}
	}
	return ""
}

// msMax keeps a number of milliseconds from overflowing time.Duration; it is far above all limits.
const msMax = int64(1<<63-1) / int64(time.Millisecond)

// timeUnits are the units that a ttl and a WAIT may have.
var timeUnits = []struct {
	name string
	unit time.Duration
}{{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

// parseTime reads a ttl or a WAIT, whose limits the engine checks: whole milliseconds, or a whole
// number with a unit behind it.
func parseTime(what string, arg []byte) (d time.Duration, refusal error) {
	digits := len(bytes.TrimRight(arg, "hms"))
	for _, u := range timeUnits {
		if unit := string(arg[digits:]); unit != u.name && (unit != "" || u.name != "ms") {
			continue
		}
		if n, ok := resp.ParseInt(arg[:digits]); ok {
			if most := msMax / u.unit.Milliseconds(); n > most || n < -most {
				return 0, errorf("ERR %s '%s' is out of range: no time is longer than 24h", what, clipped(arg, 32))
			}
			return time.Duration(n) * u.unit, nil
		}
	}
	return 0, replyError("ERR " + what + " '" + clipped(arg, 32) + "' is no time: whole milliseconds are needed, or a whole number with a unit, as 500ms, 30s, 5m or 1h")
}

// cmdUNLOCK is UNLOCK resource token, or UNLOCK resource FORCE reason (cmd_force.go).
func cmdUNLOCK(s *session, c *call) error {
	switch n := len(c.args); {
	case n == 3 && isForce(c.args[2]):
		return replyError("ERR FORCE needs a reason, which the log and the audit keep: UNLOCK resource FORCE reason")
	case n == 3:
		unlock(c, c.args[1:2], c.args[2])
		return nil
	case n == 4:
		return handleForce(s, c)
	}
	return wrongArity(c.cmd)
}

func cmdMUNLOCK(_ *session, c *call) error {
	resources, rest, refusal := c.resources(1, 1)
	if refusal == nil {
		unlock(c, resources, rest[0])
	}
	return refusal
}

func unlock(c *call, resources [][]byte, token []byte) {
	u := newLockCall(&verbUnlock, resources)
	u.token[0] = string(token)
	c.takeTurn(&u.slot, turn{keys: u.keys, words: u.token[:]}, u)
}

// cmdEXTEND is EXTEND and MEXTEND. The ttl counts from now on; it is not added to what is left.
func cmdEXTEND(s *session, c *call) error {
	var ttl time.Duration
	resources, rest, refusal := c.resources(2, 2)
	if refusal == nil {
		ttl, refusal = parseTime("ttl", rest[1])
	}
	if refusal != nil {
		return refusal
	}
	e := newLockCall(&verbExtend, resources)
	e.token[0], e.ttl = string(rest[0]), ttl
	c.takeTurn(&e.slot, turn{keys: e.keys, words: e.token[:]}, e)
	return nil
}
