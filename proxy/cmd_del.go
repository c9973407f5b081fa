package proxy

import "redlockd/redlock/arguments"

const useInsteadOfDEL = "release a lock with UNLOCK key token, DELEX key IFEQ token, or a script that compares first"

// cmdDELEX is DELEX key [IFEQ token], of Redis 8.4.
func cmdDELEX(s *session, c *call) {
	switch condition, refusal := arguments.ReadDelex(c.args[2:]); {
	case refusal == arguments.ErrCondition || condition.Word == "ifne": // the one would name the other, which is no way to unlock
		s.dropIn(c, effect{}, errSyntax)
	case refusal != "":
		s.dropIn(c, effect{}, refusal)
	case condition.Word == "":
		unguardedDelete(s, c, runDEL)
	default:
		compareAndDelete(s, c, runDELEX, condition.Match)
	}
}

// cmdDELIFEQ is DELIFEQ key token, of Valkey.
func cmdDELIFEQ(s *session, c *call) { compareAndDelete(s, c, runDELIFEQ, string(c.args[2])) }

func cmdDEL(s *session, c *call)    { unguardedDelete(s, c, runDEL) }
func cmdGETDEL(s *session, c *call) { unguardedDelete(s, c, runGETDEL) }

func compareAndDelete(s *session, c *call, run keyCommand, token string) {
	e := c.effect(run)
	e.guess, e.lost = holding(token), &lostZero
	s.dropIn(c, e, "")
}

func unguardedDelete(s *session, c *call, run keyCommand) {
	e := c.effect(run)
	e.unguarded = useInsteadOfDEL
	s.dropIn(c, e, "")
}
