package proxy

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Commands that take a lock as libraries for one instance do: SET with NX, and its kin.
var setCommands = []command{
	{
		name: "set", arity: -3, flags: flagWrite | flagLock, keys: keySpec{first: 1, last: 1, step: 1}, handler: cmdSET,
		docs: commandDocs{group: "string", since: "1.0.0", complexity: dropInComplexity,
			summary:   "With NX: lock a key by a token for a time. With IFEQ: let another token hold it, or prolong it. Others only if allow_unguarded is set",
			arguments: syntax("key:key value [NX | XX | IFEQ token] [GET] [EX seconds:integer | PX milliseconds:integer | EXAT unix-time-seconds:unix-time | PXAT unix-time-milliseconds:unix-time | KEEPTTL]")},
	},
	{
		name: "setnx", arity: 3, flags: flagWrite | flagFast | flagLock, keys: keySpec{first: 1, last: 1, step: 1}, handler: cmdSETNX,
		docs: commandDocs{group: "string", since: "1.0.0", complexity: dropInComplexity,
			summary:   "Lock a key by a token for the default_ttl of the settings",
			arguments: syntax("key:key value")},
	},
	{
		name: "msetnx", arity: -3, flags: flagWrite | flagLock, keys: keySpec{first: 1, last: -1, step: 2}, handler: cmdMSETNX,
		docs: commandDocs{group: "string", since: "1.0.1", complexity: dropInComplexity,
			summary:   "Lock several keys, all or none, for the default_ttl of the settings",
			arguments: syntax("<key:key value>...")},
	},
	{
		name: "setex", arity: 4, flags: flagWrite | flagLock, keys: keySpec{first: 1, last: 1, step: 1}, handler: cmdSETEX,
		docs: commandDocs{group: "string", since: "2.0.0", complexity: dropInComplexity,
			summary:   "Set a key for so many seconds, whoever holds it; only if allow_unguarded is set",
			arguments: syntax("key:key seconds:integer value")},
	},
	{
		name: "psetex", arity: 4, flags: flagWrite | flagLock, keys: keySpec{first: 1, last: 1, step: 1}, handler: cmdSETEX,
		docs: commandDocs{group: "string", since: "2.6.0", complexity: dropInComplexity,
			summary:   "Set a key for so many ms, whoever holds it; only if allow_unguarded is set",
			arguments: syntax("key:key milliseconds:integer value")},
	},
	{
		name: "getset", arity: 3, flags: flagWrite | flagFast | flagLock, keys: keySpec{first: 1, last: 1, step: 1}, handler: cmdGETSET,
		docs: commandDocs{group: "string", since: "1.0.0", complexity: dropInComplexity,
			summary:   "Set a key for the default_ttl of the settings, whoever holds it, and return what it held; only if allow_unguarded is set",
			arguments: syntax("key:key value")},
	},
}

const dropInComplexity = "O(M) where M is the number of masters, all asked at once"

const useInsteadOfSET = "take a lock with SET key token NX PX ms or LOCK, prolong it with SET key token IFEQ token PX ms or EXTEND"

func cmdSET(s *session, c *call) {
	e, refusal := parseSET(c.args, s.server.opts.DefaultTTL)
	s.dropIn(c, e, refusal)
}

// parseSET reads SET key value with options in any order, with the errors of Redis.
func parseSET(args [][]byte, defaultTTL time.Duration) (e effect, refusal string) {
	var nx, xx, ifeq, get, keep bool
	var compared string
	var ex expiry
	for i := 3; i < len(args); i++ {
		option := args[i]
		next := i+1 < len(args)
		unit, isUnit := expiryUnit(option)
		switch {
		case equalFold(option, "NX") && !xx && !ifeq:
			nx = true
		case equalFold(option, "XX") && !nx && !ifeq:
			xx = true
		case equalFold(option, "IFEQ") && next && !nx && !xx && !ifeq:
			i++
			ifeq, compared = true, string(args[i])
		case equalFold(option, "GET"):
			get = true
		case equalFold(option, "KEEPTTL") && !ex.given:
			keep = true
		case isUnit && next && !keep && (!ex.given || ex.unit == unit.unit && ex.absolute == unit.absolute):
			i++
			ex = unit
			ex.text = args[i]
		default:
			return e, errSyntax
		}
	}
	if refusal := ex.parse("set"); refusal != "" {
		return e, refusal
	}
	// KEEPTTL gives a key that is absent no TTL.
	if !ex.given && (!keep || nx) {
		if defaultTTL == 0 {
			return e, errNoTTL
		}
		ex = relative(defaultTTL)
	}
	key, value := string(args[1]), string(args[2])
	e = effect{keys: []string{key}, writes: true}
	switch {
	case nx:
		e.guess, e.hint = absent(1), get
	case ifeq && !keep:
		e.guess = holding(compared)
	case !ifeq:
		e.unguarded = useInsteadOfSET
	}
	if e.guess != nil && !get {
		e.lost = lostNull
	}
	e.run = func(v *view) {
		k := v.key(key)
		done := !(nx && k.found || xx && !k.found || ifeq && (!k.found || k.value != compared))
		if (get || done) && v.text(key) == nil {
			return // Redis would replace a key of another type; that cannot be compared here
		}
		switch {
		case get:
			v.bulk(k)
		default:
			v.okOrNull(done)
		}
		if !done {
			return
		}
		ttl := ex.ttl(v.now)
		if !ex.given {
			if ttl = k.ttl; !k.found || ttl < 0 {
				ttl = defaultTTL // no TTL to keep; the engine refuses 0
			}
		}
		k.set(value, ttl)
	}
	return e, ""
}

func cmdSETNX(s *session, c *call) {
	key, value, ttl := string(c.args[1]), string(c.args[2]), s.server.opts.DefaultTTL
	refusal := ""
	if ttl == 0 {
		refusal = errNoTTL
	}
	s.dropIn(c, effect{keys: []string{key}, writes: true, guess: absent(1), lost: lostZero, run: func(v *view) {
		k := v.key(key)
		if v.yesNo(!k.found); !k.found {
			k.set(value, ttl)
		}
	}}, refusal)
}

func cmdMSETNX(s *session, c *call) {
	ttl := s.server.opts.DefaultTTL
	var keys, values []string
	for i := 1; i+1 < len(c.args); i += 2 {
		keys, values = append(keys, string(c.args[i])), append(values, string(c.args[i+1]))
	}
	refusal := ""
	switch {
	case len(c.args)%2 == 0:
		refusal = "ERR wrong number of arguments for 'msetnx' command"
	case ttl == 0:
		refusal = errNoTTL
	}
	s.dropIn(c, effect{keys: keys, writes: true, guess: absent(len(distinct(keys))), lost: lostZero, run: func(v *view) {
		for _, key := range keys {
			if v.key(key).found {
				v.yesNo(false)
				return
			}
		}
		for i, key := range keys {
			v.key(key).set(values[i], ttl)
		}
		v.yesNo(true)
	}}, refusal)
}

// cmdSETEX is SETEX key seconds value, and PSETEX key ms value.
func cmdSETEX(s *session, c *call) {
	ex := expiry{given: true, unit: time.Second, text: c.args[2]}
	if c.cmd.name == "psetex" {
		ex.unit = time.Millisecond
	}
	refusal := ex.parse(c.cmd.name)
	key, value := string(c.args[1]), string(c.args[3])
	s.dropIn(c, effect{keys: []string{key}, writes: true, unguarded: useInsteadOfSET, run: func(v *view) {
		if k := v.text(key); k != nil {
			k.set(value, ex.ttl(v.now))
			v.ok()
		}
	}}, refusal)
}

func cmdGETSET(s *session, c *call) {
	key, value, ttl := string(c.args[1]), string(c.args[2]), s.server.opts.DefaultTTL
	refusal := ""
	if ttl == 0 {
		refusal = errNoTTL
	}
	s.dropIn(c, effect{keys: []string{key}, writes: true, unguarded: useInsteadOfSET, run: func(v *view) {
		if k := v.text(key); k != nil {
			v.bulk(k)
			k.set(value, ttl)
		}
	}}, refusal)
}

const errNoTTL = "ERR a lock without a TTL would be held for ever if its owner dies: give it one (SET key token NX PX ms), or set default_ttl in [compat]"

// expiry is a point in time as commands name it.
type expiry struct {
	given    bool
	absolute bool
	unit     time.Duration
	text     []byte // as the client wrote it, until parse
	n        int64  // units: from now, or since 1970 if absolute
}

// expiryUnit reads EX, PX, EXAT and PXAT.
func expiryUnit(option []byte) (e expiry, ok bool) {
	e = expiry{given: true, unit: time.Millisecond}
	switch {
	case equalFold(option, "PX"):
	case equalFold(option, "EX"):
		e.unit = time.Second
	case equalFold(option, "PXAT"):
		e.absolute = true
	case equalFold(option, "EXAT"):
		e.unit, e.absolute = time.Second, true
	default:
		return expiry{}, false
	}
	return e, true
}

func relative(ttl time.Duration) expiry {
	return expiry{given: true, unit: time.Millisecond, n: ttl.Milliseconds()}
}

// parse reads the number of a command that sets a key: it must be positive. The text is forgotten.
func (e *expiry) parse(command string) (refusal string) {
	if !e.given {
		return ""
	}
	if refusal = e.parseAny(command); refusal == "" && e.n <= 0 {
		return invalidExpire(command)
	}
	return refusal
}

// parseAny is parse for a command to which a time that is over means now.
func (e *expiry) parseAny(command string) (refusal string) {
	n, ok := parseInteger(e.text)
	e.n, e.text = n, nil
	limit := int64(math.MaxInt64)
	if e.unit == time.Second {
		limit /= 1000
	}
	if !e.absolute {
		limit -= time.Now().UnixMilli() / int64(e.unit/time.Millisecond)
	}
	switch {
	case !ok:
		return errNotInteger
	case n > limit || n < -limit:
		return invalidExpire(command)
	}
	return ""
}

func invalidExpire(command string) string {
	return fmt.Sprintf("ERR invalid expire time in '%s' command", strings.ToLower(command))
}

// ttl is what is left until then.
func (e *expiry) ttl(now time.Time) time.Duration {
	ms := e.n
	if e.unit == time.Second {
		ms *= 1000
	}
	if e.absolute {
		ms -= now.UnixMilli()
	}
	return time.Duration(min(max(ms, -msMax), msMax)) * time.Millisecond
}
