package proxy

import (
	"time"

	"redlockd/redlock"
	"redlockd/redlock/arguments"
	"redlockd/redlock/resp"
)

const useInsteadOfSET = "take a lock with SET key token NX PX ms or LOCK, prolong it with SET key token IFEQ token PX ms or EXTEND"

func cmdSET(s *session, c *call) {
	o, refusal := clientSetOptions(c.args[3:], s.account.defaultTTL(s.server.opts.DefaultTTL))
	if refusal == "" && o.Word == "nx" && !o.Get && !s.transaction.open {
		s.startSetNX(c, o.Time)
		return
	}
	e := c.effect(runSET)
	switch {
	case o.Word == "nx":
		e.guess, e.hint = absent(1), o.Get
	case o.Word != "ifeq":
		e.unguarded = useInsteadOfSET
	case o.Lifetime != "keepttl":
		e.guess = holding(o.Match)
	}
	if e.guess != nil && !o.Get {
		e.lost = &lostNull
	}
	s.dropIn(c, e, refusal)
}

// setNX is a SET with NX and no GET on its way: what dropIn would do with its effect, for less. Locks are taken so.
type setNX struct {
	slot
	op  redlock.Op
	key [1]string
}

func (s *session) startSetNX(c *call, when arguments.Time) {
	x := new(setNX)
	x.key[0] = string(c.args[1])
	if !s.awaitScripts(c, x.key[:]) {
		return
	}
	c.takePlace(&x.slot)
	var now time.Time
	if when.Absolute {
		now = time.Now()
	}
	changes := [1]redlock.Change{{Resource: x.key[0], Was: redlock.WasAbsent, Do: redlock.Set, NewValue: string(c.args[2]), TTL: when.TTL(now)}}
	x.startCommit(&x.op, changes[:], x)
}

// Done implements redlock.Completer.
func (x *setNX) Done(_ *redlock.Op, result redlock.Result) redlock.Flusher {
	switch {
	case result.Err != nil:
		return x.failWith(result.Err)
	case result.Held:
		x.out = resp.AppendOK(x.out)
	default:
		x.out = lostNull.AppendTo(x.out, x.proto)
	}
	return x.complete()
}

// clientSetOptions reads the options of a client's SET. A lock must have a TTL, if only that of the settings.
func clientSetOptions(args [][]byte, defaultTTL time.Duration) (o arguments.Set, refusal string) {
	o, refusal = arguments.ReadSet(args)
	switch {
	case o.Word == "ifne": // no way to lock
		return o, errSyntax
	case refusal != "":
		return o, refusal
	// KEEPTTL gives a key that is absent no TTL.
	case o.Lifetime == "" || o.Lifetime == "keepttl" && o.Word == "nx":
		if defaultTTL == 0 {
			return o, errNoTTL
		}
		o.Lifetime, o.Time = "px", arguments.Time{Ms: defaultTTL.Milliseconds()}
	}
	return o, ""
}

func cmdSETNX(s *session, c *call) {
	e := c.effect(runSETNX)
	e.guess, e.lost = absent(1), &lostZero
	s.dropIn(c, e, s.refuseEndless())
}

func cmdMSETNX(s *session, c *call) {
	refusal := s.refuseEndless()
	if len(c.args)%2 == 0 {
		refusal = "ERR wrong number of arguments for 'msetnx' command"
	}
	e := c.effect(runMSETNX)
	e.keys = nil
	for i := 1; i < len(e.args); i += 2 {
		e.keys = append(e.keys, e.args[i])
	}
	e.guess, e.lost = absent(len(distinct(e.keys))), &lostZero
	s.dropIn(c, e, refusal)
}

// cmdSETEX is SETEX key seconds value, and PSETEX key ms value.
func cmdSETEX(s *session, c *call) {
	_, refusal := arguments.ReadTTL(c.cmd.name, c.args[2])
	e := c.effect(runSETEX)
	e.unguarded = useInsteadOfSET
	s.dropIn(c, e, refusal)
}

func cmdGETSET(s *session, c *call) {
	e := c.effect(runGETSET)
	e.unguarded = useInsteadOfSET
	s.dropIn(c, e, s.refuseEndless())
}

const errNoTTL = "ERR a lock without a TTL would be held for ever if its owner dies: give it one (SET key token NX PX ms), or set default_ttl in [compat]"

// refuseEndless is the policy for a command that cannot name a TTL.
func (s *session) refuseEndless() string {
	if s.server.opts.DefaultTTL == 0 {
		return errNoTTL
	}
	return ""
}
