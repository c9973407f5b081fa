package proxy

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"redlockd/proxy/access"
	"redlockd/proxy/keyspace"
	"redlockd/redlock/resp"
)

// What a script's redis.call does. Commands on keys are those of package keyspace, the few others are
// here. To let scripts call one more of the others, give it a row below. A command must have no effect
// outside of the run, because a run may be repeated on what the keys really hold: collect what is to
// happen in scriptCaller, and let the exchange do it behind the commit, as PUBLISH does.

// scriptCaller executes the commands of one run of a script: it is the run's sandbox.Caller.
type scriptCaller struct {
	space *keyspace.Space
	table *commandTable
	// now stands still during the run.
	now time.Time
	// user may publish on some channels only; nil: there are no users.
	user *access.User
	// source is that of the script.
	source string
	// readOnly refuses commands that write.
	readOnly bool

	// published has what the script publishes, in its order.
	published []message
	// publishedBytes is the size of published.
	publishedBytes int
	// spent is how much of its limit of time the run took.
	spent time.Duration
}

// scriptCommand is a command that is not on keys. It runs on args whose number fits its arity, the name
// among them.
type scriptCommand struct {
	arity int
	// writes refuses the command to a read-only script.
	writes bool
	run    func(caller *scriptCaller, args []string) (resp.Value, error)
}

// scriptCommands are in lower case. A command of package keyspace is found first.
var scriptCommands = map[string]scriptCommand{
	"time":    {1, false, scriptTIME},
	"publish": {3, true, scriptPUBLISH},
	"echo":    {2, false, scriptECHO},
	"ping":    {-1, false, scriptPING},
}

// Call implements sandbox.Caller. An error that a script may catch, as one in Redis, is a reply; what
// ends the whole script is an error. A command that Redis has and scripts cannot call here must end it:
// a script that went on would do something else than in Redis. So does one of redlockd's own, because a
// script that took the error for a denial would go on without the lock.
func (caller *scriptCaller) Call(args []string) (resp.Value, error) {
	name := strings.ToLower(args[0])
	var cmd scriptCommand
	onKeys := keyspace.Lookup(name)
	if onKeys != nil {
		cmd.arity, cmd.writes = onKeys.Arity, onKeys.Writes
	} else {
		cmd = scriptCommands[name]
	}
	switch {
	case cmd.arity == 0 && slices.Contains(caller.table.native, strings.ToUpper(name)):
		return resp.Value{}, &scriptRefusal{&refusedError{name, reasonScript, replyError("ERR the script calls " + strings.ToUpper(name) + ", and is refused as a whole: that cannot run inside a script, which is one change of keys. " +
			"Send it by itself; or have the script lock as on one Redis: SET key token NX PX ms, and GET to compare the token before DEL or PEXPIRE")}}
	case cmd.arity == 0 && caller.table.redisHas(name):
		return resp.Value{}, &scriptRefusal{caller.notServed(name)}
	case cmd.arity == 0:
		return failure("ERR Unknown Redis command called from script"), nil
	case !arityFits(cmd.arity, len(args)):
		return failure("ERR Wrong number of args calling Redis command from script"), nil
	case caller.readOnly && cmd.writes:
		return failure("ERR Write commands are not allowed from read-only scripts."), nil
	case onKeys == nil:
		return cmd.run(caller, args)
	}
	reply, err := caller.space.Call(name, args[1:])
	if err != nil {
		return resp.Value{}, refuseRun(err)
	}
	return reply, nil
}

// notServed is the refusal of a script that calls this command of Redis.
func (caller *scriptCaller) notServed(name string) error {
	why := refusalOf[name].reason
	if scriptAsks(caller.source) {
		why = reasonQueue
	}
	asks := why.asks()
	if asks == "" {
		why, asks = reasonScript, "scripts here lock and release only"
	}
	return &refusedError{name, why, replyError("ERR the script calls " + strings.ToUpper(name) + ", and is refused as a whole: " + asks +
		"; scripts can use keys that hold a string, a counter, or a small hash, set or sorted set, and have a TTL; a semaphore is LOCK with SLOTS")}
}

// refuseRun is the refusal of a script that makes a value too large, or uses too many keys.
func refuseRun(err error) error {
	if unknown, ok := errors.AsType[*keyspace.UnknownKeyError](err); ok {
		return refuse("the script uses more than %d keys, which is the most that is possible: %.200q is one too many", scriptKeysMax, unknown.Key)
	}
	return &scriptRefusal{err}
}

// scriptTIME answers the time of the run, which stands still in it as in Redis.
func scriptTIME(caller *scriptCaller, _ []string) (resp.Value, error) {
	return resp.Value{Kind: resp.Array, Elems: []resp.Value{
		bulk(strconv.FormatInt(caller.now.Unix(), 10)),
		bulk(strconv.Itoa(caller.now.Nanosecond() / 1000)),
	}}, nil
}

// scriptPUBLISH answers 0 subscribers: their number is not known before the script has been committed.
func scriptPUBLISH(caller *scriptCaller, args []string) (resp.Value, error) {
	if refusal := messageRefusal(args[1], args[2]); refusal != nil {
		return failure(string(replyErrorOf(refusal))), nil
	}
	if !caller.user.MayChannel(args[1]) {
		return resp.Value{}, &scriptRefusal{noPermission(caller.user, "channel", args[1])}
	}
	m := message{args[1], args[2]}
	caller.publishedBytes += m.size()
	if len(caller.published) == messagesMax || caller.publishedBytes > messageBytesMax {
		return resp.Value{}, refuse("the script publishes more than %d messages, or %d bytes with %d for each message: one call can publish no more",
			messagesMax, messageBytesMax, messageOverhead)
	}
	caller.published = append(caller.published, m)
	return integer(0), nil
}

// scriptECHO is here, and not in package keyspace, because it touches no key.
func scriptECHO(_ *scriptCaller, args []string) (resp.Value, error) { return bulk(args[1]), nil }

// scriptPING answers like cmdPING to a client without subscriptions.
func scriptPING(_ *scriptCaller, args []string) (resp.Value, error) {
	switch len(args) {
	case 1:
		return resp.Value{Kind: resp.Status, Text: "PONG"}, nil
	case 2:
		return bulk(args[1]), nil
	}
	return failure("ERR wrong number of arguments for 'ping' command"), nil
}
