package proxy

// Readings: what a quorum of masters holds, in the words of Redis.
var readCommands = []command{
	readRow("get", 2, runGET, "string", "1.0.0", "Return the token that holds a key", "key:key"),
	readRow("mget", -2, runMGET, "string", "1.0.0", "Return the tokens that hold keys", "key:key..."),
	readRow("strlen", 2, runSTRLEN, "string", "2.2.0", "Return the length of the token that holds a key", "key:key"),
	readRow("exists", -2, runEXISTS, "generic", "1.0.0", "Count which of the keys are held", "key:key..."),
	readRow("type", 2, runTYPE, "generic", "1.0.0", "Return the type of a key: string, if it is held", "key:key"),
	readRow("pttl", 2, runTTL(false, false), "generic", "2.6.0", "Return for how many ms a key is held, less the drift", "key:key"),
	readRow("ttl", 2, runTTL(true, false), "generic", "1.0.0", "Return for how many seconds a key is held, less the drift", "key:key"),
	readRow("pexpiretime", 2, runTTL(false, true), "generic", "7.0.0", "Return until when a key is held, in ms since 1970", "key:key"),
	readRow("expiretime", 2, runTTL(true, true), "generic", "7.0.0", "Return until when a key is held, in seconds since 1970", "key:key"),
}

func readRow(name string, arity int, run keyCommand, group, since, summary, arguments string) command {
	keys := oneKey
	if arity < 0 {
		keys = allKeys
	}
	return command{
		name: name, arity: arity, flags: flagReadOnly | flagFast, keys: keys,
		handler: func(s *session, c *call) { s.dropIn(c, c.effect(run), "") },
		docs:    commandDocs{group: group, since: since, complexity: roundComplexity, summary: summary, arguments: syntax(arguments)},
	}
}
