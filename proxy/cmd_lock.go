package proxy

import (
	"bytes"
	"fmt"
	"log/slog"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// LOCK, UNLOCK and EXTEND, and the way of all commands that are one operation of the engine: parse,
// take a slot, start the operation; Done gets the result on a goroutine of the engine, appends the
// reply to the slot and completes it. MLOCK and its kin (cmd_mlock.go) differ in their arguments alone.
//
// Limits of resources, tokens and times are checked by the engine, once for all who call it. A handler
// refuses only what the engine could not see.

// cmdLOCK is LOCK resource ttl [TOKEN token] [WAIT ms] [FENCE | SHARED] [SLOTS k] [HOLD [RELEASE]] [NOTE text].
func cmdLOCK(s *session, c *call) {
	handleLock(s, c, c.args[1:2], c.args[2:])
}

// cmdUNLOCK is UNLOCK resource token, or UNLOCK resource FORCE reason (cmd_force.go).
func cmdUNLOCK(s *session, c *call) {
	switch n := len(c.args); {
	case n == 3 && isForce(c.args[2]):
		c.fail(replyError("ERR FORCE needs a reason, which the log and the audit keep: UNLOCK resource FORCE reason"))
	case n == 3:
		handleUnlock(s, c, c.args[1:2], c.args[2])
	case n == 4:
		handleForce(s, c)
	default:
		c.fail(wrongArity(c.cmd))
	}
}

// cmdEXTEND is EXTEND resource token ttl.
func cmdEXTEND(s *session, c *call) {
	handleExtend(s, c, c.args[1:2], c.args[2], c.args[3])
}

// lockCall is a LOCK or MLOCK in progress: its slot and its operation are one allocation.
type lockCall struct {
	slot
	op   redlock.Op
	keys []string
	// one is memory for keys when there is one.
	one [1]string
	// fenced: FENCE was asked for, by the client or by a policy. Without it no fence is shown, even if the engine made one.
	fenced bool
	// own: the client chose the token, so the lock is not released when the reply is lost, see replyLost.
	own bool
}

// handleLock executes LOCK and MLOCK: rest is the ttl and the options. With WAIT the command blocks those
// behind it: the client must not see its UNLOCK, or a second LOCK, executed before the lock is granted.
func handleLock(s *session, c *call, resources, rest [][]byte) {
	var req redlock.LockRequest
	if refusal := s.parseLock(&req, rest); refusal != nil {
		c.fail(refusal)
		return
	}
	if refusal := s.refusedSlots(c, req.Slots, resources); refusal != nil {
		c.fail(refusal)
		return
	}
	if req.Shared && c.cmd.name != "lock" {
		c.fail(replyError("ERR SHARED is an option of LOCK alone: readers take their resources one after the other, in the order of their names"))
		return
	}
	s.noteShortTTL(req.TTL, rest[0])
	l := &lockCall{own: req.Token != ""}
	l.keys = copyStrings(l.one[:0], resources)
	req.Resources = l.keys
	req.Fence = req.Fence || s.server.live().fences(&req)
	l.fenced = req.Fence
	if !s.awaitScripts(c, s.withSlots(l.keys, req.Slots)) {
		return
	}
	if req.Wait == 0 {
		c.takeSlot(&l.slot)
		l.startLock(&l.op, req, l)
		return
	}
	c.takeBlockingSlot(&l.slot)
	l.startLock(&l.op, req, l)
	s.conn.setBlockedOp(&l.op)
}

// Done implements redlock.Completer. The reply is the token, the validity and, if asked for, the slot and the fence;
// null if another token holds the resource, or did until WAIT was over; else an error. An error never
// means "granted".
func (l *lockCall) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	l.auditLock(result, "granted", "denied", l.lockedKeys(result), result.Token)
	switch {
	case result.Err != nil:
		return l.fail(result.Err)
	case !result.Held:
		l.out = resp.AppendNullArray(l.out, l.proto)
	default:
		l.keys = l.lockedKeys(result)
		l.tellChanged(l.keys, false)
		if !l.own {
			l.undo = l
		}
		n := 2
		if l.fenced {
			n++
		}
		if result.Slot != "" {
			n++
		}
		l.out = resp.AppendArray(l.out, n)
		l.out = resp.AppendBulkString(l.out, result.Token)
		l.out = resp.AppendInt(l.out, floorMs(result.Validity))
		if result.Slot != "" {
			l.out = resp.AppendBulkString(l.out, result.Slot)
		}
		if l.fenced {
			l.out = resp.AppendInt(l.out, result.Fence)
		}
	}
	return l.complete()
}

// lockedKeys are the resources that were locked, or were to be.
func (l *lockCall) lockedKeys(result redlock.Result) []string {
	if result.Slot != "" {
		return []string{result.Slot}
	}
	return l.keys
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

// parseLock reads ttl [TOKEN token] [WAIT ms] [FENCE | SHARED] [SLOTS k] [HOLD [RELEASE]] [NOTE text], the options in any order, each once. Bounds of
// ttl, WAIT and token are the engine's, which names them in its errors; here is refused only what the
// engine would take for "not given", an empty token and a WAIT of 0, and the one token that UNLOCK could not take. An option that comes twice is
// refused, because one of the two is a mistake and nobody knows which.
func (s *session) parseLock(req *redlock.LockRequest, args [][]byte) (refusal error) {
	if req.TTL, refusal = parseTime("ttl", args[0]); refusal != nil {
		return refusal
	}
	var token, wait bool // given already, as req.Fence is
	for args = args[1:]; len(args) > 0; {
		option := args[0]
		switch {
		case equalFold(option, "TOKEN"):
			switch {
			case token:
				return optionTwice(option)
			case len(args) == 1:
				return optionBare(option)
			case len(args[1]) == 0:
				return errorf("ERR the token is empty: 1 to %d bytes are needed", redlock.MaxTokenLen)
			case isForce(args[1]):
				return replyError("ERR the token is FORCE, which is a word of UNLOCK: choose another")
			}
			req.Token, token = string(args[1]), true
			args = args[2:]
		case equalFold(option, "WAIT"):
			switch {
			case wait:
				return optionTwice(option)
			case len(args) == 1:
				return optionBare(option)
			}
			if req.Wait, refusal = parseTime("WAIT", args[1]); refusal != nil {
				return refusal
			}
			if req.Wait <= 0 {
				return errorf("ERR WAIT of %d ms is below the least, 1 ms; leave it out to not wait", req.Wait.Milliseconds())
			}
			wait = true
			args = args[2:]
		case equalFold(option, "FENCE"):
			if req.Fence {
				return optionTwice(option)
			}
			req.Fence = true
			args = args[1:]
		case equalFold(option, "SHARED"):
			if req.Shared {
				return optionTwice(option)
			}
			req.Shared = true
			args = args[1:]
		case equalFold(option, "SLOTS"):
			switch {
			case req.Slots > 0:
				return optionTwice(option)
			case len(args) == 1:
				return optionBare(option)
			}
			if req.Slots, refusal = parseSlots(args[1]); refusal != nil {
				return refusal
			}
			args = args[2:]
		default:
			n, refusal := s.parseHold(req, args)
			switch {
			case refusal != nil:
				return refusal
			case n == 0:
				return replyError("ERR syntax error: '" + clipped(option, 128) + "' is no option of LOCK; TOKEN token, WAIT ms, FENCE, SHARED, SLOTS k, HOLD, RELEASE and NOTE text are")
			}
			args = args[n:]
		}
	}
	return nil
}

// optionTwice is the error for an option that was given before.
func optionTwice(option []byte) error {
	return replyError("ERR syntax error: " + clipped(option, 32) + " is given twice")
}

// optionBare is the error for an option at the end that needs a value.
func optionBare(option []byte) error {
	return replyError("ERR syntax error: " + clipped(option, 32) + " lacks its value")
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

// noteShortTTL logs, once per client, a ttl below 1 s without a unit: a client that sends 30 may mean
// seconds. The command is executed all the same, because the client may mean milliseconds.
func (s *session) noteShortTTL(ttl time.Duration, arg []byte) {
	if ttl >= time.Second || s.shortTTLLogged || arg[len(arg)-1] > '9' {
		return
	}
	s.shortTTLLogged = true
	s.server.shortTTLs.Log(s.server.log, slog.LevelInfo, time.Now(), "short ttl", "client", s.conn.id, "addr", s.conn.addr, "ttl", ttl,
		"reason", "a ttl without a unit is in milliseconds",
		"to_do", fmt.Sprintf("if seconds are meant, send %ds; if not, %dms says so, and this line does not come", ttl.Milliseconds(), ttl.Milliseconds()))
}

// floorMs rounds down, so that a client never counts on more than what is left. What is over already is 0.
func floorMs(d time.Duration) int64 { return max(0, d.Milliseconds()) }

// copyStrings copies arguments out of the read buffer, behind to. A handler that takes a slot must copy
// what it keeps.
func copyStrings(to []string, args [][]byte) []string {
	for _, arg := range args {
		to = append(to, string(arg))
	}
	return to
}

// unlockCall is an UNLOCK or MUNLOCK in progress. Nothing is undone when its reply is lost: the client
// wanted the release.
type unlockCall struct {
	slot
	op    redlock.Op
	keys  []string
	one   [1]string // as in lockCall
	token string
}

// handleUnlock executes UNLOCK and MUNLOCK. It waits for the client's own scripts on these keys, but never
// blocks those behind it: the engine keeps the order of single rounds.
func handleUnlock(s *session, c *call, resources [][]byte, token []byte) {
	u := new(unlockCall)
	u.keys = copyStrings(u.one[:0], resources)
	if !s.awaitScripts(c, u.keys) {
		return
	}
	c.takeSlot(&u.slot)
	u.token = string(token)
	u.startUnlock(&u.op, u.keys, u.token, u)
}

// Done implements redlock.Completer. 1: the token held the lock, and it is released. 0: it did not hold
// it. NOQUORUM: it is not known; the engine delivers the release when the masters are back.
func (u *unlockCall) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	u.auditLock(result, "released", "not held", u.keys, u.token)
	switch {
	case result.Err != nil:
		return u.fail(result.Err)
	case result.Held:
		u.tellChanged(u.keys, false)
		u.out = append(u.out, ":1\r\n"...)
	default:
		u.out = append(u.out, ":0\r\n"...)
	}
	return u.complete()
}

// extendCall is an EXTEND or MEXTEND in progress. Nothing is undone when its reply is lost: the client
// knew of the lock before, and the lock ends with its new TTL.
type extendCall struct {
	slot
	op    redlock.Op
	keys  []string
	one   [1]string // as in lockCall
	token string
}

// handleExtend executes EXTEND and MEXTEND. The ttl counts from now on; it is not added to what is left.
func handleExtend(s *session, c *call, resources [][]byte, token, ttl []byte) {
	d, refusal := parseTime("ttl", ttl)
	if refusal != nil {
		c.fail(refusal)
		return
	}
	s.noteShortTTL(d, ttl)
	e := new(extendCall)
	e.keys = copyStrings(e.one[:0], resources)
	if !s.awaitScripts(c, e.keys) {
		return
	}
	c.takeSlot(&e.slot)
	e.token = string(token)
	e.startExtend(&e.op, e.keys, e.token, d, e)
}

// Done implements redlock.Completer. 0 says that the lock is lost. It is also the answer when less than
// a millisecond is left, because 1 would be more than there is.
func (e *extendCall) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	e.auditLock(result, "extended", "not held", e.keys, e.token)
	switch {
	case result.Err != nil:
		return e.fail(result.Err)
	case result.Held:
		e.tellChanged(e.keys, true)
		e.out = resp.AppendInt(e.out, floorMs(result.Validity))
	default:
		e.out = append(e.out, ":0\r\n"...)
	}
	return e.complete()
}
