package proxy

import "redlockd/redlock/arguments"

const useInsteadOfEXPIRE = "prolong a lock with EXTEND key token ms, SET key token IFEQ token PX ms, or a script that compares first"

// cmdEXPIRE is EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT.
func cmdEXPIRE(s *session, c *call) {
	_, refusal := arguments.ReadExpire(c.cmd.name, c.args[2:])
	e := c.effect(runEXPIRE)
	e.unguarded = useInsteadOfEXPIRE
	s.dropIn(c, e, refusal)
}

// cmdPERSIST prolongs a lock by default_ttl, because none has no TTL.
func cmdPERSIST(s *session, c *call) {
	e := c.effect(runPERSIST)
	e.unguarded = useInsteadOfEXPIRE
	s.dropIn(c, e, s.refuseEndless())
}
