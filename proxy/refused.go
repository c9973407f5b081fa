package proxy

import (
	"cmp"
	"net"
	"strconv"
	"strings"
	"time"
)

// refusals are the commands of Redis 7.0 that this endpoint does not serve. They are refused by name,
// with a sentence that names what to use in their place: "unknown command" would send the reader
// looking for a typing error. A command that Redis 7.0 does not have either (JSON.GET, SENTINEL) is
// answered as Redis 7.0 answers it, because libraries recognise an old server by that.
//
// To serve one of these commands: take its name out here and put its row into a command table.
var refusals = []struct {
	names string
	use   string
}{
	{"getex",
		"extend a lock with EXTEND resource token ttl"},
	{"fcall fcall_ro function",
		"send the script itself with EVAL; LOCK, EXTEND and UNLOCK do in one command what lock libraries do in a script"},
	{"keys scan randomkey dbsize",
		"LOCKS lists the locks that were granted here and still run"},
	{"flushall flushdb swapdb",
		"a lock ends by UNLOCK or when its TTL is over"},
	{"spublish ssubscribe sunsubscribe pubsub",
		"PUBLISH, SUBSCRIBE and PSUBSCRIBE carry messages; LOCK with WAIT needs none"},
	{"blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin",
		"LOCK with WAIT waits for a lock, and with SLOTS k for one of k"},
	{"lindex linsert llen lmove lmpop lpop lpos lpush lpushx lrange lrem lset ltrim rpop rpoplpush rpush rpushx",
		"it keeps no lists; a queue of waiters is LOCK with WAIT, a semaphore LOCK with SLOTS"},
	{"acl",
		"users are set in config.toml"},
	{"shutdown",
		"end redlockd with SIGTERM: it drains first"},
	{"failover replicaof slaveof replconf psync sync",
		"redlockd keeps no data of its own to replicate: its masters are set in config.toml"},
	{"bgrewriteaof bgsave save lastsave debug latency lolwut memory module monitor slowlog",
		"INFO, CLIENT LIST and LOCKS show what goes on here"},

	// What stores or reads data of any other kind.
	{"append bitcount bitfield bitfield_ro bitop bitpos copy dump getbit getrange incrbyfloat lcs " +
		"migrate move mset object rename renamenx restore restore-asking setbit setrange sort sort_ro substr touch " +
		"geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore " +
		"hincrbyfloat hrandfield hscan " +
		"pfadd pfcount pfdebug pfmerge pfselftest " +
		"sdiff sdiffstore sinter sintercard sinterstore smove spop srandmember " +
		"sscan sunion sunionstore " +
		"xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange xsetid xtrim " +
		"zdiff zdiffstore zinter zintercard zinterstore zlexcount zmpop zpopmax zpopmin " +
		"zrandmember zrangebylex zrangestore zremrangebylex zrevrangebylex zscan zunion zunionstore",
		"it keeps no data, but for what lock libraries make of strings, small hashes, sets and sorted sets"},
}

// refusalOf finds what to use in place of a refused command, by its name in lower case. Made once, when
// the program starts.
var refusalOf = func() map[string]string {
	uses := make(map[string]string)
	for _, group := range refusals {
		for name := range strings.FieldsSeq(group.names) {
			uses[name] = group.use
		}
	}
	return uses
}()

// notServed is the error for a command that has no row in the table. args[0] is its name. Errors name
// args as clients do, so everything of them goes through clipped.
func (t *commandTable) notServed(args [][]byte) error {
	name := strings.ToLower(string(args[0]))
	if use, ok := refusalOf[name]; ok {
		return &refusedError{name, replyError("ERR " + strings.ToUpper(name) + " is not served: this endpoint serves locks only; " + use)}
	}
	return unknownCommand(args, t.native)
}

// wrongSubcommandArity is the error of a subcommand that finds too many arguments where the table sets
// no limit.
func wrongSubcommandArity(args [][]byte) error {
	return errorf("ERR unknown subcommand or wrong number of arguments for '%s'. Try %s HELP.",
		clipped(args[1], 128), strings.ToUpper(string(args[0])))
}

// refusersMax bounds the client libraries and their commands whose refusals the log names, and
// reasonsMax the reasons of each. Names that clients give themselves may be as many as connections: those
// above the bound are counted only.
const (
	refusersMax = 1024
	reasonsMax  = 8
)

// refuser is whose refusals of one command the log names once for each reason.
type refuser struct{ library, command string }

// reasonOf is the text of a refusal without what differs from one call to the next: numbers, and names in
// quotes.
func reasonOf(refusal string) string {
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

// countRefused counts a refusal by the command's name, and has the log name the first one of each
// client library, command and reason. Any goroutine may call it, without conn.mu.
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
	if own := s.account().own; own != nil {
		own.countRefused(name)
	}
	srv, now := s.server, time.Now()
	dropped, first := srv.stats.countRefused(refuser{cmp.Or(library, client, host), name}, reasonOf(refusal.Error()), func() (int64, bool) {
		if !mayLog { // strangers must not take the lines of others
			return 0, false
		}
		return srv.refusals.Allow(now)
	})
	if !first {
		return
	}
	attrs := []any{"command", name, "library", clipped(library, 128), "version", clipped(version, 128), "name", clipped(client, 128),
		"client", s.conn.id, "addr", s.conn.addr, "reason", refusal.Error()}
	if dropped > 0 {
		attrs = append([]any{"more_since_last", dropped}, attrs...)
	}
	srv.log.With(attrs...).Warn("command refused",
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
		return &refusedError{strings.ToLower(upper), replyError("ERR " + upper + " is refused: scripts = false in [compat] of redlockd's settings turns scripts off")}
	}
	return nil
}
