package proxy

import "strings"

// What Redis does and this endpoint does not, and the reasons by which refusals are counted.

// reason says in one word why something was refused, for INFO, metrics and the log. Dashboards name these
// words, so they must not change.
type reason string

const (
	// What is asked for is no lock: the data of an application, see keptElsewhere.
	reasonQueue   reason = "queue"
	reasonStream  reason = "stream"
	reasonList    reason = "list"
	reasonCounter reason = "counter"
	reasonCache   reason = "cache"
	reasonData    reason = "data"
	// A lock is asked for, with what it may not have, or in a way that could end another's.
	reasonTTLTooLong  reason = "ttl_too_long"
	reasonTTLTooShort reason = "ttl_too_short"
	reasonNoTTL       reason = "no_ttl"
	reasonNoFence     reason = "no_fence"
	reasonUnguarded   reason = "unguarded"
	// A script is too large, or needs what scripts cannot do here; or the settings turn scripts off.
	reasonScript     reason = "script"
	reasonScriptsOff reason = "scripts_off"
	// Others.
	reasonTransaction   reason = "transaction"
	reasonNotifications reason = "notifications"
	reasonPubSub        reason = "pubsub"
	reasonKeys          reason = "keys"
	reasonServer        reason = "server"
)

// refusedKind is the name of a command, and the reason why it was refused.
type refusedKind struct {
	command string
	reason  reason
}

// keptElsewhere names what applications keep in a Redis beside their locks.
var keptElsewhere = map[reason]string{
	reasonQueue: "a queue", reasonStream: "a stream", reasonList: "a list", reasonCounter: "a counter", reasonCache: "a cache entry", reasonData: "other data than locks",
}

// onlyLocks says why redlockd refuses what keptElsewhere names, and what to do.
const onlyLocks = "redlockd keeps locks only: point only the connection for locks at it, and keep the rest at a Redis of its own"

// asks says what a client asks for that is no lock, and what to do. It is empty for other reasons.
func (r reason) asks() string {
	if what := keptElsewhere[r]; what != "" {
		return "it asks for " + what + ", and " + onlyLocks
	}
	return ""
}

// refusals are the commands of Redis 7.0 that this endpoint does not serve. They are refused by name,
// with a sentence that names what they are for, and what to use in their place: "unknown command" would
// send the reader looking for a typing error. A command that Redis 7.0 does not have either (JSON.GET,
// SENTINEL) is answered as Redis 7.0 answers it, because libraries recognise an old server by that.
//
// To serve one of these commands: take its name out here and put its row into a command table.
var refusals = []struct {
	names string
	refusedCommand
}{
	// What queues of jobs are made of: Sidekiq, Resque, RQ, Celery, Bull, BullMQ. Streams are queues of
	// newer ones.
	{"blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin llen lmove lmpop lpop lpush lpushx rpop rpoplpush rpush rpushx zmpop zpopmax zpopmin",
		refusedCommand{reasonQueue, "a queue of waiters is LOCK with WAIT, a semaphore LOCK with SLOTS"}},
	{"xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange xsetid xtrim",
		refusedCommand{reasonStream, "PUBLISH and SUBSCRIBE carry messages"}},
	{"lindex linsert lpos lrange lrem lset ltrim",
		refusedCommand{reasonList, "a queue of waiters is LOCK with WAIT, a semaphore LOCK with SLOTS"}},
	{"incrbyfloat hincrbyfloat",
		refusedCommand{reasonCounter, "INCRBY and HINCRBY count in keys that have a TTL"}},
	{"getex",
		refusedCommand{reasonCache, "extend a lock with EXTEND resource token ttl"}},
	{"append getrange lcs mset object setrange substr touch",
		refusedCommand{reasonCache, "take a lock with SET key token NX PX ms"}},
	{"bitcount bitfield bitfield_ro bitop bitpos copy dump getbit " +
		"migrate move rename renamenx restore restore-asking setbit sort sort_ro " +
		"geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore " +
		"hrandfield hscan " +
		"pfadd pfcount pfdebug pfmerge pfselftest " +
		"sdiff sdiffstore sinter sintercard sinterstore smove spop srandmember " +
		"sscan sunion sunionstore " +
		"zdiff zdiffstore zinter zintercard zinterstore zlexcount " +
		"zrandmember zrangebylex zrangestore zremrangebylex zrevrangebylex zscan zunion zunionstore",
		refusedCommand{reasonData, "beside locks it has what lock libraries make of strings, counters, small hashes, sets and sorted sets"}},

	{"fcall fcall_ro function",
		refusedCommand{reasonScript, "send the script itself with EVAL; LOCK, EXTEND and UNLOCK do in one command what lock libraries do in a script"}},
	{"keys scan randomkey dbsize",
		refusedCommand{reasonKeys, "LOCKS lists the locks that were granted here and still run"}},
	{"flushall flushdb swapdb",
		refusedCommand{reasonKeys, "a lock ends by UNLOCK or when its TTL is over"}},
	{"spublish ssubscribe sunsubscribe pubsub",
		refusedCommand{reasonPubSub, "PUBLISH, SUBSCRIBE and PSUBSCRIBE carry messages; LOCK with WAIT needs none"}},
	{"acl",
		refusedCommand{reasonServer, "users are set in config.toml"}},
	{"shutdown",
		refusedCommand{reasonServer, "end redlockd with SIGTERM: it drains first"}},
	{"failover replicaof slaveof replconf psync sync",
		refusedCommand{reasonServer, "redlockd keeps no data of its own to replicate: its masters are set in config.toml"}},
	{"bgrewriteaof bgsave save lastsave debug latency lolwut memory module monitor slowlog",
		refusedCommand{reasonServer, "INFO, CLIENT LIST and LOCKS show what goes on here"}},
}

// refusedCommand is a command that is not served.
type refusedCommand struct {
	reason reason
	use    string // what to use in its place
}

// why is the rest of the error, behind the name of the command.
func (c refusedCommand) why() string {
	if asks := c.reason.asks(); asks != "" {
		return asks + "; " + c.use
	}
	return "this endpoint serves locks only; " + c.use
}

// refusalOf finds a refused command by its name in lower case. Made once, when the program starts.
var refusalOf = func() map[string]refusedCommand {
	byName := make(map[string]refusedCommand)
	for _, group := range refusals {
		for name := range strings.FieldsSeq(group.names) {
			byName[name] = group.refusedCommand
		}
	}
	return byName
}()

// scriptSearched bounds how much of a script's source is searched, in bytes: the longest script of BullMQ
// has 40 KB. quotedMax bounds what may stand between quotes, so that no source takes long.
const (
	scriptSearched = 64 << 10
	quotedMax      = 24
)

// scriptAsks reports whether a script is one of a queue: it names a command of queues or streams in quotes,
// as for redis.call. Scripts of queues begin with other commands, RENAME and INCR, and so what they call
// first says nothing.
func scriptAsks(source string) bool {
	source = source[:min(len(source), scriptSearched)]
	for at := range len(source) {
		quote := source[at]
		if quote != '"' && quote != '\'' {
			continue
		}
		rest := source[at+1:]
		end := strings.IndexByte(rest[:min(len(rest), quotedMax)], quote)
		if end <= 0 {
			continue
		}
		switch refusalOf[strings.ToLower(rest[:end])].reason {
		case reasonQueue, reasonStream:
			return true
		}
	}
	return false
}
