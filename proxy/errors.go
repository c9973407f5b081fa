package proxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"redlockd/proxy/access"
	"redlockd/proxy/keyspace"
	"redlockd/redlock"
)

// Errors that clients get. A handler returns any error: the engine's and this package's
// become an error reply in one place, replyErrorOf, by the table errorCodes. So an error is made where
// it is known, and its code is given once.
//
// An error says what is known of the lock: not granted, or unknown. Where Redis has an error for the
// same mistake, its words come first, because client libraries look for them.

// replyError is an error reply, ready to be sent. Its first word is its code, one of errorCodes. Every
// error that a client gets is one, or becomes one in replyErrorOf.
type replyError string

func (e replyError) Error() string { return string(e) }

// errorf makes a replyError. The format begins with its code.
func errorf(format string, args ...any) error { return replyError(fmt.Sprintf(format, args...)) }

// refusedError is the refusal of what Redis does and this endpoint does not, or not so: no command of
// data, no lock without a TTL, or with one beyond a limit, no change without comparing. Operators see
// it, see Server.countRefused, because some libraries take it for a lock that is held.
type refusedError struct {
	// command is what was refused, in lower case and one of the names of this package's tables; empty: the
	// client's command itself.
	command string
	reason  reason
	reply   replyError
}

func (e *refusedError) Error() string { return string(e.reply) }

func (e *refusedError) Unwrap() error { return e.reply }

// refusedf makes a refusedError of the client's command. The format begins with the code.
func refusedf(why reason, format string, args ...any) error {
	return &refusedError{reason: why, reply: replyError(fmt.Sprintf(format, args...))}
}

// errorCodes are all codes of error replies, with what each says of the operation. The table of
// commands.md has the same. Client libraries silently retry on LOADING, TRYAGAIN, CLUSTERDOWN, MOVED, ASK,
// READONLY and MASTERDOWN: these must never be added, and TRYAGAIN is for what has changed nothing.
var errorCodes = []struct {
	code string
	// meaning is for people: what is known of the operation, and what to do.
	meaning string
	// causes are the errors of the engine, and of this package, that get this code.
	causes []error
}{
	{"NOQUORUM", "too few masters voted, so you do not have the lock; the message says which, and why; redlockd cleans up what may have been set",
		[]error{redlock.ErrNoQuorum}},
	{"TRYAGAIN", "too few masters voted, or they disagree, and the script has changed nothing: send it again, as some libraries do by themselves", nil},
	{"LEAVING", "this server is draining: use another", []error{redlock.ErrDraining}},
	{"BUSYWAIT", "too many `LOCK`s wait, or too many of this connection", []error{redlock.ErrTooManyWaiters}},
	{"UNBLOCKED", "the wait was ended by `CLIENT UNBLOCK … ERROR`, or because the client closed its sending side", []error{errUnblocked, errGone}},
	{"NOAUTH", "log in first, with `AUTH` or `HELLO`", nil},
	{"WRONGPASS", "wrong name or password", nil},
	{"NOPERM", "this user may not use that command, resource or channel", nil},
	{"NOPROTO", "`HELLO` knows versions 2 and 3", nil},
	{"NOSCRIPT", "`EVALSHA` names a script that is not known: send it with `EVAL`", nil},
	{"NOTBUSY", "`SCRIPT KILL` finds no script that runs", nil},
	{"EXECABORT", "`EXEC` of a transaction in which a command was refused", nil},
	{"WRONGTYPE", "the key holds another type than the command is for", nil},
	{"ERR", "everything else: bad arguments, limits, commands that are not served", nil},
}

// Errors in Redis's own words.
const (
	errSyntax     replyError = keyspace.ErrSyntax
	errNotInteger replyError = keyspace.ErrNotInteger
	errInternal   replyError = "ERR internal error"
	errMaxClients replyError = "ERR max number of clients reached"
)

// Ends of a wait that come from here, not from the engine.
var (
	errUnblocked = errors.New("client unblocked via CLIENT UNBLOCK")
	errGone      = errors.New("the client ended its stream before the lock could be granted to it, so it is not")
)

// replyErrorOf is the error reply for an error of any kind: a replyError as it is, without what wraps
// it; another with the code of the first row whose causes match; else with ERR.
func replyErrorOf(err error) replyError {
	if e, ok := errors.AsType[replyError](err); ok {
		return e
	}
	for _, c := range errorCodes {
		if slices.ContainsFunc(c.causes, func(cause error) bool { return errors.Is(err, cause) }) {
			return replyError(c.code + " " + err.Error())
		}
	}
	return replyError("ERR " + err.Error())
}

// patternRefusal is the error for a pattern that is too long, or nil.
func patternRefusal[T string | []byte](pattern T) error {
	if len(pattern) <= access.PatternMax {
		return nil
	}
	return errorf("ERR the pattern has %d bytes, at most %d are possible", len(pattern), access.PatternMax)
}

// clipped is at most n bytes of an argument, up to its first NUL, as C prints it.
func clipped[A argument](arg A, n int) string {
	text, _, _ := strings.Cut(string(arg[:min(len(arg), n)]), "\x00")
	return text
}

// appendError appends an error reply. Control characters become spaces, because a client may have put
// anything into the text, and a line end would make the rest a reply of its own.
func appendError(out []byte, err error) []byte {
	text := replyErrorOf(err)
	out = append(out, '-')
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == 0x7f {
			out = append(out, ' ')
		} else {
			out = append(out, c)
		}
	}
	return append(out, '\r', '\n')
}

// noPermission is the error for a resource or a channel that the user may not use. It begins with
// Redis's words.
func noPermission(u *access.User, kind, name string) error {
	patterns := u.Resources
	if kind == "channel" {
		patterns = u.AllChannels()
	}
	return errorf("NOPERM this user has no permissions to access the %s '%s': to user %s [auth] gives %s",
		kind, clipped(name, 128), u.Name, clipped(strings.Join(patterns, ", "), 256))
}
