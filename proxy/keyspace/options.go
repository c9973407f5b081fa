package keyspace

import (
	"slices"
	"strings"
)

// The options are read here and nowhere else in the proxy. All words are in lower case here, whatever
// the client wrote. Those of SET are read from the bytes that a client sent, too, without an allocation
// but for a refusal and for the value behind IFEQ or IFNE.

// argument is one argument of a command.
type argument interface{ []byte | string }

// Errors in Redis's words, without the '-' of an error reply.
const (
	ErrSyntax     = "ERR syntax error"
	ErrNotInteger = "ERR value is not an integer or out of range"
	ErrWrongType  = "WRONGTYPE Operation against a key holding the wrong kind of value"
	// ErrForeign says more than Redis, where there is no such thing.
	ErrForeign   = ErrWrongType + ": the masters hold readers of LOCK … SHARED under this key, or something that redlockd has not written, and neither can be read or changed here"
	errCondition = "ERR Invalid condition. Use IFEQ or IFNE"
)

// oneOf returns the one of words that an argument is, in any case, or "". It does not allocate.
func oneOf[A argument](arg A, words []string) string {
	for _, word := range words {
		if len(arg) == len(word) && strings.EqualFold(string(arg), word) {
			return word
		}
	}
	return ""
}

// setFlag sets the flag of the one of words that an argument is, in any case. It returns false if the
// argument is none.
func setFlag(arg string, words []string, flags ...*bool) bool {
	at := slices.Index(words, oneOf(arg, words))
	if at >= 0 {
		*flags[at] = true
	}
	return at >= 0
}

// The options of each command; those that locks are taken with come first, because they are looked for
// in this order.
var (
	setWords    = []string{"nx", "px", "ex", "xx", "get", "ifeq", "ifne", "keepttl", "pxat", "exat"}
	getexWords  = []string{"px", "ex", "pxat", "exat", "persist"}
	delexWords  = []string{"ifeq", "ifne"}
	expireWords = []string{"nx", "xx", "gt", "lt"}
)

// Condition is what SET and DELEX demand of a key before they change it. The zero one demands nothing.
type Condition struct {
	// Word is nx, xx, ifeq, ifne, or empty.
	Word string
	// Match is the value that ifeq and ifne compare with.
	Match string
}

// Met reports whether a key satisfies the condition that has this value, or that is absent.
func (c Condition) Met(found bool, value string) bool {
	switch c.Word {
	case "nx":
		return !found
	case "xx":
		return found
	case "ifeq":
		return found && value == c.Match
	case "ifne":
		return !found || value != c.Match
	}
	return true
}

// Compares reports whether the condition is about the value, so that the key must hold a string.
func (c Condition) Compares() bool { return c.Word == "ifeq" || c.Word == "ifne" }

// Set are the options of SET, and of GETEX, which has no condition and no GET.
type Set struct {
	Condition
	// Get is true if the command answers what the key held before.
	Get bool
	// Lifetime is the word that says when the key ends: ex, px, exat, pxat, keepttl, persist, or empty
	// for never.
	Lifetime string
	// Time is when the key ends, for ex, px, exat and pxat. It is positive then, and else zero.
	Time Time
}

// End is when the key ends, in ms since 1970; 0: never. It is above 0 for every Time, because
// readPositive refuses others.
func (o *Set) End(now int64) int64 {
	if o.Time == (Time{}) {
		return 0
	}
	return o.Time.End(now)
}

// ReadSet reads what follows the value of SET. refusal is an error reply, without its '-', and empty if
// there is none.
func ReadSet[A argument](args []A) (o Set, refusal string) { return readSet("set", args, setWords) }

// readSet reads options in any order. Two conditions exclude each other, and so do two lifetimes. The
// same option may come again and then counts; but IFEQ and IFNE, which have one value to compare with,
// may not.
func readSet[A argument](command string, args []A, words []string) (o Set, refusal string) {
	var match, when A
	for i := 0; i < len(args); i++ {
		word := oneOf(args[i], words)
		slot, value := &o.Lifetime, &when
		switch word {
		case "":
			return o, ErrSyntax
		case "get":
			o.Get = true
			continue
		case "nx", "xx":
			slot, value = &o.Word, nil
		case "ifeq", "ifne":
			slot, value = &o.Word, &match
		case "keepttl", "persist":
			value = nil
		}
		if *slot != "" && (*slot != word || value == &match) || value != nil && i+1 == len(args) {
			return o, ErrSyntax
		}
		*slot = word
		if value != nil {
			i++
			*value = args[i]
		}
	}
	o.Match = string(match)
	switch o.Lifetime {
	case "", "keepttl", "persist":
	default:
		o.Time, refusal = readPositive(command, o.Lifetime, when)
	}
	return o, refusal
}

// readDelex reads what follows the key of DELEX: nothing, or a condition.
func readDelex(args []string) (c Condition, refusal string) {
	switch len(args) {
	case 0:
		return c, ""
	case 2:
		if c.Word = oneOf(args[0], delexWords); c.Word == "" {
			return c, errCondition
		}
		c.Match = args[1]
		return c, ""
	}
	return c, "ERR wrong number of arguments for 'delex' command"
}

// expiry is what EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT say of a key: its new end, which may have
// passed, and on what condition.
type expiry struct {
	Time
	NX, XX, GT, LT bool
}

// readExpire reads what follows the key; command is the command's name in lower case. There is at least
// one argument, the time.
func readExpire(command string, args []string) (o expiry, refusal string) {
	for _, option := range args[1:] {
		if !setFlag(option, expireWords, &o.NX, &o.XX, &o.GT, &o.LT) {
			text, _, _ := strings.Cut(option, "\x00") // as C prints it
			return o, "ERR Unsupported option " + text
		}
	}
	switch {
	case o.NX && (o.XX || o.GT || o.LT):
		return o, "ERR NX and XX, GT or LT options at the same time are not compatible"
	case o.GT && o.LT:
		return o, "ERR GT and LT options at the same time are not compatible"
	}
	o.Time, refusal = readTime(command, command, args[0])
	return o, refusal
}

// conditional reports whether it depends on the key's old end whether the key gets the new one.
func (o *expiry) conditional() bool { return o.NX || o.XX || o.GT || o.LT }

// allows reports whether a key may get this end instead of its old one; old is 0 for a key that never
// ends. Both are in ms since 1970.
func (o *expiry) allows(end, old int64) bool {
	if old == 0 {
		return !o.XX && !o.GT
	}
	return !o.NX && (!o.GT || end > old) && (!o.LT || end < old)
}
