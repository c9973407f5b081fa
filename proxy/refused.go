package proxy

import (
	"cmp"
	"net"
	"strconv"
	"strings"
	"time"
)

// notServed is the error for a command that has no row in the table. args[0] is its name. Errors name
// args as clients do, so everything of them goes through clipped.
func (t *commandTable) notServed(args [][]byte) error {
	name := strings.ToLower(string(args[0]))
	if refused, ok := refusalOf[name]; ok {
		return &refusedError{name, refused.reason, replyError("ERR " + strings.ToUpper(name) + " is not served: " + refused.why())}
	}
	return unknownCommand(args, t.native)
}

// wrongSubcommandArity is the error of a subcommand that finds too many arguments where the table sets
// no limit.
func wrongSubcommandArity(args [][]byte) error {
	return errorf("ERR unknown subcommand or wrong number of arguments for '%s'. Try %s HELP.",
		clipped(args[1], 128), strings.ToUpper(string(args[0])))
}

// refusersMax bounds the client libraries, commands and reasons of a user whose refusals the log names,
// wordsMax the wordings of each, and libraryNameMax the name of a library. Names that clients give
// themselves may be as many as connections: those above the bound are counted only.
const (
	refusersMax    = 1024
	wordsMax       = 8
	libraryNameMax = 128
)

// refuser is whose refusals of one command for one reason the log names once for each wording.
type refuser struct {
	library string
	refusedKind
}

// wordsOf is the text of a refusal without what differs from one call to the next: numbers, and names in
// quotes.
func wordsOf(refusal string) string {
	var b strings.Builder
	for rest := refusal; rest != ""; {
		at := strings.IndexAny(rest, `"0123456789`)
		if at < 0 {
			at = len(rest)
		}
		b.WriteString(rest[:at])
		rest = rest[at:]
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			rest = rest[len(quoted):]
		} else if rest != "" {
			rest = rest[1:]
		}
	}
	return b.String()
}

// countRefused counts a refusal by the command's name and the reason, and has the log name the first one
// of each client library, command, reason and wording. Any goroutine may call it, without conn.mu.
func (s *session) countRefused(refusal *refusedError, cmd *command) {
	name := refusal.command
	if name == "" && cmd != nil {
		name = cmd.fullName()
	}
	s.conn.mu.Lock()
	library, version, client, mayLog := s.libName, s.libVer, s.name, s.authenticated()
	s.conn.mu.Unlock()
	// Some libraries name nothing (phpredis): those of one machine are taken for one.
	host, _, err := net.SplitHostPort(s.conn.addr)
	if err != nil { // a unix socket
		host = s.conn.addr
	}
	by := strings.Clone(clipped(cmp.Or(library, client, host), libraryNameMax)) // the whole name must not be kept
	kind := refusedKind{name, refusal.reason}
	if own := s.account().own; own != nil {
		own.countRefused(kind)
	}
	// Strangers are logged nowhere: they must not take the lines of others.
	dropped, first := s.server.stats.countRefused(usernameOf(s.user()), refuser{by, kind}, wordsOf(refusal.Error()), mayLog, time.Now())
	if !first {
		return
	}
	attrs := []any{"command", name, "counted_as", string(refusal.reason), "library", clipped(library, libraryNameMax), "version", clipped(version, libraryNameMax),
		"name", clipped(client, libraryNameMax), "client", s.conn.id, "addr", s.conn.addr, "reason", refusal.Error()}
	if dropped > 0 {
		attrs = append([]any{"more_since_last", dropped}, attrs...)
	}
	s.server.log.With(attrs...).Warn("command refused",
		"to_do", "run redlockd check --library with the name of the library, or see cmd/redlockd/libraries.md: the library may take the refusal for a lock that is held; INFO refusedstats counts all refusals")
}

// wrongArity begins with Redis's wording, which client libraries look for.
func wrongArity(cmd *command) error {
	text := "ERR wrong number of arguments for '" + cmd.fullName() + "' command"
	if cmd.form != "" {
		text += ": " + cmd.form
	}
	return replyError(text)
}

// unknownCommand and unknownSubcommand have Redis's wording, which client libraries look for. Behind it
// stands the command of redlockd's own that was probably meant.
func unknownCommand(args [][]byte, native []string) error {
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
	return replyError(b.String())
}

func unknownSubcommand(args [][]byte) error {
	return errorf("ERR unknown subcommand '%s'. Try %s HELP.", clipped(args[1], 128), strings.ToUpper(string(args[0])))
}

// scriptsOff is the refusal of a command that runs scripts or is about them, if the settings turn
// scripts off, and nil for others. Functions are among them: their refusal should not read as if
// scripts could do the same.
func (srv *Server) scriptsOff(name []byte) error {
	if !srv.live().NoScripts {
		return nil
	}
	switch upper := strings.ToUpper(string(name)); upper {
	case "EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "SCRIPT", "FCALL", "FCALL_RO", "FUNCTION":
		return &refusedError{strings.ToLower(upper), reasonScriptsOff, replyError("ERR " + upper + " is refused: scripts = false in [compat] of redlockd's settings turns scripts off")}
	}
	return nil
}
