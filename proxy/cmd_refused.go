package proxy

import (
	"strings"
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
		"LOCK with WAIT waits for a lock"},
	{"acl",
		"users are set in config.toml"},
	{"shutdown",
		"end redlockd with SIGTERM: it drains first"},
	{"failover replicaof slaveof replconf psync sync",
		"redlockd keeps no data of its own to replicate: its masters are set in config.toml"},
	{"bgrewriteaof bgsave save lastsave debug latency lolwut memory module monitor slowlog",
		"INFO, CLIENT LIST and LOCKS show what goes on here"},

	// What stores or reads data of any other kind.
	{"append bitcount bitfield bitfield_ro bitop bitpos copy decr decrby dump getbit getrange incr incrby incrbyfloat lcs " +
		"migrate move mset object rename renamenx restore restore-asking setbit setrange sort sort_ro substr touch " +
		"geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore " +
		"hdel hexists hget hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hrandfield hscan hset hsetnx hstrlen hvals " +
		"lindex linsert llen lmove lmpop lpop lpos lpush lpushx lrange lrem lset ltrim rpop rpoplpush rpush rpushx " +
		"pfadd pfcount pfdebug pfmerge pfselftest " +
		"sadd scard sdiff sdiffstore sinter sintercard sinterstore sismember smembers smismember smove spop srandmember srem " +
		"sscan sunion sunionstore " +
		"xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange xsetid xtrim " +
		"zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore zlexcount zmpop zmscore zpopmax zpopmin " +
		"zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore " +
		"zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore",
		"it keeps no data"},
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
	name := string(args[0])
	if use, ok := refusalOf[strings.ToLower(name)]; ok {
		return errorf("ERR %s is not served: this endpoint serves locks only; %s", strings.ToUpper(name), use)
	}
	return unknownCommand(args, t.native)
}

// wrongSubcommandArity is the error of a subcommand that finds too many arguments where the table sets
// no limit.
func wrongSubcommandArity(args [][]byte) error {
	return errorf("ERR unknown subcommand or wrong number of arguments for '%s'. Try %s HELP.",
		clipped(args[1], 128), strings.ToUpper(string(args[0])))
}
