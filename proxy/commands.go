package proxy

import (
	"strings"

	"redlockd/proxy/keyspace"
)

// To add a command that needs no masters, or only operations that the engine has already:
//
//  1. Write its handler cmdNAME in the cmd_*.go file of its group. The comment of type call says what a
//     handler may do.
//  2. Give it a row below. Arity, key positions, the permission of users with a list of resources,
//     COMMAND, COMMAND DOCS (so redis-cli's hints), HELP and the usage in error messages follow from
//     the row's first string (command_table.go, row).
//  3. If Redis has the command and redlockd refused it so far, take its name out of the list in
//     refused.go.
//  4. If clients or scripts may also call it from Lua, add it to scriptCommands (script_call.go).
//  5. Write a dialogue test beside the handler, and a section of commands.md.
//
// For example, a command HOSTNAME that answers the name of the machine is this handler in cmd_misc.go
//
//	func cmdHOSTNAME(_ *session, c *call) error {
//		name, err := os.Hostname()
//		if err != nil {
//			return errorf("ERR the system does not know its name: %v", err)
//		}
//		return c.reply(name)
//	}
//
// and this row:
//
//	row("hostname", cmdHOSTNAME, flagFast|flagNoScript|flagNative, "server", "1.0.0", "Return the name of this machine"),
//
// A command that has to wait for something takes a slot: cmdLOCKINFO (cmd_locks.go) is the shortest
// that asks the masters, cmdLOCKS the shortest that computes on a goroutine of its own. A new operation
// of the engine gets its way in in engine.go.
//
// A command that reads or changes keys is added in package keyspace, whose doc.go says how. Its row
// here is a keysRow, and scripts can call it at once.
//
// TestCommandTable compares the rows with a real redis-server. TestConfinedUserWithEveryCommand tries
// each row's key positions with a user that may not use the key.

// commandRows are the commands that this server serves. A row has the usage, the handler, the flags
// (their effects stand at commandFlags), the group and the first version, and the summary that COMMAND
// DOCS and HELP show. A summary has no full stop at its end. Subcommands come behind the row of their
// container.
var commandRows = []command{
	// redlockd's own: cmd_lock.go, cmd_hold.go, cmd_locks.go.
	row("lock resource:key ttl [TOKEN token] [WAIT ms] [FENCE] [SHARED] [SLOTS k:integer] [HOLD] [RELEASE] [NOTE text] [JUSTTOKEN]", cmdLOCK, flagWrite|flagLock|flagBlocking|flagNoScript|flagNative,
		"generic", "1.0.0", "Lock a resource for ttl: ms, or a number with a unit (500ms 30s 5m 1h). Answers the token that holds it, the validity in ms and, with FENCE, the fence; null if another holds it. With SHARED, any number of readers hold it, and no other lock beside them. With SLOTS, at most k hold it: the slot, which UNLOCK and EXTEND take, comes before the fence. With HOLD it is renewed while this connection stands. With JUSTTOKEN, the answer is the token alone"),
	row("unlock resource:key <token | FORCE reason>", cmdUNLOCK, flagWrite|flagFast|flagNoScript|flagNative,
		"generic", "1.0.0", "Release a resource. Answers 1, or 0 if the token does not hold it. With FORCE, for administrators: without the token. The holder may work on until its validity is over"),
	row("extend resource:key token ttl", cmdEXTEND, flagWrite|flagFast|flagNoScript|flagNative,
		"generic", "1.0.0", "Give a lock a new ttl: ms, or a number with a unit (500ms 30s 5m 1h). Answers the new validity in ms, or 0 if the token does not hold it"),
	row("mlock numkeys:integer resource:key... ttl [TOKEN token] [WAIT ms] [FENCE] [HOLD] [RELEASE] [NOTE text] [JUSTTOKEN]", cmdLOCK, flagWrite|flagLock|flagBlocking|flagNoScript|flagNative,
		"generic", "1.0.0", "Lock several resources as one lock, all or none. Answers as LOCK does"),
	row("munlock numkeys:integer resource:key... token", cmdMUNLOCK, flagWrite|flagFast|flagNoScript|flagNative,
		"generic", "1.0.0", "Release several resources. Answers 1, or 0 if the token does not hold them"),
	row("mextend numkeys:integer resource:key... token ttl", cmdEXTEND, flagWrite|flagFast|flagNoScript|flagNative,
		"generic", "1.0.0", "Give a lock of several resources a new ttl. Answers as EXTEND does"),
	row("hold resource:key token ttl [RELEASE] [NOTE text] [JUSTTOKEN]", cmdHOLD, flagWrite|flagLock|flagNoScript|flagNative,
		"generic", "1.0.0", "Take a lock over by its token, and have it renewed while this connection stands. Answers the new token and the validity in ms, with JUSTTOKEN the token alone; null if the token does not hold it"),
	row("mhold numkeys:integer resource:key... token ttl [RELEASE] [NOTE text] [JUSTTOKEN]", cmdHOLD, flagWrite|flagLock|flagNoScript|flagNative,
		"generic", "1.0.0", "Take a lock of several resources over. Answers as HOLD does"),
	row("keepalive [silence]", cmdKEEPALIVE, flagReadOnly|flagFast|flagNoScript|flagNative,
		"generic", "1.0.0", "Answers for how many ms all that this connection holds is held, counted from when you sent this; and what was lost. With silence, locks are renewed only while you send something so often"),
	row("lockinfo resource:key", cmdLOCKINFO, flagReadOnly|flagNoScript|flagNative,
		"generic", "1.0.0", "Show what the masters know of a resource, who holds it and who waits for it here"),
	row("locks [ALL] [BY <HELD | WAITED | WAITERS | LOST>] [PATTERN glob:pattern] [COUNT n:integer]", cmdLOCKS, flagReadOnly|flagNoScript|flagNative,
		"generic", "1.0.0", "List the leases that were granted through this server and still run, who holds them and who waits. With BY: the first of those that are held, waited for, waited for by most, or lost, in this order. With ALL: those of every redlockd over the same masters, which of these answered and which did not"),

	// Redis commands by which libraries lock: each becomes a reading and a guarded commit (dropin.go,
	// exchange.go). Which of them may change a lock is no property of the command: see keyspace.Space.
	// First those that may take a lock.
	row("set key:key value [NX | XX | IFEQ token] [GET] [EX seconds:integer | PX milliseconds:integer | EXAT unix-time-seconds:unix-time | PXAT unix-time-milliseconds:unix-time | KEEPTTL]", cmdSET, flagWrite|flagLock|flagInMulti,
		"string", "1.0.0", "With NX: lock a key by a token for a time. With IFEQ: put another token in its place, or extend the lock. Others are refused on a lock unless allow_unguarded is set"),
	keysRow("setnx key:key value", flagFast|flagLock, "string", "1.0.0", "Lock a key by a token for the default_ttl of the settings"),
	keysRow("msetnx <key:key value>...", flagLock, "string", "1.0.1", "Lock several keys, all or none, for the default_ttl of the settings"),
	keysRow("setex key:key seconds:integer value", flagLock, "string", "2.0.0",
		"Set a key for so many seconds, without comparing what it holds; refused on a lock unless allow_unguarded is set"),
	keysRow("psetex key:key milliseconds:integer value", flagLock, "string", "2.6.0",
		"Set a key for so many ms, without comparing what it holds; refused on a lock unless allow_unguarded is set"),
	keysRow("getset key:key value", flagFast|flagLock, "string", "1.0.0",
		"Set a key for the default_ttl of the settings, without comparing what it holds, and return what it held; refused on a lock unless allow_unguarded is set"),
	// Those that read: one round, whose reply a quorum confirms.
	keysRow("get key:key", flagFast, "string", "1.0.0", "Return the token that holds a key"),
	keysRow("mget key:key...", flagFast, "string", "1.0.0", "Return the tokens that hold keys"),
	keysRow("strlen key:key", flagFast, "string", "2.2.0", "Return the length of the token that holds a key"),
	keysRow("exists key:key...", flagFast, "generic", "1.0.0", "Count which of the keys are held"),
	keysRow("type key:key", flagFast, "generic", "1.0.0", "Return the type of a key: string, if it is held"),
	keysRow("pttl key:key", flagFast, "generic", "2.6.0", "Return for how many ms a key is held, as its holder counts"),
	keysRow("ttl key:key", flagFast, "generic", "1.0.0", "Return for how many seconds a key is held, as its holder counts"),
	keysRow("pexpiretime key:key", flagFast, "generic", "7.0.0", "Return until when a key is held, in ms since 1970"),
	keysRow("expiretime key:key", flagFast, "generic", "7.0.0", "Return until when a key is held, in seconds since 1970"),
	// Those that release or extend. The first two compare the token.
	keysRow("delex key:key [IFEQ token]", flagFast, "string", "8.4.0", "Release a key if this token holds it. Answers 1, or 0"),
	keysRow("delifeq key:key token", flagFast, "string", "1.0.0", "Release a key if this token holds it. Answers 1, or 0"),
	keysRow("del key:key...", 0, "generic", "1.0.0", "Release keys, without comparing the token; refused on a lock unless allow_unguarded is set, or behind WATCH"),
	keysRow("unlink key:key...", flagFast, "generic", "4.0.0",
		"Release keys, without comparing the token; refused on a lock unless allow_unguarded is set, or behind WATCH"),
	keysRow("getdel key:key", flagFast, "string", "6.2.0",
		"Release a key, without comparing the token, and return the token; refused on a lock unless allow_unguarded is set, or behind WATCH"),
	keysRow("expire key:key seconds:integer [NX | XX | GT | LT]", flagFast, "generic", "1.0.0",
		"Give a key a new end, without comparing the token; refused on a lock unless allow_unguarded is set, or behind WATCH"),
	keysRow("pexpire key:key milliseconds:integer [NX | XX | GT | LT]", flagFast, "generic", "2.6.0",
		"Give a key a new end, without comparing the token; refused on a lock unless allow_unguarded is set, or behind WATCH"),
	keysRow("expireat key:key unix-time-seconds:unix-time [NX | XX | GT | LT]", flagFast, "generic", "1.2.0",
		"Give a key a new end, without comparing the token; refused on a lock unless allow_unguarded is set, or behind WATCH"),
	keysRow("pexpireat key:key unix-time-milliseconds:unix-time [NX | XX | GT | LT]", flagFast, "generic", "2.6.0",
		"Give a key a new end, without comparing the token; refused on a lock unless allow_unguarded is set, or behind WATCH"),
	keysRow("persist key:key", flagFast, "generic", "2.2.0",
		"Give a key the default_ttl of the settings, without comparing the token; refused on a lock unless allow_unguarded is set, or behind WATCH"),
	// Counters, hashes, sets and sorted sets, by which libraries keep several holders under one key. A key
	// that they make needs a TTL from the same script or transaction, or default_ttl.
	keysRow("incr key:key", flagFast|flagLock, "string", "1.0.0", "Add 1 to a counter, which keeps its TTL; refused on a lock"),
	keysRow("decr key:key", flagFast|flagLock, "string", "1.0.0", "Take 1 from a counter, which keeps its TTL; refused on a lock"),
	keysRow("incrby key:key increment:integer", flagFast|flagLock, "string", "1.0.0", "Add to a counter, which keeps its TTL; refused on a lock"),
	keysRow("decrby key:key decrement:integer", flagFast|flagLock, "string", "1.0.0", "Take from a counter, which keeps its TTL; refused on a lock"),
	keysRow("hget key:key field", flagFast, "hash", "2.0.0", "Return the value of a field"),
	keysRow("hmget key:key field...", flagFast, "hash", "2.0.0", "Return the values of fields"),
	keysRow("hexists key:key field", flagFast, "hash", "2.0.0", "Return whether a hash has a field"),
	keysRow("hstrlen key:key field", flagFast, "hash", "3.2.0", "Return the length of the value of a field"),
	keysRow("hlen key:key", flagFast, "hash", "2.0.0", "Return how many fields a hash has"),
	keysRow("hkeys key:key", 0, "hash", "2.0.0", "Return the fields of a hash"),
	keysRow("hvals key:key", 0, "hash", "2.0.0", "Return the values of a hash"),
	keysRow("hgetall key:key", 0, "hash", "2.0.0", "Return the fields of a hash with their values"),
	keysRow("hset key:key <field value>...", flagFast|flagLock, "hash", "2.0.0", "Set fields of a hash. Answers how many are new"),
	keysRow("hmset key:key <field value>...", flagFast|flagLock, "hash", "2.0.0", "Set fields of a hash"),
	keysRow("hsetnx key:key field value", flagFast|flagLock, "hash", "2.0.0", "Set a field of a hash if it is absent. Answers 1, or 0"),
	keysRow("hincrby key:key field increment:integer", flagFast|flagLock, "hash", "2.0.0", "Add to the number in a field"),
	keysRow("hdel key:key field...", flagFast, "hash", "2.0.0", "Remove fields of a hash; the last one removes the key"),
	keysRow("scard key:key", flagFast, "set", "1.0.0", "Return how many members a set has"),
	keysRow("sismember key:key member", flagFast, "set", "1.0.0", "Return whether a set has a member"),
	keysRow("smismember key:key member...", flagFast, "set", "6.2.0", "Return which members a set has"),
	keysRow("smembers key:key", 0, "set", "1.0.0", "Return the members of a set"),
	keysRow("sadd key:key member...", flagFast|flagLock, "set", "1.0.0", "Add members to a set. Answers how many are new"),
	keysRow("srem key:key member...", flagFast, "set", "1.0.0", "Remove members of a set; the last one removes the key"),
	keysRow("zcard key:key", flagFast, "sorted-set", "1.2.0", "Return how many members a sorted set has"),
	keysRow("zscore key:key member", flagFast, "sorted-set", "1.2.0", "Return the score of a member"),
	keysRow("zmscore key:key member...", flagFast, "sorted-set", "6.2.0", "Return the scores of members"),
	keysRow("zrank key:key member", flagFast, "sorted-set", "2.0.0", "Return how many members have a lower score"),
	keysRow("zrevrank key:key member", flagFast, "sorted-set", "2.0.0", "Return how many members have a higher score"),
	keysRow("zcount key:key min max", flagFast, "sorted-set", "2.0.0", "Count the members with scores in a range"),
	keysRow("zrange key:key start stop [BYSCORE] [REV] [LIMIT offset:integer count:integer] [WITHSCORES]", 0, "sorted-set", "1.2.0",
		"Return the members in a range of ranks or scores"),
	keysRow("zrevrange key:key start:integer stop:integer [WITHSCORES]", 0, "sorted-set", "1.2.0",
		"Return the members in a range of ranks, from the highest score"),
	keysRow("zrangebyscore key:key min max [WITHSCORES] [LIMIT offset:integer count:integer]", 0, "sorted-set", "1.0.5",
		"Return the members with scores in a range"),
	keysRow("zrevrangebyscore key:key max min [WITHSCORES] [LIMIT offset:integer count:integer]", 0, "sorted-set", "2.2.0",
		"Return the members with scores in a range, from the highest score"),
	keysRow("zadd key:key [NX | XX] [GT | LT] [CH] [INCR] <score member>...", flagFast|flagLock, "sorted-set", "1.2.0",
		"Add members to a sorted set, or change their scores. Answers how many are new"),
	keysRow("zincrby key:key increment member", flagFast|flagLock, "sorted-set", "1.2.0", "Add to the score of a member"),
	keysRow("zrem key:key member...", flagFast, "sorted-set", "1.2.0", "Remove members of a sorted set; the last one removes the key"),
	keysRow("zremrangebyscore key:key min max", 0, "sorted-set", "1.2.0", "Remove the members with scores in a range"),
	keysRow("zremrangebyrank key:key start:integer stop:integer", 0, "sorted-set", "2.0.0", "Remove the members in a range of ranks"),
	// Transactions: cmd_transaction.go.
	row("watch key:key...", cmdWATCH, flagFast|flagNoScript|flagInMulti,
		"transactions", "2.2.0", "Have the next EXEC do nothing if one of these keys was changed by then"),
	row("unwatch", cmdUNWATCH, flagFast|flagNoScript|flagInMulti, "transactions", "2.2.0", "Forget all watched keys"),
	row("multi", cmdMULTI, flagFast|flagNoScript|flagInMulti, "transactions", "1.2.0", "Queue the commands that follow until EXEC"),
	row("exec", cmdEXEC, flagNoScript|flagInMulti, "transactions", "1.2.0", "Execute the queued commands as one, if no watched key has changed"),
	row("discard", cmdDISCARD, flagFast|flagNoScript|flagInMulti, "transactions", "2.0.0", "Forget the queued commands and all watched keys"),
	// Scripts: cmd_eval.go. What a script can call stands in package keyspace and in script_call.go.
	row("eval script numkeys:integer [key:key...] [arg...]", cmdEVAL, flagNoScript,
		"scripting", "2.6.0", "Run a lock script on what a quorum of masters holds, as one change"),
	row("evalsha sha1 numkeys:integer [key:key...] [arg...]", cmdEVALSHA, flagNoScript,
		"scripting", "2.6.0", "Run a lock script that is known by its SHA1"),
	row("eval_ro script numkeys:integer [key:key...] [arg...]", cmdEVAL, flagNoScript|flagReadOnly,
		"scripting", "7.0.0", "Run a script that only reads"),
	row("evalsha_ro sha1 numkeys:integer [key:key...] [arg...]", cmdEVALSHA, flagNoScript|flagReadOnly,
		"scripting", "7.0.0", "Run a script that only reads and is known by its SHA1"),
	row("script ...", nil, flagNoScript, "scripting", "2.6.0", "Commands about scripts"),
	row("script|load script", cmdSCRIPTLOAD, flagNoScript,
		"scripting", "2.6.0", "Remember a script, also for the other redlockds of these masters. Answers its SHA1"),
	row("script|exists sha1...", cmdSCRIPTEXISTS, flagNoScript, "scripting", "2.6.0", "Return which scripts are remembered here"),
	row("script|flush [ASYNC | SYNC]", cmdSCRIPTFLUSH, flagAdmin|flagNoScript,
		"scripting", "2.6.0", "Forget all scripts, here, on the masters and in the other redlockds"),
	row("script|kill", cmdSCRIPTKILL, flagNoScript, "scripting", "2.6.0", "Answers that no script runs: none runs for long here"),

	// The connection and the server, answered as Redis answers them. None of these touches a master,
	// but PUBLISH.
	row("hello [protover:integer [AUTH username password] [SETNAME clientname]]", cmdHELLO, flagFast|flagNoScript|flagNoAuth,
		"connection", "6.0.0", "Choose the protocol version, log in, name the connection; describe the server"),
	row("auth [username] password", cmdAUTH, flagFast|flagNoScript|flagNoAuth, "connection", "1.0.0", "Log in"),
	row("quit ...", cmdQUIT, flagFast|flagNoScript|flagNoAuth|flagInMulti, "connection", "1.0.0", "Close the connection"),
	row("reset", cmdRESET, flagFast|flagNoScript|flagNoAuth|flagInMulti,
		"connection", "6.2.0", "Take the connection back to its beginning: RESP2, logged out, no name, no subscriptions"),
	row("ping [message]", cmdPING, flagFast, "connection", "1.0.0", "Check that the server answers"),
	row("echo message", cmdECHO, flagFast, "connection", "1.0.0", "Send the message back"),
	row("select index:integer", cmdSELECT, flagFast, "connection", "1.0.0", "Accepted for databases 0 to 15, which here share their keys"),
	row("time", cmdTIME, flagFast, "server", "2.6.0", "Return the time of this server's clock: seconds, and microseconds of the second"),
	row("role", always(array{"master", 0, array{}}), flagFast|flagNoScript,
		"server", "2.8.12", "Return the role in a replication: always master, with no replica"),
	row("wait numreplicas:integer timeout:integer", cmdWAIT, flagNoScript,
		"generic", "3.0.0", "Return how many replicas have seen the writes: 0, at once, because there is none"),
	row("cluster subcommand ...", always(errNoCluster), 0, "cluster", "3.0.0", "Refused: this endpoint is no cluster node"),
	row("readonly", always(errNoCluster), flagFast, "cluster", "3.0.0", "Refused: this endpoint is no cluster node"),
	row("readwrite", always(errNoCluster), flagFast, "cluster", "3.0.0", "Refused: this endpoint is no cluster node"),
	row("asking", always(errNoCluster), flagFast, "cluster", "3.0.0", "Refused: this endpoint is no cluster node"),
	// Connections of clients: cmd_client.go, cmd_client_list.go. Refused are those that would make a
	// client answer from a cache, or hold back commands while leases run.
	row("client ...", nil, flagNoScript, "connection", "2.4.0", "Commands about client connections"),
	row("client|id", cmdCLIENTID, flagNoScript, "connection", "5.0.0", "Return the number of this connection"),
	row("client|getname", cmdCLIENTGETNAME, flagNoScript, "connection", "2.6.9", "Return the name of this connection"),
	row("client|setname connection-name", cmdCLIENTSETNAME, flagNoScript,
		"connection", "2.6.9", "Name this connection; an empty name takes the name away"),
	row("client|setinfo <LIB-NAME libname | LIB-VER libver>", cmdCLIENTSETINFO, flagNoScript,
		"connection", "7.2.0", "Name the client library of this connection"),
	row("client|info", cmdCLIENTINFO, flagNoScript, "connection", "6.2.0", "Return the line of CLIENT LIST of this connection"),
	row("client|list [TYPE <NORMAL | MASTER | REPLICA | PUBSUB> | ID client-id:integer...]", cmdCLIENTLIST, flagAdmin|flagNoScript,
		"connection", "2.4.0", "List the connections"),
	row("client|kill <address | <ID client-id:integer | TYPE <NORMAL | MASTER | REPLICA | PUBSUB> | USER username | ADDR address | LADDR address | SKIPME <YES | NO>>...>", cmdCLIENTKILL, flagAdmin|flagNoScript,
		"connection", "2.4.0", "Close connections. A lock that a closed connection waits for is not granted to it any more"),
	row("client|unblock client-id:integer [TIMEOUT | ERROR]", cmdCLIENTUNBLOCK, flagAdmin|flagNoScript,
		"connection", "5.0.0", "End the wait of a LOCK with WAIT: it answers null, or with ERROR the error UNBLOCKED"),
	row("client|reply <ON | OFF | SKIP>", cmdCLIENTREPLY, flagNoScript,
		"connection", "3.2.0", "Turn replies on or off, or skip that of the next command"),
	row("client|no-evict <ON | OFF>", cmdCLIENTNOEVICT, flagAdmin|flagNoScript,
		"connection", "7.0.0", "Accepted and without effect: a client that reads too slowly is closed all the same"),
	row("client|no-touch <ON | OFF>", cmdCLIENTNOEVICT, flagNoScript,
		"connection", "7.2.0", "Accepted and without effect: there is no cache to touch"),
	row("client|tracking <ON | OFF> [REDIRECT client-id:integer] [OPTIN] [OPTOUT] [NOLOOP] ...", cmdCLIENTTRACKING, flagNoScript,
		"connection", "6.0.0", "Have the client told when what it has read may have changed, 1 s after the reading at the latest"),
	row("client|trackinginfo", cmdCLIENTTRACKINGINFO, flagNoScript, "connection", "6.2.0", "Return how the connection tracks"),
	row("client|caching <YES | NO>", cmdCLIENTCACHING, flagNoScript,
		"connection", "6.0.0", "Have the next command tracked (OPTIN), or not (OPTOUT)"),
	row("client|getredir", cmdCLIENTGETREDIR, flagNoScript,
		"connection", "6.0.0", "Return the connection that gets the invalidations of this one; 0: itself; -1: tracking is off"),
	row("client|pause timeout:integer [WRITE | ALL]", always(errorf(noPause, "PAUSE")), flagAdmin|flagNoScript,
		"connection", "3.0.0", "Refused: the leases would run out while their holders wait"),
	row("client|unpause", always(errorf(noPause, "UNPAUSE")), flagAdmin|flagNoScript, "connection", "6.2.0", "Refused, as CLIENT PAUSE is"),
	row("client|help", cmdHELP, 0, "connection", "5.0.0", "Print this help"),
	// The command table itself: cmd_command.go.
	row("command ...", cmdCOMMANDINFO, 0, "server", "2.8.13", "Describe all commands for clients"),
	row("command|count", cmdCOMMANDCOUNT, 0, "server", "2.8.13", "Return the number of commands"),
	row("command|docs [command-name...]", cmdCOMMANDDOCS, 0, "server", "7.0.0", "Describe commands for people: all, or those named"),
	row("command|getkeys command [arg...]", cmdCOMMANDGETKEYS, 0, "server", "2.8.13", "Return the keys of a whole command"),
	row("command|info [command-name...]", cmdCOMMANDINFO, 0, "server", "2.8.13", "Describe commands for clients: all, or those named"),
	row("command|list [FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern:pattern>]", cmdCOMMANDLIST, 0,
		"server", "7.0.0", "Return the names of the commands"),
	row("command|help", cmdHELP, 0, "server", "5.0.0", "Print this help"),
	// Settings, which are shown and read again: cmd_config.go. INFO: cmd_info.go.
	row("config ...", nil, flagNoScript, "server", "2.0.0", "Commands about the configuration"),
	row("config|get parameter...", cmdCONFIGGET, flagAdmin|flagNoScript, "server", "2.0.0", "Return the settings whose names match a glob"),
	row("config|set <parameter value>...", cmdCONFIGSET, flagAdmin|flagNoScript,
		"server", "2.0.0", "Refused: change the configuration file, then send CONFIG RELOAD"),
	row("config|reload", cmdCONFIGRELOAD, flagAdmin|flagNoScript|flagNative,
		"server", "1.0.0", "Read the settings again and put those into force that can change while redlockd runs. Answers what has changed"),
	row("config|resetstat", cmdCONFIGRESETSTAT, flagAdmin|flagNoScript, "server", "2.0.0", "Count the commands and errors of INFO from zero again"),
	row("config|rewrite", always(errNoRewrite), flagAdmin|flagNoScript,
		"server", "2.8.0", "Refused: people write config.toml, and CONFIG RELOAD reads it"),
	row("config|help", cmdHELP, 0, "server", "5.0.0", "Print this help"),
	row("info [section...]", cmdINFO, 0, "server", "1.0.0", "Report on the server, its clients, its masters and its locks, by section"),
	// Messages, for lock libraries that wake waiters by them: cmd_pubsub.go.
	row("subscribe channel...", cmdSUBSCRIBE, flagPubSub|flagNoScript,
		"pubsub", "2.0.0", "Get the messages of channels, whichever redlockd they are published through"),
	row("unsubscribe [channel...]", cmdUNSUBSCRIBE, flagPubSub|flagNoScript,
		"pubsub", "2.0.0", "End subscriptions: those named, or all of SUBSCRIBE"),
	row("psubscribe pattern:pattern...", cmdPSUBSCRIBE, flagPubSub|flagNoScript,
		"pubsub", "2.0.0", "Get the messages of all channels whose names match"),
	row("punsubscribe [pattern:pattern...]", cmdPUNSUBSCRIBE, flagPubSub|flagNoScript,
		"pubsub", "2.0.0", "End subscriptions: those named, or all of PSUBSCRIBE"),
	row("publish channel message", cmdPUBLISH, flagPubSub,
		"pubsub", "2.0.0", "Send a message to the subscribers of a channel on every redlockd. Answers how many of them are clients of this one"),
}

// keysRow makes the row of a command of package keyspace, which says whether it writes.
func keysRow(usage string, flags commandFlags, group, since, summary string) command {
	name, _, _ := strings.Cut(usage, " ")
	if keyspace.Lookup(name).Writes {
		flags |= flagWrite
	} else {
		flags |= flagReadOnly
	}
	return row(usage, cmdKeys, flags|flagInMulti, group, since, summary)
}
