package proxy

import "time"

// Commands that prolong a lock, or shorten it.
var expireCommands = []command{
	expireRow("expire", "1.0.0", "seconds:integer"),
	expireRow("pexpire", "2.6.0", "milliseconds:integer"),
	expireRow("expireat", "1.2.0", "unix-time-seconds:unix-time"),
	expireRow("pexpireat", "2.6.0", "unix-time-milliseconds:unix-time"),
	{
		name: "persist", arity: 2, flags: flagWrite | flagFast, keys: oneKey, handler: cmdPERSIST,
		docs: commandDocs{group: "generic", since: "2.2.0", complexity: roundComplexity,
			summary:   "Prolong a key by the default_ttl of the settings; only if allow_unguarded is set, or behind WATCH",
			arguments: syntax("key:key")},
	},
}

func expireRow(name, since, when string) command {
	return command{
		name: name, arity: -3, flags: flagWrite | flagFast, keys: oneKey, handler: cmdEXPIRE,
		docs: commandDocs{group: "generic", since: since, complexity: roundComplexity,
			summary:   "Prolong a key, whoever holds it; only if allow_unguarded is set, or behind WATCH",
			arguments: syntax("key:key " + when + " [NX | XX | GT | LT]")},
	}
}

const useInsteadOfEXPIRE = "prolong a lock with EXTEND key token ms, SET key token IFEQ token PX ms, or a script that compares first"

// cmdEXPIRE is EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT.
func cmdEXPIRE(s *session, c *call) {
	_, refusal := parseExpire(c.cmd.name, c.args[2:], time.Now)
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
