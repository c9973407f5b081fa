package proxy

import (
	"log/slog"
	"strings"

	"redlockd/redlock"
)

// UNLOCK resource FORCE reason: an administrator ends a lock whose token they do not have. What that
// does, and what it cannot do, stands in redlock/op_force.go. Where nobody holds the resource, the
// slots of a semaphore of this name are looked for. Every attempt is in the log and in the audit, with
// who made it and why.

// forceCall is an UNLOCK … FORCE in progress. Nothing is undone when its reply is lost.
type forceCall struct {
	slot
	op       redlock.Op
	resource string
	reason   string
	// slots are those of the semaphore of this name, once they are being read.
	slots []string
}

// isForce reports whether an argument in the place of a token is the word FORCE.
func isForce(arg []byte) bool { return equalFold(arg, "FORCE") }

// handleForce executes UNLOCK resource FORCE reason.
func handleForce(s *session, c *call) error {
	reason := c.args[3]
	switch {
	case !isForce(c.args[2]):
		return errorf("ERR syntax error: behind the token of UNLOCK nothing may stand; UNLOCK resource FORCE reason releases without it")
	case !s.user().MayForce():
		return errorf("NOPERM this user has no permissions to run UNLOCK with FORCE: it ends the locks of others, and is for users to whom [auth] gives admin = true")
	}
	if refusal := checkText("reason", reason); refusal != nil {
		return refusal
	}
	f := &forceCall{resource: string(c.args[1]), reason: string(reason)}
	c.takeSlot(&f.slot)
	f.startForce(&f.op, f.resource, f)
	return nil
}

// Done implements redlock.Completer. released is 1, or 0 if nobody held the resource. NOQUORUM: it is
// not known who holds it, and nothing was released; or whether it is released.
func (f *forceCall) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	if result.Err == nil && !result.Held && f.slots == nil {
		return f.lookForSlots(result)
	}
	f.log(result)
	f.auditForce(result)
	if result.Err != nil {
		return f.fail(result.Err)
	}
	if result.Held {
		f.notifyChanged([]string{f.resource}, false)
	}
	f.out = appendValue(f.out, f.proto, fields{
		"released", result.Held,
		"masters", result.Forced.Gone,
		"of", result.Forced.Masters,
		"another", result.Forced.Another,
		"renewed", result.Forced.Renewed,
		"readers", result.Forced.Readers,
		"fence", result.Forced.Fence,
		"token-digests", bulks(result.Forced.Tokens),
	})
	return f.complete()
}

// lookForSlots is for a name that nobody holds. If it is that of a semaphore, its slots are meant, and
// the error says which are held.
func (f *forceCall) lookForSlots(forced redlock.Result) redlock.Flusher {
	f.slots = redlock.SlotNames(f.resource)
	if len(f.slots) == 0 {
		return f.Done(nil, forced)
	}
	f.startRead(&f.op, f.slots, completer(func(read redlock.Result) redlock.Flusher {
		if forced.Err = read.Err; read.Err == nil {
			forced.Err = f.slotsError(read.States)
		}
		return f.Done(nil, forced)
	}))
	return nil
}

// slotsError names the slots of a semaphore that are not free; nil: all are.
func (f *forceCall) slotsError(states []redlock.State) error {
	var held []string
	for i, st := range states {
		switch {
		case st.Type == "string":
			held = append(held, f.slots[i]+" (token "+redlock.TokenDigest(f.s.server.opts.Engine, st.Value)+")")
		case st.Found || st.Split:
			held = append(held, f.slots[i])
		}
	}
	if len(held) == 0 {
		return nil
	}
	return errorf("ERR nobody holds %.200q, but slots of it: %s. Nothing was released: name the slot in its place", f.resource, strings.Join(held, ", "))
}

// log says what was done.
func (f *forceCall) log(result redlock.Result) {
	log, conn := f.s.server.log, f.s.conn
	who := slog.Group("", "resource", f.resource, "reason", f.reason, "user", usernameOf(f.account.user()), "client", conn.id, "addr", conn.addr)
	switch {
	case result.Err != nil:
		log.Warn("a lock could not be released by force", who, "err", result.Err,
			"to_do", "see the error; LOCKINFO shows who holds the lock, and it ends with its TTL if nobody extends it")
	case result.Held:
		log.Warn("lock released by force", who, "tokens", result.Forced.Tokens, "masters", result.Forced.Gone, "fence", result.Forced.Fence,
			"to_do", "see that the old holder has stopped: it may work on until its validity is over, beside the next one")
	default:
		log.Info("nobody held the lock that was to be released by force", who)
	}
}

// auditForce records UNLOCK … FORCE.
func (f *forceCall) auditForce(result redlock.Result) {
	a := f.s.server.audit
	if !a.on.Load() {
		return
	}
	r := f.s.auditRecord(f.account.user(), "unlock")
	r.Resources, r.Reason = []string{f.resource}, f.reason
	r.Arguments = []string{"FORCE"}
	if result.Forced != nil {
		r.Tokens = result.Forced.Tokens
	}
	r.setOutcome(result, "released", "not held")
	a.add(r)
}
