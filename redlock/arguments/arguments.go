// Package arguments reads the arguments of Redis commands on keys: times, and the options of SET, GETEX, DELEX and EXPIRE. It is the only reader of these options in redlockd: what clients send, what scripts call and what the in-memory
// master executes are read alike.
//
//	o, refusal := arguments.ReadSet(args[3:]) // of SET key value …
//	if refusal != "" {
//		return refusal // an error reply in Redis's words, without its '-'
//	}
//	end := o.Time.End(nowMs)
//
// The words and errors are those of Redis 7.0; IFEQ, IFNE and DELEX are those of Redis 8.4. Which options a command may use here
// is the caller's decision.
//
// # What is promised
//
// All functions are pure: they keep nothing, ask no clock and change no argument. Those that take an Argument read []byte and string
// alike, and allocate only for a refusal and for the value behind IFEQ or IFNE.
//
// # Caveats
//
// Redis refuses a relative time that its clock cannot add to now. Here no clock is asked: a time is refused if it would overflow in
// the year 2109. That differs from Redis for times of 292 million years.
package arguments

import "strings"

// Argument is one argument of a command: the bytes that a client sent, or the string that a script passed.
type Argument interface{ []byte | string }

// Errors in Redis's words, without the '-' of an error reply.
const (
	ErrSyntax     = "ERR syntax error"
	ErrNotInteger = "ERR value is not an integer or out of range"
	ErrCondition  = "ERR Invalid condition. Use IFEQ or IFNE"
)

// oneOf returns the one of words that an argument is, in any case, or "". It does not allocate.
func oneOf[A Argument](arg A, words []string) string {
	for _, word := range words {
		if len(arg) == len(word) && strings.EqualFold(string(arg), word) {
			return word
		}
	}
	return ""
}
