package proxy

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// The options and times of commands on strings, with the errors of Redis 7.0 and 8.4. Commands that clients send and those
// that scripts call are read alike; what is then allowed to whom is decided there. All words are in lower case here.

// The words of each command; those that locks are taken with come first.
var (
	setWords    = []string{"nx", "px", "ex", "xx", "get", "ifeq", "ifne", "keepttl", "pxat", "exat"}
	getexWords  = []string{"px", "ex", "pxat", "exat", "persist"}
	delexWords  = []string{"ifeq", "ifne"}
	expireWords = []string{"nx", "xx", "gt", "lt"}
)

const errCondition = "ERR Invalid condition. Use IFEQ or IFNE"

// setOptions are the options of SET and GETEX.
type setOptions struct {
	condition
	get      bool
	lifetime string // ex px exat pxat keepttl persist, or none
	when     expiry // of ex px exat pxat; else zero, as none of these is
}

// parseSetOptions reads the options of a command, in any order. Two conditions exclude each other, and so do two
// lifetimes. The same option may come again and then counts; but there is one value to compare with. The options are
// returned also where the refusal is not errSyntax, but of the time that is one of them.
func parseSetOptions[A argument](command string, args []A, words []string, now func() time.Time) (o setOptions, refusal string) {
	var match, when A
	for i := 0; i < len(args); i++ {
		word := keyword(args[i], words)
		slot, value := &o.lifetime, &when
		switch word {
		case "":
			return o, errSyntax
		case "get":
			o.get = true
			continue
		case "nx", "xx":
			slot, value = &o.word, nil
		case "ifeq", "ifne":
			slot, value = &o.word, &match
		case "keepttl", "persist":
			value = nil
		}
		if *slot != "" && (*slot != word || value == &match) || value != nil && i+1 == len(args) {
			return o, errSyntax
		}
		*slot = word
		if value != nil {
			i++
			*value = args[i]
		}
	}
	o.match = string(match)
	switch o.lifetime {
	case "", "keepttl", "persist":
	default:
		o.when, refusal = parseLifetime(command, o.lifetime, when, now)
	}
	return o, refusal
}

// end is the absolute time that the lifetime means, in ms; 0: none.
func (o *setOptions) end(now int64) int64 {
	if o.when == (expiry{}) {
		return 0
	}
	return o.when.end(now)
}

// condition is what SET and DELEX ask of a key: nx xx ifeq ifne, or nothing.
type condition struct {
	word  string
	match string // what ifeq and ifne compare with
}

func (c condition) met(found bool, value string) bool {
	switch c.word {
	case "nx":
		return !found
	case "xx":
		return found
	case "ifeq":
		return found && value == c.match
	case "ifne":
		return !found || value != c.match
	}
	return true
}

// parseDelex reads what follows the key of DELEX: nothing, or a condition.
func parseDelex[A argument](args []A) (c condition, refusal string) {
	switch len(args) {
	case 0:
		return c, ""
	case 2:
		if c.word = keyword(args[0], delexWords); c.word == "" {
			return c, errCondition
		}
		c.match = string(args[1])
		return c, ""
	}
	return c, "ERR wrong number of arguments for 'delex' command"
}

// expireOptions are what EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT say of a key: its new end, and on what condition.
type expireOptions struct {
	expiry
	nx, xx, gt, lt bool
}

// parseExpire reads what follows the key.
func parseExpire[A argument](command string, args []A, now func() time.Time) (o expireOptions, refusal string) {
	for _, option := range args[1:] {
		switch keyword(option, expireWords) {
		case "nx":
			o.nx = true
		case "xx":
			o.xx = true
		case "gt":
			o.gt = true
		case "lt":
			o.lt = true
		default:
			return o, "ERR Unsupported option " + clipped(option, len(option))
		}
	}
	switch {
	case o.nx && (o.xx || o.gt || o.lt):
		return o, "ERR NX and XX, GT or LT options at the same time are not compatible"
	case o.gt && o.lt:
		return o, "ERR GT and LT options at the same time are not compatible"
	}
	o.expiry, refusal = parseExpiry(command, command, args[0], now)
	return o, refusal
}

// allows tells whether a key may get the end, instead of the old one if it has any. Both are counted from the same moment.
func (o *expireOptions) allows(end, old int64, hasOld bool) bool {
	if !hasOld { // as if it were at the end of time
		return !o.xx && !o.gt
	}
	return !o.nx && (!o.gt || end > old) && (!o.lt || end < old)
}

// expiry is a point in time as commands name it.
type expiry struct {
	ms       int64 // from now, or since 1970 if absolute
	absolute bool
}

// parseLifetime is parseExpiry for a command that gives a key a value: its time must be positive.
func parseLifetime[A argument](command, unit string, text A, now func() time.Time) (e expiry, refusal string) {
	if e, refusal = parseExpiry(command, unit, text, now); refusal == "" && e.ms <= 0 {
		refusal = invalidExpire(command)
	}
	return e, refusal
}

// parseExpiry reads a time, which may be over. The unit is a word that begins with p if it is in ms, and ends in at if it is
// absolute, as px, exat, psetex and expireat.
func parseExpiry[A argument](command, unit string, text A, now func() time.Time) (e expiry, refusal string) {
	n, ok := parseInteger(text)
	if !ok {
		return e, errNotInteger
	}
	if unit[0] != 'p' {
		if n > math.MaxInt64/1000 || n < math.MinInt64/1000 {
			return e, invalidExpire(command)
		}
		n *= 1000
	}
	e = expiry{n, strings.HasSuffix(unit, "at")}
	// To what is less than half of the highest the clock makes no difference, and to ask it costs more than all the rest.
	if !e.absolute && n > math.MaxInt64/2 && n > math.MaxInt64-now().UnixMilli() {
		return e, invalidExpire(command)
	}
	return e, ""
}

func invalidExpire(command string) string {
	return fmt.Sprintf("ERR invalid expire time in '%s' command", command)
}

// end is the time since 1970, in ms.
func (e expiry) end(now int64) int64 {
	if e.absolute {
		return e.ms
	}
	return e.ms + now
}

// ttl is what is left until then.
func (e expiry) ttl(now time.Time) time.Duration {
	ms := e.ms
	if e.absolute {
		ms = max(ms, 0) - now.UnixMilli()
	}
	return durationOf(ms)
}
