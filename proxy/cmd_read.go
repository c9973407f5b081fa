package proxy

import (
	"time"

	"github.com/tidwall/redcon"
)

// Readings: what a quorum of masters holds, in the words of Redis.
var readCommands = []command{
	readRow("get", 2, cmdGET, "string", "1.0.0", "Return the token that holds a key", "key:key"),
	readRow("mget", -2, cmdMGET, "string", "1.0.0", "Return the tokens that hold keys", "key:key..."),
	readRow("strlen", 2, cmdSTRLEN, "string", "2.2.0", "Return the length of the token that holds a key", "key:key"),
	readRow("exists", -2, cmdEXISTS, "generic", "1.0.0", "Count which of the keys are held", "key:key..."),
	readRow("type", 2, cmdTYPE, "generic", "1.0.0", "Return the type of a key: string, if it is held", "key:key"),
	readRow("pttl", 2, cmdPTTL, "generic", "2.6.0", "Return for how many ms a key is held, less the drift", "key:key"),
	readRow("ttl", 2, cmdPTTL, "generic", "1.0.0", "Return for how many seconds a key is held, less the drift", "key:key"),
	readRow("pexpiretime", 2, cmdPTTL, "generic", "7.0.0", "Return until when a key is held, in ms since 1970", "key:key"),
	readRow("expiretime", 2, cmdPTTL, "generic", "7.0.0", "Return until when a key is held, in seconds since 1970", "key:key"),
}

func readRow(name string, arity int, handler func(*session, *call), group, since, summary, arguments string) command {
	keys := keySpec{first: 1, last: 1, step: 1}
	if arity < 0 {
		keys.last = -1
	}
	return command{
		name: name, arity: arity, flags: flagReadOnly | flagFast, keys: keys, handler: handler,
		docs: commandDocs{group: group, since: since, complexity: dropInComplexity, summary: summary, arguments: syntax(arguments)},
	}
}

// reading executes a command on keys that changes nothing.
func (s *session) reading(c *call, run func(v *view, keys []string)) {
	keys := copyStrings(nil, c.args[1:])
	s.dropIn(c, effect{keys: keys, run: func(v *view) { run(v, keys) }}, "")
}

func cmdGET(s *session, c *call) {
	s.reading(c, func(v *view, keys []string) {
		if k := v.text(keys[0]); k != nil {
			v.bulk(k)
		}
	})
}

func cmdMGET(s *session, c *call) {
	s.reading(c, func(v *view, keys []string) {
		v.out = redcon.AppendArray(v.out, len(keys))
		for _, key := range keys {
			k := v.key(key)
			v.out = appendBulkOrNull(v.out, v.proto, k.value, k.found && !k.foreign())
		}
	})
}

func cmdSTRLEN(s *session, c *call) {
	s.reading(c, func(v *view, keys []string) {
		if k := v.text(keys[0]); k != nil {
			v.integer(int64(len(k.value)))
		}
	})
}

func cmdEXISTS(s *session, c *call) {
	s.reading(c, func(v *view, keys []string) {
		n := 0
		for _, key := range keys {
			n += oneIf(v.key(key).found)
		}
		v.integer(int64(n))
	})
}

func cmdTYPE(s *session, c *call) {
	s.reading(c, func(v *view, keys []string) { v.out = redcon.AppendString(v.out, v.key(keys[0]).kind) })
}

// cmdPTTL is PTTL, TTL, PEXPIRETIME and EXPIRETIME.
func cmdPTTL(s *session, c *call) {
	name := c.cmd.name
	s.reading(c, func(v *view, keys []string) {
		k := v.key(keys[0])
		switch {
		case !k.found:
			v.integer(-2)
			return
		case k.ttl < 0:
			v.integer(-1)
			return
		}
		ms := k.ttl.Milliseconds()
		if name == "pexpiretime" || name == "expiretime" {
			ms = v.now.Add(k.ttl).UnixMilli()
		}
		if name == "ttl" || name == "expiretime" {
			ms = (ms + 500) / time.Second.Milliseconds()
		}
		v.integer(ms)
	})
}
