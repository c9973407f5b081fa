package proxy

import (
	"errors"
	"strings"

	"redlockd/proxy/keyspace"
	"redlockd/redlock"
)

// Errors in Redis's own words.
const (
	errSyntax     = keyspace.ErrSyntax
	errNotInteger = keyspace.ErrNotInteger
	errInternal   = "ERR internal error"
)

// Ends of a wait that come from here, not from the engine.
var (
	errUnblocked = errors.New("client unblocked via CLIENT UNBLOCK")
	errGone      = errors.New("the client ended its stream before the lock could be granted to it, so it is not")
)

// errorCodes is the table of error replies: which code says what became of an operation. Of the codes that client
// libraries silently retry (LOADING, TRYAGAIN, CLUSTERDOWN, MOVED, ASK, READONLY, MASTERDOWN) there is none, and must be
// none. What is not in it is ERR.
var errorCodes = []struct {
	err  error
	code string
}{
	{redlock.ErrNoQuorum, "NOQUORUM"},
	{redlock.ErrDraining, "LEAVING"},
	{redlock.ErrTooManyWaiters, "BUSYWAIT"},
	{errUnblocked, "UNBLOCKED"},
	{errGone, "UNBLOCKED"},
}

// coded is the text of an error reply.
func coded(err error) string {
	for _, e := range errorCodes {
		if errors.Is(err, e.err) {
			return e.code + " " + err.Error()
		}
	}
	return "ERR " + err.Error()
}

// codedFor is coded for a user: to one who may not administer the server it names no masters, and not what these say.
func codedFor(terse bool, err error) string {
	if e, ok := errors.AsType[*redlock.NoQuorumError](err); ok && terse {
		return "NOQUORUM " + e.Counts()
	}
	return coded(err)
}

// wrongArity begins with Redis's wording, which client libraries look for.
func wrongArity(cmd *command) string {
	text := "ERR wrong number of arguments for '" + cmd.fullName() + "' command"
	if cmd.form != "" {
		text += ": " + cmd.form
	}
	return text
}

// unknownCommand and unknownSubcommand have Redis's wording, which client libraries look for. Behind it stands the command of
// redlockd's own that was probably meant.
func unknownCommand(args [][]byte, native []string) string {
	var b strings.Builder
	b.WriteString("ERR unknown command '" + clipped(args[0], 128) + "', with args beginning with: ")
	for start, i := b.Len(), 1; i < len(args) && b.Len()-start < 128; i++ {
		b.WriteString("'" + clipped(args[i], 128-(b.Len()-start)) + "' ")
	}
	if len(args[0]) <= commandNameMax { // the search takes as long as the name
		if nearest := Nearest(string(args[0]), native); nearest != "" {
			b.WriteString("Did you mean " + nearest + "?")
		}
	}
	return b.String()
}

func unknownSubcommand(args [][]byte) string {
	return "ERR unknown subcommand '" + clipped(args[1], 128) + "'. Try " + strings.ToUpper(string(args[0])) + " HELP."
}

// clipped is at most n bytes of an argument, up to its first NUL, as C prints it.
func clipped[A argument](arg A, n int) string {
	text, _, _ := strings.Cut(string(arg[:min(len(arg), n)]), "\x00")
	return text
}

// appendError appends an error reply. Whatever a client has put into the text, it stays one line of visible characters.
func appendError(out []byte, text string) []byte {
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
