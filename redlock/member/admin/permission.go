package admin

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/survey"
)

// Which commands the user must be allowed to run on a master, and what a master's refusal of one means.

// commandsNeeded are tried on a key of the probe's own, in this order, to learn whether the user
// may run them. All are commands that the engine sends itself or from a script; Redis checks the
// permissions of both alike.
var commandsNeeded = [][]any{
	{"SET", probeKey, "0", "NX", "PX", survey.ProbeKeyTTL.Milliseconds()},
	{"GET", probeKey},
	{"MGET", probeKey},
	{"EXISTS", probeKey},
	{"TYPE", probeKey},
	{"INCR", probeKey},
	{"PEXPIRE", probeKey, survey.ProbeKeyTTL.Milliseconds()},
	{"PTTL", probeKey},
	// The key is a string: these answer WRONGTYPE when they are allowed, and make no hash that nobody
	// removes.
	{"HGET", probeKey, "x"},
	{"HMGET", probeKey, "x"},
	{"HGETALL", probeKey},
	{"HKEYS", probeKey},
	{"HSET", probeKey, "x", "0"},
	{"HINCRBY", probeKey, "x", "1"},
	{"HDEL", probeKey, "x"},
	{"UNLINK", probeKey},
	{"ZADD", probeKey, "XX", "1", "x"}, // XX: makes no key
	{"ZCARD", probeKey},
	{"ZSCORE", probeKey, "x"},
	{"ZREVRANGE", probeKey, "0", "0"},
	{"ZPOPMIN", probeKey},
	{"ZREM", probeKey, "x"},
	{"ZREMRANGEBYSCORE", probeKey, "-inf", "0"},
	{"DBSIZE"},
	{"SCAN", "0"}, // after a clock was set back
	{"TIME"},
	{"SCRIPT", "LOAD", "return 1"},
	{"EVAL", "return 1", "0"},
	{"EVALSHA", strings.Repeat("0", 40), "0"}, // answers NOSCRIPT when it is allowed
	{"CLIENT", "ID"},
	{"CLIENT", "KILL", "ID", "9223372036854775807"}, // no client has this id
}

// commandsForOthers are tried, too: those who wait, and other redlockds, are told late without them. The
// last one makes the connection one that gets messages.
var commandsForOthers = [][]any{
	{"CLIENT", "TRACKING", "OFF"},
	{"CLIENT", "CACHING", "YES"}, // is refused where there is no tracking, or not known
	{"PUBLISH", lua.ReservedPrefix + "probe", ""},
	{"SUBSCRIBE", "__redis__:invalidate"},
}

// probeKey stands in commandsNeeded for the key of one probe.
var probeKey = new(struct{ _ int })

// tryCommands finds the permissions that are missing by using them: ACL DRYRUN would ask for one
// permission more, and is unknown to Redis 6.
func (r *MasterReport) tryCommands(ctx context.Context, o member.Options) {
	key := lua.ReservedPrefix + "probe:" + member.Nonce()
	for _, template := range commandsNeeded {
		args := make([]any, len(template))
		for i, a := range template {
			if a == any(probeKey) {
				a = key
			}
			args[i] = a
		}
		err := r.shown.Conn.Redis.Process(ctx, redis.NewCmd(ctx, args...))
		if err == nil || errors.Is(err, redis.Nil) || conn.IsNoScript(err) || conn.IsWrongType(err) {
			continue
		}
		if !conn.Replied(err) {
			r.broken(ctx, err, o, "broke off while its permissions were tried")
			return
		}
		r.refused(commandName(args), err)
	}
}

func (r *MasterReport) tryCommandsForOthers(ctx context.Context, o member.Options) {
	for _, args := range commandsForOthers {
		err := r.shown.Conn.Redis.Process(ctx, redis.NewCmd(ctx, args...))
		switch {
		case !conn.Replied(err):
			if r.Votes() { // else that has been said
				r.broken(ctx, err, o, "broke off while its permissions were tried")
			}
			return
		case !conn.HasCode(err, "NOPERM"): // an older server does not know them
			continue
		}
		command := commandName(args)
		r.add(Warning, permit(command), "its ACL does not allow %s, so who waits for a lock, and other redlockds, are told late: %s", command, err)
		r.Lacks = append(r.Lacks, command)
	}
}

// commandName is the command as ACL rules write it, with its subcommand.
func commandName(args []any) string {
	switch name := args[0].(string); name {
	case "CLIENT", "SCRIPT":
		return name + " " + args[1].(string)
	default:
		return name
	}
}
